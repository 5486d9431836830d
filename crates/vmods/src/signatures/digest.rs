// SPDX-License-Identifier: BSD-2-Clause
//! vmod_digest(3) of libvmod-digest. Haval, snefru and tiger aren't built: nobody signs with them.

use tables::vmods::Type::*;
use tables::vmods::{Arg, Func, LeftOut, Module};

const S: &[Arg] = &[Arg::pos(String)];
const KEYED: &[Arg] = &[Arg::pos(String), Arg::pos(String)];

const fn hash(name: &'static str) -> Func {
    Func::new(String, name, S, "That hash of a text (of no bytes when it is unset), in hex").pure()
}

const fn hmac(name: &'static str) -> Func {
    Func::new(String, name, KEYED, "0x and that HMAC, in hex, of a key and a message; unset without a key").pure()
}

const fn encode(name: &'static str) -> Func {
    Func::new(String, name, S, "A text in that form of base64").pure()
}

const fn of_hex(name: &'static str) -> Func {
    Func::new(String, name, S, "Bytes in hex (0x may come before) in that form of base64").pure()
}

const fn decode(name: &'static str) -> Func {
    Func::new(
        String,
        name,
        S,
        "What was encoded, up to the first 0; unset, with a VCL_Error record, when it isn't of the code",
    )
}

/// vmod_digest(3)
pub(crate) const MODULE: Module = Module {
    left_out: LEFT_OUT,
    name: "digest",
    text: "Hashes, HMAC and base64 of texts",
    objects: &[],
    functions: &[
        hmac("hmac_md5"),
        hmac("hmac_sha1"),
        hmac("hmac_sha256"),
        encode("base64"),
        encode("base64url"),
        encode("base64url_nopad"),
        of_hex("base64_hex"),
        of_hex("base64url_hex"),
        of_hex("base64url_nopad_hex"),
        decode("base64_decode"),
        decode("base64url_decode"),
        decode("base64url_nopad_decode"),
        Func::new(String, "version", &[], "The version of libvmod-digest that this follows").pure(),
        hash("hash_adler32"),
        hash("hash_crc32"),
        hash("hash_crc32b"),
        hash("hash_gost"),
        hash("hash_md2"),
        hash("hash_md4"),
        hash("hash_md5"),
        hash("hash_ripemd128"),
        hash("hash_ripemd160"),
        hash("hash_ripemd256"),
        hash("hash_ripemd320"),
        hash("hash_sha1"),
        hash("hash_sha224"),
        hash("hash_sha256"),
        hash("hash_sha384"),
        hash("hash_sha512"),
        hash("hash_whirlpool"),
    ],
};

const fn left_out(name: &'static str) -> LeftOut {
    LeftOut(name, "digest.hash_sha256, or another hash that is in use")
}

/// Hashes that nobody signs with.
pub(crate) const LEFT_OUT: &[LeftOut] = &[
    left_out("digest.hash_haval128"),
    left_out("digest.hash_haval160"),
    left_out("digest.hash_haval192"),
    left_out("digest.hash_haval224"),
    left_out("digest.hash_haval256"),
    left_out("digest.hash_snefru128"),
    left_out("digest.hash_snefru256"),
    left_out("digest.hash_tiger"),
    left_out("digest.hash_tiger128"),
    left_out("digest.hash_tiger160"),
];
