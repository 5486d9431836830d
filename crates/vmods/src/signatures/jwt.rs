// SPDX-License-Identifier: BSD-2-Clause
//! vmod_jwt of Varnish Enterprise 6: RFC 7519 tokens, signed as RFC 7515 and 7518 have it.

use tables::vmods::Default as D;
use tables::vmods::Type::*;
use tables::vmods::{Arg, Func, LeftOut, Module, Object};

const TEXT: &[Arg] = &[Arg::new(String, "value")];
const TIME: &[Arg] = &[Arg::new(Time, "time")];

const DEFAULT: &[Arg] = &[Arg::new(String, "default").or(D::Null)];
const TOKEN: Arg = Arg::new(String, "token");
const CLAIM: Arg = Arg::new(String, "claim");
const KEY: Arg = Arg::new(String, "key");
/// How a secret is written.
const ENCODING: Arg = Arg::of("encoding", &["ascii", "base64url"]).or(D::Enum("ascii"));

/// vmod_jwt
pub(crate) const MODULE: Module = Module {
    left_out: LEFT_OUT,
    name: "jwt",
    text: "Signed tokens: HS256, HS384 and HS512 with a secret; RS256, RS384, RS512, PS256, PS384, PS512, ES256 and ES384 with a key in \
           PEM. What a reader or writer was told belongs to the task. Not built: ES512, encrypted tokens, several signatures",
    functions: &[],
    objects: &[
        Object {
            name: "reader",
            args: &[],
            text: "Reads a token and checks it",
            methods: &[
                Func::new(
                    Bool,
                    "parse",
                    &[TOKEN],
                    "Takes a token, with or without \"Bearer \" before it: whether it is one. Nothing is checked yet",
                ),
                Func::new(Bool, "from_string", &[TOKEN], "The same"),
                Func::new(
                    Bool,
                    "set_key",
                    &[KEY, ENCODING],
                    "Takes the secret, or the public key in PEM: whether it isn't empty",
                ),
                Func::new(
                    Int,
                    "set_jwk",
                    &[Arg::new(String, "jwk")],
                    "Takes a key in JSON (RFC 7517), or several: how many can be used, which those of P-521 can't",
                ),
                Func::new(
                    Bool,
                    "verify",
                    &[
                        Arg::new(String, "expected_alg"),
                        Arg::of("check_kid", &["none", "optional", "required"]).or(D::Enum("none")),
                        Arg::new(Bool, "check_exp").or(D::Bool(true)),
                        Arg::new(Bool, "check_nbf").or(D::Bool(true)),
                    ],
                    "Whether the token names this algorithm, was signed so with the key, and isn't past its exp nor before its nbf. \
                     check_kid has its kid choose among keys in JSON: always, or where both have one",
                ),
                Func::new(Bool, "is_jwt", &[], "Whether there is a token: what has no claims isn't taken for one"),
                Func::new(String, "get_alg", &[], "What the header says as alg"),
                Func::new(String, "get_typ", &[], "What the header says as typ"),
                Func::new(String, "get_kid", &[], "What the header says as kid"),
                Func::new(Bool, "get_b64", &[], "What the header says as b64; false when it says nothing"),
                Func::new(String, "get_sub", DEFAULT, "The claim sub, if it is a text"),
                Func::new(String, "get_iss", DEFAULT, "The claim iss, if it is a text"),
                Func::new(String, "get_jti", DEFAULT, "The claim jti, if it is a text"),
                Func::new(Time, "get_exp", &[], "The claim exp; VCL fails when has_exp() is false"),
                Func::new(Bool, "has_exp", &[], "Whether there is a claim exp that is a number"),
                Func::new(Time, "get_nbf", &[], "The claim nbf; VCL fails when has_nbf() is false"),
                Func::new(Bool, "has_nbf", &[], "Whether there is a claim nbf that is a number"),
                Func::new(Time, "get_iat", &[], "The claim iat; VCL fails when has_iat() is false"),
                Func::new(Bool, "has_iat", &[], "Whether there is a claim iat that is a number"),
                Func::new(
                    String,
                    "get_claim",
                    &[CLAIM, Arg::new(String, "def").or(D::Null)],
                    "A claim: a text as it is, anything else as JSON",
                ),
                Func::new(
                    String,
                    "get_claim_string",
                    &[CLAIM, Arg::new(String, "def").or(D::Null)],
                    "A claim that is a text",
                ),
                Func::new(
                    Bool,
                    "get_claim_bool",
                    &[CLAIM, Arg::new(Bool, "def").or(D::Bool(false))],
                    "A claim that is true or false",
                ),
                Func::new(
                    Real,
                    "get_claim_number",
                    &[CLAIM, Arg::new(Real, "def").or(D::Real(0.0))],
                    "A claim that is a number",
                ),
                Func::new(
                    Int,
                    "get_claim_integer",
                    &[CLAIM, Arg::new(Int, "def").or(D::Int(0))],
                    "The whole number that is next to a claim",
                ),
                Func::new(String, "get_header_encoded", &[], "The header as it came"),
                Func::new(String, "get_payload_encoded", &[], "The claims as they came"),
                Func::new(String, "get_signature", &[], "The signature as it came"),
                Func::new(String, "get_header", &[], "The token's header, as JSON; unset without a token"),
                Func::new(String, "get_payload", &[], "The token's claims, as JSON; unset without a token"),
                Func::new(String, "to_string", &[], "The token; unset without one"),
            ],
        },
        Object {
            name: "writer",
            args: &[],
            text: "Makes a token",
            methods: &[
                Func::new(Void, "set_alg", &[Arg::new(String, "alg")], "The algorithm, HS256 if none is set"),
                Func::new(Void, "set_iss", TEXT, "The claim iss"),
                Func::new(Void, "set_sub", TEXT, "The claim sub"),
                Func::new(Void, "set_aud", TEXT, "The claim aud"),
                Func::new(Void, "set_jti", TEXT, "The claim jti"),
                Func::new(Void, "set_exp", TIME, "The claim exp, in whole seconds"),
                Func::new(Void, "set_nbf", TIME, "The claim nbf"),
                Func::new(Void, "set_iat", TIME, "The claim iat"),
                Func::new(Void, "set_typ", TEXT, "The header's typ, JWT if none is set"),
                Func::new(Void, "set_kid", TEXT, "The header's kid"),
                Func::new(Void, "set_duration", &[Arg::new(Duration, "duration")], "Makes exp so much after now"),
                Func::new(Void, "set_payload", &[Arg::new(String, "payload")], "All claims, as JSON"),
                Func::new(Void, "delete_sub", &[], "No claim sub"),
                Func::new(Void, "delete_iss", &[], "No claim iss"),
                Func::new(Void, "delete_jti", &[], "No claim jti"),
                Func::new(Void, "delete_exp", &[], "No claim exp"),
                Func::new(Void, "delete_nbf", &[], "No claim nbf"),
                Func::new(Void, "delete_iat", &[], "No claim iat"),
                Func::new(Void, "parse", &[TOKEN], "Begins with the header and claims of a token"),
                Func::new(Void, "from_string", &[TOKEN], "The same"),
                Func::new(
                    String,
                    "generate",
                    &[KEY, ENCODING],
                    "The token, signed with the secret or the private key in PEM (PKCS #8, or PKCS #1 for RSA); unset when that fails",
                ),
                Func::new(String, "to_string", &[KEY, ENCODING], "The same"),
                Func::new(Void, "reset", &[], "Forgets all that this task did"),
                Func::new(
                    Bool,
                    "error",
                    &[],
                    "Whether parse, from_string, set_payload, generate or to_string failed in this task",
                ),
            ],
        },
    ],
};

/// What isn't built.
pub(crate) const LEFT_OUT: &[LeftOut] = &[
    LeftOut("jwt.reader.set_jwks", "set_jwk"),
    LeftOut("jwt.reader.verify_raw", "digest's hmac functions, for a secret"),
    LeftOut("jwt.writer.generate_raw", "digest's hmac functions, for a secret"),
    LeftOut("jwt.writer.set_b64", "generate, for tokens whose claims are in base64"),
    LeftOut("jwt.writer.set_header", "set_alg, set_typ and set_kid"),
    LeftOut("jwt.writer.set_header_encoded", "set_alg, set_typ and set_kid"),
    LeftOut("jwt.writer.set_payload_encoded", "set_payload, with blob.transcode"),
];
