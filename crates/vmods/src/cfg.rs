// SPDX-License-Identifier: BSD-2-Clause
//! vmod_cfg(3) of libvmod-cfg: settings from the environment and from files. Files are local: a service that fetches them is simpler to watch than
//! requests that a cache makes for itself. Scripts aren't built.

mod variables;

use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tables::Tag;
use vcl_regex::Regex;
use vrt::vmod::{BOOL, CallResult, STRING, VmodCall, give, wait};
use vrt::{Method, Text, VclFailure};

use crate::support::reloaded::ReloadedFile;
use variables::{Delimiters, Variables};
use vmod_support::args::{fail, gave_up};

/// Bytes of a file.
const MAX_BYTES: u64 = 4 << 20;
const RULES: usize = 10_000;

vrt::words! {
    enum Format { Ini = "ini", Json = "json" }
}

/// A list of arguments that begins with those of every file.
macro_rules! file_args {
    (struct $list:ident { $($more:tt)* }) => {
        vrt::vmod_args! {
            struct $list<'a> {
                location: STRING as &'a [u8],
                backup: STRING as &'a [u8] = "",
                automated_backups: BOOL as bool = true,
                period: INT as i64 = 60,
                ignore_load_failures: BOOL as bool = true,
                curl_connection_timeout: INT as i64 = 0,
                curl_transfer_timeout: INT as i64 = 0,
                curl_ssl_verify_peer: BOOL as bool = false,
                curl_ssl_verify_host: BOOL as bool = false,
                curl_ssl_cafile: STRING as &'a [u8] = "",
                curl_ssl_capath: STRING as &'a [u8] = "",
                curl_proxy: STRING as &'a [u8] = "",
                $($more)*
            }
        }
    };
}

file_args!(
    struct RulesArgs {}
);
file_args!(
    struct FileArgs {
        format: Format as Format = Ini,
        name_delimiter: STRING as &'a [u8] = ":",
        value_delimiter: STRING as &'a [u8] = ";",
    }
);

vrt::vmod! {
    /// Settings from environment variables, files (.ini and JSON) and lists of rules. A file has at most 4 MB; it is read
    /// when the VCL is loaded, and again when VCL uses it and period seconds have passed (0: never). A file that can't be
    /// read or is malformed leaves the former values; the first time there are none, or with ignore_load_failures=false the
    /// VCL isn't loaded. The log says why. A location is a path or begins with file://; a URL or a backup fails. The
    /// options for curl have no effect on files
    pub(crate) static VMOD = cfg;

    /// The environment variables of the server at the time when the VCL is loaded
    object env() -> Variables = |_, _: &str| Ok(Variables::of_environment()), methods {
        /// Returns all variables, or those whose names begin with prefix, as a JSON object. With stream=true in vcl_synth or
        /// vcl_backend_error they become the body, and the result is empty
        fn dump(stream: BOOL = false, prefix: STRING = "") -> STRING, local = env_dump;

        /// Returns whether the variable exists
        fn is_set(name: STRING) -> BOOL, local
            = |this: &Variables, _: &mut VmodCall<'_>, name: Option<&Text>| name.is_some_and(|name| this.get(name).is_some());

        /// Returns the value of the variable; the fallback if there is none
        fn get(name: STRING, fallback: STRING = "") -> STRING, local
            = |this: &Variables, _: &mut VmodCall<'_>, name: Option<&Text>, fallback: Option<&Text>| value(this, name, fallback);
    }

    /// A file of settings. In .ini files the name of a setting is SECTION:NAME, and values of one name are joined by ;. In
    /// JSON files the names of nested objects are joined by :, lists and null are ignored, and numbers have no decimals or
    /// three. name_delimiter and value_delimiter are other texts for : and ;
    object file(..FileArgs<'_>) -> Arc<ReloadedFile<Variables>> = new_file, methods {
        /// Reads the file now; returns false if that fails
        fn reload(force_backup: BOOL = false) -> BOOL, blocks = reload;

        /// Returns all settings, or those whose names begin with prefix, as a JSON object. With stream=true in vcl_synth or
        /// vcl_backend_error they become the body, and the result is empty
        fn dump(stream: BOOL = false, prefix: STRING = "") -> STRING, local = file_dump;

        /// Returns whether the setting exists
        fn is_set(name: STRING) -> BOOL, local = file_is_set;

        /// Returns the value of the setting; the fallback if there is none
        fn get(name: STRING, fallback: STRING = "") -> STRING, local = file_get;
    }

    /// A file of rules, one a line: a regular expression, -> and a value. At most 10,000
    object rules(..RulesArgs<'_>) -> Arc<ReloadedFile<Rules>> = new_rules, methods {
        /// Reads the file now; returns false if that fails
        fn reload(force_backup: BOOL = false) -> BOOL, blocks = reload;

        /// Returns the value of the first rule that matches the text; the fallback if none does
        fn get(value: STRING, fallback: STRING = "") -> STRING, local = rules_get;
    }

    left_out {
        "cfg.script" => "VCL, or reqwest, which asks a service";
        "cfg.file.inspect" => "cfg.file.dump, and varnishlog for errors";
        "cfg.rules.inspect" => "varnishlog for errors";
    }
}

/// Rules in their order.
#[derive(Default)]
struct Rules(Vec<(Regex, Text)>);

impl Rules {
    fn parse(bytes: &[u8]) -> Result<Rules, String> {
        let mut rules = Vec::new();
        for (at, line) in bytes.split(|b| *b == b'\n').enumerate() {
            let (line, number) = (line.trim_ascii(), at + 1);
            if line.is_empty() {
                continue;
            }
            if rules.len() == RULES {
                return Err(format!("line {number}: more than {RULES} rules"));
            }
            let arrow = line.windows(2).position(|pair| pair == b"->");
            let Some(arrow @ 1..) = arrow else {
                return Err(format!("line {number}: a rule is PATTERN -> VALUE"));
            };
            let pattern = line[..arrow].trim_ascii_end();
            let regex = Regex::new(pattern).map_err(|e| {
                format!("line {number}: bad pattern \"{}\": {} at {}", pattern.escape_ascii(), e.text, e.offset)
            })?;
            rules.push((regex, Text::copy(line[arrow + 2..].trim_ascii_start())));
        }
        Ok(Rules(rules))
    }
}

fn new_file(call: &mut VmodCall<'_>, _: &str, args: FileArgs<'_>) -> Result<Arc<ReloadedFile<Variables>>, VclFailure> {
    let delimiters = Delimiters { name: args.name_delimiter.to_vec(), value: args.value_delimiter.to_vec() };
    let format = args.format;
    let parse = move |bytes: &[u8]| match format {
        Format::Ini => Variables::of_ini(bytes, &delimiters),
        Format::Json => Variables::of_json(bytes, &delimiters),
    };
    open(call, "cfg.file", (args.location, args.backup), args.period, args.ignore_load_failures, parse)
}

fn new_rules(call: &mut VmodCall<'_>, _: &str, args: RulesArgs<'_>) -> Result<Arc<ReloadedFile<Rules>>, VclFailure> {
    open(call, "cfg.rules", (args.location, args.backup), args.period, args.ignore_load_failures, Rules::parse)
}

/// Reads a file for the first time.
fn open<T: Default + Send + Sync + 'static>(
    call: &mut VmodCall<'_>,
    who: &'static str,
    (location, backup): (&[u8], &[u8]),
    period: i64,
    may_fail: bool,
    parse: impl Fn(&[u8]) -> Result<T, String> + Send + Sync + 'static,
) -> Result<Arc<ReloadedFile<T>>, VclFailure> {
    if [&b"http://"[..], b"https://"].iter().any(|scheme| location.starts_with(scheme)) {
        return fail(format!(
            "{who}: {}: only local files are read; have a timer fetch it (curl -o) and name that file",
            location.escape_ascii()
        ));
    }
    if !backup.is_empty() {
        return fail(format!(
            "{who}: backup isn't built: a local file needs none, and a malformed one leaves the former values"
        ));
    }
    if period < 0 {
        return fail(format!("{who}: period can't be negative"));
    }
    let path = location.strip_prefix(b"file://").unwrap_or(location);
    if path.is_empty() || path.contains(&0) {
        return fail(format!("{who}: location is no path"));
    }
    let path = PathBuf::from(std::ffi::OsStr::from_bytes(path));
    let read = move |path: &Path| parse(&bytes_of(path)?).map(Arc::new);
    let value = match read(&path) {
        Ok(value) => value,
        Err(reason) => {
            let text = format!("{who}: {}: {reason}", path.display());
            if !may_fail {
                return fail(text);
            }
            call.ctx.log().put(Tag::Error, text.as_bytes());
            Arc::default()
        }
    };
    Ok(ReloadedFile::new(who, path, period as f64, call.ctx.clock().mono(), value, Box::new(read)))
}

fn bytes_of(path: &Path) -> Result<Vec<u8>, String> {
    let text = |error: std::io::Error| error.to_string();
    // Looked at before it is opened: opening a pipe waits for a writer.
    if !std::fs::metadata(path).map_err(text)?.is_file() {
        return Err("no regular file".to_owned());
    }
    let mut bytes = Vec::new();
    File::open(path).map_err(text)?.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(text)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(format!("longer than {MAX_BYTES} bytes"));
    }
    Ok(bytes)
}

fn reload<T: Send + Sync + 'static>(this: &Arc<ReloadedFile<T>>, call: &mut VmodCall<'_>, _: bool) -> CallResult<BOOL> {
    let (file, log) = (this.clone(), call.ctx.log().ring().clone());
    wait(async move { Ok(rt::blocking(move || file.reload(&log)).await.unwrap_or(false)) })
}

fn value(variables: &Variables, name: Option<&Text>, fallback: Option<&Text>) -> CallResult<STRING> {
    let found = name.and_then(|name| variables.get(name)).or(fallback);
    give(found.cloned())
}

fn file_get(
    this: &Arc<ReloadedFile<Variables>>,
    call: &mut VmodCall<'_>,
    name: Option<&Text>,
    fallback: Option<&Text>,
) -> CallResult<STRING> {
    value(&this.current(call), name, fallback)
}

fn file_is_set(this: &Arc<ReloadedFile<Variables>>, call: &mut VmodCall<'_>, name: Option<&Text>) -> CallResult<BOOL> {
    let variables = this.current(call);
    give(name.is_some_and(|name| variables.get(name).is_some()))
}

fn rules_get(
    this: &Arc<ReloadedFile<Rules>>,
    call: &mut VmodCall<'_>,
    text: &[u8],
    fallback: Option<&Text>,
) -> CallResult<STRING> {
    for (regex, value) in &this.current(call).0 {
        if regex.is_match(text).map_err(gave_up)? {
            return give(Some(value.clone()));
        }
    }
    give(fallback.cloned())
}

fn env_dump(this: &Variables, call: &mut VmodCall<'_>, stream: bool, prefix: &[u8]) -> CallResult<STRING> {
    dump(call, this, stream, prefix)
}

fn file_dump(
    this: &Arc<ReloadedFile<Variables>>,
    call: &mut VmodCall<'_>,
    stream: bool,
    prefix: &[u8],
) -> CallResult<STRING> {
    let variables = this.current(call);
    dump(call, &variables, stream, prefix)
}

fn dump(call: &mut VmodCall<'_>, variables: &Variables, stream: bool, prefix: &[u8]) -> CallResult<STRING> {
    let json = variables.dump(prefix);
    if stream && matches!(call.method, Method::Synth | Method::BackendError) {
        call.ctx.body(json.as_bytes(), true)?;
        return give(Some(Text::EMPTY));
    }
    give(Some(Text::from(json)))
}

#[cfg(test)]
mod tests;
