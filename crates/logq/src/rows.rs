// SPDX-License-Identifier: BSD-2-Clause
//! Options that several readers of the log share: letter, value, help. An option that means something else in one of them is a row there.

use crate::getopt::ToolOption;

pub const APPEND: ToolOption = ToolOption('a', "", "With -w: append to the file instead of overwriting it");
pub const BACKENDS: ToolOption = ToolOption('b', "", "Only backend transactions (fetches)");
pub const IGNORE_CASE: ToolOption = ToolOption('C', "", "Ignore case in regular expressions and strings");
pub const CLIENTS: ToolOption = ToolOption('c', "", "Only client transactions (requests)");
pub const DAEMON: ToolOption = ToolOption('D', "", "Run in the background (requires -w)");
pub const FROM_THE_START: ToolOption = ToolOption('d', "", "Start with the existing log");
pub const TO_THE_END: ToolOption = ToolOption('d', "", "Read the existing log from its start, and exit at its end");
pub const ESI: ToolOption = ToolOption('E', "", "Only requests, including ESI includes");
pub const GROUPING: ToolOption = ToolOption('g', "request|vxid", "How records are grouped for queries (default: vxid)");
pub const HELP: ToolOption = ToolOption('h', "", "Show this help");
pub const MATCHES: ToolOption = ToolOption('I', "[taglist:]regex", "Only records that match the regular expression");
pub const TAGS: ToolOption = ToolOption('i', "taglist", "Only these tags");
pub const MOST_GROUPS: ToolOption = ToolOption('k', "num", "Exit after this many groups");
pub const MOST_INCOMPLETE: ToolOption =
    ToolOption('L', "limit", "Upper limit of incomplete transactions kept in memory (default: 1000)");
pub const SERVER: ToolOption = ToolOption('n', "dir", "Working directory or instance name of the server");
pub const PID_FILE: ToolOption = ToolOption('P', "file", "Write the process ID to this file");
pub const QUERY_FILE: ToolOption = ToolOption('Q', "file", "Read a query from this file");
pub const QUERY: ToolOption = ToolOption('q', "query", "Only groups that match the query, see vsl-query(7)");
pub const RATE: ToolOption = ToolOption('R', "limit[/duration]", "Show at most this many groups per duration");
pub const LOG_FILE: ToolOption =
    ToolOption('r', "filename", "Read a file that varnishlog -w wrote (-: standard input)");
pub const COUNT_INCOMPLETE: ToolOption =
    ToolOption('T', "seconds", "Count incomplete transactions after this time (default: 120)");
pub const SHOW_INCOMPLETE: ToolOption =
    ToolOption('T', "seconds", "Show incomplete transactions after this time (default: 120)");
pub const PATIENCE: ToolOption = ToolOption('t', "seconds|off", "How long to wait for the server (default: 5)");
pub const VERSION: ToolOption = ToolOption('V', "", "Show the version");
pub const OUTPUT: ToolOption =
    ToolOption('w', "filename", "Write to this file (-: standard output); SIGHUP reopens it");
pub const OTHER_MATCHES: ToolOption =
    ToolOption('X', "[taglist:]regex", "Exclude records that match the regular expression");
pub const OTHER_TAGS: ToolOption = ToolOption('x', "taglist", "Exclude these tags");
