// SPDX-License-Identifier: BSD-2-Clause
//! The parameters, sorted by name: kind and default (and that of `--compat 9`, if it is another one), unit and limits, flags, text. Everything else follows from a row.
//!
//! Limits that hang on another parameter (`thread_pool_min`, `vsl_buffer`, ...) are in `limits`.

use std::time::Duration;

use tables::Compat;

use super::bits::{DebugBits, ExperimentalBits, FeatureBits, VccFeatureBits};
use super::value::{BytesOrAuto, Field, ParamKind, ParamValue, PoolParam};
use super::{Flag, Spec};
use tables::tags::TagMask;

macro_rules! ty {
    (Seconds) => {
        Duration
    };
    (Timeout) => {
        Duration
    };
    (Real) => {
        f64
    };
    (Count) => {
        u32
    };
    (Bytes) => {
        u64
    };
    (BytesOrAuto) => {
        BytesOrAuto
    };
    (Switch) => {
        bool
    };
    (Text) => {
        String
    };
    (Pool) => {
        PoolParam
    };
    (Debug) => {
        DebugBits
    };
    (Feature) => {
        FeatureBits
    };
    (Experimental) => {
        ExperimentalBits
    };
    (VccFeature) => {
        VccFeatureBits
    };
    (Tags) => {
        TagMask
    };
}

macro_rules! limit {
    () => {
        None
    };
    ($text:literal) => {
        Some($text)
    };
}

/// True if the names are unique and in ascending order.
const fn is_sorted(names: &[&str]) -> bool {
    let mut at = 1;
    while at < names.len() {
        if !is_before(names[at - 1].as_bytes(), names[at].as_bytes()) {
            return false;
        }
        at += 1;
    }
    true
}

/// `one < other`, which no constant can ask of texts.
const fn is_before(one: &[u8], other: &[u8]) -> bool {
    match (one, other) {
        (_, []) => false,
        ([], _) => true,
        ([a, one @ ..], [b, other @ ..]) => *a < *b || *a == *b && is_before(one, other),
    }
}

macro_rules! params {
    ($($name:ident: $kind:ident = $default:literal $(, 9: $default_of_9:literal)? [$unit:literal $(min $min:literal)? $(max $max:literal)?]
       { $($flag:ident)* } $text:literal;)*) => {
        /// The values of all parameters. A field has its parameter's name; `Duration` for seconds, `u64` for bytes,
        /// `u32` for counts (`u32::MAX` is "unlimited").
        #[derive(Clone, Debug, PartialEq)]
        pub struct Params {
            $(#[doc = $text] pub $name: ty!($kind),)*
            pub(super) protected: Vec<&'static str>,
            pub(super) compat: Compat,
        }

        impl Params {
            /// Placeholder values; `Params::default` puts the real defaults in.
            pub(super) fn blank() -> Self {
                Self { $($name: Default::default(),)* protected: Vec::new(), compat: Compat::default() }
            }
        }

        // `lookup` searches the table by halves: in another order some names aren't found, and no worker starts.
        const _: () = assert!(is_sorted(&[$(stringify!($name)),*]), "the parameters aren't sorted by name");

        /// Every parameter, sorted by name.
        pub static SPECS: &[Spec] = &[$(Spec {
            name: stringify!($name),
            kind: ParamKind::$kind,
            default: $default,
            default_of_9: limit!($($default_of_9)?),
            unit: $unit,
            min: limit!($($min)?),
            max: limit!($($max)?),
            flags: &[$(Flag::$flag),*],
            text: $text,
            get: |p: &Params| -> ParamValue { Field::value(&p.$name) },
            put: |p: &mut Params, v: ParamValue| Field::put(&mut p.$name, v),
        }),*];
    };
}

params! {
    accept_filter: Switch = "off" [""] { NotAvailable }
        "Kernel filters on listen sockets. Linux doesn't have them.";
    acceptor_sleep_decay: Real = "0.9" ["" min "0" max "1"] { Experimental NoEffect }
        "No effect here. In Varnish: the factor by which the pause in accepting shrinks after each accepted connection.";
    acceptor_sleep_incr: Seconds = "0.000" ["seconds" min "0.000" max "1.000"] { Experimental NoEffect }
        "No effect here. In Varnish: how much longer accepting pauses after each failure for lack of descriptors or memory.";
    acceptor_sleep_max: Seconds = "0.050" ["seconds" min "0.000" max "10.000"] { Experimental NoEffect }
        "No effect here. In Varnish: the longest pause between attempts to accept.";
    auto_restart: Switch = "on" ["bool"] {}
        "Start a new worker when the worker ends unexpectedly. Off: the manager waits for the CLI command start.";
    backend_dns_lazy: Switch = "off" ["bool"] { Own }
        "Load a VCL even if the name of a backend has no address now, or has several addresses of one family. The name is looked up until it has one; until then, fetches fail. Off refuses such a VCL, as Varnish does.";
    backend_dns_ttl: Seconds = "30.000" ["seconds" min "0.000"] { Own }
        "How often the name of a backend is looked up again. The system's resolver is used, including /etc/hosts. All addresses of the name are used. If a lookup fails, the known addresses stay in use. 0 looks a name up only when its VCL is loaded, as Varnish does.";
    backend_h2_streams: Count = "100" ["streams" min "1" max "10000"] { Own }
        "The largest number of concurrent requests on an HTTP/2 connection to a backend. The backend's own limit applies if it is smaller. More requests open another connection. A change applies to new connections.";
    backend_h2_window: Bytes = "0.25M" ["bytes" min "65535b" max "16M"] { Own }
        "How many bytes of a response body a backend may send over HTTP/2 before they are consumed. A larger window makes long bodies from a distant backend faster, but each response that a client reads slowly may take that much memory. A change applies to new connections.";
    backend_idle_timeout: Seconds = "60.000" ["seconds" min "1.000"] {}
        "How long an idle keep-alive connection to a backend is kept.";
    backend_local_error_holddown: Seconds = "10.000" ["seconds" min "0.000"] { Experimental }
        "How long no new connection to a backend is attempted after an attempt failed for a local reason: no local address or port left, or not permitted.";
    backend_remote_error_holddown: Seconds = "0.250" ["seconds" min "0.000"] { Experimental }
        "How long no new connection to a backend is attempted after an attempt failed for a remote reason: refused or unreachable.";
    backend_tls_strict_end: Switch = "on" ["bool"] { Own }
        "Require close_notify at the end of a body that ends with the TLS connection to its backend. Without it the body counts as truncated and the fetch fails, so an attacker who cuts the connection can't make part of a body look complete. Off accepts a plain close, as Varnish does; use it for a backend that doesn't send close_notify. Bodies with Content-Length or chunked encoding aren't affected.";
    backend_wait_limit: Count = "0" ["fetches" min "0"] { Own }
        "How many fetches may wait for a connection to a backend that is at its .max_connections. .wait_limit overrides it per backend. 0: no fetch waits; it fails at once because the backend is busy.";
    backend_wait_timeout: Timeout = "0.000" ["seconds" min "0.000"] { Own }
        "How long a fetch waits for a connection to a backend that is at its .max_connections. .wait_timeout overrides it per backend. 0: it doesn't wait.";
    ban_any_variant: Count = "10000", 9: "0" ["checks" min "0"] { Own }
        "How many variants of an object a lookup tests against bans although they may not match the request. 0: only those that match. Variants that are seldom requested are then never tested against bans on req.url and req.http, and such bans stay on the list. Also in Varnish 7.7 and later.";
    ban_cutoff: Count = "0" ["bans" min "0"] { Experimental }
        "Bounds the length of the ban list: the ban lurker removes objects that reach this many bans down the list, as if they were banned. 0: no limit.\nRarely used objects are removed first. Objects in use are tested at each lookup and stay near the top of the list.";
    ban_dups: Switch = "on" ["bool"] {}
        "Mark an older ban as completed when an identical ban is added.";
    ban_lookup_limit: Count = "10000" ["bans" min "0"] { Own }
        "Bounds the cost of a hit: a lookup that would have to test an object against more bans than this treats the object as banned. 0: no limit.";
    ban_lurker_age: Seconds = "60.000" ["seconds" min "0.000"] {}
        "How old a ban must be before the ban lurker works on it. Bans tend to come in bursts, and lookups do part of the work meanwhile.";
    ban_lurker_batch: Count = "1000" ["" min "1"] {}
        "How many objects the ban lurker examines before it sleeps for ban_lurker_sleep.";
    ban_lurker_holdoff: Seconds = "0.010" ["seconds" min "0.000"] { Experimental NoEffect }
        "No effect here: the ban lurker doesn't delay lookups. In Varnish: how long the lurker sleeps when a lookup needs a lock that it holds.";
    ban_lurker_sleep: Seconds = "0.010" ["seconds" min "0.000"] {}
        "How long the ban lurker sleeps after ban_lurker_batch objects. 0 turns the lurker off.";
    between_bytes_timeout: Timeout = "60.000" ["seconds" min "0.000"] {}
        "How long a backend may be silent within a response before the fetch fails. VCL can override it per backend or per fetch. It doesn't apply to pipes. 0: no limit; with --compat 9, every pause fails the fetch.";
    bgfetch_limit: Count = "1000" ["fetches" min "0"] { Own }
        "How many background fetches, which refresh stale objects, may run at the same time. Beyond the limit stale objects are delivered without a refresh, and the most requested ones are refreshed first. 0: no limit.";
    bots: Text = "off" [""] { Own }
        "Charge clients and their groups with what they cost the backends, and judge who crawls. off: nothing is counted. observe: each request of a crawler that needs a backend is logged (Notice) and counted (MAIN.bot_crawl). on: crawlers get a share of the backends' time (bots_share), stale objects however old they are, and bots_status beyond that. --bots is the same. See bots.md.";
    bots_half_life: Seconds = "1800.000" ["seconds" min "60.000"] { Own }
        "Time after which a charge counts half. A change begins new accounts.";
    bots_learning: Seconds = "120.000" ["seconds" min "0.000"] { Own }
        "How long a new worker learns which objects several clients ask for, before it holds up clients that it doesn't know.";
    bots_least: Real = "0.1" ["seconds per second" min "0.001" max "1000"] { Own }
        "Backend time per second that readers and crawlers together may use before bots_share applies. Set it to a tenth of the number of requests that the backends handle at the same time.";
    bots_memory: Bytes = "8M" ["bytes" min "64k" max "1G"] { Own }
        "Memory of the accounts. The accounts of those that read least make room for new ones. A change begins new accounts.";
    bots_patience: Seconds = "2.000" ["seconds" min "0.000" max "60.000"] { Own }
        "How long a crawler's request may wait for its share of the backends' time. Beyond that it is refused.";
    bots_share: Real = "4" ["percent" min "0" max "99"] { Own }
        "Crawlers' share of all backend time that is used. Each verified bot (req.bot.verified) has the same share of its own.";
    bots_status: Count = "429" ["" min "400" max "599"] { Own }
        "Status of the response to a crawler's request that is refused. It has Retry-After.";
    brotli_quality: Count = "5" ["" min "0" max "11"] { Own }
        "Compression level for br, for bodies that are compressed while they are fetched and for the first copy of an object in br. Above 9 a fetch delays other requests of its thread. A background thread compresses often delivered bodies again at level 11.";
    cache_status: Switch = "off" ["bool"] { Own }
        "Add a Cache-Status header (RFC 9211) to responses. It says whether the request was a hit, and if not, why. vcl_deliver sees it and can change it.";
    cc_command: Text = "exec cc -fpic -shared -o %o %s" [""] { MustReload BuildOptions NoEffect }
        "No effect here: VCL isn't compiled through C.";
    cc_warnings: Text = "-Wall -Werror" [""] { MustReload BuildOptions NoEffect }
        "No effect here: VCL isn't compiled through C.";
    class_workers: Count = "0" ["fetches" min "0"] { Own }
        "The largest number of concurrent fetches of all classes together (see the parameter classes). If classes compete, the next free worker goes to the class that has the fewest relative to its share. 0: only the limits of each class apply.";
    classes: Text = "" [""] { Own }
        "Classes of requests with separate backend queues, as in dear:workers=4,queue=50,patience=10s; default:workers=100. workers=N is the largest number of concurrent fetches of the class. queue=N is the number of slots in its queue (10 times workers unless given), served in order. patience=TIME is the longest wait (10s). Other requests get a 503 with Retry-After at once. VCL sets a request's class (req.class). Otherwise the request is in the class with the largest above=TIME that backends take for similar requests, or in the class named default, if declared. share=N is the weight under class_workers (1). page=on gives browsers a waiting page that reloads and keeps their position, in a waiting room for room=N browsers (10000).";
    cli_limit: Bytes = "48k", 9: "64k" ["bytes" min "128b" max "99999999b"] {}
        "The largest CLI reply. A longer reply is truncated and has status 201 instead of 200. JSON replies (-j) are never truncated; param.show is only truncated if this is below its default.";
    cli_timeout: Timeout = "60.000" ["seconds" min "0.000"] {}
        "How long the manager waits for the worker's CLI reply. A worker that doesn't reply in time is killed and replaced.";
    clock_skew: Count = "10" ["seconds" min "0"] {}
        "How far a backend's clock may differ from ours before its Date header is ignored.";
    clock_step: Seconds = "1.000" ["seconds" min "0.000"] { NoEffect }
        "No effect here: lifetimes use the monotonic clock, so the system clock may jump. In Varnish: the largest jump that is tolerated.";
    coding_memory: Bytes = "0.25G" ["bytes" min "1M"] { Own }
        "The most memory that the windows and tables of br and zstd may take in all transactions together. Beyond it a body that has to be decompressed fails (MAIN.coding_refused). Compression counts towards the limit but doesn't fail.";
    connect_timeout: Timeout = "3.500" ["seconds" min "0.000"] {}
        "How long connecting to a backend may take. VCL can override it per backend or per fetch. 0: no limit.";
    cookie_drop: Text = "" [""] { Own }
        "Cookies that are removed from a client's request before vcl_recv. Separate names by blanks or commas; a * at the end of a name matches any rest, as in _ga* _gid _fbp. If no cookie is left, the Cookie header is removed.";
    cookie_keep: Text = "" [""] { Own }
        "Allow list of cookies: all others are removed from a client's request before vcl_recv. The syntax is that of cookie_drop, which may still remove some of them. Empty keeps all.";
    critbit_cooloff: Seconds = "180.000" ["seconds" min "60.000" max "254.000"] { Wizard NoEffect }
        "No effect here: the index isn't a critbit tree.";
    debug: Debug = "none" [""] {}
        "Switches for debugging and testing.";
    default_grace: Seconds = "10.000" ["seconds" min "0.000"] { ObjSticky }
        "How long an object may be served stale after its TTL while a fresh copy is fetched, unless the backend or VCL sets another grace.";
    default_keep: Seconds = "0.000" ["seconds" min "0.000"] { ObjSticky }
        "How long an object is kept after its TTL and grace for conditional fetches, unless VCL sets another keep.";
    default_ttl: Seconds = "120.000" ["seconds" min "0.000"] { ObjSticky }
        "TTL of an object if neither the backend nor VCL sets one.";
    dictionary_max: Count = "1000" ["dictionaries" min "0" max "10000"] { Own }
        "How many compression dictionaries are kept. 0 turns them off. See dictionary_space.";
    dictionary_space: Bytes = "32M" ["bytes" min "0b"] { Own }
        "How many bytes all compression dictionaries (RFC 9842) may take. A dictionary is a copy of the decompressed body of a response with Use-As-Dictionary; it is kept longer than its object, because clients have it. One takes at most a quarter of the space. Beyond dictionary_space or dictionary_max the one that was used longest ago is dropped. 0: Use-As-Dictionary and Available-Dictionary have no effect here.";
    digest_body_limit: Bytes = "16M" ["bytes" min "0b"] { Own }
        "The largest stored body that is hashed for a client's Want-Repr-Digest or Want-Content-Digest (RFC 9530). At most 4 bodies are hashed at the same time. 0: these headers have no effect here.";
    digest_check: Switch = "on" ["bool"] { Own }
        "Verify the bodies of origins' responses by Content-Digest and Repr-Digest (RFC 9530): sha-256 and sha-512, in the head or, where Trailer announces them, behind the body. A body that doesn't match fails its fetch (MAIN.fetch_digest, FetchError): it isn't stored, and a client that has a part of it sees that the rest is missing. Responses without these headers cost nothing.";
    disk_timeout: Seconds = "0.500" ["seconds" min "0.001"] { Own }
        "How long a request waits for a store on disk (-s file, -s persistent) to read an object. After that it continues as a miss (MAIN.home_late). A read of one second is given up in any case. A short body is read together with its object. For a long body the first piece is read before the response begins; if it takes longer than this, the response waits for it.";
    early_hints: Text = "off" [""] { Own }
        "Send 103 (Early Hints) to a client while the page that it requests is fetched. The 103 has the Link headers (preload, modulepreload, preconnect) of the page's last fetch. off; h2: over HTTP/2 and HTTP/3 only; all: over HTTP/1.1 as well, where old clients may mistake the 103 for the response.";
    esi_parallel: Count = "1" ["includes" min "1" max "64"] { Own }
        "How many includes of one page, nested ones counted, may be fetched at the same time. They are delivered in the page's order; an include that is ready before its turn buffers at most 256 KB. 1 fetches them one after the other, as Varnish does.";
    evict_by: Text = "requests" [""] { Own }
        "The aim of eviction, if a store is full. requests: most requests are hits. bytes: most bytes are, so large objects in use stay. cost: the origin saves most time, so objects stay whose response began late. The time isn't known for objects that were stored by a former worker or are read back from a disk; they count as average ones.";
    experimental: Experimental = "none" [""] {}
        "Switches for experimental features.";
    feature: Feature = "+https_scheme,+validate_headers", 9: "none,+https_scheme,+validate_headers,+vcl_req_reset" [""] {}
        "Switches for optional features.";
    fetch_chunksize: Bytes = "16k" ["bytes" min "4k"] { Experimental NoEffect }
        "No effect here. In Varnish: the size of the pieces in which a body of unknown length is stored.";
    fetch_maxchunksize: Bytes = "0.25G" ["bytes" min "64k"] { Experimental NoEffect }
        "No effect here. In Varnish: the largest piece of storage that a fetch allocates.";
    first_byte_timeout: Timeout = "60.000" ["seconds" min "0.000"] {}
        "How long a backend may take from the request to the first byte of its response before the fetch fails. VCL can override it per backend or per fetch. It doesn't apply to pipes. 0: a fetch fails unless its response is there at once.";
    form_space: Bytes = "64M" ["bytes" min "0b"] { Own }
        "How many bytes all forms may take. A form is a copy of a stored body in another encoding: decompressed gzip, br or zstd, or compressed differently. It is made after a few deliveries that could use it and kept while it is used. Forms count towards their object's store, up to a quarter of it. A form is removed with its object or before it. 0: no forms are kept, so each delivery converts the body again.";
    forwarded: Switch = "off" ["bool"] { Own }
        "Add an element to Forwarded (RFC 7239) of each request before VCL runs: the client's address (for), the host that it asked for, and http or https (proto), as for X-Forwarded-For and x_forwarded_proto. Elements that came with the request stay in front of it: only those of proxies that you know can be trusted. A header that is no valid list of elements is dropped first.";
    gzip_buffer: Bytes = "32k" ["bytes" min "2k"] { Experimental NoEffect }
        "No effect here. In Varnish: the size of the buffer for compression and decompression.";
    gzip_level: Count = "6" ["" min "0" max "9"] {}
        "Compression level for gzip: 0 none, 1 fastest, 9 smallest.";
    gzip_memlevel: Count = "8" ["" min "1" max "9"] {}
        "Memory level of gzip compression: 1 least memory and slowest, 9 most memory and fastest.";
    h2_header_table_size: Bytes = "4k" ["bytes" min "0b"] {}
        "Size of the HPACK table for decoding the headers of requests.";
    h2_initial_window_size: Bytes = "65535b" ["bytes" min "65535b" max "2147483647b"] {}
        "Initial flow-control window of a stream: how many bytes of a request body a client may send before they are read.";
    h2_limit_continuations: Count = "32" ["frames" min "0"] { Own }
        "How many CONTINUATION frames one header block may have. Beyond it the connection is closed with ENHANCE_YOUR_CALM, as for all h2_limit_ parameters. 0: no limit.";
    h2_limit_empty_data: Count = "1000" ["frames" min "0"] { Own }
        "How many empty DATA frames a client may send on a connection within h2_rapid_reset_period. 0: no limit.";
    h2_limit_header_bytes: Bytes = "128k" ["bytes" min "0b"] { Own }
        "The largest compressed header block that a client may send. 0: no limit.";
    h2_limit_ignored: Count = "1000" ["frames" min "0"] { Own }
        "How many frames of unknown types, or for closed streams, a client may send on a connection within h2_rapid_reset_period. 0: no limit.";
    h2_limit_pings: Count = "1000" ["frames" min "0"] { Own }
        "How many PING frames a client may send on a connection within h2_rapid_reset_period, in addition to one for each DATA frame that it received. 0: no limit.";
    h2_limit_priorities: Count = "1000" ["frames" min "0"] { Own }
        "How many PRIORITY and PRIORITY_UPDATE frames a client may send on a connection within h2_rapid_reset_period, in addition to a few for each request. 0: no limit.";
    h2_limit_refused: Count = "1000" ["streams" min "0"] { Own }
        "How many streams beyond h2_max_concurrent_streams a client may open on a connection within h2_rapid_reset_period. 0: no limit.";
    h2_limit_settings: Count = "100" ["frames" min "0"] { Own }
        "How many SETTINGS frames a client may send on a connection within h2_rapid_reset_period. 0: no limit.";
    h2_limit_small_data: Count = "100000" ["frames" min "0"] { Own }
        "How many DATA frames of less than 32 bytes a client may send on a connection within h2_rapid_reset_period, in addition to one for each DATA frame that it received. Frames that end their stream don't count. 0: no limit.";
    h2_limit_small_windows: Count = "1000" ["frames" min "0"] { Own }
        "How often within h2_rapid_reset_period the windows of a client may be so small that only a few bytes can be sent at a time. 0: no limit.";
    h2_limit_stream_errors: Count = "100" ["streams" min "0"] { Own }
        "How many streams of a connection may be reset within h2_rapid_reset_period because of the client's protocol errors. 0: no limit.";
    h2_limit_unread: Bytes = "64k" ["bytes" min "0b"] { Own }
        "How many bytes of replies to PING, SETTINGS and other control frames may be queued for a client that doesn't read them. 0: no limit.";
    h2_limit_window_updates: Count = "1000" ["frames" min "0"] { Own }
        "How many WINDOW_UPDATE frames a client may send on a connection within h2_rapid_reset_period, in addition to a few for each DATA frame that it received. 0: no limit.";
    h2_max_concurrent_streams: Count = "100" ["streams" min "0"] {}
        "How many streams a client may have open on a connection, at most 10000. Streams beyond it are reset with REFUSED_STREAM. A stream that its client has reset counts until its request has ended. A change applies to new connections.";
    h2_max_frame_size: Bytes = "16k" ["bytes" min "16k" max "16777215b"] {}
        "The largest frame payload that is accepted.";
    h2_max_header_list_size: Bytes = "2147483647b", 9: "0b" ["bytes" min "0b"] {}
        "The largest decompressed header list (headers of a request or trailers, 32 bytes more for each header) that is accepted. SETTINGS announces it, and a request beyond it gets 431, or 414 if its URL is too long. With --compat 9, or with 0: http_req_size takes that part, and a client whose header list is larger than this parameter loses its connection. 0: one and a half times http_req_size. A value below http_req_size: no such limit.";
    h2_rapid_reset: Seconds = "1.000" ["seconds" min "0.000"] { Own }
        "A stream that its client resets within this time after it began counts towards h2_rapid_reset_limit.";
    h2_rapid_reset_limit: Count = "100" ["streams" min "0"] { Own }
        "How many streams of a connection a client may reset soon after they began (h2_rapid_reset), within h2_rapid_reset_period. Beyond it the connection is closed with ENHANCE_YOUR_CALM. 0: no limit.";
    h2_rapid_reset_period: Seconds = "60.000" ["seconds" min "1.000"] { Own }
        "The period to which the counts of h2_rapid_reset_limit and the h2_limit_ parameters apply. Counts decay gradually over it.";
    h2_rx_unread: Bytes = "384k" ["bytes" min "65535b" max "1G"] { Own }
        "How many bytes of unread request bodies a connection may buffer. The connection's receive window is never larger, whatever h2_rx_window_low_water says. A change applies to new connections.";
    h2_rx_window_increment: Bytes = "1M" ["bytes" min "1M" max "1G"] { Wizard }
        "How much credit a WINDOW_UPDATE for request bodies grants.";
    h2_rx_window_low_water: Bytes = "10M" ["bytes" min "65535b" max "1G"] { Wizard }
        "The connection's receive window for request bodies is kept at least this large, as far as h2_rx_unread allows.";
    h2_rxbuf_storage: Text = "Transient" [""] { MustRestart NoEffect }
        "No effect here: request bodies aren't kept in a store. Their memory is bounded by their windows.";
    h2_window_timeout: Timeout = "5.000" ["seconds" min "0.000"] { Own }
        "How long a stream may wait for its client to open a closed flow-control window before it is reset, if more than four streams of the connection wait like this. If no stream of the connection can send, the connection is closed with ENHANCE_YOUR_CALM. 0: no limit; with --compat 9, it waits not at all. idle_send_timeout also applies, for any number of streams.";
    h3_alt_svc: Seconds = "86400.000" ["seconds" min "0.000"] { Own }
        "How long clients of an https listener may remember that HTTP/3 is available on the same port (max-age of Alt-Svc). The header is sent if there is a quic listener on that port and the response has no Alt-Svc header. 0: it isn't sent.";
    h3_early_data: Switch = "off" ["bool"] { Own }
        "Let returning QUIC clients send requests before the handshake is complete (0-RTT). GET, HEAD and OPTIONS without a body are answered at once, with the header Early-Data: 1 in VCL and in the request to the backend. Other requests wait for the handshake. A session can be used once, with the worker that issued it.";
    h3_idle_timeout: Seconds = "30.000" ["seconds" min "1.000" max "600.000"] { Own }
        "How long a QUIC connection may be silent before it is closed. A connection without a request is closed after timeout_idle.";
    h3_limit_control: Count = "100" ["frames" min "0"] { Own }
        "How many GOAWAY and MAX_PUSH_ID frames a client may send on an HTTP/3 connection within h3_reset_period. Beyond it the connection is closed with H3_EXCESSIVE_LOAD, as for all h3_limit_ parameters unless they say otherwise. 0: no limit.";
    h3_limit_head_bytes: Bytes = "0.25M" ["bytes" min "0b"] { Own }
        "How many bytes of incomplete headers and trailers an HTTP/3 connection may buffer for all its requests together. A request beyond it is refused and counts towards h3_reset_limit. If only one request is incomplete, it may use all of http_req_size. 0: no limit.";
    h3_limit_ignored: Count = "1000" ["frames" min "0"] { Own }
        "How many frames of unknown types, empty DATA frames and QPACK table instructions a client may send on an HTTP/3 connection within h3_reset_period. 0: no limit.";
    h3_limit_paths: Count = "100" ["frames" min "0"] { Own }
        "How often within h3_reset_period a QUIC client may change its address, send PATH_CHALLENGE, or issue or retire connection IDs. This and the limits of other QUIC frames are checked every two seconds. 0: no limit.";
    h3_limit_pings: Count = "1000" ["frames" min "0"] { Own }
        "How many PING frames a client may send on a QUIC connection within h3_reset_period. 0: no limit.";
    h3_limit_priorities: Count = "1000" ["frames" min "0"] { Own }
        "How many PRIORITY_UPDATE frames a client may send on an HTTP/3 connection within h3_reset_period, in addition to a few for each request. 0: no limit.";
    h3_limit_stops: Count = "1000" ["frames" min "0"] { Own }
        "How many STOP_SENDING and RESET_STREAM frames a client may send on a QUIC connection within h3_reset_period. 0: no limit.";
    h3_limit_streams: Count = "100" ["streams" min "0"] { Own }
        "How many unidirectional streams that are of unknown types, or end before their type is known, a client may open on an HTTP/3 connection within h3_reset_period. 0: no limit.";
    h3_limit_windows: Count = "1000" ["frames" min "0"] { Own }
        "How many QUIC frames that change windows or ask for larger ones a client may send on a connection within h3_reset_period, in addition to a few for each data frame in either direction. 0: no limit.";
    h3_max_concurrent_streams: Count = "100" ["streams" min "1" max "10000"] { Own }
        "How many concurrent requests a client may have on an HTTP/3 connection. Their slots are allocated when the connection begins: 5 KB for 100, 84 KB for 1000, 690 KB for 10000.";
    h3_qlog: Count = "0" ["connections" min "0" max "1000"] { Own }
        "How many of the next new QUIC connections write a qlog (packets, losses and the recovery state as JSON, for qvis and similar tools). The files are qlog-NUMBER.sqlog in _.vsm_child in the working directory, at most 16 MB each; they are deleted when the worker ends. To record more, set 0 and then a number again.";
    h3_reset_limit: Count = "100" ["requests" min "0"] { Own }
        "How many requests of an HTTP/3 connection may fail because of the client within h3_reset_period: it cancels them, or they violate the protocol. Beyond it the connection is closed with H3_EXCESSIVE_LOAD. 0: no limit.";
    h3_reset_period: Seconds = "60.000" ["seconds" min "1.000"] { Own }
        "The period to which the counts of h3_reset_limit and the h3_limit_ parameters apply. Counts decay gradually over it.";
    h3_retry_threshold: Count = "100" ["handshakes" min "0"] { Own }
        "If this many QUIC or TLS handshakes are in progress on a thread, a new QUIC client must first prove its address (Retry). That costs the client a round trip and the server no memory. 0: every client must.";
    h3_send_window: Bytes = "1M" ["bytes" min "64k" max "1G"] { Own }
        "How many bytes of responses may be in transit, unacknowledged, on an HTTP/3 connection.";
    h3_stream_window: Bytes = "128k" ["bytes" min "16k" max "1G"] { Own }
        "How many bytes of a request body an HTTP/3 client may send before they are read.";
    h3_window: Bytes = "0.50M" ["bytes" min "64k" max "1G"] { Own }
        "How many bytes of all request bodies of a connection an HTTP/3 client may send before they are read.";
    hash_body_limit: Bytes = "64k" ["bytes" min "0b" max "1G"] { Own }
        "Largest request body that a cache key may cover (QUERY, and POST with req.hash_body). A request with a larger body is passed. The body is kept in memory until the request ends, in the store Transient unless req.storage names another one. A body that std.cache_req_body() has kept already is covered whatever its size.";
    http1_iovs: Count = "64" ["struct iovec (=16 bytes)" min "5" max "1024"] { Wizard NoEffect }
        "No effect here: the number of buffers in a gathered write isn't limited by a parameter.";
    http_brotli_support: Switch = "off" ["bool"] { Own }
        "Use br between backends and clients: request it from backends, store it, compress objects stored in gzip with it if clients that prefer br request them often, and decompress it for clients that don't accept it. The Accept-Encoding of requests becomes a list of the encodings that can be made here, in the client's order of preference. Requires http_gzip_support. Off: br is stored and delivered as backends send it, and beresp.do_brotli has no effect.";
    http_gzip_support: Switch = "on" ["bool"] {}
        "Request gzip from backends, store it, and decompress it for clients that don't accept gzip.\nThe Accept-Encoding of requests becomes \"gzip\" or is removed. Off: beresp.do_gzip and beresp.do_gunzip have no effect.";
    http_interim: Switch = "on" ["bool"] { Own }
        "Forward a backend's interim responses to the client that waits for the final one: 103 (Early Hints) with its Link and Content-Security-Policy headers, 102 without headers. With http_lenient all interim responses are forwarded with all headers. VCL doesn't see them. Off drops them.";
    http_lenient: Switch = "off" ["bool"] { Own }
        "Accept requests that no cache should forward. Otherwise they are refused before VCL runs: CONNECT, an invalid Host, a target that is neither a path nor an http URL, a fragment in the URL, a malformed chunked body. The built-in VCL then pipes unknown methods (otherwise it answers 501) and accepts any target. A pipe of a request with Upgrade forwards the client's data before the backend has switched protocols, as in Varnish 7.";
    http_lone_lf: Switch = "on" ["bool"] { Own }
        "Accept requests without a body whose lines end with LF instead of CRLF, as old purge scripts send them. Off: they are refused with 400. Such a request with a body is always refused unless http_lenient is on, because another server might read it as two requests. MAIN.req_lone_lf counts both.";
    http_max_hdr: Count = "64" ["header lines" min "32" max "65535"] {}
        "The largest number of header lines in a request or response. The first line counts as five.";
    http_range_parts: Count = "16" ["ranges" min "1" max "1000"] { Own }
        "How many ranges of one request are answered (multipart/byteranges). A request for more ranges gets the whole object. 1: a request with a second range is refused with 416, as in Varnish.";
    http_range_support: Switch = "on" ["bool"] {}
        "Answer requests that have a Range header with 206. Off: the header is ignored.";
    http_req_hdr_len: Bytes = "8k" ["bytes" min "40b"] {}
        "The longest header line of a request, including continuation lines. A request with a longer one gets 400, over HTTP/2 and HTTP/3 431.";
    http_req_overflow_status: Count = "0" ["status" min "0" max "500"] { Own }
        "Status of the response to an HTTP/1 request whose header is larger than http_req_size, 400 to 500. 0: the connection is closed without a response. Also in Varnish 7.7 and later.";
    http_req_size: Bytes = "32k" ["bytes" min "0.25k"] {}
        "The largest header of a request, including the request line. Beyond it, http_req_overflow_status applies; over HTTP/3, and over HTTP/2 as h2_max_header_list_size says, the request gets 431, or 414 if its URL is too long.";
    http_resp_hdr_len: Bytes = "8k" ["bytes" min "40b"] {}
        "The longest header line of a backend response, including continuation lines. A longer one makes the fetch fail.";
    http_resp_size: Bytes = "32k" ["bytes" min "0.25k"] {}
        "The largest header of a backend response, including the status line. A larger one makes the fetch fail.";
    http_zstd_support: Switch = "off" ["bool"] { Own }
        "As http_brotli_support, for zstd.";
    idle_send_timeout: Timeout = "60.000" ["seconds" min "0.000"] { DelayedEffect }
        "How long a client may read nothing of a response before the connection is closed. A client that pauses for longer keeps its connection until send_timeout is over. 0: send_timeout alone counts.";
    listen_depth: Count = "1024" ["connections" min "0"] { MustRestart }
        "Length of the kernel's queue of connections that aren't accepted yet (backlog).";
    log_no_hit: Switch = "off" ["bool"] { Own }
        "Log why a request wasn't a hit: a Notice record \"lacquer: no hit: REASON\" near the end of its transaction. lacquer-explain(1) lists the reasons. The counters NOHIT.* count them in any case.";
    loop_detection: Switch = "on" ["bool"] { Own }
        "Answer 508 to a request that this server sent to one of its own listeners and that came back to wait for itself: its lookup is for the object that it was to fetch, or it came back for the eighth time. A lookup with req.hash_ignore_busy or req.hash_always_miss waits for nobody. Such requests have a mark in CDN-Loop (RFC 8586). Also refuse a VCL whose every request would come back this way, because its backend is one of the server's own listeners.";
    lru_interval: Seconds = "2.000" ["seconds" min "0.000"] { Experimental NoEffect }
        "No effect here. In Varnish: a hit moves an object in the LRU list at most this often.";
    max_esi_depth: Count = "5" ["levels" min "0"] {}
        "How deep ESI includes may be nested.";
    max_fetches_per_ip: Count = "25" ["percent" min "1" max "100"] { Own }
        "The share of thread_pools times thread_pool_max (fetches and pipes in progress) that one client address may use, but at least 100 fetches. A request beyond it is answered 503 with Retry-After (MAIN.fetch_limited_ip); hits need no fetch. Addresses are grouped as for max_sessions_per_ip. A fetch counts until it ends, even if its client has disconnected. 100: no limit. Set it to 100 if all clients come from a few addresses, as behind a proxy that doesn't send the PROXY protocol.";
    max_restarts: Count = "4" ["restarts" min "0"] {}
        "How often VCL may restart a request.";
    max_retries: Count = "4" ["retries" min "0"] {}
        "How often VCL may retry a fetch.";
    max_sessions: Count = "0" ["connections" min "0"] { Own }
        "The largest number of client connections. Further ones are refused. 0: only the limit of file descriptors applies.";
    max_sessions_ipv4_prefix: Count = "32" ["bits" min "1" max "32"] { Own }
        "Prefix length by which IPv4 clients are grouped for max_sessions_per_ip and max_fetches_per_ip. Addresses with the same prefix count as one client.";
    max_sessions_ipv6_prefix: Count = "64" ["bits" min "1" max "128"] { Own }
        "Prefix length by which IPv6 clients are grouped for max_sessions_per_ip and max_fetches_per_ip. Addresses with the same prefix count as one client.";
    max_sessions_per_ip: Count = "0" ["connections" min "0"] { Own }
        "The largest number of connections from one client address. Further ones are refused. 0: no limit.";
    max_vcl: Count = "100" ["" min "0"] {}
        "How many VCLs may be loaded before max_vcl_handling applies. Labels don't count.";
    max_vcl_handling: Count = "1" ["" min "0" max "2"] {}
        "What happens at max_vcl: 0 nothing, 1 a warning, 2 loading is refused.";
    memory_limit: BytesOrAuto = "0b" ["bytes" min "0b"] { Own }
        "The most memory that the manager and the worker may take together: stores in memory (-s, Transient included), index, transactions in progress, buffers, log, connections, modules, program. auto is nine tenths of the cgroup's limit, or of the machine's memory if the cgroup has none. 0: no limit. Values below 32M are refused.\nA sixteenth of the limit (at least 4M, at most 512M) is a reserve, used in four steps. 1: buffers and unused heap memory are released, and stores stop growing (MAIN.mem_trim). 2: objects are evicted from the store that holds most (mem_evict). 3: no background fetch starts; stale objects are still delivered (mem_bgfetch). 4: requests that need a fetch get a 503 with Retry-After, and at the limit all requests do (mem_shed). A step ends when there is room again. Each is logged as a Notice. lacquer memory shows what takes the memory.\nThe log alone takes vsl_space. A store in a file doesn't count, because the kernel reclaims its pages.";
    min_recv_rate: Bytes = "0b" ["bytes per second" min "0b"] { Own }
        "Disconnects a client that sends its request body slower than this, measured over 5 seconds of waiting for the client. 0: no limit. It ends uploads that occupy a backend connection by sending a byte every few seconds. gRPC streams may legitimately be as slow.";
    min_send_rate: Bytes = "0b" ["bytes per second" min "0b"] { Own }
        "Disconnects a client that reads a response slower than this, measured over 5 seconds of waiting for the client. 0: no limit.";
    negative_ttl: Text = "" [""] { Own }
        "The TTL of responses with status 400 to 599 that don't say how long they may be cached. Entries such as 404:10s or 5xx:1s are separated by blanks or commas; the first that matches counts. Such a response has no grace and no keep. VCL can override all of it.";
    nuke_limit: Count = "50" ["allocations" min "0"] { Experimental }
        "How many objects may be evicted to make room for one.";
    pass_abort: Switch = "off" ["bool"] { Own }
        "Cancel a passed GET or HEAD if its client disconnects before the response is there, so the backend doesn't work in vain. A client that closes only its sending side can't be distinguished from one that has disconnected, and gets no response. Off lets the fetch continue to its first byte of body, as Varnish does.";
    pcre2_depth_limit: Count = "20" ["" min "1"] { NoEffect }
        "No effect here: most regular expressions run in linear time, and pcre2_match_limit bounds the others.";
    pcre2_jit_compilation: Switch = "on" ["bool"] { NoEffect }
        "No effect here: regular expressions are compiled to automata.";
    pcre2_match_limit: Count = "10000" ["" min "1"] {}
        "The largest number of steps of a regular expression that needs backtracking. Most run in linear time here and have no limit.";
    peers_connect_timeout: Seconds = "0.100" ["seconds" min "0.001"] { Own }
        "With --peers: how long connecting to the owner of a key may take before the origin is asked instead.";
    peers_first_byte_timeout: Seconds = "0.100" ["seconds" min "0.001"] { Own }
        "With --peers: how long the owner of a key may be silent before the origin is asked instead. An owner that has to fetch the object sends a sign of life at once and then every second; the next one may be late by ten times this.";
    peers_hot: Count = "100" ["requests per second" min "0" max "1000000"] { Own }
        "With --peers: a key that other members request from its owner more often than this gets a second owner for a while. 0: never.";
    ping_interval: Count = "3" ["seconds" min "0"] { MustRestart }
        "How often the manager checks that the worker replies. 0: never.";
    pipe_sess_max: Count = "0" ["connections" min "0"] {}
        "The largest number of pipes in progress. Further ones are refused. 0: no limit.";
    pipe_task_deadline: Timeout = "0.000" ["seconds" min "0.000"] { Own }
        "How long a pipe may last in total, even if data is moving. 0: no limit. VCL can override it per pipe (bereq.task_deadline).";
    pipe_timeout: Timeout = "60.000" ["seconds" min "0.000"] {}
        "How long a pipe may be idle in both directions before it is closed. 0: no limit; with --compat 7.1, a pipe ends when nothing is to be read.";
    pool_req: Pool = "10,100,10" [""] { NoEffect }
        "No effect here: there is no such pool. In Varnish: min_pool, max_pool, max_age (seconds) of the pool of requests.";
    pool_sess: Pool = "10,100,10" [""] { NoEffect }
        "No effect here: there is no such pool. In Varnish: min_pool, max_pool, max_age (seconds) of the pool of sessions.";
    pool_vbo: Pool = "10,100,10" [""] { NoEffect }
        "No effect here: there is no such pool. In Varnish: min_pool, max_pool, max_age (seconds) of the pool of fetches.";
    prefer_ipv6: Switch = "off" ["bool"] {}
        "Try IPv6 first when connecting to backends that have addresses of both kinds.";
    proxy_status: Text = "name" [""] { Own }
        "What the Proxy-Status header (RFC 9209) of responses that are generated here says of their cause: off, name or address. vcl_backend_error, vcl_synth and vcl_deliver see it and can unset it. With name, the next hop is the backend's name in VCL, which any client can read; a name that VCL couldn't declare is left out, because modules put addresses into those. With address, it is the backend's address, and details name hosts, certificates and probes: for servers whose clients are your own proxies.";
    query_drop: Text = "" [""] { Own }
        "Query arguments that are removed from a client's URL before vcl_recv. They are then neither part of the cache key nor sent to the backend. Separate names by blanks or commas; a * at the end of a name matches any rest, as in utm_* fbclid gclid.";
    query_keep: Text = "" [""] { Own }
        "Allow list of query arguments: all others are removed from a client's URL before vcl_recv. The syntax is that of query_drop, which may still remove some of them. Empty keeps all.";
    rfc9111_heuristic: Count = "10" ["percent" min "0" max "100"] { Own }
        "With feature=+rfc9111 (or req.rfc9111): the TTL of a response without explicit freshness, in percent of the time since its Last-Modified. 0: such a response isn't fresh.";
    rfc9111_heuristic_max: Seconds = "86400.000" ["seconds" min "0.000"] { Own }
        "The longest TTL that rfc9111_heuristic may give.";
    rfc9111_keep: Seconds = "3600.000" ["seconds" min "0.000"] { Own ObjSticky }
        "With feature=+rfc9111 (or req.rfc9111): how long a stale object is kept, instead of default_keep. It is used for revalidation, for stale-if-error, and while the origin can't be reached.";
    rfc9111_targeted: Text = "CDN-Cache-Control" [""] { Own }
        "With feature=+rfc9111 (or req.rfc9111): response headers that replace Cache-Control and Expires (RFC 9213). Separate names by blanks or commas; the first that is present counts: \"Lacquer-Cache-Control CDN-Cache-Control\".";
    rush_exponent: Count = "3" ["requests per request" min "1"] { Experimental }
        "How many waiting requests are woken if a fetch fails or doesn't start. A successful fetch wakes all of them.";
    send_timeout: Timeout = "600.000" ["seconds" min "0.000"] { DelayedEffect }
        "How long sending a whole response may take before the connection is closed. 0: no limit; with --compat 9, every response is cut off.";
    server_timing: Switch = "off" ["bool"] { Own }
        "Add a Server-Timing header to responses: hit or not, the time until the response began, and how much of it was spent waiting for the backend and for other requests' fetches. Browsers' developer tools display it. vcl_deliver sees it and can change it.";
    shortlived: Seconds = "10.000" ["seconds" min "0.000"] {}
        "Objects whose TTL, grace and keep together are shorter than this are stored in Transient.";
    shutdown_grace: Seconds = "0.000" ["seconds" min "0.000"] { Own }
        "How long a stopping worker may take to finish requests in progress. 0: it stops at once.";
    sigsegv_handler: Switch = "on" ["bool"] { MustRestart NoEffect }
        "No effect here. In Varnish: report where the worker crashed.";
    slice_ahead: Count = "1" ["slices" min "0" max "16"] { Own }
        "How many slices are fetched ahead of the one that is being sent to a client, within the client's range. More makes a whole response from a distant backend faster, but that many slices per client may be fetched in vain.";
    slice_min: Bytes = "0b" ["bytes" min "0b"] { Own }
        "Objects of at least this length are stored in slices, if the backend's response has Accept-Ranges: bytes, Content-Length and a validator. A range request then fetches only the slices that it needs. 0: only objects that VCL selects (beresp.do_slice). An object that fits into one slice is stored whole.";
    slice_size: Bytes = "1M" ["bytes" min "64k" max "64M"] { Own }
        "The size of a slice, a power of two. VCL can override it per fetch (bereq.slice_size). An object keeps the size with which it was stored.";
    startup_timeout: Timeout = "0.000" ["seconds" min "0.000"] { Own }
        "How long the manager waits for a worker that starts, if that is longer than cli_timeout. Also in Varnish 7.4 and later.";
    step_timing: Count = "100" ["steps" min "0"] { Own }
        "One in this many steps of a serving thread is timed. A step is one turn of a task; the thread's other clients wait for it (MAIN.longest_step, steps_timed, steps_long). Setting it resets longest_step. 1: every step is timed, and long ones are logged. 0: none is.";
    syslog_cli_traffic: Switch = "on" ["bool"] {}
        "Write CLI commands and replies to syslog.";
    tag_fields: Text = "" [""] { Own }
        "Response headers that list the object's tags, by which it can be purged (purge.tag, VCL). Separate names by blanks or commas: \"Surrogate-Key Cache-Tag\". Tags are separated by blanks in Surrogate-Key, by commas in Cache-Tag and Edge-Cache-Tag, by either in other headers; append =blank, =comma or =both to override this. import xkey adds xkey and X-HashTwo. Objects that are already stored get no tags.";
    tag_space: Bytes = "1G" ["bytes" min "0b"] { Own }
        "The most memory that the index of tags may take, in addition to the stores: about 13 bytes for each tag of an object, 40 bytes for an object, and 60 bytes plus its text for each different tag. An object whose tags don't fit isn't cached (XKEY.refused). 0: no limit.";
    tag_urls: Switch = "off" ["bool"] { Own }
        "Also tag each object with the requested host and URL, so that purge.url, purge.host and purge.prefix find it whatever vcl_hash does with them. It takes about 90 bytes plus the text for each URL, within tag_space. Objects that are already stored get no tags.";
    tcp_defer_accept: Switch = "on" ["bool"] { Own MustRestart }
        "Accept a client's connection only when its first bytes have arrived, or after a second of silence. With one request per connection this saves a third of the kernel's CPU time. Connections that send nothing are noticed a second later.";
    tcp_fastopen: Switch = "off" ["bool"] { MustRestart NoEffect }
        "No effect here. In Varnish: accept TCP Fast Open.";
    tcp_keepalive_intvl: Seconds = "75.000" ["seconds" min "1.000" max "100.000"] { Experimental }
        "Interval between TCP keep-alive probes on client connections.";
    tcp_keepalive_probes: Count = "9" ["probes" min "1" max "100"] { Experimental }
        "How many unanswered TCP keep-alive probes close a client connection.";
    tcp_keepalive_time: Seconds = "7200.000" ["seconds" min "1.000" max "7200.000"] { Experimental }
        "How long a client connection may be silent before the first TCP keep-alive probe.";
    tenant_by: Text = "vcl" [""] { Own }
        "The tenant of requests for which VCL sets none (req.tenant). vcl: none. host: the host without its port.";
    tenant_shares: Text = "" [""] { Own }
        "Weights of tenants' shares of each store's memory, as in shop.example=4,news.example=2. Others have 1. If a store is full, the next object that is evicted is one of the tenant that holds the most for its share.";
    tenants_max: Count = "1000" ["tenants" min "1" max "4096"] { Own }
        "The largest number of tenants with a row of their own. Further ones share the row _others. If it is lowered, tenants that have a row keep it.";
    thread_pool_add_delay: Seconds = "0.000" ["seconds" min "0.000"] { Experimental NoEffect }
        "No effect here: transactions are tasks, and no thread is started for them. In seconds; releases before 4 used milliseconds.";
    thread_pool_destroy_delay: Seconds = "1.000" ["seconds" min "0.010"] { DelayedEffect Experimental NoEffect }
        "No effect here: transactions are tasks, and no thread ends with them.";
    thread_pool_fail_delay: Seconds = "0.200" ["seconds" min "0.010"] { Experimental NoEffect }
        "No effect here: transactions are tasks, and no thread is started for them.";
    thread_pool_max: Count = "5000" ["threads" min "100"] { DelayedEffect }
        "thread_pools times this is the largest number of fetches and pipes in progress. A request that needs another one waits (see thread_queue_limit; max_fetches_per_ip limits a single client). A background fetch isn't started.\nHits need no fetch and never wait. In Varnish every request counts.";
    thread_pool_min: Count = "100" ["threads" min "5" max "5000"] { DelayedEffect NoEffect }
        "No effect here except as the lower limit of thread_pool_max: transactions are tasks.";
    thread_pool_reserve: Count = "0" ["threads" max "95"] { DelayedEffect NoEffect }
        "No effect here: transactions are tasks. In Varnish: threads of each pool that are reserved for vital tasks; 0 is 5 % of thread_pool_min.";
    thread_pool_stack: Bytes = "80k" ["bytes" min "16k"] { DelayedEffect NoEffect }
        "No effect here: transactions are tasks and have no stack of their own.";
    thread_pool_timeout: Seconds = "300.000" ["seconds" min "10.000"] { DelayedEffect Experimental NoEffect }
        "No effect here: transactions are tasks, and there are no idle threads to end.";
    thread_pool_watchdog: Seconds = "60.000" ["seconds" min "0.100"] { Experimental NoEffect }
        "No effect here. In Varnish: the worker ends with a panic if a thread queue hasn't moved for this long.";
    thread_pools: Count = "2" ["pools" min "1" max "32"] { DelayedEffect Experimental }
        "thread_pools times thread_pool_max is the largest number of fetches in progress. The number of threads follows the CPUs instead.";
    thread_queue_limit: Count = "20" ["requests" min "0"] { Experimental }
        "thread_pools times this is the largest number of requests that may wait for their fetch when thread_pool_max is reached. Further ones are answered 503 (MAIN.sess_dropped); the connection stays open.\nEach thread answers at most 2000 of these 503s per second, with a burst of 200. Beyond that requests are held (MAIN.req_held), at most 1000 per thread, until there is room or they can be refused.";
    thread_stats_rate: Count = "10" ["requests" min "0"] { Experimental NoEffect }
        "No effect here: counters are always up to date.";
    timeout_head: Seconds = "30.000" ["seconds" min "0.000"] { Own }
        "How long a client may take to send a complete request header, from its first byte. 0: no limit.";
    timeout_idle: Seconds = "5.000" ["seconds" min "0.000"] {}
        "How long a client connection may be idle between requests (keep-alive) before it is closed.";
    timeout_linger: Seconds = "0.050" ["seconds" min "0.000"] { Experimental NoEffect }
        "No effect here: an idle connection occupies no thread. In Varnish: how long a session stays on its thread for the next request.";
    tls_client_hosts: Switch = "on" ["bool"] { Own }
        "Refuse requests for a host whose certificate has client-verify on connections that didn't ask the client for a certificate in this way: 421 on other frontends and over plain HTTP, before VCL runs. Off: only the certificates of one frontend are compared, and VCL has to separate such hosts (tls.has_client_cert(), also in vcl_hash).";
    tls_err_dup_servername: Switch = "off" ["bool"] { Own }
        "Refuse a certificate that has a name of another certificate of the same frontend. Off: the certificate that was committed last is used for that name; of several in one commit, the first.";
    tls_handshake_timeout: Seconds = "8.000" ["seconds" min "0.100"] { Own }
        "How long a client may take from connecting to the end of its TLS handshake. Also in Varnish 9.";
    tls_ja3: Switch = "off" ["bool"] { Own }
        "Calculate JA3 fingerprints of TLS clients, for tls.ja3() and tls.ja3_hash(). JA4 fingerprints are always calculated. Also in Varnish 9.";
    tls_kernel: Text = "off" [""] { Own }
        "Let the kernel encrypt what is sent over TLS (Linux kTLS), so that bodies are passed to it directly from the cache's memory. auto: connections with TLS 1.2, and with TLS 1.3 if the kernel can change keys (Linux 6.14). on: all connections that the kernel supports; with an older kernel a TLS 1.3 client that requests new keys loses its connection. off: none. If the kernel has no TLS (module tls), the worker encrypts. A change applies to new connections.";
    tls_signer: Switch = "off" ["bool"] { Own MustRestart }
        "Keep private keys in a separate process, which signs for the worker, instead of in the worker. A full handshake takes a little longer. A change applies to the next worker.";
    tls_watch: Seconds = "5.000" ["seconds" min "0.000"] { Own }
        "How often the files of certificates are checked for changes. A changed file is loaded at once. An invalid one is reported, and the previous certificate stays in use. 0: only tls.cert.reload reads files again.";
    traceparent: Switch = "off" ["bool"] { Own }
        "Take part in distributed traces (W3C Trace Context). The traceparent header of a client's request continues its trace or, if missing, begins one; the request to the backend has it, too. VCL can read, set and unset it. `lacquer trace` sends spans from the log to a collector.";
    traceparent_ratio: Real = "1" ["" min "0" max "1"] { Own }
        "The share of traces that begin here (see traceparent) that are marked as sampled.";
    transit_buffer: Bytes = "1M" ["bytes" min "0b"] { Own }
        "How many bytes of an uncacheable body may be fetched ahead of the client that reads it. VCL can override it per fetch (beresp.transit_buffer). 0: no limit, as in Varnish. Also in Varnish 7.3 and later.";
    uncacheable_ttl: Seconds = "120.000" ["seconds" min "0.000"] { Own }
        "How long the built-in VCL remembers that a response is uncacheable (hit-for-miss). Also in Varnish 8 and later.";
    upgrade_drain: Seconds = "300.000" ["seconds" min "0.000"] { Own }
        "How long the old worker may continue with its connections after an upgrade. Each connection closes earlier with its next response, or when it has been idle for timeout_idle.";
    upload_affinity: Seconds = "86400.000" ["seconds" min "0.000"] { Own }
        "How long the backend is remembered that holds an unfinished resumable upload, since it last said that the upload goes on. Requests with HEAD, PATCH or DELETE for the URL that the backend gave to the client (104, or a response to Upload-Complete: ?0) are passed to that backend, whichever one the director would choose; VCL may set another director. 0 switches this off.";
    vary_limit: Count = "1000" ["variants" min "0"] { Own }
        "How many variants (Vary) of one object may be cached. Beyond it the least useful variant is removed. 0: no limit.";
    vary_notice: Count = "10" ["variants" min "1"] {}
        "A lookup that passes more variants than this is logged as a Notice.";
    vcc_allow_inline_c: Switch = "off" ["bool"] {}
        "Inline C in VCL. It is always refused here; the error message names the replacement.";
    vcc_err_unref: Switch = "on" ["bool"] {}
        "A definition that VCL never uses is an error. Off: it is a warning.";
    vcc_feature: VccFeature = "+err_unref,+unsafe_path", 9: "none,+err_unref,+unsafe_path" [""] { Own }
        "Switches of the VCL compiler. Also in Varnish 7.2 and later. vcc_err_unref, vcc_allow_inline_c and vcc_unsafe_path are single bits of it.";
    vcc_unsafe_path: Switch = "on" ["bool"] {}
        "Allow \"/\" and \"..\" in the file names of import and include.";
    vcl_cooldown: Seconds = "600.000" ["seconds" min "1.000"] {}
        "How long an unused VCL in state auto stays warm.";
    vcl_dialect: Text = "auto" [""] { Own }
        "The language of VCL files that don't begin with `vcl 4.x;`: 2.0, 2.1 or 3.0. auto detects it from their keywords.";
    vcl_path: Text = "/etc/varnish:/usr/share/varnish/vcl" [""] { BuildOptions }
        "Directories in which VCL files are searched, separated by colons.";
    vmod_path: Text = "" [""] { BuildOptions NoEffect }
        "No effect here: modules are part of the program.";
    vsl_buffer: Bytes = "16k" ["bytes" min "267"] {}
        "Size of the buffer in which a transaction collects its log records. The minimum is vsl_reclen plus 12 bytes.";
    vsl_mask: Tags = "-Debug,-ObjProtocol,-ObjStatus,-ObjReason,-ObjHeader,-VCL_trace,-ExpKill,-WorkThread,-Hash,-VfpAcct,-H2RxHdr,-H2RxBody,-H2TxHdr,-H2TxBody,-VdpAcct",
        9: "all,-Debug,-ObjProtocol,-ObjStatus,-ObjReason,-ObjHeader,-ExpKill,-WorkThread,-Hash,-VfpAcct,-H2RxHdr,-H2RxBody,-H2TxHdr,-H2TxBody,-VdpAcct,-ReqTarget" [""] {}
        "Which log tags are written. \"-Tag\" stops writing a tag, \"+Tag\" writes it, \"default\" restores the default.";
    vsl_reclen: Bytes = "255b" ["bytes" min "16b" max "16372"] {}
        "The longest log record. Longer data is truncated. The maximum is vsl_buffer minus 12 bytes.";
    vsl_space: Bytes = "80M" ["bytes" min "1M" max "4G"] { MustRestart }
        "Size of the log in shared memory. When it is full, the oldest records are overwritten.";
    vsm_free_cooldown: Seconds = "60.000" ["seconds" min "10.000" max "600.000"] { NoEffect }
        "No effect here. In Varnish: how long unused shared memory stays, so that readers notice.";
    waitinglist_limit: Count = "0" ["requests" min "0"] { Own }
        "How many requests may wait for the fetch of one object (request coalescing). Further ones are answered 503. 0: no limit.";
    waitinglist_timeout: Seconds = "0.000" ["seconds" min "0.000"] { Own }
        "How long a request may wait for other requests' fetches of its object. Then it is answered 503. 0: no limit.";
    workspace_backend: Bytes = "96k" ["bytes" min "1k"] { DelayedEffect }
        "How many bytes the header of a backend request or response may take, including what VCL and this server add. Memory is allocated as needed; only the limit applies here.";
    workspace_client: Bytes = "96k" ["bytes" min "9k"] { DelayedEffect }
        "How many bytes the header of a request or response may take, including what VCL and this server add. Memory is allocated as needed; only the limit applies here.";
    workspace_session: Bytes = "0.75k" ["bytes" min "384b"] { DelayedEffect NoEffect }
        "No effect here: a session's memory is allocated as needed.";
    workspace_thread: Bytes = "2k" ["bytes" min "0.25k" max "8k"] { DelayedEffect NoEffect }
        "No effect here: threads have no workspace.";
    x_forwarded_proto: Switch = "off" ["bool"] { Own }
        "Set X-Forwarded-Proto of each request to https or http before VCL runs, overwriting the client's value. It is https over our own TLS listeners, and if a PROXY header indicates TLS or port 443. Off leaves the client's header as it is: trust it only if all clients are proxies that set it.";
    zstd_level: Count = "3" ["" min "1" max "19"] { Own }
        "Compression level for zstd, for bodies that are compressed while they are fetched and for the first copy of an object in zstd.";
}
