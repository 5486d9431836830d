// SPDX-License-Identifier: BSD-2-Clause
//! vmod_crypto of Varnish Enterprise 6, as far as its interface is public, and the verifier of libvmod-crypto: signatures by RSA with the
//! padding of PKCS #1 v1.5 (RFC 8017 section 8.2). HMAC is that of RFC 2104.

use hmac::{Hmac, KeyInit, Mac};
use parking_lot::Mutex;
use ring::rand::{SecureRandom, SystemRandom};
use ring::signature::{self as sig, RsaParameters, UnparsedPublicKey};
use tables::Tag;
use vrt::vmod::EnumWords;
use vrt::vmod::{BLOB, BOOL, CallResult, STRING, VOID, VmodCall, give};
use vrt::{Blob, Method, Text, VclFailure};

use crate::jwt::pem;
use vmod_support::args::fail;
use vmod_support::codec::ByteEncoding;
use vmod_support::hashing::Hashing;

/// Bytes that a task may add to an HMAC or a verifier.
const MAX: usize = 1 << 20;
const MAX_RANDOM: i64 = 65_536;

vrt::words! {
    enum Algorithm {
        Md5 = "md5", Sha1 = "sha1", Sha224 = "sha224", Sha256 = "sha256", Sha384 = "sha384", Sha512 = "sha512",
    }
}

vrt::words! {
    enum OfHmac { Sha1 = "sha1", Sha224 = "sha224", Sha256 = "sha256", Sha384 = "sha384", Sha512 = "sha512" }
}

vrt::words! {
    enum Digest { Sha1 = "sha1", Sha256 = "sha256", Sha384 = "sha384", Sha512 = "sha512" }
}

vrt::vmod! {
    /// Encodings, hashes, HMAC, random bytes, and RSA signatures (PKCS #1 v1.5, keys of 2048 to 8192 bits). Data added to a
    /// hash, an HMAC or a verifier belongs to the task and is limited to 1 MB. Encryption isn't supported
    pub(crate) static VMOD = crypto;

    functions {
        /// Returns the bytes of a string; unset if the string is unset
        fn blob(value: STRING) -> BLOB, pure = |_, value: Option<&Text>| value.map(|text| Blob::new(text.as_bytes()));

        /// Returns the bytes as a string, which ends before the first NUL; unset if the blob is unset
        fn string(value: BLOB) -> STRING, pure = |_, value: Option<&Blob>| encode(value, ByteEncoding::Identity);

        /// Returns the bytes in lower-case hex; unset if the blob is unset
        fn hex_encode(value: BLOB) -> STRING, pure = |_, value: Option<&Blob>| encode(value, ByteEncoding::Hex);

        /// Decodes hex; unset, with a VCL_Error record, if the string isn't hex
        fn hex_decode(value: STRING) -> BLOB, local
            = |call: &mut VmodCall<'_>, value: Option<&Text>| decode(call, value, ByteEncoding::Hex, "hex_decode");

        /// Returns the bytes in base64, padded; unset if the blob is unset
        fn base64_encode(value: BLOB) -> STRING, pure = |_, value: Option<&Blob>| encode(value, ByteEncoding::parse("BASE64"));

        /// Decodes base64, padded or not; unset, with a VCL_Error record, if the string isn't base64
        fn base64_decode(value: STRING) -> BLOB, local = base64_decode;

        /// Returns 1 to 65536 random bytes
        fn urandom(bytes: INT = 16) -> BLOB, local = urandom;

        /// Adds data to the task's next hash with this algorithm
        fn hash_part(algorithm: Algorithm, part: STRING) -> VOID, local = hash_part;

        /// Returns the hash of the added parts followed by this string
        fn hash(algorithm: Algorithm, value: STRING) -> BLOB, local = hash;

        /// Returns the HMAC of a string. VCL fails without a key
        fn hmac(algorithm: OfHmac, key: BLOB, value: STRING) -> BLOB, local = crypto_hmac;

        /// Returns a random UUID
        fn uuid_v4() -> STRING, local = |_| uuid::Uuid::new_v4().to_string();
    }

    /// Calculates HMACs with one key
    object hmac_init(algorithm: OfHmac) -> Signer = new, methods {
        /// Sets the key
        fn set_key(key: BLOB) -> VOID, only(Method::Init.set()) = set_key;

        /// Adds a string
        fn add_string(value: STRING) -> VOID, local = add_string;

        /// Adds bytes
        fn add_blob(value: BLOB) -> VOID, local = add_blob;

        /// Returns the HMAC of the added data and starts again with none. VCL fails without a key
        fn get() -> BLOB, local = get;
    }

    /// Verifies signatures with one public key, in PEM
    object verifier(digest: Digest, pem: STRING) -> Verifier = new_verifier, methods {
        /// Adds a string to the signed data; returns true
        fn update(_: STRANDS) -> BOOL, local = update;

        /// Adds bytes to the signed data; returns true
        fn update_blob(_: BLOB) -> BOOL, local = update_blob;

        /// Discards the added data; returns true
        fn reset() -> BOOL, local = reset;

        /// Returns whether this is the signature of the added data. The data is kept
        fn valid(signature: BLOB) -> BOOL, local = valid;
    }

    left_out {
        "crypto.secret" => "std.fileread and crypto.blob";
        "crypto.aes_key" => "a backend that encrypts: nothing is encrypted here";
        "crypto.aes_encrypt" => "a backend that encrypts: nothing is encrypted here";
        "crypto.aes_decrypt" => "a backend that encrypts: nothing is encrypted here";
        "crypto.aes_get_length" => "a backend that encrypts: nothing is encrypted here";
        "crypto.aes_set_length" => "a backend that encrypts: nothing is encrypted here";
        "crypto.aes_encrypt_response" => "a backend that encrypts: nothing is encrypted here";
        "crypto.aes_decrypt_response" => "a backend that encrypts: nothing is encrypted here";
        "crypto.aes_skip_response" => "a backend that encrypts: nothing is encrypted here";
        "crypto.key" => "crypto.verifier, with the key in PEM";
        "crypto.signer" => "jwt.writer for tokens, crypto.hmac with a secret";
    }
}

fn base64_decode(call: &mut VmodCall<'_>, value: Option<&Text>) -> CallResult<BLOB> {
    decode(call, value, ByteEncoding::parse("BASE64"), "base64_decode")
}

fn hash_part(call: &mut VmodCall<'_>, algorithm: Algorithm, part: &[u8]) -> CallResult<VOID> {
    parts(call, algorithm.word())?.add(part, "hash_part")?;
    give(())
}

fn hash(call: &mut VmodCall<'_>, word: Algorithm, value: &[u8]) -> CallResult<BLOB> {
    let mut hash = Hashing::named(word.word());
    hash.update(&std::mem::take(parts(call, word.word())?).0);
    hash.update(value);
    blob(hash.finish())
}

fn crypto_hmac(_: &mut VmodCall<'_>, algorithm: OfHmac, key: Option<&Blob>, value: &[u8]) -> CallResult<BLOB> {
    let Some(key) = key else { return fail("crypto: hmac(): no key") };
    blob(hmac(algorithm.word(), key.as_bytes(), value))
}

fn new(_: &mut VmodCall<'_>, name: &str, algorithm: OfHmac) -> Result<Signer, VclFailure> {
    Ok(Signer { name: name.to_owned(), algorithm: algorithm.word(), key: Mutex::default() })
}

fn add_string(this: &Signer, call: &mut VmodCall<'_>, value: &[u8]) -> CallResult<VOID> {
    added(call, this).add(value, "add_string")?;
    give(())
}

fn add_blob(this: &Signer, call: &mut VmodCall<'_>, value: Option<&Blob>) -> CallResult<VOID> {
    added(call, this).add(bytes(value), "add_blob")?;
    give(())
}

fn update(this: &Verifier, call: &mut VmodCall<'_>, text: &[u8]) -> CallResult<BOOL> {
    added(call, this).add(text, "update")?;
    give(true)
}

fn update_blob(this: &Verifier, call: &mut VmodCall<'_>, blob: Option<&Blob>) -> CallResult<BOOL> {
    added(call, this).add(bytes(blob), "update_blob")?;
    give(true)
}

fn reset(this: &Verifier, call: &mut VmodCall<'_>) -> CallResult<BOOL> {
    *added(call, this) = Additions::default();
    give(true)
}

fn valid(verifier: &Verifier, call: &mut VmodCall<'_>, signature: Option<&Blob>) -> CallResult<BOOL> {
    let text = &added(call, verifier).0;
    let key = UnparsedPublicKey::new(verifier.how, &verifier.key);
    give(key.verify(text, bytes(signature)).is_ok())
}

#[derive(Default)]
struct Additions(Vec<u8>);

impl Additions {
    fn add(&mut self, bytes: &[u8], who: &str) -> Result<(), VclFailure> {
        if self.0.len() + bytes.len() > MAX {
            return fail(format!("crypto: {who}(): more than {MAX} bytes"));
        }
        self.0.extend_from_slice(bytes);
        Ok(())
    }
}

/// The parts of hashes, one entry for each algorithm; each has an address of its own.
static ALGORITHMS: [&str; 6] = ["md5", "sha1", "sha224", "sha256", "sha384", "sha512"];

fn parts<'a>(call: &'a mut VmodCall<'_>, word: &str) -> Result<&'a mut Additions, VclFailure> {
    let known = ALGORITHMS.iter().find(|known| **known == word).expect("a word of the signature");
    Ok(call.ctx.task().keyed(std::ptr::from_ref(known) as usize, Additions::default))
}

fn added<'a, T>(call: &'a mut VmodCall<'_>, object: &T) -> &'a mut Additions {
    call.ctx.task().keyed(std::ptr::from_ref(object) as usize, Additions::default)
}

/// The first argument, a BLOB; unset is empty.
fn bytes(value: Option<&Blob>) -> &[u8] {
    value.map_or(b"", |blob| blob.as_bytes())
}

fn blob(bytes: Vec<u8>) -> CallResult<BLOB> {
    give(Some(Blob::new(bytes)))
}

fn encode(value: Option<&Blob>, code: ByteEncoding) -> CallResult<STRING> {
    let Some(blob) = value else { return give(None::<Text>) };
    let mut text = code.encode(blob.as_bytes(), false);
    // A STRING ends at a NUL.
    text.truncate(memchr::memchr(0, &text).unwrap_or(text.len()));
    give(text)
}

fn decode(call: &mut VmodCall<'_>, value: Option<&Text>, code: ByteEncoding, who: &str) -> CallResult<BLOB> {
    let Some(text) = value else { return give(None) };
    match code.decode(text, None) {
        Some(bytes) => blob(bytes),
        None => {
            call.ctx.log().putf(Tag::VclError, format_args!("crypto: {who}(): not in this encoding"));
            give(None)
        }
    }
}

fn urandom(_: &mut VmodCall<'_>, len: i64) -> CallResult<BLOB> {
    if !(1..=MAX_RANDOM).contains(&len) {
        return fail(format!("crypto: urandom(): {len} is not from 1 to {MAX_RANDOM}"));
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

fn set_key(signer: &Signer, call: &mut VmodCall<'_>, key: Option<&Blob>) -> CallResult<VOID> {
    if call.method != Method::Init {
        return fail(format!("crypto: {}.set_key() works in vcl_init only", signer.name));
    }
    let Some(key) = key.filter(|key| !key.as_bytes().is_empty()) else {
        return fail(format!("crypto: {}.set_key(): the key is empty", signer.name));
    };
    *signer.key.lock() = Some(key.clone());
    give(())
}

fn get(signer: &Signer, call: &mut VmodCall<'_>) -> CallResult<BLOB> {
    let Some(key) = signer.key.lock().clone() else {
        return fail(format!("crypto: {}.get(): no key was set", signer.name));
    };
    let text = std::mem::take(added(call, signer)).0;
    blob(hmac(signer.algorithm, key.as_bytes(), &text))
}

struct Verifier {
    how: &'static RsaParameters,
    /// The key in PKCS #1.
    key: Vec<u8>,
}

fn new_verifier(_: &mut VmodCall<'_>, name: &str, digest: Digest, pem: &[u8]) -> Result<Verifier, VclFailure> {
    let how = match digest {
        Digest::Sha1 => &sig::RSA_PKCS1_2048_8192_SHA1_FOR_LEGACY_USE_ONLY,
        Digest::Sha256 => &sig::RSA_PKCS1_2048_8192_SHA256,
        Digest::Sha384 => &sig::RSA_PKCS1_2048_8192_SHA384,
        Digest::Sha512 => &sig::RSA_PKCS1_2048_8192_SHA512,
    };
    let key = pem::rsa_public_key(pem);
    match key.and_then(|key| Some((pem::rsa_bits(&key)?, key))) {
        Some((2048..=8192, key)) => Ok(Verifier { how, key }),
        Some((bits, _)) => fail(format!("crypto: {name}: the key has {bits} bits, which is not from 2048 to 8192")),
        None => fail(format!("crypto: {name}: pem is no public key of RSA in PEM")),
    }
}

#[cfg(test)]
mod tests;
