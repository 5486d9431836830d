# A shop of 3.0: hit-for-pass, purge in vcl_hit and vcl_miss, X-Forwarded-For of its own, errors from vcl_fetch.
import std;

backend default {
    .host = "127.0.0.1";
    .port = "80";
    .first_byte_timeout = 60s;
    .probe = { .url = "/health"; .interval = 600s; .timeout = 300 ms; .window = 5; .threshold = 3; .initial = 5; }
}
backend admin { .host = "127.0.0.1"; .port = "80"; }

acl purge { "localhost"; "127.0.0.1"/32; }

sub strip_cookies {
    if (req.http.Cookie) {
        set req.http.Cookie = regsuball(req.http.Cookie, "(^|;\s*)(__utm[a-z]+|_ga|has_js)=[^;]*", "");
        set req.http.Cookie = regsub(req.http.Cookie, "^;\s*", "");
        if (req.http.Cookie == "") {
            remove req.http.Cookie;
        }
    }
}

sub vcl_recv {
    if (req.restarts == 0) {
        if (req.http.x-forwarded-for) {
            set req.http.X-Forwarded-For = req.http.X-Forwarded-For + ", " + client.ip;
        } else {
            set req.http.X-Forwarded-For = client.ip;
        }
    }
    if (req.request == "PURGE") {
        if (!client.ip ~ purge) {
            error 405 "Not allowed.";
        }
        return (lookup);
    }
    if (req.request == "BAN") {
        ban("req.http.host == " + req.http.host + " && req.url ~ " + req.url);
        error 200 "Ban added";
    }
    if (req.url ~ "^/(admin|user)") {
        set req.backend = admin;
        return (pass);
    }
    call strip_cookies;
    if (req.backend.healthy) {
        set req.grace = 15s;
    } else {
        set req.grace = 6h;
    }
    set req.http.X-Device = "desktop";
    if (req.http.User-Agent ~ "(?i)(iphone|android.*mobile)") {
        set req.http.X-Device = "mobile";
    }
    if (req.url ~ "^/checkout" && req.http.Authorization) {
        error 401 "Restricted";
    }
}

sub vcl_hash {
    hash_data(req.http.X-Device);
}

sub vcl_hit {
    if (req.request == "PURGE") {
        purge;
        error 200 "Purged.";
    }
}

sub vcl_miss {
    if (req.request == "PURGE") {
        purge;
        error 404 "Not in cache.";
    }
    set bereq.http.X-Device-Class = req.http.X-Device;
}

sub vcl_fetch {
    set beresp.grace = 6h;
    if (beresp.status >= 500) {
        if (req.restarts < 1 && req.request == "GET") {
            return (restart);
        }
        error 503 "Origin said " + beresp.status;
    }
    if (req.url ~ "\.(css|js|png|jpg|webp)(\?.*)?$") {
        unset beresp.http.Set-Cookie;
        set beresp.ttl = 1d;
    }
    if (req.url ~ "^/esi") {
        set beresp.do_esi = true;
    }
    if (beresp.http.Content-Type ~ "text|javascript" && beresp.http.Vary != "*") {
        set beresp.do_gzip = true;
    }
    if (req.http.Authorization && !beresp.http.Cache-Control ~ "public") {
        set beresp.ttl = 60s;
        return (hit_for_pass);
    }
    if (beresp.http.X-No-Store) {
        set beresp.ttl = 0s;
        return (deliver);
    }
    set beresp.http.X-Url = req.url;
    set beresp.http.X-Host = req.http.host;
}

sub vcl_deliver {
    unset resp.http.X-Url;
    unset resp.http.X-Host;
    set resp.http.X-Cache = "MISS";
    if (obj.hits > 0) {
        set resp.http.X-Cache = "HIT";
    }
    set resp.http.X-Served-By = server.hostname;
    unset resp.http.X-Served-By;
}

sub vcl_error {
    set obj.http.Content-Type = "text/html; charset=utf-8";
    if (obj.status == 401) {
        set obj.http.WWW-Authenticate = "Basic realm=" + {"""} + "shop" + {"""};
    }
    if (obj.status == 503 && req.restarts < 2) {
        set obj.http.X-Tried = req.restarts;
    }
    synthetic {"<h1>"} + obj.status + " " + obj.response + {"</h1>"};
    return (deliver);
}
