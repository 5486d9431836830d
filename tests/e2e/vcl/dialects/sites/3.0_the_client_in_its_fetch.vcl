# SPDX-License-Identifier: BSD-2-Clause
# What only the client's request knows, read in vcl_fetch.
backend default { .host = "127.0.0.1"; .port = "80"; }
sub vcl_recv { set req.grace = 20s; if (req.http.X-Country == "DE") { set req.grace = 40s; set req.ttl = 5m; } if (req.http.X-Country == "US") { set req.esi = false; } return (lookup); }
sub vcl_fetch {
  set beresp.ttl = 10m;
  if (req.grace > 30s) { set beresp.http.X-Grace = "long"; set beresp.grace = req.grace; }
  if (req.can_gzip) { set beresp.http.X-Gzip = "can"; } else { set beresp.http.X-Gzip = "can't"; }
  if (!req.esi) { set beresp.http.X-Esi = "off"; }
  if (req.http.Accept-Encoding) { set beresp.http.X-AE = req.http.Accept-Encoding; }
  if (req.http.If-None-Match || req.http.Range) { set beresp.http.X-Cond = "1"; }
  if (client.ip ~ home) { set beresp.http.X-Home = "yes"; }
  set beresp.http.X-Method = req.request;
  return (deliver);
}
acl home { "127.0.0.1"/31; }
