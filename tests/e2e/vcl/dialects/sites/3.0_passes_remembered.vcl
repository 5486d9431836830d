# SPDX-License-Identifier: BSD-2-Clause
# hit_for_pass with each time, after each way to it.
backend default { .host = "127.0.0.1"; .port = "80"; }
sub vcl_fetch {
  if (beresp.http.Set-Cookie) { set beresp.ttl = 10 s; return (hit_for_pass); }
  if (beresp.status == 404) { set beresp.ttl = 0s; return (hit_for_pass); }
  if (req.url ~ "^/api") { set beresp.grace = 1h; set beresp.ttl = 1 m; return (hit_for_pass); }
  if (beresp.http.Vary ~ "Cookie") { unset beresp.http.Vary; }
  if (beresp.ttl < 30s && beresp.status == 200) { set beresp.ttl = 30s; unset beresp.http.Cache-Control; }
  if (req.url ~ "^/user") { set beresp.ttl = 0s; }
  if (req.url ~ "^/admin") { set beresp.ttl = 0s - 1s; }
}
sub vcl_deliver { if (obj.hits > 0) { set resp.http.X-Cache = "HIT " + obj.hits; } else { set resp.http.X-Cache = "MISS"; } }
