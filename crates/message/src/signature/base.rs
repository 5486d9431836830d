// SPDX-License-Identifier: BSD-2-Clause
//! The signature base (RFC 9421 2.5): a line for each covered component, and the signature's own parameters.

use super::component::ComponentFault;
use super::{MessageSignature, SignatureFault, SignedRequest, lossy};
use crate::structured::FieldMember;

impl MessageSignature {
    /// The text that was signed, if the request is as its signer made it.
    ///
    /// # Errors
    /// [`SignatureFault::Component`].
    pub fn base(&self, request: &mut SignedRequest<'_>) -> Result<Vec<u8>, SignatureFault> {
        let (mut out, mut seen) = (Vec::new(), Vec::<&FieldMember>::new());
        for component in self.components() {
            let mut name = Vec::new();
            component.write(&mut name);
            let value = match seen.iter().any(|earlier| is_same(earlier, component)) {
                true => Err(ComponentFault::Repeated),
                false => request.value(component).and_then(only_ascii),
            };
            let value = value.map_err(|fault| SignatureFault::Component(lossy(&name), fault.text()))?;
            for part in [&name[..], b": ", &value, b"\n"] {
                out.extend_from_slice(part);
            }
            seen.push(component);
        }
        out.extend_from_slice(b"\"@signature-params\": ");
        self.input.write(&mut out);
        Ok(out)
    }
}

/// The order of a component's parameters makes no other component of it (RFC 9421 2).
fn is_same(one: &FieldMember, other: &FieldMember) -> bool {
    one.item == other.item
        && one.parameters.len() == other.parameters.len()
        && one.parameters.iter().all(|parameter| other.parameters.contains(parameter))
}

/// A line end in a value would let one component pass for several.
fn only_ascii(value: Vec<u8>) -> Result<Vec<u8>, ComponentFault> {
    let is_plain = value.iter().all(|c| matches!(c, b'\t' | b' '..=b'~'));
    if is_plain { Ok(value) } else { Err(ComponentFault::NotAscii) }
}
