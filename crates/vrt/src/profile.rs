// SPDX-License-Identifier: BSD-2-Clause
//! Where a VCL's time goes, line by line: how often each line ran, how often its condition held, what it cost. Off, it costs
//! a run of a subroutine the look at one flag.
//!
//! A look at the clock takes longer than most ops. Some runs are therefore timed as a whole, by the thread's CPU clock: they
//! say what a subroutine costs. In others each op is timed: they say how that cost divides among the lines. What a clock
//! takes by itself is measured when counting begins, and subtracted.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use base::clock;
use sys::cpu;
use tables::vclsubs::Method;
use vcl::program::{Op, Program};

/// Threads have counts of their own, so that they don't wait for each other's cache lines; more threads than this share.
const SHARDS: usize = 16;
/// The first so many runs of subroutines on each thread are all looked at.
const ALL: u64 = 1000;
/// One in so many later runs, drawn by lot, is timed op by op and counts for all of them: timing takes as long as running.
const ONE_OF: u64 = 64;
/// One in so many later runs is timed as a whole.
const WHOLE_OF: u64 = 16;
/// With fewer runs timed as a whole, the sums of the ops say what a subroutine costs.
const FEWEST_WHOLE: u64 = 100;
/// A run that took so much longer than its thread was on a CPU was interrupted: its times say nothing about its ops.
const INTERRUPTED: Duration = Duration::from_micros(20);
/// The empty looks of which the cost of a look is the mean, and how often that is repeated for the lowest.
const EMPTY_LOOKS: u32 = 500;
const REPETITIONS: u32 = 20;
/// A mean below this part of the cost of a look can't be told from nothing: by so much looks differ.
const DOUBT: f64 = 0.25;

/// The counts of a loaded VCL.
#[derive(Default)]
pub struct VclProfile {
    on: AtomicBool,
    /// CPU time of the process in nanoseconds: at the beginning, and what was used until the end.
    began_at: AtomicU64,
    used: AtomicU64,
    /// Cost of a look at the clock in picoseconds: after each op, and round a whole run.
    look: AtomicU64,
    whole_look: AtomicU64,
    shards: [OnceLock<Shard>; SHARDS],
}

struct Shard {
    runs: AtomicU64,
    lots: AtomicU64,
    methods: [MethodCounts; Method::COUNT],
    ops: Box<[Counts]>,
}

/// Counts of one of the built-in subroutines, with all that it calls.
#[derive(Default)]
struct MethodCounts {
    /// All runs, looked at or not.
    runs: AtomicU64,
    /// Those timed as a whole, their CPU time, and the looks that took: a run that waits or has used its budget goes on in a further part.
    whole: AtomicU64,
    whole_nanos: AtomicU64,
    whole_looks: AtomicU64,
    /// Time of the ops of those timed op by op, each as often as it counts, and how many ops that were.
    op_nanos: AtomicU64,
    ops: AtomicU64,
}

#[derive(Default)]
struct Counts {
    runs: AtomicU64,
    jumps: AtomicU64,
    /// The runs whose time is in `nanos`.
    timed: AtomicU64,
    nanos: AtomicU64,
}

#[derive(Default, Clone, Copy)]
struct Sum {
    runs: u64,
    jumps: u64,
    timed: u64,
    nanos: u64,
}

/// Counts and cost of one line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ProfileLine {
    /// Index into [`vcl::program::SourceMap::sources`], for the line's file.
    pub source: u32,
    /// The line, from 1.
    pub line: u32,
    /// Number of runs: counted at first, then drawn from a sample.
    pub runs: u64,
    /// Number of times that its condition held; `None` for a line that has none.
    pub held: Option<u64>,
    /// CPU time of all its runs, in nanoseconds, without the time that modules wait.
    pub nanos: u64,
    /// True if a run of it takes long enough to be told from nothing.
    pub is_measurable: bool,
    /// True if it calls a module's function that may do more than return a value.
    pub acts: bool,
    /// True if its test is answered with others by one look-up.
    pub is_grouped: bool,
}

/// Count and cost of one of the built-in subroutines, with all that it calls.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Subroutine {
    /// The built-in subroutine that was measured.
    pub method: Method,
    /// Number of its runs.
    pub runs: u64,
    /// CPU time of all its runs, in nanoseconds.
    pub nanos: u64,
}

/// All that was counted.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CountedOps {
    /// The subroutines that ran.
    pub subroutines: Vec<Subroutine>,
    /// The lines in order of place. Lines that never ran are there with 0.
    pub lines: Vec<ProfileLine>,
    /// CPU time that the process used for everything while this was counted, in nanoseconds.
    pub process_nanos: u64,
    /// Cost of a look at the clock, in nanoseconds.
    pub look_nanos: f64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum ProfileLook {
    /// Times each op; the run counts for so many runs.
    Ops(u64),
    Whole,
}

impl VclProfile {
    /// Begins anew, or ends; what was counted stays until it begins anew.
    pub fn switch(&self, on: bool) {
        if on {
            self.shards.iter().filter_map(OnceLock::get).for_each(Shard::clear);
            self.look.store(cost_of_look(), Relaxed);
            self.whole_look.store(cost_of_whole_look(), Relaxed);
            self.began_at.store(cpu::process_time().as_nanos() as u64, Relaxed);
        } else if self.is_on() {
            self.used.store(self.used_now(), Relaxed);
        }
        self.on.store(on, Relaxed);
    }

    /// True if runs are counted.
    pub fn is_on(&self) -> bool {
        self.on.load(Relaxed)
    }

    fn used_now(&self) -> u64 {
        (cpu::process_time().as_nanos() as u64).saturating_sub(self.began_at.load(Relaxed))
    }

    /// The counts and costs until now, or until counting ended.
    pub fn counted(&self, program: &Program) -> CountedOps {
        let shards: Vec<&Shard> = self.shards.iter().filter_map(OnceLock::get).collect();
        let look_nanos = self.look.load(Relaxed) as f64 / 1e3;
        let scales: Vec<MethodSum> = Method::ALL.iter().map(|method| self.method_sum(&shards, *method)).collect();
        let one = |(method, sum): (&Method, &MethodSum)| Subroutine {
            method: *method,
            runs: sum.runs,
            nanos: sum.nanos() as u64,
        };
        let subroutines = Method::ALL.iter().zip(&scales).map(one).filter(|sub| sub.runs > 0).collect();
        let process_nanos = if self.is_on() { self.used_now() } else { self.used.load(Relaxed) };
        CountedOps { subroutines, lines: lines(program, &shards, &scales, look_nanos), process_nanos, look_nanos }
    }

    fn method_sum(&self, shards: &[&Shard], method: Method) -> MethodSum {
        let all = |of: fn(&MethodCounts) -> &AtomicU64| -> u64 {
            shards.iter().map(|shard| of(&shard.methods[method as usize]).load(Relaxed)).sum()
        };
        let (whole, runs) = (all(|m| &m.whole), all(|m| &m.runs));
        let look = |of: &AtomicU64| of.load(Relaxed) as f64 / 1e3;
        let op_nanos = (all(|m| &m.op_nanos) as f64 - all(|m| &m.ops) as f64 * look(&self.look)).max(0.0);
        let looks = all(|m| &m.whole_looks) as f64 * look(&self.whole_look);
        let whole_nanos = (all(|m| &m.whole_nanos) as f64 - looks).max(0.0);
        let by_whole = (whole >= FEWEST_WHOLE).then(|| whole_nanos / whole as f64 * runs as f64);
        MethodSum { runs, op_nanos, by_whole }
    }

    /// Draws the way in which a run of a subroutine that begins now is looked at.
    pub(crate) fn draw(&self, method: Method, ops: usize) -> Option<ProfileLook> {
        if !self.is_on() {
            return None;
        }
        let shard = self.shard(ops);
        shard.methods[method as usize].runs.fetch_add(1, Relaxed);
        match shard.runs.fetch_add(1, Relaxed) {
            run if run < ALL => Some(ProfileLook::Ops(1)),
            _ => shard.draw(),
        }
    }

    /// Begins to time a run, or the rest of it (`is_first` is false) after a wait.
    pub(crate) fn watch(&self, look: ProfileLook, method: Method, ops: usize, is_first: bool) -> Looking<'_> {
        let (shard, method) = (self.shard(ops), method as usize);
        match look {
            ProfileLook::Ops(weight) => Looking::Ops(OpCounting {
                shard,
                method,
                weight,
                began: (clock::now(), cpu::thread_time()),
                ran: Vec::with_capacity(64),
                since: clock::now(),
            }),
            ProfileLook::Whole => {
                let counts = &shard.methods[method];
                counts.whole.fetch_add(u64::from(is_first), Relaxed);
                Looking::Whole(Whole { counts, began: cpu::thread_time() })
            }
        }
    }

    fn shard(&self, ops: usize) -> &Shard {
        self.shards[(thread_number() % SHARDS as u64) as usize].get_or_init(|| Shard::new(ops))
    }
}

/// Cost of a look after an op, in picoseconds: of so many in a row that no op lies between, the lowest mean.
fn cost_of_look() -> u64 {
    let mean = |_| {
        let shard = Shard::new(1);
        let began = (clock::now(), cpu::thread_time());
        let ran = Vec::with_capacity(EMPTY_LOOKS as usize);
        let mut counting = OpCounting { shard: &shard, method: 0, weight: 1, began, ran, since: clock::now() };
        (0..EMPTY_LOOKS).for_each(|_| counting.ran(0, 1));
        counting.ran.iter().map(|op| u64::from(op.nanos)).sum::<u64>() * 1000 / u64::from(EMPTY_LOOKS)
    };
    (0..REPETITIONS).map(mean).min().unwrap_or(0)
}

/// Cost of a look round a whole run, in picoseconds.
fn cost_of_whole_look() -> u64 {
    let mean = |_| {
        let counts = MethodCounts::default();
        (0..EMPTY_LOOKS).for_each(|_| drop(Whole { counts: &counts, began: cpu::thread_time() }));
        counts.whole_nanos.load(Relaxed) * 1000 / u64::from(EMPTY_LOOKS)
    };
    (0..REPETITIONS).map(mean).min().unwrap_or(0)
}

/// Times of a built-in subroutine, without what the looks took.
struct MethodSum {
    runs: u64,
    /// Time by the ops of the runs that were timed so.
    op_nanos: f64,
    /// Time by the runs that were timed as a whole, if there are enough.
    by_whole: Option<f64>,
}

impl MethodSum {
    fn nanos(&self) -> f64 {
        self.by_whole.unwrap_or(self.op_nanos)
    }
}

/// The factors that ops' times are multiplied by, so that the lines of a subroutine sum up to what it costs: for each method's own
/// ops, and for subroutines that several may call.
fn scales(sums: &[MethodSum]) -> (Vec<f64>, f64) {
    let ratio = |nanos: f64, ops: f64| if ops > 0.0 { nanos / ops } else { 1.0 };
    let all = ratio(sums.iter().map(MethodSum::nanos).sum(), sums.iter().map(|sum| sum.op_nanos).sum());
    (sums.iter().map(|sum| ratio(sum.nanos(), sum.op_nanos)).collect(), all)
}

fn lines(program: &Program, shards: &[&Shard], sums: &[MethodSum], look_nanos: f64) -> Vec<ProfileLine> {
    let sum = |pc: usize| {
        shards.iter().map(|shard| &shard.ops[pc]).fold(Sum::default(), |sum, counts| Sum {
            runs: sum.runs + counts.runs.load(Relaxed),
            jumps: sum.jumps + counts.jumps.load(Relaxed),
            timed: sum.timed + counts.timed.load(Relaxed),
            nanos: sum.nanos + counts.nanos.load(Relaxed),
        })
    };
    let (own, shared) = scales(sums);
    let scale = |pc: usize| {
        let sub = program.subs.partition_point(|sub| sub.entry as usize <= pc).saturating_sub(1);
        program.methods.iter().position(|of| *of as usize == sub).map_or(shared, |method| own[method])
    };
    // A run whose time isn't known takes what the others take.
    let nanos = |pc: usize| match sum(pc) {
        Sum { timed: 0, .. } => 0.0,
        sum => (sum.nanos as f64 / sum.timed as f64 - look_nanos).max(0.0) * sum.runs as f64,
    };
    // The op that ends a subroutine by itself has the place of the last statement, whether that ran or not.
    let ends = program.subs.iter().skip(1).map(|sub| sub.entry as usize).chain([program.code.len()]);
    let ends: Vec<usize> = ends.filter_map(|end| end.checked_sub(1)).collect();
    let mut by_line: BTreeMap<(u32, u32), Vec<usize>> = BTreeMap::new();
    for pc in (0..program.code.len()).filter(|pc| !ends.contains(pc)) {
        if let Some(place) = program.map.place(pc) {
            by_line.entry((place.source, place.line)).or_default().push(pc);
        }
    }
    let one = |((source, line), ops): ((u32, u32), Vec<usize>)| {
        let runs = ops.iter().map(|pc| sum(*pc).runs).max().unwrap_or(0);
        let measured: f64 = ops.iter().map(|pc| nanos(*pc)).sum();
        ProfileLine {
            source,
            line,
            runs,
            held: held(program, &ops, sum),
            nanos: ops.iter().map(|pc| nanos(*pc) * scale(*pc)).sum::<f64>() as u64,
            is_measurable: measured > runs as f64 * look_nanos * DOUBT,
            acts: ops.iter().any(|pc| acts(program, program.code[*pc])),
            is_grouped: ops.iter().any(|pc| matches!(program.code[*pc], Op::Guards { .. })),
        }
    };
    // A mark alone is a brace's, not a line that does something.
    let is_mark = |pc: &usize| matches!(program.code[*pc], Op::Step { .. });
    by_line.into_iter().filter(|(_, ops)| !ops.iter().all(is_mark)).map(one).collect()
}

impl Shard {
    fn new(ops: usize) -> Shard {
        Shard {
            runs: AtomicU64::new(0),
            lots: AtomicU64::new(1),
            methods: Default::default(),
            ops: (0..ops).map(|_| Counts::default()).collect(),
        }
    }

    fn clear(&self) {
        self.runs.store(0, Relaxed);
        let methods =
            self.methods.iter().flat_map(|m| [&m.runs, &m.whole, &m.whole_nanos, &m.whole_looks, &m.op_nanos, &m.ops]);
        let ops = self.ops.iter().flat_map(|c| [&c.runs, &c.jumps, &c.timed, &c.nanos]);
        methods.chain(ops).for_each(|n| n.store(0, Relaxed));
    }

    /// Draws a lot, without any order: a request runs some subroutines after each other, and each must have its turn. Knuth's
    /// linear congruence.
    fn draw(&self) -> Option<ProfileLook> {
        let next =
            self.lots.load(Relaxed).wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.lots.store(next, Relaxed);
        match next >> 33 {
            lot if lot.is_multiple_of(ONE_OF) => Some(ProfileLook::Ops(ONE_OF)),
            // ONE_OF is a multiple of WHOLE_OF: no lot is both.
            lot if lot % WHOLE_OF == 1 => Some(ProfileLook::Whole),
            _ => None,
        }
    }
}

fn thread_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    thread_local! {
        static HOME: u64 = NEXT.fetch_add(1, Relaxed);
    }
    HOME.with(|home| *home)
}

/// True if an op calls a function that may do more than return a value.
fn acts(program: &Program, op: Op) -> bool {
    let Op::Call { site } = op else { return matches!(op, Op::New { .. }) };
    program.calls.get(site as usize).is_none_or(|call| !call.is_pure)
}

/// Number of times that the condition that begins on a line held: the ways from its tests into the block behind it,
/// whose first op is the next [`Op::Step`]. `None` when the line has several conditions: one number would speak of the
/// last alone.
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

pub(crate) trait OpWatch {
    /// Op `pc` ran, and the next to run is `then`.
    fn ran(&mut self, pc: u32, then: u32);
}

pub(crate) struct NoWatch;

impl OpWatch for NoWatch {
    #[inline(always)]
    fn ran(&mut self, _: u32, _: u32) {}
}

pub(crate) enum Looking<'a> {
    Ops(OpCounting<'a>),
    Whole(Whole<'a>),
}

struct Ran {
    pc: u32,
    jumped: bool,
    nanos: u32,
}

/// Counts and times each op. The counts are taken down when the run ends or waits.
pub(crate) struct OpCounting<'a> {
    shard: &'a Shard,
    method: usize,
    weight: u64,
    /// Start by the clock, and by the CPU time of the thread.
    began: (Instant, Duration),
    ran: Vec<Ran>,
    since: Instant,
}

impl OpWatch for OpCounting<'_> {
    #[inline]
    fn ran(&mut self, pc: u32, then: u32) {
        let now = clock::now();
        let nanos = u32::try_from((now - self.since).as_nanos()).unwrap_or(u32::MAX);
        self.ran.push(Ran { pc, jumped: then > pc + 1, nanos });
        self.since = now;
    }
}

impl Drop for OpCounting<'_> {
    fn drop(&mut self) {
        let (by_clock, by_cpu) = (clock::now() - self.began.0, cpu::thread_time().saturating_sub(self.began.1));
        let is_timed = by_clock < by_cpu + INTERRUPTED;
        let (mut nanos, mut ops) = (0, 0);
        for op in &self.ran {
            let counts = &self.shard.ops[op.pc as usize];
            counts.runs.fetch_add(self.weight, Relaxed);
            if op.jumped {
                counts.jumps.fetch_add(self.weight, Relaxed);
            }
            if is_timed {
                counts.timed.fetch_add(self.weight, Relaxed);
                counts.nanos.fetch_add(u64::from(op.nanos) * self.weight, Relaxed);
                nanos += u64::from(op.nanos);
                ops += 1;
            }
        }
        let method = &self.shard.methods[self.method];
        method.op_nanos.fetch_add(nanos * self.weight, Relaxed);
        method.ops.fetch_add(ops * self.weight, Relaxed);
    }
}

pub(crate) struct Whole<'a> {
    counts: &'a MethodCounts,
    began: Duration,
}

impl Drop for Whole<'_> {
    fn drop(&mut self) {
        let nanos = cpu::thread_time().saturating_sub(self.began).as_nanos() as u64;
        self.counts.whole_looks.fetch_add(1, Relaxed);
        self.counts.whole_nanos.fetch_add(nanos, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::world::VrtWorld;

    const RECV: usize = Method::Recv as usize;
    /// Costs of the looks, in nanoseconds.
    const LOOK: u64 = 20;
    const WHOLE_LOOK: u64 = 300;

    /// A VCL whose vcl_recv ran 16,000 times: 250 runs were timed by ops, of 50 ns each beside the look, and stand for all;
    /// `whole` runs were timed as a whole, of 800 ns each beside theirs.
    fn counted(whole: u64) -> CountedOps {
        let world =
            VrtWorld::new("vcl 4.1; backend b none;\nsub vcl_recv {\nset req.http.a = \"1\";\nunset req.http.b;\n}");
        let program = &world.vcl.program;
        let profile = VclProfile::default();
        profile.look.store(LOOK * 1000, Relaxed);
        profile.whole_look.store(WHOLE_LOOK * 1000, Relaxed);
        let shard = profile.shard(program.code.len());
        let entry = program.subs[program.methods[RECV] as usize].entry as usize;
        let end = program.subs.iter().map(|sub| sub.entry as usize).filter(|at| *at > entry).min();
        let ops = entry..end.unwrap_or(program.code.len());
        let of_recv = &shard.methods[RECV];
        for (counter, n) in [
            (&of_recv.runs, 16_000),
            (&of_recv.whole, whole),
            (&of_recv.whole_nanos, whole * (800 + WHOLE_LOOK)),
            (&of_recv.whole_looks, whole),
            (&of_recv.ops, 16_000 * ops.len() as u64),
            (&of_recv.op_nanos, 16_000 * ops.len() as u64 * (50 + LOOK)),
        ] {
            counter.store(n, Relaxed);
        }
        for op in &shard.ops[ops] {
            op.runs.store(16_000, Relaxed);
            op.timed.store(16_000, Relaxed);
            op.nanos.store(16_000 * (50 + LOOK), Relaxed);
        }
        profile.counted(program)
    }

    fn of_lines(counted: &CountedOps) -> u64 {
        counted.lines.iter().map(|line| line.nanos).sum()
    }

    #[test]
    fn runs_timed_as_a_whole_say_what_a_subroutine_costs_and_ops_divide_it() {
        let counted = counted(FEWEST_WHOLE);
        let [recv] = counted.subroutines[..] else { panic!("{:?}", counted.subroutines) };
        assert_eq!((recv.runs, recv.nanos), (16_000, 16_000 * 800));
        // The op that ends the subroutine is on no line.
        let own: Vec<u64> = counted.lines.iter().filter(|line| line.source == 0).map(|line| line.nanos).collect();
        assert!(own.len() == 2 && own[0] > own[1] && own[1] > 0, "a set takes more ops than an unset: {own:?}");
        let sum = of_lines(&counted);
        assert!((recv.nanos / 2..=recv.nanos).contains(&sum), "{sum} of {recv:?}");
    }

    #[test]
    fn a_run_in_parts_is_one_run() {
        let profile = VclProfile::default();
        let part = |is_first| drop(profile.watch(ProfileLook::Whole, Method::Recv, 1, is_first));
        [true, false, false, true].into_iter().for_each(part);
        let counts = &profile.shard(1).methods[RECV];
        assert_eq!((counts.whole.load(Relaxed), counts.whole_looks.load(Relaxed)), (2, 4));
    }

    #[test]
    fn with_few_runs_timed_as_a_whole_the_ops_say_it() {
        let counted = counted(FEWEST_WHOLE - 1);
        let [recv] = counted.subroutines[..] else { panic!("{:?}", counted.subroutines) };
        assert_eq!(recv.nanos % (16_000 * 50), 0, "{recv:?}");
        assert!(counted.lines.iter().all(|line| line.nanos % (16_000 * 50) == 0), "{:?}", counted.lines);
        let sum = of_lines(&counted);
        assert!((recv.nanos / 2..=recv.nanos).contains(&sum), "{sum} of {recv:?}");
    }
}
