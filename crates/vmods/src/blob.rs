// SPDX-License-Identifier: BSD-2-Clause
//! vmod_blob(3).

use std::collections::HashMap;

use parking_lot::Mutex;
use vmod_support::codec::ByteEncoding;
use vrt::vmod::EnumWords;
use vrt::vmod::{BLOB, BOOL, CallResult, STRING, VmodCall, give};
use vrt::{Blob, Text, VclFailure};

use vmod_support::args::fail;

vrt::words! {
    enum Encoding {
        Identity = "IDENTITY", Base64 = "BASE64", Base64url = "BASE64URL", Base64urlnopad = "BASE64URLNOPAD",
        Base64cf = "BASE64CF", Hex = "HEX", Url = "URL",
    }
}

vrt::words! {
    enum Case { Lower = "LOWER", Upper = "UPPER", Default = "DEFAULT" }
}

vrt::vmod! {
    /// Binary data: encoding, comparison, parts
    pub(crate) static VMOD = blob;

    functions {
        /// Decodes a string, or its first length bytes
        fn decode(decoding: Encoding = Identity, length: INT = 0, encoded: STRANDS) -> BLOB, pure = decode;

        /// Encodes a blob
        fn encode(encoding: Encoding = Identity, case: Case = Default, blob: BLOB) -> STRING, pure = blob_encode;

        /// Decodes a string and encodes it again
        fn transcode(
            decoding: Encoding = Identity, encoding: Encoding = Identity, case: Case = Default, length: INT = 0,
            encoded: STRANDS
        ) -> STRING, pure = transcode;

        /// Returns whether both are the same bytes in memory
        fn same(_: BLOB, _: BLOB) -> BOOL, local = same;

        /// Returns whether both have the same content
        fn equal(_: BLOB, _: BLOB) -> BOOL, pure = equal;

        /// Returns the number of bytes
        fn length(_: BLOB) -> INT, pure = |_, blob: Option<&Blob>| blob.map_or(0, |blob| blob.as_bytes().len() as i64);

        /// Returns a part
        fn sub(_: BLOB, length: BYTES, offset: BYTES = 0) -> BLOB, pure = sub;
    }

    /// A constant blob, decoded once
    object blob(decoding: Encoding = Identity, encoded: STRANDS) -> Constant = new, methods {
        /// Returns the blob
        fn get() -> BLOB, local = |this: &Constant, _| Some(this.blob.clone());

        /// Returns the encoded blob; the result is cached
        fn encode(encoding: Encoding = Identity, case: Case = Default) -> STRING, local = encode_constant;
    }
}

fn blob_encode(_: &mut VmodCall<'_>, encoding: Encoding, case: Case, blob: Option<&Blob>) -> CallResult<STRING> {
    let upper = check_case(encoding, case)?;
    let text = blob.map(|blob| encoded(ByteEncoding::parse(encoding.word()), blob.as_bytes(), upper));
    give(text)
}

fn same(_: &mut VmodCall<'_>, blob: Option<&Blob>, blob2: Option<&Blob>) -> CallResult<BOOL> {
    give(match (blob, blob2) {
        (None, None) => true,
        (Some(a), Some(b)) => a.same(b) || (a.as_bytes().is_empty() && b.as_bytes().is_empty() && plain(a, b)),
        _ => false,
    })
}

fn equal(_: &mut VmodCall<'_>, blob: Option<&Blob>, blob2: Option<&Blob>) -> CallResult<BOOL> {
    give(match (blob, blob2) {
        (None, None) => true,
        (Some(a), Some(b)) => a.same(b) || (a.as_bytes() == b.as_bytes() && plain(a, b)),
        _ => false,
    })
}

/// Bytes as STRING, which ends before the first NUL.
fn encoded(code: ByteEncoding, bytes: &[u8], upper: bool) -> Text {
    let mut text = code.encode(bytes, upper);
    text.truncate(memchr::memchr(0, &text).unwrap_or(text.len()));
    text.into()
}

/// Neither is a module's own object.
fn plain(a: &Blob, b: &Blob) -> bool {
    a.own().is_none() && b.own().is_none()
}

/// True for hex digits in upper case.
fn check_case(encoding: Encoding, case: Case) -> Result<bool, VclFailure> {
    if case != Case::Default && !ByteEncoding::parse(encoding.word()).has_case() {
        let (case, encoding) = (case.word(), encoding.word());
        return fail(format!("vmod blob error: case {case} is illegal with encoding {encoding}"));
    }
    Ok(case == Case::Upper)
}

/// 0 and less: all.
fn most(length: i64) -> Option<usize> {
    usize::try_from(length).ok().filter(|length| *length > 0)
}

fn decoded(call: &VmodCall<'_>, decoding: Encoding, length: i64, bytes: &[u8]) -> Result<Vec<u8>, VclFailure> {
    match ByteEncoding::parse(decoding.word()).decode(bytes, most(length)) {
        Some(decoded) => Ok(decoded),
        None => {
            // varnishd shows the first of the pieces that the text is made of.
            let shown = String::from_utf8_lossy(call.first_piece.and_then(|len| bytes.get(..len)).unwrap_or(bytes));
            fail(format!("vmod blob error: cannot decode, illegal encoding beginning with \"{shown}\""))
        }
    }
}

fn decode(call: &mut VmodCall<'_>, decoding: Encoding, length: i64, encoded: &[u8]) -> CallResult<BLOB> {
    give(decoded(call, decoding, length, encoded)?)
}

/// `(decoding, encoding, case, length, encoded)`
fn transcode(
    call: &mut VmodCall<'_>,
    decoding: Encoding,
    encoding: Encoding,
    case: Case,
    length: i64,
    text: &[u8],
) -> CallResult<STRING> {
    let upper = check_case(encoding, case)?;
    let (from, to) = (ByteEncoding::parse(decoding.word()), ByteEncoding::parse(encoding.word()));
    let bytes = decoded(call, decoding, length, text)?;
    // The very same text, padded or not as it came.
    if from == to && !from.has_case() && most(length).is_none() {
        return give(text);
    }
    give(encoded(to, &bytes, upper))
}

fn sub(_: &mut VmodCall<'_>, blob: Option<&Blob>, length: i64, offset: i64) -> CallResult<BLOB> {
    let Some(blob) = blob.filter(|blob| !blob.as_bytes().is_empty()) else {
        return fail("vmod blob error: blob is empty in blob.sub()");
    };
    let (Ok(len), Ok(start)) = (usize::try_from(length), usize::try_from(offset)) else {
        return fail("vmod blob error: size or offset negative in blob.sub()");
    };
    match start.checked_add(len).and_then(|end| blob.as_bytes().get(start..end)) {
        Some(part) => give(Some(Blob::new(part))),
        None => fail(format!(
            "vmod blob error: size {length} from offset {offset} requires more bytes than blob length {} in blob.sub()",
            blob.as_bytes().len()
        )),
    }
}

struct Constant {
    blob: Blob,
    texts: Mutex<HashMap<(&'static str, bool), Text>>,
}

fn new(_: &mut VmodCall<'_>, name: &str, decoding: Encoding, text: &[u8]) -> Result<Constant, VclFailure> {
    match ByteEncoding::parse(decoding.word()).decode(text, None) {
        Some(bytes) => Ok(Constant { blob: Blob::new(bytes), texts: Mutex::default() }),
        None => {
            let shown = String::from_utf8_lossy(text);
            fail(format!("vmod blob error: cannot create blob {name}, illegal encoding beginning with \"{shown}\""))
        }
    }
}

fn encode_constant(constant: &Constant, _: &mut VmodCall<'_>, encoding: Encoding, case: Case) -> CallResult<STRING> {
    let upper = check_case(encoding, case)?;
    let key = (encoding.word(), upper);
    let kept = constant.texts.lock().get(&key).cloned();
    let text = kept.unwrap_or_else(|| {
        let text = encoded(ByteEncoding::parse(key.0), constant.blob.as_bytes(), upper);
        constant.texts.lock().insert(key, text.clone());
        text
    });
    give(Some(text))
}
