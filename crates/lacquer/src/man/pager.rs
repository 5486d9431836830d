// SPDX-License-Identifier: BSD-2-Clause
//! A page on a terminal: through man(1) where there is one, else as plain text through a pager. A pipe or a file gets plain text.

use std::io::{self, IsTerminal, Write};
use std::process::{Command, Stdio};

use sys::signal::{self, SIGINT};
use toolkit::print;

use super::render::render;

/// Exit status of man(1) for options that it doesn't know and for what it can't do: it has shown nothing.
const MAN_FAILED: [i32; 2] = [1, 2];
/// Lines longer than this are hard to read.
const WIDEST: usize = 100;
const PIPED: usize = 80;

pub fn show(roff: &str) {
    if !io::stdout().is_terminal() {
        return print::out(render(roff, PIPED));
    }
    if through(Command::new("man").args(["-l", "-"]), roff).is_some_and(|status| !MAN_FAILED.contains(&status)) {
        return;
    }
    let text = render(roff, screen::columns().min(WIDEST));
    let own = std::env::var("PAGER").ok().filter(|pager| !pager.trim().is_empty());
    let own = own.is_some_and(|pager| is_shown(Command::new("sh").args(["-c", &pager]), &text));
    if !own && !is_shown(&mut Command::new("less"), &text) && !is_shown(&mut Command::new("more"), &text) {
        print::out(text);
    }
}

/// True if a pager was there to show it. A shell says 127 when it wasn't.
fn is_shown(pager: &mut Command, text: &str) -> bool {
    through(pager, text).is_some_and(|status| status != 127)
}

/// Runs a program that reads `text`; its exit status (0 when a signal ended it), or none when there is no such program.
fn through(program: &mut Command, text: &str) -> Option<i32> {
    let mut child = program.stdin(Stdio::piped()).spawn().ok()?;
    // Ctrl-C is for the pager.
    let _ = signal::ignore(SIGINT);
    if let Some(mut input) = child.stdin.take() {
        // Who has read enough closes it.
        let _ = input.write_all(text.as_bytes());
    }
    child.wait().ok().map(|status| status.code().unwrap_or(0))
}
