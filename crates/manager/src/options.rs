// SPDX-License-Identifier: BSD-2-Clause
//! varnishd's command line: getopt's rules (values glued or apart, letters bundled, operands anywhere) and the checks
//! that need nothing but the arguments.

use tables::Compat;

use crate::fatal::{Fatal, argument};

/// getopt(3)'s description of the options, as `-x optstring` prints it.
pub const OPTSTRING: &str = "?a:A:b:Cdf:Fh:i:I:j:l:M:n:P:p:r:S:s:T:t:VW:x:";

/// Options of releases before 5 that 7.1 no longer has.
const OLD_OPTSTRING: &str = "g:u:w:";

/// Options of later releases.
const LATER_OPTSTRING: &str = "E:";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum StartMode {
    /// Background; the caller's process waits for the start's outcome.
    #[default]
    Daemon,
    /// -F: foreground, log lines on stderr.
    Foreground,
    /// -d: foreground, CLI on stdin and stdout, worker not started.
    Debug,
    /// -C: check the VCL, print it, end.
    PrintVcl,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VclArg {
    File(String),
    Nothing,
    Backend(String),
}

/// A setting of a parameter (-p, and -l and -t which are short for one) or its protection (-r), in the order given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParamArg {
    Set(String, String),
    /// -p without `=`: an error, but only when its turn comes.
    Malformed(String),
    /// -r: names separated by commas.
    Protect(String),
}

/// Arguments that are worked through in the order given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OrderedArg {
    Listen(String),
    Tls(String),
    Vcl(VclArg),
    CliFile(String),
    Param(ParamArg),
    Store(String),
}

#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ManagerOptions {
    pub mode: StartMode,
    pub ordered: Vec<OrderedArg>,
    pub hash: Option<String>,
    pub identity: Option<String>,
    pub jail: Option<String>,
    pub masters: Vec<String>,
    pub name: Option<String>,
    pub pid_files: Vec<String>,
    pub secret: Option<String>,
    pub cli_addresses: Vec<String>,
    pub waiter: Option<String>,
    pub acme: Vec<String>,
    pub watch: Option<String>,
    pub fleet: Option<String>,
    pub peers: Option<String>,
    /// The release that `--compat` names, or the one of a varnishtest that can't read another's log.
    pub compat: Option<Compat>,
    /// Modules that `-E` names.
    pub extensions: Vec<String>,
    /// Remarks on options of old releases that have no effect.
    pub notices: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ManagerInvocation {
    Serve(Box<ManagerOptions>),
    /// With the release that `--compat` names.
    Version(Option<Compat>),
    /// Document KIND of -x, or of --optstring, and the release that `--compat` names.
    Print(String, Option<Compat>),
}

enum Item {
    Flag(char),
    Value(char, String),
    Operand(String),
}

struct Getopt<'a> {
    args: &'a [String],
    /// Next argument, and where we are within a bundle of letters.
    next: usize,
    bundle: Vec<char>,
    only_operands: bool,
    program: &'a str,
}

impl Getopt<'_> {
    fn step(&mut self) -> Result<Option<Item>, Fatal> {
        if self.bundle.is_empty() {
            let Some(arg) = self.args.get(self.next) else { return Ok(None) };
            self.next += 1;
            if self.only_operands || arg == "-" || !arg.starts_with('-') {
                return Ok(Some(Item::Operand(arg.clone())));
            }
            if arg == "--" {
                self.only_operands = true;
                return self.step();
            }
            if let Some(long) = arg.strip_prefix("--") {
                return Err(unknown_long(long.split('=').next().unwrap_or_default()));
            }
            self.bundle = arg.chars().skip(1).collect();
            self.bundle.reverse();
        }
        let letter = self.bundle.pop().expect("a bundle has a letter");
        match kind_of(letter) {
            Some(false) => Ok(Some(Item::Flag(letter))),
            Some(true) => self.value(letter).map(|value| Some(Item::Value(letter, value))),
            None => Err(Fatal::Option(format!("{}: invalid option -- '{letter}'", self.program))),
        }
    }

    fn value(&mut self, letter: char) -> Result<String, Fatal> {
        if !self.bundle.is_empty() {
            return Ok(std::mem::take(&mut self.bundle).into_iter().rev().collect());
        }
        let Some(value) = self.args.get(self.next) else {
            return Err(Fatal::Option(format!("{}: option requires an argument -- '{letter}'", self.program)));
        };
        self.next += 1;
        Ok(value.clone())
    }
}

/// The long options; with `--help` and `--optstring`, which stand alone.
const LONG: [&str; 9] = ["acme", "bots", "compat", "fleet", "help", "optstring", "peers", "vcl-dialect", "watch"];

fn unknown_long(name: &str) -> Fatal {
    Fatal::Argument(match name {
        "help" | "optstring" => format!("--{name} must be the only argument"),
        _ if LONG.contains(&name) => format!("--{name} needs a value"),
        _ => {
            let near = base::spelling::nearest(name, LONG.into_iter());
            let near = near.map(|near| format!(": is --{near} meant?")).unwrap_or_default();
            format!("There is no option --{name}{near}")
        }
    })
}

/// True if the letter takes a value; `None` if it is no option.
fn kind_of(letter: char) -> Option<bool> {
    if letter == ':' {
        return None;
    }
    let has_value = |letters: &str| letters.find(letter).map(|at| letters[at + 1..].starts_with(':'));
    [OPTSTRING, OLD_OPTSTRING, LATER_OPTSTRING].into_iter().find_map(has_value)
}

#[derive(Default)]
struct Flags {
    debug: bool,
    foreground: bool,
    print_vcl: bool,
    backend: Option<String>,
    user: Option<String>,
    group: Option<String>,
}

/// Reads the arguments (without the program's name, which `program` gives for messages).
pub fn parse(program: &str, args: &[String]) -> Result<ManagerInvocation, Fatal> {
    if args.len() == 1 && args[0] == "--optstring" {
        return Ok(ManagerInvocation::Print("optstring".into(), None));
    }
    let LongOptions { args, acme, watch, fleet, peers, compat } = with_long(args);
    let args = &args;
    let compat = compat.map(|word| Compat::parse(&word).or_else(|reason| argument(format!("--compat: {reason}"))));
    let compat = compat.transpose()?;
    let mut getopt = Getopt { args, next: 0, bundle: Vec::new(), only_operands: false, program };
    let (mut options, mut flags) =
        (ManagerOptions { acme, watch, fleet, peers, compat, ..ManagerOptions::default() }, Flags::default());
    let mut operand = None;
    let mut first = true;
    while let Some(item) = getopt.step()? {
        match item {
            Item::Operand(text) => {
                operand.get_or_insert(text);
                continue;
            }
            Item::Flag('V') => return version(first, args.len(), compat),
            Item::Value('x', kind) => return print(first, args.len(), kind, compat),
            Item::Flag(letter) => flag(letter, &mut flags)?,
            Item::Value('w', threads) => pool_of(&threads, &mut options)?,
            Item::Value(letter, value) => store(letter, value, &mut options, &mut flags),
        }
        first = false;
    }
    if let Some(operand) = operand {
        return argument(format!("Too many arguments ({operand}...)"));
    }
    check(options, flags)
}

/// The long options that we have, and what stays for getopt.
struct LongOptions {
    /// Arguments for getopt; `--vcl-dialect` and `--bots` among them as the parameters that they stand for.
    args: Vec<String>,
    acme: Vec<String>,
    watch: Option<String>,
    fleet: Option<String>,
    peers: Option<String>,
    compat: Option<String>,
}

fn with_long(args: &[String]) -> LongOptions {
    let mut long =
        LongOptions { args: Vec::new(), acme: Vec::new(), watch: None, fleet: None, peers: None, compat: None };
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        if arg == "--" {
            long.args.push(arg.clone());
            long.args.extend(args.cloned());
            break;
        }
        let mut value_of = |option| match arg.strip_prefix(option) {
            Some("") => args.next().map(String::as_str),
            Some(value) => value.strip_prefix('='),
            None => None,
        };
        if let Some(value) = value_of("--vcl-dialect") {
            long.args.extend(["-p".to_owned(), format!("vcl_dialect={value}")]);
        } else if let Some(value) = value_of("--bots") {
            long.args.extend(["-p".to_owned(), format!("bots={value}")]);
        } else if let Some(value) = value_of("--acme") {
            long.acme.push(value.to_owned());
        } else if let Some(value) = value_of("--watch") {
            long.watch = Some(value.to_owned());
        } else if let Some(value) = value_of("--fleet") {
            long.fleet = Some(value.to_owned());
        } else if let Some(value) = value_of("--peers") {
            long.peers = Some(value.to_owned());
        } else if let Some(value) = value_of("--compat") {
            long.compat = Some(value.to_owned());
        } else {
            long.args.push(arg.clone());
        }
    }
    long
}

fn version(first: bool, count: usize, compat: Option<Compat>) -> Result<ManagerInvocation, Fatal> {
    match (first, count) {
        (false, _) => argument("-V must be the first argument"),
        (true, 1) => Ok(ManagerInvocation::Version(compat)),
        (true, _) => argument("Too many arguments for -V"),
    }
}

fn print(first: bool, count: usize, kind: String, compat: Option<Compat>) -> Result<ManagerInvocation, Fatal> {
    match (first, count) {
        (false, _) => argument("-x must be the first argument"),
        (true, 2) => Ok(ManagerInvocation::Print(kind, compat)),
        (true, _) => argument("Too many arguments for -x"),
    }
}

fn flag(letter: char, flags: &mut Flags) -> Result<(), Fatal> {
    match letter {
        'C' => flags.print_vcl = true,
        'd' => flags.debug = true,
        'F' => flags.foreground = true,
        // -? itself: the usage, without a complaint.
        _ => return Err(Fatal::Option(String::new())),
    }
    Ok(())
}

fn store(letter: char, value: String, options: &mut ManagerOptions, flags: &mut Flags) {
    let ordered = match letter {
        'a' => OrderedArg::Listen(value),
        'A' => OrderedArg::Tls(value),
        'f' if value.is_empty() => OrderedArg::Vcl(VclArg::Nothing),
        'f' => OrderedArg::Vcl(VclArg::File(value)),
        'I' => OrderedArg::CliFile(value),
        // Release 3 had more words for the log, and 4 the space for counters.
        'l' => {
            let (space, rest) =
                value.split_once(',').map_or((value.as_str(), None), |(space, rest)| (space, Some(rest)));
            if let Some(rest) = rest {
                options
                    .notices
                    .push(format!("-l: \"{rest}\" has no effect here: only the size of the log can be chosen"));
            }
            OrderedArg::Param(ParamArg::Set("vsl_space".into(), space.into()))
        }
        't' => OrderedArg::Param(ParamArg::Set("default_ttl".into(), value)),
        'p' => OrderedArg::Param(match value.split_once('=') {
            Some((name, value)) => ParamArg::Set(name.into(), value.into()),
            None => ParamArg::Malformed(value),
        }),
        'r' => OrderedArg::Param(ParamArg::Protect(value)),
        's' => OrderedArg::Store(value),
        'b' => return flags.backend = Some(value),
        'E' => return options.extensions.push(value),
        'h' => return options.hash = Some(value),
        'u' => return flags.user = Some(value),
        'g' => return flags.group = Some(value),
        'i' => return options.identity = Some(value),
        'j' => return options.jail = Some(value),
        'M' => return options.masters.push(value),
        'n' => return options.name = Some(value),
        'P' => return options.pid_files.push(value),
        'S' => return options.secret = Some(value),
        'T' => return options.cli_addresses.push(value),
        'W' => return options.waiter = Some(value),
        _ => unreachable!("kind_of knows every letter"),
    };
    options.ordered.push(ordered);
}

/// `-w MIN[,MAX[,TIMEOUT]]` of releases before 5: threads of a pool, and the seconds after which one without work ends. With one number
/// there are always as many. Numbers that the parameters don't take any more are raised to the least that they do.
fn pool_of(value: &str, options: &mut ManagerOptions) -> Result<(), Fatal> {
    let numbers: Option<Vec<u32>> = value.split(',').map(|word| word.trim().parse().ok()).collect();
    let (min, max, timeout) = match numbers.as_deref() {
        Some(&[min]) if min > 0 => (min, min, None),
        Some(&[min, max]) if 0 < min && min <= max => (min, max, None),
        Some(&[min, max, timeout]) if 0 < min && min <= max => (min, max, Some(timeout)),
        _ => {
            return argument(format!(
                "-w \"{value}\": it is MIN[,MAX[,TIMEOUT]], as 50,1000,120; today -p thread_pool_min=50 -p thread_pool_max=1000"
            ));
        }
    };
    let (least, most) = (min.max(LEAST_POOL_MIN), max.max(LEAST_POOL_MAX));
    let timeout = timeout.map(|timeout| ("thread_pool_timeout", timeout.max(LEAST_POOL_TIMEOUT)));
    // The greater one first, as each is compared with the other.
    for (name, number) in
        [Some(("thread_pool_max", most.max(least))), Some(("thread_pool_min", least)), timeout].into_iter().flatten()
    {
        options.ordered.push(OrderedArg::Param(ParamArg::Set(name.into(), number.to_string())));
    }
    Ok(())
}

const LEAST_POOL_MIN: u32 = 5;
const LEAST_POOL_MAX: u32 = 100;
const LEAST_POOL_TIMEOUT: u32 = 10;

/// `-u USER` and `-g GROUP` of releases before 5, as the jail that they were.
fn take_user(options: &mut ManagerOptions, flags: &Flags, is_root: bool) {
    if let Some(user) = &flags.user {
        match &options.jail {
            Some(_) => options.notices.push(format!("-u {user} has no effect here: -j says who serves")),
            None if is_root => options.jail = Some(format!("unix,user={user},workuser={user}")),
            None => options.notices.push(format!("-u {user} has no effect here: only root can become another user")),
        }
    }
    if let Some(group) = &flags.group {
        options.notices.push(format!("-g {group} has no effect here: the group is the login group of the user"));
    }
}

/// True for a server that varnishtest of Varnish 7.3 or earlier starts, as these parameters show: 7.4 and later log more. Unless a case says
/// something else, such a server acts as 7.1, because varnishtest can't read the log of 9.
fn is_for_old_varnishtest(ordered: &[OrderedArg]) -> bool {
    let is_set = |arg: &OrderedArg, [name, value]: [&str; 2]| matches!(arg, OrderedArg::Param(ParamArg::Set(n, v)) if n == name && v == value);
    ordered.windows(2).any(|pair| is_set(&pair[0], ["debug", "+vtc_mode"]) && is_set(&pair[1], ["vsl_mask", "+Debug"]))
}

fn check(mut options: ManagerOptions, flags: Flags) -> Result<ManagerInvocation, Fatal> {
    take_user(&mut options, &flags, sys::user::is_root());
    if options.compat.is_none() && is_for_old_varnishtest(&options.ordered) {
        options.compat = Some(Compat::V7_1);
    }
    let files = options.ordered.iter().filter(|o| matches!(o, OrderedArg::Vcl(_))).count();
    let cli_files = options.ordered.iter().filter(|o| matches!(o, OrderedArg::CliFile(_))).count();
    let has_vcl = flags.backend.is_some() || files > 0;
    if flags.backend.is_some() && files > 0 {
        return argument("Only one of -b or -f can be specified");
    }
    if flags.debug && flags.foreground {
        return argument("Only one of -d or -F can be specified");
    }
    if flags.print_vcl && !has_vcl {
        return argument("-C needs either -b <backend> or -f <vcl_file>");
    }
    if flags.debug && flags.print_vcl {
        return argument("-d makes no sense with -C");
    }
    if flags.foreground && flags.print_vcl {
        return argument("-F makes no sense with -C");
    }
    if !flags.debug && !has_vcl {
        return argument("Neither -b nor -f given. (use -f '' to override)");
    }
    if cli_files > 1 {
        return argument("\tOnly one -I allowed");
    }
    if options.ordered.iter().filter(|o| matches!(o, OrderedArg::Tls(_))).count() > 1 {
        return argument("\tOnly one -A allowed");
    }
    if let Some(backend) = flags.backend {
        options.ordered.push(OrderedArg::Vcl(VclArg::Backend(backend)));
    }
    options.mode = match (flags.print_vcl, flags.debug, flags.foreground) {
        (true, _, _) => StartMode::PrintVcl,
        (_, true, _) => StartMode::Debug,
        (_, _, true) => StartMode::Foreground,
        _ => StartMode::Daemon,
    };
    Ok(ManagerInvocation::Serve(Box::new(options)))
}

#[cfg(test)]
mod tests;
