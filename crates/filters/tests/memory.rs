// SPDX-License-Identifier: BSD-2-Clause
//! What coders hold is bounded for all of them together. In a process of its own, as the bound is the process's.

use filters::{
    Check, Filter, FilterError, FilterState, Pack, PackParams, Packed, memory_held, memory_refused, set_memory_limit,
};
use message::Coding;

fn pack(packed: Packed) -> Vec<u8> {
    let body: Vec<u8> = (0..400_000u32).flat_map(|n| (n * 7919).to_le_bytes()).collect();
    let (mut pack, mut room, mut coded, mut rest) =
        (Pack::new(packed, PackParams::default()), vec![0; 1 << 16], Vec::new(), &body[..]);
    loop {
        let step = pack.step(rest, true, &mut room).expect("packs");
        coded.extend_from_slice(&room[..step.produced]);
        rest = &rest[step.consumed..];
        if step.state == FilterState::End {
            return coded;
        }
    }
}

/// Begins to unpack a body and stays in its middle.
fn begin(packed: Packed, coded: &[u8]) -> Result<Check, FilterError> {
    let (mut check, mut room, mut rest) = (Check::new(packed), vec![0; 1 << 16], &coded[..coded.len() / 2]);
    while !rest.is_empty() {
        let step = check.step(rest, false, &mut room)?;
        rest = &rest[step.consumed..];
    }
    Ok(check)
}

#[test]
fn a_crowd_of_bodies_holds_no_more_than_the_limit() {
    for packed in [Packed::Brotli, Packed::Zstd] {
        set_memory_limit(256 << 20);
        let coded = pack(packed);
        assert_eq!(memory_held(), 0, "what is packed holds nothing");
        set_memory_limit(8 << 20);
        let refused = memory_refused();
        let mut crowd = Vec::new();
        let error = loop {
            match begin(packed, &coded) {
                Ok(one) => crowd.push(one),
                Err(error) => break error,
            }
            assert!(crowd.len() < 1000, "at some time it is too much");
        };
        assert_eq!(error, FilterError::CodingMemory(packed.coding()));
        assert_eq!(memory_refused(), refused + 1);
        assert!(!crowd.is_empty() && memory_held() <= 8 << 20, "{packed:?} {} {}", crowd.len(), memory_held());
        crowd.clear();
        assert_eq!(memory_held(), 0);
        assert!(begin(packed, &coded).is_ok());
    }
    assert_eq!(Packed::Zstd.coding(), Coding::Zstd);
}
