// SPDX-License-Identifier: BSD-2-Clause
//! Manuals in roff: prose from `man/*.txt`, facts from the tables that the programs themselves use.
//!
//! Prose is text with `# ` before headings, `- word :: text` for entries of lists and four spaces before what is shown
//! as it is; `@name` alone on a line is replaced by what a table says.

mod markdown;
mod pager;
mod render;
mod requests;
mod vmods;

use logq::getopt::ToolOption;
use tables::Compat;
use tables::counters::{CounterFields, Elem};
use tables::tags::TagKind;
use tables::vclsubs::{Method, Return};
use tables::vcltext::{self, STATEMENTS};
use tables::vclvars::VARS;
use toolkit::options::{HelpPart, Opt};
use toolkit::print;

use crate::commands::{self, COMMANDS, Subcommand, meant};

enum Body {
    Prose(&'static str),
    /// The command's own help: its usage, then the rest as it is.
    Help(fn() -> String),
    /// A document in Markdown, of the kind that docs/man has.
    Markdown(&'static str),
}

/// Name, section, one line, what it says.
type Page = (&'static str, u8, &'static str, Body);

const PAGES: &[Page] = &[
    ("lacquer", 1, "caching reverse proxy and its tools", Body::Prose(include_str!("man/lacquer.txt"))),
    ("varnishd", 1, "caching reverse proxy", Body::Prose(include_str!("man/varnishd.txt"))),
    ("varnishlog", 1, "show or store the log", Body::Prose(include_str!("man/varnishlog.txt"))),
    ("varnishlog-json", 1, "print requests as JSON", Body::Prose(include_str!("man/varnishlog-json.txt"))),
    ("varnishncsa", 1, "write an access log", Body::Prose(include_str!("man/varnishncsa.txt"))),
    ("varnishstat", 1, "show the counters", Body::Prose(include_str!("man/varnishstat.txt"))),
    ("varnishtop", 1, "show the most frequent log records", Body::Prose(include_str!("man/varnishtop.txt"))),
    ("varnishhist", 1, "draw histograms of times and sizes", Body::Prose(include_str!("man/varnishhist.txt"))),
    ("varnishadm", 1, "send commands to a running server", Body::Prose(include_str!("man/varnishadm.txt"))),
    ("varnishreload", 1, "reload a VCL", Body::Prose(include_str!("man/varnishreload.txt"))),
    ("lacquer-demo", 1, "run a demo site with a cache in front of it", Body::Help(|| lacquer_demo::TOOL.usage())),
    ("lacquer-status", 1, "summarise a running server", Body::Prose(include_str!("man/lacquer-status.txt"))),
    (
        "lacquer-explain",
        1,
        "explain whether a URL would be a hit, and why",
        Body::Prose(include_str!("man/lacquer-explain.txt")),
    ),
    (
        "lacquer-memory",
        1,
        "show what takes a running server's memory",
        Body::Prose(include_str!("man/lacquer-memory.txt")),
    ),
    (
        "lacquer-store",
        1,
        "show and verify the content of a store on disk",
        Body::Prose(include_str!("man/lacquer-store.txt")),
    ),
    (
        "lacquer-fleet",
        1,
        "show the nodes of a fleet; roll out VCL to them in stages",
        Body::Prose(include_str!("man/lacquer-fleet.txt")),
    ),
    (
        "lacquer-tls",
        1,
        "list a running server's certificates and their expiry",
        Body::Prose(include_str!("man/lacquer-tls.txt")),
    ),
    ("lacquer-drain", 1, "take a running server out of service", Body::Prose(include_str!("man/lacquer-drain.txt"))),
    (
        "lacquer-upgrade",
        1,
        "upgrade a running server without downtime",
        Body::Prose(include_str!("man/lacquer-upgrade.txt")),
    ),
    ("lacquer-watch", 1, "serve a dashboard, metrics and health checks", Body::Help(|| lacquer_watch::TOOL.usage())),
    (
        "lacquer-replay",
        1,
        "send a log's requests to a server and measure it",
        Body::Prose(include_str!("man/lacquer-replay.txt")),
    ),
    ("lacquer-probe", 1, "find packet loss on the way to a server", Body::Help(|| lacquer_probe::TOOL.usage())),
    ("lacquer-asn", 1, "list the networks that a site's visitors come from", Body::Help(|| lacquer_asn::TOOL.usage())),
    (
        "lacquer-simulate",
        1,
        "calculate hit rates for cache sizes from a log",
        Body::Help(|| lacquer_simulate::TOOL.usage()),
    ),
    (
        "lacquer-talkers",
        1,
        "list the clients or URLs with most requests or bytes",
        Body::Help(|| lacquer_talkers::TOOL.usage()),
    ),
    ("lacquer-doctor", 1, "find problems of this machine and its server", Body::Help(|| lacquer_doctor::TOOL.usage())),
    ("lacquer-plan", 1, "estimate the load that backend workers can handle", Body::Help(|| lacquer_plan::TOOL.usage())),
    ("lacquer-trace", 1, "send requests as traces to an OpenTelemetry collector", Body::Help(lacquer_trace::usage)),
    ("lacquer-vcl", 1, "check, format, explain and migrate VCL files", Body::Help(lacquer_vcl::manual)),
    (
        "lacquer-migrate",
        1,
        "convert configurations of nginx, Apache, squid and Varnish",
        Body::Help(|| lacquer_migrate::TOOL.usage()),
    ),
    ("lacquer-selftest", 1, "check this installation in a few seconds", Body::Help(|| lacquer_selftest::TOOL.usage())),
    (
        "lacquer-statsd",
        1,
        "metrics server, compatible with statsd for Node.js",
        Body::Markdown(include_str!("../../../docs/man/lacquer-statsd.1.md")),
    ),
    ("lacquer-munin", 1, "Munin plugin for all counters", Body::Help(|| lacquer_statsd::MUNIN.usage())),
    ("lacquer-man", 1, "the manual", Body::Help(|| USAGE.to_owned())),
    (
        "lacquer-panic",
        7,
        "how to read a panic report, and what to do",
        Body::Prose(include_str!("man/lacquer-panic.txt")),
    ),
    ("vcl", 7, "configuration language of the cache", Body::Prose(include_str!("man/vcl.txt"))),
    ("varnish-cli", 7, "commands of the CLI", Body::Prose(include_str!("man/varnish-cli.txt"))),
    ("vsl", 7, "structure and tags of the log", Body::Prose(include_str!("man/vsl.txt"))),
    ("vsl-query", 7, "query language for the log", Body::Prose(include_str!("man/vsl-query.txt"))),
    ("varnish-counters", 7, "list of all counters", Body::Prose(include_str!("man/varnish-counters.txt"))),
];

const USAGE: &str = "\
Usage: lacquer man [[--roff] PAGE | -d DIR | --markdown DIR]

Without arguments: lists all pages. With PAGE: shows that page, on a terminal through man(1) or $PAGER; a pipe or a file
gets plain text.
The name of a command works, too, with and without lacquer- before it. `lacquer man vcl` is the language's page.

  --roff PAGE     print the source of that page, in roff
  -d DIR          write all pages to DIR/man1, DIR/man3 and DIR/man7
  --markdown DIR  write all pages to DIR as Markdown, with a list of them in index.md
  -h, --help      show this help

Examples:
  lacquer man varnishd
  lacquer man vmod_std
  lacquer man vsl | grep Timestamp
  lacquer man --roff vsl > vsl.7
";

/// `lacquer man`: lists the pages; with a name shows one; with a directory after `-d` writes all.
pub fn main(args: &[String]) -> i32 {
    match args {
        [] => {
            print::out(list());
            0
        }
        [flag] if ["-h", "--help", "-?"].contains(&flag.as_str()) => {
            print::out(USAGE);
            0
        }
        [flag, dir] if flag == "-d" => match write_all(dir) {
            Ok(()) => 0,
            Err(error) => {
                print::err(format_args!("{dir}: {error}\n"));
                1
            }
        },
        [flag, dir] if flag == "--markdown" => match write_markdown(dir) {
            Ok(()) => 0,
            Err(error) => {
                print::err(format_args!("{dir}: {error}\n"));
                1
            }
        },
        [flag] if flag == "-d" || flag == "--markdown" => refuse(&format!("{flag} needs a directory")),
        [flag] if flag == "--roff" => refuse("--roff needs a page"),
        [flag, name] if flag == "--roff" => show(name, |roff| print::out(roff)),
        [flag, ..] if flag.starts_with('-') => refuse(&format!("no option {flag}")),
        [name] => show(name, pager::show),
        _ => refuse("one page at a time"),
    }
}

fn show(name: &str, shown: impl FnOnce(&str)) -> i32 {
    if let Some(roff) = page(name) {
        shown(&roff);
        return 0;
    }
    let modules: Vec<String> = vmods::all().map(|(name, _)| name).collect();
    let commands = COMMANDS.iter().map(|command| command.name);
    let names = PAGES.iter().map(|page| page.0).chain(commands).chain(modules.iter().map(String::as_str));
    let near = meant(name, names);
    print::err(format_args!("lacquer man: no page {name:?}{near}\n`lacquer man` lists them.\n"));
    2
}

fn refuse(reason: &str) -> i32 {
    print::err(format_args!("lacquer man: {reason}\n{USAGE}"));
    2
}

fn list() -> String {
    let pages = PAGES.iter().map(|(name, section, line, _)| format!("{name}({section})  {line}\n"));
    pages.chain(vmods::all().map(|(name, module)| format!("{name}(3)  {}\n", module.text))).collect()
}

/// A page in roff, by its name or that of a command (`log`, `lacquer-log`).
pub fn page(name: &str) -> Option<String> {
    let own = |name: &str| PAGES.iter().find(|page| page.0 == name).map(roff);
    let module = || vmods::module(name).map(vmods::roff);
    let command = || commands::find(name.strip_prefix("lacquer-").unwrap_or(name)).and_then(|c| own(c.page));
    own(name).or_else(module).or_else(command)
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

/// The headings of the list of pages, and the sections of the manual that they are of.
const SECTIONS: [(&str, u8); 3] =
    [("Commands", 1), ("The language, the log, the counters, the command line interface", 7), ("Modules for VCL", 3)];

/// All pages as files of Markdown, and `index.md`, which lists them by section.
fn write_markdown(dir: &str) -> std::io::Result<()> {
    std::fs::create_dir_all(dir)?;
    let own = PAGES.iter().map(|page| (page.0.to_owned(), page.1, page.2.to_owned(), roff(page)));
    let modules = vmods::all().map(|(name, module)| (name, 3, module.text.to_owned(), vmods::roff(module)));
    let all: Vec<(String, u8, String, String)> = own.chain(modules).collect();
    let mut index = "# Reference\n\nGenerated from the tables that the programs themselves use.\n".to_owned();
    for (heading, section) in SECTIONS {
        index.push_str(&format!("\n## {heading}\n\n"));
        for (name, _, line, _) in all.iter().filter(|page| page.1 == section) {
            index.push_str(&format!("* [{name}]({name}.md): {}\n", line.replace('_', "\\_").replace('<', "\\<")));
        }
    }
    std::fs::write(format!("{dir}/index.md"), index)?;
    all.iter().try_for_each(|(name, _, _, roff)| std::fs::write(format!("{dir}/{name}.md"), markdown::render(roff)))
}

fn escape(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    if text.starts_with(['.', '\'']) { format!("\\&{text}") } else { text }
}

fn roff((name, section, line, body): &Page) -> String {
    let title = name.to_uppercase();
    let mut out = format!(".TH {title} {section} \"\" \"Lacquer {}\"\n.SH NAME\n", env!("CARGO_PKG_VERSION"));
    out.push_str(&format!("{} \\- {}\n", escape(name), escape(line)));
    out.push_str(&match body {
        Body::Prose(text) => from_prose(text),
        Body::Help(text) => from_prose(&help_as_prose(&text())),
        Body::Markdown(text) => from_prose(&markdown_as_prose(text)),
    });
    out
}

/// A help text: its usage up to the first empty line, then paragraphs, options and, behind a line like `Examples:`, what is
/// shown as it is.
fn help_as_prose(text: &str) -> String {
    let (usage, rest) = text.split_once("\n\n").unwrap_or((text, ""));
    let mut out = "# SYNOPSIS\n".to_owned();
    for line in usage.lines() {
        out.push_str(&format!("    {}\n", line.trim_start_matches("Usage:").trim_start()));
    }
    out.push_str("\n# DESCRIPTION\n");
    let mut in_option = false;
    for line in rest.lines() {
        let words = line.trim_start();
        let heading = line.strip_suffix(':').filter(|_| line.len() == words.len() && !line.contains(' '));
        match (words.starts_with('-'), line.len() - words.len()) {
            _ if line.is_empty() => out.push('\n'),
            _ if heading.is_some() => {
                out.push_str(&format!("# {}\n", heading.unwrap_or_default().to_uppercase()));
            }
            (true, 1..) => {
                let (term, text) = words.split_once("  ").unwrap_or((words, ""));
                out.push_str(&format!("- {term} :: {}\n", text.trim_start()));
            }
            (false, 8..) if in_option => out.push_str(&format!("{words}\n")),
            (false, 1..) => out.push_str(&format!("    {words}\n")),
            (_, 0) => out.push_str(&format!("{line}\n")),
        }
        in_option = words.starts_with('-') || in_option && line.len() - words.len() >= 8;
    }
    out
}

/// Headings and paragraphs as they are, tables as they stand; without the title and the section NAME, which a page has already.
fn markdown_as_prose(text: &str) -> String {
    let from = text.find("## SYNOPSIS").unwrap_or(0);
    let one = |line: &str| match (line.strip_prefix("## "), line.starts_with('|')) {
        (Some(heading), _) => format!("# {heading}\n"),
        (None, true) if line.contains("| --- |") => String::new(),
        (None, true) => format!("    {line}\n"),
        (None, false) => format!("{line}\n"),
    };
    text[from..].lines().map(one).collect()
}

fn from_prose(prose: &str) -> String {
    let mut out = String::new();
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
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    format!(".TP\n\\fB{}\\fR\n{text}", escape(term))
}

fn from_table(table: &str) -> String {
    match table {
        "log" => options(lacquer_log::OPTIONS),
        "log-json" => options(lacquer_log::json::OPTIONS),
        "ncsa" => options(lacquer_ncsa::OPTIONS),
        "stat" => options(lacquer_stat::OPTIONS),
        "top" => options(lacquer_top::OPTIONS),
        "hist" => options(lacquer_hist::OPTIONS),
        "replay" => grouped_rows(lacquer_replay::TOOL.help),
        "explain" => rows(lacquer_adm::explain::TOOL.options()),
        "fleet" => rows(lacquer_adm::fleet::TOOL.options()),
        "memory" => rows(lacquer_adm::memory::TOOL.options()),
        "status" => rows(lacquer_adm::status::TOOL.options()),
        "store" => rows(lacquer_store::TOOL.options()),
        "tls" => rows(lacquer_adm::tls::TOOL.options()),
        "drain" => rows(lacquer_adm::drain::TOOL.options()),
        "upgrade" => rows(lacquer_adm::upgrade::TOOL.options()),
        "profiles" => lacquer_hist::profiles().iter().map(|(name, text)| entry(name, text)).collect(),
        "own-commands" => own_commands(),
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

fn own_commands() -> String {
    let one = |command: &Subcommand| {
        let section = PAGES.iter().find(|page| page.0 == command.page).map_or(1, |page| page.1);
        entry(command.name, &format!("{}, see {}({section}).", capital(command.text), command.page))
    };
    COMMANDS.iter().map(one).collect()
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

fn options(options: &[ToolOption]) -> String {
    let one = |ToolOption(letter, value, help): &ToolOption| {
        let term = if value.is_empty() { format!("-{letter}") } else { format!("-{letter} <{value}>") };
        entry(&term, help)
    };
    options.iter().map(one).collect()
}

/// A tool's options but for `-h`, which every tool has.
fn rows<O: 'static>(options: impl Iterator<Item = &'static Opt<O>>) -> String {
    let shown = options.filter(|option| !option.is_hidden() && option.term() != Opt::<O>::HELP.term());
    shown.map(|option| entry(option.term(), option.text())).collect()
}

fn grouped_rows<O>(help: &'static [HelpPart<O>]) -> String {
    let groups = help.iter().filter(|(_, options)| !options.is_empty());
    groups
        .map(|(heading, options)| {
            format!(".SS {}\n{}", escape(heading.trim().trim_end_matches(':')), rows(options.iter()))
        })
        .collect()
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
    use tables::counters::{
        ClassCounters, DiskSet, Fleet, Lck, Main, Mempool, Mgt, NoHitCounts, Peers, Sma, Smf, TenantCounters, Vbe, Vcp,
        Xkey,
    };
    fn set<S: CounterFields>() -> String {
        let one = |elem: &Elem| {
            let (short, long) = (elem.oneliner.trim_end_matches('.'), elem.docs);
            let text = if long.starts_with(short) { long.to_owned() } else { format!("{short}.\n{long}") };
            entry(&format!("{} ({:?}, {:?})", elem.name, elem.kind, elem.level).to_lowercase(), &text)
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
        set::<DiskSet>(),
        set::<Vbe>(),
        set::<Vcp>(),
        set::<ClassCounters>(),
        set::<TenantCounters>(),
        set::<Lck>(),
        set::<Xkey>(),
        set::<Fleet>(),
        set::<Peers>(),
    ]
    .concat()
}

fn params() -> String {
    let one = |spec: &params::Spec| {
        let unit = if spec.unit.is_empty() { String::new() } else { format!(" {}", spec.unit) };
        let range = |what: &str, value: Option<&str>| value.map_or(String::new(), |v| format!(" {what}: {v}."));
        let (min, max) = (range("Minimum", spec.min), range("Maximum", spec.max));
        let [default, later] = Compat::ALL.map(|compat| match spec.default(compat) {
            "" => "empty",
            default => default,
        });
        let later =
            if later == default { String::new() } else { format!(" With --compat {}: {later}{unit}.", Compat::V9) };
        entry(spec.name, &format!("{}\nDefault: {default}{unit}.{later}{min}{max}", spec.text))
    };
    params::SPECS.iter().map(one).collect()
}

fn commands() -> String {
    let shown = tables::cli_cmds::COMMANDS.iter().filter(|command| !command.debug);
    shown.map(|command| entry(command.syntax, &format!("{}\n{}", command.help, command.doc))).collect()
}

fn variables() -> String {
    let list = |methods: tables::vclsubs::Methods| {
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
    let heading = ".PP\nA response becomes hit\\-for\\-miss or hit\\-for\\-pass for one of these reasons:\n".to_owned();
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

    #[test]
    fn every_page_is_text_without_man() {
        let modules = vmods::all().map(|(_, module)| vmods::roff(module));
        for roff in PAGES.iter().map(roff).chain(modules) {
            let text = render::render(&roff, 80);
            let odd = roff.lines().find(|line| line.starts_with(['.', '\'']) && !requests::is_known(line));
            assert_eq!((odd, text.contains("\\f")), (None, false), "{text}");
        }
    }

    #[test]
    fn a_help_text_as_a_page() {
        let help = "Usage: a b\n       a c\n\nDoes it.\n\n  -x DIR   where\n           it is\n  -y       why\n\nExamples:\n\n  a b c\n";
        let prose = "# SYNOPSIS\n    a b\n    a c\n\n# DESCRIPTION\nDoes it.\n\n- -x DIR :: where\nit is\n- -y :: why\n\n# EXAMPLES\n\n    a b c\n";
        assert_eq!(help_as_prose(help), prose);
    }

    #[test]
    fn a_command_names_its_page() {
        assert!(page("log").is_some_and(|roff| roff.starts_with(".TH VARNISHLOG 1")));
        assert!(page("lacquer-log").is_some_and(|roff| roff.starts_with(".TH VARNISHLOG 1")));
        assert!(page("vcl").is_some_and(|roff| roff.starts_with(".TH VCL 7")));
        assert!(page("lacquer-vcl").is_some_and(|roff| roff.starts_with(".TH LACQUER-VCL 1")));
        assert_eq!(page("nosuch"), None);
    }
}
