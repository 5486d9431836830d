// SPDX-License-Identifier: BSD-2-Clause
//! The backend that holds an upload, as requests of any VCL find it: after a reload, that is the new VCL's backend for the same server.

use std::sync::{Arc, Weak};

use backend::{Backend, Director};
use vrt::LoadedVcl;

pub(super) struct Holder {
    vcl: Weak<LoadedVcl>,
    backend: Weak<Backend>,
    name: Box<str>,
    endpoint: u64,
    /// Name of the director that VCL had chosen for the request that began the upload.
    director: Box<str>,
}

impl Holder {
    pub fn new(vcl: &Arc<LoadedVcl>, backend: &Arc<Backend>, director: &str) -> Self {
        Holder {
            vcl: Arc::downgrade(vcl),
            backend: Arc::downgrade(backend),
            name: backend.name().into(),
            endpoint: backend.endpoint_id(),
            director: director.into(),
        }
    }

    #[cfg(test)]
    pub fn nobody() -> Self {
        Holder { vcl: Weak::new(), backend: Weak::new(), name: "".into(), endpoint: 0, director: "".into() }
    }

    /// The backend for a request of `vcl` that would go to `director`. `None` if that isn't the upload's director, as VCL has the last word,
    /// or if `vcl` has no backend of the same name for the same server.
    pub fn find(&self, vcl: &Arc<LoadedVcl>, director: &dyn Director) -> Option<Arc<dyn Director>> {
        if director.name() != &*self.director {
            return None;
        }
        let is_own = self.vcl.as_ptr() == Arc::as_ptr(vcl);
        let itself = self.backend.upgrade().filter(|_| is_own);
        itself.map(|backend| backend as Arc<dyn Director>).or_else(|| self.find_declared(vcl))
    }

    fn find_declared(&self, vcl: &LoadedVcl) -> Option<Arc<dyn Director>> {
        let is_same = |backend: &Backend| backend.name() == &*self.name && backend.endpoint_id() == self.endpoint;
        let declared = vcl.backends.iter().flatten();
        declared.into_iter().find(|director| director.as_backend().is_some_and(is_same)).cloned()
    }
}
