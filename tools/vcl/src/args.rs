// SPDX-License-Identifier: BSD-2-Clause
//! The command line.

use tables::Compat;
use toolkit::args::{Arg, Args as Words};
use toolkit::opt;
use toolkit::options::Opt;

use VclToolCommand::{Check, Explain, Fmt, Lsp, Migrate};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum VclToolCommand {
    Help,
    Check,
    Codes,
    Explain,
    Fmt,
    Lsp,
    Migrate,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CheckFormat {
    Text,
    Json,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct VclArgs {
    pub command: VclToolCommand,
    /// Command whose help is requested; `None`: the overview.
    pub topic: Option<VclToolCommand>,
    pub files: Vec<String>,
    pub format: CheckFormat,
    pub syntax: u8,
    pub dialect: Option<vcl::Dialect>,
    pub compat: Option<Compat>,
    /// explain: show the bytecode.
    pub code: bool,
    pub plain: bool,
    pub builtin: bool,
    pub sub: Option<String>,
    pub labels: Vec<String>,
    pub stores: Vec<String>,
    /// check: a file that isn't a whole VCL is a part of one.
    pub is_part: bool,
    /// check: look up the host names of backends and ACLs.
    pub resolve: bool,
    /// fmt: only list the files that would change.
    pub check: bool,
    /// fmt: only show a diff.
    pub diff: bool,
    /// fmt: replace typographic characters by ASCII.
    pub ascii: bool,
    /// fmt: the indentation of one level.
    pub indent: Option<String>,
    dirs: Vec<String>,
}

const COMPILING: &[VclToolCommand] = &[Check, Migrate, Explain, Lsp];

/// The options, with the commands that have them.
const OPTIONS: &[(&[VclToolCommand], &[Opt<VclArgs>])] = &[
    (
        COMPILING,
        &[
            Opt::glued(
                opt!("-I DIR": "where to look for relative names (vcl_path); may be given several times (default: /etc/varnish)" =>
                |o, args| o.dirs.push(args.text()?)),
            ),
            opt!("--syntax 4.0|4.1": "of a part of a VCL 4: what the file that includes it begins with (default: 4.1)" =>
                |o, args| o.syntax = args.parsed("4.0 or 4.1 (older ones by --dialect)", syntax)?),
            opt!("--dialect 2.0|2.1|3.0" | "--vcl-dialect": "for files without `vcl 4.x;` (default: recognised by their words)" =>
                |o, args| o.dialect = Some(args.parsed("2.0, 2.1 or 3.0", vcl::Dialect::from_name)?)),
            opt!("--compat 7.1|9": "the Varnish release whose built-in VCL is appended (default: as /etc/lacquer/compat says)" =>
                |o, args| o.compat = Some(args.parsed("7.1 or 9", |word| Compat::parse(word).ok())?)),
            opt!("--label NAME": "a label that `return (vcl(NAME))` may name; may be given several times" =>
                |o, args| o.labels.push(args.text()?)),
            opt!("--store NAME": "a store (`-s NAME=...`) that `storage.NAME` may name; may be given several times" =>
                |o, args| o.stores.push(args.text()?)),
        ],
    ),
    (
        &[Check, Explain, Lsp],
        &[
            opt!("--part": "a file that can't be loaded by itself is a part of a VCL: what it doesn't declare is declared elsewhere" =>
                |o, _| o.is_part = true),
        ],
    ),
    (
        &[Check],
        &[opt!("--resolve": "look host names up, and report those that have no address; else no network is asked" =>
                |o, _| o.resolve = true)],
    ),
    (
        &[Check, Explain, Migrate],
        &[opt!("--format text|json": "for people, or for programs" =>
                |o, args| o.format = args.one_of(&[("text", CheckFormat::Text), ("json", CheckFormat::Json)])?)],
    ),
    (
        &[Fmt],
        &[
            opt!("--check": "change nothing; name the files that would be changed" => |o, _| o.check = true),
            opt!("--diff": "change nothing; show what would be changed, as diff -u does" => |o, _| o.diff = true),
            opt!("--ascii": "first replace what looks like VCL and isn't: no-break spaces, typographic quotes around texts, dashes" =>
                |o, _| o.ascii = true),
            opt!("--indent N|tab": "what a level is indented by (default: 4 spaces)" =>
                |o, args| o.indent = Some(args.parsed("`tab` or a number of spaces from 1 to 8", indent)?)),
        ],
    ),
    (
        &[Explain],
        &[
            opt!("--code": "the bytecode of each subroutine, below the lines that it comes from" => |o, _| o.code = true),
            opt!("--plain": "of --code: without the optimiser" => |o, _| o.plain = true),
            opt!("--sub NAME": "only this subroutine" => |o, args| o.sub = Some(args.text()?)),
            opt!("--builtin": "of --code: the built-in VCL's subroutines too" => |o, _| o.builtin = true),
        ],
    ),
    (&[Lsp], &[Opt::new("", &["--stdio"], "", |_, _| Ok(()))]),
];

pub(crate) fn options() -> impl Iterator<Item = (&'static [VclToolCommand], &'static Opt<VclArgs>)> {
    OPTIONS.iter().flat_map(|(commands, options)| options.iter().map(|option| (*commands, option)))
}

fn names() -> String {
    let shown = options().filter(|(_, option)| !option.is_hidden());
    shown.flat_map(|(_, option)| option.all_names()).collect::<Vec<_>>().join(" ")
}

impl VclArgs {
    /// With the release that the file of the packages chooses, where the line doesn't.
    pub fn settled(self) -> Result<VclArgs, String> {
        Ok(VclArgs { compat: Some(Compat::chosen(self.compat)?), ..self })
    }

    /// The directories as a value of `vcl_path`; Varnish's default if there are none.
    pub fn path(&self) -> String {
        if self.dirs.is_empty() { "/etc/varnish:/usr/share/varnish/vcl".to_owned() } else { self.dirs.join(":") }
    }
}

pub(crate) fn parse(words: &[String]) -> Result<VclArgs, String> {
    let mut args = VclArgs {
        command: VclToolCommand::Help,
        topic: None,
        files: Vec::new(),
        format: CheckFormat::Text,
        syntax: 41,
        dialect: None,
        compat: None,
        code: false,
        plain: false,
        builtin: false,
        sub: None,
        labels: Vec::new(),
        stores: vec!["Transient".to_owned()],
        is_part: false,
        resolve: false,
        check: false,
        diff: false,
        ascii: false,
        indent: None,
        dirs: Vec::new(),
    };
    let (first, rest) = words.split_first().ok_or("a command is missing")?;
    args.command = match first.as_str() {
        "check" => VclToolCommand::Check,
        "codes" => VclToolCommand::Codes,
        "explain" => VclToolCommand::Explain,
        "fmt" => VclToolCommand::Fmt,
        "lsp" => VclToolCommand::Lsp,
        "migrate" => VclToolCommand::Migrate,
        "help" | "--help" | "-h" | "-?" => return Ok(args),
        other => return Err(format!("no command {other:?}")),
    };
    let mut words = Words::new(rest);
    while let Some(word) = words.next()? {
        match word {
            Arg::Help => {
                args.topic = Some(std::mem::replace(&mut args.command, VclToolCommand::Help));
                return Ok(args);
            }
            Arg::Word(file) => args.files.push(file.to_owned()),
            Arg::Option(name) => match options().find(|(_, option)| option.is_in_hand(&words)) {
                Some((commands, option)) if commands.contains(&args.command) => {
                    option.take(&mut args, &mut words)?;
                }
                Some((_, option)) if !option.is_hidden() => {
                    return Err(format!("{name} isn't for this command"));
                }
                Some(_) | None => return Err(words.unknown(&names())),
            },
        }
    }
    match (&args.command, args.files.len()) {
        (VclToolCommand::Lsp, 0) => Ok(args),
        (VclToolCommand::Codes, _) => Ok(args),
        (VclToolCommand::Lsp, _) => Err("lsp takes no files: the editor names them".to_owned()),
        (_, 0) => Err("a file is missing".to_owned()),
        (VclToolCommand::Explain, 2..) => Err("explain takes one file".to_owned()),
        (VclToolCommand::Explain, _) if !args.code && (args.plain || args.builtin) => {
            Err("--plain and --builtin are for explain --code".to_owned())
        }
        (VclToolCommand::Explain, _) if args.code && args.format == CheckFormat::Json => {
            Err("--code is text only".to_owned())
        }
        (VclToolCommand::Migrate, 2..) => Err("migrate takes one file".to_owned()),
        _ => Ok(args),
    }
}

fn syntax(text: &str) -> Option<u8> {
    match text {
        "4.0" => Some(40),
        "4.1" => Some(41),
        _ => None,
    }
}

/// Parses `tab`, or a number of spaces from 1 to 8.
fn indent(text: &str) -> Option<String> {
    match text.parse::<usize>() {
        _ if text == "tab" => Some("\t".to_owned()),
        Ok(n @ 1..=8) => Some(" ".repeat(n)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Result<VclArgs, String> {
        parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn options_and_files_mix() {
        let args = of("check -I a a.vcl --format=json -Ib --syntax 4.0 -- -b.vcl").unwrap();
        assert_eq!((args.path().as_str(), args.format, args.syntax), ("a:b", CheckFormat::Json, 40));
        assert_eq!(args.files, ["a.vcl", "-b.vcl"]);
    }

    #[test]
    fn what_it_cant_do_is_said() {
        assert_eq!(of("check"), Err("a file is missing".to_owned()));
        assert_eq!(of("frob x"), Err("no command \"frob\"".to_owned()));
        assert_eq!(of("check --syntax 3.0 x"), Err("--syntax 3.0: 4.0 or 4.1 (older ones by --dialect)".to_owned()));
        assert_eq!(of("check -I"), Err("-I needs a value".to_owned()));
        assert_eq!(of("fmt --indent 9 a"), Err("--indent 9: `tab` or a number of spaces from 1 to 8".to_owned()));
        assert_eq!(of("fmt --diff=x a"), Err("--diff takes no value".to_owned()));
        assert_eq!(of("check --diff a"), Err("--diff isn't for this command".to_owned()));
        assert_eq!(of("fmt -I d a"), Err("-I isn't for this command".to_owned()));
        assert_eq!(of("fmt -Id a"), Err("-Id isn't for this command".to_owned()));
        assert_eq!(of("check --stdio a"), Err("no option --stdio (--help shows the usage)".to_owned()));
        assert!(of("lsp --stdio --vcl-dialect 3.0").is_ok());
        assert_eq!(of("fmt -- --sub").unwrap().files, ["--sub"]);
        assert_eq!(of("explain a b"), Err("explain takes one file".to_owned()));
        assert_eq!(of("migrate --dialect 2.1 x").unwrap().dialect, Some(vcl::Dialect::V21));
        assert_eq!(of("migrate --dialect 4.0 x"), Err("--dialect 4.0: 2.0, 2.1 or 3.0".to_owned()));
        assert_eq!(of("explain --sub vcl_recv a").unwrap().sub.as_deref(), Some("vcl_recv"));
    }
}
