// SPDX-License-Identifier: BSD-2-Clause
//! Names of other releases: mapped where the meaning is the same, explained where it is not.

use std::time::Duration;

use super::{Spec, Value};

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
];

/// Name, what to do instead.
const GONE: &[(&str, &str)] = &[
    ("cache_vbe_conns", "Backend connections are always reused; Connection: close of a backend ends one."),
    ("cli_banner", "The banner is always shown."),
    ("cli_buffer", "A CLI command may be as long as memory allows."),
    ("diag_bitmap", "Its bits have names now: param.set debug +NAME."),
    ("err_ttl", "Synthetic responses are not cached."),
    ("esi_syntax", "Its bits are features now: param.set feature +esi_disable_xml_check, +esi_ignore_other_elements."),
    ("expiry_sleep", "Expiry runs when something expires."),
    ("group", "The worker's group follows from -j unix,user=NAME."),
    ("gzip_stack_buffer", "gzip_buffer is the only buffer left."),
    ("gzip_tmp_space", "Memory is taken from the heap."),
    ("gzip_window", "The window is always the largest."),
    ("log_hashstring", "Use param.set vsl_mask +Hash or -Hash."),
    ("log_local_address", "ReqStart names the listener."),
    ("obj_workspace", "Objects are as large as they need to be."),
    ("object_workspace", "Objects are as large as they need to be."),
    (
        "saintmode_threshold",
        "Old VCL says it for each backend (.saintmode_threshold), VCL 4 with saintmode.saintmode(backend, threshold).",
    ),
    ("srcaddr_hash", "Client addresses are not counted; see max_sessions_per_ip."),
    ("srcaddr_ttl", "Client addresses are not counted; see max_sessions_per_ip."),
    ("user", "The worker's user follows from -j unix,user=NAME,ccgroup=NAME."),
    ("vcc_feature", "Until 7.1 its bits are parameters: vcc_err_unref, vcc_allow_inline_c, vcc_unsafe_path."),
    ("vcl_trace", "Use param.set vsl_mask +VCL_trace or -VCL_trace."),
    ("waiter", "Use -W."),
];

/// The name that `name` stands for.
pub fn alias(name: &str) -> Option<&'static str> {
    ALIASES.iter().find(|(old, _)| *old == name).map(|(_, new)| *new)
}

/// What takes the place of a name that is gone.
pub fn gone(name: &str) -> Option<&'static str> {
    GONE.iter().find(|(old, _)| *old == name).map(|(_, text)| *text)
}

/// Whether setting this gone name does no harm.
pub fn is_forgiven(name: &str) -> bool {
    FORGIVEN.contains(&name)
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
        (_, value) if spec.no_effect() => (value, Some("This parameter has no effect here; its text says why.")),
        (_, value) => (value, None),
    }
}
