# SPDX-License-Identifier: BSD-2-Clause
# error in each subroutine that may have it, with and without a number and a text.
backend default { .host = "127.0.0.1"; .port = "80"; }
sub vcl_recv {
  if (req.url ~ "^/about") { error 404; }
  if (req.url ~ "^/api") { set req.http.X-Text = "Gone " req.url; error 410 req.http.X-Text; }
  if (req.url ~ "^/search") { error "No number"; }
  if (req.url ~ "^/admin") { error; }
  if (req.url ~ "^/user") { pass; }
}
sub vcl_pass { if (req.http.X-Country == "DE") { error 451 "Not here"; } }
sub vcl_miss { if (req.url ~ "logo") { error 503 "Missed"; } fetch; }
sub vcl_hit { if (req.url ~ "story" && req.http.X-Country) { error 200 req.http.X-Country; } deliver; }
sub vcl_fetch {
  if (obj.status == 500) { error 502 "Origin said no"; }
  if (req.url ~ "^/feed") { error 404 obj.response; }
  set obj.ttl = 1h;
  deliver;
}
sub vcl_error {
  set obj.http.X-Error = obj.status " " obj.response " " req.url " " req.restarts;
  if (obj.status == 451) { set obj.status = 403; synthetic {"<p>"} obj.response {"</p>"}; deliver; }
  if (obj.status == 410) { set obj.response = "Was there"; }
}
