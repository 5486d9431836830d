// SPDX-License-Identifier: BSD-2-Clause
//! The shard director's ring: points of SHA-256 per member, and the walk over it.

use std::sync::Arc;

use backend::{Director, Health};
use base::Real;

use super::super::hash32;
use super::super::members::same;
use super::param::Healthy;

#[derive(Clone)]
pub(super) struct Member {
    pub(super) backend: Arc<dyn Director>,
    /// Name on the ring, unless it is the backend's own.
    pub(super) ident: Option<Box<[u8]>>,
    /// Seconds; `None`: the director's.
    pub(super) rampup: Option<f64>,
    pub(super) replicas: u32,
}

impl Member {
    pub(super) fn ident(&self) -> &[u8] {
        self.ident.as_deref().unwrap_or_else(|| self.backend.name().as_bytes())
    }

    fn is_like(&self, other: &Member) -> bool {
        match (&self.ident, &other.ident) {
            (None, None) => same(&self.backend, &other.backend),
            _ => self.ident() == other.ident(),
        }
    }
}

/// A change that waits for `.reconfigure()`.
#[derive(Clone)]
pub(super) enum Task {
    Clear,
    Add(Member, f64),
    Remove(Option<Arc<dyn Director>>, Option<Box<[u8]>>),
}

/// Points on the ring are 32-bit numbers; there are at most so many, as a bound on memory (16 MB).
const MAX_POINTS: u64 = 2_000_000;

#[derive(Default)]
pub(super) struct Ring {
    pub(super) members: Vec<Member>,
    points: Vec<(u32, u32)>,
    /// Probability of the second choice instead of the first.
    pub(super) warmup: f64,
    pub(super) rampup: f64,
    /// Bits set by `.debug()`: [`DEBUG_LOOKUP`] and others.
    pub(super) debug: u32,
}

const DEBUG_LOOKUP: u32 = 1;
/// Log the points after each change.
const DEBUG_CIRCLE: u32 = 2;
const DEBUG_RAMP: u32 = 4;

pub(super) trait ChoiceInput {
    fn now(&self) -> Real;
    fn health(&mut self, member: &Arc<dyn Director>) -> Health {
        member.healthy(self.now())
    }
    /// A random number in `[0, 1)`.
    fn roll(&mut self) -> f64;
    /// A record Error, without `vmod_directors: shard NAME: `.
    fn error(&mut self, text: &str);
    /// A record Debug, without `vmod_directors: shard: `.
    fn debug(&mut self, text: &str);
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ChoiceCriteria {
    pub(super) key: u32,
    pub(super) alt: i64,
    /// Probability of the second choice; -1: the ring's.
    pub(super) warmup: f64,
    pub(super) rampup: bool,
    pub(super) healthy: Healthy,
}

impl Ring {
    /// Works the changes and builds the ring anew. Gives the notices to log, and whether anybody is left.
    pub(super) fn reconfigure(&mut self, tasks: &[Task], replicas: i64) -> (Vec<String>, bool) {
        let mut notices = Vec::new();
        let last_clear = tasks.iter().rposition(|task| matches!(task, Task::Clear));
        if last_clear.is_some() {
            self.members.clear();
        }
        let mut places = Places(self.members.drain(..).map(Some).collect());
        for task in &tasks[last_clear.map_or(0, |at| at + 1)..] {
            match task {
                Task::Clear => {}
                Task::Add(member, weight) => {
                    let replicas = (replicas as f64 * weight).clamp(0.0, u32::MAX.into()) as u32;
                    notices.extend(places.add(Member { replicas, ..member.clone() }).err());
                }
                Task::Remove(backend, ident) => places.remove(|member| is_meant(member, backend, ident)),
            }
        }
        self.members = places.closed();
        self.build();
        (notices, !self.members.is_empty())
    }

    fn build(&mut self) {
        self.points.clear();
        let most = MAX_POINTS / (self.members.len() as u64).max(1);
        for (host, member) in self.members.iter().enumerate() {
            let replicas = u64::from(member.replicas).min(most);
            let point = |number: u64| hash32(&[member.ident(), number.to_string().as_bytes()]);
            self.points.extend((0..replicas).map(|number| (point(number), host as u32)));
        }
        self.points.sort_by_key(|(point, _)| *point);
    }

    /// The texts that tell all points, when `.debug()` wants them.
    pub(super) fn circle(&self) -> Vec<String> {
        if self.debug & DEBUG_CIRCLE == 0 {
            return Vec::new();
        }
        let points = self.points.iter().enumerate();
        points
            .map(|(n, (point, host))| format!("hashcircle[{n:5}] = {{point = {point:8x}, host = {host:2}}}\n"))
            .collect()
    }

    /// The first point at or after the key. Beyond the last point it is the last, not the first: as in Varnish.
    fn look_up(&self, key: u32) -> usize {
        self.points.partition_point(|(point, _)| *point < key).min(self.points.len() - 1)
    }

    pub(super) fn rampup_of(&self, host: usize) -> f64 {
        self.members[host].rampup.unwrap_or(self.rampup)
    }

    pub(super) fn pick(&self, wish: ChoiceCriteria, dice: &mut dyn ChoiceInput) -> Option<&Arc<dyn Director>> {
        if self.points.is_empty() {
            dice.error("no backends");
            return None;
        }
        let alt = self.checked_alt(wish.alt, dice);
        let now = dice.now();
        let at = self.look_up(wish.key);
        if self.debug & DEBUG_LOOKUP != 0 {
            dice.debug(&format!("lookup key {:x} idx {at} host {}", wish.key, self.points[at].1));
        }
        let mut walk = Walk::new(self, at);
        let backend = |seen: Encounter| &self.members[seen.host].backend;
        if alt > 0 && !walk.step(alt - 1, wish.healthy == Healthy::All, dice) {
            return walk.previous.map(backend);
        }
        if !walk.step(0, wish.healthy != Healthy::Ignore, dice) {
            return walk.previous.map(backend);
        }
        let chosen = walk.last?;
        let warmup = if wish.warmup == -1.0 { self.warmup } else { wish.warmup };
        let plain = alt > 0 || wish.healthy == Healthy::Ignore || (!wish.rampup && warmup == 0.0);
        if plain || !walk.step(0, true, dice) {
            return Some(backend(chosen));
        }
        let (Some(chosen), Some(other)) = (walk.previous, walk.last) else { return Some(backend(chosen)) };
        let up_for = now.since(chosen.changed);
        let rampup = self.rampup_of(chosen.host);
        if self.debug & DEBUG_RAMP != 0 {
            for (what, seen) in [("chosen", chosen), ("alt", other)] {
                let rampup = self.rampup_of(seen.host);
                dice.debug(&format!(
                    "{what} host {} rampup {rampup:.6} changed {:.6}",
                    seen.host,
                    now.since(seen.changed)
                ));
            }
        }
        let keep = if up_for < rampup {
            // It is just up: it gets less than its share, unless the other one is just up as well.
            !wish.rampup || now.since(other.changed) < self.rampup_of(other.host) || dice.roll() * rampup < up_for
        } else {
            warmup == 0.0 || dice.roll() > warmup
        };
        Some(backend(if keep { chosen } else { other }))
    }

    fn checked_alt(&self, alt: i64, dice: &mut dyn ChoiceInput) -> i64 {
        let most = self.members.len() as i64 - 1;
        if alt < 0 {
            dice.error(&format!("invalid negative parameter alt={alt}, set to 0"));
            0
        } else if alt > most {
            dice.error(&format!("parameter alt={alt} limited to {most}"));
            most
        } else {
            alt
        }
    }
}

/// The members while they change: who comes takes the place of one who went, so that the list keeps its order.
struct Places(Vec<Option<Member>>);

impl Places {
    /// Adds it, unless there is one like it: the notice.
    fn add(&mut self, member: Member) -> Result<(), String> {
        if let Some(other) = self.0.iter().flatten().find(|other| other.is_like(&member)) {
            return Err(exists(other));
        }
        match self.0.iter_mut().find(|place| place.is_none()) {
            Some(place) => *place = Some(member),
            None => self.0.push(Some(member)),
        }
        Ok(())
    }

    fn remove(&mut self, is_meant: impl Fn(&Member) -> bool) {
        self.0.iter_mut().filter(|place| place.as_ref().is_some_and(&is_meant)).for_each(|place| *place = None);
    }

    /// Without the places that are left empty: the last members move there.
    fn closed(mut self) -> Vec<Member> {
        while let Some(last) = self.0.pop() {
            match (last, self.0.iter_mut().find(|place| place.is_none())) {
                (None, _) => {}
                (Some(last), Some(place)) => *place = Some(last),
                (Some(last), None) => {
                    self.0.push(Some(last));
                    break;
                }
            }
        }
        self.0.into_iter().flatten().collect()
    }
}

fn exists(member: &Member) -> String {
    let ident = member.ident.as_deref().map(String::from_utf8_lossy);
    let slash = if ident.is_some() { "/" } else { "" };
    format!("backend {}{slash}{} already exists - skipping", member.backend.name(), ident.unwrap_or_default())
}

/// True for the members meant: by backend, by name on the ring, or by name alone when both are given.
fn is_meant(member: &Member, backend: &Option<Arc<dyn Director>>, ident: &Option<Box<[u8]>>) -> bool {
    match (ident, backend) {
        (Some(ident), _) => member.ident() == &**ident,
        (None, Some(backend)) => same(&member.backend, backend),
        (None, None) => false,
    }
}

#[derive(Clone, Copy)]
struct Encounter {
    host: usize,
    changed: Real,
}

/// A walk along the ring that meets each member once.
struct Walk<'a> {
    ring: &'a Ring,
    at: usize,
    met: Vec<bool>,
    met_count: usize,
    previous: Option<Encounter>,
    last: Option<Encounter>,
}

impl<'a> Walk<'a> {
    fn new(ring: &'a Ring, at: usize) -> Self {
        Walk { ring, at, met: vec![false; ring.members.len()], met_count: 0, previous: None, last: None }
    }

    /// Goes to the member after `skip` others; of the sick, those count that needn't be healthy. False: there is none;
    /// `previous` is then the last good one that was met.
    fn step(&mut self, mut skip: i64, healthy: bool, dice: &mut dyn ChoiceInput) -> bool {
        // A member without points is never met, so a whole turn is the end.
        for _ in 0..self.ring.points.len() {
            if self.met_count >= self.met.len() {
                return false;
            }
            let host = self.ring.points[self.at].1 as usize;
            if !self.met[host] {
                self.met[host] = true;
                self.met_count += 1;
                let health = dice.health(&self.ring.members[host].backend);
                let seen = Some(Encounter { host, changed: health.changed });
                if (health.ok || !healthy) && skip == 0 {
                    if self.last.is_some() {
                        self.previous = self.last;
                    }
                    self.last = seen;
                    return true;
                }
                if health.ok {
                    self.previous = seen;
                }
                if health.ok || !healthy {
                    skip -= 1;
                }
            }
            self.at = (self.at + 1) % self.ring.points.len();
        }
        false
    }
}
