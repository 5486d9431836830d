// SPDX-License-Identifier: BSD-2-Clause
//! The cache in front, a child process: `varnishd -d`, whose CLI is our pipe. Its end of input is its order to stop.

use crate::options::{DEFAULT_ADDRESS, DemoOptions, WATCH_ADDRESS, WatchPage};
use std::collections::VecDeque;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Time that it may take to stop before it is killed.
const STOP_LIMIT: Duration = Duration::from_secs(10);
const MAX_REPLY: usize = 1 << 20;
/// Lines of its stderr that are kept, to be shown when it fails.
const KEPT_LINES: usize = 20;

pub struct DemoCache {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    said: Arc<Mutex<VecDeque<String>>>,
    directory: Directory,
    address: SocketAddr,
    page: Option<SocketAddr>,
}

impl DemoCache {
    /// Starts it before the origin and waits until it serves.
    pub fn start(options: &DemoOptions, origin: SocketAddr) -> Result<Self, String> {
        let directory = Directory::new()?;
        let program = match &options.varnishd {
            Some(p) => p.clone(),
            None => std::env::current_exe().map_err(|e| format!("this program's own file: {e}"))?,
        };
        let listen = options.listen.clone().unwrap_or_else(|| free_address(DEFAULT_ADDRESS));
        let page = page_address(options)?;
        let watching = page.iter().flat_map(|page| {
            [
                "--watch".to_owned(),
                format!("{page},show-vcl"),
                "-plog_no_hit=on".to_owned(),
                "-pcache_status=on".to_owned(),
            ]
        });
        let watching: Vec<String> = watching.collect();
        let mut child = Command::new(&program)
            .arg0("varnishd")
            .args(["-d", "-a", &listen, "-s", &options.storage])
            .args(&watching)
            .arg("-n")
            .arg(directory.n())
            // The VCL comes by the CLI: root's jail might not be able to read a file of ours.
            .args(["-f", ""])
            .process_group(0) // Ctrl-C is for us; we stop it in order
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|e| format!("{}: {e}", program.display()))?;
        let said = Arc::new(Mutex::new(VecDeque::new()));
        if let Some(stderr) = child.stderr.take() {
            let said = Arc::clone(&said);
            let _ = thread::Builder::new().name("cache-log".into()).spawn(move || keep_lines(stderr, &said));
        }
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("no pipes to the cache".into());
        };
        let (input, output) = (Some(input), BufReader::new(output));
        let mut cache = DemoCache { child, input, output, said, directory, address: origin, page };
        match cache.serve(&vcl_text(origin)) {
            Ok(address) => cache.address = address,
            Err(e) => {
                let _ = cache.stop();
                return Err(format!("the cache did not start: {e}\n{}", cache.log()));
            }
        }
        Ok(cache)
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn page(&self) -> Option<SocketAddr> {
        self.page
    }

    pub fn directory(&self) -> PathBuf {
        self.directory.n()
    }

    pub fn check(&mut self) -> Result<(), String> {
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => Err(format!("the cache ended ({status})\n{}", self.log())),
            Err(e) => Err(format!("the cache: {e}")),
        }
    }

    /// Octets of memory of its processes, what is shared counted in proportion.
    pub fn memory(&self) -> u64 {
        tree(self.child.id()).into_iter().map(pss).sum()
    }

    /// Stops it in order, or kills it when that takes too long.
    pub fn stop(&mut self) -> Result<(), String> {
        self.input = None;
        let end = Instant::now() + STOP_LIMIT;
        while Instant::now() < end {
            match self.child.try_wait() {
                Ok(None) => thread::sleep(Duration::from_millis(20)),
                Ok(Some(_)) => return Ok(()),
                Err(e) => return Err(format!("the cache: {e}")),
            }
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        Err("the cache did not stop and was killed".into())
    }

    /// The dialogue of a start: banner, VCL, start, addresses.
    fn serve(&mut self, vcl: &str) -> Result<SocketAddr, String> {
        self.reply()?;
        self.ask(&format!("vcl.inline demo << END-OF-DEMO\n{vcl}END-OF-DEMO"))?;
        self.ask("vcl.use demo")?;
        self.ask("start")?;
        let addresses = self.ask("debug.listen_address")?;
        let first = addresses.lines().next().unwrap_or_default();
        let words: Vec<&str> = first.split_whitespace().collect();
        let [_, host, port] = words[..] else { return Err(format!("listens on `{first}`, which is no TCP address")) };
        let host = match host {
            "0.0.0.0" => "127.0.0.1",
            "::" => "::1",
            other => other,
        };
        let ip = host.parse().map_err(|_| format!("listens on `{first}`"))?;
        Ok(SocketAddr::new(ip, port.parse().map_err(|_| format!("listens on `{first}`"))?))
    }

    fn ask(&mut self, line: &str) -> Result<String, String> {
        let Some(input) = &mut self.input else { return Err("already stopped".into()) };
        input.write_all(format!("{line}\n").as_bytes()).map_err(|e| format!("{line}: {e}"))?;
        match self.reply()? {
            (200, text) => Ok(text),
            (status, text) => Err(format!("{line}: {status} {text}")),
        }
    }

    /// One reply of the CLI: 13 octets of head, the text, a line end.
    fn reply(&mut self) -> Result<(u16, String), String> {
        let mut head = [0; 13];
        self.output.read_exact(&mut head).map_err(|_| "it ended".to_owned())?;
        let head = String::from_utf8_lossy(&head).into_owned();
        let mut words = head.split_whitespace();
        let status = words.next().and_then(|w| w.parse().ok());
        let length = words.next().and_then(|w| w.parse().ok()).filter(|&l| l < MAX_REPLY);
        let (Some(status), Some(length)) = (status, length) else { return Err(format!("its CLI said `{head}`")) };
        let mut text = vec![0; length + 1];
        self.output.read_exact(&mut text).map_err(|_| "it ended".to_owned())?;
        text.truncate(length);
        Ok((status, String::from_utf8_lossy(&text).into_owned()))
    }

    fn log(&self) -> String {
        let said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        said.iter().cloned().collect::<Vec<_>>().join("\n")
    }
}

impl Drop for DemoCache {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.stop();
        }
    }
}

fn keep_lines(from: impl Read, said: &Mutex<VecDeque<String>>) {
    for line in BufReader::new(from).lines().map_while(Result::ok) {
        let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
        if said.len() == KEPT_LINES {
            said.pop_front();
        }
        said.push_back(line);
    }
}

/// The address of the page; None: there is none. An error: it can't be where the options say.
fn page_address(options: &DemoOptions) -> Result<Option<SocketAddr>, String> {
    match options.watch {
        WatchPage::Nowhere => Ok(None),
        // Another program may not know how to.
        WatchPage::Usual if options.varnishd.is_some() => Ok(None),
        WatchPage::Usual => Ok(bound_at(WATCH_ADDRESS).or_else(|_| bound_at("127.0.0.1:0")).ok()),
        WatchPage::At(address) => bound_at(address).map(Some).map_err(|e| format!("--watch {address}: {e}")),
    }
}

/// The address that something has once it listens there, which it does no more.
fn bound_at(address: impl ToSocketAddrs) -> std::io::Result<SocketAddr> {
    TcpListener::bind(address)?.local_addr()
}

/// The usual address, or one with another port when that is taken.
fn free_address(usual: &str) -> String {
    match TcpListener::bind(usual) {
        Ok(_) => usual.into(),
        Err(_) => "127.0.0.1:0".into(),
    }
}

fn vcl_text(origin: SocketAddr) -> String {
    format!(
        "vcl 4.1;\n\
         backend default {{ .host = \"{}\"; .port = \"{}\"; }}\n\
         sub vcl_deliver {{\n\
         \tif (obj.hits > 0) {{ set resp.http.X-Cache = \"hit\"; }} else {{ set resp.http.X-Cache = \"miss\"; }}\n\
         }}\n",
        origin.ip(),
        origin.port()
    )
}

struct Directory(PathBuf);

impl Directory {
    fn new() -> Result<Self, String> {
        let path = std::env::temp_dir().join(format!("lacquer-demo.{}", std::process::id()));
        // That the name is new is what create says.
        fs::DirBuilder::new().mode(0o700).create(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        Ok(Directory(path))
    }

    fn n(&self) -> PathBuf {
        self.0.join("n")
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A process and all below it.
fn tree(pid: u32) -> Vec<u32> {
    let mut found = vec![pid];
    let mut at = 0;
    while let Some(&p) = found.get(at) {
        let children = fs::read_to_string(format!("/proc/{p}/task/{p}/children")).unwrap_or_default();
        found.extend(children.split_whitespace().filter_map(|c| c.parse::<u32>().ok()));
        at += 1;
    }
    found
}

fn pss(pid: u32) -> u64 {
    let path = format!("/proc/{pid}/smaps_rollup");
    let text = fs::read_to_string(Path::new(&path)).unwrap_or_default();
    let line = text.lines().find_map(|l| l.strip_prefix("Pss:"));
    line.and_then(|l| l.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_a_living_process_is_not_zero() {
        let own = std::process::id();
        assert_eq!(tree(own).first(), Some(&own));
        assert!(pss(own) > 0);
        assert_eq!(pss(u32::MAX), 0);
    }

    #[test]
    fn a_missing_program_is_an_error() {
        let options = DemoOptions {
            listen: Some("127.0.0.1:0".into()),
            storage: "malloc,1m".into(),
            load: 0,
            watch: WatchPage::Usual,
            varnishd: Some("/no/such".into()),
        };
        let error = DemoCache::start(&options, SocketAddr::from(([127, 0, 0, 1], 1))).err().unwrap_or_default();
        assert_eq!(error, "/no/such: No such file or directory (os error 2)");
    }
}
