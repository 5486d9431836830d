// SPDX-License-Identifier: BSD-2-Clause
//! The runners of fetches.

use rt::Runners;

use super::Bereq;

thread_local! {
    static FETCHES: Runners<Box<Bereq>> = const { Runners::new() };
}

pub(crate) fn trim() {
    FETCHES.with(Runners::trim);
}

pub(super) fn run(bereq: Box<Bereq>) {
    Runners::spawn(&FETCHES, crate::contain::fetch, bereq);
}
