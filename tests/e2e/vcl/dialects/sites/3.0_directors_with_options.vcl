# SPDX-License-Identifier: BSD-2-Clause
# Every kind of director with every option that it has.
probe p { .url = "/health"; .interval = 600s; .timeout = 0.3 s; .window = 4; .threshold = 2; .initial = 4; .expected_response = 200; }
backend a { .host = "127.0.0.1"; .port = "80"; .probe = p; .max_connections = 50; .saintmode_threshold = 0; }
backend b { .host = "127.0.0.1"; .port = "80"; .probe = { .request = "GET / HTTP/1.1" "Host: x" "Connection: close"; .interval = 600s; .initial = 8; } .host_header = "fixed.example"; }
director rr round-robin { { .backend = a; } { .backend = b; } { .backend = { .host = "127.0.0.1"; .port = "80"; .connect_timeout = 2 s; } } }
director ha hash { .retries = 2; { .backend = a; .weight = 1; } { .backend = a; .weight = 5; } }
director cl client { { .backend = a; .weight = 2; } { .weight = 3; .backend = a; } }
director fb fallback { { .backend = a; } { .backend = b; } }
director ra random { .retries = 7; { .backend = a; .weight = 10; } { .backend = a; .weight = 1; } }
sub vcl_recv {
  set client.identity = req.http.Cookie;
  if (req.url ~ "^/a") { set req.backend = fb; } elsif (req.url ~ "^/n") { set req.backend = ha; } elsif (req.url ~ "^/s") { set req.backend = cl; } elsif (req.url ~ "^/i") { set req.backend = ra; }
  if (req.backend.healthy) { set req.http.X-Healthy = "1"; }
  if (req.backend == fb) { set req.http.X-Fb = "1"; }
  unset req.http.Cookie;
}
sub vcl_fetch { if (req.backend == ha) { set beresp.http.X-Ha = "1"; } set beresp.http.X-Be = beresp.backend.name; if (beresp.status == 500) { set beresp.saintmode = 10m; return (restart); } }
