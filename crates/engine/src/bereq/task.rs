// SPDX-License-Identifier: BSD-2-Clause
//! The tasks that fetches run in.

use rt::TaskPool;

use super::Bereq;

thread_local! {
    static FETCHES: TaskPool<Box<Bereq>> = const { TaskPool::new() };
}

pub(super) fn run(bereq: Box<Bereq>) {
    TaskPool::run(&FETCHES, crate::contain::fetch, bereq);
}
