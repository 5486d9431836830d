// SPDX-License-Identifier: BSD-2-Clause
//! How a request was answered, as logs say it: the one word for it that all tools share.

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Handling {
    Hit,
    Miss,
    Pass,
    Pipe,
    Synth,
}

impl Handling {
    pub const ALL: [Handling; 5] = [Handling::Hit, Handling::Miss, Handling::Pass, Handling::Pipe, Handling::Synth];

    /// The name that varnishncsa has for it (`%{Varnish:handling}x`).
    pub const fn name(self) -> &'static str {
        match self {
            Handling::Hit => "hit",
            Handling::Miss => "miss",
            Handling::Pass => "pass",
            Handling::Pipe => "pipe",
            Handling::Synth => "synth",
        }
    }

    pub const fn index(self) -> usize {
        self as usize
    }

    pub const fn is_fetched(self) -> bool {
        match self {
            Handling::Miss | Handling::Pass | Handling::Pipe => true,
            Handling::Hit | Handling::Synth => false,
        }
    }

    /// The handling that the call of a VCL subroutine (the record `VCL_call`) tells; `None`: it tells nothing. The last one that says something counts: an
    /// object that was found may still be passed.
    pub fn of_vcl_call(sub: &[u8]) -> Option<Handling> {
        Some(match sub {
            b"HIT" => Handling::Hit,
            b"MISS" => Handling::Miss,
            b"PASS" => Handling::Pass,
            b"PIPE" => Handling::Pipe,
            b"SYNTH" => Handling::Synth,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_its_place_and_its_sub() {
        for (at, handling) in Handling::ALL.into_iter().enumerate() {
            assert_eq!(handling.index(), at);
            assert_eq!(Handling::of_vcl_call(handling.name().to_ascii_uppercase().as_bytes()), Some(handling));
        }
        assert_eq!(Handling::of_vcl_call(b"DELIVER"), None);
    }
}
