# SPDX-License-Identifier: BSD-2-Clause
# return (restart) and restart; in each subroutine, URL and host changed on the way.
backend default { .host = "127.0.0.1"; .port = "80"; }
backend b { .host = "127.0.0.1"; .port = "80"; }
sub again { set req.http.X-Path = req.http.X-Path req.restarts; }
sub vcl_recv {
  call again;
  if (req.restarts == 0) { unset req.http.X-Why; } else { set req.backend = b; }
  if (req.http.X-Why == "pass") { return (pass); }
  if (req.url ~ "^/user" && req.restarts == 0) { return (pass); }
  return (lookup);
}
sub vcl_pass { if (req.restarts == 0) { set req.http.X-Why = "pass"; return (restart); } return (pass); }
sub vcl_miss { if (req.url ~ "^/api" && req.restarts == 0) { set req.http.X-Why = "miss"; set req.url = "/about"; restart; } return (fetch); }
sub vcl_hit { if (req.url == "/about" && req.restarts == 0) { set req.http.X-Why = "hit"; set req.url = "/news"; return (restart); } return (deliver); }
sub vcl_fetch {
  if (beresp.status == 404 && req.restarts < 2) { set req.http.X-Why = "fetch"; set req.url = "/found"; restart; }
  if (beresp.status >= 500 && req.restarts == 0) { set req.http.Host = "example.com"; return (restart); }
  set beresp.ttl = 1h;
  set beresp.http.X-Path = req.http.X-Path;
  return (deliver);
}
sub vcl_deliver { if (resp.status == 410 && req.restarts == 0) { set req.url = "/"; return (restart); } set resp.http.X-Why = req.http.X-Why; }
sub vcl_error { if (obj.status == 503 && req.restarts == 0) { return (restart); } set obj.http.X-Path = req.http.X-Path; }
