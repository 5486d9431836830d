// SPDX-License-Identifier: BSD-2-Clause
//! How long a response lives before VCL is asked, release by release: which statuses are given a time to live, and which
//! fields count. All of them read s-maxage, max-age, Age, Expires and Date alike; `default_ttl`, `default_grace` and
//! `default_keep` are 120 s, 10 s and 0 in each.

/// The lifetimes by status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusLives {
    /// The lifetime in its fields; `default_ttl` without any.
    ByDefault,
    /// The lifetime in its fields; none without any.
    IfSaid,
    /// No lifetime in any case.
    Never,
}

/// The rules of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TtlRules {
    by_default: &'static [u16],
    if_said: &'static [u16],
    others: StatusLives,
    /// Takes stale-while-revalidate as an object's grace.
    pub stale_while_revalidate: bool,
}

/// The rules of 7.1.
pub const TODAY: TtlRules = TtlRules {
    by_default: &[200, 203, 204, 300, 301, 304, 404, 410, 414],
    if_said: &[302, 307],
    others: StatusLives::Never,
    stale_while_revalidate: true,
};

/// The rules of 3.0. Redirects that say nothing had the default; 204 and 414 had nothing.
pub const V30: TtlRules = TtlRules {
    by_default: &[200, 203, 300, 301, 302, 307, 404, 410],
    if_said: &[],
    others: StatusLives::Never,
    stale_while_revalidate: false,
};

/// The rules of 2.0 and 2.1: the same for every status. Whether a response may be cached was another question (`beresp.cacheable`).
pub const V2X: TtlRules =
    TtlRules { by_default: &[], if_said: &[], others: StatusLives::ByDefault, stale_while_revalidate: false };

impl TtlRules {
    /// The rule for a status.
    pub fn lives(&self, status: u16) -> StatusLives {
        if self.by_default.contains(&status) {
            StatusLives::ByDefault
        } else if self.if_said.contains(&status) {
            StatusLives::IfSaid
        } else {
            self.others
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(status: u16, today: StatusLives, v30: StatusLives, v2x: StatusLives) {
        assert_eq!([TODAY, V30, V2X].map(|rules| rules.lives(status)), [today, v30, v2x], "{status}");
    }

    #[test]
    fn statuses_by_release() {
        check(200, StatusLives::ByDefault, StatusLives::ByDefault, StatusLives::ByDefault);
        check(302, StatusLives::IfSaid, StatusLives::ByDefault, StatusLives::ByDefault);
        check(307, StatusLives::IfSaid, StatusLives::ByDefault, StatusLives::ByDefault);
        check(204, StatusLives::ByDefault, StatusLives::Never, StatusLives::ByDefault);
        check(414, StatusLives::ByDefault, StatusLives::Never, StatusLives::ByDefault);
        check(500, StatusLives::Never, StatusLives::Never, StatusLives::ByDefault);
    }
}
