# SPDX-License-Identifier: BSD-2-Clause
# restart in each subroutine that may, and ESI beside it.
backend default { .host = "127.0.0.1"; .port = "80"; }
backend second { .host = "127.0.0.1"; .port = "80"; }
sub vcl_recv {
  if (req.restarts == 1) { set req.backend = second; set req.http.X-Again = "1"; }
  if (req.restarts > 1) { error 503 "Enough"; }
  if (req.url ~ "^/user") { pass; }
  lookup;
}
sub vcl_pass { if (req.restarts == 0 && req.http.X-Country) { restart; } pass; }
sub vcl_hit { if (req.http.Cache-Control ~ "no-cache" && req.restarts == 0) { restart; } deliver; }
sub vcl_miss { if (req.url ~ "^/missing" && req.restarts < 1) { restart; } fetch; }
sub vcl_fetch {
  if (obj.status >= 500 && req.restarts == 0) { restart; }
  if (req.url ~ "esi|page") { esi; }
  set obj.ttl = 10m;
  deliver;
}
sub vcl_deliver { if (resp.status == 410) { restart; } }
sub vcl_error { if (obj.status == 503 && req.restarts == 0) { restart; } set obj.http.X-Restarts = req.restarts; }
