// SPDX-License-Identifier: BSD-2-Clause
//! The rules of `refresh_pattern`: the first whose regex fits a URL says how long a response without a lifetime of its own is fresh, and where squid
//! is to disregard what clients and origins say.

use super::line::Line;
use super::{Squid, claim};
use crate::migrated::Migrated;
use crate::vcl;

/// Options that are translated, and those that decide nothing here.
const OPTIONS: [&str; 5] = ["override-expire", "override-lastmod", "ignore-reload", "ignore-no-store", "refresh-ims"];
const WITHOUT: [&str; 4] = ["reload-into-ims", "ignore-private", "store-stale", "ignore-auth"];

/// A year: squid crops ages to it.
const MOST_MINUTES: f64 = 525_600.0;

#[derive(Clone)]
pub(super) struct RefreshRule {
    /// Pattern as VCL writes it.
    regex: String,
    /// The condition on the URL, empty where the rule fits any.
    pub condition: String,
    /// Seconds, share of the age, seconds.
    pub least: f64,
    pub share: f64,
    pub most: f64,
    pub options: Vec<&'static str>,
    /// Seconds for which an old response may serve while the origin fails; None: as all others.
    pub most_stale: Option<u64>,
}

impl RefreshRule {
    /// The rule of a URL that no line fits: squid serves nothing stale by it.
    fn of_squid() -> RefreshRule {
        let (least, share, most) = (0.0, 0.2, 259_200.0);
        RefreshRule {
            regex: ANY[0].to_owned(),
            condition: String::new(),
            least,
            share,
            most,
            options: Vec::new(),
            most_stale: Some(0),
        }
    }

    pub(super) fn has(&self, option: &str) -> bool {
        self.options.contains(&option)
    }
}

impl Squid {
    /// `refresh_pattern [-i] REGEX MIN PERCENT MAX [OPTION ...]`: a share of the age, where the origin says nothing. Minutes.
    pub(super) fn refresh(&mut self, line: &Line, migrated: &mut Migrated) {
        let is_ignoring_case = line.word(1) == "-i";
        let words: Vec<&str> = line.rest(if is_ignoring_case { 2 } else { 1 }).iter().map(String::as_str).collect();
        let [regex, least, percent, most, options @ ..] = &words[..] else {
            return self.passed(line, "REGEX MIN PERCENT MAX are wanted", migrated);
        };
        let numbers = [least, percent.trim_end_matches('%'), most].map(|number| number.parse::<i32>().ok());
        let [Some(least), Some(percent), Some(most)] = numbers.map(|number| number.map(f64::from)) else {
            return self.passed(line, "MIN, PERCENT and MAX are whole numbers", migrated);
        };
        let [least, most] = [least, most].map(|minutes| minutes.clamp(0.0, MOST_MINUTES));
        if ["^ftp:", "^gopher:"].iter().any(|begin| regex.starts_with(begin)) && !regex.contains('|') {
            return migrated.without_meaning(&line.place, "refresh_pattern", "only HTTP is served");
        }
        let flag = if is_ignoring_case { "(?i)" } else { "" };
        let Some(regex) = vcl::string(&format!("{flag}{regex}")) else {
            return self.passed(line, "the regex can't be written in VCL", migrated);
        };
        let mut rule = RefreshRule {
            regex,
            condition: String::new(),
            least: least * 60.0,
            share: percent.max(0.0) / 100.0,
            most: most * 60.0,
            options: Vec::new(),
            most_stale: None,
        };
        claim(line, migrated);
        for option in options {
            if let Some(known) = OPTIONS.into_iter().find(|known| known == option) {
                rule.options.push(known);
            } else if let Some(seconds) = option.strip_prefix("max-stale=").and_then(|number| number.parse().ok()) {
                rule.most_stale = Some(seconds);
            } else if !WITHOUT.contains(option) {
                self.passed(line, &format!("{option}: set beresp.ttl in vcl_backend_response"), migrated);
            }
        }
        self.refresh.push(rule);
    }

    pub(super) fn refresh_rules(&self) -> Vec<RefreshRule> {
        let mut rules = self.refresh.clone();
        rules.push(RefreshRule::of_squid());
        for rule in rules.iter_mut().filter(|rule| !ANY.contains(&rule.regex.as_str())) {
            rule.condition = format!("{} ~ {}", self.url(), rule.regex);
        }
        let end = rules.iter().position(|rule| rule.condition.is_empty()).unwrap_or_default();
        rules.truncate(end + 1);
        rules
    }

    /// The URL of a request as the regexes of refresh_pattern see it.
    pub(super) fn url(&self) -> &'static str {
        match self.is_tls {
            true => {
                "regsub(bereq.http.X-Forwarded-Proto, \"^(?!https$).*$\", \"http\") + \"://\" + bereq.http.Host + bereq.url"
            }
            false => "\"http://\" + bereq.http.Host + bereq.url",
        }
    }

    /// The lines of vcl_recv by which a client's wish for a newer copy is disregarded, or a conditional request taken for one.
    pub(super) fn reloads(&self) -> Vec<String> {
        let lines = |rule: &RefreshRule| {
            let mut lines = Vec::new();
            if rule.has("ignore-reload") {
                lines.extend(IGNORED.lines().map(str::to_owned));
            }
            if rule.has("refresh-ims") {
                lines.push("if (req.http.If-Modified-Since) { set req.hash_always_miss = true; }".to_owned());
            }
            lines
        };
        let rules = self.refresh_rules();
        vcl::chain(rules.iter().map(|rule| (rule.condition.replace("bereq.", "req."), lines(rule))).collect())
    }
}

const ANY: [&str; 2] = ["\".\"", "\"(?i).\""];

const IGNORED: &str = r#"unset req.http.Pragma;
if (req.http.Cache-Control ~ "(?i)no-cache|max-age=0") { unset req.http.Cache-Control; }"#;
