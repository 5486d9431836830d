// SPDX-License-Identifier: BSD-2-Clause
//! Names of other releases: mapped where the meaning is the same, explained where it is not.

use std::time::Duration;

use super::{ParamKind, ParamValue, Spec};

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
    "esi_iovs",
    "expiry_sleep",
    "gzip_stack_buffer",
    "gzip_tmp_space",
    "gzip_window",
    "obj_workspace",
    "object_workspace",
    "panic_buffer",
    "srcaddr_hash",
    "srcaddr_ttl",
    "ssl_buffer",
    "sslbuf_pool",
    "tls_cleanup_batch",
];

/// Name, what to do instead.
const GONE: &[(&str, &str)] = &[
    ("accept_fd_holdoff", "The pause in accepting when no descriptors are left can't be set."),
    ("acceptor", "There is only one way to accept connections."),
    ("backend_http11", "Requests to backends are always HTTP/1.1."),
    ("busyobj_worker_cache", "The memory of a fetch is always reused."),
    ("cache_vbe_conns", "Backend connections are always reused, unless the backend sends Connection: close."),
    ("cli_banner", "The banner is always shown."),
    ("cli_buffer", "The length of a CLI command is only limited by memory."),
    ("client_http11", "Responses to clients are always HTTP/1.1."),
    ("diag_bitmap", "Its bits have names now: param.set debug +NAME."),
    ("err_ttl", "Synthetic responses are not cached."),
    ("esi_syntax", "Its bits are features now: param.set feature +esi_disable_xml_check, +esi_ignore_other_elements."),
    ("esi_iovs", "A parameter of release 6.0. How many buffers ESI sends at once isn't limited by a parameter."),
    ("expiry_sleep", "Expiry runs when something expires."),
    ("group", "The worker's group follows from -j unix,user=NAME."),
    ("group_cc", "The VCL compiler has a process of its own; -j unix,ccgroup=NAME gives it a group."),
    ("gzip_stack_buffer", "There is no such buffer."),
    ("gzip_tmp_space", "Memory is allocated from the heap."),
    ("gzip_window", "The window is always the largest."),
    ("listen_address", "Use -a, once for each address."),
    ("log_hashstring", "Use param.set vsl_mask +Hash or -Hash."),
    ("log_local_address", "ReqStart names the listener."),
    ("obj_workspace", "Objects are as large as they need to be."),
    ("object_workspace", "Objects are as large as they need to be."),
    ("panic_buffer", "A parameter of release 7.6. The report of a panic is as long as it needs to be."),
    ("pool_vbc", "Memory is allocated from the heap."),
    ("purge_hash", "Store what a ban should match in a header of the object (obj.http.x-url)."),
    (
        "saintmode_threshold",
        "Old VCL sets it per backend (.saintmode_threshold), VCL 4 uses saintmode.saintmode(backend, threshold).",
    ),
    ("sendfile_threshold", "How a body is sent can't be set."),
    ("srcaddr_hash", "Client addresses are not counted; see max_sessions_per_ip."),
    ("srcaddr_ttl", "Client addresses are not counted; see max_sessions_per_ip."),
    ("ssl_buffer", "A parameter of release 9. TLS buffers belong to threads here, not to connections."),
    ("sslbuf_pool", "A parameter of release 9. TLS buffers belong to threads here, not to connections."),
    (
        "thread_pool_add_threshold",
        "Transactions are tasks, and no thread is added; see thread_pool_max and thread_queue_limit.",
    ),
    ("tls_cleanup_batch", "A parameter of release 9. Unused certificates are freed at once here."),
    ("user", "The worker's user follows from -j unix,user=NAME,ccgroup=NAME."),
    ("vcl_trace", "Use param.set vsl_mask +VCL_trace or -VCL_trace."),
    ("vsm_space", "Use vsl_space for the log; the size for counters follows from their number."),
    ("waiter", "Use -W."),
];

pub fn alias(name: &str) -> Option<&'static str> {
    ALIASES.iter().find(|(old, _)| *old == name).map(|(_, new)| *new)
}

pub fn gone(name: &str) -> Option<&'static str> {
    GONE.iter().find(|(old, _)| *old == name).map(|(_, text)| *text)
}

pub fn is_forgiven(name: &str) -> bool {
    FORGIVEN.contains(&name)
}

/// Seconds of silence between requests that a client connection may be given before we warn: proxies in front ask for up to 620.
const LONG_IDLE: u64 = 620;

pub fn advice(spec: &Spec, value: &ParamValue) -> Option<&'static str> {
    match (spec.name, value) {
        ("timeout_idle", ParamValue::Seconds(t)) if t.as_secs() > LONG_IDLE => Some(
            "Each silent client keeps a connection and a descriptor that long; 5 to 75 seconds are usual. \
             Use more only behind a proxy that requires it.",
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
            Some((least.to_owned(), "It is raised to the least allowed value; it has no effect here."))
        }
        // Nobody but an old start line knows the name.
        (_, ParamKind::Bytes) if alias(name).is_some() => {
            Some((least.to_owned(), "It is raised to the least allowed value."))
        }
        _ => None,
    }
}

/// The value in today's unit, and what is worth telling about it.
pub fn convert(name: &str, spec: &Spec, value: ParamValue) -> (ParamValue, Option<&'static str>) {
    match (name, value) {
        ("session_linger", ParamValue::Seconds(t)) => (
            ParamValue::Seconds(Duration::from_secs_f64(t.as_secs_f64() / 1e3)),
            Some("It takes seconds; the milliseconds given were converted."),
        ),
        ("thread_pool_purge_delay", ParamValue::Seconds(t)) => (
            ParamValue::Seconds(Duration::from_secs_f64(t.as_secs_f64() / 1e3)),
            Some("It takes seconds; the milliseconds given were converted."),
        ),
        ("thread_pool_add_delay", ParamValue::Seconds(t)) if t >= Duration::from_secs(1) => (
            ParamValue::Seconds(t),
            Some("It takes seconds; releases before 4 took milliseconds. It has no effect here."),
        ),
        ("lru_interval", ParamValue::Seconds(t)) if t >= Duration::from_secs(600) => (
            ParamValue::Seconds(t),
            Some("It has no effect here; in Varnish, objects would then be evicted in almost any order."),
        ),
        (_, value) if name != spec.name && name != "deprecated_dummy" => {
            (value, Some("The name belongs to another release."))
        }
        (_, value) if spec.no_effect() => (value, Some("It has no effect here.")),
        (_, value) => (value, None),
    }
}
