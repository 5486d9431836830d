# SPDX-License-Identifier: BSD-2-Clause
# Fields with several lines, by the header module; not compared until that is built.
vcl 4.1;

import std;
import header;

backend default { .host = "127.0.0.1"; .port = "80"; }

sub vcl_recv { set req.http.X-Group = "A"; set req.http.X-Lang = "en"; }

sub vcl_backend_response {
	header.append(beresp.http.Vary, "X-Group");
	if (beresp.http.Vary) { std.collect(beresp.http.Vary, ", "); }
	if (bereq.url ~ "^/news") { set beresp.http.Vary = beresp.http.Vary + ", X-Lang"; }
	unset beresp.http.Set-Cookie;
	if (beresp.ttl == 120s) { set beresp.ttl = 4m; }
	if (beresp.http.Cache-Control ~ "s-maxage=0") { set beresp.ttl = std.duration(regsub(beresp.http.Age, "^(\d+)$", "\1s"), 7s); }
}

sub vcl_deliver {
	set resp.http.X-Group = req.http.X-Group;
	header.append(resp.http.Set-Cookie, "ab=" + req.http.X-Group + "; path=/");
	if (!req.http.Cookie) { header.append(resp.http.Set-Cookie, "lang=" + req.http.X-Lang); }
	header.remove(resp.http.Set-Cookie, "^lang=fr");
	set resp.http.X-First = header.get(resp.http.Set-Cookie, "ab=");
}
