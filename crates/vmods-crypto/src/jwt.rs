// SPDX-License-Identifier: BSD-2-Clause
//! vmod_jwt: JSON Web Tokens (RFC 7519) in the compact form of RFC 7515. The algorithm is VCL's, never the token's alone; "none" is
//! none. A token with `crit` isn't valid: nothing critical is understood here.

use ring::rand::SystemRandom;
use ring::signature::{self as sig, EcdsaKeyPair, RsaKeyPair, UnparsedPublicKey};
use ring::{hmac, rsa};
use serde_json::{Map, Value as Json};
use vrt::vmod::EnumWords;
use vrt::vmod::{BOOL, CallResult, INT, REAL, STRING, TIME, VOID, VmodCall, give};
use vrt::{Text, VclFailure};

use vmod_support::args::fail;
use vmod_support::codec::ByteEncoding;

mod jwk;
pub(crate) mod pem;

/// Bytes of a token.
const MAX: usize = 65_536;
const URL_CODE: &str = "BASE64URLNOPAD";

vrt::words! {
    enum Encoding { Ascii = "ascii", Base64url = "base64url" }
}

vrt::words! {
    enum CheckKid { None = "none", Optional = "optional", Required = "required" }
}

vrt::vmod! {
    /// JSON Web Tokens: HS256, HS384 and HS512 with a secret; RS256, RS384, RS512, PS256, PS384, PS512, ES256 and ES384
    /// with a key in PEM. The state of a reader or writer belongs to the task. ES512, encrypted tokens and multiple
    /// signatures aren't supported
    pub(crate) static VMOD = jwt;

    /// Reads and verifies a token
    object reader() -> Reader = |_, _: &str| Ok(Reader(())), methods {
        /// Parses a token, with or without the prefix "Bearer "; returns whether it is well-formed. Nothing is verified yet
        fn parse(token: STRING) -> BOOL, local = parse;

        /// Same as parse
        fn from_string(token: STRING) -> BOOL, local = parse;

        /// Sets the secret, or the public key in PEM; returns whether it isn't empty
        fn set_key(key: STRING, encoding: Encoding = Ascii) -> BOOL, local = set_key;

        /// Sets one or several keys in JSON (RFC 7517); returns the number of usable ones. Keys of P-521 aren't supported
        fn set_jwk(jwk: STRING) -> INT, local = set_jwk;

        /// Returns whether the token names this algorithm, has a valid signature with the key, and the time is between its
        /// nbf and its exp. With check_kid the token's kid selects a key of a JSON key set: always, or if both have a kid
        fn verify(
            expected_alg: STRING, check_kid: CheckKid = None, check_exp: BOOL = true, check_nbf: BOOL = true
        ) -> BOOL, local = reader_verify;

        /// Returns whether there is a token with claims
        fn is_jwt() -> BOOL, local = |this: &Reader, call: &mut VmodCall<'_>| read(call, this).token.is_some();

        /// Returns alg of the header
        fn get_alg() -> STRING, local = |this: &Reader, call: &mut VmodCall<'_>| header_text(call, this, "alg");

        /// Returns typ of the header
        fn get_typ() -> STRING, local = |this: &Reader, call: &mut VmodCall<'_>| header_text(call, this, "typ");

        /// Returns kid of the header
        fn get_kid() -> STRING, local = |this: &Reader, call: &mut VmodCall<'_>| header_text(call, this, "kid");

        /// Returns b64 of the header; false if it has none
        fn get_b64() -> BOOL, local = get_b64;

        /// Returns the claim sub, if it is a string
        fn get_sub(default: STRING = null) -> STRING, local = get_sub;

        /// Returns the claim iss, if it is a string
        fn get_iss(default: STRING = null) -> STRING, local = get_iss;

        /// Returns the claim jti, if it is a string
        fn get_jti(default: STRING = null) -> STRING, local = get_jti;

        /// Returns the claim exp; VCL fails if has_exp() is false
        fn get_exp() -> TIME, local = |this: &Reader, call: &mut VmodCall<'_>| claim_time(call, this, "exp");

        /// Returns whether there is a claim exp that is a number
        fn has_exp() -> BOOL, local = |this: &Reader, call: &mut VmodCall<'_>| has_time(call, this, "exp");

        /// Returns the claim nbf; VCL fails if has_nbf() is false
        fn get_nbf() -> TIME, local = |this: &Reader, call: &mut VmodCall<'_>| claim_time(call, this, "nbf");

        /// Returns whether there is a claim nbf that is a number
        fn has_nbf() -> BOOL, local = |this: &Reader, call: &mut VmodCall<'_>| has_time(call, this, "nbf");

        /// Returns the claim iat; VCL fails if has_iat() is false
        fn get_iat() -> TIME, local = |this: &Reader, call: &mut VmodCall<'_>| claim_time(call, this, "iat");

        /// Returns whether there is a claim iat that is a number
        fn has_iat() -> BOOL, local = |this: &Reader, call: &mut VmodCall<'_>| has_time(call, this, "iat");

        /// Returns a claim: a string as it is, any other type as JSON
        fn get_claim(claim: STRING, def: STRING = null) -> STRING, local = get_claim;

        /// Returns a claim of type string
        fn get_claim_string(claim: STRING, def: STRING = null) -> STRING, local = get_claim_string;

        /// Returns a claim of type boolean
        fn get_claim_bool(claim: STRING, def: BOOL = false) -> BOOL, local = get_claim_bool;

        /// Returns a claim of type number
        fn get_claim_number(claim: STRING, def: REAL = 0.0) -> REAL, local = get_claim_number;

        /// Returns a claim of type number, rounded to the nearest integer
        fn get_claim_integer(claim: STRING, def: INT = 0) -> INT, local = get_claim_integer;

        /// Returns the header as received
        fn get_header_encoded() -> STRING, local = |this: &Reader, call: &mut VmodCall<'_>| encoded(call, this, 0);

        /// Returns the claims as received
        fn get_payload_encoded() -> STRING, local = |this: &Reader, call: &mut VmodCall<'_>| encoded(call, this, 1);

        /// Returns the signature as received
        fn get_signature() -> STRING, local = |this: &Reader, call: &mut VmodCall<'_>| encoded(call, this, 2);

        /// Returns the token's header, as JSON; unset without a token
        fn get_header() -> STRING, local = |this: &Reader, call: &mut VmodCall<'_>| part(call, this, |token| &token.header);

        /// Returns the token's claims, as JSON; unset without a token
        fn get_payload() -> STRING, local = |this: &Reader, call: &mut VmodCall<'_>| part(call, this, |token| &token.payload);

        /// Returns the token; unset without one
        fn to_string() -> STRING, local = |this: &Reader, call: &mut VmodCall<'_>| part(call, this, |token| &token.text);
    }

    /// Creates a token
    object writer() -> Writer = |_, _: &str| Ok(Writer(())), methods {
        /// Sets the algorithm (default HS256)
        fn set_alg(alg: STRING) -> VOID, local = set_alg;

        /// Sets the claim iss
        fn set_iss(value: STRING) -> VOID, local
            = |this: &Writer, call: &mut VmodCall<'_>, value: &[u8]| set_text(call, this, value, "iss");

        /// Sets the claim sub
        fn set_sub(value: STRING) -> VOID, local
            = |this: &Writer, call: &mut VmodCall<'_>, value: &[u8]| set_text(call, this, value, "sub");

        /// Sets the claim aud
        fn set_aud(value: STRING) -> VOID, local
            = |this: &Writer, call: &mut VmodCall<'_>, value: &[u8]| set_text(call, this, value, "aud");

        /// Sets the claim jti
        fn set_jti(value: STRING) -> VOID, local
            = |this: &Writer, call: &mut VmodCall<'_>, value: &[u8]| set_text(call, this, value, "jti");

        /// Sets the claim exp, in whole seconds
        fn set_exp(time: TIME) -> VOID, local
            = |this: &Writer, call: &mut VmodCall<'_>, time: f64| set_time(call, this, time, "exp");

        /// Sets the claim nbf
        fn set_nbf(time: TIME) -> VOID, local
            = |this: &Writer, call: &mut VmodCall<'_>, time: f64| set_time(call, this, time, "nbf");

        /// Sets the claim iat
        fn set_iat(time: TIME) -> VOID, local
            = |this: &Writer, call: &mut VmodCall<'_>, time: f64| set_time(call, this, time, "iat");

        /// Sets the header's typ (default JWT)
        fn set_typ(value: STRING) -> VOID, local
            = |this: &Writer, call: &mut VmodCall<'_>, value: &[u8]| set_header_text(call, this, value, "typ");

        /// Sets the header's kid
        fn set_kid(value: STRING) -> VOID, local
            = |this: &Writer, call: &mut VmodCall<'_>, value: &[u8]| set_header_text(call, this, value, "kid");

        /// Sets exp to now plus this duration
        fn set_duration(duration: DURATION) -> VOID, local = set_duration;

        /// Sets all claims, as JSON
        fn set_payload(payload: STRING) -> VOID, local = set_payload;

        /// Removes the claim sub
        fn delete_sub() -> VOID, local = |this: &Writer, call: &mut VmodCall<'_>| delete(call, this, "sub");

        /// Removes the claim iss
        fn delete_iss() -> VOID, local = |this: &Writer, call: &mut VmodCall<'_>| delete(call, this, "iss");

        /// Removes the claim jti
        fn delete_jti() -> VOID, local = |this: &Writer, call: &mut VmodCall<'_>| delete(call, this, "jti");

        /// Removes the claim exp
        fn delete_exp() -> VOID, local = |this: &Writer, call: &mut VmodCall<'_>| delete(call, this, "exp");

        /// Removes the claim nbf
        fn delete_nbf() -> VOID, local = |this: &Writer, call: &mut VmodCall<'_>| delete(call, this, "nbf");

        /// Removes the claim iat
        fn delete_iat() -> VOID, local = |this: &Writer, call: &mut VmodCall<'_>| delete(call, this, "iat");

        /// Starts with the header and claims of an existing token
        fn parse(token: STRING) -> VOID, local = from_string;

        /// Same as parse
        fn from_string(token: STRING) -> VOID, local = from_string;

        /// Returns the token, signed with the secret or the private key in PEM (PKCS #8, or PKCS #1 for RSA); unset if that
        /// fails
        fn generate(key: STRING, encoding: Encoding = Ascii) -> STRING, local = generate;

        /// Same as generate
        fn to_string(key: STRING, encoding: Encoding = Ascii) -> STRING, local = generate;

        /// Discards the state of this task
        fn reset() -> VOID, local = reset;

        /// Returns whether parse, from_string, set_payload, generate or to_string failed in this task
        fn error() -> BOOL, local = |this: &Writer, call: &mut VmodCall<'_>| written(call, this).has_failed;
    }

    left_out {
        "jwt.reader.set_jwks" => "set_jwk";
        "jwt.reader.verify_raw" => "digest's hmac functions, for a secret";
        "jwt.writer.generate_raw" => "digest's hmac functions, for a secret";
        "jwt.writer.set_b64" => "generate, for tokens whose claims are in base64";
        "jwt.writer.set_header" => "set_alg, set_typ and set_kid";
        "jwt.writer.set_header_encoded" => "set_alg, set_typ and set_kid";
        "jwt.writer.set_payload_encoded" => "set_payload, with blob.transcode";
    }
}

fn set_key(this: &Reader, call: &mut VmodCall<'_>, key: Option<&Text>, encoding: Encoding) -> CallResult<BOOL> {
    let key = key_of_call(key, encoding.word()).filter(|key| !key.is_empty());
    let is_one = key.is_some();
    read(call, this).key = key.map(Keys::Text);
    give(is_one)
}

fn set_jwk(this: &Reader, call: &mut VmodCall<'_>, jwk: &[u8]) -> CallResult<INT> {
    let keys = jwk::keys(jwk);
    let count = keys.len();
    read(call, this).key = (count > 0).then_some(Keys::Jwk(keys));
    give(count as i64)
}

fn reader_verify(
    this: &Reader,
    call: &mut VmodCall<'_>,
    expected_alg: &[u8],
    check_kid: CheckKid,
    check_exp: bool,
    check_nbf: bool,
) -> CallResult<BOOL> {
    let algorithm = algorithm(expected_alg, "verify")?;
    let check = Check { kid: check_kid.word(), exp: check_exp, nbf: check_nbf, now: call.now };
    let read = read(call, this);
    let both = read.token.as_ref().zip(read.key.as_ref());
    give(both.is_some_and(|(token, key)| token.is_valid(algorithm, key, &check)))
}

fn get_b64(this: &Reader, call: &mut VmodCall<'_>) -> CallResult<BOOL> {
    let b64 = read(call, this).token.as_ref().and_then(|token| token.field_of_header("b64")?.as_bool());
    give(b64.unwrap_or(false))
}

fn get_sub(this: &Reader, call: &mut VmodCall<'_>, default: Option<&Text>) -> CallResult<STRING> {
    claim_text(call, this, "sub", default)
}

fn get_iss(this: &Reader, call: &mut VmodCall<'_>, default: Option<&Text>) -> CallResult<STRING> {
    claim_text(call, this, "iss", default)
}

fn get_jti(this: &Reader, call: &mut VmodCall<'_>, default: Option<&Text>) -> CallResult<STRING> {
    claim_text(call, this, "jti", default)
}

fn get_claim(this: &Reader, call: &mut VmodCall<'_>, name: &[u8], def: Option<&Text>) -> CallResult<STRING> {
    let text = |claim: Json| match claim {
        Json::String(text) => Text::from(text),
        other => Text::from(other.to_string()),
    };
    give(claim(call, this, name).map(text).or_else(|| def.cloned()))
}

fn get_claim_string(this: &Reader, call: &mut VmodCall<'_>, claim: &[u8], def: Option<&Text>) -> CallResult<STRING> {
    let name = claim.to_vec();
    claim_text(call, this, &String::from_utf8_lossy(&name), def)
}

fn get_claim_bool(this: &Reader, call: &mut VmodCall<'_>, name: &[u8], def: bool) -> CallResult<BOOL> {
    let claim = claim(call, this, name).and_then(|claim| claim.as_bool());
    give(claim.unwrap_or(def))
}

fn get_claim_number(this: &Reader, call: &mut VmodCall<'_>, name: &[u8], def: f64) -> CallResult<REAL> {
    let claim = claim(call, this, name).and_then(|claim| claim.as_f64());
    give(claim.unwrap_or(def))
}

fn get_claim_integer(this: &Reader, call: &mut VmodCall<'_>, name: &[u8], def: i64) -> CallResult<INT> {
    let whole = |claim: Json| claim.as_i64().or_else(|| Some(claim.as_f64()?.round() as i64));
    give(claim(call, this, name).and_then(whole).unwrap_or(def))
}

fn set_alg(this: &Writer, call: &mut VmodCall<'_>, alg: &[u8]) -> CallResult<VOID> {
    let algorithm = algorithm(alg, "set_alg")?;
    written(call, this).algorithm = Some(algorithm);
    give(())
}

fn set_duration(this: &Writer, call: &mut VmodCall<'_>, duration: f64) -> CallResult<VOID> {
    let time = (call.now + duration) as i64;
    written(call, this).claims.insert("exp".to_owned(), Json::from(time));
    give(())
}

fn set_payload(this: &Writer, call: &mut VmodCall<'_>, payload: &[u8]) -> CallResult<VOID> {
    let claims = object(payload);
    let written = written(call, this);
    match claims {
        Some(claims) => written.claims = claims,
        None => written.has_failed = true,
    }
    give(())
}

fn reset(this: &Writer, call: &mut VmodCall<'_>) -> CallResult<VOID> {
    *written(call, this) = WriterTask::default();
    give(())
}

// Not empty, so that each has an address of its own.
struct Reader(#[allow(dead_code)] ());
struct Writer(#[allow(dead_code)] ());

#[derive(Default)]
struct ReaderTask {
    token: Option<Token>,
    key: Option<Keys>,
}

enum Keys {
    /// The secret, or a key in PEM.
    Text(Text),
    Jwk(Vec<jwk::Jwk>),
}

struct Check {
    kid: &'static str,
    exp: bool,
    nbf: bool,
    now: f64,
}

#[derive(Default)]
struct WriterTask {
    algorithm: Option<&'static Algorithm>,
    /// The header without its `alg`.
    header: Map<String, Json>,
    claims: Map<String, Json>,
    has_failed: bool,
}

/// A token taken apart; not checked.
struct Token {
    text: Vec<u8>,
    header: Vec<u8>,
    payload: Vec<u8>,
    /// Length of the text that is signed.
    signed: usize,
    signature: Vec<u8>,
}

struct Algorithm {
    name: &'static str,
    kind: Kind,
}

enum Kind {
    Secret(hmac::Algorithm),
    Rsa(&'static sig::RsaParameters, &'static dyn sig::RsaEncoding),
    Ecdsa(&'static sig::EcdsaVerificationAlgorithm, &'static sig::EcdsaSigningAlgorithm),
}

static ALGORITHMS: [Algorithm; 11] = [
    Algorithm { name: "HS256", kind: Kind::Secret(hmac::HMAC_SHA256) },
    Algorithm { name: "HS384", kind: Kind::Secret(hmac::HMAC_SHA384) },
    Algorithm { name: "HS512", kind: Kind::Secret(hmac::HMAC_SHA512) },
    Algorithm { name: "RS256", kind: Kind::Rsa(&sig::RSA_PKCS1_2048_8192_SHA256, &sig::RSA_PKCS1_SHA256) },
    Algorithm { name: "RS384", kind: Kind::Rsa(&sig::RSA_PKCS1_2048_8192_SHA384, &sig::RSA_PKCS1_SHA384) },
    Algorithm { name: "RS512", kind: Kind::Rsa(&sig::RSA_PKCS1_2048_8192_SHA512, &sig::RSA_PKCS1_SHA512) },
    Algorithm { name: "PS256", kind: Kind::Rsa(&sig::RSA_PSS_2048_8192_SHA256, &sig::RSA_PSS_SHA256) },
    Algorithm { name: "PS384", kind: Kind::Rsa(&sig::RSA_PSS_2048_8192_SHA384, &sig::RSA_PSS_SHA384) },
    Algorithm { name: "PS512", kind: Kind::Rsa(&sig::RSA_PSS_2048_8192_SHA512, &sig::RSA_PSS_SHA512) },
    Algorithm {
        name: "ES256",
        kind: Kind::Ecdsa(&sig::ECDSA_P256_SHA256_FIXED, &sig::ECDSA_P256_SHA256_FIXED_SIGNING),
    },
    Algorithm {
        name: "ES384",
        kind: Kind::Ecdsa(&sig::ECDSA_P384_SHA384_FIXED, &sig::ECDSA_P384_SHA384_FIXED_SIGNING),
    },
];

fn algorithm(name: &[u8], who: &str) -> Result<&'static Algorithm, VclFailure> {
    match ALGORITHMS.iter().find(|algorithm| algorithm.name.as_bytes() == name) {
        Some(algorithm) => Ok(algorithm),
        None => {
            let known: Vec<&str> = ALGORITHMS.iter().map(|algorithm| algorithm.name).collect();
            fail(format!("jwt: {who}(): \"{}\" is none of {}", name.escape_ascii(), known.join(", ")))
        }
    }
}

fn key_of<T>(of: &T) -> usize {
    std::ptr::from_ref(of) as usize
}

fn read<'a, T>(call: &'a mut VmodCall<'_>, of: &T) -> &'a mut ReaderTask {
    call.ctx.task().keyed(key_of(of), ReaderTask::default)
}

fn written<'a, T>(call: &'a mut VmodCall<'_>, of: &T) -> &'a mut WriterTask {
    call.ctx.task().keyed(key_of(of), WriterTask::default)
}

fn part<T>(call: &mut VmodCall<'_>, of: &T, which: fn(&Token) -> &Vec<u8>) -> CallResult<STRING> {
    give(read(call, of).token.as_ref().map(|token| which(token).clone()))
}

fn parse(this: &Reader, call: &mut VmodCall<'_>, token: &[u8]) -> CallResult<BOOL> {
    let token = Token::parse(token);
    let is_one = token.is_some();
    read(call, this).token = token;
    give(is_one)
}

/// A key and how it is written: the first two arguments. A key in PEM is never encoded otherwise.
fn key_of_call(key2: Option<&Text>, encoding: &'static str) -> Option<Text> {
    let key = key2?;
    if encoding == "ascii" || pem::is_pem(key.as_bytes()) {
        return Some(key.clone());
    }
    Some(Text::copy(&url_decoded(key.as_bytes())?))
}

/// base64url, padded or not.
pub(crate) fn url_decoded(text: &[u8]) -> Option<Vec<u8>> {
    let end = text.iter().rposition(|byte| *byte != b'=').map_or(0, |at| at + 1);
    ByteEncoding::parse(URL_CODE).decode(&text[..end], None)
}

fn header_text<T>(call: &mut VmodCall<'_>, of: &T, name: &str) -> CallResult<STRING> {
    let field = read(call, of).token.as_ref().and_then(|token| token.field_of_header(name));
    give(field.as_ref().and_then(Json::as_str))
}

fn claim_called<T>(call: &mut VmodCall<'_>, of: &T, name: &str) -> Option<Json> {
    read(call, of).token.as_ref()?.claims()?.remove(name)
}

fn claim<T>(call: &mut VmodCall<'_>, of: &T, claim: &[u8]) -> Option<Json> {
    claim_called(call, of, &String::from_utf8_lossy(claim))
}

fn claim_text<T>(call: &mut VmodCall<'_>, of: &T, name: &str, default: Option<&Text>) -> CallResult<STRING> {
    let claim = claim_called(call, of, name);
    give(claim.as_ref().and_then(Json::as_str).map(Text::from).or_else(|| default.cloned()))
}

fn claim_time<T>(call: &mut VmodCall<'_>, of: &T, name: &str) -> CallResult<TIME> {
    match claim_called(call, of, name).and_then(|claim| claim.as_f64()) {
        Some(time) => give(time),
        None => fail(format!("jwt: get_{name}(): there is none; has_{name}() says so")),
    }
}

fn has_time<T>(call: &mut VmodCall<'_>, of: &T, name: &str) -> CallResult<BOOL> {
    give(claim_called(call, of, name).is_some_and(|claim| claim.is_number()))
}

/// A part of the token as it came.
fn encoded<T>(call: &mut VmodCall<'_>, of: &T, which: usize) -> CallResult<STRING> {
    let token = read(call, of).token.as_ref();
    let part = token.and_then(|token| token.text.split(|byte| *byte == b'.').nth(which));
    give(part)
}

fn set_header_text<T>(call: &mut VmodCall<'_>, of: &T, value: &[u8], name: &str) -> CallResult<VOID> {
    let text = String::from_utf8_lossy(value).into_owned();
    written(call, of).header.insert(name.to_owned(), Json::String(text));
    give(())
}

fn delete<T>(call: &mut VmodCall<'_>, of: &T, name: &str) -> CallResult<VOID> {
    written(call, of).claims.remove(name);
    give(())
}

fn set_text<T>(call: &mut VmodCall<'_>, of: &T, value: &[u8], name: &str) -> CallResult<VOID> {
    let text = String::from_utf8_lossy(value).into_owned();
    written(call, of).claims.insert(name.to_owned(), Json::String(text));
    give(())
}

fn set_time<T>(call: &mut VmodCall<'_>, of: &T, time_: f64, name: &str) -> CallResult<VOID> {
    let time = time_ as i64;
    written(call, of).claims.insert(name.to_owned(), Json::from(time));
    give(())
}

fn from_string(this: &Writer, call: &mut VmodCall<'_>, token: &[u8]) -> CallResult<VOID> {
    let token = Token::parse(token);
    let written = written(call, this);
    let parts = token.and_then(|token| {
        let name = token.field_of_header("alg")?.as_str()?.to_owned();
        let known = ALGORITHMS.iter().find(|algorithm| algorithm.name == name)?;
        let mut header = object(&token.header)?;
        header.remove("alg");
        Some((known, header, token.claims()?))
    });
    match parts {
        Some((algorithm, header, claims)) => {
            (written.algorithm, written.header, written.claims) = (Some(algorithm), header, claims);
        }
        None => written.has_failed = true,
    }
    give(())
}

/// The same claims are the same text, whatever order they were set in.
fn in_order(claims: Map<String, Json>) -> String {
    let mut claims = Json::Object(claims);
    claims.sort_all_objects();
    claims.to_string()
}

fn generate(this: &Writer, call: &mut VmodCall<'_>, key: Option<&Text>, encoding: Encoding) -> CallResult<STRING> {
    let written = written(call, this);
    let algorithm = written.algorithm.unwrap_or(&ALGORITHMS[0]);
    let mut header = written.header.clone();
    header.insert("alg".to_owned(), Json::from(algorithm.name));
    header.entry("typ").or_insert_with(|| Json::from("JWT"));
    let (header, payload) = (in_order(header), in_order(written.claims.clone()));
    let code = ByteEncoding::parse(URL_CODE);
    let mut text = [code.encode(header.as_bytes(), false), code.encode(payload.as_bytes(), false)].join(&b'.');
    match algorithm.sign(key_of_call(key, encoding.word()).as_deref().unwrap_or_default(), &text) {
        Some(signature) => {
            text.push(b'.');
            text.extend(code.encode(&signature, false));
            give(text)
        }
        None => {
            written.has_failed = true;
            give(None::<Text>)
        }
    }
}

impl Token {
    fn parse(text: &[u8]) -> Option<Token> {
        let text = match text.get(..7) {
            Some(scheme) if scheme.eq_ignore_ascii_case(b"bearer ") => text[7..].trim_ascii(),
            _ => text.trim_ascii(),
        };
        let mut parts = text.split(|b| *b == b'.');
        let parts = [parts.next()?, parts.next()?, parts.next()?, parts.next().map_or(&b""[..], |_| b"!")];
        if text.len() > MAX || !parts[3].is_empty() {
            return None;
        }
        let plain = |part: &[u8]| ByteEncoding::parse(URL_CODE).decode(part, None);
        let token = Token {
            text: text.to_vec(),
            header: plain(parts[0])?,
            payload: plain(parts[1])?,
            signed: parts[0].len() + 1 + parts[1].len(),
            signature: plain(parts[2])?,
        };
        let is_whole = object(&token.header).is_some() && token.claims().is_some();
        is_whole.then_some(token)
    }

    fn field_of_header(&self, name: &str) -> Option<Json> {
        object(&self.header)?.remove(name)
    }

    fn claims(&self) -> Option<Map<String, Json>> {
        object(&self.payload)
    }

    fn is_valid(&self, algorithm: &Algorithm, key: &Keys, check: &Check) -> bool {
        let names_it = self.field_of_header("alg").is_some_and(|alg| alg.as_str() == Some(algorithm.name));
        let is_in_time = |claims: Map<String, Json>| {
            // A time that is none is no permission.
            let time = |name: &str| claims.get(name).map(|time| time.as_f64().unwrap_or(f64::NAN));
            (!check.exp || time("exp").is_none_or(|exp| check.now < exp))
                && (!check.nbf || time("nbf").is_none_or(|nbf| nbf <= check.now))
        };
        names_it
            && self.field_of_header("crit").is_none()
            && self.is_signed(algorithm, key, check.kid)
            && self.claims().is_some_and(is_in_time)
    }

    fn is_signed(&self, algorithm: &Algorithm, keys: &Keys, check_kid: &str) -> bool {
        let text = &self.text[..self.signed];
        let keys = match keys {
            Keys::Text(key) => return algorithm.verify(key, text, &self.signature),
            Keys::Jwk(keys) => keys,
        };
        let kid = self.field_of_header("kid");
        let kid = kid.as_ref().and_then(Json::as_str);
        let mut asked = keys.iter().filter(|key| match check_kid {
            "required" => kid.is_some() && key.kid() == kid,
            "optional" => kid.is_none() || key.kid().is_none() || key.kid() == kid,
            _ => true,
        });
        asked.any(|key| key.verify(algorithm, text, &self.signature))
    }
}

fn object(text: &[u8]) -> Option<Map<String, Json>> {
    match serde_json::from_slice(text) {
        Ok(Json::Object(map)) => Some(map),
        _ => None,
    }
}

impl Algorithm {
    fn verify(&self, key: &[u8], text: &[u8], signature: &[u8]) -> bool {
        match &self.kind {
            // A public key is no secret: who has it could sign.
            Kind::Secret(_) if pem::is_pem(key) => false,
            Kind::Secret(hash) => hmac::verify(&hmac::Key::new(*hash, key), text, signature).is_ok(),
            Kind::Rsa(how, _) => {
                let key = pem::rsa_public_key(key);
                key.is_some_and(|key| UnparsedPublicKey::new(*how, key).verify(text, signature).is_ok())
            }
            Kind::Ecdsa(how, _) => {
                let key = pem::ec_public_key(key);
                key.is_some_and(|key| UnparsedPublicKey::new(*how, key).verify(text, signature).is_ok())
            }
        }
    }

    fn sign(&self, key: &[u8], text: &[u8]) -> Option<Vec<u8>> {
        let random = SystemRandom::new();
        match &self.kind {
            Kind::Secret(_) if key.is_empty() || pem::is_pem(key) => None,
            Kind::Secret(hash) => Some(hmac::sign(&hmac::Key::new(*hash, key), text).as_ref().to_vec()),
            Kind::Rsa(_, how) => {
                let pair: rsa::KeyPair = match pem::decode(key)? {
                    (pem::Label::RsaPrivate, der) => RsaKeyPair::from_der(&der).ok()?,
                    (pem::Label::Private, der) => RsaKeyPair::from_pkcs8(&der).ok()?,
                    _ => return None,
                };
                let mut out = vec![0; pair.public().modulus_len()];
                pair.sign(*how, &random, text, &mut out).ok()?;
                Some(out)
            }
            Kind::Ecdsa(_, how) => {
                let (pem::Label::Private, der) = pem::decode(key)? else { return None };
                let pair = EcdsaKeyPair::from_pkcs8(how, &der, &random).ok()?;
                Some(pair.sign(&random, text).ok()?.as_ref().to_vec())
            }
        }
    }
}

#[cfg(test)]
mod tests;
