// SPDX-License-Identifier: BSD-2-Clause
//! The VCL modules that bring cryptography, and the dependencies for it: hashes, signatures, passwords, tokens, UUIDs made of
//! names. All else is as in `vmods`; the program that is built of both puts their lists together.

mod basicauth;
mod botauth;
mod crypto;
mod digest;
mod jwt;
mod uuid;

vmod_support::modules! { basicauth botauth crypto digest jwt uuid }

#[cfg(test)]
mod tests;
