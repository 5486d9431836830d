// SPDX-License-Identifier: BSD-2-Clause
//! The terminal as a page of lines and a source of keys, for the tools that show figures as they change.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use crossterm::style::{Attribute, Print, SetAttribute};
use crossterm::{cursor, execute, queue, terminal};

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ScreenStyle {
    #[default]
    Plain,
    Bold,
    /// Light on dark changed to dark on light, over the whole width.
    Reverse,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ScreenLine {
    /// The text of the line; cut at the width.
    pub text: String,
    pub look: ScreenStyle,
}

impl ScreenLine {
    pub fn new(text: impl Into<String>) -> ScreenLine {
        ScreenLine { text: text.into(), look: ScreenStyle::Plain }
    }

    pub fn look(mut self, look: ScreenStyle) -> ScreenLine {
        self.look = look;
        self
    }

    /// Puts `text` at a column, over what stands there.
    pub fn put(&mut self, column: usize, text: &str) {
        let mut chars: Vec<char> = self.text.chars().collect();
        let end = column + text.chars().count();
        if chars.len() < end {
            chars.resize(end, ' ');
        }
        for (place, c) in chars[column..].iter_mut().zip(text.chars()) {
            *place = c;
        }
        self.text = chars.into_iter().collect();
    }
}

/// The terminal's columns; 80 where that can't be told.
pub fn columns() -> usize {
    terminal::size().map_or(80, |(columns, _)| usize::from(columns)).max(20)
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeyPress {
    Char(char),
    Ctrl(char),
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
    Resize,
}

/// The terminal while a tool has it: another page, no echo. Dropping it gives all back.
#[derive(Debug)]
pub struct Screen(());

impl Screen {
    /// Takes the terminal.
    ///
    /// # Errors
    /// There is none, or what is drawn would go into a pipe or a file.
    pub fn new() -> io::Result<Screen> {
        if !io::stdout().is_terminal() {
            return Err(io::Error::other("the output is no terminal"));
        }
        terminal::enable_raw_mode()?;
        let screen = Screen(());
        // crossterm sets up its reader at the first poll, and never returns from that if the terminal goes away meanwhile.
        event::poll(Duration::ZERO)?;
        execute!(io::stdout(), terminal::EnterAlternateScreen, cursor::Hide)?;
        Ok(screen)
    }

    /// Number of columns and lines.
    pub fn size(&self) -> (usize, usize) {
        terminal::size().map_or((80, 24), |(columns, lines)| (usize::from(columns), usize::from(lines)))
    }

    pub fn draw(&mut self, page: &[ScreenLine]) -> io::Result<()> {
        let (columns, lines) = self.size();
        let mut out = io::stdout().lock();
        for row in 0..lines {
            let line = page.get(row).cloned().unwrap_or_default();
            // Control characters would move the cursor.
            let clean = |c: char| if c.is_control() { '.' } else { c };
            let mut text: String = line.text.chars().take(columns).map(clean).collect();
            let attribute = match line.look {
                ScreenStyle::Plain => Attribute::Reset,
                ScreenStyle::Bold => Attribute::Bold,
                ScreenStyle::Reverse => {
                    text = format!("{text:<columns$}");
                    Attribute::Reverse
                }
            };
            let row = u16::try_from(row).unwrap_or(u16::MAX);
            queue!(out, cursor::MoveTo(0, row), SetAttribute(attribute), Print(text), SetAttribute(Attribute::Reset))?;
            queue!(out, terminal::Clear(terminal::ClearType::UntilNewLine))?;
        }
        out.flush()
    }

    pub fn key(&mut self, wait: Duration) -> io::Result<Option<KeyPress>> {
        // crossterm reads a terminal that is gone for ever: it is asked only while there is one.
        let terminal = sys::fd::standard(0);
        let gone = || io::Error::from(io::ErrorKind::BrokenPipe);
        if sys::fd::is_hung_up(terminal)? {
            return Err(gone());
        }
        if !event::poll(Duration::ZERO)? {
            if !sys::fd::wait(terminal, sys::fd::Interest::Read, Some(wait))? {
                return Ok(None);
            }
            if sys::fd::is_hung_up(terminal)? {
                return Err(gone());
            }
            if !event::poll(Duration::ZERO)? {
                return Ok(None);
            }
        }
        let key = match event::read()? {
            Event::Resize(..) => KeyPress::Resize,
            Event::Key(key) if key.kind != KeyEventKind::Release => match key.code {
                KeyCode::Char(c) if key.modifiers.contains(KeyModifiers::CONTROL) => KeyPress::Ctrl(c),
                KeyCode::Char(c) => KeyPress::Char(c),
                KeyCode::Up => KeyPress::Up,
                KeyCode::Down => KeyPress::Down,
                KeyCode::PageUp => KeyPress::PageUp,
                KeyCode::PageDown => KeyPress::PageDown,
                KeyCode::Home => KeyPress::Home,
                KeyCode::End => KeyPress::End,
                _ => return Ok(None),
            },
            _ => return Ok(None),
        };
        Ok(Some(key))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = execute!(io::stdout(), cursor::Show, terminal::LeaveAlternateScreen);
        let _ = terminal::disable_raw_mode();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_written_over() {
        let mut line = ScreenLine::new("abc");
        line.put(5, "x");
        line.put(1, "é");
        assert_eq!(line.text, "aéc  x");
    }
}
