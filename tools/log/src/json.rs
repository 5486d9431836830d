// SPDX-License-Identifier: BSD-2-Clause
//! `varnishlog-json`, with the fields that the program of that name has in Varnish 9: a line each transaction, an array each request (`-g request`), or
//! the results of probes (`-g probe`).

mod probe;
mod transaction;
mod value;

use std::io::{self, Write};

use logq::getopt::{OptMatch, ToolOption};
use logq::output::ToolOutput;
use logq::program::{self, ToolCli, ToolProgram};
use logq::rows;
use logq::tool::ToolFailure;
use logq::{Flow, Grouping, LogTool, Select, ToolSink, Txn, records};
use value::{JsonLayout, JsonValue};

pub const OPTIONS: &[ToolOption] = &[
    rows::APPEND,
    rows::BACKENDS,
    rows::CLIENTS,
    rows::IGNORE_CASE,
    rows::TO_THE_END,
    rows::DAEMON,
    rows::ESI,
    ToolOption('g', "probe|request|vxid", "One object per probe, request or transaction (default: vxid)"),
    rows::HELP,
    ToolOption('i', "taglist", "Only members from records with these tags"),
    ToolOption('I', "[taglist:]regex", "Only from records that match the regular expression"),
    rows::MOST_GROUPS,
    rows::MOST_INCOMPLETE,
    rows::SERVER,
    ToolOption('p', "", "Indent the objects instead of writing one per line"),
    rows::PID_FILE,
    rows::QUERY_FILE,
    rows::QUERY,
    rows::LOG_FILE,
    rows::RATE,
    rows::PATIENCE,
    rows::SHOW_INCOMPLETE,
    rows::VERSION,
    rows::OUTPUT,
    ToolOption('x', "taglist", "Without members from records with these tags"),
    ToolOption('X', "[taglist:]regex", "Without those that match the regular expression"),
];

const MORE: &str = "
 --optstring               Print the options in getopt's notation

Examples:
 varnishlog-json -p -d                          all transactions so far, indented
 varnishlog-json -g request                     each request with its fetches, as an array
 varnishlog-json -q 'RespStatus >= 500'         failed requests
 varnishlog-json -g probe                       results of health probes
";

pub fn main(program: &str, args: &[String]) -> i32 {
    let cli = ToolCli { options: OPTIONS, long: &[], valued: &[], more: MORE };
    program::main(program, args, &cli, Config::default())
}

#[derive(Default)]
struct Config {
    tool: LogTool,
    groups: GroupObject,
    has_side: bool,
    append: bool,
    file: Option<String>,
    is_indented: bool,
}

/// The value that is written for a group.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum GroupObject {
    #[default]
    Transaction,
    Request,
    Probe,
}

impl ToolProgram for Config {
    fn option(&mut self, option: OptMatch) -> Result<(), ToolFailure> {
        let OptMatch::Short(letter, value) = option else { return Ok(()) };
        match (letter, value.as_str()) {
            ('a', _) => self.append = true,
            ('p', _) => self.is_indented = true,
            ('w', _) => self.file = Some(value),
            ('g', "vxid") => self.groups = GroupObject::Transaction,
            ('g', "request") => self.groups = GroupObject::Request,
            ('g', "probe") => self.groups = GroupObject::Probe,
            ('g', other) => {
                return Err(ToolFailure::new(format!("-g: \"{other}\" is none of probe, request and vxid")));
            }
            _ => {
                self.has_side |= matches!(letter, 'b' | 'c');
                self.tool.option(letter, &value).map_err(ToolFailure::new)?;
            }
        }
        Ok(())
    }

    fn run(mut self) -> Result<i32, ToolFailure> {
        self.tool.check_daemon(self.file.as_deref())?;
        self.tool.select.has_both_sides = true;
        self.tool.grouping = match self.groups {
            GroupObject::Transaction => Grouping::Vxid,
            GroupObject::Request => Grouping::Request,
            GroupObject::Probe => Grouping::Raw,
        };
        if !self.has_side && self.groups == GroupObject::Transaction {
            self.tool.option('c', "").map_err(ToolFailure::new)?;
        }
        let layout = if self.is_indented { JsonLayout::Indented } else { JsonLayout::Line };
        let out = ToolOutput::open(self.file, self.append, true).map_err(|error| crate::cannot_open(&error))?;
        let reopens = self.tool.daemon;
        self.tool.run(&mut Objects { groups: self.groups, layout, reopens, out, line: String::new() })?;
        Ok(0)
    }
}

struct Objects {
    groups: GroupObject,
    layout: JsonLayout,
    reopens: bool,
    out: ToolOutput,
    line: String,
}

impl ToolSink for Objects {
    fn group(&mut self, select: &Select, group: &[Txn<'_>]) -> io::Result<Flow> {
        let mut made = group.iter().filter_map(|txn| transaction::object(select, txn)).map(JsonValue::Object);
        let value = match self.groups {
            GroupObject::Transaction => made.next(),
            GroupObject::Request => Some(made.collect()).filter(|all: &Vec<_>| !all.is_empty()).map(JsonValue::List),
            GroupObject::Probe => {
                let mut records = group.iter().flat_map(|txn| records(txn.records));
                records.find_map(|rec| probe::object(&rec)).map(JsonValue::Object)
            }
        };
        if let Some(value) = value {
            self.line.clear();
            value.write(&mut self.line, self.layout);
            self.line.push('\n');
            self.out.write_all(self.line.as_bytes())?;
        }
        Ok(Flow::On)
    }

    fn idle(&mut self) -> io::Result<Flow> {
        self.out.flush()?;
        Ok(Flow::On)
    }

    fn hup(&mut self) -> Result<Flow, ToolFailure> {
        if !self.reopens {
            return Ok(Flow::Stop);
        }
        self.out.reopen().map_err(|error| crate::cannot_open(&error))?;
        Ok(Flow::On)
    }
}

#[cfg(test)]
mod tests;
