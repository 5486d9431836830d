// SPDX-License-Identifier: BSD-2-Clause
//! Bit sets among the parameters: `debug`, `feature`, `experimental`.

macro_rules! bits {
    ($(#[$doc:meta])* $set:ident $bit:ident { $($variant:ident $name:literal $text:literal;)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        pub struct $set(pub(super) u64);

        #[doc = concat!("A bit of [`", stringify!($set), "`].")]
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum $bit {
            $(#[doc = $text] $variant,)*
        }

        impl $set {
            /// Names and texts, by bit number.
            pub const NAMES: &'static [(&'static str, &'static str)] = &[$(($name, $text)),*];

            #[inline]
            pub const fn has(self, bit: $bit) -> bool {
                self.0 & (1 << bit as u32) != 0
            }

            pub const fn set(&mut self, bit: $bit, on: bool) {
                if on { self.0 |= 1 << bit as u32 } else { self.0 &= !(1 << bit as u32) }
            }
        }
    };
}

bits! {
    /// The value of `debug`.
    DebugBits DebugBit {
        ReqState "req_state" "No effect here: what a request does is in its own log records";
        Workspace "workspace" "No effect here: there are no workspaces";
        Waitinglist "waitinglist" "Log requests that are parked on a busy object";
        Syncvsl "syncvsl" "Write each log record at once";
        Hashedge "hashedge" "No effect here: the index has no such rare paths";
        Vclrel "vclrel" "No effect here: VCLs are always released at once";
        Lurker "lurker" "Log the ban lurker";
        EsiChop "esi_chop" "No effect here: the ESI parser has tests that cut bodies everywhere";
        FlushHead "flush_head" "No effect here: a head is sent with what there is of the body";
        VtcMode "vtc_mode" "Run under varnishtest";
        Witness "witness" "No effect here: tests watch the order of locks";
        VsmKeep "vsm_keep" "No effect here: no released varnishd has one either";
        SlowAcceptor "slow_acceptor" "No effect here: connections are accepted as they come";
        H2Nocheck "h2_nocheck" "Take a frame size in SETTINGS that is none";
        VmodSoKeep "vmod_so_keep" "No effect here: vmods are no files";
        Processors "processors" "Log filters as they are opened";
        Protocol "protocol" "No effect here: no released varnishd has one either";
        VclKeep "vcl_keep" "Keep what VCL compiles to";
        Lck "lck" "No effect here: builds with debug assertions count locks";
    }
}

bits! {
    /// The value of `experimental`.
    ExperimentalBits ExperimentalBit {
        DropPools "drop_pools" "No effect here: there are no thread pools to drop";
    }
}

impl FeatureBits {
    /// Somebody said `-http2`: TLS doesn't offer it either, which otherwise needs no feature.
    const HTTP2_REFUSED: u64 = 1 << 63;

    /// True if TLS offers HTTP/2 (ALPN).
    pub const fn offers_http2(self) -> bool {
        self.0 & Self::HTTP2_REFUSED == 0
    }

    /// Is called after bits were set or cleared by their names.
    pub(super) fn note_http2(&mut self, is_on: bool) {
        if is_on { self.0 &= !Self::HTTP2_REFUSED } else { self.0 |= Self::HTTP2_REFUSED }
    }
}

bits! {
    /// The value of `feature`.
    FeatureBits FeatureBit {
        Http2 "http2" "HTTP/2 in clear text; -http2 takes it from TLS, too, which offers it otherwise";
        ShortPanic "short_panic" "No effect here: a report of a panic has no dump of memory to leave out";
        NoCoredump "no_coredump" "No core file; set before the worker starts";
        HttpsScheme "https_scheme" "Take the host out of https URLs in the request line, as out of http URLs";
        HttpDatePostel "http_date_postel" "Take days of one digit in Date, Last-Modified, Expires";
        EsiIgnoreHttps "esi_ignore_https" "Include https:// URLs as if they were http://";
        EsiDisableXmlCheck "esi_disable_xml_check" "ESI in bodies that do not look like XML";
        EsiIgnoreOtherElements "esi_ignore_other_elements" "Pass over elements that are not ESI";
        EsiRemoveBom "esi_remove_bom" "Pass over a byte order mark before ESI";
        EsiIncludeOnerror "esi_include_onerror" "Obey onerror of esi:include";
        WaitSilo "wait_silo" "No effect here: no store outlives the worker";
        ValidateHeaders "validate_headers" "Refuse control bytes in headers that VCL sets, and blanks in URLs and methods";
        BusyStatsRate "busy_stats_rate" "No effect here: counters are exact at all times";
        Rfc9111 "rfc9111" "Follow RFC 9111 where Varnish differs";
    }
}
