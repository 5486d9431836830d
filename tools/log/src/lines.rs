// SPDX-License-Identifier: BSD-2-Clause
//! `--format`: a line for each request, or for each transaction, and where it goes.

use std::io::{self, Write};

use logq::output::Output;
use logq::print::is_shown;
use logq::receiver::{QUEUE_BYTES, Receiver, Sender};
use logq::tool::Failure;
use logq::{Flow, Redaction, Select, Sink, Txn};
use transactions::json::{self, Names};
use transactions::{Transaction, combined};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    Json,
    /// The combined format of web servers.
    Ncsa,
}

#[derive(Debug)]
pub struct Lines {
    pub format: Format,
    names: Names,
    /// Fields whose values are shown although they may be secrets.
    shown: Vec<String>,
    receiver: Option<Receiver>,
    queue_bytes: usize,
}

impl Lines {
    pub fn new(format: Format) -> Lines {
        Lines { format, names: Names::default(), shown: Vec::new(), receiver: None, queue_bytes: QUEUE_BYTES }
    }

    /// Takes an option that means something here alone.
    ///
    /// # Errors
    /// What is wrong with its value.
    pub fn option(&mut self, name: &str, value: &str) -> Result<(), Failure> {
        match name {
            "names" => {
                let known = || format!("--names={value}: there are lacquer, ecs and otel");
                self.names = Names::from_name(value).ok_or_else(|| Failure::new(known()))?;
            }
            "show-field" if !value.is_empty() => self.shown.push(value.to_owned()),
            "to" => self.receiver = Some(value.parse().map_err(|error| Failure::new(format!("--to={error}")))?),
            "queue" => {
                let bytes = base::text::parse_bytes(value).filter(|bytes| (1..=1 << 34).contains(bytes));
                let bytes = bytes.ok_or_else(|| Failure::new(format!("--queue={value}: write a size such as 16m")))?;
                self.queue_bytes = bytes as usize;
            }
            _ => return Err(Failure::new(format!("--{name}: Invalid value '{value}'"))),
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
        open: impl FnOnce() -> Result<Output, Failure>,
    ) -> Result<LineSink, Failure> {
        let Lines { format, names, shown, receiver, queue_bytes } = self;
        let to = match receiver {
            Some(_) if is_file_named => return Err(Failure::new("Only one of -w and --to may be used")),
            Some(receiver) => To::Receiver { receiver, queue_bytes, sender: None },
            None => To::Output(open()?),
        };
        Ok(LineSink { format, names, redaction: Redaction::new(&shown), to, line: String::new() })
    }
}

fn gap_line(lost: u64, receiver: &Receiver) -> Vec<u8> {
    let mut out = String::new();
    json::gap(&mut out, lost, &format!("{receiver} didn't take them in time"));
    out.into_bytes()
}

#[derive(Debug)]
enum To {
    Output(Output),
    /// The sender begins with the first line: a thread must not be there when the tool goes into the background.
    Receiver {
        receiver: Receiver,
        queue_bytes: usize,
        sender: Option<Sender>,
    },
}

#[derive(Debug)]
pub struct LineSink {
    format: Format,
    names: Names,
    redaction: Redaction,
    to: To,
    line: String,
}

impl LineSink {
    fn write(&mut self, transaction: &Transaction) -> io::Result<()> {
        self.line.clear();
        match self.format {
            Format::Json => json::line(&mut self.line, transaction, self.names),
            Format::Ncsa => combined::line(&mut self.line, transaction),
        }
        match &mut self.to {
            _ if self.line.is_empty() => {}
            To::Output(output) => output.write_all(self.line.as_bytes())?,
            To::Receiver { receiver, queue_bytes, sender } => {
                if sender.is_none() {
                    *sender = Some(Sender::start(receiver.clone(), *queue_bytes, gap_line)?);
                }
                if let Some(sender) = sender {
                    sender.send(self.line.clone().into_bytes());
                }
            }
        }
        Ok(())
    }
}

impl Sink for LineSink {
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

    fn hup(&mut self) -> Result<Flow, Failure> {
        match &mut self.to {
            To::Output(output) => output.reopen().map_err(|error| crate::cannot_open(&error))?,
            To::Receiver { .. } => {}
        }
        Ok(Flow::On)
    }
}
