// SPDX-License-Identifier: BSD-2-Clause
//! Answers of tests that hold until what was tested changes: the machine's side of the optimiser. A test of a field or
//! URL that was run once is remembered, and the first test of a value finds out what it can about all others at once; what
//! was found out about a value holds for all requests that bring it (see [`memo`]).

use std::collections::HashMap;
use std::sync::Arc;

use aho_corasick::AhoCorasick;
use tables::vclvars::{HeadId, Var};
use vcl::program::{Program, Subject, SubjectOf, TestOf};
use vcl_regex::{AnyOf, Regex};

use crate::ctx::{Ctx, VclFailure};
use crate::exec::{is_match, with_text};
use crate::fields;
use crate::loaded::LoadedVcl;
use crate::machine::Machine;
use crate::memo::{self, AnswerSlot, KnownAnswers};

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SubjectFacts {
    answers: KnownAnswers,
    /// Place where all that have the same value keep them.
    place: AnswerSlot,
}

/// Texts for which a search for all of them at once is cheaper than running each pattern.
const FEWEST_NEEDS: usize = 3;
/// Number of patterns that are cheaper to run than to remember, if they need no regex.
const FEW_PLAIN: usize = 2;
/// Guards that are walked at once, before the budget is looked at again.
const MAX_GUARDS: usize = 1024;

/// Answers several tests of one value at once.
#[derive(Debug, Default)]
pub(crate) struct Prefilter {
    /// The tests that ask whether it is set or equals something, and the text that each wants.
    equal: u64,
    /// Sorted by length, then by bytes.
    texts: Vec<(Box<[u8]>, u64)>,
    set: u64,
    /// Finds what patterns can't do without, and for each text the tests that want it.
    finder: Option<AhoCorasick>,
    wanted_by: Vec<u64>,
    sifted: u64,
    /// Long lists, which most values have nothing of; whether any of them matches.
    lists: u64,
    any: Option<AnyOf>,
    unset: KnownAnswers,
    /// Number in [`memo`]; 0: its tests are cheaper than looking there.
    number: u64,
}

impl Prefilter {
    pub(crate) fn new(subject: &Subject, program: &Program, regexes: &[Arc<Regex>]) -> Prefilter {
        let mut sieve = Prefilter::default();
        let mut texts: HashMap<Box<[u8]>, u64> = HashMap::new();
        let mut needs: HashMap<Vec<u8>, u64> = HashMap::new();
        for (n, test) in subject.tests.iter().enumerate() {
            let bit = 1 << n;
            match test {
                TestOf::Set => sieve.set |= bit,
                TestOf::Equal(str) => {
                    sieve.equal |= bit;
                    *texts.entry(program.constants.strings[*str as usize].clone()).or_default() |= bit;
                }
                TestOf::Match(index) => {
                    let texts = regexes[*index as usize].needs();
                    if !texts.is_empty() {
                        sieve.sifted |= bit;
                    }
                    for text in texts {
                        *needs.entry(text).or_default() |= bit;
                    }
                }
            }
        }
        sieve.texts = texts.into_iter().collect();
        sieve.texts.sort_unstable_by(|(a, _), (b, _)| (a.len(), a).cmp(&(b.len(), b)));
        let built = AhoCorasick::builder().ascii_case_insensitive(true).build(needs.keys());
        match built {
            Ok(finder) if sieve.sifted.count_ones() as usize >= FEWEST_NEEDS => {
                sieve.finder = Some(finder);
                sieve.wanted_by = needs.values().copied().collect();
            }
            _ => sieve.sifted = 0,
        }
        let is_list = |test: &TestOf| matches!(test, TestOf::Match(index) if regexes[*index as usize].is_long_list());
        let lists: Vec<usize> = (0..subject.tests.len()).filter(|n| is_list(&subject.tests[*n])).collect();
        if lists.len() > 1 {
            let regex = |n: &usize| match subject.tests[*n] {
                TestOf::Match(index) => &*regexes[index as usize],
                TestOf::Set | TestOf::Equal(_) => unreachable!("only patterns are lists"),
            };
            sieve.any = AnyOf::new(&lists.iter().map(regex).collect::<Vec<_>>());
            sieve.lists = lists.iter().fold(0, |bits, n| bits | 1 << n);
        }
        let plain = |test: &TestOf| match test {
            TestOf::Match(index) => Some(regexes[*index as usize].is_plain()),
            TestOf::Set | TestOf::Equal(_) => None,
        };
        let plain: Vec<bool> = subject.tests.iter().filter_map(plain).collect();
        if plain.len() > FEW_PLAIN || plain.contains(&false) {
            sieve.number = memo::number();
        }
        sieve.unset.asked = sieve.set | sieve.equal;
        for (n, test) in subject.tests.iter().enumerate() {
            let TestOf::Match(index) = test else { continue };
            // What reaches the step limit does so again when it is asked.
            if let Ok(holds) = regexes[*index as usize].is_match(b"") {
                sieve.unset.asked |= 1 << n;
                sieve.unset.holds |= u64::from(holds) << n;
            }
        }
        sieve
    }

    fn wanting(&self, value: &[u8]) -> u64 {
        let at = self.texts.binary_search_by(|(text, _)| (text.len(), &**text).cmp(&(value.len(), value)));
        at.map_or(0, |at| self.texts[at].1)
    }

    /// Answers that need no pattern to be run.
    fn first(&self, value: Option<&[u8]>) -> SubjectFacts {
        let Some(value) = value else { return SubjectFacts { answers: self.unset, place: AnswerSlot::default() } };
        let (place, answers) = if self.number == 0 { Default::default() } else { memo::recall(self.number, value) };
        if answers.asked != 0 {
            return SubjectFacts { answers, place };
        }
        let answers = self.sift(value);
        memo::keep(place, answers);
        SubjectFacts { answers, place }
    }

    /// Everything that can be told at once about a value.
    fn sift(&self, value: &[u8]) -> KnownAnswers {
        let mut known = KnownAnswers { asked: self.set | self.equal, holds: self.set };
        if self.equal != 0 {
            known.holds |= self.wanting(value);
        }
        let Some(finder) = &self.finder else { return known };
        let mut possible = 0;
        for found in finder.find_overlapping_iter(value) {
            possible |= self.wanted_by[found.pattern().as_usize()];
            if possible == self.sifted {
                break;
            }
        }
        known.asked |= self.sifted & !possible;
        known
    }
}

/// For each name of a field, the first one that differs in case at most.
pub(crate) fn same_fields(program: &Program) -> Vec<u16> {
    let mut first: HashMap<Vec<u8>, u16> = HashMap::new();
    let names = (0u16..).zip(&program.constants.headers);
    names.map(|(n, name)| *first.entry(name.to_ascii_lowercase()).or_insert(n)).collect()
}

/// Heads that may be the same one.
fn alias(head: HeadId) -> HeadId {
    if head == HeadId::ReqTop { HeadId::Req } else { head }
}

impl Machine {
    #[inline]
    pub(crate) fn known(&self, subject: u16, test: u16) -> Option<bool> {
        let (known, bit) = (self.known[usize::from(subject)].answers, 1 << test);
        (known.asked & bit != 0).then_some(known.holds & bit != 0)
    }

    #[inline]
    pub(crate) fn answer(
        &mut self,
        subject: u16,
        test: u16,
        vcl: &Arc<LoadedVcl>,
        ctx: &mut dyn Ctx,
    ) -> Result<bool, VclFailure> {
        match self.known(subject, test) {
            Some(holds) => Ok(holds),
            None => self.find_out(subject, test, vcl, ctx),
        }
    }

    fn find_out(
        &mut self,
        number: u16,
        test: u16,
        vcl: &Arc<LoadedVcl>,
        ctx: &mut dyn Ctx,
    ) -> Result<bool, VclFailure> {
        let subject = &vcl.program.lean.subjects[usize::from(number)];
        let (mut known, sieve) = (self.known[usize::from(number)], &vcl.sieves[usize::from(number)]);
        let bit = 1u64 << test;
        let mut matched = None;
        let ask = |value: Option<&[u8]>| -> Result<SubjectFacts, VclFailure> {
            if known.answers.asked == 0 {
                known = sieve.first(value);
            }
            if sieve.lists & bit & !known.answers.asked != 0
                && known.answers.asked & sieve.lists == 0
                && let (Some(any), Some(value)) = (&sieve.any, value)
                && !any.is_match(value)
            {
                known.answers.asked |= sieve.lists;
                memo::keep(known.place, known.answers);
            }
            if known.answers.asked & bit == 0 {
                let TestOf::Match(index) = subject.tests[usize::from(test)] else {
                    unreachable!("the sieve answers all tests but patterns")
                };
                matched = Some((index, value.unwrap_or_default().len()));
                if is_match(&vcl.regexes[index as usize], value.unwrap_or_default())? {
                    known.answers.holds |= bit;
                }
                known.answers.asked |= bit;
                memo::keep(known.place, known.answers);
            }
            Ok(known)
        };
        let known = match subject.of {
            SubjectOf::Field(head, field) => {
                let mut ask = ask;
                ask(ctx.head(head).and_then(|h| h.get_as_set(&*vcl.program.constants.headers[usize::from(field)])))?
            }
            SubjectOf::Var(var) => with_text(var, self, ctx, ask)?,
        };
        self.known[usize::from(number)] = known;
        matched.into_iter().for_each(|(index, bytes)| self.charge_match(&vcl.regexes[index as usize], bytes));
        Ok(known.answers.holds & bit != 0)
    }

    /// Walks a chain of tests up to the first that holds; where it goes on then.
    pub(crate) fn guards(&mut self, at: u32, vcl: &Arc<LoadedVcl>, ctx: &mut dyn Ctx) -> Result<u32, VclFailure> {
        let guards = &vcl.program.lean.guards;
        let mut guard = &guards[at as usize];
        if self.stepwise {
            // Each step between the tests is a record, or counted.
            self.flag = self.answer(guard.subject, guard.test, vcl, ctx)?;
            return Ok(self.pc + 1);
        }
        for _ in 0..MAX_GUARDS {
            // Errors and the watchdog name the test that is run.
            self.pc = guard.pc;
            if self.answer(guard.subject, guard.test, vcl, ctx)? {
                self.flag = true;
                return Ok(guard.then);
            }
            match guard.next {
                // It has run many patterns: others have their turn before the next one.
                Some(next) if self.is_overcharged() => return Ok(guards[next as usize].pc),
                Some(next) => guard = &guards[next as usize],
                None => {
                    self.flag = false;
                    return Ok(guard.otherwise);
                }
            }
        }
        Ok(guard.pc)
    }

    pub(crate) fn forget_field(&mut self, head: HeadId, field: u16, vcl: &LoadedVcl) {
        let (head, field) = (alias(head), vcl.same_fields[usize::from(field)]);
        for (known, subject) in self.known.iter_mut().zip(&vcl.program.lean.subjects) {
            if matches!(subject.of, SubjectOf::Field(h, f) if f == field && alias(h) == head) {
                *known = SubjectFacts::default();
            }
        }
    }

    /// A variable was set. Setting one part of a start line may change others.
    pub(crate) fn forget_var(&mut self, var: Var, vcl: &LoadedVcl) {
        if fields::head_part(var).is_none() {
            return;
        }
        for (known, subject) in self.known.iter_mut().zip(&vcl.program.lean.subjects) {
            if matches!(subject.of, SubjectOf::Var(_)) {
                *known = SubjectFacts::default();
            }
        }
    }

    pub(crate) fn forget_all(&mut self) {
        self.known.fill(SubjectFacts::default());
    }
}
