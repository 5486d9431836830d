# SPDX-License-Identifier: BSD-2-Clause
# All the ways to invalidate: purge, soft purge, ban by several fields, and a refresh that fetches anew.
vcl 4.1;

import purge;
import std;

backend default { .host = "127.0.0.1"; .port = "80"; }

acl admin { "127.0.0.1"; "::1"; ("nohost.invalid"); }

sub vcl_recv {
	if (req.method == "PURGE" || req.method == "BAN" || req.method == "REFRESH" || req.method == "SOFTPURGE") {
		if (!client.ip ~ admin) { return (synth(403, "Forbidden for " + req.method)); }
	}
	if (req.method == "PURGE") { return (purge); }
	if (req.method == "SOFTPURGE") { set req.method = "GET"; set req.http.X-Soft = "1"; return (hash); }
	if (req.method == "BAN") {
		if (req.http.X-Cache-Tags) {
			if (!std.ban("obj.http.X-Cache-Tags ~ " + req.http.X-Cache-Tags + " && obj.http.X-Host == " + req.http.host)) {
				return (synth(400, std.ban_error()));
			}
		} else if (std.ban("obj.http.X-Url ~ " + req.url)) {
			return (synth(200, "Banned by URL"));
		} else {
			return (synth(500, "No: " + std.ban_error()));
		}
		return (synth(202, "Banned by tag"));
	}
	if (req.method == "REFRESH") { set req.method = "GET"; set req.hash_always_miss = true; }
	if (req.method == "PROPFIND") { set req.hash_ignore_busy = true; set req.hash_ignore_vary = true; }
}

sub vcl_hit {
	if (req.http.X-Soft) { set req.http.X-N = purge.soft(0s, 30s, 60s); return (synth(200, "Soft " + req.http.X-N)); }
}

sub vcl_miss {
	if (req.http.X-Soft) { purge.hard(); return (synth(404, "Not in cache")); }
}

sub vcl_purge {
	if (req.http.X-Requested-With) { set req.method = "GET"; set req.http.X-Purged = "1"; return (restart); }
	return (synth(200, "Purged " + req.url));
}

sub vcl_backend_response {
	set beresp.http.X-Url = bereq.url;
	set beresp.http.X-Host = bereq.http.host;
	set beresp.grace = 10m;
}

sub vcl_deliver {
	unset resp.http.X-Url;
	unset resp.http.X-Host;
}
