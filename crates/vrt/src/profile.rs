// SPDX-License-Identifier: BSD-2-Clause
//! Where a VCL's time goes, line by line: how often each line ran, how often its condition held, what it cost. Off, it costs
//! a run of a subroutine the look at one flag.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use base::clock;
use vcl::program::{Op, Program};

/// Threads have counts of their own, so that they don't wait for each other's cache lines; more threads than this share.
const SHARDS: usize = 16;
/// The first so many runs of subroutines on each thread are all looked at.
const ALL: u64 = 1000;
/// Of so many later ones one is, drawn by lot, and counts for all of them: to look costs as much as to run.
const ONE_OF: u64 = 64;

/// The counts of a loaded VCL.
#[derive(Default)]
pub struct Profile {
    on: AtomicBool,
    shards: [OnceLock<Shard>; SHARDS],
}

struct Shard {
    runs: AtomicU64,
    lots: AtomicU64,
    ops: Box<[Counts]>,
}

/// Of one op.
#[derive(Default)]
struct Counts {
    runs: AtomicU64,
    jumps: AtomicU64,
    nanos: AtomicU64,
}

#[derive(Default, Clone, Copy)]
struct Sum {
    runs: u64,
    jumps: u64,
    nanos: u64,
}

/// What is known of one line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Line {
    /// Index into [`Program::sources`].
    pub source: u32,
    /// The line, from 1.
    pub line: u32,
    /// How often it ran: counted at first, then drawn from a sample.
    pub runs: u64,
    /// How often its condition held; `None` for a line that has none.
    pub held: Option<u64>,
    /// What all its runs took, in nanoseconds, without the time that modules wait.
    pub nanos: u64,
    /// Whether it calls a module's function that may do more than tell something.
    pub acts: bool,
}

impl Profile {
    /// Begins anew, or ends; what was counted stays until it begins anew.
    pub fn switch(&self, on: bool) {
        if on {
            for shard in self.shards.iter().filter_map(OnceLock::get) {
                shard.runs.store(0, Relaxed);
                shard.ops.iter().flat_map(|c| [&c.runs, &c.jumps, &c.nanos]).for_each(|n| n.store(0, Relaxed));
            }
        }
        self.on.store(on, Relaxed);
    }

    /// Whether runs are counted.
    pub fn is_on(&self) -> bool {
        self.on.load(Relaxed)
    }

    /// What was counted, in order of place. Lines that never ran are there with 0.
    pub fn lines(&self, program: &Program) -> Vec<Line> {
        let shards: Vec<&Shard> = self.shards.iter().filter_map(OnceLock::get).collect();
        let sum = |pc: usize| {
            shards.iter().map(|shard| &shard.ops[pc]).fold(Sum::default(), |sum, counts| Sum {
                runs: sum.runs + counts.runs.load(Relaxed),
                jumps: sum.jumps + counts.jumps.load(Relaxed),
                nanos: sum.nanos + counts.nanos.load(Relaxed),
            })
        };
        // What ends a subroutine by itself has the place of whatever stands last, run or not.
        let ends = program.subs.iter().skip(1).map(|sub| sub.entry as usize).chain([program.code.len()]);
        let ends: Vec<usize> = ends.filter_map(|end| end.checked_sub(1)).collect();
        let mut by_line: BTreeMap<(u32, u32), Vec<usize>> = BTreeMap::new();
        for pc in (0..program.code.len()).filter(|pc| !ends.contains(pc)) {
            if let Some(place) = program.op_places.get(pc).and_then(|place| program.places.get(*place as usize)) {
                by_line.entry((place.source, place.line)).or_default().push(pc);
            }
        }
        let one = |((source, line), ops): ((u32, u32), Vec<usize>)| Line {
            source,
            line,
            runs: ops.iter().map(|pc| sum(*pc).runs).max().unwrap_or(0),
            held: held(program, &ops, sum),
            nanos: ops.iter().map(|pc| sum(*pc).nanos).sum(),
            acts: ops.iter().any(|pc| acts(program, program.code[*pc])),
        };
        // A mark alone is a brace's, not a line that does something.
        let is_mark = |pc: &usize| matches!(program.code[*pc], Op::Step { .. });
        by_line.into_iter().filter(|(_, ops)| !ops.iter().all(is_mark)).map(one).collect()
    }

    /// What looks on while a subroutine of a program with so many ops runs, if this run is to be looked at.
    pub(crate) fn watch(&self, ops: usize) -> Option<Counting<'_>> {
        if !self.is_on() {
            return None;
        }
        let shard = self.shards[(thread_number() % SHARDS as u64) as usize].get_or_init(|| Shard {
            runs: AtomicU64::new(0),
            lots: AtomicU64::new(1),
            ops: (0..ops).map(|_| Counts::default()).collect(),
        });
        let weight = match shard.runs.fetch_add(1, Relaxed) {
            run if run < ALL => 1,
            _ if shard.draw() => ONE_OF,
            _ => return None,
        };
        Some(Counting { counts: &shard.ops, weight, since: clock::now() })
    }
}

impl Shard {
    /// True once in [`ONE_OF`] times, without any order: a request runs some subroutines after each other, and each must have
    /// its turn. Knuth's linear congruence.
    fn draw(&self) -> bool {
        let next =
            self.lots.load(Relaxed).wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.lots.store(next, Relaxed);
        (next >> 33).is_multiple_of(ONE_OF)
    }
}

/// A number for this thread.
fn thread_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    thread_local! {
        static HOME: u64 = NEXT.fetch_add(1, Relaxed);
    }
    HOME.with(|home| *home)
}

/// Whether an op calls what may do more than tell something.
fn acts(program: &Program, op: Op) -> bool {
    let Op::Call { site } = op else { return matches!(op, Op::New { .. }) };
    program.calls.get(site as usize).is_none_or(|call| !call.is_pure)
}

/// How often the condition that begins on a line held: the ways from its tests into the block behind it, whose first op is
/// the next [`Op::Step`]. None when the line has several conditions: one number would speak of the last alone.
fn held(program: &Program, ops: &[usize], sum: impl Fn(usize) -> Sum) -> Option<u64> {
    let jumps = |pc: &usize| matches!(program.code[*pc], Op::JumpIf { .. } | Op::JumpUnless { .. });
    let last = *ops.iter().rfind(|pc| jumps(pc))?;
    let first = *ops.iter().find(|pc| jumps(pc))?;
    if ops.iter().any(|pc| first < *pc && *pc < last && matches!(program.code[*pc], Op::Step { .. })) {
        return None;
    }
    let block = (last + 1..program.code.len()).find(|pc| matches!(program.code[*pc], Op::Step { .. }))?;
    let went_on = |pc: usize| sum(pc).runs - sum(pc).jumps.min(sum(pc).runs);
    let mut ways = Vec::new();
    for pc in ops.iter().copied().filter(jumps) {
        if let Op::JumpIf { to } | Op::JumpUnless { to } = program.code[pc]
            && to as usize == block
        {
            ways.push(sum(pc).jumps);
        }
    }
    if last + 1 == block {
        ways.push(went_on(last));
    }
    Some(ways.iter().sum())
}

/// Looks on while ops run.
pub(crate) trait Watch {
    /// Op `pc` ran, and the next to run is `then`.
    fn ran(&mut self, pc: u32, then: u32);
}

/// Doesn't look.
pub(crate) struct NoWatch;

impl Watch for NoWatch {
    #[inline(always)]
    fn ran(&mut self, _: u32, _: u32) {}
}

/// Counts and times.
pub(crate) struct Counting<'a> {
    counts: &'a [Counts],
    /// For how many runs this one stands.
    weight: u64,
    since: Instant,
}

impl Watch for Counting<'_> {
    fn ran(&mut self, pc: u32, then: u32) {
        let (counts, now) = (&self.counts[pc as usize], clock::now());
        counts.runs.fetch_add(self.weight, Relaxed);
        if then > pc + 1 {
            counts.jumps.fetch_add(self.weight, Relaxed);
        }
        counts.nanos.fetch_add((now - self.since).as_nanos() as u64 * self.weight, Relaxed);
        self.since = now;
    }
}
