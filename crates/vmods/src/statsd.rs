// SPDX-License-Identifier: BSD-2-Clause
//! vmod_statsd(3) of libvmod-statsd, over our own client: each call is one datagram, sent at once and never waited for. A
//! server that can't be reached, or whose name can't be found, costs the samples only; the log says so when it begins.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use base::Mono;
use parking_lot::RwLock;
use statsd_client::{Batch, Client, DATAGRAM_BYTES, Target};
use tables::Tag;
use vrt::vmod::{Call, CallResult, Vmod};
use vrt::{Method, Value};

use crate::args::{Args, fail, give, wait};

/// After a name wasn't found (or a socket's path wasn't there), it is looked for again so much later.
const AGAIN: f64 = 10.0;
/// How long `vcl_init` waits for a name.
const PATIENCE: Duration = Duration::from_secs(5);

/// vmod_statsd(3)
pub(crate) static VMOD: Vmod = Vmod {
    name: "statsd",
    classes: &[],
    functions: &[
        ("server", server),
        ("prefix", |call, args| {
            line(call).settings.write().prefix = lossy(args, 0);
            give(Value::Void)
        }),
        ("suffix", |call, args| {
            line(call).settings.write().suffix = lossy(args, 0);
            give(Value::Void)
        }),
        ("incr", |call, args| send(call, args, |batch, name| batch.count(name, 1))),
        ("gauge", |call, args| send(call, args, |batch, name| batch.gauge(name, Args(args).int(1) as f64))),
        ("timing", |call, args| send(call, args, |batch, name| batch.timing(name, Args(args).int(1) as f64))),
        ("counter", |call, args| send(call, args, |batch, name| batch.count(name, Args(args).int(1)))),
    ],
};

/// The way of one VCL to its statsd.
struct Line {
    settings: RwLock<Settings>,
    /// Samples get lost: said once until one gets through.
    is_down: AtomicBool,
}

struct Settings {
    target: Target,
    prefix: String,
    suffix: String,
    link: Link,
}

/// States of the socket. `Failed` and `Idle` go on to `Opening`, that to `Open` or `Failed`.
enum Link {
    Idle,
    Opening,
    Open(Arc<Client>),
    Failed(Mono),
}

fn line(call: &mut Call<'_>) -> Arc<Line> {
    call.module.get_or(|| Line {
        settings: RwLock::new(Settings {
            target: Target::Udp("localhost".into(), 8125),
            prefix: String::new(),
            suffix: String::new(),
            link: Link::Idle,
        }),
        is_down: AtomicBool::new(false),
    })
}

fn lossy(args: &[Value], at: usize) -> String {
    String::from_utf8_lossy(Args(args).bytes_of(at)).into_owned()
}

fn server(call: &mut Call<'_>, args: &[Value]) -> CallResult {
    let (host, port) = (lossy(args, 0), lossy(args, 1));
    let target = if host.starts_with('/') || host.starts_with("unix:") {
        host.parse()
    } else {
        match port.parse() {
            Ok(0) | Err(_) => return fail(format!("statsd.server(): \"{port}\" is no port")),
            Ok(_) if host.is_empty() => return fail("statsd.server(): no host"),
            Ok(port) => Ok(Target::Udp(host, port)),
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
        return give(Value::Void);
    }
    // So that the first sample finds the socket open; a name that takes longer is awaited in the background.
    let now = call.ctx.clock().mono();
    wait(async move {
        let _ = rt::timeout(PATIENCE, line.open(now)).await;
        Ok(Value::Void)
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
        let client = rt::blocking(move || Client::connect(&asked)).await;
        let mut settings = self.settings.write();
        if settings.target == target {
            settings.link = client.map_or(Link::Failed(now), |client| Link::Open(Arc::new(client)));
        }
    }

    /// The socket if it is open; else it may be time to try.
    fn client(self: &Arc<Self>, now: Mono) -> Option<Arc<Client>> {
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

fn send(call: &mut Call<'_>, args: &[Value], put: impl FnOnce(&mut Batch, &[u8])) -> CallResult {
    let name = Args(args).bytes_of(0);
    if name.is_empty() || matches!(call.method, Method::Init | Method::Fini) {
        return give(Value::Void);
    }
    let line = line(call);
    let arrived = match line.client(call.ctx.clock().mono()) {
        Some(client) => {
            let mut batch = {
                let settings = line.settings.read();
                Batch::new(&settings.prefix, &settings.suffix, DATAGRAM_BYTES)
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
    give(Value::Void)
}
