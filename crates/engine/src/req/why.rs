// SPDX-License-Identifier: BSD-2-Clause
//! Why a request is no hit. Every step that decides so says it here; the last word is logged and counted once, when the
//! transaction ends.

use cache::{Cause, Flags, Looked, Lookup, LookupOptions, Missed, ObjRef};
use message::Head;
use message::vary::Entries;
use tables::no_hit::NoHit;
use tables::tags::Tag;
use vrt::{Action, Method, Spot};

use super::Req;

/// Longest part of a value that a reason quotes.
const QUOTED_BYTES: usize = 80;

/// A reason and what goes with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Why {
    pub reason: NoHit,
    /// A place in VCL, a ban, a time: plain words; may be empty.
    pub detail: String,
}

impl Why {
    pub fn new(reason: NoHit, detail: impl Into<String>) -> Self {
        Why { reason, detail: detail.into() }
    }

    /// Nothing was decided yet.
    pub fn undecided() -> Self {
        Self::new(NoHit::Refused, String::new())
    }

    /// What `method` ended with, when that is a reason. `before` is the reason so far, `None` after a hit.
    pub fn of_vcl(method: Method, action: &Action, spot: Option<Spot<'_>>, before: Option<&Why>) -> Option<Why> {
        let told = |reason| Some(Why::new(reason, spot.map(|spot| spot.to_string()).unwrap_or_default()));
        let builtin = spot.filter(Spot::is_builtin).map(|spot| spot.sub);
        match action {
            Action::Fail => told(NoHit::VclFailed),
            // A purge is answered so.
            Action::Synth { .. } if method == Method::Purge => None,
            Action::Synth { status, .. } => {
                let place = spot.map(|spot| format!(", {spot}")).unwrap_or_default();
                Some(Why::new(NoHit::Synth, format!("{status}{place}")))
            }
            Action::Purge => told(NoHit::Purge),
            Action::Pipe if method == Method::Recv => match builtin {
                Some("vcl_req_method") => told(NoHit::PipeMethod),
                _ => told(NoHit::Pipe),
            },
            Action::Pass => match builtin {
                Some("vcl_req_method") => told(NoHit::PassMethod),
                Some("vcl_req_authorization") => told(NoHit::PassAuthorization),
                Some("vcl_req_cookie") => told(NoHit::PassCookie),
                _ => told(NoHit::Pass),
            },
            // What was decided before says more.
            Action::Restart if before.is_none_or(|why| why.reason == NoHit::Refused) => told(NoHit::Restart),
            Action::Restart
            | Action::Pipe
            | Action::Abandon
            | Action::Beresp
            | Action::Deliver
            | Action::Error { .. }
            | Action::Fetch
            | Action::Hash
            | Action::Lookup
            | Action::Merge
            | Action::ObjStale
            | Action::Ok
            | Action::PassFor(_)
            | Action::Retry
            | Action::Vcl(_) => None,
        }
    }

    /// What a lookup found, when it is no hit. `age_of` tells how long something that ended is over.
    /// Only the reason where nobody is told more: a pass finds its marker with each request.
    pub fn of_lookup(looked: &Looked, options: &LookupOptions, head: &Head, now: base::Mono) -> Option<Why> {
        let marked = |reason, xid: base::Vxid, left: f64| {
            if !options.tells {
                return Some(Why::new(reason, String::new()));
            }
            let why = crate::extra::Extra::of(&looked.missed.marker).why;
            let why = why.map(|text| format!("{}; ", String::from_utf8_lossy(text))).unwrap_or_default();
            let until = if left >= 0.0 { format!("for {left:.0} s more") } else { format!("over for {:.0} s", -left) };
            Some(Why::new(reason, format!("{why}{until}; by {xid}")))
        };
        match &looked.lookup {
            Lookup::Hit(_) | Lookup::Grace { .. } | Lookup::Wait(_) | Lookup::Unfinished(_) => None,
            Lookup::HitForPass { xid, ttl_left } => marked(NoHit::HitForPass, *xid, *ttl_left),
            Lookup::HitForMiss { xid, ttl_left, .. } => marked(NoHit::HitForMiss, *xid, *ttl_left),
            Lookup::Refused => Some(Why::new(NoHit::Waitinglist, "waitinglist_limit")),
            Lookup::Miss(_) if options.always_miss => Some(Why::new(NoHit::AlwaysMiss, String::new())),
            Lookup::Miss(_) | Lookup::MissStale { .. } => Some(Self::of_missed(&looked.missed, options, head, now)),
        }
    }

    pub fn of_missed(missed: &Missed, options: &LookupOptions, head: &Head, now: base::Mono) -> Why {
        if let Some(ban) = &missed.banned {
            return Why::new(NoHit::Banned, ban.as_str());
        }
        if missed.is_overtaken {
            return Why::new(NoHit::Purged, "while it was fetched");
        }
        if missed.is_limited {
            return Why::new(NoHit::RequestTtl, format!("{:.3}", options.max_ttl.unwrap_or_default()));
        }
        if let Some(times) = missed.stale {
            let over = now.since(times.grace_until(options.max_ttl, options.max_grace)).max(0.0);
            let grace = options.max_grace.filter(|&max| max >= 0.0 && max < times.grace);
            let grace = grace.map_or_else(|| format!("grace {:.0}", times.grace), |max| format!("req.grace {max:.0}"));
            return Why::new(NoHit::Expired, format!("{over:.3} s ago, ttl {:.0}, {grace}", times.ttl));
        }
        if let Some(values) = &missed.other {
            return Why::new(NoHit::Vary, mismatch(values, head));
        }
        if missed.ignored_busy {
            return Why::new(NoHit::IgnoreBusy, String::new());
        }
        match missed.gone {
            None => Why::new(NoHit::FirstFetch, String::new()),
            Some((cause, ago)) => Why::new(reason_of(cause), format!("{ago:.0} s ago")),
        }
    }

    /// As the log and people have it.
    pub fn text(&self) -> String {
        let between = if self.detail.is_empty() { "" } else { ": " };
        format!("{}{between}{}", self.reason.word(), self.detail)
    }
}

/// The reason that an object's end is.
pub(crate) fn reason_of(cause: Cause) -> NoHit {
    match cause {
        Cause::Expired => NoHit::Expired,
        Cause::ZeroTtl => NoHit::ZeroTtl,
        Cause::Banned => NoHit::Banned,
        Cause::Purged => NoHit::Purged,
        Cause::Evicted => NoHit::Evicted,
        Cause::VaryLimit => NoHit::VaryLimit,
        Cause::Replaced => NoHit::Replaced,
        Cause::FetchFailed => NoHit::FetchFailed,
    }
}

/// The first field by which a variant differs from the request, with both values.
pub(crate) fn mismatch(values: &[u8], head: &Head) -> String {
    let differs = Entries(values).find(|entry| head.get(entry.name) != entry.value);
    let Some(entry) = differs else { return String::new() };
    let name = String::from_utf8_lossy(entry.name);
    format!("{name}: {} here, {} there", quoted(head.get(entry.name)), quoted(entry.value))
}

fn quoted(value: Option<&[u8]>) -> String {
    match value {
        None => "not set".to_owned(),
        Some(value) => format!("\"{}\"", String::from_utf8_lossy(&value[..value.len().min(QUOTED_BYTES)])),
    }
}

impl Req {
    /// Whether anybody will read more than the reason.
    pub(super) fn tells_why(&self) -> bool {
        self.params.log_no_hit || self.trial.is_some()
    }

    /// Logs and counts why this was no hit, unless it was one.
    pub(super) fn tell_why(&mut self) {
        let Some(why) = self.why.take().filter(|_| self.trial.is_none()) else { return };
        self.engine().no_hit.of(why.reason).tally();
        if self.params.log_no_hit {
            self.log.putf(Tag::Notice, format_args!("lacquer: no hit: {}", why.text()));
        }
    }

    /// `Cache-Status` (RFC 9211), as far as it is asked for and known.
    pub(super) fn cache_status(&self, obj: &ObjRef) -> Option<String> {
        if !self.params.cache_status {
            return None;
        }
        let times = obj.times();
        let ttl = times.fresh_until(None).since(self.engine().mono_of(self.t_req)).floor();
        let Some(why) = &self.why else { return Some(format!("Lacquer; hit; ttl={ttl:.0}")) };
        let flags = obj.flags();
        let is_stored = !flags.has(Flags::PRIVATE) && !flags.is_uncacheable() && times.ttl > 0.0;
        let stored = if is_stored { format!("; stored; ttl={ttl:.0}") } else { String::new() };
        let forward = match why.reason.forward() {
            "" => "bypass",
            word => word,
        };
        Some(format!("Lacquer; fwd={forward}{stored}; detail={}", why.reason.word()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spot<'a>(sub: &'a str, file: &'a str) -> Option<Spot<'a>> {
        Some(Spot { sub, file, line: 7 })
    }

    fn check(method: Method, action: Action, at: Option<Spot<'_>>, want: &str) {
        let why = Why::of_vcl(method, &action, at, Some(&Why::undecided()));
        assert_eq!(why.map(|why| why.text()).unwrap_or_default(), want);
    }

    #[test]
    fn what_vcl_decides_is_named_with_its_place() {
        let (site, builtin) = (spot("vcl_recv", "site.vcl"), spot("vcl_req_cookie", "<builtin>"));
        check(Method::Recv, Action::Pass, site, "pass: vcl_recv site.vcl:7");
        check(Method::Recv, Action::Pass, builtin, "pass-cookie: vcl_req_cookie <builtin>:7");
        check(Method::Recv, Action::Hash, site, "");
        check(Method::Recv, Action::Restart, site, "restart: vcl_recv site.vcl:7");
        check(Method::Pipe, Action::Pipe, site, "");
        let synth = Action::Synth { status: 404, reason: None };
        check(Method::Recv, synth, site, "synth: 404, vcl_recv site.vcl:7");
    }

    #[test]
    fn a_restart_keeps_the_reason_before_it() {
        let why = Why::new(NoHit::FirstFetch, "");
        assert_eq!(Why::of_vcl(Method::Deliver, &Action::Restart, None, Some(&why)), None);
        assert!(Why::of_vcl(Method::Hit, &Action::Restart, None, None).is_some());
    }

    #[test]
    fn a_vary_mismatch_names_the_field() {
        let (mut stored, mut here) = (Head::new(), Head::new());
        stored.append("Accept-Language", "de").unwrap();
        here.append("accept-language", "en").unwrap();
        let mut key = Vec::new();
        message::vary::write_key(b"User-Agent, Accept-Language", &stored, &mut key).unwrap();
        assert_eq!(mismatch(&key, &here), "Accept-Language: \"en\" here, \"de\" there");
        assert_eq!(mismatch(&key, &stored), "");
    }
}
