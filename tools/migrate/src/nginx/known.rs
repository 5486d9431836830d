// SPDX-License-Identifier: BSD-2-Clause
//! What becomes of each directive, by its name: those that are translated, those without a meaning here, those refused.

use crate::fates;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// The translation of a location reads it; where it holds and isn't read, the location is refused.
    Done,
    /// The directive is translated apart from locations, or with the block that it opens.
    Apart,
    /// The directive asks for what holds here anyway, for the reason that the text gives.
    Holds(&'static str),
    /// The directive speaks of nginx as a process or a file server, which nginx goes on being behind the cache.
    Nginx,
    /// The directive acts here by itself, in the way that the text says.
    Told(&'static str),
    /// The directive has no counterpart that is made here; the text says what to do instead.
    Refused(&'static str),
}

use Fate::{Apart, Done, Holds, Nginx, Refused, Told};

const FILES: &str = "nginx goes on serving files, as the origin";

/// Names; one that ends with `*` stands for all that begin so.
#[rustfmt::skip]
const FATES: &[(&str, Fate)] = &[
    ("http", Apart), ("server", Apart), ("location", Apart), ("upstream", Apart), ("listen", Apart), ("server_name", Apart),
    ("return", Done), ("proxy_pass", Done), ("proxy_set_header", Done), ("proxy_hide_header", Done), ("add_header", Done),
    ("expires", Done), ("ssl_certificate", Apart), ("ssl_certificate_key", Apart), ("gzip", Done), ("gzip_types", Done),
    ("proxy_connect_timeout", Done), ("proxy_read_timeout", Done), ("proxy_http_version", Holds("origins are asked in HTTP/1.1")),
    ("proxy_cache", Done), ("proxy_cache_key", Done), ("proxy_cache_valid", Done), ("proxy_cache_bypass", Done),
    ("proxy_no_cache", Done), ("proxy_ignore_headers", Done), ("proxy_cache_use_stale", Done), ("proxy_cache_path", Apart),
    ("proxy_cache_methods", Done), ("proxy_cache_revalidate", Done), ("proxy_cache_background_update", Done), ("proxy_redirect", Done),
    ("fastcgi_pass", Done), ("uwsgi_pass", Done), ("scgi_pass", Done), ("root", Holds(FILES)), ("try_files", Done), ("alias", Holds(FILES)), ("if", Done),
    ("proxy_cache_lock", Told("request coalescing is always on: one request fetches, the others wait")),
    ("proxy_cache_lock_timeout", Told(".first_byte_timeout limits the fetch, and the parameter waitinglist_timeout the wait for it")),
    ("proxy_cache_lock_age", Told(".first_byte_timeout limits the fetch, and the parameter waitinglist_timeout the wait for it")),
    ("proxy_buffering", Told("responses are always streamed; where it is off nginx caches nothing, and nothing is cached here")),
    ("proxy_request_buffering", Told("uploads are always streamed")),
    ("proxy_buffer*", Nginx), ("proxy_busy_buffers_size", Nginx), ("proxy_temp_*", Nginx), ("proxy_max_temp_file_size", Nginx),
    ("proxy_headers_hash_*", Nginx), ("proxy_force_ranges", Nginx), ("proxy_ignore_client_abort", Nginx), ("proxy_limit_rate", Nginx), ("proxy_send_timeout", Told("the parameter between_bytes_timeout and the idle timeouts limit it")),
    ("proxy_send_lowat", Nginx),
    ("proxy_cache_min_uses", Told("objects are cached at the first request; `lacquer simulate` shows the effect")),
    ("proxy_cache_purge", Refused("write purges in VCL: `return (purge)` protected by an acl, see the book's chapter on purges")),
    ("proxy_cache_convert_head", Done), ("proxy_cache_max_range_offset", Done), ("recursive_error_pages", Done),
    ("proxy_next_upstream*", Told("a director selects the next healthy backend; `return (retry)` in VCL tries another one")),
    ("proxy_pass_request_*", Refused("headers and bodies are sent to the origin; unset headers in vcl_backend_fetch")),
    ("proxy_pass_header", Told("it lets X-Pad and X-Accel headers pass; Date and Server of the origin are always sent")),
    ("proxy_intercept_errors", Done), ("error_page", Done), ("limit_except", Done),
    ("proxy_ssl_*", Refused("TLS to origins is configured by backend attributes: docs/tls-origins.md")),
    ("proxy_bind", Told("the system selects the source address")), ("proxy_method", Refused("set bereq.method in vcl_backend_fetch")),
    ("proxy_cookie_*", Refused("write it as regsub(resp.http.Set-Cookie, ...) in vcl_deliver")),
    ("proxy_store*", Refused("responses are stored in stores (-s), never as files of a site")), ("proxy_set_body", Refused("bodies can't be set")),
    ("default", Nginx), ("http2_*", Nginx), ("http3*", Nginx), ("quic_*", Nginx),
    ("msie_padding", Nginx), ("max_ranges", Told("the parameter http_range_parts limits the ranges of a request, in all locations")), ("read_ahead", Nginx), ("subrequest_output_buffer_size", Nginx), ("override_charset", Nginx), ("source_charset", Nginx),
    ("connection_pool_size", Nginx), ("request_pool_size", Nginx), ("max_fails", Nginx), ("random_index", Refused("nginx alone has it")), ("image_filter*", Refused("nginx alone has it")),
    ("xslt_*", Refused("nginx alone has it")), ("secure_link*", Refused("nginx alone has it")), ("geoip_*", Nginx), ("keepalive_time", Nginx), ("keepalive_disable", Nginx),
    ("fastcgi_hide_header", Nginx), ("fastcgi_*", Nginx), ("uwsgi_*", Nginx), ("scgi_*", Nginx),
    ("ssl_protocols", Told("TLS 1.2 and 1.3 by default; tls-protos in tls.conf")), ("ssl_ciphers", Told("ciphers in tls.conf")),
    ("ssl_dhparam", Told("only elliptic-curve key exchange is supported")), ("ssl_prefer_server_ciphers", Told("prefer-server-ciphers in tls.conf")),
    ("ssl_session_*", Told("sessions are resumed by tickets; see docs/certificates.md")), ("ssl_ecdh_curve", Told("ecdh-curve in tls.conf")),
    ("ssl_stapling*", Told("OCSP responses are stapled from files: ocsp-resp-file, ocsp-dir in tls.conf")),
    ("ssl_trusted_certificate", Nginx), ("ssl_client_certificate", Told("client-verify-ca in tls.conf")), ("ssl_verify_depth", Nginx),
    ("ssl_verify_client", Apart), ("ssl_early_data", Told("early data over TCP isn't supported")),
    ("ssl_*", Told("see docs/certificates.md")), ("ssl", Apart), ("http2", Told("HTTP/2 is always offered over TLS")),
    ("resolver*", Told("names of backends are looked up by the system's resolver")),
    ("client_max_body_size", Done), ("satisfy", Done),
    ("client_body_timeout", Told("the parameters timeout_idle and min_recv_rate limit it")), ("client_header_timeout", Told("the parameter timeout_head")),
    ("client_body_buffer_size", Nginx), ("client_header_buffer_size", Told("the parameter http_req_size")),
    ("large_client_header_buffers", Told("the parameters http_req_size and http_req_hdr_len")), ("client_body_temp_path", Nginx),
    ("keepalive_timeout", Told("the parameter timeout_idle")), ("keepalive_requests", Nginx), ("send_timeout", Told("the parameter send_timeout")),
    ("limit_req", Refused("`import vsthrottle;` has it")), ("limit_conn", Refused("the parameter max_sessions_per_ip, and `import vsthrottle;`")),
    ("limit_req_*", Nginx), ("limit_conn_*", Nginx), ("limit_zone", Nginx),
    ("limit_rate*", Told("responses are sent as fast as clients read them")), ("auth_basic", Refused("`import basicauth;` has it")), ("auth_basic_user_file", Nginx),
    ("auth_delay", Nginx), ("auth_request_set", Nginx),
    ("auth_request*", Refused("`import http;` can ask another server in vcl_recv")),
    ("allow", Done), ("deny", Done), ("map", Apart), ("geo", Apart), ("set", Done), ("split_clients", Nginx),
    ("set_real_ip_from", Told("client.ip is the other end of the connection: use the PROXY protocol (-a :80,PROXY)")), ("real_ip_*", Nginx),
    ("rewrite", Done), ("rewrite_log", Nginx), ("break", Done), ("uninitialized_variable_warn", Nginx),
    ("sub_filter*", Refused("`import xbody;` changes bodies")), ("ssi_*", Nginx), ("ssi", Refused("ESI is the counterpart: docs/book/concepts.md")),
    ("mirror_request_body", Nginx), ("mirror", Refused("`varnishncsa | lacquer replay --to HOST -` sends requests to another server, too")),
    ("slice", Done), ("stub_status", Refused("lacquer watch has /metrics and /healthz")),
    ("gzip_*", Told("the parameter gzip_level; compressed objects are stored compressed")), ("gunzip", Told("objects are always decompressed for clients that don't accept gzip")),
    ("brotli*", Told("the parameter http_brotli_support: docs/codings.md")), ("etag", Nginx), ("if_modified_since", Nginx),
    ("log_format", Told("varnishncsa -F takes Apache's format letters: `lacquer man ncsa`")),
    ("access_log", Told("use varnishncsa -a -w FILE, or the service varnishncsa")), ("error_log", Told("varnishlog reads the log")),
    ("stream", Refused("only HTTP is cached")), ("mail", Refused("only HTTP is cached")), ("grpc_*", Refused("gRPC passes through: docs/http2-origins.md")),
    ("js_import", Nginx), ("js_path", Nginx), ("js_*", Refused("write it in VCL")), ("lua_*", Nginx), ("perl*", Refused("write it in VCL")), ("load_module", Nginx),
    ("zone", Nginx), ("keepalive", Told("keep-alive connections to backends are shared; .max_connections limits them")),
    ("least_conn", Apart), ("ip_hash", Apart), ("hash", Apart), ("random", Apart), ("sticky", Refused("directors.hash with the cookie's value")),
    ("ntlm", Refused("a dedicated connection per client needs return (pipe)")),
    ("user", Nginx), ("worker_*", Nginx), ("pid", Nginx), ("events", Nginx), ("daemon", Nginx), ("master_process", Nginx), ("env", Nginx),
    ("use", Nginx), ("multi_accept", Nginx), ("accept_mutex*", Nginx), ("sendfile*", Nginx), ("aio*", Nginx), ("directio*", Nginx), ("tcp_*", Nginx),
    ("types", Apart), ("types_hash_*", Nginx), ("default_type", Apart), ("server_tokens", Nginx), ("server_names_hash_*", Nginx), ("index", Holds(FILES)),
    ("autoindex*", Nginx), ("empty_gif", Nginx), ("charset", Done), ("charset_types", Done), ("charset_map", Refused("bodies are never recoded")), ("open_file_cache*", Nginx), ("variables_hash_*", Nginx), ("map_hash_*", Nginx), ("internal", Done),
    ("log_not_found", Nginx), ("access_by_*", Refused("write it in VCL")), ("content_by_*", Refused("write it in VCL")),
    ("rewrite_by_*", Refused("write it in VCL")), ("header_filter_by_*", Refused("write it in VCL")), ("body_filter_by_*", Refused("write it in VCL")),
    ("set_by_*", Refused("write it in VCL")), ("log_by_*", Nginx), ("init_by_*", Nginx), ("init_worker_by_*", Nginx), ("balancer_by_*", Refused("write it in VCL")), ("merge_slashes", Nginx), ("port_in_redirect", Nginx), ("absolute_redirect", Nginx),
    ("server_name_in_redirect", Nginx), ("reset_timedout_connection", Nginx), ("ignore_invalid_headers", Nginx), ("underscores_in_headers", Nginx),
    ("lingering_*", Nginx), ("postpone_output", Nginx), ("output_buffers", Nginx), ("disable_symlinks", Nginx), ("chunked_transfer_encoding", Nginx),
    ("dav_*", Nginx), ("post_action", Nginx), ("msie_*", Nginx), ("thread_pool", Nginx), ("pcre_jit", Nginx),
];

/// The fate of the directive of this name; None: nobody here has heard of it.
pub fn fate(name: &str) -> Option<Fate> {
    // The rules of a cache are those of proxy_cache, whichever program is asked.
    let of_cache = ["fastcgi_", "uwsgi_", "scgi_"].iter().find_map(|kind| {
        let rest = name.strip_prefix(kind)?;
        (rest.starts_with("cache") || matches!(rest, "no_cache" | "ignore_headers")).then(|| format!("proxy_{rest}"))
    });
    let name = of_cache.as_deref().unwrap_or(name);
    fates::find(FATES, name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_counts() {
        assert_eq!(fate("proxy_cache"), Some(Done));
        assert_eq!(fate("fastcgi_cache_valid"), Some(Done));
        assert_eq!(fate("fastcgi_param"), Some(Nginx));
        assert!(matches!(fate("proxy_ssl_something"), Some(Refused(_))));
        assert!(matches!(fate("ssl_protocols"), Some(Told(_))));
        assert_eq!(fate("worker_processes"), Some(Nginx));
        assert_eq!(fate("no_such_thing"), None);
    }

    #[test]
    fn parameters_that_are_named_exist() {
        for (_, fate) in FATES {
            let (Told(text) | Refused(text)) = fate else { continue };
            for after in text.split("the parameter").skip(1) {
                for word in after
                    .split_whitespace()
                    .map(|word| word.trim_end_matches([',', ':', ';']))
                    .filter(|word| word.contains('_'))
                {
                    assert!(params::lookup(word).is_some(), "{word} in {text}");
                }
            }
        }
    }
}
