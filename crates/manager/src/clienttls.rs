// SPDX-License-Identifier: BSD-2-Clause
//! TLS of the clients' side: certificates, keys for tickets, and the ways by which workers get them.

use std::os::fd::OwnedFd;

use base::clock::Mono;
use cli::record;
use cli::record::Fd;
use params::Params;

use crate::acme::Acme;
use crate::certs::config::CertsConfig;
use crate::certs::{self, Certs};
use crate::fatal::{Fatal, argument, errno_text};
use crate::jail::Jail;
use crate::listen::BoundListener;
use crate::options::OrderedArg;
use crate::signer::{Signers, SignersRecord};
use crate::ticketkeys::{TicketKeys, TicketKeysRecord};
use crate::upgrade::carried::{Carried, Successor, copy, copy_file};

#[derive(Debug)]
pub(crate) struct ClientTls {
    pub certs: Certs,
    pub ticket_keys: TicketKeys,
    /// Our end of the socket on which the present worker gets new ones.
    pub secrets: Option<OwnedFd>,
    pub signers: Signers,
    pub acme: Option<Acme>,
}

impl ClientTls {
    pub fn begin(
        config: Option<&CertsConfig>,
        acme: Option<Acme>,
        listeners: &[BoundListener],
        params: &Params,
        jail: &Jail,
        now: Mono,
    ) -> Result<ClientTls, Fatal> {
        let names: Vec<String> = listeners.iter().filter(|l| l.transport.is_tls).map(|l| l.name.clone()).collect();
        let failed = |reason: String| Fatal::Argument(format!("-A: {reason}"));
        let certs = certs::begin(config, &names, params.tls_err_dup_servername, jail).map_err(failed)?;
        let mut ticket_keys = TicketKeys::default();
        if certs.is_on() {
            jail.forbid_cores().or_else(|e| argument(format!("Cannot forbid cores: {}", errno_text(&e))))?;
            let path = config.and_then(CertsConfig::ticket_keys);
            ticket_keys = TicketKeys::begin(path, now, jail).map_err(failed)?;
        }
        Ok(ClientTls { certs, ticket_keys, secrets: None, signers: Signers::default(), acme })
    }
}

record! {
    #[derive(Clone, Debug, Default, PartialEq)]
    pub(crate) struct TlsRecord {
        maybe "certificates" pub certificates: Option<Fd>,
        part pub ticket_keys: TicketKeysRecord,
        maybe "secrets" pub secrets: Option<Fd>,
        part pub signers: SignersRecord,
    }
}

impl Carried for ClientTls {
    type Record = TlsRecord;

    fn save(&self, now: Mono) -> TlsRecord {
        TlsRecord {
            certificates: self.certs.file().map(Fd::of),
            ticket_keys: self.ticket_keys.save(now),
            secrets: self.secrets.as_ref().map(Fd::of),
            signers: self.signers.save(now),
        }
    }

    fn restore(record: &TlsRecord, by: &Successor<'_>) -> Result<ClientTls, String> {
        let certs = copy_file(record.certificates)?.map(Certs::resume).transpose()?.unwrap_or_default();
        if certs.is_on() {
            by.forbid_cores()?;
        }
        Ok(ClientTls {
            certs,
            ticket_keys: TicketKeys::restore(&record.ticket_keys, by)?,
            secrets: record.secrets.map(copy).transpose()?,
            signers: Signers::restore(&record.signers, by)?,
            acme: acme(by)?,
        })
    }
}

/// The ACME client for the command line and the present file of -A.
fn acme(by: &Successor<'_>) -> Result<Option<Acme>, String> {
    let path = by.options.ordered.iter().find_map(|item| match item {
        OrderedArg::Tls(path) => Some(path),
        _ => None,
    });
    let config = path.map(|path| CertsConfig::read(path, by.jail)).transpose().map_err(|fatal| fatal.to_string())?;
    Acme::open(&by.options.acme, config.as_ref().map(CertsConfig::acme).unwrap_or_default(), by.jail)
}
