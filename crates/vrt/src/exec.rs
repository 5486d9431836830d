// SPDX-License-Identifier: BSD-2-Clause
//! One op at a time.

use std::sync::Arc;

use tables::Tag;
use tables::vclsubs::{Action, Return, VclStatus};
use tables::vclvars::{HeadId, Type, Var};
use vcl::program::Op;
use vcl_regex::{Regex, Substitution};

use crate::arith::{bytes, cased, compare, int, math, negated, ordered, real};
use crate::convert;
use crate::ctx::{Ctx, StoreProperty, VclFailure};
use crate::fields;
use crate::loaded::{BoundCall, LoadedVcl, Outside, VmodCode};
use crate::machine::{AfterOp, Machine, match_ops, replacing_ops};
use crate::value::{Blob, Text, Value};
use crate::vmod::{ReturnValue, VmodCall};

/// Matches that `regsuball` replaces before the budget is looked at again.
const REPLACED: usize = 32;

impl Machine {
    // Apart from the loop around it, whose few ops would have to save what these many need.
    #[inline(never)]
    pub(crate) fn step(&mut self, op: Op, vcl: &Arc<LoadedVcl>, ctx: &mut dyn Ctx) -> Result<AfterOp, VclFailure> {
        let program = &vcl.program;
        let constants = &program.constants;
        let name = |field: u16| &*constants.headers[field as usize];
        let text = |str: u32| &*constants.strings[str as usize];
        match op {
            Op::Step { count } => {
                if self.traces {
                    self.trace(vcl, count, ctx);
                }
            }
            Op::Jump { .. }
            | Op::JumpIf { .. }
            | Op::JumpUnless { .. }
            | Op::CallSub { .. }
            | Op::CallAt { .. }
            | Op::Leave
            | Op::Return { .. }
            | Op::Guards { .. }
            | Op::Not => unreachable!("the loop around knows where to go on"),
            Op::ReturnStatus { action, with_reason } => return self.return_status(action, with_reason),
            Op::ReturnPass => {
                let seconds = real(self.pop());
                ctx.pass_for(seconds);
                return Ok(AfterOp::End(Action::Pass));
            }
            Op::ReturnFail => {
                let reason = convert::to_text(&self.pop())?.unwrap_or(Text::EMPTY);
                return Err(VclFailure::from(reason.lossy().into_owned()));
            }
            Op::ReturnVcl { label } => return Ok(AfterOp::End(Action::Vcl(program.labels[label as usize].clone()))),

            Op::PushClock => self.push(Value::Real(ctx.clock().mono().0)),
            Op::SinceClock => {
                let begin = real(self.pop());
                self.push(Value::Duration(ctx.clock().mono().0 - begin));
            }
            Op::PushFlag => self.push(Value::Bool(self.flag)),
            Op::PushBool { value } => self.push(Value::Bool(value)),
            Op::PushInt { index } => self.push(Value::Int(constants.ints[index as usize])),
            Op::PushBytes { index } => self.push(Value::Bytes(constants.ints[index as usize])),
            Op::PushReal { index } => self.push(Value::Real(constants.reals[index as usize])),
            Op::PushDuration { index } => self.push(Value::Duration(constants.reals[index as usize])),
            Op::PushTime { index } => self.push(Value::Time(constants.reals[index as usize])),
            Op::PushStr { str } => self.push(Value::String(Some(Text::copy(text(str))))),
            Op::PushUnset => self.push(Value::NULL),
            Op::PushAbsent => self.push(Value::Absent),
            Op::PushEnum { word } => self.push(Value::Enum(constants.words[word as usize])),
            Op::PushBlob { index } => self.push(Value::Blob(Some(Blob::new(&*constants.blobs[index as usize])))),
            Op::PushRegex { index } => self.push(Value::Regex(vcl.regexes[index as usize].clone())),
            Op::PushBackend { index } => self.push(Value::Backend(vcl.backends[index as usize].clone())),
            Op::PushDefaultBackend => self.push(Value::Backend(vcl.default_backend().cloned())),
            Op::PushProbe { index } => self.push(Value::Probe(Some(index))),
            Op::PushDefaultProbe => self.push(Value::Probe(program.default_probe)),
            Op::PushAcl { index } => self.push(Value::Acl(vcl.acls[index as usize].clone())),
            Op::PushSub { sub } => self.push(Value::Sub(sub)),
            Op::PushIp { str } => self.push(Value::Ip(vcl.addresses[str as usize])),
            Op::PushStore { index } => self.push(Value::Stevedore(Some(vcl.stores[index as usize].clone()))),
            Op::PushHeader { head, field } => self.push(Value::Header(head, Text::copy(name(field)))),
            Op::PushField { head, field } => {
                let value = ctx.head(head).and_then(|h| h.get_as_set(name(field))).map(Text::copy);
                self.push(Value::String(value));
            }
            Op::PushVar { var } => {
                let value = self.variable(var, ctx)?;
                self.push(value);
            }
            Op::Drop => drop(self.pop()),

            Op::TextOpen => self.open_text(),
            Op::TextStr { str } => self.text.extend_from_slice(text(str)),
            Op::TextField { head, field } => {
                if let Some(value) = ctx.head(head).and_then(|h| h.get_as_set(name(field))) {
                    self.text.extend_from_slice(value);
                }
                self.check_text(ctx)?;
            }
            Op::TextVar { var } => self.text_var(var, ctx)?,
            Op::TextPop => {
                let value = self.pop();
                convert::append(&mut self.text, &value)?;
                self.check_text(ctx)?;
            }
            Op::TextMark => {
                let from = self.marks.last().copied().unwrap_or(0);
                self.first_piece = Some(self.text.len() as u32 - from);
            }
            Op::TextClose => {
                let text = self.take_text();
                self.push(Value::String(Some(text)));
            }
            Op::ToString { .. } => {
                let value = self.pop();
                self.push(Value::String(convert::to_text(&value)?));
            }

            Op::Test => {
                let value = self.pop();
                self.flag = convert::truth(&value).unwrap_or(false);
            }
            Op::TestField { head, field } => self.flag = ctx.head(head).is_some_and(|h| h.has(name(field))),
            Op::TestFieldStr { head, field, str } => {
                self.flag = ctx.head(head).and_then(|h| h.get_as_set(name(field))) == Some(text(str));
            }
            Op::TestFieldRegex { head, field, index } => {
                let value = ctx.head(head).and_then(|h| h.get_as_set(name(field))).unwrap_or_default();
                self.charge_match(&vcl.regexes[index as usize], value.len());
                self.flag = is_match(&vcl.regexes[index as usize], value)?;
            }
            Op::TestVarStr { var, str } => {
                self.flag = with_text(var, self, ctx, |value| value == Some(text(str)));
            }
            Op::TestVarRegex { var, index } => {
                let regex = &vcl.regexes[index as usize];
                let test = |value: Option<&[u8]>| {
                    let value = value.unwrap_or_default();
                    is_match(regex, value).map(|holds| (holds, value.len()))
                };
                let (holds, bytes) = with_text(var, self, ctx, test)?;
                self.charge_match(regex, bytes);
                self.flag = holds;
            }
            Op::TestStatus { var, how, status } => {
                let seen = fields::head_part(var).and_then(|(head, _)| ctx.head(head)).map_or(0, |head| head.status());
                self.flag = ordered(how, &seen, &status);
            }
            Op::Known { subject, test } => self.flag = self.answer(subject, test, vcl, ctx)?,
            Op::Compare { how } => {
                let b = self.pop();
                let a = self.pop();
                self.flag = compare(how, &a, &b)?;
            }
            Op::TestRegex { index } => {
                let value = self.pop();
                self.charge_match(&vcl.regexes[index as usize], bytes(&value).len());
                self.flag = is_match(&vcl.regexes[index as usize], bytes(&value))?;
            }
            Op::TestRegexValue => {
                let regex = self.pop();
                let value = self.pop();
                let Value::Regex(regex) = regex else { return Err(VclFailure::new("no REGEX to match with")) };
                self.charge_match(&regex, bytes(&value).len());
                self.flag = is_match(&regex, bytes(&value))?;
            }
            Op::TestAcl => self.test_acl(ctx)?,
            Op::Math { how, result } => {
                let b = self.pop();
                let a = self.pop();
                self.push(math(how, result, &a, &b)?);
            }
            Op::Negate => {
                let value = negated(self.pop())?;
                self.push(value);
            }
            Op::Regsub { all } => return self.regsub(all),
            Op::Case { upper } => {
                let value = cased(self.pop(), upper);
                self.push(value);
            }
            Op::Resolve => {
                let Value::Backend(director) = self.pop() else { return Err(VclFailure::new("no BACKEND to resolve")) };
                let chosen = director.and_then(|d| ctx.resolve(&d));
                self.push(Value::Backend(chosen));
            }
            Op::StoreProperty { which } => {
                let value = store_property(self.pop(), which, ctx);
                self.push(value);
            }

            Op::SetVar { var } => {
                self.forget_var(var, vcl);
                if var == Var::BerespUncacheable {
                    self.note_uncacheable();
                }
                let value = self.pop();
                match fields::head_part(var) {
                    Some((head, _)) => fields::set_status(ctx, var, head, int(&value))?,
                    None => ctx.set(var, value)?,
                }
                if matches!(var, Var::ReqTrace | Var::BereqTrace) {
                    self.traces = ctx.is_traced();
                }
            }
            Op::SetVarText { var } => {
                self.forget_var(var, vcl);
                let from = self.close_text();
                let text = &self.text[from..];
                match fields::head_part(var) {
                    Some((head, part)) => fields::set_text(ctx, var, head, part, text)?,
                    None => ctx.set(var, Value::String(Some(Text::copy(text))))?,
                }
                self.text.truncate(from);
            }
            Op::SetFieldText { head, field } => {
                self.forget_field(head, field, vcl);
                let from = self.close_text();
                self.charge_text(self.text.len() - from);
                fields::set_field(ctx, head, name(field), &self.text[from..])?;
                self.text.truncate(from);
            }
            Op::UnsetField { head, field } => {
                self.forget_field(head, field, vcl);
                fields::unset_field(ctx, head, name(field))?;
            }
            Op::UnsetVar { var } => {
                self.forget_all();
                ctx.unset(var)?;
            }
            Op::SetBody { append } => match self.pop() {
                Value::Blob(blob) => ctx.body(blob.as_ref().map_or(b"", |b| b.as_bytes()), append)?,
                _ => return Err(VclFailure::new("no BLOB for the body")),
            },
            Op::SetBodyText { append } => {
                let from = self.close_text();
                ctx.body(&self.text[from..], append)?;
                self.text.truncate(from);
            }
            Op::AddBodyValue => {
                let text = convert::to_text(&self.pop())?;
                ctx.body(text.as_ref().map_or(b"(null)", |text| text.as_bytes()), true)?;
            }
            Op::HashText => {
                let from = self.close_text();
                ctx.hash_data(Some(&self.text[from..]));
                self.text.truncate(from);
            }
            Op::HashField { head, field } => {
                self.open_text();
                let value = ctx.head(head).and_then(|h| h.get_as_set(name(field)));
                let is_set = value.is_some();
                self.text.extend_from_slice(value.unwrap_or_default());
                let from = self.close_text();
                ctx.hash_data(is_set.then_some(&self.text[from..]));
                self.text.truncate(from);
            }
            Op::HashEnd => ctx.hash_data(None),
            Op::Ban => {
                let spec = self.pop();
                ctx.may_invalidate()?;
                let spec = if let Value::String(Some(spec)) = &spec { Some(spec.as_bytes()) } else { None };
                // The log has said why, if it can't be.
                let _ = crate::ctx::ban(ctx, spec);
            }

            Op::Call { site } => {
                self.forget_all();
                return self.call(site, vcl, ctx);
            }
            Op::New { site } => {
                self.forget_all();
                self.construct(site, vcl, ctx)?;
            }
        }
        Ok(AfterOp::Op)
    }

    fn return_status(&mut self, action: Return, with_reason: bool) -> Result<AfterOp, VclFailure> {
        let reason = if with_reason { convert::to_text(&self.pop())? } else { None };
        let word = if action == Return::Error { "return(error())" } else { "return(synth())" };
        let status = fields::check_status(&format!("{word} status code"), int(&self.pop()))?;
        if let Some(reason) = &reason {
            fields::check_value(reason, format!("{word} reason").as_bytes())?;
        }
        let status = VclStatus { status, reason: reason.map(|r| r.to_vec()) };
        Ok(AfterOp::End(if action == Return::Error { Action::Error(status) } else { Action::Synth(status) }))
    }

    fn variable(&mut self, var: Var, ctx: &mut dyn Ctx) -> Result<Value, VclFailure> {
        Ok(match var {
            Var::Now => Value::Time(self.now),
            Var::Req => Value::Http(HeadId::Req),
            Var::Bereq => Value::Http(HeadId::Bereq),
            Var::Beresp => Value::Http(HeadId::Beresp),
            Var::Resp => Value::Http(HeadId::Resp),
            Var::BerespDoEsi
            | Var::BerespDoGunzip
            | Var::BerespDoGzip
            | Var::BerespDoBrotli
            | Var::BerespDoUnbrotli
            | Var::BerespDoZstd
            | Var::BerespDoUnzstd
            | Var::RespDoEsi => {
                ctx.filters_open(var)?;
                ctx.get(var)
            }
            _ => match fields::head_part(var) {
                Some((head, part)) => fields::get(ctx, head, part),
                None => ctx.get(var),
            },
        })
    }

    fn text_var(&mut self, var: Var, ctx: &mut dyn Ctx) -> Result<(), VclFailure> {
        if let Some((id, part)) = fields::head_part(var)
            && let Some(text) = ctx.head(id).and_then(|head| fields::part_text(head, part))
        {
            self.text.extend_from_slice(text);
        } else {
            let value = self.variable(var, ctx)?;
            convert::append(&mut self.text, &value)?;
        }
        self.check_text(ctx)
    }

    fn test_acl(&mut self, ctx: &mut dyn Ctx) -> Result<(), VclFailure> {
        let acl = self.pop();
        let ip = self.pop();
        let Value::Acl(acl) = acl else { return Err(VclFailure::new("no ACL to match with")) };
        let Value::Ip(Some(addr)) = ip else {
            return Err(format!("ACL {}: no protocol family", acl.name()).into());
        };
        let verdict = acl.matches(addr.ip().to_canonical());
        self.flag = verdict.allowed;
        if let Some(log) = verdict.log {
            ctx.log().put(Tag::VclAcl, log.as_bytes());
        }
        Ok(())
    }

    /// A few matches of it: run again until it is through, with its operands where they are.
    fn regsub(&mut self, all: bool) -> Result<AfterOp, VclFailure> {
        if self.substitution.is_none() {
            self.open_text();
        }
        let [.., subject, Value::Regex(regex), with] = &self.stack[..] else {
            return Err(VclFailure::new("no REGEX to match with"));
        };
        let (subject, with) = (bytes(subject), bytes(with));
        let mut substitution = self.substitution.take().unwrap_or_else(|| Substitution::new(with));
        let before = substitution.progress();
        let done = regex.sub_some(&mut substitution, subject, with, all, REPLACED, &mut self.text);
        let after = substitution.progress();
        let ops = replacing_ops(after.1 - before.1, substitution.captures());
        let ops = ops + match_ops(regex, after.0 - before.0);
        self.charge(ops);
        if !done.map_err(|e| VclFailure::from(format!("regsub: Regexp matching returned {}", e.code())))? {
            self.substitution = Some(substitution);
            return Ok(AfterOp::Again);
        }
        let result = self.take_text();
        drop((self.pop(), self.pop()));
        match self.pop() {
            _ if after.1 > 0 => self.push(Value::String(Some(result))),
            Value::String(None) => self.push(Value::String(Some(Text::EMPTY))),
            same => self.push(same),
        }
        Ok(AfterOp::Op)
    }

    /// The environment of the function called at `site`, beside its arguments.
    fn call_at<'a>(&mut self, site: &'a BoundCall, vcl: &'a Arc<LoadedVcl>, ctx: &'a mut dyn Ctx) -> VmodCall<'a> {
        VmodCall {
            ctx,
            method: self.method.expect("a subroutine runs"),
            vcl,
            now: self.now,
            site: &site.private,
            module: &vcl.modules[site.import as usize],
            first_piece: self.first_piece.take().map(|len| len as usize),
        }
    }

    fn call(&mut self, number: u32, vcl: &Arc<LoadedVcl>, ctx: &mut dyn Ctx) -> Result<AfterOp, VclFailure> {
        let site = &vcl.sites[number as usize];
        let base = self.stack.len() - site.args;
        if let Some(outside) = &site.outside
            && let Some(list) = ctx.trial()
        {
            let (said, value) = outside.in_a_trial(&self.stack[base..], self.now);
            list.push(said);
            self.stack.truncate(base);
            if !site.void {
                self.push(value);
            }
            return Ok(AfterOp::Op);
        }
        let mut call = self.call_at(site, vcl, ctx);
        let args = &self.stack[base..];
        let given = match &site.code {
            VmodCode::Function(function) => function(&mut call, args)?,
            VmodCode::Method(method, object) => match vcl.objects[*object as usize].get() {
                Some(this) => method(&mut call, this, args)?,
                None => {
                    let name = &vcl.program.objects[*object as usize].name;
                    return Err(format!("Object {name} not initialized").into());
                }
            },
            VmodCode::Constructor(..) => unreachable!("constructors have an op of their own"),
        };
        self.stack.truncate(base);
        match given {
            ReturnValue::Value(_) if site.void => Ok(AfterOp::Op),
            ReturnValue::Value(value) => {
                self.push(value);
                Ok(AfterOp::Op)
            }
            ReturnValue::Wait(future) => Ok(AfterOp::Wait { void: site.void, future }),
        }
    }

    fn construct(&mut self, number: u32, vcl: &Arc<LoadedVcl>, ctx: &mut dyn Ctx) -> Result<(), VclFailure> {
        let site = &vcl.sites[number as usize];
        let base = self.stack.len() - site.args;
        let VmodCode::Constructor(make, object) = &site.code else { unreachable!("the compiler names a constructor") };
        let mut call = self.call_at(site, vcl, ctx);
        let made = make(&mut call, &vcl.program.objects[*object as usize].name, &self.stack[base..])?;
        self.stack.truncate(base);
        // A `new` in a subroutine that is called twice makes the same object again: the first one stays.
        let _ = vcl.objects[*object as usize].set(made);
        Ok(())
    }
}

impl Outside {
    /// The report of a trial instead of the call, and the value that VCL goes on with.
    fn in_a_trial(&self, args: &[Value], now: f64) -> (String, Value) {
        let shown: Vec<String> = args.iter().filter_map(shown).collect();
        let call = format!("call {}({})", self.name, shown.join(", "));
        let (value, then) = match self.returns {
            Type::Bool => (Value::Bool(false), "false"),
            Type::Int => (Value::Int(0), "0"),
            Type::Bytes => (Value::Bytes(0), "0B"),
            Type::Real => (Value::Real(0.0), "0.0"),
            Type::Duration => (Value::Duration(0.0), "0s"),
            Type::Time => (Value::Time(now), "now"),
            Type::Ip => (Value::Ip(None), "no address"),
            Type::Blob => (Value::Blob(None), "no blob"),
            Type::Backend => (Value::Backend(None), "no backend"),
            Type::Stevedore => (Value::Stevedore(None), "no store"),
            Type::Void => return (call, Value::Void),
            Type::String | Type::Strands | Type::Strings | Type::Body | Type::Enum | Type::Header | Type::Http => {
                (Value::NULL, "an unset value")
            }
            Type::Acl | Type::Instance | Type::Probe | Type::Regex | Type::Sub | Type::Vcl => {
                unreachable!("no function returns {:?}", self.returns)
            }
        };
        (format!("{call}, and go on with {then} here"), value)
    }
}

/// An argument as VCL's source has it, as far as it has a text.
fn shown(value: &Value) -> Option<String> {
    match value {
        Value::Absent => None,
        Value::Enum(word) => Some((*word).to_owned()),
        Value::String(text) => Some(text.as_ref().map_or("unset".to_owned(), |text| format!("{:?}", text.lossy()))),
        other => Some(convert::to_text(other).ok().flatten().map_or("..".to_owned(), |text| text.lossy().into_owned())),
    }
}

pub(crate) fn plain_action(word: Return) -> Result<Action, VclFailure> {
    match word {
        Return::Error => Ok(Action::Error(VclStatus { status: 503, reason: None })),
        Return::Fail => Err(VclFailure::new("Failed from VCL")),
        word => Action::of_word(word).ok_or_else(|| VclFailure::new("return without its argument")),
    }
}

/// A textual variable without a copy, when it is part of a head.
pub(crate) fn with_text<T>(
    var: Var,
    machine: &mut Machine,
    ctx: &mut dyn Ctx,
    then: impl FnOnce(Option<&[u8]>) -> T,
) -> T {
    if let Some((id, part)) = fields::head_part(var) {
        return then(ctx.head(id).and_then(|head| fields::part_text(head, part)));
    }
    match machine.variable(var, ctx) {
        Ok(Value::String(Some(text))) => then(Some(&text)),
        // What can fail is no text.
        _ => then(None),
    }
}

pub(crate) fn is_match(regex: &Regex, subject: &[u8]) -> Result<bool, VclFailure> {
    regex.is_match(subject).map_err(|e| format!("Regexp matching failed: {}", e.text()).into())
}

fn store_property(store: Value, which: u8, ctx: &mut dyn Ctx) -> Value {
    let property = match which {
        0 => StoreProperty::FreeSpace,
        1 => StoreProperty::UsedSpace,
        _ => StoreProperty::Happy,
    };
    match store {
        Value::Stevedore(Some(name)) => ctx.store(&name, property),
        _ if property == StoreProperty::Happy => Value::Bool(false),
        _ => Value::Bytes(0),
    }
}
