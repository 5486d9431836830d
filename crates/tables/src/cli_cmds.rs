// SPDX-License-Identifier: BSD-2-Clause
//! CLI commands: name, syntax, number of arguments, help, who serves them.

/// The process that answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ServedBy {
    Manager,
    /// The worker; the manager passes it on.
    Worker,
}

/// The definition of a command.
#[derive(Debug)]
pub struct Command {
    /// The command's number for programs.
    pub id: CommandId,
    /// The name as it is typed.
    pub name: &'static str,
    /// Short help: name and arguments.
    pub syntax: &'static str,
    /// The help, in one sentence.
    pub help: &'static str,
    /// More about it, or empty.
    pub doc: &'static str,
    /// Fewest arguments, `-j` not counted.
    pub min_args: usize,
    /// Most arguments, `-j` not counted; `None` is any number.
    pub max_args: Option<usize>,
    pub served_by: ServedBy,
    /// True if plain `help` leaves it out (`help -d` shows these, `help -a` all).
    pub debug: bool,
    /// True if it is known before authentication.
    pub open: bool,
    /// True if it has a `-j` form.
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

macro_rules! commands {
    ($($id:ident $name:literal $syntax:literal $help:literal $doc:literal $min:literal $max:expr, $served:ident [$($flag:ident)*];)*) => {
        /// The number of a command, by which each process tells them apart. Both match all of them, so that a new one
        /// can't be forgotten.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[allow(missing_docs)]
        pub enum CommandId {
            $($id),*
        }

        /// Every command, sorted by name.
        pub static COMMANDS: &[Command] = &[$(Command {
            id: CommandId::$id,
            name: $name,
            syntax: $syntax,
            help: $help,
            doc: $doc,
            min_args: $min,
            max_args: $max,
            served_by: ServedBy::$served,
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
    BackendSetHealth "backend.set_health" "backend.set_health <backend_pattern> [auto|healthy|sick]" "Set the health of matching backends." "auto leaves it to the probe." 2 Some(2), Worker [];
    Ban "ban" "ban <field> <operator> <arg> [&& <field> <oper> <arg> ...]" "Ban objects for which all conditions hold." "" 3 None, Worker [split];
    BanList "ban.list" "ban.list [-j]" "List bans." "Time of the ban, objects that refer to it, C if completed, its conditions." 0 Some(0), Worker [json];
    Banner "banner" "banner" "Show the banner." "" 0 Some(0), Manager [open];
    DebugAcme "debug.acme" "debug.acme http-01|tls-alpn-01 <name> <token> <answer> | hide <token> | ask <name> | wanted names|allowed" "Have the worker answer a question of a certificate authority, or no longer; have VCL asked whether a name may have a certificate; show for which names certificates are wanted, and which VCL allows." "" 2 Some(4), Worker [debug];
    DebugDrain "debug.drain" "debug.drain <seconds>" "Have the worker accept no more, and end when its connections have, or after so many seconds." "" 1 Some(1), Worker [debug];
    DebugFragfetch "debug.fragfetch" "debug.fragfetch" "Deliver fetched bodies in pieces of this many bytes." "" 1 Some(1), Worker [debug];
    DebugHandover "debug.handover" "debug.handover begin|commit|end|undo" "Have the worker hand its objects over to the one that takes its place, take them for good, let go of them, or go on without that one." "" 1 Some(1), Worker [debug];
    DebugListenAddress "debug.listen_address" "debug.listen_address" "Show the addresses listened on." "" 0 Some(0), Worker [debug];
    DebugPanicMaster "debug.panic.master" "debug.panic.master" "Make the manager panic." "" 0 Some(0), Manager [debug];
    DebugPanicWorker "debug.panic.worker" "debug.panic.worker" "Make the worker panic." "" 0 Some(0), Worker [debug];
    DebugPersistent "debug.persistent" "debug.persistent [<stevedore> [<cmd>]]" "Stores that outlive the worker; none here." "" 0 Some(2), Worker [debug];
    DebugReqpoolFail "debug.reqpool.fail" "debug.reqpool.fail" "Make requests find no memory, as told by a string of F and _." "" 1 Some(1), Worker [debug];
    DebugSecrets "debug.secrets" "debug.secrets" "Have the worker take what the manager has sent it beside the CLI: certificates, keys for tickets, certificates for backends." "" 0 Some(0), Worker [debug];
    DebugShutdownDelay "debug.shutdown.delay" "debug.shutdown.delay" "Delay the end of the worker by some seconds." "" 1 Some(1), Worker [debug];
    DebugSrandom "debug.srandom" "debug.srandom" "Seed the random numbers." "" 0 Some(1), Worker [debug];
    DebugVmod "debug.vmod" "debug.vmod" "Show loaded vmods." "" 0 Some(0), Worker [debug];
    DebugXid "debug.xid" "debug.xid [<xid> [<cachesize>]]" "Show or set the transaction id." "" 0 Some(2), Worker [debug];
    Explain "explain" "explain [-m <method>] [-c <address>] <url> [<field> ...]" "Say what would become of a request, and why." "vcl_recv and vcl_hash run as for a request of that client (127.0.0.1 unless given); the cache is only looked at, and nothing is fetched, logged or counted. A field is a header line: \"Cookie: a=b\"." 1 None, Worker [];
    FleetBundle "fleet.bundle" "fleet.bundle <filename>" "Check a VCL file, and show all the sources that it is made of, to be rolled out." "" 1 Some(1), Manager [debug];
    FleetDeployed "fleet.deployed" "fleet.deployed <report>" "Take what the agent says of roll-outs into this node's report." "" 1 Some(1), Worker [debug];
    FleetDocument "fleet.document" "fleet.document <name>" "Show a document of the fleet's board." "" 1 Some(1), Worker [debug];
    FleetKept "fleet.kept" "fleet.kept [<state>]" "Keep what the agent has to know of a trial if it begins anew, or show it." "" 0 Some(1), Manager [debug];
    FleetLoad "fleet.load" "fleet.load <configname> <bundle> [auto|cold|warm]" "Compile and load a VCL that is rolled out, of all its sources." "" 2 Some(3), Manager [debug];
    FleetNodes "fleet.nodes" "fleet.nodes [-j]" "Show all nodes of this fleet." "What each reported last: since when it is silent if it is away, its group, VCL and position in the fleet's log, and, with -j, its counts." 0 Some(0), Worker [json];
    FleetReplace "fleet.replace" "fleet.replace <name> <document> [<former>]" "Write a document of the fleet's board, in the place of the one that there is, or only of the former one." "" 2 Some(3), Worker [debug];
    FleetStatus "fleet.status" "fleet.status [-j]" "Show how this node of a fleet fares." "Whether the fleet's log can be reached, how far it has been carried out here, what of the cache is served, and the members of the second tier (--peers)." 0 Some(0), Worker [json];
    Help "help" "help [-j|<command>]" "Show commands, or one of them." "-a shows all, -d only those for debugging." 0 Some(1), Manager [open json];
    MemoryList "memory.list" "memory.list [-j]" "Show who holds how much memory." "Both processes: stores, index, connections, transactions, other users of the heap, what the allocator has and nobody uses, log, program." 0 Some(0), Worker [json];
    PanicClear "panic.clear" "panic.clear [-z]" "Forget the last panic; -z also clears the counters of it." "" 0 Some(1), Manager [];
    PanicShow "panic.show" "panic.show [-j]" "Show the last panic." "" 0 Some(0), Manager [json];
    ParamReset "param.reset" "param.reset <param>" "Set a parameter to its default." "" 1 Some(1), Manager [];
    ParamSet "param.set" "param.set [-j] <param> <value>" "Set a parameter." "" 2 Some(2), Manager [json];
    ParamShow "param.show" "param.show [-l|-j] [<param>|changed]" "Show parameters and their values." "" 0 Some(2), Manager [json];
    Pid "pid" "pid [-j]" "Show the process ids of manager and worker." "" 0 Some(0), Manager [json];
    Ping "ping" "ping [-j] [<timestamp>]" "Keep the connection alive." "" 0 Some(1), Manager [open json];
    PurgeHost "purge.host" "purge.host [-s] <host>" "Purge the objects of all URLs at a host." "Says how many there were. -s: softly, they lose their TTL and keep grace and keep; those that had some are counted. Needs tag_urls." 1 Some(2), Worker [];
    PurgePrefix "purge.prefix" "purge.prefix [-s] <url>" "Purge the objects of all URLs that begin so." "Says how many there were. -s: softly, they lose their TTL and keep grace and keep; those that had some are counted. Needs tag_urls." 1 Some(2), Worker [];
    PurgeTag "purge.tag" "purge.tag [-s] <tag> ..." "Purge the objects that bear any of these tags." "Says how many there were. -s: softly, they lose their TTL and keep grace and keep; those that had some are counted." 1 None, Worker [];
    PurgeUrl "purge.url" "purge.url [-s] <url>" "Purge all objects of a URL, as it was asked for." "Says how many there were. -s: softly, they lose their TTL and keep grace and keep; those that had some are counted. Needs tag_urls." 1 Some(2), Worker [];
    Quit "quit" "quit" "Close the connection." "" 0 Some(0), Manager [open];
    Restarts "restarts" "restarts [-j]" "Show how often the worker ended, when and why." "The last twenty ends, newest first: when, after how many seconds, which process, how; and how many were in the last hour." 0 Some(0), Manager [json];
    Start "start" "start" "Start the worker." "" 0 Some(0), Manager [];
    Status "status" "status [-j]" "Show the state of the worker." "" 0 Some(0), Manager [json];
    Stop "stop" "stop" "Stop the worker." "" 0 Some(0), Manager [];
    StorageList "storage.list" "storage.list [-j]" "List stores." "" 0 Some(0), Manager [json];
    TlsAcmeList "tls.acme.list" "tls.acme.list [-j]" "Show the certificates that are got by ACME." "When each ends and is renewed, failures in a row, when it is tried again, and what went wrong last." 0 Some(0), Manager [json];
    TlsAcmeRenew "tls.acme.renew" "tls.acme.renew <name>" "Get a new certificate for this name now." "Failures and the time of the next attempt are forgotten." 1 Some(1), Manager [];
    TlsCertCommit "tls.cert.commit" "tls.cert.commit" "Use the certificates that are staged, and no more those that were discarded." "All or none; connections that there are keep what they have." 0 Some(0), Manager [];
    TlsCertDiscard "tls.cert.discard" "tls.cert.discard <cert-id>" "Mark a certificate to go with the next commit." "" 1 Some(1), Manager [];
    TlsCertList "tls.cert.list" "tls.cert.list [-j] [-s]" "List certificates." "Frontend, id, active, staged or discard, subject. -s lists only what a commit would change; -j tells names, dates, files and what is wrong with them, too." 0 Some(1), Manager [json];
    TlsCertLoad "tls.cert.load" "tls.cert.load [<cert-id>] <filename> [-f <frontend>] [-k <keyfile>] [-p <protos>] [-c <ciphers>] [-s <ciphersuites>] [-o] [-d]" "Stage a certificate, for all TLS listeners or one of them." "The file has the chain and the private key; -k names another file for the key. -f: only for this frontend. -p: versions, as in TLSv1.2,TLSv1.3. -c: ciphers of TLS 1.2, -s: those of TLS 1.3, in OpenSSL's words. -o: the order of ciphers is ours. -d: it is the default certificate." 1 None, Manager [];
    TlsCertReload "tls.cert.reload" "tls.cert.reload" "Read the files of all certificates again and use them." "All or none; not while something is staged." 0 Some(0), Manager [];
    TlsCertRollback "tls.cert.rollback" "tls.cert.rollback" "Forget what is staged or discarded." "" 0 Some(0), Manager [];
    TlsTicketList "tls.ticket.list" "tls.ticket.list [-j]" "Show since when session tickets are sealed with their key." "How many keys there are, whether they are made here or read from a file, since when the first one seals, and when the next one is made." 0 Some(0), Manager [json];
    Upgrade "upgrade" "upgrade" "Go on as the program that is installed now, without a pause." "The new program is tried first: when it can't take over, the answer says why, and nothing has changed. Its worker begins beside the present one, which then accepts no more and ends when its connections have ended, or after upgrade_drain." 0 Some(0), Manager [];
    VclDeps "vcl.deps" "vcl.deps [-j]" "List VCLs and what they depend on." "" 0 Some(0), Manager [json];
    VclDiscard "vcl.discard" "vcl.discard <name_pattern>..." "Unload VCLs and labels that match." "All that match go, or none when something else depends on one." 1 None, Manager [];
    VclInline "vcl.inline" "vcl.inline <configname> <quoted_VCLstring> [auto|cold|warm]" "Compile and load VCL given here." "" 2 Some(3), Manager [];
    VclLabel "vcl.label" "vcl.label <label> <configname>" "Give a VCL a label." "" 2 Some(2), Manager [];
    VclList "vcl.list" "vcl.list [-j]" "List VCLs." "" 0 Some(0), Manager [json];
    VclLoad "vcl.load" "vcl.load <configname> <filename> [auto|cold|warm]" "Compile and load a VCL file." "" 2 Some(3), Manager [];
    VclProfile "vcl.profile" "vcl.profile [-j] on|off|show [<configname>]" "Count what each line of a VCL costs." "on begins anew. show prints the share of VCL in a request's CPU time, the time of each subroutine, and for each line, the most expensive first, how often it ran, how often its condition held and its CPU time; then what is worth a change. A VCL that is loaded later isn't counted." 1 Some(2), Worker [json];
    VclShow "vcl.show" "vcl.show [-v] [<configname>]" "Show the source of a VCL; -v also what it includes." "" 0 Some(2), Worker [];
    VclState "vcl.state" "vcl.state <configname> [auto|cold|warm]" "Set the state of a VCL." "" 2 Some(2), Manager [];
    VclSymtab "vcl.symtab" "vcl.symtab" "Show the symbols of VCL." "" 0 Some(0), Manager [debug];
    VclUse "vcl.use" "vcl.use <configname|label>" "Use this VCL for new requests." "" 1 Some(1), Manager [];
}

/// The command of this name.
pub fn lookup(name: &str) -> Option<&'static Command> {
    COMMANDS.binary_search_by(|c| c.name.cmp(name)).ok().map(|i| &COMMANDS[i])
}

/// The commands that `help` shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Filter {
    /// The commands for operators.
    Plain,
    /// Those for debugging (`-d`).
    Debug,
    /// All commands (`help -a`).
    All,
}

/// The text of `help`: one line for each command.
/// `authenticated`: whether the caller may use more than the few open ones; `served_by`: only that side's, or all.
pub fn help(filter: Filter, authenticated: bool, served: Option<ServedBy>) -> String {
    let shown = |c: &&Command| filter == Filter::All || c.debug == (filter == Filter::Debug);
    chosen(authenticated, served).filter(shown).map(|c| format!("{}\n", c.syntax)).collect()
}

/// The text of `help NAME`.
pub fn help_one(command: &Command) -> String {
    format!("{}\n{}\n", command.syntax, command.help)
}

/// The objects of `help -j`, as they follow the JSON head: each begins with `,\n`.
pub fn help_json(authenticated: bool, served: Option<ServedBy>) -> String {
    use crate::json::quote;
    let object = |c: &Command| {
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
    chosen(authenticated, served).map(object).collect()
}

fn chosen(authenticated: bool, served: Option<ServedBy>) -> impl Iterator<Item = &'static Command> {
    COMMANDS.iter().filter(move |c| (authenticated || c.open) && served.is_none_or(|s| s == c.served_by))
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
    fn before_authentication() {
        let open = "auth <response>\nbanner\nhelp [-j|<command>]\nping [-j] [<timestamp>]\nquit\n";
        assert_eq!(help(Filter::Plain, false, None), open);
        assert!(help(Filter::Debug, true, None).contains("debug.xid"));
        assert!(help_json(true, None).starts_with(",\n  {\n    \"request\": \"auth\""));
    }
}
