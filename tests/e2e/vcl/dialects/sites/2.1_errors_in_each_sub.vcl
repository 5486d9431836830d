# SPDX-License-Identifier: BSD-2-Clause
# error in each subroutine that may have it.
backend default { .host = "127.0.0.1"; .port = "80"; }
sub vcl_recv {
  if (req.url ~ "^/about") { set req.http.X-Text = "No " req.url; error 404 req.http.X-Text; }
  if (req.url ~ "^/api") { set req.http.X-Text = "http://" req.http.host req.url; error 700 req.http.X-Text; }
  if (req.request == "PATCH") { return (pipe); }
  if (req.url ~ "^/user") { return (pass); }
  return (lookup);
}
sub vcl_pipe { if (req.http.X-Country) { error 405 "No pipes"; } set bereq.http.connection = "close"; return (pipe); }
sub vcl_pass { if (req.http.Cookie ~ "lang") { error 402; } return (pass); }
sub vcl_miss { if (req.url ~ "logo") { error 404 "Missed"; } return (fetch); }
sub vcl_hit { if (req.http.X-Country == "US") { error 201 "Hit"; } return (deliver); }
sub vcl_fetch {
  if (beresp.status == 404) { error 404 "Not found here"; }
  if (beresp.status >= 500) { error 599 "Bad"; }
  if (!beresp.cacheable) { return (pass); }
  set beresp.ttl = 1h;
  return (deliver);
}
sub vcl_deliver { set resp.http.X-Deliver = resp.status; if (resp.status == 410) { return (restart); } return (deliver); }
sub vcl_error {
  if (obj.status == 700) { set obj.http.Location = obj.response; set obj.status = 301; return (deliver); }
  if (obj.status == 599) { set obj.http.Retry-After = "5"; synthetic {"bad"}; return (deliver); }
}
