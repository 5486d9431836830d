// SPDX-License-Identifier: BSD-2-Clause
//! Names declared by a program. Before 4.0 a backend, an acl and a subroutine could share one; now they can't, and some
//! words are reserved.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::flat::{FlatItem, FlatItemKind};
use crate::token::{Tok, VclSource};

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub(crate) enum NameKind {
    Backend,
    Acl,
    Sub,
    Probe,
}

impl NameKind {
    fn suffix(self) -> &'static str {
        match self {
            NameKind::Backend => "_backend",
            NameKind::Acl => "_acl",
            NameKind::Sub => "_sub",
            NameKind::Probe => "_probe",
        }
    }
}

const TAKEN: [&str; 32] = [
    "deliver_as_before",
    "fetch_as_before",
    super::policy::DELIVER_ERRORS,
    "blob",
    "std",
    "directors",
    "dynamic",
    "purge",
    "saintmode",
    "req",
    "bereq",
    "beresp",
    "obj",
    "resp",
    "sess",
    "now",
    "true",
    "false",
    "ban",
    "call",
    "hash_data",
    "if",
    "new",
    "return",
    "set",
    "synthetic",
    "unset",
    "include",
    "import",
    "vcl",
    "storage",
    "regsub",
];

#[derive(Debug, Default)]
pub(crate) struct DeclaredNames {
    changed: HashMap<(NameKind, String), String>,
    pub declared: BTreeMap<(NameKind, String), usize>,
    default_director: bool,
}

impl DeclaredNames {
    /// Finds the declarations among the top-level items; `purge_used` says whether vmod purge will be imported.
    pub fn collect(items: &[FlatItem], sources: &[VclSource], purge_used: bool) -> DeclaredNames {
        let text = |i: &FlatItem| {
            let text = &sources[i.src as usize].text;
            String::from_utf8_lossy(&text[i.start as usize..i.end as usize]).into_owned()
        };
        let words: Vec<(usize, &FlatItem)> =
            items.iter().enumerate().filter(|(_, i)| matches!(i.kind, FlatItemKind::Tok(_))).collect();
        let mut names = DeclaredNames::default();
        let mut depth = 0u32;
        for pair in words.windows(2) {
            match pair[0].1.tok() {
                Some(Tok::C(b'{')) => depth += 1,
                Some(Tok::C(b'}')) => depth = depth.saturating_sub(1),
                Some(Tok::Id) if depth == 0 && pair[1].1.tok() == Some(Tok::Id) => {
                    names.default_director |= text(pair[0].1) == "director" && text(pair[1].1) == "default";
                    let of = match text(pair[0].1).as_str() {
                        "backend" | "director" => NameKind::Backend,
                        "acl" => NameKind::Acl,
                        "sub" => NameKind::Sub,
                        "probe" => NameKind::Probe,
                        _ => continue,
                    };
                    names.declared.entry((of, text(pair[1].1))).or_insert(pair[1].0);
                }
                _ => {}
            }
        }
        names.finish(purge_used);
        names
    }

    fn finish(&mut self, purge_used: bool) {
        let taken = |name: &str| TAKEN.contains(&name) && (name != "purge" || purge_used);
        let all: HashSet<String> = self.declared.keys().map(|(_, name)| name.to_ascii_lowercase()).collect();
        let mut used: HashSet<String> = HashSet::new();
        let list: Vec<(NameKind, String)> = self.declared.keys().cloned().collect();
        for (of, name) in list {
            let machine = tables::dialects::OldSub::ALL.into_iter().any(|sub| sub.name() == name);
            let low = name.to_ascii_lowercase();
            let reserved = of == NameKind::Sub && low.starts_with("vcl_") && !machine;
            let object = of == NameKind::Backend && low == "default" && self.default_director;
            if !machine && (object || taken(&low) || used.contains(&low) || reserved) {
                let mut new = if reserved { format!("old_{name}") } else { format!("{name}{}", of.suffix()) };
                while all.contains(&new.to_ascii_lowercase()) || used.contains(&new.to_ascii_lowercase()) {
                    new.push('_');
                }
                used.insert(new.to_ascii_lowercase());
                self.changed.insert((of, name), new);
            } else {
                used.insert(low);
            }
        }
    }

    /// The current form of a name.
    pub fn now(&self, of: NameKind, name: &str) -> String {
        self.changed.get(&(of, name.to_owned())).cloned().unwrap_or_else(|| name.to_owned())
    }

    pub fn is(&self, of: NameKind, name: &str) -> bool {
        self.declared.contains_key(&(of, name.to_owned()))
    }
}
