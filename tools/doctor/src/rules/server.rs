// SPDX-License-Identifier: BSD-2-Clause
//! Rules about the server, by what it counts and what its CLI tells.

use base::text::binary_bytes;

use crate::rule::{Area, Rule, SOUND, Severity, count, found, found_at, percent, time, when};
use crate::server::{DoctorServer, ListedBackend};

pub const RULES: &[Rule] = &[
    Rule {
        id: "worker-stopped",
        area: Area::Server,
        severity: Severity::Fault,
        what: "The manager runs, but no worker does: nobody is served",
        why: "The worker was stopped, can't start, or has died too often.",
        remedy: &["varnishadm start", "varnishadm panic.show    # why it died", "journalctl -u varnish | tail"],
        evidence: "the shared memory of the working directory: no worker",
        look: |facts| {
            let server = facts.server()?;
            when(server.manager.is_some() && server.worker.is_none(), || {
                format!("the manager is process {}", server.manager.unwrap_or(0))
            })
        },
    },
    Rule {
        id: "worker-died",
        area: Area::Server,
        severity: Severity::Fault,
        what: "The worker has died and was started again",
        why: "Each time all requests in flight fail, and a genuine varnishd begins with an empty cache: from outside the site is only slow now \
              and then, and nobody looks for the reason.",
        remedy: &["varnishadm panic.show", "journalctl -u varnish | grep -E 'died|Panic|Assert'"],
        evidence: "MGT.child_died, child_panic, child_dump: 1 or more; panic.show",
        look: |facts| {
            let server = facts.server()?;
            let deaths = server
                .grown("MGT.child_died")?
                .max(server.grown("MGT.child_panic")?)
                .max(server.grown("MGT.child_dump")?);
            if deaths == 0 {
                return SOUND;
            }
            let uptime = || {
                let seconds = server.counter("MGT.uptime").ok();
                seconds.map_or_else(String::new, |s| format!(", which runs for {}", time(s as f64)))
            };
            let often = if deaths == 1 { "once".to_owned() } else { format!("{} times", count(deaths)) };
            let died = found(match server.before {
                Some(_) => format!("{often} {}", server.since()),
                None => format!("{often} under this manager{}", uptime()),
            });
            let panic = server.told.as_ref().ok().and_then(|told| told.panic.clone());
            Ok(vec![match panic {
                Some(panic) => died.and(panic),
                None => died,
            }])
        },
    },
    Rule {
        id: "nuked",
        area: Area::Server,
        severity: Severity::Warning,
        what: "Objects are thrown out before their time because the store is full",
        why: "What is thrown out is fetched again when it is asked for: the store is too small for what the site has, or is filled with what \
              nobody asks for twice.",
        remedy: &[
            "-s malloc,SIZE    # a larger store",
            "lacquer simulate LOG    # how large it would have to be for which hit rate",
            "varnishncsa -F '%O %U' | sort -n | tail    # what is large",
        ],
        evidence: "MAIN.n_lru_nuked, 20 or more, and 5 % of MAIN.cache_miss or more",
        look: |facts| {
            let server = facts.server()?;
            let (nuked, missed) = (server.grown("MAIN.n_lru_nuked")?, server.grown("MAIN.cache_miss")?);
            if nuked < 20 || nuked * 20 < missed {
                return SOUND;
            }
            let finding =
                found(format!("{} objects thrown out, {} fetched {}", count(nuked), count(missed), server.since()));
            Ok(vec![stores(server).into_iter().fold(finding, |finding, store| finding.and(store))])
        },
    },
    Rule {
        id: "store-stuck",
        area: Area::Server,
        severity: Severity::Fault,
        what: "Objects couldn't be stored although others were thrown out for them",
        why: "One that is larger than what nuke_limit others leave can't be fetched at all: its fetch fails while it is sent.",
        remedy: &[
            "varnishadm param.set nuke_limit 500",
            "(pass or pipe what is very large, or give it a store of its own)",
        ],
        evidence: "MAIN.n_lru_limited, 1 or more",
        look: |facts| counted(facts.server()?, "MAIN.n_lru_limited", "times nuke_limit was reached", 1),
    },
    Rule {
        id: "transient",
        area: Area::Server,
        severity: Severity::Warning,
        what: "The store Transient has grown large",
        why: "It has what lives shorter than `shortlived` and what is passed, and has no bound unless it is given one: it grows until the \
              machine's memory is used up.",
        remedy: &["-s Transient=malloc,SIZE", "lacquer doctor --only short-ttl,passes"],
        evidence: "SMA.Transient.g_bytes: 64 MB or more, and a quarter of what all other stores may hold or more",
        look: |facts| {
            let server = facts.server()?;
            let used = server.counter("SMA.Transient.g_bytes")?;
            let sum =
                |name| -> u64 { all(server, name).filter(|(store, _)| *store != "Transient").map(|(_, n)| n).sum() };
            let others = sum("g_bytes") + sum("g_space");
            when(used >= 64 << 20 && used * 4 >= others, || {
                format!("Transient holds {}, the others may hold {}", binary_bytes(used), binary_bytes(others))
            })
        },
    },
    Rule {
        id: "threads-failed",
        area: Area::Server,
        severity: Severity::Fault,
        what: "The server couldn't make threads that it needed",
        why: "The kernel refused: a limit of processes, of a control group's tasks, or of memory. Requests wait or are dropped.",
        remedy: &[
            "lacquer doctor --only threads-allowed,user-threads,cgroup-pids,overcommit",
            "varnishadm param.show thread_pool_stack",
        ],
        evidence: "MAIN.threads_failed, 1 or more",
        look: |facts| counted(facts.server()?, "MAIN.threads_failed", "threads couldn't be made", 1),
    },
    Rule {
        id: "threads-limited",
        area: Area::Server,
        severity: Severity::Warning,
        what: "All threads were taken (thread_pool_max): requests had to wait for one",
        why: "Before the number is raised: what holds them? A slow backend or one slow URL can hold any number.",
        remedy: &["lacquer doctor --only slow-backend,held-requests", "varnishadm param.set thread_pool_max 8000"],
        evidence: "MAIN.threads_limited, sess_queued, thread_queue_len: 1 or more, where all threads of the pools are there",
        look: |facts| {
            let server = facts.server()?;
            let (limited, queued) = (server.grown("MAIN.threads_limited")?, server.grown("MAIN.sess_queued")?);
            let waiting = server.counter("MAIN.thread_queue_len")?;
            when(limited > 0 || waiting > 0 && queued > 0, || {
                let now = server.counter("MAIN.threads").unwrap_or(0);
                let text = format!(
                    "{} threads now; {} times the limit was reached, {} had to wait",
                    count(now),
                    count(limited),
                    count(queued)
                );
                format!("{text} {}; {} wait now", server.since(), count(waiting))
            })
        },
    },
    Rule {
        id: "requests-dropped",
        area: Area::Server,
        severity: Severity::Fault,
        what: "Requests were dropped because too many waited",
        why: "The queue of a thread pool (thread_queue_limit) was full: clients were sent away.",
        remedy: &[
            "lacquer doctor --only slow-backend,held-requests,threads-limited",
            "varnishadm param.set thread_pool_max 8000",
            "varnishadm param.set thread_queue_limit 100",
        ],
        evidence: "MAIN.sess_dropped, req_dropped: 1 or more",
        look: |facts| {
            let server = facts.server()?;
            let (connections, requests) = (server.grown("MAIN.sess_dropped")?, server.grown("MAIN.req_dropped")?);
            when(connections + requests > 0, || {
                format!("{} connections and {} requests {}", count(connections), count(requests), server.since())
            })
        },
    },
    Rule {
        id: "many-threads",
        area: Area::Server,
        severity: Severity::Warning,
        what: "The server has more than 5,000 threads",
        why: "So many are never all at work: something holds requests. Their stacks take memory, and when all wake up nothing goes on for a while.",
        remedy: &["lacquer doctor --only slow-backend,held-requests", "(then lower thread_pool_max to 5,000 in all)"],
        evidence: "MAIN.threads, more than 5,000 (a genuine varnishd's)",
        look: |facts| {
            let server = facts.server()?;
            let threads = server.counter("MAIN.threads")?;
            when(threads > 5000 && !server.is_ours(), || format!("{} threads", count(threads)))
        },
    },
    Rule {
        id: "accept-failed",
        area: Area::Server,
        severity: Severity::Fault,
        what: "Connections couldn't be accepted",
        why: "The server had no file descriptor, or the kernel no memory, for a client's connection.",
        remedy: &[
            "lacquer doctor --only descriptors-used,descriptor-limit,file-table",
            "systemctl edit varnish    # [Service] LimitNOFILE=1048576",
        ],
        evidence: "MAIN.sess_fail_emfile, sess_fail_enomem, sess_fail_ebadf, sess_fail_other: 1 or more",
        look: |facts| {
            let server = facts.server()?;
            let causes = [
                ("emfile", "no descriptor"),
                ("enomem", "no memory"),
                ("ebadf", "bad descriptor"),
                ("other", "other causes"),
            ];
            let seen = causes.map(|(name, text)| (server.grown(&format!("MAIN.sess_fail_{name}")).unwrap_or(0), text));
            let text: Vec<String> =
                seen.iter().filter(|(n, _)| *n > 0).map(|(n, text)| format!("{text} {}", count(*n))).collect();
            when(!text.is_empty(), || format!("{} times {}", text.join(", "), server.since()))
        },
    },
    Rule {
        id: "workspace",
        area: Area::Server,
        severity: Severity::Fault,
        what: "A workspace was too small: requests failed",
        why: "Long headers, or VCL that sets many, need more than workspace_client or workspace_backend has, or more fields than http_max_hdr \
              allows. Those requests are answered with 500 or 503.",
        remedy: &[
            "varnishlog -q 'VCL_Error or LostHeader or Error ~ workspace'    # names the header and the limit",
            "varnishadm param.set workspace_client 128k",
            "varnishadm param.set workspace_backend 128k",
            "varnishadm param.set http_max_hdr 128",
        ],
        evidence: "MAIN.ws_client_overflow, ws_backend_overflow, ws_session_overflow, ws_thread_overflow: 1 or more",
        look: |facts| {
            let server = facts.server()?;
            let seen = ["client", "backend", "session", "thread"]
                .map(|kind| (server.grown(&format!("MAIN.ws_{kind}_overflow")).unwrap_or(0), kind));
            let text: Vec<String> =
                seen.iter().filter(|(n, _)| *n > 0).map(|(n, kind)| format!("{kind} {}", count(*n))).collect();
            when(!text.is_empty(), || format!("{} times {}", text.join(", "), server.since()))
        },
    },
    Rule {
        id: "headers-lost",
        area: Area::Server,
        severity: Severity::Warning,
        what: "Header fields were lost: the message had no room for them",
        why: "Behind another cache, or with a VCL that adds fields at each restart, their number grows beyond http_max_hdr, or their length \
              beyond workspace_client or workspace_backend.",
        remedy: &[
            "varnishlog -q LostHeader",
            "varnishadm param.set http_max_hdr 128",
            "lacquer doctor --explain workspace",
        ],
        evidence: "MAIN.losthdr, 1 or more",
        look: |facts| counted(facts.server()?, "MAIN.losthdr", "times there was no room for a field", 1),
    },
    Rule {
        id: "backend-sick",
        area: Area::Server,
        severity: Severity::Fault,
        what: "The backend {} is sick",
        why: "Nothing is asked of it: requests go to others, or are answered with what is stale, or with 503.",
        remedy: &[
            "varnishadm backend.list -p {}",
            "varnishadm backend.set_health {} auto    # when somebody has set it",
        ],
        evidence: "backend.list -j: the probe says sick, or somebody has set it so",
        look: |facts| {
            let told = facts.server()?.told.as_ref().map_err(Clone::clone)?;
            let sick = told.backends.iter().filter(|backend| backend.is_sick);
            Ok(sick
                .map(|backend| {
                    let probed = format!("admin {}, probe {}", backend.admin, backend.probe);
                    // A watcher knows the reason alone.
                    let probed = Some(probed).filter(|_| !backend.admin.is_empty());
                    let known: Vec<String> = probed.into_iter().chain(backend.failure.clone()).collect();
                    found_at(&backend.name, known.join("; "))
                })
                .collect())
        },
    },
    Rule {
        id: "backend-failing",
        area: Area::Server,
        severity: Severity::Warning,
        what: "Connections to the backend {} fail",
        why: "It refuses them, doesn't answer in connect_timeout, or has no room for more. Those fetches fail.",
        remedy: &["varnishadm backend.list", "varnishlog -g raw -q 'FetchError'"],
        evidence: "VBE.*.fail: 10 or more, and 1 % of VBE.*.req or more; or 1 or more, and no VBE.*.req",
        look: |facts| {
            let server = facts.server()?;
            let failing = server.all_grown("VBE", "fail").into_iter().filter_map(|(name, failed)| {
                let made = server.grown(&format!("VBE.{name}.req")).unwrap_or(0);
                let kinds = ["eacces", "eaddrnotavail", "econnrefused", "enetunreach", "etimedout", "other"];
                let kinds = kinds.map(|kind| (kind, server.grown(&format!("VBE.{name}.fail_{kind}")).unwrap_or(0)));
                let kinds: Vec<String> =
                    kinds.iter().filter(|(_, n)| *n > 0).map(|(kind, n)| format!("{kind} {}", count(*n))).collect();
                let about = server.told.iter().flat_map(|told| &told.backends).find(|backend| backend.name == name);
                let text = || {
                    let how_many = failed_of(failed, failed + made);
                    let from_here = about.and_then(|backend| backend.reached.as_ref());
                    let from_here =
                        from_here.map_or_else(String::new, |said| format!("; a connection from here to {said}"));
                    format!("{how_many} {}: {}{from_here}", server.since(), kinds.join(", "))
                };
                is_too_many(failed, failed + made).then(|| found_at(name.clone(), text()))
            });
            Ok(failing.collect())
        },
    },
    Rule {
        id: "backend-busy",
        area: Area::Server,
        severity: Severity::Warning,
        what: "The backend {} had as many connections as it may (max_connections)",
        why: "Fetches that would have needed one more failed at once.",
        remedy: &[
            "lacquer doctor --only slow-backend    # why does it need so many?",
            "(.max_connections of the backend in VCL)",
        ],
        evidence: "VBE.*.busy, 1 or more",
        look: |facts| {
            let server = facts.server()?;
            let busy = server.all_grown("VBE", "busy").into_iter().filter(|(_, n)| *n > 0);
            Ok(busy.map(|(name, n)| found_at(name, format!("{} times {}", count(n), server.since()))).collect())
        },
    },
    Rule {
        id: "fetch-failed",
        area: Area::Server,
        severity: Severity::Warning,
        what: "Fetches fail",
        why: "The backend broke off, sent nonsense, or was too slow for first_byte_timeout or between_bytes_timeout. Clients get 503, or half an answer.",
        remedy: &[
            "varnishlog -b -q FetchError",
            "varnishlog -b -q FetchError -i FetchError | sort | uniq -c | sort -n",
        ],
        evidence: "MAIN.fetch_failed: 10 or more, and 1 % of MAIN.s_fetch or more; or as many as MAIN.s_fetch",
        look: |facts| {
            let server = facts.server()?;
            let (failed, all) = (server.grown("MAIN.fetch_failed")?, server.grown("MAIN.s_fetch")?);
            let cause =
                |backend: &ListedBackend| Some(format!("; backend {}: {}", backend.name, backend.failure.as_ref()?));
            let causes: String = server.told.iter().flat_map(|told| &told.backends).filter_map(cause).collect();
            when(is_too_many(failed, all), || format!("{} {}{causes}", failed_of(failed, all), server.since()))
        },
    },
    Rule {
        id: "hit-rate",
        area: Area::Server,
        severity: Severity::Notice,
        what: "Fewer than half of the requests that are looked up are hits",
        why: "The cache does little for the backend. Other findings may say why: passes, short lives, variants, a full store.",
        remedy: &[
            "lacquer explain URL    # would this be a hit, and if not, why",
            "varnishtop --by url -q 'VCL_call eq MISS'",
            "lacquer simulate LOG",
        ],
        evidence: "MAIN.cache_hit less than MAIN.cache_miss, of 1,000 or more",
        look: |facts| {
            let server = facts.server()?;
            let (hits, misses) = (server.grown("MAIN.cache_hit")?, server.grown("MAIN.cache_miss")?);
            when(hits + misses >= 1000 && hits < misses, || {
                format!(
                    "{} hits, {} misses ({} hits) {}",
                    count(hits),
                    count(misses),
                    percent(hits, hits + misses),
                    server.since()
                )
            })
        },
    },
    Rule {
        id: "waiting",
        area: Area::Server,
        severity: Severity::Warning,
        what: "Requests wait for other requests' fetches",
        why: "Who asks for what is being fetched waits for that fetch. When what comes then can't be cached, one after the other has to fetch: \
              each waits for all before it.",
        remedy: &[
            "lacquer doctor --only waiting-url",
            "(set beresp.uncacheable with a ttl, hit-for-miss, for what can't be cached; grace for what can)",
        ],
        evidence: "MAIN.busy_sleep: 100 or more, and 5 % of MAIN.client_req or more; MAIN.busy_killed, 1 or more",
        look: |facts| {
            let server = facts.server()?;
            let (slept, killed) = (server.grown("MAIN.busy_sleep")?, server.grown("MAIN.busy_killed")?);
            let requests = server.grown("MAIN.client_req")?;
            when(killed > 0 || slept >= 100 && slept * 20 >= requests, || {
                format!(
                    "{} of {} requests waited, {} were given up {}",
                    count(slept),
                    count(requests),
                    count(killed),
                    server.since()
                )
            })
        },
    },
    Rule {
        id: "pipes",
        area: Area::Server,
        severity: Severity::Notice,
        what: "Connections are piped",
        why: "Nothing that goes through a pipe is cached, counted by request, or logged; each holds its connections as long as the client likes.",
        remedy: &[
            "varnishlog -q 'VCL_call eq PIPE'",
            "(return (pass) instead, but for protocols that aren't HTTP, as WebSockets)",
        ],
        evidence: "MAIN.s_pipe: 100 or more, and 1 % of MAIN.client_req or more",
        look: |facts| {
            let server = facts.server()?;
            let (piped, requests) = (server.grown("MAIN.s_pipe")?, server.grown("MAIN.client_req")?);
            when(piped >= 100 && piped * 100 >= requests, || {
                format!("{} of {} requests {}", count(piped), count(requests), server.since())
            })
        },
    },
    Rule {
        id: "ban-list",
        area: Area::Server,
        severity: Severity::Warning,
        what: "The list of bans is long",
        why: "A hit is tested against each ban that is younger than its object. A thousand bans are a thousand regexes.",
        remedy: &[
            "varnishadm ban.list | head",
            "(purge single URLs instead of banning them; varnishadm param.set ban_lurker_sleep 0.001)",
            "varnishadm param.set ban_cutoff 5000",
        ],
        evidence: "MAIN.bans less MAIN.bans_completed, 500 or more",
        look: |facts| {
            let server = facts.server()?;
            let active = server.counter("MAIN.bans")?.saturating_sub(server.counter("MAIN.bans_completed")?);
            when(active >= 500, || {
                let tests = server.grown("MAIN.bans_tests_tested").unwrap_or(0);
                format!("{} bans are active; {} tests were made {}", count(active), count(tests), server.since())
            })
        },
    },
    Rule {
        id: "ban-request",
        area: Area::Server,
        severity: Severity::Warning,
        what: "Bans look at requests (req.*), so that the lurker can't work them off",
        why: "The ban lurker knows objects only. Such a ban stays in the list until every older object is gone, and each hit pays for it.",
        remedy: &[
            "(in vcl_backend_response: set beresp.http.x-url = bereq.url; and ban obj.http.x-url ~ ... instead of req.url ~ ...)",
        ],
        evidence: "MAIN.bans_req, 20 or more; ban.list",
        look: |facts| {
            let server = facts.server()?;
            let bans = server.counter("MAIN.bans_req")?;
            if bans < 20 {
                return SOUND;
            }
            let finding = found(format!("{} of {} bans in the list", count(bans), count(server.counter("MAIN.bans")?)));
            let told = server.told.as_ref().ok();
            let example = told.and_then(|told| told.bans.iter().find(|ban| ban.contains("req.")));
            Ok(vec![match example {
                Some(ban) => finding.and(format!("one is: {}", ban.chars().take(100).collect::<String>())),
                None => finding,
            }])
        },
    },
    Rule {
        id: "old-vcls",
        area: Area::Server,
        severity: Severity::Notice,
        what: "Many VCLs are loaded",
        why: "Each keeps its backends, and while it is warm its probes ask them; a reload takes longer with each.",
        remedy: &["varnishadm vcl.list", "varnishadm vcl.discard NAME"],
        evidence: "MAIN.n_vcl, more than 10",
        look: |facts| {
            let vcls = facts.server()?.counter("MAIN.n_vcl")?;
            when(vcls > 10, || format!("{} VCLs", count(vcls)))
        },
    },
    Rule {
        id: "esi-errors",
        area: Area::Server,
        severity: Severity::Warning,
        what: "Pages with ESI have errors",
        why: "What can't be parsed is left out of the page, or sent as it is.",
        remedy: &["varnishlog -b -q ESI_xmlerror"],
        evidence: "MAIN.esi_errors, 1 or more",
        look: |facts| counted(facts.server()?, "MAIN.esi_errors", "errors", 1),
    },
    Rule {
        id: "journal-failed",
        area: Area::Server,
        severity: Severity::Fault,
        what: "Bans and purges couldn't be written down",
        why: "They hold, but what outlives the worker isn't served any more, as nobody would know what of it they hit.",
        remedy: &["df -h    # is the disk of the journal full?", "dmesg -T | tail"],
        evidence: "MAIN.journal_fail (ours), 1 or more",
        look: |facts| {
            let server = facts.server()?;
            // A genuine varnishd has no journal.
            if server.is_ours() { counted(server, "MAIN.journal_fail", "times", 1) } else { SOUND }
        },
    },
    Rule {
        id: "param-lru-interval",
        area: Area::Server,
        severity: Severity::Warning,
        what: "lru_interval is so long that the most popular objects may be thrown out",
        why: "An object's place in the list is mended once in that time only: with an hour, what has been asked for ever since stands beside \
              what nobody wants.",
        remedy: &["varnishadm param.set lru_interval 2"],
        evidence: "parameter lru_interval, above 60 seconds",
        look: |facts| above(facts.server()?, "lru_interval", 60.0),
    },
    Rule {
        id: "param-timeout-idle",
        area: Area::Server,
        severity: Severity::Notice,
        what: "Idle connections are kept for minutes (timeout_idle)",
        why: "Each takes a descriptor, and clients rarely come back on one after some seconds.",
        remedy: &["varnishadm param.set timeout_idle 5"],
        evidence: "parameter timeout_idle, above 620 seconds",
        look: |facts| above(facts.server()?, "timeout_idle", 620.0),
    },
    Rule {
        id: "param-threads",
        area: Area::Server,
        severity: Severity::Notice,
        what: "thread_pool_max allows far more threads than a machine can use",
        why: "It is for each of thread_pools. Beyond 5,000 in a pool more threads only hide what holds requests, until memory is used up.",
        remedy: &["varnishadm param.set thread_pool_max 5000"],
        evidence: "parameter thread_pool_max, above 6,000",
        look: |facts| above(facts.server()?, "thread_pool_max", 6000.0),
    },
];

/// A finding when a counter has grown by so much.
pub(super) fn counted(server: &DoctorServer, name: &str, what: &str, least: u64) -> crate::rule::RuleResult {
    let n = server.grown(name)?;
    when(n >= least, || format!("{} {what} {}", count(n), server.since()))
}

/// Failures that are worth a finding: all, or 10 and at least 1 %.
fn is_too_many(failed: u64, all: u64) -> bool {
    failed > 0 && (failed >= all || (failed >= 10 && failed * 100 >= all))
}

/// `20 failed of 400`.
fn failed_of(failed: u64, all: u64) -> String {
    format!("{} failed of {}", count(failed), count(all.max(failed)))
}

fn above(server: &DoctorServer, name: &str, most: f64) -> crate::rule::RuleResult {
    let value = server.number(name)?;
    when(value > most, || format!("{name} is {value}"))
}

/// Gauges of that name of all stores of memory and files.
fn all<'a>(server: &'a DoctorServer, name: &'a str) -> impl Iterator<Item = (&'a str, u64)> {
    server.counters.iter().filter_map(move |(full, value)| {
        let (set, last) = full.rsplit_once('.')?;
        let store = ["SMA.", "SMF.", "SMU."].iter().find_map(|kind| set.strip_prefix(kind))?;
        (last == name).then_some((store, *value))
    })
}

fn stores(server: &DoctorServer) -> Vec<String> {
    let free = |store: &str| all(server, "g_space").find(|(name, _)| *name == store).map_or(0, |(_, n)| n);
    let bounded =
        all(server, "g_bytes").map(|(name, used)| (name, used, free(name))).filter(|(name, ..)| *name != "Transient");
    bounded
        .map(|(name, used, free)| format!("store {name}: {} used, {} free", binary_bytes(used), binary_bytes(free)))
        .collect()
}
