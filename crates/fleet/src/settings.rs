// SPDX-License-Identifier: BSD-2-Clause
//! What `--fleet` says: servers, how to speak to them, and what the log is to be like.
//!
//! `nats://[user[:password]@]host[:port][,nats://...][,setting=value...]`; also `tls://` (NATS over TLS), `redis://`, `rediss://`.
//! Files are named here and read by others: their owner may be root.

use std::path::PathBuf;
use std::time::Duration;

use base::text::parse_duration;

use crate::LogServer;

const MANY_SERVERS: usize = 16;
/// Entries that a log of ours keeps unless told otherwise.
const RETENTION: u64 = 1_000_000;
/// Seconds for which a node that starts waits for the log before it gives up what is stored.
const WAIT: Duration = Duration::from_secs(10);
const GROUP: &str = "all";
/// Seconds for which whoever invalidates waits for the log.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FleetLogKind {
    Nats,
    Redis,
}

impl FleetLogKind {
    pub fn name(self) -> &'static str {
        match self {
            FleetLogKind::Nats => "NATS",
            FleetLogKind::Redis => "Redis",
        }
    }

    fn port(self) -> u16 {
        match self {
            FleetLogKind::Nats => 4222,
            FleetLogKind::Redis => 6379,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeRole {
    Password,
    /// A token of NATS.
    Token,
    Authorities,
    Certificate,
}

impl NodeRole {
    pub const ALL: [(&'static str, NodeRole); 4] = [
        ("password-file", NodeRole::Password),
        ("token-file", NodeRole::Token),
        ("ca", NodeRole::Authorities),
        ("cert", NodeRole::Certificate),
    ];
}

/// All that `--fleet` says. Secrets aren't shown by `Debug`.
#[derive(Clone, PartialEq)]
pub struct FleetSettings {
    pub kind: FleetLogKind,
    /// Servers, the first to be tried first.
    pub servers: Vec<LogServer>,
    pub is_tls: bool,
    /// The log's name: nodes with the same one are a fleet.
    pub name: String,
    /// This node's name; empty: its identity.
    pub node: String,
    /// Address for other nodes, HOST:PORT.
    pub address: Option<String>,
    pub group: String,
    /// Takes what is rolled out to its group: VCL and parameters, from whoever may write to the log's server.
    pub deploys: bool,
    pub user: Option<String>,
    pub password: Option<String>,
    pub token: Option<String>,
    /// PEM; `None`: whom the system trusts.
    pub authorities: Option<Vec<u8>>,
    /// PEM, with its key.
    pub certificate: Option<Vec<u8>>,
    /// Entries that a log made by us keeps.
    pub retention: u64,
    /// NATS: copies of a log made by us. Redis: replicas that must have an entry before it counts.
    pub replicas: u32,
    pub wait: Duration,
    /// Once the log has been away for so long nothing older than that is served; `None`: everything is.
    pub stale: Option<Duration>,
    pub patience: Duration,
    /// Files that hold some of the above, to be given to [`FleetSettings::provide`].
    pub files: Vec<(NodeRole, PathBuf)>,
}

impl std::fmt::Debug for FleetSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "FleetSettings({}:{})", self.kind.name(), self.name)
    }
}

impl FleetSettings {
    /// Reads what stands behind `--fleet`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<FleetSettings, String> {
        let parts: Vec<&str> = text.split(',').collect();
        let first = parts.iter().find_map(|part| part.split_once("://")).map(|(scheme, _)| scheme);
        let (kind, is_tls) = scheme(first.ok_or("wants nats://HOST, tls://HOST, redis://HOST or rediss://HOST")?)?;
        let mut settings = FleetSettings {
            kind,
            is_tls,
            servers: Vec::new(),
            name: "fleet".to_owned(),
            node: String::new(),
            address: None,
            group: GROUP.to_owned(),
            deploys: false,
            user: None,
            password: None,
            token: None,
            authorities: None,
            certificate: None,
            retention: RETENTION,
            replicas: if kind == FleetLogKind::Nats { 1 } else { 0 },
            wait: WAIT,
            stale: None,
            patience: PATIENCE,
            files: Vec::new(),
        };
        for part in parts {
            match (part.split_once("://"), part.split_once('=')) {
                (Some((word, rest)), _) if scheme(word)? == (kind, is_tls) => settings.server(rest)?,
                (Some((word, _)), _) => return Err(format!("{word}:// beside another kind of server")),
                (None, Some((name, value))) => settings.set(name, value)?,
                (None, None) => {
                    return Err(format!("\"{part}\" is neither a server (SCHEME://HOST) nor setting=value"));
                }
            }
        }
        settings.check()
    }

    fn check(self) -> Result<FleetSettings, String> {
        let has = |role: NodeRole| self.files.iter().any(|(of, _)| *of == role);
        if !self.is_tls && (has(NodeRole::Authorities) || has(NodeRole::Certificate)) {
            return Err("ca and cert need tls:// or rediss://".to_owned());
        }
        if self.kind == FleetLogKind::Redis && has(NodeRole::Token) {
            return Err("token-file is for NATS".to_owned());
        }
        if self.kind == FleetLogKind::Nats && self.replicas == 0 {
            return Err("replicas is 1, 3 or 5 with NATS".to_owned());
        }
        Ok(self)
    }

    fn server(&mut self, text: &str) -> Result<(), String> {
        let (login, place) = text.rsplit_once('@').map_or((None, text), |(login, place)| (Some(login), place));
        if let Some(login) = login {
            let (user, password) = login.split_once(':').map_or((login, None), |(user, pass)| (user, Some(pass)));
            let decode = |text: &str| {
                let bytes = base::hex::unescape(text.as_bytes(), b'%');
                let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
                text.ok_or_else(|| "what stands before @ can't be read".to_owned())
            };
            self.user = Some(decode(user)?).filter(|user| !user.is_empty());
            self.password = password.map(decode).transpose()?;
        }
        let place = place.strip_suffix('/').unwrap_or(place);
        let server = LogServer::parse(place, self.kind.port()).ok_or_else(|| format!("\"{place}\" is no HOST:PORT"))?;
        if self.servers.len() == MANY_SERVERS {
            return Err(format!("more than {MANY_SERVERS} servers"));
        }
        self.servers.push(server);
        Ok(())
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let seconds = || {
            let seconds = parse_duration(value).filter(|seconds| (0.0..=86_400.0 * 365.0).contains(seconds));
            seconds.map(Duration::from_secs_f64).ok_or_else(|| format!("{name} wants a duration, as 10s"))
        };
        let word = || match is_word(value) {
            true => Ok(value.to_owned()),
            false => Err(format!("{name} wants up to 64 letters, digits, - and _ (and . in a node's or a group's)")),
        };
        match name {
            "name" if value.contains('.') => return Err("name has no dots".to_owned()),
            "name" => self.name = word()?,
            "node" => self.node = word()?,
            "address" => {
                let place = LogServer::parse(value, 0).filter(|place| place.port != 0);
                self.address =
                    Some(place.ok_or("address wants HOST:PORT, where other nodes reach this one")?.to_string());
            }
            "group" => self.group = word()?,
            "deploy" => {
                self.deploys = match value {
                    "on" => true,
                    "off" => false,
                    _ => return Err("deploy is on or off".to_owned()),
                }
            }
            "user" => self.user = Some(value.to_owned()),
            "retention" => {
                let number = value.parse().ok().filter(|number| (1..=1_000_000_000).contains(number));
                self.retention = number.ok_or("retention wants a number of entries, 1 to 1000000000")?;
            }
            "replicas" => {
                let number = value.parse().ok().filter(|number| *number <= 5);
                self.replicas = number.ok_or("replicas wants a number up to 5")?;
            }
            "wait" => self.wait = seconds()?,
            "stale" => self.stale = Some(seconds()?).filter(|stale| !stale.is_zero()),
            "patience" => {
                let patience = seconds()?;
                if !(Duration::from_millis(100)..=Duration::from_secs(60)).contains(&patience) {
                    return Err("patience is between 100ms and 60s".to_owned());
                }
                self.patience = patience;
            }
            _ => {
                let Some((_, role)) = NodeRole::ALL.into_iter().find(|(known, _)| *known == name) else {
                    return Err(format!(
                        "no setting {name} (there are name, node, address, group, deploy, user, password-file, token-file, ca, cert, \
                         retention, replicas, wait, stale, patience)"
                    ));
                };
                if !value.starts_with('/') {
                    return Err(format!("{name} wants the absolute name of a file"));
                }
                self.files.push((role, value.into()));
            }
        }
        Ok(())
    }

    pub fn provide(&mut self, role: NodeRole, contents: &[u8]) -> Result<(), String> {
        let line = || {
            let text = std::str::from_utf8(contents).map_err(|_| "it isn't text".to_owned())?;
            let text = text.trim_end_matches(['\n', '\r']);
            match text.is_empty() || text.contains('\n') {
                true => Err("it isn't one line".to_owned()),
                false => Ok(Some(text.to_owned())),
            }
        };
        match role {
            NodeRole::Password => self.password = line()?,
            NodeRole::Token => self.token = line()?,
            NodeRole::Authorities => self.authorities = Some(contents.to_vec()),
            NodeRole::Certificate => self.certificate = Some(contents.to_vec()),
        }
        Ok(())
    }
}

fn scheme(word: &str) -> Result<(FleetLogKind, bool), String> {
    Ok(match word {
        "nats" => (FleetLogKind::Nats, false),
        "tls" => (FleetLogKind::Nats, true),
        "redis" => (FleetLogKind::Redis, false),
        "rediss" => (FleetLogKind::Redis, true),
        _ => return Err(format!("{word}:// is none of nats://, tls://, redis://, rediss://")),
    })
}

/// True if the text may stand in names of streams, subjects and keys.
fn is_word(text: &str) -> bool {
    let is_good = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    (1..=64).contains(&text.len()) && text.bytes().all(is_good)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_and_settings() {
        let settings =
            FleetSettings::parse("nats://u:p%40@a:1,nats://b,name=web,node=n.1,retention=100,stale=1m").unwrap();
        let servers: Vec<String> = settings.servers.iter().map(LogServer::to_string).collect();
        assert_eq!(servers, ["a:1", "b:4222"]);
        assert_eq!((settings.user.as_deref(), settings.password.as_deref()), (Some("u"), Some("p@")));
        assert_eq!(
            (settings.kind, settings.is_tls, &settings.name[..], &settings.node[..]),
            (FleetLogKind::Nats, false, "web", "n.1")
        );
        assert_eq!((settings.retention, settings.stale), (100, Some(Duration::from_secs(60))));
        let settings = FleetSettings::parse("rediss://[::1],ca=/ca.pem,wait=0s,stale=0s").unwrap();
        assert_eq!((settings.servers[0].port, settings.is_tls, settings.wait), (6379, true, Duration::ZERO));
        assert_eq!((settings.stale, settings.files.len(), settings.replicas), (None, 1, 0));
    }

    #[test]
    fn what_files_hold() {
        let mut settings = FleetSettings::parse("tls://a,password-file=/p,cert=/c").unwrap();
        settings.provide(NodeRole::Password, b"secret \n").unwrap();
        assert_eq!(settings.password.as_deref(), Some("secret "));
        assert!(
            settings.provide(NodeRole::Token, b"a\nb").is_err() && settings.provide(NodeRole::Token, b"\n").is_err()
        );
        assert!(!format!("{settings:?}").contains("secret"));
    }

    #[test]
    fn what_makes_no_sense() {
        for (text, wanted) in [
            ("", "wants nats://"),
            ("a:1", "wants nats://"),
            ("http://a", "none of"),
            ("nats://a,redis://b", "beside another"),
            ("nats://a,tls://b", "beside another"),
            ("nats://a b", "no HOST:PORT"),
            ("nats://a,b", "neither a server"),
            ("nats://%zz@a", "can't be read"),
            ("nats://a,ca=/x", "need tls://"),
            ("redis://a,token-file=/x", "for NATS"),
            ("nats://a,replicas=0", "1, 3 or 5"),
            ("nats://a,password-file=x", "absolute"),
            ("nats://a,name=a.b", "no dots"),
            ("nats://a,name=*", "letters"),
            ("nats://a,wait=x", "duration"),
            ("nats://a,patience=0s", "between"),
            ("nats://a,retention=0", "number of entries"),
            ("nats://a,address=b", "HOST:PORT"),
            ("nats://a,group=a b", "letters"),
            ("nats://a,deploy=yes", "on or off"),
            ("nats://a,color=red", "no setting color"),
        ] {
            let said = FleetSettings::parse(text).unwrap_err();
            assert!(said.contains(wanted), "{text}: {said}");
        }
    }
}
