// SPDX-License-Identifier: BSD-2-Clause
//! The manager with a worker that only answers its CLI, for tests of the manager alone: no cache, no traffic.

use cli::handoff::WorkerStart;
use cli::{CliDecoder, CliReply, CliRequest, CliStatus};
use params::Params;
use shm::vsc::CounterMaker;
use shm::vsl::{LogFormat, LogRing, Marker};
use shm::vsm::{SegmentSet, SetOwner, SharedSegment};
use tables::Tag;
use tables::counters::Main;

fn main() {
    let mut words = std::env::args();
    let name = words.next().unwrap_or_default();
    let args: Vec<String> = words.collect();
    if let Some(socket) = manager::handover::socket() {
        std::process::exit(worker(&socket));
    }
    std::process::exit(match name.rsplit('/').next() {
        Some(manager::checker::PROGRAM) => manager::checker::run_child(vmods::MODULES),
        _ => manager::main("varnishd", &args, vmods::MODULES),
    });
}

struct Stub {
    start: WorkerStart,
    log: LogRing,
    vcls: Vec<(String, String)>,
    active: String,
}

fn worker(socket: &str) -> i32 {
    let number = socket.parse().expect("the manager gives a number");
    let socket = sys::fd::inherit(number).expect("the manager's socket");
    let mut bytes = Vec::new();
    let read = |bytes: &mut Vec<u8>| {
        let mut buf = [0; 4096];
        let n = sys::fd::read(&socket, &mut buf).unwrap_or(0);
        bytes.extend_from_slice(&buf[..n]);
        n > 0
    };
    let (start, used) = loop {
        if let Some(done) = WorkerStart::read(&bytes).expect("a hand-over") {
            break done;
        }
        if !read(&mut bytes) {
            return 1;
        }
    };
    let mut decoder = CliDecoder::trusted();
    decoder.feed(&bytes[used..]);
    let set = SegmentSet::adopt(std::path::Path::new("."), SetOwner::Worker, std::process::id())
        .expect("the manager made the directory");
    let main = CounterMaker::new(&set).add::<Main>("MAIN").expect("counters");
    let params = Params::decode(&start.params).expect("parameters");
    let log = LogRing::create(&set, LogFormat::of_server(params.compat()), params.log_settings(), main).expect("a log");
    let mut stub = Stub { start, log, vcls: Vec::new(), active: String::new() };
    println!("Child starts");
    let send = |reply: CliReply| sys::fd::write_all(&socket, &reply.encode()).is_ok();
    send(CliReply::ok(""));
    loop {
        while let Some(request) = decoder.next_request() {
            let reply = request.map_or_else(|e| e.reply(), |request| stub.answer(&request));
            send(reply);
        }
        let mut more = Vec::new();
        if !read(&mut more) {
            println!("Child dies");
            drop(set);
            return 0;
        }
        decoder.feed(&more);
    }
}

impl Stub {
    fn answer(&mut self, request: &CliRequest) -> CliReply {
        let line = String::from_utf8_lossy(&request.line).into_owned();
        self.log.write_one(Tag::Cli, base::Vxid(0), Marker::None, format!("Rd {line}").as_bytes());
        let arg = |at: usize| request.arg(at).unwrap_or_default().to_string();
        match request.name() {
            "ping" => CliReply::ok("PONG 1 1.0"),
            "start" | "param.set" | "param.reset" | "vcl.label" | "backend.list" => CliReply::ok(""),
            "vcl.load" => self.load(&arg(0), &arg(1), arg(2)),
            "vcl.state" => {
                self.vcls.iter_mut().filter(|(name, _)| *name == arg(0)).for_each(|vcl| vcl.1 = arg(1));
                CliReply::ok("")
            }
            "vcl.discard" => {
                self.vcls.retain(|(name, _)| *name != arg(0));
                CliReply::ok("")
            }
            "vcl.use" => {
                self.active = arg(0);
                CliReply::ok("")
            }
            "vcl.list" => CliReply::ok(self.vcls.iter().map(|v| self.row(v)).collect::<String>()),
            "debug.listen_address" => CliReply::ok(self.addresses()),
            "debug.xid" => CliReply::ok("XID is 999 chunk 1"),
            "debug.panic.worker" => self.panic(),
            _ => CliReply::unknown(),
        }
    }

    fn load(&mut self, name: &str, file: &str, state: String) -> CliReply {
        use vcl::Sources;
        let bundle = std::fs::read(file).ok().and_then(|bytes| vcl::SourceBundle::from_bytes(&bytes));
        match bundle.map(|bundle| bundle.read(vcl::MAIN)) {
            Some(Ok(_)) => {
                self.vcls.push((name.into(), state));
                CliReply::ok("")
            }
            _ => CliReply::new(CliStatus::Param, format!("{file} is no bundle")),
        }
    }

    fn row(&self, (name, state): &(String, String)) -> String {
        let (warm, state) = state.split_at(1);
        let temperature = if warm == "1" { "warm" } else { "cold" };
        let status = if *name == self.active { "active" } else { "available" };
        format!("{status:11} {state:7} {temperature:12} 0    {name}\n")
    }

    fn addresses(&self) -> String {
        let mut lines: Vec<String> = self
            .start
            .listeners
            .iter()
            .map(|l| format!("{} {}{}\n", l.name, l.address, if l.is_uds { " -" } else { "" }))
            .collect();
        lines.dedup();
        lines.concat()
    }

    fn panic(&self) -> ! {
        if let Some(fd) = self.start.manager.panic_fd.and_then(|fd| sys::fd::inherit(fd).ok())
            && let Ok(segment) = SharedSegment::from_fd(fd)
        {
            segment.write_text(b"Assert error in stub(), as asked\nby the test\n");
        }
        std::process::abort()
    }
}
