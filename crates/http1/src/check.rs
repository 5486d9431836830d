// SPDX-License-Identifier: BSD-2-Clause
//! What no cache should forward, refused before VCL sees it (RFC 9112 3.2). `http_lenient` takes most of it off.

use message::authority::{self, TargetForm};
use message::{Head, names};

use crate::{HeadError, Http1Limits, purge};

/// Checks a whole request head whose target hasn't been taken apart yet. Whether its Host is the whole URL of a program that
/// purges.
pub(crate) fn request(head: &Head, limits: &Http1Limits) -> Result<bool, HeadError> {
    let mut hosts = head.get_all(names::HOST.as_bytes());
    let host = hosts.next();
    if hosts.next().is_some() {
        return Err(HeadError::MultipleHost);
    }
    if limits.lenient {
        return Ok(host.is_some_and(|host| purge::is_purgers_host(head.method(), host)));
    }
    if head.method() == b"CONNECT" {
        return Err(HeadError::Connect);
    }
    let is_odd = host.is_some_and(|host| !authority::is_valid(host));
    if is_odd && !host.is_some_and(|host| purge::is_purgers_host(head.method(), host)) {
        return Err(HeadError::BadHost);
    }
    if is_good_target(head) { Ok(is_odd) } else { Err(HeadError::BadTarget) }
}

/// A path, an absolute URI of http or https, or `*` with OPTIONS; never with a fragment. (An https URI is good even when
/// it isn't to be taken apart: VCL sees it as it is, like with varnishd.)
fn is_good_target(head: &Head) -> bool {
    let url = head.url();
    let form = match authority::target(url, true) {
        TargetForm::Origin => true,
        TargetForm::Asterisk => head.method() == b"OPTIONS",
        TargetForm::Absolute { authority, .. } => {
            let host = authority.first().is_some_and(|&c| c != b':');
            host && authority::is_valid(authority)
        }
        TargetForm::Other => false,
    };
    form && memchr::memchr(b'#', url).is_none()
}
