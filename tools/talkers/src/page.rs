// SPDX-License-Identifier: BSD-2-Clause
//! The screen: one table at a time as it changes; keys choose which, and what "most" is by.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use accesslog::{GatherMoment, Gathered, GroupBy, Hitter, HittersMeasure};
use base::text::decimal_bytes;
use screen::{KeyPress, Screen, ScreenLine, ScreenStyle};

use crate::options::TalkersOptions;
use crate::report::{printable, share};
use crate::tally::TalkersTally;

const DRAW: Duration = Duration::from_secs(1);
/// A key is waited for that long; meanwhile nothing is held.
const WAIT: Duration = Duration::from_millis(20);

pub struct TalkersPage {
    screen: Screen,
    by: Vec<GroupBy>,
    shown: usize,
    measure: HittersMeasure,
    ident: String,
    fade: Option<Duration>,
    drawn: Option<Duration>,
    faded: Duration,
    is_redrawn: bool,
}

impl TalkersPage {
    /// Takes the terminal.
    ///
    /// # Errors
    /// There is none.
    pub fn new(options: &TalkersOptions) -> Result<TalkersPage, String> {
        let screen = Screen::new().map_err(|error| format!("no screen: {error}"))?;
        let workdir = options.gathering.sources.live.as_deref();
        let ident = workdir.and_then(|dir| shm::reader::manager_arg(dir, "-i")).unwrap_or_default();
        Ok(TalkersPage {
            screen,
            by: options.by.clone(),
            shown: 0,
            measure: options.measure,
            ident,
            fade: options.fade,
            drawn: None,
            faded: Duration::ZERO,
            is_redrawn: false,
        })
    }

    /// Draws when it is time and obeys a key; false: it is to end.
    pub fn turn(&mut self, gathered: &Mutex<Gathered<TalkersTally>>, moment: GatherMoment) -> bool {
        let is_due = self.drawn.is_none_or(|at| moment.elapsed.saturating_sub(at) >= DRAW);
        if is_due || self.is_redrawn {
            self.is_redrawn = false;
            self.drawn = Some(moment.elapsed);
            let size = self.screen.size();
            let page = {
                let mut gathered = gathered.lock().unwrap_or_else(PoisonError::into_inner);
                self.fade(&mut gathered.result, moment.elapsed);
                self.lines(&gathered, moment, size)
            };
            if self.screen.draw(&page).is_err() {
                return false;
            }
        }
        match self.screen.key(WAIT) {
            Ok(Some(key)) => self.obey(key),
            Ok(None) => true,
            Err(_) => false,
        }
    }

    fn fade(&mut self, tally: &mut TalkersTally, now: Duration) {
        if let Some(half) = self.fade {
            let passed = now.saturating_sub(self.faded);
            tally.fade(0.5f64.powf(passed.as_secs_f64() / half.as_secs_f64()));
        }
        self.faded = now;
    }

    fn obey(&mut self, key: KeyPress) -> bool {
        self.is_redrawn = true;
        match key {
            KeyPress::Char('q' | 'Q') | KeyPress::Ctrl('c' | 'q') => return false,
            KeyPress::Char('r') => self.measure = HittersMeasure::Requests,
            KeyPress::Char('b') => self.measure = HittersMeasure::Bytes,
            KeyPress::Char('m') => self.measure = HittersMeasure::Misses,
            KeyPress::Char('t') => self.measure = HittersMeasure::BackendTime,
            KeyPress::Char(digit @ '1'..='9') => {
                let at = digit as usize - '1' as usize;
                self.shown = if at < self.by.len() { at } else { self.shown };
            }
            KeyPress::Char('\t' | 'n') | KeyPress::Down | KeyPress::PageDown => {
                self.shown = (self.shown + 1) % self.by.len()
            }
            KeyPress::Up | KeyPress::PageUp => self.shown = (self.shown + self.by.len() - 1) % self.by.len(),
            KeyPress::Char(_) | KeyPress::Ctrl(_) | KeyPress::Home | KeyPress::End | KeyPress::Resize => {}
        }
        true
    }

    /// Counts are shown as so many a second: what fades is what came in the last time, and what doesn't in all of it.
    fn seconds(&self, elapsed: Duration) -> f64 {
        let elapsed = elapsed.as_secs_f64().max(0.5);
        match self.fade {
            None => elapsed,
            Some(half) => {
                let half = half.as_secs_f64();
                half / std::f64::consts::LN_2 * (1.0 - 0.5f64.powf(elapsed / half))
            }
        }
    }

    fn lines(
        &self,
        gathered: &Gathered<TalkersTally>,
        moment: GatherMoment,
        (columns, rows): (usize, usize),
    ) -> Vec<ScreenLine> {
        let tally = &gathered.result;
        let by = self.by[self.shown];
        let seconds = self.seconds(moment.elapsed);
        let total = &tally.shown_total;
        let asked = (total.hits + total.misses).max(f64::MIN_POSITIVE);
        let mut head = ScreenLine::new(format!(
            "{} by {}: {:.0} requests/s, {}/s, {:.1} % hits",
            by.heading(),
            self.measure.word(),
            total.requests / seconds,
            decimal_bytes((total.bytes / seconds) as u64),
            total.hits * 100.0 / asked
        ));
        let ident = if moment.is_over { format!("{} (over)", self.ident) } else { self.ident.clone() };
        head.put(columns.saturating_sub(ident.chars().count() + 1), &ident);
        let what = if by == GroupBy::Page { "elements" } else { "" };
        let mut page = vec![head, ScreenLine::default()];
        page.push(
            ScreenLine::new(format!(" share     req/s    bytes/s   hits  backend  {what}")).look(ScreenStyle::Bold),
        );
        if let Some(hitters) = tally.shown(by, self.measure) {
            for row in hitters.top(rows.saturating_sub(page.len() + 1)).rows {
                page.push(ScreenLine::new(row_of(&row, share(&row, hitters.total(), self.measure), seconds)));
            }
        }
        page.truncate(rows.saturating_sub(1));
        page.resize(rows.saturating_sub(1), ScreenLine::default());
        let note = gathered.notes.last().map(|note| format!("  {note}")).unwrap_or_default();
        page.push(
            ScreenLine::new(format!("{}| r b m t: requests bytes misses time | q{note}", self.tabs()))
                .look(ScreenStyle::Reverse),
        );
        page
    }

    fn tabs(&self) -> String {
        self.by.iter().enumerate().map(|(at, by)| format!("{} {} ", at + 1, by.word())).collect()
    }
}

fn row_of(row: &Hitter, share: f64, seconds: f64) -> String {
    let sums = &row.sums;
    let asked = sums.hits + sums.misses;
    let hits = if asked > 0.0 { format!("{:.0} %", sums.hits * 100.0 / asked) } else { "-".to_owned() };
    let elements = row.elements.map(|n| format!("{n:>8.0}  ")).unwrap_or_default();
    format!(
        "{share:>5.1}%  {:>8.1}  {:>9}  {hits:>5}  {:>6.2}s  {elements}{}",
        sums.requests / seconds,
        decimal_bytes((sums.bytes / seconds) as u64),
        sums.backend_seconds / seconds,
        printable(&row.key)
    )
}
