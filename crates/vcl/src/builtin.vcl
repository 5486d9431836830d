# The built-in VCL: what happens where a site's own VCL doesn't decide.
vcl 4.0;

# --- client side

sub vcl_recv {
    call vcl_builtin_recv;
    return (hash);
}

sub vcl_builtin_recv {
    call vcl_req_url;
    call vcl_req_host;
    call vcl_req_method;
    call vcl_req_authorization;
    call vcl_req_cookie;
}

sub vcl_req_host {
    # Host names are alike in any case: one object for all.
    if (req.http.host ~ "[[:upper:]]") {
        set req.http.host = req.http.host.lower();
    }
    # RFC 9112 3.2: an HTTP/1.1 request has a Host. ESI children inherit theirs.
    if (!req.http.host && req.esi_level == 0 && req.proto == "HTTP/1.1") {
        return (synth(400));
    }
}

sub vcl_req_url {
    # What isn't a path means one thing to VCL and may mean another one to the origin.
    if (req.url !~ "^/" && (req.url != "*" || req.method != "OPTIONS") && !param.http_lenient) {
        return (synth(400));
    }
}

sub vcl_req_method {
    # The HTTP/2 preface can't get here.
    if (req.method == "PRI") {
        return (synth(405));
    }
    # What a method means that we don't know is for a site's own VCL to say. A pipe would let what follows it pass unseen.
    if (req.method != "GET" && req.method != "HEAD" && req.method != "PUT" && req.method != "POST" &&
        req.method != "TRACE" && req.method != "OPTIONS" && req.method != "DELETE" && req.method != "PATCH" &&
        req.method != "QUERY" && !req.rfc9111) {
        if (param.http_lenient) {
            return (pipe);
        }
        return (synth(501));
    }
    # Only these are answered from the cache. req.hash_body is true for QUERY (RFC 10008), and for a POST of which VCL says so.
    if (req.method != "GET" && req.method != "HEAD" && !req.hash_body) {
        return (pass);
    }
}

sub vcl_req_authorization {
    # The answer may be for this user alone. RFC 9111 3.5: it tells.
    if (req.http.Authorization && !req.rfc9111) {
        return (pass);
    }
}

sub vcl_req_cookie {
    # The same. By RFC 9111 a cookie is a field like others: Cache-Control and Vary tell.
    if (req.http.Cookie && !req.rfc9111) {
        return (pass);
    }
}

sub vcl_pipe {
    call vcl_builtin_pipe;
    return (pipe);
}

sub vcl_builtin_pipe {
}

sub vcl_pass {
    call vcl_builtin_pass;
    return (fetch);
}

sub vcl_builtin_pass {
}

sub vcl_hash {
    call vcl_builtin_hash;
    return (lookup);
}

sub vcl_builtin_hash {
    hash_data(req.url);
    if (req.http.host) {
        hash_data(req.http.host);
    } else {
        hash_data(server.ip);
    }
}

sub vcl_purge {
    call vcl_builtin_purge;
    return (synth(200, "Purged"));
}

sub vcl_builtin_purge {
}

sub vcl_hit {
    call vcl_builtin_hit;
    return (deliver);
}

sub vcl_builtin_hit {
}

sub vcl_miss {
    call vcl_builtin_miss;
    return (fetch);
}

sub vcl_builtin_miss {
}

sub vcl_deliver {
    call vcl_builtin_deliver;
    return (deliver);
}

sub vcl_builtin_deliver {
}

sub vcl_synth {
    call vcl_builtin_synth;
    return (deliver);
}

sub vcl_builtin_synth {
    set resp.http.Content-Type = "text/html; charset=utf-8";
    set resp.http.Retry-After = "5";
    set resp.body = {"<!DOCTYPE html>
<html>
  <head>
    <title>"} + resp.status + " " + resp.reason + {"</title>
  </head>
  <body>
    <h1>Error "} + resp.status + " " + resp.reason + {"</h1>
    <p>"} + resp.reason + {"</p>
    <h3>Guru Meditation:</h3>
    <p>XID: "} + req.xid + {"</p>
    <hr>
    <p>Varnish cache server</p>
    <p>Lacquer @VERSION@</p>
  </body>
</html>
"};
}

# --- backend side

sub vcl_backend_fetch {
    call vcl_builtin_backend_fetch;
    return (fetch);
}

sub vcl_builtin_backend_fetch {
    if (bereq.method == "GET") {
        unset bereq.body;
    }
}

sub vcl_backend_response {
    call vcl_builtin_backend_response;
    return (deliver);
}

sub vcl_builtin_backend_response {
    call vcl_beresp_range;
    # By RFC 9111 what is not to be stored was found out before: beresp.ttl is not above 0s.
    if (bereq.uncacheable || bereq.rfc9111) {
        return (deliver);
    }
    call vcl_beresp_stale;
    call vcl_beresp_cookie;
    call vcl_beresp_control;
    call vcl_beresp_vary;
}

# For VCL of later releases.
sub vcl_beresp_range {
}

sub vcl_beresp_stale {
    if (beresp.ttl <= 0s) {
        call vcl_beresp_hitmiss;
    }
}

sub vcl_beresp_cookie {
    if (beresp.http.Set-Cookie) {
        call vcl_beresp_hitmiss;
    }
}

sub vcl_beresp_control {
    if (beresp.http.Surrogate-control ~ "(?i)no-store" ||
        (!beresp.http.Surrogate-Control && beresp.http.Cache-Control ~ "(?i:no-cache|no-store|private)")) {
        call vcl_beresp_hitmiss;
    }
}

sub vcl_beresp_vary {
    if (beresp.http.Vary == "*") {
        call vcl_beresp_hitmiss;
    }
}

# For two minutes, unless set otherwise, nobody waits for this object in the hope of sharing it.
sub vcl_beresp_hitmiss {
    set beresp.ttl = param.uncacheable_ttl;
    set beresp.uncacheable = true;
    return (deliver);
}

sub vcl_backend_error {
    call vcl_builtin_backend_error;
    return (deliver);
}

sub vcl_builtin_backend_error {
    set beresp.http.Content-Type = "text/html; charset=utf-8";
    set beresp.http.Retry-After = "5";
    set beresp.body = {"<!DOCTYPE html>
<html>
  <head>
    <title>"} + beresp.status + " " + beresp.reason + {"</title>
  </head>
  <body>
    <h1>Error "} + beresp.status + " " + beresp.reason + {"</h1>
    <p>"} + beresp.reason + {"</p>
    <h3>Guru Meditation:</h3>
    <p>XID: "} + bereq.xid + {"</p>
    <hr>
    <p>Varnish cache server</p>
    <p>Lacquer @VERSION@</p>
  </body>
</html>
"};
}

# --- housekeeping

sub vcl_init {
    return (ok);
}

sub vcl_fini {
    return (ok);
}
