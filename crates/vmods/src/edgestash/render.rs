// SPDX-License-Identifier: BSD-2-Clause
//! A template with JSON: what goes out, piece by piece. What is done in one piece, and for a page, is bounded.

use super::expr::{Expr, Op as Between, Own};
use super::template::Op;
use crate::support::values::{Id, ValueNode, Values};

/// Steps of one piece.
const STEPS: u32 = 1000;
const MAX_STEPS: u64 = if cfg!(test) { 10_000 } else { 1_000_000 };

pub(super) struct Render {
    text: Vec<u8>,
    ops: Vec<Op>,
    values: Values,
    frames: Vec<Frame>,
    steps: u64,
}

/// A section that is open; the first is the page.
struct Frame {
    at: usize,
    start: usize,
    end: usize,
    /// The value that is the context, when it is one of its own.
    context: Option<Id>,
    /// All that it goes through, and which of them this is.
    round: Option<(Round, usize)>,
}

enum Round {
    Elements(Id),
    Roots,
}

#[derive(PartialEq, Debug)]
enum Val {
    Node(Id),
    Null,
    Bool(bool),
    Number(f64),
    Text(String),
}

impl Render {
    pub(super) fn new(text: Vec<u8>, ops: Vec<Op>, values: Values) -> Self {
        let frames = vec![Frame { at: 0, start: 0, end: ops.len(), context: None, round: None }];
        Render { text, ops, values, frames, steps: 0 }
    }

    /// Appends some of what goes out, about `room` bytes or less; false when that was all.
    ///
    /// # Errors
    /// The page has too many steps.
    pub(super) fn go_on(&mut self, room: usize, out: &mut Vec<u8>) -> Result<bool, &'static str> {
        for _ in 0..STEPS {
            if out.len() >= room {
                return Ok(true);
            }
            let Some(frame) = self.frames.last_mut() else { return Ok(false) };
            self.steps += 1;
            if self.steps > MAX_STEPS {
                return Err("the page has more than 1,000,000 steps");
            }
            if frame.at == frame.end {
                self.end_frame();
                continue;
            }
            let at = frame.at;
            frame.at += 1;
            match &self.ops[at] {
                Op::Text(range) => out.extend_from_slice(&self.text[range.clone()]),
                Op::Var { expr, raw } => {
                    let text = self.shown(&self.eval(expr), *raw);
                    if *raw { out.extend_from_slice(text.as_bytes()) } else { escape(&text, out) }
                }
                Op::Section { expr, inverted, end } => {
                    let (end, inverted) = (*end, *inverted);
                    let frame = self.section(expr, inverted, at + 1, end);
                    self.frames.last_mut().expect("looked at above").at = end;
                    self.frames.extend(frame);
                }
            }
        }
        Ok(true)
    }

    fn section(&self, expr: &Expr, inverted: bool, start: usize, end: usize) -> Option<Frame> {
        let is_root = matches!(expr, Expr::Path(path) if path == ".") && self.context().is_none();
        let value = self.eval(expr);
        let plain = Frame { at: start, start, end, context: None, round: None };
        if self.is_falsy(&value) || inverted {
            return (inverted && self.is_falsy(&value)).then_some(plain);
        }
        Some(match value {
            Val::Node(id) => match self.values.get(id) {
                ValueNode::Array(all) => {
                    Frame { context: all.first().copied(), round: Some((Round::Elements(id), 0)), ..plain }
                }
                ValueNode::Object(_) if is_root => Frame { context: Some(id), round: Some((Round::Roots, 0)), ..plain },
                ValueNode::Object(_) => Frame { context: Some(id), ..plain },
                ValueNode::Null | ValueNode::Bool(_) | ValueNode::Number(..) | ValueNode::Text(_) => plain,
            },
            Val::Null | Val::Bool(_) | Val::Number(_) | Val::Text(_) => plain,
        })
    }

    /// The next round of a section, or what is behind it.
    fn end_frame(&mut self) {
        let values = &self.values;
        let next = self.frames.last_mut().and_then(|frame| {
            let (round, pos) = frame.round.as_mut()?;
            *pos += 1;
            let all = members(values, round);
            frame.context = Some(*all.get(*pos)?);
            frame.at = frame.start;
            Some(())
        });
        if next.is_none() {
            self.frames.pop();
        }
    }

    fn context(&self) -> Option<Id> {
        self.frames.iter().rev().find_map(|frame| frame.context)
    }

    fn find(&self, path: &str) -> Option<Id> {
        if path == "." {
            return self.context().or_else(|| self.values.roots.first().copied());
        }
        let contexts = self.frames.iter().rev().filter_map(|frame| frame.context);
        contexts.chain(self.values.roots.iter().copied()).find_map(|from| self.values.find(from, path))
    }

    fn own(&self, own: Own) -> Val {
        let here = self.context().or_else(|| self.values.roots.first().copied());
        let frame = self.frames.iter().rev().find(|frame| frame.context.is_some());
        let round = frame.and_then(|frame| frame.round.as_ref());
        let place = round.map(|(round, pos)| (*pos, members(&self.values, round).len()));
        match own {
            Own::First => Val::Bool(place.is_none_or(|(pos, _)| pos == 0)),
            Own::Last => Val::Bool(place.is_none_or(|(pos, len)| pos + 1 == len)),
            Own::Pos => Val::Number(place.map_or(0.0, |(pos, _)| pos as f64)),
            Own::Size => Val::Number(here.map_or(0.0, |id| self.values.size(id) as f64)),
            Own::Type => match here.map(|id| self.values.type_of(id)) {
                None | Some("null") => Val::Null,
                Some(name) => Val::Text(name.to_owned()),
            },
        }
    }

    fn eval(&self, expr: &Expr) -> Val {
        match expr {
            Expr::Path(path) => self.find(path).map_or(Val::Null, Val::Node),
            Expr::Own(own) => self.own(*own),
            Expr::Text(text) => Val::Text(text.clone()),
            Expr::Number(number) => Val::Number(*number),
            Expr::Not(inner) => Val::Bool(self.is_falsy(&self.eval(inner))),
            Expr::Two(left, op, right) => self.two(left, *op, right),
        }
    }

    fn two(&self, left: &Expr, op: Between, right: &Expr) -> Val {
        let left = self.eval(left);
        match op {
            Between::Or => return Val::Bool(!self.is_falsy(&left) || !self.is_falsy(&self.eval(right))),
            Between::And => return Val::Bool(!self.is_falsy(&left) && !self.is_falsy(&self.eval(right))),
            _ => {}
        }
        let (left, right) = (self.plain(left), self.plain(self.eval(right)));
        match op {
            Between::Equal => return Val::Bool(left == right),
            Between::Unequal => return Val::Bool(left != right),
            _ => {}
        }
        let (Val::Number(left), Val::Number(right)) = (left, right) else { return Val::Null };
        match op {
            Between::Less => Val::Bool(left < right),
            Between::LessEqual => Val::Bool(left <= right),
            Between::Greater => Val::Bool(left > right),
            Between::GreaterEqual => Val::Bool(left >= right),
            Between::Add => Val::Number(left + right),
            Between::Subtract => Val::Number(left - right),
            Between::Multiply => Val::Number(left * right),
            Between::Divide => Val::Number(left / right),
            Between::Modulo => Val::Number(left % right),
            Between::Or | Between::And | Between::Equal | Between::Unequal => unreachable!("answered above"),
        }
    }

    /// The value if it can be compared by itself; objects and arrays stay references.
    fn plain(&self, value: Val) -> Val {
        let Val::Node(id) = value else { return value };
        match self.values.get(id) {
            ValueNode::Null => Val::Null,
            ValueNode::Bool(value) => Val::Bool(*value),
            ValueNode::Number(number, _) => Val::Number(*number),
            ValueNode::Text(text) => Val::Text(text.clone()),
            ValueNode::Array(_) | ValueNode::Object(_) => Val::Node(id),
        }
    }

    fn is_falsy(&self, value: &Val) -> bool {
        match value {
            Val::Node(id) => self.values.is_falsy(*id),
            Val::Null | Val::Bool(false) => true,
            Val::Bool(true) | Val::Number(_) | Val::Text(_) => false,
        }
    }

    fn shown(&self, value: &Val, raw: bool) -> String {
        match value {
            Val::Node(id) => self.values.text(*id, raw),
            Val::Null => String::new(),
            Val::Bool(value) => value.to_string(),
            Val::Number(number) => number.to_string(),
            Val::Text(text) => text.clone(),
        }
    }
}

fn members<'a>(values: &'a Values, round: &Round) -> &'a [Id] {
    match round {
        Round::Roots => &values.roots,
        Round::Elements(id) => match values.get(*id) {
            ValueNode::Array(all) => all,
            _ => &[],
        },
    }
}

/// Escapes for HTML as Mustache does.
fn escape(text: &str, out: &mut Vec<u8>) {
    for byte in text.bytes() {
        match byte {
            b'<' => out.extend_from_slice(b"&lt;"),
            b'>' => out.extend_from_slice(b"&gt;"),
            b'&' => out.extend_from_slice(b"&amp;"),
            b'"' => out.extend_from_slice(b"&quot;"),
            other => out.push(other),
        }
    }
}
