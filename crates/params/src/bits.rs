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
            pub const ALL: $set = $set((1 << Self::NAMES.len()) - 1);

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
    DebugBits DebugBit {
        ReqState "req_state" "No effect here: the log records of a request have its states";
        Workspace "workspace" "No effect here: there are no workspaces";
        Waitinglist "waitinglist" "Log requests that wait for the fetch of another request";
        Syncvsl "syncvsl" "Write each log record at once";
        Hashedge "hashedge" "No effect here: the index has no such rare paths";
        Vclrel "vclrel" "No effect here: VCLs are always released at once";
        Lurker "lurker" "Log the work of the ban lurker";
        EsiChop "esi_chop" "No effect here: the ESI parser has its own tests for split bodies";
        FlushHead "flush_head" "No effect here: headers are sent together with available body data";
        VtcMode "vtc_mode" "Run under varnishtest";
        Witness "witness" "No effect here: tests check the order of locks";
        VsmKeep "vsm_keep" "No effect here: no released varnishd has one either";
        SlowAcceptor "slow_acceptor" "No effect here: accepting connections can't be slowed down";
        H2Nocheck "h2_nocheck" "Accept an invalid frame size in SETTINGS";
        VmodSoKeep "vmod_so_keep" "No effect here: modules aren't separate files";
        Processors "processors" "Log filters when they are opened";
        Protocol "protocol" "No effect here: no released varnishd has one either";
        VclKeep "vcl_keep" "Keep the files that compiling VCL leaves in the working directory";
        Lck "lck" "No effect here: builds with debug assertions count locks";
        CliShowSensitive "cli_show_sensitive" "No effect here: no CLI command is hidden from the log";
    }
}

bits! {
    ExperimentalBits ExperimentalBit {
        DropPools "drop_pools" "No effect here: there are no thread pools to drop";
    }
}

bits! {
    VccFeatureBits VccFeatureBit {
        ErrUnref "err_unref" "A definition that VCL never uses is an error";
        AllowInlineC "allow_inline_c" "No effect here: inline C is always refused";
        UnsafePath "unsafe_path" "Allow \"/\" and \"..\" in the file names of import and include";
    }
}

impl FeatureBits {
    /// The bits that `all` sets: rfc9111 is this server's own and changes what is cached.
    pub(super) const OF_VARNISH: Self = Self(Self::ALL.0 & !(1 << FeatureBit::Rfc9111 as u32));

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
    FeatureBits FeatureBit {
        Http2 "http2" "HTTP/2 in clear text. Over TLS it is on unless -http2 is set";
        ShortPanic "short_panic" "No effect here: a panic report has no memory dump to leave out";
        NoCoredump "no_coredump" "Write no core file; applies from the next start of the worker";
        HttpsScheme "https_scheme" "Extract the host from https:// URLs in the request line, as from http:// URLs";
        HttpDatePostel "http_date_postel" "Accept one-digit days in Date, Last-Modified and Expires";
        EsiIgnoreHttps "esi_ignore_https" "Treat https:// as http:// in ESI includes";
        EsiDisableXmlCheck "esi_disable_xml_check" "Process ESI even if the body doesn't look like XML";
        EsiIgnoreOtherElements "esi_ignore_other_elements" "Ignore XML elements that aren't ESI";
        EsiRemoveBom "esi_remove_bom" "Ignore a leading byte order mark in ESI bodies";
        EsiIncludeOnerror "esi_include_onerror" "Respect onerror of esi:include";
        WaitSilo "wait_silo" "No effect here: requests are served while stores are loaded";
        ValidateHeaders "validate_headers" "Refuse control characters in headers that VCL sets, and blanks in URLs and methods";
        BusyStatsRate "busy_stats_rate" "No effect here: counters are always up to date";
        Rfc9111 "rfc9111" "Follow RFC 9111 where Varnish differs";
        Trace "trace" "Log VCL_trace, whatever vsl_mask says, unless VCL sets req.trace";
        VclReqReset "vcl_req_reset" "End the VCL of an HTTP/2 or HTTP/3 request that its client has reset";
    }
}
