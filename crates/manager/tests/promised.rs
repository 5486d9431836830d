// SPDX-License-Identifier: BSD-2-Clause
//! Names that docs/book/stability.md promises to keep: a parameter, counter, log tag, CLI command, VCL variable, diagnostic code or
//! reason for no hit that was in a release may not disappear, and a log tag keeps its number. `promised.txt` lists them, one a line.
//!
//! `PROMISED=write cargo test -p manager --test promised` adds the names that are new. A release does so.

use std::collections::BTreeSet;
use std::path::Path;

use params::SPECS;
use tables::Tag;
use tables::cli_cmds::COMMANDS;
use tables::counters::{
    ClassCounters, CounterFields, DiskSet, Fleet, Lck, Main, Mempool, Mgt, NoHitCounts, Peers, Sma, Smf, Vbe, Xkey,
};
use tables::no_hit::NoHit;
use tables::vclvars::VARS;
use vcl::DiagnosticCode;

fn counters<T: CounterFields>() -> impl Iterator<Item = String> {
    T::ELEMS.iter().map(|elem| format!("counter {}.{}", T::NAME, elem.name))
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
        .chain(counters::<Mempool>())
        .chain(counters::<Lck>())
        .chain(counters::<NoHitCounts>())
        .chain(counters::<DiskSet>())
        .chain(counters::<ClassCounters>())
        .chain(counters::<Xkey>())
        .chain(counters::<Fleet>())
        .chain(counters::<Peers>());
    parameters.chain(tags).chain(commands).chain(variables).chain(codes).chain(reasons).chain(sets).collect()
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
