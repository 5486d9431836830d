// SPDX-License-Identifier: BSD-2-Clause
//! What came of a configuration: VCL, a command line, certificates, files to change, and what is to be said about it.

use serde_json::{Value, json};
use std::collections::HashSet;
use std::fmt;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path};

use crate::account::{Account, DirectiveFate};
use crate::source::SourcePlace;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MigrateLevel {
    /// The directive acts differently, or something is to be done besides.
    Note,
    /// The directive has no counterpart, or none that is made here.
    Refused,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MigratedNote {
    pub place: SourcePlace,
    pub directive: String,
    pub level: MigrateLevel,
    pub text: String,
}

impl fmt::Display for MigratedNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = if self.level == MigrateLevel::Refused { "refused" } else { "note" };
        write!(f, "{}: {level}: {}: {}", self.place, self.directive, self.text)
    }
}

#[derive(Debug, Default)]
pub struct Migrated {
    pub vcl: String,
    /// The words after `varnishd`, `-f` left out.
    pub arguments: Vec<String>,
    /// The file that `-A` is to read: one line each; empty without TLS.
    pub tls: Vec<String>,
    /// Further files, changed: name, text.
    pub files: Vec<(String, String)>,
    pub notes: Vec<MigratedNote>,
    /// The paths of files that were read.
    pub sources: Vec<String>,
    /// True if the result is a start line alone, which names its VCL itself.
    pub is_start_line: bool,
    /// Each directive that was read, and its fate.
    pub account: Account,
    /// The notes as texts.
    said: HashSet<String>,
}

impl Migrated {
    pub fn note(&mut self, place: &SourcePlace, directive: &str, text: impl Into<String>) {
        self.say(place, directive, MigrateLevel::Note, text.into());
    }

    pub fn refuse(&mut self, place: &SourcePlace, directive: &str, text: impl Into<String>) {
        let text = text.into();
        self.account.decide(place, directive, DirectiveFate::Refused(text.clone()));
        self.say(place, directive, MigrateLevel::Refused, text);
    }

    /// Refuses a directive unless it has been refused for another reason.
    pub fn refuse_unclaimed(&mut self, place: &SourcePlace, directive: &str, text: &str) {
        if !self.account.is_refused(place) {
            self.refuse(place, directive, text);
        }
    }

    /// Claims a directive: the result does what it asks for.
    pub fn translated(&mut self, place: &SourcePlace, directive: &str) {
        self.account.decide(place, directive, DirectiveFate::Translated);
    }

    /// Says of a directive that it changes nothing here.
    pub fn without_meaning(&mut self, place: &SourcePlace, directive: &str, reason: impl Into<String>) {
        self.account.decide(place, directive, DirectiveFate::WithoutMeaning(reason.into()));
    }

    pub fn close(&mut self) {
        for (place, directive) in self.account.unclaimed() {
            self.refuse(&place, &directive, "nothing is known of it here");
        }
    }

    fn say(&mut self, place: &SourcePlace, directive: &str, level: MigrateLevel, text: String) {
        let note = MigratedNote { place: place.clone(), directive: directive.to_owned(), level, text };
        if self.said.insert(note.to_string()) {
            self.notes.push(note);
        }
    }

    /// The command line, with words quoted where a shell wants that. `directory` is where the files are.
    fn command(&self, directory: &str) -> String {
        let mut words = self.arguments.clone();
        if !self.is_start_line {
            words.push("-f".to_owned());
            words.push(format!("{directory}default.vcl"));
        }
        if !self.tls.is_empty() {
            words.push("-A".to_owned());
            words.push(format!("{directory}tls.conf"));
        }
        words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
    }

    pub fn text(&self) -> String {
        if self.is_start_line {
            return format!("varnishd {}\n", self.command(""));
        }
        let mut head = format!("# varnishd {}\n", self.command("/etc/varnish/"));
        if !self.tls.is_empty() {
            head.push_str("#\n# /etc/varnish/tls.conf:\n");
            self.tls.iter().for_each(|line| head.push_str(&format!("#   {line}\n")));
        }
        format!("{head}\n{}", self.vcl)
    }

    pub fn json(&self) -> Value {
        let note = |note: &MigratedNote| {
            json!({
                "file": &*note.place.file, "line": note.place.line, "directive": note.directive,
                "refused": note.level == MigrateLevel::Refused, "text": note.text,
            })
        };
        json!({
            "vcl": self.vcl,
            "arguments": self.arguments,
            "tls": self.tls,
            "files": self.files.iter().map(|(name, text)| json!({ "name": name, "text": text })).collect::<Vec<_>>(),
            "notes": self.notes.iter().map(note).collect::<Vec<_>>(),
            "report": self.account.json(),
        })
    }

    /// Writes its files into a directory, which is made if need be.
    ///
    /// # Errors
    /// One of them can't be written, would be outside of the directory, or is a file that was read.
    pub fn write(&self, dir: &str) -> io::Result<()> {
        let dir = Path::new(dir);
        let mut outputs = Vec::new();
        if !self.is_start_line {
            outputs.push(("default.vcl", self.vcl.clone()));
        }
        outputs.push(("varnishd.args", format!("{}\n", self.command(&format!("{}/", dir.display())))));
        if !self.tls.is_empty() {
            outputs.push(("tls.conf", self.tls.iter().map(|line| format!("{line}\n")).collect()));
        }
        outputs.extend(self.files.iter().map(|(name, text)| (name.trim_start_matches('/'), text.clone())));
        outputs.iter().try_for_each(|(name, _)| self.check_output(dir, name))?;
        for (name, text) in outputs {
            let path = dir.join(name);
            std::fs::create_dir_all(path.parent().unwrap_or(dir))?;
            std::fs::write(path, text)?;
        }
        Ok(())
    }

    /// Checks that a file to be written is in the directory, and that it isn't one that was read, by whatever name.
    fn check_output(&self, dir: &Path, name: &str) -> io::Result<()> {
        if Path::new(name).components().any(|part| part == Component::ParentDir) {
            let text = format!("{name}: a path with .. leaves the directory: name the configuration by its full path");
            return Err(io::Error::other(text));
        }
        let identity = |path: &Path| std::fs::metadata(path).ok().map(|meta| (meta.dev(), meta.ino()));
        let written = identity(&dir.join(name));
        match written.is_some() && self.sources.iter().any(|source| identity(Path::new(source)) == written) {
            true => Err(io::Error::other(format!("{name}: it was read, and isn't replaced: name another directory"))),
            false => Ok(()),
        }
    }
}

fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_=./:,@+%[]".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_can_be_typed() {
        let migrated = Migrated {
            arguments: vec!["-a".into(), "[::]:80".into(), "-i".into(), "a b".into()],
            ..Migrated::default()
        };
        assert_eq!(migrated.text(), "# varnishd -a [::]:80 -i 'a b' -f /etc/varnish/default.vcl\n\n");
    }

    #[test]
    fn files_are_written_into_the_directory_alone() {
        let dir = std::env::temp_dir().join(format!("lacquer-migrated-{}", std::process::id()));
        let at = |name: &str| dir.join(name).to_string_lossy().into_owned();
        std::fs::create_dir_all(at("sites")).expect("a directory");
        std::fs::write(at("a.conf"), "old").expect("a file");
        std::fs::hard_link(at("a.conf"), at("sites/linked.conf")).expect("a link");
        let write = |name: &str| {
            let files = vec![(name.to_owned(), "new".to_owned())];
            let migrated = Migrated { files, sources: vec![at("a.conf")], ..Migrated::default() };
            migrated.write(&at("sites")).map_err(|error| error.to_string())
        };
        let outside =
            |name| Err(format!("{name}: a path with .. leaves the directory: name the configuration by its full path"));
        assert_eq!(write("../a.conf"), outside("../a.conf"));
        assert_eq!(write("/b/../../a.conf"), outside("b/../../a.conf"));
        let replaced = Err("linked.conf: it was read, and isn't replaced: name another directory".to_owned());
        assert_eq!(write("linked.conf"), replaced);
        assert!(!dir.join("sites/default.vcl").exists(), "nothing is written before all is checked");
        assert_eq!(write("/etc/b.conf"), Ok(()));
        let text = |name: &str| std::fs::read_to_string(at(name)).expect("a file");
        assert_eq!([text("a.conf"), text("sites/etc/b.conf")], ["old", "new"]);
        std::fs::remove_dir_all(&dir).expect("its end");
    }

    #[test]
    fn the_same_is_said_once() {
        let mut migrated = Migrated::default();
        let place = SourcePlace { file: "a".into(), line: 1, column: 1 };
        migrated.note(&place, "x", "y");
        migrated.note(&place, "x", "y");
        migrated.refuse(&place, "x", "z");
        let said: Vec<String> = migrated.notes.iter().map(MigratedNote::to_string).collect();
        assert_eq!(said, ["a:1: note: x: y", "a:1: refused: x: z"]);
    }

    #[test]
    fn an_unclaimed_directive_is_refused() {
        let mut migrated = Migrated::default();
        for (line, name) in [(1, "listen"), (2, "echo"), (3, "user"), (4, "server")] {
            migrated.account.read(&SourcePlace { file: "a".into(), line, column: 1 }, name);
        }
        let place = |line| SourcePlace { file: "a".into(), line, column: 1 };
        migrated.translated(&place(1), "listen");
        migrated.without_meaning(&place(3), "user", "it starts nothing");
        migrated.note(&place(4), "server", "a note is no claim");
        migrated.close();
        let refused = migrated.notes.iter().filter(|note| note.level == MigrateLevel::Refused);
        assert_eq!(
            refused.map(MigratedNote::to_string).collect::<Vec<_>>(),
            ["a:2: refused: echo: nothing is known of it here", "a:4: refused: server: nothing is known of it here"]
        );
        assert!(
            migrated.account.summary().starts_with("4 directives: 1 translated, 1 without meaning here, 2 refused")
        );
    }
}
