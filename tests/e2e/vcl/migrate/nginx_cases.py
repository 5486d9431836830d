# SPDX-License-Identifier: BSD-2-Clause
"""What people write for nginx, by kind, with requests that show how nginx decides. Each request is sent twice.

A case: its name, what stands within `http`, the requests (host, path, fields, method), and the directives that must be refused.
"""
GET, POST = "GET", "POST"


def plain(host, *paths, fields=None):
    return [(host, path, fields or {}, GET) for path in paths]


CACHE = "proxy_cache_path %(dir)s/cache keys_zone=c:1m max_size=64m inactive=5m; upstream app { server 127.0.0.1:9001; }"
CASES = [
    ("locations in locations", CACHE + """
     server { listen %(listen)s; location / {
        location /static/ { root %(dir)s/www; }
        location ~ ^/cached/ { proxy_pass http://app; proxy_cache c; proxy_cache_valid 200 1h; location ~ /not/ { proxy_pass http://app; } }
        location = /deny { return 403; }
        location ^~ /first/ { proxy_pass http://127.0.0.1:9002; }
        proxy_pass http://app; }
      location ~ /cached/.*\\.gif$ { proxy_pass http://127.0.0.1:9003; } }""",
     plain("a.example", "/x", "/cached/x", "/cached/not/x", "/deny", "/deny/x", "/static/file", "/cached/x.gif", "/first/cached/x", "/first/x.gif", "/y.gif"), []),
    ("the site is decided before Host changes", CACHE + """
     server { listen %(listen)s; server_name one.example; location / { proxy_pass http://app; proxy_cache c; proxy_cache_valid 200 10m; proxy_cache_key one$uri; } }
     server { listen %(listen)s; server_name two.example; location / { proxy_pass http://127.0.0.1:9002; proxy_cache c; proxy_cache_valid 404 10m; proxy_cache_key two$uri; }
        location /app/ { proxy_pass http://127.0.0.1:9002/other/; proxy_cache c; proxy_cache_valid 503 10m; proxy_cache_key two$uri; } }""",
     [r for host in ("one.example", "two.example", "TWO.example", "two.example.", "three.example") for r in plain(host, "/s404", "/ok", "/app/s503", "/app/s404", "/app/ok", "/app?x=1")], []),
    ("names have their order", """
     server { listen %(listen)s; server_name *.a.example; location / { proxy_pass http://127.0.0.1:9001; } }
     server { listen %(listen)s; server_name x.a.example www.*; location / { proxy_pass http://127.0.0.1:9002; } }
     server { listen %(listen)s default_server; server_name ~^(?<n>.+)\\.b\\.example$ *.y.a.example .c.example; location / { proxy_pass http://127.0.0.1:9003; } }""",
     [r for host in ("a.example", "x.a.example", "z.a.example", "www.a.example", "www.other", "q.b.example", "z.y.a.example", "c.example", "d.c.example", "nobody") for r in plain(host, "/")], []),
    ("a prefix with ^~ and regexes in order", """
     server { listen %(listen)s;
       location ^~ /a/ { proxy_pass http://127.0.0.1:9001; } location /a/b/ { proxy_pass http://127.0.0.1:9002; } location ~ \\.x$ { proxy_pass http://127.0.0.1:9003; }
       location ~* \\.X$ { return 410; } location = /a/exact.x { return 402; } location /a/b/c.x { return 406; } }""",
     plain("a.example", "/a/1", "/a/1.x", "/a/b/1", "/a/b/1.x", "/a/exact.x", "/a/b/c.x", "/1.X", "/1.x", "/a//1.x", "/%61/1.x", "/q/../a/1", "/a/./b/../1.x", "/a"), []),
    ("variables where texts stood", CACHE + """
     server { listen %(listen)s; if ($http_x_loop = $hostname) { return 508; }
       location /nc { proxy_no_cache 1; proxy_cache_bypass 1; proxy_cache c; proxy_cache_valid 200 1h; proxy_pass http://127.0.0.1:9002$request_uri; }
       location /set { set $up http://app; proxy_pass $up; proxy_cache c; proxy_cache_valid 200 1h; }
       location /arg { if ($arg_a = "") { return 406; } if ($args ~ b=1) { return 402; } proxy_pass http://app; } }""",
     plain("a.example", "/nc/1?x=1", "/set/1", "/arg?a=1", "/arg", "/arg?a=1&b=1") + plain("a.example", "/", fields={"X-Loop": "%(hostname)s"}), []),
    ("skip by cookie, method and query", CACHE + """
     map $http_x_mode $mode { default 0; strict 1; ~^old 1; }
     server { listen %(listen)s; set $skip 0; if ($request_method = POST) { set $skip 1; } if ($query_string != "") { set $skip 1; }
       if ($request_uri ~* "/wp-admin/|/feed") { set $skip 1; } if ($http_cookie ~* "comment_author|wordpress_logged_in") { set $skip 1; }
       location / { proxy_pass http://app; proxy_cache c; proxy_cache_valid 200 1h; proxy_cache_bypass $skip $mode; proxy_no_cache $skip $mode; } }""",
     plain("a.example", "/", "/?a=1", "/wp-admin/x", "/FEED") + plain("a.example", "/c", fields={"Cookie": "a=1; wordpress_logged_in_1=x"})
     + plain("a.example", "/c", fields={"Cookie": "a=1"}) + plain("a.example", "/m", fields={"X-Mode": "STRICT"}) + plain("a.example", "/m2", fields={"X-Mode": "older"})
     + plain("a.example", "/m3", fields={"X-Mode": "none"}) + [("a.example", "/post", {}, POST), ("a.example", "/post", {}, GET)], []),
    ("what can't be translated is passed", CACHE + """
     server { listen %(listen)s;
       location /frob { proxy_pass http://app; proxy_cache c; proxy_cache_valid 200 1h; sub_filter a b; sub_filter_once on; }
       location /lim { proxy_pass http://app; proxy_cache c; proxy_cache_valid 200 1h; limit_except GET { deny all; } }
       location /key { proxy_pass http://app; proxy_cache c; proxy_cache_valid 200 1h; proxy_cache_key $uri$connection; }
       location /bypass { proxy_pass http://app; proxy_cache c; proxy_cache_valid 200 1h; proxy_cache_bypass $connection; }
       location /auth { proxy_pass http://app; auth_basic x; auth_basic_user_file %(dir)s/none; } location /auth/off { auth_basic off; proxy_pass http://app; } }""",
     plain("a.example", "/frob/1", "/lim/1", "/auth/1", "/auth/off") + [("a.example", "/lim/1", {}, POST)], ["sub_filter", "proxy_cache_key", "proxy_cache_bypass", "auth_basic"]),
    ("rules of addresses in order", """
     server { listen %(listen)s; location /in { allow 127.0.0.0/8; deny all; proxy_pass http://127.0.0.1:9001; }
       location /out { allow 10.0.0.0/8; deny 127.0.0.1; allow all; proxy_pass http://127.0.0.1:9001; } location /else { deny 10.0.0.1; proxy_pass http://127.0.0.1:9001; } }""",
     plain("a.example", "/in", "/out", "/else"), []),
    ("clients that nginx knows behind the cache", """
     limit_req_zone $binary_remote_addr zone=r:1m rate=1r/m;
     server { listen %(listen)s; set_real_ip_from 127.0.0.1; real_ip_header X-Forwarded-For; real_ip_recursive on;
       location /in { allow 10.1.2.3; deny all; proxy_pass http://127.0.0.1:9001; } location /limited { limit_req zone=r; proxy_pass http://127.0.0.1:9001; } }""",
     [r for client in ("10.1.2.3", "10.1.2.4") for r in plain("a.example", "/in", "/limited", fields={"X-Forwarded-For": client})], ["allow", "limit_req"]),
    ("headers that are added", CACHE + """
     server { listen %(listen)s; add_header X-A ""; add_header X-B $http_x_b; add_header X-C c always;
       location /hb { add_header X-Node me; return 204; } location /gone { return 410 bye; } location /text { default_type text/plain; return 200 "t $arg_q"; }
       location /own { add_header X-D d; proxy_pass http://app; expires 60; } location / { proxy_pass http://app; } location /old { rewrite ^/old/(.*)$ /new/$1 permanent; } }""",
     plain("a.example", "/hb", "/gone", "/text?q=1", "/own", "/own/s404", "/x", "/old/a?b=1") + plain("a.example", "/x", fields={"X-B": "b"}), []),
    ("lifetimes", CACHE + """
     server { listen %(listen)s; location / { proxy_pass http://app; proxy_cache c; proxy_cache_valid 200 1h; proxy_cache_valid any 1m; }
       location /i/ { proxy_pass http://app; proxy_cache c; proxy_ignore_headers Cache-Control X-Accel-Expires; proxy_cache_valid 200 1h; } location /no/ { proxy_pass http://app; proxy_cache c; } }""",
     plain("a.example", "/", "/nostore", "/private", "/age60", "/cookie", "/varystar", "/accel0", "/accel60", "/past", "/future", "/s404", "/s500", "/s404age60", "/shared60",
           "/i/nostore", "/i/past", "/i/accel0", "/i/cookie", "/no/x", "/no/age60", "/no/s500age60")
     + plain("a.example", "/login", fields={"Cookie": "a=1"}) + plain("a.example", "/auth", fields={"Authorization": "Basic eDp5"}), []),
    ("if in a location", CACHE + """
     server { listen %(listen)s; location / { proxy_pass http://app; proxy_cache c; proxy_cache_valid 200 1h; if ($arg_v = 2) { proxy_pass http://127.0.0.1:9002; } if ($arg_h) { add_header X-H 1; } } }""",
     plain("a.example", "/", "/?v=2", "/?h=1", "/?h=0"), []),
    ("try_files", CACHE + """
     server { listen %(listen)s; root %(dir)s/www; location / { try_files $uri @app; } location @app { proxy_pass http://app; proxy_cache c; proxy_cache_valid 200 1h; }
       location /none { try_files $uri =404; } }""",
     plain("a.example", "/static/file", "/page", "/none/x"), []),
    ("try_files keeps the rules of its location", CACHE + """
     server { listen %(listen)s; root %(dir)s/www; location /auth/ { auth_basic x; auth_basic_user_file %(dir)s/none; try_files $uri @app; }
      location /out/ { deny all; try_files $uri @app; } location /in/ { allow 127.0.0.0/8; deny all; try_files $uri @app; }
      location / { try_files $uri @app; } location @app { proxy_pass http://app; proxy_cache c; proxy_cache_valid 200 1h; } }""",
     plain("a.example", "/auth/x", "/out/x", "/in/x", "/x"), ["auth_basic"]),
    ("nginx's own key", CACHE + " proxy_cache_path %(dir)s/second keys_zone=d:1m max_size=64m;" + """
     server { listen %(listen)s; server_name one.example; location / { proxy_pass http://app; proxy_cache c; proxy_cache_valid 200 1h; if ($arg_v = 2) { proxy_pass http://127.0.0.1:9002; } }
      location /pre/ { proxy_pass http://app/fix/; proxy_cache c; proxy_cache_valid 200 1h; } location /other/ { proxy_pass http://app; proxy_cache d; proxy_cache_valid 200 1h; } }
     server { listen %(listen)s; server_name two.example; location / { proxy_pass http://app; proxy_cache c; proxy_cache_valid 200 1h; proxy_set_header Host $host; }
      location /other/ { proxy_pass http://127.0.0.1:9003; proxy_cache d; proxy_cache_valid 200 1h; } }""",
     [r for path in ("/x", "/x?v=2", "/pre/y", "/fix/y", "/other/z") for host in ("one.example", "two.example") for r in plain(host, path)], []),
    ("paths that go up", CACHE + """
     server { listen %(listen)s; location / { proxy_pass http://app; proxy_cache c; proxy_cache_valid 200 1h; } location ~ ^/(admin|private)/ { deny all; proxy_pass http://app; }
      location = /boss/ { return 402; } }""",
     plain("a.example", "/admin/x/..", "/admin/..", "/boss/x/..", "/boss/x/../", "/boss/.", "/boss/%2e", "/a/b/../../boss/", "/admin"), []),
    ("conditions of addresses", CACHE + """
     server { listen %(listen)s; location / { if ($remote_addr = 10.1.1.1) { return 403; } proxy_pass http://app; proxy_cache c; proxy_cache_valid 200 1h; }
      location /own { if ($remote_addr ~ ^127) { return 402; } proxy_pass http://app; } }""",
     plain("a.example", "/x", "/own"), []),
    ("methods and addresses", CACHE + """
     server { listen %(listen)s; location /in { limit_except GET { allow 127.0.0.1; deny all; } proxy_pass http://app; }
      location /out { limit_except GET { allow 10.0.0.1; deny all; } proxy_pass http://app; } }""",
     [("a.example", path, {}, method) for path in ("/in", "/out") for method in (GET, POST)], []),
    ("bypassed and not kept", CACHE + """
     server { listen %(listen)s; location / { proxy_pass http://app; proxy_cache c; proxy_cache_valid 200 1h; proxy_cache_bypass $http_x_skip; proxy_no_cache $http_x_skip; } }""",
     plain("a.example", "/x") + plain("a.example", "/x", fields={"X-Skip": "1"}) + plain("a.example", "/x"), []),
    ("a zone that is a variable", CACHE + """
     map $host $zone { default c; private.example off; lost.example nowhere; empty.example ""; }
     server { listen %(listen)s; location / { proxy_pass http://app; proxy_cache $zone; proxy_cache_valid 200 1h; } }""",
     [r for host in ("a.example", "private.example", "lost.example", "empty.example") for r in plain(host, f"/{host}")], []),
    ("headers of what nginx answers by itself", CACHE + """
     server { listen %(listen)s; add_header X-A a always; location /dir/ { add_header X-B dir always; proxy_pass http://app; } location /out { deny all; add_header X-C out always; proxy_pass http://app; }
      location /own { deny all; root %(dir)s/www; } location /in { internal; } location / { proxy_pass http://app; } }""",
     plain("a.example", "/dir", "/dir/", "/out", "/own", "/in", "/x"), []),
    ("answers that depend on files", CACHE + """
     server { listen %(listen)s; root %(dir)s/www; if ($http_user_agent ~* "(bad|worse)") { return 403; }
      location / { if (!-f $document_root$uri) { return 402; } try_files /none @app; } location @app { proxy_pass http://app; proxy_cache c; proxy_cache_valid 200 1h; } }""",
     plain("a.example", "/static/file", "/none", "/static/file?x=1") + plain("a.example", "/static/file", fields={"User-Agent": "Worse/1"}), []),
    ("types of answers with a text", """
     types { application/json json; text/csv csv CSV2; } default_type application/octet-stream;
     server { listen %(listen)s; location = /a.JSON { return 200 "{}"; } location = /a { default_type application/toml; return 200 a; } location /b { return 200 b; }
      location /t { default_type text/x-a; add_header X-A a; return 200 $uri; } location /none { return 204; } location /no { return 404; } location /in { internal; } location /go { return 302 /b; } }""",
     plain("a.example", "/a.JSON", "/a", "/b", "/b.csv", "/b.csv2", "/b.x/y", "/t", "/t.csv", "/none", "/no", "/in", "/go"), []),
    ("a script that ends early", CACHE + """
     server { listen %(listen)s; location / { set $s 1; break; proxy_pass http://app; proxy_cache c; proxy_cache_valid 200 1h; proxy_no_cache $s; set $s 0; } location /r { break; return 403; } }""",
     plain("a.example", "/x", "/r"), []),
    ("the status of the cache", CACHE + """
     server { listen %(listen)s; root %(dir)s/www; add_header X-S $upstream_cache_status;
      location / { proxy_pass http://app; proxy_cache c; proxy_cache_valid any 1h; }
      location /all { add_header X-S $upstream_cache_status always; proxy_pass http://app; proxy_cache c; proxy_cache_valid any 1h; }
      location /static { try_files $uri @app; } location @app { proxy_pass http://app; proxy_cache c; proxy_cache_valid any 1h; } }""",
     plain("a.example", "/x", "/s404", "/s500/x", "/all/x", "/all/s404", "/static/file"), []),
    ("variables of the server and the time", CACHE + """
     server { listen %(listen)s; server_name first.example second.example; location / { add_header X-A $server_name; proxy_set_header X-Start "t=${msec}"; proxy_pass http://app; proxy_cache c; proxy_cache_valid 200 1h; } }
     server { listen %(listen)s; add_header X-A "[$server_name]" always; return 402; }""",
     [r for host in ("first.example", "second.example", "third.example") for r in plain(host, "/x")], []),
    ("captures in redirections", CACHE + """
     server { listen %(listen)s; rewrite ^/old/(.*)$ /new/$1 redirect; rewrite ^/q/(.*)$ /new?x=$1 permanent; rewrite ^/lit/(.*)$ /a%%2Fb%%20c%%41/$1?e=%%2F redirect;
       location / { proxy_pass http://app; proxy_cache c; proxy_cache_valid 200 1h; } }""",
     plain("a.example", "/old/a%20b", "/old/caf%C3%A9", "/old/a+b%2Bc", "/old/%22%23%25%7B%5C", "/old/plain?a=%2F", "/q/a%26b%2Fc+d%20", "/q/a&b", "/lit/x%2Fy"), []),
    ("URLs that are rewritten", CACHE + """
     server { listen %(listen)s; server_name one.example; rewrite ^/old/(.*)$ /new/$1 last; rewrite ^/twice/(.*)$ /old2/$1; rewrite ^/old2/(.*)$ /new2/$1?z=9; rewrite ^/stop /new/stopped break;
       rewrite ^/new/stopped /never; location / { proxy_pass http://app; proxy_cache c; proxy_cache_valid 200 1h; }
       location /new2/ { proxy_pass http://127.0.0.1:9002; proxy_cache c; proxy_cache_valid 200 1h; proxy_cache_key $request_uri$uri; }
       location /app/ { rewrite ^/app/(.*)$ /$1 break; return 410; proxy_pass http://127.0.0.1:9003; }
       location /deep/ { rewrite ^/deep/(\\w+)/(\\d+)$ /new2/$2/$1 last; rewrite ^/deep/x /app/y; rewrite ^ /deep2$uri?; }
       location /deep2/ { if ($arg_a) { rewrite ^/deep2/(.*) /files/$1?b=$arg_a& break; } if ($arg_n) { return 402; } set $n 1; proxy_pass http://127.0.0.1:9002; add_header X-B "$n"; } }
     server { listen %(listen)s; server_name two.example; location / { rewrite ^/api/(?<v>v\\d)/(.*)$ /$2?version=$v break; proxy_pass http://app; proxy_set_header X-V $v; } }""",
     plain("one.example", "/old/a?x=1", "/twice/b", "/twice/b?x=1", "/stop", "/app/q?x=1", "/deep/ab/12?c=d", "/deep/xyz", "/deep/-?a=1", "/deep2/x?a=5", "/deep2/x?n=1", "/deep2/x", "/old/caf%C3%A9", "/old/a%20b?x", "/old/a%3Fb", "/OLD/a")
     + plain("two.example", "/api/v2/items?x=1", "/api/v2/items", "/api/x", "/api/v1/"), []),
    ("captures", CACHE + """
     map $http_x_tag $tag { default none; ~^(\\w+)-(?<rest>\\d+)$ $rest.$1; ~*^UP(.)$ u$1; }
     server { listen %(listen)s; server_name ~^(?<sub>\\w+)\\.wild\\.example$; location / { proxy_pass http://app/$sub$request_uri; proxy_cache c; proxy_cache_valid 200 1h; proxy_cache_key $sub$request_uri; } }
     server { listen %(listen)s; server_name one.example;
       location ~ ^/u/(?<user>\\w+)/(\\d+)(\\.html)?$ { proxy_pass http://app/users/$2$is_args$args; proxy_set_header X-User $user; add_header X-A "$user:$2:$3" always; proxy_cache c; proxy_cache_valid 200 1h; }
       location ~* ^/(reg)(?P<name>exp)\\.html { proxy_pass http://127.0.0.1:9002/$1$name.html; }
       location /if { if ($args ~ ^(\\w+)=(\\w+)) { set $pair $2-$1; } add_header X-B "$pair"; proxy_pass http://app; }
       location /tag { add_header X-C "$tag" always; proxy_pass http://app; } }""",
     plain("a.wild.example", "/x", "/x?y=1") + plain("B.wild.example", "/x") + plain("one.example", "/u/eve/12", "/u/eve/12.html?q=1", "/u/eve/x", "/REGexp.html", "/if?a=b", "/if", "/if?=b")
     + [r for tag in ("ab-12", "ab-x", "UPx", "upY", "") for r in plain("one.example", "/tag", fields={"X-Tag": tag})], []),
    ("errors and their pages", CACHE + """
     proxy_intercept_errors on;
     server { listen %(listen)s; server_name one.example; error_page 404 = @other; error_page 500 503 /down.html; error_page 403 =200 /denied; error_page 410 http://moved.example$request_uri;
       location / { proxy_pass http://app; proxy_cache c; proxy_cache_valid any 1h; } location @other { proxy_pass http://127.0.0.1:9002; }
       location = /down.html { proxy_pass http://127.0.0.1:9003; } location /denied { internal; proxy_pass http://127.0.0.1:9003; } location /secret { deny all; proxy_pass http://app; }
       location /said { return 410; } location /text { return 404 "t"; } location /own { error_page 404 /s500; proxy_pass http://app; } location /plain { proxy_intercept_errors off; proxy_pass http://app; } }
     server { listen %(listen)s; server_name two.example; error_page 404 @fallback; recursive_error_pages on; location / { proxy_pass http://app; } location @fallback { return 403; }
       location /t { return 404; } location /code { error_page 404 =201 /found; proxy_pass http://app; } location /gone { error_page 502 504 =200 /s404; proxy_pass http://127.0.0.1:9; } }""",
     plain("one.example", "/x", "/s404", "/s500/a", "/s503", "/secret", "/said?a=1", "/s410?b", "/text", "/own/s404", "/plain/s404", "/denied", "/down.html")
     + plain("two.example", "/s404", "/t", "/code/s404", "/gone", "/x") + [("one.example", "/s500/head", {}, "HEAD"), ("one.example", "/s500/post", {}, POST)], []),
    ("where an origin redirects to", CACHE + """
     server { listen %(listen)s; location /moved/ { proxy_pass http://app; proxy_cache c; proxy_cache_valid any 1h; } location /sub/ { proxy_pass http://127.0.0.1:9001/moved/; }
      location /off/ { proxy_redirect off; proxy_pass http://app; } location /pair/ { proxy_redirect http://app/moved/ /else/; proxy_redirect http://app/ http://$host/all/; proxy_pass http://app; }
      location /regex/ { proxy_redirect ~^http://(\\w+)/\\w+/(\\d)$ /$2/$1/$request_method; proxy_redirect ~*^HTTP://APP/moved/b(.*) https://b.example$1; proxy_pass http://app; proxy_redirect default; } }""",
     plain("a.example", *(f"/{where}/{to}" for where in ("moved", "sub", "off", "pair", "regex") for to in ("toapp/s301", "toport/s301", "tonumber/s301", "tob/s301", "topath/s301", "tonobody/s301", "refresh"))), []),
    ("charsets of texts", CACHE + """
     charset utf-8; server { listen %(listen)s; location / { proxy_pass http://app; proxy_cache c; proxy_cache_valid any 1h; } location /off/ { charset off; proxy_pass http://app; }
      location /more/ { charset koi8-r; charset_types application/json; proxy_pass http://app; } location /said { return 403; } location /text { return 200 t; } location /go { return 301 /x; } }""",
     plain("a.example", "/html", "/html/s404", "/html/s301", "/json", "/encoded", "/recoded", "/x", "/off/html", "/off/recoded", "/more/html", "/more/json", "/said", "/text", "/go"), []),
    ("methods and ranges of the cache", CACHE + """
     server { listen %(listen)s; location / { proxy_pass http://app; proxy_cache c; proxy_cache_valid 200 1h; proxy_cache_convert_head off; proxy_cache_key $request_method$request_uri; }
       location /range { proxy_pass http://app; proxy_cache c; proxy_cache_valid 200 1h; proxy_cache_max_range_offset 10; }
       location /all { proxy_pass http://app; proxy_cache c; proxy_ignore_headers Cache-Control Expires X-Accel-Expires; } }""",
     [("a.example", "/h", {}, "HEAD"), ("a.example", "/h", {}, GET)] + plain("a.example", "/range/ranges/1", fields={"Range": "bytes=2-3"})
     + plain("a.example", "/all/age60", "/pad/accel60"), []),
    ("numbers that are none", CACHE + """
     server { listen %(listen)s; location / { proxy_pass http://app; proxy_cache c; proxy_cache_valid 200 1h; }
      location /v/ { proxy_pass http://app; proxy_cache c; proxy_cache_valid 200 1h; proxy_ignore_headers Vary; } }""",
     plain("a.example", "/quoted", "/junk", "/v/varystar", "/v/varystar"), []),
    ("a URI in the place of a prefix", CACHE + """
     server { listen %(listen)s; location /api/ { proxy_pass http://app/internal/v1/; } location /kept/ { proxy_pass http://app/own/; proxy_cache c; proxy_cache_valid 200 1h; } }""",
     plain("a.example", "/api/x", "/api/../api/secret", "/api/a/../b", "/api//x", "/api/a%2Fb", "/api/a%20b", "/api/%2e%2E/api/s", "/api/./x", "/api/.well-known/y", "/api/a/..",
           "/api/x?a=/../b", "/kept/x", "/kept/.well-known/y?a=//b"), []),
    ("networks that are named twice", """
     geo $net { default none; 127.0.0.1 first; 127.0.0.0/8 wide; 127.0.0.1/32 last; 10.1.0.0/8 a; 10.2.0.0/8 b; }
     server { listen %(listen)s; location / { add_header X-A $net; proxy_pass http://127.0.0.1:9001; } }""",
     plain("a.example", "/x"), []),
    ("a client's address that a header has", CACHE + """
     geo $in { default 0; 10.0.0.0/8 1; } set_real_ip_from 127.0.0.1; real_ip_header X-Forwarded-For; real_ip_recursive on;
     server { listen %(listen)s; location / { if ($in = 0) { return 403; } proxy_pass http://app; proxy_cache c; proxy_cache_valid 200 1h; }
       location /own { if ($remote_addr = 10.1.1.1) { return 402; } proxy_pass http://app; } location /key { proxy_pass http://app; proxy_cache c; proxy_cache_key $remote_addr; } }""",
     [r for client in ("10.1.1.1", "192.0.2.1") for r in plain("a.example", "/x", "/own", "/key", fields={"X-Forwarded-For": client})], ["if", "proxy_cache_key"]),
    ("slashes that aren't joined", CACHE + """
     merge_slashes off; server { listen %(listen)s; location / { proxy_pass http://app; proxy_cache c; proxy_cache_valid 200 1h; proxy_cache_key $uri; } location /a/ { return 402; } }""",
     plain("a.example", "/b//c", "/b/c", "/a/", "//a/", "/a//", "/b//c", "/b//../c", "//../a/", "/b/c//d/../../e"), []),
    ("slashes that the first server doesn't join", CACHE + """
     server { listen %(listen)s; server_name one.example; merge_slashes off; location / { proxy_pass http://app; } location /a/ { return 402; } }
     server { listen %(listen)s; server_name two.example; merge_slashes on; location / { proxy_pass http://app; proxy_cache c; proxy_cache_valid 200 1h; } location /a/ { return 402; } }""",
     [r for host in ("one.example", "two.example") for r in plain(host, "/b//c", "/b/c", "/a/", "//a/")], []),
    ("slashes of sockets", CACHE + """
     server { listen %(listen)s; server_name one.example; location / { proxy_pass http://app; } location /a/ { return 402; } }
     server { listen %(listen)s; server_name two.example; merge_slashes off; location / { proxy_pass http://app; proxy_cache c; proxy_cache_valid 200 1h; } location /a/ { return 402; } }
     server { listen %(second)s; merge_slashes off; location / { proxy_pass http://app; } }""",
     [r for host in ("one.example", "two.example") for r in plain(host, "/b//c", "/b/c", "/a/", "//a/")], ["merge_slashes"]),
    ("tables of rewritten URLs", CACHE + """
     map $uri $private { default 0; ~^/private 1; } map $private $both { default $private; }
     server { listen %(listen)s; location / { rewrite ^/x/(.*)$ /private/$1 break; proxy_pass http://app; proxy_cache c; proxy_cache_valid 200 1h; proxy_no_cache $private; proxy_cache_bypass $private; }
       location /y/ { rewrite ^/y/(.*)$ /private/$1 last; } location /z/ { rewrite ^/z/(.*)$ /private/$1 break; add_header X-A $both; proxy_pass http://app; } }""",
     plain("a.example", "/x/1", "/y/2", "/other", "/z/3"), []),
    ("tables that scripts ask before a rewrite", CACHE + """
     map $uri $private { default 0; ~^/x 1; }
     server { listen %(listen)s; location / { if ($private) { set $skip 1; } rewrite ^/x/(.*)$ /open/$1 break; proxy_pass http://app; proxy_cache c; proxy_cache_valid 200 1h; proxy_no_cache $private; } }""",
     plain("a.example", "/x/1", "/open/2"), ["if"]),
    ("names of hosts with a dot", CACHE + """
     server { listen %(listen)s; if ($host != a.example) { return 402 $host; } location / { add_header X-A $host; proxy_pass http://app; proxy_cache c; proxy_cache_valid 200 1h; proxy_cache_key $host$uri; } }""",
     [r for host in ("a.example", "a.example.", "A.example.:80", "b.example.") for r in plain(host, "/x")], []),
    ("redirections in which nginx names itself", CACHE + """
     server { listen %(listen)s; root %(dir)s/www; location / { } location /gone { return 301 /x; } location /old { rewrite ^/old /static/ permanent; } location /gif { empty_gif; }
       location /app/ { proxy_pass http://app; proxy_cache c; proxy_cache_valid any 1h; } location /there { return 301 http://a.example:8081/x; } }""",
     plain("a.example", "/static", "/static?x=1", "/gone", "/old", "/app", "/app/toport/s301", "/there", "/gif") + plain("A.Example", "/static"), []),
    ("headers that clients spell with underscores", """
     server { listen %(listen)s; location / { proxy_pass http://127.0.0.1:9001; proxy_set_header X-Login nginx; }
       location /none { proxy_pass http://127.0.0.1:9001; proxy_set_header X-Login ""; } location /on { proxy_pass http://127.0.0.1:9001; proxy_set_header X-Other-Name x; } }""",
     [("a.example", path, {name: "client"}, GET) for path, name in (("/", "X_Login"), ("/", "X-Login"), ("/none", "X_Login"), ("/none", "X-Login"), ("/on", "X-Login"))], []),
    ("slices", CACHE + """
     server { listen %(listen)s; proxy_cache_valid 200 206 1h; proxy_cache c; proxy_cache_key $uri$is_args$args$slice_range; proxy_set_header Range $slice_range;
       location / { slice 64k; proxy_pass http://app; } location /small/ { slice 1k; proxy_pass http://app; } location /no/ { slice 64k; proxy_cache off; proxy_pass http://app; } }""",
     [("a.example", path, {"Range": span} if span else {}, GET) for path in ("/ranges/tag/long", "/small/ranges/tag/long", "/no/ranges/tag/long")
      for span in ("bytes=0-9", "bytes=70000-70009", "bytes=-5", "")], ["slice"]),
    ("zones of similar names", """
     proxy_cache_path %(dir)s/cache keys_zone=a-b:1m max_size=64m; proxy_cache_path %(dir)s/second keys_zone=a_b:1m max_size=64m; upstream my-app { server 127.0.0.1:9001; server 127.0.0.1:9001; }
     upstream My_App { server 127.0.0.1:9002; server 127.0.0.1:9002; } upstream std { server 127.0.0.1:9003; }
     server { listen %(listen)s; proxy_cache_valid 200 1h; location /1 { proxy_pass http://my-app; proxy_cache a-b; proxy_cache_key k; } location /2 { proxy_pass http://My_App; proxy_cache a_b; proxy_cache_key k; }
       location /3 { proxy_pass http://std; } }""",
     plain("a.example", "/1", "/2", "/3"), []),
    ("what isn't buffered isn't cached", CACHE + """
     server { listen %(listen)s; proxy_cache c; proxy_cache_valid 200 1h; location / { proxy_pass http://app; } location /off { proxy_pass http://app; proxy_buffering off; }
       location /ignored { proxy_pass http://app; proxy_ignore_headers X-Accel-Buffering; } location /vary { proxy_pass http://app; proxy_ignore_headers Vary; } }""",
     plain("a.example", "/1", "/unbuffered", "/off/1", "/ignored/unbuffered", "/vary/1"), []),
    ("variables are empty where nothing sets them", """
     upstream app { server 127.0.0.1:9001; } upstream app-green { server 127.0.0.1:9002; }
     map $cookie_c $suffix { green -green; } geo $remote_addr $net { 192.0.2.0/24 -green; }
     server { listen %(listen)s;
       location /map { proxy_pass http://app$suffix; }
       location /geo { proxy_pass http://app$net; }
       location /set { if ($cookie_c) { set $s -green; } proxy_pass http://app$s; }
       location /other { set $t -green; proxy_pass http://app$t; }
       location /outer { proxy_pass http://app$t; } }""",
     [r for path in ("/map/1", "/geo/1", "/set/1", "/other/1", "/outer/1") for r in plain("a.example", path) + plain("a.example", path, fields={"Cookie": "c=green"})], []),
    ("origins that variables choose", CACHE + """
     map $host $up { default app; b.example 127.0.0.1:9002; c.example ""; } map $cookie_v $url { default http://app; two http://127.0.0.1:9002/two/; }
     server { listen %(listen)s; proxy_cache_valid 200 1h; set $color 127.0.0.1:9001; if ($cookie_green) { set $color 127.0.0.1:9003; } set $base http://127.0.0.1:9003;
       location / { proxy_pass http://$up; proxy_cache c; add_header X-A 1 always; } location /url { proxy_pass $url; proxy_cache c; }
       location /color { proxy_pass http://$color$request_uri; proxy_set_header X-Login $proxy_host; proxy_set_header Host $host; }
       location /scheme { proxy_pass $scheme://app; } location /base/ { proxy_pass $base/else/; } location ~ ^/regex { proxy_pass $base/r; } location /set { proxy_pass http://$up$uri; } }""",
     [r for host in ("a.example", "b.example", "c.example") for r in plain(host, "/1", "/set/%41?x=1")]
     + [r for v in ("one", "two") for r in plain("a.example", "/url/x?y=1", fields={"Cookie": f"v={v}"})] + plain("a.example", "/color/1", "/scheme/1", "/base/x?y=1", "/regex/1")
     + plain("a.example", "/color/1", fields={"Cookie": "green=1"}) + [("b.example", "/1", {}, POST)], []),
    ("origins that requests name", CACHE + """
     resolver 127.0.0.1; resolver_timeout 1s; upstream other { server 127.0.0.1:9003; }
     server { listen %(listen)s; proxy_cache_valid 200 1h; location / { proxy_pass http://$http_host; proxy_cache c; } location /port { proxy_pass http://$host:9002; }
       location /arg { proxy_pass http://$arg_to/fixed; proxy_cache c; proxy_set_header Host $host; } }""",
     [r for host in ("127.0.0.1:9001", "127.0.0.1:9002", "other", "OTHER") for r in plain(host, "/1")] + plain("127.0.0.1:9003", "/port/1")
     + [r for to in ("other", "127.0.0.1:9001", "") for r in plain("a.example", f"/arg?to={to}")], []),
]
# nginx's statuses of the first responses, in the order of the requests: what is asked for is there, but where a case is about that.
STATUSES = {
    "what isn't buffered isn't cached": "200*5",
    "variables are empty where nothing sets them": "200*10",
    "origins that variables choose": "200*4 500*2 200*8",
    "origins that requests name": "200*7 500",
    "locations in locations": "200*3 403 200*6",
    "the site is decided before Host changes": "404 200 503 404 200*2 404 200 503 404 200 301 404 200 503 404 200 301 404 200 503 404 200 301 404 200 503 404 200*2",
    "names have their order": "200*10",
    "a prefix with ^~ and regexes in order": "200*4 402 200 410 200*5 301",
    "variables where texts stood": "200*3 406 402 508",
    "skip by cookie, method and query": "200*11",
    "what can't be translated is passed": "200*2 401 200 403",
    "rules of addresses in order": "200 403 200",
    "clients that nginx knows behind the cache": "200*2 403 200",
    "headers that are added": "204 410 200*2 404 200 301 200",
    "lifetimes": "200*10 404 500 404 200*7 500 200*2",
    "if in a location": "200*4",
    "try_files": "200*2 404",
    "try_files keeps the rules of its location": "401 403 200*2",
    "nginx's own key": "200*10",
    "paths that go up": "403 200 402*5 200",
    "conditions of addresses": "200 402",
    "methods and addresses": "200*3 403",
    "bypassed and not kept": "200*3",
    "a zone that is a variable": "200*2 500 200",
    "headers of what nginx answers by itself": "301 200 403*2 404 200",
    "answers that depend on files": "200 402 200 403",
    "types of answers with a text": "200*8 204 404*2 302",
    "a script that ends early": "200 404",
    "the status of the cache": "200 404 500 200 404 200",
    "variables of the server and the time": "200*3",
    "URLs that are rewritten": "200*9 402 200*9",
    "captures in redirections": "302*5 301*2 302",
    "captures": "200*5 404 200*9",
    "errors and their pages": "200 404 500 503 200 302*2 404 500 404 200*2 403*2 201 403 200 500*2",
    "where an origin redirects to": "301*6 200 301*6 200 301*6 200 301*6 200 301*6 200",
    "charsets of texts": "200 404 301 200*8 403 200 301",
    "methods and ranges of the cache": "200*2 206 200*2",
    "numbers that are none": "200*4",
    "a URI in the place of a prefix": "200*13",
    "networks that are named twice": "200",
    "a client's address that a header has": "200 402 200 403 200*2",
    "slashes that aren't joined": "200*2 402 200 402 200*2 402 200",
    "slashes that the first server doesn't join": "200*2 402 200*3 402 200",
    "slashes of sockets": "200*2 402*2 200*2 402*2",
    "tables of rewritten URLs": "200*4",
    "tables that scripts ask before a rewrite": "200*2",
    "names of hosts with a dot": "200*3 402",
    "redirections in which nginx names itself": "301*7 200 301",
    "headers that clients spell with underscores": "200*5",
    "slices": "206*3 200 206*3 200 206*3 200",
    "zones of similar names": "200*3",
}
# A location each, with what makes it serve stale content; `/flaky/age1` is fresh for one second.
STALE = {
    "no": "", "error": "proxy_cache_use_stale error;", "500": "proxy_cache_use_stale http_500;", "updating": "proxy_cache_use_stale updating;",
    "both": "proxy_cache_use_stale updating error http_500;", "background": "proxy_cache_use_stale updating; proxy_cache_background_update on;",
}
STALE_SITE = CACHE + " server { listen %(listen)s; " + " ".join(
    f"location /{name}/ {{ proxy_pass http://app; proxy_cache c; add_header X-S $upstream_cache_status always; {rule} }}" for name, rule in STALE.items()) + " }"

# Two servers of a name, on two ports: nginx behind the cache must still tell them apart. Responses with X-Accel-Redirect, and upgraded connections.
TWO = CACHE + """
 server { listen %(listen)s; server_name a.example; location /own/ { alias %(dir)s/www/static/; } location / { return 301 http://$host:81$request_uri; } }
 server { listen %(second)s; server_name a.example; root %(dir)s/www; location / { try_files $uri @app; } location @app { proxy_pass http://app; }
  location /cable { try_files $uri @live; } location @live { proxy_http_version 1.1; proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade; proxy_pass http://127.0.0.1:9004; }
  location /sent/ { proxy_pass http://app; proxy_cache c; proxy_cache_valid 200 1h; } location /plain/ { proxy_pass http://app; } location /files/ { internal; alias %(dir)s/www/static/; } }"""
TWO_ASKED = [(port, method, path) for port in (80, 81) for path in ("/own/file", "/static/file", "/x", "/sent/x", "/sent/accelfile", "/plain/accelfile", "/files/file") for method in ("GET", "POST")]
