// SPDX-License-Identifier: BSD-2-Clause
//! The responses of an origin that squid keeps, how long, and how old it may get while the origin fails.

use super::Squid;
use super::refresh::RefreshRule;
use crate::vcl;

/// Seconds for which squid serves an old response while the origin fails, unless `max_stale` says otherwise.
const MOST_STALE: u64 = 604_800;

impl Squid {
    /// The subroutines: the lifetime that a response has itself, else the first refresh_pattern that fits.
    pub(super) fn response(&self) -> String {
        let rules = self.refresh_rules();
        let branches = rules.iter().map(|rule| (rule.condition.clone(), self.lifetime(rule))).collect();
        let mut lines: Vec<String> = HEAD.lines().map(str::to_owned).collect();
        lines.extend(self.never(&rules));
        lines.push("\tset beresp.ttl = 0s;".to_owned());
        lines.push(format!("}} else if ({}) {{", any_status(&[200, 203, 300, 301, 308, 410])));
        lines.extend(vcl::chain(branches).into_iter().map(|line| format!("\t{line}")));
        lines.push(format!("}} else if ({} && ({EXPLICIT})) {{", any_status(&[302, 307])));
        lines.push("\tcall squid_own_lifetime;".to_owned());
        if self.negative > 0 {
            lines.push(format!("}} else if ({}) {{", any_status(&NEGATIVE)));
            lines.push(format!("\tset beresp.ttl = {}s;", self.negative));
            lines.push(format!("\tif ({EXPLICIT}) {{ call squid_own_lifetime; }}"));
        }
        lines.extend(["} else {", "\tset beresp.ttl = 0s;", "}"].map(str::to_owned));
        lines.extend(self.not_from());
        let bytes = self.most_bytes.map(|most| format!(" || std.integer(beresp.http.Content-Length, 0) > {most}"));
        lines.push(format!("if (beresp.ttl <= 0s{}) {{", bytes.unwrap_or_default()));
        lines.extend(LAST.lines().map(str::to_owned));
        let own: Vec<String> = OWN.lines().map(str::to_owned).collect();
        format!("{}{}", vcl::sub("squid_own_lifetime", &own), vcl::sub("vcl_backend_response", &lines))
    }

    fn never(&self, rules: &[RefreshRule]) -> Vec<String> {
        let mut lines = Vec::new();
        let mut head = format!("if (beresp.http.Cache-Control ~ \"(?i)private|no-cache\" || {NEVER}");
        if rules.iter().any(|rule| rule.has("ignore-no-store")) {
            // The first rule that fits decides, so that one behind another isn't asked.
            let decide = |rule: &RefreshRule| {
                let lines = vec![format!("set bereq.http.Squid-No-Store = \"{}\";", !rule.has("ignore-no-store"))];
                (rule.condition.clone(), lines)
            };
            lines.extend(vcl::chain(rules.iter().map(decide).collect()));
            head.push_str(
                " ||\n\t    beresp.http.Cache-Control ~ \"(?i)no-store\" && bereq.http.Squid-No-Store == \"true\"",
            );
        } else {
            head.push_str(" ||\n\t    beresp.http.Cache-Control ~ \"(?i)no-store\"");
        }
        lines.push(format!("{head}) {{"));
        lines
    }

    fn lifetime(&self, rule: &RefreshRule) -> Vec<String> {
        let RefreshRule { least, share, most, .. } = rule;
        let most_stale = rule.most_stale.unwrap_or(self.most_stale.unwrap_or(MOST_STALE));
        // A response that must be validated once it is old isn't kept for longer than it says.
        let longer = |option: &str, least: f64| match rule.has(option) && most_stale > 0 {
            true => vec![format!(
                "\tif (beresp.ttl < {least}s && beresp.http.Cache-Control !~ \"{STRICT}\") {{ set beresp.ttl = {least}s - beresp.age; }}"
            )],
            false => Vec::new(),
        };
        let mut lines = vec![format!("if ({EXPLICIT}) {{"), "\tcall squid_own_lifetime;".to_owned()];
        lines.extend(longer("override-expire", *least));
        lines.push(format!(
            "}} else if (beresp.http.Last-Modified && std.time(beresp.http.Last-Modified, now) < {DATE}) {{"
        ));
        lines.push(format!("\tset beresp.ttl = ({DATE} - std.time(beresp.http.Last-Modified, now)) * {share:?};"));
        lines.push(format!("\tif (beresp.ttl > {most}s) {{ set beresp.ttl = {most}s; }}"));
        lines.push("\tset beresp.ttl = beresp.ttl - beresp.age;".to_owned());
        lines.extend(longer("override-lastmod", least.min(*most)));
        lines.push("} else {".to_owned());
        lines.push(format!("\tset beresp.ttl = {}s - beresp.age;", least.min(*most)));
        lines.push("}".to_owned());
        if most_stale > 0 {
            lines.push(format!("if (beresp.ttl > 0s && beresp.http.Cache-Control !~ \"{STRICT}|stale-if-error\") {{"));
            lines.push(format!("\tset beresp.keep = {most_stale}s;"));
            lines.push(format!("\tset beresp.http.Cache-Control = regsub(beresp.http.Cache-Control, \"(.)$\", \"\\1, \") + \"stale-if-error={most_stale}\";"));
            lines.push("} else if (beresp.http.Cache-Control ~ \"stale-if-error\") {".to_owned());
            lines.push(format!("\tset beresp.keep = {most_stale}s;"));
            lines.push("}".to_owned());
        }
        lines
    }

    fn not_from(&self) -> Vec<String> {
        let passed = self.peers.iter().filter(|peer| peer.is_passed);
        passed.map(|peer| format!("if (beresp.backend == {}) {{ set beresp.ttl = 0s; }}", peer.name)).collect()
    }

    /// The lines of vcl_deliver: what is in the cache alone isn't sent.
    pub(super) fn deliver(&self) -> Vec<String> {
        let rules = self.refresh_rules();
        let mut all: Vec<u64> =
            rules.iter().map(|rule| rule.most_stale.unwrap_or(self.most_stale.unwrap_or(MOST_STALE))).collect();
        all.retain(|seconds| *seconds > 0);
        all.sort_unstable();
        all.dedup();
        let mut lines = Vec::new();
        if !all.is_empty() {
            let all: Vec<String> = all.iter().map(u64::to_string).collect();
            lines.push(format!(
                "set resp.http.Cache-Control = regsub(resp.http.Cache-Control, \"(, )?stale-if-error=({})$\", \"\");",
                all.join("|")
            ));
            lines.push("if (resp.http.Cache-Control == \"\") { unset resp.http.Cache-Control; }".to_owned());
        }
        lines.push(
            "# squid keeps responses with Set-Cookie, and sends the cookie to the first client alone.".to_owned(),
        );
        lines.push("if (obj.hits > 0) { unset resp.http.Set-Cookie; }".to_owned());
        lines
    }
}

const NEGATIVE: [u16; 13] = [204, 305, 400, 403, 404, 405, 414, 421, 500, 501, 502, 503, 504];

const HEAD: &str = "set beresp.grace = 0s;
set beresp.keep = 0s;
if (beresp.http.Cache-Control) { std.collect(beresp.http.Cache-Control); }";

const DATE: &str = "std.time(beresp.http.Date, now)";

const EXPLICIT: &str = "beresp.http.Cache-Control ~ \"(?i)(max-age|s-maxage)=\\d\" || beresp.http.Expires";

/// Directives by which a response must be validated once it is old.
const STRICT: &str = "(?i)(must|proxy)-revalidate|s-maxage";

const NEVER: &str = r#"beresp.http.Vary ~ "\*" || beresp.http.Content-Type ~ "(?i)^multipart/x-mixed-replace" ||
	    !beresp.http.Cache-Control && beresp.http.Pragma ~ "(?i)no-cache" ||
	    bereq.http.Authorization && beresp.http.Cache-Control !~ "(?i)public|must-revalidate|s-maxage""#;

const OWN: &str = r#"if (beresp.http.Cache-Control ~ "(?i)s-maxage=\d") {
	set beresp.ttl = std.duration(regsub(beresp.http.Cache-Control, "(?i)^.*s-maxage=(\d+).*$", "\1") + "s", 0s) - beresp.age;
} else if (beresp.http.Cache-Control ~ "(?i)max-age=\d") {
	set beresp.ttl = std.duration(regsub(beresp.http.Cache-Control, "(?i)^.*max-age=(\d+).*$", "\1") + "s", 0s) - beresp.age;
} else {
	set beresp.ttl = std.time(beresp.http.Expires, std.real2time(0.0, now)) - std.time(beresp.http.Date, now) - beresp.age;
}"#;

const LAST: &str = "\tset beresp.ttl = 0s;
\t# An old copy may serve in the place of an error.
\tif (beresp.status < 500) {
\t\tset beresp.ttl = 120s;
\t\tset beresp.uncacheable = true;
\t}
}
return (deliver);";

fn any_status(all: &[u16]) -> String {
    let any: Vec<String> = all.iter().map(|status| format!("beresp.status == {status}")).collect();
    format!("({})", any.join(" || "))
}
