# SPDX-License-Identifier: BSD-2-Clause
# ESI switched on and off, its level in each subroutine, gzip and gunzip.
backend default { .host = "127.0.0.1"; .port = "80"; }
sub vcl_recv {
  if (req.esi_level > 0) { set req.http.X-Level = req.esi_level; unset req.http.Cookie; } else { unset req.http.X-Level; }
  if (req.http.X-Country == "US") { set req.esi = false; }
  if (req.url ~ "box" && req.esi_level == 0) { error 403 "Only inside"; }
  return (lookup);
}
sub vcl_fetch {
  if (req.url ~ "page|news") { set beresp.do_esi = true; }
  if (req.url ~ "gz") { set beresp.do_gunzip = true; }
  if (beresp.http.content-type ~ "text") { set beresp.do_gzip = true; }
  if (req.esi_level > 0) { set beresp.ttl = 1m; set beresp.http.X-Inside = req.esi_level; return (deliver); }
  set beresp.ttl = 1h;
  return (deliver);
}
sub vcl_deliver { if (req.esi_level == 0) { set resp.http.X-Page = "1"; } if (req.http.X-Level) { set resp.http.X-Level = req.http.X-Level; } }
