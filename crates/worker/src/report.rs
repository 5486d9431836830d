// SPDX-License-Identifier: BSD-2-Clause
//! Lines on standard error, which the manager logs. A manager that is gone reads none, and requests are served all the same:
//! `eprintln!` would panic.

macro_rules! report_line {
    ($($text:tt)*) => { toolkit::print::err(format_args!("{}\n", format_args!($($text)*))) };
}
