// SPDX-License-Identifier: BSD-2-Clause
//! The facts on one screen: a word at the left, what there is to say at the right.

use base::text::binary_bytes;

use super::facts::{Facts, Parameter, Store};
use super::process::quoted;

/// Parameters and VCLs that are shown; of more it says how many.
const MAX: usize = 20;
const MOST_WRONG: usize = 3;
const UNKNOWN: &str = "not known";

pub(super) fn text(facts: &Facts) -> String {
    let mut out = String::new();
    let mut rows = |word: &str, rows: Vec<String>| {
        let mut word = word;
        for row in rows {
            let line = format!("{word:<12} {row}");
            out.push_str(line.trim_end());
            out.push('\n');
            word = "";
        }
    };
    rows("server", vec![facts.version.clone().unwrap_or_else(|| UNKNOWN.to_owned())]);
    rows("manager", vec![life(facts.manager, facts.counter("MGT.uptime"))]);
    let state = facts.state.as_deref().unwrap_or(UNKNOWN);
    let worker = match facts.worker {
        Some(pid) => format!("{state}, {}", life(Some(pid), facts.counter("MAIN.uptime"))),
        None if state == "stopped" => format!("{state}; to start it, type: varnishadm start"),
        None => state.to_owned(),
    };
    rows("worker", vec![worker]);
    let arguments = facts.arguments.as_ref().map(|words| words.iter().map(|w| quoted(w)).collect::<Vec<_>>().join(" "));
    rows("started as", vec![arguments.unwrap_or_else(|| UNKNOWN.to_owned())]);
    rows("listens on", some(facts.addresses.as_deref(), |(name, address)| format!("{address} ({name})")));
    rows("VCL", some(facts.vcls.as_deref(), |vcl| format!("{:<10} {} ({})", vcl.status, vcl.name, vcl.state)));
    rows("storage", facts.stores.iter().map(store).collect());
    if !facts.counters.is_empty() {
        rows("objects", vec![objects(facts)]);
        rows("requests", vec![requests(facts)]);
        rows("restarts", vec![restarts(facts)]);
    }
    rows("last cause", facts.last_cause.iter().cloned().collect());
    let descriptors = facts.descriptors.map(|d| match d.limit {
        Some(limit) => format!("{} of {limit} open", d.open),
        None => format!("{} open", d.open),
    });
    rows("descriptors", vec![descriptors.unwrap_or_else(|| format!("{UNKNOWN}: only the server's user may look"))]);
    rows("parameters", some(facts.parameters.as_deref(), parameter));
    rows("doctor", doctor(facts));
    out
}

fn doctor(facts: &Facts) -> Vec<String> {
    match &facts.wrong {
        None => Vec::new(),
        Some(Err(why)) => vec![format!("{UNKNOWN}: {why}")],
        Some(Ok(wrong)) if wrong.is_empty() => vec!["nothing is wrong".to_owned()],
        Some(Ok(wrong)) => {
            let mut rows: Vec<String> = wrong.iter().take(MOST_WRONG).cloned().collect();
            let more = wrong.len() - rows.len();
            let more = if more > 0 { format!("{more} more; ") } else { String::new() };
            rows.push(format!("{more}why, and what to type: lacquer doctor"));
            rows
        }
    }
}

/// A row for each; a word when there is none, or it isn't known.
fn some<T>(all: Option<&[T]>, row: impl Fn(&T) -> String) -> Vec<String> {
    let Some(all) = all else { return vec![UNKNOWN.to_owned()] };
    let mut rows: Vec<_> = all.iter().take(MAX).map(row).collect();
    if all.is_empty() {
        rows.push("-".to_owned());
    }
    if all.len() > MAX {
        rows.push(format!("and {} more", all.len() - MAX));
    }
    rows
}

fn life(pid: Option<u64>, uptime: Option<u64>) -> String {
    match (pid, uptime) {
        (Some(pid), Some(uptime)) => format!("process {pid}, for {}", duration(uptime)),
        (Some(pid), None) => format!("process {pid}"),
        (None, _) => UNKNOWN.to_owned(),
    }
}

/// The two largest units.
fn duration(seconds: u64) -> String {
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => format!("{minutes} min {} s", seconds % 60),
        (0, ..) => format!("{hours} h {minutes} min"),
        _ => format!("{days} d {hours} h"),
    }
}

fn store(store: &Store) -> String {
    let kind = store.kind.as_deref().map_or(String::new(), |kind| format!(" ({kind})"));
    let front = store
        .front
        .map_or(String::new(), |(used, all)| format!("; in memory {} of {}", binary_bytes(used), binary_bytes(all)));
    match store.free {
        Some(free) if store.used + free > 0 => {
            let all = store.used + free;
            let share = store.used as f64 * 100.0 / all as f64;
            format!(
                "{}{kind}: {} of {} used, {share:.1} %{front}",
                store.name,
                binary_bytes(store.used),
                binary_bytes(all)
            )
        }
        _ => format!("{}{kind}: {} used", store.name, binary_bytes(store.used)),
    }
}

fn objects(facts: &Facts) -> String {
    let count = |name| facts.counter(name).unwrap_or(0);
    let adopted = match (count("MAIN.adopted"), count("MAIN.adopting")) {
        (0, 0) => String::new(),
        (adopted, 0) => format!(", {adopted} taken over from the previous worker"),
        // Not counted yet.
        (_, 1) => "; taking over those of the previous worker".to_owned(),
        (adopted, left) => {
            format!("; taking over {} of {left} from the previous worker", adopted + count("MAIN.adopt_refused"))
        }
    };
    format!("{}, {} evicted to make room{adopted}", count("MAIN.n_object"), count("MAIN.n_lru_nuked"))
}

fn requests(facts: &Facts) -> String {
    let count = |name| facts.counter(name).unwrap_or(0);
    let rate = facts.hit_rate().map_or("no lookups yet".to_owned(), |rate| format!("hit rate {:.1} %", rate * 100.0));
    format!(
        "{}: {rate} ({} hits, {} misses), {} passes",
        count("MAIN.client_req"),
        count("MAIN.cache_hit"),
        count("MAIN.cache_miss"),
        count("MAIN.s_pass")
    )
}

fn restarts(facts: &Facts) -> String {
    let count = |name| facts.counter(name).unwrap_or(0);
    let restarts = count("MGT.child_start").saturating_sub(1);
    let emptied = match count("MGT.child_distrust") {
        0 => String::new(),
        times => format!("; stores emptied {times} times after repeated crashes"),
    };
    format!(
        "{restarts} ({} crashed, {} of them with a panic){emptied}",
        count("MGT.child_died"),
        count("MGT.child_panic")
    )
}

fn parameter(parameter: &Parameter) -> String {
    let Parameter { name, value, default, units } = parameter;
    let default = if default.is_empty() { "empty" } else { default };
    format!("{name} = {value} [{units}], default {default}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_on_a_screen() {
        let mut facts = Facts {
            version: Some("varnish-7.1.1 revision 0".into()),
            state: Some("running".into()),
            manager: Some(10),
            worker: Some(11),
            arguments: Some(vec!["varnishd".into(), "-f".into(), "/etc/my site.vcl".into()]),
            addresses: Some(vec![("a0".into(), "127.0.0.1:80".into())]),
            stores: vec![Store {
                name: "s0".into(),
                kind: Some("malloc".into()),
                used: 512,
                free: Some(1536),
                front: Some((2, 512)),
            }],
            parameters: Some(Vec::new()),
            ..Facts::default()
        };
        for (name, value) in
            [("MGT.uptime", 90_000), ("MAIN.uptime", 61), ("MAIN.cache_hit", 3), ("MAIN.cache_miss", 1)]
        {
            facts.counters.insert(name.into(), value);
        }
        let want = "\
server       varnish-7.1.1 revision 0
manager      process 10, for 1 d 1 h
worker       running, process 11, for 1 min 1 s
started as   varnishd -f '/etc/my site.vcl'
listens on   127.0.0.1:80 (a0)
VCL          not known
storage      s0 (malloc): 512 B of 2.0 KiB used, 25.0 %; in memory 2 B of 512 B
objects      0, 0 evicted to make room
requests     0: hit rate 75.0 % (3 hits, 1 misses), 0 passes
restarts     0 (0 crashed, 0 of them with a panic)
descriptors  not known: only the server's user may look
parameters   -
";
        assert_eq!(text(&facts), want);
        for (name, value) in [("MAIN.adopted", 7), ("MGT.child_distrust", 2)] {
            facts.counters.insert(name.into(), value);
        }
        for line in [
            "objects      0, 0 evicted to make room, 7 taken over from the previous worker\n",
            "restarts     0 (0 crashed, 0 of them with a panic); stores emptied 2 times after repeated crashes\n",
        ] {
            assert!(text(&facts).contains(line), "{line}");
        }
        for (name, value) in [("MAIN.adopted", 0), ("MAIN.adopt_refused", 1), ("MAIN.adopting", 300)] {
            facts.counters.insert(name.into(), value);
        }
        let line = "objects      0, 0 evicted to make room; taking over 1 of 300 from the previous worker\n";
        assert!(text(&facts).contains(line), "{}", text(&facts));
    }

    #[test]
    fn what_is_wrong_fits_the_screen() {
        let of = |wrong: Result<Vec<&str>, &str>| {
            let wrong = wrong.map(|all| all.into_iter().map(str::to_owned).collect()).map_err(str::to_owned);
            doctor(&Facts { wrong: Some(wrong), ..Facts::default() })
        };
        assert_eq!(of(Ok(vec![])), ["nothing is wrong"]);
        assert_eq!(of(Err("no /proc")), ["not known: no /proc"]);
        assert_eq!(of(Ok(vec!["a"])), ["a", "why, and what to type: lacquer doctor"]);
        assert_eq!(
            of(Ok(vec!["a", "b", "c", "d", "e"])),
            ["a", "b", "c", "2 more; why, and what to type: lacquer doctor"]
        );
    }

    #[test]
    fn long_lists_are_cut() {
        let rows = some(Some(&[1; 25]), |n| n.to_string());
        assert_eq!((rows.len(), rows[20].as_str()), (21, "and 5 more"));
    }
}
