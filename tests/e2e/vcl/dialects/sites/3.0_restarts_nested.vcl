# SPDX-License-Identifier: BSD-2-Clause
# Restarts out of subroutines of subroutines, each time another way, up to the limit.
backend default { .host = "127.0.0.1"; .port = "80"; }
backend b1 { .host = "127.0.0.1"; .port = "80"; }
backend b2 { .host = "127.0.0.1"; .port = "80"; }
sub choose { if (req.restarts == 1) { set req.backend = b1; } elseif (req.restarts == 2) { set req.backend = b2; } }
sub trace { if (req.http.X-T) { set req.http.X-T = req.http.X-T + "," + req.restarts; } else { set req.http.X-T = "t" + req.restarts; } call choose; }
sub maybe { if (req.http.Cookie ~ "ab=A" && req.restarts == 0) { call leave; } }
sub leave { set req.http.Cookie = "ab=B"; return (restart); }
sub vcl_recv { call trace; if (req.http.Authorization && req.restarts < 2) { return (pass); } unset req.http.Authorization; if (req.http.Cookie !~ "ab=") { unset req.http.Cookie; } return (lookup); }
sub vcl_pass { if (req.restarts < 2) { return (restart); } }
sub vcl_hit { call maybe; }
sub vcl_miss { call maybe; }
sub vcl_fetch {
  if (beresp.status >= 500) { return (restart); }
  if (beresp.status == 301 && req.restarts == 0) { set req.url = "/followed"; set req.http.X-From = beresp.http.Location; return (restart); }
  if (req.restarts > 0) { set beresp.http.X-Restarts = req.restarts; }
  set beresp.ttl = 1h;
  return (deliver);
}
sub vcl_deliver { set resp.http.X-T = req.http.X-T; set resp.http.X-From = req.http.X-From; if (resp.status == 410) { set req.http.X-T = req.http.X-T + "!"; return (restart); } }
sub vcl_error { set obj.http.X-T = req.http.X-T; if (req.restarts == 1) { return (restart); } return (deliver); }
