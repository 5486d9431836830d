// SPDX-License-Identifier: BSD-2-Clause
//! The counters themselves, each set in the order of varnish-7.1's shared memory; our own come last.
//!
//! A row: name, type, level, format, group, short text, and a long text where the short one is not enough.

use super::{Counter, CounterFields, CounterFormat, CounterKind, CounterLevel, Elem};

macro_rules! set {
    ($(#[$doc:meta])* $ty:ident $name:literal $order:literal $oneliner:literal;
     $($(#[$_m:meta])* $field:ident: $kind:ident $level:ident $format:ident $group:literal $text:literal $(=> $docs:literal)?;)*) => {
        $(#[$doc])*
        #[derive(Debug, Default)]
        #[repr(C)]
        pub struct $ty {
            $(#[doc = $text] pub $field: Counter,)*
        }

        impl super::sealed::SealedCounters for $ty {}

        impl CounterFields for $ty {
            const NAME: &'static str = $name;
            const ORDER: u32 = $order;
            const ONELINER: &'static str = $oneliner;
            const ELEMS: &'static [Elem] = &[$(Elem {
                name: stringify!($field),
                kind: CounterKind::$kind,
                level: CounterLevel::$level,
                format: CounterFormat::$format,
                group: $group,
                oneliner: $text,
                docs: concat!("" $(, $docs)?),
            }),*];

            fn counter(&self, index: usize) -> Option<&Counter> {
                [$(&self.$field),*].get(index).copied()
            }
        }
    };
}

/// The set of counters of [`crate::no_hit::NoHit`], declared there.
macro_rules! no_hit_set {
    ($($field:ident $text:literal;)*) => {
        use crate::counters::{Counter, Elem, CounterFormat, CounterKind, CounterLevel, CounterFields};

        /// Requests that weren't hits, by reason.
        #[derive(Debug, Default)]
        #[repr(C)]
        pub struct NoHitCounts {
            $(#[doc = $text] pub $field: Counter,)*
        }

        impl crate::counters::sealed::SealedCounters for NoHitCounts {}

        impl CounterFields for NoHitCounts {
            const NAME: &'static str = "NOHIT";
            const ORDER: u32 = 15;
            const ONELINER: &'static str = "Requests that weren't hits, by reason";
            const ELEMS: &'static [Elem] = &[$(Elem {
                name: stringify!($field),
                kind: CounterKind::Counter,
                level: CounterLevel::Info,
                format: CounterFormat::Integer,
                group: "",
                oneliner: $text,
                docs: "",
            }),*];

            fn counter(&self, index: usize) -> Option<&Counter> {
                [$(&self.$field),*].get(index).copied()
            }
        }
    };
}
pub(crate) use no_hit_set;

set! {
    /// The worker as a whole.
    Main "MAIN" 10 "Main counters";
    summs: Counter Debug Integer "wrk" "stat summ operations" => "Always 0: threads update these counters directly.";
    uptime: Counter Info Duration "" "Child process uptime" => "How long the worker has been running.";
    sess_conn: Counter Info Integer "wrk" "Sessions accepted" => "Client connections accepted.";
    sess_fail: Counter Info Integer "wrk" "Session accept failures" => "The sum of the sess_fail_* counters, which give the reasons.";
    sess_fail_econnaborted: Counter Info Integer "wrk" "Session accept failures: connection aborted" => "The client aborted the connection; usually harmless.";
    sess_fail_eintr: Counter Info Integer "wrk" "Session accept failures: interrupted system call" => "accept() was interrupted; usually harmless.";
    sess_fail_emfile: Counter Info Integer "wrk" "Session accept failures: too many open files" => "No file descriptor was left. Raise RLIMIT_NOFILE (LimitNOFILE= of systemd, ulimit -n).";
    sess_fail_ebadf: Counter Info Integer "wrk" "Session accept failures: bad file descriptor" => "The listen socket was invalid. Should never happen.";
    sess_fail_enomem: Counter Info Integer "wrk" "Session accept failures: not enough memory" => "Probably no memory for socket buffers.";
    sess_fail_other: Counter Info Integer "wrk" "Session accept failures: other" => "Any other reason.";
    client_req_400: Counter Info Integer "wrk" "Client requests received, subject to 400 errors" => "Malformed requests, answered 400.";
    client_req_417: Counter Info Integer "wrk" "Client requests received, subject to 417 errors" => "Requests with an Expect header that can't be met, answered 417.";
    client_req: Counter Info Integer "wrk" "Good client requests received" => "Requests that could be parsed.";
    esi_req: Counter Info Integer "wrk" "ESI subrequests" => "ESI includes requested.";
    cache_hit: Counter Info Integer "wrk" "Cache hits" => "Lookups that found an object that could be delivered without a fetch, stale ones in grace included.";
    cache_hit_grace: Counter Info Integer "wrk" "Cache grace hits" => "Hits on an object past its TTL, delivered stale. cache_hit counts them, too.";
    cache_hitpass: Counter Info Integer "wrk" "Cache hits for pass." => "Lookups that found a cached decision to pass (hit-for-pass).";
    cache_hitmiss: Counter Info Integer "wrk" "Cache hits for miss." => "Lookups that found a cached decision to fetch without request coalescing (hit-for-miss).";
    cache_miss: Counter Info Integer "wrk" "Cache misses" => "Lookups that found no object to deliver.";
    beresp_uncacheable: Counter Info Integer "wrk" "Uncacheable backend responses" => "Backend responses considered uncacheable.";
    beresp_shortlived: Counter Info Integer "wrk" "Shortlived objects" => "Objects whose TTL, grace and keep together are shorter than the parameter shortlived.";
    backend_conn: Counter Info Integer "" "Backend conn. success" => "Connections to backends that were opened.";
    backend_unhealthy: Counter Info Integer "" "Backend conn. not attempted" => "Connections not attempted because the backend is sick.";
    backend_busy: Counter Info Integer "" "Backend conn. too many" => "Connections not attempted because the backend is at its max_connections, or became sick while they waited for one.";
    backend_fail: Counter Info Integer "" "Backend conn. failures" => "Connection attempts that failed.";
    backend_reuse: Counter Info Integer "" "Backend conn. reuses" => "Requests sent over a keep-alive connection that was used before.";
    backend_recycle: Counter Info Integer "" "Backend conn. recycles" => "Connections put back into the pool of keep-alive connections.";
    backend_retry: Counter Info Integer "" "Backend conn. retry" => "Requests sent again over a new connection because the reused one was closed.";
    fetch_head: Counter Info Integer "wrk" "Fetch no body (HEAD)" => "Responses without a body because the request was HEAD.";
    fetch_length: Counter Info Integer "wrk" "Fetch with Length" => "Response bodies with Content-Length.";
    fetch_chunked: Counter Info Integer "wrk" "Fetch chunked" => "Response bodies with chunked encoding.";
    fetch_eof: Counter Info Integer "wrk" "Fetch EOF" => "Response bodies that end with the connection.";
    fetch_bad: Counter Info Integer "wrk" "Fetch bad T-E" => "Responses whose body length can't be determined: an invalid Content-Length, two of them, one together with a transfer coding, or an unknown Transfer-Encoding.";
    fetch_none: Counter Info Integer "wrk" "Fetch no body" => "Responses with an empty body.";
    fetch_1xx: Counter Info Integer "wrk" "Fetch no body (1xx)" => "Responses with status 101, or with more interim responses than a fetch accepts. Other interim responses aren't counted.";
    fetch_204: Counter Info Integer "wrk" "Fetch no body (204)" => "Responses without a body because of status 204.";
    fetch_304: Counter Info Integer "wrk" "Fetch no body (304)" => "Responses without a body because of status 304.";
    fetch_failed: Counter Info Integer "wrk" "Fetch failed (all causes)" => "Fetches that failed, whatever the cause.";
    fetch_no_thread: Counter Info Integer "wrk" "Fetch failed (no thread)" => "Fetches not started because thread_pools times thread_pool_max fetches were in progress and the queue was full (or it was a background fetch), or because max_fetches_per_ip was reached.";
    pools: Gauge Info Integer "" "Number of thread pools" => "The parameter thread_pools.";
    threads: Gauge Info Integer "" "Total number of threads" => "The number of threads that Varnish would have: one for each fetch and pipe in progress (at most thread_pools times thread_pool_max), and at least thread_pools times thread_pool_min. Requests that need no fetch don't count.";
    threads_limited: Counter Info Integer "" "Threads hit max" => "Requests that found thread_pools times thread_pool_max fetches in progress. Each of them waited (sess_queued) or was refused (sess_dropped).";
    threads_created: Counter Info Integer "" "Threads created" => "Threads started by the worker: one for each CPU that may be used. These are system threads, not those that MAIN.threads counts.";
    threads_destroyed: Counter Info Integer "" "Threads destroyed" => "Always 0: serving threads end with the worker.";
    threads_failed: Counter Info Integer "" "Thread creation failed" => "Threads for blocking calls (reading files, looking up names) that could not be started. The existing threads make these calls.";
    thread_queue_len: Gauge Info Integer "" "Length of session queue" => "Requests that wait for a free fetch slot (thread_pools times thread_pool_max).";
    busy_sleep: Counter Info Integer "wrk" "Number of requests sent to sleep on busy objhdr" => "Requests that waited for another request's fetch of the same object (request coalescing).";
    busy_wakeup: Counter Info Integer "wrk" "Number of requests woken after sleep on busy objhdr" => "Waiting requests that continued.";
    busy_killed: Counter Info Integer "" "Number of requests killed after sleep on busy objhdr" => "Waiting requests that were given up.";
    sess_queued: Counter Info Integer "" "Sessions queued for thread" => "Requests that waited because thread_pools times thread_pool_max fetches were in progress.";
    sess_dropped: Counter Info Integer "" "Sessions dropped for thread" => "Requests that found thread_queue_limit others waiting and were answered 503 (also counted in req_dropped; the connection may stay open), and connections beyond max_sessions or max_sessions_per_ip.";
    req_dropped: Counter Info Integer "" "Requests dropped" => "Requests that were answered 503 because the queue was full; see thread_queue_limit.";
    n_object: Gauge Info Integer "wrk" "object structs made" => "Objects in the cache.";
    n_vampireobject: Gauge Diag Integer "wrk" "unresurrected objects" => "Always 0. DISK.objects counts the objects of a store on disk.";
    n_objectcore: Gauge Info Integer "wrk" "objectcore structs made" => "Objects, and entries for hit-for-miss, hit-for-pass and fetches in progress.";
    n_objecthead: Gauge Info Integer "wrk" "objecthead structs made" => "Cache keys: each has the variants of one hash.";
    n_backend: Gauge Info Integer "" "Number of backends" => "Backends of all loaded VCLs.";
    n_expired: Counter Info Integer "" "Number of expired objects" => "Objects removed because their lifetime was over.";
    n_lru_nuked: Counter Info Integer "" "Number of LRU nuked objects" => "Objects evicted to make room for others.";
    n_lru_moved: Counter Diag Integer "" "Number of LRU moved objects" => "Moves in the order of eviction.";
    n_lru_limited: Counter Info Integer "" "Reached nuke_limit" => "Times nuke_limit was reached: that many objects had been evicted and there was still no room.";
    losthdr: Counter Info Integer "" "HTTP header overflows" => "Header lines dropped because the header had no room for them. Each is logged as LostHeader.";
    s_sess: Counter Info Integer "wrk" "Total sessions seen" => "Client sessions.";
    n_pipe: Gauge Info Integer "" "Number of ongoing pipe sessions" => "Pipes in progress.";
    pipe_limited: Counter Info Integer "wrk" "Pipes hit pipe_sess_max" => "Pipes refused because pipe_sess_max was reached.";
    s_pipe: Counter Info Integer "wrk" "Total pipe sessions seen" => "Requests piped.";
    s_pass: Counter Info Integer "wrk" "Total pass-ed requests seen" => "Requests passed.";
    s_fetch: Counter Info Integer "wrk" "Total backend fetches initiated" => "Fetches started, background fetches included.";
    s_bgfetch: Counter Info Integer "wrk" "Total backend background fetches initiated" => "Background fetches started, which refresh stale objects.";
    s_synth: Counter Info Integer "wrk" "Total synthetic responses made" => "Synthetic responses.";
    s_req_hdrbytes: Counter Info Bytes "wrk" "Request header bytes" => "Request header bytes received.";
    s_req_bodybytes: Counter Info Bytes "wrk" "Request body bytes" => "Request body bytes received.";
    s_resp_hdrbytes: Counter Info Bytes "wrk" "Response header bytes" => "Response header bytes sent.";
    s_resp_bodybytes: Counter Info Bytes "wrk" "Response body bytes" => "Response body bytes sent.";
    s_pipe_hdrbytes: Counter Info Bytes "wrk" "Pipe request header bytes" => "Request header bytes of piped requests.";
    s_pipe_in: Counter Info Bytes "wrk" "Piped bytes from client" => "Bytes forwarded from clients in pipes.";
    s_pipe_out: Counter Info Bytes "wrk" "Piped bytes to client" => "Bytes forwarded to clients in pipes.";
    sess_closed: Counter Info Integer "wrk" "Session Closed" => "Client sessions closed.";
    sess_closed_err: Counter Info Integer "" "Session Closed with error" => "Client sessions closed with an error. The sc_* counters give the reasons.";
    sess_readahead: Counter Info Integer "wrk" "Session Read Ahead" => "Requests whose bytes had arrived with the request before them (pipelining).";
    sess_herd: Counter Diag Integer "wrk" "Session herd" => "Times a connection began to wait for its next request.";
    sc_rem_close: Counter Diag Integer "" "Session OK REM_CLOSE" => "Sessions closed by the client (REM_CLOSE).";
    sc_req_close: Counter Diag Integer "" "Session OK REQ_CLOSE" => "Sessions closed because the client asked for it (REQ_CLOSE).";
    sc_req_http10: Counter Diag Integer "" "Session Err REQ_HTTP10" => "Sessions closed after a request older than HTTP/1.1 without keep-alive (REQ_HTTP10).";
    sc_rx_bad: Counter Diag Integer "" "Session Err RX_BAD" => "Sessions closed because the client violated the protocol (RX_BAD).";
    sc_rx_body: Counter Diag Integer "" "Session Err RX_BODY" => "Sessions closed because reading the request body failed (RX_BODY).";
    sc_rx_junk: Counter Diag Integer "" "Session Err RX_JUNK" => "Sessions closed because the client sent junk (RX_JUNK).";
    sc_rx_overflow: Counter Diag Integer "" "Session Err RX_OVERFLOW" => "Sessions closed because a request header was too large (RX_OVERFLOW).";
    sc_rx_timeout: Counter Diag Integer "" "Session Err RX_TIMEOUT" => "Sessions closed because the client was too slow to send (RX_TIMEOUT).";
    sc_rx_close_idle: Counter Diag Integer "" "Session Err RX_CLOSE_IDLE" => "Sessions closed because timeout_idle was over (RX_CLOSE_IDLE).";
    sc_tx_pipe: Counter Diag Integer "" "Session OK TX_PIPE" => "Sessions closed after a pipe (TX_PIPE).";
    sc_tx_error: Counter Diag Integer "" "Session Err TX_ERROR" => "Sessions closed because writing to the client failed (TX_ERROR).";
    sc_tx_eof: Counter Diag Integer "" "Session OK TX_EOF" => "Sessions closed to mark the end of a body (TX_EOF).";
    sc_resp_close: Counter Diag Integer "" "Session OK RESP_CLOSE" => "Sessions closed because the backend or VCL asked for it (RESP_CLOSE).";
    sc_overload: Counter Diag Integer "" "Session Err OVERLOAD" => "Sessions closed because a resource ran out (OVERLOAD).";
    sc_pipe_overflow: Counter Diag Integer "" "Session Err PIPE_OVERFLOW" => "Sessions closed because pipe_sess_max was reached (PIPE_OVERFLOW).";
    sc_range_short: Counter Diag Integer "" "Session Err RANGE_SHORT" => "Sessions closed because a range was cut short (RANGE_SHORT).";
    sc_req_http20: Counter Diag Integer "" "Session Err REQ_HTTP20" => "Sessions closed because HTTP/2 isn't accepted (REQ_HTTP20).";
    sc_vcl_failure: Counter Diag Integer "" "Session Err VCL_FAILURE" => "Sessions closed because VCL failed (VCL_FAILURE).";
    client_resp_500: Counter Diag Integer "wrk" "Delivery failed due to insufficient workspace." => "Always 0. If VCL sets a header that doesn't fit, VCL fails (vcl_fail). Other headers that don't fit are left out of the response (losthdr).";
    ws_backend_overflow: Counter Info Integer "wrk" "workspace_backend overflows" => "Transactions whose bereq or beresp had no room for what VCL or this server set: more than workspace_backend bytes or http_max_hdr header lines. Each transaction is counted once. The log names the header (LostHeader, VCL_Error).";
    ws_client_overflow: Counter Info Integer "wrk" "workspace_client overflows" => "Transactions whose req or resp had no room for what VCL or this server set: more than workspace_client bytes or http_max_hdr header lines. Each transaction is counted once. The log names the header (LostHeader, VCL_Error).";
    ws_thread_overflow: Counter Info Integer "wrk" "workspace_thread overflows" => "Always 0: there is no such workspace.";
    ws_session_overflow: Counter Info Integer "" "workspace_session overflows" => "Always 0: there is no such workspace.";
    shm_records: Counter Diag Integer "" "SHM records" => "Log records written.";
    shm_writes: Counter Diag Integer "" "SHM writes" => "Writes to the log; one write has many records.";
    shm_flushes: Counter Diag Integer "" "SHM flushes due to overflow" => "Writes to the log because a transaction's buffer (vsl_buffer) was full.";
    shm_cont: Counter Diag Integer "" "SHM MTX contention" => "Writes to the log that had to wait for another one.";
    shm_cycles: Counter Diag Integer "" "SHM cycles through buffer" => "Times the log reached its end and continued at its start.";
    backend_req: Counter Info Integer "" "Backend requests made" => "Requests sent to backends.";
    n_vcl: Gauge Info Integer "" "Number of loaded VCLs in total" => "VCLs loaded.";
    n_vcl_avail: Gauge Diag Integer "" "Number of VCLs available" => "Loaded VCLs that aren't discarded.";
    n_vcl_discard: Gauge Diag Integer "" "Number of discarded VCLs" => "Discarded VCLs that are still in use.";
    vcl_fail: Counter Info Integer "wrk" "VCL failures" => "Failures that ended a VCL subroutine.";
    bans: Gauge Info Integer "ban_mtx" "Count of bans" => "All bans on the list, completed ones included.";
    bans_completed: Gauge Diag Integer "ban_mtx" "Number of bans marked 'completed'" => "Bans on the list that no object has to be tested against: the lurker has finished them, or an identical ban replaced them.";
    bans_obj: Gauge Diag Integer "ban_mtx" "Number of bans using obj.*" => "Bans that use only obj.*, which the lurker can test.";
    bans_req: Gauge Diag Integer "ban_mtx" "Number of bans using req.*" => "Bans that use req.*, which the lurker can't test.";
    bans_added: Counter Diag Integer "ban_mtx" "Bans added" => "Bans added to the list.";
    bans_deleted: Counter Diag Integer "ban_mtx" "Bans deleted" => "Bans removed from the list.";
    bans_tested: Counter Diag Integer "ban_mtx" "Bans tested against objects (lookup)" => "Tests of an object against a ban during lookups.";
    bans_obj_killed: Counter Diag Integer "ban_mtx" "Objects killed by bans (lookup)" => "Objects removed by bans during lookups.";
    bans_lurker_tested: Counter Diag Integer "ban_mtx" "Bans tested against objects (lurker)" => "Tests of an object against a ban by the ban lurker.";
    bans_tests_tested: Counter Diag Integer "ban_mtx" "Ban tests tested against objects (lookup)" => "Tests of an object against a single condition of a ban during lookups: a ban with two conditions counts once in bans_tested and up to twice here.";
    bans_lurker_tests_tested: Counter Diag Integer "ban_mtx" "Ban tests tested against objects (lurker)" => "Tests of an object against a single condition of a ban by the ban lurker: a ban with two conditions counts once in bans_lurker_tested and up to twice here.";
    bans_lurker_obj_killed: Counter Diag Integer "ban_mtx" "Objects killed by bans (lurker)" => "Objects removed by bans by the ban lurker.";
    bans_lurker_obj_killed_cutoff: Counter Diag Integer "ban_mtx" "Objects killed by bans for cutoff (lurker)" => "Objects that the ban lurker removed because ban_cutoff was reached.";
    bans_dups: Counter Diag Integer "ban_mtx" "Bans superseded by other bans" => "Bans replaced by a later identical one.";
    bans_lurker_contention: Counter Diag Integer "ban_mtx" "Lurker gave way for lookup" => "Always 0: lookups never wait for the lurker.";
    bans_persisted_bytes: Gauge Diag Bytes "ban_mtx" "Bytes used by the persisted ban lists" => "Bytes of bans that are kept across restarts of the worker.";
    bans_persisted_fragmentation: Gauge Diag Bytes "ban_mtx" "Extra bytes in persisted ban lists due to fragmentation" => "Bytes of kept bans that are completed or dropped.";
    n_purges: Counter Info Integer "" "Number of purge operations executed" => "Purges executed.";
    n_obj_purged: Counter Info Integer "" "Number of purged objects" => "Objects removed by purges.";
    exp_mailed: Counter Diag Integer "" "Number of objects mailed to expiry thread" => "Always 0: objects are registered for expiry when they are stored.";
    exp_received: Counter Diag Integer "" "Number of objects received by expiry thread" => "Always 0: see exp_mailed.";
    hcb_nolock: Counter Debug Integer "wrk" "HCB Lookups without lock" => "Always 0: each lookup locks a part of the index.";
    hcb_lock: Counter Debug Integer "" "HCB Lookups with lock" => "Always 0: cache_hit and cache_miss count the lookups.";
    hcb_insert: Counter Debug Integer "" "HCB Inserts" => "Cache keys added to the index.";
    esi_errors: Counter Diag Integer "" "ESI parse errors (unlock)" => "Errors in ESI markup.";
    esi_warnings: Counter Diag Integer "" "ESI parse warnings (unlock)" => "Warnings about ESI markup.";
    vmods: Gauge Info Integer "" "Loaded VMODs" => "Modules that the loaded VCLs import.";
    n_gzip: Counter Info Integer "" "Gzip operations" => "Bodies compressed with gzip.";
    n_gunzip: Counter Info Integer "" "Gunzip operations" => "Bodies decompressed from gzip.";
    n_test_gunzip: Counter Info Integer "" "Test gunzip operations" => "gzip bodies from backends that were verified while they were stored.";
    // Counters of later releases.
    bgfetch_no_thread: Counter Info Integer "wrk" "Background fetch failed (no thread)" => "Background fetches not started because thread_pools times thread_pool_max fetches were in progress, or because max_fetches_per_ip was reached. The stale object was delivered. fetch_no_thread and bgfetch_limited count them, too.";
    shm_bytes: Counter Diag Bytes "" "SHM bytes" => "Bytes written to the log.";
    n_superseded: Counter Diag Integer "" "Number of superseded objects" => "Objects that a fetch replaced by a newer one. The lifetime of most of them was over.";
    sc_rapid_reset: Counter Diag Integer "" "Session Err RAPID_RESET" => "HTTP/2 sessions ended because the client reset too many streams soon after they began (RAPID_RESET; h2_rapid_reset_limit). h2_abuse_rapid_reset counts them, too.";
    sc_bankrupt: Counter Diag Integer "" "Session Err BANKRUPT" => "HTTP/2 sessions ended because all of their streams waited for a window for h2_window_timeout (BANKRUPT). h2_abuse_shut_windows counts them, too.";
    transit_stored: Counter Info Bytes "wrk" "Stored uncacheable body bytes" => "Body bytes of passes and other uncacheable responses that were fetched without a limit of how far they may be ahead of the client (transit_buffer or beresp.transit_buffer was 0), of synthetic responses, and of requests that std.cache_req_body() kept.";
    transit_buffered: Counter Info Bytes "wrk" "Buffered uncacheable response body bytes" => "Body bytes of passes and other uncacheable responses that were fetched at most transit_buffer or beresp.transit_buffer ahead of the client.";
    http1_absolute_form: Counter Info Integer "" "Requests with absolute form request target" => "HTTP/1 requests whose target was a whole URL (http://example.com/). Its host became the header Host. Targets with https:// count unless feature=-https_scheme leaves them as they are.";
    // From here on our own.
    sess_limited: Counter Info Integer "" "Connections refused: max_sessions";
    sess_limited_ip: Counter Info Integer "" "Connections refused: max_sessions_per_ip";
    req_held: Counter Info Integer "" "Requests held because the queue was full" => "There was no free fetch slot, not even one to wait in, and many requests had just been refused. The request was held until there was room or it could be refused (see thread_queue_limit). If memory_limit refuses all requests, they are held unread.";
    fetch_limited_ip: Counter Info Integer "" "Fetches refused: max_fetches_per_ip";
    sess_idle_ended: Counter Info Integer "" "Idle connections closed for lack of descriptors" => "Nearly all file descriptors of the worker were in use, and another client connected.";
    accept_paused: Counter Info Integer "" "Times accepting paused for lack of descriptors" => "Raise RLIMIT_NOFILE (LimitNOFILE= of systemd, ulimit -n).";
    req_lone_lf: Counter Info Integer "" "Requests with lines that end with LF alone" => "See the parameter http_lone_lf.";
    head_timeout: Counter Info Integer "" "Connections closed: request header slower than timeout_head";
    recv_rate_low: Counter Info Integer "" "Connections closed: request body slower than min_recv_rate";
    send_rate_low: Counter Info Integer "" "Connections closed: response read slower than min_send_rate";
    req_reset: Counter Info Integer "" "Requests reset by their client" => "The client had reset the request before its VCL was finished, which then failed (feature=+vcl_req_reset).";
    req_panic: Counter Info Integer "" "Transactions ended by an internal error" => "A defect of this program: the request failed, and the worker continued. The log of the transaction has the details; please report it.";
    vcl_panic: Counter Info Integer "" "Transactions ended by an internal error in VCL" => "They are also counted in req_panic.";
    regex_limit: Counter Info Integer "" "Regular expressions stopped: pcre2_match_limit";
    vary_limit: Counter Info Integer "" "Variants removed: vary_limit";
    vary_many: Counter Info Integer "" "Times an object reached vary_notice variants" => "Each is also logged as a Notice of the next request that finds as many. lacquer explain shows what the application varies on.";
    n_vary_many: Gauge Info Integer "" "Objects that have vary_notice variants or more";
    vary_max: Gauge Info Integer "" "Most variants that an object has had";
    waitinglist_len: Gauge Info Integer "" "Requests waiting for another request's fetch";
    n_bgfetch: Gauge Info Integer "" "Background fetches in progress";
    bgfetch_limited: Counter Info Integer "" "Background fetches not started: a limit was reached" => "bgfetch_limit, thread_pool_max or max_fetches_per_ip. The stale object was delivered.";
    bgfetch_deferred: Counter Info Integer "" "Background fetches not started: hotter objects wait" => "There was room under bgfetch_limit again, but it is reserved for objects that are requested more often.";
    client_5xx: Counter Info Integer "" "Responses with status 500 or more" => "Whatever made them: the backend, VCL or this server.";
    early_hints: Counter Info Integer "" "Early hints (103) sent to clients" => "Sent because of the parameter early_hints while the page was fetched.";
    n_upload: Gauge Info Integer "" "Unfinished uploads whose backend is remembered" => "See the parameter upload_affinity.";
    upload_held: Counter Info Integer "" "Requests sent to the backend that holds their upload" => "HEAD, PATCH and DELETE for a URL that the backend gave to the client for an upload. See the parameter upload_affinity.";
    upload_dropped: Counter Info Integer "" "Uploads forgotten: too many" => "At most 10,000 are remembered. The oldest one of the client network that had the most made room for another.";
    bans_lookup_max: Gauge Diag Integer "" "Most bans that one lookup had to test an object against";
    bans_spread: Gauge Info Integer "" "Bans that are being spread" => "Bans with over or rate by which objects are still to become stale. ban.spreads lists them.";
    bans_spread_objects: Counter Info Integer "" "Objects that spread bans have matched" => "Each of them becomes stale at a moment of its own.";
    bans_lookup_cutoff: Counter Diag Integer "" "Objects removed by lookups: ban_lookup_limit";
    busy_hit: Counter Info Integer "" "Waiting requests that were then answered from the cache";
    busy_fetch: Counter Info Integer "" "Waiting requests that then fetched themselves";
    busy_again: Counter Info Integer "" "Waiting requests that had to wait again";
    busy_refused: Counter Info Integer "" "Requests refused: waitinglist_limit";
    busy_timeout: Counter Info Integer "" "Waiting requests given up: waitinglist_timeout";
    pass_abort: Counter Info Integer "" "Passes cancelled because the client disconnected" => "See the parameter pass_abort.";
    backend_wait: Counter Info Integer "" "Fetches that waited for a backend connection" => "The backend was at its max_connections; see backend_wait_limit.";
    backend_wait_fail: Counter Info Integer "" "Fetches that waited in vain for a backend connection" => "The time was up (backend_wait_timeout), or the backend became sick.";
    backend_wait_full: Counter Info Integer "" "Fetches refused: backend_wait_limit";
    backend_dns_lookup: Counter Info Integer "" "Lookups of backend names";
    backend_dns_fail: Counter Info Integer "" "Lookups of backend names that failed" => "The known addresses stay in use.";
    backend_tls: Counter Info Integer "" "TLS handshakes with backends completed" => "Those of probes are included.";
    backend_tls_resumed: Counter Info Integer "" "TLS handshakes with backends that resumed a session" => "They are also counted in backend_tls.";
    backend_tls_post_quantum: Counter Info Integer "" "TLS handshakes with backends that agreed on X25519MLKEM768" => "They are also counted in backend_tls.";
    backend_tls_fail: Counter Info Integer "" "TLS handshakes with backends that failed" => "BackendSSL records say why.";
    backend_dns_change: Counter Info Integer "" "Lookups of backend names that found new addresses";
    mem_used: Gauge Info Bytes "" "Memory of worker and manager" => "What memory_limit bounds: heaps, stacks, stores in memory, log, counters and the pages of the program. Measured once a second, and more often near the limit. lacquer memory shows what takes it.";
    mem_limit: Gauge Info Bytes "" "memory_limit in effect (0: none)" => "If memory_limit is auto, its actual value.";
    mem_trim: Counter Info Integer "" "Memory shortage, step 1: buffers released" => "See the parameter memory_limit.";
    mem_evict: Counter Info Integer "" "Memory shortage, step 2: objects evicted" => "The objects are also counted in n_lru_nuked.";
    mem_bgfetch: Counter Info Integer "" "Memory shortage, step 3: background fetches not started";
    mem_shed: Counter Info Integer "" "Memory shortage, step 4: requests answered 503";
    adopted: Counter Info Integer "" "Objects taken over from the previous worker" => "After an upgrade or a crash.";
    adopting: Gauge Info Integer "" "Objects of the previous worker that are being taken over" => "1 until they are counted, 0 once all are taken over. Those that are requested are taken over first.";
    adopt_refused: Counter Diag Integer "" "Objects of the previous worker that weren't taken over" => "They had expired, were banned, purged or damaged, or later bans aren't known.";
    home_loads: Counter Info Integer "" "Objects read from disk" => "Objects of stores on disk that weren't in memory when they were requested.";
    home_hit: Counter Info Integer "" "Hits on objects read from disk" => "They are also counted in cache_hit.";
    home_fail: Counter Info Integer "" "Objects that couldn't be read from disk" => "The object was another one or had been removed, or the disk failed. The request was a miss.";
    home_admit: Counter Info Integer "" "Long bodies moved from disk to memory" => "A long body that was read stays on disk until it is delivered again.";
    home_late: Counter Info Integer "" "Lookups that stopped waiting for the disk" => "See disk_timeout. The request was a miss.";
    adopt_suspect: Counter Diag Integer "" "Objects dropped because two workers crashed while delivering them";
    journal_fail: Counter Info Integer "" "Failed writes of bans and purges to the journal" => "The bans and purges themselves take effect. But objects that outlive the worker aren't served again, because it would be unknown which of them were invalidated.";
    txn_busy: Gauge Info Integer "" "Transactions in progress" => "Requests and fetches, including requests that wait for a fetch. Idle connections don't count.";
    stalls: Counter Info Integer "" "Times a serving thread made no progress for a second";
    open_files: Gauge Info Integer "" "File descriptors that the worker has open" => "Connections, files, and the worker's own. Measured once a second.";
    open_files_limit: Gauge Info Integer "" "Limit of the worker's file descriptors" => "RLIMIT_NOFILE. Near it, idle connections are closed for new ones (sess_idle_ended). If there are none, accepting pauses (accept_paused, sess_fail_emfile).";
    tls_handshakes: Counter Info Integer "" "TLS handshakes with clients completed";
    tls_resumed: Counter Info Integer "" "TLS handshakes that resumed a session" => "It saves a signature and, with TLS 1.2, the key exchange. Also counted in tls_handshakes.";
    tls_post_quantum: Counter Info Integer "" "TLS handshakes with clients that agreed on X25519MLKEM768" => "Also counted in tls_handshakes.";
    tls_cert_compressed: Counter Info Integer "" "TLS handshakes in which a client got the certificates compressed" => "By RFC 8879, with br or zlib. Also counted in tls_handshakes.";
    tls_client_certs: Counter Info Integer "" "TLS handshakes with a client certificate" => "Also counted in tls_handshakes.";
    tls_kernel: Counter Info Integer "" "TLS connections that the kernel encrypts" => "See the parameter tls_kernel.";
    tls_kernel_fail: Counter Info Integer "" "TLS connections that the kernel refused to encrypt" => "The worker encrypts them. A TLS record of the session says why.";
    tls_fail: Counter Info Integer "" "TLS handshakes with clients that failed" => "A TLS record of the session says why. Each failure is also counted in one of the tls_fail_* counters.";
    tls_fail_not_tls: Counter Diag Integer "" "TLS handshakes failed: the client didn't speak TLS" => "Mostly plain HTTP on an HTTPS port.";
    tls_fail_version: Counter Diag Integer "" "TLS handshakes failed: no common version";
    tls_fail_cipher: Counter Diag Integer "" "TLS handshakes failed: no common cipher suite, group or signature";
    tls_fail_name: Counter Diag Integer "" "TLS handshakes failed: no certificate for the name" => "Or no certificate is loaded at all.";
    tls_fail_cert: Counter Diag Integer "" "TLS handshakes failed: the client's certificate" => "A certificate is required, and the client's is missing or invalid.";
    tls_fail_alert: Counter Diag Integer "" "TLS handshakes failed: the client rejected them" => "The client sent an alert, mostly because it doesn't trust our certificate.";
    tls_fail_timeout: Counter Diag Integer "" "TLS handshakes failed: slower than tls_handshake_timeout";
    tls_fail_closed: Counter Diag Integer "" "TLS handshakes failed: the client closed the connection";
    tls_fail_protocol: Counter Diag Integer "" "TLS handshakes failed: the client violated the protocol";
    tls_fail_internal: Counter Diag Integer "" "TLS handshakes failed: an internal error";
    tls_handshakes_waited: Counter Diag Integer "" "TLS handshakes that waited for other handshakes" => "A thread carries out one handshake at a time, and client addresses take turns. So a burst of handshakes delays neither other clients nor existing connections.";
    tls_misdirected: Counter Diag Integer "" "Requests answered 421: the certificate of their host requires other client authentication" => "The client tries again on a new connection. This happens only if a certificate has client-verify (see the parameter tls_client_hosts).";
    acme_answers: Counter Info Integer "wrk" "ACME challenges (HTTP-01) answered before VCL";
    h3_sess: Counter Info Integer "" "HTTP/3 connections";
    h3_req: Counter Info Integer "" "HTTP/3 requests";
    early_data_req: Counter Info Integer "" "HTTP/3 requests answered from early data (0-RTT)" => "They arrived before the handshake was complete, and were safe (see h3_early_data).";
    slice_objects: Counter Info Integer "" "Sliced objects stored" => "Each is a header without a body. Its slices are separate objects, fetched on demand.";
    slice_hit: Counter Info Integer "" "Slices delivered from the cache" => "Including slices whose fetch was already in progress.";
    slice_fetch: Counter Info Integer "" "Slices fetched" => "Including those that were fetched together with their object's header.";
    slice_fail: Counter Info Integer "" "Slices whose fetch failed" => "The backend sent none, or broke off. slice_changed counts changed objects.";
    slice_changed: Counter Info Integer "" "Sliced objects dropped: changed at the backend" => "A slice had another validator or length, or the response wasn't partial. The next request fetches the object again.";
    slice_again: Counter Info Integer "" "Responses started again: the sliced object had changed";
    slice_cut: Counter Info Integer "" "Responses cut off: a slice was not available" => "The response had begun, and two versions must not be mixed. The client sees that it is incomplete.";
    slice_refused: Counter Info Integer "" "Responses not stored in slices although requested" => "A Notice in the log of the fetch says why.";
    early_data_wait: Counter Info Integer "" "HTTP/3 requests in early data that waited for the handshake" => "They weren't safe or had a body.";
    early_data_retry: Counter Info Integer "" "Fetches sent again after a 425" => "The origin refused a request from early data. It was sent again after the client's handshake.";
    h3_retries: Counter Info Integer "" "QUIC clients that had to prove their address (Retry)" => "Too many handshakes were in progress (see h3_retry_threshold).";
    h3_udp_buffer: Gauge Info Bytes "" "Receive buffer of the QUIC sockets" => "The smallest of them, as the kernel counts (packets and their descriptors). Without root rights it is limited to net.core.rmem_max. 0: there is no such socket.";
    h3_udp_drops: Counter Info Integer "" "QUIC packets dropped by the kernel" => "The receive buffer was full because earlier packets hadn't been read in time.";
    h3_errors: Counter Info Integer "" "HTTP/3 connections closed: the client violated the protocol" => "An Error record of the session says how.";
    h3_reset_flood: Counter Info Integer "" "HTTP/3 connections closed: too many requests reset" => "More than h3_reset_limit. Also counted in h3_errors.";
    h3_heads_refused: Counter Info Integer "" "HTTP/3 requests refused: too much in incomplete headers" => "More than h3_limit_head_bytes.";
    h3_abuse_control: Counter Diag Integer "" "HTTP/3 connections closed: too many GOAWAY or MAX_PUSH_ID frames";
    h3_abuse_ignored: Counter Diag Integer "" "HTTP/3 connections closed: too many frames without effect";
    h3_abuse_path: Counter Diag Integer "" "HTTP/3 connections closed: too many address changes, path challenges or connection IDs";
    h3_abuse_ping: Counter Diag Integer "" "HTTP/3 connections closed: too many PING frames";
    h3_abuse_priority: Counter Diag Integer "" "HTTP/3 connections closed: too many PRIORITY_UPDATE frames";
    h3_abuse_stop: Counter Diag Integer "" "HTTP/3 connections closed: too many STOP_SENDING or RESET_STREAM frames";
    h3_abuse_stream: Counter Diag Integer "" "HTTP/3 connections closed: too many useless streams";
    h3_abuse_window: Counter Diag Integer "" "HTTP/3 connections closed: too many window changes";
    h2_sess: Counter Info Integer "wrk" "HTTP/2 connections";
    h2_streams_refused: Counter Info Integer "" "HTTP/2 streams refused: h2_max_concurrent_streams";
    h2_streams_broken: Counter Info Integer "" "HTTP/2 streams reset: the client violated the protocol";
    h2_streams_late: Counter Info Integer "" "HTTP/2 streams reset: the client read nothing for too long";
    h2_abuse_rapid_reset: Counter Diag Integer "" "HTTP/2 connections closed: streams reset soon after they began";
    h2_abuse_made_reset: Counter Diag Integer "" "HTTP/2 connections closed: too many streams with protocol errors";
    h2_abuse_refused: Counter Diag Integer "" "HTTP/2 connections closed: too many streams beyond h2_max_concurrent_streams";
    h2_abuse_continuation: Counter Diag Integer "" "HTTP/2 connections closed: too many CONTINUATION frames";
    h2_abuse_header_bytes: Counter Diag Integer "" "HTTP/2 connections closed: a header was too large";
    h2_abuse_settings: Counter Diag Integer "" "HTTP/2 connections closed: too many SETTINGS frames";
    h2_abuse_ping: Counter Diag Integer "" "HTTP/2 connections closed: too many PING frames";
    h2_abuse_priority: Counter Diag Integer "" "HTTP/2 connections closed: too many PRIORITY frames";
    h2_abuse_empty_data: Counter Diag Integer "" "HTTP/2 connections closed: too many empty DATA frames";
    h2_abuse_small_data: Counter Diag Integer "" "HTTP/2 connections closed: too many DATA frames of a few bytes";
    h2_abuse_shut_windows: Counter Diag Integer "" "HTTP/2 connections closed: all windows closed for h2_window_timeout" => "More than four streams waited, and none could send.";
    h2_abuse_window_update: Counter Diag Integer "" "HTTP/2 connections closed: too many WINDOW_UPDATE frames";
    h2_abuse_small_window: Counter Diag Integer "" "HTTP/2 connections closed: windows of a few bytes";
    h2_abuse_ignored: Counter Diag Integer "" "HTTP/2 connections closed: too many frames without effect";
    h2_abuse_unread: Counter Diag Integer "" "HTTP/2 connections closed: the client doesn't read replies";
    n_form: Gauge Info Integer "" "Forms of stored bodies that are kept" => "A form is a copy of a stored body in another encoding: see form_space.";
    form_bytes: Gauge Info Bytes "" "Bytes of kept forms" => "They are included in the bytes of their stores.";
    form_made: Counter Info Integer "" "Forms made";
    form_hit: Counter Info Integer "" "Bodies delivered from a kept form";
    form_evicted: Counter Info Integer "" "Forms evicted" => "To make room for other forms or for objects. Forms that are removed together with their object aren't counted.";
    form_refused: Counter Info Integer "" "Forms not kept" => "There was no room for them, or they were no smaller than the existing body. That form of the object isn't tried again.";
    form_work: Counter Info Integer "" "CPU time spent on forms, in microseconds";
    n_dictionary: Gauge Info Integer "" "Compression dictionaries that are kept" => "A dictionary is a copy of the body of a response with Use-As-Dictionary (RFC 9842), which clients may have kept: see dictionary_space.";
    dictionary_bytes: Gauge Info Bytes "" "Memory of dictionaries";
    dictionary_learned: Counter Info Integer "" "Responses whose bodies became dictionaries";
    dictionary_refused: Counter Info Integer "" "Responses with Use-As-Dictionary that became no dictionaries" => "The log of the fetch says why (Notice), unless it was found later that the body is too long, can't be decoded or has been invalidated.";
    dictionary_evicted: Counter Info Integer "" "Dictionaries evicted: dictionary_space or dictionary_max";
    dictionary_invalidated: Counter Info Integer "" "Dictionaries ended by bans and purges of their objects";
    dictionary_hit: Counter Info Integer "" "Bodies delivered compressed against a dictionary of the client" => "They are also counted in form_hit.";
    dictionary_miss: Counter Info Integer "" "Requests with a dictionary that were answered without it" => "The log says why (Notice). Often the form is only being made.";
    n_brotli: Counter Info Integer "" "Bodies compressed with br";
    n_unbrotli: Counter Info Integer "" "Bodies decompressed from br";
    n_test_brotli: Counter Info Integer "" "br bodies that were verified while they were stored";
    n_zstd: Counter Info Integer "" "Bodies compressed with zstd";
    n_unzstd: Counter Info Integer "" "Bodies decompressed from zstd";
    n_test_zstd: Counter Info Integer "" "zstd bodies that were verified while they were stored";
    coding_bytes: Gauge Info Bytes "" "Memory of br and zstd compression and decompression" => "Measured once a second; bounded by coding_memory.";
    coding_refused: Counter Info Integer "" "Bodies not decompressed: coding_memory";
    rfc9111_stale: Counter Info Integer "wrk" "Failed fetches for which a stale object was served" => "Because of stale-if-error, or because the origin could not be reached (feature rfc9111).";
    rfc9111_updated: Counter Info Integer "" "Objects whose header was updated by a HEAD response" => "The response agreed with the stored object (RFC 9111 4.3.5, feature rfc9111).";
    parts_stored: Counter Info Integer "" "Partial responses (206) stored" => "Alone or combined with others (feature rfc9111).";
    parts_cut: Counter Info Integer "" "Truncated bodies whose first part was kept" => "A later request fetches the rest (feature rfc9111).";
    parts_changed: Counter Info Integer "" "Stored parts dropped: the object changed at the backend" => "A part had another validator or length, or was not available. The whole object is requested (feature rfc9111).";
    rfc9111_invalidated: Counter Info Integer "" "Objects invalidated by unsafe requests" => "By their URL, Location, Content-Location and Cache-Group-Invalidation (feature rfc9111).";
    fetch_passed_on: Counter Info Integer "" "Fetched bodies that weren't cached for lack of room in their store" => "The body goes to the client that waits for it, at that client's speed.";
    fetch_squeezed: Counter Info Integer "" "Fetches slowed down to the client's speed by a full store" => "Such bodies use Transient, which has a limit and had no room.";
    fetch_digest: Counter Info Integer "wrk" "Fetch failed (body doesn't match its digest)" => "Fetches that failed because the body doesn't match Content-Digest or Repr-Digest (see the parameter digest_check). fetch_failed counts them, too.";
    longest_step: Gauge Info Integer "" "Longest step of a serving thread, in microseconds" => "CPU time of one turn of a task, during which the thread's other clients wait. The longest of the timed steps since step_timing was last set.";
    steps_timed: Counter Info Integer "" "Steps of serving threads that were timed" => "One in step_timing.";
    steps_long: Counter Info Integer "" "Timed steps that took more than 500 microseconds";
    stints: Counter Info Integer "" "Times a task yielded to others" => "It had worked for about 200 microseconds and had more to do.";
    pipelined_stints: Counter Info Integer "" "Times a connection with pipelined requests yielded to others" => "They are also counted in stints.";
    bot_verified: Counter Info Integer "" "Signed requests that botauth verified" => "A request counts once for each verifier of import botauth that VCL asks. Requests without a signature for Web Bot Auth aren't counted.";
    bot_unverified: Counter Info Integer "" "Signed requests that botauth couldn't verify" => "The VCL_Log record of the request has the reason: an unknown key, an expired signature and the like.";
    bot_forged: Counter Info Integer "" "Signed requests whose signature isn't that of its key" => "The signature names a known key. A part that it covers was changed, or the key's owner didn't make it.";
    bot_spoofed: Counter Info Integer "" "Requests with the User-Agent of a bot from outside its address ranges" => "They are counted by the method is_spoofed of botauth.published. The VCL_Log record of the request has the name.";
    bot_directory_fetches: Counter Info Integer "" "Key directories of bots that were fetched" => "Failed fetches are counted, too; an Error record says why.";
    bot_directory_fail: Counter Info Integer "" "Fetches of key directories of bots without keys" => "An Error record says why. They are also counted in bot_directory_fetches.";
    bot_directory_refused: Counter Info Integer "" "Signed requests whose key directory couldn't be fetched yet" => "Too many other directories were being fetched or are remembered.";
    bot_nonce_full: Counter Info Integer "" "Signed requests whose nonce couldn't be remembered" => "All nonces, or the share of the agent, are in use. See the argument nonces of botauth.verifier.";
    bot_crawl: Counter Info Integer "" "Requests of crawlers that needed a backend" => "See the parameter bots. A Notice record of the request has the reason.";
    bot_crawl_stale: Counter Info Integer "" "Requests of crawlers that got an expired object" => "Only with bots=on. They aren't counted in bot_crawl. Requests of new clients that look like crawlers are among them.";
    bot_crawl_waited: Counter Info Integer "" "Requests of crawlers and verified bots that waited for their share of the backends' time" => "Each needed a backend. With bots=on only.";
    bot_crawl_refused: Counter Info Integer "" "Requests of crawlers and verified bots that were refused" => "The wait would have exceeded bots_patience, or as many of their fetches were in progress as may be. Requests of crawlers that needed a backend and that VCL ended in vcl_miss or vcl_pass are counted, too.";
    bot_crawl_time: Counter Info Integer "" "Backend time of crawlers and verified bots, in microseconds" => "Only with bots=on. A fetch counts for at most three times the usual one.";
    bot_reader_time: Counter Info Integer "" "Backend time of all other requests, in microseconds" => "While bots isn't off. Refreshes of stale objects are counted, too, whoever the client is.";
    tenant_others: Counter Info Integer "" "Fetches for tenants that share a row" => "Their tenant found no free row (tenants_max), or has a name that no tenant can have. Hits aren't counted.";
    tenant_limited: Counter Info Integer "" "Searches for room that a tenant's share ended" => "The tenant would have held more than any that could make room. An object may be searched room for several times: for its head, its body and its record. See docs/tenants.md.";
}

set! {
    /// The manager; survives workers.
    Mgt "MGT" 20 "Management process";
    uptime: Counter Info Duration "" "Management process uptime" => "How long the manager has been running.";
    child_start: Counter Diag Integer "" "Child process started" => "Workers started.";
    child_exit: Counter Diag Integer "" "Child process normal exit" => "Workers that ended unexpectedly with status 1.";
    child_stop: Counter Diag Integer "" "Child process unexpected exit" => "Workers that ended unexpectedly with a status other than 0 and 1.";
    child_died: Counter Diag Integer "" "Child process died (signal)" => "Workers killed by a signal.";
    child_dump: Counter Diag Integer "" "Child process core dumped" => "Workers that left a core file.";
    child_panic: Counter Diag Integer "" "Child process panic" => "Workers that panicked. panic.show prints the last report.";
    child_distrust: Counter Diag Integer "" "Times stores were emptied after repeated crashes" => "The memory of stores outlives a crashed worker. After five crashes within a minute the next worker starts with empty stores, because their content may be the cause.";
    acme_issued: Counter Info Integer "" "Certificates issued by ACME";
    acme_failed: Counter Info Integer "" "Failed attempts to get a certificate by ACME";
    certs_renewed: Counter Info Integer "" "Certificates loaded again because their files changed";
    certs_refused: Counter Info Integer "" "Changed certificate files that were invalid" => "The previous certificate stays in use. tls.cert.list -j and the log say why.";
    certs_loaded: Gauge Info Integer "" "Certificates in use";
    certs_expired: Gauge Info Integer "" "Certificates in use that have expired" => "Clients reject them. The log and lacquer tls status name them.";
    certs_ending: Gauge Info Integer "" "Certificates in use that expire soon" => "Within 14 days, or within a sixth of their lifetime.";
    draining: Gauge Info Integer "" "Out of service by the command drain" => "1 after drain on, 0 after drain off.";
    certs_next_end: Gauge Info Duration "" "Time until the first certificate expires" => "0 if one has expired or there is none.";
}

set! {
    /// One store of kind malloc.
    Sma "SMA" 40 "Storage in memory";
    c_req: Counter Info Integer "" "Allocator requests" => "Pieces of storage requested.";
    c_fail: Counter Info Integer "" "Allocator failures" => "Pieces of storage that could not be allocated.";
    c_bytes: Counter Info Bytes "" "Bytes allocated" => "Bytes allocated since the start.";
    c_freed: Counter Info Bytes "" "Bytes freed" => "Bytes freed since the start.";
    g_alloc: Gauge Info Integer "" "Allocations outstanding" => "Pieces of storage in use.";
    g_bytes: Gauge Info Bytes "" "Bytes outstanding" => "Bytes in use.";
    g_space: Gauge Info Bytes "" "Bytes available" => "Bytes left in the store.";
}

set! {
    /// The disk of one store of kind file; its memory has a set of [`Sma`].
    Smf "SMF" 50 "Storage on a disk";
    c_req: Counter Info Integer "" "Allocator requests" => "Objects that were to be written.";
    c_fail: Counter Info Integer "" "Allocator failures" => "Objects that stayed only in memory because the disk was too slow, had failed, or had no free segment. DISK.* has a counter for each reason.";
    c_bytes: Counter Info Bytes "" "Bytes allocated" => "Bytes written since the start.";
    c_freed: Counter Info Bytes "" "Bytes freed" => "Bytes of segments that were reclaimed for reuse.";
    g_alloc: Gauge Info Integer "" "Allocations outstanding" => "Objects on the disk.";
    g_bytes: Gauge Info Bytes "" "Bytes outstanding" => "Bytes of segments in use.";
    g_space: Gauge Info Bytes "" "Bytes available" => "Bytes of free segments.";
    g_smf: Gauge Info Integer "" "N struct smf" => "Segments.";
    g_smf_frag: Gauge Info Integer "" "N small free smf" => "Always 0: segments are only freed as a whole.";
    g_smf_large: Gauge Info Integer "" "N large free smf" => "Free segments.";
}

set! {
    /// Counters of a store's disk.
    DiskSet "DISK" 55 "Disk of a store";
    ready: Gauge Info Integer "" "1 if all objects can be found and new ones stored" => "0 while the store is being opened or recovered, until its first segment is prepared, and if it can't be opened.";
    segments_loaded: Gauge Info Integer "" "Segments read since the start" => "While this is below segments_found, lookups miss the objects of the other segments.";
    segments_found: Gauge Info Integer "" "Segments found at the start";
    objects: Gauge Info Integer "" "Objects that can be found";
    index_bytes: Gauge Info Bytes "" "Memory of the index";
    index_limit: Gauge Info Bytes "" "Largest memory of the index" => "`index=` of -s.";
    buffer_bytes: Gauge Info Bytes "" "Memory of data that waits to be written";
    in_progress: Gauge Info Integer "" "Disk operations in progress";
    loads: Counter Info Integer "" "Objects read";
    loads_mismatched: Counter Info Integer "" "Reads that found another object" => "The index can't distinguish all objects. The reader checks the object, and the request is a miss.";
    loads_gone: Counter Info Integer "" "Objects that had been removed when they were read";
    reads_refused: Counter Info Integer "" "Reads refused: too many in progress";
    bytes_read: Counter Info Bytes "" "Bytes read for objects";
    puts: Counter Info Integer "" "Objects written";
    puts_slow: Counter Info Integer "" "Objects not written: the disk is behind" => "Too much data waits to be written, or a write failed recently.";
    puts_no_segment: Counter Info Integer "" "Objects not written: no free segment";
    puts_too_large: Counter Info Integer "" "Objects not written: too large";
    puts_overtaken: Counter Info Integer "" "Objects not written: removed in the meantime";
    puts_failed: Counter Info Integer "" "Objects lost because their write failed";
    index_full: Counter Info Integer "" "Objects not kept: the index is full" => "See `index=` of -s.";
    bytes_written: Counter Info Bytes "" "Bytes written";
    removed: Counter Info Integer "" "Objects removed";
    reclaimed: Counter Info Integer "" "Objects removed together with their segment";
    moved: Counter Info Integer "" "Objects rewritten before their segment was reclaimed" => "They had been used since they were written.";
    segments_reclaimed: Counter Info Integer "" "Segments reclaimed";
    read_errors: Counter Info Integer "" "Reads that failed";
    write_errors: Counter Info Integer "" "Writes that failed";
    sync_errors: Counter Info Integer "" "Syncs that failed" => "Written data could not be flushed to stable storage.";
    stalls: Counter Info Integer "" "Operations that took too long" => "Waiting requests became misses, or were cut off if their response had begun.";
    checksum_errors: Counter Info Integer "" "Checksum mismatches";
    segments_quarantined: Counter Info Integer "" "Segments that are no longer written" => "A read or write in them failed, or their content changed on the disk. They are tried again at the next start.";
    segments_scanned: Counter Info Integer "" "Segments without a complete table" => "Their entries were read one by one at the start.";
    segments_unjudged: Counter Info Integer "" "Segments dropped at the start" => "It is unknown which of their objects had been removed.";
}

set! {
    /// One backend of one VCL.
    Vbe "VBE" 60 "Backend";
    happy: Bitmap Info Bitmap "" "Happy health probes" => "Results of the last 64 probes as a bitmap. Bit 0 is the newest probe; a set bit is a good one. All bits are set for a backend without a probe.";
    bereq_hdrbytes: Counter Info Bytes "" "Request header bytes" => "Request header bytes sent to the backend.";
    bereq_bodybytes: Counter Info Bytes "" "Request body bytes" => "Request body bytes sent to the backend.";
    beresp_hdrbytes: Counter Info Bytes "" "Response header bytes" => "Response header bytes received from the backend.";
    beresp_bodybytes: Counter Info Bytes "" "Response body bytes" => "Response body bytes received from the backend.";
    pipe_hdrbytes: Counter Info Bytes "" "Pipe request header bytes" => "Request header bytes sent for pipes.";
    pipe_out: Counter Info Bytes "" "Piped bytes to backend" => "Bytes forwarded to the backend in pipes.";
    pipe_in: Counter Info Bytes "" "Piped bytes from backend" => "Bytes forwarded from the backend in pipes.";
    conn: Gauge Info Integer "" "Concurrent connections used" => "Concurrent connections used: those that carry a request now, pipes included. Idle keep-alive connections don't count.";
    req: Counter Info Integer "" "Backend requests sent" => "Requests sent to the backend.";
    unhealthy: Counter Info Integer "" "Fetches not attempted due to backend being unhealthy" => "Fetches not attempted because the backend is sick.";
    busy: Counter Info Integer "" "Fetches not attempted due to backend being busy" => "Fetches not attempted because max_connections was reached.";
    fail: Counter Info Integer "" "Connections failed" => "Connection attempts that failed. The fail_* counters give the reasons; FetchError records have the details.";
    fail_eacces: Counter Diag Integer "" "Connections failed with EACCES or EPERM" => "The connection was not permitted.";
    fail_eaddrnotavail: Counter Diag Integer "" "Connections failed with EADDRNOTAVAIL" => "There was no local address or port left.";
    fail_econnrefused: Counter Diag Integer "" "Connections failed with ECONNREFUSED" => "The backend refused the connection: nothing listens on that port.";
    fail_enetunreach: Counter Diag Integer "" "Connections failed with ENETUNREACH" => "The network was unreachable.";
    fail_etimedout: Counter Diag Integer "" "Connections failed ETIMEDOUT" => "The connection timed out.";
    fail_other: Counter Diag Integer "" "Connections failed for other reason" => "Any other reason.";
    helddown: Counter Diag Integer "" "Connection opens not attempted" => "Connections not attempted because one had failed a moment ago; see backend_local_error_holddown and backend_remote_error_holddown.";
}

set! {
    /// The pools of idle connections to backends.
    Vcp "VCP" 80 "Connection Pool counters";
    ref_hit: Counter Debug Integer "" "Number of times we have found an existing conn. pool" => "Backends of loaded VCLs that share the idle connections of an earlier one with the same address and settings.";
    ref_miss: Counter Debug Integer "" "Number of times we have not found an existing conn. pool" => "Backends of loaded VCLs that began a pool of idle connections.";
}

set! {
    /// One class of requests that need a backend (the parameter `classes`).
    ClassCounters "CLASS" 62 "Class of requests";
    busy: Gauge Info Integer "" "Fetches in progress" => "Workers of the class that are in use.";
    waiting: Gauge Info Integer "" "Requests in the queue";
    room: Gauge Info Integer "" "Positions kept in the waiting room";
    served: Counter Info Integer "" "Requests that got a worker";
    waited: Counter Info Integer "" "Requests that got a worker after waiting in the queue" => "They are also counted in served.";
    returned: Counter Info Integer "" "Requests that got a worker or a slot in the queue by their token" => "Browsers that came back from the waiting page.";
    ended: Counter Info Integer "" "Fetches ended";
    refused: Counter Info Integer "" "Requests refused: the queue was full";
    late: Counter Info Integer "" "Requests refused: waited longer than patience";
    gone: Counter Info Integer "" "Requests whose client disconnected while waiting";
    deferred: Counter Info Integer "" "Refreshes not started: no free worker" => "The stale object was delivered without a refresh.";
    prefetch_refused: Counter Info Integer "" "Prefetches refused" => "Requests with Sec-Purpose: prefetch that found no free worker; they never wait for one. Also counted in refused.";
    forged: Counter Info Integer "" "Invalid tokens" => "Not issued here, changed, or too old.";
    wait_us: Counter Info Integer "" "Time waited in the queue, in microseconds" => "Of the requests that got a worker; waited is their number.";
    service_us: Counter Info Integer "" "Time that workers were in use, in microseconds" => "Of the fetches counted in ended.";
}

set! {
    /// One tenant (`req.tenant`, the parameter `tenant_by`).
    TenantCounters "TENANT" 63 "Tenant";
    objects: Gauge Info Integer "" "Objects in the cache";
    bytes: Gauge Info Bytes "" "Bytes of objects that can be evicted" => "In stores with a limit, rounded up to 16 for each object.";
    hits: Counter Info Integer "" "Hits for objects of the tenant" => "Also if a request of another tenant has the hit.";
    misses: Counter Info Integer "" "Fetches for which a client waits" => "For misses, and for slices. Passes and refreshes aren't counted.";
    fetches: Counter Info Integer "" "Fetches from backends" => "For misses, slices, passes and refreshes.";
    evicted: Counter Info Integer "" "Objects evicted to make room" => "They are also counted in n_lru_nuked.";
}

set! {
    /// Objects by tag, there once tags are kept: `tag_fields`, a VCL that imports xkey or ykey or names beresp.tags.
    Xkey "XKEY" 110 "Tags (keys) of objects";
    g_keys: Gauge Info Integer "" "Number of surrogate keys" => "Different tags of the objects in the cache.";
    g_references: Gauge Info Integer "" "Pairs of a tag and an object";
    g_hashhead_bytes: Gauge Debug Bytes "" "Bytes used by keys";
    g_ochead_bytes: Gauge Debug Bytes "" "Bytes used by links between keys and objects";
    g_oc_bytes: Gauge Debug Bytes "" "Bytes used by objects with keys";
    g_bytes: Gauge Info Bytes "" "Bytes used by the index of tags" => "Not part of any store; bounded by tag_space. About 13 bytes for each tag of an object, 40 for an object with tags, and 60 plus its text for each different tag.";
    refused: Counter Info Integer "" "Objects not cached: tag_space" => "Their tags didn't fit. They were delivered to the requests that waited for them.";
}

set! {
    /// This server as a node of a fleet; there with `--fleet` only.
    Fleet "FLEET" 115 "Log of a fleet's bans and purges, and its nodes";
    reachable: Gauge Info Integer "" "1 if the fleet's log can be written" => "0: the log's server doesn't respond. Bans and purges are refused with an error.";
    followed: Gauge Info Integer "" "1 if the fleet's log is followed" => "Bans and purges of other nodes are carried out here as they arrive.";
    gate_closed: Gauge Info Integer "" "1 if nothing is served from the cache" => "The node hasn't caught up with the log since it started or reconnected. Requests go to the backend.";
    capped: Gauge Info Integer "" "1 if only young objects are served from the cache" => "The log has been unreachable for longer than the setting stale of --fleet allows.";
    head: Gauge Info Integer "" "Number of the log's newest entry" => "As far as this node knows.";
    applied: Gauge Info Integer "" "Number of the newest entry carried out";
    lag: Gauge Info Integer "" "Entries not yet carried out";
    lag_seconds: Gauge Info Integer "" "Seconds since this node fell behind the log";
    appended: Counter Info Integer "" "Entries appended by this node";
    refused: Counter Info Integer "" "Entries that could not be appended" => "The ban or purge was refused with an error.";
    carried_out: Counter Info Integer "" "Entries of other nodes carried out";
    returned: Counter Info Integer "" "Own entries read from the log" => "They had been carried out when they were made.";
    foreign: Counter Info Integer "" "Entries skipped because they are invalid" => "They could not be read as entries of a fleet.";
    gaps: Counter Info Integer "" "Times the whole cache was invalidated" => "The node couldn't know which entries it had missed: the log was trimmed, was another one, or could not be reached at the start.";
    restored: Counter Info Integer "" "Lost entries appended again" => "The log's server had lost them. Other nodes may have missed them until then.";
    owed: Gauge Info Integer "" "Lost entries to be appended again" => "This node holds them until it reads them from the log.";
    nodes: Gauge Info Integer "" "Nodes of the fleet" => "Nodes that have reported within ten minutes, including this one, as far as this node knows.";
    nodes_away: Gauge Info Integer "" "Nodes of the fleet that are away" => "They haven't reported for five seconds: they are down, or can't reach the log's server.";
}

set! {
    /// The second tier of a fleet's caches; there with `--peers` only.
    Peers "PEERS" 116 "Second tier: caches that ask each other before the origin";
    members: Gauge Info Integer "" "Members of the ring" => "Including this node if it is one.";
    away: Gauge Info Integer "" "Members that are skipped" => "They didn't respond recently. One request at a time checks whether they are back.";
    owned: Counter Info Integer "" "Misses whose key this node owns" => "They are fetched from the origin.";
    asked: Counter Info Integer "" "Misses for which the owner of the key was asked";
    answered: Counter Info Integer "" "Misses that the owner answered with an object";
    passed_by: Counter Info Integer "" "Misses fetched from the origin instead of the owner" => "The owner was away or slow, or had no usable response.";
    not_asked: Counter Info Integer "" "Misses for which no owner could be asked" => "There is no other member, or an invalidation of this node isn't in the fleet's log yet.";
    served: Counter Info Integer "" "Requests of peers";
    behind: Counter Info Integer "" "Requests of peers refused: this node is behind" => "It hadn't carried out all entries of the fleet's log that the peer had.";
    crossed: Counter Info Integer "" "Requests of peers refused: this node asks for the same" => "The nodes disagree about the owner of the key. Both fetch from the origin.";
    hops_refused: Counter Info Integer "" "Requests that falsely claim to come from a peer" => "They are treated as requests of clients. Causes are a wrong secret, another name for this node, a wrong clock, or a forgery.";
    hot: Counter Info Integer "" "Requests of peers for a hot key" => "Requested more often than the parameter peers_hot: the key has two owners for a while.";
    warming: Gauge Info Integer "" "1 while this node warms" => "With the setting warm it began with an empty cache, and fetches hot objects from its peers. /readyz returns 503.";
    warmed: Counter Info Integer "" "Objects fetched from peers to warm this node";
    warm_failed: Counter Info Integer "" "Objects that no peer had when this node warmed" => "The peer was away, slow or behind, or had lost the object. The origin isn't asked.";
}

set! {
    /// A pool of reusable structures.
    Mempool "MEMPOOL" 30 "Memory pool";
    live: Gauge Debug Integer "" "In use" => "Requests (reqN), connections (sessN) or fetches (busyobj) in progress. N numbers the thread_pools shares of the threads.";
    pool: Gauge Debug Integer "" "In Pool" => "Always 0: there is no pool of unused ones.";
    sz_wanted: Gauge Debug Bytes "" "Size requested" => "Bytes of one, without headers and buffers, which have pools of their own.";
    sz_actual: Gauge Debug Bytes "" "Size allocated" => "Bytes allocated for one.";
    allocs: Counter Debug Integer "" "Allocations" => "Times one was taken.";
    frees: Counter Debug Integer "" "Frees" => "Times one was given back.";
    recycle: Counter Debug Integer "" "Recycled from pool" => "Always 0: there is no pool of unused ones.";
    timeout: Counter Debug Integer "" "Timed out from pool" => "Always 0: there is no pool of unused ones.";
    toosmall: Counter Debug Integer "" "Too small to recycle" => "Always 0: there is no pool of unused ones.";
    surplus: Counter Debug Integer "" "Too many for pool" => "Always 0: there is no pool of unused ones.";
    randry: Counter Debug Integer "" "Pool ran dry" => "Always 0: there is no pool of unused ones.";
}

set! {
    /// A class of locks.
    Lck "LCK" 70 "Lock";
    creat: Counter Debug Integer "" "Created locks" => "Locks created.";
    destroy: Counter Debug Integer "" "Destroyed locks" => "Locks destroyed.";
    locks: Counter Debug Integer "" "Lock Operations" => "Times the lock was taken.";
    dbg_busy: Counter Debug Integer "" "Contended lock operations" => "Always 0: only lock operations are counted.";
    dbg_try_fail: Counter Debug Integer "" "Contended trylock operations" => "Always 0: only lock operations are counted.";
}

set! {
    /// Costs of requests. Only debug builds count them.
    Costs "COSTS" 90 "What requests cost (builds with debug assertions)";
    allocations: Counter Debug Integer "" "Memory allocations";
    locks: Counter Debug Integer "" "Locks taken";
    turns: Counter Debug Integer "" "Times these counters were updated";
}
