// SPDX-License-Identifier: BSD-2-Clause
//! When what is sent: each request at its time, whatever became of those before it.

use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use sys::signal::{SIGINT, SIGTERM, Signals};
use toolkit::print;

use crate::options::{ProbeFormat, ProbeOptions};
use crate::report::{ProbeReport, now};
use crate::shot::{Shot, ShotFailure};
use crate::target::ProbeTarget;

/// Requests under way at most; what would be more isn't sent, and is counted.
const MOST_UNDER_WAY: usize = 1000;
/// A thread's stack: it reads into a buffer on the heap, and ML-KEM takes up to 48 KB.
const STACK: usize = 256 << 10;
/// Time between two looks for signals.
const LOOK: Duration = Duration::from_millis(50);

/// Sends requests until the end that the options name, or a signal; prints what is told on the way.
///
/// # Errors
/// Signals can't be had.
pub fn run(
    options: &ProbeOptions,
    targets: &[ProbeTarget],
    tls: Option<&Arc<tls::TlsClient>>,
) -> Result<ProbeReport, String> {
    let mut signals = Signals::new(&[SIGINT, SIGTERM]).map_err(|error| error.to_string())?;
    let tells = options.format == ProbeFormat::Text;
    let (give, take) = mpsc::channel();
    let begin = Instant::now();
    let mut report = ProbeReport::new(options, targets);
    let (mut sent, mut under_way) = (0u64, 0);
    let mut is_ending = false;
    loop {
        let is_interrupted = signals.take().is_ok_and(|signal| signal.is_some());
        // What is under way is waited for, unless somebody waits at the terminal.
        is_ending |= is_interrupted
            || options.requests.is_some_and(|most| sent >= most)
            || options.duration.is_some_and(|most| begin.elapsed() >= most);
        if is_interrupted || is_ending && under_way == 0 {
            report.end(begin.elapsed(), under_way);
            if tells {
                print::foreign(report.text());
                print::foreign(report.verdict_text());
            }
            return Ok(report);
        }
        let due = begin + options.pause.mul_f64(sent as f64);
        if !is_ending && Instant::now() >= due {
            let shot = next_shot(options, targets, tls, sent, due);
            sent += 1;
            if under_way >= MOST_UNDER_WAY {
                report.held_back += 1;
                continue;
            }
            let to = give.clone();
            let spare = shot.clone();
            let fired = std::thread::Builder::new().stack_size(STACK).spawn(move || {
                // Nobody listens any more once the run has ended.
                let _ = to.send(shot.fire());
            });
            match fired {
                Ok(_) => under_way += 1,
                Err(_) => report.add(spare.failed(ShotFailure::Exhausted)),
            }
            continue;
        }
        let wait = if is_ending { LOOK } else { due.saturating_duration_since(Instant::now()).min(LOOK) };
        match take.recv_timeout(wait) {
            Ok(sample) => {
                under_way -= 1;
                let news = report.news(&sample);
                report.add(sample);
                if let Some(line) = news.filter(|_| tells && !options.is_quiet) {
                    print::foreign(line);
                }
                if tells && options.every > 0 && report.requests().is_multiple_of(options.every) {
                    report.end(begin.elapsed(), under_way);
                    print::foreign(report.text());
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => unreachable!("one end is kept here"),
        }
    }
}

/// Hosts, the addresses of each and the paths of each have their turns.
fn next_shot(
    options: &ProbeOptions,
    targets: &[ProbeTarget],
    tls: Option<&Arc<tls::TlsClient>>,
    number: u64,
    due: Instant,
) -> Shot {
    let hosts = targets.len() as u64;
    let target = &targets[(number % hosts) as usize];
    let round = number / hosts;
    let address = target.addresses[(round % target.addresses.len() as u64) as usize];
    let path = &target.paths[(round / target.addresses.len() as u64 % target.paths.len() as u64) as usize];
    Shot {
        address,
        url: format!("{}://{}{path}", if target.is_tls { "https" } else { "http" }, target.name),
        host: target.name.clone(),
        path: path.clone(),
        tls: tls.filter(|_| target.is_tls).cloned(),
        is_http2: options.is_http2,
        sni: target.sni.clone(),
        begun_at: now(),
        due,
        timeout: options.timeout,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_has_its_turn() {
        let target = |name: &str, addresses: &[&str], paths: &[&str]| ProbeTarget {
            name: name.to_owned(),
            addresses: addresses.iter().map(|address| address.parse().unwrap()).collect(),
            paths: paths.iter().map(|&path| path.to_owned()).collect(),
            lookup: Duration::ZERO,
            is_tls: false,
            sni: String::new(),
        };
        let targets = [target("a", &["10.0.0.1:80", "10.0.0.2:80"], &["/1", "/2"]), target("b", &["[::1]:80"], &["/"])];
        let shots: Vec<Shot> =
            (0..8).map(|n| next_shot(&ProbeOptions::default(), &targets, None, n, Instant::now())).collect();
        let own: Vec<(String, String)> = shots
            .iter()
            .filter(|shot| shot.host == "a")
            .map(|shot| (shot.address.ip().to_string(), shot.path.clone()))
            .collect();
        let pair = |address: &str, path: &str| (address.to_owned(), path.to_owned());
        assert_eq!(
            own,
            [pair("10.0.0.1", "/1"), pair("10.0.0.2", "/1"), pair("10.0.0.1", "/2"), pair("10.0.0.2", "/2")]
        );
    }
}
