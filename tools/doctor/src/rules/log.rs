// SPDX-License-Identifier: BSD-2-Clause
//! Rules about requests and fetches, by the log.

use crate::rule::{Area, Finding, Rule, RuleResult, SOUND, Severity, count, found, found_at, percent, time, when};
use crate::traffic::{BackendLatency, LogTraffic, MOST_VARIANTS, SHORT_TTL, SKEW, Url, is_static};

const EXAMPLES: usize = 5;
/// Fewer requests or fetches say nothing.
const FEW: u64 = 20;
/// Variants of one URL that are too many: four kinds of device and five languages are twenty.
const MANY_VARIANTS: usize = 20;
/// Seconds until the first byte that are slow.
const SLOW: f64 = 1.0;

pub const RULES: &[Rule] = &[
    Rule {
        id: "passes",
        area: Area::Log,
        severity: Severity::Warning,
        what: "Many requests go past the cache",
        why: "A passed request costs the backend what it would cost without a cache. Cookies that only a script in the browser reads are the \
              commonest reason.",
        remedy: &[
            "lacquer explain URL    # which line passes it",
            "(cookies that no page depends on: varnishadm param.set cookie_drop 'NAME NAME_*')",
            "varnishlog -q 'VCL_call eq PASS'",
        ],
        evidence: "VCL_return pass, HitPass: 20 % of the requests or more, of 20 at least; by reason",
        look: |facts| {
            let traffic = facts.traffic()?;
            let all: u64 = traffic.passes.values().map(|(n, _)| n).sum();
            if traffic.requests < FEW || all * 5 < traffic.requests {
                return SOUND;
            }
            let mut reasons: Vec<_> = traffic.passes.iter().collect();
            reasons.sort_by_key(|(_, (n, _))| std::cmp::Reverse(*n));
            let first = found(format!(
                "{} of {} requests ({})",
                count(all),
                count(traffic.requests),
                percent(all, traffic.requests)
            ));
            Ok(vec![reasons.into_iter().fold(first, |finding, (reason, (n, example))| {
                finding.and(format!("{} because {reason}, as {example}", count(*n)))
            })])
        },
    },
    Rule {
        id: "cookie-static",
        area: Area::Log,
        severity: Severity::Warning,
        what: "Pictures, styles and scripts are passed because their requests have a Cookie",
        why: "Browsers send a site's cookies with everything. Files of that kind are the same for all.",
        remedy: &[
            "if (req.url ~ \"\\.(css|gif|ico|jpe?g|js|png|svg|webp|woff2?)(\\?|$)\") { unset req.http.Cookie; }    # in vcl_recv",
        ],
        evidence: "requests of files by their ending that VCL passes while they have a Cookie: 5 or more",
        look: |facts| {
            urls(facts.traffic()?, "requests", |name, url| if is_static(name) { url.cookie_passes } else { 0 }, 5)
        },
    },
    Rule {
        id: "tracking-cookies",
        area: Area::Log,
        severity: Severity::Warning,
        what: "Requests are passed because of cookies that only count visitors",
        why: "The built-in VCL passes a request with a Cookie. Those of analytics programs are for scripts in the browser: the pages don't \
              depend on them.",
        remedy: &[
            "varnishadm param.set cookie_drop '_ga* _gid _fbp _gcl_* __utm* _pk_* _hj* __hs*'",
            "(with what `varnishadm param.show cookie_drop` has now; -p at the next start)",
        ],
        evidence: "requests that are passed for a Cookie of _ga*, _gid, _fbp, _gcl_*, __utm*, _pk_*, _hj*, __hs* alone: 5 or more, and 1 % of the requests or more",
        look: |facts| {
            let traffic = facts.traffic()?;
            let (n, example) = &traffic.harmless;
            when(*n >= 5 && n * 100 >= traffic.requests, || {
                format!("{} of {} requests, as with the cookies {example}", count(*n), count(traffic.requests))
            })
        },
    },
    Rule {
        id: "set-cookie-static",
        area: Area::Log,
        severity: Severity::Warning,
        what: "Pictures, styles and scripts come with a Set-Cookie, and so aren't cached",
        why: "An answer with Set-Cookie is for one client alone: the built-in VCL doesn't cache it. On files it comes from a framework that \
              begins a session for each request.",
        remedy: &[
            "if (bereq.url ~ \"\\.(css|gif|ico|jpe?g|js|png|svg|webp|woff2?)(\\?|$)\") { unset beresp.http.Set-Cookie; }    # in vcl_backend_response",
        ],
        evidence: "BerespHeader Set-Cookie that VCL doesn't take away, of files by their ending, not passed: 3 fetches or more",
        look: |facts| {
            urls(facts.traffic()?, "fetches", |name, url| if is_static(name) { url.set_cookie } else { 0 }, 3)
        },
    },
    Rule {
        id: "static-forbidden",
        area: Area::Log,
        severity: Severity::Notice,
        what: "The origin forbids to keep pictures, styles and scripts",
        why: "With Cache-Control no-cache, private, no-store or max-age=0 a file is fetched, and asked for by browsers, again and again.",
        remedy: &["(a max-age for such files in the origin's configuration; or beresp.ttl in vcl_backend_response)"],
        evidence: "BerespHeader Cache-Control of files by their ending, not passed: 3 fetches or more",
        look: |facts| urls(facts.traffic()?, "fetches", |name, url| if is_static(name) { url.forbidden } else { 0 }, 3),
    },
    Rule {
        id: "short-ttl",
        area: Area::Log,
        severity: Severity::Warning,
        what: "Objects live for seconds only and are fetched again and again",
        why: "A page that may be some minutes old costs the backend one fetch in that time instead of one in some seconds.",
        remedy: &[
            "if (beresp.ttl > 0s && beresp.ttl < 120s) { set beresp.ttl = 120s; }    # in vcl_backend_response",
            "(and beresp.grace, so that nobody waits for the fetch)",
        ],
        evidence: "TTL above 0 and below 10 seconds: 5 fetches of one URL or more, a tenth of all fetches in all or more",
        look: |facts| {
            let traffic = facts.traffic()?;
            let short: u64 = traffic.urls.values().map(|url| url.short).sum();
            if short * 10 < traffic.fetches {
                return SOUND;
            }
            let found = urls(traffic, "fetches", |_, url| url.short, 5)?;
            let least = traffic.urls.values().filter_map(|url| url.shortest).fold(SHORT_TTL, f64::min);
            Ok(found.into_iter().map(|finding| finding.and(format!("the shortest lived for {least} s"))).collect())
        },
    },
    Rule {
        id: "vary-many",
        area: Area::Log,
        severity: Severity::Warning,
        what: "There are many variants of one URL",
        why: "Each value of the fields that an answer varies on is an object of its own: of User-Agent or Cookie nearly each client has one \
              of its own, of Accept-Language there are hundreds. Nothing is a hit any more, and the store fills up.",
        remedy: &[
            "include \"accept-language.vcl\"; include \"devicedetect.vcl\";    # ours: one of a few values",
            "(set the field to one of a few values in vcl_recv; or unset beresp.http.Vary where the answer is the same)",
        ],
        evidence: "BerespHeader Vary and the request's fields: 20 different ones of one URL or more",
        look: |facts| {
            let all = &facts.traffic()?.urls;
            let mut many: Vec<_> = all.iter().filter(|(_, url)| url.variants.len() >= MANY_VARIANTS).collect();
            many.sort_by_key(|(name, url)| (std::cmp::Reverse(url.variants.len()), *name));
            let lines = many
                .into_iter()
                .map(|(name, url)| format!("{} variants of {name} by {}", variants(url.variants.len()), url.vary));
            listed(lines.collect())
        },
    },
    Rule {
        id: "tracking-parameters",
        area: Area::Log,
        severity: Severity::Notice,
        what: "Pages are fetched once for each value of a parameter that only counts visitors",
        why: "utm_source, gclid, fbclid or `_=` with a time change nothing of the page, but make another URL of it.",
        remedy: &[
            "varnishadm param.set query_drop 'utm_* gclid fbclid msclkid mc_cid _'",
            "(with what `varnishadm param.show query_drop` has now; -p at the next start)",
        ],
        evidence: "BereqURL with utm_*, gclid, fbclid, msclkid, mc_cid or _=TIME, not passed: 5 or more, and 1 % of the fetches or more",
        look: |facts| {
            let traffic = facts.traffic()?;
            let (n, example) = &traffic.tracked;
            when(*n >= 5 && n * 100 >= traffic.fetches, || {
                format!("{} of {} fetches, as {example}", count(*n), count(traffic.fetches))
            })
        },
    },
    Rule {
        id: "slow-backend",
        area: Area::Log,
        severity: Severity::Warning,
        what: "The backend {} is slow",
        why: "Each fetch holds a request, and what the server has for it, until the answer comes. A few slow URLs can hold everything.",
        remedy: &[
            "varnishhist -P Beresptime",
            "varnishlog -b -q 'Timestamp:Beresp[3] > 1.0'",
            "(grace, so that no reader waits for a fetch; max_connections, so that the slow one leaves room for others)",
        ],
        evidence: "Timestamp Beresp: one in twenty of at least 20 fetches waits a second or more for the first byte",
        look: |facts| {
            let traffic = facts.traffic()?;
            let mut slow: Vec<(&String, &BackendLatency)> = traffic
                .backends
                .iter()
                .filter(|(_, b)| b.first_byte.len() >= FEW && b.first_byte.quantile(0.95) >= SLOW)
                .collect();
            slow.sort_by_key(|(name, _)| *name);
            Ok(slow
                .into_iter()
                .map(|(name, b)| {
                    let (half, most) = (b.first_byte.quantile(0.5), b.first_byte.quantile(0.95));
                    let finding = found_at(
                        name,
                        format!(
                            "of {} fetches half wait {} or more, one in twenty {} or more",
                            count(b.first_byte.len()),
                            time(half),
                            time(most)
                        ),
                    );
                    holders(traffic, name).into_iter().fold(finding, Finding::and)
                })
                .collect())
        },
    },
    Rule {
        id: "held-requests",
        area: Area::Log,
        severity: Severity::Warning,
        what: "Most requests in progress are held by {}",
        why: "So many fetches of it are in progress at any time. With four or five thousand threads taken, this is where they are.",
        remedy: &[
            "varnishlog -b -q 'Timestamp:BerespBody[2] > 1.0'",
            "(mend it at the origin, cache it, or give it a backend of its own with few max_connections)",
        ],
        evidence: "seconds of all fetches by the seconds of the log: 5 in progress or more, half of them of one backend and URL",
        look: |facts| {
            let traffic = facts.traffic()?;
            let window = traffic.seconds().max(1.0);
            let all: f64 = traffic.urls.values().map(|url| url.fetch_seconds).sum();
            let first = traffic.urls.iter().max_by(|a, b| a.1.fetch_seconds.total_cmp(&b.1.fetch_seconds));
            let Some((name, url)) = first.filter(|(_, url)| url.fetch_seconds * 2.0 >= all && all / window >= 5.0)
            else {
                return SOUND;
            };
            let backend = traffic.backends.get_key_value(&url.backend);
            let mean = url.fetch_seconds / url.fetches.max(1) as f64;
            let text = format!(
                "{:.1} of {:.1} fetches in progress; {} fetches, {} each",
                url.fetch_seconds / window,
                all / window,
                count(url.fetches),
                time(mean)
            );
            let finding = found_at(name, text);
            Ok(vec![match backend {
                Some((backend, b)) => finding.and(format!("backend {backend}: {:.1} in progress", b.seconds / window)),
                None => finding,
            }])
        },
    },
    Rule {
        id: "waiting-url",
        area: Area::Log,
        severity: Severity::Warning,
        what: "Requests wait for others' fetches of the same URL",
        why: "They are answered one after the other when the answer can't be cached, and all at the end of the fetch when it can.",
        remedy: &[
            "lacquer explain URL",
            "(hit-for-miss for what can't be cached: set beresp.uncacheable = true; set beresp.ttl = 120s;)",
        ],
        evidence: "Timestamp Waitinglist: 5 requests of one URL or more that wait a second in the mean or more",
        look: |facts| {
            let all = &facts.traffic()?.urls;
            let mut waits: Vec<_> =
                all.iter().filter(|(_, url)| url.waits >= 5 && url.wait_seconds >= url.waits as f64).collect();
            waits.sort_by(|a, b| b.1.wait_seconds.total_cmp(&a.1.wait_seconds).then(a.0.cmp(b.0)));
            let line = |(name, url): (&String, &Url)| {
                format!(
                    "{} requests of {name} waited {} each",
                    count(url.waits),
                    time(url.wait_seconds / url.waits as f64)
                )
            };
            listed(waits.into_iter().map(line).collect())
        },
    },
    Rule {
        id: "errors",
        area: Area::Log,
        severity: Severity::Warning,
        what: "Many answers are errors of 500 and above",
        why: "Readers see them; and they cost a fetch each, as they aren't cached.",
        remedy: &[
            "varnishlog -q VCL_Error    # VCL that fails answers 503, also where a header is too large",
            "varnishlog -b -q FetchError",
            "varnishlog -q 'RespStatus >= 500'",
        ],
        evidence: "RespStatus of 500 or more: 2 % of the requests or more, 5 at least; VCL_Error",
        look: |facts| {
            let traffic = facts.traffic()?;
            if traffic.errors < 5 || traffic.errors * 50 < traffic.requests {
                return SOUND;
            }
            let mut first = vec![format!("{} of {} answers", count(traffic.errors), count(traffic.requests))];
            let (failed, text) = &traffic.vcl_errors;
            if *failed > 0 {
                first.push(format!("VCL failed {} times, as by: {text}", count(*failed)));
            }
            let found = urls(traffic, "answers", |_, url| url.errors, 1)?;
            Ok(found
                .into_iter()
                .map(|mut finding| {
                    finding.evidence.splice(0..0, first.clone());
                    finding
                })
                .collect())
        },
    },
    Rule {
        id: "backend-clock",
        area: Area::Log,
        severity: Severity::Warning,
        what: "The clock of the backend {} and ours differ",
        why: "Age and Expires are reckoned from the Date of an answer: one from the past is born old, or stale.",
        remedy: &["date -u; curl -sI http://BACKEND/ | grep -i ^date", "timedatectl    # on both"],
        evidence: "BerespHeader Date beside the Timestamp of the answer: more than 5 seconds in most of at least 5 answers without Age",
        look: |facts| {
            let all = facts.traffic()?.backends.iter();
            let mut wrong: Vec<_> = all.filter(|(_, b)| b.dated >= 5 && b.skewed * 2 > b.dated).collect();
            wrong.sort_by_key(|(name, _)| *name);
            Ok(wrong
                .into_iter()
                .map(|(name, b)| {
                    let side = if b.skew > 0.0 { "before" } else { "behind" };
                    let text = format!(
                        "{} of {} dates are more than {SKEW} s off, the last {} {side} ours",
                        count(b.skewed),
                        count(b.dated),
                        time(b.skew.abs())
                    );
                    found_at(name, text)
                })
                .collect())
        },
    },
];

/// A finding with the URLs of which there is most of something, if there is so much of it in all.
fn urls(traffic: &LogTraffic, what: &str, n: impl Fn(&str, &Url) -> u64, least: u64) -> RuleResult {
    let mut all: Vec<(u64, &String)> =
        traffic.urls.iter().map(|(name, url)| (n(name, url), name)).filter(|(n, _)| *n > 0).collect();
    all.sort_by_key(|(n, name)| (std::cmp::Reverse(*n), *name));
    if all.iter().map(|(n, _)| n).sum::<u64>() < least {
        return SOUND;
    }
    listed(all.into_iter().map(|(n, name)| format!("{} {what} of {name}", count(n))).collect())
}

/// Number of variants as text, with "or more" where counting stopped.
fn variants(n: usize) -> String {
    let more = if n >= MOST_VARIANTS { " or more" } else { "" };
    format!("{}{more}", count(n as u64))
}

/// A finding with the first of these lines; none without any.
fn listed(lines: Vec<String>) -> RuleResult {
    let more = lines.len().saturating_sub(EXAMPLES);
    let mut evidence: Vec<String> = lines.into_iter().take(EXAMPLES).collect();
    if more > 0 {
        evidence.push(format!("and {} more", count(more as u64)));
    }
    Ok(if evidence.is_empty() { Vec::new() } else { vec![Finding { subject: String::new(), evidence }] })
}

/// The URLs that hold most of a backend's time, a line each.
fn holders(traffic: &LogTraffic, backend: &str) -> Vec<String> {
    let of_backend = traffic.urls.iter().filter(|(_, url)| url.backend == backend && url.fetch_seconds > 0.0);
    let mut urls: Vec<(&String, &Url)> = of_backend.collect();
    let all: f64 = urls.iter().map(|(_, url)| url.fetch_seconds).sum();
    urls.sort_by(|a, b| b.1.fetch_seconds.total_cmp(&a.1.fetch_seconds).then(a.0.cmp(b.0)));
    let line = |(name, url): (&String, &Url)| {
        let mean = url.fetch_seconds / url.fetches.max(1) as f64;
        format!(
            "{:.0} % of the time: {name}, {} fetches of {}",
            100.0 * url.fetch_seconds / all,
            count(url.fetches),
            time(mean)
        )
    };
    urls.into_iter().take(EXAMPLES).map(line).collect()
}
