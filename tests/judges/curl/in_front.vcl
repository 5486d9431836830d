# SPDX-License-Identifier: BSD-2-Clause
# Before the httpd of curl's suite. Its handlers below /curltest are passed; files are cached. As nghttpx does in the suite, it asks the origin over
# HTTP/1.1, except for early hints, which httpd sends over HTTP/2 only.
vcl 4.1;

import tls;

backend plain { .host = "127.0.0.1"; .port = "@http@"; }
backend one { .host = "127.0.0.1"; .port = "@https@"; .host_header = "@one@"; .proto = "http/1.1"; .ssl = 1; .ssl_verify_host = 1; .ssl_ca_file = "@ca@"; }
backend hints { .host = "127.0.0.1"; .port = "@https@"; .host_header = "@one@"; .ssl = 1; .ssl_verify_host = 1; .ssl_ca_file = "@ca@"; }
backend two { .host = "127.0.0.1"; .port = "@https@"; .host_header = "@two@"; .proto = "http/1.1"; .ssl = 1; .ssl_verify_host = 1; .ssl_ca_file = "@ca@"; }
backend brotli { .host = "127.0.0.1"; .port = "@https@"; .host_header = "@brotli@"; .proto = "http/1.1"; .ssl = 1; .ssl_verify_host = 1; .ssl_ca_file = "@ca@"; }

sub vcl_recv {
    if (!tls.is_tls()) {
        set req.backend_hint = plain;
    } else if (req.http.Host ~ "^brotli\.") {
        set req.backend_hint = brotli;
    } else if (req.url ~ "^/push/") {
        set req.backend_hint = hints;
    } else if (req.http.Host ~ "^two\.") {
        set req.backend_hint = two;
    } else {
        set req.backend_hint = one;
    }
    # The end of TLS is here, so it is described here.
    if (tls.is_tls() && req.url ~ "^/curltest/sslinfo") {
        return (synth(200, "sslinfo"));
    }
    if (req.url ~ "^/curltest/") {
        return (pass);
    }
}

sub vcl_synth {
    if (resp.reason == "sslinfo") {
        set resp.http.Content-Type = "application/json";
        set resp.http.X-Name = "";
        if (tls.authority()) {
            set resp.http.X-Name = {""SSL_TLS_SNI": ""} + tls.authority() + {"", "};
        }
        set resp.http.X-Resumed = "Initial";
        if (tls.resumed()) {
            set resp.http.X-Resumed = "Resumed";
        }
        set resp.body = {"{ "HTTPS": "on", "SSL_SESSION_ID": "", "} + resp.http.X-Name + {""SSL_PROTOCOL": ""} + tls.version() + {"", "SSL_CIPHER": ""} + tls.cipher()
            + {"", "SSL_SESSION_RESUMED": ""} + resp.http.X-Resumed + {"" }
"};
        unset resp.http.X-Name;
        unset resp.http.X-Resumed;
        if (req.url ~ "[?&]close") {
            set resp.http.Connection = "close";
        }
        return (deliver);
    }
}
