# SPDX-License-Identifier: BSD-2-Clause
# Pages put together from parts: what is asked for with a Surrogate-Control, parts with lives of their own.
vcl 4.0;

backend default { .host = "127.0.0.1"; .port = "80"; }

sub vcl_recv {
	if (req.esi_level > 0) {
		set req.http.X-Level = req.esi_level;
		set req.http.X-Top = req_top.url + " " + req_top.http.host + " " + req_top.method;
		if (req.url ~ "n=1") { unset req.http.Cookie; }
		if (req.url ~ "n=2") { return (pass); }
	} else {
		unset req.http.X-Level;
		set req.http.Surrogate-Capability = "lacquer=ESI/1.0";
	}
	if (req.url ~ "^/old" && req.esi_level == 0) { set req.esi = false; }
	unset req.http.Cookie;
}

sub vcl_backend_response {
	if (beresp.http.Surrogate-Control ~ "ESI/1.0") { unset beresp.http.Surrogate-Control; set beresp.do_esi = true; }
	if (bereq.url ~ "n=3") { set beresp.ttl = 0s; set beresp.uncacheable = true; }
	if (bereq.url ~ "^/box") { set beresp.ttl = 20s; set beresp.http.X-Part = bereq.http.X-Level; }
	if (beresp.http.Content-Type ~ "^text/") { set beresp.do_gzip = true; }
}

sub vcl_deliver {
	set resp.http.X-Hits = obj.hits;
}
