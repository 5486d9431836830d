# SPDX-License-Identifier: BSD-2-Clause
# bereq read, set and unset in each subroutine that has it.
backend default { .host = "127.0.0.1"; .port = "80"; }
sub vcl_recv { if (req.url ~ "^/user") { return (pass); } if (req.request == "PATCH") { return (pipe); } return (lookup); }
sub vcl_pipe { set bereq.http.X-Piped = bereq.url; unset bereq.http.Cookie; set bereq.http.Connection = "close"; return (pipe); }
sub vcl_pass {
  if (bereq.url ~ "login") { set bereq.url = "/signin"; }
  set bereq.http.X-P = bereq.request + " " + bereq.url;
  unset bereq.http.User-Agent;
  set bereq.first_byte_timeout = 30s;
  return (pass);
}
sub vcl_miss {
  if (bereq.http.Cookie && req.url !~ "^/admin") { unset bereq.http.Cookie; }
  if (req.http.X-Country) { set bereq.http.X-M = req.http.X-Country + bereq.http.X-Country; } else { set bereq.http.X-M = "none"; }
  set bereq.url = regsub(bereq.url, "[?&]utm_[^&]*", "");
  return (fetch);
}
sub vcl_fetch { set beresp.http.X-B = bereq.url + " " + bereq.http.X-M + bereq.http.X-P; if (bereq.http.User-Agent ~ "curl") { set beresp.http.X-Curl = "1"; } set beresp.ttl = 5m; return (deliver); }
