// SPDX-License-Identifier: BSD-2-Clause
//! States, labels and discards, with a worker that says yes to all and without one.

use tables::Compat;

use super::*;

#[derive(Default)]
struct Yes {
    running: bool,
    asked: Vec<String>,
}

impl WorkerCli for Yes {
    fn is_running(&self) -> bool {
        self.running
    }
    fn ask(&mut self, line: &str) -> CliReply {
        self.asked.push(line.to_string());
        CliReply::ok("")
    }
    fn complain(&mut self, text: &str) {
        panic!("{text}");
    }
}

const QUOTA: Quota = Quota { most: 100, handling: 1 };

fn add(vcls: &mut ManagerVcls, name: &str, state: VclState, labels: &[&str], worker: &mut Yes) {
    let labels = labels.iter().map(|l| l.to_string()).collect();
    let checked = CheckedVcl { file: format!("vcl_{name}/b").into(), keys: None, labels, warnings: String::new() };
    let reply = vcls.load(name, state, checked, QUOTA, Mono(0.0), worker);
    assert!(reply.is_ok(), "{reply:?}");
}

#[test]
fn a_cold_vcl_never_becomes_active() {
    let (mut vcls, mut worker) = (ManagerVcls::default(), Yes::default());
    add(&mut vcls, "c", VclState::Cold, &[], &mut worker);
    assert_eq!(vcls.not_startable(), Some("No active VCL"));
    let refusal = vcls.use_vcl("c", Mono(0.0), &mut worker).unwrap_err();
    assert_eq!(refusal.text(), "VCL 'c' is cold - set to auto or warm first");
    add(&mut vcls, "w", VclState::Warm, &[], &mut worker);
    assert_eq!(vcls.use_vcl("w", Mono(0.0), &mut worker).unwrap().text(), "VCL 'w' now active");
    assert_eq!(vcls.not_startable(), None);
    let list = Compat::ALL.map(|compat| vcls.list(compat));
    assert_eq!(list[0], "available   cold    cold         -    c\nactive      warm    warm         -    w\n");
    assert_eq!(list[1], "available   cold   cold   -   c\nactive      warm   warm   -   w\n");
}

#[test]
fn unused_ones_go_cold_and_are_warmed_by_use() {
    let (mut vcls, mut worker) = (ManagerVcls::default(), Yes { running: true, asked: Vec::new() });
    add(&mut vcls, "a", VclState::Auto, &[], &mut worker);
    add(&mut vcls, "b", VclState::Auto, &[], &mut worker);
    vcls.use_vcl("a", Mono(10.0), &mut worker).unwrap();
    vcls.cool(Mono(700.0), Duration::from_secs(600), &mut worker);
    vcls.use_vcl("b", Mono(701.0), &mut worker).unwrap();
    assert_eq!(
        worker.asked,
        [
            "vcl.load a vcl_a/b 1auto",
            "vcl.load b vcl_b/b 1auto",
            "vcl.use a",
            "vcl.state b 0auto",
            "vcl.state b 1auto",
            "vcl.use b"
        ]
    );
}

#[test]
fn labels_hold_their_vcl() {
    let (mut vcls, mut worker) = (ManagerVcls::default(), Yes::default());
    add(&mut vcls, "a", VclState::Auto, &[], &mut worker);
    vcls.label("l", "a", Mono(0.0), &mut worker).unwrap();
    add(&mut vcls, "main", VclState::Auto, &["l"], &mut worker);
    vcls.use_vcl("main", Mono(0.0), &mut worker).unwrap();
    let (_, reply) = vcls.discard(&["a"], Mono(0.0), &mut worker);
    assert_eq!(reply.text(), "Cannot discard labeled VCL program a:\n\tl\n");
    let (_, reply) = vcls.discard(&["l"], Mono(0.0), &mut worker);
    assert_eq!(reply.text(), "Cannot discard VCL label l, other VCLs depend on it:\n\tmain\n");
    assert!(vcls.label("l", "main", Mono(0.0), &mut worker).unwrap_err().text().ends_with("would create a loop"));
    assert_eq!(
        vcls.push_lines(),
        ["vcl.load a vcl_a/b 1auto", "vcl.label l a", "vcl.load main vcl_main/b 1auto", "vcl.use \"main\""]
    );
    assert_eq!(vcls.deps(Compat::V7_1), "a\nl      a\nmain   l\n");
}

#[test]
fn discard_takes_patterns_and_all_or_nothing() {
    let (mut vcls, mut worker) = (ManagerVcls::default(), Yes::default());
    for name in ["v1", "v2", "v3"] {
        add(&mut vcls, name, VclState::Auto, &[], &mut worker);
    }
    vcls.use_vcl("v3", Mono(0.0), &mut worker).unwrap();
    vcls.label("l", "v1", Mono(0.0), &mut worker).unwrap();
    assert_eq!(vcls.discard(&["v*"], Mono(0.0), &mut worker).1.status, CliStatus::Cant);
    assert_eq!(vcls.discard(&["x*"], Mono(0.0), &mut worker).1.text(), "No VCL name matches x*\n");
    let (files, reply) = vcls.discard(&["v1", "l", "v2"], Mono(0.0), &mut worker);
    assert!(reply.is_ok());
    assert_eq!(files.len(), 2);
    assert_eq!(vcls.progs.len(), 1);
}

#[test]
fn names_are_checked() {
    let vcls = ManagerVcls::default();
    assert_eq!(vcls.may_load("a/b", None, QUOTA).unwrap_err().text(), "Illegal character in VCL name ('/')");
    assert!(vcls.may_load("a", Some("hot"), QUOTA).is_err());
}
