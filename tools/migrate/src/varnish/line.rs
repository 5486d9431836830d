// SPDX-License-Identifier: BSD-2-Clause
//! varnishd's start line, of any release: options that stay, that became parameters, that have no effect, that are unknown.

use params::Params;
use tables::stores::{self, StoreMedium};
use tables::vmods::Modules;

use super::text::PlacedWord;
use crate::migrated::Migrated;
use crate::source::SourcePlace;

/// Options of all releases with a value, and those without one.
const WITH_VALUE: &str = "aAbEfghiIjlMnPprsStTuwWx";
const ALONE: &str = "CdFV?";

/// An option of a start line, with its value if it has one.
pub struct StartOption {
    pub letter: char,
    pub value: String,
    pub place: SourcePlace,
}

impl StartOption {
    fn name(&self) -> String {
        format!("-{}", self.letter)
    }
}

/// Reads words as getopt(3) does: values glued or apart, letters bundled.
pub fn options(words: &[PlacedWord], migrated: &mut Migrated) -> Vec<StartOption> {
    let mut out = Vec::new();
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        let text = word.text.to_string();
        let Some(letters) = text.strip_prefix('-').filter(|letters| !letters.is_empty() && !letters.starts_with('-'))
        else {
            migrated.account.read(&unique(&word.place, &out), &text);
            migrated.refuse(&unique(&word.place, &out), &text, "it is no option of varnishd");
            continue;
        };
        let mut letters = letters.chars();
        while let Some(letter) = letters.next() {
            let place = unique(&word.place, &out);
            let has_value = WITH_VALUE.contains(letter);
            let glued = letters.as_str();
            let value = match (has_value, glued.is_empty()) {
                (true, true) => rest.next().map(|word| word.text.to_string()),
                (true, false) => Some(glued.to_owned()),
                (false, _) => Some(String::new()),
            };
            let Some(value) = value else {
                migrated.refuse(&place, &format!("-{letter}"), "it has no value");
                return out;
            };
            if has_value || ALONE.contains(letter) {
                out.push(StartOption { letter, value, place });
            } else {
                migrated.refuse(&place, &format!("-{letter}"), "no release has this option");
            }
            if has_value {
                break;
            }
        }
    }
    out
}

/// A place of its own for each option: several may come from one variable.
fn unique(place: &SourcePlace, before: &[StartOption]) -> SourcePlace {
    SourcePlace { column: (place.column << 16) + before.len() + 1, ..place.clone() }
}

/// A start line under way.
#[derive(Default)]
pub struct StartLine {
    modules: Modules,
    params: Params,
    words: Vec<String>,
    has_listener: bool,
    has_vcl: bool,
    has_jail: bool,
}

impl StartLine {
    /// Translates the options of a line; gives the words behind `varnishd`.
    pub fn translated(options: &[StartOption], modules: Modules, migrated: &mut Migrated) -> Vec<String> {
        let has = |letter: char| options.iter().any(|option| option.letter == letter);
        let mut line = StartLine { modules, has_listener: has('a'), has_jail: has('j'), ..StartLine::default() };
        for option in options {
            migrated.account.read(&option.place, &option.name());
            line.take(option, migrated);
        }
        if let Some(first) = options.first().filter(|_| !line.has_vcl) {
            let place = SourcePlace { column: 0, ..first.place.clone() };
            migrated.refuse(&place, "-f", "neither -f nor -b is given: varnishd doesn't start");
        }
        line.words
    }

    fn take(&mut self, option: &StartOption, migrated: &mut Migrated) {
        let value = option.value.as_str();
        match option.letter {
            'a' | 'A' | 'i' | 'I' | 'j' | 'M' | 'n' | 'P' | 'S' | 'T' => self.keep(option, migrated),
            'f' | 'b' => {
                self.has_vcl = true;
                self.keep(option, migrated);
            }
            'F' => {
                self.words.push("-F".to_owned());
                migrated.translated(&option.place, "-F");
            }
            's' => self.store(option, migrated),
            'p' => match value.split_once('=') {
                Some((name, value)) => self.parameter(option, name, value, migrated),
                None => migrated.refuse(&option.place, "-p", "NAME=VALUE is wanted"),
            },
            't' => self.parameter(option, "default_ttl", value, migrated),
            'l' => {
                let (space, rest) = value.split_once(',').map_or((value, None), |(space, rest)| (space, Some(rest)));
                self.parameter(option, "vsl_space", space, migrated);
                if let Some(rest) = rest {
                    migrated.note(&option.place, "-l", format!("{rest}: only the size of the log can be chosen"));
                }
            }
            'w' => self.pools(option, migrated),
            'r' => match Params::default().protect(value) {
                Ok(()) => self.keep(option, migrated),
                Err(error) => migrated.refuse(&option.place, "-r", one_line(&error.to_string())),
            },
            'u' | 'g' => self.user(option, migrated),
            'h' => idle(option, "there is only one kind of index", migrated),
            'W' => idle(option, "there is only one waiter", migrated),
            'C' | 'd' | 'V' | 'x' | '?' => {
                migrated.refuse(&option.place, &option.name(), "it is for a trial at a terminal, not for a service");
            }
            'E' => match self.modules.extension(value) {
                Ok(_) => self.keep(option, migrated),
                Err(reason) => migrated.refuse(&option.place, "-E", reason),
            },
            _ => migrated.refuse(&option.place, &option.name(), "no release has this option"),
        }
    }

    fn keep(&mut self, option: &StartOption, migrated: &mut Migrated) {
        self.words.extend([option.name(), option.value.clone()]);
        migrated.translated(&option.place, &option.name());
    }

    fn store(&mut self, option: &StartOption, migrated: &mut Migrated) {
        // `name=kind,...`; a `=` behind the first comma belongs to an option of the store.
        let kind = option.value.split(',').next().unwrap_or_default();
        let kind = kind.rsplit('=').next().unwrap_or_default();
        let other = stores::NOT_BUILT.iter().find(|(word, _)| *word == kind);
        match (StoreMedium::named(kind), other) {
            (Some(_), _) => self.keep(option, migrated),
            (None, Some((_, text))) => migrated.refuse(&option.place, "-s", *text),
            (None, None) => {
                let known = stores::listed(stores::all_words(), "or");
                migrated.refuse(&option.place, "-s", format!("there is no store of the kind {kind}: {known}"));
            }
        }
    }

    /// A parameter by the name and in the unit of today.
    fn parameter(&mut self, option: &StartOption, name: &str, value: &str, migrated: &mut Migrated) {
        let place = &option.place;
        let letter = option.name();
        if name == "listen_address" && !self.has_listener {
            value.split([' ', ',']).filter(|spec| !spec.is_empty()).for_each(|spec| {
                self.words.extend(["-a".to_owned(), spec.to_owned()]);
            });
            migrated.note(place, &letter, "listen_address is the option -a");
            return migrated.translated(place, &letter);
        }
        let change = match self.params.set_at_start(name, value) {
            Ok(change) => change,
            Err(error) => {
                let text = one_line(&error.to_string());
                return match error.forgiven() {
                    Some(told) => idle(option, &one_line(&told), migrated),
                    None => migrated.refuse(place, &letter, format!("{name}={value}: {text}")),
                };
            }
        };
        if let Some(note) = change.note(name) {
            migrated.note(place, &letter, note);
        }
        if change.spec.no_effect() {
            return migrated.without_meaning(place, &letter, format!("{} has no effect here", change.spec.name));
        }
        // A value of another release's unit is written in today's.
        let mut today = Params::default();
        let is_same =
            today.set(change.spec.name, value).is_ok() && change.spec.value(&today) == change.spec.value(&self.params);
        let value =
            if is_same { value.to_owned() } else { change.spec.value(&self.params).show(tables::Compat::default()) };
        self.words.extend(["-p".to_owned(), format!("{}={value}", change.spec.name)]);
        migrated.translated(place, &letter);
    }

    /// `-w MIN[,MAX[,TIMEOUT]]` of releases before 5.
    fn pools(&mut self, option: &StartOption, migrated: &mut Migrated) {
        let numbers: Option<Vec<u32>> = option.value.split(',').map(|word| word.trim().parse().ok()).collect();
        let (least, most, timeout) = match numbers.as_deref() {
            Some(&[least]) => (least, least, None),
            Some(&[least, most]) => (least, most, None),
            Some(&[least, most, timeout]) => (least, most, Some(timeout)),
            _ => return migrated.refuse(&option.place, "-w", "MIN[,MAX[,TIMEOUT]] is wanted"),
        };
        // Numbers below today's least are raised, as varnishd does.
        let (least, most) = (least.max(5), most.max(100).max(least));
        self.parameter(option, "thread_pool_max", &most.to_string(), migrated);
        self.parameter(option, "thread_pool_min", &least.to_string(), migrated);
        if let Some(timeout) = timeout {
            self.parameter(option, "thread_pool_timeout", &timeout.max(10).to_string(), migrated);
        }
    }

    /// `-u USER` and `-g GROUP` of releases before 5, as the jail that they were.
    fn user(&mut self, option: &StartOption, migrated: &mut Migrated) {
        let value = &option.value;
        match option.letter {
            'u' if !self.has_jail => {
                self.words.extend(["-j".to_owned(), format!("unix,user={value},workuser={value}")]);
                migrated.note(&option.place, "-u", "the user is a part of -j");
                migrated.translated(&option.place, "-u");
            }
            'u' => idle(option, "-j says who serves", migrated),
            _ => idle(option, "the group is the login group of the user", migrated),
        }
    }
}

/// Says of an option that it changes nothing here.
fn idle(option: &StartOption, reason: &str, migrated: &mut Migrated) {
    migrated.note(&option.place, &option.name(), format!("{} has no effect: {reason}", option.value));
    migrated.without_meaning(&option.place, &option.name(), reason);
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
