// SPDX-License-Identifier: BSD-2-Clause
//! Settings by name: of the environment, of an .ini file, of a JSON file.

use std::collections::BTreeMap;

use serde_json::Value as Json;
use vrt::Text;

/// Bytes of all names and values. Names have their sections' names before them, so a short file can have long ones.
const MAX_BYTES: usize = 64 << 20;

pub(super) struct Delimiters {
    /// Between the names of a section or object and of what is in it.
    pub(super) name: Vec<u8>,
    /// Between values of one name.
    pub(super) value: Vec<u8>,
}

#[derive(Default)]
pub(super) struct Variables(BTreeMap<Box<[u8]>, Text>);

impl Variables {
    pub(super) fn of_environment() -> Variables {
        use std::os::unix::ffi::OsStringExt;
        let variable =
            |(name, value): (std::ffi::OsString, std::ffi::OsString)| (name.into_vec().into(), value.into_vec().into());
        Variables(std::env::vars_os().map(variable).collect())
    }

    pub(super) fn get(&self, name: &[u8]) -> Option<&Text> {
        self.0.get(name)
    }

    /// Those whose names begin with `prefix`, as a JSON object.
    pub(super) fn dump(&self, prefix: &[u8]) -> String {
        let shown = self.0.iter().filter(|(name, _)| name.starts_with(prefix));
        let members = shown.map(|(name, value)| (String::from_utf8_lossy(name).into_owned(), value.lossy().into()));
        Json::Object(members.collect()).to_string()
    }

    /// Lines `[section]` and `name = value` or `name: value`. An indented line continues the value before it. Comments are lines that begin with ; or
    /// #, and what follows a blank and ;.
    pub(super) fn of_ini(bytes: &[u8], delimiters: &Delimiters) -> Result<Variables, String> {
        let mut found = Collected::default();
        let (mut section, mut last): (&[u8], Option<&[u8]>) = (b"", None);
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        for (at, line) in bytes.split(|b| *b == b'\n').enumerate() {
            let is_indented = line.first().is_some_and(u8::is_ascii_whitespace);
            let line = line.trim_ascii();
            if matches!(line.first(), None | Some(b';' | b'#')) {
                continue;
            }
            if let (true, Some(name)) = (is_indented, last) {
                found.put(section, name, line, delimiters)?;
                continue;
            }
            if let Some(rest) = line.strip_prefix(b"[") {
                let (name, end) = rest.split_at(end_of(rest, b"]"));
                if end.first() != Some(&b']') {
                    return Err(format!("line {}: a section without ]", at + 1));
                }
                (section, last) = (name, None);
                continue;
            }
            let (name, value) = line.split_at(end_of(line, b"=:"));
            let Some((b'=' | b':', value)) = value.split_first() else {
                return Err(format!("line {}: neither NAME = VALUE nor [SECTION]", at + 1));
            };
            let name = name.trim_ascii_end();
            found.put(section, name, value[..end_of(value, b"")].trim_ascii(), delimiters)?;
            last = Some(name);
        }
        Ok(found.into())
    }

    /// An object; the members of objects in it have names of several parts. Lists and null are left out.
    pub(super) fn of_json(bytes: &[u8], delimiters: &Delimiters) -> Result<Variables, String> {
        match serde_json::from_slice(bytes).map_err(|reason| reason.to_string())? {
            Json::Object(members) => {
                let mut found = Collected::default();
                found.walk(&members, b"", delimiters)?;
                Ok(found.into())
            }
            _ => Err("not a JSON object".to_owned()),
        }
    }
}

/// Position of the first byte of `stops`, or of the ; of a comment; the length if there is neither.
fn end_of(text: &[u8], stops: &[u8]) -> usize {
    let is_comment = |at: usize| text[at] == b';' && at > 0 && text[at - 1].is_ascii_whitespace();
    (0..text.len()).find(|at| stops.contains(&text[*at]) || is_comment(*at)).unwrap_or(text.len())
}

#[derive(Default)]
struct Collected {
    values: BTreeMap<Box<[u8]>, Vec<u8>>,
    bytes: usize,
}

impl Collected {
    fn put(&mut self, section: &[u8], name: &[u8], value: &[u8], delimiters: &Delimiters) -> Result<(), String> {
        let between: &[u8] = if section.is_empty() { b"" } else { &delimiters.name };
        self.take(section.len() + between.len() + name.len() + delimiters.value.len() + value.len())?;
        let known = self.values.entry([section, between, name].concat().into());
        let had = known.or_default();
        if !had.is_empty() {
            had.extend_from_slice(&delimiters.value);
        }
        had.extend_from_slice(value);
        Ok(())
    }

    /// `prefix` ends with the delimiter, unless it is empty. Parsing has bounded the depth.
    fn walk(
        &mut self,
        members: &serde_json::Map<String, Json>,
        prefix: &[u8],
        delimiters: &Delimiters,
    ) -> Result<(), String> {
        for (name, value) in members {
            let text = match value {
                Json::Object(members) => {
                    let prefix = [prefix, name.as_bytes(), &delimiters.name].concat();
                    self.take(prefix.len())?;
                    self.walk(members, &prefix, delimiters)?;
                    continue;
                }
                Json::Array(_) | Json::Null => continue,
                Json::String(text) => text.clone(),
                Json::Bool(is_true) => is_true.to_string(),
                Json::Number(number) => shown(number),
            };
            self.take(prefix.len() + name.len() + text.len())?;
            self.values.insert([prefix, name.as_bytes()].concat().into(), text.into());
        }
        Ok(())
    }

    fn take(&mut self, bytes: usize) -> Result<(), String> {
        self.bytes += bytes;
        if self.bytes > MAX_BYTES { Err(format!("names and values of more than {MAX_BYTES} bytes")) } else { Ok(()) }
    }
}

impl From<Collected> for Variables {
    fn from(found: Collected) -> Variables {
        Variables(found.values.into_iter().map(|(name, value)| (name, Text::from(value))).collect())
    }
}

/// Whole numbers without decimals, others with three.
fn shown(number: &serde_json::Number) -> String {
    match number.as_f64() {
        _ if number.is_i64() || number.is_u64() => number.to_string(),
        Some(real) if real.fract() == 0.0 => format!("{real:.0}"),
        Some(real) => format!("{real:.3}"),
        None => number.to_string(),
    }
}
