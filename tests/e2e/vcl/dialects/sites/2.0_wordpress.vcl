# A blog in the words of 2.0: bare actions, obj in vcl_fetch, purge as a ban.
backend default {
    .host = "127.0.0.1";
    .port = "80";
}
backend images {
    .host = "127.0.0.1";
    .port = "80";
}

acl editors {
    "127.0.0.1";
    ! "127.0.0.2";
}

sub vcl_recv {
    if (req.request == "PURGE") {
        if (!client.ip ~ editors) {
            error 405 "Not allowed.";
        }
        purge("req.url == " req.url " && req.http.host == " req.http.host);
        error 200 "Purged.";
    }
    if (req.url ~ "\.(png|gif|jpg|webp|ico|css|js|mp4)$") {
        unset req.http.cookie;
        set req.backend = images;
        lookup;
    }
    if (req.http.host ~ "^m\.") {
        error 750 req.http.host;
    }
    if (!(req.url ~ "wp-(login|admin)")) {
        remove req.http.cookie;
    }
    if (req.url ~ "^/private") {
        pass;
    }
    set req.grace = 30s;
}

sub vcl_hash {
    set req.hash += req.url;
    set req.hash += req.http.host;
    if (req.http.Accept-Encoding ~ "gzip") {
        set req.hash += "gzip";
    }
    hash;
}

sub vcl_fetch {
    set obj.grace = 30s;
    if (obj.status >= 500) {
        set obj.ttl = 1s;
        pass;
    }
    if (req.url ~ "^/(about|news)") {
        set obj.ttl = 12h;
        esi;
    }
    if (obj.ttl < 120s) {
        set obj.ttl = 120s;
    }
    if (req.request != "POST") {
        unset obj.http.set-cookie;
    }
    if (req.url ~ "\.(png|gif|jpg|css|js)$") {
        set obj.ttl = 24 h;
        set obj.http.X-Kind = "file from " req.backend;
        set obj.prefetch = -30s;
        deliver;
    }
}

sub vcl_deliver {
    if (obj.hits > 0) {
        set resp.http.X-Cache = "HIT " obj.hits;
    } else {
        set resp.http.X-Cache = "MISS";
    }
}

sub vcl_error {
    if (obj.status == 750) {
        set obj.http.Location = "http://www." obj.response "/";
        set obj.status = 302;
        set obj.response = "Found";
        deliver;
    }
    set obj.http.X-Error = obj.status " " obj.response;
}

sub vcl_timeout {
    discard;
}
