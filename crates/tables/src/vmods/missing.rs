// SPDX-License-Identifier: BSD-2-Clause
//! Modules that people import and that aren't built: what they are, and what does their work here. `import` says so.

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Missing {
    pub name: &'static str,
    pub what: &'static str,
    pub instead: &'static str,
}

/// A function or method of a module that is built, by its whole name, and what does its work here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LeftOut(pub &'static str, pub &'static str);

impl Missing {
    pub fn find(name: &str) -> Option<&'static Missing> {
        MISSING.iter().find(|module| module.name == name)
    }
}

const fn known(name: &'static str, what: &'static str, instead: &'static str) -> Missing {
    Missing { name, what, instead }
}

pub const MISSING: &[Missing] = &[
    known("boltsort", "sorts query parameters", "std.querysort or querystring.sort"),
    known("curl", "requests out of VCL", "http"),
    known("dclass", "device classes by OpenDDR", "regular expressions on req.http.User-Agent"),
    known("dns", "looks up names", "std.ip"),
    known("ghost", "routes of the Varnish gateway", "directors"),
    known("image", "changes images (Varnish Enterprise)", "a backend that does"),
    known("ipcast", "texts as addresses", "std.ip"),
    known("jq", "queries on JSON", "json: json.parse, and json.get with a path such as a.b[2]"),
    known(
        "k8s_endpoint",
        "the pods of a Kubernetes service",
        "dynamic with the name of a headless service: all its addresses are used, and looked up again",
    ),
    known("kv", "a table of texts", "kvstore"),
    known("lua", "programs in Lua", "VCL"),
    known("memcached", "asks memcached", "redis, or kvstore for tables in memory"),
    known("named", "backends by DNS", "dynamic, or `backend` with the host name: it is looked up again at run time"),
    known(
        "nodes",
        "backends by a file (Varnish Enterprise)",
        "`backend` and udo's add_backend, or activedns for names",
    ),
    known("parsereq", "fields of posted forms", "bodyaccess.rematch_req_body"),
    known("rewrite", "rules in a file (Varnish Enterprise)", "regsub, or re2.set"),
    known("rtstatus", "a page of counters", "varnishstat -j"),
    known("shield", "closes connections", "`return (synth(403))` with Connection: close"),
    known("softpurge", "soft purges", "purge.soft"),
    known("tbf", "token buckets", "vsthrottle"),
    known("threescale", "3scale's API keys", "a backend that checks them"),
    known("throttle", "limits of requests", "vsthrottle"),
    known("timers", "times with more digits", "varnishlog's Timestamp records"),
    known("tinykvm", "programs in virtual machines", "a backend"),
    known("types", "types of variables", "var"),
    known("urlcode", "URL encoding", "blob.transcode with URL"),
    known("vha", "copies between caches (Varnish Enterprise)", "one tier of caches behind another"),
    known("vsf", "the Varnish security firewall", "its rules as VCL"),
    known("vslp", "a consistent hash", "directors.shard"),
    known("xcounter", "counters of one's own", "statsd"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_order_and_each_with_what_does_its_work() {
        assert!(MISSING.windows(2).all(|pair| pair[0].name < pair[1].name));
        assert!(MISSING.iter().all(|module| !module.instead.is_empty()));
    }
}
