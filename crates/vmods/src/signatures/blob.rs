// SPDX-License-Identifier: BSD-2-Clause
//! vmod_blob(3).

use tables::vmods::Default as D;
use tables::vmods::Type::{self, *};
use tables::vmods::{Arg, Func, Module, Object};

const fn a(ty: Type, name: &'static str) -> Arg {
    Arg::new(ty, name)
}

const CODES: &[&str] = &["IDENTITY", "BASE64", "BASE64URL", "BASE64URLNOPAD", "BASE64CF", "HEX", "URL"];
const DECODING: Arg = Arg::of("decoding", CODES).or(D::Enum("IDENTITY"));
const ENCODING: Arg = Arg::of("encoding", CODES).or(D::Enum("IDENTITY"));
const CASE: Arg = Arg::of("case", &["LOWER", "UPPER", "DEFAULT"]).or(D::Enum("DEFAULT"));
const LENGTH: Arg = a(Int, "length").or(D::Int(0));

/// vmod_blob(3)
pub(crate) const MODULE: Module = Module {
    left_out: &[],
    name: "blob",
    text: "Binary data: encodings, comparison, parts",
    functions: &[
        Func::new(
            Blob,
            "decode",
            &[DECODING, LENGTH, a(Strands, "encoded")],
            "Decodes text, or its first length bytes",
        )
        .pure(),
        Func::new(String, "encode", &[ENCODING, CASE, a(Blob, "blob")], "Encodes a blob").pure(),
        Func::new(
            String,
            "transcode",
            &[DECODING, ENCODING, CASE, LENGTH, a(Strands, "encoded")],
            "Decodes text and encodes it again",
        )
        .pure(),
        Func::new(Bool, "same", &[Arg::pos(Blob), Arg::pos(Blob)], "Whether both are the very same bytes in memory"),
        Func::new(Bool, "equal", &[Arg::pos(Blob), Arg::pos(Blob)], "Whether both have the same contents").pure(),
        Func::new(Int, "length", &[Arg::pos(Blob)], "The number of bytes").pure(),
        Func::new(Blob, "sub", &[Arg::pos(Blob), a(Bytes, "length"), a(Bytes, "offset").or(D::Int(0))], "A part")
            .pure(),
    ],
    objects: &[Object {
        name: "blob",
        args: &[DECODING, a(Strands, "encoded")],
        methods: &[
            Func::new(Blob, "get", &[], "The blob"),
            Func::new(String, "encode", &[ENCODING, CASE], "The blob, encoded; remembered for the next time"),
        ],
        text: "A constant blob, decoded once",
    }],
};
