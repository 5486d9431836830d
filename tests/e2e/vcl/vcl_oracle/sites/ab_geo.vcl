# SPDX-License-Identifier: BSD-2-Clause
# A/B groups, countries and languages as variants: cookies and maps become fields that Vary names.
vcl 4.1;

import std;
import cookie;

backend default { .host = "127.0.0.1"; .port = "80"; }

acl europe { "127.0.0.1"; "10.0.0.0"/8; }
acl testers +log { "127.0.0.2"; !"127.0.0.3"; }

sub vcl_recv {
	cookie.parse(req.http.Cookie);
	if (cookie.isset("ab") && cookie.get("ab") ~ "^[AB]$") { set req.http.X-Group = cookie.get("ab"); }
	else if (client.ip ~ testers) { set req.http.X-Group = "B"; }
	else { set req.http.X-Group = "A"; }
	if (cookie.isset("geo")) { set req.http.X-Country = cookie.get("geo").upper(); }
	else if (client.ip ~ europe) { set req.http.X-Country = "EU"; }
	else { set req.http.X-Country = req.http.X-Country.upper(); }
	if (req.http.Accept-Language ~ "^(de|at|ch)") { set req.http.X-Lang = "de"; }
	elsif (req.http.Accept-Language ~ "^fr") { set req.http.X-Lang = "fr"; }
	else { set req.http.X-Lang = "en"; }
	cookie.keep("lang,theme");
	set req.http.Cookie = cookie.get_string();
	if (req.http.Cookie == "") { unset req.http.Cookie; }
	if (std.ip(req.http.X-Forwarded-For, "192.0.2.1") ~ europe) { set req.http.X-Fwd-Eu = "1"; }
	if (std.integer(regsub(req.url, "^.*[?&]id=(\d+).*$", "\1"), 0) > 5) { set req.http.X-Big-Id = "1"; }
	set req.http.X-Dur = std.duration("1.5m", 1s);
	set req.http.X-Real = std.real("1.25", 0.0) * 2.0;
	if (std.strstr(req.url, "news")) { set req.http.X-News = std.strstr(req.url, "news"); }
	return (hash);
}

sub vcl_backend_response {
	if (beresp.http.Vary) { std.collect(beresp.http.Vary, ", "); set beresp.http.Vary = beresp.http.Vary + ", X-Group"; }
	else { set beresp.http.Vary = "X-Group"; }
	if (bereq.url ~ "^/news") { set beresp.http.Vary += ", X-Lang"; }
	unset beresp.http.Set-Cookie;
	if (beresp.ttl == 120s) { set beresp.ttl = 4m; }
}

sub vcl_deliver {
	set resp.http.X-Group = req.http.X-Group;
	set resp.http.Set-Cookie = "ab=" + req.http.X-Group + "; path=/";
}
