// SPDX-License-Identifier: BSD-2-Clause
//! A `backend` declaration as crate `backend` wants it.

use std::time::Duration;

use backend::{BackendLimits, BackendSpec, Endpoint, ProbeSpec, Via};
use tables::Compat;
use tls::origin::TlsOrigin;
use tls::origin_keys::VclKeys;
use tls::revoked::Revoked;
use tls::roots::Roots;
use tls::verify::Verify;
use vcl::program::{BackendAddress, BackendDecl, ProbeDecl, Program, TlsDecl, TlsFile};

/// The backend that a declaration of a program describes, with the keys of its VCL. `None` for `backend x none;`.
pub fn backend_spec(program: &Program, decl: &BackendDecl, keys: &VclKeys, compat: Compat) -> Option<BackendSpec> {
    let probe = decl.probe.and_then(|id| program.probes.get(id as usize));
    let own = own_spec(decl, probe, keys, compat)?;
    let Some(via) = &decl.via else { return Some(own) };
    let other = own_spec(program.backends.get(via.backend as usize)?, None, keys, compat)?;
    Some(BackendSpec {
        limits: own.limits.or(other.limits),
        via: Some(Via { ipv4: own.endpoint.ipv4, ipv6: own.endpoint.ipv6, authority: via.authority.clone() }),
        endpoint: other.endpoint,
        found: other.found,
        ..own
    })
}

fn own_spec(decl: &BackendDecl, probe: Option<&ProbeDecl>, keys: &VclKeys, compat: Compat) -> Option<BackendSpec> {
    let preamble = decl.preamble.as_deref().unwrap_or_default().to_vec();
    let tls = decl.tls.as_ref().map(|tls| origin(keys, decl, tls));
    let proto = decl.proto;
    let mut found = Vec::new();
    let (endpoint, hosthdr) = match &decl.address {
        BackendAddress::None => return None,
        BackendAddress::Inet { host, name: Some(name), .. } => {
            let endpoint = Endpoint::named(&name.host, name.port);
            found = name.found.clone();
            (Endpoint { preamble, tls, proto, ..endpoint }, host.clone())
        }
        BackendAddress::Inet { host, v4, v6, name: None, .. } => {
            (Endpoint { ipv4: *v4, ipv6: *v6, preamble, tls, proto, ..Endpoint::default() }, host.clone())
        }
        BackendAddress::Unix(path) => (Endpoint { preamble, proto, ..Endpoint::unix(path) }, "0.0.0.0".to_owned()),
    };
    Some(BackendSpec {
        hosthdr: Some(decl.host_header.clone().unwrap_or(hosthdr)),
        limits: BackendLimits::set(compat, [decl.connect_timeout, decl.first_byte_timeout, decl.between_bytes_timeout]),
        max_connections: decl.max_connections,
        wait_limit: decl.wait_limit,
        wait_timeout: decl.wait_timeout.map(|seconds| Duration::try_from_secs_f64(seconds).unwrap_or(Duration::ZERO)),
        found,
        proxy_header: decl.proxy_header,
        probe: probe.map(probe_spec),
        ..BackendSpec::new(decl.name.clone(), endpoint)
    })
}

/// TLS settings of a backend. The checker has looked at the files; the manager has given the keys, which are in no
/// bundle.
///
/// # Errors
/// A file isn't any more what it was, or no key has come.
fn origin(keys: &VclKeys, decl: &BackendDecl, tls: &TlsDecl) -> Result<TlsOrigin, String> {
    let host = match &decl.address {
        BackendAddress::Inet { host, .. } => host.as_str(),
        BackendAddress::Unix(_) | BackendAddress::None => "",
    };
    let verify = Verify::of(tls.verify_peer, tls.verify_host);
    let of_file = |file: &TlsFile, reason: &dyn std::fmt::Display| format!("{}: {reason}", file.path);
    let roots = match &tls.ca_file {
        Some(file) => Roots::from_pem(&file.text).map_err(|error| of_file(file, &error))?,
        None if verify == Verify::Nothing => Roots::none(),
        None => Roots::system(),
    };
    let revoked = tls.crl_file.as_ref().map(|file| Revoked::from_file(&file.text).map_err(|e| of_file(file, &e)));
    let own = tls.certificate.as_ref().map(|file| keys.find(&file.path));
    Ok(TlsOrigin {
        name: host_alone(decl.host_header.as_deref().unwrap_or(host)).to_owned(),
        sni: tls.sni,
        verify,
        roots,
        revoked: revoked.transpose()?,
        certificate: own.transpose()?,
    })
}

/// The host of a Host field, an address without its brackets.
pub fn host_alone(host: &str) -> &str {
    if let Some((inside, _)) = host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return inside;
    }
    match host.split_once([':', ' ']) {
        Some((name, port)) if !port.contains(':') => name,
        _ => host,
    }
}

/// The probe that a declaration describes.
pub fn probe_spec(decl: &ProbeDecl) -> ProbeSpec {
    ProbeSpec {
        url: decl.url.clone(),
        request: decl.request.as_deref().map(<[u8]>::to_vec),
        expected_response: decl.expected_response.unwrap_or(0) as u16,
        timeout: seconds(decl.timeout),
        interval: seconds(decl.interval),
        window: decl.window.unwrap_or(0),
        threshold: decl.threshold.unwrap_or(0),
        initial: decl.initial,
        expect_close: decl.expect_close.unwrap_or(true),
    }
}

/// Zero stands for the parameter, or the default.
fn seconds(given: Option<f64>) -> Duration {
    given.and_then(|s| Duration::try_from_secs_f64(s).ok()).unwrap_or(Duration::ZERO)
}
