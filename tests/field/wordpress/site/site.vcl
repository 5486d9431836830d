# SPDX-License-Identifier: BSD-2-Clause
vcl 4.1;

backend default { .host = "@HOST@"; .port = "@PORT@"; }

acl purgers { "127.0.0.1"; }

sub vcl_recv {
    set req.http.Surrogate-Capability = "varnish=ESI/1.0";
    if (req.method == "PURGE") {
        if (client.ip !~ purgers) { return (synth(405)); }
        return (purge);
    }
    if (req.url ~ "esi_user") { return (pass); }
    if (req.url !~ "wp-(login|admin|comments-post)" && req.http.cookie !~ "wordpress_logged_in") { unset req.http.cookie; }
}

sub vcl_backend_response {
    if (bereq.url ~ "\.(png|gif|jpg|ico|jpeg|svg|woff2?|css|js)(\?|$)") {
        set beresp.ttl = 24h;
        unset beresp.http.set-cookie;
    }
    if (beresp.http.Surrogate-Control ~ "ESI/1.0") {
        unset beresp.http.Surrogate-Control;
        set beresp.do_esi = true;
        set beresp.do_gzip = true;
    }
    set beresp.grace = 1h;
}

sub vcl_deliver {
    if (obj.hits > 0) { set resp.http.X-Cache = "HIT " + obj.hits; } else { set resp.http.X-Cache = "MISS"; }
}
