// SPDX-License-Identifier: BSD-2-Clause
//! The module as VCL calls it.

use base::Real;
use ring::signature::{Ed25519KeyPair, KeyPair};
use testkit_vcl::VclWorld;
use vmod_support::codec::ByteEncoding;

use crate::tests::{CryptoModules, CryptoWorld};

/// The time at which a manual clock stands.
const NOW: i64 = 1_000_000_000;

struct Files(std::path::PathBuf);

impl Drop for Files {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn pair() -> Ed25519KeyPair {
    Ed25519KeyPair::from_seed_unchecked(&[9; 32]).expect("a seed")
}

fn key_file(name: &str) -> Files {
    let path = std::env::temp_dir().join(format!("lacquer-botauth-{name}-{}", std::process::id()));
    let x = ByteEncoding::parse("BASE64URLNOPAD").encode(pair().public_key().as_ref(), false);
    let x = String::from_utf8(x).expect("ASCII");
    let json = format!("{{\"keys\":[{{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"kid\":\"mine\",\"x\":\"{x}\"}}]}}");
    std::fs::write(&path, json).expect("writable");
    Files(path)
}

fn world(args: &str, init: &str, body: &str) -> Result<VclWorld<CryptoModules>, String> {
    CryptoWorld::try_new(&format!(
        "vcl 4.1; import botauth; backend b {{ .host = \"127.0.0.1\"; }} \
         sub vcl_init {{ new bots = botauth.verifier({args}); {init} return (ok); }} sub vcl_recv {{ {body} return (hash); }}"
    ))
}

const BODY: &str = "set req.http.before = bots.outcome(); set req.http.is = bots.verify(); \
    set req.http.out = bots.outcome() + \" \" + bots.agent() + \" \" + bots.keyid() + \" \" + bots.reason();";

fn sign(world: &mut VclWorld<CryptoModules>, agent: &str) {
    let input = format!(
        "(\"@authority\" \"signature-agent\";key=\"s\");created={NOW};expires={};keyid=\"mine\";tag=\"web-bot-auth\"",
        NOW + 60
    );
    let base = format!(
        "\"@authority\": www.example\n\"signature-agent\";key=\"s\": \"{agent}\"\n\"@signature-params\": {input}"
    );
    let signature = base::base64::encode(pair().sign(base.as_bytes()).as_ref());
    let req = &mut world.ctx.req;
    for (name, value) in [
        ("Host", "www.example".to_owned()),
        ("Signature-Agent", format!("s=\"{agent}\"")),
        ("Signature-Input", format!("s={input}")),
        ("Signature", format!("s=:{signature}:")),
    ] {
        req.append(name, value).expect("room");
    }
}

#[test]
fn keys_of_a_file() {
    let file = key_file("agent");
    let init = format!("bots.add_keys(\"{}\", \"A.test\");", file.0.display());
    let mut known = world("", &init, BODY).expect("valid");
    assert_eq!(known.ctx.clock_mut().real(), Real(NOW as f64));
    sign(&mut known, "https://a.test");
    assert_eq!(known.recv("out"), "verified a.test mine");
    assert_eq!((known.field("is"), known.field("before")), ("true".into(), "".into()));
    known.ctx.req.set("Host", "other.example").expect("room");
    assert_eq!(known.recv("out"), "verified a.test mine", "the first verdict holds for the transaction");
    let mut other = world("", &init, BODY).expect("valid");
    sign(&mut other, "https://b.test");
    assert_eq!(other.recv("out"), "unverified b.test mine the agent isn't in the list");
    let mut anyone = world("", &init.replace(", \"A.test\"", ""), BODY).expect("valid");
    sign(&mut anyone, "https://b.test");
    assert_eq!(anyone.recv("out"), "verified  mine");
    anyone.ctx.clock_mut().advance(std::time::Duration::from_secs(120));
    assert_eq!(anyone.recv("is"), "true");
}

#[test]
fn a_key_outside_its_time_is_said_to_be() {
    for (time, why) in
        [("\"exp\":999999999", "the key has expired"), ("\"nbf\":1000000001000", "the key isn't valid yet")]
    {
        let file = key_file(if time.contains("exp") { "expired" } else { "early" });
        let json = std::fs::read_to_string(&file.0).expect("readable").replace("\"kid\"", &format!("{time},\"kid\""));
        std::fs::write(&file.0, json).expect("writable");
        let init = format!("bots.add_keys(\"{}\", \"a.test\");", file.0.display());
        let mut known = world("", &init, BODY).expect("valid");
        sign(&mut known, "https://a.test");
        assert_eq!(known.recv("out"), format!("unverified a.test mine {why}"));
        let mut other = world("", &init.replace(", \"a.test\"", ""), BODY).expect("valid");
        sign(&mut other, "https://b.test");
        assert_eq!(other.recv("out"), "unverified b.test mine the agent isn't in the list");
    }
}

#[test]
fn nobody_signs_most_requests() {
    let mut world = world("agents=\"any\"", "", BODY).expect("valid");
    assert_eq!(world.recv("out"), "none   no signature");
    assert_eq!(world.field("is"), "false");
}

#[test]
fn what_is_asked_of_clients() {
    let body = "set req.http.out = bots.accept_signature();";
    for (args, also, nonce) in
        [("cover=\"@method, @authority, signature-agent\"", " \"@method\"", ""), ("nonces=10", "", ";nonce")]
    {
        let mut world = world(args, "", body).expect("valid");
        let want = format!(
            "sig1=(\"@authority\" \"signature-agent\";key=\"sig1\"{also});created;expires{nonce};alg=\"ed25519\";tag=\"web-bot-auth\""
        );
        assert_eq!(world.recv("out"), want);
    }
}

#[test]
fn mistakes_in_vcl_are_refused() {
    for (args, init, why) in [
        ("agents=\"http://a\"", "", "botauth: bots: agents: \"http://a\" is neither a host nor \"any\""),
        ("cover=\"@nothing\"", "", "botauth: bots: cover: \"@nothing\" is no component of a request"),
        ("cover=\"Host\"", "", "botauth: bots: cover: \"Host\" is no component of a request"),
        ("nonces=-1", "", "botauth: bots: nonces: -1 is not from 0 to 1048576"),
        ("max_life=0s", "", "botauth: bots: max_life must be positive"),
        ("", "bots.add_keys(\"/nonexistent\");", "botauth: add_keys(): /nonexistent: No such file"),
        ("", "bots.add_keys(\"/dev/null\", \"a/b\");", "botauth: add_keys(): \"a/b\" is no host"),
        ("", "bots.add_keys(\"/dev/null\");", "botauth: add_keys(): /dev/null: not JSON"),
    ] {
        let refused = world(args, init, "").err().unwrap_or_default();
        assert!(refused.contains(why), "{refused}");
    }
}

#[test]
fn bots_are_known_by_their_published_ranges() {
    for (prefix, agent, want) in [
        ("192.0.2.0/24", "Mozilla/5.0 (compatible; goodbot/2.1)", "Goodbot-false"),
        ("198.51.100.0/24", "Mozilla/5.0 (compatible; goodbot/2.1)", "-true"),
        ("198.51.100.0/24", "Mozilla/5.0", "-false"),
    ] {
        let name = format!("lacquer-botauth-ranges-{}", std::process::id());
        let file = Files(std::env::temp_dir().join(name));
        std::fs::write(&file.0, format!("{{\"prefixes\":[{{\"ipv4Prefix\":\"{prefix}\"}}]}}")).expect("writable");
        let init = format!("new known = botauth.published(); known.add(\"Goodbot\", \"{}\");", file.0.display());
        let body = "set req.http.out = known.bot(client.ip) + \"-\" + known.is_spoofed(client.ip);";
        let mut world = world("", &init, body).expect("valid");
        world.ctx.req.set("User-Agent", agent).expect("room");
        assert_eq!(world.recv("out"), want, "{prefix} {agent}");
    }
}

#[test]
fn mistakes_in_files_of_ranges_are_refused() {
    for (call, why) in [
        ("known.add(\"Good\", \"/nonexistent\");", "botauth: add(): /nonexistent: No such file"),
        ("known.add(\"Good\", \"/dev/null\");", "botauth: add(): /dev/null: not JSON"),
        ("known.add(\"two words\", \"/dev/null\");", "botauth: add(): \"two words\" is no name of a bot"),
    ] {
        let refused = world("", &format!("new known = botauth.published(); {call}"), "").err().unwrap_or_default();
        assert!(refused.contains(why), "{refused}");
    }
}
