// SPDX-License-Identifier: BSD-2-Clause
//! What the log and the accounts have of a connection's frames: records of each where `vsl_mask` asks for them (H2RxHdr, H2RxBody,
//! H2TxHdr, H2TxBody, Debug), and the bytes that are no request's own.

use std::fmt;
use std::fmt::Write;
use std::rc::Rc;

use engine::Sess;
use engine::transport::TransportAcct;
use http2::{FrameHeader, Http2FrameType};
use shm::vsl::Marker;
use tables::tags::Tag;

const SHOWN_BYTES: usize = 4096;

pub(super) struct Wire {
    sess: Rc<Sess>,
    /// Bytes of frame headers, and of frames that belong to no message.
    pub(super) acct: TransportAcct,
    section_bytes: u64,
    /// The frame that comes, where frames are logged.
    shown: Option<Box<ShownFrame>>,
}

#[derive(Default)]
struct ShownFrame {
    header: Option<FrameHeader>,
    /// Payload, as far as it has come and is shown.
    payload: Vec<u8>,
    left: usize,
}

impl Wire {
    pub(super) fn new(sess: &Rc<Sess>) -> Self {
        let acct = TransportAcct::default();
        Wire { sess: sess.clone(), acct, section_bytes: 0, shown: None }
    }

    /// Some of a frame has come; its header, if that ended in it.
    #[inline]
    #[expect(clippy::wildcard_enum_match_arm, reason = "every other frame counts as body, unknown ones, too")]
    pub(super) fn received(&mut self, header: Option<FrameHeader>, payload: &[u8]) {
        if let Some(header) = header {
            self.acct.req_head += http2::frame::HEADER_BYTES as u64;
            match header.kind {
                Http2FrameType::Headers => self.section_bytes = header.len.into(),
                Http2FrameType::Continuation => self.section_bytes += u64::from(header.len),
                Http2FrameType::Data => {}
                _ => self.acct.req_body += u64::from(header.len),
            }
        }
        if self.is_logged(&[Tag::H2RxHdr, Tag::H2RxBody, Tag::Debug]) {
            self.log_received(header, payload);
        }
    }

    #[cold]
    fn log_received(&mut self, header: Option<FrameHeader>, payload: &[u8]) {
        let shown = self.shown.get_or_insert_default();
        if let Some(header) = header {
            (shown.header, shown.left) = (Some(header), header.len as usize);
        }
        let Some(frame) = shown.header else { return };
        let bytes = payload.len().min(SHOWN_BYTES - shown.payload.len());
        shown.payload.extend_from_slice(&payload[..bytes]);
        shown.left = shown.left.saturating_sub(payload.len());
        if shown.left > 0 {
            return;
        }
        let whole = std::mem::take(&mut shown.payload);
        self.shown = None;
        self.record(Tag::H2RxHdr, &frame.to_bytes());
        if frame.len > 0 {
            self.record(Tag::H2RxBody, &whole);
        }
        self.debug(format_args!("H2RXF {}", Shown { frame, payload: &whole }));
    }

    pub(super) fn section_bytes(&self) -> u64 {
        self.section_bytes
    }

    /// A frame of ours goes out.
    #[inline]
    pub(super) fn sent(&mut self, header: FrameHeader, payload: &[u8]) {
        self.acct.resp_head += http2::frame::HEADER_BYTES as u64;
        if !matches!(header.kind, Http2FrameType::Headers | Http2FrameType::Continuation | Http2FrameType::Data) {
            self.acct.resp_body += u64::from(header.len);
        }
        if self.is_logged(&[Tag::H2TxHdr, Tag::H2TxBody]) {
            self.log_sent(header, payload);
        }
    }

    #[cold]
    fn log_sent(&self, header: FrameHeader, payload: &[u8]) {
        self.record(Tag::H2TxHdr, &header.to_bytes());
        if !payload.is_empty() {
            self.record(Tag::H2TxBody, payload);
        }
    }

    pub(super) fn shows_bodies(&self) -> bool {
        self.is_logged(&[Tag::H2TxBody])
    }

    fn is_logged(&self, tags: &[Tag]) -> bool {
        tags.iter().any(|&tag| !self.sess.engine.log.is_masked(tag))
    }

    pub(super) fn record(&self, tag: Tag, data: &[u8]) {
        self.sess.engine.log.write_one(tag, self.sess.vxid, Marker::Client, data);
    }

    pub(super) fn debug(&self, text: fmt::Arguments<'_>) {
        if self.is_logged(&[Tag::Debug]) {
            self.sess.engine.log.write_onef(Tag::Debug, self.sess.vxid, Marker::Client, text);
        }
    }

    /// A stream's client took nothing for too long.
    pub(super) fn count_late(&self) {
        self.sess.engine.main.h2_streams_late.inc();
    }

    pub(super) fn close(&self) {
        let (acct, main) = (self.acct, self.sess.engine.main);
        main.s_req_hdrbytes.add(acct.req_head);
        main.s_req_bodybytes.add(acct.req_body);
        main.s_resp_hdrbytes.add(acct.resp_head);
        main.s_resp_bodybytes.add(acct.resp_body);
        let (req, resp) = (acct.req_head + acct.req_body, acct.resp_head + acct.resp_body);
        let TransportAcct { req_head, req_body, resp_head, resp_body } = acct;
        let text = format_args!("{req_head} {req_body} {req} {resp_head} {resp_body} {resp}");
        self.sess.engine.log.write_onef(Tag::ReqAcct, self.sess.vxid, Marker::Client, text);
    }
}

/// A frame as varnishd shows it: `GOAWAY[8] 0x00 0x00000000 0x0...0`
struct Shown<'a> {
    frame: FrameHeader,
    payload: &'a [u8],
}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shown { frame, payload } = self;
        write!(f, "{}[{}] {:#04x} {:#010x}", frame.kind, frame.len, frame.flags, frame.stream)?;
        if payload.is_empty() {
            return Ok(());
        }
        if payload.len() > 4 && payload.iter().all(|&byte| byte == 0) {
            return f.write_str(" 0x0...0");
        }
        f.write_str(" 0x")?;
        payload.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

const SETTINGS: [&str; 6] = [
    "header_table_size",
    "enable_push",
    "max_concurrent_streams",
    "initial_window_size",
    "max_frame_size",
    "max_header_list_size",
];

/// Settings in a payload of SETTINGS, each as varnishd's Debug records have it.
pub(super) fn settings_text(payload: &[u8]) -> impl Iterator<Item = String> {
    let (settings, _) = payload.as_chunks::<6>();
    settings.iter().map(|&[i0, i1, v0, v1, v2, v3]| {
        let (id, value) = (u16::from_be_bytes([i0, i1]), u32::from_be_bytes([v0, v1, v2, v3]));
        let mut text = String::from("H2SETTING ");
        let known = usize::from(id).checked_sub(1).and_then(|i| SETTINGS.get(i));
        let _ = match known {
            Some(name) => write!(text, "{name}={value:#010x}"),
            None => write!(text, "unknown setting {id:#06x}={value:08x} (ignored)"),
        };
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(kind: Http2FrameType, flags: u8, stream: u32, payload: &[u8]) -> String {
        let frame = FrameHeader { len: payload.len() as u32, kind, flags, stream };
        Shown { frame, payload }.to_string()
    }

    #[test]
    fn frames_look_as_varnishds() {
        assert_eq!(shown(Http2FrameType::Settings, 1, 0, b""), "SETTINGS[0] 0x01 0x00000000");
        assert_eq!(shown(Http2FrameType::RstStream, 0, 5, &[0, 0, 0, 8]), "RST_STREAM[4] 0x00 0x00000005 0x00000008");
        assert_eq!(shown(Http2FrameType::GoAway, 0, 0, &[0; 8]), "GOAWAY[8] 0x00 0x00000000 0x0...0");
        assert_eq!(shown(Http2FrameType::Data, 9, 3, b"\x01a"), "DATA[2] 0x09 0x00000003 0x0161");
    }

    #[test]
    fn settings_look_as_varnishds() {
        let payload = [0, 3, 0, 0, 0, 100, 0xff, 0xff, 0, 0, 0, 7];
        let texts: Vec<_> = settings_text(&payload).collect();
        assert_eq!(texts[0], "H2SETTING max_concurrent_streams=0x00000064");
        assert_eq!(texts[1], "H2SETTING unknown setting 0xffff=00000007 (ignored)");
    }
}
