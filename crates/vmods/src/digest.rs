// SPDX-License-Identifier: BSD-2-Clause
//! vmod_digest(3) of libvmod-digest. As with libmhash there, CRC and Adler are shown lowest byte first, and `hash_crc32` is the
//! CRC of bzip2 while `hash_crc32b` is that of Ethernet.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Digest;
use tables::Tag;
use vrt::vmod::{Call, CallResult, Vmod};
use vrt::{Text, Value};

use crate::args::{Args, give};
use crate::blob::codec::Code;

/// vmod_digest(3)
pub(crate) static VMOD: Vmod = Vmod {
    name: "digest",
    classes: &[],
    functions: &[
        ("hmac_md5", |_, args| hmac::<Hmac<md5::Md5>>(args)),
        ("hmac_sha1", |_, args| hmac::<Hmac<sha1::Sha1>>(args)),
        ("hmac_sha256", |_, args| hmac::<Hmac<sha2::Sha256>>(args)),
        ("base64", |_, args| encode(args, "BASE64")),
        ("base64url", |_, args| encode(args, "BASE64URL")),
        ("base64url_nopad", |_, args| encode(args, "BASE64URLNOPAD")),
        ("base64_hex", |_, args| encode_hex(args, "BASE64")),
        ("base64url_hex", |_, args| encode_hex(args, "BASE64URL")),
        ("base64url_nopad_hex", |_, args| encode_hex(args, "BASE64URLNOPAD")),
        ("base64_decode", |call, args| decode(call, args, b"+/")),
        ("base64url_decode", |call, args| decode(call, args, b"-_")),
        ("base64url_nopad_decode", |call, args| decode(call, args, b"-_")),
        ("version", |_, _| give(Value::text("1.0.2"))),
        ("hash_adler32", |_, args| {
            give(Value::text(hex(&adler2::adler32_slice(Args(args).bytes_of(0)).to_le_bytes())))
        }),
        ("hash_crc32", |_, args| crc(args, &crc::CRC_32_BZIP2)),
        ("hash_crc32b", |_, args| crc(args, &crc::CRC_32_ISO_HDLC)),
        ("hash_gost", |_, args| hash::<gost94::Gost94Test>(args)),
        ("hash_md2", |_, args| hash::<md2::Md2>(args)),
        ("hash_md4", |_, args| hash::<md4::Md4>(args)),
        ("hash_md5", |_, args| hash::<md5::Md5>(args)),
        ("hash_ripemd128", |_, args| hash::<ripemd::Ripemd128>(args)),
        ("hash_ripemd160", |_, args| hash::<ripemd::Ripemd160>(args)),
        ("hash_ripemd256", |_, args| hash::<ripemd::Ripemd256>(args)),
        ("hash_ripemd320", |_, args| hash::<ripemd::Ripemd320>(args)),
        ("hash_sha1", |_, args| hash::<sha1::Sha1>(args)),
        ("hash_sha224", |_, args| hash::<sha2::Sha224>(args)),
        ("hash_sha256", |_, args| hash::<sha2::Sha256>(args)),
        ("hash_sha384", |_, args| hash::<sha2::Sha384>(args)),
        ("hash_sha512", |_, args| hash::<sha2::Sha512>(args)),
        ("hash_whirlpool", |_, args| hash::<whirlpool::Whirlpool>(args)),
    ],
};

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut out, byte| {
        let _ = write!(out, "{byte:02x}");
        out
    })
}

fn hash<D: Digest>(args: &[Value]) -> CallResult {
    give(Value::text(hex(&D::digest(Args(args).bytes_of(0)))))
}

fn crc(args: &[Value], kind: &'static crc::Algorithm<u32>) -> CallResult {
    let sum = crc::Crc::<u32>::new(kind).checksum(Args(args).bytes_of(0));
    give(Value::text(hex(&sum.to_le_bytes())))
}

fn hmac<M: Mac + KeyInit>(args: &[Value]) -> CallResult {
    let Some(key) = Args(args).text(0) else { return give(Value::NULL) };
    let mut mac = <M as KeyInit>::new_from_slice(key).expect("HMAC takes keys of any length");
    mac.update(Args(args).bytes_of(1));
    give(Value::text(format!("0x{}", hex(&mac.finalize().into_bytes()))))
}

fn encode(args: &[Value], code: &str) -> CallResult {
    give(Value::text(Code::of(code).encode(Args(args).bytes_of(0), false)))
}

/// What isn't a digit counts as 0, half a byte at the end not at all.
fn encode_hex(args: &[Value], code: &str) -> CallResult {
    let text = Args(args).bytes_of(0);
    let text = text.strip_prefix(b"0x").unwrap_or(text);
    let digit = |digit: u8| char::from(digit).to_digit(16).unwrap_or(0) as u8;
    let bytes: Vec<u8> = text.chunks_exact(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect();
    give(Value::text(Code::of(code).encode(&bytes, false)))
}

fn decode(call: &mut Call<'_>, args: &[Value], last: &[u8; 2]) -> CallResult {
    let Some(text) = Args(args).text(0) else { return give(Value::text(Text::EMPTY)) };
    let value = |digit: u8| {
        Some(match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            _ => 62 + last.iter().position(|other| *other == digit)? as u8,
        })
    };
    let (mut out, mut bits, mut have) = (Vec::new(), 0u32, 0);
    let padding = text.iter().rev().take_while(|byte| **byte == b'=').count();
    for digit in &text[..text.len() - padding] {
        let Some(digit) = value(*digit) else {
            call.ctx.log().put(Tag::VclError, b"digest: Base64 input contains invalid characters");
            return give(Value::NULL);
        };
        (bits, have) = (bits << 6 | u32::from(digit), have + 6);
        if have >= 8 {
            have -= 8;
            out.push((bits >> have) as u8);
        }
    }
    // A STRING ends at a 0 in Varnish; what is signed or compared there must be the same here.
    let end = out.iter().position(|byte| *byte == 0).unwrap_or(out.len());
    give(Value::text(&out[..end]))
}
