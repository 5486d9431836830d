// SPDX-License-Identifier: BSD-2-Clause
//! vmod_http of Varnish Enterprise 6.

use tables::vmods::Default as D;
use tables::vmods::Type::*;
use tables::vmods::{Arg, Func, Module};

const N: Arg = Arg::new(Int, "n");
const NAME: Arg = Arg::new(String, "name");
const TEXT: Arg = Arg::new(String, "value");

/// vmod_http
pub(crate) const MODULE: Module = Module {
    left_out: &[],
    name: "http",
    text: "Requests out of VCL, to others or back to this server. A request has a number, which init() gives it; what it was told \
           belongs to the task, which may have 64 of them. It may take 30 s, its answer 10 MB. Not built: https, for which a TLS \
           proxy must stand before the other side. A request that fails has the status 0, and the log says why",
    objects: &[],
    functions: &[
        Func::new(Void, "init", &[N], "Begins a request: a GET without fields, in the place of what had the number"),
        Func::new(Void, "req_set_url", &[N, Arg::new(String, "url")], "Its URL; with none it isn't sent"),
        Func::new(Void, "req_set_method", &[N, Arg::new(String, "method")], "Its method"),
        Func::new(
            Void,
            "req_copy_headers",
            &[N],
            "Gives it the fields of req or bereq, but those of the connection and the body",
        ),
        Func::new(Void, "req_set_header", &[N, NAME, TEXT], "Sets a field"),
        Func::new(Void, "req_unset_header", &[N, NAME], "Removes the fields of a name"),
        Func::new(
            Void,
            "req_set_max_loops",
            &[N, Arg::new(Int, "loops")],
            "How many requests deep a request to this server may be, 1 at first; a deeper one isn't sent",
        ),
        Func::new(
            Void,
            "req_set_iparam",
            &[N, NAME, Arg::new(Int, "value")],
            "A number by curl's name, with or without CURLOPT_: TIMEOUT, TIMEOUT_MS, CONNECTTIMEOUT, CONNECTTIMEOUT_MS, and \
             SSL_VERIFYHOST and SSL_VERIFYPEER, which http has no use for. Others fail",
        ),
        Func::new(
            Void,
            "req_set_sparam",
            &[N, NAME, TEXT],
            "A text by curl's name: POSTFIELDS, a body to POST; CUSTOMREQUEST, USERAGENT, REFERER, COOKIE. Others fail",
        ),
        Func::new(Void, "req_send", &[N], "Sends it; VCL goes on meanwhile"),
        Func::new(Void, "req_send_and_finish", &[N], "Sends it and forgets it; nobody waits for its answer"),
        Func::new(Bool, "req_sent", &[N], "Whether it has been sent"),
        Func::new(Void, "resp_wait", &[N], "Waits until its answer is there, or it has failed").waits(),
        Func::new(Bool, "resp_is_ready", &[N], "Whether its answer is there"),
        Func::new(Int, "resp_get_status", &[N], "The answer's status; 0 while and when there is none"),
        Func::new(String, "resp_get_reason", &[N], "The answer's reason"),
        Func::new(String, "resp_get_header", &[N, NAME], "The value of the answer's first field of a name"),
        Func::new(
            Void,
            "resp_copy_headers",
            &[N],
            "Sets the answer's fields on resp or beresp, but those of the connection and the body",
        ),
        Func::new(Int, "resp_get_body_len", &[N], "Bytes of the answer's body"),
        Func::new(String, "resp_get_body", &[N], "The answer's body"),
        Func::new(Blob, "resp_get_body_blob", &[N], "The answer's body as bytes"),
        Func::new(
            String,
            "varnish_url",
            &[Arg::new(String, "path")],
            "The URL of a path at the address that the client's connection has here",
        ),
        Func::new(
            String,
            "prefetch_next_url",
            &[Arg::new(String, "prefix").or(D::Null)],
            "The transaction's URL at that address, with the first number in it, or the first after prefix, one higher; unset without one",
        ),
    ],
};
