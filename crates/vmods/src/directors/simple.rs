// SPDX-License-Identifier: BSD-2-Clause
//! round_robin, fallback, random and hash.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use backend::{Backend, Director, DirectorBase, Health, ResolveCtx, Summary};
use base::Real;
use parking_lot::RwLock;

use super::members::DirectorMembers;

/// The directors that only weigh or order members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    RoundRobin,
    Fallback { sticky: bool },
    Random,
    Hash,
}

pub(super) struct Simple {
    base: DirectorBase,
    kind: Kind,
    members: RwLock<DirectorMembers>,
    /// round_robin: who is next; fallback: who is current.
    at: AtomicUsize,
}

impl Simple {
    pub(super) fn new(base: DirectorBase, kind: Kind) -> Simple {
        Simple { base, kind, members: RwLock::default(), at: AtomicUsize::new(0) }
    }

    pub(super) fn add(&self, member: Arc<dyn Director>, weight: f64) {
        self.members.write().add(member, weight);
    }

    /// Whoever was current or next stays so, if still there.
    pub(super) fn remove(&self, member: &Arc<dyn Director>) {
        let mut members = self.members.write();
        let Some(at) = members.remove(member) else { return };
        let current = self.at.load(Ordering::Relaxed);
        if at < current {
            self.at.store(current - 1, Ordering::Relaxed);
        } else if current >= members.len() {
            self.at.store(0, Ordering::Relaxed);
        }
    }

    /// A healthy member by weight; `place` is 0 to 1.
    pub(super) fn by_weight(
        &self,
        place: f64,
        healthy: impl FnMut(&Arc<dyn Director>) -> bool,
    ) -> Option<Arc<dyn Director>> {
        self.members.read().by_weight(place, healthy).cloned()
    }

    fn next(&self, ctx: &dyn ResolveCtx) -> Option<Arc<dyn Director>> {
        let members = self.members.read();
        let count = members.len();
        for _ in 0..count {
            let at = self.at.fetch_add(1, Ordering::Relaxed) % count;
            if members.get(at).healthy_for(ctx).ok {
                // Kept small; that another thread may come between costs one turn at most.
                self.at.store((at + 1) % count, Ordering::Relaxed);
                return Some(members.get(at).clone());
            }
        }
        None
    }

    fn current(&self, sticky: bool, ctx: &dyn ResolveCtx) -> Option<Arc<dyn Director>> {
        let members = self.members.read();
        let count = members.len();
        let first = if sticky && count > 0 { self.at.load(Ordering::Relaxed) % count } else { 0 };
        let found = (0..count).map(|step| (first + step) % count).find(|&at| members.get(at).healthy_for(ctx).ok)?;
        self.at.store(found, Ordering::Relaxed);
        Some(members.get(found).clone())
    }

    /// A line for each member: its share, or whether it is the current one.
    fn cell(&self, json: bool, now: Real) -> impl Fn(usize, f64, bool) -> String {
        let total = self.members.read().total_weight(now);
        let (kind, current) = (self.kind, self.at.load(Ordering::Relaxed));
        move |at, weight, ok| {
            let weight = if ok { weight } else { 0.0 };
            match (kind, json) {
                (Kind::Fallback { .. }, false) => if at == current { "*" } else { "" }.into(),
                (Kind::Fallback { .. }, true) => format!("      \"current\": {},\n", at == current),
                (Kind::RoundRobin, false) => "-".into(),
                (Kind::RoundRobin, true) => String::new(),
                (Kind::Random | Kind::Hash, false) => format!("{:6.2}%", 100.0 * weight / total),
                (Kind::Random | Kind::Hash, true) => format!("      \"weight\": {weight:.6},\n"),
            }
        }
    }
}

impl Director for Simple {
    fn base(&self) -> &DirectorBase {
        &self.base
    }

    fn kind(&self) -> &'static str {
        match self.kind {
            Kind::RoundRobin => "round-robin",
            Kind::Fallback { .. } => "fallback",
            Kind::Random => "random",
            Kind::Hash => "hash",
        }
    }

    fn choose(&self, ctx: &dyn ResolveCtx) -> Option<Arc<Backend>> {
        let member = match self.kind {
            Kind::RoundRobin => self.next(ctx),
            Kind::Fallback { sticky } => self.current(sticky, ctx),
            Kind::Random => self.by_weight(ctx.random(), |member| member.healthy_for(ctx).ok),
            // `.backend()` gives members, never the director.
            Kind::Hash => None,
        };
        // The lock is free again: a member may be a director itself.
        member?.resolve(ctx)
    }

    fn own_health(&self, now: Real) -> Option<Health> {
        (self.kind != Kind::Hash).then(|| self.members.read().any_healthy(|member| member.healthy(now)))
    }

    fn own_health_for(&self, ctx: &dyn ResolveCtx) -> Option<Health> {
        (self.kind != Kind::Hash).then(|| self.members.read().any_healthy(|member| member.healthy_for(ctx)))
    }

    fn summary(&self, now: Real) -> Summary {
        if self.kind == Kind::Hash { Summary::UNWATCHED } else { self.members.read().summary(now) }
    }

    fn details(&self, now: Real, out: &mut String) {
        let column = if matches!(self.kind, Kind::Fallback { .. }) { "Current" } else { "Weight" };
        if self.kind != Kind::Hash {
            let cell = self.cell(false, now);
            self.members.read().details(now, column, out, cell);
        }
    }

    fn details_json(&self, now: Real, out: &mut String) {
        let head = match self.kind {
            Kind::Hash => return,
            Kind::RoundRobin => String::new(),
            Kind::Fallback { sticky } => format!("  \"sticky\": {sticky},\n"),
            Kind::Random => format!("  \"total_weight\": {:.6},\n", self.members.read().total_weight(now)),
        };
        let cell = self.cell(true, now);
        self.members.read().json(now, &head, out, cell);
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use backend::AdminHealth;

    pub(crate) const NOW: Real = Real(1e9);

    /// A member that only has a name and health; it chooses nobody.
    pub(crate) struct Stub(DirectorBase);

    impl Director for Stub {
        fn base(&self) -> &DirectorBase {
            &self.0
        }
        fn kind(&self) -> &'static str {
            "stub"
        }
        fn choose(&self, ctx: &dyn ResolveCtx) -> Option<Arc<Backend>> {
            ctx.log_error(self.name());
            None
        }
    }

    pub(crate) fn stub(name: &str) -> Arc<dyn Director> {
        Arc::new(Stub(DirectorBase::new("vcl1", name, Real(0.0))))
    }

    /// A transaction that writes down which stub was asked.
    #[derive(Default)]
    pub(crate) struct RecordingCtx {
        pub(crate) asked: parking_lot::Mutex<String>,
        pub(crate) dice: f64,
        pub(crate) digest: [u8; 32],
        pub(crate) bereq: bool,
    }

    impl ResolveCtx for RecordingCtx {
        fn now(&self) -> Real {
            NOW
        }
        fn is_bereq(&self) -> bool {
            self.bereq
        }
        fn url(&self) -> &[u8] {
            b"/"
        }
        fn header(&self, _: &str) -> Option<&[u8]> {
            None
        }
        fn digest(&self) -> &[u8; 32] {
            &self.digest
        }
        fn client_identity(&self) -> &[u8] {
            b""
        }
        fn random(&self) -> f64 {
            self.dice
        }
        fn log_error(&self, text: &str) {
            let mut asked = self.asked.lock();
            let sep = if asked.is_empty() { "" } else { " " };
            asked.push_str(sep);
            asked.push_str(text);
        }
    }

    fn director(kind: Kind, weights: &[f64]) -> (Simple, Vec<Arc<dyn Director>>) {
        let director = Simple::new(DirectorBase::new("vcl1", "d", Real(0.0)), kind);
        let members: Vec<_> = (0..weights.len()).map(|i| stub(&format!("m{i}"))).collect();
        members.iter().zip(weights).for_each(|(member, weight)| director.add(member.clone(), *weight));
        (director, members)
    }

    /// Names of the backends chosen in so many calls.
    fn asked(director: &Simple, times: usize) -> String {
        let fake = RecordingCtx::default();
        (0..times).for_each(|_| drop(director.resolve(&fake)));
        fake.asked.into_inner()
    }

    fn set(member: &Arc<dyn Director>, health: AdminHealth) {
        member.base().set_admin(health, NOW);
    }

    #[test]
    fn round_robin_takes_turns_and_skips_the_sick() {
        let (director, members) = director(Kind::RoundRobin, &[0.0; 3]);
        assert_eq!(asked(&director, 4), "m0 m1 m2 m0");
        set(&members[1], AdminHealth::Sick);
        assert_eq!(asked(&director, 3), "m2 m0 m2");
        assert!(director.healthy(NOW).ok);
        members.iter().for_each(|member| set(member, AdminHealth::Sick));
        assert_eq!((asked(&director, 1).as_str(), director.healthy(NOW).ok), ("", false));
    }

    #[test]
    fn fallback_goes_back_unless_sticky() {
        for (sticky, last) in [(false, "m0"), (true, "m1")] {
            let (director, members) = director(Kind::Fallback { sticky }, &[0.0; 2]);
            assert_eq!(asked(&director, 2), "m0 m0");
            set(&members[0], AdminHealth::Sick);
            assert_eq!(asked(&director, 1), "m1");
            set(&members[0], AdminHealth::Auto);
            assert_eq!(asked(&director, 1), last);
            director.remove(&members[0]);
            assert_eq!(asked(&director, 1), "m1");
        }
    }

    #[test]
    fn weights_divide_the_line() {
        let (director, members) = director(Kind::Random, &[1.0, 2.0, 1.0]);
        let pick =
            |place| director.by_weight(place, |member| member.healthy(NOW).ok).map(|member| member.name().to_owned());
        let picks = [0.0, 0.24, 0.25, 0.74, 0.75, 0.999].map(|place| pick(place).expect("one"));
        assert_eq!(picks, ["m0", "m0", "m1", "m1", "m2", "m2"]);
        set(&members[1], AdminHealth::Sick);
        assert_eq!([0.49, 0.5].map(|place| pick(place).expect("one")), ["m0", "m2"]);
        members.iter().for_each(|member| set(member, AdminHealth::Sick));
        assert_eq!(pick(0.5), None);
    }

    #[test]
    fn lists_look_as_varnishs() {
        let (director, members) = director(Kind::Random, &[1.0, 3.0]);
        set(&members[1], AdminHealth::Sick);
        let mut text = String::new();
        director.details(NOW, &mut text);
        assert_eq!(text, "\n\n\tBackend\tWeight\tHealth\n\tm0\t100.00%\thealthy\n\tm1\t  0.00%\tsick\n");
        let mut json = String::new();
        director.details_json(NOW, &mut json);
        let want = concat!(
            "{\n  \"total_weight\": 1.000000,\n  \"backends\": {\n    \"m0\": {\n      \"weight\": 1.000000,\n",
            "      \"health\": \"healthy\"\n    },\n    \"m1\": {\n      \"weight\": 0.000000,\n",
            "      \"health\": \"sick\"\n    }\n  }\n},\n"
        );
        assert_eq!(json, want);
        assert_eq!(director.summary(NOW), Summary { good: 1, of: 2, healthy: true });
    }

    /// The expected backends are those of varnishd 7.1.1's hash director (weights 1, 2, 1) for `key0`, `key1`, ...
    #[test]
    fn hashes_choose_as_varnishs() {
        const CHOICES: &str =
            "m1 m0 m1 m1 m0 m0 m2 m1 m0 m1 m1 m2 m1 m1 m2 m1 m1 m2 m1 m1 m2 m2 m2 m1 m2 m0 m2 m0 m2 m2";
        let (director, _) = director(Kind::Hash, &[1.0, 2.0, 1.0]);
        for (line, name) in CHOICES.split(' ').enumerate() {
            let place = crate::directors::place(format!("key{line}").as_bytes());
            let found = director.by_weight(place, |member| member.healthy(NOW).ok).expect("one");
            assert_eq!(found.name(), name, "key{line}");
        }
    }
}
