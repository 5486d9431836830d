# SPDX-License-Identifier: BSD-2-Clause
# %xx in strings, log, and the method read and set in each subroutine.
backend default { .host = "127.0.0.1"; .port = "80"; }
sub vcl_recv {
  log "recv: " req.request " " req.url;
  if (req.url ~ "[%3f%26]") { set req.http.X-P = "a b%22c"; }
  if (req.request == "OPTIONS") { set req.request = "GET"; set req.http.X-Was = "OPTIONS"; }
  if (req.request != "GET" && req.request != "HEAD") { return (pass); }
}
sub vcl_pass { set bereq.http.X-M = bereq.request "/" req.request; set bereq.request = "POST"; }
sub vcl_miss { set bereq.http.X-M = bereq.request "/" req.request; set bereq.url = bereq.url "%26m=1"; unset bereq.http.Cookie; }
sub vcl_fetch { if (req.request == "HEAD") { set beresp.http.X-Head = "1"; } set beresp.http.X-M = req.request " " req.proto; set beresp.ttl = 1h; }
sub vcl_deliver { log "deliver " resp.status; set resp.http.X-Was = req.http.X-Was; }
