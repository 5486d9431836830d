// SPDX-License-Identifier: BSD-2-Clause
//! vmod_reqwest of vmod-reqwest.

use tables::vmods::Default as D;
use tables::vmods::Type::*;
use tables::vmods::{Arg, Func, Module, Object};

const NAME: Arg = Arg::new(String, "name");

const fn switch(name: &'static str, default: bool) -> Arg {
    Arg::new(Bool, name).or(D::Bool(default))
}

/// vmod_reqwest
pub(crate) const MODULE: Module = Module {
    left_out: &[],
    name: "reqwest",
    text: "Requests out of VCL by name, and a backend that is a URL and follows redirections. Not built: https, for which a TLS proxy must \
           stand before the other side; an https base_url, https=true and an https proxy are refused when the VCL is loaded, another \
           https URL fails. What only TLS or HTTP/2 has a use for (accept_invalid_certs, accept_invalid_hostnames, https_proxy) does nothing",
    functions: &[],
    objects: &[Object {
        name: "client",
        args: &[
            Arg::new(String, "base_url").opt(),
            Arg::new(Bool, "https").opt(),
            Arg::new(Int, "follow").or(D::Int(10)),
            Arg::new(Duration, "timeout").opt(),
            Arg::new(Duration, "connect_timeout").opt(),
            switch("auto_gzip", true),
            switch("auto_deflate", true),
            switch("auto_brotli", true),
            switch("accept_invalid_certs", false),
            switch("accept_invalid_hostnames", false),
            Arg::new(String, "http_proxy").opt(),
            Arg::new(String, "https_proxy").opt(),
            Arg::new(Probe, "probe").opt(),
        ],
        text: "A client, which keeps connections. follow is how many redirections in a row are followed, 0 none; timeout is for a whole \
               request, connect_timeout for each connection, none without them; a request out of VCL has 10 minutes then. A coding that VCL doesn't ask for isn't asked for, so that \
               auto_gzip, auto_deflate and auto_brotli have nothing to decode. A probe goes to base_url and its .url, or without base_url \
               to the whole URL that its .url is; it concerns the backend alone",
        methods: &[
            Func::new(
                Void,
                "init",
                &[NAME, Arg::new(String, "url"), Arg::new(String, "method").or(D::Str("GET"))],
                "Begins a request of this name, in the place of one that had it; a task may have 64",
            ),
            Func::new(Void, "send", &[NAME], "Sends it; VCL goes on meanwhile"),
            Func::new(
                Void,
                "set_header",
                &[NAME, Arg::new(String, "key"), Arg::new(String, "value")],
                "Adds a field; those of framing and of the connection are the client's own, and fail",
            ),
            Func::new(Void, "set_body", &[NAME, Arg::new(String, "body")], "Its body"),
            Func::new(
                Void,
                "copy_headers_to_req",
                &[NAME],
                "Adds the fields of req or bereq, but those of the connection and the body",
            ),
            Func::new(Int, "status", &[NAME], "The answer's status, 0 when there is none. Sends and waits as needed").waits(),
            Func::new(
                String,
                "header",
                &[NAME, Arg::new(String, "key"), Arg::new(String, "sep").opt()],
                "The answer's first field of a name, or all of them with sep between; unset without one. Sends and waits as needed",
            )
            .waits(),
            Func::new(
                String,
                "body_as_string",
                &[NAME],
                "The answer's body, 10 MB at most; unset without an answer. Sends and waits as needed",
            )
            .waits(),
            Func::new(String, "error", &[NAME], "Why there is no answer; unset when there is one. Sends and waits as needed").waits(),
            Func::new(
                Backend,
                "backend",
                &[],
                "The backend. It asks for base_url with bereq.url behind it, or bereq.url if that is a whole URL, or it and bereq.http.host",
            ),
        ],
    }],
};
