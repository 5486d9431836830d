// SPDX-License-Identifier: BSD-2-Clause
//! A few histories of each scenario, and the faults that a few histories find. `tests/sim/run.py` draws many of both.

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
fn a_planted_fault_is_found() {
    let fault = sim::FAULTS.iter().find(|fault| fault.name == "a mix-up of variants").unwrap();
    let found = sim::find(fault, 100).expect("it is found");
    assert!(found.said.contains("variant"), "{found:?}");
}
