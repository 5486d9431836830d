// SPDX-License-Identifier: BSD-2-Clause
//! The fleet's log: what is banned and purged on one node is in force on all of them, also on those that were down meanwhile.
//!
//! The log is somebody else's: a stream of NATS JetStream or of Redis, behind the trait [`FleetLink`]. A [`Node`] has two threads, each with a
//! connection of its own: one appends what is invalidated here, one follows the log and has each entry carried out in its order
//! ([`Applier`]). How far that has come ([`Position`]) lasts with the store, not with the log's server: so a node that comes back takes up
//! where its objects are, and a store that begins empty has missed nothing.
//!
//! A third thread has each node report how it fares, on a [`Board`] that the same server keeps: so all nodes are known on each.
//!
//! What must hold, and who sees to it:
//! * Who invalidates is told that it is done once the entry is in the log ([`Node::append`]), else that it isn't.
//! * What was stored before is served once all is carried out that the log had when the node came to it ([`Gate`]).
//! * What the node can't catch up with (the log has been trimmed, is another one, or is an older state of itself) ends all that is
//!   stored ([`rules`]).
//! * An entry says all by itself, with the time at which it was made, and may be carried out more than once.
//!
//! Both threads only repeat a step ([`Appender::step`], [`Follower::step`]) and wait until the next one is due, by the node's own clock:
//! a simulator takes the steps itself, in any order.
//!
//! Nothing here knows of caches, requests or VCL. A server that has no fleet has neither thread nor connection.

mod address;
pub mod board;
mod entry;
mod link;
mod member;
#[cfg(feature = "fleet-nats")]
mod nats;
mod node;
pub mod peers;
#[cfg(feature = "fleet-redis")]
mod redis;
pub mod rollout;
pub mod rules;
mod seal;
mod settings;
pub mod survey;
#[cfg(any(feature = "fleet-nats", feature = "fleet-redis"))]
mod wire;

pub use address::LogServer;
pub use board::{Board, Posted};
pub use entry::{FleetEntry, Invalidation, LONGEST, Read, mark};
pub use link::{Connect, FleetLink, IncomingEntry, LinkFault, LogBounds, NextEntries, OutgoingEntry, connector};
pub use member::{Deployed, KnownNode, NodeReport, StoreUse, one_line};
#[cfg(feature = "fleet-nats")]
pub use nats::proto as nats_protocol;
pub use node::{
    Announced, Appender, Applier, Follower, Gate, HELD, HeldRecord, KnownNodes, LogPosition, Node, NodeStatus,
    PendingInvalidation, Reach, Reporter,
};
pub use rules::Position;
pub use settings::{FleetLogKind, FleetSettings, NodeRole};
