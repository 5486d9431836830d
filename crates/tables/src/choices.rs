// SPDX-License-Identifier: BSD-2-Clause
//! Values of parameters that are one of a few words, for the check of a new value and for the crates that obey them.

/// The parameter `evict_by`: the value of a use of an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EvictBy {
    /// Each hit counts the same: most requests hit.
    #[default]
    Requests,
    /// Large objects in use stay: most bytes hit.
    Bytes,
    /// A hit counts as the time that the origin took for the object: the origin saves most time.
    Cost,
}

impl EvictBy {
    pub fn parse(word: &str) -> Option<EvictBy> {
        match word {
            "requests" => Some(EvictBy::Requests),
            "bytes" => Some(EvictBy::Bytes),
            "cost" => Some(EvictBy::Cost),
            _ => None,
        }
    }
}

/// The parameter `tenant_by`: the source of a request's tenant if VCL names none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TenantBy {
    #[default]
    Vcl,
    Host,
}

impl TenantBy {
    #[inline]
    pub fn parse(word: &str) -> Option<TenantBy> {
        match word {
            "vcl" => Some(TenantBy::Vcl),
            "host" => Some(TenantBy::Host),
            _ => None,
        }
    }
}
