# SPDX-License-Identifier: BSD-2-Clause
# URL rewriting and text handling: every kind of string, number and time that policies compute with.
vcl 4.1;

import std;
import blob;

backend default { .host = "127.0.0.1"; .port = "80"; }

sub vcl_recv {
	set req.http.X-Orig = req.url;
	set req.url = regsuball(req.url, "//+", "/");
	set req.url = regsub(req.url, "^/r/([^/?]+)/?(.*)$", "/\1.html\2");
	if (req.url ~ "^/UPPER" || req.http.host ~ "[A-Z]") { set req.url = std.tolower(req.url); }
	set req.http.X-Parts = regsub(req.url, "^/([^/?]*)/?([^?]*)(\?(.*))?$", "1=\1 2=\2 4=\4");
	set req.http.X-Bits = """long "quoted" """ + {"braces "x""};
	set req.http.X-Blob = blob.transcode(IDENTITY, BASE64URL, encoded = req.http.host);
	set req.http.X-Back = blob.transcode(BASE64URL, IDENTITY, encoded = blob.transcode(IDENTITY, BASE64URL, encoded = "a~b"));
	set req.http.X-Num = std.integer("17", 0) * 3 - 2;
	set req.http.X-Cmp = (req.restarts == 0) + "," + (req.url == "/") + "," + (client.ip == "127.0.0.1");
	set req.http.X-Time = std.time("Wed, 01 Jan 2025 00:00:00 GMT", now);
	set req.http.X-Later = std.time("2025-01-01T00:00:00", now) + 1d;
	if (now > std.time("2020-01-01T00:00:00", now) && now < now + 1s) { set req.http.X-Now = "ok"; }
	set req.http.X-Esc = std.toupper(regsuball(req.http.user-agent, "[^A-Za-z]+", "_"));
	if (req.http.user-agent ~ "\bFirefox/(\d+)\b" || req.http.cookie ~ "(^|; ?)theme=dark(;|$)") { set req.http.X-M = "1"; }
	unset req.http.Cookie;
	if (req.url ~ "^/x\.html") { return (synth(200 + 4, "Rewritten")); }
	std.log("url:" + req.url);
}

sub vcl_hash {
	hash_data(regsub(req.url, "\?.*", ""));
	hash_data(req.http.X-Missing);
	hash_data("a" + req.http.host + "b");
	return (lookup);
}

sub vcl_backend_response {
	set beresp.ttl = std.duration(beresp.http.X-Reverse-Proxy-TTL + "s", 90s);
	set beresp.http.X-Math = (10 + 2) * 3 - 5 + " " + 7 / 2 + " " + 7 % 4 + " " + 1.5 * 4;
	set beresp.http.X-Dur = 90s / 2 + 1.5m;
	set beresp.status = beresp.status;
	if (beresp.status == 404) { set beresp.reason = "Really not here"; }
	set beresp.http.Cache-Control = regsub(beresp.http.Cache-Control, "max-age=\d+", "max-age=5");
	if (beresp.http.location) { set beresp.http.location = regsub(beresp.http.location, ":\d+/", "/"); }
}

sub vcl_deliver {
	set resp.http.X-Orig = req.http.X-Orig;
	set resp.http.X-Storage = obj.storage;
	set resp.http.X-Reason = resp.reason + " " + obj.hits;
	set resp.http.X-Method = req.method + req.proto;
	if (resp.http.Etag ~ {""e"}) { set resp.http.X-E = regsub(resp.http.Etag, {"^"(.*)"$"}, "\1"); }
}
