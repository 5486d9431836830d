// SPDX-License-Identifier: BSD-2-Clause
//! The usage text and who we say we are.

use tables::Compat;
use tables::stores;

/// Stands for the kinds of stores.
const KINDS: &str = "{kinds}";

/// Rows of the usage: option, text. A row with an empty text is a heading.
const ROWS: &[(&str, &str)] = &[
    ("Basic options", ""),
    ("-a [<name>=]address[:port][,proto]", "Listen here; repeatable. Default :80,HTTP"),
    ("   [,user=<u>][,group=<g>]", "Owner of a Unix-domain socket (address is a path)"),
    ("   [,mode=<m>]", "Its mode, octal. proto is HTTP, PROXY or HTTPS"),
    ("-A file", "TLS listeners and certificates, in hitch's format"),
    ("-b none", "No backend"),
    ("-b [http[s]://]addr[:port]|path", "One backend, instead of -f; https:// uses TLS"),
    ("-f vclfile", "VCL to load; repeatable, the last one is used; '' for none"),
    ("-n dir", "Working directory, or instance name"),
    ("Documentation options", ""),
    ("-?", "Show this help"),
    ("-V", "Show the version"),
    ("-x parameter", "Describe the parameters"),
    ("-x vsl", "Describe the log records"),
    ("-x cli", "Describe the CLI commands"),
    ("-x builtin", "Show the built-in VCL"),
    ("-x optstring", "Show the option letters"),
    ("Operations options", ""),
    ("-F", "Stay in the foreground"),
    ("-d", "Stay in the foreground with a CLI on stdin; don't start the worker"),
    ("-T address[:port]", "CLI address; repeatable; 'none' for none"),
    ("-M address:port", "Connect the CLI to this address; repeatable"),
    ("-P file", "Pid file; repeatable"),
    ("-i identity", "Name of this instance"),
    ("-I clifile", "CLI commands to run at the start"),
    ("--watch address:port[,setting...]", "Serve a dashboard there, with metrics and health checks"),
    ("   [,any-port][,token-file=<f>]", "See lacquer-watch; usually 127.0.0.1:6085"),
    ("--fleet nats://host[,setting...]", "Share bans and purges with a fleet; also tls, redis, rediss://"),
    ("   [,name=<log>][,node=<name>]", "password-file, ca, retention, ...: see the manual"),
    ("--peers name@host:port,...", "Second tier: ask the cache that owns a key before the origin"),
    ("   ,secret-file=<f>[,node=<name>]", "Also dns://host:port; see the manual"),
    ("--compat 7.1|9", "Varnish release whose texts, defaults and log format to use"),
    ("Tuning options", ""),
    ("-t TTL", "Default TTL (parameter default_ttl)"),
    ("-p param=value", "Set a parameter; repeatable"),
    ("--bots=observe|on", "Judge who crawls; a share of the backends for crawlers (parameter bots)"),
    ("--vcl-dialect=2.0|2.1|3.0", "Language of VCL files without `vcl 4.x;` (parameter vcl_dialect)"),
    ("-s [name=]kind[,options]", "Store: {kinds}; repeatable"),
    ("-l vsl", "Size of the log in shared memory (parameter vsl_space)"),
    ("--acme names[,mail@...]", "Get certificates for these names; repeatable"),
    ("   [,key=value...]", "directory, state-dir, challenge, ...: see the manual"),
    ("Security options", ""),
    ("-r param[,param...]", "Protect parameters against the CLI; repeatable"),
    ("-S secret-file", "Secret for the CLI; 'none' for no authentication"),
    ("-j jail[,options]", "Jail: unix[,user=][,workuser=][,ccgroup=] or none"),
    ("Other options", ""),
    ("-C", "Check the VCL, print it and exit"),
    ("-h kind[,options]", "Accepted; there is only one kind of index here"),
    ("-W waiter", "Accepted; there is only one waiter here"),
];

pub fn usage(program: &str) -> String {
    let mut text = format!("Usage: {program} [options]\n");
    let kinds = stores::listed(stores::all_words(), "or");
    for (option, what) in ROWS {
        if what.is_empty() {
            text.push_str(&format!("\n{option}:\n"));
        } else {
            text.push_str(&format!("  {option:<28} # {}\n", what.replace(KINDS, &kinds)));
        }
    }
    text
}

pub const OWN_VERSION: &str = concat!("Lacquer ", env!("CARGO_PKG_VERSION"));

/// The revision to show: forty hex digits, as scripts that parse the line expect.
pub const REVISION: &str = match option_env!("LACQUER_REVISION") {
    Some(revision) => revision,
    None => "0000000000000000000000000000000000000000",
};

/// `varnish-7.1.1 revision <sha>`, as in the banner and in log lines.
pub fn version_string(compat: Compat) -> String {
    format!("{} revision {REVISION}", compat.version())
}

/// Our name and version, and the release that `--compat` chose.
pub fn own_version(compat: Compat) -> String {
    format!("{OWN_VERSION} --compat {compat}")
}

pub fn version_text(program: &str, compat: Compat) -> String {
    let year = match compat {
        Compat::V7_1 => 2022,
        Compat::V9 => 2026,
    };
    format!(
        "{program} ({})\nCopyright (c) 2006 Verdens Gang AS\nCopyright (c) 2006-{year} Varnish Software\n\
         {OWN_VERSION}: an independent implementation, compatible with the version named above (--compat {compat})\n",
        version_string(compat)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_is_in_the_usage() {
        let text = usage("varnishd");
        assert!(text.starts_with("Usage: varnishd [options]\n"));
        for letter in crate::options::OPTSTRING.chars().filter(|c| *c != ':') {
            assert!(text.contains(&format!("\n  -{letter} ")), "-{letter}");
        }
        assert!(text.contains("# Store: malloc, default, file or persistent; repeatable\n"));
    }

    #[test]
    fn the_version_reads_like_varnishs() {
        for (compat, start) in
            [(Compat::V7_1, "varnishd (varnish-7.1.1 revision "), (Compat::V9, "varnishd (varnish-9.0.2 revision ")]
        {
            let text = version_text("varnishd", compat);
            assert!(text.starts_with(start) && text.contains(&format!("(--compat {compat})")), "{text}");
        }
    }
}
