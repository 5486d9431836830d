// SPDX-License-Identifier: BSD-2-Clause
//! A body that a filter needs as a whole: gathered, worked on, handed out, a bounded amount at a time.

use filters::{FilterError, FilterState, FilterStep, SLICE};

/// Bytes of a body that is worked on as a whole, before and after.
pub(crate) const MAX_BODY_BYTES: usize = 8 * 1024 * 1024;

#[derive(Default)]
pub(crate) struct BodyCollector {
    body: Vec<u8>,
    at: usize,
    is_done: bool,
}

pub(crate) enum WorkState {
    More,
    /// The body is as it is to go out.
    Done,
}

impl BodyCollector {
    /// A step of the filter `name`. `work` is called once the body is whole, until it is done.
    ///
    /// # Errors
    /// The body is too long; what `work` says.
    pub(crate) fn step(
        &mut self,
        name: &'static str,
        input: &[u8],
        is_last: bool,
        out: &mut [u8],
        work: impl FnOnce(&mut Vec<u8>) -> Result<WorkState, &'static str>,
    ) -> Result<FilterStep, FilterError> {
        let failed = |reason| FilterError::Module { name, reason };
        if self.is_done {
            let produced = (self.body.len() - self.at).min(out.len()).min(SLICE);
            out[..produced].copy_from_slice(&self.body[self.at..self.at + produced]);
            self.at += produced;
            let state = if self.at == self.body.len() { FilterState::End } else { FilterState::More };
            return Ok(FilterStep { consumed: 0, produced, state });
        }
        let consumed = input.len().min(SLICE);
        self.body.extend_from_slice(&input[..consumed]);
        if self.body.len() > MAX_BODY_BYTES {
            return Err(failed("the body is longer than 8 MB"));
        }
        let is_whole = is_last && consumed == input.len();
        if is_whole {
            self.is_done = matches!(work(&mut self.body).map_err(failed)?, WorkState::Done);
            if self.body.len() > MAX_BODY_BYTES {
                return Err(failed("the body became longer than 8 MB"));
            }
        }
        let state = if is_whole || consumed < input.len() { FilterState::More } else { FilterState::Hungry };
        Ok(FilterStep { consumed, produced: 0, state })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use filters::Filter;

    use super::*;

    /// Output of a filter for a body that comes `cut` bytes at a time, into space for `room`.
    pub(crate) fn run(filter: &mut dyn Filter, body: &[u8], cut: usize, room: usize) -> Result<Vec<u8>, FilterError> {
        let (mut all, mut out, mut at, mut given) = (Vec::new(), vec![0; room], 0, 0);
        loop {
            let step = filter.step(&body[at..given], given == body.len(), &mut out)?;
            at += step.consumed;
            all.extend_from_slice(&out[..step.produced]);
            match step.state {
                FilterState::End => return Ok(all),
                FilterState::More => {}
                FilterState::Hungry => {
                    assert!(at == given && given < body.len(), "hungry with food at hand");
                    given = (given + cut).min(body.len());
                }
            }
        }
    }

    struct Twice(BodyCollector, u8);

    impl Filter for Twice {
        fn name(&self) -> &'static str {
            "twice"
        }
        fn step(&mut self, input: &[u8], is_last: bool, out: &mut [u8]) -> Result<FilterStep, FilterError> {
            let (gathered, turns) = (&mut self.0, &mut self.1);
            gathered.step("twice", input, is_last, out, |body| {
                body.extend_from_within(..);
                *turns -= 1;
                Ok(if *turns == 0 { WorkState::Done } else { WorkState::More })
            })
        }
    }

    #[test]
    fn worked_on_as_a_whole() {
        let twice = |body: &[u8]| run(&mut Twice(BodyCollector::default(), 2), body, 3, 2);
        assert_eq!(twice(b"abcd"), Ok(b"abcdabcdabcdabcd".to_vec()));
        assert_eq!(twice(b""), Ok(Vec::new()));
    }

    #[test]
    fn too_long_is_an_error() {
        let once = |bytes: usize| run(&mut Twice(BodyCollector::default(), 1), &vec![b'a'; bytes], 60_000, 60_000);
        assert_eq!(once(MAX_BODY_BYTES / 2).map(|body| body.len()), Ok(MAX_BODY_BYTES));
        for (bytes, reason) in
            [(MAX_BODY_BYTES + 1, "the body is longer than 8 MB"), (MAX_BODY_BYTES, "the body became longer than 8 MB")]
        {
            assert_eq!(once(bytes), Err(FilterError::Module { name: "twice", reason }));
        }
    }
}
