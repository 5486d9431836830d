// SPDX-License-Identifier: BSD-2-Clause
//! Kinds of stores: how `-s` names them, what each takes, what it counts. The manager reads `-s` by this table
//! (`manager::stores`); the usage text, `storage.list`, the hand-over to the worker and the log name a kind by it.

use std::path::PathBuf;

/// The store of short-lived and uncacheable objects: there is always one.
pub const TRANSIENT: &str = "Transient";

/// The store of a command line without `-s`.
pub const DEFAULT: &str = "default,100m";

/// The word for a store on a disk that lasts over a restart of the manager.
pub const LASTING: &str = "persistent";

/// Smallest size of a store, in bytes.
pub const MIN_BYTES: u64 = 1 << 20;

/// Declares an enum whose variants are words of `-s`.
macro_rules! words {
    ($(#[doc = $text:literal])+ pub enum $name:ident { $($(#[doc = $variant_text:literal])+ $(#[$default:meta])? $variant:ident = $word:literal,)+ }) => {
        $(#[doc = $text])+
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        pub enum $name { $($(#[doc = $variant_text])+ $(#[$default])? $variant,)+ }

        impl $name {
            pub const WORDS: &[&str] = &[$($word,)+];

            /// The word of the value.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ }
            }

            /// The one of this word.
            pub fn named(word: &str) -> Option<Self> {
                match word { $($word => Some(Self::$variant),)+ _ => None }
            }
        }
    };
}

/// The medium that a store keeps its objects in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StoreMedium {
    /// Memory, with or without a limit.
    Malloc,
    /// A file or a block device, and memory in front of it.
    File,
}

/// The options of a store on a disk.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DiskOptions {
    /// Memory for what is asked for often and what is on its way; `None`: a share of the store's size.
    pub front_bytes: Option<u64>,
    /// The most memory for the index; `None`: a share of the store's size.
    pub index_bytes: Option<u64>,
    /// The use of the system's page cache.
    pub direct: DirectIo,
    /// The checksums that are looked at.
    pub checks: Checks,
    /// True if the contents last over a restart of the manager.
    pub keep: bool,
    /// Path of the journal of invalidations that such a store needs; `None`: beside the store's file.
    pub journal: Option<PathBuf>,
}

words! {
    /// The use of the system's page cache: passed by or not.
    pub enum DirectIo {
        /// The cache is passed by where the file system can.
        #[default]
        Auto = "auto",
        /// The store isn't opened where that can't be.
        On = "on",
        /// Never: what was read or written stays there, too.
        Off = "off",
    }
}

words! {
    /// The checksums that are looked at.
    pub enum Checks {
        /// Those of heads and of bodies.
        #[default]
        All = "all",
        /// Those of heads; a body is sent as the disk gives it.
        Heads = "heads",
    }
}

/// The definition of a kind.
#[derive(Debug)]
pub struct KindDef {
    pub kind: StoreMedium,
    /// The kind's word: in `-s`, in messages, in `storage.list`, in the log.
    pub word: &'static str,
    /// Another word for it in `-s`.
    pub alias: Option<&'static str>,
    /// The options that may follow in `-s`, by position.
    pub options: &'static [OptionDef],
    /// The options that may stand anywhere behind the first of those, as `name=value`, or as the name alone.
    pub named: &'static [NamedDef],
    /// A good `-s`, for messages.
    pub example: &'static str,
}

/// An option of a kind.
#[derive(Debug)]
pub struct OptionDef {
    /// The option's name in messages.
    pub name: &'static str,
    /// The kind of value that it takes.
    pub takes: Takes,
    /// True if it may not be left out.
    pub is_mandatory: bool,
}

/// An option that is given by its name.
#[derive(Debug)]
pub struct NamedDef {
    pub name: &'static str,
    /// The function that sets it; `None` stands for the name alone. False: it takes no such value.
    pub set: fn(&mut DiskOptions, Option<OptionValue<'_>>) -> bool,
    /// True if the value is a number of bytes.
    pub takes_bytes: bool,
    /// The words that may be written, for messages.
    pub example: &'static str,
}

/// The value of a named option.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OptionValue<'a> {
    /// A number of bytes.
    Bytes(u64),
    /// Any word that is nothing else.
    Word(&'a str),
}

/// The kind of value that an option takes.
#[derive(Debug)]
pub enum Takes {
    /// The path of the store's file, or of a directory for one without a name.
    Path,
    /// The size of the store: [`MIN_BYTES`] or more.
    Size,
    /// A number of bytes that is read but changes nothing: blocks of varnishd's file, which this one hasn't.
    Bytes,
    /// One of these words, which changes nothing: they are advice for the paging of a mapped file, which this one isn't.
    Word(&'static [&'static str]),
}

const fn option(name: &'static str, takes: Takes) -> OptionDef {
    OptionDef { name, takes, is_mandatory: false }
}

/// All kinds there are, in the order of [`StoreMedium`].
pub static KINDS: &[KindDef] = &[
    KindDef {
        kind: StoreMedium::Malloc,
        word: "malloc",
        alias: Some("default"),
        options: &[option("size", Takes::Size)],
        named: &[],
        example: "-s malloc,256m",
    },
    KindDef {
        kind: StoreMedium::File,
        word: "file",
        alias: Some(LASTING),
        options: &[
            OptionDef { is_mandatory: true, ..option("path", Takes::Path) },
            option("size", Takes::Size),
            option("granularity", Takes::Bytes),
            option("advice", Takes::Word(&["normal", "random", "sequential"])),
        ],
        named: DISK_OPTIONS,
        example: "-s file,/var/lib/varnish/storage.bin,10G",
    },
];

/// Names of what a store on a disk takes.
static DISK_OPTIONS: &[NamedDef] = &[
    NamedDef { name: "front", set: set_front, takes_bytes: true, example: "front=1G" },
    NamedDef { name: "index", set: set_index, takes_bytes: true, example: "index=256M" },
    NamedDef { name: "direct", set: set_direct, takes_bytes: false, example: "direct, direct=off or direct=auto" },
    NamedDef { name: "checks", set: set_checks, takes_bytes: false, example: "checks=all or checks=heads" },
    NamedDef { name: "keep", set: set_keep, takes_bytes: false, example: "keep" },
    NamedDef { name: "journal", set: set_journal, takes_bytes: false, example: "journal=/var/lib/varnish/journal" },
];

fn set_front(options: &mut DiskOptions, value: Option<OptionValue<'_>>) -> bool {
    set_bytes(&mut options.front_bytes, value)
}

fn set_index(options: &mut DiskOptions, value: Option<OptionValue<'_>>) -> bool {
    set_bytes(&mut options.index_bytes, value)
}

fn set_bytes(own: &mut Option<u64>, value: Option<OptionValue<'_>>) -> bool {
    let Some(OptionValue::Bytes(bytes)) = value else { return false };
    *own = Some(bytes);
    bytes >= MIN_BYTES
}

fn set_direct(options: &mut DiskOptions, value: Option<OptionValue<'_>>) -> bool {
    let direct = match value {
        None => Some(DirectIo::On),
        Some(OptionValue::Word(word)) => DirectIo::named(word),
        Some(OptionValue::Bytes(_)) => None,
    };
    options.direct = direct.unwrap_or_default();
    direct.is_some()
}

fn set_checks(options: &mut DiskOptions, value: Option<OptionValue<'_>>) -> bool {
    let Some(OptionValue::Word(word)) = value else { return false };
    let checks = Checks::named(word);
    options.checks = checks.unwrap_or_default();
    checks.is_some()
}

fn set_keep(options: &mut DiskOptions, value: Option<OptionValue<'_>>) -> bool {
    options.keep = true;
    value.is_none()
}

fn set_journal(options: &mut DiskOptions, value: Option<OptionValue<'_>>) -> bool {
    let Some(OptionValue::Word(word)) = value else { return false };
    options.journal = Some(PathBuf::from(word));
    word.starts_with('/')
}

/// Kinds of varnishd's that aren't here, and what is said of them.
pub static NOT_BUILT: &[(&str, &str)] = &[
    ("debug", "storage method \"debug\" isn't built into Lacquer: use malloc"),
    ("umem", "storage method \"umem\" is Solaris' own: use malloc"),
    ("deprecated_persistent", "-sdeprecated_persistent isn't built into Lacquer: use persistent"),
];

impl StoreMedium {
    /// The definition of this kind.
    pub fn def(self) -> &'static KindDef {
        &KINDS[self as usize]
    }

    /// The word of `storage.list` and of the log.
    pub fn as_str(self) -> &'static str {
        self.def().word
    }

    /// The kind that `-s` names so, by its own word or another.
    pub fn named(word: &str) -> Option<StoreMedium> {
        KINDS.iter().find(|def| def.word == word || def.alias == Some(word)).map(|def| def.kind)
    }
}

/// The kinds' own words, in the order of the table.
pub fn words() -> impl Iterator<Item = &'static str> {
    KINDS.iter().map(|def| def.word)
}

/// All that `-s` knows, in the order of the table.
pub fn all_words() -> impl Iterator<Item = &'static str> {
    KINDS.iter().flat_map(|def| std::iter::once(def.word).chain(def.alias))
}

/// The other words that `-s` knows.
pub fn aliases() -> impl Iterator<Item = &'static str> {
    KINDS.iter().filter_map(|def| def.alias)
}

/// `a, b or c`; `last` is the word before the last one.
pub fn listed(words: impl IntoIterator<Item = &'static str>, last: &str) -> String {
    let words: Vec<_> = words.into_iter().collect();
    match words.split_last() {
        Some((end, [])) => (*end).to_owned(),
        Some((end, begin)) => format!("{} {last} {end}", begin.join(", ")),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_means_one_thing() {
        let mut all: Vec<_> = all_words().chain(NOT_BUILT.iter().map(|(word, _)| *word)).collect();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
        assert!(KINDS.iter().enumerate().all(|(at, def)| def.kind as usize == at));
        assert!(words().all(|word| StoreMedium::named(word).is_some_and(|kind| kind.as_str() == word)));
        assert!(NOT_BUILT.iter().all(|(word, text)| StoreMedium::named(word).is_none() && text.contains(word)));
    }

    #[test]
    fn words_are_listed_as_one_writes_them() {
        assert_eq!(listed(words().chain(aliases()), "and"), "malloc, file, default and persistent");
        assert_eq!(listed(all_words(), "or"), "malloc, default, file or persistent");
        assert_eq!(listed(["malloc"], "and"), "malloc");
        assert_eq!(listed([], "and"), "");
    }

    #[test]
    fn a_named_option_takes_what_its_example_shows() {
        for def in DISK_OPTIONS {
            for example in def.example.split([',', ' ']).filter(|word| !word.is_empty() && *word != "or") {
                let value = example.split_once('=').map(|(_, value)| value);
                let value = value
                    .map(|word| if def.takes_bytes { OptionValue::Bytes(1 << 30) } else { OptionValue::Word(word) });
                let mut options = DiskOptions::default();
                assert!((def.set)(&mut options, value), "{example}");
                assert!(!(def.set)(&mut options, Some(OptionValue::Word("nonsense"))), "{example}");
            }
        }
    }

    #[test]
    fn completions_know_the_kinds() {
        let text = include_str!("../../../packaging/files/usr/share/bash-completion/completions/varnishd");
        // `default` is what stands there without -s.
        let offered: String = all_words().filter(|word| *word != "default").map(|word| format!("{word}, ")).collect();
        assert!(text.contains(&format!("-s) COMPREPLY=($(compgen -W '{}'", offered.trim_end())));
    }
}
