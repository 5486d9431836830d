// SPDX-License-Identifier: BSD-2-Clause
//! VCL's own subroutines for all servers: they choose the server, keep the lines of each location apart, and answer what no origin answers.

use std::collections::HashMap;

use super::lines::LocationLines;
use super::targets::ORIGIN;
use super::{Whole, capture, pages, script, site, value};
use crate::vcl;

impl Whole<'_> {
    /// The subroutines: they call those of the sites and of the `tables`, and `choice` the server; `ports` are those on which nginx goes on listening.
    pub(super) fn program(
        &self,
        lines: &LocationLines,
        tables: &[(String, String)],
        choice: Vec<String>,
        ports: &[String],
    ) -> String {
        let headers = self.headers();
        let to_origin = fetched(lines, &headers);
        let mut text = vcl::sub("vcl_recv", &self.received(&headers, tables, choice));
        text.push_str(
            "\n# The location is kept beside the request: the origin doesn't see it, the response is judged by it.",
        );
        text.push_str(&vcl::sub("vcl_backend_fetch", &to_origin));
        let has_pipe = |line: &String| line.contains("(pipe)");
        if text.contains("(pipe)") || lines.recv.iter().any(|(_, _, lines)| lines.iter().any(has_pipe)) {
            let is_piped = |line: &&String| !line.contains("(abandon)") && !line.starts_with("cookie.");
            let mut pipe: Vec<String> = to_origin.iter().filter(is_piped).cloned().collect();
            pipe.extend(PIPE.lines().map(str::to_owned));
            text.push_str(&vcl::sub("vcl_pipe", &pipe));
        }
        let by_request = |phase| grouped(lines.of(phase), "req.http.Nginx-Location");
        let by_response = |phase| grouped(lines.of(phase), "cookie.get(\"location\")");
        text.push_str(&vcl::sub("vcl_hash", &by_request("hash")));
        text.push_str(&vcl::sub("vcl_hit", &by_request("hit")));
        text.push_str(&vcl::sub("vcl_backend_response", &by_response("response")));
        text.push_str(&vcl::sub("vcl_backend_error", &by_response("error")));
        text.push_str(&vcl::sub("vcl_deliver", &self.delivered(lines, ports)));
        text.push_str(&vcl::sub("vcl_synth", &self.answered(lines)));
        text
    }

    fn received(&self, headers: &[String], tables: &[(String, String)], choice: Vec<String>) -> Vec<String> {
        let mut recv = vec!["if (req.restarts == 0) {".to_owned()];
        recv.extend(headers.iter().map(|name| format!("\tunset req.http.{name};")));
        if self.around.names.has_moves {
            recv.extend(["Url", "Asked", "Request-Uri"].map(|name| format!("\tset req.http.Nginx-{name} = req.url;")));
            recv.push("} else {".to_owned());
            recv.push("\tset req.url = req.http.Nginx-Url;".to_owned());
        }
        recv.push("}".to_owned());
        recv.extend(["Nginx-Text", "Nginx-No-Store"].map(|name| format!("unset req.http.{name};")));
        // nginx passes TRACE to nobody.
        recv.push("if (req.method == \"TRACE\") { return (synth(405)); }".to_owned());
        recv.push("call nginx_path;".to_owned());
        recv.extend(tables.iter().map(|(name, _)| format!("call {name};")));
        recv.push("# The server, then the location, in nginx's order; each of them ends with a return.".to_owned());
        recv.extend(choice);
        recv
    }

    fn delivered(&self, lines: &LocationLines, ports: &[String]) -> Vec<String> {
        let has_pages = self.around.names.has_pages;
        let says = |text: &str| lines.of("response").iter().any(|(_, all)| all.iter().any(|line| line.contains(text)));
        let mut deliver = redirected_home(ports);
        if says("Nginx-Vary") {
            deliver.push("# Clients get a Vary that the cache doesn't heed.".to_owned());
            deliver.push("if (resp.http.Nginx-Vary) { set resp.http.Vary = resp.http.Nginx-Vary; }".to_owned());
            deliver.push("unset resp.http.Nginx-Vary;".to_owned());
        }
        if has_pages {
            deliver.extend(grouped(lines.of("pages"), "req.http.Nginx-Location"));
            let status = pages::STATUS;
            deliver
                .push(format!("if (req.http.{status}) {{ set resp.status = std.integer(req.http.{status}, 500); }}"));
        }
        deliver.extend(grouped(lines.of("deliver"), "req.http.Nginx-Location"));
        deliver.extend(has_pages.then(|| format!("unset resp.http.{};", pages::FAILED)));
        deliver.extend(says("Nginx-Revalidated").then(|| "unset resp.http.Nginx-Revalidated;".to_owned()));
        deliver
    }

    fn answered(&self, lines: &LocationLines) -> Vec<String> {
        let mut synth = Vec::new();
        if lines.of("hit").iter().any(|(_, lines)| lines.iter().any(|line| line.contains("(restart)"))) {
            synth.extend(STALE.lines().map(str::to_owned));
        }
        if self.around.names.has_pages {
            synth.extend(grouped(lines.of("own pages"), "req.http.Nginx-Location"));
            synth.push(format!("if (req.http.{} && (req.http.Nginx-Text || resp.status < 400)) {{", pages::STATUS));
            synth.push(format!("\tset resp.status = std.integer(req.http.{}, 500);", pages::STATUS));
            synth.push("}".to_owned());
        }
        synth.extend(REDIRECTED.lines().map(str::to_owned));
        synth.extend(grouped(lines.of("synth"), "req.http.Nginx-Location"));
        synth.extend(ANSWERED.lines().map(str::to_owned));
        synth
    }

    /// The headers in which a request keeps what the VCL has found out; the origin sees none of them.
    fn headers(&self) -> Vec<String> {
        let names = &self.around.names;
        let mut headers: Vec<String> = PRIVATE.iter().map(|name| (*name).to_owned()).collect();
        if names.has_moves {
            headers.extend(MOVING.iter().map(|name| (*name).to_owned()));
        }
        if names.has_pages {
            headers.extend([pages::ERROR, pages::NAMED, pages::STATUS].map(str::to_owned));
        }
        headers.extend(names.captures.iter().map(|number| capture::numbered(*number)));
        let used = names.used.borrow();
        let tables_used = names.tables.iter().filter(|name| used.contains(*name));
        headers.extend(names.set.keys().chain(tables_used).map(|name| value::header(name)));
        headers
    }
}

/// The lines of requests to origins: what the response is judged by is kept, and goes.
fn fetched(lines: &LocationLines, headers: &[String]) -> Vec<String> {
    let kept = [("location", "Location"), ("no-store", "No-Store"), ("stale", "Stale")];
    let kept = kept.map(|(name, header)| format!("cookie.set(\"{name}\", bereq.http.Nginx-{header});"));
    let unset = headers.iter().map(|name| format!("unset bereq.http.{name};"));
    kept.into_iter().chain(grouped(lines.of("fetch"), "bereq.http.Nginx-Location")).chain(unset).collect()
}

/// The lines for redirections in which nginx names itself: by the port on which it listens behind the cache.
fn redirected_home(ports: &[String]) -> Vec<String> {
    let host = "std.tolower(regsub(resp.http.Location, \"^http://([^/:]*):.*$\", \"\\1\"))";
    let condition =
        format!("resp.http.Location ~ \"^http://[^/:]*:({})/\" && {host} == {}", ports.join("|"), site::HOST);
    let set = "set resp.http.Location = regsub(resp.http.Location, \"^http://[^/]*\", \"\");";
    if ports.is_empty() { Vec::new() } else { vcl::chain(vec![(condition, vec![set.to_owned()])]) }
}

/// Lines by the label of their location, those that are the same together.
fn grouped(all: &[(String, Vec<String>)], label: &str) -> Vec<String> {
    let mut groups: Vec<(&Vec<String>, Vec<&str>)> = Vec::new();
    let mut places: HashMap<&Vec<String>, usize> = HashMap::new();
    for (name, lines) in all {
        let at = *places.entry(lines).or_insert(groups.len());
        match groups.get_mut(at) {
            Some((_, names)) => names.push(name),
            None => groups.push((lines, vec![name])),
        }
    }
    let condition = |names: &[&str]| match names {
        [only] => format!("{label} == \"{only}\""),
        several => format!("{label} ~ \"^({})$\"", several.join("|")),
    };
    vcl::chain(groups.into_iter().map(|(lines, names)| (condition(&names), lines.clone())).collect())
}

/// The headers that the VCL keeps for the time of a request.
const PRIVATE: [&str; 9] = [
    "Nginx-Location",
    ORIGIN,
    "Nginx-Path",
    "Nginx-Text",
    "Nginx-No-Store",
    "Nginx-Stale",
    "Nginx-Accel",
    "Nginx-Zone",
    "Nginx-Method",
];

/// Private headers of a configuration that changes URLs.
const MOVING: [&str; 7] =
    ["Nginx-Url", "Nginx-Asked", "Nginx-Request-Uri", "Nginx-Args", script::STOP, script::CHANGED, script::MOVED];

const PIPE: &str = "set bereq.http.Connection = req.http.Connection;\nset bereq.http.Upgrade = req.http.Upgrade;";

/// A fetch failed while an object beyond its lifetime is there: it is served.
const STALE: &str =
    "if (req.http.Nginx-Stale == \"there\") {\n\tset req.http.Nginx-Stale = \"serve\";\n\treturn (restart);\n}";

/// The VCL that `return 301 URL` and `return 200 TEXT` come to. The headers of the location stand between the two.
const REDIRECTED: &str = r#"if (req.http.Nginx-Text && (resp.status == 301 || resp.status == 302 || resp.status == 303 || resp.status == 307 || resp.status == 308)) {
	set resp.http.Location = req.http.Nginx-Text;
	unset req.http.Nginx-Text;
}"#;
const ANSWERED: &str = r#"if (req.http.Nginx-Text) {
	synthetic(req.http.Nginx-Text);
} else if ("" + resp.status ~ "^(30[12378]|40[0-689]|41[0-6]|421|429|50[0-57])$") {
	# The statuses for which nginx has a page.
	if (!resp.http.Content-Type) { set resp.http.Content-Type = "text/html"; }
	synthetic("<html><head><title>" + resp.status + " " + resp.reason + "</title></head><body><h1>" + resp.status + " " + resp.reason + "</h1></body></html>");
}
return (deliver);"#;
