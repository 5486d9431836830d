// SPDX-License-Identifier: BSD-2-Clause
//! Rates and service times by a running server's counters alone: how many connections to backends are in use on average, over how
//! many requests went over them a second, is how long one takes (Little's law). What times vary by isn't known: they count as
//! exponential.

use std::path::Path;
use std::time::{Duration, Instant};

use shm::reader::{CounterReader, CounterValue};
use sys::signal::{SIGINT, SIGTERM, Signals};

use crate::measured::Measured;
use crate::options::PlanClass;

const LOOK: Duration = Duration::from_millis(10);

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Look {
    fetches: u64,
    /// Connections to them in use.
    in_use: u64,
    requests: u64,
}

impl Look {
    fn of(values: &[CounterValue]) -> Look {
        let mut look = Look::default();
        for value in values {
            match (value.set.split('.').next(), value.about.name.as_str()) {
                (Some("VBE"), "req") => look.fetches += value.value,
                (Some("VBE"), "conn") => look.in_use += u64::try_from(value.signed()).unwrap_or(0),
                (Some("MAIN"), "client_req") => look.requests += value.value,
                _ => {}
            }
        }
        look
    }
}

/// Looks at the counters for some time.
///
/// # Errors
/// No server runs there, or its backends had nothing to do.
pub fn classes(workdir: &Path, duration: Duration) -> Result<Measured, String> {
    let mut signals = Signals::new(&[SIGINT, SIGTERM]).map_err(|error| error.to_string())?;
    let mut reader = CounterReader::new(workdir);
    let mut look = || reader.read().map(|values| Look::of(&values)).map_err(|error| error.to_string());
    let (begin, first) = (Instant::now(), look()?);
    let (mut last, mut sum, mut looks, mut remarks) = (first, 0.0, 0.0, Vec::new());
    while begin.elapsed() < duration {
        std::thread::sleep(LOOK);
        if signals.take().is_ok_and(|signal| signal.is_some()) {
            remarks.push("ended early: what had been seen until then".to_owned());
            break;
        }
        let next = look()?;
        if next.fetches < last.fetches {
            remarks.push("the server or its VCL was replaced meanwhile: what had been seen until then".to_owned());
            break;
        }
        (sum, looks, last) = (sum + next.in_use as f64, looks + 1.0, next);
    }
    let seconds = begin.elapsed().as_secs_f64();
    let fetches = (last.fetches - first.fetches) as f64;
    if fetches == 0.0 || looks == 0.0 {
        return Err(format!("{}: its backends were asked nothing in {seconds:.1} s", workdir.display()));
    }
    let rate = fetches / seconds;
    let service = (sum / looks / rate).max(1e-6);
    remarks.push(format!("by {looks} looks at the counters; a time much below {} ms is seldom seen", LOOK.as_millis()));
    let class = PlanClass { name: "fetches".into(), rate, service, cv2: 1.0 };
    let requests = last.requests.saturating_sub(first.requests) as f64 / seconds;
    Ok(Measured { classes: vec![class], requests: requests.max(rate), remarks })
}
