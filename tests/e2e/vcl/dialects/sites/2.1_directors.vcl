# Directors of each kind, what is cacheable, and fields of the origin's request.
director web round-robin {
    { .backend = { .host = "127.0.0.1"; .port = "80"; } }
}
director api random {
    .retries = 3;
    { .backend = { .host = "127.0.0.1"; .port = "80"; .connect_timeout = 1 s; } .weight = 2; }
}
director by_client client {
    { .backend = { .host = "127.0.0.1"; .port = "80"; .saintmode_threshold = 10; } .weight = 1; }
}
director by_url hash {
    { .backend = { .host = "127.0.0.1"; .port = "80"; } .weight = 1; }
}

sub choose {
    if (req.http.host ~ "^api\.") {
        set req.backend = api;
    } elsif (req.http.host ~ "^m\.") {
        set client.identity = req.http.user-agent;
        set req.backend = by_client;
    } else if (req.url ~ "^/(img|media)/") {
        set req.backend = by_url;
    } else {
        set req.backend = web;
    }
}

sub vcl_recv {
    call choose;
    if (req.request == "BAN") {
        purge_url(req.url);
        error 200 "Banned";
    }
    if (req.request == "REFRESH") {
        purge(req.url == req.url && req.http.host == req.http.host);
        set req.request = "GET";
        set req.hash_always_miss = true;
    }
    if (req.http.X-Trace) {
        log "trace " req.url;
    }
    set req.url = regsub(req.url, "[?&]utm_[a-z]+=[^&]*", "");
    if (req.url == "/old") {
        error 301 "/new";
    }
    if (req.url ~ "^/user/") {
        return (pass);
    }
}

sub vcl_pass {
    set bereq.http.X-Why = "pass";
    if (req.http.Cookie ~ "SESS") {
        set bereq.http.X-Session = "yes";
    }
}

sub vcl_miss {
    set bereq.http.X-Why = "miss of " req.url;
    unset bereq.http.Cookie;
    if (req.url == "/missing") {
        error 404 "Gone from here";
    }
}

sub vcl_fetch {
    if (beresp.status == 404 || beresp.status == 503) {
        set beresp.cacheable = true;
        set beresp.ttl = 10s;
    }
    if (!beresp.cacheable) {
        set beresp.http.X-Cacheable = "no: status " beresp.status;
        return (pass);
    }
    if (beresp.http.Set-Cookie && req.url !~ "^/(checkout|customer)") {
        unset beresp.http.Set-Cookie;
    }
    if (req.restarts > 0) {
        set beresp.http.X-Restarts = req.restarts;
    }
    set beresp.http.X-Cacheable = "yes";
    if (beresp.ttl > 3600s) {
        set beresp.ttl = 1h;
    }
}

sub vcl_deliver {
    set resp.http.X-Hits = obj.hits;
    unset resp.http.X-Cacheable;
    if (resp.status == 404 && req.restarts == 0 && req.url ~ "^/(missing|gone)") {
        set req.url = "/about";
        restart;
    }
}

sub vcl_error {
    if (obj.status == 301) {
        set obj.http.Location = "http://" req.http.host obj.response;
        set obj.response = "Moved";
        return (deliver);
    }
    synthetic {"<html>"} obj.status " " obj.response {"</html>
"};
    return (deliver);
}
