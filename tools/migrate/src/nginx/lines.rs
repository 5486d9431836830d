// SPDX-License-Identifier: BSD-2-Clause
//! The VCL of all locations so far: a subroutine for each of them, and for each phase the lines by the location's label.

use std::collections::HashSet;

use super::pages;

/// The phases in which a location's lines stand apart, by its label.
pub const PHASES: [&str; 9] = ["hash", "fetch", "hit", "response", "error", "pages", "deliver", "own pages", "synth"];

#[derive(Default)]
pub struct LocationLines {
    /// A subroutine for each location: its name, a comment, its lines.
    pub recv: Vec<(String, String, Vec<String>)>,
    /// The lines of each label, for each of `PHASES`.
    phases: [Vec<(String, Vec<String>)>; 9],
    /// The labels of named locations to which lines lead.
    pub named: HashSet<String>,
    /// Subroutines that find the lifetime a response gives itself: name and lines.
    pub lifetimes: Vec<(String, Vec<String>)>,
    /// Subroutines that write the URL of a path that was rewritten, one for each site that needs it.
    pub rewriting: Vec<(String, Vec<String>)>,
}

impl LocationLines {
    /// The lines of a phase by their labels, which are in the order of the locations.
    pub fn of(&self, phase: &str) -> &[(String, Vec<String>)] {
        PHASES.iter().position(|name| *name == phase).map_or(&[], |at| &self.phases[at])
    }

    pub fn add(&mut self, phase: &str, label: &str, lines: Vec<String>) {
        let Some(at) = PHASES.iter().position(|name| *name == phase) else { return };
        if lines.is_empty() {
            return;
        }
        let lead = format!("set req.http.{} = \"", pages::NAMED);
        let leading = lines.iter().filter_map(|line| line.trim().strip_prefix(&lead)?.strip_suffix("\";"));
        self.named.extend(leading.map(str::to_owned));
        // The label is one of the location under way: it stands near the end.
        match self.phases[at].iter_mut().rev().find(|(known, _)| known == label) {
            Some((_, all)) => all.extend(lines),
            None => self.phases[at].push((label.to_owned(), lines)),
        }
    }

    pub fn has(&self, phase: &str, label: &str) -> bool {
        self.of(phase).iter().rev().any(|(known, _)| known == label)
    }

    pub fn take_back(&mut self, label: &str) {
        self.phases.iter_mut().for_each(|phase| phase.retain(|(known, _)| known != label));
    }

    /// Takes out locations that no request reaches, such as a server's own where there is `location /`: VCL has no unused subroutines.
    pub fn drop_uncalled(&mut self, subs: &str) {
        let phases = &self.phases;
        let from_sites: HashSet<&str> = subs.lines().filter_map(called).collect();
        self.recv.retain(|(name, ..)| from_sites.contains(name.as_str()));
        let from_locations = self.recv.iter().flat_map(|(_, _, all)| all).filter_map(|line| called(line));
        let reached: HashSet<&str> = from_locations.chain(from_sites).collect();
        self.rewriting.retain(|(name, _)| reached.contains(name.as_str()));
        let from_phases: HashSet<&str> =
            phases.iter().flatten().flat_map(|(_, all)| all).filter_map(|line| called(line)).collect();
        self.lifetimes.retain(|(name, _)| from_phases.contains(name.as_str()));
    }
}

fn called(line: &str) -> Option<&str> {
    line.trim().strip_prefix("call ")?.strip_suffix(';')
}
