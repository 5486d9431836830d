// SPDX-License-Identifier: BSD-2-Clause
//! Why a request was no hit, and why an answer couldn't be cached: one word each, for the log, `Cache-Status`, the counters
//! `NOHIT.*` and `lacquer explain`.

macro_rules! reasons {
    ($($variant:ident $field:ident $word:literal $forward:literal $text:literal;)*) => {
        /// The reason why a request was answered by something else than an object in the cache. Each that isn't a hit
        /// has exactly one.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum NoHit {
            $(#[doc = $text] $variant,)*
        }

        impl NoHit {
            /// All reasons, in order.
            pub const ALL: &'static [NoHit] = &[$(NoHit::$variant),*];

            /// The word in the log, in `Cache-Status` and in the manual.
            pub const fn word(self) -> &'static str {
                match self { $(NoHit::$variant => $word,)* }
            }

            /// The word of RFC 9211 (`fwd`); empty when nothing was forwarded.
            pub const fn forward(self) -> &'static str {
                match self { $(NoHit::$variant => $forward,)* }
            }

            /// The meaning in words.
            pub const fn text(self) -> &'static str {
                match self { $(NoHit::$variant => $text,)* }
            }
        }

        crate::counters::no_hit_set! { $($field $text;)* }

        impl NoHitCounts {
            /// The counter of a reason.
            pub fn of(&self, reason: NoHit) -> &crate::counters::Counter {
                match reason { $(NoHit::$variant => &self.$field,)* }
            }
        }
    };
}

reasons! {
    Refused refused "refused" "" "Refused before VCL ran, refused a fetch for lack of memory or of a slot, or given up before VCL decided";
    Synth synth "synth" "" "VCL answered by itself: return (synth)";
    VclFailed vcl_failed "vcl-failed" "" "VCL failed";
    Purge purge "purge" "" "VCL purged: return (purge)";
    Restart restart "restart" "" "VCL restarted before a lookup";
    Pipe pipe "pipe" "bypass" "VCL piped it: return (pipe)";
    PipeMethod pipe_method "pipe-method" "method" "The built-in VCL pipes methods that it doesn't know where http_lenient is on";
    Pass pass "pass" "bypass" "VCL passed it: return (pass)";
    PassMethod pass_method "pass-method" "method" "The built-in VCL passes all but GET and HEAD";
    PassAuthorization pass_authorization "pass-authorization" "request" "The built-in VCL passes requests with Authorization";
    PassCookie pass_cookie "pass-cookie" "request" "The built-in VCL passes requests with a Cookie";
    HitForPass hit_for_pass "hit-for-pass" "bypass" "An earlier answer said that requests for it are to be passed";
    HitForMiss hit_for_miss "hit-for-miss" "miss" "An earlier answer could not be cached";
    AlwaysMiss always_miss "hash-always-miss" "request" "VCL set req.hash_always_miss";
    FirstFetch first_fetch "first-fetch" "uri-miss" "Nothing is known of it: the first request, or too long ago to remember";
    Expired expired "expired" "stale" "What was there had expired, grace included";
    ZeroTtl zero_ttl "zero-ttl" "stale" "What was there had no ttl: it was stored for nobody";
    RequestTtl request_ttl "req-ttl" "request" "What was there is older than VCL's req.ttl allows";
    Banned banned "banned" "miss" "What was there was hit by a ban";
    Purged purged "purged" "miss" "What was there was purged";
    Evicted evicted "evicted" "miss" "What was there was evicted to make room";
    VaryLimit vary_limit "vary-limit" "vary-miss" "What was there went because of vary_limit";
    Replaced replaced "replaced" "miss" "What was there was taken out by a newer answer that isn't there any more";
    FetchFailed fetch_failed "fetch-failed" "uri-miss" "The last fetch of it failed";
    Vary vary "vary" "vary-miss" "Only variants for other request fields are there";
    Waitinglist waitinglist "waitinglist" "" "It is being fetched, and no more requests may wait for it, or not so long";
    IgnoreBusy ignore_busy "hash-ignore-busy" "request" "It is being fetched, and VCL set req.hash_ignore_busy";
    RequestDirective request_directive "request-directive" "request" "The client's Cache-Control wants something newer than what was there (feature rfc9111)";
    Partial partial "partial" "partial" "Parts of it are there, and not those that were asked for (feature rfc9111)";
    OnlyIfCached only_if_cached "only-if-cached" "" "The client's Cache-Control forbids to ask the origin, and nothing there would do (feature rfc9111): 504";
}

macro_rules! uncacheable {
    ($($variant:ident $word:literal $text:literal;)*) => {
        /// The reason why an answer became hit-for-miss or hit-for-pass.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum Uncacheable {
            $(#[doc = $text] $variant,)*
        }

        impl Uncacheable {
            /// All reasons, in order.
            pub const ALL: &'static [Uncacheable] = &[$(Uncacheable::$variant),*];

            /// The word in the log and in the manual.
            pub const fn word(self) -> &'static str {
                match self { $(Uncacheable::$variant => $word,)* }
            }

            /// The meaning in words.
            pub const fn text(self) -> &'static str {
                match self { $(Uncacheable::$variant => $text,)* }
            }
        }
    };
}

uncacheable! {
    Vcl "vcl" "VCL set beresp.uncacheable";
    VclPass "vcl-pass" "VCL returned pass from vcl_backend_response";
    Stale "no-ttl" "its time was over when it came";
    SetCookie "set-cookie" "it sets a cookie";
    CacheControl "cache-control" "its Cache-Control or Surrogate-Control forbids it";
    Vary "vary-star" "Vary: * means that no other request may have it";
    BadVary "bad-vary" "its Vary can't be read";
    NoRoom "no-room" "its store had no room for it, or had all its memory in use if it is on a disk";
    Authorization "authorization" "the request had Authorization, and the answer doesn't say that others may have it (feature rfc9111)";
    Peer "peer" "the owner of its key among the peers keeps it for nobody (--peers)";
    Status "status" "its status isn't cacheable without freshness of its own, or would have to be understood (feature rfc9111)";
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::Set;

    #[test]
    fn words_are_unlike() {
        let mut words: Vec<_> = NoHit::ALL.iter().map(|reason| reason.word()).collect();
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), NoHit::ALL.len());
    }

    #[test]
    fn every_reason_counts_in_its_own_counter() {
        let counts = NoHitCounts::default();
        NoHit::ALL.iter().for_each(|&reason| counts.of(reason).inc());
        assert_eq!(NoHitCounts::ELEMS.len(), NoHit::ALL.len());
        (0..NoHit::ALL.len()).for_each(|n| assert_eq!(counts.counter(n).map(|c| c.get()), Some(1)));
    }
}
