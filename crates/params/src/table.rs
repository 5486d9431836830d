// SPDX-License-Identifier: BSD-2-Clause
//! The parameters, sorted by name: kind and default, unit and limits, flags, text. Everything else follows from a row.
//!
//! Limits that hang on another parameter (`thread_pool_min`, `vsl_buffer`, ...) are in `limits`.

use std::time::Duration;

use super::bits::{DebugBits, ExperimentalBits, FeatureBits};
use super::value::{BytesOrAuto, Field, Kind, PoolParam, Value};
use super::{Flag, Spec};
use tables::tags::TagMask;

macro_rules! ty {
    (Seconds) => {
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

/// Whether the names are in ascending order, each once.
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
    ($($name:ident: $kind:ident = $default:literal [$unit:literal $(min $min:literal)? $(max $max:literal)?]
       { $($flag:ident)* } $text:literal;)*) => {
        /// The values of all parameters. A field has its parameter's name; `Duration` for seconds, `u64` for bytes,
        /// `u32` for counts (`u32::MAX` is "unlimited").
        #[derive(Clone, Debug, PartialEq)]
        pub struct Params {
            $(#[doc = $text] pub $name: ty!($kind),)*
            pub(super) protected: Vec<&'static str>,
        }

        impl Params {
            /// Placeholder values; `Params::default` puts the real defaults in.
            pub(super) fn blank() -> Self {
                Self { $($name: Default::default(),)* protected: Vec::new() }
            }
        }

        // `lookup` searches the table by halves: in another order some names aren't found, and no worker starts.
        const _: () = assert!(is_sorted(&[$(stringify!($name)),*]), "the parameters aren't sorted by name");

        /// Every parameter, sorted by name.
        pub static SPECS: &[Spec] = &[$(Spec {
            name: stringify!($name),
            kind: Kind::$kind,
            default: $default,
            unit: $unit,
            min: limit!($($min)?),
            max: limit!($($max)?),
            flags: &[$(Flag::$flag),*],
            text: $text,
            get: |p: &Params| -> Value { Field::value(&p.$name) },
            put: |p: &mut Params, v: Value| Field::put(&mut p.$name, v),
        }),*];
    };
}

params! {
    accept_filter: Switch = "off" [""] { NotAvailable }
        "Kernel filters on listen sockets, which Linux does not have.";
    acceptor_sleep_decay: Real = "0.9" ["" min "0" max "1"] { Experimental NoEffect }
        "After a connection was accepted the pause is multiplied by this.";
    acceptor_sleep_incr: Seconds = "0.000" ["seconds" min "0.000" max "1.000"] { Experimental NoEffect }
        "How much longer accepting pauses after each failure for lack of descriptors or memory.";
    acceptor_sleep_max: Seconds = "0.050" ["seconds" min "0.000" max "10.000"] { Experimental NoEffect }
        "The longest pause between attempts to accept.";
    auto_restart: Switch = "on" ["bool"] {}
        "Start a new worker when one dies.";
    backend_dns_lazy: Switch = "off" ["bool"] { Own }
        "Whether a VCL may be loaded though the name of one of its backends has no address now, or several of a family. The name is looked up until it has one; fetches fail meanwhile. Off refuses such a VCL, as Varnish does.";
    backend_dns_ttl: Seconds = "30.000" ["seconds" min "0.000"] { Own }
        "How long the addresses of a backend's name are believed before it is looked up again, with the system's resolver and so with its hosts file; a lookup that fails changes nothing. All addresses of the name are used. 0 looks it up once, when the VCL is loaded, as Varnish does.";
    backend_h2_streams: Count = "100" ["streams" min "1" max "10000"] { Own }
        "How many requests share an HTTP/2 connection to a backend, if the backend takes so many; for more another connection is opened. New connections heed a change.";
    backend_h2_window: Bytes = "0.25M" ["bytes" min "65535b" max "16M"] { Own }
        "How much of each response's body a backend may send over HTTP/2 ahead of what is used of it. A larger window makes long bodies from a distant backend faster; each that a client takes slowly may need so much memory. New connections heed a change.";
    backend_idle_timeout: Seconds = "60.000" ["seconds" min "1.000"] {}
        "How long an unused backend connection is kept.";
    backend_local_error_holddown: Seconds = "10.000" ["seconds" min "0.000"] { Experimental }
        "No connection to a backend is tried for this long after one failed for a local reason: no local address or port left, not permitted.";
    backend_remote_error_holddown: Seconds = "0.250" ["seconds" min "0.000"] { Experimental }
        "No connection to a backend is tried for this long after one failed for a remote reason: refused, unreachable.";
    backend_tls_strict_end: Switch = "on" ["bool"] { Own }
        "Whether a body that ends with its backend's TLS connection is whole only if the backend ends that in order (close_notify), and not just closes: who cuts the connection off can't make a piece of a body look like all of it. Off is for a backend that doesn't bother, as Varnish takes it. Bodies that have a length or chunks are held to these in any case.";
    backend_wait_limit: Count = "0" ["fetches" min "0"] { Own }
        "How many fetches may wait for a connection to a backend that is at its .max_connections, unless the backend says it as .wait_limit. 0 answers at once that it is busy.";
    backend_wait_timeout: Seconds = "0.000" ["seconds" min "0.000"] { Own }
        "How long a fetch waits for a connection to a backend that is at its .max_connections, unless the backend says it as .wait_timeout.";
    ban_cutoff: Count = "0" ["bans" min "0"] { Experimental }
        "The lurker treats objects that reach this many bans down the list as banned, which bounds the list. 0 is off.\nRarely used objects go first, as objects in use are tested at each lookup and stand near the top.";
    ban_dups: Switch = "on" ["bool"] {}
        "Drop an older ban when an equal one is added.";
    ban_lookup_limit: Count = "10000" ["bans" min "0"] { Own }
        "An object that a lookup would have to test against more bans than this counts as banned, which bounds what a hit may cost. 0 is no limit.";
    ban_lurker_age: Seconds = "60.000" ["seconds" min "0.000"] {}
        "How old a ban must be before the lurker works on it. Bans tend to come in bursts, and traffic settles part of the work.";
    ban_lurker_batch: Count = "1000" ["" min "1"] {}
        "Objects the lurker examines before it sleeps for ban_lurker_sleep.";
    ban_lurker_holdoff: Seconds = "0.010" ["seconds" min "0.000"] { Experimental NoEffect }
        "How long the lurker sleeps when a lookup wants what it holds.";
    ban_lurker_sleep: Seconds = "0.010" ["seconds" min "0.000"] {}
        "How long the lurker sleeps after ban_lurker_batch objects. 0 switches the lurker off.";
    between_bytes_timeout: Seconds = "60.000" ["seconds" min "0.000"] {}
        "How long a backend may be silent within a response before the fetch fails. VCL can set it for a backend or a fetch. Not for pipes.";
    bgfetch_limit: Count = "1000" ["fetches" min "0"] { Own }
        "How many stale objects may be refreshed in the background at the same time. Beyond it they are delivered without being refreshed, and those that are asked for most are refreshed first. 0 is no limit.";
    brotli_quality: Count = "5" ["" min "0" max "11"] { Own }
        "How hard a body is packed in br while it is fetched, or when a form in br is first made: beyond 9 a fetch keeps other requests of its thread waiting. What is delivered often is packed again by a thread in the background, as hard as it can be.";
    cache_status: Switch = "off" ["bool"] { Own }
        "Add a Cache-Status field (RFC 9211) to responses: whether it was a hit, else why not. vcl_deliver sees it and may change it.";
    cc_command: Text = "exec cc -fpic -shared -o %o %s" [""] { MustReload BuildOptions NoEffect }
        "No effect here: VCL is not compiled through C.";
    cc_warnings: Text = "-Wall -Werror" [""] { MustReload BuildOptions NoEffect }
        "No effect here: VCL is not compiled through C.";
    class_workers: Count = "0" ["fetches" min "0"] { Own }
        "How many fetches of all classes together may be with backends at a time. Where they compete, who waits in the class that has least for its share comes first. 0 is no limit but the classes' own.";
    classes: Text = "" [""] { Own }
        "Classes of requests that need a backend, as in dear:workers=4,chairs=50,patience=10s; default:workers=100. Of each so many fetches (workers) may be with backends at a time, and so many more (chairs, 10 times workers) may wait, in their order and no longer than patience (10s); all others are answered 503 with Retry-After. VCL names a request's class (req.class); else it is the one whose option above=TIME says what backends take for its like, or the one called default, if there are such. share=N is its weight under class_workers. With page=on browsers get a page that comes back by itself, and keep their place in a waiting room of room=N (10000).";
    cli_limit: Bytes = "48k" ["bytes" min "128b" max "99999999b"] {}
        "The largest CLI reply. A longer one is cut and has status 201 instead of 200; one in JSON (-j) is not cut, nor is param.show unless this is below its default.";
    cli_timeout: Seconds = "60.000" ["seconds" min "0.000"] {}
        "How long the manager waits for the worker's answer on the CLI before it takes it for dead.";
    clock_skew: Count = "10" ["seconds" min "0"] {}
        "How far a backend's clock may be from ours before its Date is not believed.";
    clock_step: Seconds = "1.000" ["seconds" min "0.000"] { NoEffect }
        "How far the clock may jump. Here any jump is borne: lifetimes run on the monotonic clock.";
    coding_memory: Bytes = "0.25G" ["bytes" min "1M"] { Own }
        "How much memory windows and tables of br and zstd may take in all transactions together: what unpacks a body beyond that fails (coding_refused). Packing counts and goes on.";
    connect_timeout: Seconds = "3.500" ["seconds" min "0.000"] {}
        "How long connecting to a backend may take. VCL can set it for a backend or a fetch.";
    cookie_drop: Text = "" [""] { Own }
        "Cookies that are taken out of a client's request before vcl_recv: names between blanks or commas, a * at the end of one stands for any rest, as in _ga* _gid _fbp. A Cookie field that loses its last cookie is gone.";
    cookie_keep: Text = "" [""] { Own }
        "The only cookies that a client's request keeps, named as in cookie_drop, which may still drop some of them. Empty keeps all.";
    critbit_cooloff: Seconds = "180.000" ["seconds" min "60.000" max "254.000"] { Wizard NoEffect }
        "No effect here: the index has no critbit tree.";
    debug: Debug = "none" [""] {}
        "Switches for those who debug or test.";
    default_grace: Seconds = "10.000" ["seconds" min "0.000"] { ObjSticky }
        "How long past its ttl an object may be served while a fresh copy is fetched, unless the backend or VCL says otherwise.";
    default_keep: Seconds = "0.000" ["seconds" min "0.000"] { ObjSticky }
        "How long past ttl and grace an object is kept for conditional fetches, unless VCL says otherwise.";
    default_ttl: Seconds = "120.000" ["seconds" min "0.000"] { ObjSticky }
        "Lifetime of an object when neither the backend nor VCL gives one.";
    disk_timeout: Seconds = "0.500" ["seconds" min "0.001"] { Own }
        "How long a request waits for the disk of a store (-s file, -s persistent) to give back an object before it goes on as a miss (MAIN.home_late). A read that takes a second is given up in any case. A short body is read with its object; of a long one that was found the first piece is read before the response begins, and a piece that takes longer is waited for.";
    early_hints: Text = "off" [""] { Own }
        "Whether a client that asks for a page which has to be fetched gets a 103 (Early Hints) meanwhile, with the Link fields (preload, modulepreload, preconnect) that the page had when it was fetched last: off, h2 (over HTTP/2 and HTTP/3), or all (over HTTP/1.1, too, where old clients and programs may take it for the answer).";
    esi_parallel: Count = "1" ["includes" min "1" max "64"] { Own }
        "How many includes of one page, nested ones counted, may be under way at the same time; they are delivered in the page's order. What comes before its turn is kept, at most 256 KB of each. 1 begins each when the one before it is done, as Varnish does.";
    experimental: Experimental = "none" [""] {}
        "Switches of features not yet settled.";
    feature: Feature = "+https_scheme,+validate_headers" [""] {}
        "Switches of optional features.";
    fetch_chunksize: Bytes = "16k" ["bytes" min "4k"] { Experimental NoEffect }
        "Size of the pieces in which a body of unknown length is stored.";
    fetch_maxchunksize: Bytes = "0.25G" ["bytes" min "64k"] { Experimental NoEffect }
        "The largest piece of storage a fetch asks for.";
    first_byte_timeout: Seconds = "60.000" ["seconds" min "0.000"] {}
        "How long a backend may take from the request to the first byte of its response. VCL can set it for a backend or a fetch. Not for pipes.";
    form_space: Bytes = "64M" ["bytes" min "0b"] { Own }
        "How many bytes forms of stored bodies may take: what a body in gzip, br or zstd unpacks to, or the same packed otherwise, made once it was wanted a few times and kept while it is. They are on their store's account, of which they take a quarter at most, and go with their object or before it. 0: none are kept, each delivery makes its own.";
    gzip_buffer: Bytes = "32k" ["bytes" min "2k"] { Experimental NoEffect }
        "Size of the buffer for compressing and uncompressing on the way.";
    gzip_level: Count = "6" ["" min "0" max "9"] {}
        "Effort of compression: 0 none, 1 fast, 9 best.";
    gzip_memlevel: Count = "8" ["" min "1" max "9"] {}
        "Memory for compression: 1 little and slow, 9 much and fast.";
    h2_header_table_size: Bytes = "4k" ["bytes" min "0b"] {}
        "Size of the HPACK table for decoding requests.";
    h2_initial_window_size: Bytes = "65535b" ["bytes" min "65535b" max "2147483647b"] {}
        "Initial flow-control window of a stream.";
    h2_limit_continuations: Count = "32" ["frames" min "0"] { Own }
        "How many CONTINUATION frames a header may have. One more ends the connection with ENHANCE_YOUR_CALM, as all these limits do; 0 is no limit.";
    h2_limit_empty_data: Count = "1000" ["frames" min "0"] { Own }
        "How many DATA frames without data a connection may have in h2_rapid_reset_period.";
    h2_limit_header_bytes: Bytes = "128k" ["bytes" min "0b"] { Own }
        "The largest header, compressed as it is sent.";
    h2_limit_ignored: Count = "1000" ["frames" min "0"] { Own }
        "How many frames of unknown kinds, or for streams that are over, a connection may have in h2_rapid_reset_period.";
    h2_limit_pings: Count = "1000" ["frames" min "0"] { Own }
        "How many PING frames a connection may have in h2_rapid_reset_period, beyond one for each DATA frame that it got.";
    h2_limit_priorities: Count = "1000" ["frames" min "0"] { Own }
        "How many PRIORITY and PRIORITY_UPDATE frames a connection may have in h2_rapid_reset_period, beyond a few for each request.";
    h2_limit_refused: Count = "1000" ["streams" min "0"] { Own }
        "How many streams beyond h2_max_concurrent_streams a connection may open in h2_rapid_reset_period.";
    h2_limit_settings: Count = "100" ["frames" min "0"] { Own }
        "How many SETTINGS frames a connection may have in h2_rapid_reset_period.";
    h2_limit_small_data: Count = "100000" ["frames" min "0"] { Own }
        "How many DATA frames of less than 32 bytes, which don't end their stream, a connection may have in h2_rapid_reset_period, beyond one for each DATA frame that it got.";
    h2_limit_small_windows: Count = "1000" ["frames" min "0"] { Own }
        "How often in h2_rapid_reset_period a connection may let us send only a few bytes at a time.";
    h2_limit_stream_errors: Count = "100" ["streams" min "0"] { Own }
        "How many streams of a connection may be reset in h2_rapid_reset_period for what the client sent on them.";
    h2_limit_unread: Bytes = "64k" ["bytes" min "0b"] { Own }
        "How many bytes of answers to PING, SETTINGS and the like may wait for a client that doesn't read.";
    h2_limit_window_updates: Count = "1000" ["frames" min "0"] { Own }
        "How many WINDOW_UPDATE frames a connection may have in h2_rapid_reset_period, beyond a few for each DATA frame that it got.";
    h2_max_concurrent_streams: Count = "100" ["streams" min "0"] {}
        "How many streams a client may have open on a connection, 10000 at most. Of new connections; those above are reset with REFUSED_STREAM. A stream that its client has reset counts until its request has ended.";
    h2_max_frame_size: Bytes = "16k" ["bytes" min "16k" max "16777215b"] {}
        "The largest frame payload accepted.";
    h2_max_header_list_size: Bytes = "2147483647b" ["bytes" min "0b"] {}
        "The largest uncompressed header list accepted.";
    h2_rapid_reset: Seconds = "1.000" ["seconds" min "0.000"] { Own }
        "A stream that its client resets sooner than this after it has begun counts for h2_rapid_reset_limit.";
    h2_rapid_reset_limit: Count = "100" ["streams" min "0"] { Own }
        "How many streams a client may reset soon after they have begun, on a connection in h2_rapid_reset_period. 0 is no limit.";
    h2_rapid_reset_period: Seconds = "60.000" ["seconds" min "1.000"] { Own }
        "The time in which the limits of HTTP/2 count: what was counted is forgotten little by little over so long.";
    h2_rx_unread: Bytes = "384k" ["bytes" min "65535b" max "1G"] { Own }
        "How many bytes of request bodies that nobody has read yet a connection may hold. Its window for them is never larger, whatever h2_rx_window_low_water says. Of new connections.";
    h2_rx_window_increment: Bytes = "1M" ["bytes" min "1M" max "1G"] { Wizard }
        "How much credit a WINDOW_UPDATE gives for request bodies.";
    h2_rx_window_low_water: Bytes = "10M" ["bytes" min "65535b" max "1G"] { Wizard }
        "The window for request bodies is kept at least this large.";
    h2_rxbuf_storage: Text = "Transient" [""] { MustRestart NoEffect }
        "No effect here: request bodies wait in no store, and no longer than their windows allow.";
    h2_window_timeout: Seconds = "5.000" ["seconds" min "0.000"] { Own }
        "How long a stream may wait for its client to open a window that is shut, before it is reset, where more than four streams of the connection wait so. Where no stream of the connection can send, the connection ends with ENHANCE_YOUR_CALM. 0 is no limit; idle_send_timeout holds beside it, also for fewer streams.";
    h3_alt_svc: Seconds = "86400.000" ["seconds" min "0.000"] { Own }
        "How long clients of an https listener may remember that HTTP/3 is spoken at the same port (Alt-Svc). They are told where there is a quic listener, and the response has no Alt-Svc of its own. 0: they aren't told.";
    h3_early_data: Switch = "off" ["bool"] { Own }
        "Whether clients of QUIC that come back may send requests before the handshake is done (0-RTT). Those with a safe method (GET, HEAD, OPTIONS) and no body are answered at once, with Early-Data: 1 in VCL and towards the origin; others wait. A session is good for one time, within one worker.";
    h3_idle_timeout: Seconds = "30.000" ["seconds" min "1.000" max "600.000"] { Own }
        "A QUIC connection whose client gives no sign of life for so long is over. One without a request ends after timeout_idle.";
    h3_limit_control: Count = "100" ["frames" min "0"] { Own }
        "How many GOAWAY and MAX_PUSH_ID frames an HTTP/3 connection may have in h3_reset_period. One more ends it with H3_EXCESSIVE_LOAD, as all these limits do; 0 is no limit.";
    h3_limit_head_bytes: Bytes = "0.25M" ["bytes" min "0b"] { Own }
        "How many bytes of heads and trailers that aren't whole the requests of an HTTP/3 connection may hold together. A request beyond is refused, and counts for h3_reset_limit; the only one that isn't whole may have all of http_req_size. 0 is no limit.";
    h3_limit_ignored: Count = "1000" ["frames" min "0"] { Own }
        "How many frames of unknown kinds, DATA frames without data and instructions for QPACK's tables an HTTP/3 connection may have in h3_reset_period.";
    h3_limit_paths: Count = "100" ["frames" min "0"] { Own }
        "How often in h3_reset_period a QUIC connection may move to another address, send PATH_CHALLENGE, or give or take back connection ids. It and the other frames of QUIC are looked at every two seconds.";
    h3_limit_pings: Count = "1000" ["frames" min "0"] { Own }
        "How many PING frames a QUIC connection may have in h3_reset_period.";
    h3_limit_priorities: Count = "1000" ["frames" min "0"] { Own }
        "How many PRIORITY_UPDATE frames an HTTP/3 connection may have in h3_reset_period, beyond a few for each request.";
    h3_limit_stops: Count = "1000" ["frames" min "0"] { Own }
        "How many STOP_SENDING and RESET_STREAM frames a QUIC connection may have in h3_reset_period.";
    h3_limit_streams: Count = "100" ["streams" min "0"] { Own }
        "How many unidirectional streams of unknown kinds, or that end before they say what they are, an HTTP/3 connection may open in h3_reset_period.";
    h3_limit_windows: Count = "1000" ["frames" min "0"] { Own }
        "How many frames of QUIC that change windows, or ask for larger ones, a connection may have in h3_reset_period, beyond a few for each frame of data either way.";
    h3_max_concurrent_streams: Count = "100" ["streams" min "1" max "10000"] { Own }
        "How many requests a client may have open on an HTTP/3 connection. Places for all of them are made when the connection begins: 5 KB with 100, 84 KB with 1000, 690 KB with 10000.";
    h3_qlog: Count = "0" ["connections" min "0" max "1000"] { Own }
        "So many QUIC connections that begin after this was set leave a qlog each (packets, losses and the state of recovery as JSON, for qvis and such), in the working directory's _.vsm_child, 16 MB at most each: qlog-NUMBER.sqlog. They are gone with the worker. Setting 0 and then a number again asks for more.";
    h3_reset_limit: Count = "100" ["requests" min "0"] { Own }
        "How many requests of an HTTP/3 connection may come to nothing by the client's doing within h3_reset_period: it takes them back, or they break the protocol. One more, and the connection ends with H3_EXCESSIVE_LOAD. 0: any number.";
    h3_reset_period: Seconds = "60.000" ["seconds" min "1.000"] { Own }
        "The time over which h3_reset_limit counts, and in which what counts for h3_limit_* is forgotten little by little.";
    h3_retry_threshold: Count = "100" ["handshakes" min "0"] { Own }
        "With so many handshakes over QUIC or TLS in progress on a thread, a new client of QUIC is asked to show first that its address is its own, which costs it a round trip and us no memory. 0: every client is.";
    h3_send_window: Bytes = "1M" ["bytes" min "64k" max "1G"] { Own }
        "How many bytes of an HTTP/3 connection's responses may be on their way, unconfirmed.";
    h3_stream_window: Bytes = "128k" ["bytes" min "16k" max "1G"] { Own }
        "How many bytes of a request's body a client of HTTP/3 may send before they are read.";
    h3_window: Bytes = "0.50M" ["bytes" min "64k" max "1G"] { Own }
        "The same for all requests of a connection together.";
    http1_iovs: Count = "64" ["struct iovec (=16 bytes)" min "5" max "1024"] { Wizard NoEffect }
        "No effect here: gathered writes size themselves.";
    http_brotli_support: Switch = "off" ["bool"] { Own }
        "Ask backends for br, store it, make it of what is stored in gzip when clients like it better and want it often, and undo it for clients that don't take it. Accept-Encoding of requests becomes a list of what is made here, by the client's weights. Needs http_gzip_support. Off, br is stored and delivered as backends send it, and beresp.do_brotli does nothing.";
    http_gzip_support: Switch = "on" ["bool"] {}
        "Ask backends for gzip, store it, and uncompress for clients that cannot take it.\nAccept-Encoding of requests becomes \"gzip\" or is removed. Off, beresp.do_gzip and beresp.do_gunzip do nothing.";
    http_interim: Switch = "on" ["bool"] { Own }
        "Pass interim responses of a backend on to the client that waits for the answer: 103 Early Hints with its fields Link and Content-Security-Policy, 102 without any. With http_lenient all of them, with all fields, which no VCL sees. Off drops them.";
    http_lenient: Switch = "off" ["bool"] { Own }
        "Let pass what no cache should forward and is otherwise refused before VCL: CONNECT, an invalid Host, a target that is neither a path nor an http URL, a fragment in the URL, a chunked body that is seen to be broken. The built-in VCL then pipes unknown methods, which otherwise get 501, and takes any target, and a pipe of a request with Upgrade carries what the client sends before the backend has switched protocols, as in Varnish 7.";
    http_lone_lf: Switch = "on" ["bool"] { Own }
        "Take requests without a body whose lines end with a lone LF instead of CRLF, as old programs that purge send them. Off, they are refused with 400. With a body they are refused in any case, unless http_lenient is on: another server might read two requests there. MAIN.req_lone_lf counts both.";
    http_max_hdr: Count = "64" ["header lines" min "32" max "65535"] {}
        "How many header lines a head may have; the first line counts as five of them.";
    http_range_parts: Count = "16" ["ranges" min "1" max "1000"] { Own }
        "How many ranges of one request are answered, as multipart/byteranges; a request for more gets the whole. With 1 a second range is refused with 416, as in Varnish.";
    http_range_support: Switch = "on" ["bool"] {}
        "Answer Range requests with 206.";
    http_req_hdr_len: Bytes = "8k" ["bytes" min "40b"] {}
        "The longest header line of a request, continuation lines included.";
    http_req_size: Bytes = "32k" ["bytes" min "0.25k"] {}
        "The largest head of a request.";
    http_resp_hdr_len: Bytes = "8k" ["bytes" min "40b"] {}
        "The longest header line of a backend response, continuation lines included.";
    http_resp_size: Bytes = "32k" ["bytes" min "0.25k"] {}
        "The largest head of a backend response.";
    http_zstd_support: Switch = "off" ["bool"] { Own }
        "The same as http_brotli_support for zstd.";
    idle_send_timeout: Seconds = "60.000" ["seconds" min "0.000"] { DelayedEffect }
        "How long a client may take nothing of a response before the session is closed; send_timeout may extend it.";
    listen_depth: Count = "1024" ["connections" min "0"] { MustRestart }
        "Length of the kernel's queue of connections not yet accepted.";
    log_no_hit: Switch = "off" ["bool"] { Own }
        "Log why a request was no hit: a Notice record \"lacquer: no hit: REASON\" near the end of its transaction. The reasons are in lacquer-explain(1); the counters NOHIT.* have them always.";
    loop_detection: Switch = "on" ["bool"] { Own }
        "Answer 508 to a request that this server sent to one of its own listeners and that came back to wait for itself: it is looked up as the object that it was to fetch, or is here for the eighth time. Such requests carry a mark in CDN-Loop (RFC 8586). Also refuse a VCL whose every request would come back so, as its backend is one of the server's own listeners.";
    lru_interval: Seconds = "2.000" ["seconds" min "0.000"] { Experimental NoEffect }
        "A hit moves an object in the order of eviction at most this often.";
    max_esi_depth: Count = "5" ["levels" min "0"] {}
        "How deep includes may nest.";
    max_fetches_per_ip: Count = "25" ["percent" min "1" max "100"] { Own }
        "How many of the fetches and pipes that thread_pools and thread_pool_max allow one client address may have in progress, and at least 100. A request beyond that is answered 503 with Retry-After (fetch_limited_ip); hits need no fetch. Clients are told apart as for max_sessions_per_ip. A fetch counts until it ends, also when its client is gone. 100 is no limit: set it where all clients come from a few addresses, as behind a proxy that doesn't send the PROXY protocol.";
    max_restarts: Count = "4" ["restarts" min "0"] {}
        "How often a request may be restarted.";
    max_retries: Count = "4" ["retries" min "0"] {}
        "How often a fetch may be retried.";
    max_sessions: Count = "0" ["connections" min "0"] { Own }
        "The most client connections at once; 0 leaves it to the limit of descriptors.";
    max_sessions_ipv4_prefix: Count = "32" ["bits" min "1" max "32"] { Own }
        "Clients whose IPv4 addresses agree in this many bits count as one for max_sessions_per_ip and max_fetches_per_ip.";
    max_sessions_ipv6_prefix: Count = "64" ["bits" min "1" max "128"] { Own }
        "Clients whose IPv6 addresses agree in this many bits count as one for max_sessions_per_ip and max_fetches_per_ip.";
    max_sessions_per_ip: Count = "0" ["connections" min "0"] { Own }
        "The most connections at once from one client address; 0 is no limit.";
    max_vcl: Count = "100" ["" min "0"] {}
        "How many VCLs may be loaded before max_vcl_handling applies. Labels do not count.";
    max_vcl_handling: Count = "1" ["" min "0" max "2"] {}
        "What happens at max_vcl: 0 nothing, 1 a warning, 2 the load is refused.";
    memory_limit: BytesOrAuto = "0b" ["bytes" min "0b"] { Own }
        "The most memory that both processes together shall take: stores in memory (-s, Transient too), index, what is in progress, buffers, log, connections, modules, program. auto is nine tenths of the cgroup's limit, or, where there is none, of the machine's memory; 0 is no limit. Less than 32M is refused.\nBelow the limit a sixteenth of it (4M at least, 512M at most) is a reserve. Its quarters are steps: once the reserve is touched, threads give up buffers they keep, the allocator what nobody uses, and stores stop to grow (MAIN.mem_trim); then objects are evicted, from the store that holds most (mem_evict); then no background fetch begins, and stale objects are delivered all the same (mem_bgfetch); then requests that need a fetch are answered 503 with Retry-After, and at the limit all requests (mem_shed). A step ends when there is room again. Each is told in the log as a Notice. lacquer memory shows who holds what.\nThe log alone takes vsl_space. A store in a file doesn't count: the system takes its pages back when it needs them.";
    min_recv_rate: Bytes = "0b" ["bytes per second" min "0b"] { Own }
        "A client whose request body comes slower than this over 5 seconds of waiting for it is disconnected; 0 is off. It ends uploads that hold a connection to an origin by an octet every few seconds; streams of gRPC may rightly be as slow.";
    min_send_rate: Bytes = "0b" ["bytes per second" min "0b"] { Own }
        "A client that takes a response slower than this for a while is disconnected; 0 is off.";
    negative_ttl: Text = "" [""] { Own }
        "The ttl of answers with a status of 400 to 599 that don't say themselves how long they may be kept: entries as 404:10s or 5xx:1s, between blanks or commas, of which the first that fits counts. Such an answer has no grace and no keep. VCL can change all of it.";
    nuke_limit: Count = "50" ["allocations" min "0"] { Experimental }
        "How many objects may be evicted to make room for one.";
    pass_abort: Switch = "off" ["bool"] { Own }
        "Give up a passed GET or HEAD when its client closes the connection before the answer is there, so that the backend isn't kept busy for nobody. A client that only closes its sending half can't be told from one that is gone, and gets no answer then. Off lets such a fetch go on to its first byte of body, as Varnish does.";
    pcre2_depth_limit: Count = "20" ["" min "1"] { NoEffect }
        "Bounds the backtracking of regular expressions that need it; most run in linear time here.";
    pcre2_jit_compilation: Switch = "on" ["bool"] { NoEffect }
        "No effect here: regular expressions are compiled to automata.";
    pcre2_match_limit: Count = "10000" ["" min "1"] {}
        "Bounds the steps of regular expressions that need backtracking; most run in linear time here.";
    peers_connect_timeout: Seconds = "0.100" ["seconds" min "0.001"] { Own }
        "With --peers: how long a connection to the owner of a key may take before the origin is asked instead.";
    peers_first_byte_timeout: Seconds = "0.100" ["seconds" min "0.001"] { Own }
        "With --peers: how long the owner of a key may say nothing at all before the origin is asked instead. An owner that has to fetch the object itself says so at once, and every second from then on; its next sign may be late by ten times this.";
    peers_hot: Count = "100" ["requests per second" min "0" max "1000000"] { Own }
        "With --peers: a key that its owner is asked for more often than that by others has two owners for a while. 0: none ever has.";
    ping_interval: Count = "3" ["seconds" min "0"] { MustRestart }
        "How often the manager asks the worker whether it is alive; 0 is never.";
    pipe_sess_max: Count = "0" ["connections" min "0"] {}
        "How many pipes there may be; 0 is no limit.";
    pipe_task_deadline: Seconds = "0.000" ["seconds" min "0.000"] { Own }
        "How long a pipe may last in all, however busy it is; 0 is no limit. VCL sets it for a pipe as bereq.task_deadline.";
    pipe_timeout: Seconds = "60.000" ["seconds" min "0.000"] {}
        "How long a pipe may be silent both ways.";
    pool_req: Pool = "10,100,10" [""] { NoEffect }
        "Reuse of request structures: least and most kept, and for how many seconds: min_pool, max_pool, max_age.";
    pool_sess: Pool = "10,100,10" [""] { NoEffect }
        "Reuse of session structures: least and most kept, and for how many seconds: min_pool, max_pool, max_age.";
    pool_vbo: Pool = "10,100,10" [""] { NoEffect }
        "Reuse of fetch structures: least and most kept, and for how many seconds: min_pool, max_pool, max_age.";
    prefer_ipv6: Switch = "off" ["bool"] {}
        "Connect by IPv6 first to backends that have both kinds of address.";
    query_drop: Text = "" [""] { Own }
        "Arguments that are taken out of the query of a client's URL before vcl_recv, and so neither make variants nor reach the backend: names between blanks or commas, a * at the end of one stands for any rest, as in utm_* fbclid gclid.";
    query_keep: Text = "" [""] { Own }
        "The only arguments that the query of a client's URL keeps, named as in query_drop, which may still drop some of them. Empty keeps all.";
    rfc9111_heuristic: Count = "10" ["percent" min "0" max "100"] { Own }
        "With feature=+rfc9111 (or req.rfc9111): how much of the time since its last change a response is fresh that says nothing about that itself. 0: none is.";
    rfc9111_heuristic_max: Seconds = "86400.000" ["seconds" min "0.000"] { Own }
        "The longest freshness that rfc9111_heuristic may give.";
    rfc9111_keep: Seconds = "3600.000" ["seconds" min "0.000"] { Own ObjSticky }
        "With feature=+rfc9111 (or req.rfc9111): how long an object that is stale is kept, in the place of default_keep: to be revalidated, for stale-if-error, and for times when the origin is out of reach.";
    rfc9111_targeted: Text = "CDN-Cache-Control" [""] { Own }
        "With feature=+rfc9111 (or req.rfc9111): fields of a response that count in the place of Cache-Control and Expires (RFC 9213), the first that is there, between blanks or commas: \"Lacquer-Cache-Control CDN-Cache-Control\".";
    rush_exponent: Count = "3" ["requests per request" min "2"] { Experimental }
        "How many parked requests are woken when a fetch fails or isn't made after all. One that brings an object wakes all.";
    send_timeout: Seconds = "600.000" ["seconds" min "0.000"] { DelayedEffect }
        "How long sending a response may take in all before the session is closed.";
    server_timing: Switch = "off" ["bool"] { Own }
        "Add a Server-Timing field to responses: whether it was a hit, how long it took until the response began, and of that how long the backend and others' fetches were waited for. Browsers show it to who develops the site. vcl_deliver sees it and may change it.";
    shortlived: Seconds = "10.000" ["seconds" min "0.000"] {}
        "Objects with less life than this are kept in Transient.";
    shutdown_grace: Seconds = "0.000" ["seconds" min "0.000"] { Own }
        "How long a worker that is told to stop finishes requests in progress; 0 stops at once.";
    sigsegv_handler: Switch = "on" ["bool"] { MustRestart NoEffect }
        "Report where the worker crashed before it dies.";
    slice_ahead: Count = "1" ["slices" min "0" max "16"] { Own }
        "How many slices are fetched ahead of the one that a client is sent, within what it asked for. More makes a whole response from a distant backend faster, and each client may have so many slices fetched that it then doesn't take.";
    slice_min: Bytes = "0b" ["bytes" min "0b"] { Own }
        "Objects of so many bytes or more are kept in slices, if the backend's answer has Accept-Ranges: bytes, Content-Length and a validator: then a range fetches what it needs alone. 0: only those that VCL says (beresp.do_slice). An object of one slice is stored whole.";
    slice_size: Bytes = "1M" ["bytes" min "64k" max "64M"] { Own }
        "Bytes in a slice, a power of two; VCL can set it for a fetch (bereq.slice_size). An object keeps the size that it was stored with.";
    step_timing: Count = "100" ["steps" min "0"] { Own }
        "One step of a serving thread in so many is timed: how much of the CPU one turn of a task takes, for which the thread's other clients wait (MAIN.longest_step, steps_timed, steps_long). Setting it begins longest_step anew. 1: all are, and the log tells of long ones. 0: none is.";
    syslog_cli_traffic: Switch = "on" ["bool"] {}
        "Write CLI commands and replies to syslog.";
    tag_fields: Text = "" [""] { Own }
        "Fields of a response that name the object's tags, by which it can be purged (purge.tag, VCL). Names between blanks or commas: \"Surrogate-Key Cache-Tag\". Tags are between blanks in Surrogate-Key, between commas in Cache-Tag and Edge-Cache-Tag, between either in others; behind a name =blank, =comma or =both says otherwise. import xkey adds xkey and X-HashTwo. Objects that were stored before have none.";
    tag_space: Bytes = "1G" ["bytes" min "0b"] { Own }
        "What the index of tags may take in memory, beside the stores: about 13 bytes for each tag of an object, 40 for an object, 60 for each different tag and its text. An object whose tags find no room isn't kept (XKEY.refused). 0: no limit.";
    tag_urls: Switch = "off" ["bool"] { Own }
        "Objects have a tag of the host and URL that were asked for, too, so that purge.url, purge.host and purge.prefix find them, whatever vcl_hash makes of both. About 90 bytes for each URL and its text, under tag_space. Objects that were stored before have none.";
    tcp_defer_accept: Switch = "on" ["bool"] { Own MustRestart }
        "Take a client's connection only when its first bytes have come, or nothing for a second. A connection per request costs a third less of the system's time; connections that say nothing are seen a second late.";
    tcp_fastopen: Switch = "off" ["bool"] { MustRestart NoEffect }
        "Accept TCP Fast Open.";
    tcp_keepalive_intvl: Seconds = "75.000" ["seconds" min "1.000" max "100.000"] { Experimental }
        "Seconds between keepalive probes on client connections.";
    tcp_keepalive_probes: Count = "9" ["probes" min "1" max "100"] { Experimental }
        "Unanswered keepalive probes after which a client connection is dropped.";
    tcp_keepalive_time: Seconds = "7200.000" ["seconds" min "1.000" max "7200.000"] { Experimental }
        "Silence on a client connection before the first keepalive probe.";
    thread_pool_add_delay: Seconds = "0.000" ["seconds" min "0.000"] { Experimental NoEffect }
        "No effect here: transactions are tasks, no thread is started for one. In seconds; releases before 4 took milliseconds.";
    thread_pool_destroy_delay: Seconds = "1.000" ["seconds" min "0.010"] { DelayedEffect Experimental NoEffect }
        "No effect here: transactions are tasks, no thread ends with one.";
    thread_pool_fail_delay: Seconds = "0.200" ["seconds" min "0.010"] { Experimental NoEffect }
        "No effect here: transactions are tasks, no thread is started for one.";
    thread_pool_max: Count = "5000" ["threads" min "100"] { DelayedEffect }
        "thread_pools times this bounds the fetches and pipes in progress. A request that needs one beyond that waits; see thread_queue_limit, and max_fetches_per_ip for the part of one client. A background fetch isn't begun then.\nHits need no fetch and never wait. In Varnish requests count, too.";
    thread_pool_min: Count = "100" ["threads" min "5" max "5000"] { DelayedEffect NoEffect }
        "No effect here but as the lower limit of thread_pool_max: transactions are tasks.";
    thread_pool_reserve: Count = "0" ["threads" max "95"] { DelayedEffect NoEffect }
        "Transactions kept free for work that unblocks others, for each pool. 0 is 5 % of thread_pool_min.";
    thread_pool_stack: Bytes = "80k" ["bytes" min "16k"] { DelayedEffect NoEffect }
        "No effect here: transactions are tasks and have no stack of their own.";
    thread_pool_timeout: Seconds = "300.000" ["seconds" min "10.000"] { DelayedEffect Experimental NoEffect }
        "No effect here: transactions are tasks, no idle thread waits to end.";
    thread_pool_watchdog: Seconds = "60.000" ["seconds" min "0.100"] { Experimental NoEffect }
        "The worker is ended with a report when a queue has not moved for this long.";
    thread_pools: Count = "2" ["pools" min "1" max "32"] { DelayedEffect Experimental }
        "With thread_pool_max, bounds the fetches in progress. The number of threads follows the CPUs.";
    thread_queue_limit: Count = "20" ["requests" min "0"] { Experimental }
        "thread_pools times this many requests may wait for their fetch when thread_pool_max is reached; more are answered 503 (sess_dropped). The connection stays.\nA CPU refuses 2000 a second, and a burst of 200. Beyond that requests stand in line (req_held), 1000 at most, until there is room or they can be refused.";
    thread_stats_rate: Count = "10" ["requests" min "0"] { Experimental NoEffect }
        "No effect here: counters are exact at all times.";
    timeout_head: Seconds = "30.000" ["seconds" min "0.000"] { Own }
        "How long a client may take to send a whole request head, from its first byte; 0 is no limit.";
    timeout_idle: Seconds = "5.000" ["seconds" min "0.000"] {}
        "How long a client connection may be silent between requests.";
    timeout_linger: Seconds = "0.050" ["seconds" min "0.000"] { Experimental NoEffect }
        "How long a session stays on its thread for the next request before it is parked. No effect here: parking costs nothing.";
    tls_client_hosts: Switch = "on" ["bool"] { Own }
        "Whether a host whose certificate asks clients for theirs (client-verify) is served on no connection by which that wasn't asked: 421 on other frontends and over plain HTTP, before VCL. Without it only the certificates of one frontend are compared, and VCL has to keep such hosts apart (tls.has_client_cert(), also in vcl_hash).";
    tls_err_dup_servername: Switch = "off" ["bool"] { Own }
        "A certificate is refused that has a name of another one at the same frontend. Off, the name is that of the certificate that was committed last, and of several in one commit, of the first.";
    tls_handshake_timeout: Seconds = "8.000" ["seconds" min "0.100"] { Own }
        "How long a client may take from its connection to the end of its TLS handshake; of release 9.";
    tls_ja3: Switch = "off" ["bool"] { Own }
        "Whether JA3 fingerprints of TLS clients are made, for tls.ja3() and tls.ja3_hash(); of release 9. JA4's are always there.";
    tls_kernel: Text = "off" [""] { Own }
        "Whether the kernel seals what is sent over TLS (Linux' kTLS), so that bodies reach it as they lie in memory. auto: connections of TLS 1.2, and those of TLS 1.3 where it can change keys (Linux 6.14). on: all that it takes; a client of TLS 1.3 that asks an older kernel for new keys loses its connection. off: none. Where it has no TLS (module tls) records are sealed by the worker, as ever. It holds for connections that begin from then on.";
    tls_signer: Switch = "off" ["bool"] { Own MustRestart }
        "Whether private keys are in a process of their own, which signs what the worker asks it to, and not in the worker. A handshake that isn't resumed takes a little longer. It holds for workers that begin from then on.";
    tls_watch: Seconds = "5.000" ["seconds" min "0.000"] { Own }
        "How often the files of each certificate are looked at. One that changed is read and used at once; one that is of no use is reported, and the certificate stays. 0: only tls.cert.reload reads files again.";
    traceparent: Switch = "off" ["bool"] { Own }
        "Whether requests belong to traces (W3C Trace Context): the field traceparent of a request continues its client's trace or begins one, and that of a fetch tells the origin who asks it. VCL may read, set and unset it. `lacquer trace` sends what the log says of them to a collector.";
    traceparent_ratio: Real = "1" ["" min "0" max "1"] { Own }
        "Of traces that begin here (traceparent) this part is marked to be kept by all who take part.";
    uncacheable_ttl: Seconds = "120.000" ["seconds" min "0.000"] { Own }
        "How long the built-in VCL remembers that an answer is uncacheable; of release 8 and later.";
    upgrade_drain: Seconds = "300.000" ["seconds" min "0.000"] { Own }
        "How long the worker of before an upgrade goes on with the connections that it has. Each ends by its own time: with its next response, when it has been idle for timeout_idle, or here.";
    vary_limit: Count = "1000" ["variants" min "0"] { Own }
        "How many variants an objhead may have; beyond it the least useful one goes. 0 is no limit.";
    vary_notice: Count = "10" ["variants" min "1"] {}
        "A lookup that passes more variants than this is logged as a Notice.";
    vcc_allow_inline_c: Switch = "off" ["bool"] {}
        "Inline C in VCL. It is refused here whatever this says; the message names the replacement.";
    vcc_err_unref: Switch = "on" ["bool"] {}
        "A definition that VCL never uses is an error; off, a warning.";
    vcc_unsafe_path: Switch = "on" ["bool"] {}
        "Allow \"/\" and \"..\" in the names that import and include take.";
    vcl_cooldown: Seconds = "600.000" ["seconds" min "1.000"] {}
        "How long an unused VCL in state auto stays warm.";
    vcl_dialect: Text = "auto" [""] { Own }
        "The language of VCL files that don't say `vcl 4.x;`: 2.0, 2.1 or 3.0; auto tells it by their words.";
    vcl_path: Text = "/etc/varnish:/usr/share/varnish/vcl" [""] { BuildOptions }
        "Directories, separated by colons, where VCL files are looked for.";
    vmod_path: Text = "" [""] { BuildOptions NoEffect }
        "No effect here: vmods are part of the program.";
    vsl_buffer: Bytes = "16k" ["bytes" min "267"] {}
        "Size of the buffer in which a transaction gathers its log records; vsl_reclen and 12 bytes at least.";
    vsl_mask: Tags = "-Debug,-ObjProtocol,-ObjStatus,-ObjReason,-ObjHeader,-VCL_trace,-ExpKill,-WorkThread,-Hash,-VfpAcct,-H2RxHdr,-H2RxBody,-H2TxHdr,-H2TxBody,-VdpAcct" [""] {}
        "Log tags that are not written. \"-Tag\" adds one, \"+Tag\" removes it, \"default\" sets the default.";
    vsl_reclen: Bytes = "255b" ["bytes" min "16b" max "16372"] {}
        "The longest log record; longer data is cut. vsl_buffer less 12 bytes at most.";
    vsl_space: Bytes = "80M" ["bytes" min "1M" max "4G"] { MustRestart }
        "Size of the log in shared memory.";
    vsm_free_cooldown: Seconds = "60.000" ["seconds" min "10.000" max "600.000"] { NoEffect }
        "How long shared memory stays after its last use, so that readers notice.";
    waitinglist_limit: Count = "0" ["requests" min "0"] { Own }
        "How many requests may be parked on one busy object; more are answered 503. 0 is no limit.";
    waitinglist_timeout: Seconds = "0.000" ["seconds" min "0.000"] { Own }
        "How long a request may be parked on busy objects; then it is answered 503. 0 is no limit.";
    workspace_backend: Bytes = "96k" ["bytes" min "1k"] { DelayedEffect }
        "Bytes of working memory for a fetch. Only its limit is kept here; memory is taken as needed.";
    workspace_client: Bytes = "96k" ["bytes" min "9k"] { DelayedEffect }
        "Bytes of working memory for a request. Only its limit is kept here; memory is taken as needed.";
    workspace_session: Bytes = "0.75k" ["bytes" min "384b"] { DelayedEffect NoEffect }
        "Bytes of working memory for a session. Only its limit is kept here; memory is taken as needed.";
    workspace_thread: Bytes = "2k" ["bytes" min "0.25k" max "8k"] { DelayedEffect NoEffect }
        "No effect here: threads have no workspace.";
    x_forwarded_proto: Switch = "off" ["bool"] { Own }
        "Whether X-Forwarded-Proto of each request says, before VCL sees it, how it came here: https or http. It is https by TLS of our own, and where a PROXY header tells of TLS or of port 443; what the client wrote in the field is gone. Off leaves the field as it came, so that anybody can write it: believe it then only where all clients are proxies that set it.";
    zstd_level: Count = "3" ["" min "1" max "19"] { Own }
        "How hard a body is packed in zstd while it is fetched, or when a form in zstd is first made.";
}
