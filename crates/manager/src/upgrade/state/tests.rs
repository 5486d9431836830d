// SPDX-License-Identifier: BSD-2-Clause
//! The state's text is what programs of before and after this one write and read.

use std::os::unix::ffi::OsStringExt;
use std::time::Duration;

use base::clock::{Mono, Real};
use cli::handoff::QuicStart;
use proptest::prelude::*;

use super::*;
use crate::arenas::ArenasRecord;
use crate::deaths::{Death, DeathsRecord};
use crate::listening::OpenListener;
use crate::session::carry::OpenSession;
use crate::signer::SignersRecord;
use crate::storage::OpenStore;
use crate::ticketkeys::TicketKeysRecord;
use crate::upgrade::workers::RunningWorker;
use crate::vcls::carry::UpgradeVcl;

/// A state as the program before this one wrote it, with a line of each kind.
const WRITTEN: &str = r#"LACQUER-UPGRADE 6
writer "Lacquer 1"
args "varnishd" "-a"
program "/usr/sbin/varnishd"
writer_file "9"
workdir "/run/w x"
identity ""
vident ""
uptime "12.5"
params "a=1\nb=2\n"
protected "cc_command"
notes
listener "a0" "0" "127.0.0.1:80" "0" "" "" "7" "" "4" "5"
store "s0" "12" "1099511627776" "5"
arena "s1" "13"
journal "14"
journal_file "15"
write_lock "27"
relay "16"
certificates "17"
ticket_keys "18"
secrets "19"
signer "78" "28"
leaving_signer "79"
ticket_file "/etc/a b"
ticket_due "123.5"
watch_history "32"
after_death "0"
vcl "boot" "auto" "0" "v/b" "" "31"
vcl "l" "" "0" "" "1.5" "" "boot"
active "boot"
booted "0"
worker_state "running"
worker "77" "20" "21" "22" "" "0" "" "0"
counter "child_start" "3"
panic "Panic at: now\n"
death "0" "0" "0" "died signal=9" "0" "0"
total_deaths "0"
recent_deaths "1000000000"
restarts "0"
quic "\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"" "7" "1" ""
class_key "                                "
exit_status "0"
secret "/etc/s"
secret_is_ours "0"
pid_file "_.pid" "8"
cli_sockets "6"
masters "127.0.0.1:1"
session "telnet" "" "30" "" "" "" "" "0" "1"
"#;

fn example() -> UpgradeState {
    UpgradeState {
        writer: "Lacquer 1".into(),
        args: vec!["varnishd".into(), "-a".into(), OsString::from_vec(vec![b'"', 0xff, b'\n'])],
        writer_file: Fd(9),
        upgrade: UpgradeRecord { program: "/usr/sbin/varnishd".into(), relay: Some(Fd(16)) },
        params: ParamsRecord { values: "a=1\nb=2\n".into(), protected: vec!["cc_command".into()] },
        server: ServerRecord {
            workdir: "/run/w x".into(),
            uptime: Duration::from_millis(12_500),
            class_key: [b' '; 32],
            pid_files: vec![("_.pid".into(), Fd(8))],
            counters: vec![("child_start".into(), 3)],
            ..ServerRecord::default()
        },
        listening: ListeningRecord {
            listeners: vec![OpenListener {
                name: "a0".into(),
                address: "127.0.0.1:80".into(),
                permissions: crate::listen::Permissions::of_group(7),
                sockets: vec![Fd(4), Fd(5)],
                ..OpenListener::default()
            }],
            quic: Some(QuicStart { secret: [b'"'; 32], life: 7, set: 1, former: None }),
        },
        storage: StorageRecord {
            files: vec![OpenStore { store: "s0".into(), file: Fd(12), bytes: 1 << 40, life: 5 }],
            arenas: ArenasRecord { stores: vec![("s1".into(), Fd(13))], journal: Some(Fd(14)) },
            journal_file: Some(Fd(15)),
            write_lock: Some(Fd(27)),
            after_death: false,
        },
        tls: TlsRecord {
            certificates: Some(Fd(17)),
            ticket_keys: TicketKeysRecord { file: Some(Fd(18)), path: Some("/etc/a b".into()), due: Some(Mono(123.5)) },
            secrets: Some(Fd(19)),
            signers: SignersRecord { current: Some((78, Fd(28))), leaving: vec![79] },
        },
        vcls: VclsRecord {
            progs: vec![
                UpgradeVcl {
                    name: "boot".into(),
                    state: "auto".into(),
                    file: Some("v/b".into()),
                    keys: Some(Fd(31)),
                    ..UpgradeVcl::default()
                },
                UpgradeVcl {
                    name: "l".into(),
                    uses: vec!["boot".into()],
                    idle: Some(Duration::from_millis(1500)),
                    ..UpgradeVcl::default()
                },
            ],
            active: Some("boot".into()),
            booted: 0,
        },
        workers: WorkersRecord {
            state: "running".into(),
            all: vec![RunningWorker {
                pid: 77,
                cli: Fd(20),
                output: Fd(21),
                panic: Fd(22),
                ..RunningWorker::default()
            }],
        },
        ended: EndedRecord {
            panic: Some("Panic at: now\n".into()),
            deaths: DeathsRecord {
                last: vec![Death { how: "died signal=9".into(), ..Death::default() }],
                total: 0,
                recent: vec![Real(1e9)],
            },
            ..EndedRecord::default()
        },
        cli: CliRecord {
            secret: Some("/etc/s".into()),
            secret_is_ours: false,
            sockets: vec![Fd(6)],
            masters: vec!["127.0.0.1:1".into()],
            sessions: vec![OpenSession { kind: "telnet".into(), input: Fd(30), asks: true, ..OpenSession::default() }],
        },
        watch_history: Some(Fd(32)),
    }
}

#[test]
fn it_comes_back() {
    let state = example();
    assert_eq!(UpgradeState::read(&state.text()), Ok(state.clone()));
    let all = [4, 5, 6, 8, 9, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 27, 28, 30, 31, 32];
    assert_eq!(state.all_descriptors().into_iter().collect::<Vec<_>>(), all);
}

#[test]
fn its_lines_are_those_of_the_programs_of_before() {
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<BTreeSet<_>>();
    let mut state = example();
    state.args.pop();
    assert_eq!(lines(&String::from_utf8(state.text()).unwrap()), lines(WRITTEN));
    assert_eq!(UpgradeState::read(WRITTEN.as_bytes()), Ok(state));
}

#[test]
fn another_version_and_unknown_lines_are_refused() {
    let text = |bytes: &[u8]| UpgradeState::read(bytes).unwrap_err().to_string();
    let next = text(b"LACQUER-UPGRADE 7\n");
    assert_eq!(next, "the running program's state begins with \"LACQUER-UPGRADE 7\", not \"LACQUER-UPGRADE 6\"");
    assert!(text(b"LACQUER-UPGRADE 6\nnew \"1\"\n").ends_with("can't be read: new \\\"1\\\""));
    assert!(text(b"LACQUER-UPGRADE 6\nbooted 1 2\n").ends_with("booted 1 2"));
}

proptest! {
    #[test]
    fn any_change_is_read_or_refused(at in 0usize..900, byte: u8) {
        let mut bytes = example().text();
        let at = at % bytes.len();
        bytes[at] = byte;
        let _ = UpgradeState::read(&bytes);
    }
}
