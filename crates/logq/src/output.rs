// SPDX-License-Identifier: BSD-2-Clause
//! The file that -w names, or standard output: opened at the start, and again when it was moved away.

use std::fs::OpenOptions;
use std::io::{self, BufWriter, Write};

pub struct ToolOutput {
    /// None or `-`: standard output.
    name: Option<String>,
    is_buffered: bool,
    head: &'static [u8],
    to: Box<dyn Write>,
}

impl std::fmt::Debug for ToolOutput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ToolOutput").field("name", &self.name).finish_non_exhaustive()
    }
}

impl ToolOutput {
    pub fn open(name: Option<String>, append: bool, is_buffered: bool, head: &'static [u8]) -> io::Result<ToolOutput> {
        let mut output = ToolOutput { name, is_buffered, head, to: Box::new(io::sink()) };
        output.to = output.target(append)?;
        Ok(output)
    }

    pub fn reopen(&mut self) -> io::Result<()> {
        let _ = self.to.flush();
        self.to = self.target(true)?;
        Ok(())
    }

    fn target(&self, append: bool) -> io::Result<Box<dyn Write>> {
        let (target, is_empty): (Box<dyn Write>, bool) = match self.name.as_deref() {
            None | Some("-") => (Box::new(io::stdout()), true),
            Some(name) => {
                let mut options = OpenOptions::new();
                options.create(true);
                if append {
                    options.append(true)
                } else {
                    options.write(true).truncate(true)
                };
                let file = options.open(name)?;
                let is_empty = file.metadata().is_ok_and(|meta| meta.len() == 0);
                (Box::new(file), is_empty)
            }
        };
        let mut to = if self.is_buffered { Box::new(BufWriter::with_capacity(64 << 10, target)) } else { target };
        if is_empty {
            to.write_all(self.head)?;
        }
        Ok(to)
    }
}

impl Write for ToolOutput {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        self.to.write(octets)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}
