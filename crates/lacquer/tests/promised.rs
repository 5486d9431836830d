// SPDX-License-Identifier: BSD-2-Clause
//! Names that docs/book/stability.md promises to keep: a parameter, counter, log tag, CLI command, VCL variable, diagnostic code,
//! reason for no hit or option of a tool that was in a release may not disappear, and a log tag keeps its number. `promised.txt` lists them, one a line.
//!
//! `PROMISED=write cargo test -p lacquer --test promised` adds the names that are new. A release does so.

use std::collections::BTreeSet;
use std::path::Path;

use logq::getopt::ToolOption;
use params::SPECS;
use tables::Tag;
use tables::cli_cmds::COMMANDS;
use tables::counters::{
    ClassCounters, CounterFields, DiskSet, Fleet, Lck, Main, Mempool, Mgt, NoHitCounts, Peers, Sma, Smf,
    TenantCounters, Vbe, Vcp, Xkey,
};
use tables::no_hit::NoHit;
use tables::vclvars::VARS;
use toolkit::tool::Tool;
use vcl::DiagnosticCode;

fn counters<T: CounterFields>() -> impl Iterator<Item = String> {
    T::ELEMS.iter().map(|elem| format!("counter {}.{}", T::NAME, elem.name))
}

fn options<O>(tool: &Tool<O>) -> impl Iterator<Item = String> {
    let shown = tool.options().filter(|option| !option.is_hidden());
    shown.flat_map(|option| option.all_names()).map(|name| format!("option {} {name}", tool.name))
}

fn letters(program: &str, options: &[ToolOption]) -> impl Iterator<Item = String> {
    options.iter().map(move |option| format!("option {program} -{}", option.0))
}

fn options_of_all() -> impl Iterator<Item = String> {
    let reading = options(&lacquer_asn::TOOL)
        .chain(options(&lacquer_plan::TOOL))
        .chain(options(&lacquer_replay::TOOL))
        .chain(options(&lacquer_simulate::TOOL))
        .chain(options(&lacquer_talkers::TOOL));
    let asking = options(&lacquer_adm::explain::TOOL)
        .chain(options(&lacquer_adm::fleet::TOOL))
        .chain(options(&lacquer_adm::memory::TOOL))
        .chain(options(&lacquer_adm::profile::TOOL))
        .chain(options(&lacquer_adm::status::TOOL))
        .chain(options(&lacquer_adm::tls::TOOL))
        .chain(options(&lacquer_adm::upgrade::TOOL));
    let others = options(&lacquer_demo::TOOL)
        .chain(options(&lacquer_doctor::TOOL))
        .chain(options(&lacquer_migrate::TOOL))
        .chain(options(&lacquer_probe::TOOL))
        .chain(options(&lacquer_selftest::TOOL))
        .chain(options(&lacquer_statsd::MUNIN))
        .chain(options(&lacquer_store::TOOL))
        .chain(options(&lacquer_watch::TOOL))
        .chain(lacquer_vcl::options_by_command().map(|option| format!("option lacquer vcl {option}")));
    let varnishs = letters("varnishlog", lacquer_log::OPTIONS)
        .chain(letters("varnishlog-json", lacquer_log::json::OPTIONS))
        .chain(letters("varnishncsa", lacquer_ncsa::OPTIONS))
        .chain(letters("varnishstat", lacquer_stat::OPTIONS))
        .chain(letters("varnishtop", lacquer_top::OPTIONS))
        .chain(letters("varnishhist", lacquer_hist::OPTIONS))
        .chain(letters("lacquer trace", lacquer_trace::OPTIONS));
    reading.chain(asking).chain(others).chain(varnishs)
}

/// Every name as the line that promises it. Parameters and commands for debugging are left out.
fn present() -> BTreeSet<String> {
    let parameters = SPECS.iter().map(|spec| format!("parameter {}", spec.name));
    let tags = Tag::ALL.iter().map(|tag| format!("tag {} {}", tag.number(), tag.name()));
    let commands = COMMANDS.iter().filter(|command| !command.debug).map(|command| format!("command {}", command.name));
    let variables = VARS.iter().map(|var| format!("variable {}", var.name));
    let codes = DiagnosticCode::ALL.iter().map(|code| format!("code {code}"));
    let reasons = NoHit::ALL.iter().map(|reason| format!("reason {}", reason.word()));
    let sets = counters::<Main>()
        .chain(counters::<Mgt>())
        .chain(counters::<Sma>())
        .chain(counters::<Smf>())
        .chain(counters::<Vbe>())
        .chain(counters::<Vcp>())
        .chain(counters::<Mempool>())
        .chain(counters::<Lck>())
        .chain(counters::<NoHitCounts>())
        .chain(counters::<DiskSet>())
        .chain(counters::<ClassCounters>())
        .chain(counters::<TenantCounters>())
        .chain(counters::<Xkey>())
        .chain(counters::<Fleet>())
        .chain(counters::<Peers>());
    parameters
        .chain(tags)
        .chain(commands)
        .chain(variables)
        .chain(codes)
        .chain(reasons)
        .chain(sets)
        .chain(options_of_all())
        .collect()
}

#[test]
fn no_promised_name_is_gone() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/promised.txt");
    let text = std::fs::read_to_string(&file).unwrap_or_default();
    let mut promised: BTreeSet<String> = text.lines().map(str::to_owned).collect();
    let present = present();
    if std::env::var_os("PROMISED").is_some_and(|word| word == "write") {
        promised.extend(present.iter().cloned());
        let lines: String = promised.iter().map(|line| format!("{line}\n")).collect();
        std::fs::write(&file, lines).expect("the list is written");
    }
    assert!(promised.len() > 500, "{} has {} names", file.display(), promised.len());
    let gone: Vec<&String> = promised.difference(&present).collect();
    assert!(gone.is_empty(), "these names were promised to stay (docs/book/stability.md): {gone:?}");
}
