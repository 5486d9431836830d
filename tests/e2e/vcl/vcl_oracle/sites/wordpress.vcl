# SPDX-License-Identifier: BSD-2-Clause
# A blog: logged-in editors and previews pass, tracking is stripped, purges come from the machine itself.
vcl 4.1;

import std;

backend blog {
	.host = "127.0.0.1";
	.port = "80";
	.first_byte_timeout = 60s;
}

acl editors { "localhost"; "127.0.0.1"; "192.0.2.0"/24; ! "192.0.2.66"; }

sub vcl_recv {
	if (req.method == "PURGE") {
		if (client.ip !~ editors) { return (synth(405, "Not from " + client.ip)); }
		return (purge);
	}
	if (req.method == "BAN") {
		if (!(client.ip ~ editors)) { return (synth(403)); }
		ban("req.http.host == " + req.http.host + " && req.url ~ ^" + regsub(req.url, "\?.*$", ""));
		return (synth(200, "Banned"));
	}
	if (req.url ~ "(\?|&)(utm_[a-z]+|gclid|fbclid|_)=") {
		set req.url = regsuball(req.url, "(utm_[a-z]+|gclid|fbclid|_)=[-_A-Za-z0-9+()%.]*&?", "");
		set req.url = regsub(req.url, "[?&]+$", "");
	}
	set req.url = std.querysort(req.url);
	if (req.url ~ "wp-(login|admin|cron)|xmlrpc\.php" || req.url ~ "[?&]preview=true") { return (pass); }
	if (req.http.Cookie ~ "wordpress_logged_in_|comment_author_|wp-postpass_") { return (pass); }
	if (req.url ~ "\.(?i:css|js|png|jpe?g|gif|ico|svg|woff2?)(\?.*)?$") {
		unset req.http.Cookie;
		set req.url = regsub(req.url, "\?.*$", "");
		return (hash);
	}
	set req.http.Cookie = regsuball(req.http.Cookie, "(^|;\s*)(_[_a-z]+|has_js|wp-settings-[^=]*)=[^;]*", "");
	set req.http.Cookie = regsub(req.http.Cookie, "^;\s*", "");
	if (req.http.Cookie ~ "^\s*$") { unset req.http.Cookie; }
	if (req.http.Authorization) { return (pass); }
}

sub vcl_backend_response {
	if (beresp.status >= 500 && bereq.retries == 0) { return (retry); }
	if (bereq.url !~ "wp-(login|admin)" && beresp.http.Set-Cookie !~ "wordpress") { unset beresp.http.set-cookie; }
	if (beresp.status == 404 || beresp.status == 410) { set beresp.ttl = 30s; set beresp.grace = 0s; }
	elseif (beresp.ttl > 0s && beresp.ttl < 10m) { set beresp.ttl = 10m; }
	set beresp.grace = beresp.grace + 2h;
	set beresp.keep = 1d;
}

sub vcl_deliver {
	if (obj.hits > 0) { set resp.http.X-Cache = "HIT " + obj.hits; } else { set resp.http.X-Cache = "MISS"; }
	unset resp.http.X-Powered-By;
	unset resp.http.Server;
}
