// SPDX-License-Identifier: BSD-2-Clause
//! The answers as text and as JSON.

use base::text::show_bytes;
use serde_json::{Value, json};

use crate::answers::{MemorySize, PlanAnswers};
use crate::options::PlanOptions;
use crate::queue::{Queue, QueueOutcome};

pub fn text(options: &PlanOptions, answers: &PlanAnswers) -> String {
    let queue = &answers.queue;
    let mut text = String::from("What comes                    rate    each takes   varies\n");
    for class in &answers.classes {
        text += &format!(
            "  {:<18} {:>13}  {:>12}  {:>7.2}\n",
            class.name,
            rate(class.rate),
            time(class.service),
            class.cv2.sqrt()
        );
    }
    let slots = options.slots.map_or("no end of waiting places".to_owned(), |slots| format!("{slots} waiting places"));
    text += &format!("\n{} workers and {slots}: {} at most by work alone\n", options.workers, rate(answers.ceiling));
    text += &match answers.most {
        Some(most) => format!(
            "Within the limits (95 of 100 wait {} or less, {:.2} % refused): {}, {:.1} times what comes{}\n",
            time(answers.limits.wait),
            answers.limits.refused * 100.0,
            rate(most),
            most / queue.rate,
            users_of(options, queue, most).map_or(String::new(), |users| format!(", {} users", people(users)))
        ),
        None => format!(
            "The limits (95 of 100 wait {} or less, {:.2} % refused) hold for no load: too few waiting places or workers\n",
            time(answers.limits.wait),
            answers.limits.refused * 100.0
        ),
    };
    if let Some((now, twice)) = users_of(options, queue, queue.rate).zip(users_of(options, queue, queue.rate * 2.0)) {
        text += &format!("Users at the same time: {} now, {} at twice the load\n", people(now), people(twice));
    }
    text += "\n  load           rate  busy %  waiting    mean wait   95 of 100  refused %\n";
    for (load, outcome) in &answers.loads {
        text += &format!("{load:>6.1}  {:>13}{}\n", rate(queue.rate * load), outcome_line(outcome));
    }
    text += "\n  load  workers needed  waiting places needed\n";
    for (load, workers, slots) in &answers.needs {
        let shown = |n: &Option<u64>| n.map_or("-".to_owned(), |n| n.to_string());
        text += &format!("{load:>6.1}  {:>14}  {:>21}\n", shown(workers), shown(slots));
    }
    if !answers.own.is_empty() {
        text += &own(answers);
    }
    if !answers.sizes.is_empty() {
        text += &memory(options, answers);
    }
    text
}

fn own(answers: &PlanAnswers) -> String {
    let mut text = String::from(
        "\nA queue for each instead of one:\n                     workers  busy %  waiting    mean wait   95 of 100  refused %\n",
    );
    for own in &answers.own {
        text += &format!("  {:<18} {:>7}{}\n", own.name, own.queue.workers, outcome_line(&own.outcome));
    }
    text
}

fn memory(options: &PlanOptions, answers: &PlanAnswers) -> String {
    let mut text = String::from("\n  memory   hits %           rate  busy %    95 of 100  refused %  times the load\n");
    let line = |size: &MemorySize| {
        format!(
            "{:>8} {:>8.2}  {:>13}  {:>6.1}  {:>11}  {:>9.2}  {:>14}{}\n",
            memory_size(size.bytes),
            size.hit_percent,
            rate(size.rate),
            size.outcome.utilisation * 100.0,
            time(size.outcome.wait_95),
            size.outcome.refused * 100.0,
            size.times.map_or("-".to_owned(), |times| format!("{times:.1}")),
            if size.holds { "" } else { "  too little" }
        )
    };
    answers.sizes.iter().for_each(|size| text += &line(size));
    for load in [1.0, 2.0] {
        text += &match answers.least_memory(load) {
            Some(size) => {
                format!("For {load} times the load: {}, {:.2} % hits\n", memory_size(size.bytes), size.hit_percent)
            }
            None => format!("For {load} times the load: no size above is enough; more workers are needed\n"),
        };
    }
    if let (Some(ram), Some(store)) = (options.ram, &answers.store) {
        text += &format!(
            "A machine of {}: -s malloc,{} (the rest is for connections, what objects take beside it, and the system)\n{}",
            show_bytes(ram),
            memory_size(store.bytes),
            line(store)
        );
    }
    text
}

fn outcome_line(outcome: &QueueOutcome) -> String {
    format!(
        "  {:>6.1}  {:>7}  {:>11}  {:>10}  {:>9.2}",
        outcome.utilisation * 100.0,
        number(outcome.waiting),
        time(outcome.wait),
        time(outcome.wait_95),
        outcome.refused * 100.0
    )
}

/// Users whose pages come that often: each thinks, waits and is served; infinite where the wait is.
fn users_of(options: &PlanOptions, queue: &Queue, rate: f64) -> Option<f64> {
    let response = queue.at(rate).outcome().wait + queue.service;
    options.think.map(|think| rate / options.per_page * (think + response))
}

fn people(users: f64) -> String {
    if users.is_finite() { format!("{users:.0}") } else { "no limit to them".to_owned() }
}

/// A rate in the unit in which it is more than one.
fn rate(a_second: f64) -> String {
    match a_second {
        0.0 => "none".to_owned(),
        1.0.. => format!("{} a second", number(a_second)),
        x if x * 60.0 >= 1.0 => format!("{} a minute", number(x * 60.0)),
        x => format!("{} an hour", number(x * 3600.0)),
    }
}

fn number(n: f64) -> String {
    match n {
        f if f.is_infinite() => "for ever".to_owned(),
        100.0.. => format!("{n:.0}"),
        1.0.. => format!("{n:.1}"),
        0.0 => "0".to_owned(),
        _ => format!("{n:.4}"),
    }
}

fn time(seconds: f64) -> String {
    match seconds {
        f if f.is_infinite() => "for ever".to_owned(),
        120.0.. => format!("{:.1} min", seconds / 60.0),
        1.0.. => format!("{seconds:.1} s"),
        1e-3.. => format!("{:.1} ms", seconds * 1e3),
        0.0 => "0".to_owned(),
        _ => format!("{:.0} us", seconds * 1e6),
    }
}

/// A size in whole units, so that it can stand in an option.
fn memory_size(bytes: f64) -> String {
    const UNITS: [(f64, &str); 3] = [(1024.0 * 1024.0 * 1024.0, "G"), (1024.0 * 1024.0, "M"), (1024.0, "k")];
    let (size, unit) = UNITS.into_iter().find(|(size, _)| bytes >= 4.0 * size).unwrap_or(UNITS[2]);
    format!("{:.0}{unit}", (bytes / size).floor())
}

fn outcome(outcome: &QueueOutcome) -> Value {
    json!({ "busy_percent": outcome.utilisation * 100.0, "refused_percent": outcome.refused * 100.0, "waiting": finite(outcome.waiting),
            "wait_seconds": finite(outcome.wait), "wait_95_seconds": finite(outcome.wait_95) })
}

/// JSON has no word for "for ever": null.
fn finite(number: f64) -> Value {
    if number.is_finite() { json!(number) } else { Value::Null }
}

pub fn json(options: &PlanOptions, answers: &PlanAnswers, remarks: &[String]) -> Value {
    let queue = &answers.queue;
    let with = |mut value: Value, more: Value| {
        if let (Some(value), Value::Object(more)) = (value.as_object_mut(), more) {
            value.extend(more);
        }
        value
    };
    let size = |size: &MemorySize| {
        with(
            outcome(&size.outcome),
            json!({ "memory_bytes": size.bytes, "hit_percent": size.hit_percent, "rate": size.rate, "holds": size.holds,
                    "times_the_load": size.times }),
        )
    };
    let classes = answers.classes.iter();
    let classes =
        classes.map(|c| json!({ "name": c.name, "rate": c.rate, "service_seconds": c.service, "cv": c.cv2.sqrt() }));
    let loads =
        answers.loads.iter().map(|(load, o)| with(outcome(o), json!({ "load": load, "rate": queue.rate * load })));
    let needs =
        answers.needs.iter().map(|(load, workers, slots)| json!({ "load": load, "workers": workers, "queue": slots }));
    let own = answers.own.iter().map(|own| {
        with(outcome(&own.outcome), json!({ "name": own.name, "workers": own.queue.workers, "queue": own.queue.slots }))
    });
    // JSON has no word for "for ever".
    let users = |rate: f64| users_of(options, queue, rate).filter(|users| users.is_finite());
    json!({
        "classes": classes.collect::<Vec<_>>(), "workers": options.workers, "queue": options.slots,
        "limits": { "wait_95_seconds": answers.limits.wait, "refused_percent": answers.limits.refused * 100.0 },
        "rate": queue.rate, "service_seconds": queue.service, "cv": queue.cv2.sqrt(), "requests_rate": answers.requests,
        "now": outcome(&answers.now), "holds": answers.holds(),
        "ceiling_rate": answers.ceiling, "most_rate": answers.most,
        "users_now": users(queue.rate), "users_twice": users(queue.rate * 2.0), "users_most": answers.most.and_then(users),
        "loads": loads.collect::<Vec<_>>(), "needs": needs.collect::<Vec<_>>(), "queues_of_their_own": own.collect::<Vec<_>>(),
        "memory": answers.sizes.iter().map(size).collect::<Vec<_>>(), "store": answers.store.as_ref().map(size),
        "remarks": remarks,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_for_people() {
        assert_eq!(
            [0.0, 12.0 / 3600.0, 0.5, 250.0].map(rate),
            ["none", "12.0 an hour", "30.0 a minute", "250 a second"]
        );
        assert_eq!(
            [0.0, 5e-6, 0.25, 90.0, 300.0, f64::INFINITY].map(time),
            ["0", "5 us", "250.0 ms", "90.0 s", "5.0 min", "for ever"]
        );
        assert_eq!([30.0 * 1024f64.powi(3), 1.5e9, 5000.0].map(memory_size), ["30G", "1430M", "4k"]);
    }
}
