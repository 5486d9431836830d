// SPDX-License-Identifier: BSD-2-Clause
//! vmod_crypto of Varnish Enterprise 6, as far as its interface is public, and the verifier of libvmod-crypto: signatures by RSA with the
//! padding of PKCS #1 v1.5 (RFC 8017 section 8.2). HMAC is that of RFC 2104.

use std::sync::Arc;

use hmac::{Hmac, KeyInit, Mac};
use parking_lot::Mutex;
use ring::rand::{SecureRandom, SystemRandom};
use ring::signature::{self as sig, RsaParameters, UnparsedPublicKey};
use tables::Tag;
use vrt::vmod::{Call, CallResult, Class, Object, Vmod};
use vrt::{Blob, Failure, Method, Value};

use crate::args::{Args, fail, give};
use crate::blob::codec::Code;
use crate::hashing::Hashing;
use crate::jwt::pem;

/// Bytes that a task may add to an HMAC or a verifier.
const MOST: usize = 1 << 20;
/// Bytes of `urandom`.
const MOST_RANDOM: i64 = 65_536;

/// vmod_crypto
pub(crate) static VMOD: Vmod = Vmod {
    name: "crypto",
    functions: &[
        ("blob", |_, args| give(Value::Blob(Args(args).text(0).map(|text| Blob::new(text.as_bytes()))))),
        ("string", |_, args| encode(args, Code::Identity)),
        ("hex_encode", |_, args| encode(args, Code::Hex)),
        ("hex_decode", |call, args| decode(call, args, Code::Hex, "hex_decode")),
        ("base64_encode", |_, args| encode(args, Code::of("BASE64"))),
        ("base64_decode", |call, args| decode(call, args, Code::of("BASE64"), "base64_decode")),
        ("urandom", urandom),
        ("hash_part", |call, args| {
            parts(call, Args(args).word(0))?.add(Args(args).bytes_of(1), "hash_part")?;
            give(Value::Void)
        }),
        ("hash", |call, args| {
            let word = Args(args).word(0);
            let mut hash = Hashing::named(word);
            hash.update(&std::mem::take(parts(call, word)?).0);
            hash.update(Args(args).bytes_of(1));
            blob(hash.finish())
        }),
        ("hmac", |_, args| {
            let args = Args(args);
            let Some(key) = args.blob(1) else { return fail("crypto: hmac(): no key") };
            blob(hmac(args.word(0), key.as_bytes(), args.bytes_of(2)))
        }),
        ("uuid_v4", |_, _| give(Value::text(uuid::Uuid::new_v4().to_string()))),
    ],
    classes: &[
        Class {
            name: "hmac_init",
            new: |_, name, args| {
                let algorithm = Args(args).word(0);
                Ok(Arc::new(Signer { name: name.to_owned(), algorithm, key: Mutex::default() }))
            },
            methods: &[
                ("set_key", set_key),
                ("add_string", |call, object, args| {
                    added(call, object).add(Args(args).bytes_of(0), "add_string")?;
                    give(Value::Void)
                }),
                ("add_blob", |call, object, args| {
                    added(call, object).add(bytes(args), "add_blob")?;
                    give(Value::Void)
                }),
                ("get", get),
            ],
        },
        Class {
            name: "verifier",
            new: new_verifier,
            methods: &[
                ("update", |call, object, args| {
                    added(call, object).add(Args(args).bytes_of(0), "update")?;
                    give(Value::Bool(true))
                }),
                ("update_blob", |call, object, args| {
                    added(call, object).add(bytes(args), "update_blob")?;
                    give(Value::Bool(true))
                }),
                ("reset", |call, object, _| {
                    *added(call, object) = Added::default();
                    give(Value::Bool(true))
                }),
                ("valid", |call, object, args| {
                    let verifier: &Verifier = object.downcast_ref().expect("made by this class");
                    let text = &added(call, object).0;
                    let key = UnparsedPublicKey::new(verifier.how, &verifier.key);
                    give(Value::Bool(key.verify(text, bytes(args)).is_ok()))
                }),
            ],
        },
    ],
};

/// What a task has added to one object, or to one hash.
#[derive(Default)]
struct Added(Vec<u8>);

impl Added {
    fn add(&mut self, bytes: &[u8], who: &str) -> Result<(), Failure> {
        if self.0.len() + bytes.len() > MOST {
            return fail(format!("crypto: {who}(): more than {MOST} bytes"));
        }
        self.0.extend_from_slice(bytes);
        Ok(())
    }
}

/// The parts of hashes, one entry for each algorithm; each has an address of its own.
static ALGORITHMS: [&str; 6] = ["md5", "sha1", "sha224", "sha256", "sha384", "sha512"];

fn parts<'a>(call: &'a mut Call<'_>, word: &str) -> Result<&'a mut Added, Failure> {
    let known = ALGORITHMS.iter().find(|known| **known == word).expect("a word of the signature");
    Ok(call.ctx.task().keyed(std::ptr::from_ref(known) as usize, Added::default))
}

fn added<'a>(call: &'a mut Call<'_>, object: &Object) -> &'a mut Added {
    call.ctx.task().keyed(Arc::as_ptr(object).cast::<()>() as usize, Added::default)
}

/// The first argument, a BLOB; unset is empty.
fn bytes(args: &[Value]) -> &[u8] {
    Args(args).blob(0).map_or(b"", |blob| blob.as_bytes())
}

fn blob(bytes: Vec<u8>) -> CallResult {
    give(Value::Blob(Some(Blob::new(bytes))))
}

fn encode(args: &[Value], code: Code) -> CallResult {
    let Some(blob) = Args(args).blob(0) else { return give(Value::NULL) };
    let mut text = code.encode(blob.as_bytes(), false);
    // A STRING ends at a NUL.
    text.truncate(memchr::memchr(0, &text).unwrap_or(text.len()));
    give(Value::text(text))
}

fn decode(call: &mut Call<'_>, args: &[Value], code: Code, who: &str) -> CallResult {
    let Some(text) = Args(args).text(0) else { return give(Value::Blob(None)) };
    match code.decode(text, None) {
        Some(bytes) => blob(bytes),
        None => {
            call.ctx.log().putf(Tag::VclError, format_args!("crypto: {who}(): not in this encoding"));
            give(Value::Blob(None))
        }
    }
}

fn urandom(_: &mut Call<'_>, args: &[Value]) -> CallResult {
    let len = Args(args).int(0);
    if !(1..=MOST_RANDOM).contains(&len) {
        return fail(format!("crypto: urandom(): {len} is not from 1 to {MOST_RANDOM}"));
    }
    let mut bytes = vec![0; len as usize];
    match SystemRandom::new().fill(&mut bytes) {
        Ok(()) => blob(bytes),
        Err(_) => fail("crypto: urandom(): the system gave no random bytes"),
    }
}

fn hmac(word: &str, key: &[u8], text: &[u8]) -> Vec<u8> {
    fn of<M: Mac + KeyInit>(key: &[u8], text: &[u8]) -> Vec<u8> {
        let mut mac = <M as KeyInit>::new_from_slice(key).expect("HMAC takes keys of any length");
        mac.update(text);
        mac.finalize().into_bytes().to_vec()
    }
    match word {
        "sha1" => of::<Hmac<sha1::Sha1>>(key, text),
        "sha224" => of::<Hmac<sha2::Sha224>>(key, text),
        "sha256" => of::<Hmac<sha2::Sha256>>(key, text),
        "sha384" => of::<Hmac<sha2::Sha384>>(key, text),
        "sha512" => of::<Hmac<sha2::Sha512>>(key, text),
        other => unreachable!("{other} is no algorithm of the signature"),
    }
}

struct Signer {
    name: String,
    algorithm: &'static str,
    key: Mutex<Option<Blob>>,
}

fn set_key(call: &mut Call<'_>, object: &Object, args: &[Value]) -> CallResult {
    let signer: &Signer = object.downcast_ref().expect("made by this class");
    if call.method != Method::Init {
        return fail(format!("crypto: {}.set_key() works in vcl_init only", signer.name));
    }
    let Some(key) = Args(args).blob(0).filter(|key| !key.as_bytes().is_empty()) else {
        return fail(format!("crypto: {}.set_key(): the key is empty", signer.name));
    };
    *signer.key.lock() = Some(key.clone());
    give(Value::Void)
}

fn get(call: &mut Call<'_>, object: &Object, _: &[Value]) -> CallResult {
    let signer: &Signer = object.downcast_ref().expect("made by this class");
    let Some(key) = signer.key.lock().clone() else {
        return fail(format!("crypto: {}.get(): no key was set", signer.name));
    };
    let text = std::mem::take(added(call, object)).0;
    blob(hmac(signer.algorithm, key.as_bytes(), &text))
}

struct Verifier {
    how: &'static RsaParameters,
    /// In PKCS #1.
    key: Vec<u8>,
}

fn new_verifier(_: &mut Call<'_>, name: &str, args: &[Value]) -> Result<Object, Failure> {
    let how = match Args(args).word(0) {
        "sha1" => &sig::RSA_PKCS1_2048_8192_SHA1_FOR_LEGACY_USE_ONLY,
        "sha256" => &sig::RSA_PKCS1_2048_8192_SHA256,
        "sha384" => &sig::RSA_PKCS1_2048_8192_SHA384,
        "sha512" => &sig::RSA_PKCS1_2048_8192_SHA512,
        other => unreachable!("{other} is no digest of the signature"),
    };
    let key = pem::rsa_public_key(Args(args).bytes_of(1));
    match key.and_then(|key| Some((pem::rsa_bits(&key)?, key))) {
        Some((2048..=8192, key)) => Ok(Arc::new(Verifier { how, key })),
        Some((bits, _)) => fail(format!("crypto: {name}: the key has {bits} bits, which is not from 2048 to 8192")),
        None => fail(format!("crypto: {name}: pem is no public key of RSA in PEM")),
    }
}

#[cfg(test)]
mod tests;
