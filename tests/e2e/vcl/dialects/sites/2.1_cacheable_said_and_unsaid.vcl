# SPDX-License-Identifier: BSD-2-Clause
# beresp.cacheable read, set and unset; passes remembered, saint mode.
backend default { .host = "127.0.0.1"; .port = "80"; .saintmode_threshold = 3; }
sub vcl_fetch {
  if (beresp.status == 500) { set beresp.saintmode = 10m; restart; }
  if (beresp.status == 503) { set beresp.cacheable = true; set beresp.ttl = 5 s; return (deliver); }
  if (req.url ~ "^/api") { set beresp.cacheable = false; }
  if (!beresp.cacheable && req.url !~ "^/api") { set beresp.http.X-Cacheable = "NO"; return (pass); }
  if (beresp.cacheable) { set beresp.http.X-Cacheable = "YES"; unset beresp.http.Set-Cookie; }
  if (beresp.http.Cache-Control ~ "private") { set beresp.ttl = 10s; return (pass); }
  if (req.url ~ "esi") { esi; }
  if (beresp.ttl <= 0s) { set beresp.ttl = 3m; set beresp.grace = 1h; }
}
sub vcl_hit { if (!obj.cacheable) { return (pass); } if (obj.ttl < 1m && req.http.Pragma) { return (pass); } }
