// SPDX-License-Identifier: BSD-2-Clause
//! Logs with known readers and crawlers.

use std::borrow::Cow;

use accesslog::EntryStamp;

use super::*;
use crate::tests::SimulateDraw;

const AGENT: &str = "Mozilla/5.0 (X11; Linux x86_64; rv:144.0) Gecko/20100101 Firefox/144.0";

fn plan() -> BotsPlan {
    BotsPlan { rules: CacheRules::default(), ttl: 60.0, fetch_seconds: 0.02 }
}

fn entry<'a>(second: f64, client: &str, target: &str) -> AccessEntry<'a> {
    let mut entry = AccessEntry {
        client: Some(Cow::Owned(client.as_bytes().to_vec())),
        method: Cow::Borrowed(b"GET"),
        status: Some(200),
        time: Some(EntryStamp { ns: (second * 1e9) as i64, is_whole_second: false, zone: None }),
        ..AccessEntry::default()
    };
    entry.fields.push((Cow::Borrowed(b"User-Agent"), Cow::Borrowed(AGENT.as_bytes())));
    entry.set_url(Cow::Owned(target.as_bytes().to_vec())).expect("a URL");
    entry
}

fn tally(entries: impl IntoIterator<Item = AccessEntry<'static>>) -> BotsTally {
    let mut tally = BotsTally::new(plan());
    entries.into_iter().for_each(|entry| tally.add(&entry));
    tally
}

const STEPS: u32 = 6000;

/// Readers of 200 popular pages with a style sheet. In the second half `crawlers` times as many requests come from ever new addresses.
fn mixed(seed: u64, crawlers: usize) -> BotsTally {
    let mut draw = SimulateDraw(seed);
    let mut number = move |below: f64| (draw.unit() * below) as u32;
    let mut entries = Vec::new();
    for step in 0..STEPS {
        let at = f64::from(step) / 20.0;
        let client = format!("192.0.2.{}", step / 12 % 250);
        let page = number(200.0).min(number(200.0));
        let target = if step % 12 == 0 { "/site.css".to_owned() } else { format!("/p/{page}") };
        entries.push(entry(at, &client, &target));
        for _ in 0..if step > STEPS / 2 { crawlers } else { 0 } {
            let client = format!("10.{}.{}.{}", number(250.0), number(250.0), number(250.0));
            entries.push(entry(at, &client, &format!("/p/{}", 1000 + number(1e7))));
        }
    }
    tally(entries)
}

#[test]
fn readers_alone_meet_no_step() {
    let tally = mixed(1, 0);
    assert_eq!(
        [BotsStep::Stale, BotsStep::Waited, BotsStep::Refused].map(|step| tally.witness.step(step).requests),
        [0; 3]
    );
    assert_eq!(tally.spared_seconds, 0.0);
    assert_eq!((tally.requests, tally.witness.clients(), tally.witness.readers()), (6000, 250, 250));
}

#[test]
fn crawlers_that_change_their_address_are_held() {
    let tally = mixed(1, 9);
    let refused = tally.witness.step(BotsStep::Refused);
    assert!(refused.requests > 24_000, "of 26991: {refused:?}");
    assert!(refused.readers_requests <= 30, "of 6000: {refused:?}");
    assert!(tally.spared_seconds > 0.8 * tally.origin_seconds, "{} of {}", tally.spared_seconds, tally.origin_seconds);
    assert!(!tally.held.top(3).is_empty());
}

#[test]
fn a_log_that_says_how_requests_were_handled_is_believed() {
    let handled = |second: f64, how| AccessEntry { handling: Some(how), ..entry(second, "192.0.2.1", "/a") };
    let log = [Handling::Hit, Handling::Miss, Handling::Synth, Handling::Pass].map(|how| handled(1.0, how));
    let tally = tally(log);
    assert_eq!((tally.requests, tally.fetches, tally.signals.handlings), (4, 2, 4));
    assert_eq!(tally.witness.step(BotsStep::Served).requests, 2);
}

#[test]
fn time_that_the_log_has_counts_instead_of_the_usual_one() {
    let timed = AccessEntry { backend_time: Some(Duration::from_secs(2)), ..entry(0.0, "192.0.2.1", "/a") };
    let tally =
        tally([timed, entry(1.0, "192.0.2.2", "/b"), entry(2.0, "192.0.2.3", "/a"), entry(70.0, "192.0.2.3", "/a")]);
    assert!((tally.origin_seconds - 2.04).abs() < 1e-9, "{}", tally.origin_seconds);
    assert_eq!(tally.fetches, 3, "the third is a hit, the fourth has expired");
}

#[test]
fn the_report_names_signals_that_are_missing() {
    let mut gathered =
        accesslog::Gathered { result: tally([entry(0.0, "a-name", "/a")]), ..accesslog::Gathered::default() };
    let plan = plan();
    let report = BotsReport::new(&plan, &mut gathered);
    let remarks = report.remarks().join("\n");
    for part in
        ["no addresses", "which requests were hits", "no backend times", "TLS fingerprints", "readers aren't known"]
    {
        assert!(remarks.contains(part), "{part}: {remarks}");
    }
    assert!(!remarks.contains("no User-Agents"), "{remarks}");
    assert_eq!(report.json()["steps"]["served"]["requests"], 1);
    assert!(report.text().contains("1 requests of 1 clients"), "{}", report.text());
}
