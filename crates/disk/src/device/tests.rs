// SPDX-License-Identifier: BSD-2-Clause
//! What holds of every device, whoever does the work.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use super::ring::RingDevice;
use super::threads::Threads;
use super::*;
use sys::blockfile::{BlockFile, BlockOptions};
use sys::pages::{BLOCK, PagePool};

pub(crate) fn path() -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("lacquer-device-{}-{number}", std::process::id()))
}

pub(crate) fn file(blocks: u64) -> BlockFile {
    let path = path();
    let bytes = Some(blocks * BLOCK as u64);
    let file = BlockFile::open(&path, &BlockOptions { bytes, ..BlockOptions::default() }).unwrap();
    std::fs::remove_file(path).unwrap();
    file
}

/// Runs `test` with the threads, and with a ring where there are rings.
fn with_each(test: impl Fn(&dyn Device)) {
    let file = Arc::new(file(64));
    test(&Threads::new(file.clone(), 4).unwrap());
    match RingDevice::new(file, 16, None, None) {
        Ok(device) => test(&device),
        Err(error) => println!("no rings here: {error}"),
    }
}

fn marked(mark: u8) -> Arc<Pages> {
    let mut pages = Pages::zeroed(BLOCK);
    pages.fill(mark);
    Arc::new(pages)
}

#[test]
fn a_full_device_is_told_apart() {
    assert!(DeviceError::Os(28).is_no_space() && !DeviceError::Os(5).is_no_space());
}

#[test]
fn errors_of_the_system_have_its_text() {
    assert_eq!(DeviceError::Os(5).to_string(), "Input/output error (os error 5)");
}

#[test]
fn what_is_written_is_read_again() {
    with_each(|device| {
        for block in 0..64 {
            perform(device, DeviceOp::Write { at: block * BLOCK as u64, from: marked(block as u8) }).unwrap();
        }
        perform(device, DeviceOp::Sync).unwrap();
        let read = perform(device, DeviceOp::Read { at: 0, into: Pages::zeroed(64 * BLOCK) }).unwrap();
        assert!(read.chunks(BLOCK).enumerate().all(|(block, bytes)| bytes.iter().all(|&byte| byte == block as u8)));
        assert_eq!(
            perform(device, DeviceOp::Read { at: 63 * BLOCK as u64, into: Pages::zeroed(2 * BLOCK) }).unwrap_err(),
            DeviceError::Short
        );
    });
}

#[test]
fn many_threads_have_each_operation_answered_once() {
    with_each(|device| {
        std::thread::scope(|scope| {
            for thread in 0..4_u64 {
                scope.spawn(move || {
                    let (said, hears) = channel();
                    for turn in 0..200 {
                        let (said, at) = (said.clone(), (thread * 16 + turn % 16) * BLOCK as u64);
                        device.start(
                            DeviceOp::Read { at, into: Pages::zeroed(BLOCK) },
                            Box::new(move |result| said.send(result.is_ok()).unwrap()),
                        );
                    }
                    drop(said);
                    assert_eq!(hears.iter().filter(|well| *well).count(), 200);
                });
            }
        });
    });
}

/// Reads block `block` as a task does: what is in it.
async fn read_as_task(device: &dyn Device, block: u64) -> Result<u8, DeviceError> {
    crate::task::read(device, block * BLOCK as u64, BLOCK).await.map(|pages| pages[0])
}

#[test]
fn tasks_read_by_a_ring_of_their_thread() {
    let Ok(device) = RingDevice::new(Arc::new(file(64)), 4, None, None) else { return println!("no rings here") };
    let device = Arc::new(device);
    for block in 0..64 {
        perform(&*device, DeviceOp::Write { at: block * BLOCK as u64, from: marked(block as u8) }).unwrap();
    }
    rt::run(async {
        let tasks: Vec<_> = (0..300_u64)
            .map(|n| {
                let device = device.clone();
                rt::spawn(async move {
                    assert_eq!(local::rings(), usize::from(n > 0), "the first makes the thread's only ring");
                    for turn in 0..20 {
                        let block = (n * 7 + turn) % 64;
                        assert_eq!(read_as_task(&*device, block).await, Ok(block as u8));
                    }
                    assert_eq!(read_as_task(&*device, 64).await, Err(DeviceError::Short));
                    // Who waits on the spot is answered, too, by the device's own thread.
                    assert!(perform(&*device, DeviceOp::Read { at: 0, into: Pages::zeroed(BLOCK) }).is_ok());
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    })
    .unwrap();
    assert_eq!(local::rings(), 0, "it ends with the runtime");
}

#[test]
fn the_ring_of_a_thread_ends_with_its_device() {
    let Ok(device) = RingDevice::new(Arc::new(file(4)), 4, None, None) else { return println!("no rings here") };
    rt::run(async {
        let (read, reads) = channel();
        rt::spawn(async move {
            read.send(read_as_task(&device, 0).await).unwrap();
            assert_eq!(local::rings(), 1);
            drop(device);
        });
        while local::rings() > 0 || reads.try_recv().is_err() {
            crate::task::yield_now().await;
        }
    })
    .unwrap();
}

#[test]
fn a_device_that_closes_answers_what_it_was_asked() {
    for engine in [DeviceEngine::IfPossible, DeviceEngine::Threads] {
        let path = path();
        let bytes = Some(64 * BLOCK as u64);
        let device = FileDevice::open(&path, &DeviceOptions { bytes, engine, ..DeviceOptions::default() }).unwrap();
        std::fs::remove_file(path).unwrap();
        let (said, hears) = channel();
        for block in 0..64 {
            let said = said.clone();
            let op = DeviceOp::Read { at: block * BLOCK as u64, into: Pages::zeroed(BLOCK) };
            device.start(op, Box::new(move |result| said.send(result.map(|pages| pages.len())).unwrap()));
        }
        drop((device, said));
        let results: Vec<_> = hears.iter().collect();
        assert_eq!(results.len(), 64);
        assert!(results.iter().all(|result| matches!(result, Ok(BLOCK) | Err(DeviceError::Closed))), "{results:?}");
    }
}

#[test]
fn a_panic_of_one_answer_leaves_the_others() {
    with_each(|device| {
        device.start(DeviceOp::Sync, Box::new(|_| std::panic::resume_unwind(Box::new("not told by the hook"))));
        assert!(perform(device, DeviceOp::Sync).is_ok());
        assert!(perform(device, DeviceOp::Read { at: 0, into: Pages::zeroed(BLOCK) }).is_ok());
    });
}

#[test]
fn an_answer_may_begin_the_next_operation_and_end_the_device() {
    let options = DeviceOptions { bytes: Some(16 * BLOCK as u64), ..DeviceOptions::default() };
    for engine in [DeviceEngine::IfPossible, DeviceEngine::Threads] {
        let path = path();
        let device = Arc::new(FileDevice::open(&path, &DeviceOptions { engine, ..options.clone() }).unwrap());
        std::fs::remove_file(path).unwrap();
        let (said, hears) = channel();
        let last = device.clone();
        let second = move |_| {
            // The last handle on the device goes in one of its own threads, which doesn't wait for itself.
            while Arc::strong_count(&last) > 1 {
                std::thread::yield_now();
            }
            drop(last);
            said.send(IS_DEVICES.get()).unwrap();
        };
        let again = device.clone();
        device.start(DeviceOp::Sync, Box::new(move |_| again.start(DeviceOp::Sync, Box::new(second))));
        drop(device);
        assert_eq!(hears.recv(), Ok(true), "in a device's thread");
    }
}

#[test]
fn a_thread_of_a_device_waits_for_no_end() {
    let (_held, ends) = Ends::new();
    IS_DEVICES.set(true);
    let waited = |_| {
        let begun = base::clock::now();
        ends.wait();
        begun.elapsed()
    };
    // One that waits does so each time; something else may hold this thread up once.
    let least = (0..3).map(waited).min();
    IS_DEVICES.set(false);
    assert!(least < Some(Ends::PATIENCE), "{least:?}");
}

#[test]
fn a_device_is_opened_again_once_it_is_closed() {
    for engine in [DeviceEngine::IfPossible, DeviceEngine::Threads] {
        let path = path();
        let options = DeviceOptions { bytes: Some(16 * BLOCK as u64), engine, ..DeviceOptions::default() };
        for mark in 1..4 {
            let device = FileDevice::open(&path, &options).unwrap();
            let before = perform(&device, DeviceOp::Read { at: 0, into: Pages::zeroed(BLOCK) }).unwrap();
            assert_eq!(before[0], mark - 1);
            assert!(FileDevice::open(&path, &options).unwrap_err().to_string().contains("used by another process"));
            perform(&device, DeviceOp::Write { at: 0, from: marked(mark) }).unwrap();
        }
        std::fs::remove_file(path).unwrap();
    }
}

#[test]
fn a_file_that_is_cut_short_is_an_error_and_no_signal() {
    let path = path();
    let device =
        FileDevice::open(&path, &DeviceOptions { bytes: Some(16 * BLOCK as u64), ..DeviceOptions::default() }).unwrap();
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(BLOCK as u64).unwrap();
    std::fs::remove_file(path).unwrap();
    let read = |block: u64| perform(&device, DeviceOp::Read { at: block * BLOCK as u64, into: Pages::zeroed(BLOCK) });
    assert_eq!(read(8).unwrap_err(), DeviceError::Short);
    assert!(read(0).is_ok());
    assert_eq!(device.counts().errors, 1);
}

#[test]
fn a_pool_is_what_the_kernel_knows_where_it_can() {
    let pool = PagePool::new(1).unwrap();
    let path = path();
    let options =
        DeviceOptions { bytes: Some(16 * BLOCK as u64), pool: Some(pool.clone()), ..DeviceOptions::default() };
    let device = FileDevice::open(&path, &options).unwrap();
    std::fs::remove_file(path).unwrap();
    let mut pages = pool.take(2 * BLOCK);
    pages.fill(3);
    perform(&device, DeviceOp::Write { at: BLOCK as u64, from: Arc::new(pages) }).unwrap();
    let read = perform(&device, DeviceOp::Read { at: 0, into: pool.take(3 * BLOCK) }).unwrap();
    assert_eq!((read[0], read[BLOCK], read[3 * BLOCK - 1]), (0, 3, 3));
    drop((read, device));
    assert_eq!(pool.free_bytes(), pool.bytes(), "pages were lost");
}
