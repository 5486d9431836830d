// SPDX-License-Identifier: BSD-2-Clause
//! What VCL sets of a request: it holds from one `vcl_recv` to the answer. A restart keeps all of it.

use std::sync::Arc;

use backend::Director;
use cache::LookupOptions;
use vrt::LoadedVcl;
use vrt::value::Text;

/// The variables `req.*` and `client.*` that VCL may set and that aren't part of a head.
#[derive(Default)]
pub(crate) struct Settings {
    /// `req.hash_always_miss`, `req.hash_ignore_*`, `req.ttl`, `req.grace`.
    pub lookup: LookupOptions,
    /// `req.rfc9111`
    pub rfc9111: bool,
    /// It is answered by RFC 9111, or there is a second tier: more is to be asked than for most.
    pub is_special: bool,
    /// `req.esi` or `resp.do_esi` is false.
    pub disable_esi: bool,
    /// `req.backend_hint`, once it is set.
    pub backend_hint: Option<Option<Arc<dyn Director>>>,
    /// `req.storage`
    pub storage: Option<Text>,
    /// `req.class`
    pub class: Option<Text>,
    /// `client.identity`
    pub client_identity: Option<Text>,
}

impl Settings {
    /// Where the request would be fetched from: `req.backend_hint`, which begins as the VCL's default.
    pub fn director(&self, vcl: &LoadedVcl) -> Option<Arc<dyn Director>> {
        match &self.backend_hint {
            Some(set) => set.clone(),
            None => vcl.default_backend().cloned(),
        }
    }
}
