# SPDX-License-Identifier: BSD-2-Clause
# Many hosts behind one cache: a backend and rules for each, chosen by Host.
vcl 4.1;

import directors;
import std;

backend api1 { .host = "127.0.0.1"; .port = "80"; }
backend api2 { .host = "127.0.0.1"; .port = "80"; }
backend media { .host = "127.0.0.1"; .port = "80"; .host_header = "media.internal"; }
backend shop { .host = "127.0.0.1"; .port = "80"; .connect_timeout = 1s; .between_bytes_timeout = 5.5s; }
backend nowhere none;

sub vcl_init {
	new api = directors.round_robin();
	api.add_backend(api1);
	api.add_backend(api2);
	new first = directors.fallback(sticky = true);
	first.add_backend(media);
	first.add_backend(shop);
	new by_url = directors.shard();
	by_url.add_backend(api1);
	by_url.add_backend(api2);
	by_url.add_backend(shop);
	by_url.reconfigure();
	new hashed = directors.hash();
	hashed.add_backend(media, 1.0);
	hashed.add_backend(shop, 2.0);
}

sub recv_api {
	if (req.http.Authorization !~ "^Bearer [-A-Za-z0-9._~+/]+=*$" && req.url !~ "^/(health|public)") {
		return (synth(401, "Who are you?"));
	}
	set req.backend_hint = api.backend();
	if (req.url ~ "^/api/v1(/|$)") { set req.http.X-Api = "1"; }
	elsif (req.url ~ "^/api/v2(/|$)") { set req.http.X-Api = "2"; }
	else { unset req.http.X-Api; }
	if (req.method == "OPTIONS") { return (synth(204, "Preflight")); }
	set req.http.X-Trace = "t-" + req.xid;
}

sub vcl_recv {
	set req.http.Host = regsub(req.http.Host.lower(), ":[0-9]+$", "");
	unset req.http.X-Api;
	if (req.http.Host == "api.example.com") { call recv_api; return (pass); }
	elsif (req.http.Host == "media.example.com" || req.http.Host == "m.example.com") { set req.backend_hint = media; unset req.http.Cookie; }
	elsif (req.http.Host == "shop.example.com") { set req.backend_hint = shop; }
	elsif (req.http.Host == "www.example.com") { set req.backend_hint = first.backend(); }
	elsif (req.http.Host == "blog.example.org") { set req.backend_hint = by_url.backend(by = URL); }
	elsif (req.http.Host == "example.com") { set req.backend_hint = hashed.backend(req.url); }
	elsif (req.http.Host == "localhost") { set req.backend_hint = nowhere; }
	else { return (synth(421, "Misdirected Request")); }
	set req.http.X-Backend = req.backend_hint;
	if (std.healthy(req.backend_hint)) { set req.http.X-Healthy = "yes"; }
}

sub vcl_backend_fetch {
	set bereq.http.X-Chosen = bereq.backend;
	if (bereq.backend == shop) { set bereq.http.X-Shop = bereq.is_bgfetch + " " + bereq.retries; set bereq.first_byte_timeout = 20s; }
}

sub vcl_backend_response {
	set beresp.http.X-Served = beresp.backend.name + " " + beresp.backend;
	if (beresp.status >= 500 && bereq.retries < 1) { set bereq.backend = media; return (retry); }
	if (beresp.ttl < 1s && !beresp.http.Set-Cookie) { set beresp.ttl = 5m; }
}

sub vcl_synth {
	set resp.http.Content-Type = "application/json";
	if (resp.status == 204) { set resp.http.Access-Control-Allow-Origin = req.http.Origin; return (deliver); }
	synthetic({"{"status":"} + resp.status + {","reason":""} + resp.reason + """"}""");
	return (deliver);
}
