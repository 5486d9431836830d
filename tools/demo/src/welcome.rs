// SPDX-License-Identifier: BSD-2-Clause
//! What the demo says first: what there is to see and what to type next, for somebody who has never run a cache. It fits a
//! terminal of 80 columns, unless this program or the working directory have long names.

use std::net::SocketAddr;
use std::path::Path;

/// The text. `origin` and `cache` are where they listen, `page` is where the cache is shown at work, `directory` is the cache's, for the tools' -n.
pub fn text(origin: &SocketAddr, cache: &SocketAddr, page: Option<&SocketAddr>, directory: &Path) -> String {
    let program = std::env::args().next().unwrap_or_else(|| "lacquer".into());
    let directory = directory.display();
    let page = page
        .map(|page| format!("  its page   http://{page}/     what it does and why, as it happens\n"))
        .unwrap_or_default();
    format!(
        "\
A small web site, and Lacquer in front of it. Lacquer keeps what the site
answers and gives it to everybody who asks again: that is a cache.

  the cache   http://{cache}/     <- open this in a browser
  the site    http://{origin}/     (without the cache)
{page}
In another terminal, twice (the site needs two seconds for it):
  curl -i http://{cache}/slow
What happens, request by request; the counters; what is asked for most:
  {program} log -n {directory}
  {program} stat -n {directory}
  {program} top -n {directory}
Each second: requests (20 of them our own, to measure with), hits (answered from
the cache), time for half and for 99 % of them, memory, answers kept, their size
Ctrl-C ends it and leaves nothing behind.

"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_fits_a_terminal() {
        let address = SocketAddr::from(([127, 0, 0, 1], 65535));
        let text = text(&address, &address, Some(&address), Path::new("/tmp/lacquer-demo.4194304/n"));
        // The test's own name is longer than any that a user types.
        let program = std::env::args().next().unwrap_or_default();
        for line in text.replace(&program, "dist/bin/lacquer").lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
        assert!(crate::status::HEADING.len() <= 80);
        assert!(text.lines().count() <= 19, "with the heading and some figures it fits 24 lines");
    }
}
