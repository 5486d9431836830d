// SPDX-License-Identifier: BSD-2-Clause
//! The optimiser: the same program in fewer steps. It changes neither side effects nor their order nor log records.
//!
//! * A test of an unchanged value runs once. Tests become [`Op::Known`], and the machine forgets the results for a
//!   subject when the subject is set. Since all tests of a subject are known, loading can also combine several of them.
//! * Tests that follow each other while they fail, as in a list of hosts, become a chain ([`Op::Guards`]). The machine
//!   walks it without running the jumps and steps in between.
//! * The code for runs without `VCL_trace` ([`crate::program::LeanCode`]) omits steps, jumps to jumps and calls of empty
//!   subroutines. A subroutine with a single call becomes a part of its caller. One that does nothing but return needn't run at all.
//!
//! Ops keep their indices: only tests are replaced.

use std::collections::HashMap;

use tables::vclsubs::Method;
use tables::vclvars::Var;

use crate::program::{Op, Program, SubId, Subject, SubjectOf, TestGuard, TestOf};

/// Textual parts of start lines, which only VCL's own ops and modules change.
const PARTS: [Var; 8] = [
    Var::ReqUrl,
    Var::ReqMethod,
    Var::ReqProto,
    Var::BereqUrl,
    Var::BereqMethod,
    Var::BereqProto,
    Var::BerespReason,
    Var::RespReason,
];

/// Maximum number of jumps followed between guards. Only a compiler bug could make a cycle of jumps.
const MAX_JUMPS: usize = 16;

pub(crate) fn optimise(program: &mut Program) {
    keep_answers(program);
    let ways = JumpTargets::new(program);
    chain_guards(program, &ways);
    program.lean.ops = lean(program, &ways);
    program.lean.ends = Method::ALL.map(|method| only_return(program, &ways, method));
    program.lean.sets_trace =
        program.code.iter().any(|op| matches!(op, Op::SetVar { var: Var::ReqTrace | Var::BereqTrace }));
}

fn test_of(op: Op) -> Option<(SubjectOf, TestOf)> {
    let part = |var: Var| PARTS.contains(&var).then_some(SubjectOf::Var(var));
    Some(match op {
        Op::TestField { head, field } => (SubjectOf::Field(head, field), TestOf::Set),
        Op::TestFieldStr { head, field, str } => (SubjectOf::Field(head, field), TestOf::Equal(str)),
        Op::TestFieldRegex { head, field, index } => (SubjectOf::Field(head, field), TestOf::Match(index)),
        Op::TestVarStr { var, str } => (part(var)?, TestOf::Equal(str)),
        Op::TestVarRegex { var, index } => (part(var)?, TestOf::Match(index)),
        _ => return None,
    })
}

/// Converts tests of subjects that have more than one to [`Op::Known`].
fn keep_answers(program: &mut Program) {
    // Header names compare without case; the first spelling stands for all.
    let mut first: HashMap<Vec<u8>, u16> = HashMap::new();
    let same: Vec<u16> = (0u16..)
        .zip(&program.constants.headers)
        .map(|(n, name)| *first.entry(name.to_ascii_lowercase()).or_insert(n))
        .collect();
    let test_of = |op: Op| match test_of(op)? {
        (SubjectOf::Field(head, field), test) => Some((SubjectOf::Field(head, same[usize::from(field)]), test)),
        other => Some(other),
    };
    let mut uses: HashMap<SubjectOf, usize> = HashMap::new();
    for (of, _) in program.code.iter().filter_map(|op| test_of(*op)) {
        *uses.entry(of).or_default() += 1;
    }
    let mut numbers: HashMap<SubjectOf, u16> = HashMap::new();
    let mut tests: HashMap<(u16, TestOf), u16> = HashMap::new();
    for op in &mut program.code {
        let Some((of, test)) = test_of(*op).filter(|(of, _)| uses[of] > 1) else { continue };
        let subject = match numbers.get(&of) {
            Some(subject) => *subject,
            None if program.lean.subjects.len() == usize::from(u16::MAX) => continue,
            None => {
                program.lean.subjects.push(Subject { of, tests: Vec::new() });
                let subject = program.lean.subjects.len() as u16 - 1;
                numbers.insert(of, subject);
                subject
            }
        };
        let list = &mut program.lean.subjects[usize::from(subject)].tests;
        let number = match tests.get(&(subject, test)) {
            Some(number) => *number,
            None if list.len() == Subject::MAX_TESTS => continue,
            None => {
                list.push(test);
                tests.insert((subject, test), list.len() as u16 - 1);
                list.len() as u16 - 1
            }
        };
        *op = Op::Known { subject, test: number };
    }
}

/// Converts [`Op::Known`] tests to [`Op::Guards`] if a jump follows and failure leads to another such test.
fn chain_guards(program: &mut Program, ways: &JumpTargets) {
    let mut numbers: HashMap<u32, u32> = HashMap::new();
    let mut guards: Vec<TestGuard> = Vec::new();
    for (pc, pair) in program.code.windows(2).enumerate() {
        let pc = pc as u32;
        let (then, otherwise) = match (pair[0], pair[1]) {
            (Op::Known { .. }, Op::JumpIf { to }) => (to, pc + 2),
            (Op::Known { .. }, Op::JumpUnless { to }) => (pc + 2, to),
            _ => continue,
        };
        let Op::Known { subject, test } = pair[0] else { continue };
        numbers.insert(pc, guards.len() as u32);
        let [then, otherwise] = [then, otherwise].map(|to| ways.landing(to));
        guards.push(TestGuard { subject, test, then, next: None, otherwise, pc });
    }
    for guard in &mut guards {
        guard.next = numbers.get(&guard.otherwise).copied();
    }
    for (at, guard) in guards.iter().enumerate().filter(|(_, guard)| guard.next.is_some()) {
        program.code[guard.pc as usize] = Op::Guards { at: at as u32 };
    }
    program.lean.guards = guards;
}

/// The code with each op in its place and jumps that skip ops without effect.
fn lean(program: &Program, ways: &JumpTargets) -> Vec<Op> {
    let to = |pc: u32| ways.landing(pc);
    let lean = |(pc, op): (usize, &Op)| match (*op, ways.0[pc]) {
        (_, Some(_)) => Op::Jump { to: to(pc as u32) },
        (Op::JumpIf { to: then }, None) => Op::JumpIf { to: to(then) },
        (Op::JumpUnless { to: then }, None) => Op::JumpUnless { to: to(then) },
        (Op::CallSub { sub }, None) => Op::CallAt { to: to(program.subs[sub as usize].entry) },
        (other, None) => other,
    };
    program.code.iter().enumerate().map(lean).collect()
}

/// The `return` of a built-in subroutine that does nothing else.
fn only_return(program: &Program, ways: &JumpTargets, method: Method) -> Option<u32> {
    let sub = program.subs.get(program.methods[method as usize] as usize)?;
    let first = ways.landing(sub.entry);
    matches!(program.code.get(first as usize), Some(Op::Return { .. })).then_some(first)
}

/// For each op without effect (or none left to do), the op that follows it.
struct JumpTargets(Vec<Option<u32>>);

impl JumpTargets {
    fn new(program: &Program) -> JumpTargets {
        let code = &program.code;
        let way = |(pc, op): (u32, &Op)| match *op {
            Op::Jump { to } => Some(to),
            Op::Step { .. } => Some(pc + 1),
            Op::CallSub { sub } if does_nothing(program, sub) => Some(pc + 1),
            _ => None,
        };
        let mut ways: Vec<Option<u32>> = (0u32..).zip(code).map(way).collect();
        for (sub, call) in single_calls(program) {
            let body = body(program, sub);
            if code[body.clone()].iter().any(|op| matches!(op, Op::SetVar { var: Var::BerespUncacheable })) {
                // The machine records which subroutine called a setter of `beresp.uncacheable`, so the call remains.
                continue;
            }
            ways[call as usize].get_or_insert(body.start as u32);
            for leave in body.filter(|pc| code[*pc] == Op::Leave) {
                ways[leave] = Some(call + 1);
            }
        }
        JumpTargets(ways)
    }

    /// The op that is reached from `pc`.
    fn landing(&self, mut pc: u32) -> u32 {
        for _ in 0..MAX_JUMPS {
            match self.0.get(pc as usize) {
                Some(Some(to)) => pc = *to,
                _ => break,
            }
        }
        pc
    }
}

fn single_calls(program: &Program) -> HashMap<SubId, u32> {
    let mut calls: HashMap<SubId, Option<u32>> = HashMap::new();
    for (pc, op) in (0u32..).zip(&program.code) {
        match *op {
            Op::CallSub { sub } => drop(calls.entry(sub).and_modify(|call| *call = None).or_insert(Some(pc))),
            // A SUB value may be called from anywhere.
            Op::PushSub { sub } => drop(calls.insert(sub, None)),
            _ => {}
        }
    }
    for method in program.methods {
        calls.insert(method, None);
    }
    calls.into_iter().filter_map(|(sub, call)| Some((sub, call?))).collect()
}

/// The ops of a subroutine; they are stored in the order of the subroutines.
fn body(program: &Program, sub: SubId) -> std::ops::Range<usize> {
    let next = program.subs.get(sub as usize + 1).map_or(program.code.len(), |next| next.entry as usize);
    program.subs[sub as usize].entry as usize..next
}

fn does_nothing(program: &Program, sub: SubId) -> bool {
    let mut ops = program.code[program.subs[sub as usize].entry as usize..].iter();
    matches!(ops.find(|op| !matches!(op, Op::Step { .. })), Some(Op::Leave))
}

#[cfg(test)]
mod tests {
    use tables::vclsubs::{Method, Return};

    use crate::listing::listing;
    use crate::program::{Op, Program};
    use crate::{CompileOptions, SourceBundle, compile};

    fn compiled(body: &str) -> Program {
        let text =
            format!("vcl 4.1; backend b none; sub vcl_recv {{ {body} }} sub vcl_builtin_recv {{ return (hash); }}");
        let compiled = compile("<vcl.inline>", text.as_bytes(), &SourceBundle::default(), &CompileOptions::default());
        compiled.unwrap_or_else(|e| panic!("{}", e)).program
    }

    fn shown(body: &str) -> String {
        listing(&compiled(body))
    }

    #[test]
    fn a_list_of_hosts_is_a_chain() {
        let text = shown(
            "if (req.http.host == \"a\") { return (pass); } elsif (req.http.Host == \"b\") { return (pipe); } \
             if (req.http.host ~ \"c$\") { return (hash); }",
        );
        assert!(text.contains("guards [req.http.host == \"a\" -> "), "{text}");
        let chain = text.lines().find(|line| line.contains("guards [req.http.host == \"a\"")).unwrap();
        assert!(
            chain.contains("[req.http.host == \"b\" -> ") && chain.contains("[req.http.host ~ \"c$\" -> "),
            "{text}"
        );
    }

    #[test]
    fn what_does_nothing_is_left_out() {
        let program = compiled("if (req.url) { } if (req.url == \"/\") { return (pass); } call vcl_req_url;");
        let entry = program.subs.iter().find(|sub| sub.name == "vcl_recv").map(|sub| sub.entry as usize).unwrap();
        let lean = &program.lean.ops[entry..];
        assert!(!lean.iter().any(|op| matches!(op, Op::Step { .. } | Op::CallSub { .. })), "{lean:?}");
        let to = |op: &Op| match *op {
            Op::Jump { to } | Op::JumpIf { to } | Op::JumpUnless { to } | Op::CallAt { to } => Some(to as usize),
            _ => None,
        };
        assert!(lean.iter().filter_map(to).count() > 3, "{lean:?}");
        assert!(!lean.iter().filter_map(to).any(|to| matches!(program.lean.ops[to], Op::Jump { .. })), "{lean:?}");
    }

    #[test]
    fn what_is_called_once_is_a_part_of_its_caller() {
        let lean = |body: &str| {
            let program = compiled(body);
            let recv = super::body(&program, program.methods[0]);
            program.lean.ops[recv].iter().filter(|op| matches!(op, Op::CallAt { .. })).count()
        };
        let once = "call once; return (pass); } sub once { if (req.url == \"/\") { return (pipe); }";
        assert_eq!(lean(once), 0);
        let twice = "call twice; call twice; return (pass); } sub twice { if (req.url == \"/\") { return (pipe); }";
        assert_eq!(lean(twice), 2);
    }

    #[test]
    fn subroutines_that_only_return_are_known() {
        let program = compiled("if (req.url == \"/\") { return (pass); }");
        let end = |method: Method| program.lean.ends[method as usize].map(|pc| program.code[pc as usize]);
        assert_eq!(end(Method::Hit), Some(Op::Return { action: Return::Deliver }));
        assert_eq!(end(Method::Pass), Some(Op::Return { action: Return::Fetch }));
        assert_eq!([Method::Recv, Method::Hash, Method::BackendResponse].map(end), [None; 3]);
    }

    #[test]
    fn a_test_that_is_alone_stays() {
        let text = shown("if (req.http.x ~ \"a\") { return (pass); }");
        assert!(text.contains("test   req.http.x ~ \"a\""), "{text}");
    }
}
