// SPDX-License-Identifier: BSD-2-Clause
//! Names of other releases: mapped where the meaning is the same, explained where it is not.

use std::time::Duration;

use super::{Kind, Spec, Value};

/// Old or later name, today's name.
const ALIASES: &[(&str, &str)] = &[
    ("deprecated_dummy", "debug"),
    ("http_headers", "http_max_hdr"),
    ("max_esi_includes", "max_esi_depth"),
    ("overflow_max", "thread_queue_limit"),
    ("pcre_match_limit", "pcre2_match_limit"),
    ("pcre_match_limit_recursion", "pcre2_depth_limit"),
    ("purge_dups", "ban_dups"),
    ("queue_max", "thread_queue_limit"),
    ("sess_timeout", "timeout_idle"),
    ("sess_workspace", "workspace_client"),
    ("session_linger", "timeout_linger"),
    ("session_max", "max_sessions"),
    ("shm_reclen", "vsl_reclen"),
    ("shm_workspace", "vsl_buffer"),
    ("thread_pool_purge_delay", "thread_pool_destroy_delay"),
    ("thread_pool_workspace", "workspace_thread"),
    ("timeout_req", "timeout_head"),
    ("vcl_dir", "vcl_path"),
    ("vmod_dir", "vmod_path"),
];

/// Those of the gone that nobody can miss: setting one is told and does nothing.
const FORGIVEN: &[&str] = &[
    "cli_banner",
    "cli_buffer",
    "expiry_sleep",
    "gzip_stack_buffer",
    "gzip_tmp_space",
    "gzip_window",
    "obj_workspace",
    "object_workspace",
    "srcaddr_hash",
    "srcaddr_ttl",
    "ssl_buffer",
    "sslbuf_pool",
    "tls_cleanup_batch",
];

/// Name, what to do instead.
const GONE: &[(&str, &str)] = &[
    ("accept_fd_holdoff", "How long accepting pauses without descriptors isn't settable."),
    ("acceptor", "There is one way of accepting connections."),
    ("backend_http11", "Backends are always spoken to in HTTP/1.1."),
    ("busyobj_worker_cache", "Memory of a fetch is always kept for the next one."),
    ("cache_vbe_conns", "Backend connections are always reused; Connection: close of a backend ends one."),
    ("cli_banner", "The banner is always shown."),
    ("cli_buffer", "A CLI command may be as long as memory allows."),
    ("client_http11", "Clients are always answered in HTTP/1.1."),
    ("diag_bitmap", "Its bits have names now: param.set debug +NAME."),
    ("err_ttl", "Synthetic responses are not cached."),
    ("esi_syntax", "Its bits are features now: param.set feature +esi_disable_xml_check, +esi_ignore_other_elements."),
    ("expiry_sleep", "Expiry runs when something expires."),
    ("group", "The worker's group follows from -j unix,user=NAME."),
    ("group_cc", "The VCL compiler has a process of its own; -j unix,ccgroup=NAME gives it a group."),
    ("gzip_stack_buffer", "gzip_buffer is the only buffer left."),
    ("gzip_tmp_space", "Memory is taken from the heap."),
    ("gzip_window", "The window is always the largest."),
    ("listen_address", "Say it with -a, once for each address."),
    ("log_hashstring", "Use param.set vsl_mask +Hash or -Hash."),
    ("log_local_address", "ReqStart names the listener."),
    ("obj_workspace", "Objects are as large as they need to be."),
    ("object_workspace", "Objects are as large as they need to be."),
    ("pool_vbc", "Memory is taken from the heap."),
    ("purge_hash", "Keep what a ban is to match in a field of the object (obj.http.x-url)."),
    (
        "saintmode_threshold",
        "Old VCL says it for each backend (.saintmode_threshold), VCL 4 with saintmode.saintmode(backend, threshold).",
    ),
    ("sendfile_threshold", "How a body is sent isn't settable."),
    ("srcaddr_hash", "Client addresses are not counted; see max_sessions_per_ip."),
    ("srcaddr_ttl", "Client addresses are not counted; see max_sessions_per_ip."),
    ("ssl_buffer", "Of release 9: no connection has a buffer for TLS, each thread has."),
    ("sslbuf_pool", "Of release 9: no connection has a buffer for TLS, each thread has."),
    (
        "thread_pool_add_threshold",
        "Transactions are tasks: no thread is added; see thread_pool_max and thread_queue_limit.",
    ),
    ("tls_cleanup_batch", "Of release 9: what a commit leaves of certificates is freed at once."),
    ("user", "The worker's user follows from -j unix,user=NAME,ccgroup=NAME."),
    ("vcc_feature", "Until 7.1 its bits are parameters: vcc_err_unref, vcc_allow_inline_c, vcc_unsafe_path."),
    ("vcl_trace", "Use param.set vsl_mask +VCL_trace or -VCL_trace."),
    ("vsm_space", "vsl_space is the log's; what counters need follows from their number."),
    ("waiter", "Use -W."),
];

/// The name that `name` stands for.
pub fn alias(name: &str) -> Option<&'static str> {
    ALIASES.iter().find(|(old, _)| *old == name).map(|(_, new)| *new)
}

/// The replacement of a name that is gone.
pub fn gone(name: &str) -> Option<&'static str> {
    GONE.iter().find(|(old, _)| *old == name).map(|(_, text)| *text)
}

/// True if setting this gone name does no harm.
pub fn is_forgiven(name: &str) -> bool {
    FORGIVEN.contains(&name)
}

/// Seconds of silence between requests that a client connection may be given before we warn: proxies in front ask for up to 620.
const LONG_IDLE: u64 = 620;

/// The advice that a value deserves, whatever name was given.
pub fn advice(spec: &Spec, value: &Value) -> Option<&'static str> {
    match (spec.name, value) {
        ("timeout_idle", Value::Seconds(t)) if t.as_secs() > LONG_IDLE => Some(
            "Each silent client keeps a connection and a descriptor that long; 5 to 75 seconds are usual, \
             more only behind a proxy that asks for it.",
        ),
        _ => None,
    }
}

/// A value of an old start line that `param.set` refuses because it is below today's least, as the value that takes its
/// place, and what to say of that. None: it stays refused.
pub fn eased(name: &str, spec: &Spec, text: &str, least: Option<&str>) -> Option<(String, &'static str)> {
    let (number, least) = (base::text::parse_bytes(text)?, least?);
    if number >= base::text::parse_bytes(least)? {
        return None;
    }
    match (name, spec.kind) {
        // Kilobytes until 3.0.
        ("fetch_chunksize", _) if number > 0 && text.bytes().all(|b| b.is_ascii_digit()) => {
            Some((format!("{number}k"), "It takes bytes; the kilobytes given were converted. It has no effect here."))
        }
        // 2 was enough for 2.0, 1 for 2.1 and 3.0. Nothing hangs on it here.
        ("thread_pool_min", _) if number > 0 => {
            Some((least.to_owned(), "It is raised to the least; it has no effect here."))
        }
        // Nobody but an old start line knows the name.
        (_, Kind::Bytes) if alias(name).is_some() => Some((least.to_owned(), "It is raised to the least of today.")),
        _ => None,
    }
}

/// The value in today's unit, and what is worth telling about it.
pub fn convert(name: &str, spec: &Spec, value: Value) -> (Value, Option<&'static str>) {
    match (name, value) {
        ("session_linger", Value::Seconds(t)) => (
            Value::Seconds(Duration::from_secs_f64(t.as_secs_f64() / 1e3)),
            Some("It takes seconds; the milliseconds given were converted."),
        ),
        ("thread_pool_purge_delay", Value::Seconds(t)) => (
            Value::Seconds(Duration::from_secs_f64(t.as_secs_f64() / 1e3)),
            Some("It takes seconds; the milliseconds given were converted."),
        ),
        ("thread_pool_add_delay", Value::Seconds(t)) if t >= Duration::from_secs(1) => {
            (Value::Seconds(t), Some("It takes seconds; releases before 4 took milliseconds. It has no effect here."))
        }
        ("lru_interval", Value::Seconds(t)) if t >= Duration::from_secs(600) => (
            Value::Seconds(t),
            Some("It has no effect here; in Varnish, objects would then be evicted in almost any order."),
        ),
        (_, value) if name != spec.name && name != "deprecated_dummy" => {
            (value, Some("The name belongs to another release."))
        }
        (_, value) if spec.no_effect() => (value, Some("It has no effect here.")),
        (_, value) => (value, None),
    }
}
