# SPDX-License-Identifier: BSD-2-Clause
# purge; out of subroutines, ban() in each subroutine, ban_url.
backend default { .host = "127.0.0.1"; .port = "80"; }
acl purge { "127.0.0.1"; }
sub purge { if (req.request == "PURGE") { purge; error 200 "Purged"; } }
sub vcl_recv {
  if (req.request == "PURGE") { if (!client.ip ~ purge) { error 405 "Not allowed"; } return (lookup); }
  if (req.request == "BAN") { ban("req.url ~ ^/news && req.http.host == " + req.http.host); error 200 "Banned"; }
  if (req.request == "REFRESH") { ban_url("^" + req.url); error 200 "Banned URL"; }
}
sub vcl_hit { call purge; }
sub vcl_miss { call purge; }
sub vcl_pass { if (req.request == "PURGE") { error 502 "PURGE on a pass"; } ban("obj.http.X-Tag == pass"); }
sub vcl_fetch { set beresp.http.X-Tag = regsub(req.url, "^/([a-z]*).*", "\1"); if (req.url ~ "^/feed") { ban("obj.http.X-Tag == about"); } set beresp.ttl = 10m; }
sub vcl_deliver { if (resp.status == 404) { ban("obj.status == 404"); } unset resp.http.X-Tag; }
sub vcl_error { if (obj.status == 405) { ban("req.url == /never"); } }
