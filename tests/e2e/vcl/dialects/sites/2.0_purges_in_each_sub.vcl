# SPDX-License-Identifier: BSD-2-Clause
# purge() of each form, purge_url and purge_hash, in each subroutine.
backend default { .host = "127.0.0.1"; .port = "80"; }
sub vcl_recv {
  if (req.request == "PURGE") { purge("req.url == " req.url); error 200 "Purged"; }
  if (req.request == "BAN") { purge("req.url ~ ^/news && req.http.host == " req.http.host); error 200 "Purged news"; }
  if (req.request == "PATCH") { set req.http.X-Hash = req.url "#" req.http.host "#"; purge_hash(req.http.X-Hash); error 200 "Purged hash"; }
  if (req.url ~ "^/gone") { pass; }
  lookup;
}
sub vcl_hit { if (req.http.Pragma ~ "no-cache") { purge_url(req.url); } deliver; }
sub vcl_miss { if (req.url ~ "^/js") { purge_url("^/style"); } fetch; }
sub vcl_pass { purge("obj.status == 404"); pass; }
sub vcl_fetch { if (req.url ~ "^/feed") { purge("obj.http.X-Feed == 1"); } if (req.url ~ "^/(about|news)") { set obj.http.X-Feed = "1"; } set obj.ttl = 1h; deliver; }
