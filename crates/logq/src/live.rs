// SPDX-License-Identifier: BSD-2-Clause
//! A page on a terminal that is drawn again and again while the log is followed.

use std::io;
use std::time::{Duration, Instant};

use screen::{KeyPress, Screen, ScreenLine};

use crate::source::strerror;
use crate::tool::{Flow, LogTool, ToolFailure};

#[derive(Debug)]
pub struct LiveLog {
    screen: Screen,
    pub delay: Duration,
    pub ident: String,
    /// The log has ended: what was read stays until a key ends the tool.
    pub is_over: bool,
    drawn: Option<Instant>,
    quit: bool,
}

/// The message for a tool that has nowhere to draw. `instead`: what to type.
pub fn no_screen(error: &io::Error, instead: &str) -> ToolFailure {
    ToolFailure::new(format!("No screen: {}. {instead}", strerror(error)))
}

impl LiveLog {
    /// Takes the terminal. `instead`: what to type where there is none.
    ///
    /// # Errors
    /// There is none.
    pub fn new(tool: &LogTool, delay: Duration, instead: &str) -> Result<LiveLog, ToolFailure> {
        let ident = match &tool.file {
            None => {
                let found = shm::reader::find(tool.attach.name.as_deref());
                found.ok().and_then(|found| shm::reader::manager_arg(&found.workdir, "-i")).unwrap_or_default()
            }
            Some(_) => String::new(),
        };
        let screen = Screen::new().map_err(|e| no_screen(&e, instead))?;
        Ok(LiveLog { screen, delay, ident, is_over: false, drawn: None, quit: false })
    }

    /// Draws when it is time.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn draw(&mut self, page: impl FnOnce(&LiveLog, (usize, usize)) -> Vec<ScreenLine>) -> io::Result<()> {
        if self.drawn.is_some_and(|at| at.elapsed() < self.delay) {
            return Ok(());
        }
        self.drawn = Some(Instant::now());
        let page = page(self, self.screen.size());
        self.screen.draw(&page)
    }

    /// Waits for a key; those that end and draw again are obeyed here, any other is for `other`.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn key(&mut self, wait: Duration, other: impl FnOnce(&mut LiveLog, KeyPress)) -> io::Result<Flow> {
        match self.screen.key(wait)? {
            Some(KeyPress::Char('q' | 'Q') | KeyPress::Ctrl('c' | 'q')) => {
                self.quit = true;
                return Ok(Flow::Stop);
            }
            Some(KeyPress::Ctrl('l' | 't') | KeyPress::Resize) => self.drawn = None,
            Some(key) => other(self, key),
            None => {}
        }
        Ok(Flow::On)
    }

    /// Says that the log has ended; whether there is still somebody to look.
    pub fn end(&mut self) -> bool {
        (self.is_over, self.drawn) = (true, None);
        !self.quit
    }
}
