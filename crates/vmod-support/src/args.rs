// SPDX-License-Identifier: BSD-2-Clause
//! How a module's function fails, and where it may block.

use vcl_regex::MatchError;
use vrt::{Method, VclFailure};

/// VCL fails with this text.
pub fn fail<T>(text: impl Into<std::borrow::Cow<'static, str>>) -> Result<T, VclFailure> {
    Err(VclFailure::new(text))
}

/// A match was given up.
pub fn gave_up(error: MatchError) -> VclFailure {
    VclFailure::new(format!("Regexp matching failed: {}", error.text()))
}

/// In `vcl_init` and `vcl_fini` nobody else waits for this thread, and nothing may run there that waits.
pub fn may_block(method: Method) -> bool {
    matches!(method, Method::Init | Method::Fini)
}
