// SPDX-License-Identifier: BSD-2-Clause
//! `--format`: a line for each request, or for each transaction, and where it goes.

use std::io::{self, Write};

use logq::output::ToolOutput;
use logq::print::is_shown;
use logq::receiver::{LineReceiver, LineSender, QUEUE_BYTES};
use logq::tool::ToolFailure;
use logq::{Flow, Redaction, Select, ToolSink, Txn};
use transactions::json::{self, FieldNaming};
use transactions::{Transaction, combined};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LogLineFormat {
    Json,
    /// The combined format of web servers.
    Ncsa,
}

#[derive(Debug)]
pub struct LogLines {
    pub format: LogLineFormat,
    names: FieldNaming,
    /// Fields whose values are shown although they may be secrets.
    shown: Vec<String>,
    receiver: Option<LineReceiver>,
    queue_bytes: usize,
}

impl LogLines {
    pub fn new(format: LogLineFormat) -> LogLines {
        LogLines { format, names: FieldNaming::default(), shown: Vec::new(), receiver: None, queue_bytes: QUEUE_BYTES }
    }

    /// Takes an option that means something here alone.
    ///
    /// # Errors
    /// What is wrong with its value.
    pub fn option(&mut self, name: &str, value: &str) -> Result<(), ToolFailure> {
        match name {
            "names" => {
                let known = || format!("--names={value}: there are lacquer, ecs and otel");
                self.names = FieldNaming::from_name(value).ok_or_else(|| ToolFailure::new(known()))?;
            }
            "show-field" if !value.is_empty() => self.shown.push(value.to_owned()),
            "to" => self.receiver = Some(value.parse().map_err(|error| ToolFailure::new(format!("--to={error}")))?),
            "queue" => {
                let bytes = base::text::parse_bytes(value).filter(|bytes| (1..=1 << 34).contains(bytes));
                let bytes =
                    bytes.ok_or_else(|| ToolFailure::new(format!("--queue={value}: write a size such as 16m")))?;
                self.queue_bytes = bytes as usize;
            }
            _ => return Err(ToolFailure::new(format!("--{name}: Invalid value '{value}'"))),
        }
        Ok(())
    }

    pub fn has_receiver(&self) -> bool {
        self.receiver.is_some()
    }

    /// Begins: to the receiver, or where `open` says.
    ///
    /// # Errors
    /// The output can't be had.
    pub fn open(
        self,
        is_file_named: bool,
        open: impl FnOnce() -> Result<ToolOutput, ToolFailure>,
    ) -> Result<LineSink, ToolFailure> {
        let LogLines { format, names, shown, receiver, queue_bytes } = self;
        let to = match receiver {
            Some(_) if is_file_named => return Err(ToolFailure::new("Only one of -w and --to may be used")),
            Some(receiver) => To::Receiver { receiver, queue_bytes, sender: None },
            None => To::Output(open()?),
        };
        Ok(LineSink { format, names, redaction: Redaction::new(&shown), to, line: String::new() })
    }
}

fn gap_line(lost: u64, receiver: &LineReceiver) -> Vec<u8> {
    let mut out = String::new();
    json::gap(&mut out, lost, &format!("{receiver} didn't take them in time"));
    out.into_bytes()
}

#[derive(Debug)]
enum To {
    Output(ToolOutput),
    /// The sender begins with the first line: a thread must not be there when the tool goes into the background.
    Receiver {
        receiver: LineReceiver,
        queue_bytes: usize,
        sender: Option<LineSender>,
    },
}

#[derive(Debug)]
pub struct LineSink {
    format: LogLineFormat,
    names: FieldNaming,
    redaction: Redaction,
    to: To,
    line: String,
}

impl LineSink {
    fn write(&mut self, transaction: &Transaction) -> io::Result<()> {
        self.line.clear();
        match self.format {
            LogLineFormat::Json => json::line(&mut self.line, transaction, self.names),
            LogLineFormat::Ncsa => combined::line(&mut self.line, transaction),
        }
        match &mut self.to {
            _ if self.line.is_empty() => {}
            To::Output(output) => output.write_all(self.line.as_bytes())?,
            To::Receiver { receiver, queue_bytes, sender } => {
                if sender.is_none() {
                    *sender = Some(LineSender::start(receiver.clone(), *queue_bytes, gap_line)?);
                }
                if let Some(sender) = sender {
                    sender.send(self.line.clone().into_bytes());
                }
            }
        }
        Ok(())
    }
}

impl ToolSink for LineSink {
    fn group(&mut self, select: &Select, group: &[Txn<'_>]) -> io::Result<Flow> {
        // Of all that belongs together: a request that isn't shown may tell what is a secret in a fetch.
        let clean = self.redaction.group(group);
        let shown: Vec<Txn<'_>> = clean.view().into_iter().filter(|txn| is_shown(select, txn)).collect();
        for transaction in transactions::trees(&shown) {
            self.write(&transaction)?;
        }
        Ok(Flow::On)
    }

    fn idle(&mut self) -> io::Result<Flow> {
        if let To::Output(output) = &mut self.to {
            output.flush()?;
        }
        Ok(Flow::On)
    }

    fn hup(&mut self) -> Result<Flow, ToolFailure> {
        match &mut self.to {
            To::Output(output) => output.reopen().map_err(|error| crate::cannot_open(&error))?,
            To::Receiver { .. } => {}
        }
        Ok(Flow::On)
    }
}
