// SPDX-License-Identifier: BSD-2-Clause
//! The commands of `lacquer`, each once: its name, what it is for, its page, what runs it. Help, manual and the programs of
//! Varnish's names come from here.

use toolkit::print;

/// What runs a command: its name as messages give it, its arguments; the result is the exit status.
type Main = fn(&str, &[String]) -> i32;

/// A command.
pub struct Command {
    /// `lacquer NAME`.
    pub name: &'static str,
    /// The program of Varnish's that it is.
    pub program: Option<&'static str>,
    /// Its page of the manual.
    pub page: &'static str,
    /// What it is for.
    pub text: &'static str,
    /// Runs it. With `--help` alone it prints its help on standard output and gives 0.
    pub run: Main,
}

/// In the order of the help.
pub const COMMANDS: &[Command] = &[
    command("serve", Some("varnishd"), "varnishd", "the accelerator, with varnishd's options", serve),
    command("demo", None, "lacquer-demo", "a web site and the cache before it, to see it at work", |_, args| {
        lacquer_demo::main(args)
    }),
    command("log", Some("varnishlog"), "varnishlog", "show the log", lacquer_log::main),
    command(
        "ncsa",
        Some("varnishncsa"),
        "varnishncsa",
        "a line per request, as web servers write them",
        lacquer_ncsa::main,
    ),
    command("stat", Some("varnishstat"), "varnishstat", "the counters", lacquer_stat::main),
    command(
        "top",
        Some("varnishtop"),
        "varnishtop",
        "the log's commonest entries; with --by, who asks most",
        lacquer_top::main,
    ),
    command("hist", Some("varnishhist"), "varnishhist", "how times and sizes are distributed", lacquer_hist::main),
    command("adm", Some("varnishadm"), "varnishadm", "commands to a running server", lacquer_adm::main),
    command("status", None, "lacquer-status", "how a running server was started and how it fares", |_, args| {
        lacquer_adm::status::main(args, lacquer_doctor::gravest)
    }),
    command("explain", None, "lacquer-explain", "would this URL be a hit, and if not, why", |_, args| {
        lacquer_adm::explain::main(args)
    }),
    command("memory", None, "lacquer-memory", "who holds how much of a running server's memory", |_, args| {
        lacquer_adm::memory::main(args)
    }),
    command("store", None, "lacquer-store", "what is in a store on disk, and whether it is whole", |_, args| {
        lacquer_store::main(args)
    }),
    command(
        "fleet",
        None,
        "lacquer-fleet",
        "how the nodes of a fleet fare; roll VCL out to them in stages",
        |_, args| lacquer_adm::fleet::main(args),
    ),
    command("tls", None, "lacquer-tls", "the certificates of a running server, and when they expire", |_, args| {
        lacquer_adm::tls::main(args)
    }),
    command(
        "upgrade",
        None,
        "lacquer-upgrade",
        "go on as the program that is installed now, without a pause",
        |_, args| lacquer_adm::upgrade::main(args),
    ),
    command("watch", None, "lacquer-watch", "a page, metrics and health of a running server", |_, args| {
        lacquer_watch::main(args)
    }),
    command("replay", None, "lacquer-replay", "send a log's requests to a server and measure it", |_, args| {
        lacquer_replay::main(args)
    }),
    command("probe", None, "lacquer-probe", "are packets lost on the way to a server", |_, args| {
        lacquer_probe::main(args)
    }),
    command("asn", None, "lacquer-asn", "which networks the readers of a site come from", |_, args| {
        lacquer_asn::main(args)
    }),
    command("simulate", None, "lacquer-simulate", "how large must the cache be, by a log", |_, args| {
        lacquer_simulate::main(args)
    }),
    command("talkers", None, "lacquer-talkers", "who asks most, of a running server or in a log", |_, args| {
        lacquer_talkers::main(args)
    }),
    command("doctor", None, "lacquer-doctor", "what is wrong with this machine and its server", |_, args| {
        lacquer_doctor::main(args)
    }),
    command("plan", None, "lacquer-plan", "how much load workers can bear, and how much memory", |_, args| {
        lacquer_plan::main(args)
    }),
    command("trace", None, "lacquer-trace", "requests as traces for a collector of OpenTelemetry", lacquer_trace::main),
    command("vcl", None, "lacquer-vcl", "check VCL files, lay them out, migrate old ones", vcl),
    command("migrate", None, "lacquer-migrate", "VCL from a configuration of nginx, Apache or squid", |_, args| {
        lacquer_migrate::main(args)
    }),
    command("selftest", None, "lacquer-selftest", "is this installation whole, in some seconds", |_, args| {
        lacquer_selftest::main(args)
    }),
    command("statsd", None, "lacquer-statsd", "a metrics server in the place of node's statsd", |_, args| {
        lacquer_statsd::main(args)
    }),
    command("munin", None, "lacquer-munin", "a Munin plugin for the counters of either server", |_, args| {
        lacquer_statsd::munin("lacquer", args)
    }),
    command("man", None, "lacquer-man", "the manual: its pages, one of them, or all as files", |_, args| {
        crate::man::main(args)
    }),
    command("help", None, "lacquer", "this text, or what a command takes: help COMMAND", |_, args| help(args)),
];

/// Programs that will be part of this binary and aren't yet: the name, the command.
const LATER: &[(&str, &str)] = &[("varnishtest", "test")];

const fn command(
    name: &'static str,
    program: Option<&'static str>,
    page: &'static str,
    text: &'static str,
    run: Main,
) -> Command {
    Command { name, program, page, text, run }
}

/// The command of that name, or that a program of Varnish's is.
pub fn find(name: &str) -> Option<&'static Command> {
    COMMANDS.iter().find(|command| command.name == name || command.program == Some(name))
}

/// Whether it will be a command, or a program, and isn't yet.
pub fn is_later(name: &str) -> bool {
    LATER.iter().any(|(program, command)| [*program, *command].contains(&name))
}

/// What `lacquer help` prints.
pub fn list() -> String {
    let mut text = "Usage: lacquer COMMAND [options]\n\n".to_owned();
    for Command { name, program, text: what, .. } in COMMANDS {
        let is = program.map(|program| format!(" ({program})")).unwrap_or_default();
        text.push_str(&format!("  {name:<9} {what}{is}\n"));
    }
    text.push_str("  --version who this is\n\n");
    text.push_str("lacquer help COMMAND says what one takes, lacquer man COMMAND is its manual.\n");
    text.push_str("Under a name in brackets this program is that command alone, as a link to it is.\n");
    text
}

/// What `lacquer` alone says: what people do first. A test of the suite `help` runs these lines.
pub const FIRST: &str = "\
Usage: lacquer COMMAND [options]

See a cache at work, with a site of its own before it:
  lacquer demo

Cache what a web server has, here one on port 8080 (-n: a place for its log):
  lacquer serve -F -n /tmp/lacquer -a 127.0.0.1:6081 -b 127.0.0.1:8080

Come from Varnish, nginx, Apache or squid: what of a configuration holds here.
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

/// Says that there is no such command, and which may be meant: exit status.
pub fn unknown(name: &str) -> i32 {
    let what = if name.starts_with('-') { "option" } else { "command" };
    let names = COMMANDS.iter().flat_map(|command| [Some(command.name), command.program]).flatten();
    let near = meant(name, names);
    print::err(format_args!("lacquer: no {what} {name:?}{near}\n`lacquer help` lists the commands.\n"));
    2
}

/// Which of `names` may be meant, to go on in the message that `word` is none of them.
pub fn meant<'n>(word: &str, names: impl Iterator<Item = &'n str>) -> String {
    let near = base::spelling::nearest(word, names, word.len() / 3 + 1);
    near.map(|near| format!(": is {near:?} meant?")).unwrap_or_default()
}

/// Says that a program isn't there yet: exit status.
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
    manager::main(name, args)
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
    fn each_command_has_a_page() {
        for command in COMMANDS {
            assert!(crate::man::page(command.name).is_some(), "{}", command.name);
        }
    }
}
