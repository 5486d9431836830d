// SPDX-License-Identifier: BSD-2-Clause
//! `lacquer vcl explain`: each subroutine's bytecode, under the line of source that it comes from.

use std::fmt::Write;

use base::say;
use vcl::program::{Place, Program};
use vcl::{Compiled, Sources, listing};

use crate::args::Args;
use crate::{compile, out};

pub(crate) fn run(args: &Args, sources: &dyn Sources) -> i32 {
    match compile(&args.files[0], args, sources) {
        Ok(Compiled { program, .. })
            if args.sub.as_ref().is_some_and(|name| program.subs.iter().all(|s| s.name != *name)) =>
        {
            let names: Vec<&str> = program.subs.iter().map(|sub| sub.name.as_str()).collect();
            let name = args.sub.as_deref().unwrap_or_default();
            say::err(format_args!("no subroutine {name}; there are {}\n", names.join(", ")));
            2
        }
        Ok(compiled) => {
            say::err(&compiled.warnings);
            out(text(&compiled.program, args.sub.as_deref(), args.builtin).as_bytes(), 0)
        }
        Err(why) => {
            say::err(format_args!("{}\n", why.trim_end()));
            2
        }
    }
}

/// The program: its declarations, then its subroutines; of the built-in VCL's only when asked for.
fn text(program: &Program, only: Option<&str>, builtin: bool) -> String {
    let mut out = if only.is_none() { listing::declarations(program) } else { String::new() };
    for (n, sub) in program.subs.iter().enumerate() {
        let end = program.subs.get(n + 1).map_or(program.code.len(), |next| next.entry as usize);
        let ops = sub.entry as usize..end;
        let places: Vec<Option<Place>> = ops.clone().map(|pc| place_of(program, pc)).collect();
        let last = program.sources.len() as u32 - 1;
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

fn place_of(program: &Program, pc: usize) -> Option<Place> {
    program.places.get(*program.op_places.get(pc)? as usize).copied()
}

/// The line as it was written, with its number.
fn source_line(program: &Program, place: Option<(u32, u32)>) -> String {
    let Some((number, line)) = place else { return String::new() };
    let Some(source) = program.sources.get(number as usize) else { return String::new() };
    let text = source.text.split(|b| *b == b'\n').nth(line.saturating_sub(1) as usize).unwrap_or_default();
    format!("  {}:{line}: {}\n", source.name, String::from_utf8_lossy(text).trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ops_stand_below_their_lines() {
        let vcl =
            b"vcl 4.1;\nbackend b none;\nsub vcl_recv {\n  if (req.url ~ \"^/a\") {\n    return (pass);\n  }\n}\n";
        let program = vcl::compile("x.vcl", vcl, &vcl::NoSources, &vcl::Options::default()).unwrap().program;
        let shown = text(&program, Some("vcl_recv"), false);
        assert!(shown.starts_with("\nsub vcl_recv:\n"), "{shown}");
        assert!(shown.contains("  x.vcl:4: if (req.url ~ \"^/a\") {\n"), "{shown}");
        assert!(shown.contains("req.url ~ \"^/a\"\n") && shown.contains("return pass\n"), "{shown}");
        let whole = text(&program, None, false);
        assert!(whole.contains("sub vcl_recv:") && !whole.contains("sub vcl_builtin_synth"), "{whole}");
        assert!(text(&program, None, true).contains("sub vcl_synth:"));
    }
}
