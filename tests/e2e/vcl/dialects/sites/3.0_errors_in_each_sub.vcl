# SPDX-License-Identifier: BSD-2-Clause
# error of each form, in each subroutine that may have it.
backend default { .host = "127.0.0.1"; .port = "80"; }
sub vcl_recv {
  if (req.url ~ "^/about") { error 404; }
  if (req.url ~ "^/api") { error 750 "http://" + req.http.host + req.url; }
  if (req.url ~ "^/admin") { error (403, "Brackets"); }
  if (req.url ~ "^/user") { return (pass); }
  if (req.request == "PATCH") { return (error); }
  if (req.http.X-Country == "DE" && req.url == "/") { error 200 "OK " + req.http.X-Country + req.http.X-None; }
}
sub vcl_pass { if (req.http.Cookie ~ "lang") { error 402 "Pay"; } }
sub vcl_miss { if (req.url ~ "logo") { error 404 "Missed"; } }
sub vcl_hit { if (req.http.X-Country == "US") { error 201 "Hit"; } }
sub vcl_fetch {
  if (beresp.status == 404) { error beresp.status "As it was: " + beresp.response; }
  if (beresp.status >= 500) { error 599 "Bad"; }
  if (req.url ~ "^/feed") { error 204; }
  set beresp.ttl = 1h;
}
sub vcl_deliver { set resp.http.X-Deliver = "" + resp.status + " " + resp.response + " " + obj.hits; }
sub vcl_error {
  set obj.http.X-Error = "" + obj.status + " " + obj.response;
  if (obj.status == 750) { set obj.http.Location = obj.response; set obj.status = 302; set obj.response = "Found"; return (deliver); }
  if (obj.status > 598) { set obj.status = 502; unset obj.http.Retry-After; synthetic "short "; return (deliver); }
  if (obj.status == 404) { synthetic {"<p>404 "} + req.url + {"</p>"}; return (deliver); }
}
