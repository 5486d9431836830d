// SPDX-License-Identifier: BSD-2-Clause
//! What the disk home does by itself (open, recover, seal, reclaim) as futures that a single driver polls, on whatever
//! thread its owner gives it; and what they wait for.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;
use sys::pages::Pages;

use crate::device::{Device, DeviceError, DeviceOp};

/// Runs the disk home; ends once it is closed. Without it nothing is opened, sealed or reclaimed; what is found is read
/// and what is put is written without it.
#[must_use = "nothing is opened unless this is polled"]
pub struct Driver {
    pub(crate) tasks: Vec<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl Future for Driver {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.tasks.retain_mut(|task| task.as_mut().poll(cx).is_pending());
        if self.tasks.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl std::fmt::Debug for Driver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Driver({} tasks)", self.tasks.len())
    }
}

/// Lets the driver's other tasks run, and the thread's.
pub(crate) async fn yield_now() {
    let mut is_again = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut is_again, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Tasks that wait for a change. Waiters look themselves whether it has happened.
#[derive(Default, Debug)]
pub(crate) struct Signal(Mutex<(u64, Vec<Waker>)>);

impl Signal {
    pub fn raise(&self) {
        let woken = {
            let mut own = self.0.lock();
            own.0 += 1;
            std::mem::take(&mut own.1)
        };
        woken.into_iter().for_each(Waker::wake);
    }

    /// Waits until `found` gives something; it is asked now and after each [`Signal::raise`].
    pub async fn wait_for<T>(&self, mut found: impl FnMut() -> Option<T>) -> T {
        poll_fn(|cx| self.poll_for(cx, &mut found)).await
    }

    /// Does what [`Signal::wait_for`] does, by polling.
    pub fn poll_for<T>(&self, cx: &mut Context<'_>, mut found: impl FnMut() -> Option<T>) -> Poll<T> {
        loop {
            let seen = self.0.lock().0;
            if let Some(value) = found() {
                return Poll::Ready(value);
            }
            let mut own = self.0.lock();
            // What was raised between the look and this lock is looked at, too.
            if own.0 == seen {
                if !own.1.iter().any(|waker| waker.will_wake(cx.waker())) {
                    own.1.push(cx.waker().clone());
                }
                return Poll::Pending;
            }
        }
    }
}

#[derive(Debug)]
enum Ending {
    Awaited(Option<Waker>),
    Ended(Result<Pages, DeviceError>),
    Taken,
}

#[derive(Debug)]
pub(crate) struct StartedOperation(Arc<Mutex<Ending>>);

impl StartedOperation {
    pub fn start(device: &dyn Device, op: DeviceOp) -> StartedOperation {
        let ending = Arc::new(Mutex::new(Ending::Awaited(None)));
        let own = StartedOperation(ending.clone());
        let done = move |result| {
            if let Ending::Awaited(Some(waker)) = std::mem::replace(&mut *ending.lock(), Ending::Ended(result)) {
                waker.wake();
            }
        };
        device.start(op, Box::new(done));
        own
    }
}

impl Future for StartedOperation {
    type Output = Result<Pages, DeviceError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut ending = self.0.lock();
        match std::mem::replace(&mut *ending, Ending::Taken) {
            Ending::Ended(result) => Poll::Ready(result),
            Ending::Awaited(_) => {
                *ending = Ending::Awaited(Some(cx.waker().clone()));
                Poll::Pending
            }
            Ending::Taken => unreachable!("an operation is awaited once"),
        }
    }
}

/// Bytes from the device, whole blocks.
pub(crate) async fn read(device: &dyn Device, at: u64, len: usize) -> Result<Pages, DeviceError> {
    read_into(device, at, Pages::zeroed(len)).await
}

/// The same, into pages that there are.
pub(crate) async fn read_into(device: &dyn Device, at: u64, into: Pages) -> Result<Pages, DeviceError> {
    let len = into.len();
    let pages = StartedOperation::start(device, DeviceOp::Read { at, into }).await?;
    if pages.len() < len { Err(DeviceError::Short) } else { Ok(pages) }
}

pub(crate) async fn write(device: &dyn Device, at: u64, bytes: &[u8]) -> Result<(), DeviceError> {
    let mut pages = Pages::zeroed(bytes.len());
    pages[..bytes.len()].copy_from_slice(bytes);
    StartedOperation::start(device, DeviceOp::Write { at, from: Arc::new(pages) }).await.map(drop)
}

pub(crate) async fn sync(device: &dyn Device) -> Result<(), DeviceError> {
    StartedOperation::start(device, DeviceOp::Sync).await.map(drop)
}
