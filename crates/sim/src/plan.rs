// SPDX-License-Identifier: BSD-2-Clause
//! What the clients of one history do, drawn from a scenario: concrete, so that it can be shown and shortened.

use std::fmt;
use std::time::Duration;

use crate::dice::{NumberSpan, SimDice};
use crate::script::{ScriptRequest, ScriptStep, SimFraming, SimScenario};

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SimPlan {
    pub clients: Vec<SimClient>,
}

/// One client: a connection at a time, one step after the other.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SimClient {
    /// Number in the first plan: it keeps it when others are left out.
    pub number: usize,
    pub steps: Vec<SimAction>,
    /// Most bytes that its connection moves at once.
    pub torn: Option<usize>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum SimAction {
    Wait(Duration),
    Ask(SimAsk),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SimAsk {
    pub method: String,
    pub url: String,
    pub headers: Vec<(String, String)>,
    pub body: Option<SimUpload>,
    pub slow: Option<(usize, Duration)>,
    pub gone: Option<Duration>,
    pub dropped: Option<Duration>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SimUpload {
    pub lines: u64,
    pub pieces: u64,
    pub pause: Duration,
    /// The client leaves before its end.
    pub is_cut: bool,
    pub framing: SimFraming,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum GivenUp {
    Nothing,
    /// Clients leave before they have them.
    Answers,
    /// Requests are dropped where they wait.
    Tasks,
}

impl SimPlan {
    pub fn given_up(&self) -> GivenUp {
        let steps = self.clients.iter().flat_map(|client| &client.steps);
        steps.map(SimAction::given_up).max().unwrap_or(GivenUp::Nothing)
    }

    pub fn draw(scenario: &SimScenario, seed: u64) -> Self {
        let scripts = scenario.clients.iter().flat_map(|script| (0..script.count).map(move |_| script));
        let clients = scripts.enumerate().map(|(number, script)| {
            let mut dice = SimDice::for_thing(seed, "client", number as u64);
            let steps = script.steps.iter().map(|step| match step {
                ScriptStep::Wait(time) => SimAction::Wait(time.draw_time(&mut dice)),
                ScriptStep::Request(request) => SimAction::Ask(SimAsk::draw(request, &mut dice)),
            });
            let steps = steps.collect();
            let torn = dice.one_in(4).then(|| 64 + dice.below(2000) as usize);
            SimClient { number, steps, torn }
        });
        SimPlan { clients: clients.collect() }
    }

    /// Plans with a little less in them, the greatest cuts first.
    pub fn shorter(&self) -> Vec<SimPlan> {
        let mut plans = Vec::new();
        for at in 0..self.clients.len() {
            let mut plan = self.clone();
            plan.clients.remove(at);
            plans.push(plan);
        }
        for (at, client) in self.clients.iter().enumerate() {
            for step in 0..client.steps.len() {
                let mut plan = self.clone();
                plan.clients[at].steps.remove(step);
                plans.push(plan);
            }
            if client.torn.is_some() {
                let mut plan = self.clone();
                plan.clients[at].torn = None;
                plans.push(plan);
            }
        }
        plans
    }
}

impl SimAsk {
    fn draw(request: &ScriptRequest, dice: &mut SimDice) -> Self {
        let mut headers: Vec<_> =
            request.headers.iter().map(|(name, values)| (name.clone(), dice.pick(values).clone())).collect();
        headers.retain(|(_, value)| value != "-");
        if let Some((first, last)) = request.range {
            let (first, last) = (first.draw(dice), last.draw(dice));
            headers.push(("Range".to_owned(), format!("bytes={}-{}", first.min(last), first.max(last))));
        }
        SimAsk {
            method: request.method.clone(),
            url: dice.pick(&request.urls).clone(),
            headers,
            body: request.body.map(|lines| SimUpload::draw(request, lines, dice)),
            slow: request.slow.map(|(bytes, pause)| (bytes.draw(dice).max(1) as usize, pause.draw_time(dice))),
            gone: request.gone.and_then(|(count, after)| dice.one_in(count).then(|| after.draw_time(dice))),
            dropped: request.dropped.and_then(|(count, after)| dice.one_in(count).then(|| after.draw_time(dice))),
        }
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }
}

impl SimUpload {
    fn draw(request: &ScriptRequest, lines: NumberSpan, dice: &mut SimDice) -> Self {
        let lines = lines.draw(dice);
        SimUpload {
            lines,
            pieces: request.pieces.draw(dice).max(1),
            pause: request.pause.draw_time(dice),
            // Nothing is missing of nothing.
            is_cut: dice.one_in(request.cut) && lines > 0,
            framing: *dice.pick(&request.framings),
        }
    }
}

impl SimAction {
    fn given_up(&self) -> GivenUp {
        match self {
            SimAction::Ask(SimAsk { dropped: Some(_), .. }) => GivenUp::Tasks,
            SimAction::Ask(SimAsk { gone: Some(_), .. }) => GivenUp::Answers,
            SimAction::Ask(_) | SimAction::Wait(_) => GivenUp::Nothing,
        }
    }
}

impl fmt::Display for SimPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for client in &self.clients {
            write!(f, "client {}", client.number)?;
            if let Some(bytes) = client.torn {
                write!(f, " (at most {bytes} bytes at once)")?;
            }
            writeln!(f)?;
            client.steps.iter().try_for_each(|step| writeln!(f, "    {step}"))?;
        }
        Ok(())
    }
}

impl fmt::Display for SimAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SimAction::Wait(time) => write!(f, "wait {time:?}"),
            SimAction::Ask(ask) => write!(f, "{ask}"),
        }
    }
}

impl fmt::Display for SimAsk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method, self.url)?;
        self.headers.iter().try_for_each(|(name, value)| write!(f, ", {name}: {value}"))?;
        if let Some(body) = &self.body {
            let cut = if body.is_cut { ", cut" } else { "" };
            let framing = if body.framing == SimFraming::Chunked { "chunked " } else { "" };
            write!(f, ", {framing}body of {} lines in {} pieces {:?} apart{cut}", body.lines, body.pieces, body.pause)?;
        }
        if let Some((bytes, pause)) = self.slow {
            write!(f, ", reads {bytes} bytes each {pause:?}")?;
        }
        if let Some(after) = self.gone {
            write!(f, ", gone after {after:?}")?;
        }
        if let Some(after) = self.dropped {
            write!(f, ", dropped after {after:?}")?;
        }
        Ok(())
    }
}
