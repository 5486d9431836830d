// SPDX-License-Identifier: BSD-2-Clause
//! Varnish's own files: shell variables (/etc/default/varnish, /etc/sysconfig/varnish, varnish.params) of 2.0 to 4.1, units of systemd and their
//! drop-ins. They come to one start line, by today's names.

mod line;
mod shell;
mod text;
mod unit;

use std::rc::Rc;

use line::{StartLine, options};
use shell::{ShellVariables, VariableLanguage};
use text::{PlacedText, PlacedWord};
use unit::ServiceUnit;

use tables::vmods::Modules;

use crate::migrated::Migrated;
use crate::source::FileSource;

/// Bytes of a file of variables or a unit.
const MAX_BYTES: usize = 256 << 10;

/// Reads a unit with its drop-ins, or files of variables, in their order.
///
/// # Errors
/// One can't be read, isn't closed, or starts another program.
pub fn migrate(names: &[String], files: &dyn FileSource, modules: Modules) -> Result<Migrated, String> {
    let mut migrated = Migrated::default();
    let mut unit = ServiceUnit::default();
    let mut variables = ShellVariables::default();
    let mut has_unit = false;
    for name in names {
        let text = files.read(name)?;
        if text.len() > MAX_BYTES {
            return Err(format!(
                "{name}:1: {} bytes are no file of Varnish's: at most {MAX_BYTES} are read",
                text.len()
            ));
        }
        let file = Rc::from(name.as_str());
        match unit::is_unit(&text) {
            true => {
                has_unit = true;
                unit.read(&text, &file, files, &mut migrated)?;
            }
            false => shell::read(&text, &file, VariableLanguage::Shell, &mut variables, &mut migrated)?,
        }
    }
    let words = match has_unit {
        true => of_unit(unit, &variables, &names[0], &mut migrated)?,
        false => of_variables(&variables, &names[0], &mut migrated)?,
    };
    let all = options(&words, &mut migrated);
    migrated.arguments = StartLine::translated(&all, modules, &mut migrated);
    migrated.is_start_line = true;
    Ok(migrated)
}

/// The words behind the program of a unit's ExecStart. Variables of files that were given besides count like those of its EnvironmentFile.
fn of_unit(
    mut unit: ServiceUnit,
    given: &ShellVariables,
    file: &str,
    migrated: &mut Migrated,
) -> Result<Vec<PlacedWord>, String> {
    for (name, variable) in given.iter() {
        unit.variables.set(name.clone(), variable.place.clone(), variable.value.clone(), variable.needs_shell.clone());
    }
    let Some((place, _)) = unit.exec.clone() else {
        return Err(format!(
            "{file}:1: there is no ExecStart; a drop-in is read behind its unit: migrate varnish UNIT DROP-IN"
        ));
    };
    let mut words = unit.words(migrated)?;
    let program = if words.is_empty() { String::new() } else { words.remove(0).text.to_string() };
    if program.rsplit('/').next() != Some("varnishd") && program.rsplit('/').next() != Some("vinyld") {
        return Err(format!("{place}: it starts {program:?}, not varnishd: units of other programs stay as they are"));
    }
    migrated.translated(&place, "ExecStart");
    settle(&unit.variables, migrated);
    Ok(words)
}

/// Variables for single options, which a varnish.params or DAEMON_OPTS puts together.
const OPTIONS: [(char, &str, &str); 10] = [
    ('f', "VARNISH_VCL_CONF", ""),
    ('a', "VARNISH_LISTEN_ADDRESS", "VARNISH_LISTEN_PORT"),
    ('T', "VARNISH_ADMIN_LISTEN_ADDRESS", "VARNISH_ADMIN_LISTEN_PORT"),
    ('S', "VARNISH_SECRET_FILE", ""),
    ('s', "VARNISH_STORAGE", ""),
    ('t', "VARNISH_TTL", ""),
    ('u', "VARNISH_USER", ""),
    ('g', "VARNISH_GROUP", ""),
    ('n', "VARNISH_INSTANCE", ""),
    ('P', "VARNISH_PID_FILE", ""),
];

/// The words of DAEMON_OPTS, and before them those of variables for options that it doesn't have.
fn of_variables(variables: &ShellVariables, file: &str, migrated: &mut Migrated) -> Result<Vec<PlacedWord>, String> {
    let own = match variables.get("DAEMON_OPTS") {
        Some(options) => options.value.words()?,
        None => Vec::new(),
    };
    let has = |letter: char| own.iter().any(|word| word.text.to_string().starts_with(&format!("-{letter}")));
    let mut words = Vec::new();
    // An init script gives DAEMON_OPTS alone; a unit that reads varnish.params gives the others, too.
    if !has('f') && !has('b') {
        for (letter, first, second) in OPTIONS.into_iter().filter(|(letter, ..)| !has(*letter)) {
            let parts = [first, second].map(|name| variables.get(name).filter(|variable| variable.value.len() > 0));
            let Some(place) = parts.iter().flatten().next().map(|variable| variable.place.clone()) else { continue };
            let mut text = PlacedText::default();
            [('-'), letter].iter().for_each(|letter| text.push(*letter, &place));
            if let Some(address) = parts[0] {
                text.extend(&address.value);
            }
            if let Some(port) = parts[1] {
                text.push(':', &place);
                text.extend(&port.value);
            }
            words.push(PlacedWord { text, place });
        }
    }
    words.extend(own);
    if words.is_empty() {
        return Err(format!(
            "{file}:1: there is neither DAEMON_OPTS nor a variable of Varnish's, nor a unit of systemd"
        ));
    }
    settle(variables, migrated);
    Ok(words)
}

/// Variables of Varnish's files that no start line has.
#[rustfmt::skip]
const OTHERS: [(&str, &str); 16] = [
    ("NFILES", "the unit's LimitNOFILE"), ("MEMLOCK", "the unit's LimitMEMLOCK"), ("NPROCS", "the unit's TasksMax"),
    ("DAEMON_COREFILE_LIMIT", "the unit's LimitCORE"), ("RELOAD_VCL", "systemctl reload varnish"), ("START", "systemctl enable or disable varnish"),
    ("VARNISHLOG_ENABLED", "the unit varnishlog"), ("VARNISHNCSA_ENABLED", "the unit varnishncsa"), ("VARNISHLOG_OPTS", "the unit varnishlog"),
    ("VARNISHNCSA_OPTS", "the unit varnishncsa"), ("LOGFILE_USER", "the unit varnishlog"), ("LOG_FORMAT", "the unit varnishncsa"),
    ("LOGFILE_VARNISHLOG", "the unit varnishlog"), ("LOGFILE_VARNISHNCSA", "the unit varnishncsa"), ("PIDFILE", "the unit's own"), ("DAEMON", "the unit's own"),
];

/// Gives each variable its fate: those in the start line, and the others.
fn settle(variables: &ShellVariables, migrated: &mut Migrated) {
    for (name, variable) in variables.iter() {
        let place = &variable.place;
        let of_file = OTHERS.iter().find(|(other, _)| other == name).map(|(_, text)| *text);
        match (&variable.needs_shell, variable.is_used.get(), of_file) {
            (Some(reason), true, _) => migrated.refuse(place, name, reason.clone()),
            (None, true, _) => migrated.translated(place, name),
            (_, false, Some(text)) => migrated.without_meaning(place, name, format!("its counterpart: {text}")),
            (_, false, None) => migrated.without_meaning(place, name, "the start line doesn't use it"),
        }
    }
}

#[cfg(test)]
mod tests;
