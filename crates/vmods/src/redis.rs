// SPDX-License-Identifier: BSD-2-Clause
//! vmod_redis of libvmod-redis: commands of VCL to Redis servers. Each database has connections of its own, shared by all threads and
//! bounded; who finds none waits for one. A command that gets no answer has no reply, and a VCL_Error record
//! once VCL asks for it. Not built: clusters, sentinels,
//! weights, TLS, finding out a server's role, functions that stand for methods, statistics. EVAL is sent as it is.

mod resp;
mod server;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tables::Tag;
use vrt::vmod::{Call, CallResult, Class, Object, Vmod};
use vrt::{Failure, Method, Value};

use self::resp::Reply;
use self::server::{Database, Login, Role};
use crate::args::{Args, fail, give, wait};

/// Arguments of a command, and their bytes.
const MOST_ARGS: usize = 1024;
const MOST_ARG_BYTES: usize = 1024 * 1024;
/// Retries of a command.
const MOST_RETRIES: i64 = 10;
/// Connections of a database.
const MOST_CONNECTIONS: i64 = 10_000;
/// Of a database whose connections would be a thread's own.
const OWN_CONNECTIONS: i64 = 128;

/// vmod_redis
pub(crate) static VMOD: Vmod = Vmod {
    name: "redis",
    functions: &[
        ("weights", |_, args| nothing(args, "weights() isn't built into Lacquer: servers are tried in their order")),
        ("sentinels", |_, args| nothing(args, "sentinels() isn't built into Lacquer: name the servers")),
    ],
    classes: &[Class {
        name: "db",
        new,
        methods: &[
            ("add_server", |call, object, args| {
                if call.method != Method::Init {
                    return fail("redis: add_server() is for vcl_init");
                }
                let location = location(args, 0)?;
                let Some(location) = location else { return fail("redis: add_server() wants a location") };
                this(object).add(&location, role(Args(args).word(1), false)?)?;
                give(Value::Void)
            }),
            ("command", |call, object, args| {
                let name = Args(args).bytes_of(0).to_vec();
                let state = state(call, object);
                *state.borrow_mut() = State { bytes: name.len(), args: vec![name], ..State::default() };
                give(Value::Void)
            }),
            ("timeout", |call, object, args| {
                let limit = millis(args, 0, "timeout")?;
                waiting(call, object, "timeout", |state| state.limit = Some(limit))
            }),
            ("retries", |call, object, args| {
                let retries = retries(args, 0)?;
                waiting(call, object, "retries", |state| state.retries = Some(retries))
            }),
            ("push", |call, object, args| {
                let arg = Args(args).bytes_of(0).to_vec();
                push(call, object, arg)
            }),
            ("execute", |call, object, args| execute(call, object, Args(args).bool(0))),
            ("easy_execute", |call, object, args| {
                let command = Args(args).bytes_of(0).to_vec();
                let state = state(call, object);
                *state.borrow_mut() = State { bytes: command.len(), args: vec![command], ..State::default() };
                for at in (1..17).filter(|at| Args(args).given(*at)) {
                    push(call, object, Args(args).bytes_of(at).to_vec())?;
                }
                if Args(args).given(17) {
                    state.borrow_mut().limit = Some(millis(args, 17, "easy_execute")?);
                }
                if Args(args).given(18) {
                    state.borrow_mut().retries = Some(retries(args, 18)?);
                }
                execute(call, object, Args(args).bool(19))
            }),
            ("replied", |call, object, _| about(call, object, |reply| Value::Bool(reply.is_some()))),
            ("reply_is_error", |call, object, _| is(call, object, |reply| matches!(reply, Reply::Error(_)))),
            ("reply_is_nil", |call, object, _| is(call, object, |reply| matches!(reply, Reply::Nil))),
            ("reply_is_status", |call, object, _| is(call, object, |reply| matches!(reply, Reply::Status(_)))),
            ("reply_is_integer", |call, object, _| is(call, object, |reply| matches!(reply, Reply::Integer(_)))),
            ("reply_is_boolean", |call, object, _| is(call, object, |reply| matches!(reply, Reply::Boolean(_)))),
            ("reply_is_double", |call, object, _| is(call, object, |reply| matches!(reply, Reply::Double(..)))),
            ("reply_is_string", |call, object, _| is(call, object, |reply| matches!(reply, Reply::Text(_)))),
            ("reply_is_array", |call, object, _| is(call, object, |reply| matches!(reply, Reply::Array(_)))),
            ("get_reply", |call, object, _| about(call, object, |reply| reply.map_or(Value::NULL, shown))),
            ("get_error_reply", |call, object, _| {
                about(call, object, |reply| match reply {
                    Some(Reply::Error(text)) => Value::text(&text[..]),
                    _ => Value::NULL,
                })
            }),
            ("get_status_reply", |call, object, _| {
                about(call, object, |reply| match reply {
                    Some(Reply::Status(text)) => Value::text(&text[..]),
                    _ => Value::NULL,
                })
            }),
            ("get_integer_reply", |call, object, _| {
                about(call, object, |reply| match reply {
                    Some(Reply::Integer(number)) => Value::Int(*number),
                    _ => Value::Int(0),
                })
            }),
            ("get_boolean_reply", |call, object, _| is(call, object, |reply| *reply == Reply::Boolean(true))),
            ("get_double_reply", |call, object, _| {
                about(call, object, |reply| match reply {
                    Some(Reply::Double(number, _)) if number.is_finite() => Value::Real(*number),
                    _ => Value::Real(0.0),
                })
            }),
            ("get_string_reply", |call, object, _| {
                about(call, object, |reply| match reply {
                    Some(Reply::Text(text)) => Value::text(&text[..]),
                    _ => Value::NULL,
                })
            }),
            ("get_array_reply_length", |call, object, _| {
                about(call, object, |reply| match reply {
                    Some(Reply::Array(all)) => Value::Int(all.len() as i64),
                    _ => Value::Int(0),
                })
            }),
            ("array_reply_is_error", |call, object, args| {
                nth(call, object, args, |one| matches!(one, Reply::Error(_)))
            }),
            ("array_reply_is_nil", |call, object, args| nth(call, object, args, |one| matches!(one, Reply::Nil))),
            ("array_reply_is_status", |call, object, args| {
                nth(call, object, args, |one| matches!(one, Reply::Status(_)))
            }),
            ("array_reply_is_integer", |call, object, args| {
                nth(call, object, args, |one| matches!(one, Reply::Integer(_)))
            }),
            ("array_reply_is_boolean", |call, object, args| {
                nth(call, object, args, |one| matches!(one, Reply::Boolean(_)))
            }),
            ("array_reply_is_double", |call, object, args| {
                nth(call, object, args, |one| matches!(one, Reply::Double(..)))
            }),
            ("array_reply_is_string", |call, object, args| {
                nth(call, object, args, |one| matches!(one, Reply::Text(_)))
            }),
            ("array_reply_is_array", |call, object, args| {
                nth(call, object, args, |one| matches!(one, Reply::Array(_)))
            }),
            ("get_array_reply_value", |call, object, args| {
                let index = usize::try_from(Args(args).int(0)).unwrap_or(usize::MAX);
                about(call, object, |reply| match reply {
                    Some(Reply::Array(all)) => all.get(index).map_or(Value::NULL, shown),
                    _ => Value::NULL,
                })
            }),
            ("free", |call, object, _| {
                *state(call, object).borrow_mut() = State::default();
                give(Value::Void)
            }),
        ],
    }],
};

/// The command and the reply of a task.
#[derive(Default)]
struct State {
    args: Vec<Vec<u8>>,
    bytes: usize,
    limit: Option<Duration>,
    retries: Option<u32>,
    reply: Option<Reply>,
    /// Why there is none, until the log has it.
    failure: Option<String>,
}

fn this(object: &Object) -> Arc<Database> {
    object.clone().downcast().expect("made by this class")
}

/// Shared with the command that is under way.
fn state(call: &mut Call<'_>, object: &Object) -> Rc<RefCell<State>> {
    let key = Arc::as_ptr(object).cast::<()>() as usize;
    let state = call.ctx.task().keyed::<Rc<RefCell<State>>>(key, Rc::default).clone();
    if let Some(why) = state.borrow_mut().failure.take() {
        call.ctx.log().putf(Tag::VclError, format_args!("redis: {}: {why}", this(object).name));
    }
    state
}

/// An empty first argument asks for nothing.
fn nothing(args: &[Value], otherwise: &'static str) -> CallResult {
    if Args(args).bytes_of(0).iter().all(u8::is_ascii_whitespace) {
        return give(Value::Void);
    }
    fail(format!("redis: {otherwise}"))
}

fn location(args: &[Value], at: usize) -> Result<Option<String>, Failure> {
    match std::str::from_utf8(Args(args).bytes_of(at)) {
        Ok("") => Ok(None),
        Ok(text) => Ok(Some(text.to_owned())),
        Err(_) => fail("redis: a location is HOST:PORT or the path of a socket"),
    }
}

fn role(word: &str, is_only: bool) -> Result<Role, Failure> {
    match word {
        "master" => Ok(Role::Master),
        "slave" => Ok(Role::Slave),
        "auto" if is_only => Ok(Role::Unknown),
        "auto" => fail("redis: finding out roles isn't built into Lacquer: a server is master or slave"),
        _ => fail("redis: clusters aren't built into Lacquer"),
    }
}

fn millis(args: &[Value], at: usize, who: &str) -> Result<Duration, Failure> {
    match u64::try_from(Args(args).int(at)) {
        Ok(millis) => Ok(Duration::from_millis(millis)),
        Err(_) => fail(format!("redis: {who}: a time is not negative")),
    }
}

fn retries(args: &[Value], at: usize) -> Result<u32, Failure> {
    match Args(args).int(at) {
        retries @ 0..=MOST_RETRIES => Ok(retries as u32),
        _ => fail(format!("redis: retries are 0 to {MOST_RETRIES}")),
    }
}

fn new(_: &mut Call<'_>, name: &str, args: &[Value]) -> Result<Object, Failure> {
    let text = |at: usize| Some(Args(args).bytes_of(at).to_vec()).filter(|text| !text.is_empty());
    let most = match (Args(args).bool(6), Args(args).int(7)) {
        (true, most @ 1..=MOST_CONNECTIONS) => most,
        (false, 1..=MOST_CONNECTIONS) => OWN_CONNECTIONS,
        _ => return fail(format!("redis: {name}: max_connections are 1 to {MOST_CONNECTIONS}")),
    };
    if Args(args).bool(9) {
        return fail(format!("redis: {name}: TLS isn't built into Lacquer: a TLS proxy must stand before the server"));
    }
    let seconds = |at: usize| Duration::from_secs(u64::try_from(Args(args).int(at)).unwrap_or(0));
    let login = Login { user: text(15), password: text(16), is_resp3: Args(args).word(8) == "RESP3" };
    let mut database = Database::new(name, most as usize, login);
    database.connect_limit = millis(args, 2, name)?;
    database.life = seconds(3);
    database.limit = millis(args, 4, name)?;
    database.retries = retries(args, 5)?;
    database.sick_for = seconds(17);
    database.master_only = Args(args).bool(18);
    database.says_all = Args(args).bool(19);
    let role = role(Args(args).word(1), true)?;
    if let Some(location) = location(args, 0)? {
        database.add(&location, role)?;
    }
    Ok(Arc::new(database))
}

/// Changes the command that waits to be executed.
fn waiting(call: &mut Call<'_>, object: &Object, who: &str, change: impl FnOnce(&mut State)) -> CallResult {
    let state = state(call, object);
    let mut state = state.borrow_mut();
    if state.args.is_empty() {
        return fail(format!("redis: {who}(): command() comes first"));
    }
    change(&mut state);
    give(Value::Void)
}

fn push(call: &mut Call<'_>, object: &Object, arg: Vec<u8>) -> CallResult {
    let mut is_full = false;
    waiting(call, object, "push", |state| {
        state.bytes += arg.len();
        is_full = state.args.len() > MOST_ARGS || state.bytes > MOST_ARG_BYTES;
        if !is_full {
            state.args.push(arg);
        }
    })?;
    if is_full {
        return fail(format!("redis: a command has no more than {MOST_ARGS} arguments, of 1 MB"));
    }
    give(Value::Void)
}

fn execute(call: &mut Call<'_>, object: &Object, master: bool) -> CallResult {
    if matches!(call.method, Method::Init | Method::Fini) {
        return fail("redis: there is nobody to wait for an answer in vcl_init and vcl_fini");
    }
    let (database, state) = (this(object), state(call, object));
    let (args, limit, retries) = {
        let mut state = state.borrow_mut();
        state.reply = None;
        (std::mem::take(&mut state.args), state.limit.take(), state.retries.take())
    };
    let Some(command) = args.first() else { return fail("redis: execute(): command() comes first") };
    if database.says_all {
        let line = format!("redis: {}: {}", database.name, command.escape_ascii());
        call.ctx.log().put(Tag::Debug, line.as_bytes());
    }
    wait(async move {
        let (limit, retries) = (limit.unwrap_or(database.limit), retries.unwrap_or(database.retries));
        let asked = database.ask(&args, limit, retries, master).await;
        let mut state = state.borrow_mut();
        match asked {
            Ok(reply) => state.reply = Some(reply),
            Err(why) => state.failure = Some(why),
        }
        Ok(Value::Void)
    })
}

fn about(call: &mut Call<'_>, object: &Object, value: impl FnOnce(Option<&Reply>) -> Value) -> CallResult {
    let state = state(call, object);
    let value = value(state.borrow().reply.as_ref());
    give(value)
}

fn is(call: &mut Call<'_>, object: &Object, is: impl FnOnce(&Reply) -> bool) -> CallResult {
    about(call, object, |reply| Value::Bool(reply.is_some_and(is)))
}

fn nth(call: &mut Call<'_>, object: &Object, args: &[Value], is_it: impl FnOnce(&Reply) -> bool) -> CallResult {
    let index = usize::try_from(Args(args).int(0)).unwrap_or(usize::MAX);
    is(call, object, |reply| matches!(reply, Reply::Array(all) if all.get(index).is_some_and(is_it)))
}

/// As a text; arrays have none.
fn shown(reply: &Reply) -> Value {
    match reply {
        Reply::Nil | Reply::Array(_) => Value::NULL,
        Reply::Error(text) | Reply::Status(text) | Reply::Text(text) | Reply::Double(_, text) => Value::text(&text[..]),
        Reply::Integer(number) => Value::text(number.to_string()),
        Reply::Boolean(value) => Value::text(if *value { "true" } else { "false" }),
    }
}
