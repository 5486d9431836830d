// SPDX-License-Identifier: BSD-2-Clause
//! Decisions of Apache while it reads its files: variables, and sections that hold or not whatever the request is.

use std::collections::BTreeMap;

use crate::source::FileSource;

/// Modules that Debian's and Apache's own builds contain without a LoadModule.
const BUILT_IN: [&str; 10] =
    ["core", "http", "so", "log_config", "logio", "version", "watchdog", "unixd", "http_core", "mod_so"];

/// Versions that a condition is tried with: it is known where all of them agree.
const VERSIONS: [(u32, u32, u32); 2] = [(2, 4, 6), (2, 4, 99)];

/// Bytes that the values of variables may have in all lines together: a value can name a variable twice, and so on.
const MAX_REPLACED_BYTES: usize = 4 << 20;

/// Variables, modules and open sections of the lines so far.
#[derive(Default)]
pub(super) struct Conditional {
    defines: BTreeMap<String, String>,
    modules: Vec<String>,
    /// Length of all values that have replaced a variable.
    replaced_bytes: usize,
    /// Sections that are open: name, and whether they hold; None: it can't be told.
    open: Vec<(String, Option<bool>)>,
}

#[derive(PartialEq, Eq, Debug)]
pub(super) enum LineFate {
    Counts,
    /// A section's line that was decided here.
    Decided,
    /// Apache never sees it: the section around doesn't hold.
    Skipped,
}

impl Conditional {
    /// A line with its variables replaced; those that the environment may have stay.
    ///
    /// # Errors
    /// The values in this line and in those before it are too long.
    pub(super) fn replaced(&mut self, text: &str) -> Result<String, String> {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find("${") {
            let Some(end) = rest[at..].find('}') else { break };
            let value = self.defines.get(&rest[at + 2..at + end]);
            self.replaced_bytes += value.map_or(0, String::len);
            if self.replaced_bytes > MAX_REPLACED_BYTES {
                return Err(format!("variables stand for more than {MAX_REPLACED_BYTES} bytes in all"));
            }
            out.push_str(&rest[..at]);
            out.push_str(value.map_or(&rest[at..=at + end], String::as_str));
            rest = &rest[at + end + 1..];
        }
        out.push_str(rest);
        Ok(out)
    }

    pub(super) fn take(&mut self, words: &[String], files: &dyn FileSource) -> LineFate {
        let word = |i: usize| words.get(i).map_or("", |word| word.trim_end_matches('>'));
        let name = words[0].to_ascii_lowercase();
        let is_dead = self.open.iter().any(|(_, holds)| *holds == Some(false));
        if let Some(closed) = name.strip_prefix("</").map(|name| name.trim_end_matches('>'))
            && let Some(at) = self.open.iter().rposition(|(open, _)| open == closed)
        {
            let holds = self.open[at].1;
            self.open.truncate(at);
            return if holds.is_some() { LineFate::Decided } else { LineFate::Counts };
        }
        if let Some(section) = name.strip_prefix('<').map(|name| name.trim_end_matches('>'))
            && matches!(section, "ifmodule" | "ifdefine" | "ifversion" | "iffile" | "ifdirective" | "ifsection")
        {
            let holds = if is_dead { Some(false) } else { self.holds(section, word(1), word(2), files) };
            self.open.push((section.to_owned(), holds));
            return if holds.is_some() { LineFate::Decided } else { LineFate::Counts };
        }
        if is_dead {
            return LineFate::Skipped;
        }
        match name.as_str() {
            "define" => {
                self.defines.insert(word(1).to_owned(), word(2).to_owned());
            }
            "undefine" => {
                self.defines.remove(word(1));
            }
            "loadmodule" => self.modules.push(word(1).trim_end_matches("_module").to_owned()),
            _ => {}
        }
        LineFate::Counts
    }

    /// True if a section holds; None if that depends on the machine.
    fn holds(&self, section: &str, first: &str, second: &str, files: &dyn FileSource) -> Option<bool> {
        let (is_not, text) = first.strip_prefix('!').map_or((false, first), |text| (true, text));
        let holds = match section {
            "ifmodule" => Some(self.is_loaded(text)),
            // The command line may define more.
            "ifdefine" => self.defines.contains_key(text).then_some(true),
            "iffile" => files.read(text).is_ok().then_some(true),
            "ifversion" => return version(first, second),
            _ => None,
        };
        holds.map(|holds| holds != is_not)
    }

    /// True if a module is there: all are, where the files load none at all.
    fn is_loaded(&self, text: &str) -> bool {
        let name = text.strip_suffix(".c").unwrap_or_else(|| text.trim_end_matches("_module"));
        let name = name.strip_prefix("mod_").unwrap_or(name);
        let is_one = |known: &String| known == name || known.strip_prefix("mpm_") == Some(name);
        self.modules.is_empty() || BUILT_IN.contains(&name) || self.modules.iter().any(is_one)
    }
}

/// `<IfVersion >= 2.4>`, also with the operator left out.
fn version(first: &str, second: &str) -> Option<bool> {
    let (operator, number) = if second.is_empty() { ("=", first) } else { (first, second) };
    let (is_not, operator) = match operator.strip_prefix('!') {
        Some(rest) => (true, rest),
        None => (false, operator),
    };
    let mut numbers = number.split('.').map(|part| part.parse::<u32>());
    let mut next = || numbers.next().map_or(Some(0), Result::ok);
    let wanted = (next()?, next()?, next()?);
    let fits = |own: (u32, u32, u32)| match operator {
        "=" | "==" => Some(own == wanted),
        ">" => Some(own > wanted),
        ">=" => Some(own >= wanted),
        "<" => Some(own < wanted),
        "<=" => Some(own <= wanted),
        _ => None,
    };
    let all = VERSIONS.map(fits);
    all[0].filter(|_| all[0] == all[1]).map(|fits| fits != is_not)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Given;

    #[test]
    fn sections_that_are_decided_while_reading() {
        let check = |before: &[&str], line: &str, expect: Option<bool>| {
            let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
            let mut state = Conditional::default();
            before.iter().for_each(|line| assert_eq!(state.take(&words(line), &Given(&[])), LineFate::Counts));
            state.take(&words(line), &Given(&[("/there", "")]));
            assert_eq!(state.open[0].1, expect, "{before:?} {line}");
        };
        check(&[], "<IfModule mod_cache.c>", Some(true));
        check(&["LoadModule ssl_module x"], "<IfModule mod_cache.c>", Some(false));
        check(&["LoadModule ssl_module x"], "<IfModule !cache_module>", Some(true));
        check(&["LoadModule mpm_event_module x"], "<IfModule event.c>", Some(true));
        check(&["LoadModule ssl_module x"], "<IfModule mod_so.c>", Some(true));
        check(&[], "<IfDefine X>", None);
        check(&["Define X"], "<IfDefine X>", Some(true));
        check(&["Define X"], "<IfDefine !X>", Some(false));
        check(&["Define X", "UnDefine X"], "<IfDefine X>", None);
        check(&[], "<IfVersion >= 2.4>", Some(true));
        check(&[], "<IfVersion < 2.3>", Some(false));
        check(&[], "<IfVersion >= 2.4.30>", None);
        check(&[], "<IfFile /there>", Some(true));
        check(&[], "<IfFile /elsewhere>", None);
    }

    #[test]
    fn variables() {
        let mut state = Conditional::default();
        state.take(&["Define".to_owned(), "A".to_owned(), "/x".to_owned()], &Given(&[]));
        assert_eq!(state.replaced("Location ${A}/y ${B} ${A").as_deref(), Ok("Location /x/y ${B} ${A"));
    }

    #[test]
    fn values_of_variables_have_a_bound() {
        let mut state = Conditional::default();
        let mut define = |at: usize| {
            let value =
                state.replaced(&if at == 0 { "x".to_owned() } else { format!("${{A{}}}", at - 1).repeat(2) })?;
            state.take(&["Define".to_owned(), format!("A{at}"), value], &Given(&[]));
            Ok::<_, String>(())
        };
        let failed = (0..=40).find_map(|at| define(at).err().map(|error| (at, error)));
        assert_eq!(failed, Some((22, "variables stand for more than 4194304 bytes in all".to_owned())));
    }
}
