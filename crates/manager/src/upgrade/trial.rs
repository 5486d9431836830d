// SPDX-License-Identifier: BSD-2-Clause
//! Whether a program can take over, found out by itself in a process of its own, with the VCL checker's limits: it reads the
//! state and compiles every VCL of it, and changes nothing.
//!
//! A program that knows no such trial answers something else, or nothing: it is refused.

use std::collections::BTreeSet;
use std::io::{self, Read};

use params::Params;
use sys::process::Exit;
use tables::Compat;
use vcl::{CompileOptions, MAIN, Modules, SourceBundle, Sources};

use super::state::UpgradeState;
use crate::checker::Checker;
use crate::fatal::errno_text;
use crate::options::{self, ManagerInvocation};
use crate::report;
use crate::stores::ManagerStores;
use crate::usage::OWN_VERSION;
use crate::vcls::carry::UpgradeVcl;

/// The program name under which this executable is on trial.
pub const PROGRAM: &str = "lacquer-upgrade-trial";

/// First words of a program that can take over.
const GOOD: &str = "LACQUER-UPGRADE can take over: ";

const LONGEST: u64 = 64 << 20;

/// Has a program tried: its version, or why it can't.
pub fn run(checker: Checker<'_>, state: &[u8]) -> Result<String, String> {
    let (exit, out, said) =
        checker.run(PROGRAM, state).map_err(|e| format!("it could not be tried: {}", errno_text(&e)))?;
    judge(exit, &String::from_utf8_lossy(&out), &String::from_utf8_lossy(&said))
}

fn judge(exit: Exit, out: &str, said: &str) -> Result<String, String> {
    let reason = said.trim_end();
    match (exit, out.strip_prefix(GOOD)) {
        (Exit::Status(0), Some(version)) => Ok(version.trim_end().to_owned()),
        (Exit::Status(3), None) if !reason.is_empty() => Err(reason.to_owned()),
        // Another program's words, or those of its loader (no such library): the first lines are enough.
        (Exit::Status(_), _) if !reason.is_empty() => {
            let lines: Vec<&str> = reason.lines().take(3).collect();
            Err(format!("it is no program that can take over; it says: {}", lines.join(" / ")))
        }
        (Exit::Status(status), _) => Err(format!("it is no program that can take over (status {status})")),
        (Exit::Signal(number, _), _) => Err(format!("its trial ended by {}", sys::signal::name(number))),
    }
}

/// The trial: the exit status. `modules` are what `import` finds.
pub fn run_trial(modules: Modules) -> i32 {
    std::panic::set_hook(Box::new(|info| {
        report::stderr(&format!("its trial panicked: {}", info.to_string().replace('\n', " ")));
    }));
    let mut bytes = Vec::new();
    if let Err(e) = io::stdin().take(LONGEST).read_to_end(&mut bytes) {
        report::stderr(&format!("cannot read the state: {}", errno_text(&e)));
        return 1;
    }
    match UpgradeState::read(&bytes).map_err(|e| e.to_string()).and_then(|state| try_state(&state, modules)) {
        Ok(()) => {
            report::stdout(&format!("{GOOD}{OWN_VERSION}\n"));
            0
        }
        Err(reason) => {
            report::stderr(&reason);
            3
        }
    }
}

fn try_state(state: &UpgradeState, modules: Modules) -> Result<(), String> {
    let args: Vec<String> = state.args.iter().skip(1).map(|arg| arg.to_string_lossy().into_owned()).collect();
    let request = options::parse("varnishd", &super::resume::varnishd_args(&args)).map_err(|e| e.to_string())?;
    let ManagerInvocation::Serve(options) = request else {
        return Err("its arguments aren't those of a server".to_owned());
    };
    let compat = Params::decode(&state.params.values).map_err(|e| e.to_string())?.compat();
    let stores = ManagerStores::of_arguments(&options.ordered)?;
    let labels: Vec<String> =
        state.vcls.progs.iter().filter(|vcl| vcl.file.is_none()).map(|vcl| vcl.name.clone()).collect();
    let stores: Vec<String> = stores.iter().map(|store| store.name.clone()).collect();
    let failures = state.vcls.progs.iter().filter_map(|vcl| try_vcl(vcl, compat, &labels, &stores, modules).err());
    let failures: BTreeSet<String> = failures.collect();
    match failures.into_iter().next() {
        Some(first) => Err(first),
        None => Ok(()),
    }
}

fn try_vcl(
    vcl: &UpgradeVcl,
    compat: Compat,
    labels: &[String],
    stores: &[String],
    modules: Modules,
) -> Result<(), String> {
    let Some(file) = &vcl.file else { return Ok(()) };
    let bad = |reason: String| format!("VCL {}: {}", vcl.name, reason.trim_end());
    let bytes = std::fs::read(file).map_err(|e| bad(format!("{}: {}", file.display(), errno_text(&e))))?;
    let bundle = SourceBundle::from_bytes(&bytes).ok_or_else(|| bad("its compiled VCL can't be read".to_owned()))?;
    let (name, text) = bundle.read(MAIN).map_err(bad)?;
    // As the worker compiles it.
    let options = CompileOptions {
        compat,
        allow_inline_c: true,
        err_unref: false,
        unsafe_path: true,
        lazy_hosts: true,
        dialect: bundle.dialect,
        stores: stores.to_vec(),
        labels: labels.to_vec(),
        check_regex: Some(vcl_regex::check),
        modules,
        ..CompileOptions::default()
    };
    vcl::compile(&name, &text, &bundle, &options).map(drop).map_err(|wrong| bad(wrong.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_clear_answer_counts() {
        let good = format!("{GOOD}Lacquer 2\n");
        assert_eq!(judge(Exit::Status(0), &good, ""), Ok("Lacquer 2".to_owned()));
        assert_eq!(judge(Exit::Status(3), "", "VCL boot: no\n"), Err("VCL boot: no".to_owned()));
        assert!(judge(Exit::Status(0), "", "").unwrap_err().contains("status 0"));
        assert!(judge(Exit::Status(2), "", "Usage\nb\nc\nd").unwrap_err().ends_with("it says: Usage / b / c"));
        assert!(judge(Exit::Signal(11, false), "", "").unwrap_err().ends_with("SIGSEGV"));
    }
}
