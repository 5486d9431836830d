// SPDX-License-Identifier: BSD-2-Clause
//! Kinds of stores: how `-s` names them, what each takes, what it counts. The manager reads `-s` by this table
//! (`manager::stores`); the usage text, `storage.list`, the hand-over to the worker and the log name a kind by it.

/// The store of short-lived and uncacheable objects: there is always one.
pub const TRANSIENT: &str = "Transient";

/// The store of a command line without `-s`.
pub const DEFAULT: &str = "default,100m";

/// Smallest size of a store, in bytes.
pub const MIN_BYTES: u64 = 1 << 20;

/// What a store keeps its objects in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Memory, with or without a limit.
    Malloc,
    /// A file, mapped; what is in it doesn't outlive the worker.
    File,
}

/// What is known of a kind.
#[derive(Debug)]
pub struct KindDef {
    /// The kind.
    pub kind: Kind,
    /// Its word: in `-s`, in messages, in `storage.list`, in the log.
    pub word: &'static str,
    /// Another word for it in `-s`.
    pub alias: Option<&'static str>,
    /// What may follow in `-s`, by position.
    pub options: &'static [OptionDef],
    /// A good `-s`, for messages.
    pub example: &'static str,
}

/// An option of a kind.
#[derive(Debug)]
pub struct OptionDef {
    /// Its name in messages.
    pub name: &'static str,
    /// What it takes.
    pub takes: Takes,
    /// Whether it may not be left out.
    pub is_mandatory: bool,
}

/// What an option takes.
#[derive(Debug)]
pub enum Takes {
    /// The path of the store's file, or of a directory for one without a name.
    Path,
    /// The size of the store: [`MIN_BYTES`] or more.
    Size,
    /// A number of bytes that is read but changes nothing: a block of a file is whole pages.
    Bytes,
    /// One of these words, which changes nothing: they are advice for a paging that varnishd leaves to the kernel.
    Word(&'static [&'static str]),
}

const fn option(name: &'static str, takes: Takes) -> OptionDef {
    OptionDef { name, takes, is_mandatory: false }
}

/// All kinds there are, in the order of [`Kind`].
pub static KINDS: &[KindDef] = &[
    KindDef {
        kind: Kind::Malloc,
        word: "malloc",
        alias: Some("default"),
        options: &[option("size", Takes::Size)],
        example: "-s malloc,256m",
    },
    KindDef {
        kind: Kind::File,
        word: "file",
        alias: None,
        options: &[
            OptionDef { is_mandatory: true, ..option("path", Takes::Path) },
            option("size", Takes::Size),
            option("granularity", Takes::Bytes),
            option("advice", Takes::Word(&["normal", "random", "sequential"])),
        ],
        example: "-s file,/var/lib/varnish/storage.bin,10G",
    },
];

/// Kinds of varnishd's that aren't here, and what is said of them.
pub static NOT_BUILT: &[(&str, &str)] = &[
    ("debug", "storage method \"debug\" isn't built into Lacquer: use malloc"),
    ("umem", "storage method \"umem\" is Solaris' own: use malloc"),
    ("persistent", "-spersistent has been deprecated and isn't built into Lacquer: use malloc or file"),
    (
        "deprecated_persistent",
        "-sdeprecated_persistent has been deprecated and isn't built into Lacquer: use malloc or file",
    ),
];

impl Kind {
    /// What is known of it.
    pub fn def(self) -> &'static KindDef {
        &KINDS[self as usize]
    }

    /// The word of `storage.list` and of the log.
    pub fn as_str(self) -> &'static str {
        self.def().word
    }

    /// The kind that `-s` names so, by its own word or another.
    pub fn named(word: &str) -> Option<Kind> {
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
        assert!(words().all(|word| Kind::named(word).is_some_and(|kind| kind.as_str() == word)));
        assert!(NOT_BUILT.iter().all(|(word, text)| Kind::named(word).is_none() && text.contains(word)));
    }

    #[test]
    fn words_are_listed_as_one_writes_them() {
        assert_eq!(listed(words().chain(aliases()), "and"), "malloc, file and default");
        assert_eq!(listed(all_words(), "or"), "malloc, default or file");
        assert_eq!(listed(["malloc"], "and"), "malloc");
        assert_eq!(listed([], "and"), "");
    }

    #[test]
    fn completions_know_the_kinds() {
        let text = include_str!("../../../packaging/files/usr/share/bash-completion/completions/varnishd");
        let offered: String = words().map(|word| format!("{word}, ")).collect();
        assert!(text.contains(&format!("-s) COMPREPLY=($(compgen -W '{}'", offered.trim_end())));
    }
}
