# SPDX-License-Identifier: BSD-2-Clause
# One subroutine called from every side, and one of those from another.
backend default { .host = "127.0.0.1"; .port = "80"; }
sub clean { if (req.http.Cookie) { set req.http.Cookie = regsuball(req.http.Cookie, "(^|; ?)_[a-z]+=[^;]*", ""); if (req.http.Cookie == "") { unset req.http.Cookie; } } }
sub mark { if (req.url ~ "^/(a|b)") { set req.http.X-Mark = "ab"; } else { set req.http.X-Mark = "other"; } call clean; }
sub empty { }
sub vcl_recv { call mark; if (req.http.X-Mark == "ab") { return (pass); } return (lookup); }
sub vcl_hash { call mark; hash_data(req.http.X-Mark); }
sub vcl_miss { call mark; set bereq.http.X-Sent = req.http.X-Mark; }
sub vcl_pass { call mark; call empty; set bereq.http.X-Sent = "p" + req.http.X-Mark; }
sub vcl_hit { call mark; }
sub vcl_fetch { call mark; set beresp.http.X-Mark = req.http.X-Mark; set beresp.ttl = 10m; }
sub vcl_deliver { call mark; set resp.http.X-Mark2 = req.http.X-Mark; }
sub vcl_error { call mark; set obj.http.X-Mark = req.http.X-Mark; }
