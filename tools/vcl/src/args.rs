// SPDX-License-Identifier: BSD-2-Clause
//! The command line.

use crate::help::is_for;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Command {
    Help,
    Check,
    Explain,
    Fmt,
    Lsp,
    Migrate,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Text,
    Json,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Args {
    pub command: Command,
    /// Which command's help is asked for; none: that of all.
    pub topic: Option<Command>,
    pub files: Vec<String>,
    pub format: Format,
    pub syntax: u8,
    pub dialect: Option<vcl::Dialect>,
    /// explain: the bytecode.
    pub code: bool,
    pub plain: bool,
    pub builtin: bool,
    pub sub: Option<String>,
    pub labels: Vec<String>,
    pub stores: Vec<String>,
    /// check: host names of backends and ACLs are looked up.
    pub resolve: bool,
    /// fmt: only say which files would change.
    pub check: bool,
    /// fmt: only show what would change.
    pub diff: bool,
    /// fmt: what a level is indented by.
    pub indent: Option<String>,
    dirs: Vec<String>,
}

impl Args {
    /// As a vcl_path.
    pub fn path(&self) -> String {
        if self.dirs.is_empty() { "/etc/varnish:/usr/share/varnish/vcl".to_owned() } else { self.dirs.join(":") }
    }
}

pub(crate) fn parse(words: &[String]) -> Result<Args, String> {
    let mut args = Args {
        command: Command::Help,
        topic: None,
        files: Vec::new(),
        format: Format::Text,
        syntax: 41,
        dialect: None,
        code: false,
        plain: false,
        builtin: false,
        sub: None,
        labels: Vec::new(),
        stores: vec!["Transient".to_owned()],
        resolve: false,
        check: false,
        diff: false,
        indent: None,
        dirs: Vec::new(),
    };
    let mut words = words.iter();
    args.command = match words.next().map(String::as_str) {
        Some("check") => Command::Check,
        Some("explain") => Command::Explain,
        Some("fmt") => Command::Fmt,
        Some("lsp") => Command::Lsp,
        Some("migrate") => Command::Migrate,
        Some("help" | "--help" | "-h" | "-?") => return Ok(args),
        Some(other) => return Err(format!("no command {other:?}")),
        None => return Err("a command is missing".to_owned()),
    };
    let mut all_files = false;
    while let Some(word) = words.next() {
        let (name, mut given) = match word.split_once('=') {
            Some((name, value)) if name.starts_with("--") => (name, Some(value.to_owned())),
            _ => (word.as_str(), None),
        };
        if !is_for(name, &args.command) && !all_files {
            return Err(format!("{name} isn't for this command"));
        }
        let mut value =
            || given.take().or_else(|| words.next().cloned()).ok_or_else(|| format!("{name} wants a value"));
        match name {
            // What editors' clients add by themselves.
            "--stdio" if args.command == Command::Lsp => {}
            _ if all_files || !word.starts_with('-') || word == "-" => args.files.push(word.clone()),
            "--" => all_files = true,
            "-I" => args.dirs.push(value()?),
            "--format" => {
                args.format = match value()?.as_str() {
                    "json" => Format::Json,
                    "text" => Format::Text,
                    other => return Err(format!("no format {other:?}")),
                }
            }
            "--syntax" => {
                args.syntax = match value()?.as_str() {
                    "4.0" => 40,
                    "4.1" => 41,
                    other => return Err(format!("no syntax {other:?}: 4.0 or 4.1 (older ones by --dialect)")),
                }
            }
            "--dialect" | "--vcl-dialect" => {
                let word = value()?;
                let dialect = vcl::Dialect::from_name(&word);
                args.dialect = Some(dialect.ok_or_else(|| format!("no dialect {word:?}: 2.0, 2.1 or 3.0"))?);
            }
            "--label" => args.labels.push(value()?),
            "--store" => args.stores.push(value()?),
            "--resolve" => args.resolve = true,
            "--check" => args.check = true,
            "--diff" => args.diff = true,
            "--indent" => args.indent = Some(indent(&value()?)?),
            "--code" => args.code = true,
            "--plain" => args.plain = true,
            "--builtin" => args.builtin = true,
            "--sub" => args.sub = Some(value()?),
            "--help" | "-h" | "-?" => {
                args.topic = Some(std::mem::replace(&mut args.command, Command::Help));
                return Ok(args);
            }
            _ if word.starts_with("-I") => args.dirs.push(word[2..].to_owned()),
            _ => return Err(format!("no option {word:?}")),
        }
    }
    match (&args.command, args.files.len()) {
        (Command::Lsp, 0) => Ok(args),
        (Command::Lsp, _) => Err("lsp takes no files: the editor names them".to_owned()),
        (_, 0) => Err("a file is missing".to_owned()),
        (Command::Explain, 2..) => Err("explain takes one file".to_owned()),
        (Command::Explain, _) if !args.code && (args.plain || args.builtin) => {
            Err("--plain and --builtin are for explain --code".to_owned())
        }
        (Command::Explain, _) if args.code && args.format == Format::Json => Err("--code is text only".to_owned()),
        (Command::Migrate, 2..) => Err("migrate takes one file".to_owned()),
        _ => Ok(args),
    }
}

/// `tab`, or a number of spaces from 1 to 8.
fn indent(text: &str) -> Result<String, String> {
    match text.parse::<usize>() {
        _ if text == "tab" => Ok("\t".to_owned()),
        Ok(n @ 1..=8) => Ok(" ".repeat(n)),
        _ => Err(format!("--indent is `tab` or a number of spaces from 1 to 8, not {text:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Result<Args, String> {
        parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn options_and_files_mix() {
        let args = of("check -I a a.vcl --format=json -Ib --syntax 4.0 -- -b.vcl").unwrap();
        assert_eq!((args.path().as_str(), args.format, args.syntax), ("a:b", Format::Json, 40));
        assert_eq!(args.files, ["a.vcl", "-b.vcl"]);
    }

    #[test]
    fn what_it_cant_do_is_said() {
        assert_eq!(of("check"), Err("a file is missing".to_owned()));
        assert_eq!(of("frob x"), Err("no command \"frob\"".to_owned()));
        assert_eq!(
            of("check --syntax 3.0 x"),
            Err("no syntax \"3.0\": 4.0 or 4.1 (older ones by --dialect)".to_owned())
        );
        assert_eq!(of("check -I"), Err("-I wants a value".to_owned()));
        assert_eq!(
            of("fmt --indent 9 a"),
            Err("--indent is `tab` or a number of spaces from 1 to 8, not \"9\"".to_owned())
        );
        assert_eq!(of("check --diff a"), Err("--diff isn't for this command".to_owned()));
        assert_eq!(of("fmt -I d a"), Err("-I isn't for this command".to_owned()));
        assert_eq!(of("fmt -- --sub").unwrap().files, ["--sub"]);
        assert_eq!(of("explain a b"), Err("explain takes one file".to_owned()));
        assert_eq!(of("migrate --dialect 2.1 x").unwrap().dialect, Some(vcl::Dialect::V21));
        assert_eq!(of("migrate --dialect 4.0 x"), Err("no dialect \"4.0\": 2.0, 2.1 or 3.0".to_owned()));
        assert_eq!(of("explain --sub vcl_recv a").unwrap().sub.as_deref(), Some("vcl_recv"));
    }
}
