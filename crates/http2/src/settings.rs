// SPDX-License-Identifier: BSD-2-Clause
//! SETTINGS (RFC 9113 6.5, RFC 8441 3, RFC 9218 2.1), in a frame or in an HTTP2-Settings field (RFC 7540 3.2.1).

use crate::error::{ErrorCode, Http2Fault};
use crate::frame::DEFAULT_FRAME_SIZE;

/// The largest window (RFC 9113 6.9.1).
pub const MAX_WINDOW: u32 = 0x7fff_ffff;
/// The window that streams and the connection begin with (RFC 9113 6.9.2).
pub const DEFAULT_WINDOW: u32 = 65_535;

const HEADER_TABLE_SIZE: u16 = 1;
const ENABLE_PUSH: u16 = 2;
const MAX_CONCURRENT_STREAMS: u16 = 3;
const INITIAL_WINDOW_SIZE: u16 = 4;
const MAX_FRAME_SIZE: u16 = 5;
const MAX_HEADER_LIST_SIZE: u16 = 6;
const ENABLE_CONNECT_PROTOCOL: u16 = 8;
const NO_RFC7540_PRIORITIES: u16 = 9;

/// Default limit of a field section; the RFC has no limit, varnishd takes this for none.
const DEFAULT_LIST_SIZE: u32 = 0x7fff_ffff;
const SETTING_BYTES: usize = 6;
const MAX_UPGRADE_SETTINGS: usize = 32;

/// Settings that one side announces. The default holds before it has announced any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Http2Settings {
    /// Bytes of the table that the other side may compress fields with.
    pub header_table_size: u32,
    /// A server may push; only a client says so, and ours never does.
    pub enable_push: bool,
    /// Number of streams that the other side may have open.
    pub max_concurrent_streams: u32,
    /// The window of each new stream.
    pub initial_window_size: u32,
    /// The largest payload of a frame.
    pub max_frame_size: u32,
    /// Bytes of the largest field section, uncompressed.
    pub max_header_list_size: u32,
    /// Extended CONNECT (RFC 8441).
    pub enable_connect_protocol: bool,
    /// Priorities are RFC 9218's alone.
    pub no_rfc7540_priorities: bool,
}

impl Default for Http2Settings {
    fn default() -> Self {
        Http2Settings {
            header_table_size: 4096,
            enable_push: true,
            max_concurrent_streams: u32::MAX,
            initial_window_size: DEFAULT_WINDOW,
            max_frame_size: DEFAULT_FRAME_SIZE,
            max_header_list_size: DEFAULT_LIST_SIZE,
            enable_connect_protocol: false,
            no_rfc7540_priorities: false,
        }
    }
}

impl Http2Settings {
    /// Changes what a SETTINGS payload says. `lax`: take a frame size out of its range, too (`debug=+h2_nocheck`).
    pub(crate) fn apply(&mut self, payload: &[u8], lax: bool) -> Result<(), Http2Fault> {
        let (settings, rest) = payload.as_chunks::<SETTING_BYTES>();
        if !rest.is_empty() {
            // RFC 9113 6.5 asks for FRAME_SIZE_ERROR, varnishd's clients know this one.
            return Err(Http2Fault::protocol("SETTINGS of a length that isn't a multiple of six"));
        }
        settings.iter().try_for_each(|setting| self.apply_one(setting, lax))
    }

    fn apply_one(&mut self, setting: &[u8; SETTING_BYTES], lax: bool) -> Result<(), Http2Fault> {
        let [i0, i1, v0, v1, v2, v3] = *setting;
        let (id, value) = (u16::from_be_bytes([i0, i1]), u32::from_be_bytes([v0, v1, v2, v3]));
        match id {
            HEADER_TABLE_SIZE => self.header_table_size = value,
            ENABLE_PUSH if value <= 1 => self.enable_push = value == 1,
            ENABLE_PUSH => return Err(Http2Fault::protocol("SETTINGS: invalid enable_push")),
            MAX_CONCURRENT_STREAMS => self.max_concurrent_streams = value,
            INITIAL_WINDOW_SIZE if value <= MAX_WINDOW => self.initial_window_size = value,
            INITIAL_WINDOW_SIZE => {
                return Err(Http2Fault::new(ErrorCode::FlowControlError, "SETTINGS: invalid initial_window_size"));
            }
            MAX_FRAME_SIZE if (DEFAULT_FRAME_SIZE..1 << 24).contains(&value) => self.max_frame_size = value,
            MAX_FRAME_SIZE if lax && value > 0 => self.max_frame_size = value.min((1 << 24) - 1),
            MAX_FRAME_SIZE => return Err(Http2Fault::protocol("SETTINGS: invalid max_frame_size")),
            MAX_HEADER_LIST_SIZE => self.max_header_list_size = value,
            ENABLE_CONNECT_PROTOCOL if value <= 1 => self.enable_connect_protocol = value == 1,
            ENABLE_CONNECT_PROTOCOL => return Err(Http2Fault::protocol("SETTINGS: invalid enable_connect_protocol")),
            NO_RFC7540_PRIORITIES if value <= 1 => self.no_rfc7540_priorities = value == 1,
            NO_RFC7540_PRIORITIES => return Err(Http2Fault::protocol("SETTINGS: invalid no_rfc7540_priorities")),
            // What isn't known is ignored (RFC 9113 6.5.2).
            _ => {}
        }
        Ok(())
    }

    /// The settings of an HTTP2-Settings field: base64url of a SETTINGS payload. `None` when it is none.
    pub fn from_upgrade(field: &[u8], lax: bool) -> Option<Http2Settings> {
        let payload = base64url(field, SETTING_BYTES * MAX_UPGRADE_SETTINGS)?;
        let mut settings = Http2Settings::default();
        settings.apply(&payload, lax).ok()?;
        Some(settings)
    }

    /// The payload that says in what they differ from the default.
    pub(crate) fn payload(&self, is_client: bool) -> Vec<u8> {
        let default = Http2Settings::default();
        let mut out = Vec::with_capacity(8 * SETTING_BYTES);
        let mut say = |id: u16, value: u32, otherwise: u32| {
            if value != otherwise {
                out.extend_from_slice(&id.to_be_bytes());
                out.extend_from_slice(&value.to_be_bytes());
            }
        };
        say(HEADER_TABLE_SIZE, self.header_table_size, default.header_table_size);
        // Only a client's word counts (RFC 9113 6.5.2).
        say(ENABLE_PUSH, u32::from(!is_client), 1);
        say(MAX_CONCURRENT_STREAMS, self.max_concurrent_streams, default.max_concurrent_streams);
        say(INITIAL_WINDOW_SIZE, self.initial_window_size, default.initial_window_size);
        say(MAX_FRAME_SIZE, self.max_frame_size, default.max_frame_size);
        say(MAX_HEADER_LIST_SIZE, self.max_header_list_size, default.max_header_list_size);
        say(ENABLE_CONNECT_PROTOCOL, u32::from(self.enable_connect_protocol), 0);
        say(NO_RFC7540_PRIORITIES, u32::from(self.no_rfc7540_priorities), 0);
        out
    }
}

/// Base64url without padding (RFC 4648 5), at most `max` bytes of it.
fn base64url(text: &[u8], max: usize) -> Option<Vec<u8>> {
    let (mut out, mut bits, mut count) = (Vec::new(), 0u32, 0);
    // Some clients pad it in spite of RFC 7540 3.2.1.
    let text = text.trim_ascii_end();
    let text = text.strip_suffix(b"==").or_else(|| text.strip_suffix(b"=")).unwrap_or(text);
    if text.len() > max.div_ceil(3) * 4 || text.len() % 4 == 1 {
        return None;
    }
    for &c in text {
        let digit = match c {
            b'A'..=b'Z' => c - b'A',
            b'a'..=b'z' => c - b'a' + 26,
            b'0'..=b'9' => c - b'0' + 52,
            b'-' => 62,
            b'_' => 63,
            _ => return None,
        };
        (bits, count) = (bits << 6 | u32::from(digit), count + 6);
        if count >= 8 {
            count -= 8;
            out.push((bits >> count) as u8);
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_what_differs() {
        let ours = Http2Settings {
            max_concurrent_streams: 100,
            enable_push: false,
            no_rfc7540_priorities: true,
            ..Http2Settings::default()
        };
        let mut theirs = Http2Settings::default();
        theirs.apply(&ours.payload(true), false).unwrap();
        assert_eq!(theirs, ours);
        assert_eq!(ours.payload(false), [0, 3, 0, 0, 0, 100, 0, 9, 0, 0, 0, 1]);
    }

    #[test]
    fn values_out_of_range() {
        let check = |id: u16, value: u32, want: Option<ErrorCode>| {
            let payload = [&id.to_be_bytes()[..], &value.to_be_bytes()[..]].concat();
            let got = Http2Settings::default().apply(&payload, false);
            assert_eq!(got.err().map(|fault| fault.code), want, "{id} {value}");
        };
        check(ENABLE_PUSH, 2, Some(ErrorCode::ProtocolError));
        check(INITIAL_WINDOW_SIZE, MAX_WINDOW, None);
        check(INITIAL_WINDOW_SIZE, MAX_WINDOW + 1, Some(ErrorCode::FlowControlError));
        check(MAX_FRAME_SIZE, 16_383, Some(ErrorCode::ProtocolError));
        check(MAX_FRAME_SIZE, 1 << 24, Some(ErrorCode::ProtocolError));
        check(MAX_FRAME_SIZE, (1 << 24) - 1, None);
        check(0xffff, 7, None);
        let mut lax = Http2Settings::default();
        lax.apply(&[0, 5, 0, 0, 0, 64], true).unwrap();
        assert_eq!(lax.max_frame_size, 64);
        assert!(lax.apply(&[0], false).is_err());
    }

    #[test]
    fn settings_in_a_field() {
        let settings = Http2Settings::from_upgrade(b"AAMAAABkAAQAAP__", false).unwrap();
        assert_eq!((settings.max_concurrent_streams, settings.initial_window_size), (100, 65_535));
        assert_eq!(Http2Settings::from_upgrade(b"", false), Some(Http2Settings::default()));
        assert!(Http2Settings::from_upgrade(b"AAMAAABkAARAAAAA", false).is_some());
        for bad in [&b"#######"[..], b"AAMAAABkA", b"AAMAAAB", b"AAT_____", &[b'A'; 1000]] {
            assert_eq!(Http2Settings::from_upgrade(bad, false), None, "{bad:?}");
        }
    }
}
