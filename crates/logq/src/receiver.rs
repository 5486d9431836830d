// SPDX-License-Identifier: BSD-2-Clause
//! Lines to a receiver elsewhere: over TCP, a unix socket, or as syslog. Whoever follows the log never waits for it: a thread sends, a
//! queue of bounded bytes lies between, and what it couldn't take is told in its place once there is room again.

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, Write};
use std::net::{TcpStream, UdpSocket};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use base::lookup::addresses_of_text;
use toolkit::print;

/// Bytes that wait, where nothing else is asked for.
pub const QUEUE_BYTES: usize = 16 << 20;
/// Time that a connection may take to come about, and a receiver to take anything.
const PATIENCE: Duration = Duration::from_secs(10);
/// Times between two tries to connect: doubled each time.
const RETRIES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));
/// Time for which waiting lines may still be sent when the tool ends.
const FAREWELL: Duration = Duration::from_secs(2);
const BATCH_BYTES: usize = 64 << 10;
const DEV_LOG: &str = "/dev/log";
/// Facility daemon, severity info.
const DAEMON_INFO: u8 = 3 << 3 | 6;
const SYSLOG_PORT: &str = "514";

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LineReceiver {
    /// `tcp:HOST:PORT`: a line after the other.
    Tcp(String),
    /// `unix:PATH`: the same over a stream socket.
    Unix(PathBuf),
    /// `syslog`: the syslog of this machine, a line a message.
    LocalSyslog,
    /// `syslog:HOST[:PORT]`: a syslog elsewhere (RFC 5424 over UDP).
    Syslog(String),
}

impl FromStr for LineReceiver {
    type Err = String;

    fn from_str(text: &str) -> Result<LineReceiver, String> {
        let bad = || format!("{text}: not a receiver; write tcp:HOST:PORT, unix:PATH, syslog or syslog:HOST[:PORT]");
        match text.split_once(':') {
            None if text == "syslog" => Ok(LineReceiver::LocalSyslog),
            Some(("tcp", address)) if has_port(address) => Ok(LineReceiver::Tcp(address.to_owned())),
            Some(("unix", path)) if !path.is_empty() => Ok(LineReceiver::Unix(path.into())),
            Some(("syslog", address)) if has_port(address) => Ok(LineReceiver::Syslog(address.to_owned())),
            Some(("syslog", host)) if !host.is_empty() && !host.ends_with(':') => {
                Ok(LineReceiver::Syslog(format!("{host}:{SYSLOG_PORT}")))
            }
            _ => Err(bad()),
        }
    }
}

/// `HOST:PORT`, an IPv6 address in brackets.
fn has_port(address: &str) -> bool {
    let Some((host, port)) = address.rsplit_once(':') else { return false };
    let is_one_host = !host.contains(':') || host.starts_with('[') && host.ends_with(']');
    !host.is_empty() && is_one_host && port.parse::<u16>().is_ok_and(|port| port > 0)
}

impl fmt::Display for LineReceiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LineReceiver::Tcp(address) => write!(f, "tcp:{address}"),
            LineReceiver::Unix(path) => write!(f, "unix:{}", path.display()),
            LineReceiver::LocalSyslog => f.write_str("syslog"),
            LineReceiver::Syslog(address) => write!(f, "syslog:{address}"),
        }
    }
}

/// The lines that tell a receiver how many others are missing; made of their number and the receiver's name.
pub type Gap = fn(u64, &LineReceiver) -> Vec<u8>;

/// Sends lines. Dropped, it sends what waits for [`FAREWELL`] at the most.
#[derive(Debug)]
pub struct LineSender {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    receiver: LineReceiver,
    most: usize,
    gap: Gap,
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    lines: VecDeque<Vec<u8>>,
    bytes: usize,
    /// Lines that found no room since the last one that did.
    lost: u64,
    /// All that found none.
    left_out: u64,
    /// The time until which waiting lines are sent, once no more come.
    ends: Option<Instant>,
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    fn has_ended(&self) -> bool {
        self.ends.is_some_and(|ends| self.lines.is_empty() || Instant::now() >= ends)
    }

    fn put(&mut self, line: Vec<u8>) {
        self.bytes += line.len();
        self.lines.push_back(line);
    }

    fn batch(&mut self, most: usize) -> Vec<Vec<u8>> {
        let mut bytes = 0;
        let mut batch = Vec::new();
        while let Some(line) = self.lines.pop_front_if(|line| batch.is_empty() || bytes + line.len() <= most) {
            bytes += line.len();
            batch.push(line);
        }
        self.bytes -= bytes;
        batch
    }

    fn put_back(&mut self, batch: Vec<Vec<u8>>) {
        for line in batch.into_iter().rev() {
            self.bytes += line.len();
            self.lines.push_front(line);
        }
    }
}

impl LineSender {
    /// Begins; `most`: bytes that may wait.
    ///
    /// # Errors
    /// No thread can be had.
    pub fn start(receiver: LineReceiver, most: usize, gap: Gap) -> io::Result<LineSender> {
        let (queue, changed) = (Mutex::default(), Condvar::new());
        let shared = Arc::new(Shared { receiver, most, gap, queue, changed });
        let work = shared.clone();
        let thread = std::thread::Builder::new().name("receiver".into()).spawn(move || work.send_all())?;
        Ok(LineSender { shared, thread: Some(thread) })
    }

    /// Takes a line with its newline. One for which there is no room is counted and left out.
    pub fn send(&self, line: Vec<u8>) {
        let mut queue = self.shared.queue();
        if queue.bytes + line.len() > self.shared.most {
            queue.lost += 1;
            queue.left_out += 1;
            return;
        }
        let lost = std::mem::take(&mut queue.lost);
        if lost > 0 {
            queue.put((self.shared.gap)(lost, &self.shared.receiver));
        }
        queue.put(line);
        drop(queue);
        self.shared.changed.notify_one();
        if lost > 0 {
            // Not under the lock: who reads standard error may be slow.
            print::err(format_args!("{}: {lost} lines were lost: it didn't take them in time\n", self.shared.receiver));
        }
    }

    pub fn left_out(&self) -> u64 {
        self.shared.queue().left_out
    }
}

impl Drop for LineSender {
    fn drop(&mut self) {
        self.shared.queue().ends = Some(Instant::now() + FAREWELL);
        self.shared.changed.notify_one();
        let _ = self.thread.take().map(JoinHandle::join);
        let queue = self.shared.queue();
        let unsent = queue.lines.len() as u64 + queue.lost;
        if unsent > 0 {
            print::err(format_args!("{}: {unsent} lines were not sent\n", self.shared.receiver));
        }
    }
}

enum Channel {
    Stream(Box<dyn Write + Send>),
    LocalSyslog(UnixDatagram),
    Syslog(UdpSocket),
}

impl Shared {
    fn send_all(&self) {
        let mut pause = RETRIES.0;
        let mut is_away = false;
        while self.waits() {
            let ended = match self.connect() {
                Ok(channel) => {
                    if std::mem::take(&mut is_away) {
                        print::err(format_args!("{}: it is there again\n", self.receiver));
                    }
                    pause = RETRIES.0;
                    self.send_over(channel)
                }
                Err(error) => Err(error),
            };
            if let Err(error) = ended {
                if !std::mem::replace(&mut is_away, true) {
                    print::err(format_args!("{}: {error}; lines wait for it\n", self.receiver));
                }
                self.pause(pause);
                pause = (pause * 2).min(RETRIES.1);
            }
        }
    }

    /// Waits until there is something to send. False: that was all.
    fn waits(&self) -> bool {
        let is_idle = |queue: &mut Queue| queue.lines.is_empty() && queue.ends.is_none();
        let queue = self.changed.wait_while(self.queue(), is_idle).unwrap_or_else(PoisonError::into_inner);
        !queue.has_ended()
    }

    fn pause(&self, time: Duration) {
        let is_on = |queue: &mut Queue| queue.ends.is_none();
        drop(self.changed.wait_timeout_while(self.queue(), time, is_on));
        let ends = self.queue().ends;
        if ends.is_some() {
            // A last try or two.
            std::thread::sleep(time.min(FAREWELL / 4));
        }
    }

    fn connect(&self) -> io::Result<Channel> {
        Ok(match &self.receiver {
            LineReceiver::Tcp(address) => {
                let stream = connect_tcp(address)?;
                stream.set_write_timeout(Some(PATIENCE))?;
                Channel::Stream(Box::new(stream))
            }
            LineReceiver::Unix(path) => {
                let stream = UnixStream::connect(path)?;
                stream.set_write_timeout(Some(PATIENCE))?;
                Channel::Stream(Box::new(stream))
            }
            LineReceiver::LocalSyslog => {
                let socket = UnixDatagram::unbound()?;
                socket.connect(DEV_LOG)?;
                socket.set_write_timeout(Some(PATIENCE))?;
                Channel::LocalSyslog(socket)
            }
            LineReceiver::Syslog(address) => {
                let to = resolve(address)?;
                let socket = UdpSocket::bind(if to.is_ipv6() { "[::]:0" } else { "0.0.0.0:0" })?;
                socket.connect(to)?;
                Channel::Syslog(socket)
            }
        })
    }

    /// Sends until there is nothing more, or the receiver is gone.
    fn send_over(&self, mut channel: Channel) -> io::Result<()> {
        while self.waits() {
            let mut batch = self.queue().batch(BATCH_BYTES);
            if let Err((sent, error)) = channel.write(&batch) {
                self.queue().put_back(batch.split_off(sent));
                return Err(error);
            }
        }
        Ok(())
    }
}

fn resolve(address: &str) -> io::Result<std::net::SocketAddr> {
    addresses_of_text(address)?.into_iter().next().ok_or_else(|| io::Error::other("no address is known of it"))
}

fn connect_tcp(address: &str) -> io::Result<TcpStream> {
    let mut last = io::Error::other("no address is known of it");
    for to in addresses_of_text(address)? {
        match TcpStream::connect_timeout(&to, PATIENCE) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

impl Channel {
    /// Sends lines. An error comes with how many of them were sent before it, which must not come again.
    fn write(&mut self, lines: &[Vec<u8>]) -> Result<(), (usize, io::Error)> {
        let pid = std::process::id();
        match self {
            // What the kernel took of a connection that then broke has hardly arrived: better all of it twice than some of it never.
            Channel::Stream(stream) => stream.write_all(&lines.concat()).map_err(|error| (0, error)),
            Channel::LocalSyslog(socket) => {
                let head = format!("<{DAEMON_INFO}>lacquer[{pid}]: ");
                each(lines, &head, |message| socket.send(message))
            }
            Channel::Syslog(socket) => {
                // The receiver knows when and from where it came.
                let head = format!("<{DAEMON_INFO}>1 - - lacquer {pid} access - ");
                each(lines, &head, |message| socket.send(message))
            }
        }
    }
}

/// Each line as a message of its own.
fn each(lines: &[Vec<u8>], head: &str, send: impl Fn(&[u8]) -> io::Result<usize>) -> Result<(), (usize, io::Error)> {
    for (sent, line) in lines.iter().enumerate() {
        one_message(send(&[head.as_bytes(), line.trim_ascii_end()].concat())).map_err(|error| (sent, error))?;
    }
    Ok(())
}

/// A line that is too long for a datagram is left out: no other try would change that.
fn one_message(sent: io::Result<usize>) -> io::Result<()> {
    const EMSGSIZE: i32 = 90;
    match sent {
        Err(error) if error.raw_os_error() == Some(EMSGSIZE) => {
            print::err("syslog: a line was too long for a message and is left out\n");
            Ok(())
        }
        sent => sent.map(|_| ()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::net::TcpListener;

    use super::*;

    fn gap(lost: u64, _: &LineReceiver) -> Vec<u8> {
        format!("lost {lost}\n").into_bytes()
    }

    fn lines(listener: &TcpListener, count: usize) -> Vec<String> {
        let (stream, _) = listener.accept().expect("a connection");
        BufReader::new(stream).lines().take(count).map(|line| line.expect("a line")).collect()
    }

    #[test]
    fn receivers_have_names() {
        let check = |text: &str, expected: &str| {
            let shown =
                text.parse::<LineReceiver>().map_or_else(|_| "none".to_owned(), |receiver| receiver.to_string());
            assert_eq!(shown, expected, "{text}");
        };
        check("tcp:logs:5170", "tcp:logs:5170");
        check("tcp:[::1]:5170", "tcp:[::1]:5170");
        check("unix:/run/l.sock", "unix:/run/l.sock");
        check("syslog", "syslog");
        check("syslog:logs", "syslog:logs:514");
        check("syslog:logs:1514", "syslog:logs:1514");
        for bad in
            ["", "tcp:", "tcp:logs", "tcp:logs:0", "tcp:logs:x", "tcp:::1:5", "unix:", "syslog:", "udp:a:1", "/a"]
        {
            check(bad, "none");
        }
    }

    #[test]
    fn lines_arrive_in_order() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let receiver = LineReceiver::Tcp(listener.local_addr().expect("an address").to_string());
        let sender = LineSender::start(receiver, 1 << 20, gap).expect("a thread");
        (0..100).for_each(|n| sender.send(format!("{n}\n").into_bytes()));
        let expected: Vec<_> = (0..100).map(|n: u32| n.to_string()).collect();
        assert_eq!(lines(&listener, 100), expected);
        assert_eq!(sender.left_out(), 0);
    }

    #[test]
    fn what_finds_no_room_is_told_in_its_place() {
        // Nobody listens yet: all waits.
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        drop(listener);
        let sender = LineSender::start(LineReceiver::Tcp(address.to_string()), 20, gap).expect("a thread");
        (0..10).for_each(|n| sender.send(format!("line {n}\n").into_bytes()));
        assert_eq!(sender.left_out(), 8);
        let listener = TcpListener::bind(address).expect("the port again");
        let (stream, _) = listener.accept().expect("a connection");
        let mut reader = BufReader::new(stream);
        let mut next = || {
            let mut line = String::new();
            reader.read_line(&mut line).expect("a line");
            line
        };
        assert_eq!((next(), next()), ("line 0\n".to_owned(), "line 1\n".to_owned()));
        sender.send(b"after\n".to_vec());
        assert_eq!((next(), next()), ("lost 8\n".to_owned(), "after\n".to_owned()));
    }

    #[test]
    fn what_a_syslog_has_taken_does_not_come_again() {
        let (ours, theirs) = UnixDatagram::pair().expect("two sockets");
        ours.set_nonblocking(true).expect("a mode");
        theirs.set_nonblocking(true).expect("a mode");
        let lines: Vec<Vec<u8>> = (0..10_000).map(|n| format!("line {n}\n").into_bytes()).collect();
        // Nobody reads: at some line there is no more room.
        let (sent, error) = Channel::LocalSyslog(ours).write(&lines).expect_err("no room");
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        let mut message = [0; 100];
        let taken = std::iter::from_fn(|| theirs.recv(&mut message).ok()).count();
        assert!(sent > 0 && sent == taken, "{sent} of {taken}");
    }

    #[test]
    fn a_line_that_was_not_sent_comes_first_again() {
        let mut queue = Queue::default();
        ["a\n", "b\n", "c\n"].iter().for_each(|line| queue.put(line.as_bytes().to_vec()));
        let batch = queue.batch(4);
        assert_eq!((batch.len(), queue.bytes), (2, 2));
        queue.put_back(batch);
        assert_eq!((queue.batch(100).concat(), queue.bytes), (b"a\nb\nc\n".to_vec(), 0));
    }
}
