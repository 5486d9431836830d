// SPDX-License-Identifier: BSD-2-Clause
//! Values as text and as truth, exactly as VCL does it.

use crate::value::Value;

/// Appends a value as `STRING` to `out`; false when it is unset (nothing is appended).
pub fn append(_out: &mut Vec<u8>, _value: &Value) -> bool {
    todo!()
}

/// A value where VCL wants a condition; `None` for types that have no truth.
pub fn truth(_value: &Value) -> Option<bool> {
    todo!()
}
