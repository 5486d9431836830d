// SPDX-License-Identifier: BSD-2-Clause
//! vmod_blob(3).

pub(crate) mod codec;

use std::collections::HashMap;
use std::sync::Arc;

use codec::Code;
use parking_lot::Mutex;
use vrt::vmod::{Call, CallResult, Class, Object, Vmod};
use vrt::{Blob, Failure, Text, Value};

use crate::args::{Args, fail, give};

/// vmod_blob(3)
pub(crate) static VMOD: Vmod = Vmod {
    name: "blob",
    functions: &[
        ("decode", decode),
        ("encode", |_, args| {
            let args = Args(args);
            let upper = check_case(args, 0, 1)?;
            let text = args.blob(2).map(|blob| encoded(Code::of(args.word(0)), blob.as_bytes(), upper));
            give(Value::String(text))
        }),
        ("transcode", transcode),
        ("same", |_, args| {
            give(Value::Bool(match (Args(args).blob(0), Args(args).blob(1)) {
                (None, None) => true,
                (Some(a), Some(b)) => a.same(b) || (a.as_bytes().is_empty() && b.as_bytes().is_empty() && plain(a, b)),
                _ => false,
            }))
        }),
        ("equal", |_, args| {
            give(Value::Bool(match (Args(args).blob(0), Args(args).blob(1)) {
                (None, None) => true,
                (Some(a), Some(b)) => a.same(b) || (a.as_bytes() == b.as_bytes() && plain(a, b)),
                _ => false,
            }))
        }),
        ("length", |_, args| give(Value::Int(Args(args).blob(0).map_or(0, |blob| blob.as_bytes().len() as i64)))),
        ("sub", sub),
    ],
    classes: &[Class {
        name: "blob",
        new,
        methods: &[
            ("get", |_, object, _| give(Value::Blob(Some(constant(object).blob.clone())))),
            ("encode", encode_constant),
        ],
    }],
};

/// Bytes as STRING, which ends before the first NUL.
fn encoded(code: Code, bytes: &[u8], upper: bool) -> Text {
    let mut text = code.encode(bytes, upper);
    text.truncate(memchr::memchr(0, &text).unwrap_or(text.len()));
    text.into()
}

/// Neither is a module's own object.
fn plain(a: &Blob, b: &Blob) -> bool {
    a.own().is_none() && b.own().is_none()
}

/// Whether hex digits are in upper case.
fn check_case(args: Args<'_>, encoding: usize, case: usize) -> Result<bool, Failure> {
    let (encoding, case) = (args.word(encoding), args.word(case));
    if case != "DEFAULT" && !Code::of(encoding).has_case() {
        return fail(format!("vmod blob error: case {case} is illegal with encoding {encoding}"));
    }
    Ok(case == "UPPER")
}

/// 0 and less: all.
fn most(length: i64) -> Option<usize> {
    usize::try_from(length).ok().filter(|length| *length > 0)
}

fn decoded(call: &Call<'_>, args: Args<'_>, length: usize, text: usize) -> Result<Vec<u8>, Failure> {
    let bytes = args.bytes_of(text);
    match Code::of(args.word(0)).decode(bytes, most(args.int(length))) {
        Some(decoded) => Ok(decoded),
        None => {
            // varnishd shows the first of the pieces that the text is made of.
            let shown = String::from_utf8_lossy(call.first_piece.and_then(|len| bytes.get(..len)).unwrap_or(bytes));
            fail(format!("vmod blob error: cannot decode, illegal encoding beginning with \"{shown}\""))
        }
    }
}

fn decode(call: &mut Call<'_>, args: &[Value]) -> CallResult {
    give(Value::Blob(Some(Blob::new(decoded(call, Args(args), 1, 2)?))))
}

/// `(decoding, encoding, case, length, encoded)`
fn transcode(call: &mut Call<'_>, args: &[Value]) -> CallResult {
    let args = Args(args);
    let upper = check_case(args, 1, 2)?;
    let (from, to) = (Code::of(args.word(0)), Code::of(args.word(1)));
    let bytes = decoded(call, args, 3, 4)?;
    // The very same text, padded or not as it came.
    if from == to && !from.has_case() && most(args.int(3)).is_none() {
        return give(Value::text(args.bytes_of(4)));
    }
    give(Value::text(encoded(to, &bytes, upper)))
}

/// `(blob, length, offset)`
fn sub(_: &mut Call<'_>, args: &[Value]) -> CallResult {
    let args = Args(args);
    let Some(blob) = args.blob(0).filter(|blob| !blob.as_bytes().is_empty()) else {
        return fail("vmod blob error: blob is empty in blob.sub()");
    };
    let (length, offset) = (args.int(1), args.int(2));
    let (Ok(len), Ok(start)) = (usize::try_from(length), usize::try_from(offset)) else {
        return fail("vmod blob error: size or offset negative in blob.sub()");
    };
    match start.checked_add(len).and_then(|end| blob.as_bytes().get(start..end)) {
        Some(part) => give(Value::Blob(Some(Blob::new(part)))),
        None => fail(format!(
            "vmod blob error: size {length} from offset {offset} requires more bytes than blob length {} in blob.sub()",
            blob.as_bytes().len()
        )),
    }
}

/// An object: a blob and the texts that were asked of it.
struct Constant {
    blob: Blob,
    texts: Mutex<HashMap<(&'static str, bool), Text>>,
}

fn constant(object: &Object) -> &Constant {
    object.downcast_ref().expect("made by this class")
}

fn new(_: &mut Call<'_>, name: &str, args: &[Value]) -> Result<Object, Failure> {
    let args = Args(args);
    let text = args.bytes_of(1);
    match Code::of(args.word(0)).decode(text, None) {
        Some(bytes) => Ok(Arc::new(Constant { blob: Blob::new(bytes), texts: Mutex::default() })),
        None => {
            let shown = String::from_utf8_lossy(text);
            fail(format!("vmod blob error: cannot create blob {name}, illegal encoding beginning with \"{shown}\""))
        }
    }
}

fn encode_constant(_: &mut Call<'_>, object: &Object, args: &[Value]) -> CallResult {
    let (args, constant) = (Args(args), constant(object));
    let upper = check_case(args, 0, 1)?;
    let key = (args.word(0), upper);
    let kept = constant.texts.lock().get(&key).cloned();
    let text = kept.unwrap_or_else(|| {
        let text = encoded(Code::of(key.0), constant.blob.as_bytes(), upper);
        constant.texts.lock().insert(key, text.clone());
        text
    });
    give(Value::String(Some(text)))
}
