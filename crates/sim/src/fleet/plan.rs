// SPDX-License-Identifier: BSD-2-Clause
//! What happens in a history of a fleet, drawn: what clients ask of which node, and what befalls nodes, log and network.

use std::fmt;
use std::time::Duration;

use crate::dice::{NumberSpan, SimDice};

pub(crate) const NODES: usize = 3;
pub(crate) const URLS: [&str; 3] = ["/a", "/b", "/c"];
/// Servers that have the log. A connection reads from one of them.
pub(crate) const REPLICAS: usize = 3;
const ACTS: u64 = 90;
/// Length of a history in milliseconds.
const SPAN: u64 = 40_000;

#[derive(Clone, Debug)]
pub(crate) struct SimFleetPlan {
    pub acts: Vec<Act>,
    /// The log's server knows again what is appended twice, as NATS does; Redis doesn't.
    pub knows_ids: bool,
    /// Nodes serve nothing older than that once the log is away for longer.
    pub stale: Option<Duration>,
    pub held: usize,
}

#[derive(Clone, Debug)]
pub(crate) struct Act {
    pub at: Duration,
    pub deed: Deed,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Deed {
    Ask {
        node: usize,
        method: &'static str,
        url: &'static str,
    },
    Kill(usize),
    /// A node begins again with what it has left behind, or without.
    Start {
        node: usize,
        with_store: bool,
    },
    Cut(usize),
    Join(usize),
    EngineDies,
    EngineStarts,
    /// The log forgets so many of its oldest entries.
    Trim(u64),
    /// A backup is made of it; it is what it was then; it is another one, and empty.
    Save,
    PutBack,
    Replace,
    /// The log loses so many acknowledged entries at its end: a power cut, or another leader.
    LoseTail(u64),
    /// One replica lacks `count` entries, of which the last is `back` before the end. All connections break.
    Hole {
        replica: usize,
        back: u64,
        count: u64,
    },
    /// One replica returns an entry, so many before the end, with another bit. All connections break.
    Flip {
        replica: usize,
        back: u64,
        bit: u64,
    },
    /// The log becomes two, each with the nodes on its side, of which the bits of a number tell ...
    Split(u64),
    /// ... and one of them is the log from then on.
    Unsplit {
        keeps_second: bool,
    },
    Stranger,
    /// A node's wall clock is so many seconds ahead of the others', or behind.
    ClockJump {
        node: usize,
        seconds: i64,
    },
    /// The disk of a node's journal is full until the node starts again.
    DiskFull(usize),
    /// A node neither appends nor follows for so long.
    Pause {
        node: usize,
        time: Duration,
    },
}

impl SimFleetPlan {
    pub fn draw(seed: u64) -> SimFleetPlan {
        let mut dice = SimDice::for_thing(seed, "fleet", 0);
        let (knows_ids, stale) = (dice.one_in(2), dice.one_in(2).then(|| Duration::from_secs(3)));
        let span = NumberSpan { least: 0, most: SPAN };
        let mut acts: Vec<Act> = (0..ACTS)
            .map(|_| Act { at: Duration::from_millis(span.draw(&mut dice)), deed: Deed::draw(&mut dice) })
            .collect();
        acts.sort_by_key(|act| act.at);
        let held = if dice.one_in(3) { 1 + dice.below(6) as usize } else { fleet::HELD };
        SimFleetPlan { acts, knows_ids, stale, held }
    }

    pub fn shorter(self) -> impl Iterator<Item = SimFleetPlan> {
        let count = self.acts.len();
        // Large parts first.
        let sizes = [count / 2, count / 4, count / 8, 4, 2, 1].into_iter().filter(|size| *size > 0);
        let cuts = sizes.flat_map(move |size| (0..count).step_by(size).map(move |at| (at, size)));
        cuts.map(move |(at, size)| {
            let mut plan = self.clone();
            plan.acts.drain(at..(at + size).min(count));
            plan
        })
    }
}

impl Deed {
    fn draw(dice: &mut SimDice) -> Deed {
        let node = dice.below(NODES as u64) as usize;
        let url = *dice.pick(&URLS);
        match dice.below(106) {
            0..=49 => Deed::Ask { node, method: "GET", url },
            50..=62 => Deed::Ask { node, method: "PURGE", url },
            63..=68 => Deed::Ask { node, method: "BAN", url },
            69..=74 => Deed::Kill(node),
            75..=82 => Deed::Start { node, with_store: !dice.one_in(6) },
            83..=85 => Deed::Cut(node),
            86..=89 => Deed::Join(node),
            90 => Deed::EngineDies,
            91..=92 => Deed::EngineStarts,
            93..=94 => Deed::Trim(1 + dice.below(6)),
            95 => match dice.below(2) {
                0 => Deed::Save,
                _ => Deed::PutBack,
            },
            96 => match dice.below(3) {
                0 => Deed::Replace,
                _ => Deed::Stranger,
            },
            97..=98 => Deed::LoseTail(1 + dice.below(5)),
            99 => Deed::Hole {
                replica: dice.below(REPLICAS as u64) as usize,
                back: dice.below(6),
                count: 1 + dice.below(3),
            },
            100 => {
                Deed::Flip { replica: dice.below(REPLICAS as u64) as usize, back: dice.below(6), bit: dice.below(4096) }
            }
            101 => Deed::Split(1 + dice.below((1 << NODES) - 2)),
            102 => Deed::Unsplit { keeps_second: dice.one_in(2) },
            103 => Deed::ClockJump { node, seconds: Deed::jump(dice) },
            104 => Deed::DiskFull(node),
            _ => Deed::Pause { node, time: Duration::from_millis(dice.below(12_000)) },
        }
    }

    /// Seconds to half a day: from one to another it isn't as long as entries are held.
    fn jump(dice: &mut SimDice) -> i64 {
        let most = *dice.pick(&[10, 7200, 40_000]);
        let seconds = dice.below(most) as i64;
        if dice.one_in(2) { seconds } else { -seconds }
    }

    pub fn fault(&self) -> Option<&'static str> {
        Some(match self {
            Deed::Ask { .. } | Deed::Start { .. } | Deed::Join(_) | Deed::EngineStarts | Deed::Save => return None,
            Deed::Unsplit { .. } => return None,
            Deed::Kill(_) => "a node is killed",
            Deed::Cut(_) => "a node is cut off",
            Deed::EngineDies => "the log's server dies",
            Deed::Trim(_) => "the log is trimmed",
            Deed::PutBack => "a backup of the log is restored",
            Deed::Replace => "the log is replaced by an empty one",
            Deed::LoseTail(_) => "the log loses its newest entries",
            Deed::Hole { .. } => "one replica lacks entries",
            Deed::Flip { .. } => "one replica returns another bit",
            Deed::Split(_) => "the log is split",
            Deed::Stranger => "a stranger writes",
            Deed::ClockJump { .. } => "a node's clock jumps",
            Deed::DiskFull(_) => "the disk of a node's journal is full",
            Deed::Pause { .. } => "a node pauses",
        })
    }
}

impl fmt::Display for SimFleetPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "knows ids: {}, stale: {:?}, held: {}", self.knows_ids, self.stale, self.held)?;
        self.acts.iter().try_for_each(|act| writeln!(f, "{:>8.3} {:?}", act.at.as_secs_f64(), act.deed))
    }
}
