// SPDX-License-Identifier: BSD-2-Clause
//! The server of the test: this program as varnishd, a child with a directory of its own, asked by its CLI and by HTTP.

use admin::{AdminConnection, Door};
use std::fs;
use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use webclient::{Timed, WebResponse, talk};

/// Time that a start, an answer or an end may take.
const LIMIT: Duration = Duration::from_secs(10);
/// The exit status of varnishd when a worker of it has died before; ours has, on purpose.
const A_WORKER_DIED: i32 = 64;
const STEP: Duration = Duration::from_millis(10);
/// Bytes of messages that are shown at most of a server that doesn't start.
const MOST_SAID: u64 = 4096;

pub fn own(name: &str) -> Result<Command, String> {
    let mut command = Command::new(std::env::current_exe().map_err(|e| format!("this program's own file: {e}"))?);
    command.arg0(name).stdin(Stdio::null());
    Ok(command)
}

/// Runs a command: whether it ended well, and all that it said.
pub fn said_by(mut command: Command) -> Result<(bool, String), String> {
    let output = command.output().map_err(|e| e.to_string())?;
    let text = [output.stdout, output.stderr].concat();
    Ok((output.status.success(), String::from_utf8_lossy(&text).into_owned()))
}

pub struct SelftestServer {
    child: Child,
    directory: Directory,
    cli: AdminConnection,
    address: SocketAddr,
}

impl SelftestServer {
    /// Starts it with this VCL, a store in memory and one on disk (`disk`), and waits until it serves.
    pub fn start(vcl: &str, is_kept: bool) -> Result<SelftestServer, String> {
        let directory = Directory::new(is_kept)?;
        let path = directory.path.join("test.vcl");
        fs::write(&path, vcl).map_err(|e| format!("{}: {e}", path.display()))?;
        let mut child = own("varnishd")?
            .args(["-F", "-a", "127.0.0.1:0", "-T", "127.0.0.1:0", "-s", "default=malloc,32m"])
            .args(["-p", "shutdown_grace=0"])
            .arg("-s")
            .arg(format!("disk=file,{},32m", directory.path.join("store").display()))
            .arg("-n")
            .arg(directory.n())
            .arg("-f")
            .arg(&path)
            .process_group(0) // Ctrl-C is for us; it ends when we end it
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|e| format!("varnishd can't be started: {e}"))?;
        match reach(&directory.n(), &mut child) {
            Ok((cli, address)) => Ok(SelftestServer { child, directory, cli, address }),
            Err(error) => {
                let _ = (child.kill(), child.wait());
                let mut said = String::new();
                if let Some(stderr) = child.stderr.take() {
                    let _ = stderr.take(MOST_SAID).read_to_string(&mut said);
                }
                Err(format!("{error}\n{said}"))
            }
        }
    }

    /// The working directory, for tools' -n.
    pub fn n(&self) -> PathBuf {
        self.directory.n()
    }

    pub fn kept(&self) -> Option<PathBuf> {
        self.directory.is_kept.then(|| self.directory.path.clone())
    }

    pub fn worker(&self) -> Option<u64> {
        shm::reader::status(&self.n()).worker.map(|(pid, _)| pid)
    }

    pub fn ask(&mut self, line: &str) -> Result<String, String> {
        let reply =
            self.cli.ask(format!("{line}\n").as_bytes()).map_err(|_| format!("the CLI gave no answer to {line}"))?;
        let text = reply.text().into_owned();
        if admin::is_good(reply.status) { Ok(text) } else { Err(format!("{line}: {} {text}", reply.status.number())) }
    }

    /// One request on a connection of its own. `fields` are further lines, each with its end.
    pub fn get(&self, method: &str, path: &str, fields: &str, body: &str) -> Result<WebResponse, String> {
        let failed = |error: std::io::Error| format!("{method} {path}: {}", webclient::in_words(&error));
        let socket = TcpStream::connect_timeout(&self.address, LIMIT).map_err(failed)?;
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: selftest.example\r\nConnection: close\r\nContent-Length: {}\r\n{fields}\r\n{body}",
            body.len()
        );
        // A GET without a body says nothing of its length.
        let request = if body.is_empty() { request.replacen("Content-Length: 0\r\n", "", 1) } else { request };
        talk(Timed::new(socket, Instant::now() + LIMIT), request.as_bytes(), method == "HEAD").map_err(failed)
    }

    pub fn stop(mut self) -> Result<(), String> {
        let pid = nix::unistd::Pid::from_raw(self.child.id().cast_signed());
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).map_err(|e| e.to_string())?;
        let end = Instant::now() + LIMIT;
        while Instant::now() < end {
            match self.child.try_wait() {
                Ok(None) => thread::sleep(STEP),
                Ok(Some(status)) if status.success() || status.code() == Some(A_WORKER_DIED) => return Ok(()),
                Ok(Some(status)) => return Err(format!("it ended with {status}")),
                Err(error) => return Err(error.to_string()),
            }
        }
        Err(format!("it hadn't ended {} s after SIGTERM, and was killed", LIMIT.as_secs()))
    }
}

impl Drop for SelftestServer {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = (self.child.kill(), self.child.wait());
        }
    }
}

/// Waits until a server that begins can be asked: its CLI, and where it listens.
fn reach(n: &Path, child: &mut Child) -> Result<(AdminConnection, SocketAddr), String> {
    let end = Instant::now() + LIMIT;
    let mut failure = String::from("it doesn't say where its CLI is");
    while Instant::now() < end {
        if let Ok(Some(status)) = child.try_wait() {
            return Err(format!("varnishd ended with {status}"));
        }
        match reached(n) {
            Ok(both) => return Ok(both),
            Err(error) => failure = error,
        }
        thread::sleep(STEP);
    }
    Err(format!("varnishd doesn't serve after {} s: {failure}", LIMIT.as_secs()))
}

fn reached(n: &Path) -> Result<(AdminConnection, SocketAddr), String> {
    let door = Door::of(n).ok_or("it doesn't say where its CLI is")?;
    let address = door.addresses.first().ok_or("it has no CLI")?;
    let mut cli = AdminConnection::open(address, door.secret.as_deref(), Some(LIMIT))?;
    let mut ask = |line: &str| cli.ask(format!("{line}\n").as_bytes()).map_err(|_| "its CLI is silent".to_owned());
    if !ask("status")?.text().contains("running") {
        return Err("its worker doesn't run".to_owned());
    }
    let listens = ask("debug.listen_address")?.text().into_owned();
    let mut words = listens.split_whitespace().skip(1);
    let (Some(host), Some(port)) = (words.next(), words.next()) else { return Err(format!("it listens on {listens}")) };
    let address = format!("{host}:{port}").parse().map_err(|_| format!("it listens on {listens}"))?;
    Ok((cli, address))
}

/// A temporary directory; it goes with the server unless it is kept.
struct Directory {
    path: PathBuf,
    is_kept: bool,
}

impl Directory {
    fn new(is_kept: bool) -> Result<Directory, String> {
        let path = std::env::temp_dir().join(format!("lacquer-selftest.{}", std::process::id()));
        // Others may enter it: started by root, the server reads its VCL as another user. That the name is new is what create says.
        fs::DirBuilder::new().mode(0o755).create(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        Ok(Directory { path, is_kept })
    }

    fn n(&self) -> PathBuf {
        self.path.join("n")
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        if !self.is_kept {
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}
