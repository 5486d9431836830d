// SPDX-License-Identifier: BSD-2-Clause
//! What this machine's kernel counts of TCP: /proc/net/snmp and /proc/net/netstat, which have a line of names before each
//! line of numbers. They are the whole machine's (its network namespace's), not the probe's alone.

use std::collections::BTreeMap;

/// The counters that tell of lost packets: group and name, and what they are.
const WANTED: [(&str, &str, &str); 5] = [
    ("Tcp", "RetransSegs", "segments sent again"),
    ("TcpExt", "TCPSynRetrans", "SYNs and SYN-ACKs sent again"),
    ("TcpExt", "TCPTimeouts", "time-outs"),
    ("TcpExt", "TCPLossProbes", "probes for a lost tail"),
    ("TcpExt", "TCPOFOQueue", "segments out of order"),
];

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct KernelCounters(BTreeMap<&'static str, u64>);

impl KernelCounters {
    pub fn read() -> KernelCounters {
        let files = ["/proc/net/snmp", "/proc/net/netstat"];
        let texts = files.map(|file| std::fs::read_to_string(file).unwrap_or_default());
        let mut counters = KernelCounters::default();
        texts.iter().for_each(|text| counters.add(text));
        counters
    }

    fn add(&mut self, text: &str) {
        let lines: Vec<&str> = text.lines().collect();
        for pair in lines.chunks_exact(2) {
            let [names, numbers] = [pair[0], pair[1]].map(|line| line.split_once(": ").unwrap_or_default());
            if names.0 != numbers.0 {
                continue;
            }
            for (name, number) in names.1.split(' ').zip(numbers.1.split(' ')) {
                let wanted = WANTED.iter().find(|wanted| wanted.0 == names.0 && wanted.1 == name);
                if let Some((wanted, number)) = wanted.zip(number.parse().ok()) {
                    self.0.insert(wanted.1, number);
                }
            }
        }
    }

    /// The counts since then: name, what it is, how many.
    pub fn since(&self, before: &KernelCounters) -> Vec<(&'static str, &'static str, u64)> {
        let count = |name| Some(self.0.get(name)?.saturating_sub(*before.0.get(name)?));
        WANTED.iter().filter_map(|&(_, name, what)| Some((name, what, count(name)?))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_before_numbers() {
        let mut before = KernelCounters::default();
        before.add("Ip: Forwarding\nIp: 1\nTcp: RtoMin RetransSegs\nTcp: 200 7\n");
        before.add("TcpExt: TCPTimeouts\nTcpExt: -1\n");
        let mut after = KernelCounters::default();
        after.add("Tcp: RetransSegs\nTcp: 10\nTcpExt: cut");
        assert_eq!(after.since(&before), [("RetransSegs", "segments sent again", 3)]);
    }
}
