// SPDX-License-Identifier: BSD-2-Clause
//! What all transactions of a worker share.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use ::fleet::Invalidation;
use arc_swap::ArcSwap;
use base::{Clock, Mono, Real, VxidSource};
use cache::LookupOptions;
use filters::{FilterName, Packed};
use params::Params;
use shm::vsl::{LogRing, Marker};
use storage::Stores;
use tables::counters::{Main, NoHitCounts};
use tables::tags::Tag;
use vrt::Value;
use vrt::ctx::StoreProperty;

use crate::caching::{Patterns, StoredHeads, cache_params};
use crate::cluster::Cluster;
use crate::fetches::Fetches;
use crate::invalidations::Invalidations;
use crate::requests::Requests;
use crate::sessions::Sessions;
use crate::slices;
use crate::vcls::{Labels, ServerNames, Vcls};

/// Resolves when invalidations are durable. The error says why they aren't.
pub type WhenKept = Pin<Box<dyn Future<Output = Result<(), String>>>>;

const NO_URL_TAGS: &str = "purging by URL, host or prefix needs the parameter tag_urls";
/// Least charge for a step of a purge by tag, in microseconds.
const PURGE_STEP_MICROS: u32 = 25;

/// Longest wait of a transaction for invalidations to be durable. Longer than the stall of a disk that recovers.
const KEPT_TIME: Duration = Duration::from_secs(30);

pub struct EngineConfig {
    pub clock: Clock,
    pub params: Params,
    pub main: &'static Main,
    pub no_hit: &'static NoHitCounts,
    pub log: Arc<LogRing>,
    pub stores: Arc<Stores>,
    pub labels: Box<dyn Labels>,
    pub certificates: Arc<dyn tls::Certificates>,
    pub names: ServerNames,
    /// Signs the tokens of waiting rooms.
    pub class_key: [u8; 32],
    pub seed: u32,
}

pub struct Engine {
    pub clock: Clock,
    pub vxids: VxidSource,
    /// The parameters in force; a transaction keeps the ones it began with.
    pub params: ArcSwap<Params>,
    pub main: &'static Main,
    pub log: Arc<LogRing>,
    pub cache: cache::Cache,
    pub vcls: Vcls,
    pub sessions: Sessions,
    pub requests: Requests,
    pub fetches: Fetches,
    pub cluster: Cluster,
}

impl Engine {
    pub fn new(config: EngineConfig) -> Self {
        let EngineConfig { clock, params, main, log, .. } = config;
        let via = config.names.via(params.compat());
        let cache = cache::Cache::new(cache::CacheConfig {
            clock: clock.clone(),
            main,
            stores: config.stores,
            heads: Box::new(StoredHeads),
            regexes: Box::new(Patterns),
            params: cache_params(&params),
        });
        Engine {
            vxids: VxidSource::new(log.format().vxid_limit()),
            vcls: Vcls::new(config.labels, config.names, config.seed),
            sessions: Sessions::new(config.certificates),
            requests: Requests::new(&params, via, config.class_key, config.no_hit, clock.real()),
            fetches: Fetches::default(),
            cluster: Cluster::default(),
            params: ArcSwap::from_pointee(params),
            clock,
            main,
            log,
            cache,
        }
    }

    pub(crate) fn count_gzip(&self, chain: &filters::Chain) {
        for name in chain.names() {
            match FilterName::from(name.as_bytes()) {
                FilterName::Gzip => self.main.n_gzip.inc(),
                FilterName::Gunzip => self.main.n_gunzip.inc(),
                FilterName::TestGunzip => self.main.n_test_gunzip.inc(),
                FilterName::Pack(Packed::Brotli) => self.main.n_brotli.inc(),
                FilterName::Unpack(Packed::Brotli) => self.main.n_unbrotli.inc(),
                FilterName::Check(Packed::Brotli) => self.main.n_test_brotli.inc(),
                FilterName::Pack(Packed::Zstd) => self.main.n_zstd.inc(),
                FilterName::Unpack(Packed::Zstd) => self.main.n_unzstd.inc(),
                FilterName::Check(Packed::Zstd) => self.main.n_test_zstd.inc(),
                FilterName::Esi | FilterName::EsiGzip | FilterName::Range | FilterName::Injected(_) => {}
            }
        }
    }

    pub fn mono_of(&self, real: Real) -> Mono {
        self.clock.mono_of(real)
    }

    pub fn real_of(&self, mono: Mono) -> Real {
        self.clock.real_of(mono)
    }
}

impl Engine {
    /// See [`vrt::Ctx::may_invalidate`].
    ///
    /// # Errors
    /// Those of [`Engine::may_invalidate_here`], or the fleet's log is away.
    pub fn may_invalidate(&self) -> Result<(), vrt::ctx::VclFailure> {
        self.may_invalidate_here()?;
        self.cluster.may_announce()
    }

    /// Checks that invalidations are possible on this node; other nodes hear nothing of them.
    ///
    /// # Errors
    /// Another worker's cache is the one that counts.
    pub fn may_invalidate_here(&self) -> Result<(), vrt::ctx::VclFailure> {
        match self.cluster.gate.has_successor() && !self.cache.tells_successor() {
            true => Err(vrt::ctx::VclFailure::new(
                "This worker has a successor, whose cache isn't reached from here: ask again",
            )),
            false => Ok(()),
        }
    }

    /// True if nothing may be served from the cache any more, since a successor's cache is ahead of it.
    pub fn is_recalled(&self) -> bool {
        self.cluster.gate.has_successor() && self.cache.is_recalled()
    }

    /// Options for a lookup that finds only what the gate lets through.
    pub(crate) fn through_gate(&self, options: LookupOptions) -> LookupOptions {
        let gate = &self.cluster.gate;
        if gate.is_restricted() { gate.restrict(options, self.is_recalled()) } else { options }
    }

    /// Adds a ban on this node.
    ///
    /// # Errors
    /// The fault in the expression.
    pub fn ban(&self, spec: &[u8]) -> Result<(), String> {
        self.cache.ban(self.ban_of(spec)?);
        Ok(())
    }

    /// Adds a ban for a transaction, and has all nodes of the fleet do so.
    pub(crate) fn ban_everywhere(&self, by: &mut Invalidations, spec: &[u8]) -> Result<(), String> {
        let spec = self.ban_of(spec)?;
        let entry = self.cluster.node().map(|_| crate::cluster::ban(&spec));
        let now = self.clock.mono();
        let _pending = self.begin_invalidation();
        self.cache.ban(spec);
        by.note();
        entry.into_iter().for_each(|entry| self.announce(by, || entry, now));
        Ok(())
    }

    fn ban_of(&self, spec: &[u8]) -> Result<cache::BanSpec, String> {
        let spec = std::str::from_utf8(spec).map_err(|_| "a ban must be text".to_owned())?;
        let spec = self.cache.ban_of_text(spec).map_err(|error| error.to_string())?;
        self.may_ban(&spec)?;
        Ok(spec)
    }

    /// Checks that a ban can be made here.
    ///
    /// # Errors
    /// The ban tests tags that no object has, or too many bans are being spread.
    pub fn may_ban(&self, spec: &cache::BanSpec) -> Result<(), String> {
        if spec.has_url_key() && !self.params.load().tag_urls {
            return Err(NO_URL_TAGS.to_owned());
        }
        self.cache.may_ban(spec).map_err(|error| error.to_string())
    }

    /// Logs what happened to an object on the side, outside of any transaction.
    pub fn log_event(&self, event: cache::CacheEvent) {
        let tag = match event.tag() {
            cache::EventTag::ExpKill => Tag::ExpKill,
            cache::EventTag::ExpBan => Tag::ExpBan,
        };
        let text = event.text(self.params.load().compat());
        self.log.write_onef(tag, base::Vxid::NONE, Marker::None, format_args!("{text}"));
    }

    /// Purges all variants of a hash, as [`cache::Cache::purge_for`], and logs the purged objects. Returns their
    /// number.
    pub fn purge(&self, own: Option<&cache::Busy>, digest: &cache::Digest, now: Mono, purge: cache::Purge) -> usize {
        // What may be revalidated keeps its slices.
        let sets = if purge == cache::Purge::HARD { self.cache.aux_attrs_under(digest) } else { Vec::new() };
        let count = self.cache.purge_for(own, digest, now, purge, &mut |gone| self.log_event(gone));
        for set in sets.iter().filter_map(|attrs| slices::SliceSet::read(attrs)) {
            slices::free(&self.cache, *digest, set);
        }
        count
    }

    /// Resolves when all bans and purges so far are durable; `None` if they already are. Don't acknowledge an
    /// invalidation before it resolves.
    pub fn kept(&self) -> Option<WhenKept> {
        let unkept = self.cache.unkept()?;
        Some(Box::pin(async move {
            let result = rt::timeout(KEPT_TIME, unkept).await;
            let result = result.unwrap_or_else(|rt::Elapsed| Err("the disk takes too long".to_owned()));
            result.map_err(|reason| format!("what was invalidated may come back after a restart: {reason}"))
        }))
    }

    /// Purges objects with one of these keys, except the one that the purging transaction itself fetches. Works in
    /// steps that let other tasks of the thread run.
    ///
    /// # Errors
    /// Those of [`Engine::may_invalidate_here`], or no object has a tag of that kind.
    pub fn purge_tags(
        &self,
        own: Option<&cache::Busy>,
        keys: &[&[u8]],
        soft: bool,
    ) -> Result<vrt::ctx::VclWait<i64>, vrt::ctx::VclFailure> {
        self.purge_tags_then(own, keys, soft, self.clock.mono(), None)
    }

    /// Like [`Engine::purge_tags`] for a transaction, on all nodes of the fleet.
    pub(crate) fn purge_tags_everywhere(
        &self,
        by: &mut Invalidations,
        own: Option<&cache::Busy>,
        keys: &[&[u8]],
        soft: bool,
    ) -> Result<vrt::ctx::VclWait<i64>, vrt::ctx::VclFailure> {
        self.cluster.may_announce()?;
        let _pending = self.begin_invalidation();
        let (now, tags) = (self.clock.mono(), keys.iter().map(|key| key.to_vec()).collect());
        let then = self.announce_later(by, move || Invalidation::Tags { tags, is_soft: soft }, now);
        self.purge_tags_then(own, keys, soft, now, then)
    }

    fn purge_tags_then(
        &self,
        own: Option<&cache::Busy>,
        keys: &[&[u8]],
        soft: bool,
        now: Mono,
        then: Option<Box<dyn FnOnce()>>,
    ) -> Result<vrt::ctx::VclWait<i64>, vrt::ctx::VclFailure> {
        self.may_invalidate_here()?;
        if keys.iter().any(|key| message::tags::is_of_urls(key)) && !self.params.load().tag_urls {
            return Err(vrt::ctx::VclFailure::new(NO_URL_TAGS));
        }
        let mut purge = self.cache.purge_tags(keys.iter().copied(), now, soft).by(own);
        Ok(Box::pin(async move {
            let count = loop {
                match purge.step() {
                    Some(count) => break count as i64,
                    None => rt::spent_guess(PURGE_STEP_MICROS).await,
                }
            };
            then.into_iter().for_each(|then| then());
            count
        }))
    }

    pub fn store_named(&self, name: &[u8]) -> Option<&Arc<storage::Store>> {
        self.cache.stores().named(std::str::from_utf8(name).ok()?)
    }

    /// `storage.NAME.free_space` and the like.
    pub fn store_property(&self, name: &[u8], property: StoreProperty) -> Value {
        let store = self.store_named(name);
        let bytes = |n: u64| Value::Bytes(n.min(i64::MAX as u64) as i64);
        match property {
            StoreProperty::FreeSpace => bytes(store.map_or(0, |store| store.free_bytes().unwrap_or(i64::MAX as u64))),
            StoreProperty::UsedSpace => bytes(store.map_or(0, |store| store.used_bytes())),
            StoreProperty::Happy => Value::Bool(store.is_some()),
        }
    }
}
