// SPDX-License-Identifier: BSD-2-Clause
//! Instances in directories of their own, and CLI connections to them.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use cli::ReplyDecoder;
use cli::auth::CliChallenge;

/// The stub program under the name varnishd.
fn program() -> Command {
    let mut dir = std::env::current_exe().expect("tests know where they are");
    dir.pop();
    dir.pop();
    let mut command = Command::new(dir.join("examples/stubbed"));
    command.arg0("varnishd");
    command
}

/// Runs to its end: status, stdout, stderr.
pub fn run(args: &[&str]) -> (i32, String, String) {
    let out = program().args(args).stdin(Stdio::null()).output().expect("the program starts");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (out.status.code().unwrap_or(-1), text(out.stdout), text(out.stderr))
}

pub fn kill(pid: i32, signal: i32) {
    let signal = nix::sys::signal::Signal::try_from(signal).unwrap();
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), signal).expect("it lives");
}

/// Waits until no such process is left. It is somebody else's child: there is nothing to wait on but its disappearance.
pub fn wait_gone(pid: i32) {
    while Path::new(&format!("/proc/{pid}/cmdline")).exists()
        && !std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default().contains(") Z ")
    {
        std::thread::yield_now();
    }
}

pub struct TestCli<S> {
    stream: S,
    replies: ReplyDecoder,
}

impl<S: Read + Write> TestCli<S> {
    pub fn ask(&mut self, line: &str) -> (u16, String) {
        self.stream.write_all(format!("{line}\n").as_bytes()).expect("the manager reads");
        self.reply()
    }

    pub fn reply(&mut self) -> (u16, String) {
        loop {
            if let Some(reply) = self.replies.next_reply().expect("a reply") {
                return (reply.status.number(), reply.text().into_owned());
            }
            let mut buf = [0; 4096];
            let n = self.stream.read(&mut buf).expect("the manager answers");
            assert!(n > 0, "the connection ended before the reply");
            self.replies.feed(&buf[..n]);
        }
    }

    pub fn read_to_end(&mut self) {
        let _ = self.stream.read_to_end(&mut Vec::new());
    }
}

pub struct Pipes(ChildStdin, ChildStdout);

impl Read for Pipes {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        self.1.read(buf)
    }
}

impl Write for Pipes {
    fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
        self.0.write(buf)
    }
    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

/// A directory, and with -d the process that runs in it.
pub struct Instance {
    dir: String,
    process: Option<Child>,
    cli: Option<TestCli<Pipes>>,
}

static NUMBER: AtomicU32 = AtomicU32::new(0);

impl Instance {
    pub fn reserve() -> Instance {
        // Each in its own: others come and go beside it.
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let base = std::env::temp_dir().join(format!("lacquer-test-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&base).unwrap();
        // A jailed worker must be able to enter.
        std::fs::set_permissions(&base, std::fs::Permissions::from_mode(0o755)).unwrap();
        Instance { dir: base.join("i").to_str().unwrap().into(), process: None, cli: None }
    }

    /// With -d, and a small log.
    pub fn debug(args: &[&str]) -> Instance {
        let mut instance = Instance::reserve();
        let mut process = program()
            .args(["-d", "-n", &instance.dir, "-a", "127.0.0.1:0", "-l", "2m"])
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program starts");
        let pipes = Pipes(process.stdin.take().unwrap(), process.stdout.take().unwrap());
        let mut cli = TestCli { stream: pipes, replies: ReplyDecoder::new() };
        assert_eq!(cli.reply().0, 200, "the banner");
        instance.process = Some(process);
        instance.cli = Some(cli);
        instance
    }

    pub fn dir(&self) -> &str {
        &self.dir
    }

    pub fn exists(&self, name: &str) -> bool {
        Path::new(&self.dir).join(name).exists()
    }

    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(Path::new(&self.dir).join(name)).unwrap()
    }

    pub fn ask(&mut self, line: &str) -> (u16, String) {
        self.cli.as_mut().expect("a -d instance").ask(line)
    }

    /// Loads the VCL called v and starts a worker.
    pub fn started(&mut self, vcl: &str) {
        for line in [vcl, "vcl.use v", "start"] {
            assert_eq!(self.ask(line).0, 200, "{line}");
        }
    }

    /// Asks until the answer is this.
    pub fn until(&mut self, line: &str, answer: &str) {
        while self.ask(line).1 != answer {
            std::thread::yield_now();
        }
    }

    pub fn worker_pid(&mut self) -> i32 {
        let text = self.ask("pid").1;
        text.split("Worker:").nth(1).and_then(|pid| pid.trim().parse().ok()).unwrap_or(0)
    }

    pub fn until_another_worker(&mut self, than: i32) {
        loop {
            let pid = self.worker_pid();
            if pid != 0 && pid != than {
                return;
            }
        }
    }

    pub fn deletions(&self) -> usize {
        self.read("_.vsm_mgt/_.index").lines().filter(|line| line.starts_with('-')).count()
    }

    pub fn connect_raw(&self) -> TestCli<TcpStream> {
        let set = Path::new(&self.dir).join("_.vsm_mgt");
        let index = self.read("_.vsm_mgt/_.index");
        let line = index.lines().find(|line| line.ends_with("Arg -T")).expect("-T is published");
        let text = std::fs::read(set.join(line.split(' ').nth(1).unwrap())).unwrap();
        let text = String::from_utf8_lossy(&text).into_owned();
        let (host, port) = text.lines().next().unwrap().split_once(' ').unwrap();
        let stream = TcpStream::connect((host, port.parse().unwrap())).unwrap();
        TestCli { stream, replies: ReplyDecoder::new() }
    }

    /// An authenticated connection to -T.
    pub fn connect(&self) -> TestCli<TcpStream> {
        let raw = self.connect_raw();
        self.authenticate(raw.stream)
    }

    pub fn authenticate(&self, stream: TcpStream) -> TestCli<TcpStream> {
        let mut cli = TestCli { stream, replies: ReplyDecoder::new() };
        let (_, text) = cli.reply();
        let secret = std::fs::read(Path::new(&self.dir).join("_.secret")).unwrap();
        let answer = CliChallenge::from_reply(text.as_bytes()).unwrap().answer(&secret);
        let (status, banner) = cli.ask(&format!("auth {answer}"));
        assert!(status == 200 && banner.contains("Varnish Cache CLI 1.0"), "{banner}");
        cli
    }

    /// Closes stdin; the exit status.
    pub fn end(&mut self) -> i32 {
        let Pipes(stdin, mut stdout) = self.cli.take().expect("a -d instance").stream;
        drop(stdin);
        let _ = stdout.read_to_end(&mut Vec::new());
        self.process.take().expect("a -d instance").wait().unwrap().code().unwrap_or(-1)
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        if let Some(process) = &mut self.process {
            let _ = process.kill();
            let _ = process.wait();
        }
        let _ = std::fs::remove_dir_all(&self.dir);
        let _ = Path::new(&self.dir).parent().map(std::fs::remove_dir);
    }
}
