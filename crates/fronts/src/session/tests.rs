// SPDX-License-Identifier: BSD-2-Clause
//! Facts about sessions.

use super::*;

/// What an idle connection costs beside its stream and its session.
#[test]
fn an_idle_connection_is_a_small_task() {
    fn output_bytes<A, B, C, F>(_: impl Fn(A, B, C) -> F) -> usize {
        size_of::<F>()
    }
    let bytes = output_bytes(serve);
    assert!(bytes <= 704, "{bytes} bytes");
    let bytes = size_of::<Sess>();
    assert!(bytes <= 384, "{bytes} bytes");
}
