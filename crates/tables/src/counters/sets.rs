// SPDX-License-Identifier: BSD-2-Clause
//! The counters themselves, each set in the order of varnish-7.1's shared memory; our own come last.
//!
//! A row: name, type, level, format, group, short text, and a long text where the short one is not enough.

use super::{Counter, Elem, Format, Kind, Level, Set};

macro_rules! set {
    ($(#[$doc:meta])* $ty:ident $name:literal $order:literal $oneliner:literal;
     $($(#[$_m:meta])* $field:ident: $kind:ident $level:ident $format:ident $group:literal $text:literal $(=> $docs:literal)?;)*) => {
        $(#[$doc])*
        #[derive(Debug, Default)]
        #[repr(C)]
        pub struct $ty {
            $(#[doc = $text] pub $field: Counter,)*
        }

        impl super::sealed::Sealed for $ty {}

        impl Set for $ty {
            const NAME: &'static str = $name;
            const ORDER: u32 = $order;
            const ONELINER: &'static str = $oneliner;
            const ELEMS: &'static [Elem] = &[$(Elem {
                name: stringify!($field),
                kind: Kind::$kind,
                level: Level::$level,
                format: Format::$format,
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
        use crate::counters::{Counter, Elem, Format, Kind, Level, Set};

        /// Requests that weren't hits, by reason.
        #[derive(Debug, Default)]
        #[repr(C)]
        pub struct NoHitCounts {
            $(#[doc = $text] pub $field: Counter,)*
        }

        impl crate::counters::sealed::Sealed for NoHitCounts {}

        impl Set for NoHitCounts {
            const NAME: &'static str = "NOHIT";
            const ORDER: u32 = 15;
            const ONELINER: &'static str = "Requests that weren't hits, by reason";
            const ELEMS: &'static [Elem] = &[$(Elem {
                name: stringify!($field),
                kind: Kind::Counter,
                level: Level::Info,
                format: Format::Integer,
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
    summs: Counter Debug Integer "wrk" "Times a thread's counts were added to these" => "Always 0: threads add to these counters directly.";
    uptime: Counter Info Duration "" "How long the worker has been running";
    sess_conn: Counter Info Integer "wrk" "Client connections accepted";
    sess_fail: Counter Info Integer "wrk" "Client connections that could not be accepted";
    sess_fail_econnaborted: Counter Info Integer "wrk" "Accept failed: the connection was aborted";
    sess_fail_eintr: Counter Info Integer "wrk" "Accept failed: interrupted";
    sess_fail_emfile: Counter Info Integer "wrk" "Accept failed: no descriptor left";
    sess_fail_ebadf: Counter Info Integer "wrk" "Accept failed: bad descriptor";
    sess_fail_enomem: Counter Info Integer "wrk" "Accept failed: no memory left";
    sess_fail_other: Counter Info Integer "wrk" "Accept failed: any other reason";
    client_req_400: Counter Info Integer "wrk" "Requests refused as malformed (400)";
    client_req_417: Counter Info Integer "wrk" "Requests with an expectation nobody meets (417)";
    client_req: Counter Info Integer "wrk" "Good client requests";
    esi_req: Counter Info Integer "wrk" "ESI includes requested";
    cache_hit: Counter Info Integer "wrk" "Lookups that hit";
    cache_hit_grace: Counter Info Integer "wrk" "Hits on an object past its ttl";
    cache_hitpass: Counter Info Integer "wrk" "Lookups that found hit-for-pass";
    cache_hitmiss: Counter Info Integer "wrk" "Lookups that found hit-for-miss";
    cache_miss: Counter Info Integer "wrk" "Lookups that missed";
    beresp_uncacheable: Counter Info Integer "wrk" "Backend responses that may not be cached";
    beresp_shortlived: Counter Info Integer "wrk" "Backend responses with a life below shortlived";
    backend_conn: Counter Info Integer "" "Backend connections made";
    backend_unhealthy: Counter Info Integer "" "Backend connections not tried: unhealthy";
    backend_busy: Counter Info Integer "" "Backend connections not tried: at the maximum";
    backend_fail: Counter Info Integer "" "Backend connections that failed";
    backend_reuse: Counter Info Integer "" "Backend connections used again";
    backend_recycle: Counter Info Integer "" "Backend connections put back for use";
    backend_retry: Counter Info Integer "" "Backend requests sent again on a fresh connection";
    fetch_head: Counter Info Integer "wrk" "Fetches without a body: HEAD";
    fetch_length: Counter Info Integer "wrk" "Fetches with Content-Length";
    fetch_chunked: Counter Info Integer "wrk" "Fetches with chunked framing";
    fetch_eof: Counter Info Integer "wrk" "Fetches that end with the connection";
    fetch_bad: Counter Info Integer "wrk" "Fetches whose framing is unknown" => "A response with a length that is none, two lengths, a length and a coding, or an unknown Transfer-Encoding.";
    fetch_none: Counter Info Integer "wrk" "Fetches without a body";
    fetch_1xx: Counter Info Integer "wrk" "Fetches without a body: status 1xx" => "A response with status 101, or more interim responses than a fetch takes. Other interim responses are no fetch of their own.";
    fetch_204: Counter Info Integer "wrk" "Fetches without a body: status 204";
    fetch_304: Counter Info Integer "wrk" "Fetches answered by 304";
    fetch_failed: Counter Info Integer "wrk" "Fetches that failed";
    fetch_no_thread: Counter Info Integer "wrk" "Fetches not started: no room for another transaction" => "thread_pools times thread_pool_max fetches were in progress, with a full queue or for a background fetch, or max_fetches_per_ip was reached.";
    pools: Gauge Info Integer "" "Thread pools";
    threads: Gauge Info Integer "" "Threads that Varnish would have" => "One for each fetch and pipe in progress, which thread_pools times thread_pool_max bounds, and never fewer than thread_pools times thread_pool_min. Requests that need no fetch don't count.";
    threads_limited: Counter Info Integer "" "Requests that found thread_pools times thread_pool_max fetches in progress" => "Each of them waited (sess_queued) or was refused (sess_dropped).";
    threads_created: Counter Info Integer "" "Threads started" => "One for each CPU that may be used, when the worker starts: threads of the system, not those that MAIN.threads counts.";
    threads_destroyed: Counter Info Integer "" "Threads ended" => "Always 0: threads that serve end with the worker.";
    threads_failed: Counter Info Integer "" "Threads that could not be started" => "Threads for calls that block, as reading files and looking up names. Those that there are make the calls.";
    thread_queue_len: Gauge Info Integer "" "Requests waiting for their turn";
    busy_sleep: Counter Info Integer "wrk" "Requests parked on a busy object";
    busy_wakeup: Counter Info Integer "wrk" "Parked requests that went on";
    busy_killed: Counter Info Integer "" "Parked requests that were given up";
    sess_queued: Counter Info Integer "" "Requests that waited for their turn" => "thread_pools times thread_pool_max fetches were in progress.";
    sess_dropped: Counter Info Integer "" "Sessions dropped, the queue being full" => "A request found thread_queue_limit others waiting and was answered 503 (req_dropped; its connection may stay), or a connection came beyond max_sessions or max_sessions_per_ip.";
    req_dropped: Counter Info Integer "" "Requests refused, the queue being full";
    n_object: Gauge Info Integer "wrk" "Objects in the cache";
    n_vampireobject: Gauge Diag Integer "wrk" "Objects known but not yet raised" => "Always 0: there is no persistent store. DISK.objects counts the objects of a disk.";
    n_objectcore: Gauge Info Integer "wrk" "Objcores";
    n_objecthead: Gauge Info Integer "wrk" "Objheads";
    n_backend: Gauge Info Integer "" "Backends";
    n_expired: Counter Info Integer "" "Objects that expired";
    n_lru_nuked: Counter Info Integer "" "Objects evicted for room";
    n_lru_moved: Counter Diag Integer "" "Objects moved in the order of eviction";
    n_lru_limited: Counter Info Integer "" "Times nuke_limit was reached";
    losthdr: Counter Info Integer "" "Header fields lost: their head had no room" => "Each is logged as LostHeader.";
    s_sess: Counter Info Integer "wrk" "Sessions seen";
    n_pipe: Gauge Info Integer "" "Pipes in progress";
    pipe_limited: Counter Info Integer "wrk" "Times pipe_sess_max was reached";
    s_pipe: Counter Info Integer "wrk" "Pipes seen";
    s_pass: Counter Info Integer "wrk" "Passes seen";
    s_fetch: Counter Info Integer "wrk" "Fetches started";
    s_bgfetch: Counter Info Integer "wrk" "Background fetches started";
    s_synth: Counter Info Integer "wrk" "Synthetic responses";
    s_req_hdrbytes: Counter Info Bytes "wrk" "Request head bytes";
    s_req_bodybytes: Counter Info Bytes "wrk" "Request body bytes";
    s_resp_hdrbytes: Counter Info Bytes "wrk" "Response head bytes";
    s_resp_bodybytes: Counter Info Bytes "wrk" "Response body bytes";
    s_pipe_hdrbytes: Counter Info Bytes "wrk" "Head bytes of piped requests";
    s_pipe_in: Counter Info Bytes "wrk" "Bytes piped from clients";
    s_pipe_out: Counter Info Bytes "wrk" "Bytes piped to clients";
    sess_closed: Counter Info Integer "wrk" "Sessions closed";
    sess_closed_err: Counter Info Integer "" "Sessions closed with an error";
    sess_readahead: Counter Info Integer "wrk" "Requests already read with the one before";
    sess_herd: Counter Diag Integer "wrk" "Sessions put to wait between requests";
    sc_rem_close: Counter Diag Integer "" "Connections closed: the client closed";
    sc_req_close: Counter Diag Integer "" "Connections closed: the client asked for it";
    sc_req_http10: Counter Diag Integer "" "Connections closed: HTTP/1.0";
    sc_rx_bad: Counter Diag Integer "" "Connections closed: broken protocol";
    sc_rx_body: Counter Diag Integer "" "Connections closed: request body failed";
    sc_rx_junk: Counter Diag Integer "" "Connections closed: junk received";
    sc_rx_overflow: Counter Diag Integer "" "Connections closed: head too large";
    sc_rx_timeout: Counter Diag Integer "" "Connections closed: too slow";
    sc_rx_close_idle: Counter Diag Integer "" "Connections closed: idle";
    sc_tx_pipe: Counter Diag Integer "" "Connections closed: piped";
    sc_tx_error: Counter Diag Integer "" "Connections closed: write failed";
    sc_tx_eof: Counter Diag Integer "" "Connections closed: body ended with the connection";
    sc_resp_close: Counter Diag Integer "" "Connections closed: backend or VCL asked for it";
    sc_overload: Counter Diag Integer "" "Connections closed: out of some resource";
    sc_pipe_overflow: Counter Diag Integer "" "Connections closed: too many pipes";
    sc_range_short: Counter Diag Integer "" "Connections closed: range cut short";
    sc_req_http20: Counter Diag Integer "" "Connections closed: HTTP/2 not accepted";
    sc_vcl_failure: Counter Diag Integer "" "Connections closed: VCL failed";
    client_resp_500: Counter Diag Integer "wrk" "Requests answered 500 for lack of room" => "Always 0: where a head has no room for what VCL sets VCL fails (vcl_fail), and for other fields the response goes out without (losthdr).";
    ws_backend_overflow: Counter Diag Integer "wrk" "Backend workspaces that ran full" => "Transactions, each counted once, whose bereq or beresp had no room for what VCL or this server set: it would have been larger than workspace_backend or have had more fields than http_max_hdr. The log names the header (LostHeader, VCL_Error).";
    ws_client_overflow: Counter Diag Integer "wrk" "Client workspaces that ran full" => "Transactions, each counted once, whose req or resp had no room for what VCL or this server set: it would have been larger than workspace_client or have had more fields than http_max_hdr. The log names the header (LostHeader, VCL_Error).";
    ws_thread_overflow: Counter Diag Integer "wrk" "Thread workspaces that ran full" => "Always 0: there is no such workspace.";
    ws_session_overflow: Counter Diag Integer "" "Session workspaces that ran full" => "Always 0: there is no such workspace.";
    shm_records: Counter Diag Integer "" "Log records";
    shm_writes: Counter Diag Integer "" "Writes to the log";
    shm_flushes: Counter Diag Integer "" "Writes because a transaction's buffer was full";
    shm_cont: Counter Diag Integer "" "Times the log's lock was found taken";
    shm_cycles: Counter Diag Integer "" "Times the log began again at its start";
    backend_req: Counter Info Integer "" "Requests sent to backends";
    n_vcl: Gauge Info Integer "" "VCLs loaded";
    n_vcl_avail: Gauge Diag Integer "" "VCLs available";
    n_vcl_discard: Gauge Diag Integer "" "VCLs discarded and still in use";
    vcl_fail: Counter Info Integer "wrk" "VCL failures";
    bans: Gauge Info Integer "ban_mtx" "Bans";
    bans_completed: Gauge Diag Integer "ban_mtx" "Bans nothing needs to be tested against";
    bans_obj: Gauge Diag Integer "ban_mtx" "Bans that test obj alone";
    bans_req: Gauge Diag Integer "ban_mtx" "Bans that test req";
    bans_added: Counter Diag Integer "ban_mtx" "Bans added";
    bans_deleted: Counter Diag Integer "ban_mtx" "Bans deleted";
    bans_tested: Counter Diag Integer "ban_mtx" "Objects tested at lookup";
    bans_obj_killed: Counter Diag Integer "ban_mtx" "Objects killed at lookup";
    bans_lurker_tested: Counter Diag Integer "ban_mtx" "Objects tested by the lurker";
    bans_tests_tested: Counter Diag Integer "ban_mtx" "Tests made at lookup";
    bans_lurker_tests_tested: Counter Diag Integer "ban_mtx" "Tests made by the lurker";
    bans_lurker_obj_killed: Counter Diag Integer "ban_mtx" "Objects killed by the lurker";
    bans_lurker_obj_killed_cutoff: Counter Diag Integer "ban_mtx" "Objects killed by the lurker beyond ban_cutoff";
    bans_dups: Counter Diag Integer "ban_mtx" "Bans made superfluous by a later equal one";
    bans_lurker_contention: Counter Diag Integer "ban_mtx" "Times the lurker gave way to lookup" => "Always 0: lookups never wait for the lurker.";
    bans_persisted_bytes: Gauge Diag Bytes "ban_mtx" "Bytes of bans that outlive the worker";
    bans_persisted_fragmentation: Gauge Diag Bytes "ban_mtx" "Bytes of those that are dead";
    n_purges: Counter Info Integer "" "Purges executed";
    n_obj_purged: Counter Info Integer "" "Objects purged";
    exp_mailed: Counter Diag Integer "" "Objects handed to expiry" => "Always 0: an object is known to expiry from when it is stored.";
    exp_received: Counter Diag Integer "" "Objects expiry took up" => "Always 0: see exp_mailed.";
    hcb_nolock: Counter Debug Integer "wrk" "Lookups without a lock" => "Always 0: a lookup locks a part of the index.";
    hcb_lock: Counter Debug Integer "" "Lookups with a lock" => "Always 0: cache_hit and cache_miss count the lookups.";
    hcb_insert: Counter Debug Integer "" "Objheads inserted";
    esi_errors: Counter Diag Integer "" "ESI markup that was wrong";
    esi_warnings: Counter Diag Integer "" "ESI markup that was doubtful";
    vmods: Gauge Info Integer "" "Vmods loaded";
    n_gzip: Counter Info Integer "" "Bodies compressed";
    n_gunzip: Counter Info Integer "" "Bodies uncompressed";
    n_test_gunzip: Counter Info Integer "" "Bodies whose compression was only checked";
    // From here on our own: 7.1 has none of these.
    sess_limited: Counter Info Integer "" "Connections refused: max_sessions";
    sess_limited_ip: Counter Info Integer "" "Connections refused: max_sessions_per_ip";
    req_held: Counter Info Integer "" "Requests held for a time, the queue being full" => "No room was left for the fetch of a request, not even to wait, and many had been refused just before: it was held until there was room, or it could be refused (see thread_queue_limit). Where memory_limit refuses all requests, they are held unread.";
    fetch_limited_ip: Counter Info Integer "" "Fetches refused: max_fetches_per_ip";
    sess_idle_ended: Counter Info Integer "" "Idle connections ended for lack of descriptors" => "Nearly as many descriptors as the worker may have were open, and another client came.";
    accept_paused: Counter Info Integer "" "Times accepting paused for lack of descriptors";
    req_lone_lf: Counter Info Integer "" "Requests with lines that end with a lone LF";
    head_timeout: Counter Info Integer "" "Connections closed: head slower than timeout_head";
    recv_rate_low: Counter Info Integer "" "Connections closed: body slower than min_recv_rate";
    send_rate_low: Counter Info Integer "" "Connections closed: client slower than min_send_rate";
    req_panic: Counter Info Integer "" "Transactions ended by a fault of our own";
    vcl_panic: Counter Info Integer "" "... of which while running VCL";
    regex_limit: Counter Info Integer "" "Regular expressions stopped by their step limit";
    vary_limit: Counter Info Integer "" "Variants dropped: vary_limit";
    vary_many: Counter Info Integer "" "Times an objhead came to have vary_notice variants" => "Each is told in the log too, as a Notice of the next request that finds so many. What the application varies on, and what it is worth, is shown by lacquer explain.";
    n_vary_many: Gauge Info Integer "" "Objheads that have vary_notice variants or more now";
    vary_max: Gauge Info Integer "" "Most variants that an objhead has had";
    waitinglist_len: Gauge Info Integer "" "Requests parked on busy objects now";
    n_bgfetch: Gauge Info Integer "" "Background fetches running now";
    bgfetch_limited: Counter Info Integer "" "Background fetches not started: bgfetch_limit, thread_pool_max or max_fetches_per_ip";
    bgfetch_deferred: Counter Info Integer "" "Background fetches not started: hotter objects wait" => "There was room under bgfetch_limit again, but objects that are asked for more had found none.";
    client_5xx: Counter Info Integer "" "Requests answered with a status of 500 or more" => "Whoever made the answer: the backend, VCL, or this server.";
    early_hints: Counter Info Integer "" "Clients told early what a page will need (103)" => "By the parameter early_hints, while the page was fetched.";
    bans_lookup_max: Gauge Diag Integer "" "Most bans that a lookup found an object untested against";
    bans_lookup_cutoff: Counter Diag Integer "" "Objects killed at lookup: ban_lookup_limit";
    busy_hit: Counter Info Integer "" "Parked requests then answered from the cache";
    busy_fetch: Counter Info Integer "" "Parked requests that then went on to fetch";
    busy_again: Counter Info Integer "" "Parked requests parked once more";
    busy_refused: Counter Info Integer "" "Requests not parked: waitinglist_limit";
    busy_timeout: Counter Info Integer "" "Parked requests given up: waitinglist_timeout";
    pass_abort: Counter Info Integer "" "Passes given up as their client was gone";
    backend_wait: Counter Info Integer "" "Fetches that waited for a backend connection";
    backend_wait_fail: Counter Info Integer "" "... of which got none in time";
    backend_wait_full: Counter Info Integer "" "Fetches refused: backend_wait_limit";
    backend_dns_lookup: Counter Info Integer "" "Names of backends looked up";
    backend_dns_fail: Counter Info Integer "" "... of which had no answer";
    backend_tls: Counter Info Integer "" "Backend connections with TLS" => "Handshakes that ended well; probes count too.";
    backend_tls_resumed: Counter Info Integer "" "... of which took up an earlier session again";
    backend_tls_fail: Counter Info Integer "" "TLS handshakes with backends that failed" => "BackendSSL records say why.";
    backend_dns_change: Counter Info Integer "" "... of which had other addresses than before";
    mem_used: Gauge Info Bytes "" "Memory of worker and manager" => "Heaps, stacks, stores in memory, log, counters, and the pages of the program: what memory_limit bounds. Looked at once a second, and more often when it is near the limit. lacquer memory shows who holds it.";
    mem_limit: Gauge Info Bytes "" "memory_limit in force; 0 is none" => "With memory_limit auto, what that came to.";
    mem_trim: Counter Info Integer "" "Memory steps: pools trimmed";
    mem_evict: Counter Info Integer "" "Memory steps: objects evicted" => "They are counted in n_lru_nuked, too.";
    mem_bgfetch: Counter Info Integer "" "Memory steps: background fetches refused";
    mem_shed: Counter Info Integer "" "Memory steps: requests answered 503";
    adopted: Counter Info Integer "" "Objects taken over from a worker that died";
    adopt_refused: Counter Diag Integer "" "Objects of a worker that died not taken over" => "They were over, banned or purged, or damaged, or the bans since then aren't known.";
    home_loads: Counter Info Integer "" "Objects read back from disk" => "Of stores on disk: objects that weren't in memory when they were asked for.";
    home_hit: Counter Info Integer "" "Lookups answered by what was read back" => "They are counted in cache_hit, too.";
    home_fail: Counter Info Integer "" "Objects that couldn't be read back" => "Another object was there, it had gone, or the disk failed: a miss.";
    home_admit: Counter Info Integer "" "Long bodies brought to memory from disk" => "A long body that was read back stays on disk until it is delivered again.";
    home_late: Counter Info Integer "" "Lookups that gave up waiting for the disk";
    adopt_suspect: Counter Diag Integer "" "Objects dropped because two workers died while delivering them";
    journal_fail: Counter Info Integer "" "Times bans and purges couldn't be written down" => "Those that were made hold. But what outlives the worker isn't served again, as nobody would know what of it they hit.";
    txn_busy: Gauge Info Integer "" "Transactions in progress" => "Requests and fetches, also requests that wait for their fetch or for another one's. Idle connections don't count.";
    stalls: Counter Info Integer "" "Times a runtime made no turn for a second";
    open_files: Gauge Info Integer "" "Descriptors that the worker has open" => "Connections, files, and what the worker itself needs; looked at once a second.";
    open_files_limit: Gauge Info Integer "" "Descriptors that the worker may have open" => "Its limit RLIMIT_NOFILE. Near it idle clients make room for others (sess_idle_ended); where there are none accepting pauses (accept_paused, sess_fail_emfile).";
    tls_handshakes: Counter Info Integer "" "TLS handshakes with clients";
    tls_resumed: Counter Info Integer "" "... of which took up an earlier session" => "That spares a signature, and in TLS 1.2 the key exchange, too.";
    tls_client_certs: Counter Info Integer "" "... of which with a certificate of the client's";
    tls_kernel: Counter Info Integer "" "... of which the kernel seals what is sent" => "See the parameter tls_kernel.";
    tls_kernel_fail: Counter Info Integer "" "... of which the kernel was to seal and refused" => "They are sealed by the worker; a record Tls of the session says why.";
    tls_fail: Counter Info Integer "" "TLS handshakes with clients that failed" => "The log says why in a record TLS of the session. Each is counted once below, too.";
    tls_fail_not_tls: Counter Diag Integer "" "TLS handshakes failed: what came is no TLS" => "Mostly plain HTTP on a port for HTTPS.";
    tls_fail_version: Counter Diag Integer "" "TLS handshakes failed: no version in common";
    tls_fail_cipher: Counter Diag Integer "" "TLS handshakes failed: no cipher suite, group or signature in common";
    tls_fail_name: Counter Diag Integer "" "TLS handshakes failed: no certificate for the name" => "Or none at all is loaded.";
    tls_fail_cert: Counter Diag Integer "" "TLS handshakes failed: the client's certificate" => "It has none, or not one that holds, where one is required.";
    tls_fail_alert: Counter Diag Integer "" "TLS handshakes failed: the client gave up" => "It sent an alert: mostly since it doesn't believe our certificate.";
    tls_fail_timeout: Counter Diag Integer "" "TLS handshakes failed: slower than tls_handshake_timeout";
    tls_fail_closed: Counter Diag Integer "" "TLS handshakes failed: the client closed";
    tls_fail_protocol: Counter Diag Integer "" "TLS handshakes failed: the client broke the protocol";
    tls_fail_internal: Counter Diag Integer "" "TLS handshakes failed: a fault of our own";
    tls_handshakes_waited: Counter Diag Integer "" "TLS handshakes that waited for others' before they were answered" => "A thread answers one at a time, and clients' addresses take turns: many at once hold up neither other clients nor connections that there are.";
    tls_misdirected: Counter Diag Integer "" "Requests answered 421: their host has a certificate that asks something else of clients" => "The client comes again on a connection of its own. It happens only where a certificate has client-verify (the parameter tls_client_hosts).";
    acme_answers: Counter Info Integer "wrk" "Questions of a certificate authority answered before VCL (HTTP-01)";
    h3_sess: Counter Info Integer "" "HTTP/3 sessions";
    h3_req: Counter Info Integer "" "... and requests in them";
    early_data_req: Counter Info Integer "" "... of which answered from early data" => "They came before the client's handshake was done, and were safe (see h3_early_data).";
    slice_objects: Counter Info Integer "" "Objects stored to be kept in slices" => "Each is a head without a body; its slices are objects of their own, fetched when they are asked for.";
    slice_hit: Counter Info Integer "" "Slices delivered that were in the cache" => "Or on their way into it.";
    slice_fetch: Counter Info Integer "" "Slices fetched" => "With those that came with the object's head.";
    slice_fail: Counter Info Integer "" "... of which failed" => "The backend gave none, or broke off. Changed objects count below.";
    slice_changed: Counter Info Integer "" "Objects in slices given up: changed at the backend" => "A slice came with another validator or length, or without being a part: the object is fetched anew with the next request.";
    slice_again: Counter Info Integer "" "Answers begun anew: the object had changed";
    slice_cut: Counter Info Integer "" "Answers broken off: a slice couldn't be had" => "The answer had begun, and mustn't be mixed from two versions: its client sees that it isn't whole.";
    slice_refused: Counter Info Integer "" "Responses not kept in slices, though asked to be" => "A Notice in the fetch's log says why.";
    early_data_wait: Counter Info Integer "" "... of which waited for the handshake" => "They came by early data, and were not safe or had a body.";
    early_data_retry: Counter Info Integer "" "Fetches asked again after a 425" => "An origin didn't want a request of early data; it was asked again after the client's handshake.";
    h3_retries: Counter Info Integer "" "Clients of QUIC asked to show that their address is theirs" => "Too many handshakes were in progress (see h3_retry_threshold).";
    h3_udp_buffer: Gauge Info Bytes "" "Receive buffer of a socket for QUIC" => "The smallest, as the kernel counts: packets and their descriptors. It is granted up to net.core.rmem_max where the manager has no rights (0: there is none).";
    h3_udp_drops: Counter Info Integer "" "Packets of QUIC that the kernel dropped" => "Nobody had read those before them in time, and the receive buffer was full.";
    h3_errors: Counter Info Integer "" "HTTP/3 connections ended since the client broke the protocol" => "The log says how in a record Error of the session.";
    h3_reset_flood: Counter Info Integer "" "... of which reset too many requests" => "More than h3_reset_limit.";
    h3_heads_refused: Counter Info Integer "" "HTTP/3 requests refused: heads that aren't whole hold too much" => "More than h3_limit_head_bytes.";
    h3_abuse_control: Counter Diag Integer "" "HTTP/3 connections ended: GOAWAY or MAX_PUSH_ID frames";
    h3_abuse_ignored: Counter Diag Integer "" "HTTP/3 connections ended: frames that mean nothing";
    h3_abuse_path: Counter Diag Integer "" "HTTP/3 connections ended: moves, path challenges or connection ids";
    h3_abuse_ping: Counter Diag Integer "" "HTTP/3 connections ended: PING frames";
    h3_abuse_priority: Counter Diag Integer "" "HTTP/3 connections ended: PRIORITY_UPDATE frames";
    h3_abuse_stop: Counter Diag Integer "" "HTTP/3 connections ended: STOP_SENDING or RESET_STREAM frames";
    h3_abuse_stream: Counter Diag Integer "" "HTTP/3 connections ended: streams without use";
    h3_abuse_window: Counter Diag Integer "" "HTTP/3 connections ended: changes of windows";
    h2_sess: Counter Info Integer "wrk" "Connections that speak HTTP/2";
    h2_streams_refused: Counter Info Integer "" "Streams refused: h2_max_concurrent_streams";
    h2_streams_broken: Counter Info Integer "" "Streams reset for what their client sent";
    h2_streams_late: Counter Info Integer "" "Streams reset as their client took nothing for too long";
    h2_abuse_rapid_reset: Counter Diag Integer "" "HTTP/2 connections ended: streams reset soon after they began";
    h2_abuse_made_reset: Counter Diag Integer "" "HTTP/2 connections ended: streams reset for what the client sent";
    h2_abuse_refused: Counter Diag Integer "" "HTTP/2 connections ended: streams above h2_max_concurrent_streams";
    h2_abuse_continuation: Counter Diag Integer "" "HTTP/2 connections ended: CONTINUATION frames";
    h2_abuse_header_bytes: Counter Diag Integer "" "HTTP/2 connections ended: a header too large";
    h2_abuse_settings: Counter Diag Integer "" "HTTP/2 connections ended: SETTINGS frames";
    h2_abuse_ping: Counter Diag Integer "" "HTTP/2 connections ended: PING frames";
    h2_abuse_priority: Counter Diag Integer "" "HTTP/2 connections ended: PRIORITY frames";
    h2_abuse_empty_data: Counter Diag Integer "" "HTTP/2 connections ended: DATA frames without data";
    h2_abuse_small_data: Counter Diag Integer "" "HTTP/2 connections ended: DATA frames of a few bytes";
    h2_abuse_shut_windows: Counter Diag Integer "" "HTTP/2 connections ended: more than four streams, all windows shut for h2_window_timeout";
    h2_abuse_window_update: Counter Diag Integer "" "HTTP/2 connections ended: WINDOW_UPDATE frames";
    h2_abuse_small_window: Counter Diag Integer "" "HTTP/2 connections ended: windows of a few bytes";
    h2_abuse_ignored: Counter Diag Integer "" "HTTP/2 connections ended: frames that mean nothing";
    h2_abuse_unread: Counter Diag Integer "" "HTTP/2 connections ended: answers that aren't read";
    n_form: Gauge Info Integer "" "Forms of stored bodies that are kept" => "A stored body in another coding, or packed harder: see form_space.";
    form_bytes: Gauge Info Bytes "" "Bytes of them" => "They are in the bytes of their stores, too.";
    form_made: Counter Info Integer "" "Forms made";
    form_hit: Counter Info Integer "" "Bodies delivered from a form that was kept";
    form_evicted: Counter Info Integer "" "Forms given up for others or for objects" => "Those that go with their object aren't counted.";
    form_refused: Counter Info Integer "" "Forms not kept" => "There was no room for them, or they were no smaller than what was there. The object isn't asked for that form again.";
    form_work: Counter Info Integer "" "Microseconds of a CPU spent on forms";
    n_brotli: Counter Info Integer "" "Bodies packed in br";
    n_unbrotli: Counter Info Integer "" "Bodies unpacked from br";
    n_test_brotli: Counter Info Integer "" "Bodies in br that were only checked";
    n_zstd: Counter Info Integer "" "Bodies packed in zstd";
    n_unzstd: Counter Info Integer "" "Bodies unpacked from zstd";
    n_test_zstd: Counter Info Integer "" "Bodies in zstd that were only checked";
    coding_bytes: Gauge Info Bytes "" "Memory of what packs and unpacks br and zstd" => "Looked at once a second; bounded by coding_memory.";
    coding_refused: Counter Info Integer "" "Bodies not unpacked: coding_memory";
    rfc9111_stale: Counter Info Integer "wrk" "Fetches that failed, and the stale object was served" => "By stale-if-error, or as the origin was out of reach (feature rfc9111).";
    rfc9111_updated: Counter Info Integer "" "Objects whose head was updated by an answer to HEAD" => "One that agrees with what is stored (RFC 9111 4.3.5, feature rfc9111).";
    parts_stored: Counter Info Integer "" "Parts (206) stored, alone or put together with others" => "Feature rfc9111.";
    parts_cut: Counter Info Integer "" "Bodies that broke off, and what came of them was kept" => "To be made whole by a request for the rest (feature rfc9111).";
    parts_changed: Counter Info Integer "" "Parts given up: the object has changed at the backend" => "A part came with another validator or length, or none could be had: the whole is asked for (feature rfc9111).";
    rfc9111_invalidated: Counter Info Integer "" "Objects invalidated by unsafe requests" => "By their own URL, Location, Content-Location and Cache-Group-Invalidation (feature rfc9111).";
    fetch_passed_on: Counter Info Integer "" "Fetches whose body found no room in its store" => "It goes to the one client that waits for it, as fast as that reads, and isn't kept.";
    fetch_squeezed: Counter Info Integer "" "Times a fetch was held to its client's pace by a full store" => "What is passed on goes by way of Transient, which has a limit and had no room.";
    longest_step: Gauge Info Integer "" "Longest step of a serving thread, in microseconds" => "CPU time of one turn of a task, of those that were timed (step_timing), since that was last set: so long the thread's other clients waited.";
    steps_timed: Counter Info Integer "" "Steps of serving threads timed" => "One in step_timing.";
    steps_long: Counter Info Integer "" "... of which took over 500 microseconds";
    stints: Counter Info Integer "" "Times a task let others go first" => "It had worked for about 200 microseconds, and had more to do.";
    pipelined_stints: Counter Info Integer "" "... of which a connection with more requests at hand";
}

set! {
    /// The manager; survives workers.
    Mgt "MGT" 20 "Management process";
    uptime: Counter Info Duration "" "How long the manager has been running";
    child_start: Counter Diag Integer "" "Workers started";
    child_exit: Counter Diag Integer "" "Workers that ended by themselves, cleanly";
    child_stop: Counter Diag Integer "" "Workers stopped";
    child_died: Counter Diag Integer "" "Workers that died of a signal";
    child_dump: Counter Diag Integer "" "Workers that left a core";
    child_panic: Counter Diag Integer "" "Workers that panicked";
    child_distrust: Counter Diag Integer "" "Times that stores were emptied because workers died again and again" => "The memory of stores outlives a worker that dies. After five deaths in a minute the next worker begins with empty stores, for what it would find may be the cause.";
    acme_issued: Counter Info Integer "" "Certificates got by ACME";
    acme_failed: Counter Info Integer "" "Attempts to get a certificate by ACME that failed";
    certs_renewed: Counter Info Integer "" "Certificates read again because their files changed";
    certs_refused: Counter Info Integer "" "Times that changed files of a certificate were of no use" => "The certificate in use stays; tls.cert.list -j and the log say why.";
    certs_loaded: Gauge Info Integer "" "Certificates in use";
    certs_expired: Gauge Info Integer "" "... of which expired" => "Clients refuse the server then. The log names them, and so does lacquer tls status.";
    certs_ending: Gauge Info Integer "" "... of which expire soon" => "In less than 14 days, or than a sixth of their time.";
    certs_next_end: Gauge Info Duration "" "Until the first certificate expires" => "0 when one has expired, or there is none.";
}

set! {
    /// One store of kind malloc.
    Sma "SMA" 40 "Storage in memory";
    c_req: Counter Info Integer "" "Allocations asked for";
    c_fail: Counter Info Integer "" "Allocations that failed";
    c_bytes: Counter Info Bytes "" "Bytes ever allocated";
    c_freed: Counter Info Bytes "" "Bytes ever freed";
    g_alloc: Gauge Info Integer "" "Allocations outstanding";
    g_bytes: Gauge Info Bytes "" "Bytes outstanding";
    g_space: Gauge Info Bytes "" "Bytes free";
}

set! {
    /// The disk of one store of kind file; its memory has a set of [`Sma`].
    Smf "SMF" 50 "Storage on a disk";
    c_req: Counter Info Integer "" "Objects that were to be written";
    c_fail: Counter Info Integer "" "Objects that couldn't be written" => "Objects that stay in memory alone: the disk was too slow, had failed, or had no segment for them. DISK.* has a counter for each reason.";
    c_bytes: Counter Info Bytes "" "Bytes ever written";
    c_freed: Counter Info Bytes "" "Bytes ever freed" => "Bytes of segments that were reclaimed to be written anew.";
    g_alloc: Gauge Info Integer "" "Objects on the disk";
    g_bytes: Gauge Info Bytes "" "Bytes of segments in use";
    g_space: Gauge Info Bytes "" "Bytes of free segments";
    g_smf: Gauge Info Integer "" "Segments";
    g_smf_frag: Gauge Info Integer "" "Small free extents" => "Always 0: a segment is free as a whole.";
    g_smf_large: Gauge Info Integer "" "Free segments";
}

set! {
    /// What a disk does for a store.
    DiskSet "DISK" 55 "Disk of a store";
    ready: Gauge Info Integer "" "1 once all objects can be found" => "0 while the store is opened or recovered, and when it can't be opened.";
    segments_loaded: Gauge Info Integer "" "Segments read since the start" => "While this is below segments_found, objects of the others are missed.";
    segments_found: Gauge Info Integer "" "Segments that the start has found";
    objects: Gauge Info Integer "" "Objects that can be found";
    index_bytes: Gauge Info Bytes "" "Memory of the index";
    index_limit: Gauge Info Bytes "" "The most memory for the index" => "`index=` of -s.";
    buffer_bytes: Gauge Info Bytes "" "Memory of what waits to be written";
    in_progress: Gauge Info Integer "" "Operations in progress";
    loads: Counter Info Integer "" "Objects read";
    loads_mismatched: Counter Info Integer "" "Objects read that were others" => "The index can't tell all objects apart; who reads one sees whether it is the right one.";
    loads_gone: Counter Info Integer "" "Objects that were gone when they were read";
    reads_refused: Counter Info Integer "" "Reads not begun: too many in progress";
    bytes_read: Counter Info Bytes "" "Bytes read for objects";
    puts: Counter Info Integer "" "Objects written";
    puts_slow: Counter Info Integer "" "Objects not written: the disk is behind" => "Too much waits to be written, or a write has failed a short while ago.";
    puts_no_segment: Counter Info Integer "" "Objects not written: no segment for them";
    puts_too_large: Counter Info Integer "" "Objects not written: too large";
    puts_overtaken: Counter Info Integer "" "Objects not written: removed meanwhile";
    puts_failed: Counter Info Integer "" "Objects lost as their write failed";
    index_full: Counter Info Integer "" "Objects not kept: the index is full";
    bytes_written: Counter Info Bytes "" "Bytes written";
    removed: Counter Info Integer "" "Objects removed";
    reclaimed: Counter Info Integer "" "Objects that went with their segment";
    moved: Counter Info Integer "" "Objects written anew before their segment went" => "They had been used since they were written.";
    segments_reclaimed: Counter Info Integer "" "Segments reclaimed";
    read_errors: Counter Info Integer "" "Reads that failed";
    write_errors: Counter Info Integer "" "Writes that failed";
    sync_errors: Counter Info Integer "" "Syncs that failed" => "Failures to bring to stable storage what was written.";
    stalls: Counter Info Integer "" "Operations that took too long" => "Those who waited had a miss, or sent what they had.";
    checksum_errors: Counter Info Integer "" "Wrong checksums";
    segments_quarantined: Counter Info Integer "" "Segments not written any more" => "A read or write of theirs failed, or they changed after they were on stable storage. The next start tries them again.";
    segments_scanned: Counter Info Integer "" "Segments without a whole table" => "The start read their entries instead.";
    segments_unjudged: Counter Info Integer "" "Segments given up at the start" => "What was removed from them isn't known any more.";
}

set! {
    /// One backend of one VCL.
    Vbe "VBE" 60 "Backend";
    happy: Bitmap Info Bitmap "" "Probe results, newest in bit 0" => "Bit 0 is the newest probe; a set bit is a good one.";
    bereq_hdrbytes: Counter Info Bytes "" "Request head bytes";
    bereq_bodybytes: Counter Info Bytes "" "Request body bytes";
    beresp_hdrbytes: Counter Info Bytes "" "Response head bytes";
    beresp_bodybytes: Counter Info Bytes "" "Response body bytes";
    pipe_hdrbytes: Counter Info Bytes "" "Head bytes of piped requests";
    pipe_out: Counter Info Bytes "" "Bytes piped to the backend";
    pipe_in: Counter Info Bytes "" "Bytes piped from the backend";
    conn: Gauge Info Integer "" "Concurrent connections used" => "Concurrent connections used: those that carry a request now, pipes included.";
    req: Counter Info Integer "" "Requests sent";
    unhealthy: Counter Info Integer "" "Fetches not tried: unhealthy";
    busy: Counter Info Integer "" "Fetches not tried: at the maximum";
    fail: Counter Info Integer "" "Connections that failed";
    fail_eacces: Counter Diag Integer "" "Connections failed: not permitted";
    fail_eaddrnotavail: Counter Diag Integer "" "Connections failed: no local address";
    fail_econnrefused: Counter Diag Integer "" "Connections failed: refused";
    fail_enetunreach: Counter Diag Integer "" "Connections failed: unreachable";
    fail_etimedout: Counter Diag Integer "" "Connections failed: timed out";
    fail_other: Counter Diag Integer "" "Connections failed: any other reason";
    helddown: Counter Diag Integer "" "Connections not tried soon after a failure";
}

set! {
    /// One class of requests that need a backend (the parameter `classes`).
    ClassCounters "CLASS" 62 "Class of requests";
    busy: Gauge Info Integer "" "Workers taken" => "Fetches in progress.";
    waiting: Gauge Info Integer "" "Requests in chairs";
    room: Gauge Info Integer "" "Visitors with a place in the waiting room";
    served: Counter Info Integer "" "Requests that got a worker";
    waited: Counter Info Integer "" "... of which waited in a chair";
    returned: Counter Info Integer "" "... of which came by their token, or to a chair by it";
    ended: Counter Info Integer "" "Fetches ended";
    refused: Counter Info Integer "" "Requests refused: no chair";
    late: Counter Info Integer "" "Requests refused: longer than patience";
    gone: Counter Info Integer "" "Requests whose client left its chair";
    deferred: Counter Info Integer "" "Refreshes not begun: no worker" => "The stale object was delivered without.";
    forged: Counter Info Integer "" "Tokens that weren't good" => "Not ours, changed, or too old.";
    wait_us: Counter Info Integer "" "Microseconds waited in chairs" => "By those who got a worker; waited counts them.";
    service_us: Counter Info Integer "" "Microseconds that workers were held" => "By the fetches that ended counts.";
}

set! {
    /// Objects by tag, there once tags are kept: `tag_fields`, a VCL that imports xkey or ykey or names beresp.tags.
    Xkey "XKEY" 110 "Tags (keys) of objects";
    g_keys: Gauge Info Integer "" "Number of surrogate keys" => "Tags that objects bear now.";
    g_references: Gauge Info Integer "" "Pairs of a tag and an object";
    g_hashhead_bytes: Gauge Debug Bytes "" "Bytes used by keys";
    g_ochead_bytes: Gauge Debug Bytes "" "Bytes used by links between keys and objects";
    g_oc_bytes: Gauge Debug Bytes "" "Bytes used by objects with keys";
    g_bytes: Gauge Info Bytes "" "Bytes used for all of it" => "Not part of any store's size; tag_space bounds it. A tag of an object takes about 13 bytes, an object with tags 40, each different tag 60 and its text.";
    refused: Counter Info Integer "" "Objects not kept for want of tag_space" => "Objects whose tags found no room under tag_space: they answered the requests that waited for them, and weren't kept.";
}

set! {
    /// This server as a node of a fleet; there with `--fleet` only.
    Fleet "FLEET" 115 "The fleet's log of what is banned and purged, and its nodes";
    reachable: Gauge Info Integer "" "Something can be appended to the log" => "1: the log's server answers. 0: whoever bans or purges is told that it can't be done.";
    followed: Gauge Info Integer "" "The log is followed" => "1: what others ban and purge is carried out here as it comes.";
    gate_closed: Gauge Info Integer "" "Nothing stored is served" => "1: the node hasn't caught up with the log since it started or was connected again; requests go to the backend.";
    capped: Gauge Info Integer "" "Only what is young is served" => "1: the log is away for longer than --fleet's setting stale allows.";
    head: Gauge Info Integer "" "Number of the log's newest entry" => "As far as it is known here.";
    applied: Gauge Info Integer "" "Number of the newest entry carried out";
    lag: Gauge Info Integer "" "Entries that aren't carried out yet";
    lag_seconds: Gauge Info Integer "" "Seconds since the node is behind the log";
    appended: Counter Info Integer "" "Entries that this node appended";
    refused: Counter Info Integer "" "Entries that could not be appended" => "Whoever banned or purged was told so.";
    carried_out: Counter Info Integer "" "Entries of other nodes carried out";
    returned: Counter Info Integer "" "Own entries that came back" => "They were carried out when they were made.";
    foreign: Counter Info Integer "" "Entries that aren't ours" => "Entries of the log that could not be read, and were left out.";
    gaps: Counter Info Integer "" "Times that all had to be given up" => "How often all that was stored was invalidated, as nobody knew what it had missed: the log was trimmed, is another one, or could not be reached at the start.";
    nodes: Gauge Info Integer "" "Nodes of the fleet" => "Those that have reported within ten minutes, this one among them; as far as it is known here.";
    nodes_away: Gauge Info Integer "" "... of which are away" => "They haven't reported for five seconds: they are down, or cut off from the log's server.";
}

set! {
    /// The second tier of a fleet's caches; there with `--peers` only.
    Peers "PEERS" 116 "The second tier: caches that ask each other before the origin";
    members: Gauge Info Integer "" "Members of the ring" => "This node counts if it is one.";
    away: Gauge Info Integer "" "Members that are passed by" => "They didn't answer lately; one request at a time tries whether they are back.";
    owned: Counter Info Integer "" "Misses whose key this node owns" => "Fetched from the origin.";
    asked: Counter Info Integer "" "Misses for which the key's owner was asked";
    answered: Counter Info Integer "" "Those that it answered with an object";
    passed_by: Counter Info Integer "" "Those fetched from the origin after all" => "The owner was away or slow, or had no answer that counts.";
    not_asked: Counter Info Integer "" "Misses that could not be asked for" => "No member is there, or something invalidated here isn't in the fleet's log yet.";
    served: Counter Info Integer "" "Requests of peers";
    behind: Counter Info Integer "" "Requests of peers refused as this node is behind" => "It hadn't carried out what the asking node had, of the fleet's log.";
    crossed: Counter Info Integer "" "Requests of peers refused as this node asks for the same" => "Nodes differ in who owns a key: both go to the origin.";
    hops_refused: Counter Info Integer "" "Requests that claim to be a peer's and aren't" => "Treated as any client's. A wrong secret, another name for this node, a clock that is wrong, or a forgery.";
    hot: Counter Info Integer "" "Requests of peers for a key that is hot" => "Asked for more often than the parameter peers_hot says: it has two owners for a while.";
}

set! {
    /// A pool of reusable structures.
    Mempool "MEMPOOL" 30 "Memory pool";
    live: Gauge Debug Integer "" "In use" => "Requests (reqN), connections (sessN) or fetches (busyobj) in progress; N is one of thread_pools shares of the threads.";
    pool: Gauge Debug Integer "" "In reserve" => "Always 0: nothing is kept in reserve here.";
    sz_wanted: Gauge Debug Bytes "" "Bytes asked for" => "Bytes of one, without heads and buffers, which are pooled by themselves.";
    sz_actual: Gauge Debug Bytes "" "Bytes given";
    allocs: Counter Debug Integer "" "Taken";
    frees: Counter Debug Integer "" "Given back";
    recycle: Counter Debug Integer "" "Taken from the reserve" => "Always 0: nothing is kept in reserve here.";
    timeout: Counter Debug Integer "" "Reserve dropped for age" => "Always 0: nothing is kept in reserve here.";
    toosmall: Counter Debug Integer "" "Reserve dropped for size" => "Always 0: nothing is kept in reserve here.";
    surplus: Counter Debug Integer "" "Reserve dropped for number" => "Always 0: nothing is kept in reserve here.";
    randry: Counter Debug Integer "" "Times the reserve was empty" => "Always 0: nothing is kept in reserve here.";
}

set! {
    /// A class of locks.
    Lck "LCK" 70 "Lock";
    creat: Counter Debug Integer "" "Locks made";
    destroy: Counter Debug Integer "" "Locks destroyed";
    locks: Counter Debug Integer "" "Times the lock was taken";
    dbg_busy: Counter Debug Integer "" "Times it was found taken (debug=+lck)" => "Always 0: locks are counted as taken alone.";
    dbg_try_fail: Counter Debug Integer "" "Attempts given up (debug=+lck)" => "Always 0: locks are counted as taken alone.";
}

set! {
    /// What requests cost; only in builds that count.
    Costs "COSTS" 90 "What requests cost (builds with debug assertions)";
    allocations: Counter Debug Integer "" "Allocations of memory";
    locks: Counter Debug Integer "" "Locks taken";
    turns: Counter Debug Integer "" "Times these were brought up to date";
}
