// SPDX-License-Identifier: BSD-2-Clause
//! squid as an accelerator: its ports, its origins (`cache_peer`), acls, access, what it keeps and how long. squid as a proxy for clients of one's
//! own network has no counterpart here.

mod acl;
mod line;
mod peer;
mod program;
mod refresh;
mod rule;
#[cfg(test)]
mod tests;
mod units;

use std::collections::{BTreeMap, BTreeSet};

use acl::{HOST, domain};
use line::{Line, read};
use peer::Peer;
use rule::{LISTS, Rule};
use units::{bytes, seconds, size};

use crate::migrated::Migrated;
use crate::source::FileSource;
use crate::vcl;

/// Translates a configuration.
///
/// # Errors
/// It can't be read.
pub fn migrate(file: &str, files: &dyn FileSource) -> Result<Migrated, String> {
    let mut lines = Vec::new();
    read(file, files, &mut lines, 0)?;
    if lines.is_empty() {
        return Err(format!("{file}: there is no directive in it"));
    }
    let mut squid = Squid::default();
    let mut migrated = Migrated::default();
    for line in &lines {
        squid.take(line, &mut migrated);
    }
    squid.finish(&mut migrated);
    Ok(migrated)
}

/// The least number of words that a directive has behind its name, and their names.
const WANTED: [(&str, usize, &str); 11] = [
    ("http_port", 1, "a port and its options"),
    ("https_port", 1, "a port and its options"),
    ("cache_peer", 4, "HOST TYPE HTTP-PORT ICP-PORT"),
    ("cache_peer_domain", 2, "a peer and its domains"),
    ("cache_peer_access", 2, "a peer, allow or deny, and acls"),
    ("acl", 3, "a name, a type and values"),
    ("http_access", 1, "allow or deny, and acls"),
    ("cache", 1, "allow or deny, and acls"),
    ("no_cache", 1, "allow or deny, and acls"),
    ("cache_mem", 1, "a number and its unit"),
    ("maximum_object_size", 1, "a number and its unit"),
];

/// The parts of a configuration that were read so far.
#[derive(Default)]
struct Squid {
    /// Each acl's conditions, any of which makes it hold.
    acls: BTreeMap<String, Vec<String>>,
    /// Acls that can't be translated.
    unknown: BTreeSet<String>,
    /// Declarations of VCL's acls.
    networks: BTreeMap<String, Vec<String>>,
    peers: Vec<Peer>,
    /// `cache_peer_access`, by the peer's name.
    peer_rules: BTreeMap<String, Vec<Rule>>,
    rules: BTreeMap<&'static str, Vec<Rule>>,
    refresh: Vec<(String, Vec<String>)>,
    most_bytes: Option<u64>,
    negative: u64,
    is_ignoring_reload: bool,
    /// A directive that can't be translated changes what is kept: then nothing is.
    is_passing: bool,
    default_site: Option<(String, bool)>,
}

impl Squid {
    fn take(&mut self, line: &Line, migrated: &mut Migrated) {
        if let Some((_, least, wanted)) = WANTED.iter().find(|(name, ..)| *name == line.word(0))
            && line.words.len() <= *least
        {
            return migrated.refuse(&line.place, line.word(0), format!("{wanted} are wanted behind it"));
        }
        match line.word(0) {
            "http_port" | "https_port" => self.port(line, migrated),
            "cache_peer" => self.peer(line, migrated),
            "cache_peer_domain" => {
                let rules = self.peer_rules.entry(vcl::name(line.word(1))).or_default();
                for host in line.rest(2) {
                    let (is_allowed, host) = host.strip_prefix('!').map_or((true, host.as_str()), |host| (false, host));
                    let condition = format!("{HOST} ~ \"(?i)^({})$\"", domain(host));
                    rules.push(Rule { is_allowed, condition });
                }
            }
            "cache_peer_access" => {
                if let Some(rule) = self.rule(line.word(2), line.rest(3), line, migrated) {
                    self.peer_rules.entry(vcl::name(line.word(1))).or_default().push(rule);
                }
            }
            "acl" => self.acl(line, migrated),
            "http_access" | "cache" | "no_cache" | "miss_access" | "always_direct" => {
                let name = if line.word(0) == "no_cache" { "cache" } else { line.word(0) };
                if let Some(rule) = self.rule(line.word(1), line.rest(2), line, migrated)
                    && let Some(list) = LISTS.into_iter().find(|list| *list == name)
                {
                    self.rules.entry(list).or_default().push(rule);
                }
                if name == "always_direct" && line.word(1) == "allow" {
                    let text = "origins that squid finds by the name in Host aren't asked here: these requests get 503";
                    migrated.refuse(&line.place, "always_direct", text);
                }
            }
            "refresh_pattern" => self.refresh(line, migrated),
            "cache_mem" => push(migrated, "-s", &format!("malloc,{}", size(line.rest(1)))),
            "cache_dir" => {
                let megabytes = if line.word(1) == "rock" || line.words.len() > 3 { line.word(3) } else { "10000" };
                push(migrated, "-s", &format!("disk=file,/var/lib/varnish/disk.store,{megabytes}m"));
                migrated.note(
                    &line.place,
                    "cache_dir",
                    "a store is one file with memory in front; what squid has kept is fetched anew",
                );
            }
            "maximum_object_size" => self.most_bytes = Some(bytes(line.rest(1))),
            "visible_hostname" | "unique_hostname" => push(migrated, "-i", line.word(1)),
            "negative_ttl" => self.negative = seconds(line.rest(1)),
            "connect_timeout" => migrated.note(&line.place, "connect_timeout", "the parameter connect_timeout"),
            "read_timeout" => migrated.note(
                &line.place,
                "read_timeout",
                "the parameters first_byte_timeout and between_bytes_timeout",
            ),
            "collapsed_forwarding" => migrated.note(
                &line.place,
                line.word(0),
                "request coalescing is always on: one request fetches, the others wait",
            ),
            "access_log" | "logformat" => migrated.note(
                &line.place,
                line.word(0),
                "varnishncsa writes it; `varnishncsa -F FORMAT` has Apache's letters",
            ),
            // A request to an accelerator never goes past its peers.
            "never_direct"
            | "hierarchy_stoplist"
            | "coredump_dir"
            | "minimum_expiry_time"
            | "pid_filename"
            | "cache_log"
            | "cache_store_log"
            | "cache_effective_user"
            | "cache_effective_group"
            | "workers"
            | "cache_replacement_policy"
            | "memory_replacement_policy"
            | "cache_swap_low"
            | "cache_swap_high"
            | "maximum_object_size_in_memory"
            | "minimum_object_size"
            | "shutdown_lifetime"
            | "icp_port"
            | "htcp_port"
            | "snmp_port"
            | "mime_table"
            | "error_directory"
            | "quick_abort_min"
            | "quick_abort_max"
            | "quick_abort_pct"
            | "forwarded_for"
            | "via"
            | "httpd_suppress_version_string"
            | "max_filedescriptors"
            | "pipeline_prefetch" => {}
            "url_rewrite_program" | "redirect_program" => {
                self.passed(line, "rewrite in vcl_recv: set req.url = regsub(...)", migrated);
            }
            "store_miss"
            | "send_hit"
            | "store_id_program"
            | "store_id_access"
            | "http_reply_access"
            | "icap_enable"
            | "adaptation_access"
            | "ecap_enable"
            | "collapsed_forwarding_access"
            | "url_rewrite_access" => {
                self.passed(line, "write it in vcl_recv and vcl_backend_response", migrated);
            }
            "auth_param" | "external_acl_type" => {
                migrated.refuse(&line.place, line.word(0), "`import basicauth;` or `import jwt;`, or ask the origin")
            }
            "ssl_bump" | "sslproxy_ca_certfile" | "tls_outgoing_options" => migrated.refuse(
                &line.place,
                line.word(0),
                "only an accelerator's TLS is here: docs/certificates.md, docs/tls-origins.md",
            ),
            "reply_header_access"
            | "request_header_access"
            | "header_replace"
            | "reply_header_add"
            | "request_header_add" => {
                self.passed(line, "set and unset fields in vcl_backend_fetch and vcl_deliver", migrated);
            }
            "delay_pools" | "delay_class" | "delay_access" | "delay_parameters" => {
                migrated.refuse(&line.place, line.word(0), "responses are sent as fast as clients read them")
            }
            other => migrated.refuse(&line.place, other, "nothing is known of it here"),
        }
    }

    /// Refuses a directive that changes what is kept, or what is sent of it.
    fn passed(&mut self, line: &Line, text: &str, migrated: &mut Migrated) {
        self.is_passing = true;
        migrated.refuse(&line.place, line.word(0), format!("{text}; until then all requests are passed"));
    }
}

fn push(migrated: &mut Migrated, letter: &str, value: &str) {
    migrated.arguments.extend([letter.to_owned(), value.to_owned()]);
}
