// SPDX-License-Identifier: BSD-2-Clause
//! Warnings about valid VCL that can't do what it says. Each is about something certain, and none stops a program.
//!
//! The parser records remarks and facts. After the program has compiled, they are evaluated and reported in source
//! order. The built-in VCL and lines added by a translation never get remarks.

use tables::vclsubs::{Method, Return};
use tables::vclvars::{HeadId, Var};
use tables::vmods::Func;

use crate::code::DiagnosticCode;
use crate::diag::{DiagnosticDraft, Fix, Span};
use crate::ir::{Expr, IrNode};
use crate::own_listeners::OwnBackend;
use crate::symbols::SymbolMeaning;
use crate::token::Tok;
use crate::vcc::Vcc;

#[derive(Debug)]
struct Remark {
    code: DiagnosticCode,
    first: u32,
    last: u32,
    text: String,
    other: Option<(&'static str, u32)>,
    fix: Option<Fix<Span>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SetTarget {
    Field(HeadId, u16),
    Var(Var),
}

/// A `set` statement, recorded for later checks.
#[derive(Debug)]
struct SetStatement {
    proc: usize,
    first: u32,
    last: u32,
    target: SetTarget,
    /// The constant text, if a header is set to nothing else.
    constant: Option<u32>,
    /// Headers that the value is made of.
    reads: Vec<(HeadId, u16)>,
}

/// Facts that the parser records for checks of the whole program.
#[derive(Debug, Default)]
pub(crate) struct LintFacts {
    remarks: Vec<Remark>,
    sets: Vec<SetStatement>,
    pub own_backends: Vec<OwnBackend>,
}

/// Remarks of one kind that a compilation makes.
pub(crate) const MAX_REMARKS: usize = 50;

/// Variables that a lookup uses. Setting them afterwards has no effect unless the request is restarted.
const LOOKUPS: [Var; 5] =
    [Var::ReqGrace, Var::ReqTtl, Var::ReqHashAlwaysMiss, Var::ReqHashIgnoreBusy, Var::ReqHashIgnoreVary];
const AFTER_LOOKUP: [Method; 7] =
    [Method::Pipe, Method::Pass, Method::Purge, Method::Miss, Method::Hit, Method::Deliver, Method::Synth];
const VERDICTS: [&[u8]; 2] = [b"hit", b"miss"];

impl Vcc<'_> {
    // --- while parsing

    pub fn remark(&mut self, code: DiagnosticCode, first: usize, last: usize, text: &str) {
        self.remark_fixed(code, (first, last), text, None);
    }

    pub fn remark_fixed(
        &mut self,
        code: DiagnosticCode,
        (first, last): (usize, usize),
        text: &str,
        fix: Option<Fix<Span>>,
    ) {
        let (first, last) = (first as u32, last as u32);
        self.facts.remarks.push(Remark { code, first, last, text: text.to_owned(), other: None, fix });
    }

    /// Records another part of a subroutine whose `earlier` part leaves it on every path.
    pub fn remark_part(&mut self, at: u32, earlier: u32, name: &str) {
        let text = format!("This part of {name} is never reached: an earlier part always returns.\n");
        self.facts.remarks.push(Remark {
            code: DiagnosticCode::Unreachable,
            first: at,
            last: at,
            text,
            other: Some(("The earlier part begins here:\n", earlier)),
            fix: None,
        });
    }

    pub fn remark_pattern(&mut self, first: usize, left: &Expr, right: &Expr) {
        if !matches!(left.node, IrNode::Field(..) | IrNode::Var(_)) {
            return;
        }
        let IrNode::Str(index) = right.node else { return };
        if looks_like_a_pattern(self.pool.text(index)) {
            let last = self.at.saturating_sub(1);
            let operator = self.tokens[first.saturating_sub(1)];
            let (old, new) = if operator.tok == Tok::Eq { ("==", "~") } else { ("!=", "!~") };
            let fix = Fix::one(format!("Replace {old} by {new}"), operator.span(), new);
            let text = "== and != compare whole texts: this one is a pattern, which is for ~ and !~.\n";
            self.remark_fixed(DiagnosticCode::PatternCompared, (first, last), text, Some(fix));
        }
    }

    pub fn note_set(&mut self, first: usize, target: SetTarget, value: Option<&Expr>) {
        let Some(proc) = self.current else { return };
        let (mut reads, mut constant) = (Vec::new(), None);
        if let Some(value) = value {
            fields_of(value, &mut reads);
            if let IrNode::Str(index) = value.node {
                constant = Some(index);
            }
        }
        let (first, last) = (first as u32, self.at.saturating_sub(2) as u32);
        self.facts.sets.push(SetStatement { proc, first, last, target, constant, reads });
    }

    /// Records a call of a module's function that doesn't work in every subroutine.
    pub fn note_work(&mut self, name_at: usize, func: &'static Func) {
        let everywhere = func.scope == tables::vclsubs::Methods::ALL;
        if let (Some(current), false) = (self.current, everywhere) {
            let last = self.at.saturating_sub(1) as u32;
            self.procs[current].works.push((name_at as u32, last, func));
        }
    }

    // --- of the whole program

    pub fn lint(&mut self) {
        let ways: Vec<(Method, Vec<bool>)> = Method::ALL.into_iter().map(|m| (m, self.reached_from(m))).collect();
        self.lint_calls(&ways);
        self.lint_lookups(&ways);
        self.lint_pipe(&ways);
        self.lint_stored(&ways);
        self.lint_personal();
        self.lint_restarts();
        let mut remarks = std::mem::take(&mut self.facts.remarks);
        remarks.retain(|remark| self.is_written(remark.first));
        remarks.sort_by_key(|remark| remark.first);
        remarks.dedup_by_key(|remark| (remark.first, remark.text.clone()));
        for remark in remarks.into_iter().take(MAX_REMARKS) {
            self.draft = DiagnosticDraft::new(remark.code, remark.text).fixed(remark.fix);
            self.show_until(remark.first as usize, remark.last as usize + 1);
            if let Some((text, at)) = remark.other {
                self.say(text);
                let token = self.tokens[at as usize];
                self.show(&token);
            }
            self.warn();
        }
    }

    fn is_written(&self, token: u32) -> bool {
        let token = &self.tokens[token as usize];
        let source = &self.sources[token.src as usize];
        let translated = source.map.as_ref().is_some_and(|map| map.origin(token.start, token.end).is_none());
        source.kind != "builtin" && !translated
    }

    /// The procedures that a machine subroutine may run.
    pub fn reached_from(&self, method: Method) -> Vec<bool> {
        let mut reached = vec![false; self.procs.len()];
        let mut todo: Vec<usize> = self.procs.iter().position(|p| p.method == Some(method)).into_iter().collect();
        while let Some(at) = todo.pop() {
            if std::mem::replace(&mut reached[at], true) {
                continue;
            }
            todo.extend(self.procs[at].calls.iter().filter_map(|(_, sym)| match self.syms.get(*sym).what {
                SymbolMeaning::Sub(index) => Some(index as usize),
                _ => None,
            }));
        }
        reached
    }

    fn lint_calls(&mut self, ways: &[(Method, Vec<bool>)]) {
        for proc in 0..self.procs.len() {
            for (first, last, func) in self.procs[proc].works.clone() {
                let callers = ways.iter().filter(|(_, reached)| reached[proc]).map(|(method, _)| *method);
                let wrong: Vec<&str> = callers.filter(|m| !func.scope.has(*m)).map(Method::sub_name).collect();
                if wrong.is_empty() {
                    continue;
                }
                let works: Vec<&str> = func.scope.iter().map(Method::sub_name).collect();
                let text =
                    format!("{}() works in {} only, and fails in {}.\n", func.name, works.join(", "), wrong.join(", "));
                self.remark(DiagnosticCode::WrongPlace, first as usize, last as usize, &text);
            }
        }
    }

    /// The subroutines of `of` that run `proc` and never restart.
    fn without_restart(&self, proc: usize, of: &[Method], ways: &[(Method, Vec<bool>)]) -> Vec<Method> {
        let restarts = |reached: &[bool]| {
            let all = self.procs.iter().zip(reached);
            all.into_iter().any(|(p, reached)| *reached && p.returns[Return::Restart as usize].is_some())
        };
        let here = ways.iter().filter(|(_, reached)| reached[proc]);
        // Code is no mistake if it has an effect for one of its callers.
        if here.clone().any(|(method, reached)| !of.contains(method) || restarts(reached)) {
            return Vec::new();
        }
        here.map(|(method, _)| *method).collect()
    }

    fn lint_lookups(&mut self, ways: &[(Method, Vec<bool>)]) {
        let sets: Vec<_> = self.facts.sets.iter().map(|s| (s.proc, s.first, s.last, s.target)).collect();
        for (proc, first, last, target) in sets {
            let SetTarget::Var(var) = target else { continue };
            let (of, reason): (&[Method], _) = match var {
                var if LOOKUPS.contains(&var) => {
                    (&AFTER_LOOKUP, "it is for the lookup, which is over. Set it in vcl_recv")
                }
                Var::ReqBackendHint => (&[Method::Deliver, Method::Synth], "no fetch follows. Set it in vcl_recv"),
                _ => continue,
            };
            let subs = self.without_restart(proc, of, ways);
            if subs.is_empty() {
                continue;
            }
            let names: Vec<&str> = subs.iter().map(|m| m.sub_name()).collect();
            let text = format!("{} does nothing when set in {}: {reason}.\n", var.name(), names.join(", "));
            self.remark(DiagnosticCode::WrongPlace, first as usize, last as usize, &text);
        }
    }

    /// Warns about `req.http.Connection` set in vcl_pipe: the request has already been copied to `bereq`.
    fn lint_pipe(&mut self, ways: &[(Method, Vec<bool>)]) {
        let pipe = &ways[Method::Pipe as usize].1;
        let mut found = Vec::new();
        for set in &self.facts.sets {
            let SetTarget::Field(HeadId::Req, field) = set.target else { continue };
            let only = ways.iter().all(|(method, reached)| (*method == Method::Pipe) || !reached[set.proc]);
            if only && pipe[set.proc] && self.pool.header_name(field).eq_ignore_ascii_case(b"connection") {
                found.push((set.first, set.last));
            }
        }
        for (first, last) in found {
            let text = "The request that is piped was copied before vcl_pipe: set bereq.http.Connection.\n";
            let (src, start, _) = self.tokens[first as usize].span();
            let fix = Fix::one("Set bereq.http.Connection", (src, start, start), "be");
            self.remark_fixed(DiagnosticCode::WrongPlace, (first as usize, last as usize), text, Some(fix));
        }
    }

    /// Warns about per-request values set in vcl_backend_response: they are stored, so each hit shows those of the
    /// miss.
    fn lint_stored(&mut self, ways: &[(Method, Vec<bool>)]) {
        let reached = |method: Method, proc: usize| ways[method as usize].1[proc];
        let same = |a: u16, b: u16| {
            let name = |n: u16| self.pool.header_name(n);
            name(a).eq_ignore_ascii_case(name(b))
        };
        let is_field = |target: SetTarget, head: HeadId, field: u16| match target {
            SetTarget::Field(h, f) => h == head && same(f, field),
            SetTarget::Var(_) => false,
        };
        let mut found = Vec::new();
        for set in self.facts.sets.iter().filter(|set| reached(Method::BackendResponse, set.proc)) {
            let SetTarget::Field(HeadId::Beresp, field) = set.target else { continue };
            let name = String::from_utf8_lossy(self.pool.header_name(field)).into_owned();
            let of_hits = set.reads.iter().find(|(head, read)| {
                let by_hit = |s: &&SetStatement| reached(Method::Hit, s.proc) && is_field(s.target, HeadId::Req, *read);
                *head == HeadId::Bereq && self.facts.sets.iter().any(|s| by_hit(&s))
            });
            if let Some((_, read)) = of_hits {
                let read = String::from_utf8_lossy(self.pool.header_name(*read));
                found.push((set.first, set.last, format!(
                    "beresp.http.{name} is stored: what vcl_hit sets never gets into it, and all hits show the miss's.\n\
                     Set resp.http.{name} from req.http.{read} in vcl_deliver.\n"
                )));
                continue;
            }
            let verdict = set.constant.is_some_and(|index| {
                let text = self.pool.text(index).to_ascii_lowercase();
                VERDICTS.contains(&text.as_slice())
            });
            if verdict && !self.is_mentioned(field) {
                found.push((set.first, set.last, format!(
                    "beresp.http.{name} is stored: hits and misses show the same. In vcl_deliver obj.hits tells them apart.\n"
                )));
            }
        }
        for (first, last, text) in found {
            self.remark(DiagnosticCode::Stored, first as usize, last as usize, &text);
        }
    }

    fn is_mentioned(&self, field: u16) -> bool {
        let name = self.pool.header_name(field);
        self.procs.iter().flat_map(|p| &p.uses).any(|u| match self.syms.get(u.sym).what {
            SymbolMeaning::Field(HeadId::Resp | HeadId::Obj, f) => self.pool.header_name(f).eq_ignore_ascii_case(name),
            _ => false,
        })
    }
}

/// True for texts that are common in patterns and that no header or URL is equal to.
fn looks_like_a_pattern(text: &[u8]) -> bool {
    let has = |part: &[u8]| text.windows(part.len()).any(|w| w == part);
    text.len() > 2 && (text.starts_with(b"^") || text.starts_with(b"(?") || has(b".*") || has(b"\\."))
}

fn fields_of(e: &Expr, out: &mut Vec<(HeadId, u16)>) {
    match &e.node {
        IrNode::Field(head, field) => out.push((*head, *field)),
        IrNode::Join(parts) => parts.iter().for_each(|part| fields_of(part, out)),
        IrNode::Text(inner) | IrNode::Case(_, inner) => fields_of(inner, out),
        IrNode::Regsub(_, parts) => parts.iter().for_each(|part| fields_of(part, out)),
        _ => {}
    }
}
