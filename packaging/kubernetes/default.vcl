# SPDX-License-Identifier: BSD-2-Clause
vcl 4.1;

# The service that is cached. Its name is looked up again by its time to live; `import dynamic;` follows all addresses of a headless one.
backend default {
    .host = "app";
    .port = "80";
}

# Pods of the cluster; yours may have other networks.
acl purgers {
    "10.0.0.0"/8;
}

sub vcl_recv {
    # Each cache has its own copy: send a PURGE to every address of the service `lacquer-each`.
    if (req.method == "PURGE") {
        if (client.ip !~ purgers) {
            return (synth(403));
        }
        return (purge);
    }
}

sub vcl_backend_response {
    set beresp.grace = 1h;
}
