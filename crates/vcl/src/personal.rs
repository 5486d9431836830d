// SPDX-License-Identifier: BSD-2-Clause
//! A warning about a vcl_recv that looks up every request. The built-in VCL passes requests with Cookie or
//! Authorization, whose responses may be personal, and requests that have effects (POST).
//!
//! The analysis follows the paths through vcl_recv and its callees with the facts known on each. A path that depends on
//! another property of the request, such as a URL pattern, is taken as the author's choice and not reported.

use std::collections::HashMap;

use tables::dialects::Dialect;
use tables::vclsubs::{Method, Return};
use tables::vclvars::{HeadId, Var};

use crate::code::DiagnosticCode;
use crate::program::{Callee, Compare, Op};
use crate::vcc::Vcc;

/// A set of facts known on a path, as bits.
type Facts = u8;
const COOKIE_SEEN: Facts = 1;
const AUTH_SEEN: Facts = 2;
const METHOD_SEEN: Facts = 4;
const SEEN: [Facts; 3] = [COOKIE_SEEN, AUTH_SEEN, METHOD_SEEN];
/// The last test found the header; for `IS_POST`, a method with effects.
const HAS_COOKIE: Facts = 8;
const HAS_AUTH: Facts = 16;
const IS_POST: Facts = 32;
const LAST: [Facts; 3] = [HAS_COOKIE, HAS_AUTH, IS_POST];
/// The path depends on another property of the request.
const NARROW: Facts = 64;

/// A set of possible [`Facts`], one bit for each value.
type FactSets = u128;

const MAX_OPS: usize = 200_000;
const ALL_URLS: [&[u8]; 6] = [b"", b".", b".*", b"/", b"^/", b"^"];
const COOKIE_MODULES: [&str; 2] = ["cookie", "cookieplus"];

#[derive(Default)]
struct Findings {
    /// Possible facts after a subroutine, by subroutine and the facts before it.
    behind: HashMap<(usize, Facts), FactSets>,
    lookups: HashMap<u32, FactSets>,
}

impl Vcc<'_> {
    pub fn lint_personal(&mut self) {
        let Some(recv) = self.procs.iter().position(|p| p.method == Some(Method::Recv)) else { return };
        if self.emission.ops > MAX_OPS {
            return;
        }
        let mut found = Findings::default();
        self.ways(recv, self.seen_in_hash(), &mut found);
        for (at, ways) in found.lookups {
            let missing = all(ways).fold(0, |sum, known| sum | missing(known));
            if missing != 0 {
                self.remark(
                    DiagnosticCode::MayBePersonal,
                    at as usize - 2,
                    at as usize + 1,
                    &text(missing, self.program.dialect),
                );
            }
        }
    }

    /// The facts covered by vcl_hash: what is part of the hash needn't be passed.
    fn seen_in_hash(&self) -> Facts {
        let reached = self.reached_from(Method::Hash);
        let procs = self.procs.iter().zip(reached).filter(|(_, reached)| *reached);
        procs.flat_map(|(proc, _)| &proc.code).fold(0, |known, op| known | self.reads(*op)) & !METHOD_SEEN
    }

    /// The possible facts after a subroutine that starts with `known`.
    fn ways(&self, proc: usize, known: Facts, found: &mut Findings) -> FactSets {
        if let Some(ways) = found.behind.get(&(proc, known)) {
            return *ways;
        }
        let code = &self.procs[proc].code;
        // All jumps go forward.
        let mut before: Vec<FactSets> = vec![0; code.len() + 1];
        before[0] = one(known);
        let mut behind = 0;
        for (at, op) in code.iter().enumerate() {
            let ways = before[at];
            if ways == 0 {
                continue;
            }
            match *op {
                Op::Jump { to } => before[to as usize] |= ways,
                Op::JumpIf { to } | Op::JumpUnless { to } => {
                    let jumps_when = matches!(op, Op::JumpIf { .. });
                    let test = at.checked_sub(1).map(|at| code[at]);
                    for known in all(ways) {
                        before[to as usize] |= one(self.tested(test, jumps_when, known));
                        before[at + 1] |= one(self.tested(test, !jumps_when, known));
                    }
                }
                Op::CallSub { sub } => {
                    for known in all(ways) {
                        let after = self.callee(sub).map_or(one(known), |callee| self.ways(callee, known, found));
                        before[at + 1] |= after;
                    }
                }
                Op::Return { action: Return::Hash } => {
                    let mut leaves = self.procs[proc].leaves.iter();
                    if let Some((_, token)) = leaves.find(|(op, _)| *op as usize == at) {
                        *found.lookups.entry(*token).or_default() |= ways;
                    }
                }
                Op::Return { .. }
                | Op::ReturnStatus { .. }
                | Op::ReturnVcl { .. }
                | Op::ReturnPass
                | Op::ReturnFail => {}
                Op::Leave => behind |= ways,
                op => all(ways).for_each(|known| before[at + 1] |= one(self.done(op, known))),
            }
        }
        behind |= before[code.len()];
        found.behind.insert((proc, known), behind);
        behind
    }

    fn about(&self, head: HeadId, field: u16) -> Option<Facts> {
        let name = self.pool.header_name(field);
        match () {
            () if head != HeadId::Req => None,
            () if name.eq_ignore_ascii_case(b"cookie") => Some(COOKIE_SEEN),
            () if name.eq_ignore_ascii_case(b"authorization") => Some(AUTH_SEEN),
            () => None,
        }
    }

    fn reads(&self, op: Op) -> Facts {
        match op {
            Op::PushField { head, field } | Op::TextField { head, field } | Op::HashField { head, field } => {
                self.about(head, field).unwrap_or(0)
            }
            Op::PushVar { var: Var::ReqMethod } | Op::TextVar { var: Var::ReqMethod } => METHOD_SEEN,
            Op::Call { site } => {
                let call = &self.program.calls[site as usize];
                let module = self.program.imports[call.import as usize].module.as_str();
                let reads = COOKIE_MODULES.contains(&module) && !matches!(call.callee, Callee::Constructor(_));
                if reads { COOKIE_SEEN } else { 0 }
            }
            _ => 0,
        }
    }

    fn done(&self, op: Op, known: Facts) -> Facts {
        match op {
            Op::UnsetField { head, field } | Op::SetFieldText { head, field } => {
                known | self.about(head, field).unwrap_or(0)
            }
            Op::SetVarText { var: Var::ReqMethod } => known | METHOD_SEEN,
            op => known | self.reads(op),
        }
    }

    fn tested(&self, test: Option<Op>, yes: bool, known: Facts) -> Facts {
        let known = LAST.iter().fold(known, |known, last| known & !last);
        let narrow = if yes { known | NARROW } else { known };
        match test {
            Some(Op::TestField { head, field }) => match (self.about(head, field), yes) {
                (Some(COOKIE_SEEN), true) => narrow | HAS_COOKIE,
                (Some(AUTH_SEEN), true) => narrow | HAS_AUTH,
                (Some(seen), _) => known | seen,
                (None, _) => narrow,
            },
            Some(Op::TestFieldStr { head, field, .. } | Op::TestFieldRegex { head, field, .. }) => {
                match self.about(head, field) {
                    Some(seen) => known | seen,
                    None if self.pool.header_name(field).eq_ignore_ascii_case(b"host") => known,
                    None => narrow,
                }
            }
            Some(Op::TestVarStr { var: Var::ReqMethod, str }) => {
                let method = self.pool.text(str);
                let does = [&b"POST"[..], b"PUT", b"PATCH", b"DELETE"].contains(&method);
                match (method, yes) {
                    (b"GET" | b"HEAD", true) => known | METHOD_SEEN,
                    (_, true) if does => narrow | IS_POST,
                    (b"POST", false) => known | METHOD_SEEN,
                    (b"GET" | b"HEAD", false) => known,
                    _ => narrow,
                }
            }
            Some(Op::TestVarRegex { var: Var::ReqMethod, index }) => {
                let pattern = self.pool.pattern(index);
                let says = |word: &[u8]| pattern.windows(word.len()).any(|part| part == word);
                if says(b"GET") || says(b"POST") { known | METHOD_SEEN } else { narrow }
            }
            Some(Op::TestVarRegex { var: Var::ReqUrl, index }) if ALL_URLS.contains(&self.pool.pattern(index)) => known,
            Some(Op::Compare { how: Compare::NotEqual } | Op::TestStatus { how: Compare::NotEqual, .. }) => {
                if yes {
                    known
                } else {
                    known | NARROW
                }
            }
            _ => narrow,
        }
    }
}

fn one(known: Facts) -> FactSets {
    1 << known
}

fn all(ways: FactSets) -> impl Iterator<Item = Facts> {
    (0..FactSets::BITS as Facts).filter(move |known| ways & one(*known) != 0)
}

/// The bits of [`SEEN`] that nothing has tested; on a narrow path only those that it is about.
fn missing(known: Facts) -> Facts {
    let is_missing = |(seen, last): (&Facts, &Facts)| {
        let is_blind = known & NARROW == 0 && known & seen == 0;
        if is_blind || known & last != 0 { *seen } else { 0 }
    };
    SEEN.iter().zip(&LAST).map(is_missing).sum()
}

/// The text of the warning, with examples in the file's own dialect.
fn text(missing: Facts, dialect: Option<Dialect>) -> String {
    let method = if dialect.is_some() { "req.request" } else { "req.method" };
    let reads = format!("({method} != \"GET\" && {method} != \"HEAD\")");
    let pass = if dialect == Some(Dialect::V20) { "pass;" } else { "return (pass);" };
    let says = |bit: Facts, text: &'static str| (missing & bit != 0).then_some(text);
    let what: Vec<&str> =
        [says(COOKIE_SEEN, "with a Cookie"), says(AUTH_SEEN, "with Authorization"), says(METHOD_SEEN, "with POST")]
            .into_iter()
            .flatten()
            .collect();
    let when: Vec<&str> = [
        (missing & METHOD_SEEN != 0).then_some(reads.as_str()),
        says(AUTH_SEEN, "req.http.Authorization"),
        says(COOKIE_SEEN, "req.http.Cookie"),
    ]
    .into_iter()
    .flatten()
    .collect();
    let when = when.join(" || ");
    let when = if when.starts_with('(') && when.ends_with(')') { when } else { format!("({when})") };
    format!(
        "This looks everything up in the cache, also requests {}: a page made for one user may be shown to others.\n\
         The built-in vcl_recv passes them. Leave this return out, or write before it: if {when} {{ {pass} }}\n",
        what.join(", or ")
    )
}
