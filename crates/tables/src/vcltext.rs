// SPDX-License-Identifier: BSD-2-Clause
//! What VCL's variables, subroutines, actions and statements are for, in a sentence each: for vcl(7) and editors.

use crate::vclsubs::{Method, Return};

/// The meaning of the variable called so (as in [`crate::vclvars::VARS`]); empty when there is none.
pub fn variable(name: &str) -> &'static str {
    VARIABLES.iter().find(|(of, _)| *of == name).map_or("", |(_, text)| text)
}

/// The time at which the subroutine runs, and its purpose.
pub fn method(method: Method) -> &'static str {
    match method {
        Method::Recv => "A request has arrived (its header, not its body) or was restarted. Decides how it is handled.",
        Method::Pipe => {
            "The client's connection is about to be piped to a backend; from then on bytes are forwarded in both directions unchanged."
        }
        Method::Pass => "The request is passed to a backend, and the response isn't cached.",
        Method::Hash => "Builds the cache key from the arguments of hash_data(), in order.",
        Method::Purge => "All variants of the object have been purged.",
        Method::Miss => "The object isn't in the cache and is about to be fetched.",
        Method::Hit => "An object was found in the cache, fresh or within its grace.",
        Method::Deliver => "A response is about to be sent, whether it comes from the cache or from a backend.",
        Method::Synth => {
            "A synthetic response is generated, because of return (synth(...)) or an error. Sets its body."
        }
        Method::BackendFetch => "The request to a backend is about to be sent. bereq can still be changed.",
        Method::BackendResponse => {
            "The header of a backend's response has arrived. Decides whether and for how long it is cached."
        }
        Method::BackendError => "The fetch failed. Can set a synthetic response instead.",
        Method::BackendRefresh => {
            "A 304 has arrived for a stale object. Decides which header the object has from now on. Only called if the VCL defines it."
        }
        Method::Init => "The VCL is being loaded. Creates directors and other objects of modules.",
        Method::Fini => "The VCL is being discarded. No request uses it any more.",
    }
}

pub fn action(action: Return) -> &'static str {
    match action {
        Return::Abandon => "Abandons the fetch. The client gets a 503, unless it was a background fetch.",
        Return::Beresp => {
            "The refreshed object gets the header of the 304; headers that describe the body stay those of the old object."
        }
        Return::Deliver => "Continues: the object or response is stored or sent as it is.",
        Return::Error => "Continues in vcl_backend_error, with a status and a reason if given.",
        Return::Fail => "Fails the transaction: the client gets a 503. In vcl_init the VCL isn't loaded.",
        Return::Fetch => "Sends the request to a backend.",
        Return::Hash => "Looks the object up in the cache.",
        Return::Lookup => "The key is complete.",
        Return::Merge => "The refreshed object gets the old header, updated by the headers of the 304.",
        Return::ObjStale => "The refreshed object keeps the old header.",
        Return::Ok => "vcl_init or vcl_fini succeeded.",
        Return::Pass => {
            "Bypasses the cache. In vcl_backend_response with a duration for which later requests are passed, too."
        }
        Return::Pipe => "Pipes the client's connection to a backend.",
        Return::Purge => "Removes the object and all its variants from the cache.",
        Return::Restart => "Restarts the request at vcl_recv as it is now, at most max_restarts times.",
        Return::Retry => "Retries the fetch, at most max_retries times.",
        Return::Synth => "Generates a synthetic response with this status and reason; continues in vcl_synth.",
        Return::Vcl => "Continues in the VCL with this label.",
    }
}

/// Statements and declarations: the word, its form, what it does.
pub const STATEMENTS: &[(&str, &str, &str)] = &[
    (
        "acl",
        "acl NAME { \"host\"; \"10.0.0.0\"/8; ! \"10.1.1.1\"; }",
        "Declares a set of addresses, for `client.ip ~ NAME`.",
    ),
    (
        "backend",
        "backend NAME { .host = \"...\"; .port = \"...\"; }",
        "Declares a backend: an origin server and how to reach it.",
    ),
    ("ban", "ban(STRING)", "Adds a ban: matching objects in the cache are no longer delivered."),
    ("call", "call SUB;", "Runs a subroutine. A return in it also ends the calling subroutine."),
    ("elif", "elif (CONDITION) { ... }", "Else if."),
    ("else", "else { ... }", "Runs the block if none of the previous conditions was true."),
    ("elseif", "elseif (CONDITION) { ... }", "Else if."),
    ("elsif", "elsif (CONDITION) { ... }", "Else if."),
    ("hash_data", "hash_data(STRING)", "Adds a string to the cache key; only in vcl_hash."),
    ("if", "if (CONDITION) { ... }", "Runs the block if the condition is true."),
    ("import", "import MODULE [as NAME] [from \"path\"];", "Makes a module's functions and objects available."),
    ("include", "include [+glob] \"file\";", "Includes another file at this place."),
    ("new", "new NAME = MODULE.TYPE(...);", "Creates an object of a module; only in vcl_init."),
    ("probe", "probe NAME { .url = \"...\"; }", "Declares a health check for backends."),
    (
        "regsub",
        "regsub(STRING, REGEX, STRING)",
        "Returns the string with the first match replaced; \\0 to \\9 are the match and its groups.",
    ),
    ("regsuball", "regsuball(STRING, REGEX, STRING)", "Returns the string with all matches replaced."),
    ("return", "return (ACTION);", "Ends the subroutine with an action."),
    ("set", "set VARIABLE = EXPRESSION;", "Sets a variable."),
    (
        "sub",
        "sub NAME { ... }",
        "Defines a subroutine. Several definitions of one vcl_ name are concatenated in order.",
    ),
    ("synthetic", "synthetic(STRING)", "Sets the body of a synthetic response; in vcl_synth and vcl_backend_error."),
    ("unset", "unset VARIABLE;", "Removes a header or a body."),
    ("vcl", "vcl 4.1;", "The version of the language; must be first in a file."),
];

/// The words of `return (...)` with arguments, in the form of [`STATEMENTS`].
pub const RETURNED: [(&str, &str, &str); 4] = [
    ("synth", "synth(INT status, STRING reason)", "Generates a synthetic response; continues in vcl_synth."),
    ("error", "error(INT status, STRING reason)", "Continues in vcl_backend_error with this status and reason."),
    ("pass", "pass(DURATION ttl)", "Also passes later requests for this long; in vcl_backend_response."),
    ("vcl", "vcl(LABEL)", "Continues in the VCL with this label."),
];

/// Statements that only VCL before 4.0 has, in the form of [`STATEMENTS`].
pub const OLD_STATEMENTS: &[(&str, &str, &str)] = &[
    ("ban_url", "ban_url(REGEX);", "Adds a ban on URLs. Since 4.0: `ban(\"req.url ~ \" + REGEX)`."),
    (
        "error",
        "error STATUS [\"REASON\"];",
        "Generates a synthetic response in vcl_error. Since 4.0: `return (synth(STATUS, \"REASON\"))`.",
    ),
    ("esi", "esi;", "Parses the body for ESI (2.x). Later: `set beresp.do_esi = true;`."),
    ("log", "log STRING;", "Writes to the log (2.1). Later: `std.log(STRING)`."),
    ("panic", "panic STRING;", "Stops the process. Since 4.0: `return (fail)`."),
    (
        "purge",
        "purge(EXPRESSION); (2.x) or purge; (3.0)",
        "2.x: adds a ban. 3.0: removes the object and its variants, in vcl_hit and vcl_miss. Since 4.0: `ban(...)`, `return (purge)`.",
    ),
    ("purge_hash", "purge_hash(STRING);", "Adds a ban on keys (2.0)."),
    ("purge_url", "purge_url(REGEX);", "Adds a ban on URLs (2.x). Since 4.0: `ban(\"req.url ~ \" + REGEX)`."),
    ("remove", "remove HEADER;", "Removes a header. Since 4.0: `unset`."),
    ("rollback", "rollback;", "Undoes all changes of the request. Since 4.0: `std.rollback(req)`."),
];

/// The effect of the word of `return (...)`, in VCL before 4.0.
pub fn old_action(word: &str) -> &'static str {
    match word {
        "lookup" => action(Return::Hash),
        "hash" => action(Return::Lookup),
        "error" => "Generates a synthetic response in vcl_error.",
        "hit_for_pass" => "Caches the decision to pass requests for this object.",
        "discard" | "keep" => "An action of 2.0 without effect.",
        _ => Return::ALL.into_iter().find(|a| a.name() == word).map_or("", action),
    }
}

/// The purpose of an attribute of a backend or a probe; empty when there is none.
pub fn field(name: &str) -> &'static str {
    FIELDS.iter().find(|(of, _)| *of == name).map_or("", |(_, text)| text)
}

#[rustfmt::skip]
const FIELDS: &[(&str, &str)] = &[
    ("authority", "Name for the TLS server name that the backend of .via asks for (default: .host_header, else .host). \"\": none."),
    ("between_bytes_timeout", "Longest silence of the backend within a response."),
    ("certificate", "File with the client certificate and key, for a backend that requires one (TLS)."),
    ("connect_timeout", "How long connecting to the backend may take, TLS handshake included."),
    ("expect_close", "Whether the backend is expected to close the connection after the probe's response."),
    ("expected_response", "Status of a good response to the probe (default 200)."),
    ("first_byte_timeout", "How long to wait for the first byte of the backend's response."),
    ("host", "Host name or address of the backend."),
    ("host_header", "Host header for requests without one, and for probes."),
    ("initial", "Number of probes that count as good when the VCL is loaded (default: threshold minus 1)."),
    ("interval", "Time between two probes (default 5s)."),
    ("max_connections", "Largest number of concurrent connections to the backend (default: no limit)."),
    ("path", "Unix socket of the backend, instead of .host and .port."),
    ("port", "Port of the backend, as a string (default \"80\", with .ssl \"443\")."),
    ("preamble", "A BLOB that is sent first on each connection."),
    ("probe", "Health check of the backend: a probe's name, or { ... }."),
    ("proto", "HTTP version: \"http/1.1\", \"h2\", or with .ssl \"auto\" (the default there): the backend chooses by ALPN."),
    ("proxy_header", "Send a PROXY header of this version (1 or 2) on each connection."),
    ("request", "The complete request of the probe, one string per line; instead of .url."),
    ("ssl", "1: connect to the backend with TLS."),
    ("ssl_ca_file", "File with trusted authorities (default: the system's)."),
    ("ssl_crl_file", "File with certificate revocation lists."),
    ("ssl_nosni", "1: as .ssl_sni = 0."),
    ("ssl_noverify", "1: as .ssl_verify_peer = 0."),
    ("ssl_sni", "0: don't send the name in the TLS handshake (SNI)."),
    ("ssl_verify_host", "1: the backend's certificate must be for its name (.host_header or .host)."),
    ("ssl_verify_peer", "0: accept any certificate of the backend, even an untrusted one."),
    ("threshold", "Number of probes in the window that must be good for the backend to be healthy (default 3)."),
    ("timeout", "How long a probe may take (default 2s)."),
    ("via", "Backend that connections go through; each begins with a PROXY header (version 2) with this backend's address and .authority."),
    ("url", "URL that the probe requests (default \"/\")."),
    ("wait_limit", "How many fetches may wait for a connection if .max_connections are in use."),
    ("wait_timeout", "How long a fetch waits for a connection if .max_connections are in use."),
    ("window", "Number of last probes that decide about the backend's health (default 8)."),
];

#[rustfmt::skip]
const VARIABLES: &[(&str, &str)] = &[
    ("bereq", "The complete request to the backend, as an argument for module functions."),
    ("bereq.backend", "The backend or director of the fetch."),
    ("bereq.between_bytes_timeout", "Longest silence of the backend within a response."),
    ("bereq.body", "The request's body. Unset it to send none."),
    ("bereq.connect_timeout", "How long connecting to the backend may take."),
    ("bereq.do_slice", "Whether to request only one slice of the object from the backend, with Range. Default: true if the refreshed object is sliced."),
    ("bereq.filters", "The filters of the request's body on its way to the backend, behind those of req.filters. Empty by default."),
    ("bereq.first_byte_timeout", "How long to wait for the first byte of the backend's response."),
    ("bereq.hash", "The cache key of the object to be fetched."),
    ("bereq.http", "The headers of the request to the backend."),
    ("bereq.is_bgfetch", "Whether this is a background fetch, which refreshes an object in grace."),
    ("bereq.is_hitmiss", "Whether the fetch was caused by a hit-for-miss object."),
    ("bereq.is_hitpass", "Whether the fetch was caused by a hit-for-pass object."),
    ("bereq.method", "The method of the request to the backend."),
    ("bereq.peers", "Whether the peer that owns the key (--peers) is asked before the origin. vcl_backend_fetch can turn it off."),
    ("bereq.proto", "The protocol version of the request to the backend."),
    ("bereq.retries", "How often this fetch has been retried."),
    ("bereq.retry_connect", "Whether a request is sent again if its connection was closed before the response (default: true). It is sent again only if that is safe."),
    ("bereq.slice_size", "Slice size of the object to be fetched, a power of two (default: the parameter slice_size)."),
    ("bereq.task_deadline", "How long the pipe may last in total (0: the parameter pipe_task_deadline)."),
    ("bereq.trace", "Whether VCL_trace is logged (default: req.trace). A change applies from the next statement on."),
    ("bereq.time", "When this fetch, or its retry, began."),
    ("bereq.rfc9111", "Whether the response is handled by RFC 9111 (default: req.rfc9111)."),
    ("bereq.uncacheable", "Whether the fetch is a pass or was caused by hit-for-pass. The response isn't cached."),
    ("bereq.url", "The URL requested from the backend."),
    ("bereq.xid", "The transaction ID (vxid): a number or a text, as needed."),
    ("beresp", "The complete response of the backend, as an argument for module functions."),
    ("beresp.age", "The age of the response when it arrived, from its Age header."),
    ("beresp.backend", "The backend that responded; with a director, the chosen one."),
    ("beresp.backend.ip", "The address of the backend that responded."),
    ("beresp.backend.name", "The name of the backend that responded."),
    ("beresp.body", "The body of a synthetic response; in vcl_backend_error."),
    ("beresp.do_brotli", "Whether the body is compressed with br before it is stored (parameter http_brotli_support)."),
    ("beresp.do_esi", "Whether the body is parsed for ESI."),
    ("beresp.do_gunzip", "Whether a gzip body is decompressed before it is stored."),
    ("beresp.do_gzip", "Whether the body is compressed with gzip before it is stored."),
    ("beresp.do_slice", "Whether the object is stored in slices, which are fetched on demand. True if bereq.do_slice was set, or if the object is at least as long as slice_min. It only has an effect if the backend supports it."),
    ("beresp.do_stream", "Whether the body is sent to clients while it is being fetched."),
    ("beresp.do_unbrotli", "Whether a br body is decompressed before it is stored."),
    ("beresp.do_unzstd", "Whether a zstd body is decompressed before it is stored."),
    ("beresp.do_zstd", "Whether the body is compressed with zstd before it is stored (parameter http_zstd_support)."),
    ("beresp.filters", "The filters between the backend and the store, in order."),
    ("beresp.grace", "How long the object may be served stale after its TTL, while a new one is fetched."),
    ("beresp.http", "The headers of the backend's response."),
    ("beresp.keep", "How long the object is kept after TTL and grace, for conditional requests to the backend."),
    ("beresp.proto", "The protocol version of the backend's response."),
    ("beresp.reason", "The reason phrase of the backend's response."),
    ("beresp.status", "The status of the backend's response."),
    ("beresp.storage", "The store for the object."),
    ("beresp.storage_hint", "The name of the store for the object; use beresp.storage in VCL 4.1."),
    ("beresp.tags", "The tags by which the object can be purged, separated by blanks (default: those in the headers of tag_fields)."),
    ("beresp.time", "When the header of the backend's response was complete."),
    ("beresp.transit_buffer", "How many bytes of a passed body may be buffered ahead of the client; 0: unlimited."),
    ("beresp.ttl", "How long the object is fresh. 0 or less: it isn't cached."),
    ("beresp.uncacheable", "Whether the response must not be cached. Creates a hit-for-miss object."),
    ("beresp.was_304", "Whether the backend confirmed the stale object with a 304."),
    ("client.identity", "The client's identity for directors (default: its address)."),
    ("client.ip", "The client's address; with PROXY, the one in the PROXY header."),
    ("local.endpoint", "The address of the listener, as given by -a."),
    ("local.ip", "The local address of the client's connection."),
    ("local.socket", "The name of the listener, as given by -a (a0, a1 ...)."),
    ("now", "The current time; constant within a subroutine."),
    ("obj.age", "The age of the object."),
    ("obj.can_esi", "Whether the object contains ESI markup."),
    ("obj.grace", "The object's grace."),
    ("obj.hits", "Number of hits on the object; 0 at its first delivery."),
    ("obj.http", "The headers of the object."),
    ("obj.keep", "The object's keep."),
    ("obj.proto", "The protocol version of the stored response."),
    ("obj.reason", "The reason phrase of the stored response."),
    ("obj.status", "The status of the stored response."),
    ("obj.storage", "The store that holds the object."),
    ("obj.time", "When the object was generated: its arrival, minus its Age."),
    ("obj.ttl", "Remaining TTL; negative in grace."),
    ("obj.uncacheable", "Whether the object is of a pass, hit-for-miss or hit-for-pass."),
    ("obj_stale.age", "The age of the stale object."),
    ("obj_stale.can_esi", "Whether the stale object contains ESI markup."),
    ("obj_stale.grace", "The stale object's grace."),
    ("obj_stale.hits", "Number of hits on the stale object."),
    ("obj_stale.http", "The headers of the stale object."),
    ("obj_stale.is_valid", "Whether the stale object is still in the cache, and wasn't purged during the fetch."),
    ("obj_stale.keep", "The stale object's keep."),
    ("obj_stale.proto", "The protocol version of the stored response."),
    ("obj_stale.reason", "The reason phrase of the stored response."),
    ("obj_stale.status", "The status of the stored response."),
    ("obj_stale.storage", "The store that holds the stale object."),
    ("obj_stale.time", "When the stale object was generated."),
    ("obj_stale.ttl", "Remaining TTL of the stale object: negative."),
    ("obj_stale.uncacheable", "Whether the stale object is of a pass, hit-for-miss or hit-for-pass."),
    ("param.backend_idle_timeout", "The current value of the parameter backend_idle_timeout."),
    ("param.backend_wait_limit", "The current value of the parameter backend_wait_limit."),
    ("param.backend_wait_timeout", "The current value of the parameter backend_wait_timeout."),
    ("param.between_bytes_timeout", "The current value of the parameter between_bytes_timeout."),
    ("param.connect_timeout", "The current value of the parameter connect_timeout."),
    ("param.default_grace", "The current value of the parameter default_grace."),
    ("param.default_keep", "The current value of the parameter default_keep."),
    ("param.default_ttl", "The current value of the parameter default_ttl."),
    ("param.first_byte_timeout", "The current value of the parameter first_byte_timeout."),
    ("param.http_lenient", "The current value of the parameter http_lenient."),
    ("param.idle_send_timeout", "The current value of the parameter idle_send_timeout."),
    ("param.max_esi_depth", "The current value of the parameter max_esi_depth."),
    ("param.max_restarts", "The current value of the parameter max_restarts."),
    ("param.max_retries", "The current value of the parameter max_retries."),
    ("param.pipe_task_deadline", "The current value of the parameter pipe_task_deadline."),
    ("param.pipe_timeout", "The current value of the parameter pipe_timeout."),
    ("param.send_timeout", "The current value of the parameter send_timeout."),
    ("param.shortlived", "The current value of the parameter shortlived."),
    ("param.timeout_idle", "The current value of the parameter timeout_idle."),
    ("param.transit_buffer", "The current value of the parameter transit_buffer."),
    ("param.uncacheable_ttl", "The current value of the parameter uncacheable_ttl."),
    ("remote.ip", "The address of the peer of the connection: the client or a proxy."),
    ("req", "The complete request, as an argument for module functions."),
    ("req.backend_hint", "The backend or director for fetches of this request."),
    ("req.can_gzip", "Whether the client accepts gzip."),
    ("req.esi", "Whether ESI is processed for this request."),
    ("req.esi_level", "The nesting level of ESI includes; 0 is the page itself."),
    ("req.filters", "The filters of the request's body as it comes from the client: gunzip, gzip, testgunzip and those of other codings. Empty by default."),
    ("req.grace", "The largest grace that this request accepts."),
    ("req.hash", "The cache key of the request."),
    ("req.hash_always_miss", "Fetch a new object even if one is cached; the new one replaces it."),
    ("req.hash_body", "Whether the cache key covers the method, the body, Content-Type, Content-Encoding, Content-Language, Content-Location and Content-Range of the request, and whether a fetch sends that method and body. True for QUERY (RFC 10008), false for POST unless set; always false for other methods."),
    ("req.hash_ignore_busy", "Don't wait for another request's fetch of the same object."),
    ("req.hash_ignore_vary", "Accept any variant, whatever its Vary header says."),
    ("req.http", "The headers of the request."),
    ("req.is_hitmiss", "Whether a hit-for-miss object was found."),
    ("req.is_hitpass", "Whether a hit-for-pass object was found."),
    ("req.is_peer", "Whether the request comes from another cache of the second tier (--peers) instead of a client."),
    ("req.max_age", "The largest age of an object that this request accepts; another name of req.ttl."),
    ("req.method", "The method of the request: GET, POST ..."),
    ("req.proto", "The protocol version of the request."),
    ("req.rfc9111", "Whether this request is handled by RFC 9111 where Varnish differs (default: feature=+rfc9111)."),
    ("req.restarts", "How often this request has been restarted."),
    ("req.tenant", "The tenant for which a backend is asked, and whose object it is. With tenant_by=host it is the host unless VCL sets it. Empty: none."),
    ("bereq.tenant", "The tenant of the request that caused the fetch; _others if its tenant found no row of its own. Empty: none."),
    ("obj.tenant", "The tenant whose object it is; _others if its tenant found no row of its own. Empty: none."),
    ("req.class", "The class of the request, as declared by the parameter classes. It applies if the request needs a backend. Empty: no class."),
    ("req.class_state", "The result of the request in its class: served, full (the queue was full), late (it waited too long), or empty."),
    ("req.bot.budget", "Seconds of the backends' time that crawlers together may use now; of a verified bot, its own. Negative if they were used in advance. 0 with bots=off."),
    ("req.bot.class", "The verdict about the client (parameter bots): reader, crawl, or verified. Before vcl_hash it is about the client, after it about the client and this object. With bots=off it is reader unless VCL sets it. VCL may set reader or crawl; an empty string means the verdict."),
    ("req.bot.cost", "Seconds of the backends' time that the client was charged with; a charge fades (bots_half_life)."),
    ("req.bot.network", "The number of the client's autonomous system, for example from import geoip2. Fetches are charged to its account, and new clients are compared with those of their network. 0: unknown."),
    ("req.bot.verified", "The name of the bot whose identity VCL has verified, for example with import botauth. It has a budget of its own. Empty: none."),
    ("req.storage", "The store for the request's body, if it is cached."),
    ("req.time", "When the request arrived or was restarted."),
    ("req.trace", "Whether VCL_trace is logged (default: feature=+trace). A change applies from the next statement on."),
    ("req.transport", "The transport of the request: HTTP/1 or HTTP/2."),
    ("req.ttl", "The largest age of an object that this request accepts."),
    ("req.url", "The requested URL, without scheme and host."),
    ("req.xid", "The transaction ID (vxid): a number or a text, as needed."),
    ("req_top.http", "The headers of the top-level request, if this is an ESI include."),
    ("req_top.method", "The method of the top-level request, if this is an ESI include."),
    ("req_top.proto", "The protocol version of the top-level request, if this is an ESI include."),
    ("req_top.time", "The time of the top-level request, if this is an ESI include."),
    ("req_top.url", "The URL of the top-level request, if this is an ESI include."),
    ("resp", "The complete response, as an argument for module functions."),
    ("resp.body", "The body of a synthetic response; in vcl_synth."),
    ("resp.do_esi", "Whether ESI is processed in this delivery."),
    ("resp.filters", "The filters between the store and the client, in order."),
    ("resp.http", "The headers of the response."),
    ("resp.is_streaming", "Whether the body is still being fetched."),
    ("resp.proto", "The protocol version of the response."),
    ("resp.reason", "The reason phrase of the response."),
    ("resp.status", "The status of the response."),
    ("resp.time", "When the response was ready."),
    ("server.hostname", "The name of the machine."),
    ("server.identity", "The name of this instance: that of -i, or the machine's."),
    ("server.ip", "The address to which the client connected; with PROXY, the one in the PROXY header."),
    ("sess.idle_send_timeout", "How long the client may read nothing of the response."),
    ("sess.send_timeout", "How long sending a whole response may take."),
    ("sess.timeout_idle", "How long to wait for the client's next request."),
    ("sess.timeout_linger", "Has no effect here; see the parameter timeout_linger."),
    ("sess.xid", "The ID (vxid) of the client's session: a number or a text, as needed."),
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
