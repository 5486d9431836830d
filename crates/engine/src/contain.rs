// SPDX-License-Identifier: BSD-2-Clause
//! A panic in a transaction's own code costs that transaction, not the worker. (A panic while shared state is being
//! changed never gets here: the worker's panic hook ends the process, see `base::critical`.)

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::task::Poll;

use tables::counters::Main;
use tables::tags::Tag;

use crate::bereq::Bereq;
use crate::current;

/// The transaction panicked; the hook has written the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Panic;

/// Awaits `work`, every poll contained. By reference: the future of a request is large, and handing it over would copy it.
///
/// # Errors
/// [`Panic`]; whatever `work` borrowed may be in any state that its types allow.
pub async fn contained<F: Future + ?Sized>(mut work: Pin<&mut F>) -> Result<F::Output, Panic> {
    let mut left = None;
    poll_fn(|cx| {
        // Others worked on this thread meanwhile.
        left.take().into_iter().for_each(current::take_up);
        let _contained = base::critical::contain();
        match catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(cx))) {
            Ok(Poll::Ready(done)) => Poll::Ready(Ok(done)),
            Ok(Poll::Pending) => {
                left = Some(current::leave());
                Poll::Pending
            }
            Err(_) => Poll::Ready(Err(Panic)),
        }
    })
    .await
}

/// A guard during whose life VCL runs; counts a panic in it.
pub(crate) struct RunningVcl(pub &'static Main);

impl Drop for RunningVcl {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.vcl_panic.inc();
        }
    }
}

pub(crate) async fn fetch(mut bereq: Box<Bereq>) {
    if contained(pin!(bereq.run())).await.is_err() {
        bereq.engine.main.req_panic.inc();
        bereq.log.put(Tag::Error, b"Panic in the fetch: see the panic report");
    }
    bereq.finish();
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Room for less than a second exchange beside that of the fetch.
    const MOST_FETCH_BYTES: usize = 1500;

    fn future_bytes<J, F: Future>(_: fn(J) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn a_waiting_fetch_is_no_burden() {
        let bytes = future_bytes(fetch);
        assert!(bytes <= MOST_FETCH_BYTES, "a fetch's future has {bytes} bytes: what of it is rare belongs into a box");
    }

    #[test]
    fn a_panic_ends_the_work_and_nothing_else() {
        rt::run(async {
            let after_a_wait = async {
                rt::yield_now().await;
                let nothing: &[u8] = &[];
                nothing[std::hint::black_box(0)]
            };
            assert_eq!(contained(pin!(after_a_wait)).await, Err(Panic));
            assert!(!base::critical::is_contained());
            assert_eq!(contained(pin!(async { base::critical::is_contained() })).await, Ok(true));
        })
        .unwrap();
    }
}
