// SPDX-License-Identifier: BSD-2-Clause
//! Why a request is no hit: the word for it, and what goes with it.

use cache::{Cause, Lookup, LookupOptions, LookupOutcome, LookupTrace};
use message::Head;
use message::vary::Entries;
use tables::no_hit::NoHit;
use vrt::{Action, Method, SourceLocation};

/// Longest part of a value that a reason quotes.
const QUOTED_BYTES: usize = 80;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reason {
    pub word: NoHit,
    /// A place in VCL, a ban, a time: plain words; may be empty.
    pub detail: String,
}

impl Reason {
    pub fn new(word: NoHit, detail: impl Into<String>) -> Self {
        Reason { word, detail: detail.into() }
    }

    pub fn undecided() -> Self {
        Self::new(NoHit::Refused, String::new())
    }

    /// The reason for no hit when `method` ended with an action that is one. `before` is the reason so far, `None`
    /// after a hit.
    pub fn of_vcl(
        method: Method,
        action: &Action,
        location: Option<SourceLocation<'_>>,
        before: Option<&Reason>,
    ) -> Option<Reason> {
        let told =
            |reason| Some(Reason::new(reason, location.map(|location| location.to_string()).unwrap_or_default()));
        let builtin = location.filter(SourceLocation::is_builtin).map(|location| location.sub);
        match action {
            Action::Fail => told(NoHit::VclFailed),
            // A purge is answered so.
            Action::Synth { .. } if method == Method::Purge => None,
            Action::Synth { status, .. } => {
                let place = location.map(|location| format!(", {location}")).unwrap_or_default();
                Some(Reason::new(NoHit::Synth, format!("{status}{place}")))
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
            Action::Restart if before.is_none_or(|explanation| explanation.word == NoHit::Refused) => {
                told(NoHit::Restart)
            }
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

    /// The reason why a lookup found no hit; `None` for a hit. Without details if `options` asks for no explanation: a
    /// pass finds its marker with each request.
    pub fn of_lookup(outcome: &LookupOutcome, options: &LookupOptions, head: &Head, now: base::Mono) -> Option<Reason> {
        let marked = |reason, xid: base::Vxid, left: f64| {
            if !options.tells {
                return Some(Reason::new(reason, String::new()));
            }
            let explanation = crate::aux_attrs::AuxAttrs::read(&outcome.trace.marker).reason;
            let explanation =
                explanation.map(|text| format!("{}; ", String::from_utf8_lossy(text))).unwrap_or_default();
            let until = if left >= 0.0 { format!("for {left:.0} s more") } else { format!("over for {:.0} s", -left) };
            Some(Reason::new(reason, format!("{explanation}{until}; by {xid}")))
        };
        match &outcome.lookup {
            Lookup::Hit(_) | Lookup::Grace { .. } | Lookup::Wait(_) | Lookup::Unfinished(_) | Lookup::Loading(_) => {
                None
            }
            Lookup::HitForPass { xid, ttl_left } => marked(NoHit::HitForPass, *xid, *ttl_left),
            Lookup::HitForMiss { xid, ttl_left, .. } => marked(NoHit::HitForMiss, *xid, *ttl_left),
            Lookup::Refused => Some(Reason::new(NoHit::Waitinglist, "waitinglist_limit")),
            Lookup::Miss(_) if options.always_miss => Some(Reason::new(NoHit::AlwaysMiss, String::new())),
            Lookup::Miss(_) | Lookup::MissStale { .. } => Some(Self::of_trace(&outcome.trace, options, head, now)),
        }
    }

    pub fn of_trace(trace: &LookupTrace, options: &LookupOptions, head: &Head, now: base::Mono) -> Reason {
        if let Some(ban) = &trace.banned {
            return Reason::new(NoHit::Banned, ban.as_str());
        }
        if trace.is_overtaken {
            return Reason::new(NoHit::Purged, "while it was fetched");
        }
        if trace.is_over_max_age {
            return Reason::new(NoHit::RequestTtl, format!("{:.3}", options.max_ttl.unwrap_or_default()));
        }
        if let Some(times) = trace.stale {
            if times.fresh_until(None).0 > now.0 {
                let age = options.max_age.map(|age| format!("max-age {age:.0}"));
                let more = options.min_fresh.map(|more| format!("min-fresh {more:.0}"));
                return Reason::new(
                    NoHit::RequestDirective,
                    [age, more].into_iter().flatten().collect::<Vec<_>>().join(", "),
                );
            }
            let over = now.since(times.grace_until(options.max_ttl, options.max_grace)).max(0.0);
            let grace = options.max_grace.filter(|&max| max >= 0.0 && max < times.grace);
            let grace = grace.map_or_else(|| format!("grace {:.0}", times.grace), |max| format!("req.grace {max:.0}"));
            return Reason::new(NoHit::Expired, format!("{over:.3} s ago, ttl {:.0}, {grace}", times.ttl));
        }
        if let Some(values) = &trace.other {
            return Reason::new(NoHit::Vary, mismatch(values, head));
        }
        if trace.ignored_busy {
            return Reason::new(NoHit::IgnoreBusy, String::new());
        }
        match trace.tombstone {
            None => Reason::new(NoHit::FirstFetch, String::new()),
            Some((cause, ago)) => Reason::new(reason_of(cause), format!("{ago:.0} s ago")),
        }
    }

    /// The text for the log and for people.
    pub fn text(&self) -> String {
        let between = if self.detail.is_empty() { "" } else { ": " };
        format!("{}{between}{}", self.word.word(), self.detail)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn location<'a>(sub: &'a str, file: &'a str) -> Option<SourceLocation<'a>> {
        Some(SourceLocation { sub, file, line: 7 })
    }

    fn check(method: Method, action: Action, at: Option<SourceLocation<'_>>, want: &str) {
        let reason = Reason::of_vcl(method, &action, at, Some(&Reason::undecided()));
        assert_eq!(reason.map(|reason| reason.text()).unwrap_or_default(), want);
    }

    #[test]
    fn what_vcl_decides_is_named_with_its_place() {
        let (site, builtin) = (location("vcl_recv", "site.vcl"), location("vcl_req_cookie", "<builtin>"));
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
        let reason = Reason::new(NoHit::FirstFetch, "");
        assert_eq!(Reason::of_vcl(Method::Deliver, &Action::Restart, None, Some(&reason)), None);
        assert!(Reason::of_vcl(Method::Hit, &Action::Restart, None, None).is_some());
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
