// SPDX-License-Identifier: BSD-2-Clause
//! Signature-Agent: where a signer says that its keys are (draft-ietf-webbotauth-httpsig-protocol).

use super::{MessageSignature, SignatureFault, SignedRequest};
use crate::structured::{Dictionary, FieldItem, FieldMember, item};

const FIELD: &str = "Signature-Agent";
const COMPONENT: &[u8] = b"signature-agent";

/// The agent to which a signature may be attributed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SignatureAgent {
    /// The request names none.
    Absent,
    /// The signature covers none of those that the request names, or several and none by its own label.
    NotCovered,
    /// Keys are found in another way than in a directory.
    OtherType(String),
    /// The URI at which the directory is.
    Uri(String),
}

impl MessageSignature {
    /// The agent in the older form, one string, or in the newer one, a dictionary.
    ///
    /// # Errors
    /// The field is neither.
    pub fn agent(&self, request: &mut SignedRequest<'_>) -> Result<SignatureAgent, SignatureFault> {
        let malformed = SignatureFault::Malformed(FIELD);
        let Some(text) = request.head.joined(FIELD) else { return Ok(SignatureAgent::Absent) };
        let member = if text.trim_ascii_start().starts_with(b"\"") {
            let only = item(&text).ok_or(malformed.clone())?;
            self.covers("signature-agent").then_some(only)
        } else {
            self.own_member(request.dictionary(COMPONENT).map_err(|_| malformed.clone())?).cloned()
        };
        let Some(member) = member else { return Ok(SignatureAgent::NotCovered) };
        let uri = member.item.string().ok_or(malformed)?;
        Ok(match other_type(&member) {
            Some(other) => SignatureAgent::OtherType(other),
            None => SignatureAgent::Uri(String::from_utf8_lossy(uri).into_owned()),
        })
    }

    /// The covered member whose key is the signature's label, or the only one.
    fn own_member<'a>(&self, agents: &'a Dictionary) -> Option<&'a FieldMember> {
        let is_whole = self.covers("signature-agent");
        let keys: Vec<&[u8]> = self.components().filter_map(agent_key).collect();
        let covered: Vec<_> = agents.with_parameters().filter(|(key, _)| is_whole || keys.contains(key)).collect();
        match covered[..] {
            [(_, only)] => Some(only),
            _ => covered.iter().find(|(key, _)| *key == self.label).map(|(_, member)| *member),
        }
    }
}

/// The key of the member of Signature-Agent that a component is.
fn agent_key(component: &FieldMember) -> Option<&[u8]> {
    let key = component.parameters.iter().find(|(key, _)| key == b"key").map(|(_, value)| value)?;
    key.string().filter(|_| component.item.string() == Some(COMPONENT))
}

fn other_type(member: &FieldMember) -> Option<String> {
    let (_, kind) = member.parameters.iter().find(|(key, _)| key == b"type")?;
    let FieldItem::Token(kind) = kind else { return Some("that isn't a token".to_owned()) };
    (kind != b"directory").then(|| String::from_utf8_lossy(kind).into_owned())
}
