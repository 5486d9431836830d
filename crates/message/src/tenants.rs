// SPDX-License-Identifier: BSD-2-Clause
//! Names of tenants. They compare without case, as hosts do, so they are kept in lower case.

use std::borrow::Cow;

/// Longest name of a tenant in bytes, as long as the longest host.
pub const MAX_TENANT_NAME: usize = 253;
/// Largest number of tenants with a row of their own.
pub const MAX_TENANTS: usize = 4096;
/// Name of the row of tenants that found no row of their own; no tenant can have it.
pub const OTHER_TENANTS: &str = "_others";

/// True if a tenant can have that name: letters, digits and `.:-_[]`, at most [`MAX_TENANT_NAME`], but not
/// [`OTHER_TENANTS`].
pub fn is_tenant_name(name: &[u8]) -> bool {
    let is_plain = |b: &u8| b.is_ascii_alphanumeric() || b".:-_[]".contains(b);
    (1..=MAX_TENANT_NAME).contains(&name.len())
        && name.iter().all(is_plain)
        && !name.eq_ignore_ascii_case(OTHER_TENANTS.as_bytes())
}

/// The name in the form in which names are kept and compared.
pub fn normal(name: &str) -> Cow<'_, str> {
    match name.bytes().any(|b| b.is_ascii_uppercase()) {
        true => name.to_ascii_lowercase().into(),
        false => name.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_host_can_be_a_tenant() {
        let long = format!("{}.{}.example.org", "a".repeat(63), "b".repeat(63));
        for name in ["a", "Shop.Example", "_acme.example.org", "_x", "[::1]", "_others.example", &long] {
            assert!(is_tenant_name(name.as_bytes()), "{name}");
        }
        for name in ["", "a/b", "a b", "a,b", "_others", "_OTHERS", &"a".repeat(254)] {
            assert!(!is_tenant_name(name.as_bytes()), "{name}");
        }
        assert_eq!((normal("Shop.Example"), normal("shop")), ("shop.example".into(), "shop".into()));
    }
}
