// SPDX-License-Identifier: BSD-2-Clause
//! `lacquer explain`: what would become of a request, and why. `vcl_recv` and `vcl_hash` run as for a client's request, but
//! nothing is logged or counted and nothing outside of the request changes: what modules would do there is reported
//! (`tables::vmods::Func::is_local`, `Ctx::trial`). Then the cache is looked at without a lookup. Nothing is fetched.

use std::fmt::Write;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use ::cache::{HashVariants, LookupOptions, LookupTrace, Reuse, VariantSummary};
use accounts::BotClass;
use base::{Mono, Vxid};
use message::{Head, names};
use shm::vsl::TxnLog;
use tables::no_hit::{NoHit, Uncacheable};

use super::nobody::{self, NullTransport};
use super::reason::{NoHitReason, mismatch, reason_of};
use super::{Req, ReqStep};
use crate::aux_attrs::AuxAttrs;
use crate::engine::Engine;
use crate::sess::Sess;
use crate::slices::SliceSet;
use crate::vcl_run::VclRun;

/// Slices of an object that are looked up at most.
const SLICES_COUNTED: u64 = 4096;

/// The verdict on a request that is answered before VCL.
const CHALLENGE: &str =
    "It would be answered before VCL: the URL is that of an open challenge of the certificate authority (ACME).\n";

const BUILTIN: &str = "<builtin>";

/// The advice for a purge that VCL answers itself.
const PURGE_REFUSED: &str =
    "If VCL lets certain clients purge, name one: -c ADDRESS. Without -c a trial comes from 0.0.0.0.\n";

/// A request that nobody made.
#[derive(Clone, Debug)]
pub struct TrialRequest {
    pub method: String,
    pub url: String,
    pub fields: Vec<String>,
    pub client: SocketAddr,
}

/// State of a trial in addition to the request's.
#[derive(Debug, Default)]
pub(crate) struct TrialState {
    pub hashed: Vec<String>,
    /// Effects outside of the request that VCL would have had.
    pub would: Vec<String>,
}

/// Says in plain words what would happen to the request and why.
///
/// # Errors
/// What is wrong with the question.
pub async fn explain(engine: &Arc<Engine>, question: &TrialRequest) -> Result<String, String> {
    let Some(vcl) = engine.vcls.active() else { return Err("No VCL is in use.".to_owned()) };
    let mut req = trial(engine, question)?;
    req.vcl = VclRun::of(vcl);
    let mut out = format!("{} {}\n", question.method, question.url);
    let mut step = req.recv(&mut NullTransport::default()).await;
    while let ReqStep::Restart = step {
        let place = req.verdict.reason().map(|reason| reason.detail.clone()).unwrap_or_default();
        let _ = writeln!(out, "VCL restarts it ({place}).");
        req.client.trial = Some(Box::default());
        step = match req.restart() {
            ReqStep::Recv => req.recv(&mut NullTransport::default()).await,
            other => other,
        };
    }
    if req.ask.original.get(names::HOST).is_none() {
        out.push_str("It has no Host: give a complete URL such as http://www.example.com/, or the header Host.\n");
    }
    let hash_counts = matches!(step, ReqStep::Lookup | ReqStep::Purge);
    let may_fetch = matches!(step, ReqStep::Lookup | ReqStep::Pass | ReqStep::Pipe);
    let mut objects = String::new();
    let verdict = match step {
        ReqStep::Lookup => req.look(&mut objects),
        ReqStep::Transmit(_) => return Ok(out + CHALLENGE),
        ReqStep::Hit { .. } | ReqStep::Miss { .. } | ReqStep::Fetch(_) | ReqStep::Deliver(_) | ReqStep::Done => {
            return Ok(out + "It would be refused before VCL.\n");
        }
        ReqStep::Recv | ReqStep::Restart => unreachable!("run above"),
        ReqStep::Pass | ReqStep::Pipe | ReqStep::Purge | ReqStep::Synth(_) | ReqStep::VclFail => req.decided(&step),
    };
    req.tell_what_vcl_did(hash_counts, &mut out);
    let fault = if may_fetch { req.backend_fault() } else { String::new() };
    let bots = if may_fetch { req.bot_verdict() } else { String::new() };
    Ok(out + &objects + &verdict + &fault + &bots)
}

fn trial(engine: &Arc<Engine>, question: &TrialRequest) -> Result<Req, String> {
    let params = engine.params.load_full();
    let (listener, connection) = nobody::place("explain", question.client);
    let sess = Rc::new(Sess::new(engine, Vxid::NONE, &listener, &connection, "HTTP/1"));
    let limits = crate::pool::client_limits(&params);
    let mut head = Head::with_limits(limits);
    let lost = |_| "Too many headers: see the parameters http_max_hdr and workspace_client.".to_owned();
    head.start_request(question.method.as_bytes(), question.url.as_bytes(), b"HTTP/1.1").map_err(lost)?;
    for line in &question.fields {
        let (name, value) =
            line.split_once(':').ok_or_else(|| format!("{line:?} is not a header: write it as \"Name: value\"."))?;
        let is_name = !name.is_empty() && name.bytes().all(|c| c.is_ascii_graphic());
        if !is_name || value.bytes().any(|c| c.is_ascii_control() && c != b'\t') {
            return Err(format!("{line:?} is not a header: write it as \"Name: value\"."));
        }
        head.append(name, value.trim()).map_err(lost)?;
    }
    let now = engine.clock.real();
    let mut req = Req::new(&sess, Vxid::NONE, params, now);
    req.log = TxnLog::silent(engine.log.clone());
    req.log.timestamp("Start", now);
    req.ask.head.copy_from(&head);
    req.ask.original.copy_from(&head);
    req.client.trial = Some(Box::default());
    Ok(req)
}

impl Req {
    /// Prints the effects of VCL. The hash is only shown if the request is looked up.
    fn tell_what_vcl_did(&self, hash_counts: bool, out: &mut String) {
        let vcl = &self.vcl.loaded().name;
        let Some(trial) = &self.client.trial else { return };
        let _ = match hash_counts {
            true => writeln!(out, "VCL {vcl} ran. It is looked up under {}.", trial.hashed.join(" + ")),
            false => writeln!(out, "VCL {vcl} ran. Nothing is looked up."),
        };
        if self.ask.head.url() != self.ask.original.url() {
            let by_params = !(self.params.query_drop.is_empty() && self.params.query_keep.is_empty());
            let who = if by_params { "Parameters and VCL" } else { "VCL" };
            let _ = writeln!(out, "{who} made the URL {}.", String::from_utf8_lossy(self.ask.head.url()));
        }
        for would in &trial.would {
            let _ = writeln!(out, "VCL would {would}.");
        }
    }

    fn decided(&self, step: &ReqStep) -> String {
        let reason = self.verdict.reason().cloned().unwrap_or_else(NoHitReason::undecided);
        let what = match step {
            ReqStep::Pass => "It would be passed: fetched for this request alone.",
            ReqStep::Pipe => "It would be piped.",
            ReqStep::Purge => "It would purge all objects under this hash.",
            ReqStep::VclFail => "It would fail in VCL and be answered 503.",
            _ => "It would be answered by vcl_synth.",
        };
        let advice = match reason.word {
            NoHit::PassCookie => self.cookies_to_drop(),
            _ if !self.is_about_purging() || matches!(step, ReqStep::Purge) => String::new(),
            // The built-in VCL answers methods that it doesn't know.
            NoHit::Synth if !reason.detail.contains(BUILTIN) => PURGE_REFUSED.to_owned(),
            _ => self.how_to_purge(),
        };
        format!("{what}\n{}{advice}", text(&reason))
    }

    fn is_about_purging(&self) -> bool {
        let method = self.ask.original.method();
        [&b"PURGE"[..], b"SOFTPURGE", b"XKEY"].iter().any(|word| method.starts_with(word)) || method == b"BAN"
    }

    /// The reason why a method that no rule of VCL knows removes nothing, and what does.
    fn how_to_purge(&self) -> String {
        let (method, url) =
            (String::from_utf8_lossy(self.ask.original.method()), String::from_utf8_lossy(self.ask.original.url()));
        // A URL may have what a shell would read.
        let is_plain = url.bytes().all(|c| c.is_ascii_alphanumeric() || b"/_.-".contains(&c));
        let page = if is_plain { &*url } else { "/page" };
        format!(
            "Nothing would be removed: VCL has no rule for {method}. To remove the page, type: varnishadm ban 'req.url == {page}'\n\
             A rule for HTTP: if (req.method == \"PURGE\" && client.ip ~ purgers) {{ return (purge); }} in vcl_recv, with acl purgers.\n"
        )
    }

    /// The names of the cookies that are left, and how they are removed for pages that don't depend on them.
    fn cookies_to_drop(&self) -> String {
        let pairs = self.ask.head.get_all(names::COOKIE.as_bytes()).flat_map(|value| value.split(|byte| *byte == b';'));
        let names = pairs.filter_map(|pair| {
            Some(String::from_utf8_lossy(pair.split(|byte| *byte == b'=').next()?).trim().to_owned())
        });
        let names: Vec<String> = names.filter(|name| !name.is_empty()).collect();
        if names.is_empty() {
            return String::new();
        }
        let dropped = &self.params.cookie_drop;
        let before = if dropped.is_empty() { String::new() } else { format!("{dropped} ") };
        // A client may choose a name that a shell would run.
        let is_plain = |name: &&String| name.bytes().all(|c| c.is_ascii_alphanumeric() || b"_.-".contains(&c));
        let advice = names.iter().find(is_plain).map_or_else(String::new, |name| {
            format!(" To remove one that the page doesn't depend on, type: varnishadm param.set cookie_drop '{before}{name}'")
        });
        format!("Cookies: {}.{advice}\n", names.join(", "))
    }

    /// The reason why the backend that VCL chose can't be used, if it hasn't sent a response since its last failure.
    /// Directors aren't asked: that would change whose turn it is.
    fn backend_fault(&self) -> String {
        let director = self.director();
        let backend = director.as_ref().and_then(|director| director.as_backend());
        let Some((backend, (why, ago))) = backend.and_then(|backend| Some((backend, backend.last_fault()?))) else {
            return String::new();
        };
        format!("The last request to the backend {} failed {ago:.0} s ago: {why}.\n", backend.label())
    }

    /// The verdict of `--bots` about the client, and the state of its budget if it isn't a reader.
    fn bot_verdict(&self) -> String {
        let view = self.bot_view();
        let Some(verdict) = view.verdict() else { return String::new() };
        let mut text =
            format!("If it needs the origin, its client is judged by --bots={}: {verdict}.\n", self.params.bots);
        if verdict.class != BotClass::Reader {
            let (cost, budget) = view.account();
            let _ = writeln!(
                text,
                "  The client was charged with {cost:.1} s of the origin's time; its budget has {budget:.1} s now."
            );
        }
        text
    }

    fn look(&self, out: &mut String) -> String {
        let engine = self.engine();
        let now = engine.mono_of(self.ask.t_req);
        let options = self.lookup_options();
        let asked = self.lookup_request();
        let peek = engine.cache.peek(&self.ask.digest, &asked, now);
        let mut verdict = self.judge(&peek, &options, now);
        if self.is_about_purging() {
            verdict.push_str(&self.how_to_purge());
        }
        match peek.count {
            0 => out.push_str("There is no object under this hash.\n"),
            1 => out.push_str("There is one object under this hash:\n"),
            n => {
                let _ = writeln!(out, "There are {n} objects under this hash:");
            }
        }
        for found in &peek.variants {
            self.describe(found, now, out);
        }
        if peek.count > peek.variants.len() {
            out.push_str("  ...\n");
        }
        if let Some((cause, ago)) = peek.tombstone {
            let _ = writeln!(out, "The last object was removed {ago:.0} s ago: {}.", reason_of(cause).word());
        }
        verdict
    }

    fn describe(&self, found: &VariantSummary, now: Mono, out: &mut String) {
        let mut facts = Vec::new();
        if found.is_busy {
            facts.push("being fetched".to_owned());
        } else {
            let times = found.times;
            let left = times.fresh_until(None).since(now);
            let lives = format!("ttl {:.0} s, grace {:.0} s, keep {:.0} s", times.ttl, times.grace, times.keep);
            facts.push(match left > 0.0 {
                true => format!("fresh for {left:.1} s more ({lives})"),
                false => format!("stale for {:.1} s ({lives})", -left),
            });
        }
        if found.flags.is_uncacheable() {
            let kind = if found.flags.reuse == Reuse::HitForPass { "hit-for-pass" } else { "hit-for-miss" };
            facts.push(format!("{kind}{}", uncacheable_reason(&found.aux_attrs)));
        } else if !found.is_busy {
            facts.push(format!("{} hit{}", found.hits, if found.hits == 1 { "" } else { "s" }));
            match (SliceSet::read(&found.aux_attrs), found.body_bytes) {
                (Some(set), _) => facts.push(self.describe_slices(&set)),
                (None, Some(bytes)) => facts.push(format!("{bytes} bytes")),
                (None, None) => {}
            }
        }
        if let Some((_, values)) = &found.vary {
            let fields = message::vary::VaryEntries(values);
            let names: Vec<_> = fields.map(|entry| String::from_utf8_lossy(entry.name).into_owned()).collect();
            facts.push(format!("Vary: {}", names.join(", ")));
            if !found.is_selected {
                facts.push(format!("not for this request ({})", mismatch(values, &self.ask.head)));
            }
        }
        if let Some(ban) = &found.ban {
            facts.push(format!("banned by {ban}"));
        }
        if found.is_overtaken {
            facts.push("invalidated while it was fetched".to_owned());
        }
        let xid = if found.xid == Vxid::NONE { String::new() } else { format!("{}: ", found.xid) };
        let _ = writeln!(out, "  {xid}{}", facts.join("; "));
    }

    /// `3 of 2000 slices of 1048576 bytes are in memory, 2097152000 bytes in all`
    fn describe_slices(&self, set: &SliceSet) -> String {
        let cache = &self.engine().cache;
        let (count, size, total) = (set.count(), set.size(), set.total);
        let is_there = |index: &u64| !cache.aux_attrs_under(&set.digest(&self.ask.digest, *index)).is_empty();
        let found = (0..count.min(SLICES_COUNTED)).filter(is_there).count();
        let more = if count > SLICES_COUNTED { format!(" of the first {SLICES_COUNTED}") } else { String::new() };
        format!("{found}{more} of {count} slices of {size} bytes are in memory, {total} bytes in all")
    }

    /// Decides like a lookup, except for the effects that only a real one shows.
    fn judge(&self, peek: &HashVariants, options: &LookupOptions, now: Mono) -> String {
        if options.always_miss {
            return missed(&NoHitReason::new(NoHit::AlwaysMiss, ""));
        }
        let mut seen = LookupTrace::default();
        let (mut stale, mut is_busy) = (None::<&VariantSummary>, false);
        let fresh_until = |found: &VariantSummary| match found.flags.is_uncacheable() {
            true => found.times.fresh_until(options.max_ttl),
            false => options.fresh_until(&found.times),
        };
        for found in &peek.variants {
            let is_ours = found.is_selected || options.ignore_vary;
            if found.is_busy {
                is_busy |= is_ours && !options.ignore_busy;
                seen.ignored_busy |= is_ours && options.ignore_busy;
            } else if found.times.ttl <= 0.0 || found.is_overtaken {
                seen.is_overtaken |= found.is_overtaken;
            } else if !is_ours {
                let vary = found.vary.as_ref().map(|(_, values)| Box::from(&values[..]));
                seen.other = seen.other.take().or(vary);
            } else if let Some(ban) = &found.ban {
                seen.banned = Some(ban.clone());
            } else if fresh_until(found).0 > now.0 {
                return fresh(found, fresh_until(found).since(now));
            } else if !options.is_stale(&found.times, now) {
                seen.is_over_max_age = true;
            } else if stale.is_none_or(|other| found.times.t_origin.0 > other.times.t_origin.0) {
                stale = Some(found);
            }
        }
        if let Some(found) = stale.filter(|found| found.flags.is_uncacheable()) {
            return fresh(found, found.times.fresh_until(options.max_ttl).since(now));
        }
        let in_grace = |found: &&VariantSummary| options.is_in_grace(&found.times, now);
        if let Some(found) = stale.filter(in_grace) {
            let how = if is_busy {
                "a new one is already being fetched"
            } else {
                "a new one would be fetched in the background"
            };
            let left = found.times.grace_until(options.max_ttl, options.max_grace).since(now);
            return format!(
                "It would be a hit in grace: the object is stale, its grace lasts {left:.1} s more; {how}.\n"
            );
        }
        if is_busy {
            return "It would wait for the fetch in progress, and then look again.\n".to_owned();
        }
        seen.stale = stale.map(|found| found.times);
        seen.tombstone = peek.tombstone;
        missed(&NoHitReason::of_trace(&seen, options, &self.ask.head, now))
    }
}

fn missed(reason: &NoHitReason) -> String {
    format!("It would be a miss and be fetched.\n{}", text(reason))
}

fn fresh(found: &VariantSummary, left: f64) -> String {
    let marked = |what: &str, then: &str| {
        format!("It would be {what} because of an earlier response{}. {then}\n", uncacheable_reason(&found.aux_attrs))
    };
    if found.flags.reuse == Reuse::HitForPass {
        return marked("a hit-for-pass", "It would be passed.");
    }
    if found.flags.reuse == Reuse::HitForMiss {
        return marked(
            "a hit-for-miss",
            "It would be fetched without request coalescing, until a response is cacheable.",
        );
    }
    format!("It would be a hit: fresh for {left:.1} s more.\n")
}

/// ` (set-cookie: it sets a cookie)`
fn uncacheable_reason(aux_attrs: &[u8]) -> String {
    let Some(text) = AuxAttrs::read(aux_attrs).reason.map(String::from_utf8_lossy) else { return String::new() };
    let word = text.split(' ').next().unwrap_or_default();
    let known = Uncacheable::ALL.iter().find(|cause| cause.word() == word);
    let meaning = known.map(|cause| format!(": {}", cause.text())).unwrap_or_default();
    format!(" ({text}{meaning})")
}

fn text(reason: &NoHitReason) -> String {
    format!("Reason: {}\n  {}.\n", reason.text(), reason.word.text())
}
