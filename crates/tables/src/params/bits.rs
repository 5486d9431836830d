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

            /// Whether the bit is set.
            #[inline]
            pub const fn has(self, bit: $bit) -> bool {
                self.0 & (1 << bit as u32) != 0
            }

            /// Sets or clears a bit.
            pub const fn set(&mut self, bit: $bit, on: bool) {
                if on { self.0 |= 1 << bit as u32 } else { self.0 &= !(1 << bit as u32) }
            }
        }
    };
}

bits! {
    /// Value of `debug`.
    DebugBits DebugBit {
        ReqState "req_state" "Log the states of requests";
        Workspace "workspace" "Log workspaces";
        Waitinglist "waitinglist" "Log waitinglists";
        Syncvsl "syncvsl" "Write each log record at once";
        Hashedge "hashedge" "Rare paths of the index";
        Vclrel "vclrel" "Release VCLs at once";
        Lurker "lurker" "Log the ban lurker";
        EsiChop "esi_chop" "Cut ESI bodies into tiny pieces";
        FlushHead "flush_head" "Send heads on their own";
        VtcMode "vtc_mode" "Run under varnishtest";
        Witness "witness" "Log the order of locks";
        VsmKeep "vsm_keep" "Keep shared memory on restart";
        SlowAcceptor "slow_acceptor" "Accept slowly";
        H2Nocheck "h2_nocheck" "Skip HTTP/2 checks";
        VmodSoKeep "vmod_so_keep" "No effect here: vmods are no files";
        Processors "processors" "Log fetch and deliver filters";
        Protocol "protocol" "Log protocol details";
        VclKeep "vcl_keep" "Keep what VCL compiles to";
        Lck "lck" "More counters of locks";
    }
}

bits! {
    /// Value of `experimental`.
    ExperimentalBits ExperimentalBit {
        DropPools "drop_pools" "No effect here: there are no thread pools to drop";
    }
}

bits! {
    /// Value of `feature`.
    FeatureBits FeatureBit {
        Http2 "http2" "HTTP/2";
        ShortPanic "short_panic" "Short panic reports";
        NoCoredump "no_coredump" "No core file; set before the worker starts";
        HttpsScheme "https_scheme" "Take the host out of https URLs in the request line";
        HttpDatePostel "http_date_postel" "Accept malformed dates in Date, Last-Modified, Expires";
        EsiIgnoreHttps "esi_ignore_https" "Include https:// URLs as if they were http://";
        EsiDisableXmlCheck "esi_disable_xml_check" "ESI in bodies that do not look like XML";
        EsiIgnoreOtherElements "esi_ignore_other_elements" "Pass over elements that are not ESI";
        EsiRemoveBom "esi_remove_bom" "Pass over a byte order mark before ESI";
        EsiIncludeOnerror "esi_include_onerror" "Obey onerror of esi:include";
        WaitSilo "wait_silo" "Wait for stores that outlive the worker";
        ValidateHeaders "validate_headers" "Check headers that VCL sets";
        BusyStatsRate "busy_stats_rate" "No effect here: counters are exact at all times";
        Rfc9111 "rfc9111" "Follow RFC 9111 where Varnish differs";
    }
}
