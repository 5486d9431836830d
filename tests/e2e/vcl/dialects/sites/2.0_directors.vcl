# SPDX-License-Identifier: BSD-2-Clause
# Directors of 2.0, one of them the default, members inline and by name.
backend b2 { .host = "127.0.0.1"; .port = "80"; .first_byte_timeout = 300 s; .between_bytes_timeout = 60s; .max_connections = 100; }
director default round-robin {
  { .backend = { .host = "127.0.0.1"; .port = "80"; .connect_timeout = 1s; } }
  { .backend = b2; }
}
director pool random { .retries = 3; { .backend = b2; .weight = 7; } { .weight = 1; .backend = b2; } }
sub vcl_recv {
  set req.backend = default;
  if (req.url ~ "^/api") { set req.backend = pool; }
  if (!req.backend.healthy) { error 503 "Sick"; }
  if (req.backend == pool) { set req.http.X-Pool = "1"; }
  if (req.request == "POST") { set req.backend = b2; pass; }
}
sub vcl_fetch { if (req.http.X-Pool) { set obj.http.X-Pool = req.http.X-Pool; } set obj.ttl = 5m; }
