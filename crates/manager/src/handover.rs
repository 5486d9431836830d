// SPDX-License-Identifier: BSD-2-Clause
//! What a worker is given at its birth.

use std::os::fd::AsRawFd;

use cli::handoff::{
    DiskStart, JournalStart, ListenerStart, ManagerStart, SecretsStart, StoreStart, SuccessionStart, WorkerStart,
};
use sys::sock::SocketName;

use crate::manager::Manager;
use crate::storage::Storage;
use crate::stores::StoreArg;
use crate::upgrade::RelayEnds;

/// The variable of the environment that makes this executable the worker: the number of the CLI's descriptor, where the
/// hand-over waits. Its command line is the manager's, by which monitoring finds both.
pub const SOCKET: &str = "LACQUER_WORKER";

/// The number, in a worker.
pub fn socket() -> Option<String> {
    std::env::var(SOCKET).ok()
}

pub(crate) fn gather(of: &Manager, manager: ManagerStart, secrets: SecretsStart, ends: &RelayEnds) -> WorkerStart {
    let journal = of.storage.journal_file.as_ref().map(AsRawFd::as_raw_fd);
    WorkerStart {
        listeners: of.listening.listeners.iter().flat_map(listeners).collect(),
        stores: of.storage.stores.iter().map(|arg| store(arg, &of.storage)).collect(),
        workdir: of.server.workdir.clone(),
        identity: of.server.identity.clone(),
        params: of.params.encode(),
        manager,
        journal: JournalStart { fd: journal.or(of.storage.arenas.journal()), lasts: journal.is_some() },
        succession: SuccessionStart {
            former_fd: ends.former.as_ref().map(AsRawFd::as_raw_fd),
            successor_fd: Some(ends.successor.as_raw_fd()),
            write_lock_fd: ends.write_lock.as_ref().map(AsRawFd::as_raw_fd),
        },
        secrets,
        quic: of.listening.quic,
        class_key: of.server.class_key,
        fleet: of.fleet.start.clone(),
        peers: of.fleet.peers.clone(),
    }
}

fn listeners(listener: &crate::listen::BoundListener) -> impl Iterator<Item = ListenerStart> {
    let (address, is_uds) = match &listener.address {
        SocketName::Inet(address) => (format!("{} {}", address.ip(), address.port()), false),
        SocketName::Unix(path) => (path.to_string_lossy().into_owned(), true),
    };
    listener.sockets.iter().map(move |socket| ListenerStart {
        name: listener.name.clone(),
        fd: socket.as_raw_fd(),
        transport: listener.transport,
        address: address.clone(),
        is_uds,
    })
}

fn store(store: &StoreArg, storage: &Storage) -> StoreStart {
    let file = storage.files.iter().find(|file| file.store == store.name);
    StoreStart {
        name: store.name.clone(),
        kind: store.kind,
        size: file.map_or(store.bytes, |file| Some(file.bytes)),
        path: store.path.clone(),
        fd: file.map(|file| file.file.as_raw_fd()),
        arena_fd: storage.arenas.descriptor_of(&store.name),
        disk: file.map(|file| DiskStart { options: file.options(store), life: file.life }),
    }
}
