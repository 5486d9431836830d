// SPDX-License-Identifier: BSD-2-Clause
//! Requests that VCL sends while it runs (`http`, `reqwest`): how many are in progress, and how deep each is nested. A request that
//! comes back to this server names the one that it belongs to by the header field [`DEPTH`].
//!
//! The field holds a random token that is valid for one host while its request is in progress in this process. A client can't guess one,
//! so it can't claim a depth at which VCL's requests are no longer sent, and a server that is asked can't use it for another host. The
//! engine removes every other field of that name before VCL runs. An HMAC (as peers use) would stay valid after the request has ended.

use std::collections::BTreeMap;

use base::lock::Mutex;
use message::{Head, names};

/// The header field: `DEPTH TOKEN`.
pub const DEPTH: &str = "X-Lacquer-Depth";
/// Requests in progress in this process.
pub const MAX_AT_ONCE: usize = 1000;

type Asked = (i64, Box<[u8]>);

static IN_PROGRESS: Mutex<BTreeMap<[u8; 16], Asked>> = Mutex::new(BTreeMap::new());

/// A request that VCL sends, while it is in progress.
#[derive(Debug)]
pub struct VclRequest {
    token: [u8; 16],
    depth: i64,
}

impl VclRequest {
    /// Begins a request with this Host for a transaction whose own request is `depth` deep. `None`: [`MAX_AT_ONCE`] are in progress.
    pub fn begin(depth: i64, host: &[u8]) -> Option<VclRequest> {
        let mut token = [0; 16];
        getrandom::fill(&mut token).ok()?;
        let depth = depth.saturating_add(1);
        let mut all = IN_PROGRESS.lock();
        if all.len() >= MAX_AT_ONCE {
            return None;
        }
        all.insert(token, (depth, host.into()));
        Some(VclRequest { token, depth })
    }

    /// The value of [`DEPTH`] in this request.
    pub fn field(&self) -> String {
        format!("{} {:032x}", self.depth, u128::from_be_bytes(self.token))
    }
}

impl Drop for VclRequest {
    fn drop(&mut self) {
        IN_PROGRESS.lock().remove(&self.token);
    }
}

/// The depth that a request's [`DEPTH`] field proves. `None`: there is no field, or this process didn't make it.
pub fn depth_of(head: &Head) -> Option<i64> {
    if head.count(DEPTH) != 1 {
        return None;
    }
    let (depth, token) = std::str::from_utf8(head.get(DEPTH)?).ok()?.split_once(' ')?;
    if token.len() != 32 {
        return None;
    }
    let token = u128::from_str_radix(token, 16).ok()?.to_be_bytes();
    let host = head.get(names::HOST)?;
    let all = IN_PROGRESS.lock();
    let (known, asked) = all.get(&token)?;
    (depth.parse() == Ok(*known) && asked.eq_ignore_ascii_case(host)).then_some(*known)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(values: &[&str]) -> Head {
        let mut head = Head::new();
        head.start_request(b"GET", b"/", b"HTTP/1.1").unwrap();
        head.append(names::HOST, "a:80").unwrap();
        values.iter().for_each(|value| head.append(DEPTH, value).unwrap());
        head
    }

    #[test]
    fn a_depth_is_believed_while_its_request_is_in_progress() {
        let question = VclRequest::begin(2, b"A:80").unwrap();
        let field = question.field();
        assert_eq!(depth_of(&head(&[&field])), Some(3));
        assert_eq!(depth_of(&head(&[&field.replacen('3', "9", 1)])), None);
        assert_eq!(depth_of(&head(&[&field, &field])), None);
        let mut other = head(&[&field]);
        other.set(names::HOST, "b").unwrap();
        assert_eq!(depth_of(&other), None, "for another host");
        drop(question);
        assert_eq!(depth_of(&head(&[&field])), None);
    }

    proptest::proptest! {
        #[test]
        fn no_other_text_is_a_depth(value in "[0-9]{0,3} ?[+0-9a-f]{0,34}|\\PC*") {
            proptest::prop_assert_eq!(depth_of(&head(&[&value])), None);
        }
    }
}
