# SPDX-License-Identifier: BSD-2-Clause
# req.hash of many parts, and times in each unit, with blanks and points.
backend default { .host = "127.0.0.1"; .port = "80"; }
sub vcl_recv { set req.grace = 1 m; if (req.http.X-Country == "US") { set req.grace = 0.5h; } lookup; }
sub vcl_hash { set req.hash += req.url; set req.hash += req.http.host; if (req.http.Accept-Language ~ "^de") { set req.hash += "de" ; } else { set req.hash += req.http.X-None; } hash; }
sub vcl_fetch {
  if (obj.ttl < 2 m) { set obj.ttl = 120 s; }
  if (req.url ~ "^/img") { set obj.ttl = 1 w; }
  if (req.url ~ "^/js") { set obj.ttl = 1.5 d; set obj.grace = 90 m; }
  if (req.url ~ "^/news") { set obj.ttl = 500 ms; set obj.grace = 0s; }
  if (obj.ttl > 1 h) { set obj.http.X-Long = "1"; }
  if (obj.grace > 30s) { set obj.http.X-Grace = "1"; }
  set obj.prefetch = -30s;
  deliver;
}
