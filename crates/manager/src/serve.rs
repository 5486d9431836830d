// SPDX-License-Identifier: BSD-2-Clause
//! From the command line to a manager that serves: the order of what is checked, opened and written is varnishd's.

use std::collections::VecDeque;
use std::fs::File;
use std::path::PathBuf;
use std::rc::Rc;

use base::clock::Clock;
use cli::handoff::QuicStart;
use params::DebugBit;
use params::Params;
use sys::daemon::Daemon;
use sys::pidfile::{PidFile, PidFileError};
use sys::process::Executable;
use sys::signal::{self, SIGHUP, SIGINT, SIGTERM, Signals};
use tables::Compat;

use crate::access::CliAccess;
use crate::acme::Acme;
use crate::certs::config::CertsConfig;
use crate::checker::{CheckOutcome, CheckerSource, DiskSources};
use crate::clienttls::ClientTls;
use crate::clitcp::{self, Masters};
use crate::ended::EndedWorkers;
use crate::fatal::{Fatal, argument, errno_text};
use crate::fleet::FleetMembership;
use crate::jail::Jail;
use crate::listen::{self, BoundListener};
use crate::listening::Listening;
use crate::manager::Manager;
use crate::memory::ManagerMemory;
use crate::options::{ManagerOptions, OrderedArg, ParamArg, StartMode, VclArg};
use crate::originkeys;
use crate::reply::{CliReply, ReplyExt};
use crate::report::{self, ReportSeverity, print};
use crate::server::Server;
use crate::session::CliSessionKind;
use crate::storage::Storage;
use crate::stores::ManagerStores;
use crate::upgrade::Upgrade;
use crate::usage::{own_version, version_string};
use crate::vcls::ManagerVcls;
use crate::watch::Watcher;
use crate::workdir;
use crate::worker::ManagedWorker;

/// Descriptors that a worker may have, if we may allow it.
const OPEN_FILES: u64 = 1 << 20;
const HASHES: [&str; 4] = ["critbit", "classic", "simple", "simple_list"];
const WAITERS: [&str; 2] = ["epoll", "poll"];

pub fn serve(options: &ManagerOptions) -> Result<i32, Fatal> {
    if let Some(inherited) = crate::upgrade::resume::inherited()? {
        return crate::upgrade::resume::resume(options, inherited);
    }
    report::configure(matches!(options.mode, StartMode::Debug | StartMode::Foreground), true);
    sys::fd::close_from(3);
    let program = crate::upgrade::program_path();
    let exe = Executable::open_self().or_else(|e| argument(format!("Cannot open my own executable: {e}")))?;
    let daemon = match options.mode {
        StartMode::Daemon => Some(sys::daemon::detach().or_else(|e| argument(format!("Fork() failed: {e}")))?),
        StartMode::Foreground | StartMode::Debug | StartMode::PrintVcl => None,
    };
    let (mut manager, mut todo) = prepare(options, exe)?;
    manager.upgrade.program = program;
    if options.mode == StartMode::PrintVcl {
        return Ok(print_vcls(&mut manager, &mut todo.vcls));
    }
    let signals = open(&mut manager, options, &mut todo)?;
    begin(manager, options, signals, todo.cli_file, daemon)
}

/// The parameter that until 4.0 said what -a says.
const OLD_LISTEN: &str = "listen_address";

/// Arguments that are worked through in their order, and what has come of them.
#[derive(Default)]
struct StartArgs {
    params: Params,
    stores: ManagerStores,
    listeners: Vec<BoundListener>,
    /// Number of listeners without a name.
    unnamed: u32,
    tls: Option<CertsConfig>,
    notes: Vec<String>,
    vcls: VecDeque<(String, Vec<u8>)>,
    cli_file: Option<File>,
}

impl StartArgs {
    fn read(options: &ManagerOptions, jail: &Jail) -> Result<StartArgs, Fatal> {
        let compat = crate::compat(options.compat)?;
        let mut args = StartArgs { params: Params::of(compat), ..StartArgs::default() };
        // Wherever -A stands, its listeners come before those of -a, as in release 9: who asks for the first one finds it.
        let (tls, others): (Vec<_>, Vec<_>) =
            options.ordered.iter().partition(|item| matches!(item, OrderedArg::Tls(_)));
        let has_a = options.ordered.iter().any(|item| matches!(item, OrderedArg::Listen(_)));
        for item in tls.into_iter().chain(others) {
            args.take(item, has_a, jail)?;
        }
        Ok(args)
    }

    fn take(&mut self, item: &OrderedArg, has_a: bool, jail: &Jail) -> Result<(), Fatal> {
        match item {
            OrderedArg::Listen(spec) => self.listen(spec, self.tls.is_some(), jail)?,
            OrderedArg::Tls(path) => {
                let config = CertsConfig::read(path, jail)?;
                config.listeners().try_for_each(|spec| self.listen(&spec, false, jail))?;
                self.notes.extend(config.notes(path));
                self.tls = Some(config);
            }
            OrderedArg::Vcl(vcl) => self.vcls.extend(read_vcl(vcl, &self.params, jail)?),
            OrderedArg::CliFile(name) => self.cli_file = Some(open_cli_file(name, jail)?),
            OrderedArg::Param(ParamArg::Set(name, value)) if name == OLD_LISTEN => {
                self.notes.push(old_listen_note(has_a).to_owned());
                for spec in value.split([' ', ',']).filter(|spec| !has_a && !spec.is_empty()) {
                    self.listen(spec, false, jail)?;
                }
            }
            OrderedArg::Param(param) => self.notes.extend(apply_param(param, &mut self.params)?),
            OrderedArg::Store(spec) => self.stores.add(spec)?,
        }
        Ok(())
    }

    /// Binds a listener. Its certificates and settings are found by its name, so with `checks_name` a frontend of the
    /// file of `-A` mustn't have that.
    fn listen(&mut self, spec: &str, checks_name: bool, jail: &Jail) -> Result<(), Fatal> {
        let arg = listen::parse(spec, &mut self.unnamed)?;
        match &self.tls {
            Some(config) if checks_name && arg.transport.is_tls && config.has(&arg.name) => {
                argument(format!("-a: a frontend of the file of -A has the name {}, too", arg.name))
            }
            _ => listen::bind(&arg, sys::cpu::usable(), jail, &mut self.listeners),
        }
    }
}

/// Jail, parameters, sockets, stores, workdir.
fn prepare(options: &ManagerOptions, exe: Executable) -> Result<(Manager, StartArgs), Fatal> {
    // While we may: the worker inherits it.
    let _ = sys::limits::raise_open_files(OPEN_FILES);
    let jail = Rc::new(Jail::enter(options.jail.as_deref())?);
    let clock = Clock::system();
    let mut args = StartArgs::read(options, &jail)?;
    check_secret(options.secret.as_deref(), &jail)?;
    let identity = identity(options.identity.as_deref().unwrap_or_default(), args.params.compat())?;
    let (workdir, remove_workdir) = enter_workdir(options, &args.params, &jail)?;
    args.stores.complete()?;
    let storage = Storage::open(std::mem::take(&mut args.stores), options.mode, &jail)?;
    let acme = open_acme(options, args.tls.as_ref(), &jail)?;
    let watch = match options.watch.as_deref().filter(|_| options.mode != StartMode::PrintVcl) {
        Some(words) => crate::watch::words(words).or_else(|reason| argument(format!("--watch {reason}")))?,
        None => Vec::new(),
    };
    let fleet = FleetMembership::read(options, &jail).or_else(argument)?;
    let listeners = std::mem::take(&mut args.listeners);
    let now = clock.mono();
    let tls = ClientTls::begin(args.tls.as_ref(), acme, &listeners, &args.params, &jail, now)?;
    let quic = listeners.iter().any(|listener| listener.transport.is_quic).then(random).transpose()?;
    let listening = Listening { listeners, quic: quic.map(QuicStart::new) };
    let vident = format!("{},-j{}{}", platform(), jail.name(), storage.stores.idents());
    let mut manager = Manager {
        server: Server { remove_workdir, vident, ..Server::new(exe, workdir, identity, random()?, now) },
        listening,
        storage,
        tls,
        fleet,
        vcls: ManagerVcls::begin(now),
        worker: ManagedWorker::new(jail.clone()),
        ended: EndedWorkers::default(),
        cli: CliAccess::new(now),
        watcher: Watcher::new(watch, None),
        upgrade: Upgrade::default(),
        params: std::mem::take(&mut args.params),
        clock,
        jail,
    };
    manager.params_changed();
    for note in &args.notes {
        manager.print_once(note);
        // The log of a daemon isn't on the terminal; who types an old line is there still.
        if options.mode == StartMode::Daemon {
            report::stderr(&format!("Info: {note}"));
        }
    }
    Ok((manager, args))
}

/// The name that `-i` gives this instance, or that of the machine. Release 9 has it in `Via`, as a token.
fn identity(given: &str, compat: Compat) -> Result<String, Fatal> {
    if given.is_empty() {
        return Ok(sys::process::host_name());
    }
    match given.chars().find(|c| !u8::try_from(*c).is_ok_and(message::chars::is_tchar)) {
        Some(wrong) if compat.is_9() => argument(format!(
            "Invalid character '{wrong}' for -i \"{given}\": with --compat 9 it is part of Via headers, and may have letters, \
             digits and !#$%&'*+-.^_`|~ only"
        )),
        _ => Ok(given.to_owned()),
    }
}

/// The workdir, and whether it is removed at the end.
fn enter_workdir(options: &ManagerOptions, params: &Params, jail: &Jail) -> Result<(PathBuf, bool), Fatal> {
    let (path, is_removed) = match (&options.name, options.mode) {
        (None, StartMode::PrintVcl) => (workdir::temporary()?, true),
        (name, mode) => (
            shm::reader::CounterReader::workdir_of(name.as_deref()),
            mode == StartMode::PrintVcl && !params.debug.has(DebugBit::VclKeep),
        ),
    };
    sys::syslog::open("varnishd");
    workdir::enter(&path, jail)?;
    workdir::remove_tree(std::path::Path::new("vmod_cache"), jail);
    workdir::make_subdir(std::path::Path::new("vmod_cache"), jail).or_else(|e| {
        argument(format!("Cannot create vmod directory ({}/vmod_cache): {}", path.display(), errno_text(&e)))
    })?;
    Ok((path, is_removed))
}

fn open_acme(options: &ManagerOptions, config: Option<&CertsConfig>, jail: &Jail) -> Result<Option<Acme>, Fatal> {
    if options.mode == StartMode::PrintVcl {
        return Ok(None);
    }
    let blocks = config.map(CertsConfig::acme).unwrap_or_default();
    Acme::open(&options.acme, blocks, jail).or_else(|reason| argument(format!("ACME: {reason}")))
}

/// A key that nobody can guess.
fn random() -> Result<[u8; 32], Fatal> {
    let mut secret = [0; 32];
    getrandom::fill(&mut secret).or_else(|e| argument(format!("No random numbers: {e}")))?;
    Ok(secret)
}

fn platform() -> String {
    let u = sys::process::platform();
    format!("{},{},{}", u.0, u.1, u.2)
}

/// The VCL that an argument names, with its origin for messages.
fn read_vcl(vcl: &VclArg, params: &Params, jail: &Jail) -> Result<Option<(String, Vec<u8>)>, Fatal> {
    match vcl {
        VclArg::Nothing => Ok(None),
        VclArg::File(name) => {
            let read = DiskSources::new(&params.vcl_path).load(name);
            read.map(Some).or_else(|(file, e)| {
                let more = if is_searched(&file, &e) { searched(&file, params) } else { who_reads(&file, &e, jail) };
                argument(format!("Cannot read -f file '{file}' ({}){more}", errno_text(&e)))
            })
        }
        VclArg::Backend(address) => {
            let body = match address.as_str() {
                none if none.eq_ignore_ascii_case("none") => "none;\n".to_string(),
                path if path.starts_with(['/', '@']) => format!("{{\n    .path = \"{path}\";\n}}\n"),
                host => format!("{{\n{}}}\n", backend_at(host)?),
            };
            let text = format!("vcl 4.1;\nbackend default {body}");
            Ok(Some(("<-b argument>".into(), text.into_bytes())))
        }
    }
}

/// True if a file of VCL has a relative name and isn't in any directory of `vcl_path`.
fn is_searched(file: &str, error: &std::io::Error) -> bool {
    error.kind() == std::io::ErrorKind::NotFound && !file.starts_with('/') && !file.is_empty()
}

/// The directories in which a relative name was looked for. The current directory isn't among them.
fn searched(file: &str, params: &Params) -> String {
    let here = std::env::current_dir().map(|dir| dir.join(file)).ok().filter(|path| path.is_file());
    let instead = here.map_or_else(String::new, |path| format!(": say -f {}", path.display()));
    format!("\n\tIt is looked for in {}{instead}.", params.vcl_path.replace(':', " and "))
}

/// The user who may not read a file of VCL, and where the file belongs. Empty where permissions aren't the fault.
fn who_reads(file: &str, error: &std::io::Error, jail: &Jail) -> String {
    if error.kind() != std::io::ErrorKind::PermissionDenied {
        return String::new();
    }
    let reader = jail.reader().map_or_else(|| "you".to_owned(), |user| format!("the user {user}"));
    let above = std::path::Path::new(file).ancestors().skip(1);
    // Nothing below a directory that can't be entered can be examined, so the last failure is the highest directory.
    let closed = above.filter(|dir| dir.join(".").metadata().is_err_and(|e| e.kind() == error.kind())).last();
    let fault = closed.map_or_else(|| "may not read it".to_owned(), |dir| format!("may not enter {}", dir.display()));
    format!("\n\tIt is read as {reader}, who {fault}: put it in /etc/varnish, readable by that user.")
}

/// Attributes of the backend that `-b` names. Browsers' addresses (`http://host:port/`) are accepted. The server of an
/// `https://` one must have a certificate for that name, as in a browser.
fn backend_at(text: &str) -> Result<String, Fatal> {
    if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
        return argument(format!("-b {text} names a host: say -b 127.0.0.1:{text} for a server on this machine"));
    }
    let Some((scheme, rest)) = text.split_once("://") else { return Ok(format!("    .host = \"{text}\";\n")) };
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let tls = match scheme.to_ascii_lowercase().as_str() {
        _ if host.is_empty() => return argument(format!("-b {text} names no host: -b host:port")),
        "https" => "    .ssl = 1;\n    .ssl_verify_host = 1;\n",
        "http" => "",
        _ => return argument(format!("-b {text}: backends speak HTTP: -b {host}")),
    };
    if !path.is_empty() {
        let shown = if tls.is_empty() { host } else { &text[..text.len() - path.len() - 1] };
        return argument(format!(
            "-b {text}: a backend has no path\n\tSay -b {shown}, or in VCL (-f): set bereq.url = \"/{}\" + bereq.url; in vcl_backend_fetch",
            path.trim_end_matches('/')
        ));
    }
    Ok(format!("    .host = \"{host}\";\n{tls}"))
}

fn old_listen_note(has_a: bool) -> &'static str {
    if has_a {
        "Parameter listen_address is ignored: -a says where to listen."
    } else {
        "Parameter listen_address is used as -a, which replaced it."
    }
}

fn open_cli_file(name: &str, jail: &Jail) -> Result<File, Fatal> {
    jail.privileged(|| File::open(name)).or_else(|e| argument(format!("\tCan't open {name}: {}", errno_text(&e))))
}

fn apply_param(param: &ParamArg, params: &mut Params) -> Result<Option<String>, Fatal> {
    let plain = |text: String| Fatal::Plain(2, format!("Error:\n{text}"));
    match param {
        ParamArg::Malformed(_) => argument("\t-p lacks '=': -p name=value"),
        ParamArg::Set(name, value) => match params.set_at_start(name, value) {
            Ok(applied) => Ok(applied.note(name)),
            Err(e) => e.forgiven_at_start().map(Some).ok_or_else(|| plain(e.to_string())),
        },
        ParamArg::Protect(list) => params.protect(list).map(|()| None).map_err(|e| plain(e.to_string())),
    }
}

fn check_secret(secret: Option<&str>, jail: &Jail) -> Result<(), Fatal> {
    match secret {
        None => Ok(()),
        Some("none") => {
            report::stderr("Warning: CLI authentication disabled.");
            Ok(())
        }
        Some(path) => match jail.privileged(|| File::open(path)) {
            Ok(_) => Ok(()),
            Err(e) => argument(format!("Cannot open -S file ({path}): {}", errno_text(&e))),
        },
    }
}

fn print_vcls(manager: &mut Manager, vcls: &mut VecDeque<(String, Vec<u8>)>) -> i32 {
    let mut status = 0;
    while let Some((name, text)) = vcls.pop_front() {
        match manager.check_vcl(CheckerSource::Text(name, text), true) {
            CheckOutcome::Good(good, warnings) => match originkeys::read("", &good.key_files, &manager.jail) {
                Ok(_) => report::stderr(&format!("{warnings}{}", String::from_utf8_lossy(&good.text))),
                Err(reason) => {
                    report::stderr(&reason);
                    status = 2;
                }
            },
            CheckOutcome::Bad(text) => {
                report::stderr(&text);
                status = 2;
            }
        }
    }
    status
}

/// VCLs, pid files, default sockets, shared memory, CLI sockets, the secret.
fn open(manager: &mut Manager, options: &ManagerOptions, todo: &mut StartArgs) -> Result<Signals, Fatal> {
    boot_vcls(manager, &mut todo.vcls)?;
    for path in &options.pid_files {
        open_pid_file(manager, PathBuf::from(path), 0)?;
    }
    // In a directory of another user's it may be a link to a file of root's.
    open_pid_file(manager, manager.server.workdir.join("_.pid"), sys::fd::NO_LINK)?;
    if manager.listening.listeners.is_empty() {
        let arg = listen::parse(listen::DEFAULT, &mut 0)?;
        listen::bind(&arg, sys::cpu::usable(), &manager.jail, &mut manager.listening.listeners)?;
    }
    check_hash_and_waiter(manager, options)?;
    let jail = manager.jail.clone();
    let mut memory = ManagerMemory::create(&jail, &manager.server.identity, manager.params.compat())
        .or_else(|e| argument(format!("Cannot create shared memory in {}: {e}", manager.server.workdir.display())))?;
    let published = open_cli(manager, options, &mut memory)
        .and_then(|()| {
            manager.server.pid_files.iter_mut().try_for_each(|file| {
                let written = jail.privileged(|| file.write());
                let path = file.path().display();
                written.or_else(|e| argument(format!("Could not write pid-file ({path}): {}", errno_text(&e))))
            })
        })
        .and_then(|()| open_secret(manager, options, &mut memory));
    if published.is_err() {
        // Tools would read it as that of a running server.
        memory.close(&jail, false);
        if manager.cli.secret_is_ours {
            let secret = manager.server.workdir.join(workdir::SECRET);
            jail.privileged(|| _ = std::fs::remove_file(secret));
        }
    }
    published?;
    manager.server.memory = Some(memory);
    let _ = signal::ignore(SIGHUP);
    Signals::new(&[SIGTERM, SIGINT]).or_else(|e| argument(format!("Cannot watch signals: {e}")))
}

fn boot_vcls(manager: &mut Manager, vcls: &mut VecDeque<(String, Vec<u8>)>) -> Result<(), Fatal> {
    let only = vcls.len() == 1;
    while let Some((origin, text)) = vcls.pop_front() {
        let name = manager.vcls.boot_name(only);
        let checked = manager
            .check_and_keep(&name, CheckerSource::Text(origin, text))
            .map_err(|text| Fatal::Plain(2, format!("Error:\n{text}")))?;
        let reply = manager.add_vcl(&name, crate::vcls::VclState::Auto, checked);
        if !reply.is_ok() {
            return Err(Fatal::Plain(2, format!("Error:\n{}", reply.text())));
        }
        if !reply.body.is_empty() {
            report::stderr(&format!("Warnings:\n{}", reply.text()));
        }
        manager.vcls.set_active(&name);
    }
    Ok(())
}

fn open_pid_file(manager: &mut Manager, path: PathBuf, flags: i32) -> Result<(), Fatal> {
    match manager.jail.privileged(|| PidFile::open(&path, 0o644, flags)) {
        Ok(file) => {
            manager.server.pid_files.push(file);
            Ok(())
        }
        Err(PidFileError::Running(pid)) => {
            let (pid, path) = (pid.unwrap_or(-1), path.display());
            argument(match manager.params.compat() {
                Compat::V7_1 => format!("Varnishd is already running (pid={pid}) (pidfile={path})"),
                Compat::V9 => format!("varnishd is already running (pid={pid}) (pidfile={path})"),
            })
        }
        Err(PidFileError::Io(e)) => {
            argument(format!("Could not open pid-file ({}): {}", path.display(), errno_text(&e)))
        }
    }
}

fn check_hash_and_waiter(manager: &mut Manager, options: &ManagerOptions) -> Result<(), Fatal> {
    let hash = options.hash.as_deref().unwrap_or("critbit");
    let kind = hash.split(',').next().unwrap_or("");
    if kind.is_empty() {
        return argument("-h argument is empty");
    }
    if !HASHES.contains(&kind) {
        return argument(format!("Unknown hash method \"{kind}\"\n\tThere are {}.", HASHES.join(", ")));
    }
    if kind != "classic" && hash.contains(',') {
        return argument(format!("Hash method \"{kind}\" takes no arguments"));
    }
    manager.server.vident.push_str(&format!(",-h{kind}"));
    if options.hash.is_some() {
        print(ReportSeverity::Info, &format!("-h {hash} has no effect: there is only one kind of index"));
    }
    for notice in &options.notices {
        print(ReportSeverity::Info, notice);
    }
    if let Some(waiter) = &options.waiter {
        if !WAITERS.contains(&waiter.as_str()) {
            return argument(format!("Unknown waiter method \"{waiter}\""));
        }
        print(ReportSeverity::Info, &format!("-W {waiter} has no effect: there is only one waiter"));
    }
    Ok(())
}

fn open_cli(manager: &mut Manager, options: &ManagerOptions, memory: &mut ManagerMemory) -> Result<(), Fatal> {
    manager.cli.masters = Masters::new(&options.masters, manager.now())?;
    let default = [clitcp::DEFAULT_CLI.to_string()];
    let addresses = if options.cli_addresses.is_empty() { &default[..] } else { &options.cli_addresses };
    for address in addresses.iter().filter(|address| *address != "none") {
        let mut lines = String::new();
        manager.cli.sockets.extend(clitcp::listen(address, &manager.jail, &mut lines)?);
        memory.publish("-T", &lines).or_else(|e| argument(format!("Cannot publish -T: {e}")))?;
    }
    Ok(())
}

fn open_secret(manager: &mut Manager, options: &ManagerOptions, memory: &mut ManagerMemory) -> Result<(), Fatal> {
    let path = match options.secret.as_deref() {
        Some("none") => return Ok(()),
        Some(path) => PathBuf::from(path),
        None => {
            manager.cli.secret_is_ours = true;
            workdir::make_secret(&manager.server.workdir, &manager.jail)?
        }
    };
    let text = path.to_string_lossy().into_owned();
    memory.publish("-S", &text).or_else(|e| argument(format!("Cannot publish -S: {e}")))?;
    match manager.jail.privileged(|| std::fs::read(&path)) {
        Err(_) => return Err(Fatal::Plain(2, format!("Can not read secret-file \"{text}\""))),
        Ok(secret) if secret.is_empty() => return Err(Fatal::Plain(2, format!("Empty secret-file \"{text}\""))),
        Ok(_) => {}
    }
    manager.cli.secret = Some(path);
    Ok(())
}

/// Sessions that are there from the start, the first worker, then the loop.
fn begin(
    mut manager: Manager,
    options: &ManagerOptions,
    mut signals: Signals,
    cli_file: Option<File>,
    daemon: Option<Daemon>,
) -> Result<i32, Fatal> {
    print(ReportSeverity::Debug, &format!("Version: {}", version_string(manager.params.compat())));
    print(ReportSeverity::Debug, &format!("Server: {}", own_version(manager.params.compat())));
    print(ReportSeverity::Debug, &format!("Platform: {}", manager.server.vident));
    if let Some(warning) = workdir::disk_warning(&manager.server.workdir).filter(|_| !manager.debug(DebugBit::VtcMode))
    {
        print(ReportSeverity::Info, &warning);
    }
    if options.mode == StartMode::Debug {
        let (input, output) = (sys::fd::duplicate(sys::fd::standard(0)), sys::fd::duplicate(sys::fd::standard(1)));
        match (input, output) {
            (Ok(input), Ok(output)) => manager.open_session(CliSessionKind::Debug, "debug".into(), input, Some(output)),
            _ => return argument("-d needs stdin and stdout"),
        }
    }
    if let Some(file) = cli_file {
        report::stderr("BEGIN of -I file processing");
        manager.run_file(file)?;
        report::stderr("END of -I file processing");
    }
    manager.use_kept_certificates();
    let mut started = CliReply::ok("");
    if options.mode != StartMode::Debug && manager.await_rollout(&mut signals) {
        return Ok(manager.finish());
    }
    match manager.vcls.not_startable() {
        _ if options.mode == StartMode::Debug || manager.worker.pid().is_some() => {}
        None => started = manager.launch_worker(),
        Some(reason) if !options.ordered.iter().any(|o| matches!(o, OrderedArg::Vcl(_))) => {
            print(ReportSeverity::Error, reason)
        }
        Some(_) => {}
    }
    // A signal to all processes ends the worker before it serves: that is no fault of the start.
    if !started.is_ok() && manager.on_signal(&mut signals) {
        return Ok(manager.finish());
    }
    let status = if started.is_ok() { 0 } else { 2 };
    if let Some(daemon) = daemon {
        let _ = daemon.report(status);
    }
    if status != 0 {
        return Err(Fatal::Plain(status as i32, started.text().into_owned()));
    }
    if options.mode == StartMode::Foreground {
        let _ = sys::fd::null_standard(0);
    }
    manager.begin_acme();
    manager.begin_watch();
    manager.begin_rollout();
    Ok(manager.run(signals))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_release_9_the_identity_is_a_token() {
        let name = |given: &str, compat| identity(given, compat).map_err(|e| e.to_string());
        for given in ["a", "cache-1.example.org", "!#$%&'*+-.^_`|~"] {
            assert_eq!(Compat::ALL.map(|compat| name(given, compat)), [Ok(given.to_owned()), Ok(given.to_owned())]);
        }
        for (given, wrong) in
            [("a b", ' '), ("a/b", '/'), ("\u{e9}", '\u{e9}'), ("a\n", '\n'), ("\u{20ac}", '\u{20ac}')]
        {
            assert_eq!(name(given, Compat::V7_1), Ok(given.to_owned()));
            let reason = name(given, Compat::V9).unwrap_err();
            assert!(reason.starts_with(&format!("Error: Invalid character '{wrong}' for -i \"{given}\"")), "{reason}");
        }
        assert_eq!(name("", Compat::V9), Ok(sys::process::host_name()));
    }

    #[test]
    fn a_browsers_address_names_a_backend() {
        let body = |text| backend_at(text).map_err(|e| e.to_string().lines().next().unwrap_or_default().to_owned());
        let host = |host: &str| format!("    .host = \"{host}\";\n");
        for (text, expected) in [
            ("127.0.0.1:80", host("127.0.0.1:80")),
            ("http://127.0.0.1:80", host("127.0.0.1:80")),
            ("http://www.example.com/", host("www.example.com")),
            ("HTTP://[::1]:8080", host("[::1]:8080")),
            ("https://a:8443/", format!("{}    .ssl = 1;\n    .ssl_verify_host = 1;\n", host("a:8443"))),
        ] {
            assert_eq!(body(text), Ok(expected));
        }
        for (text, expected) in [
            ("http://", "Error: -b http:// names no host: -b host:port"),
            ("http://a/app/", "Error: -b http://a/app/: a backend has no path"),
            ("https://a/app/", "Error: -b https://a/app/: a backend has no path"),
            ("ftp://a", "Error: -b ftp://a: backends speak HTTP: -b a"),
        ] {
            assert_eq!(body(text), Err(expected.to_owned()));
        }
        let whole = backend_at("https://a/app/").unwrap_err().to_string();
        assert!(whole.contains("Say -b https://a, or in VCL"), "{whole}");
    }
}
