// SPDX-License-Identifier: BSD-2-Clause
//! X-Forwarded-For, before vcl_recv sees the request.

use crate::{Head, LostHeader, names};

/// Adds the client's address to X-Forwarded-For: its lines are joined into one, the address comes last.
///
/// # Errors
/// See [`LostHeader`].
pub fn append_client(request: &mut Head, client_ip: impl AsRef<[u8]>) -> Result<(), LostHeader> {
    request.collect(names::X_FORWARDED_FOR)?;
    let Some(so_far) = request.get(names::X_FORWARDED_FOR) else {
        return request.append(names::X_FORWARDED_FOR, client_ip);
    };
    let all = [so_far, b", ", client_ip.as_ref()].concat();
    request.set(names::X_FORWARDED_FOR, all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_joined_and_the_client_is_last() {
        let mut head = Head::new();
        append_client(&mut head, "10.0.0.1").unwrap();
        assert_eq!(head.get("x-forwarded-for"), Some(&b"10.0.0.1"[..]));
        head.append("x-forwarded-for", "::1").unwrap();
        head.append("Host", "a").unwrap();
        append_client(&mut head, "10.0.0.2").unwrap();
        let lines: Vec<_> = head.iter().map(|f| f.line().to_vec()).collect();
        assert_eq!(lines, [&b"Host: a"[..], b"X-Forwarded-For: 10.0.0.1, ::1, 10.0.0.2"]);
    }
}
