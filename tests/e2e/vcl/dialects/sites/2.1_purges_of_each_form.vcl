# SPDX-License-Identifier: BSD-2-Clause
# purge() as text and as an expression, purge_url, set obj.ttl = 0s, in each subroutine.
backend default { .host = "127.0.0.1"; .port = "80"; }
acl purgers { "127.0.0.1"; "localhost"; }
sub vcl_recv {
  if (req.request == "PURGE") { if (!client.ip ~ purgers) { error 405 "Not allowed"; } return (lookup); }
  if (req.request == "BAN") { purge(req.url ~ "^/news" && req.http.host == req.http.host); error 200 "News"; }
  if (req.request == "REFRESH") { purge("req.url ~ " req.url "$"); set req.request = "GET"; }
  if (req.http.Pragma) { purge_url("^/search"); }
}
sub vcl_hit { if (req.request == "PURGE") { set obj.ttl = 0s; error 200 "Purged"; } }
sub vcl_miss { if (req.request == "PURGE") { error 404 "Not in cache"; } }
sub vcl_pass { if (req.request == "PURGE") { error 502 "Purge on a pass"; } purge(obj.http.X-Tag == "pass"); }
sub vcl_fetch { set beresp.http.X-Tag = regsub(req.url, "^/([a-z]*).*$", "\1"); if (req.url ~ "^/feed") { purge("obj.http.X-Tag == about"); } set beresp.ttl = 10m; }
