// SPDX-License-Identifier: BSD-2-Clause
//! CLI commands: name, syntax, number of arguments, help, who serves them.

#[derive(Debug)]
pub struct CliCommand {
    pub name: &'static str,
    /// Short help: name and arguments.
    pub syntax: &'static str,
    pub help: &'static str,
    pub doc: &'static str,
    /// Fewest arguments, `-j` not counted.
    pub min_args: usize,
    /// Most arguments, `-j` not counted; `None` is any number.
    pub max_args: Option<usize>,
    /// `None`: the manager passes it on to the worker.
    pub manager: Option<ManagerCommand>,
    /// `None`: the worker doesn't get it.
    pub worker: Option<WorkerCommand>,
    /// True if plain `help` leaves it out (`help -d` shows these, `help -a` all).
    pub debug: bool,
    /// True if it is known before authentication.
    pub open: bool,
    pub json: bool,
    /// True if its arguments are the words in them: `"a b"` is two.
    pub split: bool,
}

macro_rules! flag {
    (debug $($have:ident)*) => { false $(|| matches!(stringify!($have).as_bytes(), b"debug"))* };
    (open $($have:ident)*) => { false $(|| matches!(stringify!($have).as_bytes(), b"open"))* };
    (split $($have:ident)*) => { false $(|| matches!(stringify!($have).as_bytes(), b"split"))* };
    (json $($have:ident)*) => { false $(|| matches!(stringify!($have).as_bytes(), b"json"))* };
}

macro_rules! manager {
    (Worker $id:ident) => {
        None
    };
    ($side:ident $id:ident) => {
        Some(ManagerCommand::$id)
    };
}

macro_rules! worker {
    (Manager $id:ident) => {
        None
    };
    ($side:ident $id:ident) => {
        Some(WorkerCommand::$id)
    };
}

/// Sorts commands by the processes that match them: [those of the manager] [those of the worker].
macro_rules! sides {
    ([$($manager:ident)*] [$($worker:ident)*]) => {
        /// A command that the manager answers.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[allow(missing_docs)]
        pub enum ManagerCommand {
            $($manager),*
        }

        /// A command that the worker answers: a client's, or one by which the manager tells it what it has done.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[allow(missing_docs)]
        pub enum WorkerCommand {
            $($worker),*
        }
    };
    ([$($manager:ident)*] [$($worker:ident)*] Manager $id:ident $($rest:ident)*) => {
        sides!([$($manager)* $id] [$($worker)*] $($rest)*);
    };
    ([$($manager:ident)*] [$($worker:ident)*] Worker $id:ident $($rest:ident)*) => {
        sides!([$($manager)*] [$($worker)* $id] $($rest)*);
    };
    ([$($manager:ident)*] [$($worker:ident)*] Both $id:ident $($rest:ident)*) => {
        sides!([$($manager)* $id] [$($worker)* $id] $($rest)*);
    };
}

macro_rules! commands {
    ($($id:ident $name:literal $syntax:literal $help:literal $doc:literal $min:literal $max:expr, $side:ident [$($flag:ident)*];)*) => {
        sides!([] [] $($side $id)*);

        /// Every command, sorted by name.
        pub static COMMANDS: &[CliCommand] = &[$(CliCommand {
            name: $name,
            syntax: $syntax,
            help: $help,
            doc: $doc,
            min_args: $min,
            max_args: $max,
            manager: manager!($side $id),
            worker: worker!($side $id),
            debug: flag!(debug $($flag)*),
            open: flag!(open $($flag)*),
            json: flag!(json $($flag)*),
            split: flag!(split $($flag)*),
        }),*];
    };
}

commands! {
    Auth "auth" "auth <response>" "Authenticate." "" 1 Some(1), Manager [open];
    BackendList "backend.list" "backend.list [-j] [-p] [<backend_pattern>]" "List backends." "-p adds the state of probes." 0 Some(2), Worker [json];
    BackendSetHealth "backend.set_health" "backend.set_health <backend_pattern> [auto|healthy|sick]" "Set the health of matching backends." "auto: the probe decides. healthy and sick override the probe." 2 Some(2), Worker [];
    Ban "ban" "ban <field> <operator> <arg> [&& <field> <oper> <arg> ...]" "Ban objects for which all conditions hold." "over=<duration>, rate=<objects>/s or both before the first field spread the ban: its objects become stale one after the other, and keep grace and keep. obj.tag, obj.host and obj.prefix test the tags of objects, obj.tenant the tenant whose object it is." 3 None, Worker [split];
    BanCancel "ban.cancel" "ban.cancel <id>" "Cancel a ban that is being spread." "No further object matches. Objects that match already become stale at their moments. Applies to this node only. ban.spreads shows the IDs." 1 Some(1), Worker [];
    BanList "ban.list" "ban.list [-j]" "List bans." "Columns: time of the ban, number of objects that refer to it, C if completed, conditions." 0 Some(0), Worker [json];
    BanSpreads "ban.spreads" "ban.spreads [-j]" "List the bans that are being spread." "Columns: ID, time of the ban, objects that match so far, those that are stale by now, those that aren't yet, time until the last one is, C if every object has been tested, conditions." 0 Some(0), Worker [json];
    Banner "banner" "banner" "Show the banner." "" 0 Some(0), Manager [open];
    BotsList "bots.list" "bots.list [-j] [<rows>]" "List who costs the origin most." "The accounts of the parameter bots: clients, prefixes, networks, TLS fingerprints, User-Agents, verified and declared bots, the most expensive first. Columns: seconds of the origin's time, their share, requests, misses, share of solo requests, verdict, name. All numbers fade with bots_half_life. <rows>: at most this many of each kind (default 10, at most 100)." 0 Some(1), Worker [json];
    DebugAcme "debug.acme" "debug.acme http-01|tls-alpn-01 <name> <token> <answer> | hide <token> | ask <name> | wanted names|allowed" "Add or remove the response to an ACME challenge, ask VCL whether a name may have a certificate, or list wanted or allowed names." "" 2 Some(4), Worker [debug];
    DebugDrain "debug.drain" "debug.drain <seconds>" "Have the worker stop accepting connections, and end when its connections have ended or after this many seconds." "" 1 Some(1), Worker [debug];
    DebugFragfetch "debug.fragfetch" "debug.fragfetch" "Deliver fetched bodies in pieces of this many bytes." "" 1 Some(1), Worker [debug];
    DebugHandover "debug.handover" "debug.handover begin|commit|end|undo" "Control how the worker hands its objects over to its successor during an upgrade." "" 1 Some(1), Worker [debug];
    DebugListenAddress "debug.listen_address" "debug.listen_address" "Show the listen addresses." "" 0 Some(0), Worker [debug];
    DebugPanicMaster "debug.panic.master" "debug.panic.master" "Make the manager panic." "" 0 Some(0), Manager [debug];
    DebugPanicWorker "debug.panic.worker" "debug.panic.worker" "Make the worker panic." "" 0 Some(0), Worker [debug];
    DebugPersistent "debug.persistent" "debug.persistent [<stevedore> [<cmd>]]" "Control persistent stores. Has no effect here." "" 0 Some(2), Worker [debug];
    DebugReqpoolFail "debug.reqpool.fail" "debug.reqpool.fail" "Make allocations of requests fail (F) or succeed (_), in this order." "" 1 Some(1), Worker [debug];
    DebugSecrets "debug.secrets" "debug.secrets" "Have the worker read the certificates and ticket keys that the manager has sent it on a separate channel." "" 0 Some(0), Worker [debug];
    DebugShutdownDelay "debug.shutdown.delay" "debug.shutdown.delay" "Delay the end of the worker by this many seconds." "" 1 Some(1), Worker [debug];
    DebugSrandom "debug.srandom" "debug.srandom" "Seed the random number generator." "" 0 Some(1), Worker [debug];
    DebugVmod "debug.vmod" "debug.vmod" "Show loaded vmods." "" 0 Some(0), Worker [debug];
    DebugXid "debug.xid" "debug.xid [<xid> [<cachesize>]]" "Show or set the transaction id." "" 0 Some(2), Worker [debug];
    Drain "drain" "drain [-j] [on|off]" "Take this node out of service, or back." "on: /readyz returns 503, each response closes its HTTP/1 connection, and peers of a fleet ask this node no more; requests are still served. off: the way back. Without an argument: the state, the connections and the requests in progress. A new worker and an upgraded server keep the state; a restarted server doesn't." 0 Some(1), Both [json];
    Explain "explain" "explain [-m <method>] [-c <address>] <url> [<field> ...]" "Explain how a request would be handled, and why." "vcl_recv and vcl_hash run as for a request from that client address (default 0.0.0.0, which usually matches no ACL). The cache is inspected but not changed, and nothing is fetched, logged or counted. A field is a header line: \"Cookie: a=b\"." 1 None, Worker [];
    FleetBundle "fleet.bundle" "fleet.bundle <filename>" "Check a VCL file, and show it with all included files as a bundle for a roll-out." "" 1 Some(1), Manager [debug];
    FleetDeployed "fleet.deployed" "fleet.deployed <report>" "Add the agent's roll-out state to this node's report." "" 1 Some(1), Worker [debug];
    FleetDocument "fleet.document" "fleet.document <name>" "Show a document of the fleet's board." "" 1 Some(1), Worker [debug];
    FleetKept "fleet.kept" "fleet.kept [<state>]" "Store or show the state that the agent needs to resume a trial after a restart." "" 0 Some(1), Manager [debug];
    FleetLoad "fleet.load" "fleet.load <configname> <bundle> [auto|cold|warm]" "Compile and load a VCL from the bundle of a roll-out." "" 2 Some(3), Manager [debug];
    FleetNodes "fleet.nodes" "fleet.nodes [-j]" "Show all nodes of this fleet." "The last report of each node: group, VCL, position in the fleet's log, and how long it has been silent if it is away. -j adds its counters." 0 Some(0), Worker [json];
    FleetReplace "fleet.replace" "fleet.replace <name> <document> [<former>]" "Replace a document of the fleet's board. With <former>, only if that is its current content." "" 2 Some(3), Worker [debug];
    FleetStatus "fleet.status" "fleet.status [-j]" "Show the state of this fleet node." "Whether the fleet's log can be reached, how far this node has caught up with it, which cached objects are served, and the members of the second tier (--peers)." 0 Some(0), Worker [json];
    Help "help" "help [-j|<command>]" "List the commands, or describe one of them." "-a lists all commands, -d only those for debugging." 0 Some(1), Manager [open json];
    MemoryList "memory.list" "memory.list [-j]" "Show what takes the memory." "Both processes: stores, index, connections, transactions, other heap memory, heap memory that is allocated but unused, log, program." 0 Some(0), Worker [json];
    PanicClear "panic.clear" "panic.clear [-z]" "Delete the report of the last panic; -z also resets its counter." "" 0 Some(1), Manager [];
    PanicShow "panic.show" "panic.show [-j]" "Show the last panic." "" 0 Some(0), Manager [json];
    ParamReset "param.reset" "param.reset [-j] <param>" "Set a parameter to its default." "" 1 Some(1), Both [json];
    ParamSet "param.set" "param.set [-j] <param> <value>" "Set a parameter." "" 2 Some(2), Both [json];
    ParamShow "param.show" "param.show [-l|-j] [<param>|changed]" "Show parameters and their values." "" 0 Some(2), Manager [json];
    Pid "pid" "pid [-j]" "Show the process ids of manager and worker." "" 0 Some(0), Manager [json];
    Ping "ping" "ping [-j] [<timestamp>]" "Keep the connection alive." "" 0 Some(1), Both [open json];
    PurgeHost "purge.host" "purge.host [-s] <host>" "Purge the objects of all URLs of a host." "Prints the number of purged objects. -s purges softly: the objects become stale but keep grace and keep; only fresh ones are counted. Requires the parameter tag_urls." 1 Some(2), Worker [];
    PurgePrefix "purge.prefix" "purge.prefix [-s] <url>" "Purge the objects of all URLs with this prefix." "Prints the number of purged objects. -s purges softly: the objects become stale but keep grace and keep; only fresh ones are counted. Requires the parameter tag_urls." 1 Some(2), Worker [];
    PurgeTag "purge.tag" "purge.tag [-s] <tag> ..." "Purge the objects that have any of these tags." "Prints the number of purged objects. -s purges softly: the objects become stale but keep grace and keep; only fresh ones are counted." 1 None, Worker [];
    PurgeUrl "purge.url" "purge.url [-s] <url>" "Purge all objects of a requested URL." "Prints the number of purged objects. -s purges softly: the objects become stale but keep grace and keep; only fresh ones are counted. Requires the parameter tag_urls." 1 Some(2), Worker [];
    Quit "quit" "quit" "Close the connection." "" 0 Some(0), Manager [open];
    Restarts "restarts" "restarts [-j]" "Show when and why workers ended." "The last 20, newest first: time, lifetime in seconds, process ID and cause; and how many ended in the last hour." 0 Some(0), Manager [json];
    Start "start" "start" "Start the worker." "" 0 Some(0), Both [];
    Status "status" "status [-j]" "Show the state of the worker." "" 0 Some(0), Manager [json];
    Stop "stop" "stop" "Stop the worker." "" 0 Some(0), Manager [];
    StorageList "storage.list" "storage.list [-j]" "List stores." "" 0 Some(0), Manager [json];
    TlsAcmeList "tls.acme.list" "tls.acme.list [-j]" "List the certificates managed by ACME." "For each: expiry, time of renewal, failures in a row, time of the next attempt, and the last error." 0 Some(0), Manager [json];
    TlsAcmeRenew "tls.acme.renew" "tls.acme.renew <name>" "Request a new certificate for this name now." "Resets the count of failures and the time of the next attempt." 1 Some(1), Manager [];
    TlsCertCommit "tls.cert.commit" "tls.cert.commit" "Activate the staged certificates and remove the discarded ones." "All or none. Existing connections keep their certificate." 0 Some(0), Manager [];
    TlsCertDiscard "tls.cert.discard" "tls.cert.discard <cert-id>" "Mark a certificate to be removed by the next commit." "" 1 Some(1), Manager [];
    TlsCertList "tls.cert.list" "tls.cert.list [-j] [-s]" "List certificates." "Columns: frontend, ID, state (active, staged or discard), subject. -s lists only what a commit would change. -j adds names, dates, files and their errors." 0 Some(1), Manager [json];
    TlsCertLoad "tls.cert.load" "tls.cert.load [<cert-id>] <filename> [-f <frontend>] [-k <keyfile>] [-p <protos>] [-c <ciphers>] [-s <ciphersuites>] [-o] [-d]" "Stage a certificate for all TLS listeners or for one frontend." "The file contains the chain and the private key; -k names a separate key file. -f: only for this frontend. -p: TLS versions, such as TLSv1.2,TLSv1.3. -c: ciphers for TLS 1.2, -s: cipher suites for TLS 1.3, with OpenSSL's names. -o: prefer the server's order of ciphers. -d: make it the default certificate." 1 None, Manager [];
    TlsCertReload "tls.cert.reload" "tls.cert.reload" "Reload the files of all certificates." "All or none. Fails while certificates are staged." 0 Some(0), Manager [];
    TlsCertRollback "tls.cert.rollback" "tls.cert.rollback" "Undo uncommitted changes of certificates." "" 0 Some(0), Manager [];
    TlsTicketList "tls.ticket.list" "tls.ticket.list [-j]" "Show the keys of TLS session tickets." "The number of keys, whether they are generated or read from a file, how long the current one has been in use, and when the next one is generated." 0 Some(0), Manager [json];
    Upgrade "upgrade" "upgrade" "Upgrade to the installed program without downtime." "The new program is tested first. If it can't take over, the reply says why and nothing changes. Otherwise its worker starts beside the old one. The old worker stops accepting connections, and ends when its connections have ended or after upgrade_drain." 0 Some(0), Manager [];
    VclDeps "vcl.deps" "vcl.deps [-j]" "List VCLs and what they depend on." "" 0 Some(0), Manager [json];
    VclDiscard "vcl.discard" "vcl.discard <name_pattern>..." "Unload VCLs and labels that match." "Unloads none of them if something else depends on one." 1 None, Both [];
    VclInline "vcl.inline" "vcl.inline <configname> <quoted_VCLstring> [auto|cold|warm]" "Compile and load the given VCL." "" 2 Some(3), Manager [];
    VclLabel "vcl.label" "vcl.label <label> <configname>" "Give a VCL a label." "" 2 Some(2), Both [];
    VclList "vcl.list" "vcl.list [-j]" "List VCLs." "" 0 Some(0), Both [json];
    VclLoad "vcl.load" "vcl.load <configname> <filename> [auto|cold|warm]" "Compile and load a VCL file." "" 2 Some(3), Both [];
    VclProfile "vcl.profile" "vcl.profile [-j] on|off|show [<configname>]" "Measure the CPU time of each line of a VCL." "on starts again from zero. show prints VCL's share of a request's CPU time, the time of each subroutine, and for each line, the most expensive first, how often it ran, how often its condition was true, and its CPU time; then suggestions. VCLs that are loaded later aren't measured." 1 Some(2), Worker [json];
    VclShow "vcl.show" "vcl.show [-v] [<configname>]" "Show the source of a VCL; -v also its included files." "" 0 Some(2), Worker [];
    VclState "vcl.state" "vcl.state <configname> auto|cold|warm" "Set the state of a VCL." "" 2 Some(2), Both [];
    VclSymtab "vcl.symtab" "vcl.symtab" "Show the symbols of VCL." "" 0 Some(0), Manager [debug];
    VclUse "vcl.use" "vcl.use <configname|label>" "Use this VCL for new requests." "" 1 Some(1), Both [];
}

impl CliCommand {
    /// True if a server answers it, which may have no worker.
    pub fn is_known(&self, has_worker: bool) -> bool {
        has_worker || self.manager.is_some()
    }
}

pub fn lookup(name: &str) -> Option<&'static CliCommand> {
    COMMANDS.binary_search_by(|c| c.name.cmp(name)).ok().map(|i| &COMMANDS[i])
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HelpFilter {
    Plain,
    Debug,
    All,
}

/// The text of `help`: one line for each command.
/// `authenticated`: whether the caller may use more than the few open ones; `has_worker`: whether the worker's are known.
pub fn help(filter: HelpFilter, authenticated: bool, has_worker: bool) -> String {
    let shown = |c: &&CliCommand| filter == HelpFilter::All || c.debug == (filter == HelpFilter::Debug);
    chosen(authenticated, has_worker).filter(shown).map(|c| format!("{}\n", c.syntax)).collect()
}

pub fn help_one(command: &CliCommand) -> String {
    format!("{}\n{}\n", command.syntax, command.help)
}

/// The objects of `help -j`, as they follow the JSON head: each begins with `,\n`.
pub fn help_json(authenticated: bool, has_worker: bool) -> String {
    use crate::json::quote;
    let object = |c: &CliCommand| {
        format!(
            ",\n  {{\n    \"request\": {},\n    \"syntax\": {},\n    \"help\": {},\n    \"minarg\": {},\n    \
             \"maxarg\": {},\n    \"flags\": {},\n    \"json\": {}\n  }}",
            quote(c.name),
            quote(c.syntax),
            quote(c.help),
            c.min_args,
            c.max_args.map_or(-1, |n| n as i64),
            quote(if c.debug { "d" } else { "" }),
            c.json
        )
    };
    chosen(authenticated, has_worker).map(object).collect()
}

fn chosen(authenticated: bool, has_worker: bool) -> impl Iterator<Item = &'static CliCommand> {
    COMMANDS.iter().filter(move |c| (authenticated || c.open) && c.is_known(has_worker))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sorted_by_name() {
        assert!(COMMANDS.is_sorted_by(|a, b| a.name < b.name));
        assert!(COMMANDS.iter().all(|c| c.syntax.starts_with(c.name)));
        assert!(lookup("vcl.list").is_some_and(|c| c.json && !c.open && !c.debug));
        assert!(lookup("nonsense").is_none());
    }

    #[test]
    fn a_command_has_the_sides_that_answer_it() {
        let sides = |name| lookup(name).map(|command| (command.manager, command.worker));
        assert_eq!(sides("auth"), Some((Some(ManagerCommand::Auth), None)));
        assert_eq!(sides("ban"), Some((None, Some(WorkerCommand::Ban))));
        assert_eq!(sides("vcl.use"), Some((Some(ManagerCommand::VclUse), Some(WorkerCommand::VclUse))));
        assert!(!help(HelpFilter::Plain, true, false).contains("ban.list"));
    }

    #[test]
    fn before_authentication() {
        let open = "auth <response>\nbanner\nhelp [-j|<command>]\nping [-j] [<timestamp>]\nquit\n";
        assert_eq!(help(HelpFilter::Plain, false, true), open);
        assert!(help(HelpFilter::Debug, true, true).contains("debug.xid"));
        assert!(help_json(true, true).starts_with(",\n  {\n    \"request\": \"auth\""));
    }
}
