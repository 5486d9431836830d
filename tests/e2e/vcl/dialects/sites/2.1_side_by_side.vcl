# SPDX-License-Identifier: BSD-2-Clause
# Strings side by side with numbers, times, addresses and fields that aren't there.
backend default { .host = "127.0.0.1"; .port = "80"; }
sub vcl_recv {
  set req.http.X-A = "a" req.url "b" req.http.X-None "c" client.ip;
  set req.http.X-B = req.http.host ":" client.ip; if (server.port == 0) { set req.http.X-B = "none"; }
  set req.http.X-C = regsub(req.url, "a" , "<" ) req.restarts;
  if (req.url ~ "^/a" ) { set req.url = req.url "?" "z=1" ; }
  if (req.http.X-A == "a/bc127.0.0.1") { set req.http.X-D = "equal"; }
}
sub vcl_hash { set req.hash += req.url; set req.hash += req.http.host; return (hash); }
sub vcl_fetch {
  set beresp.http.X-Status = beresp.status " " beresp.response;
  set beresp.http.X-C = req.http.X-C ;
  set beresp.ttl = 2 h;
}
sub vcl_deliver {
  set resp.http.X-All = obj.hits "/" req.restarts "/" resp.status "/" req.http.X-D;
  set resp.http.X-Two = {"a "quoted" one"} {"two"};
}
