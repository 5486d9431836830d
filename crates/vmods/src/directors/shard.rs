// SPDX-License-Identifier: BSD-2-Clause
//! The shard director and shard_param, as vmod_directors(3) has them: the same points on the ring and the same walk, so
//! that a fleet of both kinds of caches sends a key to the same backend.

pub(super) mod methods;
pub(super) mod param;
mod ring;
#[cfg(test)]
mod tests;

use std::fmt::Write;
use std::sync::Arc;

use backend::{Backend, Director, DirectorBase, Health, ResolveCtx, Summary};
use base::Real;
use parking_lot::RwLock;
use vrt::VclFailure;

use self::param::{By, Healthy, Layer, Param, TaskValues, own};
use self::ring::{ChoiceCriteria, ChoiceInput, Ring};
use super::hash32;
use super::members::word;
use vmod_support::args::fail;

/// VCL fails with the director's name in the text.
fn failed<T>(name: &str, text: &str) -> Result<T, VclFailure> {
    fail(format!("vmod_directors: shard {name}: {text}"))
}

pub(super) struct Shard {
    base: DirectorBase,
    ring: RwLock<Ring>,
    associated: RwLock<Option<Arc<Param>>>,
}

/// Arguments of a call that wait for the choice: a task keeps them.
#[derive(Clone, Default)]
struct DeferredArgs {
    layer: Layer,
    param: Option<Arc<Param>>,
}

struct KeySource<'a> {
    digest: Option<[u8; 32]>,
    url: &'a [u8],
}

impl Shard {
    pub(super) fn set_rampup(&self, seconds: f64) {
        self.ring.write().rampup = seconds.max(0.0);
    }

    pub(super) fn set_debug(&self, bits: i64) {
        self.ring.write().debug = bits as u32;
    }
}

impl KeySource<'_> {
    fn key(&self, by: By) -> u32 {
        match (by, self.digest) {
            (By::Key(key) | By::Blob(key), _) => key,
            (By::Hash, Some(d)) => u32::from_be_bytes([d[0], d[1], d[2], d[3]]),
            (By::Hash | By::Url, _) => hash32(&[self.url]),
        }
    }
}

impl Shard {
    fn new(base: DirectorBase) -> Shard {
        Shard { base, ring: RwLock::default(), associated: RwLock::default() }
    }

    /// Parameters that hold for a task below the arguments of a call.
    fn layer(&self, task: &(impl TaskValues + ?Sized)) -> Layer {
        let associated = || self.associated.read().as_ref().map_or(Layer::default(), |param| param.layer(task));
        match own(task, self) {
            Some(DeferredArgs { layer, param: Some(param) }) => layer.over(*param.vcl.lock()),
            Some(DeferredArgs { layer, param: None }) => layer.over(associated()),
            None => associated(),
        }
    }

    fn pick(&self, wish: ChoiceCriteria, dice: &mut dyn ChoiceInput) -> Option<Arc<dyn Director>> {
        self.ring.read().pick(wish, dice).cloned()
    }
}

/// The parameters with their defaults, and the key.
fn wish(layer: Layer, source: &KeySource<'_>) -> ChoiceCriteria {
    ChoiceCriteria {
        key: source.key(layer.by.unwrap_or(By::Hash)),
        alt: layer.alt.unwrap_or(0),
        warmup: layer.warmup.unwrap_or(-1.0),
        rampup: layer.rampup.unwrap_or(true),
        healthy: layer.healthy.unwrap_or(Healthy::Chosen),
    }
}

struct BackendChoice<'a> {
    ctx: &'a dyn ResolveCtx,
    name: &'a str,
}

impl ChoiceInput for BackendChoice<'_> {
    fn now(&self) -> Real {
        self.ctx.now()
    }
    fn health(&mut self, member: &Arc<dyn Director>) -> Health {
        member.healthy_for(self.ctx)
    }
    fn roll(&mut self) -> f64 {
        self.ctx.random()
    }
    fn error(&mut self, text: &str) {
        self.ctx.log_error(&format!("vmod_directors: shard {}: {text}", self.name));
    }
    fn debug(&mut self, text: &str) {
        self.ctx.log_debug(&format!("vmod_directors: shard: {text}"));
    }
}

/// Progress of a member's rampup, 0 to 1, and the seconds left.
fn progress(ok: bool, up_for: f64, rampup: f64) -> (f64, f64) {
    if !ok {
        (0.0, 0.0)
    } else if up_for < rampup {
        (up_for / rampup, rampup - up_for)
    } else {
        (1.0, 0.0)
    }
}

impl Director for Shard {
    fn base(&self) -> &DirectorBase {
        &self.base
    }

    fn kind(&self) -> &'static str {
        "shard"
    }

    fn choose(&self, ctx: &dyn ResolveCtx) -> Option<Arc<Backend>> {
        let source = KeySource { digest: ctx.is_bereq().then(|| *ctx.digest()), url: ctx.url() };
        let mut lot = BackendChoice { ctx, name: self.name() };
        self.pick(wish(self.layer(ctx), &source), &mut lot)?.resolve(ctx)
    }

    fn own_health(&self, now: Real) -> Option<Health> {
        let mut found = Health { ok: false, changed: Real(0.0) };
        for member in &self.ring.read().members {
            let health = member.backend.healthy(now);
            found.changed.0 = found.changed.0.max(health.changed.0);
            if health.ok {
                found.ok = true;
                break;
            }
        }
        Some(found)
    }

    fn summary(&self, now: Real) -> Summary {
        let ring = self.ring.read();
        let good = ring.members.iter().filter(|member| member.backend.healthy(now).ok).count() as u32;
        Summary { good, of: ring.members.len() as u32, healthy: good > 0 }
    }

    fn details(&self, now: Real, out: &mut String) {
        out.push_str("\n\n\tBackend\tIdent\tHealth\tRampup  Remaining\n");
        let ring = self.ring.read();
        for (host, member) in ring.members.iter().enumerate() {
            let health = member.backend.healthy(now);
            let (part, left) = progress(health.ok, now.since(health.changed), ring.rampup_of(host));
            let (name, ident) = (member.backend.name(), String::from_utf8_lossy(member.ident()));
            let _ = writeln!(out, "\t{name}\t{ident}\t{}\t{:6.2}% {left:8.3}s", word(health.ok), part * 100.0);
        }
    }

    fn details_json(&self, now: Real, out: &mut String) {
        let ring = self.ring.read();
        let _ = write!(out, "{{\n  \"warmup\": {:.6},\n  \"rampup_duration\": {:.6},\n", ring.warmup, ring.rampup);
        out.push_str("  \"backends\": {\n");
        for (host, member) in ring.members.iter().enumerate() {
            let health = member.backend.healthy(now);
            let (part, left) = progress(health.ok, now.since(health.changed), ring.rampup_of(host));
            let comma = if host > 0 { ",\n" } else { "" };
            let ident = String::from_utf8_lossy(member.ident());
            let _ = write!(out, "{comma}    \"{}\": {{\n      \"ident\": \"{ident}\",\n", member.backend.name());
            let _ = write!(out, "      \"health\": \"{}\",\n      \"rampup\": {part:.6},\n", word(health.ok));
            let _ = write!(out, "      \"rampup_remaining\": {left:.3}\n    }}");
        }
        out.push_str("\n  }\n},\n");
    }
}
