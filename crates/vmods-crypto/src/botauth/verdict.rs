// SPDX-License-Identifier: BSD-2-Clause
//! The judgement of a signed request by the rules of Web Bot Auth (draft-ietf-webbotauth-httpsig-protocol). A signature is *forged* if
//! a known key says so; all else that can't be proved is *unverified*.

use message::Head;
use message::signature::{MessageSignature, SignatureAgent, SignatureFault, SignedRequest, signatures};

use super::agents::Agent;
use super::keys::Key;
use super::nonces::{NonceUse, Nonces};

pub(super) const TAG: &str = "web-bot-auth";
const ALGORITHM: &str = "ed25519";
/// The component that is covered as a whole or by the agent's own member.
pub(super) const AGENT: &str = "signature-agent";
/// Signatures of a request that are verified; each costs about as much as a hit.
const MAX_TRIED: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Nobody says that the request comes from a bot.
    None,
    Unverified,
    Forged,
    Verified,
}

impl Outcome {
    pub(super) fn text(self) -> &'static str {
        match self {
            Outcome::None => "none",
            Outcome::Unverified => "unverified",
            Outcome::Forged => "forged",
            Outcome::Verified => "verified",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) outcome: Outcome,
    /// The agent that the signature names; proved only if the signature is verified.
    pub(super) agent: Option<Agent>,
    pub(super) keyid: Option<String>,
    /// Empty if the signature is verified.
    pub(super) reason: String,
    /// The nonce couldn't be remembered.
    pub(super) lacks_room: bool,
}

/// Rules for all requests.
pub(super) struct Rules {
    /// Seconds between `created` and `expires`.
    pub(super) max_life: f64,
    /// Seconds by which the signer's clock may differ.
    pub(super) skew: f64,
    /// Components that a signature has to cover beside the authority.
    pub(super) cover: Vec<String>,
    pub(super) nonces: Nonces,
}

/// A request, and the time at which it is judged, in seconds since 1970.
pub(super) struct Judged<'a> {
    pub(super) head: &'a Head,
    pub(super) is_https: bool,
    pub(super) now: f64,
}

/// A key, and whether it is known to be the agent's.
pub(super) struct KnownKey {
    pub(super) key: Key,
    pub(super) is_agents: bool,
}

/// Finds a key for an agent by its keyid.
pub(super) type KeySource<'a> = dyn FnMut(Option<&Agent>, &str) -> Result<KnownKey, String> + 'a;

pub(super) fn judge(request: &Judged<'_>, rules: &Rules, keys: &mut KeySource<'_>) -> Verdict {
    let found = match signatures(request.head) {
        Ok(found) => found,
        Err(fault) => return Verdict::without_key(Outcome::Unverified, fault.to_string()),
    };
    if found.is_empty() {
        return Verdict::without_key(Outcome::None, "no signature".to_owned());
    }
    let mut best: Option<Verdict> = None;
    let mut signed = SignedRequest::new(request.head, request.is_https);
    for signature in found.iter().filter(|signature| signature.text("tag") == Some(TAG)).take(MAX_TRIED) {
        let verdict = judge_one(signature, &mut signed, request.now, rules, keys);
        if verdict.outcome == Outcome::Verified {
            return verdict;
        }
        if best.as_ref().is_none_or(|best| best.outcome != Outcome::Forged && verdict.outcome == Outcome::Forged) {
            best = Some(verdict);
        }
    }
    best.unwrap_or_else(|| Verdict::without_key(Outcome::None, format!("no signature has the tag {TAG}")))
}

impl Verdict {
    pub(super) fn without_key(outcome: Outcome, reason: String) -> Verdict {
        Verdict { outcome, agent: None, keyid: None, reason, lacks_room: false }
    }
}

fn judge_one(
    signature: &MessageSignature,
    request: &mut SignedRequest<'_>,
    now: f64,
    rules: &Rules,
    keys: &mut KeySource<'_>,
) -> Verdict {
    let keyid = signature.text("keyid").map(str::to_owned);
    let mut verdict = Verdict { keyid, ..Verdict::without_key(Outcome::Unverified, String::new()) };
    // The base comes last: a client that knows no key can't have it made.
    let known = check(signature, request, now, rules).and_then(|claim| {
        verdict.agent.clone_from(&claim.agent);
        let known = keys(claim.agent.as_ref(), claim.keyid)?;
        if !known.is_agents {
            verdict.agent = None;
        }
        Ok(known.key)
    });
    let proved = known.and_then(|key| {
        let base = signature.base(request).map_err(|fault| fault.to_string())?;
        if !key.verify(&base, signature.signature()) {
            verdict.outcome = Outcome::Forged;
            return Err("the signature isn't that of its key".to_owned());
        }
        let spent = spend_nonce(signature, verdict.agent.as_ref(), &key, rules, now);
        verdict.lacks_room = spent == NonceUse::NoRoom;
        match spent {
            NonceUse::First => Ok(()),
            NonceUse::Again => Err("the nonce was used before".to_owned()),
            NonceUse::NoRoom => Err("too many nonces are in use".to_owned()),
        }
    });
    match proved {
        Ok(()) => verdict.outcome = Outcome::Verified,
        Err(reason) => verdict.reason = reason,
    }
    verdict
}

/// A signature that is in order, and whose key is to be found.
struct Claim<'a> {
    keyid: &'a str,
    agent: Option<Agent>,
}

fn check<'a>(
    signature: &'a MessageSignature,
    request: &mut SignedRequest<'_>,
    now: f64,
    rules: &Rules,
) -> Result<Claim<'a>, String> {
    if let Some(other) = signature.text("alg").filter(|alg| *alg != ALGORITHM) {
        return Err(format!("algorithm \"{}\" isn't supported", other.escape_debug()));
    }
    let keyid = signature.text("keyid").ok_or("no keyid")?;
    check_times(signature, rules, now)?;
    if !signature.covers("@authority") && !signature.covers("@target-uri") {
        return Err("covers neither @authority nor @target-uri".to_owned());
    }
    if let Some(missing) = rules.cover.iter().find(|name| *name != AGENT && !signature.covers(name)) {
        return Err(format!("doesn't cover {missing}"));
    }
    if rules.nonces.is_on() && signature.text("nonce").is_none() {
        return Err("no nonce".to_owned());
    }
    let agent = match signature.agent(request).map_err(|fault: SignatureFault| fault.to_string())? {
        SignatureAgent::Absent if rules.cover.iter().any(|name| name == AGENT) => {
            return Err(format!("doesn't cover {AGENT}"));
        }
        SignatureAgent::Absent => None,
        SignatureAgent::NotCovered => return Err("Signature-Agent isn't covered".to_owned()),
        SignatureAgent::OtherType(kind) => return Err(format!("Signature-Agent of type {kind} isn't supported")),
        SignatureAgent::Uri(uri) => Some(Agent::of_uri(&uri).ok_or("Signature-Agent isn't an https origin")?),
    };
    Ok(Claim { keyid, agent })
}

fn check_times(signature: &MessageSignature, rules: &Rules, now: f64) -> Result<(), String> {
    let time = |name: &str| signature.time(name).map(|time| time as f64).ok_or_else(|| format!("no {name}"));
    let (created, expires) = (time("created")?, time("expires")?);
    let life = expires - created;
    let fault = match () {
        () if life <= 0.0 => "expires before it is created".to_owned(),
        () if life > rules.max_life => format!("valid for {life} s, which is more than {} s", rules.max_life),
        () if created > now + rules.skew => format!("created {} s in the future", (created - now).ceil()),
        () if expires + rules.skew <= now => format!("expired {} s ago", (now - expires).floor()),
        () => return Ok(()),
    };
    Err(fault)
}

fn spend_nonce(signature: &MessageSignature, agent: Option<&Agent>, key: &Key, rules: &Rules, now: f64) -> NonceUse {
    if !rules.nonces.is_on() {
        return NonceUse::First;
    }
    let (nonce, expires) = (signature.text("nonce").unwrap_or_default(), signature.time("expires").unwrap_or_default());
    let owner = agent.map_or(&key.thumbprint[..], Agent::name);
    rules.nonces.spend(owner, &key.thumbprint, nonce, expires as f64 + rules.skew, now)
}

#[cfg(test)]
mod tests;
