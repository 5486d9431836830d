// SPDX-License-Identifier: BSD-2-Clause
//! The fate of each directive of nginx's: translators read directives by their scope; what was read is claimed when the VCL of its location is
//! complete. The walk at the end enters all of them into the account; those that nobody claimed are refused there.

use super::cached::is_cached;
use super::config::{Claim, Directive};
use super::known::{Fate, fate};
use super::scope::{KINDS, LocationScope};
use super::script;
use crate::account::DirectiveFate;
use crate::migrated::Migrated;

/// Ends the translation of a location. If it is translated, what was read is claimed, and nothing else mattered; else all of it gets `claim`.
pub fn settle(scope: &LocationScope<'_>, claim: Claim) {
    scope.directives().for_each(|directive| settle_one(directive, claim));
}

fn settle_one(directive: &Directive, claim: Claim) {
    let is_read = directive.is_read.take();
    directive.claim(if claim == Claim::Claimed && !is_read { Claim::Inert } else { claim });
    // The blocks of other locations are settled by themselves.
    if matches!(directive.name.as_str(), "if" | "limit_except") {
        directive.inside().iter().for_each(|inner| settle_one(inner, claim));
    }
}

/// Claims what a block's script has read: its VCL stands before that of the location.
pub fn claim_script(block: &[Directive]) {
    for directive in block.iter().filter(|d| script::NAMES.contains(&d.name.as_str())) {
        if directive.is_read.take() {
            directive.claim(Claim::Claimed);
        }
        claim_script(directive.inside());
    }
}

/// Claims an upstream that a translated location asks.
pub fn claim_upstream(upstream: &Directive) {
    upstream.claim(Claim::Claimed);
    let is_used = |d: &&Directive| matches!(d.name.as_str(), "server" | "least_conn" | "ip_hash" | "hash" | "random");
    upstream.inside().iter().filter(is_used).for_each(|d| d.claim(Claim::Claimed));
}

/// Claims what chooses a server. Certificates are claimed with their listeners: without one they mean nothing.
pub fn claim_server(server: &Directive) {
    server.claim(Claim::Claimed);
    for directive in server.inside() {
        match directive.name.as_str() {
            "listen" | "server_name" | "ssl" => directive.claim(Claim::Claimed),
            _ => {}
        }
    }
}

/// Ends the translation of what stands beside servers: tables and upstreams that no VCL uses are nginx's.
pub fn settle_outer(http: &[Directive]) {
    for directive in http {
        match directive.name.as_str() {
            "map" | "geo" | "upstream" => claim_all(directive, Claim::Kept),
            _ => {}
        }
    }
}

/// Gives a directive and all in it a claim.
pub fn claim_all(directive: &Directive, claim: Claim) {
    directive.claim(claim);
    directive.inside().iter().for_each(|inner| claim_all(inner, claim));
}

/// The directives that hold in a location and that its translation should have read, but hasn't.
pub fn unread<'a>(scope: &LocationScope<'a>, is_direct: bool) -> Vec<&'a Directive> {
    let mut out: Vec<&'a Directive> = Vec::new();
    for directive in scope.directives().filter(|d| fate(&d.name) == Some(Fate::Done)) {
        let name = directive.name.as_str();
        if is_inert(name, scope, is_direct) || out.iter().any(|known| known.name == name) {
            continue;
        }
        let holding = scope.holding(&[name]);
        let is_own = scope.inner().iter().any(|d| d.name == name);
        if NOT_INHERITED.contains(&name) && !is_own {
            continue;
        }
        if !holding.iter().any(|directive| directive.is_read.get()) {
            out.extend(holding.last());
        }
    }
    out
}

const NOT_INHERITED: [&str; 3] = ["try_files", "limit_except", "internal"];

/// True of directives that nginx doesn't heed in such a location, or heeds itself as its origin.
fn is_inert(name: &str, scope: &LocationScope<'_>, is_direct: bool) -> bool {
    if script::NAMES.contains(&name) {
        return true;
    }
    let own = KINDS.iter().find_map(|kind| Some((*kind, name.strip_prefix(kind)?.strip_prefix('_')?)));
    match own {
        Some((kind, _)) if kind != scope.kind => true,
        Some((_, rest)) if is_of_cache(rest) => !is_cached(scope),
        _ => !is_direct,
    }
}

fn is_of_cache(rest: &str) -> bool {
    rest.starts_with("cache") || rest == "no_cache" || rest == "ignore_headers"
}

const NGINX: &str = "nginx alone heeds it, as a process and as the origin behind the cache";
const KEPT: &str = "its location stays with nginx, which goes on doing this as the origin";
const UNREACHED: &str = "no request comes to it";
const INERT: &str = "nothing heeds it where it stands";
const SHADOWED: &str = "the blocks within have their own";
pub const UNCLAIMED: &str = "nothing here translates it in this place";

/// Blocks whose entries are directives. Those of `map`, `types` and others are entries of a table, which counts as one.
const CONTAINERS: [&str; 9] =
    ["http", "server", "location", "if", "limit_except", "upstream", "events", "stream", "mail"];

/// Enters a directive, and those in its block, with their fates into the account.
pub fn account(directive: &Directive, migrated: &mut Migrated) {
    enter(directive, migrated);
    match fate(&directive.name) {
        _ if !CONTAINERS.contains(&directive.name.as_str()) => {}
        Some(Fate::Refused(_)) => within_refused(directive, migrated),
        _ => directive.inside().iter().for_each(|inner| account(inner, migrated)),
    }
}

fn enter(directive: &Directive, migrated: &mut Migrated) {
    let (place, name) = (&directive.place, directive.name.as_str());
    migrated.account.read(place, name);
    if name == "return" && directive.word(0) == "444" && directive.claimed.get() == Claim::Kept {
        let text = "nginx goes on closing the connection, to the cache now: clients get 503";
        migrated.note(place, name, text);
    }
    let reason = match (directive.claimed.get(), fate(name)) {
        (Claim::Claimed, _) => return migrated.translated(place, name),
        (_, Some(Fate::Told(text) | Fate::Holds(text))) => text,
        (_, Some(Fate::Nginx)) => NGINX,
        // Nobody can tell whether a directive that isn't known matters.
        (_, None) => return,
        (Claim::Kept, _) => KEPT,
        (Claim::Inert, _) => INERT,
        (Claim::Unreached, _) => UNREACHED,
        (Claim::Shadowed, _) => SHADOWED,
        (Claim::Nobody, Some(Fate::Refused(text))) => return migrated.refuse_unclaimed(place, name, text),
        (Claim::Nobody, Some(Fate::Done | Fate::Apart)) => return migrated.refuse_unclaimed(place, name, UNCLAIMED),
    };
    migrated.without_meaning(place, name, reason);
}

fn within_refused(block: &Directive, migrated: &mut Migrated) {
    for directive in block.inside() {
        let reason = format!("it stands in {}, which is refused", block.name);
        migrated.account.decide(&directive.place, &directive.name, DirectiveFate::Refused(reason));
        within_refused(directive, migrated);
    }
}
