// SPDX-License-Identifier: BSD-2-Clause
//! What a node's report says where the node is a member of the second tier by that (`--peers fleet`): its share, and a code over its name, group and
//! address that only a member can make (HMAC-SHA256 by the members' common secret). Whoever may write to the fleet's board, and has no secret,
//! makes nobody a member.

use base::hex;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::Sha256;

use crate::FleetSettings;

const CODE_BYTES: usize = 16;

/// Proof that a node is a member of the tier.
#[derive(Clone, Debug, PartialEq)]
pub struct MembershipProof {
    /// Share of the keys, relative to the others'.
    pub weight: f64,
    /// The code, in hexadecimal digits.
    code: String,
}

impl MembershipProof {
    pub fn new(secret: &[u8], node: &FleetSettings, weight: f64) -> Option<MembershipProof> {
        let address = node.address.as_deref()?;
        let mac = mac(secret, [&node.name, &node.node, &node.group, address], weight).finalize().into_bytes();
        let code = hex::encode(&mac[..CODE_BYTES]);
        Some(MembershipProof { weight, code })
    }

    /// True if a member has made it for the node of this name, group and address, in the fleet of that name.
    pub(super) fn is_of(&self, secret: &[u8], fleet: &str, node: &str, group: &str, address: &str) -> bool {
        let code = hex::decode(self.code.as_bytes()).filter(|code| code.len() == CODE_BYTES);
        code.is_some_and(|code| {
            mac(secret, [fleet, node, group, address], self.weight).verify_truncated_left(&code).is_ok()
        })
    }

    pub(crate) fn json(&self) -> Value {
        json!({ "weight": self.weight, "code": self.code })
    }

    pub(crate) fn read(said: &Value) -> Option<MembershipProof> {
        let weight = said["weight"].as_f64().filter(super::settings::is_weight)?;
        let code = said["code"].as_str().filter(|code| code.len() == 2 * CODE_BYTES)?;
        Some(MembershipProof { weight, code: code.to_owned() })
    }
}

fn mac(secret: &[u8], of: [&str; 4], weight: f64) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).expect("HMAC takes keys of any length");
    mac.update(b"lacquer peer 1\n");
    // None of them has a line feed in it: names are words, and an address is a host and a port.
    of.iter().for_each(|part| mac.update(format!("{part}\n").as_bytes()));
    // As many digits as JSON keeps for sure.
    mac.update(format!("{weight:.3}").as_bytes());
    mac
}
