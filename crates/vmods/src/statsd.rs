// SPDX-License-Identifier: BSD-2-Clause
//! vmod_statsd(3) of libvmod-statsd, over our own client: each call is one datagram, sent at once and never waited for. A
//! server that can't be reached, or whose name can't be found, costs the samples only; the log says so when it begins.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use base::Mono;
use parking_lot::RwLock;
use statsd_client::{DATAGRAM_BYTES, SampleBatch, StatsdClient, StatsdTarget};
use tables::Tag;
use vrt::Method;
use vrt::vmod::{CallResult, VOID, VmodCall, give, wait};

use vmod_support::args::fail;

/// After a name wasn't found (or a socket's path wasn't there), it is looked for again so much later.
const AGAIN: f64 = 10.0;
/// Longest wait of `vcl_init` for a name.
const TIMEOUT: Duration = Duration::from_secs(5);

vrt::vmod! {
    /// Sends metrics to a statsd over UDP or a Unix datagram socket. Calls never wait for it and never fail because of it
    pub(crate) static VMOD = statsd;

    functions {
        /// Sets the statsd's host (or path) and port (default localhost, 8125). For vcl_init
        fn server(_: STRING, _: STRING) -> VOID, waits = server;

        /// Sets the prefix of each name. For vcl_init
        fn prefix(_: STRING) -> VOID = prefix;

        /// Sets the suffix of each name. For vcl_init
        fn suffix(_: STRING) -> VOID = suffix;

        /// Increases a counter by one
        fn incr(_: STRING) -> VOID
            = |call: &mut VmodCall<'_>, text: &[u8]| send(call, text, |batch, name| batch.count(name, 1));

        /// Sets a gauge
        fn gauge(_: STRING, _: INT) -> VOID = gauge;

        /// Sends a duration in milliseconds
        fn timing(_: STRING, _: INT) -> VOID = timing;

        /// Increases a counter by a number
        fn counter(_: STRING, _: INT) -> VOID = counter;
    }
}

fn prefix(call: &mut VmodCall<'_>, text: &[u8]) -> CallResult<VOID> {
    line(call).settings.write().prefix = lossy(text);
    give(())
}

fn suffix(call: &mut VmodCall<'_>, text: &[u8]) -> CallResult<VOID> {
    line(call).settings.write().suffix = lossy(text);
    give(())
}

fn gauge(call: &mut VmodCall<'_>, text: &[u8], number: i64) -> CallResult<VOID> {
    send(call, text, |batch, name| batch.gauge(name, number as f64))
}

fn timing(call: &mut VmodCall<'_>, text: &[u8], number: i64) -> CallResult<VOID> {
    send(call, text, |batch, name| batch.timing(name, number as f64))
}

fn counter(call: &mut VmodCall<'_>, text: &[u8], number: i64) -> CallResult<VOID> {
    send(call, text, |batch, name| batch.count(name, number))
}

struct Line {
    settings: RwLock<Settings>,
    /// Samples get lost: said once until one gets through.
    is_down: AtomicBool,
}

struct Settings {
    target: StatsdTarget,
    prefix: String,
    suffix: String,
    link: Link,
}

/// States of the socket. `Failed` and `Idle` go on to `Opening`, that to `Open` or `Failed`.
enum Link {
    Idle,
    Opening,
    Open(Arc<StatsdClient>),
    Failed(Mono),
}

fn line(call: &mut VmodCall<'_>) -> Arc<Line> {
    call.module.get_or(|| Line {
        settings: RwLock::new(Settings {
            target: StatsdTarget::Udp("localhost".into(), 8125),
            prefix: String::new(),
            suffix: String::new(),
            link: Link::Idle,
        }),
        is_down: AtomicBool::new(false),
    })
}

fn lossy(text: &[u8]) -> String {
    String::from_utf8_lossy(text).into_owned()
}

fn server(call: &mut VmodCall<'_>, host: &[u8], port: &[u8]) -> CallResult<VOID> {
    let (host, port) = (lossy(host), lossy(port));
    let target = if host.starts_with('/') || host.starts_with("unix:") {
        host.parse()
    } else {
        match port.parse() {
            Ok(0) | Err(_) => return fail(format!("statsd.server(): \"{port}\" is no port")),
            Ok(_) if host.is_empty() => return fail("statsd.server(): no host"),
            Ok(port) => Ok(StatsdTarget::Udp(host, port)),
        }
    };
    let target = match target {
        Ok(target) => target,
        Err(error) => return fail(format!("statsd.server(): {error}")),
    };
    let line = line(call);
    {
        let mut settings = line.settings.write();
        settings.target = target;
        settings.link = Link::Idle;
    }
    if call.method != Method::Init {
        return give(());
    }
    // So that the first sample finds the socket open; a name that takes longer is awaited in the background.
    let now = call.ctx.clock().mono();
    wait(async move {
        let _ = rt::timeout(TIMEOUT, line.open(now)).await;
        Ok(())
    })
}

impl Line {
    /// Opens the socket, looking for the name where that may block.
    async fn open(self: Arc<Self>, now: Mono) {
        let target = {
            let mut settings = self.settings.write();
            settings.link = Link::Opening;
            settings.target.clone()
        };
        let asked = target.clone();
        let client = rt::blocking_lookup(move || StatsdClient::connect(&asked)).await;
        let mut settings = self.settings.write();
        if settings.target == target {
            settings.link =
                client.ok().and_then(Result::ok).map_or(Link::Failed(now), |client| Link::Open(Arc::new(client)));
        }
    }

    fn client(self: &Arc<Self>, now: Mono) -> Option<Arc<StatsdClient>> {
        match &self.settings.read().link {
            Link::Open(client) => return Some(client.clone()),
            Link::Opening => return None,
            Link::Failed(since) if now.since(*since) < AGAIN => return None,
            Link::Failed(_) | Link::Idle => {}
        }
        drop(rt::spawn(self.clone().open(now)));
        None
    }
}

fn send(call: &mut VmodCall<'_>, name: &[u8], put: impl FnOnce(&mut SampleBatch, &[u8])) -> CallResult<VOID> {
    if name.is_empty() || matches!(call.method, Method::Init | Method::Fini) {
        return give(());
    }
    let line = line(call);
    let arrived = match line.client(call.ctx.clock().mono()) {
        Some(client) => {
            let mut batch = {
                let settings = line.settings.read();
                SampleBatch::new(&settings.prefix, &settings.suffix, DATAGRAM_BYTES)
            };
            put(&mut batch, name);
            let before = client.dropped();
            client.send(&mut batch);
            client.dropped() == before
        }
        None => false,
    };
    if arrived {
        line.is_down.store(false, Relaxed);
    } else if !line.is_down.swap(true, Relaxed) {
        let target = line.settings.read().target.clone();
        call.ctx.log().putf(Tag::VclError, format_args!("statsd: samples to {target} get lost"));
    }
    give(())
}
