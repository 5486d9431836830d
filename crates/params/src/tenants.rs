// SPDX-License-Identifier: BSD-2-Clause
//! The weights of tenants' shares, as the parameter `tenant_shares` declares them: `shop.example=4, news.example=2`.

use message::tenants::{MAX_TENANT_NAME, MAX_TENANTS, is_tenant_name, normal};

const MAX_SHARE: u32 = 1000;

/// The names and weights of the text, in its order.
///
/// # Errors
/// Says which entry is malformed, and why.
pub fn parse_shares(text: &str) -> Result<Vec<(String, u32)>, String> {
    let mut shares: Vec<(String, u32)> = Vec::new();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let (name, share) =
            part.split_once('=').ok_or_else(|| format!("a share is written as NAME=N, not {part:?}"))?;
        let (name, share) = (normal(name.trim()), share.trim());
        if !is_tenant_name(name.as_bytes()) {
            return Err(format!(
                "{name:?} can't be a tenant's name: 1 to {MAX_TENANT_NAME} letters, digits and .:-_[], but not _others"
            ));
        }
        let number = share.parse().ok().filter(|n| (1..=MAX_SHARE).contains(n));
        let number =
            number.ok_or_else(|| format!("tenant {name}: the share must be from 1 to {MAX_SHARE}, not {share:?}"))?;
        if shares.iter().any(|(other, _)| *other == name) {
            return Err(format!("tenant {name:?} is named twice"));
        }
        shares.push((name.into_owned(), number));
    }
    if shares.len() > MAX_TENANTS {
        return Err(format!("more than {MAX_TENANTS} tenants"));
    }
    Ok(shares)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_names_with_weights() {
        assert_eq!(parse_shares(" a.example=4, b = 1 ,").unwrap(), [("a.example".to_owned(), 4), ("b".to_owned(), 1)]);
        assert_eq!(parse_shares("").unwrap(), []);
        assert_eq!(parse_shares("Shop.Example=4").unwrap(), [("shop.example".to_owned(), 4)]);
        for bad in ["a", "a=0", "a=1001", "a=x", "=1", "a=1,A=2", "a=-1", "a/b=4", "a b=3", "_others=9"] {
            assert!(parse_shares(bad).is_err(), "{bad}");
        }
    }
}
