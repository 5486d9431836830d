// SPDX-License-Identifier: BSD-2-Clause
//! The manager from outside: exit codes and texts, CLI sessions, the files it keeps, what happens when a worker dies.
//! Its worker is the stub of `examples/stubbed.rs`.

#![allow(clippy::unwrap_used, reason = "helpers of tests, too, fail by a panic")]

mod harness;

use harness::{Instance, run};

const VCL: &str = "vcl.inline v \"vcl 4.1; backend b none;\"";

#[test]
fn mistakes_end_with_status_2_and_a_line() {
    for (args, text) in [
        (&["-d", "-F"][..], "Error: Only one of -d or -F can be specified\n(-? gives usage)\n"),
        (&["-x", "foo"], "Error: Invalid -x argument\n(-? gives usage)\n"),
        (&["-jxyz", "-d"], "Error: Unknown jail method \"xyz\"\n"),
        (&["-d", "-s", "deprecated_persistent,/x,1g"], "Error: -sdeprecated_persistent isn't built into Lacquer"),
        (&["-d", "-a", "127.0.0.1:80000"], "Error: Got no socket(s) for 127.0.0.1:80000"),
        (&["-d", "-p", "no_such=1"], "Error:\nUnknown parameter \"no_such\"."),
        (&["-d", "-h", "xyz"], "Error: Unknown hash method \"xyz\""),
        (&["--compat", "8", "-d"], "Error: --compat: \"8\" is no release to be compatible with: it is 7.1 or 9\n"),
        (&["-d", "--compat"], "Error: --compat needs a value\n"),
        (&["-A"], "varnishd: option requires an argument -- 'A'\n"),
        (&["-B"], "varnishd: invalid option -- 'B'\n"),
    ] {
        let (status, _, stderr) = run(args);
        assert!(status == 2 && stderr.contains(text), "{args:?}: {status} {stderr}");
    }
}

#[test]
fn documentation_options_answer_on_their_stream() {
    for (compat, version) in [("7.1", "varnish-7.1.1"), ("9", "varnish-9.0.2")] {
        let (status, stdout, stderr) = run(&["--compat", compat, "-V"]);
        assert_eq!((status, stdout.as_str()), (0, ""));
        assert!(stderr.starts_with(&format!("varnishd ({version} revision ")), "{stderr}");
        assert!(stderr.contains("Copyright (c) 2006") && stderr.contains(&format!("(--compat {compat})")), "{stderr}");
        let (_, builtin, _) = run(&["-x", "builtin", &format!("--compat={compat}")]);
        assert_eq!(builtin.contains("Unexpected 304"), compat == "9");
    }
    for (kind, text) in [("parameter", "default_ttl"), ("vsl", "ReqURL"), ("cli", "vcl.load"), ("optstring", "?a:A:b:")]
    {
        let (status, stdout, _) = run(&["-x", kind]);
        assert!(status == 0 && stdout.contains(text), "-x {kind}");
    }
    let (status, stdout, _) = run(&["-?"]);
    assert!(status == 2 && stdout.starts_with("Usage: varnishd [options]"));
}

#[test]
fn c_prints_the_vcl_and_leaves_nothing() {
    let (status, _, stderr) = run(&["-C", "-b", "none"]);
    assert!(status == 0 && stderr.contains("backend default none;"), "{stderr}");
    let instance = Instance::reserve();
    let (status, _, _) = run(&["-C", "-b", "none", "-n", instance.dir()]);
    assert!(status == 0 && !instance.exists(""));
}

#[test]
fn a_debug_session_runs_a_worker_and_tidies_up() {
    let mut i = Instance::debug(&[]);
    assert_eq!(i.ask("status"), (200, "Child in state stopped".into()));
    assert_eq!(i.ask("start"), (300, "No VCL loaded".into()));
    assert_eq!(i.ask("backend.list").0, 101);
    assert_eq!(i.ask(VCL), (200, "VCL compiled.\n".into()));
    assert_eq!(i.ask("vcl.use v"), (200, "VCL 'v' now active".into()));
    assert_eq!(i.ask("start"), (200, String::new()));
    assert_eq!(i.ask("status"), (200, "Child in state running".into()));
    assert_eq!(i.deletions(), 0);
    assert!(i.ask("debug.listen_address").1.starts_with("a0 127.0.0.1 "));
    let port: u16 = i.ask("debug.listen_address").1.trim().rsplit(' ').next().unwrap().parse().unwrap();
    assert!(std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
    assert_eq!(i.ask("stop").0, 200);
    assert!(std::net::TcpStream::connect(("127.0.0.1", port)).is_err(), "nobody would answer");
    assert_eq!(i.deletions(), 2);
    assert!(!i.exists("_.vsm_child"));
    assert_eq!(i.ask("start").0, 200);
    assert_eq!(i.deletions(), 2);
    assert_eq!(i.ask("no.such").0, 101);
    assert_eq!(i.ask("VCL.list").0, 101);
    assert_eq!(i.ask("vcl.load a").0, 104);
    assert_eq!(i.ask("param.set default_ttl -1").0, 106);
    assert_eq!(i.ask("ping -j").0, 200);
    assert_eq!(i.end(), 0);
    for left in ["_.vsm_mgt", "_.secret", "_.pid"] {
        assert!(!i.exists(left), "{left}");
    }
}

#[test]
fn bad_vcl_is_refused_with_the_compilers_words() {
    let mut i = Instance::debug(&[]);
    let (status, text) = i.ask("vcl.inline v \"vcl 4.1; nonsense\"");
    assert!(status == 106 && text.starts_with("Message from VCC-compiler:\n"), "{text}");
    assert!(text.ends_with("VCL compilation failed"), "{text}");
    assert_eq!(i.ask("vcl.list"), (200, String::new()));
    assert_eq!(i.end(), 0);
}

#[test]
fn a_worker_that_panics_is_reported_and_not_restarted_when_told_so() {
    let mut i = Instance::debug(&["-p", "auto_restart=off", "-p", "feature=+no_coredump"]);
    i.started(VCL);
    assert_eq!(i.ask("debug.panic.worker"), (400, "CLI communication error (hdr)".into()));
    i.until("status", "Child in state stopped");
    let (status, text) = i.ask("panic.show");
    assert!(status == 200 && text.starts_with("Panic at: ") && text.contains("GMT\nAssert error in stub()"), "{text}");
    assert_eq!(i.ask("panic.clear").0, 200);
    assert_eq!(i.ask("panic.show").0, 300);
    assert_eq!(i.ask("start").0, 200);
    assert_eq!(i.end() & 0x40, 0x40);
}

#[test]
fn a_worker_that_is_killed_has_a_successor() {
    let mut i = Instance::debug(&[]);
    i.started(VCL);
    let first = i.worker_pid();
    harness::kill(first, sys::signal::SIGKILL);
    i.until_another_worker(first);
    i.until("status", "Child in state running");
    assert!(i.ask("vcl.list").1.contains("active"));
    assert_eq!(i.ask("panic.show").0, 300);
    assert_eq!(i.end(), 0x40);
}

#[test]
fn a_second_instance_is_refused_by_pid_file_and_by_address() {
    let mut i = Instance::debug(&[]);
    i.started(VCL);
    for (compat, name) in [("7.1", "Varnishd"), ("9", "varnishd")] {
        let (status, _, stderr) = run(&["--compat", compat, "-d", "-n", i.dir(), "-a", "127.0.0.1:0"]);
        assert!(status == 2 && stderr.contains(&format!("Error: {name} is already running (pid=")), "{stderr}");
    }
    let address = i.ask("debug.listen_address").1.split(' ').nth(2).unwrap().trim().to_string();
    let other = Instance::reserve();
    let (status, _, stderr) = run(&["-d", "-n", other.dir(), "-a", &format!("127.0.0.1:{address}")]);
    assert!(status == 2 && stderr.contains("Address already in use"), "{stderr}");
    assert_eq!(i.end(), 0);
}

#[test]
fn a_daemon_returns_when_its_worker_runs_and_ends_on_a_signal() {
    let i = Instance::reserve();
    let (status, _, stderr) = run(&["-b", "none", "-n", i.dir(), "-a", "127.0.0.1:0", "-T", "127.0.0.1:0"]);
    assert_eq!(status, 0, "{stderr}");
    assert!(stderr.contains("Child launched OK"));
    let pid: i32 = i.read("_.pid").parse().unwrap();
    let mut cli = i.connect();
    assert_eq!(cli.ask("status"), (200, "Child in state running".into()));
    harness::kill(pid, sys::signal::SIGTERM);
    cli.read_to_end();
    harness::wait_gone(pid);
    assert!(!i.exists("_.pid") && !i.exists("_.vsm_mgt"));
    let (status, _, stderr) = run(&["-b", "none", "-n", "/no/such/dir", "-a", "127.0.0.1:0"]);
    assert!(status == 255 && stderr.contains("Cannot create working directory"), "{status} {stderr}");
}

#[test]
fn strangers_get_nowhere_without_the_secret() {
    let mut i = Instance::debug(&["-T", "127.0.0.1:0"]);
    let mut cli = i.connect_raw();
    let (status, text) = cli.reply();
    assert!(status == 107 && text.ends_with("\n\nAuthentication required.\n"));
    assert_eq!(cli.ask("status").0, 101);
    cli.read_to_end();
    let mut cli = i.connect_raw();
    cli.reply();
    assert_eq!(cli.ask(&format!("auth {}", "0".repeat(64))).0, 500);
    let mut cli = i.connect();
    assert_eq!(cli.ask("pid").0, 200);
    assert_eq!(cli.ask("quit").0, 500);
    assert_eq!(i.end(), 0);
}

#[test]
fn the_cli_connects_to_a_master() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut i = Instance::debug(&["-M", &format!("127.0.0.1 {port}")]);
    let (socket, _) = listener.accept().unwrap();
    let mut cli = i.authenticate(socket);
    assert_eq!(cli.ask("status").0, 200);
    drop(cli);
    // It comes back.
    let (socket, _) = listener.accept().unwrap();
    assert_eq!(i.authenticate(socket).ask("ping").0, 200);
    assert_eq!(i.end(), 0);
}

#[test]
fn a_cli_file_is_run_and_its_failures_end_the_start() {
    let i = Instance::reserve();
    let file = format!("{}.cli", i.dir());
    std::fs::write(&file, "vcl.list\n-foobar\nvcl.load\n").unwrap();
    let (status, _, stderr) = run(&["-f", "", "-F", "-I", &file, "-n", i.dir(), "-a", "127.0.0.1:0"]);
    let _ = std::fs::remove_file(&file);
    assert!(status == 2 && stderr.contains("Error: -I file CLI command failed (104)"), "{status} {stderr}");
}
