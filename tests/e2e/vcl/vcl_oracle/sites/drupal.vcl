# SPDX-License-Identifier: BSD-2-Clause
# A content site: only cookies that matter are kept, errors have a page of their own, sick backends mean long grace.
vcl 4.0;

import std;

probe alive { .url = "/health"; .interval = 60s; .timeout = 2s; .window = 4; .threshold = 1; .initial = 1; }

backend web { .host = "127.0.0.1"; .port = "80"; .probe = alive; .max_connections = 100; }

acl upstream_proxy { "127.0.0.1"; }

sub strip_cookies {
	set req.http.Cookie = ";" + req.http.Cookie;
	set req.http.Cookie = regsuball(req.http.Cookie, "; +", ";");
	set req.http.Cookie = regsuball(req.http.Cookie, ";(S{1,2}ESS[a-z0-9]+|NO_CACHE)=", "; \1=");
	set req.http.Cookie = regsuball(req.http.Cookie, ";[^ ][^;]*", "");
	set req.http.Cookie = regsuball(req.http.Cookie, "^[; ]+|[; ]+$", "");
	if (req.http.Cookie == "") { unset req.http.Cookie; }
}

sub vcl_recv {
	if (req.restarts == 0) {
		unset req.http.X-Forwarded-Proto-Trusted;
		if (client.ip ~ upstream_proxy && req.http.X-Forwarded-Proto) { set req.http.X-Forwarded-Proto-Trusted = req.http.X-Forwarded-Proto; }
	}
	if (req.http.host == "example.com") { return (synth(750, "https://www." + req.http.host + req.url)); }
	if (req.method != "GET" && req.method != "HEAD" && req.method != "PUT" && req.method != "POST" && req.method != "OPTIONS"
	    && req.method != "DELETE" && req.method != "PATCH") {
		return (synth(405, "Method Not Allowed"));
	}
	if (req.method != "GET" && req.method != "HEAD") { return (pass); }
	if (req.url ~ "^/(cron|install|update)\.php$" && !client.ip ~ upstream_proxy) { return (synth(404, "Page not found.")); }
	if (req.url ~ "^/status\.php$" || req.url ~ "^/admin" || req.url ~ "^/user(/.*)?$" || req.url ~ "^.*/ajax/.*$") { return (pass); }
	if (req.http.Cookie) { call strip_cookies; if (req.http.Cookie) { return (pass); } }
	if (!std.healthy(req.backend_hint)) { set req.grace = 6h; } else { set req.grace = 20s; }
	return (hash);
}

sub vcl_hash {
	if (req.http.X-Forwarded-Proto-Trusted) { hash_data(req.http.X-Forwarded-Proto-Trusted); }
}

sub vcl_hit {
	if (req.http.Cache-Control ~ "no-store" && client.ip ~ upstream_proxy) { return (pass); }
}

sub vcl_backend_response {
	set beresp.grace = 6h;
	if (bereq.url ~ "(?i)\.(png|gif|jpeg|jpg|ico|css|js)(\?[a-z0-9]+)?$") { unset beresp.http.set-cookie; set beresp.ttl = 1d; }
	if (beresp.http.Content-Type ~ "text|json") { set beresp.do_gzip = true; }
	if (beresp.status == 403 || beresp.status >= 500) { set beresp.uncacheable = true; set beresp.ttl = 5s; return (deliver); }
	set beresp.http.X-Url = bereq.url;
	set beresp.http.X-Host = bereq.http.host;
}

sub vcl_deliver {
	unset resp.http.X-Url;
	unset resp.http.X-Host;
	if (obj.hits > 0) { set resp.http.X-Varnish-Cache = "HIT"; }
}

sub vcl_synth {
	if (resp.status == 750) {
		set resp.status = 301;
		set resp.http.Location = resp.reason;
		set resp.reason = "Moved";
		return (deliver);
	}
	set resp.http.Content-Type = "text/html; charset=utf-8";
	set resp.http.Retry-After = "5";
	synthetic({"<html><head><title>"} + resp.status + " " + resp.reason + {"</title></head><body>Sorry.</body></html>"});
	return (deliver);
}

sub vcl_backend_error {
	set beresp.http.Content-Type = "text/plain";
	synthetic("The site is down: " + beresp.status);
	return (deliver);
}
