// SPDX-License-Identifier: BSD-2-Clause
//! Records as `-w` writes them: as they stand in the log, behind a head that names their format. A file has one format, so what a
//! server of another release logs is written in that of the file.

use std::io::{self, Write};

use logq::output::ToolOutput;
use logq::record::{self, Rec};
use shm::vsl::LogFormat;
use toolkit::print;

#[derive(Default)]
pub struct RecordWriter {
    source: Option<LogFormat>,
    /// Format of the file. None until it has a head.
    file: Option<LogFormat>,
    record: Vec<u8>,
    has_told: bool,
}

impl RecordWriter {
    pub fn follow(&mut self, format: LogFormat, to: &mut ToolOutput) -> io::Result<()> {
        let has_head = self.file.is_some();
        self.source = Some(format);
        if has_head { Ok(()) } else { self.begin(to) }
    }

    pub fn begin(&mut self, to: &mut ToolOutput) -> io::Result<()> {
        let Some(source) = self.source else { return Ok(()) };
        if to.begin().is_empty() {
            to.write_all(source.file_head())?;
            self.file = Some(source);
        } else {
            self.file = Some(LogFormat::of_file(to.begin()).unwrap_or(source));
        }
        Ok(())
    }

    pub fn write(&mut self, rec: &Rec<'_>, to: &mut impl Write) -> io::Result<()> {
        let format = self.file.unwrap_or(rec.format);
        // Records of this format are read as they are written: they have no stamp.
        if rec.format == LogFormat::Seven && format == rec.format {
            return to.write_all(rec.bytes);
        }
        self.record.clear();
        if record::write_as(rec, format, &mut self.record) {
            return to.write_all(&self.record);
        }
        if !std::mem::replace(&mut self.has_told, true) {
            print::err(format_args!(
                "{} {}: the file's format is another release's and can't hold this record; such records are left out. Write to a \
                 new file\n",
                rec.vxid,
                rec.tag.name()
            ));
        }
        Ok(())
    }
}
