// SPDX-License-Identifier: BSD-2-Clause
//! The directives of mod_cache: for which requests it is asked, and what it goes by.

use super::reader::Line;
use super::section::{PATH, Sections};
use super::settings::CacheSettings;
use crate::migrated::Migrated;
use crate::vcl;

#[derive(Default)]
pub(super) struct Cache {
    pub enabled: Vec<String>,
    pub disabled: Vec<String>,
    pub has_enable: bool,
    pub settings: CacheSettings,
    /// Headers that aren't stored with a response.
    pub dropped: Vec<String>,
    /// True if a server decides before its sections are known: it never keeps what has Authorization.
    pub is_quick: bool,
    /// True if a server decides behind all other rules.
    pub is_slow: bool,
}

impl Cache {
    pub(super) fn take(&mut self, name: &str, line: &Line, sections: &Sections, migrated: &mut Migrated) -> bool {
        match name {
            "cacheenable" | "cachedisable" => self.path(name, line, sections, migrated),
            "cacheignoreheaders" => self.headers(line, sections, migrated),
            _ => match CacheSettings::name(name) {
                Some(setting) => self.setting(setting, line, sections, migrated),
                None => return false,
            },
        }
        true
    }

    fn path(&mut self, name: &str, line: &Line, sections: &Sections, migrated: &mut Migrated) {
        let is_enable = name == "cacheenable";
        self.has_enable |= is_enable;
        self.is_quick |= is_enable && sections.is_quick();
        self.is_slow |= is_enable && !sections.is_quick();
        if sections.is_in_path() && sections.is_quick() {
            let text = "CacheQuickHandler is on: mod_cache decides before it knows this section, and so the line has no effect";
            return no_effect(line, text, migrated);
        }
        let Some(around) = self.around(line, sections, migrated, !is_enable) else { return };
        let path = line.word(if is_enable { 2 } else { 1 });
        if path.contains("://") {
            let text = "of a forward proxy: it has no effect on this server's own URLs";
            return no_effect(line, text, migrated);
        }
        let path = match path {
            // Within <Location> it has no path.
            "" | "/" => String::new(),
            path if path.eq_ignore_ascii_case("on") => String::new(),
            // Any path that begins so is meant: /a has /ab, too.
            path if sections.is_quick() => format!("req.url ~ \"^{}\"", vcl::literal(path)),
            path => format!("{PATH} ~ \"^{}\"", vcl::literal(path)),
        };
        let list = if is_enable { &mut self.enabled } else { &mut self.disabled };
        list.push([around, path].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" && "));
        migrated.translated(&line.place, line.word(0));
        if is_enable {
            let text = "Apache keeps copies of its own besides: without this line in its files a purge here is enough";
            migrated.note(&line.place, line.word(0), text);
        }
    }

    /// The condition of the sections around; None, and a refusal, if it can't be told. What the line may take from the cache is passed then.
    fn around(&mut self, line: &Line, sections: &Sections, migrated: &mut Migrated, is_less: bool) -> Option<String> {
        let around = sections.condition();
        if around.is_none() {
            if is_less {
                self.disabled.push(String::new());
            }
            let text = format!("within <{}> it can't be told: these requests are passed", sections.unknown());
            migrated.refuse(&line.place, line.word(0), text);
        }
        around
    }

    fn setting(&mut self, name: &'static str, line: &Line, sections: &Sections, migrated: &mut Migrated) {
        let Some(around) = self.around(line, sections, migrated, true) else { return };
        migrated.translated(&line.place, line.word(0));
        if !self.settings.set(name, line.word(1), around, sections) {
            self.disabled.push(String::new());
            let wanted = "a number of seconds, or On and Off, is wanted: all requests are passed";
            migrated.refuse(&line.place, line.word(0), wanted);
        }
    }

    fn headers(&mut self, line: &Line, sections: &Sections, migrated: &mut Migrated) {
        if self.around(line, sections, migrated, false).is_none_or(|around| !around.is_empty()) {
            migrated.note(&line.place, line.word(0), "these headers aren't stored for any server");
        }
        for name in line.words.iter().skip(1).filter(|name| !name.eq_ignore_ascii_case("none")) {
            match name.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'-' || c == b'_') {
                true if self.dropped.iter().any(|known| known.eq_ignore_ascii_case(name)) => {}
                true => self.dropped.push(name.clone()),
                false => migrated.refuse(&line.place, line.word(0), format!("{name} isn't the name of a header")),
            }
        }
        migrated.translated(&line.place, line.word(0));
    }

    /// Keeps everything from being kept: a directive that isn't known may ask for that.
    pub(super) fn pass_all(&mut self) {
        self.disabled.push(String::new());
    }
}

/// Says of a line that it changes nothing, neither in Apache nor here.
fn no_effect(line: &Line, text: &str, migrated: &mut Migrated) {
    migrated.note(&line.place, line.word(0), text);
    migrated.without_meaning(&line.place, line.word(0), text);
}
