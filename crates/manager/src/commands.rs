// SPDX-License-Identifier: BSD-2-Clause
//! What CLI commands do. Those the manager doesn't know go to the worker.

use base::clock::Real;
use cli::CliRequest;
use cli::drain::DrainState;
use cli::handoff::HandoffSecret;
use params::{DebugBit, ParamError, ParamShow};
use tables::cli_cmds::{self, HelpFilter, ManagerCommand as Id};
use tables::json::quote;

use crate::checker::{BUNDLE, CheckOutcome, CheckerSource};
use crate::fatal::errno_text;
use crate::manager::Manager;
use crate::originkeys;
use crate::reply::{CliReply, CliStatus, ReplyExt, json_reply};
use crate::report::{ReportSeverity, print};
use crate::usage::{own_version, version_string};
use crate::vcls::{CheckedVcl, VclState};
use crate::workdir;
use crate::worker::WorkerState;

/// Commands allowed before authentication.
const OPEN: [&str; 4] = ["auth", "help", "ping", "quit"];

impl Manager {
    pub(crate) fn execute(&mut self, request: &CliRequest, authenticated: bool) -> CliReply {
        match request.command(authenticated) {
            Ok(command) if !authenticated && !OPEN.contains(&command.name) => CliReply::unknown(),
            Ok(command) => match command.manager {
                Some(id) => self.run_command(id, request, authenticated),
                None => self.forward(request),
            },
            // Commands that we don't know may be known to the worker.
            Err(reply) => match request.name().bytes().next() {
                Some(b'a'..=b'z') if authenticated && cli_cmds::lookup(request.name()).is_none() => {
                    self.forward(request)
                }
                _ => reply,
            },
        }
    }

    fn run_command(&mut self, id: Id, request: &CliRequest, authenticated: bool) -> CliReply {
        let (json, arg) = (request.wants_json(), |at: usize| request.arg(at));
        let (now, real) = (self.now(), self.clock.real().0);
        let answer = |members: &str| json_reply(&request.words, real, members);
        // Names are ASCII; one that isn't text is none.
        let text = |at: usize| request.arg(at).unwrap_or("\u{fffd}");
        match id {
            Id::Banner => CliReply::ok(self.banner()),
            Id::Help => self.help(request, authenticated),
            Id::Ping if json => answer(", \"PONG\"\n"),
            Id::Ping => CliReply::ok(format!("PONG {} 1.0", real as u64)),
            Id::Drain => self.drain(request),
            Id::FleetBundle => self.fleet_bundle(text(0)),
            Id::FleetKept => self.fleet_kept(request.args().first()),
            Id::FleetLoad => {
                let bundle = request.args().get(1).cloned().unwrap_or_default();
                self.vcl_load(text(0), CheckerSource::Bundle(bundle), arg(2))
            }
            Id::Quit => CliReply::new(CliStatus::Close, "Closing CLI connection"),
            Id::Status if json => answer(&format!(", {}", quote(self.worker.state.word()))),
            Id::Status => CliReply::ok(format!("Child in state {}", self.worker.state.word())),
            Id::Start => self.start(),
            Id::Stop => self.stop(),
            Id::Pid => self.pid(request),
            Id::PanicShow => self.panic_show(request),
            Id::Restarts if request.wants_json() => self.json(request, &self.ended.deaths.json(self.clock.real())),
            Id::Restarts => CliReply::ok(self.ended.deaths.text(self.clock.real())),
            Id::PanicClear => self.panic_clear(arg(0)),
            Id::ParamShow => self.param_show(request),
            Id::ParamSet => self.param_set(text(0), Some(text(1)), request),
            Id::ParamReset => self.param_set(text(0), None, request),
            Id::StorageList => self.storage_list(request),
            Id::TlsCertCommit => self.tls_command(request, Manager::tls_cert_commit),
            Id::TlsCertDiscard => self.tls_command(request, Manager::tls_cert_discard),
            Id::TlsCertList => self.tls_cert_list(request),
            Id::TlsCertLoad => self.tls_command(request, Manager::tls_cert_load),
            Id::TlsCertReload => self.tls_command(request, Manager::tls_cert_reload),
            Id::TlsCertRollback => self.tls_command(request, Manager::tls_cert_rollback),
            Id::VclLoad => self.vcl_load(text(0), CheckerSource::File(text(1).into()), arg(2)),
            Id::VclInline => {
                let source = request.args().get(1).cloned().unwrap_or_default();
                self.vcl_load(text(0), CheckerSource::Text("<vcl.inline>".into(), source), arg(2))
            }
            Id::VclUse => either(self.vcls.use_vcl(text(0), now, &mut self.worker)),
            Id::VclState => either(self.vcls.set_state(text(0), arg(1), now, &mut self.worker)),
            Id::VclLabel => either(self.vcls.label(text(0), text(1), now, &mut self.worker)),
            Id::VclDiscard => self.vcl_discard(request),
            Id::VclList => self.vcl_list(request),
            Id::VclDeps if json => answer(&self.vcls.deps_json()),
            Id::VclDeps => CliReply::ok(self.vcls.deps(self.params.compat())),
            Id::VclSymtab => CliReply::ok(self.vcls.symtab()),
            Id::TlsTicketList => self.ticket_list(request),
            Id::TlsAcmeList => self.acme_list(request),
            Id::TlsAcmeRenew => self.acme_renew(text(0)),
            Id::DebugPanicMaster => not_built("The manager doesn't panic on request."),
            // Sessions answer both before they come here.
            Id::Upgrade => CliReply::cant("An upgrade is asked for on a CLI connection, which gets the answer."),
            Id::Auth => CliReply::cant("Only a CLI connection authenticates."),
        }
    }

    pub(crate) fn json(&self, request: &CliRequest, members: &str) -> CliReply {
        json_reply(&request.words, self.clock.real().0, members)
    }

    fn forward(&mut self, request: &CliRequest) -> CliReply {
        if self.worker.pid().is_none() {
            return self.without_worker(request);
        }
        let line = cli::client::encode(&request.words);
        if request.name() == "ban" {
            // Before the answer: what it hits isn't served to their last requests, either.
            self.tell_leaving(&line);
        }
        self.worker.command(line)
    }

    /// The reply to a command for the worker while there is none: varnishd's two lines, then what to type.
    fn without_worker(&self, request: &CliRequest) -> CliReply {
        let text = "Unknown request in manager process (child not running).\nType 'help' for more info.";
        let reply = CliReply::new(CliStatus::Unknown, text);
        let name = request.name();
        if cli_cmds::lookup(name).is_none() {
            return reply.meant(name, cli_cmds::COMMANDS.iter().map(|command| command.name));
        }
        let lead = match (self.worker.state, self.vcls.not_startable()) {
            (WorkerState::Died, _) => "It died and is being restarted: try again in a moment.".to_owned(),
            (_, None) => "To start it, type: varnishadm start".to_owned(),
            (_, Some(lacks)) => format!("{lacks}: load one with vcl.load and vcl.use, then type: varnishadm start"),
        };
        reply.line(&format!("The worker, which answers {name}, isn't running. {lead}"))
    }

    /// The line with our own version is where Varnish has an empty one: programs that look at a terminal find each line in its place.
    pub(crate) fn banner(&self) -> String {
        let mut text = format!(
            "-----------------------------\nVarnish Cache CLI 1.0\n-----------------------------\n{}\n{}\n{}\n\
             Type 'help' for command list.\nType 'quit' to close CLI session.\n",
            self.server.vident,
            version_string(self.params.compat()),
            own_version(self.params.compat())
        );
        if self.worker.pid().is_none() {
            text.push_str("Type 'start' to launch worker process.\n");
        }
        text
    }

    fn help(&self, request: &CliRequest, authenticated: bool) -> CliReply {
        let has_worker = self.worker.pid().is_some();
        if request.wants_json() {
            return self.json(request, &cli_cmds::help_json(authenticated, has_worker));
        }
        match request.arg(0) {
            None => CliReply::ok(cli_cmds::help(HelpFilter::Plain, authenticated, has_worker)),
            Some("-a") => CliReply::ok(cli_cmds::help(HelpFilter::All, authenticated, has_worker)),
            Some("-d") => CliReply::ok(cli_cmds::help(HelpFilter::Debug, authenticated, has_worker)),
            Some(flag) if flag.starts_with('-') => CliReply::new(CliStatus::Unknown, "Unknown flag\n"),
            Some(name) => {
                let known = cli_cmds::lookup(name)
                    .filter(|c| c.is_known(has_worker) && (authenticated || OPEN.contains(&c.name)));
                known.map_or_else(|| CliReply::unknown_as(name), |command| CliReply::ok(cli_cmds::help_one(command)))
            }
        }
    }

    fn start(&mut self) -> CliReply {
        if self.worker.state != WorkerState::Stopped {
            return CliReply::new(CliStatus::Cant, format!("Child in state {}", self.worker.state.word()));
        }
        match self.vcls.not_startable() {
            Some(reason) => CliReply::new(CliStatus::Cant, reason),
            None => {
                self.ended.restarts = 0;
                self.launch_worker()
            }
        }
    }

    fn stop(&mut self) -> CliReply {
        if self.worker.state != WorkerState::Running && self.worker.state != WorkerState::Died {
            return CliReply::new(CliStatus::Cant, format!("Child in state {}", self.worker.state.word()));
        }
        self.stop_worker();
        CliReply::ok("")
    }

    fn pid(&self, request: &CliRequest) -> CliReply {
        let (own, worker) = (std::process::id(), self.worker.pid());
        if request.wants_json() {
            let worker = worker.map(|pid| format!(", \"worker\": {pid}")).unwrap_or_default();
            return self.json(request, &format!(",\n  {{\"master\": {own}{worker}}}"));
        }
        let worker = worker.map(|pid| format!("Worker: {pid:10}\n")).unwrap_or_default();
        CliReply::ok(format!("Master: {own:10}\n{worker}"))
    }

    fn panic_show(&mut self, request: &CliRequest) -> CliReply {
        self.await_naming();
        match &self.ended.panic {
            None => CliReply::cant("Child has not panicked or panic has been cleared"),
            Some(text) if request.wants_json() => self.json(request, &format!(",\n{}", quote(text))),
            Some(text) => CliReply::ok(format!("{text}\n")),
        }
    }

    fn panic_clear(&mut self, arg: Option<&str>) -> CliReply {
        match arg {
            Some("-z") => {
                self.count(|m| m.counters.child_panic.set(0));
                self.ended.panic = None;
                CliReply::ok("")
            }
            Some(other) => CliReply::new(CliStatus::Param, format!("Unknown parameter \"{other}\".")),
            None if self.ended.panic.is_none() => CliReply::new(CliStatus::Cant, "No panic to clear"),
            None => {
                self.ended.panic = None;
                CliReply::ok("")
            }
        }
    }

    fn param_show(&self, request: &CliRequest) -> CliReply {
        let (mut show, json) = (ParamShow::default(), request.wants_json());
        for word in request.args() {
            match std::str::from_utf8(word).unwrap_or("\u{fffd}") {
                "-l" if json => return CliReply::param("-l not permitted with param.show -j"),
                "-l" => show.long = true,
                "changed" => show.changed = true,
                _ if show.name.is_some() => return CliReply::new(CliStatus::TooMany, "Too many parameters"),
                name => show.name = Some(name),
            }
        }
        let shown = if json { show.json(&self.params) } else { show.text(&self.params) };
        match shown {
            Err(e) => refused_param(&e),
            Ok(text) if json => self.json(request, &format!(",\n{text}")),
            Ok(text) => CliReply::ok(text),
        }
    }

    /// Says something about a parameter, the first time only. The texts are those of tables: there are few.
    pub(crate) fn print_once(&mut self, text: &str) {
        if self.server.printed_notes.insert(text.to_owned()) {
            print(ReportSeverity::Info, text);
        }
    }

    /// The counter holds the state: an upgrade carries it over, and readers of counters see it.
    fn drain(&mut self, request: &CliRequest) -> CliReply {
        match request.arg(0) {
            None => {}
            Some("on") => self.count(|m| m.counters.draining.set(1)),
            Some("off") => self.count(|m| m.counters.draining.set(0)),
            Some(word) => return CliReply::new(CliStatus::Param, format!("on, off or nothing is wanted, not {word}")),
        }
        if self.worker.pid().is_some() {
            return self.forward(request);
        }
        let state = DrainState { is_on: self.is_draining(), ..DrainState::default() };
        if request.wants_json() { self.json(request, &state.json()) } else { CliReply::ok(state.to_string()) }
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.server.memory.as_ref().is_some_and(|memory| memory.counters.draining.get() > 0)
    }

    /// Sets (or resets, without a value) a parameter here and in the worker. `-j` answers with `param.show -j`.
    fn param_set(&mut self, name: &str, value: Option<&str>, request: &CliRequest) -> CliReply {
        let done = match value {
            Some(value) => self.params.set(name, value),
            None => self.params.reset(name),
        };
        let applied = match done {
            Err(e) => match e.forgiven() {
                Some(text) => {
                    self.print_once(&text);
                    return CliReply::ok(text);
                }
                None => return refused_param(&e),
            },
            Ok(applied) => applied,
        };
        let told = applied.note(name).unwrap_or_default();
        if !told.is_empty() {
            self.print_once(&told);
        }
        self.params_changed();
        let running = self.worker.pid().is_some();
        if running {
            // The worker applies the same command to the same values.
            let mut words = vec![if value.is_some() { "param.set" } else { "param.reset" }, name];
            words.extend(value);
            let answer = self.worker.command(cli::client::encode(&words));
            if !answer.is_ok() {
                return answer;
            }
        }
        if !request.wants_json() {
            return CliReply::ok(format!("{told}{}", applied.reply(running)));
        }
        let show = ParamShow { name: Some(name), ..ParamShow::default() };
        let words = &request.words[..request.words.len() - usize::from(value.is_some())];
        match show.json(&self.params) {
            Ok(text) => json_reply(words, self.clock.real().0, &format!(",\n{text}")),
            Err(e) => refused_param(&e),
        }
    }

    pub(crate) fn vcl_load(&mut self, name: &str, source: CheckerSource, state: Option<&str>) -> CliReply {
        let state = match self.vcls.may_load(name, state, self.quota()) {
            Ok(state) => state,
            Err(refusal) => return refusal,
        };
        let checked = match self.check_and_keep(name, source) {
            Ok(checked) => checked,
            Err(text) => return CliReply::new(CliStatus::Param, text),
        };
        let mut reply = self.add_vcl(name, state, checked);
        if reply.is_ok() && self.worker.pid().is_none() {
            reply.push_str("VCL compiled.\n");
        }
        reply
    }

    /// Checks a file as `vcl.load` does, and answers all the sources that it is made of.
    fn fleet_bundle(&self, file: &str) -> CliReply {
        match self.check_vcl(CheckerSource::File(file.into()), false) {
            CheckOutcome::Good(good, _) => CliReply::new(CliStatus::Ok, good.text),
            CheckOutcome::Bad(text) => CliReply::new(CliStatus::Param, text),
        }
    }

    /// Adds a checked VCL; on failure its file goes.
    pub(crate) fn add_vcl(&mut self, name: &str, state: VclState, checked: CheckedVcl) -> CliReply {
        if let Some(keys) = &checked.keys
            && let Err(reason) = self.send_secret(HandoffSecret::OriginKeys, keys)
        {
            self.remove_vcl(&checked.file);
            return CliReply::new(CliStatus::Cant, reason);
        }
        let (file, quota, now) = (checked.file.clone(), self.quota(), self.now());
        let reply = self.vcls.load(name, state, checked, quota, now, &mut self.worker);
        if !reply.is_ok() {
            self.remove_vcl(&file);
        }
        reply
    }

    /// Has a VCL checked and writes its bundle below the workdir. The error is what the CLI answers.
    pub(crate) fn check_and_keep(&self, name: &str, source: CheckerSource) -> Result<CheckedVcl, String> {
        let (good, warnings) = match self.check_vcl(source, false) {
            CheckOutcome::Good(good, warnings) => (good, warnings),
            CheckOutcome::Bad(text) => return Err(text),
        };
        let keys = originkeys::read(name, &good.key_files, &self.jail);
        let keys = keys.map_err(|reason| format!("{reason}\nVCL compilation failed"))?;
        let Real(now) = self.clock.real();
        let dir = std::path::PathBuf::from(format!("vcl_{name}.{now:.6}"));
        let file = dir.join(BUNDLE);
        let write = || {
            workdir::make_subdir(&dir, &self.jail)?;
            workdir::write_private(&file, &good.text)
        };
        match write() {
            Ok(()) => Ok(CheckedVcl { file, keys, labels: good.labels, warnings }),
            Err(e) => {
                workdir::remove_tree(&dir, &self.jail);
                Err(format!(
                    "Cannot create VCL directory '{}': {}\nVCL compilation failed",
                    dir.display(),
                    errno_text(&e)
                ))
            }
        }
    }

    fn vcl_discard(&mut self, request: &CliRequest) -> CliReply {
        let patterns: Vec<&str> = (0..request.args().len()).map(|at| request.arg(at).unwrap_or("\u{fffd}")).collect();
        let now = self.now();
        let (files, reply) = self.vcls.discard(&patterns, now, &mut self.worker);
        for file in files {
            self.remove_vcl(&file);
        }
        reply
    }

    fn vcl_list(&mut self, request: &CliRequest) -> CliReply {
        match (self.worker.pid().is_some(), request.wants_json()) {
            (true, true) => self.worker.command("vcl.list -j"),
            (true, false) => self.worker.command("vcl.list"),
            (false, true) => self.json(request, &self.vcls.list_json()),
            (false, false) => CliReply::ok(self.vcls.list(self.params.compat())),
        }
    }

    pub(crate) fn logs_cli(&self) -> bool {
        self.params.syslog_cli_traffic && !self.debug(DebugBit::VtcMode)
    }
}

fn not_built(text: &str) -> CliReply {
    CliReply::new(CliStatus::Unimplemented, format!("{text}\n"))
}

fn either(result: Result<CliReply, CliReply>) -> CliReply {
    result.unwrap_or_else(|refusal| refusal)
}

fn refused_param(error: &ParamError) -> CliReply {
    let status = match error.status() {
        107 => CliStatus::Auth,
        300 => CliStatus::Cant,
        _ => CliStatus::Param,
    };
    CliReply::new(status, error.to_string())
}
