# Only the built-in policy of 2.0; the harness names the dialect.
backend default { .host = "127.0.0.1"; .port = "80"; }
sub vcl_recv {
    if (req.request == "NONE") {
        return (pipe);
    }
}
