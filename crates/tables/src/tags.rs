// SPDX-License-Identifier: BSD-2-Clause
//! Log tags: the number, name and kind of every record varnish-7.1's tools know, and sets of them (`vsl_mask`).

/// The treatment that tools give a tag's data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TagKind {
    /// The data is printable text.
    Plain,
    /// May hold control bytes: tools quote it.
    Unsafe,
    /// Never written by 7.1.
    Unused,
    /// Binary: written without the final NUL, shown in hex.
    Binary,
}

macro_rules! tags {
    ($($(#[doc = $doc:literal])* $variant:ident = $number:literal $name:literal $kind:ident;)*) => {
        /// Kind of a log record.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Tag {
            $($(#[doc = $doc])* $variant = $number,)*
        }

        impl Tag {
            /// Every tag, by number; the first is number 1.
            pub const ALL: &'static [Tag] = &[$(Tag::$variant),*];

            /// The name tools show and filter by.
            pub const fn name(self) -> &'static str {
                match self { $(Tag::$variant => $name,)* }
            }

            /// The meaning, in a line or two.
            pub const fn text(self) -> &'static str {
                match self { $(Tag::$variant => concat!($($doc, "\n"),*),)* }
            }

            /// The look of its data.
            #[inline]
            pub const fn kind(self) -> TagKind {
                match self { $(Tag::$variant => TagKind::$kind,)* }
            }
        }
    };
}

tags! {
    /// Internal details for debugging; the format may change.
    Debug = 1 "Debug" Unsafe;
    /// An error outside of a transaction.
    Error = 2 "Error" Plain;
    /// A CLI command (`Rd`) or its reply (`Wr`).
    Cli = 3 "CLI" Plain;
    /// A client connection opened.
    SessOpen = 4 "SessOpen" Plain;
    /// A client connection closed: reason, seconds open.
    SessClose = 5 "SessClose" Plain;
    /// A new backend connection.
    BackendOpen = 6 "BackendOpen" Plain;
    /// Unused; kept for its number.
    BackendReuse = 7 "BackendReuse" Plain;
    /// A backend connection was closed or recycled.
    BackendClose = 8 "BackendClose" Plain;
    /// Bytes that could not be parsed as HTTP.
    HttpGarbage = 9 "HttpGarbage" Unsafe;
    /// The addresses in a PROXY header.
    Proxy = 10 "Proxy" Plain;
    /// A PROXY header that could not be parsed.
    ProxyGarbage = 11 "ProxyGarbage" Plain;
    /// The backend chosen for a pipe.
    Backend = 12 "Backend" Plain;
    /// Size of a fetched body.
    Length = 13 "Length" Plain;
    /// Why a fetch failed.
    FetchError = 14 "FetchError" Plain;
    /// Client request: method.
    ReqMethod = 15 "ReqMethod" Plain;
    /// Client request: URL.
    ReqUrl = 16 "ReqURL" Plain;
    /// Client request: protocol.
    ReqProtocol = 17 "ReqProtocol" Plain;
    /// Client request: status.
    ReqStatus = 18 "ReqStatus" Unused;
    /// Client request: reason.
    ReqReason = 19 "ReqReason" Unused;
    /// Client request: a header line set.
    ReqHeader = 20 "ReqHeader" Plain;
    /// Client request: a header line removed.
    ReqUnset = 21 "ReqUnset" Plain;
    /// Client request: a header line lost.
    ReqLost = 22 "ReqLost" Unused;
    /// Client response: method.
    RespMethod = 23 "RespMethod" Unused;
    /// Client response: URL.
    RespUrl = 24 "RespURL" Unused;
    /// Client response: protocol.
    RespProtocol = 25 "RespProtocol" Plain;
    /// Client response: status.
    RespStatus = 26 "RespStatus" Plain;
    /// Client response: reason.
    RespReason = 27 "RespReason" Plain;
    /// Client response: a header line set.
    RespHeader = 28 "RespHeader" Plain;
    /// Client response: a header line removed.
    RespUnset = 29 "RespUnset" Plain;
    /// Client response: a header line lost.
    RespLost = 30 "RespLost" Unused;
    /// Backend request: method.
    BereqMethod = 31 "BereqMethod" Plain;
    /// Backend request: URL.
    BereqUrl = 32 "BereqURL" Plain;
    /// Backend request: protocol.
    BereqProtocol = 33 "BereqProtocol" Plain;
    /// Backend request: status.
    BereqStatus = 34 "BereqStatus" Unused;
    /// Backend request: reason.
    BereqReason = 35 "BereqReason" Unused;
    /// Backend request: a header line set.
    BereqHeader = 36 "BereqHeader" Plain;
    /// Backend request: a header line removed.
    BereqUnset = 37 "BereqUnset" Plain;
    /// Backend request: a header line lost.
    BereqLost = 38 "BereqLost" Unused;
    /// Backend response: method.
    BerespMethod = 39 "BerespMethod" Unused;
    /// Backend response: URL.
    BerespUrl = 40 "BerespURL" Unused;
    /// Backend response: protocol.
    BerespProtocol = 41 "BerespProtocol" Plain;
    /// Backend response: status.
    BerespStatus = 42 "BerespStatus" Plain;
    /// Backend response: reason.
    BerespReason = 43 "BerespReason" Plain;
    /// Backend response: a header line set.
    BerespHeader = 44 "BerespHeader" Plain;
    /// Backend response: a header line removed.
    BerespUnset = 45 "BerespUnset" Plain;
    /// Backend response: a header line lost.
    BerespLost = 46 "BerespLost" Unused;
    /// Stored object: method.
    ObjMethod = 47 "ObjMethod" Unused;
    /// Stored object: URL.
    ObjUrl = 48 "ObjURL" Unused;
    /// Stored object: protocol.
    ObjProtocol = 49 "ObjProtocol" Plain;
    /// Stored object: status.
    ObjStatus = 50 "ObjStatus" Plain;
    /// Stored object: reason.
    ObjReason = 51 "ObjReason" Plain;
    /// Stored object: a header line set.
    ObjHeader = 52 "ObjHeader" Plain;
    /// Stored object: a header line removed.
    ObjUnset = 53 "ObjUnset" Plain;
    /// Stored object: a header line lost.
    ObjLost = 54 "ObjLost" Unused;
    /// A header line that was refused.
    BogoHeader = 55 "BogoHeader" Plain;
    /// A header line that was dropped for lack of room.
    LostHeader = 56 "LostHeader" Plain;
    /// How the TTL was set: source, ttl, grace, keep, reference time, ...
    Ttl = 57 "TTL" Plain;
    /// How a body was fetched: mode, its name, streamed or not.
    FetchBody = 58 "Fetch_Body" Plain;
    /// The result of an ACL match.
    VclAcl = 59 "VCL_acl" Plain;
    /// A VCL subroutine was called.
    VclCall = 60 "VCL_call" Plain;
    /// Progress through VCL.
    VclTrace = 61 "VCL_trace" Plain;
    /// The action that a VCL subroutine returned.
    VclReturn = 62 "VCL_return" Plain;
    /// Client address, port, listener; followed by `https` if the connection uses TLS.
    ReqStart = 63 "ReqStart" Plain;
    /// Object hit: its vxid, ttl, grace, keep.
    Hit = 64 "Hit" Plain;
    /// Hit-for-pass: vxid and ttl.
    HitPass = 65 "HitPass" Plain;
    /// An object was removed by a ban.
    ExpBan = 66 "ExpBan" Plain;
    /// Work of the expiry thread.
    ExpKill = 67 "ExpKill" Plain;
    /// Threads starting and ending.
    WorkThread = 68 "WorkThread" Plain;
    /// ESI markup that is not well formed.
    EsiXmlerror = 69 "ESI_xmlerror" Plain;
    /// An argument of hash_data().
    Hash = 70 "Hash" Unsafe;
    /// A probe's result.
    BackendHealth = 71 "Backend_health" Plain;
    /// The argument of `std.log()`.
    VclLog = 72 "VCL_Log" Plain;
    /// VCL failed.
    VclError = 73 "VCL_Error" Plain;
    /// Result of compressing, decompressing or verifying a gzip body.
    Gzip = 74 "Gzip" Plain;
    /// A child transaction: type, vxid, reason.
    Link = 75 "Link" Plain;
    /// First record of a transaction: type, parent vxid, reason.
    Begin = 76 "Begin" Plain;
    /// Last record of a transaction.
    End = 77 "End" Plain;
    /// A message of the log itself.
    Vsl = 78 "VSL" Plain;
    /// Kind and name of the store.
    Storage = 79 "Storage" Plain;
    /// Event, time, seconds since start, seconds since the last.
    Timestamp = 80 "Timestamp" Plain;
    /// Bytes of a request and its response.
    ReqAcct = 81 "ReqAcct" Plain;
    /// Bytes of a pipe.
    PipeAcct = 82 "PipeAcct" Plain;
    /// Bytes of a backend request and response.
    BereqAcct = 83 "BereqAcct" Plain;
    /// Bytes processed by a fetch filter.
    VfpAcct = 84 "VfpAcct" Plain;
    /// Lock order records.
    Witness = 85 "Witness" Plain;
    /// Unused; kept for its number.
    BackendStart = 86 "BackendStart" Plain;
    /// HTTP/2 frame header received.
    H2RxHdr = 87 "H2RxHdr" Binary;
    /// HTTP/2 frame body received.
    H2RxBody = 88 "H2RxBody" Binary;
    /// HTTP/2 frame header sent.
    H2TxHdr = 89 "H2TxHdr" Binary;
    /// HTTP/2 frame body sent.
    H2TxBody = 90 "H2TxBody" Binary;
    /// Hit-for-miss: vxid and ttl.
    HitMiss = 91 "HitMiss" Plain;
    /// The filters applied to a body.
    Filters = 92 "Filters" Plain;
    /// A client connection failed: details.
    SessError = 93 "SessError" Plain;
    /// The VCL in use: name and label.
    VclUse = 94 "VCL_use" Plain;
    /// Something an operator should know.
    Notice = 95 "Notice" Plain;
    /// Bytes processed by a delivery filter.
    VdpAcct = 96 "VdpAcct" Plain;
    /// TLS with a client: negotiated version, cipher and name, and the client certificate; or the error.
    Tls = 97 "TLS" Plain;
    /// TLS with a backend: negotiated version and cipher, or the error.
    BackendSsl = 98 "BackendSSL" Plain;
    /// The target of a request line as the client sent it; written if vsl_mask asks for it.
    ReqTarget = 99 "ReqTarget" Plain;
}

impl Tag {
    /// The tag with this number.
    pub fn from_number(number: u8) -> Option<Tag> {
        Self::ALL.get(usize::from(number).checked_sub(1)?).copied()
    }

    /// The tag with this name, in any case.
    pub fn from_name(name: &str) -> Option<Tag> {
        Self::ALL.iter().copied().find(|t| t.name().eq_ignore_ascii_case(name))
    }

    /// True for a record that 7.1 doesn't have, and that is written only if `vsl_mask` names it.
    pub const fn is_on_demand(self) -> bool {
        matches!(self, Self::ReqTarget)
    }

    /// The number in the log.
    pub const fn number(self) -> u8 {
        self as u8
    }
}

/// The head that a record tells of; each has eight tags in the same order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HeadSide {
    Req,
    Resp,
    Bereq,
    Beresp,
    Obj,
}

/// The eight things logged of a head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HeadPart {
    Method,
    Url,
    Protocol,
    Status,
    Reason,
    Header,
    Unset,
    Lost,
}

impl HeadSide {
    /// The tag of one part of this side's head.
    pub fn tag(self, part: HeadPart) -> Tag {
        let first = Tag::ReqMethod.number() as usize;
        Tag::ALL[first - 1 + self as usize * 8 + part as usize]
    }
}

/// A set of tags. In `vsl_mask` a member is *not* written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TagMask(pub [u64; 2]);

impl TagMask {
    pub const NOTHING: Self = Self([0; 2]);
    pub const EVERYTHING: Self = Self([u64::MAX; 2]);
    /// `vsl_mask` by default: all tags of release 7.1 are written.
    pub const ON_DEMAND: Self = {
        let (mut mask, mut at) = (Self::NOTHING, 0);
        while at < Tag::ALL.len() {
            mask.set(Tag::ALL[at], Tag::ALL[at].is_on_demand());
            at += 1;
        }
        mask
    };

    /// The tags that only one of the two sets has.
    pub const fn differing(self, other: Self) -> Self {
        Self([self.0[0] ^ other.0[0], self.0[1] ^ other.0[1]])
    }

    /// True if `tag` is in the set.
    #[inline]
    pub const fn has(self, tag: Tag) -> bool {
        let n = tag as usize;
        self.0[n / 64] & (1 << (n % 64)) != 0
    }

    /// Puts `tag` in or takes it out.
    pub const fn set(&mut self, tag: Tag, member: bool) {
        let (word, bit) = (tag as usize / 64, 1 << (tag as usize % 64));
        if member {
            self.0[word] |= bit;
        } else {
            self.0[word] &= !bit;
        }
    }
}

/// Settings of the log in shared memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogSettings {
    /// Size of the log in bytes. It never changes while the log lives.
    pub space: u64,
    /// Tags that are not written.
    pub mask: TagMask,
    /// Length of the longest record in bytes; longer data is cut.
    pub reclen: u64,
    /// Size of a transaction's buffer in bytes.
    pub buffer: u64,
    /// True if each record is written at once.
    pub is_sync: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_dense() {
        for (i, tag) in Tag::ALL.iter().enumerate() {
            assert_eq!((tag.number() as usize, Tag::from_number(tag.number())), (i + 1, Some(*tag)));
            assert_eq!(Tag::from_name(tag.name()), Some(*tag));
        }
        assert_eq!((Tag::from_number(0), Tag::from_number(100)), (None, None));
    }

    #[test]
    fn sides() {
        assert_eq!(HeadSide::Req.tag(HeadPart::Url), Tag::ReqUrl);
        assert_eq!(HeadSide::Beresp.tag(HeadPart::Unset), Tag::BerespUnset);
        assert_eq!(HeadSide::Obj.tag(HeadPart::Lost), Tag::ObjLost);
    }

    #[test]
    fn masks() {
        let mut mask = TagMask::ON_DEMAND;
        assert!(mask.has(Tag::ReqTarget) && TagMask::default() == TagMask::NOTHING);
        mask.set(Tag::VdpAcct, true);
        assert!(mask.has(Tag::VdpAcct) && !mask.has(Tag::Debug));
        mask.set(Tag::VdpAcct, false);
        assert_eq!(mask, TagMask::ON_DEMAND);
    }
}
