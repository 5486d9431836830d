// SPDX-License-Identifier: BSD-2-Clause
//! What the log says of handshakes.

use engine::Sess;
use shm::vsl::Marker;
use tables::tags::Tag;

use super::Failure;

/// There is none, and the session ends.
pub(super) fn failed(sess: &Sess, failure: &Failure) {
    sess.engine.log.write_one(Tag::Error, sess.vxid, Marker::Client, failure.to_string().as_bytes());
}
