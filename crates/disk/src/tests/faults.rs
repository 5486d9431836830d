// SPDX-License-Identifier: BSD-2-Clause
//! The table of faults: what each costs while it lasts, and what is there once it is over. Before it there are six objects
//! on stable storage; while it lasts one is loaded and one is put; after it all that is left is loaded, one more is put, and
//! the power goes.

use super::bed::{Bed, NOW};
use super::simulated::{OperationKind, SimulatedFault};
use crate::device::DeviceError;
use crate::disk::Stage;

const EIO: DeviceError = DeviceError::Os(5);
const ENOSPC: DeviceError = DeviceError::Os(28);

fn bed_with_objects() -> Bed {
    let mut bed = Bed::ready(1, 8);
    for name in 0..6 {
        bed.put_slowly(name, 20_000);
    }
    let disk = bed.disk.clone();
    bed.run(disk.sync()).unwrap().unwrap();
    bed
}

fn put_and_sync(bed: &mut Bed, name: u8) -> String {
    if let Err(refused) = bed.put(name, 40_000) {
        return format!("{refused:?}");
    }
    let disk = bed.disk.clone();
    match bed.run(disk.sync()) {
        None => {
            bed.device.give_up();
            bed.settle();
            "stalls".to_owned()
        }
        Some(Ok(())) => "stored".to_owned(),
        Some(Err(error)) => format!("{error:?}"),
    }
}

fn outcome(kind: OperationKind, fault: SimulatedFault) -> String {
    let mut bed = bed_with_objects();
    bed.device.set_fault(Some((kind, fault)));
    let found = bed.disk.find(&super::bed::digest_of(0));
    let load = bed.load(0, found[0]).map_or_else(|lost| lost, |_| "served".to_owned());
    if load == "hangs" {
        bed.device.give_up();
        bed.settle();
    }
    let put = put_and_sync(&mut bed, 6);
    bed.device.set_fault(None);
    bed.disk.tick(NOW + 10);
    bed.settle();
    let left = bed.load_everything();
    let next = put_and_sync(&mut bed, 7);
    let bad = bed.disk.counts().segments_quarantined;
    bed.cut_power();
    bed.settle();
    assert_eq!(bed.disk.progress().stage, Stage::Ready);
    let again = bed.load_everything();
    format!("load {load}; put {put}; then {left} left, {bad} bad, put {next}; restarted {again}")
}

/// At the start: what the store says, how many objects are there, and how many after a start without the fault.
fn outcome_of_start(kind: OperationKind, fault: SimulatedFault) -> String {
    let mut bed = bed_with_objects();
    let image = bed.device.cut_power(&mut bed.dice);
    bed.restart(image);
    bed.device.set_fault(Some((kind, fault)));
    bed.settle();
    if fault == SimulatedFault::Hang {
        bed.device.give_up();
        bed.settle();
    }
    let stage = bed.disk.progress().stage;
    bed.device.set_fault(None);
    bed.disk.tick(NOW + 10);
    bed.settle();
    let there = bed.load_everything();
    bed.cut_power();
    bed.settle();
    format!("{stage:?} {there}; restarted {}", bed.load_everything())
}

/// Compares all lines of a table at once, so that a failure shows the whole of it.
fn check(outcome: fn(OperationKind, SimulatedFault) -> String, table: &[(OperationKind, SimulatedFault, &str)]) {
    let line = |kind: &OperationKind, fault: &SimulatedFault, text: &str| format!("{kind:?} {fault:?}: {text}\n");
    let expected: String = table.iter().map(|(kind, fault, text)| line(kind, fault, text)).collect();
    let found: String = table.iter().map(|(kind, fault, _)| line(kind, fault, &outcome(*kind, *fault))).collect();
    assert!(found == expected, "found\n{found}instead of\n{expected}");
}

#[test]
fn a_fault_costs_hits_and_is_over_when_it_is_over() {
    check(
        outcome,
        &[
            (
                OperationKind::Read,
                SimulatedFault::Error(EIO),
                "load Device(Os(5)); put stored; then 6 left, 1 bad, put stored; restarted 7",
            ),
            (
                OperationKind::Read,
                SimulatedFault::Hang,
                "load hangs; put stored; then 7 left, 0 bad, put stored; restarted 8",
            ),
            (
                OperationKind::Read,
                SimulatedFault::Flip,
                "load Damaged; put stored; then 6 left, 0 bad, put stored; restarted 7",
            ),
            (
                OperationKind::Write,
                SimulatedFault::Error(EIO),
                "load served; put Failed; then 6 left, 1 bad, put stored; restarted 7",
            ),
            (
                OperationKind::Write,
                SimulatedFault::Error(ENOSPC),
                "load served; put Failed; then 6 left, 0 bad, put stored; restarted 7",
            ),
            (
                OperationKind::Write,
                SimulatedFault::Half(EIO),
                "load served; put Failed; then 6 left, 1 bad, put stored; restarted 7",
            ),
            (
                OperationKind::Write,
                SimulatedFault::Hang,
                "load served; put stalls; then 6 left, 1 bad, put stored; restarted 7",
            ),
            (
                OperationKind::Write,
                SimulatedFault::Flip,
                "load served; put stored; then 6 left, 0 bad, put stored; restarted 7",
            ),
            (
                OperationKind::Sync,
                SimulatedFault::Error(EIO),
                "load served; put Device(Os(5)); then 7 left, 0 bad, put stored; restarted 8",
            ),
            (
                OperationKind::Sync,
                SimulatedFault::Error(ENOSPC),
                "load served; put Device(Os(28)); then 7 left, 0 bad, put stored; restarted 8",
            ),
            (
                OperationKind::Sync,
                SimulatedFault::Hang,
                "load served; put stalls; then 7 left, 0 bad, put stored; restarted 8",
            ),
        ],
    );
}

#[test]
fn a_sync_that_fails_is_no_segments_fault() {
    for error in [EIO, DeviceError::Stalled] {
        let mut bed = Bed::ready(2, 64);
        for name in 0..20 {
            bed.put_slowly(name, 100_000);
        }
        bed.device.set_fault(Some((OperationKind::Sync, SimulatedFault::Error(error))));
        for name in 20..40 {
            // Until no segment is left that was begun before.
            let _ = bed.put_at_once(name, 100_000);
            bed.settle();
        }
        let counts = bed.disk.counts();
        let trouble = counts.sync_errors + counts.stalls;
        assert!(trouble >= 3, "footers and the heads of new segments: {trouble}");
        assert_eq!((counts.segments_quarantined, counts.write_errors), (0, 0), "{error:?}");
        bed.device.set_fault(None);
        bed.disk.tick(NOW + 10);
        bed.settle();
        for name in 40..60 {
            bed.put_slowly(name, 100_000);
        }
        let disk = bed.disk.clone();
        bed.run(disk.sync()).unwrap().unwrap();
        assert!(bed.load_everything() >= 40, "nothing is lost: {}", bed.load_everything());
        bed.cut_power();
        bed.settle();
        assert_eq!(bed.disk.progress().stage, Stage::Ready);
        assert!(bed.load_everything() >= 40);
    }
}

#[test]
fn a_fault_at_the_start_costs_objects_at_most() {
    check(
        outcome_of_start,
        &[
            (OperationKind::Read, SimulatedFault::Error(EIO), "Refused(Device(Os(5))) 0; restarted 6"),
            (OperationKind::Read, SimulatedFault::Hang, "Opening 6; restarted 6"),
            (OperationKind::Read, SimulatedFault::Flip, "Ready 6; restarted 6"),
            (OperationKind::Write, SimulatedFault::Error(EIO), "Ready 6; restarted 6"),
            (OperationKind::Write, SimulatedFault::Error(ENOSPC), "Ready 6; restarted 6"),
            (OperationKind::Write, SimulatedFault::Half(EIO), "Ready 6; restarted 6"),
            (OperationKind::Write, SimulatedFault::Hang, "Ready 6; restarted 6"),
            (OperationKind::Write, SimulatedFault::Flip, "Ready 6; restarted 6"),
            (OperationKind::Sync, SimulatedFault::Error(EIO), "Ready 6; restarted 6"),
            (OperationKind::Sync, SimulatedFault::Hang, "Ready 6; restarted 6"),
        ],
    );
}
