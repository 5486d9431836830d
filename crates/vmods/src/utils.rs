// SPDX-License-Identifier: BSD-2-Clause
//! vmod_utils of Varnish Enterprise.

use vrt::vmod::{Call, CallResult, Vmod};
use vrt::{Text, Value};

use crate::args::{Args, fail, give};
use crate::standard::strftime;

/// vmod_utils
pub(crate) static VMOD: Vmod = Vmod {
    name: "utils",
    classes: &[],
    functions: &[
        ("newline", |_, _| give(Value::text("\n"))),
        ("time_format", time_format),
        ("mod", |_, args| match Args(args).int(0).checked_rem(Args(args).int(1)) {
            Some(rest) => give(Value::Int(rest)),
            None if Args(args).int(1) == 0 => fail("utils.mod(): division by zero"),
            // The least number by -1.
            None => give(Value::Int(0)),
        }),
        ("bitwise_and", |_, args| give(Value::Int(Args(args).int(0) & Args(args).int(1)))),
        ("bitwise_or", |_, args| give(Value::Int(Args(args).int(0) | Args(args).int(1)))),
        ("bitwise_xor", |_, args| give(Value::Int(Args(args).int(0) ^ Args(args).int(1)))),
        ("hex2integer", |_, args| {
            let number = hex(Args(args).bytes_of(0)).unwrap_or_else(|| Args(args).int(1));
            give(Value::Int(number))
        }),
        ("fast_304", |call, _| {
            call.ctx.fast_304()?;
            give(Value::Void)
        }),
        ("is_fast_304", |call, _| give(Value::Bool(call.ctx.is_fast_304()))),
        ("resolve_backend", |call, args| {
            let director = Args(args).backend(0);
            give(Value::Backend(director.and_then(|director| call.ctx.resolve(director))))
        }),
    ],
};

/// A hexadecimal number with 0x before it.
fn hex(text: &[u8]) -> Option<i64> {
    let digits = text.strip_prefix(b"0x").or_else(|| text.strip_prefix(b"0X"))?;
    if !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    i64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

fn time_format(call: &mut Call<'_>, args: &[Value]) -> CallResult {
    let args = Args(args);
    let (format, is_local) = (args.bytes_of(0), args.bool(1));
    let time = if args.given(2) { args.real(2) } else { call.ctx.clock().real().0 };
    let text = if is_local { local(format, time) } else { strftime::format(time, format).map(Text::from) };
    give(Value::String(text))
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
