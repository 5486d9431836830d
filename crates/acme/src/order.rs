// SPDX-License-Identifier: BSD-2-Clause
//! One certificate: an order, the proof that the name is ours, key and signing request, the chain (RFC 8555 7.4).

use std::time::{Duration, SystemTime};

use instant_acme::{
    Account, AuthorizationHandle, AuthorizationStatus, CertificateIdentifier, ChallengeType, Error, Identifier,
    NewOrder, Order, OrderStatus, Problem, RetryPolicy,
};
use rcgen::{CertificateParams, DistinguishedName, KeyPair, PublicKeyData};

use crate::certificate::{AcmeCertificateFacts, printable};
use crate::http::{CaTrouble, take_retry_after};
use crate::name::AcmeName;
use crate::talk::{AcmeChallenge, ChallengeKind};

/// Time that the CA may take to look at a challenge, and to sign.
const PATIENCE: RetryPolicy =
    RetryPolicy::new().initial_delay(Duration::from_millis(250)).backoff(1.5).timeout(Duration::from_secs(120));
/// Time by which a CA's clock may be ahead.
const CLOCKS_DIFFER: Duration = Duration::from_secs(600);

/// The thing that has to change before another attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcmeFault {
    Name,
    /// Something of the CA's, or of the way to it: other names would fare no better now.
    Ca,
    /// The account: the CA doesn't know it.
    Account,
}

#[derive(Clone, Debug, PartialEq)]
pub struct OrderFailure {
    pub text: String,
    pub fault: AcmeFault,
    pub retry_after: Option<Duration>,
}

impl OrderFailure {
    pub fn of_name(text: impl Into<String>) -> OrderFailure {
        OrderFailure { text: printable(&text.into()), fault: AcmeFault::Name, retry_after: None }
    }

    pub fn of_ca(text: impl Into<String>) -> OrderFailure {
        OrderFailure { fault: AcmeFault::Ca, ..OrderFailure::of_name(text) }
    }
}

impl From<Error> for OrderFailure {
    fn from(error: Error) -> OrderFailure {
        let (text, fault) = match &error {
            Error::Api(problem) => (problem_text(problem), fault(problem)),
            Error::Other(other) if other.is::<CaTrouble>() => (other.to_string(), AcmeFault::Ca),
            Error::Json(_) => ("an answer that is not ACME's".to_owned(), AcmeFault::Ca),
            Error::Timeout(_) => ("the CA has not decided in time".to_owned(), AcmeFault::Name),
            other => (other.to_string(), AcmeFault::Name),
        };
        OrderFailure { text: printable(&text), fault, retry_after: take_retry_after() }
    }
}

fn kind_of(problem: &Problem) -> &str {
    problem.r#type.as_deref().and_then(|kind| kind.rsplit(':').next()).unwrap_or_default()
}

fn fault(problem: &Problem) -> AcmeFault {
    match kind_of(problem) {
        "serverInternal" => AcmeFault::Ca,
        "accountDoesNotExist" => AcmeFault::Account,
        _ => AcmeFault::Name,
    }
}

/// `rateLimited: too many certificates`, with what it says of single names.
fn problem_text(problem: &Problem) -> String {
    let mut text = kind_of(problem).to_owned();
    for detail in problem.detail.iter().chain(problem.subproblems.iter().filter_map(|part| part.detail.as_ref())) {
        if !text.is_empty() {
            text.push_str(": ");
        }
        text.push_str(detail);
    }
    text
}

/// The part that has the worker answer challenges.
pub trait Desk {
    /// Returns once the worker answers this.
    ///
    /// # Errors
    /// It doesn't.
    fn show(&self, challenge: &AcmeChallenge) -> Result<(), String>;
    fn hide(&self, challenge: &AcmeChallenge);
}

/// The certificate that an order is for.
pub struct Wish<'a> {
    pub name: &'a AcmeName,
    pub kind: ChallengeKind,
    pub replaces: Option<CertificateIdentifier<'static>>,
    pub profile: Option<&'a str>,
}

/// Answers that are shown, until the order is over, however it ends.
struct Shown<'a> {
    desk: &'a dyn Desk,
    challenges: Vec<AcmeChallenge>,
}

impl Drop for Shown<'_> {
    fn drop(&mut self) {
        self.challenges.iter().for_each(|challenge| self.desk.hide(challenge));
    }
}

/// Gets a certificate: key and chain in PEM.
pub async fn obtain(account: &Account, wish: Wish<'_>, desk: &dyn Desk) -> Result<String, OrderFailure> {
    // What an earlier attempt was told.
    take_retry_after();
    let mut order = place(account, &wish).await?;
    let mut shown = Shown { desk, challenges: Vec::new() };
    prove(&mut order, &wish, &mut shown).await?;
    let status = if order.state().status == OrderStatus::Pending {
        match order.poll_ready(&PATIENCE).await {
            // The order's own error says that there is one; the challenge's says which.
            Err(error) => return Err(reason(&mut order).await.unwrap_or_else(|| error.into())),
            Ok(status) => status,
        }
    } else {
        order.state().status
    };
    if status == OrderStatus::Invalid {
        return Err(reason(&mut order).await.unwrap_or_else(|| OrderFailure::of_name("the CA has refused the order")));
    }
    let key = KeyPair::generate().map_err(|error| OrderFailure::of_name(error.to_string()))?;
    order.finalize_csr(&request(wish.name, &key)?).await?;
    let chain = order.poll_certificate(&PATIENCE).await?;
    check(&chain, wish.name, &key, SystemTime::now()).map_err(OrderFailure::of_name)?;
    Ok(format!("{}{}", key.serialize_pem(), chain))
}

async fn place(account: &Account, wish: &Wish<'_>) -> Result<Order, OrderFailure> {
    let identifiers = [Identifier::Dns(wish.name.as_str().to_owned())];
    let new = || {
        let order = NewOrder::new(&identifiers);
        if let Some(profile) = wish.profile { order.profile(profile) } else { order }
    };
    let Some(replaced) = wish.replaces.clone() else { return Ok(account.new_order(&new()).await?) };
    match account.new_order(&new().replaces(replaced)).await {
        Ok(order) => Ok(order),
        // A CA that doesn't know the one before, or has replaced it already, may sign a new one all the same.
        Err(Error::Other(error)) if error.is::<CaTrouble>() => Err(Error::Other(error).into()),
        Err(Error::Api(problem)) if kind_of(&problem) == "rateLimited" => Err(Error::Api(problem).into()),
        Err(_) => Ok(account.new_order(&new()).await?),
    }
}

/// Has each proof shown that the CA still wants, and tells it to look.
async fn prove(order: &mut Order, wish: &Wish<'_>, shown: &mut Shown<'_>) -> Result<(), OrderFailure> {
    let mut authorizations = order.authorizations();
    while let Some(authorization) = authorizations.next().await {
        let mut authorization: AuthorizationHandle<'_> = authorization?;
        match authorization.status {
            AuthorizationStatus::Valid => continue,
            AuthorizationStatus::Pending => {}
            other => return Err(OrderFailure::of_name(format!("the CA's authorization is {other:?}"))),
        }
        let kind = match wish.kind {
            ChallengeKind::Http01 => ChallengeType::Http01,
            ChallengeKind::TlsAlpn01 => ChallengeType::TlsAlpn01,
        };
        let Some(mut handle) = authorization.challenge(kind) else {
            return Err(OrderFailure::of_name(format!("the CA offers no {}", wish.kind.word())));
        };
        let challenge = AcmeChallenge {
            kind: wish.kind,
            name: wish.name.clone(),
            token: handle.token.clone(),
            answer: handle.key_authorization().as_str().to_owned(),
        };
        if !challenge.is_sane() {
            return Err(OrderFailure::of_name("the CA's token is malformed"));
        }
        shown.challenges.push(challenge.clone());
        shown.desk.show(&challenge).map_err(OrderFailure::of_name)?;
        handle.set_ready().await?;
    }
    Ok(())
}

/// The CA's own reason for refusing the proof.
async fn reason(order: &mut Order) -> Option<OrderFailure> {
    let mut authorizations = order.authorizations();
    while let Some(Ok(mut authorization)) = authorizations.next().await {
        let state = authorization.refresh().await.ok()?;
        let problem = state.challenges.iter().find_map(|challenge| challenge.error.as_ref());
        if let Some(problem) = problem {
            return Some(OrderFailure::of_name(problem_text(problem)));
        }
    }
    None
}

/// The signing request: a name, and nothing else.
fn request(name: &AcmeName, key: &KeyPair) -> Result<Vec<u8>, OrderFailure> {
    let told = |error: rcgen::Error| OrderFailure::of_name(error.to_string());
    let mut params = CertificateParams::new(vec![name.as_str().to_owned()]).map_err(told)?;
    params.distinguished_name = DistinguishedName::new();
    Ok(params.serialize_request(key).map_err(told)?.der().to_vec())
}

fn check(chain: &str, name: &AcmeName, key: &KeyPair, now: SystemTime) -> Result<(), String> {
    let facts = AcmeCertificateFacts::of(chain)?;
    if !facts.is_for(name) {
        return Err("the CA has signed a certificate for other names".to_owned());
    }
    if facts.public_key != key.subject_public_key_info() {
        return Err("the CA has signed another key".to_owned());
    }
    if facts.validity.from > now + CLOCKS_DIFFER {
        return Err("the certificate is not valid yet: is this machine's clock slow?".to_owned());
    }
    if facts.validity.until <= now {
        return Err("the certificate has ended already: is this machine's clock fast?".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(kind: &str, detail: &str) -> Problem {
        let subproblems = Vec::new();
        Problem { r#type: Some(kind.into()), detail: Some(detail.into()), status: Some(400), subproblems }
    }

    #[test]
    fn failures_are_told_in_words_and_by_whose_fault_they_are() {
        let failure = |error: Error| {
            let failure = OrderFailure::from(error);
            (failure.text, failure.fault)
        };
        let acme = |kind: &str| Error::Api(problem(&format!("urn:ietf:params:acme:error:{kind}"), "a\nb"));
        assert_eq!(failure(acme("rateLimited")), ("rateLimited: a b".into(), AcmeFault::Name));
        assert_eq!(failure(acme("serverInternal")), ("serverInternal: a b".into(), AcmeFault::Ca));
        assert_eq!(failure(Error::Other(Box::new(CaTrouble("ca: gone".into())))), ("ca: gone".into(), AcmeFault::Ca));
        assert_eq!(failure(acme("accountDoesNotExist")).1, AcmeFault::Account);
        assert_eq!(failure(Error::Timeout(None)).1, AcmeFault::Name);
    }

    #[test]
    fn a_chain_is_checked_against_what_was_asked_for() {
        let (key, other) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
        let name = |text| AcmeName::parse(text).unwrap();
        let mut params = CertificateParams::new(vec!["a.example".to_owned()]).unwrap();
        (params.not_before, params.not_after) = (rcgen::date_time_ymd(2026, 1, 1), rcgen::date_time_ymd(2026, 4, 1));
        let chain = params.self_signed(&key).unwrap().pem();
        let day = |n: u64| SystemTime::UNIX_EPOCH + Duration::from_secs(n * 86_400);
        assert_eq!(check(&chain, &name("a.example"), &key, day(20_500)), Ok(()));
        let refused = |name, key, day| check(&chain, &name, key, day).unwrap_err();
        assert!(refused(name("b.example"), &key, day(20_500)).contains("other names"));
        assert!(refused(name("a.example"), &other, day(20_500)).contains("another key"));
        assert!(refused(name("a.example"), &key, day(20_400)).contains("clock slow"));
        assert!(refused(name("a.example"), &key, day(20_600)).contains("clock fast"));
    }
}
