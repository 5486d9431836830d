// SPDX-License-Identifier: BSD-2-Clause
//! Tests against the output of Debian's varnishd 7.1.1.

use base::Clock;

use super::*;
use crate::{
    Backend, BackendEnv, BackendSpec, Backends, DirectorBase, Endpoint, Health, HeapServices, ProbeSpec, ResolveCtx,
    Summary,
};

/// A director with the output of vmod directors' round_robin.
struct RoundRobin(DirectorBase);

impl Director for RoundRobin {
    fn base(&self) -> &DirectorBase {
        &self.0
    }
    fn kind(&self) -> &'static str {
        "round-robin"
    }
    fn choose(&self, _: &dyn ResolveCtx) -> Option<Arc<Backend>> {
        None
    }
    fn own_health(&self, now: Real) -> Option<Health> {
        Some(Health { ok: true, changed: now })
    }
    fn summary(&self, _: Real) -> Summary {
        Summary { good: 1, of: 2, healthy: true }
    }
    fn details(&self, _: Real, out: &mut String) {
        out.push_str("\n\n\tBackend\tWeight\tHealth\n\ts1\t-\thealthy\n\tb2\t-\tsick\n");
    }
}

fn directors() -> (Vec<Arc<dyn Director>>, Real) {
    let clock = Clock::manual();
    let backends = Backends::new(BackendEnv {
        clock: clock.clone(),
        services: Arc::new(HeapServices::default()),
        compat: tables::Compat::default(),
    });
    let spec = |name: &str| BackendSpec::new(name, Endpoint::addr("127.0.0.1:1".parse().unwrap()));
    let probe = ProbeSpec { window: 5, threshold: 3, ..ProbeSpec::default() };
    let b2 = BackendSpec { probe: Some(probe), ..spec("b2") };
    let rr = RoundRobin(DirectorBase::new("vcl1", "rr", clock.real()));
    (vec![backends.create("vcl1", spec("s1")), backends.create("vcl1", b2), Arc::new(rr)], clock.real())
}

fn text(words: &[&str]) -> String {
    text_of(Compat::V7_1, words)
}

fn text_of(compat: Compat, words: &[&str]) -> String {
    let (all, now) = directors();
    let (flags, pattern) = parse_list_flags(words).unwrap();
    list_text(&matching(pattern, "vcl1", &all), flags, now, compat, |_| "Sat, 21 Nov 2026 07:53:34 GMT".into())
}

#[test]
fn plain() {
    let want = "\
Backend name   Admin      Probe    Health     Last change
vcl1.s1        healthy    0/0      healthy    Sat, 21 Nov 2026 07:53:34 GMT
vcl1.b2        probe      2/5      sick       Sat, 21 Nov 2026 07:53:34 GMT
vcl1.rr        probe      1/2      healthy    Sat, 21 Nov 2026 07:53:34 GMT
";
    assert_eq!(text(&[]), want);
    assert_eq!(text(&["*"]), want);
}

#[test]
fn columns_of_release_9_are_tight() {
    let want = "\
Backend name   Admin     Probe   Health    Last change
vcl1.s1        healthy   0/0     healthy   Sat, 21 Nov 2026 07:53:34 GMT
vcl1.b2        probe     2/5     sick      Sat, 21 Nov 2026 07:53:34 GMT
vcl1.rr        probe     1/2     healthy   Sat, 21 Nov 2026 07:53:34 GMT
";
    assert_eq!(text_of(Compat::V9, &[]), want);
}

#[test]
fn with_details() {
    let want = "\
Backend name   Admin      Probe     Health     Last change
vcl1.s1        healthy    0/0       healthy    Sat, 21 Nov 2026 07:53:34 GMT
vcl1.b2        probe      2/5       sick       Sat, 21 Nov 2026 07:53:34 GMT
 Current states  good:  2 threshold:  3 window:  5
  Average response time of good probes: 0.000000
  Oldest ================================================== Newest
  --------------------------------------------------------------HH Happy

vcl1.rr        probe      1/2       healthy    Sat, 21 Nov 2026 07:53:34 GMT

               Backend    Weight    Health
               s1         -         healthy
               b2         -         sick

";
    assert_eq!(text(&["-p"]), want);
}

#[test]
fn patterns() {
    let want = "\
Backend name   Admin    Probe    Health    Last change
vcl1.b2        probe    2/5      sick      Sat, 21 Nov 2026 07:53:34 GMT
";
    assert_eq!(text(&["*.b2"]), want);
    assert_eq!(text(&["b2"]), want);
    assert_eq!(text(&["nope"]), "Backend name   Admin    Probe    Health    Last change\n");
    let (all, _) = directors();
    assert_eq!(matching(Some("vcl2.*"), "vcl1", &all).len(), 0);
    assert_eq!(matching(Some("b2"), "vcl", &all).len(), 0, "the active VCL's name is not a prefix");
    assert!(parse_list_flags(&["-x"]).is_err_and(|text| text == "Invalid flag x"));
    assert!(parse_list_flags(&["a", "b"]).is_err_and(|text| text == "Too many arguments"));
}

#[test]
fn json() {
    let (all, now) = directors();
    let flags = ListFlags { json: true, details: true };
    let want = r#"[ 3, ["backend.list", "-j", "-p"], 1000000000.000,
  {
    "vcl1.s1": {
      "type": "backend",
      "admin_health": "healthy",
      "probe_message": [0, 0, "healthy"],
      "address": "127.0.0.1:1",
      "probe_details": {},
      "ipv4": "127.0.0.1",
      "last_change": 1000000000.000
    },
    "vcl1.b2": {
      "type": "backend",
      "admin_health": "probe",
      "probe_message": [2, 5, "sick"],
      "address": "127.0.0.1:1",
      "probe_details": {
        "bits_4": 0,
        "bits_6": 0,
        "bits_U": 0,
        "bits_x": 0,
        "bits_X": 0,
        "bits_r": 0,
        "bits_R": 0,
        "bits_H": 3,
        "good": 2,
        "threshold": 3,
        "window": 5
      },
      "ipv4": "127.0.0.1",
      "last_change": 1000000000.000
    }
  }
]
"#;
    assert_eq!(list_json(&all[..2], &["backend.list", "-j", "-p"], flags, now), want);
}

#[test]
fn set_health_overrides() {
    let (all, now) = directors();
    assert!(set_health(&matching(Some("b2"), "vcl1", &all), AdminHealth::Healthy, now.plus(1.0)));
    assert!(all[1].healthy(now).ok);
    let row = list_text(&all[1..2], ListFlags::default(), now, Compat::V7_1, |_| "D".into());
    assert_eq!(row.lines().nth(1), Some("vcl1.b2        healthy    2/5      sick      D"));
    assert!(!set_health(&[], AdminHealth::Sick, now));
    assert_eq!((AdminHealth::parse("SICK"), AdminHealth::parse("foo")), (Some(AdminHealth::Sick), None));
}
