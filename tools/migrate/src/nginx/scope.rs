// SPDX-License-Identifier: BSD-2-Clause
//! Which directives hold in a location: its own, else the server's, else those of `http`.

use super::config::Directive;

/// A location with what is around it, the innermost first.
#[derive(Clone, Copy)]
pub struct LocationScope<'a> {
    /// The location's block; that of the server where no location is meant.
    pub inner: &'a [Directive],
    pub server: &'a [Directive],
    pub http: &'a [Directive],
}

/// The programs that nginx asks, and begins the names of directives with.
pub const KINDS: [&str; 4] = ["proxy", "fastcgi", "uwsgi", "scgi"];

impl<'a> LocationScope<'a> {
    /// All of this name, of the innermost block that has one: that is how nginx inherits those that may be repeated.
    pub fn all(&self, name: &str) -> Vec<&'a Directive> {
        let of = |block: &'a [Directive]| block.iter().filter(|d| d.name == name).collect::<Vec<_>>();
        let found = [self.inner, self.server, self.http].map(of);
        found.into_iter().find(|all| !all.is_empty()).unwrap_or_default()
    }

    /// The last one of this name.
    pub fn one(&self, name: &str) -> Option<&'a Directive> {
        self.all(name).pop()
    }

    /// The same as `all`, with `proxy_` or what else may stand in its place before the name.
    pub fn all_of_kinds(&self, name: &str) -> Vec<&'a Directive> {
        KINDS.iter().map(|kind| self.all(&format!("{kind}_{name}"))).find(|all| !all.is_empty()).unwrap_or_default()
    }

    pub fn one_of_kinds(&self, name: &str) -> Option<&'a Directive> {
        self.all_of_kinds(name).pop()
    }

    pub fn is_cached(&self) -> bool {
        self.one_of_kinds("cache").is_some_and(|cache| cache.word(0) != "off")
    }
}

/// A time of nginx's in seconds: `10m`, `1h 30m` written together, a number alone.
pub fn seconds(text: &str) -> Option<f64> {
    let mut sum = 0.0;
    let mut rest = text;
    while !rest.is_empty() {
        let (number, unit) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit())?);
        let number: f64 = number.parse().ok()?;
        let (unit, left) = unit.split_at(unit.find(|c: char| c.is_ascii_digit()).unwrap_or(unit.len()));
        sum += number
            * match unit {
                "ms" => 0.001,
                "s" => 1.0,
                "m" => 60.0,
                "h" => 3600.0,
                "d" => 86_400.0,
                "w" => 604_800.0,
                "M" => 2_592_000.0,
                "y" => 31_536_000.0,
                _ => return None,
            };
        rest = left;
    }
    (!text.is_empty()).then_some(sum)
}

/// The same, also of a number without a unit.
pub fn time(text: &str) -> Option<f64> {
    text.parse::<u32>().map(f64::from).ok().or_else(|| seconds(text))
}

/// A duration in VCL's form.
pub fn duration(seconds: f64) -> String {
    format!("{seconds}s")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        for (text, expect) in [
            ("10m", Some(600.0)),
            ("1h30m", Some(5400.0)),
            ("500ms", Some(0.5)),
            ("7", Some(7.0)),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(time(text), expect, "{text}");
        }
    }
}
