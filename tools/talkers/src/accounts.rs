// SPDX-License-Identifier: BSD-2-Clause
//! `--accounts`: who costs the origin most, by a running server's own accounts (parameter `bots`) instead of its log.

use std::time::Duration;

use admin::Door;
use serde_json::Value;
use toolkit::print;

use crate::options::{TalkersFormat, TalkersOptions};

const PATIENCE: Duration = Duration::from_secs(10);
const MOST_ROWS: usize = 100;

/// # Errors
/// The reason why the server can't be asked, or its refusal.
pub fn show(options: &TalkersOptions) -> Result<i32, String> {
    let workdir =
        options.gathering.sources.live.as_deref().ok_or("--accounts needs a running server: -n DIR or --live")?;
    let door = Door::of(workdir)
        .ok_or_else(|| format!("{}: no server runs there, or it has no CLI (-T)", workdir.display()))?;
    let rows = if options.top == 0 { MOST_ROWS } else { options.top.min(MOST_ROWS) };
    let is_json = options.format == TalkersFormat::Json;
    let command = format!("bots.list {}{rows}", if is_json { "-j " } else { "" });
    let reply = door.open(Some(PATIENCE))?.ask_for(&command)?;
    let text = reply.text();
    if is_json {
        let content = content(&text).ok_or("the server's reply isn't as expected")?;
        print::out(format_args!("{content:#}\n"));
    } else {
        print::foreign(format_args!("{}\n", text.trim_end()));
    }
    Ok(0)
}

/// The member of the reply's array behind version, command and time.
fn content(reply: &str) -> Option<Value> {
    serde_json::from_str::<Value>(reply).ok()?.as_array_mut()?.pop().filter(Value::is_object)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_accounts_are_the_last_member_of_the_reply() {
        let reply = "[ 2, [\"bots.list\", \"-j\"], 1.5,\n{ \"mode\": \"on\" }\n]\n";
        assert_eq!(content(reply).map(|content| content["mode"].clone()), Some("on".into()));
        assert_eq!((content("[ 2, [], 1.5\n]\n"), content("x")), (None, None));
    }
}
