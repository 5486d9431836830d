// SPDX-License-Identifier: BSD-2-Clause
//! All rules, in the order in which they are shown.

mod boot;
mod fleet;
mod log;
mod memory;
mod network;
mod server;
mod system;
mod tls;

use crate::rule::Rule;

pub fn all() -> impl Iterator<Item = &'static Rule> {
    [network::RULES, memory::RULES, system::RULES, boot::RULES, server::RULES, tls::RULES, fleet::RULES, log::RULES]
        .into_iter()
        .flatten()
}

/// The rules about the server of a fleet's log, which has to be asked for them.
pub fn fleet() -> impl Iterator<Item = &'static Rule> {
    fleet::RULES.iter()
}

/// Files with counters of the whole machine, which began with it.
pub fn of_machine(host: &crate::host::Host) -> Vec<String> {
    let net = ["netstat", "snmp", "dev", "softnet_stat", "stat/nf_conntrack"].map(|name| host.net(name));
    net.into_iter().chain(["proc/vmstat".to_owned()]).collect()
}

/// Files of the host with counters, which are kept at the first look: also those of the server's control groups.
pub fn watched(host: &crate::host::Host) -> Vec<String> {
    let mut paths = of_machine(host);
    let groups = [("cpu", "cpu.stat", "cpu.stat"), ("memory", "memory.events", "memory.oom_control")];
    for (controller, v2, v1) in groups {
        let dirs = host.cgroups(controller, v2, v1).unwrap_or_default();
        let file = |dir: &str| [v2, v1].map(|file| format!("{dir}/{file}")).into_iter().find(|path| host.has(path));
        paths.extend(dirs.iter().filter_map(|(dir, _)| file(dir)));
    }
    paths
}

#[cfg(test)]
mod tests;
