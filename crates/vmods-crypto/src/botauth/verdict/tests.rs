// SPDX-License-Identifier: BSD-2-Clause
//! The vectors of RFC 9421 and of the draft, requests signed here, and what must not pass.

use proptest::prelude::*;
use ring::signature::{Ed25519KeyPair, KeyPair};

use super::*;

/// The test key of RFC 9421, B.1.4.
const RFC_X: &str = "JrQLj5P_89iXES9-vFgrIy29clF9CC_oPPsw3c5D0bs";
const CREATED: f64 = 1_735_689_600.0;
const NOW: f64 = CREATED + 60.0;

fn key(x: &str) -> Key {
    let json = serde_json::json!({"kty": "OKP", "crv": "Ed25519", "x": x});
    Key::parse(json.as_object().expect("an object")).expect("a key")
}

fn rules() -> Rules {
    Rules { max_life: 86_400.0, skew: 60.0, cover: Vec::new(), nonces: Nonces::new(0) }
}

fn head(method: &str, url: &str, fields: &[(&str, &str)]) -> Head {
    let mut head = Head::new();
    head.start_request(method.as_bytes(), url.as_bytes(), b"HTTP/1.1").expect("room");
    fields.iter().for_each(|(name, value)| head.append(name, value).expect("room"));
    head
}

fn judged(head: &Head, rules: &Rules, key: &Key, now: f64) -> Verdict {
    let mut keys = |agent: Option<&Agent>, keyid: &str| match keyid == key.thumbprint {
        true => Ok(KnownKey { key: key.clone(), is_agents: agent.is_some() }),
        false => Err("unknown key".to_owned()),
    };
    judge(&Judged { head, is_https: true, now }, rules, &mut keys)
}

/// The signed request of RFC 9421, B.2.6.
#[test]
fn the_signature_of_the_rfc() {
    let head = head(
        "POST",
        "/foo?param=Value&Pet=dog",
        &[
            ("Host", "example.com"),
            ("Date", "Tue, 20 Apr 2021 02:07:55 GMT"),
            ("Content-Type", "application/json"),
            ("Content-Length", "18"),
            (
                "Signature-Input",
                "sig-b26=(\"date\" \"@method\" \"@path\" \"@authority\" \"content-type\" \"content-length\");\
                 created=1618884473;keyid=\"test-key-ed25519\"",
            ),
            (
                "Signature",
                "sig-b26=:wqcAqbmYJ2ji2glfAMaRy4gruYYnx2nEFN2HN6jrnDnQCK1u02Gb04v9EDgwUPiu4A0w6vuQv5lIp5WPpBKRCw==:",
            ),
        ],
    );
    let signature = signatures(&head).expect("in order").remove(0);
    let base = signature.base(&mut SignedRequest::new(&head, true)).expect("complete");
    assert!(key(RFC_X).verify(&base, signature.signature()));
    assert_eq!(judged(&head, &rules(), &key(RFC_X), NOW).outcome, Outcome::None, "it has no tag");
}

const KEYID: &str = "poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U";

/// The vectors of the draft: the dictionary, and the older string.
fn vectors() -> [Head; 2] {
    let vector = |agent: &str, covered: &str, expires: u64, nonce: &str, signature: &str| {
        let input = format!(
            "sig2=(\"@authority\" {covered});created=1735689600;keyid=\"{KEYID}\";alg=\"ed25519\";expires={expires};\
             nonce=\"{nonce}\";tag=\"web-bot-auth\""
        );
        head(
            "GET",
            "/path/to/resource",
            &[
                ("Host", "example.com"),
                ("Signature-Agent", agent),
                ("Signature-Input", &input),
                ("Signature", &format!("sig2=:{signature}:")),
            ],
        )
    };
    [
        vector(
            "agent2=\"https://signature-agent.test\"",
            "\"signature-agent\";key=\"agent2\"",
            4_889_289_600,
            "n9p433xm+NJ3ph3upfBIGmsuwHw387YV7Q/F+6BSpGCVjYCqQw6rznNA8PVVLySrAWsv0hQtFioQb6E1YsauiA==",
            "RdNFx5Bj6au3YgAMQL/RzmUlZE8QZLIaXGRpw985hWnwPfMxT228NMk6ehRS1PSl4e8PhbNZACSanGdhEwYCCg==",
        ),
        vector(
            "\"https://signature-agent.test\"",
            "\"signature-agent\"",
            1_735_693_200,
            "e8N7S2MFd/qrd6T2R3tdfAuuANngKI7LFtKYI/vowzk4lAZYadIX6wW25MwG7DCT9RUKAJ0qVkU0mEeLElW1qg==",
            "jdq0SqOwHdyHr9+r5jw3iYZH6aNGKijYp/EstF4RQTQdi5N5YYKrD+mCT1HA1nZDsi6nJKuHxUi/5Syp3rLWBA==",
        ),
    ]
}

#[test]
fn the_signatures_of_the_draft() {
    let long = Rules { max_life: 4e9, ..rules() };
    for head in vectors() {
        let verdict = judged(&head, &long, &key(RFC_X), NOW);
        let want = Verdict {
            outcome: Outcome::Verified,
            agent: Agent::of_uri("https://signature-agent.test"),
            keyid: Some(KEYID.to_owned()),
            reason: String::new(),
            lacks_room: false,
        };
        assert_eq!(verdict, want);
    }
    let [hundred_years, hour] = vectors();
    let reason = |head: &Head, now: f64| judged(head, &rules(), &key(RFC_X), now).reason;
    assert_eq!(reason(&hundred_years, NOW), "valid for 3153600000 s, which is more than 86400 s");
    assert_eq!(reason(&hour, CREATED - 61.0), "created 61 s in the future");
    assert_eq!(reason(&hour, CREATED - 60.0), "");
    assert_eq!(reason(&hour, CREATED + 3659.0), "");
    assert_eq!(reason(&hour, CREATED + 3660.0), "expired 60 s ago");
}

/// Any change of a signed request is seen.
#[test]
fn no_changed_request_is_verified() {
    let vector = vectors()[1].clone();
    for name in ["Host", "Signature-Agent", "Signature-Input", "Signature"] {
        let value = vector.get(name).expect("there").to_vec();
        for at in 0..value.len() {
            for change in [1, 2, 4, 8, 16, 32] {
                let mut other = value.clone();
                other[at] ^= change;
                let is_padding = name == "Signature" && at + 4 == value.len();
                let is_same = is_padding || name == "Host" && other.eq_ignore_ascii_case(&value);
                let mut head = vector.clone();
                head.set(name, &other).expect("room");
                let verdict = judged(&head, &rules(), &key(RFC_X), NOW);
                assert!(is_same || verdict.outcome != Outcome::Verified, "{name}: {}", other.escape_ascii());
            }
        }
    }
}

#[test]
fn the_key_decides_between_forged_and_unverified() {
    let mut other = vectors()[1].clone();
    other.set("Host", "other.example").expect("room");
    let forged = judged(&other, &rules(), &key(RFC_X), NOW);
    assert_eq!((forged.outcome, &forged.reason[..]), (Outcome::Forged, "the signature isn't that of its key"));
    let unknown = judged(&other, &rules(), &key("11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"), NOW);
    assert_eq!((unknown.outcome, &unknown.reason[..]), (Outcome::Unverified, "unknown key"));
    assert_eq!(
        (unknown.agent.as_ref().map(Agent::name), unknown.keyid.as_deref()),
        (Some("signature-agent.test"), Some(KEYID))
    );
}

/// A signer with a key of its own.
struct Signer {
    pair: Ed25519KeyPair,
    key: Key,
}

impl Signer {
    fn new() -> Signer {
        let pair = Ed25519KeyPair::from_seed_unchecked(&[7; 32]).expect("a seed");
        let x = vmod_support::codec::ByteEncoding::parse("BASE64URLNOPAD").encode(pair.public_key().as_ref(), false);
        Signer { pair, key: key(std::str::from_utf8(&x).expect("ASCII")) }
    }

    /// The request with one more signature over these components and parameters, `KEYID` and `TIMES` filled in.
    fn sign(&self, mut head: Head, label: &str, input: &str) -> Head {
        let input = input.replace("KEYID", &format!("keyid=\"{}\"", self.key.thumbprint));
        let input = input.replace("TIMES", &format!("created={CREATED};expires={}", CREATED + 300.0));
        head.append("Signature-Input", format!("{label}={input}")).expect("room");
        let place = head.count("Signature-Input") - 1;
        head.append("Signature", format!("{label}=:AA==:")).expect("room");
        let base =
            signatures(&head).expect("in order")[place].base(&mut SignedRequest::new(&head, true)).expect("complete");
        let line = (0..head.len()).rfind(|at| head.field(*at).is_some_and(|f| f.name() == b"Signature"));
        let signature = base::base64::encode(self.pair.sign(&base).as_ref());
        head.replace_line(line.expect("there"), format!("Signature: {label}=:{signature}:").as_bytes()).expect("room");
        head
    }
}

fn plain() -> Head {
    head("GET", "/a?b=c", &[("Host", "www.example"), ("Signature-Agent", "s=\"https://a.test\"")])
}

const INPUT: &str = "(\"@authority\" \"signature-agent\";key=\"s\");TIMES;KEYID;tag=\"web-bot-auth\"";

#[test]
fn what_web_bot_auth_demands() {
    let signer = Signer::new();
    let reason = |input: &str| {
        let verdict = judged(&signer.sign(plain(), "s", input), &rules(), &signer.key, NOW);
        assert_eq!(verdict.reason.is_empty(), verdict.outcome == Outcome::Verified);
        verdict.reason
    };
    assert_eq!(reason(INPUT), "");
    assert_eq!(reason(&INPUT.replace("\"@authority\"", "\"@target-uri\"")), "");
    for (from, to, why) in [
        ("\"@authority\"", "\"@method\"", "covers neither @authority nor @target-uri"),
        ("\"@authority\"", "\"host\"", "covers neither @authority nor @target-uri"),
        (" \"signature-agent\";key=\"s\"", "", "Signature-Agent isn't covered"),
        (";KEYID", "", "no keyid"),
        (";TIMES", "", "no created"),
        (";TIMES", ";created=1735689600", "no expires"),
        (";TIMES", ";created=1735689600;expires=1735689600", "expires before it is created"),
        (";TIMES", ";created=1.5;expires=1735689600", "no created"),
        (";TIMES", ";created=1735689600;expires=1735689500", "expires before it is created"),
        (";TIMES", ";TIMES;alg=\"rsa-pss-sha512\"", "algorithm \"rsa-pss-sha512\" isn't supported"),
        ("web-bot-auth", "web-bot-auth2", "no signature has the tag web-bot-auth"),
        (";tag=\"web-bot-auth\"", "", "no signature has the tag web-bot-auth"),
    ] {
        assert_eq!(reason(&INPUT.replace(from, to)), why, "{to}");
    }
    assert_eq!(judged(&plain(), &rules(), &signer.key, NOW).reason, "no signature");
    let strict = Rules { cover: vec!["@method".to_owned()], ..rules() };
    let signed = signer.sign(plain(), "s", INPUT);
    assert_eq!(judged(&signed, &strict, &signer.key, NOW).reason, "doesn't cover @method");
    let signed = signer.sign(plain(), "s", &INPUT.replace("(", "(\"@method\" "));
    assert_eq!(judged(&signed, &strict, &signer.key, NOW).reason, "");
}

#[test]
fn the_agent_is_covered_by_its_member() {
    let signer = Signer::new();
    let strict = Rules { cover: vec![AGENT.to_owned()], ..rules() };
    let reason = |head: Head, input: &str| judged(&signer.sign(head, "s", input), &strict, &signer.key, NOW).reason;
    assert_eq!(reason(plain(), INPUT), "");
    assert_eq!(reason(plain(), &INPUT.replace(";key=\"s\"", "")), "");
    let no_agent = head("GET", "/", &[("Host", "www.example")]);
    let uncovered = INPUT.replace(" \"signature-agent\";key=\"s\"", "");
    assert_eq!(reason(no_agent, &uncovered), "doesn't cover signature-agent");
    assert_eq!(reason(plain(), &uncovered), "Signature-Agent isn't covered");
}

/// Components without a value are seen only if the key is known.
#[test]
fn nothing_is_made_for_a_key_that_nobody_knows() {
    let signer = Signer::new();
    let mut signed = signer.sign(plain(), "s", INPUT);
    let input = String::from_utf8_lossy(signed.get("Signature-Input").expect("there")).replace("(", "(\"x\" ");
    signed.set("Signature-Input", &input).expect("room");
    let missing = judged(&signed, &rules(), &signer.key, NOW);
    assert_eq!((missing.outcome, &missing.reason[..]), (Outcome::Unverified, "\"x\": isn't in the request"));
    signed.set("Signature-Input", input.replace(&signer.key.thumbprint, "x")).expect("room");
    assert_eq!(judged(&signed, &rules(), &signer.key, NOW).reason, "unknown key");
}

#[test]
fn an_agent_that_is_none_is_told() {
    let signer = Signer::new();
    for (agent, why) in [
        ("s=\"http://a.test\"", "Signature-Agent isn't an https origin"),
        ("s=\"https://a.test/keys\"", "Signature-Agent isn't an https origin"),
        ("s=\"https://a.test/keys\";type=jwks_uri", "Signature-Agent of type jwks_uri isn't supported"),
        ("s=(\"https://a.test\")", "Signature-Agent is malformed"),
    ] {
        let head = head("GET", "/", &[("Host", "www.example"), ("Signature-Agent", agent)]);
        assert_eq!(judged(&signer.sign(head, "s", INPUT), &rules(), &signer.key, NOW).reason, why);
    }
}

#[test]
fn each_signature_is_judged_alone_and_a_verified_one_counts() {
    let signer = Signer::new();
    let mut first_is_forged = signer.sign(plain(), "old", INPUT);
    first_is_forged.set("Host", "proxy.example").expect("room");
    assert_eq!(judged(&first_is_forged, &rules(), &signer.key, NOW).outcome, Outcome::Forged);
    let both = signer.sign(first_is_forged, "s", INPUT);
    assert_eq!(judged(&both, &rules(), &signer.key, NOW).outcome, Outcome::Verified);
    let mut many = plain();
    for n in 0..=MAX_TRIED {
        many = signer.sign(many, &format!("s{n}"), &INPUT.replace("KEYID", "keyid=\"x\""));
    }
    let many = signer.sign(many, "s", INPUT);
    assert_eq!(judged(&many, &rules(), &signer.key, NOW).reason, "unknown key", "so many aren't tried");
}

#[test]
fn a_nonce_is_spent_by_a_verified_request_only() {
    let signer = Signer::new();
    let once = Rules { nonces: Nonces::new(10), ..rules() };
    let signed = signer.sign(plain(), "s", &INPUT.replace(";TIMES", ";TIMES;nonce=\"n\""));
    let mut forged = signed.clone();
    forged.set("Host", "other.example").expect("room");
    let reason = |head: &Head| judged(head, &once, &signer.key, NOW).reason;
    assert_eq!(reason(&forged), "the signature isn't that of its key");
    assert_eq!(reason(&signed), "");
    assert_eq!(reason(&signed), "the nonce was used before");
    assert_eq!(reason(&signer.sign(plain(), "s", INPUT)), "no nonce");
}

#[test]
fn a_key_without_an_agent_proves_none() {
    let signer = Signer::new();
    let no_agent = head("GET", "/", &[("Host", "www.example")]);
    let signed = signer.sign(no_agent, "s", &INPUT.replace(" \"signature-agent\";key=\"s\"", ""));
    let verdict = judged(&signed, &rules(), &signer.key, NOW);
    assert_eq!((verdict.outcome, verdict.agent), (Outcome::Verified, None));
}

proptest! {
    #[test]
    fn any_fields_have_a_verdict(
        input in "s=\\((\"@authority\"|\"signature-agent\"|;|key=\"s\"| |\\)){0,6}\\)(;(created|expires|keyid|tag|nonce)=(\"web-bot-auth\"|1735689600|1735689700|\"\")){0,5}",
        signature in proptest::collection::vec(any::<u8>(), 0..80),
        agent in "(s=|\"|https://|a.test|;type=|x|,){0,6}",
    ) {
        let signature = format!("s=:{}:", base::base64::encode(&signature));
        let fields = [("Host", "a"), ("Signature-Input", &input), ("Signature", &signature), ("Signature-Agent", &agent)];
        let verdict = judged(&head("GET", "/", &fields), &rules(), &Signer::new().key, NOW);
        prop_assert!(verdict.outcome != Outcome::Verified && !verdict.reason.is_empty());
    }
}
