# SPDX-License-Identifier: BSD-2-Clause
# Redirects have default_ttl when they don't say how long they live, and "s-maxage" alone says nothing.
backend default { .host = "127.0.0.1"; .port = "80"; }
sub vcl_recv {
    unset req.http.Cookie;
    unset req.http.Authorization;
    if (req.url ~ "(?i)\.(png|gif|jpeg|jpg|ico|swf|css|js|html|htm)(\?[a-z0-9]+)?$") {
        set req.http.X-Kind = "file";
    }
}
sub vcl_fetch {
    set beresp.http.X-TTL = beresp.ttl;
}
