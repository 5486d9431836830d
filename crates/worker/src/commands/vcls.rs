// SPDX-License-Identifier: BSD-2-Clause
//! CLI commands about VCLs.

use std::sync::Arc;

use backend::VclEvent;
use cli::{CliReply, CliRequest, CliStatus};
use tables::vclvars::Var;
use tls::roots::Roots;
use vcl::program::Op;
use vcl::{CompileOptions, MAIN, SourceBundle, Sources};
use vrt::LoadedVcl;
use vrt::vmod::{Need, Vmod};

use super::with_json;
use crate::backends::LoadEnv;
use crate::profile::{self, ProfileSource, Profiled};
use crate::worker::Worker;
pub(super) fn vcl_load(worker: &Arc<Worker>, name: &str, file: &str, state: &str) -> CliReply {
    let Some((warm, state)) = split_state(state) else {
        return CliReply::new(CliStatus::Param, "a state is 0 or 1 and a word");
    };
    // A VCL may ban something while it is loaded.
    let loaded = load(worker, name, file).and_then(|vcl| crate::journal::wait(worker).map(|()| vcl));
    match loaded {
        Ok(vcl) => {
            worker.vcls.add(name, state, warm, vcl.clone());
            let main = worker.engine.main;
            main.n_vcl_avail.inc();
            main.vmods.set(worker.vcls.modules() as u64);
            if warm {
                tell(&vcl, VclEvent::Warm);
            }
            CliReply::ok(format!("Loaded \"{file}\" as \"{name}\"\n"))
        }
        Err(reason) => {
            worker.secrets.origin_keys.take(name);
            CliReply::new(CliStatus::Cant, reason)
        }
    }
}

fn load(worker: &Arc<Worker>, name: &str, file: &str) -> Result<Arc<LoadedVcl>, String> {
    let bytes = std::fs::read(file).map_err(|error| format!("{file}: {error}"))?;
    let bundle = SourceBundle::from_bytes(&bytes).ok_or_else(|| format!("{file} holds no checked VCL"))?;
    let (main_name, text) = bundle.read(MAIN)?;
    let params = worker.engine.params.load();
    let options = CompileOptions {
        compat: params.compat(),
        allow_inline_c: params.vcc_allow_inline_c,
        // The checker has said what there was to say.
        err_unref: false,
        unsafe_path: true,
        lazy_hosts: true,
        dialect: bundle.dialect,
        modules: worker.vmods.signatures,
        stores: worker.engine.cache.stores().all().iter().map(|store| store.name().to_owned()).collect(),
        labels: worker.vcls.labels(),
        ..CompileOptions::default()
    };
    let compiled = vcl::compile(&main_name, &text, &bundle, &options).map_err(|wrong| wrong.to_string())?;
    let imported = |vmod: &&&Vmod| compiled.program.imports.iter().any(|import| import.module == vmod.signature.name);
    let mut has_tls = compiled.program.backends.iter().any(|decl| decl.tls.is_some());
    for need in worker.vmods.code.iter().filter(imported).flat_map(|vmod| vmod.needs) {
        match need {
            Need::Tags => worker.services.enable_tags(),
            Need::Authorities => has_tls = true,
            Need::KeyFields => worker.engine.vcls.keep_key_fields(),
        }
    }
    if compiled.program.code.iter().any(gives_tags) {
        worker.services.enable_tags();
    }
    if has_tls {
        // Files are read here, and on no thread that serves.
        Roots::renew_system();
    }
    let env = LoadEnv(worker);
    let loaded = rt::run(vrt::loaded::load_waiting(name, compiled.program, &env));
    loaded.map_err(|error| error.to_string())?.map_err(|error| error.0)
}

fn gives_tags(op: &Op) -> bool {
    // By RFC 9111 there are cache groups.
    matches!(
        op,
        Op::SetVar { var: Var::BerespTags | Var::ReqRfc9111 | Var::BereqRfc9111 }
            | Op::SetVarText { var: Var::BerespTags }
    )
}

/// `1auto` is warm and `auto`.
fn split_state(state: &str) -> Option<(bool, &str)> {
    let warm = match state.get(..1)? {
        "0" => false,
        "1" => true,
        _ => return None,
    };
    Some((warm, &state[1..]))
}

fn tell(vcl: &LoadedVcl, event: VclEvent) {
    for director in vcl.directors() {
        director.event(event);
    }
}

pub(super) fn vcl_use(worker: &Worker, name: &str) -> CliReply {
    let Some(vcl) = worker.vcls.find(name) else {
        return CliReply::new(CliStatus::Param, format!("No VCL named {name} known."));
    };
    worker.vcls.set_active(name, worker.engine.clock.real());
    worker.engine.vcls.activate(Some(vcl));
    CliReply::ok("")
}

/// `vcl.show [-v] [name]`: the source, with `-v` all that was compiled. A label stands for its VCL.
pub(super) fn vcl_show(worker: &Worker, request: &CliRequest) -> CliReply {
    let verbose = request.arg(0) == Some("-v");
    let at = usize::from(verbose);
    let name = request.arg(at);
    if let Some(more) = request.arg(at + 1) {
        return CliReply::new(CliStatus::Param, format!("Too many parameters: '{more}'"));
    }
    let name = name.map_or_else(|| worker.vcls.active(), str::to_owned);
    let Some(vcl) = worker.vcls.find(&name) else {
        return worker.vcls.unknown(&name);
    };
    let sources = &vcl.program.map.sources;
    if !verbose {
        return CliReply::ok(
            sources.first().map_or_else(String::new, |source| String::from_utf8_lossy(&source.text).into()),
        );
    }
    let mut out = String::new();
    for (number, source) in sources.iter().enumerate() {
        out.push_str(&format!("// VCL.SHOW {number} {} {}\n", source.text.len(), source.name));
        out.push_str(&String::from_utf8_lossy(&source.text));
        out.push('\n');
    }
    CliReply::ok(out)
}

pub(super) fn vcl_profile(worker: &Worker, request: &CliRequest) -> CliReply {
    let (what, name) = (request.arg(0).unwrap_or_default(), request.arg(1));
    let name = name.map_or_else(|| worker.vcls.active(), str::to_owned);
    let Some(vcl) = worker.vcls.find(&name) else {
        return worker.vcls.unknown(&name);
    };
    match what {
        "on" | "off" => vcl.profile.switch(what == "on"),
        "show" => {}
        other => return CliReply::new(CliStatus::Param, format!("on, off or show, not {other:?}\n")),
    }
    let sources: Vec<_> =
        vcl.program.map.sources.iter().map(|source| ProfileSource { name: &source.name, text: &source.text }).collect();
    let counted = vcl.profile.counted(&vcl.program);
    let profiled = Profiled { vcl: &vcl.name, on: vcl.profile.is_on(), sources: &sources, counted: &counted };
    match what {
        _ if request.wants_json() => with_json(worker, request, &format!(",\n{}", profile::report_json(&profiled))),
        "show" => CliReply::ok(profile::report(&profiled)),
        _ => CliReply::ok(format!("VCL {}: counting is {what}\n", vcl.name)),
    }
}

pub(super) fn vmods_in_use(worker: &Worker) -> String {
    let mut uses = std::collections::BTreeMap::<String, usize>::new();
    for vcl in worker.vcls.all() {
        for import in &vcl.program.imports {
            *uses.entry(import.module.clone()).or_default() += 1;
        }
    }
    uses.iter().map(|(name, count)| format!("{count:5} {name} (built in)\n")).collect()
}

pub(super) fn vcl_state(worker: &Worker, name: &str, state: &str) -> CliReply {
    let Some((warm, word)) = split_state(state) else {
        return CliReply::new(CliStatus::Param, "a state is 0 or 1 and a word");
    };
    if worker.vcls.set_state(name, word, warm)
        && let Some(vcl) = worker.vcls.find(name)
    {
        tell(&vcl, if warm { VclEvent::Warm } else { VclEvent::Cold });
    }
    CliReply::ok("")
}

pub(super) fn vcl_discard(worker: &Arc<Worker>, name: &str) -> CliReply {
    if let Some(vcl) = worker.vcls.remove(name) {
        let main = worker.engine.main;
        main.n_vcl_avail.dec();
        main.vmods.set(worker.vcls.modules() as u64);
        tell(&vcl, VclEvent::Discard);
        vrt::loaded::finish(&vcl, &LoadEnv(worker));
        worker.services.forget(name);
    }
    CliReply::ok("")
}
