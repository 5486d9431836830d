# SPDX-License-Identifier: BSD-2-Clause
# Saint mode with thresholds, of several backends and of one, and what is passed. (A backend without a director was asked by 3.0 whatever
# its health when a connection to it was idle.)
backend first { .host = "a.example.com"; .port = "80"; .saintmode_threshold = 3; }
backend second { .host = "b.example.com"; .port = "80"; .saintmode_threshold = 0; }
director pair fallback {
    { .backend = first; }
    { .backend = { .host = "c.example.com"; .port = "80"; } }
}
director turns hash {
    { .backend = first; .weight = 1; }
    { .backend = second; .weight = 1; }
}
director alone round-robin {
    { .backend = first; }
}

sub vcl_recv {
    set req.backend = pair;
    if (req.url ~ "esi") {
        set req.backend = alone;
    } elsif (req.url ~ "\.(png|css|js)") {
        set req.backend = turns;
    } elsif (req.url ~ "search") {
        set req.backend = second;
    }
    if (req.restarts == 0 && req.backend.healthy) {
        set req.grace = 10s;
    }
    if (req.http.Pragma ~ "no-cache") {
        set req.hash_always_miss = true;
    }
}

sub vcl_miss {
    if (req.http.Referer) {
        return (fetch);
    }
}

sub vcl_fetch {
    if (beresp.status >= 500 || req.url ~ "wp-login") {
        set beresp.saintmode = 10m;
        if (req.restarts == 0 && req.request == "GET") {
            return (restart);
        }
    }
    if (req.backend == pair) {
        set beresp.http.X-Pair = "yes";
    }
    if (!req.backend.healthy) {
        set beresp.http.X-Sick = "now";
    }
}

sub vcl_error {
    set obj.http.X-Restarts = req.restarts;
}
