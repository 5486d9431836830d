# SPDX-License-Identifier: BSD-2-Clause
# Before the httpd of its own suite. A client of HTTP/2 is answered by way of HTTP/2 from the origin, so that what the origin says of the connection
# stays true. Everything is passed: the tests change files and configurations under one URL. An origin that fails is a 502, as with httpd's own proxy.
vcl 4.1;

import tls;

backend plain { .host = "127.0.0.1"; .port = "@http@"; }
# BACKENDS

sub vcl_recv {
    set req.backend_hint = plain;
    if (!tls.is_tls()) {
        return (pass);
    }
    # CHOICE
    return (pass);
}

# The suite compares the whole of a head.
sub vcl_deliver {
    unset resp.http.Age;
    unset resp.http.Via;
    unset resp.http.X-Varnish;
}

sub vcl_backend_error {
    set beresp.status = 502;
}
