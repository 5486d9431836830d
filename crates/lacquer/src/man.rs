// SPDX-License-Identifier: BSD-2-Clause
//! Manuals in roff: prose from `man/*.txt`, facts from the tables that the programs themselves use.
//!
//! Prose is text with `# ` before headings, `- word :: text` for entries of lists and four spaces before what is shown
//! as it is; `@name` alone on a line is replaced by what a table says.

mod vmods;

use base::say;
use logq::getopt::Opt;
use tables::counters::{Elem, Set};
use tables::tags::TagKind;
use tables::vcltext::{self, STATEMENTS};
use tables::vclvars::{Method, Return, VARS};

/// Name, section, one line, prose.
type Page = (&'static str, u8, &'static str, &'static str);

const PAGES: &[Page] = &[
    ("lacquer", 1, "an HTTP accelerator and its tools", include_str!("man/lacquer.txt")),
    ("varnishd", 1, "HTTP accelerator", include_str!("man/varnishd.txt")),
    ("varnishlog", 1, "show or keep the log", include_str!("man/varnishlog.txt")),
    ("varnishncsa", 1, "the log as web servers write it", include_str!("man/varnishncsa.txt")),
    ("varnishstat", 1, "show the counters", include_str!("man/varnishstat.txt")),
    ("varnishtop", 1, "the log's commonest entries", include_str!("man/varnishtop.txt")),
    ("varnishhist", 1, "how times and sizes are distributed", include_str!("man/varnishhist.txt")),
    ("varnishadm", 1, "commands to a running varnishd", include_str!("man/varnishadm.txt")),
    ("varnishreload", 1, "load a VCL again", include_str!("man/varnishreload.txt")),
    ("lacquer-explain", 1, "would this URL be a hit, and if not, why", include_str!("man/lacquer-explain.txt")),
    ("vcl", 7, "the configuration language", include_str!("man/vcl.txt")),
    ("varnish-cli", 7, "the commands of the manager", include_str!("man/varnish-cli.txt")),
    ("vsl", 7, "what the log says", include_str!("man/vsl.txt")),
    ("vsl-query", 7, "queries on the log", include_str!("man/vsl-query.txt")),
    ("varnish-counters", 7, "what is counted", include_str!("man/varnish-counters.txt")),
];

const USAGE: &str = "\
usage: lacquer man [PAGE | -d DIR]

Without anything: which pages there are. With PAGE: that page, in roff (`lacquer man vsl | man -l -`).

  -d DIR   writes all pages into DIR/man1, DIR/man3 and DIR/man7
";

/// `lacquer man`: lists the pages; with a name prints one; with a directory after `-d` writes all.
pub fn main(args: &[String]) -> i32 {
    match args {
        [] => {
            PAGES.iter().for_each(|(name, section, line, _)| say::out(format_args!("{name}({section})  {line}\n")));
            vmods::all().for_each(|(name, module)| say::out(format_args!("{name}(3)  {}\n", module.text)));
            0
        }
        [flag] if ["-h", "--help", "-?"].contains(&flag.as_str()) => {
            say::out(USAGE);
            0
        }
        [flag, dir] if flag == "-d" => match write_all(dir) {
            Ok(()) => 0,
            Err(error) => {
                say::err(format_args!("{dir}: {error}\n"));
                1
            }
        },
        [name] => match PAGES.iter().find(|page| page.0 == name) {
            Some(page) => {
                say::out(roff(page));
                0
            }
            None if vmods::module(name).is_some() => {
                vmods::module(name).into_iter().for_each(|module| say::out(vmods::roff(module)));
                0
            }
            None => {
                say::err(format_args!("lacquer man: no page {name:?}\n"));
                2
            }
        },
        _ => {
            say::err(USAGE);
            2
        }
    }
}

fn write_all(dir: &str) -> std::io::Result<()> {
    for page in PAGES {
        let dir = format!("{dir}/man{}", page.1);
        std::fs::create_dir_all(&dir)?;
        std::fs::write(format!("{dir}/{}.{}", page.0, page.1), roff(page))?;
    }
    std::fs::create_dir_all(format!("{dir}/man3"))?;
    for (name, module) in vmods::all() {
        std::fs::write(format!("{dir}/man3/{name}.3"), vmods::roff(module))?;
    }
    Ok(())
}

fn escape(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    if text.starts_with(['.', '\'']) { format!("\\&{text}") } else { text }
}

fn roff((name, section, line, prose): &Page) -> String {
    let title = name.to_uppercase();
    let mut out = format!(".TH {title} {section} \"\" \"Lacquer {}\"\n.SH NAME\n", env!("CARGO_PKG_VERSION"));
    out.push_str(&format!("{} \\- {}\n", escape(name), escape(line)));
    let mut is_literal = false;
    for text in prose.lines() {
        let literal = text.strip_prefix("    ");
        if literal.is_some() != is_literal && !(text.is_empty() && is_literal) {
            out.push_str(if is_literal { ".fi\n.RE\n" } else { ".RS 4\n.nf\n" });
            is_literal = !is_literal;
        }
        if let Some(literal) = literal {
            out.push_str(&format!("{}\n", escape(literal)));
        } else if let Some(heading) = text.strip_prefix("# ") {
            out.push_str(&format!(".SH {}\n", escape(heading)));
        } else if let Some((term, text)) = text.strip_prefix("- ").and_then(|t| t.split_once(" :: ")) {
            out.push_str(&entry(term, text));
        } else if let Some(table) = text.strip_prefix('@') {
            out.push_str(&from_table(table));
        } else if text.is_empty() {
            out.push_str(if is_literal { "\n" } else { ".PP\n" });
        } else {
            out.push_str(&format!("{}\n", escape(text)));
        }
    }
    if is_literal {
        out.push_str(".fi\n.RE\n");
    }
    out
}

fn entry(term: &str, text: &str) -> String {
    let lines: Vec<String> = text.lines().filter(|l| !l.trim().is_empty()).map(|l| escape(l.trim())).collect();
    format!(".TP\n\\fB{}\\fR\n{}\n", escape(term), lines.join("\n"))
}

fn from_table(table: &str) -> String {
    match table {
        "log" => options(lacquer_log::OPTIONS),
        "ncsa" => options(lacquer_ncsa::OPTIONS),
        "stat" => options(lacquer_stat::OPTIONS),
        "top" => options(lacquer_top::OPTIONS),
        "hist" => options(lacquer_hist::OPTIONS),
        "profiles" => lacquer_hist::profiles().iter().map(|(name, text)| entry(name, text)).collect(),
        "tags" => tags(),
        "counters" => counters(),
        "params" => params(),
        "commands" => commands(),
        "variables" => variables(),
        "subs" => subs(),
        "reasons" => reasons(),
        "actions" => actions(),
        "statements" => statements(),
        // A test asks for every page.
        other => panic!("no table @{other}"),
    }
}

fn options(options: &[Opt]) -> String {
    let one = |Opt(letter, value, help): &Opt| {
        let term = if value.is_empty() { format!("-{letter}") } else { format!("-{letter} <{value}>") };
        entry(&term, help)
    };
    options.iter().map(one).collect()
}

fn tags() -> String {
    let one = |tag: &tables::Tag| {
        let kind = match tag.kind() {
            TagKind::Plain => "",
            TagKind::Unsafe => " (quoted: may hold control characters)",
            TagKind::Unused => " (not written)",
            TagKind::Binary => " (binary)",
        };
        entry(&format!("{}{kind}", tag.name()), tag.text())
    };
    tables::Tag::ALL.iter().map(one).collect()
}

fn counters() -> String {
    use tables::counters::{Lck, Main, Mempool, Mgt, NoHitCounts, Sma, Smf, Vbe, Xkey};
    fn set<S: Set>() -> String {
        let one = |elem: &Elem| {
            let text = if elem.docs.is_empty() { elem.oneliner } else { elem.docs };
            entry(&format!("{} ({:?}, {:?})", elem.name, elem.kind, elem.level).to_lowercase(), text)
        };
        format!(".SH {}\n{}.\n{}", S::NAME, escape(S::ONELINER), S::ELEMS.iter().map(one).collect::<String>())
    }
    [
        set::<Main>(),
        set::<NoHitCounts>(),
        set::<Mgt>(),
        set::<Mempool>(),
        set::<Sma>(),
        set::<Smf>(),
        set::<Vbe>(),
        set::<Lck>(),
        set::<Xkey>(),
    ]
    .concat()
}

fn params() -> String {
    let one = |spec: &tables::params::Spec| {
        let unit = if spec.unit.is_empty() { String::new() } else { format!(" {}", spec.unit) };
        let range = |what: &str, value: Option<&str>| value.map_or(String::new(), |v| format!(" {what}: {v}."));
        let (min, max) = (range("Least", spec.min), range("Most", spec.max));
        entry(spec.name, &format!("{}\nDefault: {}{unit}.{min}{max}", spec.text, spec.default))
    };
    tables::params::SPECS.iter().map(one).collect()
}

fn commands() -> String {
    let shown = tables::cli_cmds::COMMANDS.iter().filter(|command| !command.debug);
    shown.map(|command| entry(command.syntax, &format!("{}\n{}", command.help, command.doc))).collect()
}

fn variables() -> String {
    let list = |methods: tables::vclvars::Methods| {
        let names: Vec<&str> = Method::ALL.into_iter().filter(|m| methods.has(*m)).map(Method::sub_name).collect();
        if names.len() == Method::COUNT { "everywhere".to_owned() } else { names.join(", ") }
    };
    let one = |var: &tables::vclvars::VarDef| {
        let mut text = vec![vcltext::variable(var.name).to_owned()];
        for (what, methods) in [("Read", var.read), ("Set", var.write), ("Unset", var.unset)] {
            let places = list(methods);
            if !places.is_empty() {
                text.push(format!("{what}: {places}."));
            }
        }
        entry(&format!("{} ({})", var.name, var.ty.name()), &text.join("\n"))
    };
    VARS.iter().map(one).collect()
}

fn statements() -> String {
    STATEMENTS.iter().map(|(_, form, text)| entry(form, text)).collect()
}

fn actions() -> String {
    let one = |action: Return| entry(&format!("return ({})", action.name()), vcltext::action(action));
    Return::ALL.into_iter().map(one).collect()
}

fn subs() -> String {
    let one = |method: Method| {
        let returns: Vec<&str> = method.returns().iter().map(|r| r.name()).collect();
        let text = vcltext::method(method);
        entry(method.sub_name(), &format!("{text}\nReturns: {}.", returns.join(", ")))
    };
    Method::ALL.into_iter().map(one).collect()
}

fn reasons() -> String {
    use tables::no_hit::{NoHit, Uncacheable};
    let no_hit = NoHit::ALL.iter().map(|reason| entry(reason.word(), reason.text()));
    let uncacheable = Uncacheable::ALL.iter().map(|reason| entry(reason.word(), reason.text()));
    let heading = ".PP\nAn answer became hit\\-for\\-miss or hit\\-for\\-pass for one of these:\n".to_owned();
    no_hit.chain([heading]).chain(uncacheable).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_can_be_made() {
        for page in PAGES {
            let text = roff(page);
            assert!(text.contains(".SH SYNOPSIS") || page.1 == 7, "{}", page.0);
            assert_eq!(text.matches(".nf\n").count(), text.matches(".fi\n").count(), "{}", page.0);
        }
    }
}
