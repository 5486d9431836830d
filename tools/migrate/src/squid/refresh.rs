// SPDX-License-Identifier: BSD-2-Clause
//! How long squid keeps a response: what it says itself, else the first refresh_pattern that fits.

use super::line::Line;
use super::{Squid, claim};
use crate::migrated::Migrated;
use crate::vcl;

impl Squid {
    /// `refresh_pattern [-i] REGEX MIN PERCENT MAX`: a share of the age, where the origin says nothing. Minutes.
    pub(super) fn refresh(&mut self, line: &Line, migrated: &mut Migrated) {
        let is_ignoring_case = line.has("-i");
        let words: Vec<&str> = line.rest(1).iter().map(String::as_str).filter(|w| *w != "-i").collect();
        let [regex, least, percent, most, options @ ..] = &words[..] else {
            return migrated.refuse(&line.place, "refresh_pattern", "REGEX MIN PERCENT MAX are wanted");
        };
        let numbers = (least.parse::<f64>(), percent.trim_end_matches('%').parse::<f64>(), most.parse::<f64>());
        let (Ok(least), Ok(percent), Ok(most)) = numbers else {
            return migrated.refuse(&line.place, "refresh_pattern", "MIN, PERCENT and MAX are numbers");
        };
        for option in options {
            migrated.refuse(
                &line.place,
                "refresh_pattern",
                format!("{option}: VCL can say so: set beresp.ttl in vcl_backend_response"),
            );
        }
        if regex.contains("^ftp:") || regex.contains("^gopher:") {
            return migrated.without_meaning(&line.place, "refresh_pattern", "only HTTP is served");
        }
        let flag = if is_ignoring_case { "(?i)" } else { "" };
        let Some(regex) = vcl::string(&format!("{flag}{regex}")) else {
            return migrated.refuse(&line.place, "refresh_pattern", "the regex can't be written in VCL");
        };
        let condition = match regex.as_str() {
            "\".\"" | "\"(?i).\"" => String::new(),
            regex => format!("{} ~ {regex}", URL.replace("req.", "bereq.")),
        };
        self.refresh.push((condition, lifetime(least * 60.0, percent / 100.0, most * 60.0)));
        claim(line, migrated);
    }

    /// The lifetime of a response: what it says itself, else the first refresh_pattern that fits, else squid's own.
    pub(super) fn response(&self) -> Vec<String> {
        let mut refresh = self.refresh.clone();
        if refresh.iter().all(|(condition, _)| !condition.is_empty()) {
            refresh.push((String::new(), lifetime(0.0, 0.2, 259_200.0)));
        }
        let end = refresh.iter().position(|(condition, _)| condition.is_empty()).unwrap_or_default();
        refresh.truncate(end + 1);
        let good = any_status(&[200, 203, 300, 301, 308, 410]);
        let explicit = "beresp.http.Cache-Control ~ \"(?i)(max-age|s-maxage)=\" || beresp.http.Expires";
        let mut lines = vec![
            "set beresp.grace = 0s;".to_owned(),
            "if (beresp.http.Cache-Control) { std.collect(beresp.http.Cache-Control); }".to_owned(),
            "if (beresp.http.Cache-Control ~ \"(?i)no-store|private|no-cache\" || beresp.http.Vary ~ \"\\*\") {"
                .to_owned(),
            "\tset beresp.ttl = 0s;".to_owned(),
            format!("}} else if ({good}) {{"),
            format!("\tif (!({explicit})) {{"),
        ];
        lines.extend(vcl::chain(refresh).into_iter().map(|line| format!("\t\t{line}")));
        lines.push("\t}".to_owned());
        lines.push(format!("}} else if ({} && ({explicit})) {{", any_status(&[302, 303, 307])));
        lines.push("\t# As long as it says itself.".to_owned());
        lines.push("} else {".to_owned());
        lines.push(format!("\tset beresp.ttl = {}s;", self.negative));
        lines.push("}".to_owned());
        let bytes = self.most_bytes.map(|most| format!(" || std.integer(beresp.http.Content-Length, 0) > {most}"));
        lines.push(format!("if (beresp.ttl <= 0s{}) {{", bytes.unwrap_or_default()));
        lines.extend(
            ["\tset beresp.ttl = 120s;", "\tset beresp.uncacheable = true;", "}", "return (deliver);"]
                .map(str::to_owned),
        );
        lines
    }
}

/// The URL as the regexes of refresh_pattern see it.
pub(super) const URL: &str = "\"http://\" + req.http.Host + req.url";

/// Minimum, share of the age, maximum: the share where the response says when it was changed, else the minimum. Seconds.
pub(super) fn lifetime(least: f64, share: f64, most: f64) -> Vec<String> {
    vec![
        format!("set beresp.ttl = {least}s;"),
        "if (beresp.http.Last-Modified) {".to_owned(),
        format!("\tset beresp.ttl = (now - std.time(beresp.http.Last-Modified, now)) * {share:?};"),
        "}".to_owned(),
        format!("if (beresp.ttl > {most}s) {{ set beresp.ttl = {most}s; }}"),
    ]
}

pub(super) fn any_status(all: &[u16]) -> String {
    let any: Vec<String> = all.iter().map(|status| format!("beresp.status == {status}")).collect();
    format!("({})", any.join(" || "))
}
