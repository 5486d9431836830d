// SPDX-License-Identifier: BSD-2-Clause
//! HTTP message signatures (RFC 9421) of requests: what Signature-Input and Signature say, and the text that was signed. Keys and
//! algorithms are the verifier's.

use std::fmt;

use crate::Head;
use crate::structured::{Dictionary, FieldItem, FieldMember};

mod agent;
mod base;
mod component;

pub use agent::SignatureAgent;
pub use component::SignedRequest;

/// Covered components of a signature that is read.
const MAX_COMPONENTS: usize = 32;
/// Signatures of a request that are read.
const MAX_SIGNATURES: usize = 16;

/// A signature of a request, which nobody has verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageSignature {
    label: Vec<u8>,
    /// The covered components as an inner list, with the signature's parameters.
    input: FieldMember,
    signature: Vec<u8>,
}

/// The reason why a signature can't be verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SignatureFault {
    /// This field is there, and isn't a dictionary of what it should hold.
    Malformed(&'static str),
    /// The request has more signatures than are read.
    TooMany,
    /// Signature-Input has a member of this label, and Signature has none, or the other way round.
    Unpaired(String),
    /// More components are covered than are read.
    TooManyComponents,
    /// A component, as it is written in Signature-Input, has no value here.
    Component(String, &'static str),
}

impl fmt::Display for SignatureFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SignatureFault::Malformed(field) => write!(f, "{field} is malformed"),
            SignatureFault::TooMany => write!(f, "more than {MAX_SIGNATURES} signatures"),
            SignatureFault::Unpaired(label) => write!(f, "{label} isn't in both Signature-Input and Signature"),
            SignatureFault::TooManyComponents => write!(f, "more than {MAX_COMPONENTS} components are covered"),
            SignatureFault::Component(name, fault) => write!(f, "{name}: {fault}"),
        }
    }
}

/// The signatures of a request, in the order of Signature-Input.
///
/// # Errors
/// One of the fields is malformed: no signature of the request counts.
pub fn signatures(request: &Head) -> Result<Vec<MessageSignature>, SignatureFault> {
    let (inputs, values) = (dictionary(request, "Signature-Input")?, dictionary(request, "Signature")?);
    if inputs.members().count().max(values.members().count()) > MAX_SIGNATURES {
        return Err(SignatureFault::TooMany);
    }
    if let Some((label, _)) = values.members().find(|(label, _)| inputs.get(label).is_none()) {
        return Err(SignatureFault::Unpaired(lossy(label)));
    }
    let pair = |(label, input): (&[u8], &FieldMember)| {
        let value = values.get(label).ok_or_else(|| SignatureFault::Unpaired(lossy(label)))?;
        let FieldItem::Bytes(signature) = &value.item else { return Err(SignatureFault::Malformed("Signature")) };
        let components = input.item.strings().ok_or(SignatureFault::Malformed("Signature-Input"))?;
        if components.len() > MAX_COMPONENTS {
            return Err(SignatureFault::TooManyComponents);
        }
        Ok(MessageSignature { label: label.to_vec(), input: input.clone(), signature: signature.clone() })
    };
    inputs.with_parameters().map(pair).collect()
}

fn dictionary(request: &Head, field: &'static str) -> Result<Dictionary, SignatureFault> {
    let Some(text) = request.joined(field) else { return Ok(Dictionary::default()) };
    Dictionary::parse(&text).ok_or(SignatureFault::Malformed(field))
}

fn lossy(text: &[u8]) -> String {
    String::from_utf8_lossy(text).into_owned()
}

impl MessageSignature {
    /// The name in the request, which isn't signed.
    pub fn label(&self) -> &[u8] {
        &self.label
    }

    /// The bytes of the signature.
    pub fn signature(&self) -> &[u8] {
        &self.signature
    }

    /// A parameter that is a string: `alg`, `keyid`, `nonce`, `tag`.
    pub fn text(&self, parameter: &str) -> Option<&str> {
        std::str::from_utf8(self.parameter(parameter)?.string()?).ok()
    }

    /// A parameter that is a number of seconds since 1970: `created`, `expires`.
    pub fn time(&self, parameter: &str) -> Option<i64> {
        let FieldItem::Integer(seconds) = self.parameter(parameter)? else { return None };
        Some(*seconds)
    }

    /// True if a component of this name is covered as a whole.
    pub fn covers(&self, name: &str) -> bool {
        self.components().any(|component| {
            component.item.string() == Some(name.as_bytes()) && component.parameters.iter().all(|(key, _)| key == b"sf")
        })
    }

    fn parameter(&self, name: &str) -> Option<&FieldItem> {
        self.input.parameters.iter().find(|(key, _)| key == name.as_bytes()).map(|(_, value)| value)
    }

    fn components(&self) -> impl Iterator<Item = &FieldMember> {
        let FieldItem::List(components) = &self.input.item else { unreachable!("a signature covers a list") };
        components.iter()
    }
}

#[cfg(test)]
mod tests;
