// SPDX-License-Identifier: BSD-2-Clause
//! What VCL sets of a request: it holds from one `vcl_recv` to the answer. A restart keeps all of it.

use std::sync::Arc;

use accounts::BotClass;
use backend::Director;
use cache::LookupOptions;
use storage::Store;
use vrt::LoadedVcl;
use vrt::value::Text;

use crate::engine::Engine;

#[derive(Default)]
pub(crate) struct ReqSettings {
    /// `req.hash_always_miss`, `req.hash_ignore_*`, `req.ttl`, `req.grace`.
    pub lookup: LookupOptions,
    pub rfc9111: bool,
    pub body_key: BodyKey,
    pub trace: Option<bool>,
    /// `req.esi` or `resp.do_esi` is false.
    pub disable_esi: bool,
    pub backend_hint: BackendHint,
    pub storage: Option<Text>,
    pub class: Option<Text>,
    pub tenant: Option<Text>,
    /// `req.bot.class`, once VCL has set it.
    pub bot_class: Option<BotClass>,
    /// `req.bot.network`: the number of an autonomous system, or 0.
    pub bot_network: u32,
    /// `req.bot.verified`: the bot whose identity VCL has verified.
    pub verified_bot: Option<Text>,
    pub client_identity: Option<Text>,
    /// `req.filters`: those of the request's body.
    pub body_filters: Option<Text>,
}

/// `req.hash_body`: whether the cache key covers the request's body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum BodyKey {
    /// The key of a QUERY does (RFC 10008 2.7): VCL has said nothing.
    #[default]
    OfQuery,
    /// The key of a QUERY or POST does.
    Always,
    Never,
}

impl BodyKey {
    #[inline]
    pub fn applies_to(self, method: &[u8]) -> bool {
        match method {
            b"QUERY" => self != BodyKey::Never,
            b"POST" => self == BodyKey::Always,
            _ => false,
        }
    }
}

#[derive(Default)]
pub(crate) enum BackendHint {
    /// The VCL's default backend: VCL has set no other.
    #[default]
    Default,
    /// The director that VCL has set, or none.
    Set(Option<Arc<dyn Director>>),
}

impl ReqSettings {
    pub fn store_for_body(&self, engine: &Engine) -> Arc<Store> {
        let named = self.storage.as_ref().and_then(|name| engine.store_named(name));
        named.unwrap_or_else(|| engine.cache.stores().transient()).clone()
    }

    /// The director for a fetch.
    pub fn director(&self, vcl: &LoadedVcl) -> Option<Arc<dyn Director>> {
        match &self.backend_hint {
            BackendHint::Set(director) => director.clone(),
            BackendHint::Default => vcl.default_backend().cloned(),
        }
    }
}
