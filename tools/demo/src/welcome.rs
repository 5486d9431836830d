// SPDX-License-Identifier: BSD-2-Clause
//! What the demo says first, for somebody who has never run a cache: where to look and what there is, then, behind the first requests (`tour`),
//! what to do next. It fits a terminal of 80 columns, unless this program or the working directory have long names.

use std::net::SocketAddr;
use std::path::Path;

/// The text before the first requests. `cache` is where it listens, `page` is where it is shown at work.
pub fn opening(cache: &SocketAddr, page: Option<&SocketAddr>) -> String {
    let page = page.map(|page| format!("http://{page}/  <- the dashboard: open it in a browser\n"));
    let page = page.unwrap_or_default();
    format!("{page}http://{cache}/  <- the demo site, with a cache in front of it\n")
}

/// The text behind them. `origin` is where the site is itself, `directory` is the cache's, for the tools' -n.
pub fn further(origin: &SocketAddr, cache: &SocketAddr, directory: &Path) -> String {
    let program = std::env::args().next().unwrap_or_else(|| "lacquer".into());
    let directory = directory.display();
    format!(
        "
The site without the cache: http://{origin}/
Type this in another terminal (the page is cached for ten seconds):
  curl -i http://{cache}/slow
These show the log, the counters, and the most frequent log entries:
  {program} log -n {directory}
  {program} stat -n {directory}
  {program} top -n {directory}
Below, a line per second: requests (20 of them the demo's own probes), hit rate,
median and 99th percentile of response time, memory, cached objects, their size.
Ctrl-C stops the demo and removes its files.

"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_fits_a_terminal() {
        let address = SocketAddr::from(([127, 0, 0, 1], 65535));
        let opening = opening(&address, Some(&address));
        let text = opening.clone() + &further(&address, &address, Path::new("/tmp/lacquer-demo.4194304/n"));
        // The test's own name is longer than any that a user types.
        let program = std::env::args().next().unwrap_or_default();
        for line in text.replace(&program, "dist/bin/lacquer").lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
        assert!(opening.starts_with("http://127.0.0.1:65535/  <- the dashboard"), "the watch page comes first");
        assert!(crate::status::HEADING.len() <= 80);
        assert!(text.lines().count() <= 17, "with three requests, the heading and some figures it fits 24 lines");
    }
}
