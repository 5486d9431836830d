// SPDX-License-Identifier: BSD-2-Clause
//! Options that are declared once. A row has an option's names, its help and the code that reads its value. [`Tool`](crate::tool::Tool)
//! parses with these rows and prints them as its help, from which the manual's page and the shells' completions are made.

use crate::args::Args;

type Take<O> = fn(&mut O, &mut Args<'_>) -> Result<(), String>;

/// One option of a tool whose options are an `O`; [`opt!`](crate::opt) makes it.
pub struct Opt<O> {
    /// Names and value as the help shows them: `-c, --connections N`. Empty: the help doesn't show it.
    term: &'static str,
    /// Further names, which the help doesn't list.
    others: &'static [&'static str],
    /// The help; further lines are shown below the first. An empty first line leaves the term alone on its line.
    text: &'static str,
    /// True if a value may follow the letter at once.
    is_glued: bool,
    take: Take<O>,
}

/// A part of a help: text that is printed as it is, and the options below it.
pub type HelpPart<O> = (&'static str, &'static [Opt<O>]);

/// Declares an option: names and value as the help shows them, names that it doesn't list (`"-q" | "--quiet"`), the help, and an
/// assignment from [`Args`].
///
/// ```
/// use toolkit::opt;
/// use toolkit::options::HelpPart;
/// use toolkit::tool::Tool;
///
/// #[derive(Default)]
/// struct CountOptions {
///     files: Vec<String>,
///     top: usize,
///     is_quiet: bool,
/// }
///
/// const HELP: &[HelpPart<CountOptions>] = &[
///     (
///         "Usage: lacquer count [options] FILE...\n\nCounts lines.\n\n",
///         &[
///             opt!("--top N": "Show this many lines" => |o, args| o.top = args.number(0..=1000)?),
///             opt!("-q" | "--quiet": "Show no progress" => |o, _| o.is_quiet = true),
///         ],
///     ),
///     ("\nExample: lacquer count access.log\n", &[]),
/// ];
/// const TOOL: Tool<CountOptions> = Tool {
///     word: |o, file| Ok(o.files.push(file.to_owned())),
///     ..Tool::new("lacquer count", HELP)
/// };
///
/// let words = ["a.log", "--top=7", "--quiet"].map(str::to_owned);
/// let options = TOOL.read(CountOptions::default(), &words)?.expect("no --help");
/// assert_eq!((options.files, options.top, options.is_quiet), (vec!["a.log".to_owned()], 7, true));
/// assert!(TOOL.usage().contains("\n --top N              Show this many lines\n"));
/// # Ok::<(), String>(())
/// ```
#[macro_export]
macro_rules! opt {
    ($term:literal $(| $other:literal)* : $text:expr => |$options:pat_param, $args:pat_param| $set:expr) => {
        $crate::options::Opt::new($term, &[$($other),*], $text, |$options, $args| {
            $set;
            Ok(())
        })
    };
}

impl<O> Opt<O> {
    pub const fn new(term: &'static str, others: &'static [&'static str], text: &'static str, take: Take<O>) -> Opt<O> {
        Opt { term, others, text, is_glued: false, take }
    }

    /// The line for `-h`, as most tools have it.
    pub const HELP: Opt<O> = Opt::line("-h", "Show this help");

    /// A line that only the help has: a plain word, `-h`, or another form of an option above it.
    pub const fn line(term: &'static str, text: &'static str) -> Opt<O> {
        Opt::new(term, &[], text, |_, args| Err(args.unknown("")))
    }

    /// The option with values that may also follow its letter at once.
    pub const fn glued(self) -> Opt<O> {
        Opt { is_glued: true, ..self }
    }

    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        let names = self.term.split(", ").filter(|name| name.starts_with('-'));
        names.map(|name| name.split([' ', '=', '[']).next().unwrap_or(name))
    }

    pub fn all_names(&self) -> impl Iterator<Item = &'static str> {
        self.names().chain(self.others.iter().copied())
    }

    pub fn is_hidden(&self) -> bool {
        self.term.is_empty()
    }

    pub fn term(&self) -> &'static str {
        self.term
    }

    pub fn text(&self) -> &'static str {
        self.text
    }

    fn is_named(&self, name: &str) -> bool {
        self.all_names().any(|own| own == name)
    }

    /// True if it is the option in hand, also with its value glued to it.
    pub fn is_in_hand(&self, args: &Args<'_>) -> bool {
        self.is_named(args.name()) || self.is_glued && args.letter().is_some_and(|letter| self.is_named(letter))
    }

    pub fn take(&self, options: &mut O, args: &mut Args<'_>) -> Result<(), String> {
        if !self.is_named(args.name()) {
            args.unglue();
        }
        (self.take)(options, args)
    }

    /// Adds the lines of the help.
    pub(crate) fn show(&self, indent: usize, column: usize, out: &mut String) {
        if self.is_hidden() {
            return;
        }
        let term = format!("{:indent$}{}", "", self.term);
        let (first, more) = self.text.split_once('\n').unwrap_or((self.text, ""));
        out.push_str(&match first {
            "" => term,
            _ if term.len() < column => format!("{term:column$}{first}"),
            _ => format!("{term}  {first}"),
        });
        more.lines().for_each(|line| out.push_str(&format!("\n{:column$}{line}", "")));
        out.push('\n');
    }
}
