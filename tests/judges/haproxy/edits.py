# SPDX-License-Identifier: BSD-2-Clause
"""Places of HAProxy's cases in which ours decides otherwise, and is right, too: {case: [(regex, text, why)]}. The rest of the case is judged."""

EDITS = {
    "cache/if-modified-since.vtc": [
        (r'(-url "/date" \\\s+-hdr "If-Modified-Since: Thu, 22 Oct 2020 [^\n]+\n\s+)rxresphdrs(\s+expect resp.status == )304', r"\1rxresp\g<2>200",
         "without rfc9111 a response is as old as the time at which it came, not as its Date")],
    "compression/etags_conversion.vtc": [
        (r'(txreq -url "/(?:invalid\d|multiple)"(?:(?!txreq).)*?)expect resp.http.content-encoding == "<undef>"(?:\s+expect resp.http.etag == [^\n]+)?',
         r'\1expect resp.http.content-encoding == "gzip"\n gunzip', "an ETag that is none, or isn't alone, doesn't keep a body from being compressed")],
    "http-messaging/h1_request_target_validation.vtc": [
        (r'(txreq -req "CONNECT".*?expect resp.status == )\d+', r"\g<1>405", "CONNECT isn't supported")],
    "http-messaging/h1_to_h1.vtc": [
        (r"\taccept\n(?:(?!accept).)*?expect req.bodylen == 38.*?(?=\taccept)", "", "a HEAD with a body is refused"),
        (r"\t# third request sends a body with a HEAD.*?(?=\t# fourth request)", "", "the same")],
    "http-messaging/h1_to_h2_upgrade.vtc": [
        (r"rxresp\s+expect resp.status == 400", "rxrst", "a malformed request over HTTP/2 resets its stream (RFC 9113 8.1.1)"),
        (r"client c2 .*?\} -run\n", "", "with feature=+http2 each listener takes the preface")],
    "http-messaging/h2_desync_attacks.vtc": [
        (r"rxresp\s+expect resp.status == 400", "rxrst", "a malformed request over HTTP/2 resets its stream"),
        (r"(client c6.*?expect resp.status == )200(.*?)server s1 -wait", r"\g<1>400\2", "Host and :authority that differ are refused (RFC 9113 8.3.1)")],
    "http-messaging/h2_to_h1.vtc": [
        (r"\n\s+rxwinup(?=\n)", "", "a window is opened when much of it is used")],
    "http-messaging/http_transfer_encoding.vtc": [
        (r"(server s1 \{\n)(?:.*?\n    accept\n){2}", r"\1", "Transfer-Encoding beside Content-Length, or in HTTP/1.0, is refused (RFC 9112 6.1)"),
        (r"(client c1 .*?expect resp.status == )200\s+expect resp.http.connection == \"close\"", r"\g<1>400", "the same"),
        (r"(client c2 .*?expect resp.status == )200", r"\g<1>400", "the same"),
        (r'(client c[34] .*?)expect resp.http.content-length == <undef>\s+expect resp.http.transfer-encoding == "chunked"', r"\1",
         "a body that is whole is sent with its length"),
        (r'(client c4 .*?expect resp.status == )200.*?(?=\} -run)', r"\g<1>503\n", "a response with Transfer-Encoding beside Content-Length is refused"),
        (r"(client c3 .*?)expect_close", r"\1", "the connections of client and origin end by themselves"),
        (r'expect req.http.te == "trailers"', "expect req.http.te == <undef>", "TE is the connection's own (RFC 9110 10.1.4)"),
        (r"expect resp.status == 422", "expect resp.status == 400", "a request in gzip and chunked is a 400"),
        (r"expect resp.status == 502", "expect resp.status == 503", "a fault of the origin is 503, as with varnishd")],
}
