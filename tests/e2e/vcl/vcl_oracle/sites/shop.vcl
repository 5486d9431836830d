# SPDX-License-Identifier: BSD-2-Clause
# A shop: groups of customers share variants of pages, tags are banned, media and static files are kept for long.
vcl 4.1;

import std;

backend default { .host = "127.0.0.1"; .port = "80"; .first_byte_timeout = 600s; .probe = { .url = "/health_check"; .interval = 60s; .initial = 8; } }

acl deploy { "127.0.0.1"; }

sub vcl_recv {
	if (req.restarts > 0) { set req.hash_always_miss = true; }
	if (req.url ~ "\?.+&.+") { set req.url = std.querysort(req.url); }
	if (req.method == "PURGE") {
		if (client.ip !~ deploy) { return (synth(405, "Method not allowed")); }
		if (!req.http.X-Tags-Pattern && !req.http.X-Pool) { return (synth(400, "X-Tags-Pattern or X-Pool header required")); }
		if (req.http.X-Tags-Pattern) { ban("obj.http.X-Tags ~ " + req.http.X-Tags-Pattern); }
		if (req.http.X-Pool) { ban("obj.http.X-Pool ~ " + req.http.X-Pool); }
		return (synth(200, "Purged"));
	}
	if (req.method != "GET" && req.method != "HEAD" && req.method != "PUT" && req.method != "POST" && req.method != "PATCH"
	    && req.method != "TRACE" && req.method != "OPTIONS" && req.method != "DELETE") {
		return (pipe);
	}
	if (req.method != "GET" && req.method != "HEAD") { return (pass); }
	if (req.url ~ "/customer" || req.url ~ "/checkout") { return (pass); }
	set req.http.grace = "none";
	set req.url = regsub(req.url, "^http[s]?://", "");
	std.collect(req.http.Cookie);
	if (req.url ~ "(\?|&)(gclid|cx|_kx|ie|cof|siteurl|zanpid|origin|fbclid|mc_[a-z]+|utm_[a-z]+|_bta_[a-z]+)=") {
		set req.url = regsuball(req.url, "(gclid|cx|_kx|ie|cof|siteurl|zanpid|origin|fbclid|mc_[a-z]+|utm_[a-z]+|_bta_[a-z]+)=[-_A-z0-9+()%.]+&?", "");
		set req.url = regsub(req.url, "[?|&]+$", "");
	}
	if (req.url ~ "^/(pub/)?(media|static)/") { unset req.http.Https; unset req.http.X-Forwarded-Proto; unset req.http.Cookie; }
	if (req.url ~ "/graphql" && !req.http.X-Cache-Id && req.http.Authorization ~ "^Bearer") { return (pass); }
	return (hash);
}

sub vcl_hash {
	if ((req.url !~ "/graphql" || !req.http.X-Cache-Id) && req.http.cookie ~ "X-Magento-Vary=") {
		hash_data(regsub(req.http.cookie, "^.*?X-Magento-Vary=([^;]+);*.*$", "\1"));
	}
	if (req.http.X-Forwarded-Proto) { hash_data(req.http.X-Forwarded-Proto); }
	if (req.url ~ "/graphql") { call graphql_variants; }
}

sub graphql_variants {
	if (req.http.X-Cache-Id) {
		hash_data(req.http.X-Cache-Id);
		if (req.http.Authorization ~ "^Bearer") { hash_data("Authorized"); }
	}
	if (req.http.Store) { hash_data(req.http.Store); }
	if (req.http.Content-Currency) { hash_data(req.http.Content-Currency); }
}

sub vcl_backend_response {
	if (beresp.status == 403 || beresp.status == 404 || beresp.status >= 500) {
		set beresp.uncacheable = true;
		set beresp.ttl = 120s;
		return (deliver);
	}
	set beresp.grace = 3d;
	if (beresp.http.content-type ~ "text") { set beresp.do_esi = true; }
	if (bereq.url ~ "\.js$" || beresp.http.content-type ~ "text|javascript|json|css") { set beresp.do_gzip = true; }
	if (beresp.http.Cache-Control ~ "private") { set beresp.uncacheable = true; set beresp.ttl = 86400s; return (deliver); }
	if (beresp.ttl > 0s && (bereq.method == "GET" || bereq.method == "HEAD")) {
		std.collect(beresp.http.set-cookie);
		if (bereq.http.cookie !~ "X-Magento-Vary=" && beresp.http.set-cookie ~ "X-Magento-Vary=") { set beresp.ttl = 0s; set beresp.uncacheable = true; }
		unset beresp.http.set-cookie;
	}
	if (beresp.ttl <= 0s || beresp.http.Surrogate-control ~ "no-store" || (!beresp.http.Surrogate-Control
	    && beresp.http.Cache-Control ~ "no-cache|no-store") || beresp.http.Vary == "*") {
		set beresp.ttl = 120s;
		set beresp.uncacheable = true;
	}
	return (deliver);
}

sub vcl_deliver {
	if (obj.uncacheable) { set resp.http.X-Cache-Debug = "UNCACHEABLE"; }
	else if (obj.hits) { set resp.http.X-Cache-Debug = "HIT"; set resp.http.Grace = req.http.grace; }
	else { set resp.http.X-Cache-Debug = "MISS"; }
	if (resp.http.Cache-Control !~ "private" && req.url !~ "^/(pub/)?(media|static)/") {
		set resp.http.Pragma = "no-cache";
		set resp.http.Expires = "-1";
		set resp.http.Cache-Control = "no-store, no-cache, must-revalidate, max-age=0";
	}
	unset resp.http.Age;
	unset resp.http.X-Tags;
	unset resp.http.Via;
	unset resp.http.Link;
}

sub vcl_hit {
	if (obj.ttl >= 0s) { return (deliver); }
	if (std.healthy(req.backend_hint)) {
		if (obj.ttl + 300s > 0s) { set req.http.grace = "normal (healthy server)"; return (deliver); }
		return (restart);
	}
	set req.http.grace = "unlimited (unhealthy server)";
	return (deliver);
}
