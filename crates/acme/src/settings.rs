// SPDX-License-Identifier: BSD-2-Clause
//! What is asked for: by `--acme LIST` on the command line, by `acme` blocks of the file that `-A` names.

use std::path::PathBuf;
use std::time::Duration;

use crate::name::AcmeName;
use crate::talk::ChallengeKind;

pub const DEFAULT_DIRECTORY: &str = "https://acme-v02.api.letsencrypt.org/directory";
pub const DEFAULT_STATE: &str = "/var/lib/lacquer/acme";
pub const DEFAULT_RETRY: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Allowed {
    /// Whatever the listeners can answer.
    #[default]
    Any,
    Only(ChallengeKind),
}

/// All settings. What is given later counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcmeSettings {
    /// Each gets a certificate of its own, so that one that fails harms no other.
    pub names: Vec<AcmeName>,
    pub mail: Option<String>,
    pub directory: String,
    /// CAs that are trusted for the way to it; none: the system's.
    pub ca_file: Option<PathBuf>,
    /// The directory that only root reads.
    pub state: PathBuf,
    /// Name of the key that binds the account to one with the CA.
    pub eab_kid: Option<String>,
    /// A file with that key, in base64url.
    pub eab_key_file: Option<PathBuf>,
    pub profile: Option<String>,
    pub challenge: Allowed,
    pub retry: Duration,
    pub on_demand: OnDemand,
}

#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct OnDemand {
    names: std::collections::BTreeSet<String>,
    /// Ends of names, with the dot.
    ends: Vec<String>,
    asks_vcl: bool,
}

impl OnDemand {
    /// Adds `name.example` or `*.example`, or what VCL allows.
    fn add(&mut self, word: &str) -> Result<(), String> {
        if word == "vcl" {
            self.asks_vcl = true;
            return Ok(());
        }
        let (end, name) = match word.strip_prefix("*.") {
            Some(end) => (true, end),
            None => (false, word),
        };
        let name = AcmeName::parse(name)?;
        // Who may ask for anything makes the CA refuse everything.
        if end && !name.as_str().contains('.') {
            return Err(format!("{word}: that is nearly everybody"));
        }
        match end {
            true => self.ends.push(format!(".{name}")),
            false => _ = self.names.insert(name.as_str().to_owned()),
        }
        Ok(())
    }

    pub fn allows(&self, name: &AcmeName) -> bool {
        self.names.contains(name.as_str()) || self.ends.iter().any(|end| name.as_str().ends_with(end.as_str()))
    }

    pub fn asks_vcl(&self) -> bool {
        self.asks_vcl
    }

    pub fn is_empty(&self) -> bool {
        self.names.is_empty() && self.ends.is_empty() && !self.asks_vcl
    }
}

impl Default for AcmeSettings {
    fn default() -> Self {
        AcmeSettings {
            names: Vec::new(),
            mail: None,
            directory: DEFAULT_DIRECTORY.to_owned(),
            ca_file: None,
            state: DEFAULT_STATE.into(),
            eab_kid: None,
            eab_key_file: None,
            profile: None,
            challenge: Allowed::Any,
            retry: DEFAULT_RETRY,
            on_demand: OnDemand::default(),
        }
    }
}

impl AcmeSettings {
    /// Takes in what `--acme` has: names, a mail address and `key=value`, separated by commas.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn add_list(&mut self, list: &str) -> Result<(), String> {
        for word in list.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            match word.split_once('=') {
                Some((key, value)) => self.set(key, value)?,
                None if word.contains('@') => self.set("mail", word)?,
                None => self.set("name", word)?,
            }
        }
        Ok(())
    }

    pub fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "name" | "names" => {
                for word in value.split([',', ' ', '\t']).filter(|word| !word.is_empty()) {
                    let name = AcmeName::parse(word)?;
                    if !self.names.contains(&name) {
                        self.names.push(name);
                    }
                }
            }
            "mail" => self.mail = Some(mail(value)?),
            "directory" => self.directory = directory(value)?,
            "ca-file" => self.ca_file = Some(path(key, value)?),
            "state-dir" => self.state = path(key, value)?,
            "eab-kid" => self.eab_kid = Some(value.to_owned()),
            "eab-key-file" => self.eab_key_file = Some(path(key, value)?),
            "profile" => self.profile = Some(value.to_owned()),
            "challenge" => {
                self.challenge = match value {
                    "any" => Allowed::Any,
                    "http-01" => Allowed::Only(ChallengeKind::Http01),
                    "tls-alpn-01" => Allowed::Only(ChallengeKind::TlsAlpn01),
                    _ => return Err(format!("challenge {value}: any, http-01 or tls-alpn-01")),
                }
            }
            "on-demand" => {
                let mut words = value.split([',', ' ', '\t']).filter(|word| !word.is_empty());
                words.try_for_each(|word| self.on_demand.add(word))?;
            }
            "retry" => self.retry = retry(value)?,
            _ => return Err(format!("no setting {key}")),
        }
        Ok(())
    }

    pub fn check(&self) -> Result<(), String> {
        if self.names.is_empty() && self.on_demand.is_empty() {
            return Err("no name to get a certificate for".to_owned());
        }
        if self.eab_kid.is_some() != self.eab_key_file.is_some() {
            return Err("eab-kid and eab-key-file go together".to_owned());
        }
        Ok(())
    }

    /// The directory for all that belongs to this CA: one of the state's, so that a change of the CA begins anew.
    pub fn place(&self) -> PathBuf {
        let (_, rest) = self.directory.split_once("://").unwrap_or(("", &self.directory));
        let slug: String = rest.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' }).collect();
        self.state.join(slug.trim_matches(['-', '.']))
    }
}

fn mail(value: &str) -> Result<String, String> {
    let address = value.strip_prefix("mailto:").unwrap_or(value);
    let is_one = address.split_once('@').is_some_and(|(user, host)| !user.is_empty() && AcmeName::parse(host).is_ok());
    // "?" and "," would make something else of the URL that it becomes.
    match is_one && address.bytes().all(|c| c.is_ascii_graphic() && !b"?,%".contains(&c)) {
        true => Ok(address.to_owned()),
        false => Err(format!("{value}: not a mail address")),
    }
}

fn directory(value: &str) -> Result<String, String> {
    match value {
        "letsencrypt" => Ok(DEFAULT_DIRECTORY.to_owned()),
        "letsencrypt-staging" => Ok("https://acme-staging-v02.api.letsencrypt.org/directory".to_owned()),
        _ => match crate::http::target(value) {
            Ok(_) => Ok(value.to_owned()),
            Err(reason) => Err(format!("directory {value}: {reason}")),
        },
    }
}

fn path(key: &str, value: &str) -> Result<PathBuf, String> {
    // The manager changes its directory.
    let path = PathBuf::from(value);
    if path.is_absolute() { Ok(path) } else { Err(format!("{key} {value}: not an absolute path")) }
}

fn retry(value: &str) -> Result<Duration, String> {
    let seconds = base::text::parse_duration(value).or_else(|| value.parse().ok());
    let seconds = seconds.filter(|seconds| (1.0..=86_400.0).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| format!("retry {value}: from 1s to 1d"))
}

/// The bytes of a text in base64url (RFC 4648 5), padded or not; plain base64 is taken, too.
pub fn base64url(text: &str) -> Option<Vec<u8>> {
    let (mut out, mut bits, mut count) = (Vec::with_capacity(text.len() / 4 * 3), 0u32, 0);
    for c in text.trim_end_matches('=').bytes() {
        let value = match c {
            b'A'..=b'Z' => c - b'A',
            b'a'..=b'z' => c - b'a' + 26,
            b'0'..=b'9' => c - b'0' + 52,
            b'-' | b'+' => 62,
            b'_' | b'/' => 63,
            _ => return None,
        };
        (bits, count) = ((bits << 6) | u32::from(value), count + 6);
        if count >= 8 {
            count -= 8;
            out.push((bits >> count) as u8);
        }
    }
    // What is left over must be padding.
    (count < 6 && bits & ((1 << count) - 1) == 0).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(list: &str) -> Result<AcmeSettings, String> {
        let mut settings = AcmeSettings::default();
        settings.add_list(list)?;
        settings.check().map(|()| settings)
    }

    #[test]
    fn names_and_a_mail_address_are_all_it_takes() {
        let settings = read("example.org,www.Example.org, me@example.org,example.org").unwrap();
        let names: Vec<&str> = settings.names.iter().map(AcmeName::as_str).collect();
        assert_eq!((names, settings.mail.as_deref()), (vec!["example.org", "www.example.org"], Some("me@example.org")));
        assert_eq!(settings.place(), PathBuf::from("/var/lib/lacquer/acme/acme-v02.api.letsencrypt.org-directory"));
    }

    #[test]
    fn settings_are_words_with_a_sign_between() {
        let settings =
            read("a.example,directory=https://127.0.0.1:14000/dir,state-dir=/s,challenge=http-01,retry=5s").unwrap();
        assert_eq!(settings.place(), PathBuf::from("/s/127.0.0.1-14000-dir"));
        assert_eq!(
            (settings.challenge, settings.retry),
            (Allowed::Only(ChallengeKind::Http01), Duration::from_secs(5))
        );
        assert_eq!(read("a.example,directory=letsencrypt").unwrap().directory, DEFAULT_DIRECTORY);
    }

    #[test]
    fn what_may_be_asked_for_is_a_list() {
        let settings = read("on-demand=a.example,on-demand=*.sites.example").unwrap();
        let allows = |name| settings.on_demand.allows(&AcmeName::parse(name).unwrap());
        for name in ["a.example", "x.sites.example", "y.x.sites.example"] {
            assert!(allows(name), "{name}");
        }
        for name in ["b.a.example", "sites.example", "xsites.example", "example"] {
            assert!(!allows(name), "{name}");
        }
        assert!(!settings.on_demand.asks_vcl());
    }

    #[test]
    fn vcl_may_be_asked_for_the_rest() {
        let on_demand = read("on-demand=vcl,on-demand=a.example").unwrap().on_demand;
        let allows = |name| on_demand.allows(&AcmeName::parse(name).unwrap());
        assert!(on_demand.asks_vcl() && allows("a.example") && !allows("b.example") && !allows("vcl"));
        assert!(!read("on-demand=vcl").unwrap().on_demand.is_empty());
    }

    #[test]
    fn keys_are_base64url() {
        for (text, bytes) in
            [("", &b""[..]), ("Zg", b"f"), ("Zg==", b"f"), ("Zm8", b"fo"), ("Zm9v", b"foo"), ("-_8", b"\xfb\xff")]
        {
            assert_eq!(base64url(text).as_deref(), Some(bytes), "{text}");
        }
        for text in ["Z", "Zh", "Z g", "Zm9!"] {
            assert_eq!(base64url(text), None, "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (list, said) in [
            ("", "no name"),
            ("*.example.org", "wildcards"),
            ("a.example,@b", "not a mail address"),
            ("a.example,mail=a?b@c.example", "not a mail address"),
            ("a.example,colour=red", "no setting colour"),
            ("a.example,directory=ftp://x/", "directory ftp://x/: "),
            ("a.example,directory=http://ca.example/", "https"),
            ("a.example,state-dir=here", "not an absolute path"),
            ("a.example,challenge=dns-01", "any, http-01 or tls-alpn-01"),
            ("a.example,eab-kid=x", "go together"),
            ("a.example,retry=0", "from 1s"),
            ("on-demand=*.com", "nearly everybody"),
            ("on-demand=*", "not a host name"),
        ] {
            let error = read(list).unwrap_err();
            assert!(error.contains(said), "{list}: {error}");
        }
    }
}
