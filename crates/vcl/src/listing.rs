// SPDX-License-Identifier: BSD-2-Clause
//! Prints a program as readable text for `-C` and `lacquer vcl explain`.

use std::fmt::Write;

use crate::program::{Op, Program, SubjectOf, TestOf};

pub fn listing(program: &Program) -> String {
    let mut out = declarations(program);
    for (n, sub) in program.subs.iter().enumerate() {
        let end = program.subs.get(n + 1).map_or(program.code.len(), |next| next.entry as usize);
        let _ = writeln!(out, "\nsub {}:", sub.name);
        subroutine(program, sub.entry as usize..end, &mut out);
    }
    out
}

/// Lists the declarations, without subroutines.
pub fn declarations(program: &Program) -> String {
    let mut out = format!("# VCL {}.{}\n", program.syntax / 10, program.syntax % 10);
    for (n, source) in program.map.sources.iter().enumerate() {
        let _ = writeln!(out, "# source {n}: {} ({} bytes)", source.name, source.text.len());
    }
    for import in &program.imports {
        let _ = writeln!(out, "import {} as {}", import.module, import.name);
    }
    for backend in &program.backends {
        let _ = writeln!(out, "backend {} {:?}", backend.name, backend.address);
    }
    for acl in &program.acls {
        let _ = writeln!(out, "acl {} ({} entries)", acl.name, acl.entries.len());
    }
    out
}

fn subroutine(program: &Program, ops: std::ops::Range<usize>, out: &mut String) {
    let mut last = None;
    for pc in ops {
        let place = program.map.place(pc);
        let shown = match place {
            Some(p) if last != Some((p.source, p.line)) => format!("{}.{}", p.source, p.line),
            _ => String::new(),
        };
        last = place.map(|p| (p.source, p.line));
        let _ = writeln!(out, "{shown:>8} {pc:5}  {}", op_text(program, program.code[pc]));
    }
}

fn quoted(bytes: &[u8]) -> String {
    const MAX: usize = 60;
    let dots = if bytes.len() > MAX { "..." } else { "" };
    format!("\"{}\"{dots}", bytes[..bytes.len().min(MAX)].escape_ascii())
}

fn test_text(program: &Program, subject: u16, test: u16) -> String {
    let subject = &program.lean.subjects[subject as usize];
    let of = match subject.of {
        SubjectOf::Field(head, n) => {
            format!("{}.http.{}", head.name(), String::from_utf8_lossy(&program.constants.headers[n as usize]))
        }
        SubjectOf::Var(var) => var.name().to_owned(),
    };
    match subject.tests[test as usize] {
        TestOf::Set => of,
        TestOf::Equal(str) => format!("{of} == {}", quoted(&program.constants.strings[str as usize])),
        TestOf::Match(index) => format!("{of} ~ {}", quoted(&program.constants.regexes[index as usize])),
    }
}

fn guards_text(program: &Program, at: u32) -> String {
    const MAX: usize = 8;
    let chain: Vec<_> =
        std::iter::successors(Some(at), |at| program.lean.guards[*at as usize].next).take(MAX + 1).collect();
    let mut out = "guards".to_owned();
    for at in chain.iter().take(MAX) {
        let guard = program.lean.guards[*at as usize];
        let _ = write!(out, " [{} -> {}]", test_text(program, guard.subject, guard.test), guard.then);
    }
    match chain.get(MAX) {
        Some(_) => out.push_str(" ..."),
        None => drop(write!(out, " -> {}", program.lean.guards[chain[chain.len() - 1] as usize].otherwise)),
    }
    out
}

pub fn op_text(program: &Program, op: Op) -> String {
    let field = |n: u16| String::from_utf8_lossy(&program.constants.headers[n as usize]).into_owned();
    let line = |head: tables::vclvars::HeadId, n: u16| format!("{}.http.{}", head.name(), field(n));
    let text = |n: u32| quoted(&program.constants.strings[n as usize]);
    let regex = |n: u32| quoted(&program.constants.regexes[n as usize]);
    match op {
        Op::TestField { head, field } => format!("test   {}", line(head, field)),
        Op::TestFieldStr { head, field, str } => format!("test   {} == {}", line(head, field), text(str)),
        Op::TestFieldRegex { head, field, index } => format!("test   {} ~ {}", line(head, field), regex(index)),
        Op::TestVarStr { var, str } => format!("test   {} == {}", var.name(), text(str)),
        Op::TestVarRegex { var, index } => format!("test   {} ~ {}", var.name(), regex(index)),
        Op::TestStatus { var, how, status } => format!("test   {} {} {status}", var.name(), how.sign()),
        Op::Known { subject, test } => format!("known  {}", test_text(program, subject, test)),
        Op::Guards { at } => guards_text(program, at),
        Op::TestRegex { index } => format!("test   ~ {}", regex(index)),
        Op::JumpIf { to } => format!("if     -> {to}"),
        Op::JumpUnless { to } => format!("unless -> {to}"),
        Op::Jump { to } => format!("jump   -> {to}"),
        Op::CallAt { to } => format!("call   -> {to}"),
        Op::CallSub { sub } => format!("call   {}", program.subs[sub as usize].name),
        Op::Return { action } => format!("return {}", action.name()),
        Op::ReturnStatus { action, .. } => format!("return {}(...)", action.name()),
        Op::ReturnVcl { label } => format!("return vcl({})", program.labels[label as usize]),
        Op::PushStr { str } => format!("push   {}", text(str)),
        Op::PushField { head, field } => format!("push   {}", line(head, field)),
        Op::PushVar { var } => format!("push   {}", var.name()),
        Op::PushInt { index } | Op::PushBytes { index } => format!("push   {}", program.constants.ints[index as usize]),
        Op::PushReal { index } | Op::PushDuration { index } | Op::PushTime { index } => {
            format!("push   {}", program.constants.reals[index as usize])
        }
        Op::TextStr { str } => format!("text   {}", text(str)),
        Op::TextField { head, field } => format!("text   {}", line(head, field)),
        Op::TextVar { var } => format!("text   {}", var.name()),
        Op::SetVar { var } | Op::SetVarText { var } => format!("set    {}", var.name()),
        Op::SetFieldText { head, field } => format!("set    {}", line(head, field)),
        Op::UnsetField { head, field } => format!("unset  {}", line(head, field)),
        Op::UnsetVar { var } => format!("unset  {}", var.name()),
        Op::Call { site } | Op::New { site } => {
            let call = &program.calls[site as usize];
            format!("call   {} {:?}", program.imports[call.import as usize].name, call.callee)
        }
        other => format!("{other:?}").to_lowercase(),
    }
}
