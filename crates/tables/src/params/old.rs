// SPDX-License-Identifier: BSD-2-Clause
//! Names of other releases: mapped where the meaning is the same, explained where it is not.

use std::time::Duration;

use super::{Spec, Value};

/// Old or later name, today's name.
const ALIASES: &[(&str, &str)] = &[
    ("deprecated_dummy", "debug"),
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
    ("http_headers", "It is called http_max_hdr."),
    ("log_hashstring", "Use param.set vsl_mask +Hash or -Hash."),
    ("log_local_address", "ReqStart names the listener."),
    ("max_esi_includes", "It is called max_esi_depth."),
    ("obj_workspace", "Objects are as large as they need to be."),
    ("object_workspace", "Objects are as large as they need to be."),
    ("saintmode_threshold", "Use a director with probes and vcl_backend_error."),
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

/// The value in today's unit, and what is worth telling about it.
pub fn convert(name: &str, spec: &Spec, value: Value) -> (Value, Option<&'static str>) {
    match (name, value) {
        ("session_linger", Value::Seconds(t)) => (
            Value::Seconds(Duration::from_secs_f64(t.as_secs_f64() / 1e3)),
            Some("session_linger is called timeout_linger now and takes seconds; milliseconds were converted."),
        ),
        ("thread_pool_purge_delay", Value::Seconds(t)) => (
            Value::Seconds(Duration::from_secs_f64(t.as_secs_f64() / 1e3)),
            Some("thread_pool_purge_delay is called thread_pool_destroy_delay now and takes seconds."),
        ),
        ("thread_pool_add_delay", Value::Seconds(t)) if t >= Duration::from_secs(1) => {
            (Value::Seconds(t), Some("thread_pool_add_delay is in seconds; old releases took milliseconds."))
        }
        ("lru_interval", Value::Seconds(t)) if t >= Duration::from_secs(600) => {
            (Value::Seconds(t), Some("With such an lru_interval objects are evicted in almost any order."))
        }
        (_, value) if name != spec.name && name != "deprecated_dummy" => {
            (value, Some("This name belongs to another release; it was mapped."))
        }
        (_, value) if spec.no_effect() => (value, Some("This parameter has no effect here; its text says why.")),
        (_, value) => (value, None),
    }
}
