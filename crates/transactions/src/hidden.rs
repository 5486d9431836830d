// SPDX-License-Identifier: BSD-2-Clause
//! Fields whose values nobody sees who didn't ask for them by name: credentials and cookies.

/// What stands in the place of a value.
pub const HIDDEN: &str = "(hidden)";

const SECRET: [&str; 6] = ["authorization", "proxy-authorization", "cookie", "set-cookie", "x-api-key", "x-auth-token"];

/// Which values are hidden.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Hidden {
    /// Names in lower case that were asked for.
    shown: Vec<String>,
}

impl Hidden {
    /// Shows the values of a field.
    pub fn show(&mut self, name: &str) {
        self.shown.push(name.to_ascii_lowercase());
    }

    /// The value as it may be shown.
    pub fn value<'a>(&self, name: &str, value: &'a str) -> &'a str {
        let is = |known: &str| name.eq_ignore_ascii_case(known);
        let is_hidden = SECRET.iter().any(|known| is(known)) && !self.shown.iter().any(|known| is(known));
        if is_hidden { HIDDEN } else { value }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_shown_to_who_names_them() {
        let mut hidden = Hidden::default();
        hidden.show("Cookie");
        assert_eq!(hidden.value("AUTHORIZATION", "Basic a"), HIDDEN);
        assert_eq!(hidden.value("cookie", "a=b"), "a=b");
        assert_eq!(hidden.value("Set-Cookie", "a=b"), HIDDEN);
        assert_eq!(hidden.value("Host", "a"), "a");
    }
}
