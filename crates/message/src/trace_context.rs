// SPDX-License-Identifier: BSD-2-Clause
//! The field `traceparent` (W3C Trace Context): which trace a request belongs to, and what caused it there.
//!
//! Numbers of our own spans follow from what caused them and their vxid, so that whoever reads the log later finds the same ones.

use std::fmt;

/// The name of the field.
pub const FIELD: &str = "traceparent";
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

    proptest! {
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
