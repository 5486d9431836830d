// SPDX-License-Identifier: BSD-2-Clause
//! vmod_utils of Varnish Enterprise.

use vrt::vmod::{BACKEND, CallResult, INT, Methods, STRING, VOID, VmodCall, give};
use vrt::{BackendRef, Method, Text};

use crate::standard::strftime;
use vmod_support::args::fail;

vrt::vmod! {
    /// Miscellaneous functions
    pub(crate) static VMOD = utils;

    functions {
        /// Returns a line feed
        fn newline() -> STRING, pure = |_| "\n";

        /// Formats a time (default: now) in UTC or the local zone with a strftime(3) format; unset on an error
        fn time_format(format: STRING, local_time: BOOL = false, time: [TIME]) -> STRING, local = time_format;

        /// Returns the remainder of a division, with the sign of a; VCL fails if b is 0
        fn mod(a: INT, b: INT) -> INT, local = utils_mod;

        /// Returns the bitwise AND
        fn bitwise_and(a: INT, b: INT) -> INT, pure = |_, a: i64, b: i64| a & b;

        /// Returns the bitwise OR
        fn bitwise_or(a: INT, b: INT) -> INT, pure = |_, a: i64, b: i64| a | b;

        /// Returns the bitwise XOR
        fn bitwise_xor(a: INT, b: INT) -> INT, pure = |_, a: i64, b: i64| a ^ b;

        /// Converts a hexadecimal number that begins with 0x; the fallback if it isn't one
        fn hex2integer(hex: STRING, fallback: INT) -> INT, local = hex2integer;

        /// After a 304, keeps the stale object's headers and store, whatever the 304 and VCL say, and its keys in addition
        /// to those that VCL adds. Its ttl, grace and keep are those of beresp. Has no effect without a 304, or if beresp
        /// becomes uncacheable
        fn fast_304() -> VOID, local, only(Method::BackendResponse.set()) = fast_304;

        /// Returns whether fast_304() was called after a 304
        fn is_fast_304() -> BOOL, local, only(Methods::BACKEND) = |call: &mut VmodCall<'_>| call.ctx.is_fast_304();

        /// Returns the backend that a director selects now (a backend selects itself); unset if there is none
        fn resolve_backend(backend: BACKEND) -> BACKEND, local, only(Methods::CLIENT.with(Methods::BACKEND)) = resolve_backend;
    }

    left_out {
        "utils.backend_ttfb" => "beresp.time - bereq.time";
        "utils.apply_cache_headers" => "std.rfc_ttl, and beresp.ttl, beresp.grace and beresp.keep";
        "utils.backend_ip" => "beresp.backend.ip";
        "utils.base64_encode" => "blob.transcode, for texts";
        "utils.bytes2string" => "std.real, divided by the unit";
        "utils.dyn_probe" => "`probe`";
        "utils.estimated_content_length" => "beresp.http.Content-Length";
        "utils.fast_random" => "std.random";
        "utils.fast_random_int" => "std.integer(real=std.random(0, N))";
        "utils.force_fresh" => "req.hash_always_miss";
        "utils.http_range_support" => "the parameter http_range_support";
        "utils.set_pipe_timeout" => "the parameter pipe_timeout";
        "utils.vcl_name" => "a text: one VCL has one name";
        "utils.hash_ignore_vary" => "`set req.hash_ignore_vary = true;`";
    }
}

fn utils_mod(_: &mut VmodCall<'_>, a: i64, b: i64) -> CallResult<INT> {
    match a.checked_rem(b) {
        Some(rest) => give(rest),
        None if b == 0 => fail("utils.mod(): division by zero"),
        // The least number by -1.
        None => give(0),
    }
}

fn hex2integer(_: &mut VmodCall<'_>, hex2: &[u8], fallback: i64) -> CallResult<INT> {
    let number = hex(hex2).unwrap_or(fallback);
    give(number)
}

fn fast_304(call: &mut VmodCall<'_>) -> CallResult<VOID> {
    call.ctx.fast_304()?;
    give(())
}

fn resolve_backend(call: &mut VmodCall<'_>, director: Option<&BackendRef>) -> CallResult<BACKEND> {
    give(director.and_then(|director| call.ctx.resolve(director)))
}

fn hex(text: &[u8]) -> Option<i64> {
    let digits = text.strip_prefix(b"0x").or_else(|| text.strip_prefix(b"0X"))?;
    if !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    i64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

fn time_format(call: &mut VmodCall<'_>, format: &[u8], is_local: bool, time: Option<f64>) -> CallResult<STRING> {
    let time = if time.is_some() { time.unwrap_or_default() } else { call.ctx.clock().real().0 };
    let text = if is_local { local(format, time) } else { strftime::format(time, format).map(Text::from) };
    give(text)
}

fn local(format: &[u8], time: f64) -> Option<Text> {
    let format = std::str::from_utf8(format).ok()?;
    sys::localtime::format(format, time.floor() as i64).map(Text::from)
}

#[cfg(test)]
mod tests {
    use super::hex;

    #[test]
    fn hexadecimal_numbers() {
        for (text, wanted) in [
            ("0x6089F", Some(395_423)),
            ("0X3bf8a9", Some(3_930_281)),
            ("0x7fffffffffffffff", Some(i64::MAX)),
            ("0x8000000000000000", None),
            ("12", None),
            ("0x", None),
            ("0x+1", None),
            ("0x1g", None),
            ("", None),
        ] {
            assert_eq!(hex(text.as_bytes()), wanted, "{text}");
        }
    }
}
