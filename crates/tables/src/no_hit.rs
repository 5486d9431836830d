// SPDX-License-Identifier: BSD-2-Clause
//! Why a request was no hit, and why a response couldn't be cached: one word each, for the log, `Cache-Status`, the counters
//! `NOHIT.*` and `lacquer explain`.

/// Prefix of the `Notice` record that has the reason (`log_no_hit`).
pub const NOTICE: &str = "lacquer: no hit: ";

macro_rules! reasons {
    ($($variant:ident $field:ident $word:literal $forward:literal $text:literal;)*) => {
        /// The reason why a request was answered by something else than an object in the cache. Each that isn't a hit
        /// has exactly one.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum NoHit {
            $(#[doc = $text] $variant,)*
        }

        impl NoHit {
            pub const ALL: &'static [NoHit] = &[$(NoHit::$variant),*];

            /// The word in the log, in `Cache-Status` and in the manual.
            pub const fn word(self) -> &'static str {
                match self { $(NoHit::$variant => $word,)* }
            }

            /// The word of RFC 9211 (`fwd`); empty when nothing was forwarded.
            pub const fn forward(self) -> &'static str {
                match self { $(NoHit::$variant => $forward,)* }
            }

            pub const fn text(self) -> &'static str {
                match self { $(NoHit::$variant => $text,)* }
            }
        }

        crate::counters::no_hit_set! { $($field $text;)* }

        impl NoHitCounts {
            pub fn of(&self, reason: NoHit) -> &crate::counters::Counter {
                match reason { $(NoHit::$variant => &self.$field,)* }
            }
        }
    };
}

reasons! {
    Refused refused "refused" "" "Refused before VCL ran, refused because a fetch had no memory or no slot, or cancelled before VCL decided";
    Synth synth "synth" "" "VCL returned a synthetic response: return (synth)";
    VclFailed vcl_failed "vcl-failed" "" "VCL failed";
    Purge purge "purge" "" "VCL purged: return (purge)";
    Restart restart "restart" "" "VCL restarted the request before a lookup";
    Pipe pipe "pipe" "bypass" "VCL piped it: return (pipe)";
    PipeMethod pipe_method "pipe-method" "method" "The built-in VCL pipes unknown methods if http_lenient is on";
    Pass pass "pass" "bypass" "VCL passed it: return (pass)";
    PassMethod pass_method "pass-method" "method" "The built-in VCL passes all methods except GET, HEAD, QUERY and, with req.hash_body, POST";
    PassBody pass_body "pass-body" "bypass" "The cache key covers the request's body (QUERY, or POST with req.hash_body), and the body is larger than hash_body_limit, doesn't fit into the store, may not be waited for (Incremental), or has no Content-Type";
    PassUpload pass_upload "pass-upload" "bypass" "The request asks about an unfinished upload, or continues or ends it (upload_affinity)";
    PassAuthorization pass_authorization "pass-authorization" "request" "The built-in VCL passes requests with Authorization";
    PassCookie pass_cookie "pass-cookie" "request" "The built-in VCL passes requests with a Cookie";
    HitForPass hit_for_pass "hit-for-pass" "bypass" "An earlier response marked the object as hit-for-pass";
    HitForMiss hit_for_miss "hit-for-miss" "miss" "An earlier response could not be cached";
    AlwaysMiss always_miss "hash-always-miss" "request" "VCL set req.hash_always_miss";
    FirstFetch first_fetch "first-fetch" "uri-miss" "Nothing is known about this object: it is the first request, or the last one is too long ago";
    Expired expired "expired" "stale" "The cached object had expired, grace included";
    ZeroTtl zero_ttl "zero-ttl" "stale" "The last response had no TTL, so it was not cached";
    RequestTtl request_ttl "req-ttl" "request" "The cached object is older than VCL's req.ttl allows";
    Banned banned "banned" "miss" "The cached object was banned";
    Purged purged "purged" "miss" "The cached object was purged";
    Evicted evicted "evicted" "miss" "The cached object was evicted to make room";
    VaryLimit vary_limit "vary-limit" "vary-miss" "The cached variant was removed because of vary_limit";
    Replaced replaced "replaced" "miss" "The cached object was replaced by a newer response that isn't cached any more";
    FetchFailed fetch_failed "fetch-failed" "uri-miss" "The last fetch of this object failed";
    Vary vary "vary" "vary-miss" "Only variants for other request headers are cached";
    Waitinglist waitinglist "waitinglist" "" "The object is being fetched, and no more requests may wait for it, or this one waited too long";
    IgnoreBusy ignore_busy "hash-ignore-busy" "request" "The object is being fetched, and VCL set req.hash_ignore_busy";
    RequestDirective request_directive "request-directive" "request" "The client's Cache-Control requires a newer response than the cached one (feature rfc9111)";
    Partial partial "partial" "partial" "Only other parts of the object are cached than those requested (feature rfc9111)";
    OnlyIfCached only_if_cached "only-if-cached" "" "The client's Cache-Control forbids contacting the origin, and no cached object is usable (feature rfc9111): 504";
}

macro_rules! uncacheable {
    ($($variant:ident $word:literal $text:literal;)*) => {
        /// The reason why an answer became hit-for-miss or hit-for-pass.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum Uncacheable {
            $(#[doc = $text] $variant,)*
        }

        impl Uncacheable {
            pub const ALL: &'static [Uncacheable] = &[$(Uncacheable::$variant),*];

            /// The word in the log and in the manual.
            pub const fn word(self) -> &'static str {
                match self { $(Uncacheable::$variant => $word,)* }
            }

            pub const fn text(self) -> &'static str {
                match self { $(Uncacheable::$variant => $text,)* }
            }
        }
    };
}

uncacheable! {
    Vcl "vcl" "VCL set beresp.uncacheable";
    VclPass "vcl-pass" "VCL returned pass from vcl_backend_response";
    Stale "no-ttl" "its TTL was over when it arrived";
    SetCookie "set-cookie" "it sets a cookie";
    CacheControl "cache-control" "its Cache-Control or Surrogate-Control forbids it";
    Vary "vary-star" "its Vary: * makes it unusable for other requests";
    BadVary "bad-vary" "its Vary is invalid";
    NoRoom "no-room" "its store had no room for it, or its memory was fully in use (a store on disk)";
    Authorization "authorization" "the request had Authorization, and the response doesn't allow sharing (feature rfc9111)";
    Peer "peer" "the peer that owns its key doesn't cache it (--peers)";
    Dictionary "dictionary" "its body is compressed against a compression dictionary, and isn't for all clients";
    Status "status" "its status isn't cacheable without explicit freshness, or isn't understood (must-understand; feature rfc9111)";
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::CounterFields;

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
