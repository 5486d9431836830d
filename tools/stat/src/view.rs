// SPDX-License-Identifier: BSD-2-Clause
//! The screen that follows the counters: keys, samples, and what stands on the page.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use screen::{KeyPress, Screen, ScreenLine, ScreenStyle};
use shm::reader::{CounterReader, CounterValue, WorkdirStatus, status};
use sys::signal::{self, Signals};
use tables::counters::{CounterFormat, CounterKind, CounterLevel};

use crate::filter::StatFilter;
use crate::once::value;
use crate::window::{HitRate, StatWindows};

const COLUMN: usize = 14;
const COLUMNS: usize = 6;
/// The longest wait for a key.
const STEP: Duration = Duration::from_millis(100);
const NAME_MIN: usize = 24;
/// Keys, and what they do on the line below.
const HELP: &[(&str, &str)] = &[
    ("<h>", "Show this help, or leave it."),
    ("<UP> or <k>", "Navigate the counter list one line up."),
    ("<DOWN> or <j>", "Navigate the counter list one line down."),
    ("<PAGEUP> or <b> or <CTRL-B>", "Navigate the counter list one page up."),
    ("<PAGEDOWN> or <SPACE> or <CTRL-F>", "Navigate the counter list one page down."),
    ("<HOME> or <g>", "Navigate the counter list to the top."),
    ("<END> or <G>", "Navigate the counter list to the bottom."),
    ("<d>", "Show counters that were zero all the time, or hide them again."),
    ("<r>", "Show gauges below zero as they are, or as zero again."),
    ("<e>", "Show bytes and times as plain numbers, or scaled again."),
    ("<v>", "Show more counters: info, diag, debug."),
    ("<V>", "Show fewer counters."),
    ("<q>", "Quit."),
    ("<CTRL+T>", "Sample now."),
    ("<0>", "Reset averages."),
    ("<+>", "Increase refresh interval."),
    ("<->", "Decrease refresh interval."),
];

/// The facts about a counter that are kept from one sample to the next.
#[derive(Debug, Default)]
struct Point {
    current: u64,
    at: Option<Instant>,
    change: Option<f64>,
    average: f64,
    windows: StatWindows,
    seen: bool,
}

struct View {
    filter: StatFilter,
    readings: Vec<CounterValue>,
    points: HashMap<String, Point>,
    rate: HitRate,
    uptimes: [u64; 2],
    status: WorkdirStatus,
    level: u8,
    show_unseen: bool,
    scale: bool,
    help: bool,
    help_top: usize,
    interval: Duration,
    notice: Option<(String, Instant)>,
    current: usize,
    top: usize,
}

/// Follows until a key or a signal ends it.
///
/// # Errors
/// There is no terminal.
pub fn follow(reader: &mut CounterReader, workdir: &Path, filter: StatFilter) -> io::Result<()> {
    let mut signals = Signals::new(&[signal::SIGHUP, signal::SIGINT, signal::SIGTERM])?;
    let mut screen = Screen::new()?;
    let mut view = View {
        filter,
        readings: Vec::new(),
        points: HashMap::new(),
        rate: HitRate::default(),
        uptimes: [0; 2],
        status: WorkdirStatus::default(),
        level: 0,
        show_unseen: false,
        scale: true,
        help: false,
        help_top: 0,
        interval: Duration::from_secs(1),
        notice: None,
        current: 0,
        top: 0,
    };
    view.sample(reader, workdir);
    // Who asks for certain counters sees them whatever their level.
    if view.filter.is_set() {
        view.level = view.readings.iter().map(|r| level(r.about.level)).max().unwrap_or(0);
    }
    let mut last = Instant::now();
    let mut drawn = None;
    loop {
        let page = view.page(screen.size());
        if drawn.as_ref() != Some(&page) {
            screen.draw(&page)?;
            drawn = Some(page);
        }
        let left = view.interval.saturating_sub(last.elapsed());
        let mut now = left.is_zero();
        // In short steps, to see signals soon.
        let key = screen.key(left.min(STEP))?;
        if signals.take()?.is_some() {
            return Ok(());
        }
        match key {
            None => now |= left <= STEP,
            Some(KeyPress::Ctrl('t')) => now = true,
            Some(KeyPress::Char('q') | KeyPress::Ctrl('c')) => return Ok(()),
            Some(key) => {
                if key == KeyPress::Resize {
                    drawn = None;
                }
                view.key(key, screen.size());
            }
        }
        if now {
            view.sample(reader, workdir);
            last = Instant::now();
        }
    }
}

fn level(level: CounterLevel) -> u8 {
    match level {
        CounterLevel::Info => 0,
        CounterLevel::Diag => 1,
        CounterLevel::Debug => 2,
    }
}

impl View {
    fn sample(&mut self, reader: &mut CounterReader, workdir: &Path) {
        let before = self.status;
        self.status = status(workdir);
        if before != self.status {
            self.rate = HitRate::default();
        }
        let all = reader.read().unwrap_or_default();
        let get = |set: &str, name: &str| all.iter().find(|r| &*r.set == set && r.about.name == name).map(|r| r.value);
        self.uptimes = [get("MGT", "uptime").unwrap_or(0), get("MAIN", "uptime").unwrap_or(0)];
        if let (Some(hit), Some(miss)) = (get("MAIN", "cache_hit"), get("MAIN", "cache_miss")) {
            self.rate.add(hit, miss);
        }
        self.readings = all.into_iter().filter(|r| self.filter.shows(&r.full_name())).collect();
        let mut points = HashMap::new();
        let now = Instant::now();
        for reading in &self.readings {
            let name = reading.full_name();
            let mut point = self.points.remove(&name).unwrap_or_default();
            point.sample(reading, value(reading, self.filter.raw), self.uptimes[1], now);
            points.insert(name, point);
        }
        self.points = points;
    }

    fn shown(&self) -> Vec<(&CounterValue, &Point)> {
        let all = self.readings.iter().filter_map(|r| Some((r, self.points.get(&r.full_name())?)));
        all.filter(|(r, p)| level(r.about.level) <= self.level && (p.seen || self.show_unseen)).collect()
    }

    /// Moves in the help; false for a key that means something else.
    fn help_key(&mut self, key: KeyPress, page: usize) -> bool {
        match key {
            KeyPress::Up | KeyPress::Char('k') => self.help_top = self.help_top.saturating_sub(1),
            KeyPress::Down | KeyPress::Char('j') => self.help_top += 1,
            KeyPress::PageUp | KeyPress::Char('b') | KeyPress::Ctrl('b') => {
                self.help_top = self.help_top.saturating_sub(page)
            }
            KeyPress::PageDown | KeyPress::Char(' ') | KeyPress::Ctrl('f') => self.help_top += page,
            KeyPress::Home | KeyPress::Char('g') => self.help_top = 0,
            // The page is filled from where it may begin.
            KeyPress::End | KeyPress::Char('G') => self.help_top = usize::MAX - page,
            KeyPress::Char('h') | KeyPress::Resize => return false,
            KeyPress::Char(_) | KeyPress::Ctrl(_) => {}
        }
        true
    }

    fn key(&mut self, key: KeyPress, (_, lines): (usize, usize)) {
        let page = Layout::for_lines(lines).points;
        if self.help && self.help_key(key, page) {
            return;
        }
        let (count, before) = {
            let shown = self.shown();
            (shown.len(), shown.get(self.current).map(|(r, _)| r.full_name()))
        };
        match key {
            KeyPress::Char('h') => (self.help, self.help_top) = (!self.help, 0),
            KeyPress::Up | KeyPress::Char('k') => self.current = self.current.saturating_sub(1),
            KeyPress::Down | KeyPress::Char('j') => self.current += 1,
            KeyPress::PageUp | KeyPress::Char('b') | KeyPress::Ctrl('b') => {
                self.current = self.current.saturating_sub(page);
                self.top = self.top.saturating_sub(page);
            }
            KeyPress::PageDown | KeyPress::Char(' ') | KeyPress::Ctrl('f') => {
                self.current += page;
                if self.top + page < count.saturating_sub(1) {
                    self.top += page;
                }
            }
            KeyPress::Home | KeyPress::Char('g') => self.current = 0,
            KeyPress::End | KeyPress::Char('G') => self.current = count.saturating_sub(1),
            KeyPress::Char('d') => self.show_unseen = !self.show_unseen,
            KeyPress::Char('r') => self.filter.raw = !self.filter.raw,
            KeyPress::Char('e') => self.scale = !self.scale,
            KeyPress::Char('v') => self.level = (self.level + 1).min(2),
            KeyPress::Char('V') => self.level = self.level.saturating_sub(1),
            KeyPress::Char('0') => self.reset_averages(),
            KeyPress::Char(sign @ ('+' | '-')) => {
                let tenths = (self.interval.as_millis() + 50) / 100;
                let tenths = if sign == '+' { tenths + 1 } else { tenths.saturating_sub(1).max(1) };
                self.interval = Duration::from_millis(100 * u64::try_from(tenths).unwrap_or(10));
                let text = format!("Refresh interval set to {:.1} seconds.", self.interval.as_secs_f64());
                self.notice = Some((text, Instant::now()));
            }
            KeyPress::Char(_) | KeyPress::Ctrl(_) | KeyPress::Resize => {}
        }
        if matches!(key, KeyPress::Char('d' | 'v' | 'V')) {
            self.keep(before);
            return;
        }
        self.place(count, page);
    }

    /// Lets the averages begin again with the next sample (release 8).
    fn reset_averages(&mut self) {
        self.points.values_mut().for_each(|point| point.windows = StatWindows::default());
        self.rate.reset();
    }

    /// Others are shown now: the same counter stays current, on the same line.
    fn keep(&mut self, name: Option<String>) {
        let line = self.current.saturating_sub(self.top);
        let at = self.shown().iter().position(|(r, _)| Some(r.full_name()) == name);
        self.current = at.unwrap_or(usize::MAX);
        self.top = self.current.saturating_sub(line);
    }

    fn place(&mut self, count: usize, page: usize) {
        self.current = self.current.min(count.saturating_sub(1));
        self.top = self.top.min(self.current).max((self.current + 1).saturating_sub(page));
    }

    fn page(&mut self, (columns, lines): (usize, usize)) -> Vec<ScreenLine> {
        let layout = Layout::for_lines(lines);
        let count = self.shown().len();
        self.place(count, layout.points);
        let mut page = self.head(columns);
        if self.help {
            page.push(ScreenLine::default().look(ScreenStyle::Reverse));
            let lines = help();
            self.help_top = self.help_top.min(lines.len().saturating_sub(layout.points));
            page.extend(lines.into_iter().skip(self.help_top).take(layout.points));
            return page;
        }
        let names = if columns > NAME_MIN + COLUMNS * COLUMN { columns - COLUMNS * COLUMN } else { NAME_MIN };
        page.push(self.title(columns, names));
        let shown = self.shown();
        for line in 0..layout.points {
            let Some((reading, point)) = shown.get(self.top + line) else {
                page.push(ScreenLine::default());
                continue;
            };
            let look = if self.top + line == self.current { ScreenStyle::Bold } else { ScreenStyle::Plain };
            page.push(self.row(reading, point, columns, names).look(look));
        }
        page.push(self.foot(&shown, columns, layout.points));
        if let (true, Some((reading, _))) = (layout.info, shown.get(self.current)) {
            page.push(ScreenLine::new(format!("{}:", reading.about.oneliner)));
            page.extend(reading.about.docs.lines().take(2).map(|line| ScreenLine::new(line.replace('\t', "        "))));
        }
        page
    }

    fn head(&self, columns: usize) -> Vec<ScreenLine> {
        let running = |up: u64, is_there: bool| if is_there { duration(up) } else { "  Not Running".to_owned() };
        let notice = self.notice.as_ref().filter(|(_, at)| at.elapsed() < Duration::from_millis(1250));
        let mut lines = vec![
            ScreenLine::new(format!("Uptime mgt:   {}", running(self.uptimes[0], self.status.manager.is_some()))),
            ScreenLine::new(format!("Uptime child: {}", running(self.uptimes[1], self.status.worker.is_some()))),
            ScreenLine::new(notice.map_or("Press <h> to toggle help screen", |(text, _)| text)),
        ];
        if columns > 70 {
            let [a, b, c] = self.rate.windows.0;
            lines[0].put(columns - 37, &format!("Hitrate n: {:>8} {:>8} {:>8}", a.n, b.n, c.n));
            let averages = format!("   avg(n): {:>8.4} {:>8.4} {:>8.4}", a.average, b.average, c.average);
            lines[1].put(columns - 37, &averages);
        }
        lines
    }

    fn title(&self, columns: usize, names: usize) -> ScreenLine {
        let mut line = ScreenLine::new(if self.top > 0 { "^^^ NAME" } else { "    NAME" });
        for (i, title) in ["CURRENT", "CHANGE", "AVERAGE", "AVG_10", "AVG_100", "AVG_1000"].into_iter().enumerate() {
            let at = names + i * COLUMN;
            if columns >= at + COLUMN {
                line.put(at, &format!(" {title:>12}"));
            }
        }
        line.look(ScreenStyle::Reverse)
    }

    fn row(&self, reading: &CounterValue, point: &Point, columns: usize, names: usize) -> ScreenLine {
        let name = reading.full_name();
        let mut line = match name.char_indices().nth(names) {
            Some(_) => ScreenLine::new(format!("{}...", name.chars().take(names - 3).collect::<String>())),
            None => ScreenLine::new(name),
        };
        for (i, cell) in self.cells(reading, point).into_iter().enumerate() {
            let at = names + i * COLUMN;
            if columns >= at + COLUMN {
                line.put(at, &cell);
            }
        }
        line
    }

    fn cells(&self, reading: &CounterValue, point: &Point) -> Vec<String> {
        let none = || format!(" {:>12}", ".  ");
        let [a, b, c] = point.windows.0.map(|w| w.average);
        match reading.about.format {
            CounterFormat::Bitmap => {
                let map: String = (0..24).rev().map(|i| if point.current >> i & 1 == 1 { 'V' } else { '_' }).collect();
                vec![format!("   {:010x}", point.current >> 24 & 0xff_ffff_ffff), format!("    {map}")]
            }
            CounterFormat::Duration if self.scale => vec![duration(point.current)],
            CounterFormat::Duration => vec![format!(" {:>12}", point.current)],
            CounterFormat::Bytes => {
                let current = match point.current {
                    n if self.scale && n > 1024 => self.bytes(n as f64),
                    n => plain(n),
                };
                let average = if point.average == 0.0 { none() } else { self.bytes(point.average) };
                let change = point.change.map_or_else(none, |x| self.bytes(x));
                vec![current, change, average, self.bytes(a), self.bytes(b), self.bytes(c)]
            }
            CounterFormat::Integer => {
                let number = |x: f64| format!(" {x:>12.2}");
                let average = if point.average == 0.0 { none() } else { number(point.average) };
                let change = point.change.map_or_else(none, number);
                vec![format!(" {:>12}", point.current), change, average, number(a), number(b), number(c)]
            }
        }
    }

    fn bytes(&self, mut x: f64) -> String {
        let mut units = " KMGTPEZY".chars();
        let mut unit = units.next().unwrap_or(' ');
        while self.scale && x.abs() >= 1024.0 {
            let Some(next) = units.next() else { break };
            (x, unit) = (x / 1024.0, next);
        }
        format!(" {x:>12.2}{unit}")
    }

    fn foot(&self, shown: &[(&CounterValue, &Point)], columns: usize, page: usize) -> ScreenLine {
        let mut line = ScreenLine::new(if self.top + page < shown.len() { "vvv" } else { "" });
        if let Some((reading, _)) = shown.get(self.current) {
            line.put(4, &reading.full_name());
        }
        let last = (self.top + page).min(shown.len());
        let mut right = format!("{}-{last}/{}", self.top + 1, shown.len());
        for (text, is_set) in [
            (["INFO", "DIAG", "DEBUG"][usize::from(self.level.min(2))], true),
            ("UNSEEN", self.show_unseen),
            ("RAW", self.filter.raw),
        ] {
            if is_set {
                right = format!("{text}  {right}");
            }
        }
        line.put(columns.saturating_sub(right.chars().count()), &right);
        line.look(ScreenStyle::Reverse)
    }
}

impl Point {
    fn sample(&mut self, reading: &CounterValue, value: u64, uptime: u64, now: Instant) {
        if value == 0 && !self.seen {
            return;
        }
        self.seen = true;
        let passed = self.at.replace(now).map(|at| now.duration_since(at).as_secs_f64());
        let last = std::mem::replace(&mut self.current, value);
        if let Some(passed) = passed.filter(|p| *p > 0.0) {
            self.change = Some(value.wrapping_sub(last) as i64 as f64 / passed);
        }
        match reading.about.kind {
            CounterKind::Gauge => self.windows.add(value as i64 as f64),
            CounterKind::Counter => {
                self.average = if uptime > 0 { value as f64 / uptime as f64 } else { 0.0 };
                if let Some(change) = self.change {
                    self.windows.add(change);
                }
            }
            CounterKind::Bitmap => {}
        }
    }
}

fn help() -> Vec<ScreenLine> {
    let one = |(keys, text): &(&str, &str)| {
        [
            ScreenLine::new(*keys).look(ScreenStyle::Bold),
            ScreenLine::default(),
            ScreenLine::new(format!("    {text}")),
            ScreenLine::default(),
        ]
    };
    HELP.iter().flat_map(one).collect()
}

struct Layout {
    points: usize,
    info: bool,
}

impl Layout {
    fn for_lines(lines: usize) -> Layout {
        const HEAD: usize = 3 + 2;
        const INFO: usize = 3;
        const LEAST: usize = 3;
        let points = lines.saturating_sub(HEAD + INFO);
        match points >= LEAST {
            true => Layout { points, info: true },
            false => Layout { points: lines.saturating_sub(HEAD).max(LEAST), info: false },
        }
    }
}

/// Days, hours, minutes, seconds.
fn duration(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    format!("{days:>4}+{:02}:{:02}:{:02}", rest / 3600, rest % 3600 / 60, rest % 60)
}

/// A number that may be too long for its column.
fn plain(mut n: u64) -> String {
    const MAX: u64 = 999_999_999_999;
    if n <= MAX {
        return format!(" {n:>12}");
    }
    while n > MAX {
        n /= 1000;
    }
    format!(" {n:>9}...")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells() {
        assert_eq!(duration(19_104), "   0+05:18:24");
        assert_eq!(plain(999_999_999_999), " 999999999999");
        assert_eq!(plain(u64::MAX), " 18446744073...");
        assert_eq!(
            (Layout::for_lines(24).points, Layout::for_lines(8).points, Layout::for_lines(0).points),
            (16, 3, 3)
        );
    }
}
