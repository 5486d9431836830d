// SPDX-License-Identifier: BSD-2-Clause
//! Why a request is no hit: the word for it, and what goes with it.

use cache::{Found, LookupOptions, LookupTrace, Search, TombstoneCause};
use message::Head;
use message::vary::VaryEntries;
use tables::no_hit::NoHit;
use tables::vclsubs::{Action, Method, VclStatus};
use vrt::VclLocation;

/// Longest part of a value that a reason quotes.
const QUOTED_BYTES: usize = 80;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NoHitReason {
    pub word: NoHit,
    /// A place in VCL, a ban, a time: plain words; may be empty.
    pub detail: String,
}

impl NoHitReason {
    pub fn new(word: NoHit, detail: impl Into<String>) -> Self {
        NoHitReason { word, detail: detail.into() }
    }

    pub fn undecided() -> Self {
        Self::new(NoHit::Refused, String::new())
    }

    /// The reason for no hit when `method` ended with an action that is one. `before` is the reason so far, `None`
    /// after a hit.
    pub fn of_vcl(
        method: Method,
        action: &Action,
        location: Option<VclLocation<'_>>,
        before: Option<&NoHitReason>,
    ) -> Option<NoHitReason> {
        let no_hit = action.word().no_hit()?;
        let place = location.map(|location| location.to_string()).unwrap_or_default();
        match (no_hit, action) {
            // A purge is answered so.
            (NoHit::Synth, _) if method == Method::Purge => None,
            (NoHit::Synth, Action::Synth(VclStatus { status, .. })) => {
                let place = if place.is_empty() { place } else { format!(", {place}") };
                Some(NoHitReason::new(NoHit::Synth, format!("{status}{place}")))
            }
            // `vcl_recv` has given the reason.
            (NoHit::Pipe, _) if method != Method::Recv => None,
            // What was decided before says more.
            (NoHit::Restart, _) if before.is_some_and(|reason| reason.word != NoHit::Refused) => None,
            (no_hit, _) => {
                let builtin = location.filter(VclLocation::is_builtin).map_or("", |location| location.sub);
                Some(NoHitReason::new(by_builtin(no_hit, builtin), place))
            }
        }
    }

    /// The reason why a search found no hit; `None` for a hit. Without details if its options ask for no explanation: a
    /// pass finds its marker with each request.
    pub fn of_search(found: &Found, search: &Search, head: &Head) -> Option<NoHitReason> {
        let (options, trace) = (&search.options, &search.report.trace);
        let marked = |reason, xid: base::Vxid, left: f64| {
            if !options.tells {
                return Some(NoHitReason::new(reason, String::new()));
            }
            let explanation = crate::aux_attrs::AuxAttrs::read(&trace.marker).reason;
            let explanation =
                explanation.map(|text| format!("{}; ", String::from_utf8_lossy(text))).unwrap_or_default();
            let until = if left >= 0.0 { format!("for {left:.0} s more") } else { format!("over for {:.0} s", -left) };
            Some(NoHitReason::new(reason, format!("{explanation}{until}; by {xid}")))
        };
        match found {
            Found::Hit(_) | Found::Grace { .. } => None,
            Found::HitForPass { xid, ttl_left } => marked(NoHit::HitForPass, *xid, *ttl_left),
            Found::HitForMiss { xid, ttl_left, .. } => marked(NoHit::HitForMiss, *xid, *ttl_left),
            Found::Refused => Some(NoHitReason::new(NoHit::Waitinglist, "waitinglist_limit")),
            Found::Miss(_) if options.always_miss => Some(NoHitReason::new(NoHit::AlwaysMiss, String::new())),
            Found::Miss(_) | Found::MissStale { .. } => Some(Self::of_trace(trace, options, head, search.now())),
        }
    }

    pub fn of_trace(trace: &LookupTrace, options: &LookupOptions, head: &Head, now: base::Mono) -> NoHitReason {
        if let Some(ban) = &trace.banned {
            return NoHitReason::new(NoHit::Banned, ban.as_str());
        }
        if trace.is_overtaken {
            return NoHitReason::new(NoHit::Purged, "while it was fetched");
        }
        if trace.is_over_max_age {
            return NoHitReason::new(NoHit::RequestTtl, format!("{:.3}", options.max_ttl.unwrap_or_default()));
        }
        if let Some(times) = trace.stale {
            if times.fresh_until(None).0 > now.0 {
                let age = options.max_age.map(|age| format!("max-age {age:.0}"));
                let more = options.min_fresh.map(|more| format!("min-fresh {more:.0}"));
                return NoHitReason::new(
                    NoHit::RequestDirective,
                    [age, more].into_iter().flatten().collect::<Vec<_>>().join(", "),
                );
            }
            let over = now.since(times.grace_until(options.max_ttl, options.max_grace)).max(0.0);
            let grace = options.max_grace.filter(|&max| max >= 0.0 && max < times.grace);
            let grace = grace.map_or_else(|| format!("grace {:.0}", times.grace), |max| format!("req.grace {max:.0}"));
            return NoHitReason::new(NoHit::Expired, format!("{over:.3} s ago, ttl {:.0}, {grace}", times.ttl));
        }
        if let Some(values) = &trace.other {
            return NoHitReason::new(NoHit::Vary, mismatch(values, head));
        }
        if trace.ignored_busy {
            return NoHitReason::new(NoHit::IgnoreBusy, String::new());
        }
        match trace.tombstone {
            None => NoHitReason::new(NoHit::FirstFetch, String::new()),
            Some((cause, ago)) => NoHitReason::new(reason_of(cause), format!("{ago:.0} s ago")),
        }
    }

    /// The text for the log and for people.
    pub fn text(&self) -> String {
        let between = if self.detail.is_empty() { "" } else { ": " };
        format!("{}{between}{}", self.word.word(), self.detail)
    }
}

/// The reason that an object's end is.
pub(crate) fn reason_of(cause: TombstoneCause) -> NoHit {
    match cause {
        TombstoneCause::Expired => NoHit::Expired,
        TombstoneCause::ZeroTtl => NoHit::ZeroTtl,
        TombstoneCause::Banned => NoHit::Banned,
        TombstoneCause::Purged => NoHit::Purged,
        TombstoneCause::Evicted => NoHit::Evicted,
        TombstoneCause::VaryLimit => NoHit::VaryLimit,
        TombstoneCause::Replaced => NoHit::Replaced,
        TombstoneCause::FetchFailed => NoHit::FetchFailed,
    }
}

/// The first field by which a variant differs from the request, with both values.
pub(crate) fn mismatch(values: &[u8], head: &Head) -> String {
    let differs = VaryEntries(values).find(|entry| head.get(entry.name) != entry.value);
    let Some(entry) = differs else { return String::new() };
    let name = String::from_utf8_lossy(entry.name);
    format!("{name}: {} here, {} there", quoted(head.get(entry.name)), quoted(entry.value))
}

/// The reason that the built-in subroutine `sub` has for a pass or pipe; `word` if `sub` is none with its own.
fn by_builtin(word: NoHit, sub: &str) -> NoHit {
    match (word, sub) {
        (NoHit::Pipe, "vcl_req_method") => NoHit::PipeMethod,
        (NoHit::Pass, "vcl_req_method") => NoHit::PassMethod,
        (NoHit::Pass, "vcl_req_authorization") => NoHit::PassAuthorization,
        (NoHit::Pass, "vcl_req_cookie") => NoHit::PassCookie,
        (word, _) => word,
    }
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

    fn location<'a>(sub: &'a str, file: &'a str) -> Option<VclLocation<'a>> {
        Some(VclLocation { sub, file, line: 7 })
    }

    fn check(method: Method, action: Action, at: Option<VclLocation<'_>>, want: &str) {
        let reason = NoHitReason::of_vcl(method, &action, at, Some(&NoHitReason::undecided()));
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
        check(Method::Deliver, Action::Fail, site, "vcl-failed: vcl_recv site.vcl:7");
        check(Method::Recv, Action::Purge, site, "purge: vcl_recv site.vcl:7");
        let synth = Action::Synth(VclStatus { status: 404, reason: None });
        check(Method::Recv, synth.clone(), site, "synth: 404, vcl_recv site.vcl:7");
        check(Method::Recv, synth.clone(), None, "synth: 404");
        check(Method::Purge, synth, site, "");
    }

    #[test]
    fn a_restart_keeps_the_reason_before_it() {
        let reason = NoHitReason::new(NoHit::FirstFetch, "");
        assert_eq!(NoHitReason::of_vcl(Method::Deliver, &Action::Restart, None, Some(&reason)), None);
        assert!(NoHitReason::of_vcl(Method::Hit, &Action::Restart, None, None).is_some());
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
