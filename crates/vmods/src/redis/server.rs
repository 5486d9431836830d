// SPDX-License-Identifier: BSD-2-Clause
//! The servers of a database, their connections, and a command's way to one of them. Connections that rest are looked at before
//! they are used; nothing here keeps a thread.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use net::{ConnectError, ConnectTarget, IdleState, ParkedStream, Stream};
use parking_lot::Mutex;
use redis_protocol::{RedisReply, ReplyReader};
use rt::Instant;
use tokio::sync::Semaphore;
use vrt::VclFailure;

use super::security::Security;
use crate::support::{client, wire};

/// No command takes longer, whatever VCL says.
const LONGEST: Duration = Duration::from_secs(60);
const MAX_SERVERS: usize = 64;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Role {
    Master,
    Slave,
    /// Nobody said: it is taken for a master.
    Unknown,
}

pub(super) struct Login {
    pub(super) user: Option<Vec<u8>>,
    pub(super) password: Option<Vec<u8>>,
    pub(super) is_resp3: bool,
}

pub(super) struct Database {
    pub(super) name: String,
    pub(super) connect_limit: Duration,
    pub(super) life: Duration,
    pub(super) limit: Duration,
    pub(super) retries: u32,
    pub(super) sick_for: Duration,
    pub(super) master_only: bool,
    pub(super) says_all: bool,
    pub(super) security: Option<Security>,
    login: Login,
    most: usize,
    turn: AtomicUsize,
    servers: Mutex<Vec<Arc<Server>>>,
}

struct Server {
    place: ConnectionSlot,
    role: Role,
    sick_until: Mutex<Option<Instant>>,
    permits: Semaphore,
    /// The one that was used last is at the end.
    idle: Mutex<Vec<Idle>>,
}

#[derive(Clone, PartialEq, Debug)]
enum ConnectionSlot {
    Inet(String, String),
    Unix(PathBuf),
}

struct Idle {
    stream: ParkedStream,
    born: Instant,
}

impl ConnectionSlot {
    fn parse(location: &str) -> Option<ConnectionSlot> {
        if location.starts_with('/') {
            return (location.len() < 108 && !location.contains('\0')).then(|| ConnectionSlot::Unix(location.into()));
        }
        let (host, port) = crate::goto::split(location).filter(|_| !location.contains('/'))?;
        Some(ConnectionSlot::Inet(host, port.unwrap_or_else(|| "6379".to_owned())))
    }
}

impl Database {
    pub(super) fn new(name: &str, most: usize, login: Login) -> Database {
        Database {
            name: name.to_owned(),
            connect_limit: Duration::ZERO,
            life: Duration::ZERO,
            limit: Duration::ZERO,
            retries: 0,
            sick_for: Duration::ZERO,
            master_only: false,
            says_all: false,
            security: None,
            login,
            most,
            turn: AtomicUsize::new(0),
            servers: Mutex::default(),
        }
    }

    pub(super) fn add(&self, location: &str, role: Role) -> Result<(), VclFailure> {
        let Some(place) = ConnectionSlot::parse(location) else {
            let name = &self.name;
            let text = format!("redis: {name}: \"{}\" is neither HOST:PORT nor a path", location.escape_debug());
            return Err(VclFailure::new(text));
        };
        let mut servers = self.servers.lock();
        if servers.len() == MAX_SERVERS {
            return Err(VclFailure::new(format!("redis: {}: more than {MAX_SERVERS} servers", self.name)));
        }
        servers.push(Arc::new(Server {
            place,
            role,
            sick_until: Mutex::default(),
            permits: Semaphore::new(self.most),
            idle: Mutex::default(),
        }));
        Ok(())
    }

    /// The servers for a command, best first: those that are sick last; slaves before masters where they may be used, each
    /// of them in its turn.
    fn plan(&self, master: bool) -> Vec<Arc<Server>> {
        let master = master || self.master_only;
        let mut servers = self.servers.lock().clone();
        servers.retain(|server| !master || server.role != Role::Slave);
        if !servers.is_empty() {
            let turn = self.turn.fetch_add(1, Relaxed) % servers.len();
            servers.rotate_left(if master { 0 } else { turn });
        }
        let now = Instant::now();
        servers.sort_by_key(|server| {
            let is_sick = server.sick_until.lock().is_some_and(|until| now < until);
            (is_sick, !master && server.role != Role::Slave)
        });
        servers
    }

    pub(super) async fn ask(
        &self,
        args: &[Vec<u8>],
        limit: Duration,
        retries: u32,
        master: bool,
    ) -> Result<RedisReply, String> {
        let servers = self.plan(master);
        if servers.is_empty() {
            return Err("there is no server for it".to_owned());
        }
        let limit = if limit.is_zero() { LONGEST } else { limit.min(LONGEST) };
        let command = redis_protocol::command(args);
        let mut last = String::new();
        for attempt in 0..=retries as usize {
            let server = &servers[attempt % servers.len()];
            match self.try_one(server, &command, limit).await {
                Ok(reply) => return Ok(reply),
                Err(reason) => last = reason,
            }
            if !self.sick_for.is_zero() {
                *server.sick_until.lock() = Some(Instant::now() + self.sick_for);
            }
        }
        Err(last)
    }

    async fn try_one(&self, server: &Server, command: &[u8], limit: Duration) -> Result<RedisReply, String> {
        let late = |_| "no answer in time".to_owned();
        let permit =
            rt::timeout(limit, server.permits.acquire()).await.map_err(|_| "no connection is free".to_owned())?;
        let _permit = permit.map_err(|_| "no connection is free".to_owned())?;
        let (stream, born) = match server.take(self.life) {
            Some(found) => found,
            None => (self.connect(server).await?, Instant::now()),
        };
        let reply = rt::timeout(limit, exchange(&stream, command)).await.map_err(late)??;
        // Whoever is told of an error may have been cut off: the next one finds out.
        *server.sick_until.lock() = None;
        server.keep(Idle { stream: stream.park(), born });
        Ok(reply)
    }

    async fn connect(&self, server: &Server) -> Result<Stream, String> {
        let limit = if self.connect_limit.is_zero() { LONGEST } else { self.connect_limit.min(LONGEST) };
        let begun = async {
            let stream = match &server.place {
                ConnectionSlot::Inet(host, port) => {
                    let stream = client::open(host, port, limit).await?;
                    match &self.security {
                        None => stream,
                        Some(security) => security.seal(stream, host, limit).await?,
                    }
                }
                ConnectionSlot::Unix(path) => match net::connect(&ConnectTarget::Unix(path.clone()), limit).await {
                    Ok(stream) => stream,
                    Err(ConnectError::Os(reason)) => return Err(reason.to_string()),
                    Err(ConnectError::Timeout) => return Err("no connection in time".to_owned()),
                },
            };
            if let Some(command) = self.login.command()
                && let RedisReply::Error(reason) = exchange(&stream, &redis_protocol::command(&command)).await?
            {
                return Err(String::from_utf8_lossy(&reason).into_owned());
            }
            Ok(stream)
        };
        rt::timeout(limit, begun).await.unwrap_or_else(|_| Err("no connection in time".to_owned()))
    }
}

impl Login {
    /// First command on a new connection.
    fn command(&self) -> Option<Vec<Vec<u8>>> {
        let user = || self.user.clone().unwrap_or_else(|| b"default".to_vec());
        match (&self.password, self.is_resp3) {
            (None, false) => None,
            (None, true) => Some(vec![b"HELLO".to_vec(), b"3".to_vec()]),
            (Some(password), true) => {
                Some(vec![b"HELLO".to_vec(), b"3".to_vec(), b"AUTH".to_vec(), user(), password.clone()])
            }
            (Some(password), false) => {
                let mut command = vec![b"AUTH".to_vec()];
                command.extend(self.user.clone());
                command.push(password.clone());
                Some(command)
            }
        }
    }
}

impl Server {
    /// A connection that rests and can be used.
    fn take(&self, life: Duration) -> Option<(Stream, Instant)> {
        loop {
            let idle = self.idle.lock().pop()?;
            // Looked at outside of the lock: it is a system call.
            let is_old = !life.is_zero() && idle.born.elapsed() >= life;
            if !is_old
                && idle.stream.pending() == IdleState::Nothing
                && let Ok(stream) = idle.stream.unpark()
            {
                return Some((stream, idle.born));
            }
        }
    }

    fn keep(&self, idle: Idle) {
        let oldest = {
            let mut all = self.idle.lock();
            all.push(idle);
            if all.len() > 1 { Some(all.remove(0)) } else { None }
        };
        // The one that rests longest is looked at each time, so that those that the server has closed go.
        if let Some(oldest) = oldest.filter(|oldest| oldest.stream.pending() == IdleState::Nothing) {
            self.idle.lock().insert(0, oldest);
        }
    }
}

async fn exchange(stream: &Stream, command: &[u8]) -> Result<RedisReply, String> {
    stream.write_all(command, None).await.map_err(wire::error_text)?;
    let (mut reader, mut input) = (ReplyReader::default(), Vec::new());
    loop {
        if let Some(reply) = reader.read(&mut input)? {
            if input.is_empty() {
                return Ok(reply);
            }
            return Err("the server says more than it was asked".to_owned());
        }
        if !wire::more(stream, &mut input).await? {
            return Err("the connection ended before an answer".to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations() {
        let inet = |host: &str, port: &str| Some(ConnectionSlot::Inet(host.into(), port.into()));
        assert_eq!(ConnectionSlot::parse("h:1"), inet("h", "1"));
        assert_eq!(ConnectionSlot::parse("h"), inet("h", "6379"));
        assert_eq!(ConnectionSlot::parse("[::1]:7"), inet("::1", "7"));
        assert_eq!(ConnectionSlot::parse("/run/r.sock"), Some(ConnectionSlot::Unix("/run/r.sock".into())));
        for bad in ["", ":1", "h:x", "http://h", "h/", "a b"] {
            assert_eq!(ConnectionSlot::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn which_server_is_asked() {
        let mut database = Database::new("d", 1, Login { user: None, password: None, is_resp3: false });
        for (location, role) in [("m", Role::Master), ("s1", Role::Slave), ("u", Role::Unknown), ("s2", Role::Slave)] {
            database.add(location, role).expect("a location");
        }
        let plan = |database: &Database, master| {
            let host = |server: &Arc<Server>| match &server.place {
                ConnectionSlot::Inet(host, _) => host.clone(),
                ConnectionSlot::Unix(_) => unreachable!("none was added"),
            };
            database.plan(master).iter().map(host).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(plan(&database, true), "m u");
        let both = [plan(&database, false), plan(&database, false), plan(&database, false)];
        assert!(both.iter().all(|plan| plan.starts_with('s')), "{both:?}");
        assert!(both.iter().any(|plan| plan.starts_with("s1")) && both.iter().any(|plan| plan.starts_with("s2")));
        let until = Instant::now() + Duration::from_secs(1000);
        *database.servers.lock()[0].sick_until.lock() = Some(until);
        assert_eq!(plan(&database, true), "u m");
        database.master_only = true;
        assert_eq!(plan(&database, false), "u m");
    }

    #[test]
    fn how_connections_begin() {
        let text = |user: Option<&str>, password: Option<&str>, is_resp3| {
            let bytes = |text: Option<&str>| text.map(|text| text.as_bytes().to_vec());
            let login = Login { user: bytes(user), password: bytes(password), is_resp3 };
            login.command().map(|command| String::from_utf8(command.join(&b' ')).unwrap())
        };
        assert_eq!(text(Some("u"), None, false), None);
        assert_eq!(text(None, Some("p"), false).as_deref(), Some("AUTH p"));
        assert_eq!(text(Some("u"), Some("p"), false).as_deref(), Some("AUTH u p"));
        assert_eq!(text(None, None, true).as_deref(), Some("HELLO 3"));
        assert_eq!(text(None, Some("p"), true).as_deref(), Some("HELLO 3 AUTH default p"));
    }
}
