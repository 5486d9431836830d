// SPDX-License-Identifier: BSD-2-Clause
//! A few histories of each scenario and of a fleet, two thousand exchanges against the model of RFC 9111 (`SEED=n` begins there, `SEEDS=n` runs so
//! many times forty), and faults that a few histories find. `tests/sim/run.py` draws many of all.

#[test]
fn a_few_histories_of_each_scenario_are_as_they_should_be() {
    for name in sim::scenarios() {
        if let Err(failure) = sim::draw(&name, 0..3) {
            panic!("{failure}");
        }
    }
}

#[test]
fn a_history_is_the_same_again() {
    let once = sim::again("variants_keep_apart", 7);
    assert_eq!(once, sim::again("variants_keep_apart", 7));
    assert_ne!(once, sim::again("variants_keep_apart", 8));
}

#[test]
fn exchanges_go_as_the_model_of_rfc_9111_says() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let drawn = sim::draw_exchanges(number("SEED").unwrap_or(0), number("SEEDS").unwrap_or(50));
    drawn.unwrap_or_else(|difference| panic!("{difference}"));
}

#[test]
fn fleets_keep_what_they_promise() {
    sim::draw_fleets(0..30).unwrap_or_else(|failure| panic!("{failure}"));
    assert_eq!(sim::again_fleet(7), sim::again_fleet(7));
}

#[test]
fn planted_faults_are_found() {
    for (name, says) in [
        ("a mix-up of variants", "variant"),
        ("a marker that hides what is stale", "the origin is asked"),
        ("an age that forgets the way", ""),
        ("a gate that is never closed", "closed gate"),
        ("an acknowledgement before the log has it", "in the log"),
    ] {
        let fault = sim::FAULTS.iter().find(|fault| fault.name == name).unwrap();
        let found = sim::find(fault, 400).unwrap_or_else(|| panic!("{name} isn't found"));
        println!("| {name} | {} | {} | {} | {} |", fault.scenario, found.seed, found.seed + 1, found.said);
        assert!(found.said.contains(says), "{name}: {found:?}");
    }
}
