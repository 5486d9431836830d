// SPDX-License-Identifier: BSD-2-Clause
//! The file that -w names, or standard output: opened at the start, and again when it was moved away.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Read, Write};

const BEGIN_BYTES: u64 = 4;

pub struct ToolOutput {
    /// None or `-`: standard output.
    name: Option<String>,
    is_buffered: bool,
    begin: Vec<u8>,
    to: Box<dyn Write>,
}

impl std::fmt::Debug for ToolOutput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ToolOutput").field("name", &self.name).finish_non_exhaustive()
    }
}

impl ToolOutput {
    pub fn open(name: Option<String>, append: bool, is_buffered: bool) -> io::Result<ToolOutput> {
        let mut output = ToolOutput { name, is_buffered, begin: Vec::new(), to: Box::new(io::sink()) };
        output.target(append)?;
        Ok(output)
    }

    pub fn reopen(&mut self) -> io::Result<()> {
        let _ = self.to.flush();
        self.target(true)
    }

    /// The first bytes that the file had when it was opened. Empty: it had none.
    pub fn begin(&self) -> &[u8] {
        &self.begin
    }

    fn target(&mut self, append: bool) -> io::Result<()> {
        self.begin.clear();
        let target: Box<dyn Write> = match self.name.as_deref() {
            None | Some("-") => Box::new(io::stdout()),
            Some(name) => {
                let mut options = OpenOptions::new();
                options.create(true);
                if append {
                    options.append(true)
                } else {
                    options.write(true).truncate(true)
                };
                let file = options.open(name)?;
                if file.metadata().is_ok_and(|meta| meta.is_file() && meta.len() > 0) {
                    // One that can't be read is taken to begin as it should.
                    let read = File::open(name).and_then(|from| from.take(BEGIN_BYTES).read_to_end(&mut self.begin));
                    if read.is_err() {
                        self.begin = vec![0];
                    }
                }
                Box::new(file)
            }
        };
        self.to = if self.is_buffered { Box::new(BufWriter::with_capacity(64 << 10, target)) } else { target };
        Ok(())
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
