// SPDX-License-Identifier: BSD-2-Clause
//! What VCL's variables, subroutines, actions and statements are for, in a sentence each: for vcl(7) and editors.

use crate::vclvars::{Method, Return};

/// The meaning of the variable called so (as in [`crate::vclvars::VARS`]); empty when there is none.
pub fn variable(name: &str) -> &'static str {
    VARIABLES.iter().find(|(of, _)| *of == name).map_or("", |(_, text)| text)
}

/// The time at which the subroutine runs, and its purpose.
pub fn method(method: Method) -> &'static str {
    match method {
        Method::Recv => "A request has come in whole (its body aside), or is restarted. Decides what to do with it.",
        Method::Pipe => {
            "The connection is about to be joined to a backend's; from here on bytes pass both ways unread."
        }
        Method::Pass => "The request goes to a backend, and the answer is stored for nobody else.",
        Method::Hash => "Makes the key under which the object is looked up: what hash_data() is given, in order.",
        Method::Purge => "The purge of all variants of the object is done.",
        Method::Miss => "The object isn't in the cache and is about to be fetched.",
        Method::Hit => "An object was found in the cache, perhaps one past its TTL but within its grace.",
        Method::Deliver => "A response is about to be sent, whether it comes from the cache or from a backend.",
        Method::Synth => {
            "A response is made here, by return (synth(...)) or because of an error. Its body is set here."
        }
        Method::BackendFetch => "The request to a backend is about to be sent; bereq may still be changed.",
        Method::BackendResponse => "A backend's response head is here: decides whether and for how long it is stored.",
        Method::BackendError => "No backend answered well enough; a response can be made here in place of its.",
        Method::BackendRefresh => {
            "A 304 has come for a stale object: decides which head it has from now on. Not called unless the VCL has it."
        }
        Method::Init => "The VCL is being loaded: directors and other objects of modules are made here.",
        Method::Fini => "The VCL is being discarded, and no request uses it any more.",
    }
}

/// The effect of the action of `return (...)`.
pub fn action(action: Return) -> &'static str {
    match action {
        Return::Abandon => "Gives the fetch up; the client gets 503, unless it was a fetch in the background.",
        Return::Beresp => "The refreshed object has the head of the 304, with what tells of the body from the old one.",
        Return::Deliver => "Goes on: the object or response is stored or sent as it is now.",
        Return::Error => "Goes to vcl_backend_error, with a status and a reason if given.",
        Return::Fail => "Fails the transaction: 503 for the client; in vcl_init the VCL doesn't load.",
        Return::Fetch => "Sends the request to a backend.",
        Return::Hash => "Looks the object up in the cache.",
        Return::Lookup => "The key is complete.",
        Return::Merge => "The refreshed object has the old head, updated by the fields of the 304.",
        Return::ObjStale => "The refreshed object keeps its old head.",
        Return::Ok => "The VCL may be used, or was cleaned up.",
        Return::Pass => "Goes past the cache; in vcl_backend_response with a time, for which later requests pass too.",
        Return::Pipe => "Joins the client's connection to a backend's.",
        Return::Purge => "Removes the object and all its variants from the cache.",
        Return::Restart => "Begins again at vcl_recv with the request as it is now, at most max_restarts times.",
        Return::Retry => "Asks a backend again, at most max_retries times.",
        Return::Synth => "Makes a response with this status and reason, by vcl_synth.",
        Return::Vcl => "Goes on in the VCL that has this label.",
    }
}

/// Statements and declarations: the word, its form, what it does.
pub const STATEMENTS: &[(&str, &str, &str)] = &[
    (
        "acl",
        "acl NAME { \"host\"; \"10.0.0.0\"/8; ! \"10.1.1.1\"; }",
        "Names a set of addresses, for `client.ip ~ NAME`.",
    ),
    ("backend", "backend NAME { .host = \"...\"; .port = \"...\"; }", "Names an origin server, and how to reach it."),
    ("ban", "ban(STRING)", "Adds a ban: what it matches in the cache is not delivered any more."),
    ("call", "call SUB;", "Runs a subroutine here; a return there ends the subroutine that Varnish called."),
    ("elif", "elif (CONDITION) { ... }", "Else if."),
    ("else", "else { ... }", "When no condition before it held."),
    ("elseif", "elseif (CONDITION) { ... }", "Else if."),
    ("elsif", "elsif (CONDITION) { ... }", "Else if."),
    ("hash_data", "hash_data(STRING)", "Adds a text to the key of the lookup; only in vcl_hash."),
    ("if", "if (CONDITION) { ... }", "Runs what follows when the condition holds."),
    ("import", "import MODULE [as NAME] [from \"path\"];", "Makes a module's functions and objects known."),
    ("include", "include [+glob] \"file\";", "Reads another file here."),
    ("new", "new NAME = MODULE.TYPE(...);", "Makes an object of a module; only in vcl_init."),
    ("probe", "probe NAME { .url = \"...\"; }", "Names a way to ask a backend for its health."),
    (
        "regsub",
        "regsub(STRING, REGEX, STRING)",
        "The text with the first match replaced; \\0 to \\9 stand for what matched.",
    ),
    ("regsuball", "regsuball(STRING, REGEX, STRING)", "The text with all matches replaced."),
    ("return", "return (ACTION);", "Ends the subroutine and says what happens next."),
    ("set", "set VARIABLE = EXPRESSION;", "Gives a variable a value."),
    ("sub", "sub NAME { ... }", "Defines a subroutine; several of one vcl_ name are joined in order."),
    ("synthetic", "synthetic(STRING)", "Gives a made response its body; in vcl_synth and vcl_backend_error."),
    ("unset", "unset VARIABLE;", "Removes a header field, or a body."),
    ("vcl", "vcl 4.1;", "The version of the language; the first thing in a file."),
];

/// The words of `return (...)` with arguments, in the form of [`STATEMENTS`].
pub const RETURNED: [(&str, &str, &str); 4] = [
    ("synth", "synth(INT status, STRING reason)", "Makes a response with this status and reason, by vcl_synth."),
    ("error", "error(INT status, STRING reason)", "Goes to vcl_backend_error with this status and reason."),
    ("pass", "pass(DURATION ttl)", "Later requests pass too, for this long; in vcl_backend_response."),
    ("vcl", "vcl(LABEL)", "Goes on in the VCL that has this label."),
];

/// Statements that only VCL before 4.0 has, in the form of [`STATEMENTS`].
pub const OLD_STATEMENTS: &[(&str, &str, &str)] = &[
    ("ban_url", "ban_url(REGEX);", "Adds a ban on URLs. Since 4.0: `ban(\"req.url ~ \" + REGEX)`."),
    (
        "error",
        "error STATUS [\"REASON\"];",
        "Makes an answer, by vcl_error. Since 4.0: `return (synth(STATUS, \"REASON\"))`.",
    ),
    ("esi", "esi;", "Reads the body for ESI instructions (2.x). Later: `set beresp.do_esi = true;`."),
    ("log", "log STRING;", "Writes to the log (2.1). Later: `std.log(STRING)`."),
    ("panic", "panic STRING;", "Stops the process. Since 4.0: `return (fail)`."),
    (
        "purge",
        "purge(EXPRESSION); (2.x) or purge; (3.0)",
        "2.x: adds a ban. 3.0: removes the object and its variants, in vcl_hit and vcl_miss. Since 4.0: `ban(...)`, `return (purge)`.",
    ),
    ("purge_hash", "purge_hash(STRING);", "Adds a ban on keys (2.0)."),
    ("purge_url", "purge_url(REGEX);", "Adds a ban on URLs (2.x). Since 4.0: `ban(\"req.url ~ \" + REGEX)`."),
    ("remove", "remove HEADER;", "Removes a header field. Since 4.0: `unset`."),
    ("rollback", "rollback;", "Takes back all changes of the request. Since 4.0: `std.rollback(req)`."),
];

/// The effect of the word of `return (...)`, in VCL before 4.0.
pub fn old_action(word: &str) -> &'static str {
    match word {
        "lookup" => action(Return::Hash),
        "hash" => action(Return::Lookup),
        "error" => "Makes an answer, by vcl_error.",
        "hit_for_pass" => "Remembers that requests for this object pass.",
        "discard" | "keep" => "Of 2.0, where nothing came of it.",
        _ => Return::ALL.into_iter().find(|a| a.name() == word).map_or("", action),
    }
}

/// The purpose of an attribute of a backend or a probe; empty when there is none.
pub fn field(name: &str) -> &'static str {
    FIELDS.iter().find(|(of, _)| *of == name).map_or("", |(_, text)| text)
}

#[rustfmt::skip]
const FIELDS: &[(&str, &str)] = &[
    ("between_bytes_timeout", "How long to wait for the backend's next byte."),
    ("certificate", "The file of our own certificate and its key, for a backend that asks for one by TLS."),
    ("connect_timeout", "How long to wait for a connection to the backend, TLS handshake included."),
    ("expect_close", "Whether the backend is to close the connection after the probe's answer."),
    ("expected_response", "The status that a healthy backend answers the probe with; 200 if not given."),
    ("first_byte_timeout", "How long to wait for the first byte of the backend's answer."),
    ("host", "The backend's name or address."),
    ("host_header", "The Host field of requests that have none, and of probes."),
    ("initial", "How many probes count as good when the VCL is loaded; one less than the threshold if not given."),
    ("interval", "How often the probe asks; 5s if not given."),
    ("max_connections", "Most connections to the backend at one time; without it there is no limit."),
    ("path", "The Unix socket of the backend, in place of .host and .port."),
    ("port", "The backend's port, as text; \"80\" if not given, \"443\" with .ssl."),
    ("preamble", "Bytes that are sent first on each connection: a BLOB."),
    ("probe", "How the backend is asked for its health: a probe's name, or { ... }."),
    ("proto", "The version of HTTP: \"http/1.1\", \"h2\" or, with .ssl, \"auto\": what the backend chooses, as if not given."),
    ("proxy_header", "The version of the PROXY protocol to begin connections with: 1 or 2."),
    ("request", "The whole request of the probe, a text for each line; in place of .url."),
    ("ssl", "1: the backend is spoken to by TLS."),
    ("ssl_ca_file", "The file of the authorities whose certificates are trusted; the system's if not given."),
    ("ssl_crl_file", "The file of lists of revoked certificates."),
    ("ssl_nosni", "1: as .ssl_sni = 0."),
    ("ssl_noverify", "1: as .ssl_verify_peer = 0."),
    ("ssl_sni", "0: the name isn't told in the TLS handshake."),
    ("ssl_verify_host", "1: the backend's certificate must be for its name, which is .host_header or .host."),
    ("ssl_verify_peer", "0: any certificate will do, also one that nobody trusts."),
    ("threshold", "How many of the last probes must be good for the backend to be healthy; 3 if not given."),
    ("timeout", "How long a probe may take; 2s if not given."),
    ("url", "The URL that the probe asks for; \"/\" if not given."),
    ("wait_limit", "How many requests may wait for a connection once .max_connections are in use."),
    ("wait_timeout", "How long a request waits for one of .max_connections."),
    ("window", "How many of the last probes are looked at; 8 if not given."),
];

#[rustfmt::skip]
const VARIABLES: &[(&str, &str)] = &[
    ("bereq", "The whole request to the backend, for functions of modules."),
    ("bereq.backend", "The backend or director that the fetch goes to."),
    ("bereq.between_bytes_timeout", "How long to wait for the backend's next byte."),
    ("bereq.body", "The request's body; can be unset, so that none is sent."),
    ("bereq.connect_timeout", "How long to wait for a connection to the backend."),
    ("bereq.do_slice", "Whether the backend is asked for one slice of the object, by Range. Unset, it is true where the object that is refreshed is kept in slices."),
    ("bereq.first_byte_timeout", "How long to wait for the first byte of the backend's answer."),
    ("bereq.hash", "The key of the object to be fetched."),
    ("bereq.http", "The header fields of the request to the backend."),
    ("bereq.is_bgfetch", "Whether nobody waits for this fetch: it refreshes an object in grace."),
    ("bereq.is_hitmiss", "Whether the fetch comes of a hit-for-miss object."),
    ("bereq.is_hitpass", "Whether the fetch comes of a hit-for-pass object."),
    ("bereq.method", "The method of the request to the backend."),
    ("bereq.peers", "Whether the key's owner among the peers (--peers) is asked before the origin; vcl_backend_fetch may switch that off."),
    ("bereq.proto", "The protocol version of the request to the backend."),
    ("bereq.retries", "How often this fetch has been tried again."),
    ("bereq.slice_size", "Bytes in a slice of the object that is fetched, a power of two; the parameter slice_size unless set."),
    ("bereq.task_deadline", "How long the pipe may last in all; 0: as the parameter pipe_task_deadline says."),
    ("bereq.time", "When this fetch, or its retry, began."),
    ("bereq.rfc9111", "Whether RFC 9111 says what becomes of the response: req.rfc9111, until it is set."),
    ("bereq.uncacheable", "Whether the fetch is a pass, or comes of hit-for-pass: its object won't be stored."),
    ("bereq.url", "The URL asked of the backend."),
    ("bereq.xid", "The id of this transaction."),
    ("beresp", "The whole response of the backend, for functions of modules."),
    ("beresp.age", "The age of the response when it came, from its Age field."),
    ("beresp.backend", "The backend that answered; a director's choice."),
    ("beresp.backend.ip", "The address of the backend that answered."),
    ("beresp.backend.name", "The name of the backend that answered."),
    ("beresp.body", "The body of a response made in vcl_backend_error."),
    ("beresp.do_brotli", "Whether the body is packed in br before it is stored (parameter http_brotli_support)."),
    ("beresp.do_esi", "Whether the body is read for ESI instructions."),
    ("beresp.do_gunzip", "Whether a gzipped body is unpacked before it is stored."),
    ("beresp.do_gzip", "Whether the body is gzipped before it is stored."),
    ("beresp.do_slice", "Whether the object is kept in slices, which are fetched when they are asked for. True for what was asked for so, and for what is as long as slice_min says; set, it has an effect only if the response can be had in slices."),
    ("beresp.do_stream", "Whether clients get the body while it is being fetched."),
    ("beresp.do_unbrotli", "Whether a body in br is unpacked before it is stored."),
    ("beresp.do_unzstd", "Whether a body in zstd is unpacked before it is stored."),
    ("beresp.do_zstd", "Whether the body is packed in zstd before it is stored (parameter http_zstd_support)."),
    ("beresp.filters", "The filters between the backend and the store, in order."),
    ("beresp.grace", "How long the object may be delivered past its TTL, while a new one is fetched."),
    ("beresp.http", "The header fields of the backend's response."),
    ("beresp.keep", "How long the object is kept past TTL and grace, for conditional requests to the backend."),
    ("beresp.proto", "The protocol version of the backend's response."),
    ("beresp.reason", "The reason phrase of the backend's response."),
    ("beresp.status", "The status of the backend's response."),
    ("beresp.storage", "The store that takes the object."),
    ("beresp.storage_hint", "The name of the store that takes the object; beresp.storage in newer files."),
    ("beresp.tags", "The tags by which the object can be purged, between blanks: those in the fields that tag_fields names, until they are set."),
    ("beresp.time", "When the backend's response head was complete."),
    ("beresp.transit_buffer", "How many bytes a passed body may be ahead of its client; 0: any number."),
    ("beresp.ttl", "How long the object is fresh. 0 or less: it isn't stored for others."),
    ("beresp.uncacheable", "Whether the response is not to be stored; makes a hit-for-miss object."),
    ("beresp.was_304", "Whether the backend confirmed the object that was there, by 304."),
    ("client.identity", "Who the client is, for directors; its address unless set."),
    ("client.ip", "The client's address; by PROXY, the one that the proxy names."),
    ("local.endpoint", "The address that the listening socket was given by -a."),
    ("local.ip", "The address that the client's connection came in at."),
    ("local.socket", "The name of the listening socket, as -a names it (a0, a1 ...)."),
    ("now", "The time; the same throughout a subroutine."),
    ("obj.age", "How old the object is."),
    ("obj.can_esi", "Whether the object has ESI instructions."),
    ("obj.grace", "The object's grace."),
    ("obj.hits", "How often the object has been a hit; 0 at the first delivery."),
    ("obj.http", "The header fields of the object."),
    ("obj.keep", "The object's keep."),
    ("obj.proto", "The protocol version of the stored response."),
    ("obj.reason", "The reason phrase of the stored response."),
    ("obj.status", "The status of the stored response."),
    ("obj.storage", "The store that holds the object."),
    ("obj.time", "When the object was made, by its backend's clock if its Age says so."),
    ("obj.ttl", "How long the object is still fresh; negative in grace."),
    ("obj.uncacheable", "Whether the object is one of a pass, hit-for-miss or hit-for-pass."),
    ("obj_stale.age", "How old the stale object is."),
    ("obj_stale.can_esi", "Whether the stale object has ESI instructions."),
    ("obj_stale.grace", "The stale object's grace."),
    ("obj_stale.hits", "How often the stale object has been a hit."),
    ("obj_stale.http", "The header fields of the stale object."),
    ("obj_stale.is_valid", "Whether the stale object is still in the cache: not purged, say, while the backend was asked."),
    ("obj_stale.keep", "The stale object's keep."),
    ("obj_stale.proto", "The protocol version of the stored response."),
    ("obj_stale.reason", "The reason phrase of the stored response."),
    ("obj_stale.status", "The status of the stored response."),
    ("obj_stale.storage", "The store that holds the stale object."),
    ("obj_stale.time", "When the stale object was made."),
    ("obj_stale.ttl", "How long the stale object is still fresh: negative."),
    ("obj_stale.uncacheable", "Whether the stale object is one of a pass, hit-for-miss or hit-for-pass."),
    ("param.backend_idle_timeout", "What the parameter backend_idle_timeout is now."),
    ("param.backend_wait_limit", "What the parameter backend_wait_limit is now."),
    ("param.backend_wait_timeout", "What the parameter backend_wait_timeout is now."),
    ("param.between_bytes_timeout", "What the parameter between_bytes_timeout is now."),
    ("param.connect_timeout", "What the parameter connect_timeout is now."),
    ("param.default_grace", "What the parameter default_grace is now."),
    ("param.default_keep", "What the parameter default_keep is now."),
    ("param.default_ttl", "What the parameter default_ttl is now."),
    ("param.first_byte_timeout", "What the parameter first_byte_timeout is now."),
    ("param.http_lenient", "What the parameter http_lenient is now."),
    ("param.idle_send_timeout", "What the parameter idle_send_timeout is now."),
    ("param.max_esi_depth", "What the parameter max_esi_depth is now."),
    ("param.max_restarts", "What the parameter max_restarts is now."),
    ("param.max_retries", "What the parameter max_retries is now."),
    ("param.pipe_task_deadline", "What the parameter pipe_task_deadline is now."),
    ("param.pipe_timeout", "What the parameter pipe_timeout is now."),
    ("param.send_timeout", "What the parameter send_timeout is now."),
    ("param.shortlived", "What the parameter shortlived is now."),
    ("param.timeout_idle", "What the parameter timeout_idle is now."),
    ("param.uncacheable_ttl", "What the parameter uncacheable_ttl is now."),
    ("remote.ip", "The address of the other end of the connection: the client's, or a proxy's."),
    ("req", "The whole request, for functions of modules."),
    ("req.backend_hint", "The backend or director that a fetch for this request will go to."),
    ("req.can_gzip", "Whether the client takes gzip."),
    ("req.esi", "Whether ESI instructions are followed for this request."),
    ("req.esi_level", "How deep in ESI includes this request is; 0 is the page itself."),
    ("req.grace", "The most grace that this request accepts."),
    ("req.hash", "The key that the object was looked up under."),
    ("req.hash_always_miss", "Fetches anew though there is an object; the new one takes its place."),
    ("req.hash_ignore_busy", "Doesn't wait for another request's fetch of the same object."),
    ("req.hash_ignore_vary", "Takes any variant, whatever its Vary field says."),
    ("req.http", "The header fields of the request."),
    ("req.is_hitmiss", "Whether a hit-for-miss object was found."),
    ("req.is_hitpass", "Whether a hit-for-pass object was found."),
    ("req.is_peer", "Whether another cache of the second tier (--peers) asks, and not a client."),
    ("req.method", "The method of the request: GET, POST ..."),
    ("req.proto", "The protocol version of the request."),
    ("req.rfc9111", "Whether this request is answered by RFC 9111 where Varnish differs: feature=+rfc9111, until it is set."),
    ("req.restarts", "How often this request has been restarted."),
    ("req.class", "The class of the request, of those that the parameter classes declares: it counts if the request needs a backend. Empty is none."),
    ("req.class_state", "What became of the request in its class: served, full (there was no chair), late (it waited for too long), or empty."),
    ("req.storage", "The store for the request's body, should it be kept."),
    ("req.time", "When the request came in, or was restarted."),
    ("req.transport", "How the request came: HTTP/1 or HTTP/2."),
    ("req.ttl", "The greatest age of an object that this request accepts."),
    ("req.url", "The URL that is asked for, without scheme and host."),
    ("req.xid", "The id of this transaction."),
    ("req_top.http", "The header fields of the page's request, of which this is an ESI include."),
    ("req_top.method", "The method of the page's request, of which this is an ESI include."),
    ("req_top.proto", "The protocol version of the page's request, of which this is an ESI include."),
    ("req_top.time", "The time of the page's request, of which this is an ESI include."),
    ("req_top.url", "The URL of the page, of which this is an ESI include."),
    ("resp", "The whole response, for functions of modules."),
    ("resp.body", "The body of a response made in vcl_synth."),
    ("resp.do_esi", "Whether ESI instructions are followed in this delivery."),
    ("resp.filters", "The filters between the store and the client, in order."),
    ("resp.http", "The header fields of the response."),
    ("resp.is_streaming", "Whether the body is still being fetched."),
    ("resp.proto", "The protocol version of the response."),
    ("resp.reason", "The reason phrase of the response."),
    ("resp.status", "The status of the response."),
    ("resp.time", "When the response was made ready."),
    ("server.hostname", "The name of the machine."),
    ("server.identity", "The name of this instance: -i, or the machine's."),
    ("server.ip", "The address that the client's request came to; by PROXY, the one that the proxy names."),
    ("sess.idle_send_timeout", "How long to wait while the client takes nothing of the response."),
    ("sess.send_timeout", "How long the sending of a response may take in all."),
    ("sess.timeout_idle", "How long to wait for the client's next request."),
    ("sess.timeout_linger", "How long to wait for the client's next request before the connection is parked."),
    ("sess.xid", "The id of the client's connection."),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vclvars::VARS;

    #[test]
    fn every_variable_has_a_text_and_no_text_is_left_over() {
        for var in VARS {
            assert!(!variable(var.name).is_empty(), "{}", var.name);
        }
        for (name, _) in VARIABLES {
            assert!(VARS.iter().any(|var| var.name == *name), "{name}");
        }
    }
}
