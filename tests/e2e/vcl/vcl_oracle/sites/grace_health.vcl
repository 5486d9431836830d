# SPDX-License-Identifier: BSD-2-Clause
# Lives of objects: grace by the origin's words, keep and conditional fetches, stale answers when the origin fails.
vcl 4.1;

import std;

probe p { .url = "/health"; .interval = 300s; .timeout = 1s; .window = 8; .threshold = 3; .initial = 8; .expected_response = 200; }
backend main { .host = "127.0.0.1"; .port = "80"; .probe = p; }
backend spare { .host = "127.0.0.1"; .port = "80"; }

sub vcl_recv {
	if (req.restarts > 0) { set req.backend_hint = spare; }
	if (!std.healthy(req.backend_hint)) { set req.backend_hint = spare; }
	if (req.http.Cache-Control ~ "no-cache") { set req.grace = 0s; }
	set req.ttl = 20m;
	unset req.http.Cookie;
	if (req.http.Authorization) { unset req.http.Authorization; }
}

sub vcl_backend_fetch {
	if (bereq.is_bgfetch) { set bereq.http.X-Background = "1"; }
	if (bereq.url ~ "^/health") { return (abandon); }
}

sub vcl_backend_response {
	if (beresp.status >= 500) {
		if (bereq.is_bgfetch) { return (abandon); }
		if (bereq.retries < 1) { set bereq.backend = spare; return (retry); }
		set beresp.ttl = 1s;
		set beresp.grace = 5s;
		return (deliver);
	}
	if (beresp.http.Cache-Control ~ "stale-while-revalidate") {
		set beresp.grace = std.duration(regsub(beresp.http.Cache-Control, ".*stale-while-revalidate=(\d+).*", "\1s"), 10s);
	} else {
		set beresp.grace = beresp.ttl * 2;
	}
	if (beresp.http.Etag || beresp.http.Last-Modified) { set beresp.keep = 1h; }
	if (beresp.ttl > 0s) { set beresp.http.X-Lives = beresp.ttl + " " + beresp.grace + " " + beresp.keep; }
	if (beresp.was_304) { set beresp.http.X-304 = "yes"; }
	if (beresp.age > 10s) { set beresp.http.X-Age = beresp.age; }
	if (beresp.status == 404) { return (pass(30s)); }
}

sub vcl_backend_error {
	if (bereq.retries == 0) { return (retry); }
	set beresp.status = 504;
	set beresp.ttl = 2s;
	set beresp.body = "late: " + beresp.reason;
	return (deliver);
}

sub vcl_deliver {
	set resp.http.X-Ttl = obj.ttl;
	if (obj.ttl < 0s) { set resp.http.X-Stale = "yes"; }
	if (resp.status == 503 && req.restarts == 0) { return (restart); }
}
