# SPDX-License-Identifier: BSD-2-Clause
# Numbers, times and durations in strings and sums.
import std;
backend default { .host = "127.0.0.1"; .port = "80"; }
sub vcl_recv {
  set req.http.X-Sum = "n" + std.integer(req.http.X-Country, 7) + "," + std.duration("90s", 1s) + "," + std.toupper("a" + req.url) + std.tolower(req.http.host);
  if (std.duration(req.http.X-None, 10 s) + 5s > 12s) { set req.http.X-D = "more"; }
  if (std.integer("12x", 3) == 3 || 2 * 3 > 5) { set req.http.X-I = "three"; }
  std.collect(req.http.X-Forwarded-For);
  std.log("recv:" + req.url);
}
sub vcl_fetch {
  set beresp.ttl = 1 m * 2;
  set beresp.grace = beresp.ttl + 30s;
  set beresp.http.X-Times = "" + beresp.ttl + "/" + beresp.grace + "/" + beresp.status;
  if (beresp.ttl - 10s > 1m && beresp.status - 200 < 100) { set beresp.http.X-Ok = "yes"; }
  set beresp.http.X-Sum = req.http.X-Sum + req.http.X-D + req.http.X-I;
  if (beresp.status == 404) { set beresp.status = beresp.status + 6; }
}
sub vcl_deliver { set resp.http.X-H = "h" + obj.hits + req.restarts; }
