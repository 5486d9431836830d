// SPDX-License-Identifier: BSD-2-Clause
//! vmod_jwt of Varnish Enterprise 6: RFC 7519 tokens, signed as RFC 7515 and 7518 have it.

use super::Type::*;
use super::{Arg, Func, LeftOut, Module, Object};

const TEXT: &[Arg] = &[Arg::new(String, "value")];
const TIME: &[Arg] = &[Arg::new(Time, "time")];

/// vmod_jwt
pub(super) const MODULE: Module = Module {
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
                    &[Arg::new(String, "jwt")],
                    "Takes a token, with or without \"Bearer \" before it: whether it is one. Nothing is checked yet",
                ),
                Func::new(
                    Bool,
                    "set_key",
                    &[Arg::new(String, "key")],
                    "Takes the secret, or the public key in PEM: whether it isn't empty",
                ),
                Func::new(
                    Bool,
                    "verify",
                    &[Arg::new(String, "alg")],
                    "Whether the token names this algorithm, was signed so with the key, and isn't past its exp nor before its nbf",
                ),
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
                Func::new(
                    Void,
                    "from_string",
                    &[Arg::new(String, "jwt")],
                    "Begins with the algorithm and claims of a token",
                ),
                Func::new(
                    String,
                    "generate",
                    &[Arg::new(String, "key")],
                    "The token, signed with the secret or the private key in PEM (PKCS #8, or PKCS #1 for RSA); unset when that fails",
                ),
                Func::new(Bool, "error", &[], "Whether from_string or generate failed in this task"),
            ],
        },
    ],
};

/// What isn't built.
pub(super) const LEFT_OUT: &[LeftOut] = &[
    LeftOut("jwt.reader.set_jwk", "set_key, with the key in PEM"),
    LeftOut("jwt.reader.set_jwks", "set_key, with the key in PEM"),
];
