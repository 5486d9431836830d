// SPDX-License-Identifier: BSD-2-Clause
//! The field `traceparent` (W3C Trace Context): which trace a request belongs to, and what caused it there.
//!
//! Numbers of our own spans follow from what caused them and their vxid, so that whoever reads the log later finds the same ones.

use std::fmt;

use crate::chars::trim;

/// The name of the field.
pub const FIELD: &str = "traceparent";
/// The name of the field in which vendors keep what they know of the same trace.
pub const STATE: &str = "tracestate";
/// Bytes of its value in version 00.
const LEN: usize = 55;
/// The caller keeps what it knows of this trace.
const SAMPLED: u8 = 1;

/// A request's place in a trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TraceContext {
    /// The trace; never 0.
    pub trace: u128,
    /// The span that caused the request; never 0 in a field.
    pub span: u64,
    /// Bits; the lowest: the trace is kept.
    pub flags: u8,
}

impl TraceContext {
    /// Reads a value, of a later version its part that is known: `00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01`
    pub fn parse(value: &[u8]) -> Option<TraceContext> {
        let (known, rest) = value.split_at_checked(LEN)?;
        let version = hex(&known[..2])?;
        let is_whole = if version == 0 { rest.is_empty() } else { rest.is_empty() || rest[0] == b'-' };
        let has_dashes = [2, 35, 52].iter().all(|at| known[*at] == b'-');
        if version == 0xff || !is_whole || !has_dashes {
            return None;
        }
        let (trace, span, flags) = (hex(&known[3..35])?, hex(&known[36..52])? as u64, hex(&known[53..])? as u8);
        (trace != 0 && span != 0).then_some(TraceContext { trace, span, flags })
    }

    /// True if the caller keeps what it knows of this trace.
    pub fn is_sampled(self) -> bool {
        self.flags & SAMPLED != 0
    }

    /// The beginning of a trace: nothing caused it.
    pub fn root(trace: u128, is_sampled: bool) -> TraceContext {
        TraceContext { trace: trace.max(1), span: 0, flags: u8::from(is_sampled) }
    }

    /// The place of what the transaction of this number causes.
    pub fn child(self, vxid: u64) -> TraceContext {
        // As well mixed as random numbers would be; what another server makes of the same vxid has another cause.
        let cause = mixed(self.span ^ mixed(self.trace as u64) ^ mixed((self.trace >> 64) as u64).rotate_left(1));
        TraceContext { span: mixed(cause ^ mixed(vxid)).max(1), ..self }
    }
}

impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:032x}-{:016x}-{:02x}", self.trace, self.span, self.flags & SAMPLED)
    }
}

/// The finaliser of SplitMix64: each bit of the result depends on each of the number.
fn mixed(number: u64) -> u64 {
    let n = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 31)
}

/// Most members of a `tracestate` (3.3.1.1).
const MAX_MEMBERS: usize = 32;
/// Most bytes of a member's key or value (3.3.1.3).
const MAX_STATE_BYTES: usize = 256;

/// Checks all lines of a `tracestate` together: a list of at most 32 members, some of which may be empty.
pub fn is_state<'a>(lines: impl Iterator<Item = &'a [u8]>) -> bool {
    let mut members =
        lines.flat_map(|line| line.split(|byte| *byte == b',')).map(trim).filter(|member| !member.is_empty());
    let mut count = 0;
    members.all(|member| {
        count += 1;
        count <= MAX_MEMBERS && is_member(member)
    })
}

/// `key=value`, where a key may be a tenant's, as in `tenant@system` (level 2 of the recommendation bounds its bytes alone).
fn is_member(member: &[u8]) -> bool {
    let Some(at) = member.iter().position(|byte| *byte == b'=') else { return false };
    let (key, value) = (&member[..at], &member[at + 1..]);
    let is_key_byte = |byte: &u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'*' | b'/' | b'@');
    let begins = matches!(key.first(), Some(b'a'..=b'z' | b'0'..=b'9'));
    begins
        && key.len() <= MAX_STATE_BYTES
        && key.iter().all(is_key_byte)
        && (1..=MAX_STATE_BYTES).contains(&value.len())
        && value.iter().all(|byte| matches!(byte, b' '..=b'~') && *byte != b'=')
}

/// Parses lower-case digits only.
fn hex(digits: &[u8]) -> Option<u128> {
    digits.iter().try_fold(0u128, |n, digit| match digit {
        b'0'..=b'9' => Some(n << 4 | u128::from(digit - b'0')),
        b'a'..=b'f' => Some(n << 4 | u128::from(digit - b'a' + 10)),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const GOOD: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn is_good(value: &str) -> bool {
        TraceContext::parse(value.as_bytes()).is_some()
    }

    #[test]
    fn values_of_the_recommendation() {
        let context = TraceContext::parse(GOOD.as_bytes()).expect("a good one");
        assert_eq!((context.span, context.is_sampled()), (0xb7ad_6b71_6920_3331, true));
        assert_eq!(context.to_string(), GOOD);
        assert!(is_good(&GOOD.replace("00-", "cc-")) && is_good(&(GOOD.replace("00-", "cc-") + "-what.follows")));
    }

    #[test]
    fn what_is_none_begins_a_trace_anew() {
        for bad in [
            "",
            "00",
            &GOOD.to_uppercase(),
            &GOOD.replace("00-", "ff-"),
            &GOOD.replace('-', "_"),
            &(GOOD.to_owned() + "-more"),
            &GOOD.replace("00-", "cc-").replace("-01", "-01x"),
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
        ] {
            assert!(!is_good(bad) || bad.ends_with("-01x"), "{bad}");
        }
        assert!(!is_good(&(GOOD.replace("00-", "cc-") + "x")));
    }

    #[test]
    fn spans_differ_by_what_caused_them() {
        let root = TraceContext::root(7, true);
        assert_eq!(root.child(2), root.child(2));
        let others = [root.child(3), root.child(2).child(3), TraceContext::root(8, true).child(2)];
        assert!(others.iter().all(|other| other.span != root.child(2).span));
    }

    fn is_state_of(lines: &[&str]) -> bool {
        is_state(lines.iter().map(|line| line.as_bytes()))
    }

    #[test]
    fn states_of_the_recommendation() {
        let (longest, too_long) = ("z".repeat(256), "z".repeat(257));
        let many = |count: usize| (0..count).map(|n| format!("k{n}=1")).collect::<Vec<_>>().join(",");
        for good in ["a=1", "a=1,b=2", " a=1 ,\t0b@c= x y", "", ",a=1,,", "a_-*/=!~", "a@b@c=1"] {
            assert!(is_state_of(&[good]), "{good}");
        }
        for bad in ["a", "=1", "A=1", "a =1", "a.b=1", "@a=1", "a=", "a=1=2", "a=\x7f", "a=\u{e9}", "_a=1"] {
            assert!(!is_state_of(&["b=2", bad]), "{bad}");
        }
        assert!(is_state_of(&[&format!("{longest}={longest}")]));
        assert!(!is_state_of(&[&format!("{too_long}=1")]) && !is_state_of(&[&format!("a={too_long}")]));
        assert!(is_state_of(&[&many(32)]) && !is_state_of(&[&many(33)]) && !is_state_of(&[&many(32), "a=1"]));
    }

    proptest! {
        #[test]
        fn no_state_can_hurt(bytes in proptest::collection::vec(any::<u8>(), 0..70)) {
            let _ = is_state([bytes.as_slice()].into_iter());
        }

        #[test]
        fn what_is_written_is_read(trace in 1u128.., span in 1u64.., sampled: bool) {
            let context = TraceContext { trace, span, flags: sampled.into() };
            prop_assert_eq!(TraceContext::parse(context.to_string().as_bytes()), Some(context));
        }

        #[test]
        fn no_bytes_can_hurt(bytes in proptest::collection::vec(any::<u8>(), 0..70)) {
            let _ = TraceContext::parse(&bytes);
        }
    }
}
