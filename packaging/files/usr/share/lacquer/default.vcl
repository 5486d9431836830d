# SPDX-License-Identifier: BSD-2-Clause
# The VCL that is loaded at start. Reload it after a change: systemctl reload varnish
# vcl(7) describes the language; `lacquer vcl check FILE` tells of mistakes before a reload does.

vcl 4.1;

# The backend: the server that has the content.
backend default {
    .host = "127.0.0.1";
    .port = "8080";
}

# The built-in subroutine of the same name runs after each of these, unless yours returns.

sub vcl_recv {
    # A request has come in: change it, or decide what is done with it.
}

sub vcl_backend_response {
    # A backend has answered: decide how long that may be kept.
}

sub vcl_deliver {
    # The answer is about to be sent: last changes to its headers.
}
