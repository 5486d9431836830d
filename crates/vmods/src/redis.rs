// SPDX-License-Identifier: BSD-2-Clause
//! vmod_redis of libvmod-redis: commands of VCL to Redis servers. Each database has connections of its own, shared by all threads and
//! bounded; who finds none waits for one. A command that gets no answer has no reply, and a VCL_Error record
//! once VCL asks for it. Not built: clusters, sentinels,
//! weights, finding out a server's role, functions that stand for methods, statistics. EVAL is sent as it is.

mod security;
mod server;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use redis_protocol::RedisReply;
use tables::Tag;
use vrt::vmod::EnumWords;
use vrt::vmod::{CallResult, VOID, VmodCall, give, wait};
use vrt::{Method, Text, VclFailure};

use self::security::Security;
use self::server::{Database, Login, Role};
use vmod_support::args::fail;

/// Arguments of a command, and their bytes.
const MAX_ARGS: usize = 1024;
const MAX_ARG_BYTES: usize = 1024 * 1024;
const MAX_RETRIES: i64 = 10;
const MAX_CONNECTIONS: i64 = 10_000;
/// Most connections of a database whose connections would be a thread's own.
const OWN_CONNECTIONS: i64 = 128;

vrt::words! {
    enum Protocol { Resp2 = "RESP2", Resp3 = "RESP3", Default = "default" }
}

vrt::words! {
    enum DbType { Master = "master", Slave = "slave", Auto = "auto", Cluster = "cluster" }
}

vrt::vmod_args! {
    struct DatabaseArgs<'a> {
        location: STRING as &'a [u8] = "",
        r#type: DbType as DbType = Auto,
        connection_timeout: INT as i64 = 1000,
        connection_ttl: INT as i64 = 0,
        command_timeout: INT as i64 = 0,
        max_command_retries: INT as i64 = 0,
        shared_connections: BOOL as bool = true,
        max_connections: INT as i64 = 128,
        protocol: Protocol as Protocol = Default,
        tls: BOOL as bool = false,
        tls_cafile: STRING as &'a [u8] = "",
        tls_capath: STRING as &'a [u8] = "",
        tls_certfile: STRING as &'a [u8] = "",
        tls_keyfile: STRING as &'a [u8] = "",
        tls_sni: STRING as &'a [u8] = "",
        user: STRING as &'a [u8] = "",
        password: STRING as &'a [u8] = "",
        sickness_ttl: INT as i64 = 60,
        ignore_slaves: BOOL as bool = false,
        debug: BOOL as bool = false,
        max_cluster_hops: INT as i64 = 32,
    }
}

vrt::vmod_args! {
    struct CommandArgs<'a> {
        command: STRING as &'a [u8],
        cmd_arg1: [STRING] as Option<&'a [u8]>,
        cmd_arg2: [STRING] as Option<&'a [u8]>,
        cmd_arg3: [STRING] as Option<&'a [u8]>,
        cmd_arg4: [STRING] as Option<&'a [u8]>,
        cmd_arg5: [STRING] as Option<&'a [u8]>,
        cmd_arg6: [STRING] as Option<&'a [u8]>,
        cmd_arg7: [STRING] as Option<&'a [u8]>,
        cmd_arg8: [STRING] as Option<&'a [u8]>,
        cmd_arg9: [STRING] as Option<&'a [u8]>,
        cmd_arg10: [STRING] as Option<&'a [u8]>,
        cmd_arg11: [STRING] as Option<&'a [u8]>,
        cmd_arg12: [STRING] as Option<&'a [u8]>,
        cmd_arg13: [STRING] as Option<&'a [u8]>,
        cmd_arg14: [STRING] as Option<&'a [u8]>,
        cmd_arg15: [STRING] as Option<&'a [u8]>,
        cmd_arg16: [STRING] as Option<&'a [u8]>,
        timeout: [INT] as Option<i64>,
        retries: [INT] as Option<i64>,
        master: BOOL as bool = true,
    }
}

vrt::vmod! {
    /// Sends commands to Redis servers. A reply may have 8 MB and 100,000 values. Clusters, sentinels and weights aren't
    /// supported
    pub(crate) static VMOD = redis;

    needs { Authorities }

    functions {
        /// Has no effect; fails if there are rules
        fn weights(rules: STRING = "") -> VOID, only(Method::Init.set()) = weights;

        /// Has no effect; fails if there are locations
        fn sentinels(
            locations: STRING = "", period: INT = 60, connection_timeout: INT = 500, command_timeout: INT = 0,
            protocol: Protocol = Default, tls: BOOL = false, tls_cafile: STRING = "", tls_capath: STRING = "",
            tls_certfile: STRING = "", tls_keyfile: STRING = "", tls_sni: STRING = "", password: STRING = "",
            debug: BOOL = false
        ) -> VOID, only(Method::Init.set()) = sentinels;
    }

    /// Servers by HOST:PORT or the path of a socket; auto counts as master. Timeouts are in milliseconds (0: one minute),
    /// TTLs in seconds (0: none). Each server has at most max_connections, shared by all threads; 128 without
    /// shared_connections. debug logs each command's name as a Debug record. With tls connections use TLS, except to paths.
    /// Certificates must be from an authority in tls_cafile or tls_capath, or else of the system, and for tls_sni if it is
    /// given. Without tls_sni a certificate for any name is accepted; without tls_cafile, too, any certificate of a public
    /// authority. tls_certfile and tls_keyfile are the client certificate, for servers that require one
    object db(..DatabaseArgs<'_>) -> Arc<Database> = new, methods {
        /// Adds a server, master or slave
        fn add_server(location: STRING, type: DbType) -> VOID, only(Method::Init.set()) = add_server;

        /// Starts a command of this task and discards the last reply
        fn command(name: STRING) -> VOID, local = db_command;

        /// Sets the timeout of the command in milliseconds
        fn timeout(command_timeout: INT) -> VOID, local = timeout;

        /// Sets the number of retries of the command, at most 10
        fn retries(max_command_retries: INT) -> VOID, local = db_retries;

        /// Adds an argument; at most 1024, with 1 MB in total
        fn push(arg: STRING) -> VOID, local = db_push;

        /// Sends the command to a master, or to any server (slaves first), and waits for the reply. If there is none, a
        /// VCL_Error record says why
        fn execute(master: BOOL = true) -> VOID, waits
            = |this: &Arc<Database>, call: &mut VmodCall<'_>, master: bool| execute(call, this, master);

        /// Combines command, push, timeout, retries and execute
        fn easy_execute(..CommandArgs<'_>) -> VOID, waits = easy_execute;

        /// Returns whether there is a reply
        fn replied() -> BOOL, local
            = |this: &Arc<Database>, call: &mut VmodCall<'_>| about(call, this, |reply| reply.is_some());

        /// Returns whether the reply is an error
        fn reply_is_error() -> BOOL, local = reply_is_error;

        /// Returns whether the reply is nil
        fn reply_is_nil() -> BOOL, local
            = |this: &Arc<Database>, call: &mut VmodCall<'_>| is(call, this, |reply| matches!(reply, RedisReply::Nil));

        /// Returns whether the reply is a status
        fn reply_is_status() -> BOOL, local = reply_is_status;

        /// Returns whether the reply is an integer
        fn reply_is_integer() -> BOOL, local = reply_is_integer;

        /// Returns whether the reply is a boolean
        fn reply_is_boolean() -> BOOL, local = reply_is_boolean;

        /// Returns whether the reply is a double
        fn reply_is_double() -> BOOL, local = reply_is_double;

        /// Returns whether the reply is a string
        fn reply_is_string() -> BOOL, local
            = |this: &Arc<Database>, call: &mut VmodCall<'_>| is(call, this, |reply| matches!(reply, RedisReply::Text(_)));

        /// Returns whether the reply is an array, a map or a set
        fn reply_is_array() -> BOOL, local = reply_is_array;

        /// Returns the reply as a string; unset if it is nil or an array
        fn get_reply() -> STRING, local = get_reply;

        /// Returns the error, if the reply is one
        fn get_error_reply() -> STRING, local = get_error_reply;

        /// Returns the status, if the reply is one
        fn get_status_reply() -> STRING, local = get_status_reply;

        /// Returns the integer, or 0
        fn get_integer_reply() -> INT, local = get_integer_reply;

        /// Returns the boolean, or false
        fn get_boolean_reply() -> BOOL, local
            = |this: &Arc<Database>, call: &mut VmodCall<'_>| is(call, this, |reply| *reply == RedisReply::Boolean(true));

        /// Returns the double, or 0
        fn get_double_reply() -> REAL, local = get_double_reply;

        /// Returns the string, if the reply is one
        fn get_string_reply() -> STRING, local = get_string_reply;

        /// Returns the number of values of the array; a map counts its keys and its values
        fn get_array_reply_length() -> INT, local = get_array_reply_length;

        /// Returns whether this value of the array is an error
        fn array_reply_is_error(index: INT) -> BOOL, local = array_reply_is_error;

        /// Returns whether this value of the array is nil
        fn array_reply_is_nil(index: INT) -> BOOL, local = array_reply_is_nil;

        /// Returns whether this value of the array is a status
        fn array_reply_is_status(index: INT) -> BOOL, local = array_reply_is_status;

        /// Returns whether this value of the array is an integer
        fn array_reply_is_integer(index: INT) -> BOOL, local = array_reply_is_integer;

        /// Returns whether this value of the array is a boolean
        fn array_reply_is_boolean(index: INT) -> BOOL, local = array_reply_is_boolean;

        /// Returns whether this value of the array is a double
        fn array_reply_is_double(index: INT) -> BOOL, local = array_reply_is_double;

        /// Returns whether this value of the array is a string
        fn array_reply_is_string(index: INT) -> BOOL, local = array_reply_is_string;

        /// Returns whether this value of the array is an array
        fn array_reply_is_array(index: INT) -> BOOL, local = array_reply_is_array;

        /// Returns this value of the array as a string
        fn get_array_reply_value(index: INT) -> STRING, local = get_array_reply_value;

        /// Discards command and reply
        fn free() -> VOID, local = free;
    }

    left_out {
        "redis.use" => "the method of that name";
        "redis.add_server" => "the method of that name";
        "redis.command" => "the method of that name";
        "redis.timeout" => "the method of that name";
        "redis.retries" => "the method of that name";
        "redis.push" => "the method of that name";
        "redis.execute" => "the method of that name";
        "redis.easy_execute" => "the method of that name";
        "redis.replied" => "the method of that name";
        "redis.reply_is_error" => "the method of that name";
        "redis.reply_is_nil" => "the method of that name";
        "redis.reply_is_status" => "the method of that name";
        "redis.reply_is_integer" => "the method of that name";
        "redis.reply_is_boolean" => "the method of that name";
        "redis.reply_is_double" => "the method of that name";
        "redis.reply_is_string" => "the method of that name";
        "redis.reply_is_array" => "the method of that name";
        "redis.get_reply" => "the method of that name";
        "redis.get_error_reply" => "the method of that name";
        "redis.get_status_reply" => "the method of that name";
        "redis.get_integer_reply" => "the method of that name";
        "redis.get_boolean_reply" => "the method of that name";
        "redis.get_double_reply" => "the method of that name";
        "redis.get_string_reply" => "the method of that name";
        "redis.get_array_reply_length" => "the method of that name";
        "redis.array_reply_is_error" => "the method of that name";
        "redis.array_reply_is_nil" => "the method of that name";
        "redis.array_reply_is_status" => "the method of that name";
        "redis.array_reply_is_integer" => "the method of that name";
        "redis.array_reply_is_boolean" => "the method of that name";
        "redis.array_reply_is_double" => "the method of that name";
        "redis.array_reply_is_string" => "the method of that name";
        "redis.array_reply_is_array" => "the method of that name";
        "redis.get_array_reply_value" => "the method of that name";
        "redis.free" => "the method of that name";
        "redis.stats" => "Redis's own INFO";
        "redis.counter" => "Redis's own INFO";
        "redis.db.stats" => "Redis's own INFO";
        "redis.db.counter" => "Redis's own INFO";
    }
}

fn weights(_: &mut VmodCall<'_>, rules: &[u8]) -> CallResult<VOID> {
    nothing(rules, "weights() isn't built into Lacquer: servers are tried in their order")
}

fn sentinels(
    _: &mut VmodCall<'_>,
    locations: &[u8],
    _: i64,
    _: i64,
    _: i64,
    _: Protocol,
    _: bool,
    _: Option<&Text>,
    _: Option<&Text>,
    _: Option<&Text>,
    _: Option<&Text>,
    _: Option<&Text>,
    _: Option<&Text>,
    _: bool,
) -> CallResult<VOID> {
    nothing(locations, "sentinels() isn't built into Lacquer: name the servers")
}

fn add_server(this: &Arc<Database>, call: &mut VmodCall<'_>, place: &[u8], kind: DbType) -> CallResult<VOID> {
    if call.method != Method::Init {
        return fail("redis: add_server() is for vcl_init");
    }
    let Some(location) = location(place)? else { return fail("redis: add_server() wants a location") };
    this.add(&location, role(kind.word(), false)?)?;
    give(())
}

fn db_command(this: &Arc<Database>, call: &mut VmodCall<'_>, name: &[u8]) -> CallResult<VOID> {
    let name = name.to_vec();
    let state = state(call, this);
    *state.borrow_mut() = RedisState { bytes: name.len(), args: vec![name], ..RedisState::default() };
    give(())
}

fn timeout(this: &Arc<Database>, call: &mut VmodCall<'_>, number: i64) -> CallResult<VOID> {
    let limit = millis(number, "timeout")?;
    waiting(call, this, "timeout", |state| state.limit = Some(limit))
}

fn db_retries(this: &Arc<Database>, call: &mut VmodCall<'_>, number: i64) -> CallResult<VOID> {
    let retries = retries(number)?;
    waiting(call, this, "retries", |state| state.retries = Some(retries))
}

fn db_push(this: &Arc<Database>, call: &mut VmodCall<'_>, arg: &[u8]) -> CallResult<VOID> {
    let arg = arg.to_vec();
    push(call, this, arg)
}

fn easy_execute(this: &Arc<Database>, call: &mut VmodCall<'_>, args: CommandArgs<'_>) -> CallResult<VOID> {
    let command = args.command.to_vec();
    let state = state(call, this);
    *state.borrow_mut() = RedisState { bytes: command.len(), args: vec![command], ..RedisState::default() };
    for arg in args.rest().into_iter().flatten() {
        push(call, this, arg.to_vec())?;
    }
    if let Some(timeout) = args.timeout {
        state.borrow_mut().limit = Some(millis(timeout, "easy_execute")?);
    }
    if let Some(number) = args.retries {
        state.borrow_mut().retries = Some(retries(number)?);
    }
    execute(call, this, args.master)
}

impl<'a> CommandArgs<'a> {
    fn rest(&self) -> [Option<&'a [u8]>; 16] {
        [
            self.cmd_arg1,
            self.cmd_arg2,
            self.cmd_arg3,
            self.cmd_arg4,
            self.cmd_arg5,
            self.cmd_arg6,
            self.cmd_arg7,
            self.cmd_arg8,
            self.cmd_arg9,
            self.cmd_arg10,
            self.cmd_arg11,
            self.cmd_arg12,
            self.cmd_arg13,
            self.cmd_arg14,
            self.cmd_arg15,
            self.cmd_arg16,
        ]
    }
}

fn reply_is_error(this: &Arc<Database>, call: &mut VmodCall<'_>) -> bool {
    is(call, this, |reply| matches!(reply, RedisReply::Error(_)))
}

fn reply_is_status(this: &Arc<Database>, call: &mut VmodCall<'_>) -> bool {
    is(call, this, |reply| matches!(reply, RedisReply::Status(_)))
}

fn reply_is_integer(this: &Arc<Database>, call: &mut VmodCall<'_>) -> bool {
    is(call, this, |reply| matches!(reply, RedisReply::Integer(_)))
}

fn reply_is_boolean(this: &Arc<Database>, call: &mut VmodCall<'_>) -> bool {
    is(call, this, |reply| matches!(reply, RedisReply::Boolean(_)))
}

fn reply_is_double(this: &Arc<Database>, call: &mut VmodCall<'_>) -> bool {
    is(call, this, |reply| matches!(reply, RedisReply::Double(..)))
}

fn reply_is_array(this: &Arc<Database>, call: &mut VmodCall<'_>) -> bool {
    is(call, this, |reply| matches!(reply, RedisReply::Array(_)))
}

fn get_reply(this: &Arc<Database>, call: &mut VmodCall<'_>) -> Option<Text> {
    about(call, this, |reply| reply.and_then(shown))
}

fn get_error_reply(this: &Arc<Database>, call: &mut VmodCall<'_>) -> Option<Text> {
    about(call, this, |reply| match reply {
        Some(RedisReply::Error(text)) => Some(Text::from(&text[..])),
        _ => None,
    })
}

fn get_status_reply(this: &Arc<Database>, call: &mut VmodCall<'_>) -> Option<Text> {
    about(call, this, |reply| match reply {
        Some(RedisReply::Status(text)) => Some(Text::from(&text[..])),
        _ => None,
    })
}

fn get_integer_reply(this: &Arc<Database>, call: &mut VmodCall<'_>) -> i64 {
    about(call, this, |reply| match reply {
        Some(RedisReply::Integer(number)) => *number,
        _ => 0,
    })
}

fn get_double_reply(this: &Arc<Database>, call: &mut VmodCall<'_>) -> f64 {
    about(call, this, |reply| match reply {
        Some(RedisReply::Double(number, _)) if number.is_finite() => *number,
        _ => 0.0,
    })
}

fn get_string_reply(this: &Arc<Database>, call: &mut VmodCall<'_>) -> Option<Text> {
    about(call, this, |reply| match reply {
        Some(RedisReply::Text(text)) => Some(Text::from(&text[..])),
        _ => None,
    })
}

fn get_array_reply_length(this: &Arc<Database>, call: &mut VmodCall<'_>) -> i64 {
    about(call, this, |reply| match reply {
        Some(RedisReply::Array(all)) => all.len() as i64,
        _ => 0,
    })
}

fn array_reply_is_error(this: &Arc<Database>, call: &mut VmodCall<'_>, index: i64) -> bool {
    nth(call, this, index, |one| matches!(one, RedisReply::Error(_)))
}

fn array_reply_is_nil(this: &Arc<Database>, call: &mut VmodCall<'_>, index: i64) -> bool {
    nth(call, this, index, |one| matches!(one, RedisReply::Nil))
}

fn array_reply_is_status(this: &Arc<Database>, call: &mut VmodCall<'_>, index: i64) -> bool {
    nth(call, this, index, |one| matches!(one, RedisReply::Status(_)))
}

fn array_reply_is_integer(this: &Arc<Database>, call: &mut VmodCall<'_>, index: i64) -> bool {
    nth(call, this, index, |one| matches!(one, RedisReply::Integer(_)))
}

fn array_reply_is_boolean(this: &Arc<Database>, call: &mut VmodCall<'_>, index: i64) -> bool {
    nth(call, this, index, |one| matches!(one, RedisReply::Boolean(_)))
}

fn array_reply_is_double(this: &Arc<Database>, call: &mut VmodCall<'_>, index: i64) -> bool {
    nth(call, this, index, |one| matches!(one, RedisReply::Double(..)))
}

fn array_reply_is_string(this: &Arc<Database>, call: &mut VmodCall<'_>, index: i64) -> bool {
    nth(call, this, index, |one| matches!(one, RedisReply::Text(_)))
}

fn array_reply_is_array(this: &Arc<Database>, call: &mut VmodCall<'_>, index: i64) -> bool {
    nth(call, this, index, |one| matches!(one, RedisReply::Array(_)))
}

fn get_array_reply_value(this: &Arc<Database>, call: &mut VmodCall<'_>, index: i64) -> Option<Text> {
    let index = usize::try_from(index).unwrap_or(usize::MAX);
    about(call, this, |reply| match reply {
        Some(RedisReply::Array(all)) => all.get(index).and_then(shown),
        _ => None,
    })
}

fn free(this: &Arc<Database>, call: &mut VmodCall<'_>) -> CallResult<VOID> {
    *state(call, this).borrow_mut() = RedisState::default();
    give(())
}

#[derive(Default)]
struct RedisState {
    args: Vec<Vec<u8>>,
    bytes: usize,
    limit: Option<Duration>,
    retries: Option<u32>,
    reply: Option<RedisReply>,
    failure: Option<String>,
}

/// Shared with the command that is under way.
fn state(call: &mut VmodCall<'_>, database: &Arc<Database>) -> Rc<RefCell<RedisState>> {
    let key = std::ptr::from_ref(database) as usize;
    let state = call.ctx.task().keyed::<Rc<RefCell<RedisState>>>(key, Rc::default).clone();
    if let Some(reason) = state.borrow_mut().failure.take() {
        call.ctx.log().putf(Tag::VclError, format_args!("redis: {}: {reason}", database.name));
    }
    state
}

/// An empty first argument asks for nothing.
fn nothing(rules: &[u8], otherwise: &'static str) -> CallResult<VOID> {
    if rules.iter().all(u8::is_ascii_whitespace) {
        return give(());
    }
    fail(format!("redis: {otherwise}"))
}

fn location(text: &[u8]) -> Result<Option<String>, VclFailure> {
    match std::str::from_utf8(text) {
        Ok("") => Ok(None),
        Ok(text) => Ok(Some(text.to_owned())),
        Err(_) => fail("redis: a location is HOST:PORT or the path of a socket"),
    }
}

fn role(word: &str, is_only: bool) -> Result<Role, VclFailure> {
    match word {
        "master" => Ok(Role::Master),
        "slave" => Ok(Role::Slave),
        "auto" if is_only => Ok(Role::Unknown),
        "auto" => fail("redis: finding out roles isn't built into Lacquer: a server is master or slave"),
        _ => fail("redis: clusters aren't built into Lacquer"),
    }
}

fn millis(number: i64, who: &str) -> Result<Duration, VclFailure> {
    match u64::try_from(number) {
        Ok(millis) => Ok(Duration::from_millis(millis)),
        Err(_) => fail(format!("redis: {who}: a time is not negative")),
    }
}

fn retries(number: i64) -> Result<u32, VclFailure> {
    match number {
        retries @ 0..=MAX_RETRIES => Ok(retries as u32),
        _ => fail(format!("redis: retries are 0 to {MAX_RETRIES}")),
    }
}

fn new(_: &mut VmodCall<'_>, name: &str, args: DatabaseArgs<'_>) -> Result<Arc<Database>, VclFailure> {
    let text = |text: &[u8]| Some(text.to_vec()).filter(|text| !text.is_empty());
    let most = match (args.shared_connections, args.max_connections) {
        (true, most @ 1..=MAX_CONNECTIONS) => most,
        (false, 1..=MAX_CONNECTIONS) => OWN_CONNECTIONS,
        _ => return fail(format!("redis: {name}: max_connections are 1 to {MAX_CONNECTIONS}")),
    };
    let security = match args.tls {
        true => Some(Security::new(&args).map_err(|reason| VclFailure::new(format!("redis: {name}: {reason}")))?),
        false => None,
    };
    let seconds = |number: i64| Duration::from_secs(u64::try_from(number).unwrap_or(0));
    let login =
        Login { user: text(args.user), password: text(args.password), is_resp3: args.protocol == Protocol::Resp3 };
    let mut database = Database::new(name, most as usize, login);
    database.security = security;
    database.connect_limit = millis(args.connection_timeout, name)?;
    database.life = seconds(args.connection_ttl);
    database.limit = millis(args.command_timeout, name)?;
    database.retries = retries(args.max_command_retries)?;
    database.sick_for = seconds(args.sickness_ttl);
    database.master_only = args.ignore_slaves;
    database.says_all = args.debug;
    let role = role(args.r#type.word(), true)?;
    if let Some(location) = location(args.location)? {
        database.add(&location, role)?;
    }
    Ok(Arc::new(database))
}

/// Changes the command that waits to be executed.
fn waiting(
    call: &mut VmodCall<'_>,
    database: &Arc<Database>,
    who: &str,
    change: impl FnOnce(&mut RedisState),
) -> CallResult<VOID> {
    let state = state(call, database);
    let mut state = state.borrow_mut();
    if state.args.is_empty() {
        return fail(format!("redis: {who}(): command() comes first"));
    }
    change(&mut state);
    give(())
}

fn push(call: &mut VmodCall<'_>, database: &Arc<Database>, arg: Vec<u8>) -> CallResult<VOID> {
    let mut is_full = false;
    waiting(call, database, "push", |state| {
        state.bytes += arg.len();
        is_full = state.args.len() > MAX_ARGS || state.bytes > MAX_ARG_BYTES;
        if !is_full {
            state.args.push(arg);
        }
    })?;
    if is_full {
        return fail(format!("redis: a command has no more than {MAX_ARGS} arguments, of 1 MB"));
    }
    give(())
}

fn execute(call: &mut VmodCall<'_>, database: &Arc<Database>, master: bool) -> CallResult<VOID> {
    if matches!(call.method, Method::Init | Method::Fini) {
        return fail("redis: there is nobody to wait for an answer in vcl_init and vcl_fini");
    }
    let (database, state) = (database.clone(), state(call, database));
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
            Err(reason) => state.failure = Some(reason),
        }
        Ok(())
    })
}

fn about<T>(call: &mut VmodCall<'_>, database: &Arc<Database>, value: impl FnOnce(Option<&RedisReply>) -> T) -> T {
    let state = state(call, database);
    let state = state.borrow();
    value(state.reply.as_ref())
}

fn is(call: &mut VmodCall<'_>, database: &Arc<Database>, is: impl FnOnce(&RedisReply) -> bool) -> bool {
    about(call, database, |reply| reply.is_some_and(is))
}

fn nth(
    call: &mut VmodCall<'_>,
    database: &Arc<Database>,
    index2: i64,
    is_it: impl FnOnce(&RedisReply) -> bool,
) -> bool {
    let index = usize::try_from(index2).unwrap_or(usize::MAX);
    is(call, database, |reply| matches!(reply, RedisReply::Array(all) if all.get(index).is_some_and(is_it)))
}

/// The reply as a text; arrays have none.
fn shown(reply: &RedisReply) -> Option<Text> {
    match reply {
        RedisReply::Nil | RedisReply::Array(_) => None,
        RedisReply::Error(text) | RedisReply::Status(text) | RedisReply::Text(text) | RedisReply::Double(_, text) => {
            Some(Text::from(&text[..]))
        }
        RedisReply::Integer(number) => Some(Text::from(number.to_string())),
        RedisReply::Boolean(value) => Some(Text::from(if *value { "true" } else { "false" })),
    }
}
