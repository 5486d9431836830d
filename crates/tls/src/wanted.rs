// SPDX-License-Identifier: BSD-2-Clause
//! Names that clients asked for and that no certificate is for. The manager looks now and then, if certificates are got on demand; else
//! nothing is noted. Anybody can send any name: so few are kept, each once, and whether one is allowed is the manager's to say.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// Most names kept until somebody takes them; further ones are dropped, and may be asked for again.
const MOST: usize = 256;
/// No name is longer (RFC 1035).
const LONGEST: usize = 253;

#[derive(Debug, Default)]
pub struct WantedNames {
    is_on: AtomicBool,
    names: Mutex<HashSet<String>>,
}

impl WantedNames {
    /// A client that asks for this name is shown this certificate (none: empty): notes the name unless it is in it.
    #[inline]
    pub fn look(&self, name: &str, leaf: &[u8]) {
        if self.is_on.load(Ordering::Relaxed) && !names(leaf, name) {
            self.note(name);
        }
    }

    fn note(&self, name: &str) {
        if !self.is_on.load(Ordering::Relaxed) || name.len() > LONGEST {
            return;
        }
        let is_part = |c: u8| c.is_ascii_alphanumeric() || c == b'-' || c == b'.';
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        if names.len() < MOST && !name.is_empty() && name.bytes().all(is_part) {
            names.insert(name.to_ascii_lowercase());
        }
    }

    /// Names noted since the last call, sorted. Nothing is noted before the first call.
    pub fn take(&self) -> Vec<String> {
        self.is_on.store(true, Ordering::Relaxed);
        let names = std::mem::take(&mut *self.names.lock().unwrap_or_else(PoisonError::into_inner));
        let mut names: Vec<String> = names.into_iter().collect();
        names.sort();
        names
    }
}

/// True if a certificate has this name, itself or by a wildcard.
fn names(leaf: &[u8], name: &str) -> bool {
    let names = crate::facts::read(leaf).map(|facts| facts.names).unwrap_or_default();
    let end = name.split_once('.').map_or("", |(_, end)| end);
    names.iter().any(|own| own == name || own.strip_prefix("*.").is_some_and(|own| own == end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_noted_once_somebody_looks() {
        let wanted = WantedNames::default();
        wanted.note("early.example");
        assert!(wanted.take().is_empty());
        for name in ["b.example", "A.example", "a.example", "a b", "a\nb", ""] {
            wanted.note(name);
        }
        assert_eq!(wanted.take(), ["a.example", "b.example"]);
        assert!(wanted.take().is_empty());
    }

    #[test]
    fn a_name_that_the_certificate_has_isnt_wanted() {
        let key = rcgen::KeyPair::generate().unwrap();
        let names = ["a.example".to_owned(), "*.b.example".to_owned()];
        let leaf = rcgen::CertificateParams::new(names).unwrap().self_signed(&key).unwrap();
        let wanted = WantedNames::default();
        wanted.take();
        for name in ["a.example", "x.b.example", "x.a.example", "y.x.b.example"] {
            wanted.look(name, leaf.der());
        }
        wanted.look("c.example", &[]);
        assert_eq!(wanted.take(), ["c.example", "x.a.example", "y.x.b.example"]);
    }

    #[test]
    fn a_flood_of_names_is_bounded() {
        let wanted = WantedNames::default();
        wanted.take();
        (0..10 * MOST).for_each(|n| wanted.note(&format!("{n}.example")));
        wanted.note(&"a".repeat(254));
        assert_eq!(wanted.take().len(), MOST);
    }
}
