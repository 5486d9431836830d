// SPDX-License-Identifier: BSD-2-Clause
//! The process of the checker.

use std::io::{self, Read};
use std::net::IpAddr;

use tables::Compat;
use vcl::program::BackendAddress;
use vcl::{CompileOptions, Dialect, MAIN, Modules, Recorder, SourceBundle, Sources, TlsFileKind};

use super::own::OwnListeners;
use super::sources::DiskSources;
use super::wire::{COMPAT, CheckRequest, CheckerSource, Good, SINCE_4_1};
use crate::fatal::errno_text;
use crate::report;

const LONGEST_REQUEST: u64 = 64 << 20;

/// Reads a request on stdin and answers it. Returns the exit status. `modules` are available to `import`.
pub fn run(modules: Modules) -> i32 {
    // A panic here is a bug of ours. It is reported in one line; the manager adds that the check failed.
    std::panic::set_hook(Box::new(|info| {
        report::stderr(&format!("The VCL compiler panicked: {}", info.to_string().replace('\n', " ")));
    }));
    let mut bytes = Vec::new();
    if let Err(e) = io::stdin().take(LONGEST_REQUEST).read_to_end(&mut bytes) {
        report::stderr(&format!(
            "lacquer-vcc: cannot read the manager's request on standard input: {}",
            errno_text(&e)
        ));
        return 1;
    }
    let Some(request) = CheckRequest::decode(&bytes) else {
        report::stderr(
            "lacquer-vcc compiles VCL for varnishd, which starts it; to check a file, run `lacquer vcl check FILE`",
        );
        return 1;
    };
    match check(&request, modules) {
        Ok((out, warnings)) => {
            let _ = sys::fd::write_all(sys::fd::standard(2), warnings.as_bytes());
            match sys::fd::write_all(sys::fd::standard(1), &out) {
                Ok(()) => 0,
                Err(_) => 1,
            }
        }
        Err(text) => {
            let _ = sys::fd::write_all(sys::fd::standard(2), text.as_bytes());
            2
        }
    }
}

/// The sources of one check: the given text, and everything else from disk or from a bundle. Only this machine can resolve names, sockets
/// and certificates, also for a bundle.
struct WithMain<'a> {
    main: Option<&'a (String, Vec<u8>)>,
    bundle: Option<&'a SourceBundle>,
    disk: DiskSources,
    own: OwnListeners<'a>,
}

impl Sources for WithMain<'_> {
    fn read(&self, path: &str) -> Result<(String, Vec<u8>), String> {
        match self.main {
            Some(main) if path == MAIN => Ok(main.clone()),
            _ => self.bundle.map_or_else(|| self.disk.read(path), |bundle| bundle.read(path)),
        }
    }
    fn glob(&self, pattern: &str) -> Result<Vec<String>, String> {
        self.bundle.map_or_else(|| self.disk.glob(pattern), |bundle| bundle.glob(pattern))
    }
    fn resolve(&self, host: &str) -> Result<Vec<IpAddr>, String> {
        self.disk.resolve(host)
    }
    fn is_socket(&self, path: &str) -> Result<bool, String> {
        self.disk.is_socket(path)
    }
    fn tls_file(&self, path: &str, kind: TlsFileKind) -> Result<(String, Vec<u8>), String> {
        self.disk.tls_file(path, kind)
    }
    fn own_listener(&self, address: &BackendAddress) -> Option<String> {
        self.own.find(address)
    }
}

fn check(request: &CheckRequest, modules: Modules) -> Result<(Vec<u8>, String), String> {
    let disk = DiskSources::new(&request.vcl_path);
    let bundle = match &request.source {
        CheckerSource::Bundle(bytes) => {
            Some(SourceBundle::from_bytes(bytes).ok_or("The bundle of sources is damaged.\n")?)
        }
        CheckerSource::Text(..) | CheckerSource::File(_) => None,
    };
    let main = match &request.source {
        CheckerSource::Bundle(_) => bundle.as_ref().map_or_else(|| Err(String::new()), |bundle| bundle.read(MAIN))?,
        CheckerSource::Text(name, text) => (name.clone(), text.clone()),
        CheckerSource::File(name) => disk.read(name).map_err(|line| format!("{line}\n"))?,
    };
    let has = |feature: &str| request.features.iter().any(|f| f == feature);
    let own = OwnListeners { list: &request.listeners, prefer_ipv6: has("prefer_ipv6") };
    let sources = WithMain { main: Some(&main), bundle: bundle.as_ref(), disk, own };
    let recorder = Recorder::new(&sources);
    // The main text must be in the bundle, so that it can be compiled again.
    let _ = recorder.read(MAIN);
    let dialect = request.features.iter().find_map(|f| f.strip_prefix("dialect=")).and_then(Dialect::from_name);
    let dialect = bundle.as_ref().and_then(|bundle| bundle.dialect).or(dialect);
    let compat = request.features.iter().find_map(|f| f.strip_prefix(COMPAT));
    let compat = compat.map_or_else(|| Ok(Compat::default()), Compat::parse)?;
    let options = CompileOptions {
        compat,
        dialect,
        allow_inline_c: has("allow_inline_c"),
        err_unref: has("err_unref"),
        unsafe_path: has("unsafe_path"),
        lazy_hosts: has("lazy_hosts"),
        stores: request.stores.clone(),
        labels: request.labels.clone(),
        check_regex: Some(vcl_regex::check),
        modules,
        ..CompileOptions::default()
    };
    let compiled =
        vcl::compile(&main.0, &main.1, &recorder, &options).map_err(|diagnostics| diagnostics.to_string())?;
    if has(SINCE_4_1) && compiled.program.syntax < 41 {
        let text =
            "Message from dlopen:\nCompiled VCL version (4.0) not supported.\nRunning dlopen failed, exited with 1\n";
        return Err(text.into());
    }
    let mut bundle = recorder.into_bundle();
    bundle.dialect = dialect;
    let text = if request.listing { listing(&bundle, compat) } else { bundle.to_bytes() };
    let good = Good { labels: compiled.program.labels, key_files: bundle.key_files(), text };
    Ok((good.encode(), compiled.warnings.to_string()))
}

/// All sources that were read: the main one first, the built-in VCL last.
fn listing(bundle: &SourceBundle, compat: Compat) -> Vec<u8> {
    let mut out = Vec::new();
    for ((_, question), answer) in &bundle.answers {
        if let vcl::SourceAnswer::File(Ok((name, text))) = answer {
            let note = if question == MAIN { "" } else { ", included" };
            out.extend_from_slice(format!("// {name}{note}\n").as_bytes());
            out.extend_from_slice(text);
            out.extend_from_slice(b"\n");
        }
    }
    out.extend_from_slice(b"// built-in VCL\n");
    out.extend_from_slice(vcl::builtin(compat).as_bytes());
    out
}
