// SPDX-License-Identifier: BSD-2-Clause
//! vmod_botauth: who signed a request, by HTTP message signatures (RFC 9421) and Web Bot Auth. The judgement is `verdict`'s, a pure
//! function; `directories` keeps the keys that agents publish, and `fetch` gets them in the background.

use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

use parking_lot::RwLock;
use tables::Tag;
use tables::counters::Main;
use vmod_support::args::fail;
use vmod_support::files::ParsedFiles;
use vrt::vmod::{BOOL, CallResult, INT, Methods, STRING, VmodCall, give};
use vrt::{HeadId, Method, Text, Value, Var, VclFailure};

mod agents;
mod directories;
mod fetch;
mod keys;
mod nonces;
mod published;
mod turns;
mod verdict;

use agents::{Agent, AgentList};
use directories::{Directories, FetchTurn, Found};
use keys::{KeySet, NoKey};
use nonces::Nonces;
use published::Published;
use verdict::{AGENT, Judged, KnownKey, Outcome, Rules, TAG, Verdict};

const MAX_FILE: u64 = 1 << 20;
const MAX_FILES: usize = 100;
const MAX_NONCES: i64 = 1 << 20;

vrt::words! {
    enum Scheme { Auto = "auto", Http = "http", Https = "https" }
}

vrt::vmod_args! {
    struct VerifierArgs<'a> {
        agents: STRING as Option<&'a Text> = "",
        max_life: DURATION as f64 = 86400.0,
        skew: DURATION as f64 = 60.0,
        cover: STRING as Option<&'a Text> = "",
        nonces: INT as i64 = 0,
        scheme: Scheme as Scheme = Auto,
    }
}

vrt::vmod! {
    /// Verifies signed requests of bots: HTTP message signatures (RFC 9421) as Web Bot Auth uses them, with the algorithm
    /// ed25519. The keys are those of an agent's directory, https://AGENT/.well-known/http-message-signatures-directory, or
    /// of files. A directory is fetched in the background, so the first request that needs it is unverified; redirects
    /// aren't followed. Its keys are kept for the max-age of its Cache-Control (from 60 s to 24 h; 1 h without one), and
    /// used for up to 7 days longer while its server can't be reached, is too slow or responds with 408, 429 or 5xx; any
    /// other response that isn't a directory takes them back at once. A failed fetch is repeated after 10 s, then after
    /// longer times up to 300 s
    pub(crate) static VMOD = botauth;

    needs { Authorities }

    /// A verifier. agents lists the hosts whose directories may be fetched, separated by blanks or commas: HOST, HOST:PORT,
    /// *.HOST, or any. Hosts that are listed by their own name may be at any address. Others are asked on port 443, at
    /// public addresses, and not more than once a second on average; any lets clients choose which hosts are asked. A
    /// signature may be valid for max_life at most, and the signer's clock may differ by skew. It must cover @authority or
    /// @target-uri, Signature-Agent if there is one, and the components that cover lists. nonces is the number of nonces
    /// that are remembered to refuse a signature that was used before (at most 1048576; a nonce is remembered until its
    /// signature has expired, and one agent may have a quarter of them); with 0, a signature may be repeated until it expires. scheme is that of the URL that clients
    /// use; auto is https for connections with TLS that ends here
    object verifier(..VerifierArgs<'_>) -> Arc<Verifier> = new, methods {
        /// Reads a JSON Web Key Set and returns the number of its keys for ed25519. The keys are those of this agent, whose
        /// directory isn't fetched then; without an agent, agent() of their requests is unset
        fn add_keys(file: STRING, agent: STRING = "") -> INT, blocks, only(Method::Init.set()) = add_keys;

        /// Judges the request and returns whether its signature is verified. Call it in vcl_recv before anything of the
        /// request is changed. Further calls in the same transaction return the first result
        fn verify() -> BOOL, restrict(Methods::CLIENT) = verify;

        /// Returns the result of verify: none (no signature for Web Bot Auth), unverified (nothing is proved: unknown key,
        /// expired, ...), forged (the signature isn't that of the key which it names) or verified; unset before verify
        fn outcome() -> STRING, local, restrict(Methods::CLIENT)
            = |this: &Arc<Verifier>, call: &mut VmodCall<'_>| last(this, call, |verdict| Some(verdict.outcome.text()));

        /// Returns the host of the agent that the signature names. Only if the outcome is verified is it that agent's
        fn agent() -> STRING, local, restrict(Methods::CLIENT)
            = |this: &Arc<Verifier>, call: &mut VmodCall<'_>| last(this, call, |verdict| verdict.agent.as_ref().map(Agent::name));

        /// Returns the keyid of the signature
        fn keyid() -> STRING, local, restrict(Methods::CLIENT)
            = |this: &Arc<Verifier>, call: &mut VmodCall<'_>| last(this, call, |verdict| verdict.keyid.as_deref());

        /// Returns why the request isn't verified; empty if it is
        fn reason() -> STRING, local, restrict(Methods::CLIENT)
            = |this: &Arc<Verifier>, call: &mut VmodCall<'_>| last(this, call, |verdict| Some(verdict.reason.as_str()));

        /// Returns a value for Accept-Signature, which asks a client to sign its next request, for a response with status
        /// 401, 403 or 429
        fn accept_signature(label: STRING = "sig1") -> STRING, local = accept_signature;
    }

    /// Bots that are known by the address ranges that their operators publish, as Google, Bing and OpenAI do
    object published() -> Arc<Published> = |_: &mut VmodCall<'_>, _: &str| Ok::<_, VclFailure>(Arc::default()), methods {
        /// Reads the ranges of the bot name from a JSON file, {"prefixes": [{"ipv4Prefix": "..."}, {"ipv6Prefix": "..."}]}, and
        /// returns the number of its prefixes. name is one word that is in the bot's User-Agent. A bot may have several files
        fn add(name: STRING, file: STRING) -> INT, blocks, only(Method::Init.set()) = published::add;

        /// Returns the name of the bot that has this address; unset if there is none
        fn bot(ip: IP) -> STRING, local = published::bot;

        /// Returns whether the User-Agent has the name of a bot although the address is in no range. Such a request is logged
        /// (VCL_Log) and counted (MAIN.bot_spoofed)
        fn is_spoofed(ip: IP) -> BOOL, local, restrict(Methods::CLIENT) = published::is_spoofed;
    }
}

struct Verifier {
    agents: AgentList,
    rules: Rules,
    scheme: Scheme,
    files: RwLock<Vec<KeyFile>>,
}

struct KeyFile {
    agent: Option<Agent>,
    keys: Arc<KeySet>,
}

static FILES: ParsedFiles<KeySet> = ParsedFiles::new(MAX_FILE, |bytes| KeySet::of_file(&bytes));
static DIRECTORIES: LazyLock<Arc<Directories>> = LazyLock::new(Arc::default);

fn new(_: &mut VmodCall<'_>, name: &str, args: VerifierArgs<'_>) -> Result<Arc<Verifier>, VclFailure> {
    let refused = |what: String| fail(format!("botauth: {name}: {what}"));
    let text = |text: Option<&Text>| text.map(|text| text.lossy().into_owned()).unwrap_or_default();
    let agents = match AgentList::parse(&text(args.agents)) {
        Ok(agents) => agents,
        Err(reason) => return refused(format!("agents: {reason}")),
    };
    let cover: Vec<String> =
        text(args.cover).split([' ', ',']).filter(|name| !name.is_empty()).map(str::to_owned).collect();
    if let Some(bad) = cover.iter().find(|name| !is_component(name)) {
        return refused(format!("cover: \"{}\" is no component of a request", bad.escape_debug()));
    }
    if !(0..=MAX_NONCES).contains(&args.nonces) {
        return refused(format!("nonces: {} is not from 0 to {MAX_NONCES}", args.nonces));
    }
    if !(args.max_life > 0.0 && args.skew >= 0.0) {
        return refused("max_life must be positive, and skew not negative".to_owned());
    }
    let nonces = Nonces::new(args.nonces as usize);
    let rules = Rules { max_life: args.max_life, skew: args.skew, cover, nonces };
    Ok(Arc::new(Verifier { agents, rules, scheme: args.scheme, files: RwLock::default() }))
}

/// The first 200 bytes of a text, which a client or a directory may have made long.
fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(200)]
}

/// A derived component without parameters, or the name of a header field in small letters.
fn is_component(name: &str) -> bool {
    const DERIVED: [&str; 7] =
        ["@method", "@target-uri", "@authority", "@scheme", "@request-target", "@path", "@query"];
    let is_field = message::chars::is_token(name.as_bytes()) && !name.bytes().any(|c| c.is_ascii_uppercase());
    DERIVED.contains(&name) || is_field
}

fn add_keys(this: &Arc<Verifier>, call: &mut VmodCall<'_>, file: Option<&Text>, agent: &[u8]) -> CallResult<INT> {
    if call.method != Method::Init {
        return fail("botauth: add_keys() works in vcl_init only");
    }
    let Some(file) = file else { return fail("botauth: add_keys(): no file") };
    let path = PathBuf::from(file.lossy().into_owned());
    let agent = match &*String::from_utf8_lossy(agent) {
        "" => None,
        name => match Agent::of_uri(name).or_else(|| Agent::of_uri(&format!("https://{name}"))) {
            Some(agent) => Some(agent),
            None => return fail(format!("botauth: add_keys(): \"{}\" is no host", name.escape_debug())),
        },
    };
    if this.files.read().len() >= MAX_FILES {
        return fail(format!("botauth: add_keys(): more than {MAX_FILES} files"));
    }
    match FILES.share(&path) {
        Ok(keys) => {
            let count = keys.len();
            this.files.write().push(KeyFile { agent, keys });
            give(count as i64)
        }
        Err(reason) => fail(format!("botauth: add_keys(): {}: {reason}", path.display())),
    }
}

fn verify(this: &Arc<Verifier>, call: &mut VmodCall<'_>) -> CallResult<BOOL> {
    let outcome = match given(this, call) {
        Some(verdict) => verdict.outcome,
        None => {
            let mut verdict = this.judge(call);
            verdict.reason.truncate(cut(&verdict.reason).len());
            let (agent, keyid) =
                (verdict.agent.as_ref().map_or("-", Agent::name), verdict.keyid.as_deref().unwrap_or("-"));
            let (outcome, reason) = (verdict.outcome, &verdict.reason);
            if let Some(main) = call.ctx.main_counters() {
                count(main, &verdict);
            }
            let log = call.ctx.log();
            log.putf(
                Tag::VclLog,
                format_args!(
                    "botauth: {} {} {} {}",
                    outcome.text(),
                    agent,
                    base::text::printable(keyid),
                    base::text::printable(reason)
                ),
            );
            *given(this, call) = Some(verdict);
            outcome
        }
    };
    give(outcome == Outcome::Verified)
}

fn count(main: &Main, verdict: &Verdict) {
    if verdict.lacks_room {
        main.bot_nonce_full.inc();
    }
    match verdict.outcome {
        Outcome::None => {}
        Outcome::Unverified => main.bot_unverified.inc(),
        Outcome::Forged => main.bot_forged.inc(),
        Outcome::Verified => main.bot_verified.inc(),
    }
}

fn given<'a>(this: &Arc<Verifier>, call: &'a mut VmodCall<'_>) -> &'a mut Option<Verdict> {
    call.ctx.task().keyed(Arc::as_ptr(this).addr(), Option::default)
}

fn last(this: &Arc<Verifier>, call: &mut VmodCall<'_>, of: fn(&Verdict) -> Option<&str>) -> CallResult<STRING> {
    give(given(this, call).as_ref().and_then(of))
}

impl Verifier {
    fn judge(&self, call: &mut VmodCall<'_>) -> Verdict {
        if matches!(call.ctx.get(Var::ReqEsiLevel), Value::Int(1..)) {
            return Verdict::without_key(Outcome::None, "an ESI fragment has no signature of its own".to_owned());
        }
        let is_https = match self.scheme {
            Scheme::Auto => call.ctx.tls().is_some(),
            Scheme::Http => false,
            Scheme::Https => true,
        };
        let (clock, log) = (call.ctx.clock().clone(), call.ctx.log().ring().clone());
        let (now, main) = (clock.real().0, call.ctx.main_counters());
        let Some(head) = call.ctx.head(HeadId::Req) else {
            return Verdict::without_key(Outcome::None, "there is no request here".to_owned());
        };
        let mut keys = |agent: Option<&Agent>, keyid: &str| {
            let (found, turn) = self.find_key(agent, keyid, &clock, main);
            if let Some(turn) = turn {
                if let Some(main) = main {
                    main.bot_directory_fetches.inc();
                }
                fetch::start(turn, log.clone(), main);
            }
            found
        };
        let verdict = verdict::judge(&Judged { head, is_https, now }, &self.rules, &mut keys);
        if let Some(agent) = verdict.agent.as_ref().filter(|_| verdict.outcome == Outcome::Verified)
            && let Some(lane) = self.agents.lane(agent)
        {
            DIRECTORIES.note_verified(agent, lane, clock.mono());
        }
        verdict
    }

    /// The key, and the fetch that is due.
    fn find_key(
        &self,
        agent: Option<&Agent>,
        keyid: &str,
        clock: &base::Clock,
        main: Option<&'static Main>,
    ) -> (Result<KnownKey, String>, Option<FetchTurn>) {
        if let Some(found) = self.find_in_files(agent, keyid, clock.real().0) {
            return (found, None);
        }
        let Some(agent) = agent else { return (Err("unknown key, and no Signature-Agent".to_owned()), None) };
        let Some(lane) = self.agents.lane(agent) else {
            return (Err("the agent isn't in the list".to_owned()), None);
        };
        let (found, turn) = DIRECTORIES.find(agent, lane, keyid, clock);
        if let (Found::NoTurn, Some(main)) = (&found, main) {
            main.bot_directory_refused.inc();
        }
        let found = match found {
            Found::Key(key) => Ok(KnownKey { key, is_agents: true }),
            Found::NoKey(no_key) => Err(no_key.text().to_owned()),
            Found::Fetching => Err("unknown key: the directory is being fetched".to_owned()),
            Found::NoTurn => Err("unknown key: too many directories are being fetched".to_owned()),
            Found::Failed(reason) => Err(format!("unknown key: no keys from the directory: {reason}")),
        };
        (found, turn)
    }

    /// The answer of the files, if they have one.
    fn find_in_files(&self, agent: Option<&Agent>, keyid: &str, now: f64) -> Option<Result<KnownKey, String>> {
        let files = self.files.read();
        let key_of = |owner: Option<&Agent>| {
            let mut fault = NoKey::Unknown;
            for file in files.iter().filter(|file| file.agent.as_ref() == owner) {
                match file.keys.find(keyid, now) {
                    Ok(key) => return Ok(key.clone()),
                    Err(NoKey::Unknown) => {}
                    Err(other) => fault = other,
                }
            }
            Err(fault)
        };
        let of_agent = agent.map_or(Err(NoKey::Unknown), |agent| key_of(Some(agent)));
        if let Ok(key) = of_agent {
            return Some(Ok(KnownKey { key, is_agents: true }));
        }
        let of_all = key_of(None);
        if let Ok(key) = of_all {
            return Some(Ok(KnownKey { key, is_agents: false }));
        }
        let fault = [of_agent, of_all].into_iter().filter_map(Result::err).find(|fault| *fault != NoKey::Unknown);
        let is_here = match agent {
            Some(_) => files.iter().any(|file| file.agent.as_ref() == agent),
            None => fault.is_some(),
        };
        is_here.then(|| Err(fault.unwrap_or(NoKey::Unknown).text().to_owned()))
    }
}

fn accept_signature(this: &Arc<Verifier>, _: &mut VmodCall<'_>, label: &[u8]) -> CallResult<STRING> {
    let is_key = |label: &[u8]| {
        label.first().is_some_and(|c| c.is_ascii_lowercase() || *c == b'*')
            && label.iter().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || b"_-.*".contains(c))
    };
    if !is_key(label) {
        return fail(format!("botauth: accept_signature(): \"{}\" is no key of a dictionary", label.escape_ascii()));
    }
    let label = String::from_utf8_lossy(label);
    let also = this.rules.cover.iter().filter(|name| !["@authority", AGENT].contains(&name.as_str()));
    let also: String = also.map(|name| format!(" \"{name}\"")).collect();
    let nonce = if this.rules.nonces.is_on() { ";nonce" } else { "" };
    give(format!(
        "{label}=(\"@authority\" \"{AGENT}\";key=\"{label}\"{also});created;expires{nonce};alg=\"ed25519\";tag=\"{TAG}\""
    ))
}

#[cfg(test)]
mod tests;
