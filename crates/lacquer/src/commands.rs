// SPDX-License-Identifier: BSD-2-Clause
//! The commands of `lacquer`, each once: its name, what it is for, its page, what runs it. Help, manual and the programs of
//! Varnish's names come from here.

use toolkit::print;

/// The function that runs a command: its name as messages give it, its arguments; the result is the exit status.
type Main = fn(&str, &[String]) -> i32;

pub struct Subcommand {
    /// The word after `lacquer`.
    pub name: &'static str,
    /// The program of Varnish's that it is.
    pub program: Option<&'static str>,
    pub page: &'static str,
    pub text: &'static str,
    /// Runs it. With `--help` alone it prints its help on standard output and gives 0.
    pub run: Main,
}

pub const COMMANDS: &[Subcommand] = &[
    command("serve", Some("varnishd"), "varnishd", "run the cache, with varnishd's options", serve),
    command("demo", None, "lacquer-demo", "run a demo site with a cache in front of it", |_, args| {
        lacquer_demo::main(args)
    }),
    command("log", Some("varnishlog"), "varnishlog", "show or store the log", lacquer_log::main),
    command("json", Some("varnishlog-json"), "varnishlog-json", "print requests as JSON", lacquer_log::json::main),
    command("ncsa", Some("varnishncsa"), "varnishncsa", "print an access log", lacquer_ncsa::main),
    command("stat", Some("varnishstat"), "varnishstat", "show the counters", lacquer_stat::main),
    command("top", Some("varnishtop"), "varnishtop", "count the most frequent log entries", lacquer_top::main),
    command("hist", Some("varnishhist"), "varnishhist", "draw the distribution of times and sizes", lacquer_hist::main),
    command("adm", Some("varnishadm"), "varnishadm", "send commands to a running server", lacquer_adm::main),
    command("status", None, "lacquer-status", "summarise a running server", |_, args| {
        lacquer_adm::status::main(args, lacquer_doctor::gravest)
    }),
    command("explain", None, "lacquer-explain", "say whether a URL would be a hit, and if not, why", |_, args| {
        lacquer_adm::explain::main(args)
    }),
    command("memory", None, "lacquer-memory", "show what uses a running server's memory", |_, args| {
        lacquer_adm::memory::main(args)
    }),
    command("store", None, "lacquer-store", "show and verify the content of a store on disk", |_, args| {
        lacquer_store::main(args)
    }),
    command("fleet", None, "lacquer-fleet", "show a fleet's nodes; roll VCL out to them in stages", |_, args| {
        lacquer_adm::fleet::main(args)
    }),
    command("tls", None, "lacquer-tls", "list a running server's certificates and their expiry", |_, args| {
        lacquer_adm::tls::main(args)
    }),
    command("drain", None, "lacquer-drain", "take a running server out of service", |_, args| {
        lacquer_adm::drain::main(args)
    }),
    command("upgrade", None, "lacquer-upgrade", "switch a running server to the installed program", |_, args| {
        lacquer_adm::upgrade::main(args)
    }),
    command("watch", None, "lacquer-watch", "serve a dashboard, metrics and health checks", |_, args| {
        lacquer_watch::main(args, lacquer_doctor::findings)
    }),
    command("replay", None, "lacquer-replay", "send a log's requests to a server and measure it", |_, args| {
        lacquer_replay::main(args)
    }),
    command("probe", None, "lacquer-probe", "find packet loss on the way to a server", |_, args| {
        lacquer_probe::main(args)
    }),
    command("asn", None, "lacquer-asn", "list the networks that a site's visitors come from", |_, args| {
        lacquer_asn::main(args)
    }),
    command("simulate", None, "lacquer-simulate", "calculate hit rates for cache sizes from a log", |_, args| {
        lacquer_simulate::main(args)
    }),
    command("talkers", None, "lacquer-talkers", "list the clients or URLs with most requests or bytes", |_, args| {
        lacquer_talkers::main(args)
    }),
    command("doctor", None, "lacquer-doctor", "find faults of the machine and the server", |_, args| {
        lacquer_doctor::main(args)
    }),
    command("plan", None, "lacquer-plan", "estimate the load that backend workers can handle", |_, args| {
        lacquer_plan::main(args)
    }),
    command(
        "trace",
        None,
        "lacquer-trace",
        "send requests as traces to an OpenTelemetry collector",
        lacquer_trace::main,
    ),
    command("vcl", None, "lacquer-vcl", "check, format, explain, profile and migrate VCL", vcl),
    command(
        "migrate",
        None,
        "lacquer-migrate",
        "convert configurations of nginx, Apache, squid and Varnish",
        |_, args| lacquer_migrate::main(args, crate::modules::MODULES),
    ),
    command("selftest", None, "lacquer-selftest", "check this installation in a few seconds", |_, args| {
        lacquer_selftest::main(args)
    }),
    command("statsd", None, "lacquer-statsd", "run a statsd server", |_, args| lacquer_statsd::main(args)),
    command("munin", None, "lacquer-munin", "act as a Munin plugin for the counters", |_, args| {
        lacquer_statsd::munin("lacquer", args)
    }),
    command("man", None, "lacquer-man", "show a page of the manual, or write all to files", |_, args| {
        crate::man::main(args)
    }),
    command("help", None, "lacquer", "show this text, or a command's help: help COMMAND", |_, args| help(args)),
];

/// Programs that will be part of this binary and aren't yet: the name, the command.
const LATER: &[(&str, &str)] = &[("varnishtest", "test")];

const fn command(
    name: &'static str,
    program: Option<&'static str>,
    page: &'static str,
    text: &'static str,
    run: Main,
) -> Subcommand {
    Subcommand { name, program, page, text, run }
}

/// The command of that name, or that a program of Varnish's is.
pub fn find(name: &str) -> Option<&'static Subcommand> {
    COMMANDS.iter().find(|command| command.name == name).or_else(|| of_program(name))
}

/// The command that a program of Varnish's or Vinyl Cache's name is.
pub fn of_program(name: &str) -> Option<&'static Subcommand> {
    COMMANDS.iter().find(|command| command.program.is_some_and(|program| is_named(program, name)))
}

/// True of a program's name, and of the one that Vinyl Cache has given it: `vinyllog` is `varnishlog`.
fn is_named(program: &str, name: &str) -> bool {
    let rest = |name: &'_ str, begin: &str| name.strip_prefix(begin).map(str::to_owned);
    program == name || rest(name, "vinyl").is_some_and(|own| rest(program, "varnish") == Some(own))
}

/// The line that the help of a program of Vinyl Cache's name ends with.
pub fn other_name(name: &str) -> Option<String> {
    let own = name.strip_prefix("vinyl")?;
    Some(format!("\n{name} is Vinyl Cache's name for varnish{own}, which has the manual: lacquer man varnish{own}\n"))
}

/// True of a command line that asks for the help alone.
pub fn asks_help(args: &[String]) -> bool {
    matches!(args, [word] if matches!(word.as_str(), "--help" | "-h" | "-?"))
}

pub fn is_later(name: &str) -> bool {
    LATER.iter().any(|(program, command)| *command == name || is_named(program, name))
}

pub fn list() -> String {
    let mut text = "Usage: lacquer COMMAND [options]\n\n".to_owned();
    for Subcommand { name, program, text: what, .. } in COMMANDS {
        let is = program.map(|program| format!(" ({program})")).unwrap_or_default();
        text.push_str(&format!("  {name:<9} {what}{is}\n"));
    }
    text.push_str("  --version print the version\n\n");
    text.push_str("lacquer help COMMAND lists its options, lacquer man COMMAND shows its manual.\n");
    text.push_str("A link to this program with a name in brackets runs that command.\n");
    text
}

/// The text of `lacquer` alone: the first steps that people take. A test of the suite `help` runs these lines.
pub const FIRST: &str = "\
Usage: lacquer COMMAND [options]

See a cache at work, in front of a demo site:
  lacquer demo

Cache a web server on port 8080 (-n: a directory for the log):
  lacquer serve -F -n /tmp/lacquer -a 127.0.0.1:6081 -b 127.0.0.1:8080

Coming from Varnish, nginx, Apache or squid? Check or convert the configuration:
  lacquer vcl check /etc/varnish/default.vcl
  lacquer migrate nginx /etc/nginx/nginx.conf

lacquer help lists all commands, lacquer man varnishd is the manual.
";

/// `lacquer help [COMMAND [WORD]]`: exit status.
pub fn help(words: &[String]) -> i32 {
    match words {
        [] => {
            print::out(list());
            0
        }
        // help, --help and so on of themselves
        [word] if word == "help" || word.starts_with('-') => help(&[]),
        [name, rest @ ..] => match find(name) {
            Some(command) => {
                let mut args = rest.to_vec();
                args.push("--help".to_owned());
                (command.run)(&format!("lacquer {}", command.name), &args)
            }
            None if is_later(name) => refuse(name),
            None => unknown(name),
        },
    }
}

/// Words that other programs have as commands, with the line to type here.
const ELSEWHERE: [(&str, &str); 6] = [
    ("start", "`systemctl start varnish` starts the service, `lacquer serve` a server of your own"),
    (
        "stop",
        "`systemctl stop varnish` stops the service, Ctrl-C a server in the foreground, `kill` one in the background (`varnishadm pid` shows its Master)",
    ),
    (
        "restart",
        "`systemctl restart varnish` restarts the service; `lacquer upgrade` switches to another program without a pause",
    ),
    ("reload", "`varnishreload` loads the changed VCL"),
    ("ban", "`varnishadm ban 'req.url ~ ^/news'` bans these pages"),
    ("purge", "`varnishadm ban 'req.url == /page'` removes a page"),
];

/// Says that there is no such command, and which may be meant: exit status.
pub fn unknown(name: &str) -> i32 {
    let what = if name.starts_with('-') { "option" } else { "command" };
    let names = COMMANDS.iter().flat_map(|command| [Some(command.name), command.program]).flatten();
    let near = match ELSEWHERE.iter().find(|(word, _)| *word == name) {
        Some((_, line)) => format!(": {line}"),
        None => meant(name, names),
    };
    print::err(format_args!("lacquer: no {what} {name:?}{near}\n`lacquer help` lists the commands.\n"));
    2
}

/// The words of `names` that may be meant, to go on in the message that `word` is none of them.
pub fn meant<'n>(word: &str, names: impl Iterator<Item = &'n str>) -> String {
    let near = base::spelling::nearest(word, names);
    near.map(|near| format!(": is {near:?} meant?")).unwrap_or_default()
}

pub fn refuse(what: &str) -> i32 {
    print::err(format_args!("{what} isn't built yet; Varnish's own tools work with this server\n"));
    2
}

fn serve(name: &str, args: &[String]) -> i32 {
    // varnishd has no such long option: this one is lacquer's.
    if args == ["--help"] {
        print::out(manager::usage::usage(name));
        return 0;
    }
    manager::main(name, args, crate::modules::MODULES)
}

fn vcl(_: &str, args: &[String]) -> i32 {
    if let [help, command] = args
        && help == "help"
    {
        return vcl("", &[command.clone(), "--help".to_owned()]);
    }
    // The one of them that asks a running server.
    if args.first().is_some_and(|word| word == "profile") {
        return lacquer_adm::profile::main(&args[1..]);
    }
    lacquer_vcl::main(args, crate::modules::MODULES, &|path| Box::new(manager::checker::DiskSources::new(path)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_names_each_command_once_and_fits_a_terminal() {
        let text = list();
        for command in COMMANDS {
            assert_eq!(text.matches(&format!("\n  {} ", command.name)).count(), 1, "{}", command.name);
        }
        for line in text.lines().chain(FIRST.lines()) {
            assert!(line.len() <= 80, "{line}");
        }
    }

    #[test]
    fn programs_have_the_names_of_vinyl_cache_too() {
        for command in COMMANDS.iter().filter(|command| command.program.is_some()) {
            let program = command.program.expect("it was asked for");
            let vinyl = program.replace("varnish", "vinyl");
            assert_eq!(of_program(&vinyl).map(|found| found.name), Some(command.name), "{vinyl}");
            assert!(other_name(&vinyl).is_some_and(|text| text.contains(program)), "{vinyl}");
            assert_eq!(other_name(program), None);
        }
        assert!(is_later("vinyltest") && !is_later("vinyllog"));
        for name in ["vinyl", "vinylx", "vinyl-cache", "vinylvarnishd", "d"] {
            assert!(of_program(name).is_none(), "{name}");
        }
    }

    #[test]
    fn each_command_has_a_page() {
        for command in COMMANDS {
            assert!(crate::man::page(command.name).is_some(), "{}", command.name);
        }
    }
}
