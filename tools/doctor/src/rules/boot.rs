// SPDX-License-Identifier: BSD-2-Clause
//! Rules about what runs now and what the next boot makes of it: kernels, drivers, settings, modules.

use std::collections::{BTreeMap, BTreeSet};

use crate::host::{Host, sysctl_path};
use crate::rule::{Area, Finding, Rule, Severity, found, found_at};

/// Directories of settings, the first that has a file of a name hides the others' (sysctl.d(5), modules-load.d(5)).
const DIRS: [&str; 5] = ["etc", "run", "usr/local/lib", "usr/lib", "lib"];
/// Bytes of a module's file that are looked at.
const MOST_MODULE: u64 = 64 << 20;

pub const RULES: &[Rule] = &[
    Rule {
        id: "kernel-not-running",
        area: Area::Host,
        severity: Severity::Notice,
        what: "A later kernel is installed than the one that runs",
        why: "What it fixes isn't fixed yet, and whatever it breaks breaks at the next boot, which may come at the worst time: by a crash.",
        remedy: &["(boot it at a time of your own choice, one machine first)"],
        evidence: "/boot/vmlinuz-*, else /lib/modules/*, later than /proc/sys/kernel/osrelease and of its flavour; not looked at in a container",
        look: |facts| {
            let host = &facts.host;
            refuse_container(host)?;
            let release = host.needs("proc/sys/kernel/osrelease")?;
            let (running, flavour) = version(release.trim());
            let boot =
                host.names("boot").into_iter().filter_map(|name| Some(name.strip_prefix("vmlinuz-")?.to_owned()));
            let mut installed: Vec<String> = boot.collect();
            if installed.is_empty() {
                installed = host.names("lib/modules");
            }
            let later = installed.into_iter().filter(|name| {
                let (numbers, of) = version(name);
                of == flavour && !name.contains("rescue") && numbers > running
            });
            let last = later.max_by_key(|name| version(name).0);
            Ok(last.map(|name| found(format!("{name} is installed, {} runs", release.trim()))).into_iter().collect())
        },
    },
    Rule {
        id: "driver-not-running",
        area: Area::Host,
        severity: Severity::Notice,
        what: "The driver {} is installed in another version than the one that runs",
        why: "A driver that was upgraded serves from the next boot on, or when it is loaded again: what it fixes isn't fixed yet, and what it breaks \
              comes as a surprise.",
        remedy: &["modinfo {} | grep version    # installed", "cat /sys/module/{}/srcversion    # running"],
        evidence: "/sys/module/DRIVER/srcversion of the interfaces' drivers, and srcversion in /lib/modules/RELEASE (files that aren't compressed)",
        look: |facts| {
            let host = &facts.host;
            let release = host.needs("proc/sys/kernel/osrelease")?;
            let dir = format!("lib/modules/{}", release.trim());
            let Some(files) = host.text(&format!("{dir}/modules.dep")) else { return Ok(Vec::new()) };
            let interfaces = host.names("sys/class/net");
            let drivers: BTreeSet<String> =
                interfaces.iter().filter_map(|interface| super::network::driver(host, interface)).collect();
            let of_driver = |driver: String| {
                let runs = host.text(&format!("sys/module/{driver}/srcversion"))?.trim().to_owned();
                let mut paths = files.lines().filter_map(|line| line.split(':').next());
                let path =
                    paths.find(|path| module(path.rsplit('/').next().unwrap_or_default()) == format!("{driver}.ko"))?;
                let bytes = host.bytes(&format!("{dir}/{path}"), MOST_MODULE)?;
                let at = memchr::memmem::find(&bytes, b"\0srcversion=")? + b"\0srcversion=".len();
                let installed = String::from_utf8_lossy(bytes[at..].split(|b| *b == 0).next()?).into_owned();
                let differs = installed != runs;
                differs.then(|| found_at(driver, format!("{runs} runs, /{dir}/{path} has {installed}")))
            };
            Ok(drivers.into_iter().filter_map(of_driver).collect())
        },
    },
    Rule {
        id: "sysctl-not-kept",
        area: Area::Host,
        severity: Severity::Warning,
        what: "The next boot changes the setting {}",
        why: "It was changed by hand, or its file was changed and never applied. The machine works now, and works differently after a boot that \
              nobody connects with it.",
        remedy: &[
            "sysctl {}    # which of the two is right?",
            "echo '{} = VALUE' > /etc/sysctl.d/99-local.conf    # to keep what is so now",
            "sysctl --system    # to have what the files say",
        ],
        evidence: "/etc/sysctl.d/*.conf and those of /run, /usr/local/lib, /usr/lib and /lib, in systemd's order (others than systemd read /etc/sysctl.conf, too), and /proc/sys; not looked at in a container",
        look: |facts| {
            let host = &facts.host;
            refuse_container(host)?;
            if !host.has("proc/sys") {
                return Err("/proc/sys can't be read".into());
            }
            let changed = |(name, (value, file)): (String, (String, String))| {
                let now = words(&host.text(&sysctl_path(&name).replace('\u{1}', "."))?);
                let differs = now != value;
                differs.then(|| found_at(name.replace('\u{1}', "."), format!("it is {now} now, /{file} says {value}")))
            };
            Ok(settings(host).into_iter().filter_map(changed).collect())
        },
    },
    Rule {
        id: "module-not-kept",
        area: Area::Host,
        severity: Severity::Warning,
        what: "The next boot changes the kernel's module {}",
        why: "A module that was unloaded by hand comes back, one that is kept from being loaded is gone, and options that were written down take \
              effect: conntrack that was switched off for good reasons is on again, for example.",
        remedy: &[
            "grep -r {} /etc/modules /etc/modules-load.d /etc/modprobe.d",
            "(change the file, or load or unload the module now, to see what the boot will do)",
        ],
        evidence: "modules-load.d and /etc/modules, but not loaded; modprobe.d: blacklist or install with false or true, but loaded; options other than /sys/module/*/parameters",
        look: |facts| {
            let host = &facts.host;
            refuse_container(host)?;
            let loaded = host.needs("proc/modules")?;
            let loaded: BTreeSet<&str> = loaded.lines().filter_map(|line| line.split(' ').next()).collect();
            // What is built in has a directory, too.
            let is_there = |name: &str| loaded.contains(name) || host.has(&format!("sys/module/{name}"));
            let mut findings = Vec::new();
            let mut wanted = files(host, "modules-load.d");
            wanted.push("etc/modules".to_owned());
            let rules = lines(host, &files(host, "modprobe.d"));
            let is_kept_out = |name: &str| rules.iter().any(|(_, line)| keeps_out(line).as_deref() == Some(name));
            for (file, line) in lines(host, &wanted) {
                let name = module(&line);
                if !is_there(&name) && !is_kept_out(&name) {
                    findings.push(found_at(name, format!("/{file} has it loaded, and it isn't")));
                }
            }
            for (file, line) in &rules {
                if let Some(name) = keeps_out(line).filter(|name| loaded.contains(name.as_str())) {
                    findings.push(found_at(name, format!("/{file} keeps it from being loaded, and it is: {line}")));
                }
                findings.extend(options(host, file, line).filter(|finding| loaded.contains(finding.subject.as_str())));
            }
            findings.sort_by(|a, b| a.subject.cmp(&b.subject));
            findings.dedup_by(|a, b| a.subject == b.subject);
            Ok(findings)
        },
    },
];

fn refuse_container(host: &Host) -> Result<(), String> {
    host.needs("proc/1/comm")?;
    if super::system::is_container(host) { Err("this is a container, which its host boots".into()) } else { Ok(()) }
}

/// The numbers of a kernel's release, and its flavour: `6.1.0-18-cloud-amd64` is `[6, 1, 0, 18]` and `cloud-amd64`.
fn version(release: &str) -> (Vec<u64>, String) {
    let is_number = |part: &&str| part.starts_with(|c: char| c.is_ascii_digit());
    let parts: Vec<&str> = release.split('-').collect();
    let numbers = parts.iter().copied().filter(is_number).flat_map(|part| part.split(|c: char| !c.is_ascii_digit()));
    let flavour: Vec<&str> = parts.iter().copied().filter(|part| !is_number(part)).collect();
    (numbers.filter_map(|number| number.parse().ok()).collect(), flavour.join("-"))
}

fn module(name: &str) -> String {
    name.trim().replace('-', "_")
}

/// Files of a kind in the order in which they are read: by name, whatever their directory.
fn files(host: &Host, kind: &str) -> Vec<String> {
    let mut by_name: BTreeMap<String, String> = BTreeMap::new();
    for dir in DIRS {
        for name in host.names(&format!("{dir}/{kind}")).into_iter().filter(|name| name.ends_with(".conf")) {
            by_name.entry(name.clone()).or_insert_with(|| format!("{dir}/{kind}/{name}"));
        }
    }
    by_name.into_values().collect()
}

/// Lines that say something, each with its file.
fn lines(host: &Host, files: &[String]) -> Vec<(String, String)> {
    let texts = files.iter().filter_map(|file| Some((file, host.text(file)?)));
    let of_file = |(file, text): (&String, String)| {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with(['#', ';']));
        lines.map(|line| (file.clone(), line.to_owned())).collect::<Vec<_>>()
    };
    texts.flat_map(of_file).collect()
}

fn words(text: &str) -> String {
    text.split_ascii_whitespace().collect::<Vec<_>>().join(" ")
}

/// Kernel settings from the files, each with the file that has the last word. A dot within a name (of an interface) is
/// stored as `\u{1}`.
fn settings(host: &Host) -> BTreeMap<String, (String, String)> {
    let mut files = files(host, "sysctl.d");
    if host.text("proc/1/comm").is_some_and(|name| name.trim() != "systemd") {
        files.push("etc/sysctl.conf".to_owned());
    }
    let mut settings = BTreeMap::new();
    for (file, line) in lines(host, &files) {
        // A failure to set it is ignored behind a dash; a name alone is an exception from a pattern.
        let line = line.trim_start_matches('-');
        let Some((name, value)) = line.split_once('=').filter(|(name, _)| !name.contains('*')) else { continue };
        let name = name.trim();
        let first = name.find(['.', '/']).map(|at| &name[at..=at]);
        let name =
            if first == Some("/") { name.replace('.', "\u{1}").replace('/', ".") } else { name.replace('/', "\u{1}") };
        settings.insert(name, (words(value), file));
    }
    settings
}

/// The module that a line of modprobe.d keeps out.
fn keeps_out(line: &str) -> Option<String> {
    match line.split_ascii_whitespace().collect::<Vec<_>>()[..] {
        ["blacklist", name] => Some(module(name)),
        ["install", name, program] if program.ends_with("/false") || program.ends_with("/true") => Some(module(name)),
        _ => None,
    }
}

/// Options of a line of modprobe.d that aren't those of the module now.
fn options<'a>(host: &'a Host, file: &'a str, line: &'a str) -> impl Iterator<Item = Finding> + 'a {
    let mut words = line.split_ascii_whitespace();
    let is_options = words.next() == Some("options");
    let name = words.next().filter(|_| is_options).map(module).unwrap_or_default();
    words.filter(move |_| is_options).filter_map(move |option| {
        let (parameter, wanted) = option.split_once('=')?;
        let now = host.text(&format!("sys/module/{name}/parameters/{parameter}"))?;
        let flag = |text: &str| match text.trim() {
            "Y" | "y" => "1".to_owned(),
            "N" | "n" => "0".to_owned(),
            other => other.to_owned(),
        };
        let differs = flag(&now) != flag(wanted);
        differs.then(|| found_at(name.clone(), format!("{parameter} is {} now, /{file} says {wanted}", now.trim())))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_are_compared_within_their_flavour() {
        let of = |release: &str| version(release);
        assert_eq!(of("6.1.0-18-cloud-amd64"), (vec![6, 1, 0, 18], "cloud-amd64".to_owned()));
        assert!(of("6.1.0-21-amd64").0 > of("6.1.0-18-amd64").0 && of("6.10.1").0 > of("6.9.12").0);
        assert!(of("5.14.0-427.el9.x86_64").0 > of("5.14.0-362.18.1.el9.x86_64").0);
        assert_ne!(of("6.1.0-21-rt-amd64").1, of("6.1.0-18-amd64").1);
    }

    #[test]
    fn lines_of_modprobe() {
        assert_eq!(keeps_out("blacklist nf-conntrack").as_deref(), Some("nf_conntrack"));
        assert_eq!(keeps_out("install nf_conntrack /bin/false").as_deref(), Some("nf_conntrack"));
        assert_eq!(keeps_out("install bond0 /sbin/modprobe bonding"), None);
        assert_eq!(keeps_out("options bnx2 disable_msi=1"), None);
    }
}
