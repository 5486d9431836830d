// SPDX-License-Identifier: BSD-2-Clause
//! The listeners that workers serve, and the keys of connections over QUIC.

use std::path::PathBuf;

use base::clock::Mono;
use cli::handoff::{ListenerLayers, QuicStart};
use cli::record::Fd;
use cli::{record, words};
use sys::sock::SocketName;

use crate::listen::{BoundListener, Permissions};
use crate::upgrade::carried::{Carried, Successor, copy};

#[derive(Debug)]
pub(crate) struct Listening {
    pub listeners: Vec<BoundListener>,
    /// Keys for QUIC that workers share, if there is a listener for it.
    pub quic: Option<QuicStart>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct OpenListener {
    pub name: String,
    pub transport: ListenerLayers,
    /// The path of a Unix-domain socket, or an address and port.
    pub address: PathBuf,
    pub is_uds: bool,
    pub endpoint: String,
    pub permissions: Permissions,
    pub sockets: Vec<Fd>,
}

words!(OpenListener { name, transport, address, is_uds, endpoint, permissions, sockets });

record! {
    #[derive(Clone, Debug, Default, PartialEq)]
    pub(crate) struct ListeningRecord {
        each "listener" pub listeners: Vec<OpenListener>,
        maybe "quic" pub quic: Option<QuicStart>,
    }
}

impl Carried for Listening {
    type Record = ListeningRecord;

    fn save(&self, _: Mono) -> ListeningRecord {
        ListeningRecord { listeners: self.listeners.iter().map(saved).collect(), quic: self.quic }
    }

    fn restore(record: &ListeningRecord, _: &Successor<'_>) -> Result<Listening, String> {
        let listeners = record.listeners.iter().map(restored).collect::<Result<_, _>>()?;
        Ok(Listening { listeners, quic: record.quic })
    }
}

fn saved(listener: &BoundListener) -> OpenListener {
    let (address, is_uds) = match &listener.address {
        SocketName::Inet(address) => (address.to_string().into(), false),
        SocketName::Unix(path) => (path.clone(), true),
    };
    OpenListener {
        name: listener.name.clone(),
        transport: listener.transport,
        address,
        is_uds,
        endpoint: listener.endpoint.clone(),
        permissions: listener.permissions,
        sockets: listener.sockets.iter().map(Fd::of).collect(),
    }
}

fn restored(open: &OpenListener) -> Result<BoundListener, String> {
    let address = match open.is_uds {
        true => SocketName::Unix(open.address.clone()),
        false => {
            let text = open.address.to_string_lossy();
            SocketName::Inet(text.parse().map_err(|_| format!("{text} is no address of a listener"))?)
        }
    };
    Ok(BoundListener {
        name: open.name.clone(),
        transport: open.transport,
        address,
        endpoint: open.endpoint.clone(),
        sockets: open.sockets.iter().map(|fd| copy(*fd)).collect::<Result<_, _>>()?,
        permissions: open.permissions,
    })
}
