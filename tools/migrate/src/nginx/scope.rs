// SPDX-License-Identifier: BSD-2-Clause
//! The directives that hold in a block: its own, else those of the blocks around it.

use super::config::{Claim, Directive};

/// The programs that nginx asks, and begins the names of directives with.
pub const KINDS: [&str; 4] = ["proxy", "fastcgi", "uwsgi", "scgi"];

/// A block with those around it, the innermost first: `if`, locations, the server, `http`.
#[derive(Clone)]
pub struct LocationScope<'a> {
    blocks: Vec<&'a [Directive]>,
    /// `proxy`, `fastcgi`, `uwsgi` or `scgi`: the beginning of the directives that hold for the block's handler.
    pub kind: &'static str,
}

impl<'a> LocationScope<'a> {
    /// The scope of a block with nothing around it.
    pub fn outer(block: &'a [Directive]) -> LocationScope<'a> {
        LocationScope { blocks: vec![block], kind: "proxy" }
    }

    pub fn within(&self, block: &'a [Directive]) -> LocationScope<'a> {
        let mut blocks = vec![block];
        blocks.extend(&self.blocks);
        LocationScope { blocks, kind: self.kind }
    }

    pub fn inner(&self) -> &'a [Directive] {
        self.blocks.first().copied().unwrap_or_default()
    }

    /// All directives that one of these blocks has.
    pub fn directives(&self) -> impl Iterator<Item = &'a Directive> {
        self.blocks.clone().into_iter().flatten()
    }

    /// The directives with one of these names, of the innermost block that has any: nginx inherits a list as a whole.
    pub fn all_of(&self, names: &[&str]) -> Vec<&'a Directive> {
        let mut found: Vec<&'a Directive> = Vec::new();
        for block in &self.blocks {
            let all = block.iter().filter(|d| names.contains(&d.name.as_str()));
            match found.is_empty() {
                true => found.extend(all),
                false => all.for_each(|d| d.claim(Claim::Shadowed)),
            }
        }
        found.iter().for_each(|d| d.is_read.set(true));
        found
    }

    /// The first directive of this name in the innermost block, which others don't hand down.
    pub fn own(&self, name: &str) -> Option<&'a Directive> {
        let found = self.inner().iter().find(|d| d.name == name)?;
        found.is_read.set(true);
        Some(found)
    }

    /// The directives with one of these names that hold here. Asking for them isn't reading them.
    pub fn holding(&self, names: &[&str]) -> Vec<&'a Directive> {
        let of =
            |block: &&'a [Directive]| block.iter().filter(|d| names.contains(&d.name.as_str())).collect::<Vec<_>>();
        self.blocks.iter().map(of).find(|all| !all.is_empty()).unwrap_or_default()
    }

    pub fn all(&self, name: &str) -> Vec<&'a Directive> {
        self.all_of(&[name])
    }

    /// The last one of this name.
    pub fn one(&self, name: &str) -> Option<&'a Directive> {
        self.all(name).pop()
    }

    /// The directives of the handler's module: `cache` is `proxy_cache` where the handler is `proxy_pass`.
    pub fn all_of_kind(&self, name: &str) -> Vec<&'a Directive> {
        self.all(&format!("{}_{name}", self.kind))
    }

    /// The last of these.
    pub fn one_of_kind(&self, name: &str) -> Option<&'a Directive> {
        self.all_of_kind(name).pop()
    }

    /// True if a switch of the handler's module is on.
    pub fn is_on(&self, name: &str) -> bool {
        self.one_of_kind(name).is_some_and(|d| d.word(0) == "on")
    }
}

/// A duration in VCL. nginx takes times of more years than VCL has digits for.
pub fn duration(seconds: f64) -> String {
    format!("{}s", seconds.min(1e10))
}
