// SPDX-License-Identifier: BSD-2-Clause
//! The PROXY header that a connection on a PROXY listener begins with.

use engine::Sess;
use net::{IoError, Stream, proxy};
use rt::Instant;
use shm::vsl::Marker;
use tables::close::SessClose;
use tables::tags::Tag;

/// Reads the header; what follows it stays in `input`.
pub(crate) async fn receive(stream: &Stream, sess: &Sess, input: &mut Vec<u8>) -> Result<(), SessClose> {
    let deadline = Instant::now() + sess.timeouts.get().idle;
    let log = &sess.engine.log;
    loop {
        match proxy::parse(input) {
            Ok(proxy::ProxyProgress::Complete(header)) => {
                input.drain(..header.consumed);
                if let Some(text) = &header.log {
                    log.write_one(Tag::Proxy, sess.vxid, Marker::Client, text.as_bytes());
                }
                if let Some(text) = &header.ignored {
                    log.write_one(Tag::ProxyGarbage, sess.vxid, Marker::Client, text.as_bytes());
                }
                sess.ends.set_proxy(header);
                return Ok(());
            }
            Ok(proxy::ProxyProgress::Incomplete) => {}
            Err(error) => {
                if let proxy::ProxyHeaderError::Garbage(text) = &error {
                    log.write_one(Tag::ProxyGarbage, sess.vxid, Marker::Client, text.as_bytes());
                }
                return Err(error.close());
            }
        }
        input.reserve(1024);
        match stream.read_buf(input, Some(deadline)).await {
            Ok(0) | Err(IoError::Closed | IoError::Os(_)) => return Err(SessClose::RemClose),
            Ok(_) => {}
            Err(IoError::Timeout) => return Err(SessClose::RxTimeout),
        }
    }
}
