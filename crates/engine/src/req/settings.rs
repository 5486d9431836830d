// SPDX-License-Identifier: BSD-2-Clause
//! What VCL sets of a request: it holds from one `vcl_recv` to the answer. A restart keeps all of it.

use std::sync::Arc;

use backend::Director;
use cache::LookupOptions;
use vrt::LoadedVcl;
use vrt::value::Text;

#[derive(Default)]
pub(crate) struct ReqSettings {
    /// `req.hash_always_miss`, `req.hash_ignore_*`, `req.ttl`, `req.grace`.
    pub lookup: LookupOptions,
    pub rfc9111: bool,
    pub trace: Option<bool>,
    /// `req.esi` or `resp.do_esi` is false.
    pub disable_esi: bool,
    pub backend_hint: BackendHint,
    pub storage: Option<Text>,
    pub class: Option<Text>,
    pub client_identity: Option<Text>,
    /// `req.filters`: those of the request's body.
    pub body_filters: Option<Text>,
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
    /// The director for a fetch.
    pub fn director(&self, vcl: &LoadedVcl) -> Option<Arc<dyn Director>> {
        match &self.backend_hint {
            BackendHint::Set(director) => director.clone(),
            BackendHint::Default => vcl.default_backend().cloned(),
        }
    }
}
