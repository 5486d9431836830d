// SPDX-License-Identifier: BSD-2-Clause
//! Directives of squid's that change nothing here, with the reasons.

use crate::fates;

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

#[rustfmt::skip]
const WITHOUT: &[(&str, &str)] = &[
    ("coredump_dir", PROCESS), ("pid_filename", PROCESS), ("cache_effective_*", PROCESS), ("workers", PROCESS), ("cpu_affinity_map", PROCESS),
    ("max_filedescriptors", PROCESS), ("shutdown_lifetime", PROCESS), ("chroot", PROCESS), ("umask", PROCESS), ("sleep_after_fork", PROCESS),
    ("shared_memory_locking", PROCESS), ("hopeless_kid_revival_delay", PROCESS), ("windows_ipaddrchangemonitor", PROCESS), ("memory_pools*", PROCESS),
    ("accept_filter", PROCESS), ("loadable_modules", PROCESS), ("unlinkd_program", PROCESS), ("diskd_program", PROCESS), ("pinger_*", PROCESS),
    ("mail_*", PROCESS), ("cache_mgr", PROCESS), ("email_err_data", PROCESS), ("cachemgr_passwd", PROCESS), ("announce_*", PROCESS),
    ("high_*", PROCESS), ("stats_collection", PROCESS), ("client_db", PROCESS), ("ssl_engine", PROCESS),
    ("access_log", LOG), ("logformat", LOG), ("cache_log", LOG), ("cache_store_log", LOG), ("debug_options", LOG), ("buffered_logs", LOG),
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

/// The reason why a directive of this name changes nothing here; None of any other.
pub(super) fn without_meaning(name: &str) -> Option<&'static str> {
    fates::find(WITHOUT, name)
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
