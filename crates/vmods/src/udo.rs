// SPDX-License-Identifier: BSD-2-Clause
//! vmod_udo: a director whose order of backends each task goes through on its own. The reference part of its documentation wasn't
//! to be had: the methods here are those that public VCL files call. Places are by rendezvous hashing with weights.

use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::sync::Arc;

use backend::{Backend, Director, DirectorBase, Health, ResolveCtx, Summary};
use base::Real;
use parking_lot::{Mutex, RwLock};
use sha2::{Digest, Sha256};
use vrt::vmod::EnumWords;
use vrt::vmod::{BACKEND, BOOL, CallResult, Methods, VOID, VmodCall, give, wait};
use vrt::{BackendRef, Blob, Method, Value, Var, VclFailure};

use crate::activedns::{self, AddressGroup};
use crate::directors::members::{DirectorMembers, same};
use crate::dynamic::Domain;
use vmod_support::args::fail;

/// Groups of one director.
const GROUPS: usize = 64;

vrt::words! {
    enum DirectorType { Hash = "hash", Fallback = "fallback", Random = "random" }
}

vrt::vmod! {
    /// A director for backends and for the addresses of names (activedns). Each task has its own order of them and
    /// continues in it: a retry gets another backend, and none if all were tried
    pub(crate) static VMOD = udo;

    /// The order is by the hash of the object (the same for the same object, as far as weights and health allow), by the
    /// order in which backends were added, or random
    object director(type: DirectorType = Hash) -> Arc<Udo> = new, methods {
        /// Adds a backend. Its share depends on weight, its position on hash (32 bytes) or else on its name
        fn add_backend(backend: BACKEND, weight: REAL = 1.0, hash: BLOB = null) -> VOID, only(Method::Init.set())
            = add_backend;

        /// Adds the backends of a group, given by its get_tag()
        fn subscribe(tag: STRING) -> VOID, only(Method::Init.set()) = subscribe;

        /// Sets another order: in vcl_init for all, elsewhere for this task's .backend()
        fn set_type(type: DirectorType) -> VOID = set_type;

        /// Sets the hash for this task's order, instead of the object's
        fn set_hash(hash: BLOB) -> VOID, local, only(Methods::CLIENT.with(Methods::BACKEND)) = set_hash;

        /// Returns the director. The first call waits for the lookups of its groups
        fn backend() -> BACKEND, local, waits = backend;

        /// Returns a string that is unique to this director: a request that arrives with it was sent by this director
        fn get_identifier() -> STRING, local = |this: &Arc<Udo>, _| this.identifier.clone();

        /// Returns whether the string is this director's. If so, the backend with the address at which the request arrived
        /// is identified as this server
        fn self_identify(identifier: STRING) -> BOOL = self_identify;

        /// Returns whether this server is the next one in the task's order, or within `lookahead` further ones
        fn self_is_next(lookahead: INT = 0) -> BOOL, local = self_is_next;
    }

    left_out {
        "udo.director.avoid_backend" => "a retry, which gets another backend";
        "udo.director.dump" => "backend.list of varnishadm";
        "udo.director.exhaust_backend" => "a retry, which gets another backend";
        "udo.director.is_identified" => "what self_identify said";
        "udo.director.reset" => "another director with the same backends";
        "udo.director.set_identity" => "self_identify";
        "udo.director.set_subtype" => "set_type, and a director in a director";
    }
}

fn set_type(this: &Arc<Udo>, call: &mut VmodCall<'_>, kind: DirectorType) -> CallResult<VOID> {
    let (udo, order) = (this, Ranking::parse(kind.word()));
    if is_housekeeping(call) {
        udo.config.write().order = order;
    } else {
        task(call, udo).progress.lock().order = Some(order);
    }
    give(())
}

fn set_hash(udo: &Arc<Udo>, call: &mut VmodCall<'_>, hash: Option<&Blob>) -> CallResult<VOID> {
    if is_housekeeping(call) {
        return udo.refused("set_hash", "not in vcl_init and vcl_fini");
    }
    let Some(hash) = hash.filter(|hash| !hash.as_bytes().is_empty()) else {
        return udo.refused("set_hash", "there is no hash");
    };
    task(call, udo).progress.lock().key = Some(Sha256::digest(hash.as_bytes()).into());
    give(())
}

fn self_identify(udo: &Arc<Udo>, call: &mut VmodCall<'_>, identifier: &[u8]) -> CallResult<BOOL> {
    let is_own = identifier == udo.identifier.as_bytes();
    if is_own && let Value::Ip(Some(ip)) = call.ctx.get(Var::ServerIp) {
        *udo.itself.lock() = Some(ip);
    }
    give(is_own)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ranking {
    Hash,
    Fallback,
    Random,
}

impl Ranking {
    fn parse(word: &str) -> Ranking {
        match word {
            "fallback" => Ranking::Fallback,
            "random" => Ranking::Random,
            _ => Ranking::Hash,
        }
    }
}

pub(crate) struct Udo {
    base: DirectorBase,
    identifier: String,
    config: RwLock<Config>,
    /// The address that this server itself has among the backends.
    itself: Mutex<Option<SocketAddr>>,
}

struct Config {
    order: Ranking,
    members: Vec<Member>,
    groups: Vec<Arc<AddressGroup>>,
}

#[derive(Clone)]
struct Member {
    backend: Arc<dyn Director>,
    weight: f64,
    hash: [u8; 32],
}

/// A task's way through the backends; what `.backend()` gives it.
struct TaskWalk {
    udo: Arc<Udo>,
    progress: Mutex<Progress>,
}

#[derive(Default)]
struct Progress {
    order: Option<Ranking>,
    key: Option<[u8; 32]>,
    lot: Option<[u8; 32]>,
    tried: Vec<Arc<dyn Director>>,
}

fn is_housekeeping(call: &VmodCall<'_>) -> bool {
    matches!(call.method, Method::Init | Method::Fini)
}

fn task(call: &mut VmodCall<'_>, udo: &Arc<Udo>) -> Arc<TaskWalk> {
    let key = Arc::as_ptr(udo) as usize;
    call.ctx.task().keyed(key, || Arc::new(TaskWalk { udo: udo.clone(), progress: Mutex::default() })).clone()
}

fn new(call: &mut VmodCall<'_>, name: &str, kind: DirectorType) -> Result<Arc<Udo>, VclFailure> {
    let order = Ranking::parse(kind.word());
    // Two seeds of the system's randomness.
    let seeds = [0u64, 1].map(|n| RandomState::new().hash_one((n, name)));
    let udo = Arc::new(Udo {
        base: DirectorBase::new(&call.vcl.name, name, call.ctx.clock().real()),
        identifier: format!("{:016x}{:016x}", seeds[0], seeds[1]),
        config: RwLock::new(Config { order, members: Vec::new(), groups: Vec::new() }),
        itself: Mutex::default(),
    });
    let known: Arc<dyn Director> = udo.clone();
    call.vcl.add_director(&known);
    Ok(udo)
}

fn add_backend(
    this: &Arc<Udo>,
    call: &mut VmodCall<'_>,
    backend: Option<&BackendRef>,
    weight: f64,
    hash: Option<&Blob>,
) -> CallResult<VOID> {
    let udo = this;
    if call.method != Method::Init {
        return udo.refused("add_backend", "only in vcl_init");
    }
    let Some(backend) = backend else { return udo.refused("add_backend", "there is no backend") };
    if !weight.is_finite() || weight < 0.0 {
        return udo.refused("add_backend", "a weight is 0 or more");
    }
    let hash = match hash {
        Some(blob) => match blob.as_bytes().try_into() {
            Ok(hash) => hash,
            Err(_) => return udo.refused("add_backend", "a hash is 32 bytes long"),
        },
        None => Sha256::digest(backend.name()).into(),
    };
    let mut config = udo.config.write();
    if config.members.iter().any(|member| member.hash == hash) {
        let text = format!("there is a backend with the hash of {} already", backend.name());
        return udo.refused("add_backend", &text);
    }
    config.members.push(Member { backend: backend.clone(), weight, hash });
    give(())
}

fn subscribe(this: &Arc<Udo>, call: &mut VmodCall<'_>, tag: &[u8]) -> CallResult<VOID> {
    let (udo, tag) = (this, tag);
    if call.method != Method::Init {
        return udo.refused("subscribe", "only in vcl_init");
    }
    let Some(group) = activedns::find(tag) else {
        return udo.refused("subscribe", &format!("\"{}\" is no group's tag", tag.escape_ascii()));
    };
    let mut config = udo.config.write();
    if config.groups.iter().any(|other| Arc::ptr_eq(other, &group)) {
        return give(());
    }
    if config.groups.len() >= GROUPS {
        return udo.refused("subscribe", &format!("more than {GROUPS} groups"));
    }
    config.groups.push(group);
    give(())
}

/// In vcl_init the director itself, which another may have for good; elsewhere the task's turn.
fn backend(udo: &Arc<Udo>, call: &mut VmodCall<'_>) -> CallResult<BACKEND> {
    let given: Arc<dyn Director> = if is_housekeeping(call) { udo.clone() } else { task(call, udo) };
    let has_groups = !udo.config.read().groups.is_empty();
    if has_groups && let Some(list) = call.ctx.trial() {
        list.push(format!("look up the names of {}'s groups", udo.base.name()));
        return give(Some(given));
    }
    let unknown = udo.prepare(call);
    if unknown.is_empty() {
        return give(Some(given));
    }
    wait(async move {
        for domain in unknown {
            domain.look_first().await;
        }
        Ok(Some(given))
    })
}

fn self_is_next(this: &Arc<Udo>, call: &mut VmodCall<'_>, lookahead: i64) -> CallResult<BOOL> {
    let udo = this;
    if is_housekeeping(call) {
        return udo.refused("self_is_next", "not in vcl_init and vcl_fini");
    }
    let Some(itself) = *udo.itself.lock() else { return give(false) };
    let turn = task(call, udo);
    let is_fetch = matches!(call.method, Method::BackendFetch | Method::BackendResponse | Method::BackendError);
    let hash = match call.ctx.get(if is_fetch { Var::BereqHash } else { Var::ReqHash }) {
        Value::Blob(Some(hash)) => hash.as_bytes().try_into().unwrap_or_default(),
        _ => [0; 32],
    };
    let seed = call.ctx.random();
    let left = turn.progress.lock().left(udo, hash, || seed);
    let span = usize::try_from(lookahead).unwrap_or(0).saturating_add(1);
    let healthy =
        left.iter().filter(|member| call.ctx.healthy(&member.backend)).take(span).cloned().collect::<Vec<_>>();
    give(healthy.iter().any(|member| addresses(&member.backend).contains(&itself)))
}

fn addresses(director: &Arc<dyn Director>) -> Vec<SocketAddr> {
    let endpoint = director.as_backend().map(|backend| &backend.spec().endpoint);
    endpoint.into_iter().flat_map(|endpoint| [endpoint.ipv4, endpoint.ipv6]).flatten().collect()
}

/// Distance of a member from a key, by weight.
fn distance(member: &Member, key: &[u8; 32]) -> f64 {
    let digest = Sha256::new().chain_update(member.hash).chain_update(key).finalize();
    let number = digest[..8].iter().fold(0u64, |sum, byte| sum << 8 | u64::from(*byte));
    // Above 0, below 1.
    let place = ((number >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
    -place.ln() / member.weight
}

impl Udo {
    fn refused<T>(&self, method: &str, reason: &str) -> Result<T, VclFailure> {
        fail(format!("udo: {}.{method}(): {reason}", self.base.name()))
    }

    /// Has the groups look for their names; those whose first lookup hasn't ended.
    fn prepare(&self, call: &mut VmodCall<'_>) -> Vec<Arc<Domain>> {
        let groups = {
            let config = self.config.read();
            if config.groups.is_empty() {
                return Vec::new();
            }
            config.groups.clone()
        };
        let domains = groups.iter().filter_map(|group| group.domain(call));
        domains.filter(|domain| !domain.is_known()).collect()
    }

    fn members(&self) -> Vec<Member> {
        let config = self.config.read();
        let mut members = config.members.clone();
        for domain in config.groups.iter().filter_map(|group| group.known()) {
            for backend in domain.backends() {
                if !members.iter().any(|member| same(&member.backend, &backend)) {
                    // By address: all servers that subscribe to the name have the same order.
                    let place = format!("{:?}", addresses(&backend));
                    members.push(Member { hash: Sha256::digest(place).into(), backend, weight: 1.0 });
                }
            }
        }
        members
    }

    fn shown(&self) -> DirectorMembers {
        let mut shown = DirectorMembers::default();
        self.members().into_iter().for_each(|member| shown.add(member.backend, member.weight));
        shown
    }

    fn next(&self, ctx: &dyn ResolveCtx, progress: &Mutex<Progress>) -> Option<Arc<dyn Director>> {
        let left = progress.lock().left(self, *ctx.digest(), || ctx.random());
        // Not locked while members are asked: one may be a director that has this one in it.
        let found = left.into_iter().find(|member| member.backend.healthy_for(ctx).ok)?.backend;
        progress.lock().tried.push(found.clone());
        Some(found)
    }
}

impl Progress {
    fn has_tried(&self, backend: &Arc<dyn Director>) -> bool {
        self.tried.iter().any(|tried| same(tried, backend))
    }

    /// Members that weren't tried yet, in the order in which they come.
    fn left(&mut self, udo: &Udo, hash: [u8; 32], random: impl Fn() -> f64) -> Vec<Member> {
        let order = self.order.unwrap_or_else(|| udo.config.read().order);
        let mut left = udo.members();
        left.retain(|member| !self.has_tried(&member.backend));
        let key = match order {
            Ranking::Fallback => return left,
            Ranking::Hash => self.key.unwrap_or(hash),
            Ranking::Random => *self.lot.get_or_insert_with(|| Sha256::digest(random().to_bits().to_le_bytes()).into()),
        };
        left.retain(|member| member.weight > 0.0);
        left.sort_by_cached_key(|member| DistanceKey(distance(member, &key)));
        left
    }
}

#[derive(PartialEq)]
struct DistanceKey(f64);

impl Eq for DistanceKey {}

impl PartialOrd for DistanceKey {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for DistanceKey {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

fn choose(udo: &Udo, ctx: &dyn ResolveCtx, progress: &Mutex<Progress>) -> Option<Arc<Backend>> {
    loop {
        if let Some(found) = udo.next(ctx, progress)?.resolve(ctx) {
            return Some(found);
        }
    }
}

impl Director for Udo {
    fn base(&self) -> &DirectorBase {
        &self.base
    }

    fn kind(&self) -> &'static str {
        "udo"
    }

    fn choose(&self, ctx: &dyn ResolveCtx) -> Option<Arc<Backend>> {
        choose(self, ctx, &Mutex::default())
    }

    fn own_health(&self, now: Real) -> Option<Health> {
        Some(self.shown().any_healthy(|backend| backend.healthy(now)))
    }

    fn own_health_for(&self, ctx: &dyn ResolveCtx) -> Option<Health> {
        Some(self.shown().any_healthy(|backend| backend.healthy_for(ctx)))
    }

    fn summary(&self, now: Real) -> Summary {
        self.shown().summary(now)
    }

    fn details(&self, now: Real, out: &mut String) {
        self.shown().details(now, "Weight", out, |_, weight, _| format!("{weight:.3}"));
    }

    fn details_json(&self, now: Real, out: &mut String) {
        self.shown().json(now, "", out, |_, weight, _| format!("      \"weight\": {weight:.6},\n"));
    }
}

impl TaskWalk {
    fn untried(&self) -> DirectorMembers {
        let progress = self.progress.lock();
        let mut untried = DirectorMembers::default();
        let members = self.udo.members().into_iter().filter(|member| !progress.has_tried(&member.backend));
        members.for_each(|member| untried.add(member.backend, member.weight));
        untried
    }
}

/// Healthy while somebody healthy is left to be tried.
impl Director for TaskWalk {
    fn base(&self) -> &DirectorBase {
        &self.udo.base
    }

    fn kind(&self) -> &'static str {
        "udo"
    }

    fn choose(&self, ctx: &dyn ResolveCtx) -> Option<Arc<Backend>> {
        choose(&self.udo, ctx, &self.progress)
    }

    fn own_health(&self, now: Real) -> Option<Health> {
        Some(self.untried().any_healthy(|backend| backend.healthy(now)))
    }

    fn own_health_for(&self, ctx: &dyn ResolveCtx) -> Option<Health> {
        Some(self.untried().any_healthy(|backend| backend.healthy_for(ctx)))
    }

    fn summary(&self, now: Real) -> Summary {
        self.udo.summary(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directors::tests::{RecordingCtx, stub};
    use backend::AdminHealth;

    fn udo(order: Ranking, weights: &[f64]) -> Udo {
        let member = |(n, weight): (usize, &f64)| {
            let backend = stub(&format!("m{n}"));
            Member { hash: Sha256::digest(backend.name()).into(), backend, weight: *weight }
        };
        let members = weights.iter().enumerate().map(member).collect();
        Udo {
            base: DirectorBase::new("vcl1", "d", Real(0.0)),
            identifier: "id".into(),
            config: RwLock::new(Config { order, members, groups: Vec::new() }),
            itself: Mutex::default(),
        }
    }

    fn ctx(n: u32) -> RecordingCtx {
        let mut digest = [0; 32];
        digest[..4].copy_from_slice(&n.to_le_bytes());
        RecordingCtx { digest, dice: f64::from(n) / 10_000.0, ..RecordingCtx::default() }
    }

    /// All that a task gets, one after the other.
    fn way(udo: &Udo, n: u32) -> String {
        let (fake, progress) = (ctx(n), Mutex::default());
        let names: Vec<String> =
            std::iter::from_fn(|| udo.next(&fake, &progress)).map(|member| member.name().to_owned()).collect();
        names.join(" ")
    }

    fn sick(udo: &Udo, at: usize) {
        udo.config.read().members[at].backend.base().set_admin(AdminHealth::Sick, Real(1.0));
    }

    #[test]
    fn each_is_tried_once_in_order() {
        let fallback = udo(Ranking::Fallback, &[1.0, 0.0, 1.0]);
        assert_eq!(way(&fallback, 1), "m0 m1 m2");
        sick(&fallback, 1);
        assert_eq!(way(&fallback, 1), "m0 m2");
        // A member that has nobody itself: the next is asked.
        let fake = ctx(1);
        assert!(fallback.resolve(&fake).is_none());
        assert_eq!(fake.asked.into_inner(), "m0 m2");
    }

    #[test]
    fn a_turn_is_healthy_while_somebody_is_left() {
        let turn = TaskWalk { udo: Arc::new(udo(Ranking::Hash, &[1.0, 1.0])), progress: Mutex::default() };
        let fake = ctx(1);
        for left in [true, true, false] {
            assert_eq!(turn.healthy_for(&fake).ok, left);
            turn.udo.next(&fake, &turn.progress);
        }
        assert!(turn.udo.healthy_for(&fake).ok);
    }

    #[test]
    fn the_same_hash_has_the_same_way_and_weights_count() {
        let hash = udo(Ranking::Hash, &[1.0, 2.0, 1.0, 0.0]);
        let firsts = |hash: &Udo| -> Vec<String> { (0..4000).map(|n| way(hash, n)[..2].to_owned()).collect() };
        let before = firsts(&hash);
        assert_eq!(before, firsts(&hash));
        let share = |name: &str| before.iter().filter(|first| *first == name).count();
        assert!(
            (900..1100).contains(&share("m0")) && (1900..2100).contains(&share("m1")),
            "{} {}",
            share("m0"),
            share("m1")
        );
        assert_eq!(share("m3"), 0);
        // Who goes leaves the others' objects where they are.
        sick(&hash, 2);
        let after = firsts(&hash);
        assert!(before.iter().zip(&after).all(|(before, after)| before == "m2" || before == after));
    }

    #[test]
    fn a_lot_is_drawn_once_a_task() {
        let random = udo(Ranking::Random, &[1.0, 1.0, 1.0]);
        let ways: std::collections::BTreeSet<String> = (0..100).map(|n| way(&random, n)).collect();
        assert_eq!(ways.len(), 6, "{ways:?}");
        assert!(ways.iter().all(|way| way.len() == 8));
    }
}
