// SPDX-License-Identifier: BSD-2-Clause
//! This worker as a member of the second tier: who the members are is looked at once a second, on the thread that keeps house.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use ::backend::{BackendSpec, Backends, Director, Endpoint, VclEvent};
use base::lock::Mutex;
use cli::handoff::FleetStart;
use engine::Engine;
use engine::peers::{ListedPeer, PeerBackendMaker, Peers};
use fleet::peers::{Dns, Fixed, Membership, MembershipProof, OfFleet, PeerSettings, TierMember};
use shm::vsc::CounterMaker;
use tables::counters;

use crate::worker::Worker;

/// Name in the place of a VCL's in the names of the members' backends; no VCL can be called so.
const OWNER: &str = "_peers";
/// Between two looks at the members.
const LOOK: Duration = Duration::from_secs(1);
/// Between two lookups of names, unless `backend_dns_ttl` is longer.
const LOOKUP: Duration = Duration::from_secs(1);

/// Reads what the manager has handed over.
///
/// # Errors
/// What is wrong with it: the manager has read it before.
fn settings(start: &FleetStart) -> Result<PeerSettings, String> {
    let mut settings = PeerSettings::parse(&start.spec)?;
    for (_, contents) in &start.files {
        settings.provide(contents)?;
    }
    Ok(settings)
}

/// Makes the engine a member, with the members that are named; those that are to be looked up follow. A worker that takes
/// another one's place gets its objects, and doesn't warm.
///
/// # Errors
/// What is wrong with what was handed over, or there is no room for counters.
pub fn join(
    start: &FleetStart,
    identity: &str,
    engine: &Engine,
    backends: &Arc<Backends>,
    stats: &CounterMaker,
    has_former: bool,
) -> Result<(), String> {
    let settings = settings(start)?;
    let set = stats.add::<counters::Peers>("PEERS").map_err(|error| format!("counters: {error}"))?;
    let own = own_name(&settings, identity, engine);
    let peers = Peers::new(&own, &settings.secret, maker(backends.clone()), Box::leak(Box::new(set)));
    peers.set_members(settings.members, &own);
    // From the beginning, so that nobody takes the node for ready before that is known.
    peers.counters().warming.set(u64::from(settings.warm.is_some() && !has_former));
    engine.cluster.join_tier(peers);
    Ok(())
}

/// This node's name: as `--peers` says, else in the fleet, else its identity.
fn own_name(settings: &PeerSettings, identity: &str, engine: &Engine) -> String {
    let of_fleet = engine.cluster.node().map(|node| node.settings().node.clone());
    match settings.node.is_empty() {
        true => of_fleet.unwrap_or_else(|| identity.to_owned()),
        false => settings.node.clone(),
    }
}

/// Membership for this node's report, where the tier's members are the fleet's nodes.
pub fn joined(start: &FleetStart, node: &fleet::FleetSettings) -> Option<MembershipProof> {
    let settings = settings(start).expect("it was read when the worker began");
    settings.is_of_fleet.then(|| MembershipProof::new(&settings.secret, node, settings.weight)).flatten()
}

/// Time for which a worker with an empty cache warms.
pub fn warm_time(worker: &Worker) -> Option<Duration> {
    settings(worker.start.peers.as_ref()?).ok()?.warm
}

fn maker(backends: Arc<Backends>) -> PeerBackendMaker {
    Box::new(move |member: &TierMember| {
        let server = &member.server;
        let endpoint = match server.host.parse::<IpAddr>() {
            Ok(ip) => Endpoint::addr((ip, server.port).into()),
            Err(_) => Endpoint::named(&server.host, server.port),
        };
        let spec = BackendSpec { is_optional: true, ..BackendSpec::new(&member.name, endpoint) };
        let backend = backends.create(OWNER, spec);
        // Its counters are shown.
        backend.event(VclEvent::Warm);
        backend
    })
}

/// Follows the members for as long as the worker lives. Runs on the housekeeping thread's runtime.
pub async fn follow(worker: Arc<Worker>) {
    let Some((peers, start)) = worker.engine.cluster.peers().zip(worker.start.peers.as_ref()) else { return };
    let settings = settings(start).expect("it was read when the worker began");
    let own = peers.own_name();
    let mut sources: Vec<Box<dyn Membership>> = vec![Box::new(Fixed(settings.members.clone()))];
    if !settings.names.is_empty() {
        let every = worker.engine.params.load().backend_dns_ttl.max(LOOKUP);
        sources.push(Box::new(Dns::new(settings.names.clone(), every)));
    }
    if let Some(node) = worker.engine.cluster.node().filter(|_| settings.is_of_fleet) {
        sources.push(Box::new(OfFleet::new(node.clone(), &settings.secret)));
    }
    let mut known: Vec<Vec<TierMember>> = vec![Vec::new(); sources.len()];
    let sources = Arc::new(Mutex::new(sources));
    loop {
        // Looking up a name may take long.
        let looked = rt::blocking_lookup({
            let sources = sources.clone();
            move || sources.lock().iter_mut().map(|source| source.members()).collect::<Vec<_>>()
        });
        // Without a thread for it the members stay as they are until the next look.
        let found = looked.await.unwrap_or_default();
        for (known, found) in known.iter_mut().zip(found) {
            if let Ok(found) = found {
                *known = found;
            }
        }
        let is_named = !settings.node.is_empty() || known.iter().flatten().any(|member| member.name == *own);
        let own_of_source = || sources.lock().iter().find_map(|source| source.own_name());
        let own = if is_named { own.to_string() } else { own_of_source().unwrap_or_else(|| own.to_string()) };
        let members: Vec<TierMember> = known.iter().flatten().cloned().collect();
        if peers.set_members(members, &own) {
            let names: Vec<String> = peers.list().into_iter().map(|peer| peer.name).collect();
            report_line!("peers: the members are {}; this node is {own}", names.join(", "));
        }
        peers.tick();
        rt::sleep(LOOK).await;
    }
}

/// The tier, for `fleet.status`.
pub fn status_text(peers: &Peers) -> String {
    let mut text = format!("{:<14} {}\n", "peers, this is", peers.own_name());
    for peer in peers.list() {
        let state = state_word(&peer);
        text += &format!("{:<14} {} at {}, weight {}: {state}\n", "peer", peer.name, peer.address, peer.weight);
    }
    let to = peers_counters(peers);
    text + &to.iter().map(|(name, value)| format!("{:<14} {value}\n", format!("peers {name}"))).collect::<String>()
}

pub fn status_json(peers: &Peers) -> serde_json::Value {
    let ring: Vec<_> = peers
        .list()
        .iter()
        .map(|peer| {
            serde_json::json!({
                "name": peer.name, "address": peer.address, "weight": peer.weight, "state": state_word(peer),
            })
        })
        .collect();
    let counters: serde_json::Map<String, serde_json::Value> =
        peers_counters(peers).into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect();
    serde_json::json!({ "node": *peers.own_name(), "ring": ring, "counters": counters })
}

fn state_word(peer: &ListedPeer) -> &'static str {
    match (peer.is_own, peer.is_away) {
        (true, _) => "this node",
        (false, true) => "away",
        (false, false) => "there",
    }
}

fn peers_counters(peers: &Peers) -> [(&'static str, u64); 9] {
    let counters = peers.counters();
    [
        ("owned", counters.owned.get()),
        ("asked", counters.asked.get()),
        ("answered", counters.answered.get()),
        ("passed by", counters.passed_by.get()),
        ("not asked", counters.not_asked.get()),
        ("served", counters.served.get()),
        ("warming", counters.warming.get()),
        ("warmed", counters.warmed.get()),
        ("refused", counters.behind.get() + counters.crossed.get() + counters.hops_refused.get()),
    ]
}
