// SPDX-License-Identifier: BSD-2-Clause
//! The page's log of events: backends change their health, VCLs are loaded and used, workers end and begin, bans remove everything. Events
//! come from log records of no transaction (`Backend_health`, `CLI`) and from the manager's counters.

use logq::record::word;
use serde_json::{Value, json};
use shm::reader::WorkdirStatus;
use tables::Tag;

use crate::counters::WatchedCounters;
use crate::state::{ProbeHealth, WatchState};
use crate::text::shown;

const MAX_HEALTH: usize = 1000;
/// The manager's counters of how workers ended, with their descriptions. A panic is also a death by signal, and a core file follows one.
/// The first counter in this order that has grown is reported.
const ENDS: [(&str, &str); 5] = [
    ("child_panic", "panicked"),
    ("child_died", "was killed by a signal"),
    ("child_exit", "ended by itself"),
    ("child_stop", "was stopped"),
    ("child_dump", "left a core file"),
];
/// Seconds after the loading of a VCL within which its counters are there.
const LOAD_SECONDS: u64 = 3;
/// Regular expressions that match every URL and host.
const EVERYTHING: [&str; 12] = [".", ".*", ".+", "^", "^.", "^.*", "^.*$", "/", "/.*", "^/", "^/.*", "^/.*$"];
/// Number of objects that bans and purges must remove within [`SWEEP_SECONDS`] to be an event. It must also be half of all objects.
const SWEPT: u64 = 100;
/// Time within which [`SWEPT`] objects have to be removed.
const SWEEP_SECONDS: u64 = 60;

/// The processes and counts of the previous second, from which events are derived. Kept over an upgrade.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Before {
    pub manager: Option<u64>,
    /// The last worker's process. It stays after the process has ended.
    pub worker: Option<u64>,
    /// The counters of [`ENDS`], in that order.
    pub ends: Option<[u64; ENDS.len()]>,
    pub has_ended: bool,
    /// Time of the last worker's death by signal or panic, in seconds since 1970.
    pub died_at: Option<u64>,
    /// True if that worker was one that an upgrade had left behind.
    pub died_leaving: bool,
    /// An end that was counted while the same worker was still there: an index into [`ENDS`]. The next second shows whose end it was.
    unclear: Option<usize>,
    /// The VCL in use, as last seen in the log.
    pub vcl: Option<String>,
    sweep: Sweep,
}

impl Before {
    pub fn json(&self) -> Value {
        json!({ "manager": self.manager, "worker": self.worker, "ends": self.ends, "died_at": self.died_at, "died_leaving": self.died_leaving, "vcl": self.vcl })
    }

    /// Reads the output of [`Before::json`]. Values that can't be read stay unknown.
    pub fn from_json(saved: &Value) -> Before {
        let number = |name: &str| saved[name].as_u64();
        Before {
            manager: number("manager"),
            worker: number("worker"),
            ends: serde_json::from_value(saved["ends"].clone()).ok(),
            died_at: number("died_at"),
            died_leaving: saved["died_leaving"].as_bool().unwrap_or(false),
            vcl: saved["vcl"].as_str().map(str::to_owned),
            ..Before::default()
        }
    }
}

/// Number of objects at the beginning of an interval, and number of objects removed by bans and purges until then.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
struct Sweep {
    at: u64,
    objects: u64,
    removed: u64,
}

/// Handles a log record of no transaction.
pub fn record(state: &mut WatchState, tag: Tag, text: &[u8], at: u64) {
    match tag {
        Tag::BackendHealth => health(state, text, at),
        Tag::Cli => command(state, text, at),
        _ => {}
    }
}

/// Handles `default Went sick 4---X--- 2 3 8 0.000000 0.000000 "..."`: name, `Went`, `Back` or `Still`, and the verdict.
fn health(state: &mut WatchState, text: &[u8], at: u64) {
    let name = shown(word(text, 0));
    let is_well = match word(text, 2) {
        b"healthy" => true,
        b"sick" => false,
        _ => return,
    };
    if state.twins.contains(&name) || at < state.loading_until {
        return;
    }
    verdict(state, name, is_well, word(text, 1) != b"Still", &cause(text), at);
}

/// Takes a backend's health from the CLI's list, which tells apart backends of one name in several VCLs.
pub fn listed(state: &mut WatchState, at: u64) {
    let Some(list) = state.listed.as_ref().and_then(Value::as_object) else { return };
    let probed = |backend: &&Value| backend["probe_message"][1].as_u64().is_some_and(|window| window > 0);
    let all = list.iter().filter_map(|(full, backend)| Some((full.split_once('.')?.1, backend)));
    let twins = all.filter(|(name, backend)| state.twins.contains(*name) && probed(backend));
    let twins: Vec<(String, bool)> =
        twins.map(|(name, backend)| (shown(name.as_bytes()), backend["probe_message"][2] != "sick")).collect();
    for (name, is_well) in twins {
        verdict(state, name, is_well, false, "", at);
    }
}

/// Notes a backend's health. `is_change` if it has just changed; else a backend that wasn't known is as it was for long.
fn verdict(state: &mut WatchState, name: String, is_well: bool, is_change: bool, cause: &str, at: u64) {
    let known = state.health.get(&name).copied();
    if known.is_some_and(|known| known.is_well == is_well) || (known.is_none() && state.health.len() >= MAX_HEALTH) {
        return;
    }
    let since = if known.is_some() || is_change { at } else { 0 };
    match (known, is_well) {
        (Some(_), true) => state.tell(at, "backend", format!("backend {name} is healthy again")),
        (Some(_), false) => state.tell(at, "backend", format!("backend {name} went sick{cause}")),
        (None, false) if is_change => state.tell(at, "backend", format!("backend {name} went sick{cause}")),
        // The first record of a backend's health is no event.
        (None, _) => {}
    }
    state.health.insert(name, ProbeHealth { is_well, since });
}

/// The quoted text at the end of a health record: the response's first line, or the reason why there was none.
fn cause(text: &[u8]) -> String {
    let quoted = text.iter().position(|b| *b == b'"').map_or(&b""[..], |at| &text[at + 1..]);
    match quoted.strip_suffix(b"\"").unwrap_or(quoted) {
        b"" => String::new(),
        cause => format!(": {}", shown(cause)),
    }
}

/// Handles `Rd vcl.use boot`: a command that the worker got from the manager.
fn command(state: &mut WatchState, text: &[u8], at: u64) {
    let Some(words) = text.strip_prefix(b"Rd ").and_then(|line| cli::words::split(line).ok()) else { return };
    let words: Vec<String> = words.iter().map(|word| shown(word)).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["vcl.load", name, ..] => {
            state.tell(at, "vcl", format!("VCL {name} was loaded"));
            // The probes of a backend may be logged before its counters are seen.
            if !WatchedCounters::new(&state.readings).backends.is_empty() {
                state.loading_until = at + LOAD_SECONDS;
            }
        }
        ["vcl.discard", name] => {
            state.tell(at, "vcl", format!("VCL {name} was discarded"));
            state.tally.used.discard(name.as_bytes());
        }
        ["vcl.label", label, name] => state.tally.used.label(label.as_bytes(), name.as_bytes()),
        ["vcl.use", name] if state.before.vcl.as_deref() != Some(name) => {
            state.tell(at, "vcl", format!("VCL {name} is in use"));
            state.before.vcl = Some(name.to_owned());
            state.tally.used.forget_unlabelled();
        }
        ["ban", ref expression @ ..] if takes_everything(expression) => {
            state.tell(at, "purge", format!("everything was banned: {}", expression.join(" ")));
        }
        _ => {}
    }
}

/// True if a ban's words match every object: `req.url ~ .`, `obj.status != 0`.
fn takes_everything(words: &[&str]) -> bool {
    let is_all = |condition: &[&str]| match *condition {
        ["req.url" | "req.http.host" | "req.http.Host" | "obj.http.x-url" | "obj.http.x-host", "~", regex] => {
            EVERYTHING.contains(&regex)
        }
        ["obj.status", "!=", "0"] => true,
        _ => false,
    };
    words.split(|word| *word == "&&").all(is_all)
}

/// Compares this second's index and counters with the previous ones: workers that ended and began, objects that were removed all at once.
/// `program` is the server's name and version.
pub fn second(state: &mut WatchState, status: WorkdirStatus, now: &WatchedCounters<'_>, program: &str, at: u64) {
    let pid = |process: Option<(u64, u64)>| process.map(|(pid, _)| pid);
    let (manager, worker) = (pid(status.manager), pid(status.worker));
    let before = std::mem::take(&mut state.before);
    let mut next = Before { manager, ..before.clone() };
    let is_new_manager = manager.is_some() && manager != before.manager;
    match (before.manager, manager) {
        (Some(_), None) => state.tell(at, "worker", "the server has ended, or its working directory is gone"),
        (Some(old), Some(new)) if old != new => {
            state.tell(at, "start", format!("another server runs here: process {new}, before it {old}"));
        }
        _ => {}
    }
    if !now.mgt.is_empty() {
        let ends = ENDS.map(|(name, _)| now.mgt(name));
        let known = before.ends.filter(|_| !is_new_manager);
        let grown = known.and_then(|known| (0..ENDS.len()).find(|n| ends[*n] > known[*n]));
        let is_same = worker.is_some() && worker == before.worker;
        // An upgrade leaves a worker behind that ends its requests. The present one is gone soon after its end was counted.
        let ended = match (before.unclear, grown) {
            (Some(n), _) if !is_new_manager => Some((n, is_same)),
            (_, Some(n)) if !is_same => Some((n, false)),
            _ => None,
        };
        next.unclear = grown.filter(|_| is_same);
        if let Some((n, is_leaving)) = ended {
            let who = match before.worker {
                _ if is_leaving => "a worker from before the upgrade".to_owned(),
                Some(pid) => format!("worker {pid}"),
                None => "the worker".to_owned(),
            };
            state.tell(at, "worker", format!("{who} {}", ENDS[n].1));
            next.has_ended |= !is_leaving;
            if n < 2 {
                (next.died_at, next.died_leaving) = (Some(at), is_leaving);
            }
        }
        next.ends = Some(ends);
    }
    if let Some(new) = worker.filter(|new| before.worker != Some(*new)) {
        match before.worker {
            None => {}
            Some(old) if !next.has_ended && !is_new_manager => {
                state.tell(at, "start", format!("upgraded: {program}; worker {new} took over from worker {old}"));
            }
            Some(_) => state.tell(at, "start", format!("worker {new} began")),
        }
        (next.worker, next.has_ended) = (Some(new), false);
        next.sweep = Sweep::default();
    }
    state.before = next;
    if worker.is_some() && !now.main.is_empty() {
        sweep(state, now, at);
    }
}

/// Forgets sick backends when the set of backends changes: the next VCL may have a backend of that name without a probe. If it has a probe,
/// its next record reports its health again.
pub fn backends(state: &mut WatchState, now: &WatchedCounters<'_>, before: &WatchedCounters<'_>) {
    if now.backends.keys().eq(before.backends.keys()) {
        return;
    }
    let mut names: Vec<&str> = now.backends.keys().map(|(_, name)| *name).collect();
    names.sort_unstable();
    let twins = names.windows(2).filter(|two| two[0] == two[1]);
    state.twins = twins.map(|two| two[0].to_owned()).collect();
    // Only the CLI's list tells twins apart.
    let (twins, has_list) = (&state.twins, state.listed.is_some());
    state.health.retain(|name, health| health.is_well && (has_list || !twins.contains(name)));
}

/// Reports that bans and purges, whoever made them, have removed most objects.
fn sweep(state: &mut WatchState, now: &WatchedCounters<'_>, at: u64) {
    let removed = ["bans_obj_killed", "bans_lurker_obj_killed", "n_obj_purged"].iter().map(|name| now.main(name)).sum();
    let begun = state.before.sweep;
    let gone: u64 = u64::saturating_sub(removed, begun.removed);
    let is_swept = begun.at > 0 && gone >= SWEPT && gone * 2 >= begun.objects;
    if is_swept {
        state.tell(at, "purge", format!("bans and purges removed {gone} of {} objects", begun.objects.max(gone)));
    }
    if is_swept || at >= begun.at + SWEEP_SECONDS {
        state.before.sweep = Sweep { at, objects: now.main("n_object"), removed };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::tests::readings;
    use crate::health;

    fn told(state: &WatchState) -> Vec<&str> {
        state.events.iter().map(|event| event.text.as_str()).collect()
    }

    #[test]
    fn probes_are_events_when_they_change_something() {
        let mut state = WatchState::default();
        for (at, text) in [
            "a Still healthy 4---X-RH 8 3 8 0.000939 0.000713 \"HTTP/1.1 200 OK\"",
            "a Went sick -------- 2 3 8 0.000000 0.000713 \"Open error 111 (Connection refused)\"",
            "a Still sick -------- 2 3 8 0.000000 0.000713 \"Open error 111 (Connection refused)\"",
            "a Back healthy 4---X-RH 3 3 8 0.000939 0.000713 \"HTTP/1.1 200 OK\"",
            "b Went healthy 4---X-RH 3 3 8 0.000939 0.000713 \"HTTP/1.1 200 OK\"",
            "c Went sick -------- 2 3 8 0.000000 0.000000 \"\"",
            "d Nonsense",
        ]
        .iter()
        .zip(100..)
        .map(|(text, at)| (at, text))
        {
            record(&mut state, Tag::BackendHealth, text.as_bytes(), at);
        }
        let want = [
            "backend a went sick: Open error 111 (Connection refused)",
            "backend a is healthy again",
            "backend c went sick",
        ];
        assert_eq!(told(&state), want);
        assert_eq!(state.health["a"], ProbeHealth { is_well: true, since: 103 });
        record(&mut state, Tag::BackendHealth, b"e Still sick -------- 0 3 8 0.0 0.0 \"\"", 200);
        assert_eq!(
            state.health.remove("e"),
            Some(ProbeHealth { is_well: false, since: 0 }),
            "for how long isn't known"
        );
        assert!(state.health["b"].is_well && !state.health["c"].is_well && state.health.len() == 3);
    }

    #[test]
    fn probes_of_both_servers_are_events() {
        for records in [testkit::recorded::lacquer(), testkit::recorded::varnish()] {
            let mut state = WatchState::default();
            for one in records.iter().filter(|one| one.vxid == 0) {
                record(&mut state, Tag::from_name(one.tag).expect("a tag"), one.text.as_bytes(), 1);
            }
            let told: Vec<_> = told(&state).into_iter().filter(|text| text.starts_with("backend")).collect();
            assert!(
                matches!(told[..], ["backend probed is healthy again", sick] if sick.starts_with("backend probed went sick")),
                "{told:?}"
            );
            assert!(!state.health["probed"].is_well && state.health.len() == 1);
            // The new VCL has no probe for that backend.
            let (old, new) =
                (readings(&[("VBE.boot.probed", "happy", 0)]), readings(&[("VBE.new.probed", "happy", 0)]));
            let (old, new) = (WatchedCounters::new(&old), WatchedCounters::new(&new));
            backends(&mut state, &old, &old);
            assert!(!health::is_well(&state, "boot", "probed", &old.backends[&("boot", "probed")]));
            backends(&mut state, &new, &old);
            assert!(health::is_well(&state, "new", "probed", &new.backends[&("new", "probed")]));
        }
    }

    #[test]
    fn probes_of_two_vcls_arent_mixed_up() {
        let mut state = WatchState::default();
        let sick = b"a Still sick -------- 2 3 8 0.000000 0.000713 \"Open error 111 (Connection refused)\"";
        let healthy = b"a Still healthy 4---X-RH 8 3 8 0.000939 0.000713 \"HTTP/1.1 200 OK\"";
        let all = readings(&[("VBE.old.a", "happy", 6), ("VBE.new.a", "happy", 7), ("VBE.new.b", "happy", 7)]);
        let counters = WatchedCounters::new(&all);
        record(&mut state, Tag::BackendHealth, sick, 1);
        state.readings = std::sync::Arc::new(readings(&[("VBE.old.a", "happy", 6)]));
        record(&mut state, Tag::Cli, b"Rd vcl.load new vcl_new.1/vcl.bundle 1auto", 1);
        state.events.clear();
        record(&mut state, Tag::BackendHealth, b"a Went healthy 4---X-RH 3 3 8 0.0 0.0 \"HTTP/1.1 200 OK\"", 2);
        backends(&mut state, &counters, &WatchedCounters::default());
        assert_eq!(state.twins, std::collections::BTreeSet::from(["a".to_owned()]));
        // The old VCL stays warm for a while, and its backend of that name is still probed at the address that was wrong.
        for at in 2..9 {
            record(&mut state, Tag::BackendHealth, if at % 2 == 0 { healthy } else { sick }, at);
        }
        assert_eq!(told(&state), [""; 0]);
        let is_well = |state: &WatchState, vcl| health::is_well(state, vcl, "a", &counters.backends[&(vcl, "a")]);
        assert!(is_well(&state, "new") && !is_well(&state, "old"), "its own probes alone count");
        let list = |verdict: &str| {
            let backend =
                |window: u64, verdict: &str| json!({ "admin_health": "probe", "probe_message": [3, window, verdict] });
            json!({ "new.a": backend(8, verdict), "new.b": backend(8, "sick"), "new.c": backend(0, "healthy") })
        };
        for (at, verdict) in ["healthy", "healthy", "sick", "sick", "healthy"].into_iter().enumerate() {
            state.listed = Some(list(verdict));
            listed(&mut state, 20 + at as u64);
        }
        assert_eq!(told(&state), ["backend a went sick", "backend a is healthy again"]);
        assert_eq!(state.health.len(), 1, "the log speaks of the others");
        assert_eq!(health::logged(&state, "new", "a"), Some(ProbeHealth { is_well: true, since: 24 }));
        assert_eq!(health::logged(&state, "old", "a"), None);
        assert!(!is_well(&state, "old"));
    }

    #[test]
    fn a_worker_from_before_an_upgrade_isnt_the_present_one() {
        let mut state = WatchState::default();
        let mut look = |worker: Option<u64>, died: u64, at| {
            let all = readings(&[("MGT", "child_died", died)]);
            let status = WorkdirStatus { manager: Some((1, 0)), worker: worker.map(|pid| (pid, 0)) };
            second(&mut state, status, &WatchedCounters::new(&all), "Lacquer 0.1.0", at);
            (state.before.died_at, state.before.died_leaving)
        };
        look(Some(10), 0, 1);
        look(Some(11), 0, 2);
        look(Some(11), 1, 3);
        assert_eq!(look(Some(11), 1, 4), (Some(4), true));
        look(Some(11), 1, 5);
        // The present one's end was counted before it was gone.
        look(Some(11), 2, 6);
        assert_eq!(look(Some(12), 2, 7), (Some(7), false));
        look(Some(12), 3, 8);
        look(None, 3, 9);
        look(Some(13), 3, 10);
        let want = [
            "upgraded: Lacquer 0.1.0; worker 11 took over from worker 10",
            "a worker from before the upgrade was killed by a signal",
            "worker 11 was killed by a signal",
            "worker 12 began",
            "worker 12 was killed by a signal",
            "worker 13 began",
        ];
        assert_eq!(told(&state), want);
    }

    #[test]
    fn commands_to_the_worker_are_events() {
        let mut state = WatchState::default();
        for text in [
            "Rd ping",
            "Rd vcl.load two vcl_two.1/vcl.bundle 1auto",
            "Wr 200 57 Loaded",
            "Rd vcl.use \"two\"",
            "Rd vcl.use two",
            "Rd ban req.url \"~\" ^/news",
            "Rd ban req.url \"~\" .",
            "Rd ban req.http.host ~ \"^.*$\" && obj.status != 0",
            "Rd ban req.url ~ . && obj.status == 404",
            "Rd vcl.discard one",
            "Rd ban \"",
        ] {
            record(&mut state, Tag::Cli, text.as_bytes(), 1);
        }
        let want = [
            "VCL two was loaded",
            "VCL two is in use",
            "everything was banned: req.url ~ .",
            "everything was banned: req.http.host ~ ^.*$ && obj.status != 0",
            "VCL one was discarded",
        ];
        assert_eq!(told(&state), want);
    }

    #[test]
    fn a_worker_that_follows_no_end_is_an_upgrade() {
        let mut state = WatchState::default();
        let mut look = |manager: u64, worker: Option<u64>, ends: [u64; 3]| {
            let [panicked, died, stopped] = ends;
            let all = readings(&[
                ("MGT", "child_panic", panicked),
                ("MGT", "child_died", died),
                ("MGT", "child_stop", stopped),
            ]);
            let status = WorkdirStatus { manager: Some((manager, 0)), worker: worker.map(|pid| (pid, 0)) };
            second(&mut state, status, &WatchedCounters::new(&all), "Lacquer 0.1.0", 9);
        };
        look(1, Some(10), [0, 0, 0]);
        look(1, None, [0, 1, 0]);
        look(1, Some(11), [0, 1, 0]);
        look(1, Some(12), [0, 1, 0]);
        // A panic increments both counters.
        look(1, Some(13), [1, 2, 0]);
        look(1, None, [1, 2, 1]);
        look(1, None, [1, 2, 1]);
        look(1, Some(14), [1, 2, 1]);
        look(2, Some(20), [0, 0, 0]);
        let want = [
            "worker 10 was killed by a signal",
            "worker 11 began",
            "upgraded: Lacquer 0.1.0; worker 12 took over from worker 11",
            "worker 12 panicked",
            "worker 13 began",
            "worker 13 was stopped",
            "worker 14 began",
            "another server runs here: process 2, before it 1",
            "worker 20 began",
        ];
        assert_eq!(told(&state), want);
    }

    #[test]
    fn most_objects_going_at_once_is_an_event() {
        let mut state = WatchState::default();
        let mut look = |objects, banned, purged, at| {
            let all = readings(&[
                ("MAIN", "n_object", objects),
                ("MAIN", "bans_lurker_obj_killed", banned),
                ("MAIN", "n_obj_purged", purged),
            ]);
            let status = WorkdirStatus { manager: Some((1, 0)), worker: Some((2, 0)) };
            second(&mut state, status, &WatchedCounters::new(&all), "", at);
        };
        look(1000, 50, 0, 100);
        look(900, 150, 0, 101);
        look(500, 350, 250, 110);
        look(400, 360, 260, 111);
        // A site that purges single pages all day is no event.
        (0..300).for_each(|n| look(400, 360, 260 + 3 * n, 200 + n));
        assert_eq!(told(&state), ["bans and purges removed 550 of 1000 objects"]);
    }
}
