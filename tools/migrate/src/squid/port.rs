// SPDX-License-Identifier: BSD-2-Clause
//! squid's ports: addresses, certificates, and what else a port may ask for.

use std::net::IpAddr;

use super::line::{Line, is_option};
use super::{Squid, claim, push};
use crate::migrated::Migrated;
use crate::source::is_address;
use crate::vcl;

/// Options that are translated, or that ask for nothing here. One that ends with `=` has a value.
const OPTIONS: [&str; 25] = [
    "accel",
    "vhost",
    "no-vhost",
    "defaultsite=",
    "ignore-cc",
    "require-proxy-header",
    "cert=",
    "key=",
    "tls-cert=",
    "tls-key=",
    "clientca=",
    "allow-direct",
    "name=",
    "tcpkeepalive",
    "tcpkeepalive=",
    "disable-pmtu-discovery=",
    "connection-auth",
    "connection-auth=",
    "worker-queues",
    "sslcontext=",
    "tls-no-npn",
    "tls-default-ca",
    "tls-default-ca=",
    "cafile=",
    "tls-cafile=",
];

/// Options of TLS that tls.conf has by other names.
const OF_TLS: [&str; 8] =
    ["options=", "tls-options=", "cipher=", "tls-min-version=", "version=", "dhparams=", "tls-dh=", "sslflags="];

/// A port that clients come by, and what holds for its requests.
pub(super) struct Port {
    /// The condition by which VCL knows its requests.
    pub condition: String,
    /// The lines that set Host.
    pub site: Vec<String>,
    /// The lines that take a client's wishes away.
    pub ignored: Vec<String>,
}

impl Port {
    fn of(line: &Line, address: &str, number: &str, site: Option<&str>) -> Port {
        let host = address.rsplit_once(':').map_or("", |(host, _)| host).trim_matches(['[', ']']);
        let own = host.parse::<IpAddr>().ok().filter(|ip| !ip.is_unspecified());
        let own = own.map_or_else(String::new, |ip| format!(" && local.ip == \"{ip}\""));
        let site = site.map(|site| match line.has("no-vhost") {
            true => format!("set req.http.Host = \"{site}\";"),
            false => format!("if (!req.http.Host) {{ set req.http.Host = \"{site}\"; }}"),
        });
        let unset = ["unset req.http.Cache-Control;", "unset req.http.Pragma;"].map(str::to_owned);
        Port {
            condition: format!("std.port(local.ip) == {number}{own}"),
            site: site.into_iter().collect(),
            ignored: if line.has("ignore-cc") { unset.to_vec() } else { Vec::new() },
        }
    }
}

/// The lines that ports ask for, each for its own requests.
pub(super) fn own_lines(ports: &[Port], of: fn(&Port) -> &Vec<String>) -> Vec<String> {
    match ports.split_first() {
        Some((first, rest)) if rest.iter().all(|port| of(port) == of(first)) => of(first).clone(),
        _ => {
            let with_lines = ports.iter().filter(|port| !of(port).is_empty());
            vcl::chain(with_lines.map(|port| (port.condition.clone(), of(port).clone())).collect())
        }
    }
}

/// The first option with a value that squid doesn't take, with what is wanted.
fn odd_value(line: &Line) -> Option<String> {
    let is_seconds = |text: &str| text.split(',').all(|number| number.parse::<u32>().is_ok());
    line.rest(2).iter().find_map(|word| match word.split_once('=')? {
        ("tcpkeepalive", times) if !is_seconds(times) => Some(format!("{word}: IDLE,INTERVAL,TIMEOUT is wanted")),
        ("disable-pmtu-discovery", when) if !matches!(when, "off" | "always" | "transparent") => {
            Some(format!("{word}: off, always or transparent is wanted"))
        }
        ("connection-auth" | "tls-default-ca", switch) if !matches!(switch, "on" | "off") => {
            Some(format!("{word}: on or off is wanted"))
        }
        _ => None,
    })
}

impl Squid {
    pub(super) fn port(&mut self, line: &Line, migrated: &mut Migrated) {
        let address = if line.word(1).contains(':') { line.word(1).to_owned() } else { format!(":{}", line.word(1)) };
        if !["accel", "vhost", "defaultsite="].iter().any(|w| line.words.iter().any(|word| word.starts_with(w))) {
            let text = "without `accel` it is a proxy for clients of your own network, which this isn't";
            return migrated.refuse(&line.place, line.word(0), text);
        }
        let site = line.option("defaultsite=");
        let number = address.rsplit(':').next().unwrap_or_default();
        let is_odd = |text: &&str| !is_address(text) || *text == address && number.parse::<u16>().is_err();
        if let Some(odd) = std::iter::once(address.as_str()).chain(site).find(is_odd) {
            return migrated.refuse(&line.place, line.word(0), format!("{odd:?} is no name or address"));
        }
        if site.is_none() && line.has("no-vhost") {
            return migrated.refuse(&line.place, line.word(0), "no-vhost: defaultsite=NAME is wanted beside it");
        }
        if let Some(odd) = odd_value(line) {
            return migrated.refuse(&line.place, line.word(0), odd);
        }
        self.ports.push(Port::of(line, &address, number, site));
        claim(line, migrated);
        self.port_options(line, migrated);
        match line.word(0) {
            "http_port" if line.has("require-proxy-header") => push(migrated, "-a", &format!("{address},PROXY")),
            "http_port" => push(migrated, "-a", &address),
            _ => self.tls_port(line, &address, migrated),
        }
    }

    /// Says of the options of a port which of them the result doesn't have.
    fn port_options(&self, line: &Line, migrated: &mut Migrated) {
        for option in line.rest(2) {
            if OF_TLS.iter().any(|known| is_option(option, known)) {
                let text = format!(
                    "{option}: tls.conf has protocols, ciphers and groups by other names: docs/certificates.md"
                );
                migrated.note(&line.place, line.word(0), text);
            } else if !OPTIONS.iter().any(|known| is_option(option, known)) {
                migrated.refuse(&line.place, line.word(0), format!("{option}: the option has no counterpart here"));
            }
        }
    }

    fn tls_port(&mut self, line: &Line, address: &str, migrated: &mut Migrated) {
        let cert = line.option("tls-cert=").or_else(|| line.option("cert="));
        let key = line.option("tls-key=").or_else(|| line.option("key="));
        let is_cert = |word: &&String| word.starts_with("tls-cert=") || word.starts_with("cert=");
        if line.words.iter().filter(is_cert).count() > 1 {
            let text = "several certificates: give each a https_port of its own, or write them as pem-file in tls.conf";
            return migrated.refuse(&line.place, line.word(0), text);
        }
        let is_quoted = |path: &&str| path.contains(['"', '\\']) || path.chars().any(char::is_control);
        if let Some(odd) = cert.into_iter().chain(key).find(is_quoted) {
            return migrated.refuse(&line.place, line.word(0), format!("the file {odd:?} can't be named in tls.conf"));
        }
        let (host, port) = address.rsplit_once(':').unwrap_or(("", "443"));
        let host = if host.is_empty() { "*" } else { host };
        migrated.tls.push(format!("frontend = \"{host}:{port}\""));
        self.is_tls = true;
        match (cert, key) {
            (Some(cert), Some(key)) => {
                migrated.tls.push(format!("pem-file = {{ cert = \"{cert}\" private-key = \"{key}\" }}"))
            }
            (Some(cert), None) => migrated.tls.push(format!("pem-file = \"{cert}\"")),
            (None, _) => migrated.refuse(&line.place, "https_port", "it names no certificate"),
        }
        let reason = match (line.option("clientca="), line.has("require-proxy-header")) {
            (Some(_), _) => "clients must have a certificate: client-verify in tls.conf",
            (None, true) => "the PROXY protocol isn't available on a port of TLS",
            (None, false) => return,
        };
        self.denied.push(format!("std.port(local.ip) == {port}"));
        migrated.refuse(
            &line.place,
            "https_port",
            format!("{reason}; until then requests to this port are answered with 403"),
        );
    }
}
