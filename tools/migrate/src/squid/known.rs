// SPDX-License-Identifier: BSD-2-Clause
//! Directives of squid's whose values aren't read: those that change nothing here, and those without a counterpart, with the reasons.

use crate::fates;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fate {
    /// The directive changes nothing here.
    WithoutMeaning(&'static str),
    /// The same; the text is worth a note.
    Noted(&'static str),
    /// The directive has no counterpart, and nothing that is kept or sent depends on it.
    Refused(&'static str),
    /// The directive has no counterpart, and may keep a response from being kept or sent: all requests are passed.
    Passed(&'static str),
}

use Fate::{Noted, Passed, Refused, WithoutMeaning};

const PROCESS: &str = "it speaks of squid as a process";
const LOG: &str = "varnishlog and varnishncsa read the log";
const STORES: &str = "stores (-s) have limits and an order of eviction of their own";
const NO_PEERS: &str = "caches don't ask each other here";
const NAMED: &str = "requests go to the origins that cache_peer names, and to no other server";
const RESOLVER: &str = "the system's resolver looks origins up";
const HTTP: &str = "only HTTP is served";
const PAGES: &str = "error pages are written in vcl_synth and vcl_backend_error";
const CONNECTIONS: &str = "connections have the limits of the parameters: `lacquer man params`";
const PROGRAM: &str = "it belongs to a program that squid starts, whose directive is refused";
const ABORT: &str = "a fetch goes on when its client has left";
const NCSA: &str = "varnishncsa writes it; `varnishncsa -F FORMAT` has Apache's letters";
const REWRITE: &str = "rewrite in vcl_recv: set req.url = regsub(...)";
const IN_VCL: &str = "write it in vcl_recv and vcl_backend_response";
const FIELDS: &str = "set and unset fields in vcl_backend_fetch and vcl_deliver";
const USERS: &str = "`import basicauth;` or `import jwt;`, or ask the origin";
const ACCELERATOR: &str = "only an accelerator's TLS is here: docs/certificates.md, docs/tls-origins.md";
const POOLS: &str = "responses are sent as fast as clients read them";

#[rustfmt::skip]
const OTHERS: &[(&str, Fate)] = &[
    ("collapsed_forwarding", Noted("request coalescing is always on: one request fetches, the others wait")), ("access_log", Noted(NCSA)), ("logformat", Noted(NCSA)),
    ("url_rewrite_program", Passed(REWRITE)), ("redirect_program", Passed(REWRITE)),
    ("store_miss", Passed(IN_VCL)), ("send_hit", Passed(IN_VCL)), ("store_id_program", Passed(IN_VCL)), ("store_id_access", Passed(IN_VCL)),
    ("http_reply_access", Passed(IN_VCL)), ("icap_enable", Passed(IN_VCL)), ("adaptation_access", Passed(IN_VCL)), ("ecap_enable", Passed(IN_VCL)),
    ("collapsed_forwarding_access", Passed(IN_VCL)), ("url_rewrite_access", Passed(IN_VCL)),
    ("auth_param", Refused(USERS)), ("external_acl_type", Refused(USERS)),
    ("ssl_bump", Refused(ACCELERATOR)), ("sslproxy_ca_certfile", Refused(ACCELERATOR)), ("tls_outgoing_options", Refused(ACCELERATOR)),
    ("reply_header_access", Passed(FIELDS)), ("request_header_access", Passed(FIELDS)), ("header_replace", Passed(FIELDS)), ("reply_header_add", Passed(FIELDS)),
    ("request_header_add", Passed(FIELDS)),
    ("delay_pools", Refused(POOLS)), ("delay_class", Refused(POOLS)), ("delay_access", Refused(POOLS)), ("delay_parameters", Refused(POOLS)),
];

#[rustfmt::skip]
const WITHOUT: &[(&str, &str)] = &[
    ("coredump_dir", PROCESS), ("pid_filename", PROCESS), ("cache_effective_*", PROCESS), ("workers", PROCESS), ("cpu_affinity_map", PROCESS),
    ("max_filedescriptors", PROCESS), ("shutdown_lifetime", PROCESS), ("chroot", PROCESS), ("umask", PROCESS), ("sleep_after_fork", PROCESS),
    ("shared_memory_locking", PROCESS), ("hopeless_kid_revival_delay", PROCESS), ("windows_ipaddrchangemonitor", PROCESS), ("memory_pools*", PROCESS),
    ("accept_filter", PROCESS), ("loadable_modules", PROCESS), ("unlinkd_program", PROCESS), ("diskd_program", PROCESS), ("pinger_*", PROCESS),
    ("mail_*", PROCESS), ("cache_mgr", PROCESS), ("email_err_data", PROCESS), ("cachemgr_passwd", PROCESS), ("announce_*", PROCESS),
    ("high_*", PROCESS), ("stats_collection", PROCESS), ("client_db", PROCESS), ("ssl_engine", PROCESS),
    ("cache_log", LOG), ("cache_store_log", LOG), ("debug_options", LOG), ("buffered_logs", LOG),
    ("logfile_*", LOG), ("log_*", LOG), ("strip_query_terms", LOG), ("emulate_httpd_log", LOG), ("forward_log", LOG), ("referer_log", LOG),
    ("useragent_log", LOG), ("icap_log", LOG), ("netdb_filename", LOG),
    ("cache_replacement_policy", STORES), ("memory_replacement_policy", STORES), ("cache_swap_*", STORES), ("maximum_object_size_in_memory", STORES),
    ("memory_cache_*", STORES), ("store_avg_object_size", STORES), ("store_objects_per_bucket", STORES), ("store_dir_select_algorithm", STORES),
    ("max_open_disk_fds", STORES), ("shared_transient_entries_limit", STORES), ("minimum_object_size", "objects of any size are kept"),
    ("icp_*", NO_PEERS), ("htcp_*", NO_PEERS), ("mcast_*", NO_PEERS), ("netdb_*", NO_PEERS), ("digest_*", NO_PEERS), ("neighbor_type_domain", NO_PEERS),
    ("dead_peer_timeout", NO_PEERS), ("query_icmp", NO_PEERS), ("test_reachability", NO_PEERS), ("minimum_direct_*", NO_PEERS),
    ("maximum_icp_query_timeout", NO_PEERS), ("minimum_icp_query_timeout", NO_PEERS), ("background_ping_rate", NO_PEERS), ("wccp*", NO_PEERS),
    ("never_direct", NAMED), ("hierarchy_stoplist", NAMED), ("nonhierarchical_direct", NAMED), ("prefer_direct", NAMED),
    ("dns_*", RESOLVER), ("negative_dns_ttl", RESOLVER), ("positive_dns_ttl", RESOLVER), ("ipcache_*", RESOLVER), ("fqdncache_size", RESOLVER),
    ("hosts_file", RESOLVER), ("append_domain", RESOLVER), ("ignore_unknown_nameservers", RESOLVER), ("balance_on_multiple_ip", RESOLVER),
    ("ftp_*", HTTP), ("wais_*", HTTP), ("ident_*", HTTP), ("as_whois_server", HTTP),
    ("error_directory", PAGES), ("error_default_language", PAGES), ("error_log_languages", PAGES), ("err_*", PAGES), ("icon_directory", PAGES),
    ("short_icon_urls", PAGES), ("mime_table", PAGES),
    ("request_timeout", "the parameter timeout_head"), ("request_start_timeout", "the parameter timeout_idle"),
    ("client_idle_pconn_timeout", "the parameter timeout_idle"), ("server_idle_pconn_timeout", "the parameter backend_idle_timeout"),
    ("write_timeout", "the parameter send_timeout"), ("request_header_max_size", "the parameter http_req_size"),
    ("reply_header_max_size", "the parameter http_resp_size"), ("client_lifetime", CONNECTIONS), ("pconn_lifetime", CONNECTIONS),
    ("half_closed_clients", CONNECTIONS), ("forward_timeout", CONNECTIONS), ("forward_max_tries", CONNECTIONS), ("connect_retries", CONNECTIONS),
    ("peer_connect_timeout", CONNECTIONS), ("read_ahead_gap", CONNECTIONS), ("tcp_recv_bufsize", CONNECTIONS), ("happy_eyeballs_*", CONNECTIONS),
    ("incoming_*", CONNECTIONS), ("min_dns_poll_cnt", CONNECTIONS), ("min_tcp_poll_cnt", CONNECTIONS), ("min_udp_poll_cnt", CONNECTIONS),
    ("pipeline_prefetch", CONNECTIONS), ("maximum_single_addr_tries", CONNECTIONS), ("client_persistent_connections", CONNECTIONS),
    ("server_persistent_connections", CONNECTIONS), ("persistent_connection_after_error", CONNECTIONS), ("detect_broken_pconn", CONNECTIONS),
    ("server_pconn_for_nonretriable", CONNECTIONS), ("client_request_buffer_max_size", CONNECTIONS), ("relaxed_header_parser", CONNECTIONS),
    ("tcp_outgoing_address", "the system selects the source address"), ("udp_*", NO_PEERS),
    ("snmp_*", "lacquer watch has /metrics and /healthz"), ("quick_abort_*", ABORT), ("httpd_suppress_version_string", "responses don't name squid"),
    ("minimum_expiry_time", "an object is kept for as long as it is fresh, however short that is"),
    ("reload_into_ims", "a copy that a client wants anew is validated"),
    ("url_rewrite_children", PROGRAM), ("url_rewrite_concurrency", PROGRAM), ("url_rewrite_extras", PROGRAM), ("url_rewrite_bypass", PROGRAM),
    ("url_rewrite_timeout", PROGRAM), ("redirect_children", PROGRAM), ("store_id_children", PROGRAM), ("store_id_extras", PROGRAM),
    ("store_id_bypass", PROGRAM), ("sslcrtd_*", PROGRAM), ("sslcrtvalidator_*", PROGRAM), ("auth_schemes", PROGRAM), ("authenticate_*", PROGRAM),
];

/// The fate of a directive of this name. One that isn't known may keep something from being kept.
pub(super) fn fate(name: &str) -> Fate {
    let found = fates::find(OTHERS, name).or_else(|| fates::find(WITHOUT, name).map(WithoutMeaning));
    found.unwrap_or(Passed("nothing is known of it here"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_that_are_named_exist() {
        for (_, text) in WITHOUT {
            if let Some(name) = text.strip_prefix("the parameter ") {
                assert!(params::lookup(name).is_some(), "{name}");
            }
        }
    }
}
