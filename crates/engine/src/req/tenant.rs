// SPDX-License-Identifier: BSD-2-Clause
//! The tenant of a request: the one that VCL names, otherwise, with `tenant_by=host`, the host. Its row is searched
//! when a backend is to be asked, so hits don't need it.

use std::borrow::Cow;

use cache::Tenant;
use message::names;
use message::tenants::{OTHER_TENANTS, is_tenant_name};
use params::Params;
use shm::vsl::TxnLog;
use tables::choices::TenantBy;
use tables::tags::Tag;
use vrt::value::Text;
use vrt::{Value, VclFailure};

use super::Req;
use super::settings::ReqSettings;
use super::state::ReqAsk;
use crate::classes::{NO_TENANT, TenantKey};
use crate::vars;

/// The name of the request's tenant; empty if it has none.
pub(super) fn name_of<'r>(settings: &'r ReqSettings, ask: &'r ReqAsk, params: &Params) -> Cow<'r, [u8]> {
    match &settings.tenant {
        Some(name) => name.as_bytes().to_ascii_lowercase().into(),
        None if is_by_host(params) => normalised(ask.head.get(names::HOST).unwrap_or_default()).into(),
        None => Cow::default(),
    }
}

fn is_by_host(params: &Params) -> bool {
    TenantBy::parse(&params.tenant_by) == Some(TenantBy::Host)
}

/// The host without port and final dot, in lower case.
fn normalised(host: &[u8]) -> Vec<u8> {
    let port = host.iter().rposition(|b| *b == b':').filter(|at| host[at + 1..].iter().all(u8::is_ascii_digit));
    let host = &host[..port.unwrap_or(host.len())];
    host.strip_suffix(b".").unwrap_or(host).to_ascii_lowercase()
}

/// The tenant that VCL names. One that can't be shares a row with others.
pub(super) fn named(value: Value, log: &mut TxnLog) -> Result<Option<Text>, VclFailure> {
    let text = vars::text(value)?;
    if let Some(name) = text.as_ref().map(|text| text.as_bytes()).filter(|name| !name.is_empty())
        && !is_tenant_name(name)
    {
        let name = String::from_utf8_lossy(name);
        log.putf(Tag::VclError, format_args!("req.tenant: {name} can't be a tenant's name"));
    }
    Ok(text)
}

impl Req {
    /// The tenant for whom a backend is asked. It gets a row and is counted, so call this once for a fetch.
    pub(crate) fn tenant(&self) -> Option<Tenant> {
        let name = self.tenant_name()?;
        // No name that isn't UTF-8 is a tenant's.
        Some(self.engine().cache.tenant(std::str::from_utf8(&name).unwrap_or_default()))
    }

    /// The tenant's key in queues. All names that no tenant can have are one there.
    pub(super) fn tenant_key(&self) -> TenantKey {
        let classes = &self.engine().requests.classes;
        match self.tenant_name() {
            Some(name) if is_tenant_name(&name) => classes.tenant_key(&name),
            Some(_) => classes.tenant_key(OTHER_TENANTS.as_bytes()),
            None => NO_TENANT,
        }
    }

    fn tenant_name(&self) -> Option<Cow<'_, [u8]>> {
        if self.settings.tenant.is_none() && !is_by_host(&self.params) {
            return None;
        }
        Some(name_of(&self.settings, &self.ask, &self.params)).filter(|name| !name.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_one_tenant_however_it_is_written() {
        let of = |host: &str| String::from_utf8(normalised(host.as_bytes())).unwrap();
        for host in ["Shop.Example", "shop.example:8080", "SHOP.example.", "shop.example.:80"] {
            assert_eq!(of(host), "shop.example", "{host}");
        }
        assert_eq!(
            (of("[::1]:80"), of("[::1]"), of(""), of(":80")),
            ("[::1]".into(), "[::1]".into(), "".into(), "".into())
        );
    }
}
