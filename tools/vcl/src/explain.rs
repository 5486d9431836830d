// SPDX-License-Identifier: BSD-2-Clause
//! `lacquer vcl explain`: describes a VCL in words. With `--code`, it shows each subroutine's bytecode under the source lines. A file in an
//! old dialect is converted by `lacquer vcl migrate` first.

use std::fmt::Write;

use serde_json::{Value, json};
use toolkit::print;
use vcl::program::{AclDecl, BackendAddress, BackendDecl, Program, SourceLocation};
use vcl::{DiagnosticSeverity, Sources, listing};

use crate::args::{CheckFormat, VclArgs};
use crate::judge;
use crate::policy::{self, Fact, SubSummary};
use crate::show::{self, Colours};
use crate::texts::OpenTexts;
use crate::{options, out, read};

pub(crate) fn run(args: &VclArgs, sources: &dyn Sources) -> i32 {
    match explained(args, sources) {
        Ok(text) => out(text.as_bytes(), 0),
        Err(reason) => {
            print::err(format_args!("{}\n", reason.trim_end()));
            2
        }
    }
}

fn explained(args: &VclArgs, sources: &dyn Sources) -> Result<String, String> {
    let (name, text) = read(&args.files[0], sources)?;
    let mut texts = OpenTexts::new(sources, args.dialect);
    texts.put(&name, &name, text.clone(), Value::Null);
    let found = judge::judge(&texts, &name, args).findings.into_iter();
    let errors: Vec<String> = found
        .filter(|found| found.diagnostic.severity == DiagnosticSeverity::Error)
        .map(|found| show::finding(&found, Colours::of(&std::io::stderr())))
        .collect();
    if !errors.is_empty() {
        return Err(errors.join("\n"));
    }
    let compiled = judge::program(&texts, &name, args)?;
    if args.code {
        print::err(compiled.warnings.to_string());
        known_sub(args, &compiled.program.subs.iter().map(|sub| sub.name.clone()).collect::<Vec<_>>())?;
        return Ok(code(&compiled.program, args.sub.as_deref(), args.builtin));
    }
    let dialect = compiled.program.dialect.map(vcl::Dialect::name);
    if dialect.is_some() {
        let migrated =
            vcl::migrate(&name, &text, &texts.overlay(&name), &options(args)).map_err(|reason| reason.to_string())?;
        texts.put(&name, &name, migrated.text, Value::Null);
    }
    let mut told = policy::summarize(&texts, &name);
    let names: Vec<String> = told.iter().map(|told| told.sub.clone()).collect();
    known_sub(args, &names)?;
    told.retain(|told| args.sub.as_ref().is_none_or(|sub| *sub == told.sub));
    let policy = Policy { file: &args.files[0], name: &name, dialect, program: &compiled.program, told };
    Ok(match args.format {
        CheckFormat::Json => format!("{}\n", policy.as_json()),
        CheckFormat::Text => policy.as_text(args.sub.is_none()),
    })
}

fn known_sub(args: &VclArgs, names: &[String]) -> Result<(), String> {
    match &args.sub {
        Some(name) if !names.contains(name) => Err(format!("no subroutine {name}; there are {}", names.join(", "))),
        _ => Ok(()),
    }
}

/// The facts about one VCL.
struct Policy<'a> {
    file: &'a str,
    /// The file's name as it appears in places.
    name: &'a str,
    dialect: Option<&'static str>,
    program: &'a Program,
    told: Vec<SubSummary>,
}

impl Policy<'_> {
    fn as_text(&self, whole: bool) -> String {
        let mut out = String::new();
        if whole {
            let _ = writeln!(out, "{}: VCL {}", self.file, self.version());
            self.declarations(&mut out);
        }
        if self.dialect.is_some() {
            out.push_str("Lines are those of what `lacquer vcl migrate` makes of it.\n");
        }
        for told in &self.told {
            let _ = writeln!(out, "\n{}{}", told.sub, if told.facts.is_empty() { " (built in)" } else { ":" });
            for fact in &told.facts {
                let _ = writeln!(out, "  {:>12}  {}", self.place(fact), sentence(fact));
            }
            if !told.builtin.is_empty() && !told.is_final {
                let then = if told.facts.is_empty() { "" } else { "Then the built-in one: " };
                let _ = writeln!(out, "  {:>12}  {then}{}", "", told.builtin);
            }
        }
        out
    }

    fn version(&self) -> String {
        self.dialect.map_or_else(|| format!("{}.{}", self.program.syntax / 10, self.program.syntax % 10), str::to_owned)
    }

    /// `line 5`, preceded by the file's name if it isn't the first file.
    fn place(&self, fact: &Fact) -> String {
        if fact.source == self.name {
            return format!("line {}", fact.line);
        }
        format!("{}:{}", fact.source.rsplit('/').next().unwrap_or_default(), fact.line)
    }

    fn backends(&self) -> impl Iterator<Item = &BackendDecl> {
        self.program.backends.iter().filter(|backend| backend.name != judge::STAND_IN_BACKEND)
    }

    fn declarations(&self, out: &mut String) {
        let default = self.program.default_backend.map(|index| index as usize);
        for (n, backend) in self.program.backends.iter().enumerate() {
            if backend.name == judge::STAND_IN_BACKEND {
                continue;
            }
            let is_default = default == Some(n);
            let mark = if is_default { " (what isn't sent elsewhere comes here)" } else { "" };
            let _ = writeln!(out, "backend {}: {}{mark}", backend.name, address(backend));
        }
        for acl in &self.program.acls {
            let _ = writeln!(out, "acl {}: {}", acl.name, entries(acl).join(", "));
        }
    }

    fn as_json(&self) -> Value {
        let fact = |fact: &Fact| json!({ "source": fact.source, "line": fact.line, "about": fact.about, "text": fact.text, "when": fact.when });
        let sub = |told: &SubSummary| {
            let builtin = if told.is_final { "" } else { told.builtin };
            let facts: Vec<Value> = told.facts.iter().map(fact).collect();
            json!({ "name": told.sub, "facts": facts, "builtin": builtin })
        };
        let backends: Vec<Value> =
            self.backends().map(|backend| json!({ "name": backend.name, "address": address(backend) })).collect();
        let acls: Vec<Value> =
            self.program.acls.iter().map(|acl| json!({ "name": acl.name, "entries": entries(acl) })).collect();
        json!({
            "file": self.file,
            "dialect": self.version(),
            "lines_of": if self.dialect.is_some() { "migrate" } else { "file" },
            "backends": backends,
            "acls": acls,
            "subs": self.told.iter().map(sub).collect::<Vec<_>>(),
        })
    }
}

/// The fact as a sentence: the action, then its conditions.
fn sentence(fact: &Fact) -> String {
    let mut text = fact.text.clone();
    if !text.starts_with('`')
        && let Some(first) = text.get(..1)
    {
        text.replace_range(..1, &first.to_uppercase());
    }
    let when = conditions(&fact.when);
    if when.is_empty() { format!("{text}.") } else { format!("{text}, if {when}.") }
}

/// Joins all conditions. After `a or b`, a following `a` makes the first one redundant.
fn conditions(when: &[String]) -> String {
    let is_said = |n: usize, one: &String| {
        let mut parts = one.split(" or ");
        parts.clone().count() > 1 && parts.any(|part| when[n + 1..].iter().any(|later| later == part))
    };
    let left: Vec<&String> = when.iter().enumerate().filter(|(n, one)| !is_said(*n, one)).map(|(_, one)| one).collect();
    let grouped = |one: &&String| match left.len() > 1 && one.contains(" or ") && !one.starts_with("not (") {
        true => format!("({one})"),
        false => (*one).clone(),
    };
    left.iter().map(grouped).collect::<Vec<_>>().join(", and ")
}

fn address(backend: &BackendDecl) -> String {
    match &backend.address {
        BackendAddress::Inet { host, port, .. } => format!("{host} port {}", port.as_deref().unwrap_or("80")),
        BackendAddress::Unix(path) => path.display().to_string(),
        BackendAddress::None => "none".to_owned(),
    }
}

fn entries(acl: &AclDecl) -> Vec<String> {
    let entry = |entry: &vcl::program::AclEntry| {
        let mask = entry.mask.map(|mask| format!("/{mask}")).unwrap_or_default();
        format!("{}{}{mask}", if entry.negated { "not " } else { "" }, entry.addr)
    };
    acl.entries.iter().map(entry).collect()
}

/// The program: its declarations, then its subroutines. Those of the built-in VCL appear only on request.
fn code(program: &Program, only: Option<&str>, builtin: bool) -> String {
    let mut out = if only.is_none() { listing::declarations(program) } else { String::new() };
    for (n, sub) in program.subs.iter().enumerate() {
        let end = program.subs.get(n + 1).map_or(program.code.len(), |next| next.entry as usize);
        let ops = sub.entry as usize..end;
        let places: Vec<Option<SourceLocation>> = ops.clone().map(|pc| program.map.place(pc)).collect();
        let last = program.map.sources.len() as u32 - 1;
        let all_builtin = places.iter().flatten().all(|place| place.source == last);
        match only {
            Some(name) if name != sub.name => continue,
            None if all_builtin && !builtin => continue,
            _ => {}
        }
        let _ = writeln!(out, "\nsub {}:", sub.name);
        let mut shown = None;
        for (pc, place) in ops.zip(places) {
            let here = place.map(|p| (p.source, p.line));
            if here != shown {
                shown = here;
                out.push_str(&source_line(program, here));
            }
            let _ = writeln!(out, "    {pc:6}  {}", listing::op_text(program, program.code[pc]));
        }
    }
    out
}

/// The source line as written, with its number.
fn source_line(program: &Program, place: Option<(u32, u32)>) -> String {
    let Some((number, line)) = place else { return String::new() };
    let Some(source) = program.map.sources.get(number as usize) else { return String::new() };
    let text = source.text.split(|b| *b == b'\n').nth(line.saturating_sub(1) as usize).unwrap_or_default();
    format!("  {}:{line}: {}\n", source.name, String::from_utf8_lossy(text).trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ops_stand_below_their_lines() {
        let vcl =
            b"vcl 4.1;\nbackend b none;\nsub vcl_recv {\n  if (server.hostname ~ \"^a\") {\n    return (pass);\n  }\n}\n";
        let program = vcl::compile("x.vcl", vcl, &vcl::NoSources, &vcl::CompileOptions::default()).unwrap().program;
        let shown = code(&program, Some("vcl_recv"), false);
        assert!(shown.starts_with("\nsub vcl_recv:\n"), "{shown}");
        assert!(shown.contains("  x.vcl:4: if (server.hostname ~ \"^a\") {\n"), "{shown}");
        assert!(shown.contains("server.hostname ~ \"^a\"\n") && shown.contains("return pass\n"), "{shown}");
        let whole = code(&program, None, false);
        assert!(whole.contains("sub vcl_recv:") && !whole.contains("sub vcl_builtin_synth"), "{whole}");
        assert!(code(&program, None, true).contains("sub vcl_synth:"));
    }

    #[test]
    fn conditions_are_joined_without_doubt() {
        let join = |all: &[&str]| conditions(&all.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>());
        assert_eq!(join(&["a or b"]), "a or b");
        assert_eq!(join(&["a or b", "c"]), "(a or b), and c");
        assert_eq!(join(&["a or b", "b"]), "b");
        assert_eq!(join(&["not (a or b)", "c"]), "not (a or b), and c");
    }

    #[test]
    fn a_policy_is_told_as_text_and_as_json() {
        let text = "vcl 4.1;\nbackend web { .host = \"web.example\"; }\nacl p { ! \"10.0.0.0\"/8; }\nsub vcl_recv {\n  \
                    if (client.ip ~ p) { return (pipe); }\n}\nsub vcl_hash { hash_data(req.url); return (lookup); }\n";
        let program =
            vcl::compile("/x.vcl", text.as_bytes(), &AnyHost, &vcl::CompileOptions::default()).unwrap().program;
        let mut texts = OpenTexts::new(&vcl::NoSources, None);
        texts.put("/x.vcl", "/x.vcl", text.as_bytes().to_vec(), Value::Null);
        let told = policy::summarize(&texts, "/x.vcl");
        let policy = Policy { file: "x.vcl", name: "/x.vcl", dialect: None, program: &program, told };
        let shown = policy.as_text(true);
        for want in [
            "x.vcl: VCL 4.1\nbackend web: web.example port 80 (what isn't sent elsewhere comes here)\nacl p: not 10.0.0.0/8\n",
            "vcl_recv:\n        line 5  Piped: bytes go to and fro unread until the connection ends, if the client is in acl p.\n",
            "Then the built-in one: An unknown method is answered 501.",
            "\nvcl_backend_response (built in)\n                An answer that sets a cookie",
        ] {
            assert!(shown.contains(want), "{want}\n---\n{shown}");
        }
        // The subroutine returns, so the built-in one is never reached.
        assert!(!shown.contains("tell objects apart."), "{shown}");
        let json = policy.as_json();
        assert_eq!(
            (&json["subs"][0]["facts"][0]["about"], &json["subs"][0]["facts"][0]["line"]),
            (&json!("piped"), &json!(5))
        );
    }

    struct AnyHost;

    impl Sources for AnyHost {
        fn read(&self, path: &str) -> Result<(String, Vec<u8>), String> {
            vcl::NoSources.read(path)
        }

        fn glob(&self, pattern: &str) -> Result<Vec<String>, String> {
            vcl::NoSources.glob(pattern)
        }

        fn resolve(&self, _: &str) -> Result<Vec<std::net::IpAddr>, String> {
            Ok(vec![std::net::IpAddr::from([192, 0, 2, 1])])
        }

        fn is_socket(&self, path: &str) -> Result<bool, String> {
            vcl::NoSources.is_socket(path)
        }
    }
}
