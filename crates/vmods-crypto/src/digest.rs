// SPDX-License-Identifier: BSD-2-Clause
//! vmod_digest(3) of libvmod-digest. As with libmhash there, CRC and Adler are shown lowest byte first, and `hash_crc32` is the
//! CRC of bzip2 while `hash_crc32b` is that of Ethernet.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Digest;
use tables::Tag;
use vrt::Text;
use vrt::vmod::{CallResult, STRING, VmodCall, give};

use vmod_support::codec::ByteEncoding;

vrt::vmod! {
    /// Hashes, HMAC and base64 of strings
    pub(crate) static VMOD = digest;

    functions {
        /// Returns 0x and the HMAC of a key and a message in hex; unset without a key
        fn hmac_md5(_: STRING, _: STRING) -> STRING, pure
            = |_, text: Option<&Text>, text2: &[u8]| hmac::<Hmac<md5::Md5>>(text, text2);

        /// Returns 0x and the HMAC of a key and a message in hex; unset without a key
        fn hmac_sha1(_: STRING, _: STRING) -> STRING, pure
            = |_, text: Option<&Text>, text2: &[u8]| hmac::<Hmac<sha1::Sha1>>(text, text2);

        /// Returns 0x and the HMAC of a key and a message in hex; unset without a key
        fn hmac_sha256(_: STRING, _: STRING) -> STRING, pure
            = |_, text: Option<&Text>, text2: &[u8]| hmac::<Hmac<sha2::Sha256>>(text, text2);

        /// Encodes a string in this form of base64
        fn base64(_: STRING) -> STRING, pure = |_, text: &[u8]| encode(text, "BASE64");

        /// Encodes a string in this form of base64
        fn base64url(_: STRING) -> STRING, pure = |_, text: &[u8]| encode(text, "BASE64URL");

        /// Encodes a string in this form of base64
        fn base64url_nopad(_: STRING) -> STRING, pure = |_, text: &[u8]| encode(text, "BASE64URLNOPAD");

        /// Encodes bytes given in hex (with or without 0x) in this form of base64
        fn base64_hex(_: STRING) -> STRING, pure = |_, text: &[u8]| encode_hex(text, "BASE64");

        /// Encodes bytes given in hex (with or without 0x) in this form of base64
        fn base64url_hex(_: STRING) -> STRING, pure = |_, text: &[u8]| encode_hex(text, "BASE64URL");

        /// Encodes bytes given in hex (with or without 0x) in this form of base64
        fn base64url_nopad_hex(_: STRING) -> STRING, pure = |_, text: &[u8]| encode_hex(text, "BASE64URLNOPAD");

        /// Decodes a string; the result ends before the first NUL. Unset, with a VCL_Error record, if it is invalid
        fn base64_decode(_: STRING) -> STRING, local = |call: &mut VmodCall<'_>, text: Option<&Text>| decode(call, text, b"+/");

        /// Decodes a string; the result ends before the first NUL. Unset, with a VCL_Error record, if it is invalid
        fn base64url_decode(_: STRING) -> STRING, local = |call: &mut VmodCall<'_>, text: Option<&Text>| decode(call, text, b"-_");

        /// Decodes a string; the result ends before the first NUL. Unset, with a VCL_Error record, if it is invalid
        fn base64url_nopad_decode(_: STRING) -> STRING, local
            = |call: &mut VmodCall<'_>, text: Option<&Text>| decode(call, text, b"-_");

        /// Returns the version of libvmod-digest with which this module is compatible
        fn version() -> STRING, pure = |_| "1.0.2";

        /// Returns this hash of a string (of no bytes if it is unset), in hex
        fn hash_adler32(_: STRING) -> STRING, pure = |_, text: &[u8]| base::hex::encode(&adler2::adler32_slice(text).to_le_bytes());

        /// Returns this hash of a string (of no bytes if it is unset), in hex
        fn hash_crc32(_: STRING) -> STRING, pure = |_, text: &[u8]| crc(text, &crc::CRC_32_BZIP2);

        /// Returns this hash of a string (of no bytes if it is unset), in hex
        fn hash_crc32b(_: STRING) -> STRING, pure = |_, text: &[u8]| crc(text, &crc::CRC_32_ISO_HDLC);

        /// Returns this hash of a string (of no bytes if it is unset), in hex
        fn hash_gost(_: STRING) -> STRING, pure = |_, text: &[u8]| hash::<gost94::Gost94Test>(text);

        /// Returns this hash of a string (of no bytes if it is unset), in hex
        fn hash_md2(_: STRING) -> STRING, pure = |_, text: &[u8]| hash::<md2::Md2>(text);

        /// Returns this hash of a string (of no bytes if it is unset), in hex
        fn hash_md4(_: STRING) -> STRING, pure = |_, text: &[u8]| hash::<md4::Md4>(text);

        /// Returns this hash of a string (of no bytes if it is unset), in hex
        fn hash_md5(_: STRING) -> STRING, pure = |_, text: &[u8]| hash::<md5::Md5>(text);

        /// Returns this hash of a string (of no bytes if it is unset), in hex
        fn hash_ripemd128(_: STRING) -> STRING, pure = |_, text: &[u8]| hash::<ripemd::Ripemd128>(text);

        /// Returns this hash of a string (of no bytes if it is unset), in hex
        fn hash_ripemd160(_: STRING) -> STRING, pure = |_, text: &[u8]| hash::<ripemd::Ripemd160>(text);

        /// Returns this hash of a string (of no bytes if it is unset), in hex
        fn hash_ripemd256(_: STRING) -> STRING, pure = |_, text: &[u8]| hash::<ripemd::Ripemd256>(text);

        /// Returns this hash of a string (of no bytes if it is unset), in hex
        fn hash_ripemd320(_: STRING) -> STRING, pure = |_, text: &[u8]| hash::<ripemd::Ripemd320>(text);

        /// Returns this hash of a string (of no bytes if it is unset), in hex
        fn hash_sha1(_: STRING) -> STRING, pure = |_, text: &[u8]| hash::<sha1::Sha1>(text);

        /// Returns this hash of a string (of no bytes if it is unset), in hex
        fn hash_sha224(_: STRING) -> STRING, pure = |_, text: &[u8]| hash::<sha2::Sha224>(text);

        /// Returns this hash of a string (of no bytes if it is unset), in hex
        fn hash_sha256(_: STRING) -> STRING, pure = |_, text: &[u8]| hash::<sha2::Sha256>(text);

        /// Returns this hash of a string (of no bytes if it is unset), in hex
        fn hash_sha384(_: STRING) -> STRING, pure = |_, text: &[u8]| hash::<sha2::Sha384>(text);

        /// Returns this hash of a string (of no bytes if it is unset), in hex
        fn hash_sha512(_: STRING) -> STRING, pure = |_, text: &[u8]| hash::<sha2::Sha512>(text);

        /// Returns this hash of a string (of no bytes if it is unset), in hex
        fn hash_whirlpool(_: STRING) -> STRING, pure = |_, text: &[u8]| hash::<whirlpool::Whirlpool>(text);
    }

    left_out {
        "digest.hash_haval128" => "digest.hash_sha256, or another hash that is in use";
        "digest.hash_haval160" => "digest.hash_sha256, or another hash that is in use";
        "digest.hash_haval192" => "digest.hash_sha256, or another hash that is in use";
        "digest.hash_haval224" => "digest.hash_sha256, or another hash that is in use";
        "digest.hash_haval256" => "digest.hash_sha256, or another hash that is in use";
        "digest.hash_snefru128" => "digest.hash_sha256, or another hash that is in use";
        "digest.hash_snefru256" => "digest.hash_sha256, or another hash that is in use";
        "digest.hash_tiger" => "digest.hash_sha256, or another hash that is in use";
        "digest.hash_tiger128" => "digest.hash_sha256, or another hash that is in use";
        "digest.hash_tiger160" => "digest.hash_sha256, or another hash that is in use";
    }
}

fn hash<D: Digest>(text: &[u8]) -> CallResult<STRING> {
    give(base::hex::encode(&D::digest(text)))
}

fn crc(text: &[u8], kind: &'static crc::Algorithm<u32>) -> CallResult<STRING> {
    let sum = crc::Crc::<u32>::new(kind).checksum(text);
    give(base::hex::encode(&sum.to_le_bytes()))
}

fn hmac<M: Mac + KeyInit>(text: Option<&Text>, text2: &[u8]) -> CallResult<STRING> {
    let Some(key) = text else { return give(None::<Text>) };
    let mut mac = <M as KeyInit>::new_from_slice(key).expect("HMAC takes keys of any length");
    mac.update(text2);
    give(format!("0x{}", base::hex::encode(&mac.finalize().into_bytes())))
}

fn encode(text: &[u8], code: &str) -> CallResult<STRING> {
    give(ByteEncoding::parse(code).encode(text, false))
}

/// A character that isn't a digit counts as 0, half a byte at the end not at all.
fn encode_hex(text: &[u8], code: &str) -> CallResult<STRING> {
    let text = text.strip_prefix(b"0x").unwrap_or(text);
    let digit = |digit: u8| base::hex::digit(digit).unwrap_or(0);
    let bytes: Vec<u8> = text.chunks_exact(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect();
    give(ByteEncoding::parse(code).encode(&bytes, false))
}

fn decode(call: &mut VmodCall<'_>, text: Option<&Text>, last: &[u8; 2]) -> CallResult<STRING> {
    let Some(text) = text else { return give(Text::EMPTY) };
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
            return give(None::<Text>);
        };
        (bits, have) = (bits << 6 | u32::from(digit), have + 6);
        if have >= 8 {
            have -= 8;
            out.push((bits >> have) as u8);
        }
    }
    // A STRING ends at a 0 in Varnish; what is signed or compared there must be the same here.
    let end = out.iter().position(|byte| *byte == 0).unwrap_or(out.len());
    give(&out[..end])
}
