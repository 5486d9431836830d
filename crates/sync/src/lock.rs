// SPDX-License-Identifier: BSD-2-Clause
//! The lock that this crate's types use: [`base::critical::Lock`], or loom's where loom runs the threads.

#[cfg(not(loom))]
pub(crate) use base::critical::Lock;

#[cfg(loom)]
#[derive(Debug, Default)]
pub(crate) struct Lock<T>(loom::sync::Mutex<T>);

#[cfg(loom)]
impl<T> Lock<T> {
    pub fn new(value: T) -> Self {
        Lock(loom::sync::Mutex::new(value))
    }

    pub fn lock(&self) -> loom::sync::MutexGuard<'_, T> {
        self.0.lock().expect("a model that panics ends at once")
    }
}
