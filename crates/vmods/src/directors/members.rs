// SPDX-License-Identifier: BSD-2-Clause
//! What the simple directors have in common: members with weights, and how `backend.list -p` shows them.

use std::fmt::Write;
use std::sync::Arc;

use backend::{Director, Health, Summary};
use base::Real;

#[derive(Default)]
pub(crate) struct DirectorMembers {
    list: Vec<(Arc<dyn Director>, f64)>,
}

pub(crate) fn same(a: &Arc<dyn Director>, b: &Arc<dyn Director>) -> bool {
    std::ptr::addr_eq(Arc::as_ptr(a), Arc::as_ptr(b))
}

impl DirectorMembers {
    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    pub(crate) fn get(&self, at: usize) -> &Arc<dyn Director> {
        &self.list[at].0
    }

    pub(crate) fn add(&mut self, member: Arc<dyn Director>, weight: f64) {
        self.list.push((member, weight));
    }

    /// Takes the first such member out: where it was.
    pub(crate) fn remove(&mut self, member: &Arc<dyn Director>) -> Option<usize> {
        let at = self.list.iter().position(|(other, _)| same(other, member))?;
        self.list.remove(at);
        Some(at)
    }

    /// Healthy when one is; the change that counts is the latest up to the first healthy one.
    pub(crate) fn any_healthy(&self, health: impl Fn(&Arc<dyn Director>) -> Health) -> Health {
        let mut found = Health { ok: false, changed: Real(0.0) };
        for (member, _) in &self.list {
            let health = health(member);
            found.changed.0 = found.changed.0.max(health.changed.0);
            if health.ok {
                found.ok = true;
                break;
            }
        }
        found
    }

    /// The healthy member at `place` (0 to 1) of their weights; nobody when they weigh nothing.
    pub(crate) fn by_weight(
        &self,
        place: f64,
        mut healthy: impl FnMut(&Arc<dyn Director>) -> bool,
    ) -> Option<&Arc<dyn Director>> {
        let healthy: Vec<_> = self.list.iter().filter(|(member, _)| healthy(member)).collect();
        let total: f64 = healthy.iter().map(|(_, weight)| weight).sum();
        if total.is_nan() || total <= 0.0 {
            return None;
        }
        let mut sum = 0.0;
        let found = healthy.iter().find(|(_, weight)| {
            sum += weight;
            place * total < sum
        });
        found.or(healthy.last()).map(|(member, _)| member)
    }

    pub(crate) fn summary(&self, now: Real) -> Summary {
        let good = self.list.iter().filter(|(member, _)| member.healthy(now).ok).count() as u32;
        Summary { good, of: self.list.len() as u32, healthy: good > 0 }
    }

    /// The lines of `-p`: `column` heads the middle one, `cell` fills it for member, weight and health.
    pub(crate) fn details(&self, now: Real, column: &str, out: &mut String, cell: impl Fn(usize, f64, bool) -> String) {
        let _ = write!(out, "\n\n\tBackend\t{column}\tHealth\n");
        for (at, (member, weight)) in self.list.iter().enumerate() {
            let ok = member.healthy(now).ok;
            let _ = writeln!(out, "\t{}\t{}\t{}", member.name(), cell(at, *weight, ok), word(ok));
        }
    }

    /// The object of `-j -p`: `head` is a line before the members, `cell` one in each of them.
    pub(crate) fn json(&self, now: Real, head: &str, out: &mut String, cell: impl Fn(usize, f64, bool) -> String) {
        let _ = write!(out, "{{\n{head}  \"backends\": {{\n");
        for (at, (member, weight)) in self.list.iter().enumerate() {
            let ok = member.healthy(now).ok;
            let comma = if at > 0 { ",\n" } else { "" };
            let line = cell(at, *weight, ok);
            let _ =
                write!(out, "{comma}    \"{}\": {{\n{line}      \"health\": \"{}\"\n    }}", member.name(), word(ok));
        }
        out.push_str("\n  }\n},\n");
    }

    pub(crate) fn total_weight(&self, now: Real) -> f64 {
        self.list.iter().filter(|(member, _)| member.healthy(now).ok).map(|(_, weight)| weight).sum()
    }
}

pub(crate) fn word(ok: bool) -> &'static str {
    if ok { "healthy" } else { "sick" }
}
