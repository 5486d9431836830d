// SPDX-License-Identifier: BSD-2-Clause
//! What a worker is given at its birth.

use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use cli::handoff::{DiskStart, ListenerStart, StoreStart, WorkerStart};
use params::DebugBit;
use sys::sock::SocketName;

use crate::manager::Manager;
use crate::stores::StoreArg;
use crate::upgrade::RelayEnds;

/// The variable of the environment that makes this executable the worker: the number of the CLI's descriptor, where the
/// hand-over waits. Its command line is the manager's, by which monitoring finds both.
pub const SOCKET: &str = "LACQUER_WORKER";

/// The number, in a worker.
pub fn socket() -> Option<String> {
    std::env::var(SOCKET).ok()
}

pub(crate) fn gather(
    manager: &Manager,
    cli: i32,
    panic: i32,
    sentinels: Vec<i32>,
    ends: &RelayEnds,
    certificates: Option<&File>,
    secrets: &OwnedFd,
) -> WorkerStart {
    let (user, group) = manager.jail.worker_names();
    WorkerStart {
        listeners: manager.listeners.iter().flat_map(listeners).collect(),
        stores: manager.stores.iter().map(|arg| store(arg, manager)).collect(),
        workdir: manager.workdir.clone(),
        identity: manager.identity.clone(),
        cli_fd: cli,
        panic_fd: Some(panic),
        journal_fd: manager.journal_file.as_ref().map(AsRawFd::as_raw_fd).or(manager.arenas.journal()),
        write_lock_fd: ends.write_lock.as_ref().map(AsRawFd::as_raw_fd),
        journal_lasts: manager.journal_file.is_some(),
        sentinel_fds: sentinels,
        former_fd: ends.former.as_ref().map(AsRawFd::as_raw_fd),
        successor_fd: Some(ends.successor.as_raw_fd()),
        certificates_fd: certificates.map(AsRawFd::as_raw_fd),
        ticket_keys_fd: manager.ticket_keys.file().map(AsRawFd::as_raw_fd),
        secrets_fd: Some(secrets.as_raw_fd()),
        quic: manager.quic,
        class_key: manager.class_key,
        fleet: manager.fleet.clone(),
        peers: manager.peers.clone(),
        manager_pid: std::process::id(),
        manager_start: Duration::from_secs_f64(manager.clock.real().0 - manager.now().since(manager.timers.started)),
        user,
        group,
        vtc_mode: manager.debug(DebugBit::VtcMode),
        trusted: true,
        params: manager.params.encode(),
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

fn store(store: &StoreArg, manager: &Manager) -> StoreStart {
    let file = manager.store_files.iter().find(|file| file.store == store.name);
    StoreStart {
        name: store.name.clone(),
        kind: store.kind,
        size: file.map_or(store.bytes, |file| Some(file.bytes)),
        path: store.path.clone(),
        fd: file.map(|file| file.file.as_raw_fd()),
        arena_fd: manager.arenas.descriptor_of(&store.name),
        spec: store.spec.clone(),
        disk: file.map(|file| DiskStart { options: file.options(store), life: file.life }),
    }
}
