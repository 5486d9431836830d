// SPDX-License-Identifier: BSD-2-Clause
//! What `--peers` says: `NAME@HOST[:PORT][*WEIGHT][,...],secret-file=FILE[,node=NAME]`, or `dns://HOST[:PORT],...`, or `fleet[,weight=WEIGHT],...`.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use base::text::parse_duration;

use crate::LogServer;

pub(super) const MANY: usize = 256;
/// The port of a member that names none.
const PORT: u16 = 80;
/// Bytes of the shortest secret.
const SHORTEST: usize = 16;
/// Bounds of `warm`, in seconds.
const WARM: std::ops::RangeInclusive<f64> = 1.0..=600.0;

#[derive(Clone, Debug, PartialEq)]
pub struct TierMember {
    /// The same on all nodes: keys are given out by it.
    pub name: String,
    pub server: LogServer,
    /// Share of the keys, relative to the others'.
    pub weight: f64,
}

/// All that `--peers` says. The secret isn't shown by `Debug`.
#[derive(Clone, PartialEq)]
pub struct PeerSettings {
    pub members: Vec<TierMember>,
    /// Names whose addresses are members.
    pub names: Vec<LogServer>,
    /// Members are the nodes of this node's group in the fleet that say so in their reports.
    pub is_of_fleet: bool,
    /// This node's share, where its report says it.
    pub weight: f64,
    /// Name of this node among them; empty: its name in the fleet, or its identity.
    pub node: String,
    /// Time for which a node with an empty cache fetches hot objects from its peers before it is ready.
    pub warm: Option<Duration>,
    pub secret_file: PathBuf,
    pub secret: Vec<u8>,
}

impl std::fmt::Debug for PeerSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PeerSettings({} members, {} names)", self.members.len(), self.names.len())
    }
}

impl PeerSettings {
    /// Reads what stands behind `--peers`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<PeerSettings, String> {
        let mut settings = PeerSettings {
            members: Vec::new(),
            names: Vec::new(),
            is_of_fleet: false,
            weight: 1.0,
            node: String::new(),
            warm: None,
            secret_file: PathBuf::new(),
            secret: Vec::new(),
        };
        for part in text.split(',') {
            if part == "fleet" {
                settings.is_of_fleet = true;
            } else if let Some(place) = part.strip_prefix("dns://") {
                let server = LogServer::parse(place, PORT).filter(|server| server.host.parse::<IpAddr>().is_err());
                settings.names.push(server.ok_or_else(|| format!("\"{part}\" is no dns://HOST:PORT"))?);
            } else if let Some((name, place)) = part.split_once('@') {
                settings.add(name, place)?;
            } else if let Some((name, value)) = part.split_once('=') {
                settings.set(name, value)?;
            } else {
                return Err(format!(
                    "\"{part}\" is neither a member (NAME@HOST:PORT, dns://HOST:PORT, fleet) nor setting=value"
                ));
            }
        }
        settings.check()
    }

    fn check(self) -> Result<PeerSettings, String> {
        let is_named = !self.members.is_empty() || !self.names.is_empty();
        if !is_named && !self.is_of_fleet {
            return Err("requires members: NAME@HOST:PORT,..., dns://HOST:PORT, or fleet".to_owned());
        }
        if self.is_of_fleet && is_named {
            return Err("fleet includes all members: don't list others with it".to_owned());
        }
        if self.is_of_fleet && !self.node.is_empty() {
            return Err("with fleet the node's name comes from --fleet: remove node".to_owned());
        }
        if !self.is_of_fleet && self.weight != 1.0 {
            return Err("weight is only for fleet; for listed members append *WEIGHT to the address".to_owned());
        }
        if self.members.len() + self.names.len() > MANY {
            return Err(format!("more than {MANY} members"));
        }
        if self.secret_file.as_os_str().is_empty() {
            return Err("requires secret-file=FILE, with the same secret on all members".to_owned());
        }
        Ok(self)
    }

    fn add(&mut self, name: &str, place: &str) -> Result<(), String> {
        if !is_name(name) {
            return Err(format!("\"{name}\": a member's name has up to 64 letters, digits, - _ . :"));
        }
        if self.members.iter().any(|member| member.name == name) {
            return Err(format!("{name} is named twice"));
        }
        let (place, weight) = place.split_once('*').map_or((place, None), |(place, weight)| (place, Some(weight)));
        let weight = weight.map_or(Some(1.0), |text| text.parse().ok().filter(is_weight));
        let weight = weight.ok_or_else(|| format!("{name}: a weight must be between 0.01 and 100"))?;
        let server = LogServer::parse(place, PORT).ok_or_else(|| format!("{name}: \"{place}\" is no HOST:PORT"))?;
        self.members.push(TierMember { name: name.to_owned(), server, weight });
        Ok(())
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "node" if is_name(value) => self.node = value.to_owned(),
            "node" => return Err("node must have up to 64 letters, digits, - _ . :".to_owned()),
            "weight" => {
                let weight = value.parse().ok().filter(is_weight);
                self.weight = weight.ok_or("weight must be between 0.01 and 100")?;
            }
            "warm" => {
                let seconds = parse_duration(value).filter(|seconds| WARM.contains(seconds));
                let seconds = seconds.ok_or("warm must be between 1s and 10m")?;
                self.warm = Some(Duration::from_secs_f64(seconds));
            }
            "secret-file" if value.starts_with('/') => self.secret_file = value.into(),
            "secret-file" => return Err("secret-file requires an absolute path".to_owned()),
            _ => return Err(format!("no setting {name} (there are node, secret-file, warm, weight)")),
        }
        Ok(())
    }

    /// Sets the content of the secret's file.
    ///
    /// # Errors
    /// It is too short to be one.
    pub fn provide(&mut self, contents: &[u8]) -> Result<(), String> {
        let secret = contents.trim_ascii();
        if secret.len() < SHORTEST {
            return Err(format!("a secret must have at least {SHORTEST} bytes"));
        }
        self.secret = secret.to_vec();
        Ok(())
    }
}

pub(super) fn is_weight(weight: &f64) -> bool {
    (0.01..=100.0).contains(weight)
}

/// True for a valid name of a member; it stands in a field of requests.
pub(super) fn is_name(text: &str) -> bool {
    let is_good = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
    (1..=64).contains(&text.len()) && text.bytes().all(is_good)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_and_settings() {
        let settings =
            PeerSettings::parse("a@10.0.0.1:81,b@cache-b*2.5,dns://caches:82,node=b,secret-file=/s").unwrap();
        let members: Vec<(String, String, f64)> =
            settings.members.iter().map(|one| (one.name.clone(), one.server.to_string(), one.weight)).collect();
        assert_eq!(members, [("a".into(), "10.0.0.1:81".into(), 1.0), ("b".into(), "cache-b:80".into(), 2.5)]);
        assert_eq!((settings.names[0].to_string(), &settings.node[..]), ("caches:82".to_owned(), "b"));
    }

    #[test]
    fn members_of_the_fleet() {
        let settings = PeerSettings::parse("fleet,weight=2.5,warm=60s,secret-file=/s").unwrap();
        assert!(settings.is_of_fleet && settings.members.is_empty() && settings.weight == 2.5);
        assert_eq!(settings.warm, Some(Duration::from_secs(60)));
    }

    #[test]
    fn a_secret_is_long_and_is_not_shown() {
        let mut settings = PeerSettings::parse("a@h,secret-file=/s").unwrap();
        assert!(settings.provide(b"short\n").is_err());
        settings.provide(b"0123456789abcdef\n").unwrap();
        assert_eq!(settings.secret, b"0123456789abcdef");
        assert!(!format!("{settings:?}").contains("0123"));
    }

    #[test]
    fn what_makes_no_sense() {
        for (text, wanted) in [
            ("", "neither a member"),
            ("secret-file=/s", "requires members"),
            ("a@h", "secret-file=FILE"),
            ("a@h,a@i,secret-file=/s", "named twice"),
            ("a b@h,secret-file=/s", "a member's name"),
            ("a@h:x,secret-file=/s", "no HOST:PORT"),
            ("a@h*0,secret-file=/s", "weight"),
            ("dns://10.0.0.1,secret-file=/s", "dns://HOST"),
            ("a@h,secret-file=s", "absolute"),
            ("a@h,color=red,secret-file=/s", "no setting color"),
            ("fleet", "secret-file=FILE"),
            ("fleet,a@h,secret-file=/s", "don't list others with it"),
            ("fleet,dns://caches,secret-file=/s", "don't list others with it"),
            ("fleet,node=a,secret-file=/s", "comes from --fleet"),
            ("fleet,weight=0,secret-file=/s", "weight must be between"),
            ("a@h,weight=2,secret-file=/s", "weight is only for fleet"),
            ("a@h,warm=,secret-file=/s", "warm must be"),
            ("a@h,warm=60,secret-file=/s", "warm must be"),
            ("a@h,warm=0s,secret-file=/s", "warm must be"),
            ("a@h,warm=1h,secret-file=/s", "warm must be"),
        ] {
            let said = PeerSettings::parse(text).unwrap_err();
            assert!(said.contains(wanted), "{text}: {said}");
        }
    }
}
