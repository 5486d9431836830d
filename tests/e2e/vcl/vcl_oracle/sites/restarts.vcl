# SPDX-License-Identifier: BSD-2-Clause
# Requests that start over, errors with pages of their own, pipes, and the builtin's subroutines replaced one by one.
vcl 4.1;

backend a { .host = "127.0.0.1"; .port = "80"; }
backend b { .host = "127.0.0.1"; .port = "80"; }

sub vcl_req_method {
	if (req.method == "PROPFIND" || req.method == "FOO") { return (pass); }
}

sub vcl_req_cookie {
	if (req.http.Cookie ~ "^(__utm|_ga)") { return; }
}

sub vcl_recv {
	if (req.restarts == 1) { set req.backend_hint = b; set req.http.X-Again = "yes"; }
	if (req.restarts > 1) { return (synth(508, "Too often")); }
	if (req.url ~ "^/video") { return (pipe); }
	if (req.url ~ "^/private") { return (fail("private")); }
	if (req.url ~ "^/download") { return (synth(12200, "VCL status")); }
}

sub vcl_pipe { set bereq.http.Connection = "close"; set bereq.http.X-Piped = req.url; }

sub vcl_pass { if (req.url ~ "^/admin") { return (synth(403, "No")); } }

sub vcl_miss { if (req.url ~ "^/about") { return (pass); } if (req.url ~ "^/feed" && req.restarts == 0) { return (restart); } }

sub vcl_backend_fetch { if (bereq.url ~ "^/graphql") { return (error(599, "No graphs")); } if (bereq.url ~ "^/api/v2") { unset bereq.body; } }

sub vcl_backend_response {
	if (bereq.url ~ "^/news") { return (error(503)); }
	if (bereq.url ~ "^/media") { return (fail("media")); }
	if (bereq.url ~ "^/js" && bereq.retries == 0) { return (retry); }
	if (bereq.url ~ "^/img") { return (pass(10s)); }
	if (bereq.url ~ "^/search") { set beresp.do_stream = false; }
}

sub vcl_backend_error { if (beresp.status == 599) { set beresp.ttl = 10s; set beresp.body = "made"; return (deliver); } }

sub vcl_deliver {
	if (resp.status == 404 && req.restarts == 0 && req.url ~ "^/missing") { return (restart); }
	if (resp.status == 410) { return (synth(410, "Gone for good")); }
	set resp.http.X-Restarts = req.restarts;
}

sub vcl_synth { set resp.http.X-Synth = resp.status + " " + resp.reason; if (resp.status == 403) { return (deliver); } }
