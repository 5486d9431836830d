# SPDX-License-Identifier: BSD-2-Clause
"""Packets lost in a network namespace of the test's own, where nftables says how many were: what the probe tells must agree.

The cases run at the same time, each in a namespace of its own, since most of their time is waiting for the next attempt."""
import json
import subprocess
import threading

from bed.daemon import die_with_parent
from bed.namespace import Drop, run_in_namespace, sysctl, why_not
from bed.origin import Origin, simple

LIMIT = 120
PORT = 80  # the probe's default: the namespace has it for itself
SYN = f"tcp dport {PORT} tcp flags & (syn|ack) == syn"
SYN_ACK = f"tcp sport {PORT} tcp flags & (syn|ack) == (syn|ack)"
# With a header of 40 to 60 bytes and timestamps: what is longer has data.
REQUEST = f"tcp dport {PORT} meta length > 80"
ANSWER = f"tcp sport {PORT} meta length > 80"
EACH_SECOND, EACH_THIRD = "numgen inc mod 2 == 0", "numgen inc mod 3 == 0"


def origin(body=b"ok"):
    return Origin(simple(lambda *_: ("", body)), at=("127.0.0.1", PORT))


def probed(tool, *args):
    p = subprocess.run([tool.program, "probe", "--format", "json", *map(str, args), "127.0.0.1"], capture_output=True, text=True,
                       timeout=LIMIT, preexec_fn=die_with_parent)
    assert p.stdout, f"status {p.returncode}: {p.stderr[:500]}"
    return json.loads(p.stdout)


def sound(tool):
    with origin() as _:
        return probed(tool, "-n", 60, "--pause", "10ms", *tool.slow), 0, 0


def lossy(match, *args, body=b"ok", port_of="sport", linear=None, pass_after=None, mtu=None):
    """A run in which that is dropped, for so many seconds: report, packets dropped, connections that they were of."""
    def work(tool):
        if linear is not None:
            sysctl("net/ipv4/tcp_syn_linear_timeouts", linear)
        if mtu:
            subprocess.run(["ip", "link", "set", "lo", "mtu", str(mtu), "gso_max_segs", "1"], check=True)
        with origin(body) as _:
            drop = Drop(match, port_of)
            timer = threading.Timer(pass_after or LIMIT, drop.end)
            timer.daemon = True
            timer.start()
            try:
                return probed(tool, *args), drop.packets(), drop.ports()
            finally:
                timer.cancel()
    return work


def rungs(r):
    return [rung["seconds"] for rung in r["verdict"]["rungs"]]


def nothing_lost(report, tool, r, *_):
    report.check((r["verdict"]["finding"], r["answers"], r["slow"]["count"]) == ("none", 60, 0), f"nothing is dropped: {r['verdict']} {r['slow']}")
    report.check(r["kernel"]["RetransSegs"] == r["kernel"]["TCPSynRetrans"] == 0, f"and nothing was sent again: {r['kernel']}")


def lost_syns(seconds, of):
    def check(report, tool, r, packets, ports):
        report.check(r["verdict"]["finding"] == "syn_loss", f"SYNs are dropped: {r['verdict']}")
        if tool.measures:
            report.check(of in r["verdict"]["words"] and rungs(r) == seconds, f"answers stand on {seconds}: {r['verdict']}")
        report.check(r["connections_with_loss"]["connecting"] == r["slow"]["causes"]["syn_lost"] == ports > 8,
                     f"as many connections as nftables says, {ports}: {r['connections_with_loss']} {r['slow']}")
        report.check(r["kernel"]["TCPSynRetrans"] == packets, f"as many packets as nftables says, {packets}: {r['kernel']}")
        report.check(r["answers"] == 32 and r["failed"] == 0, f"all are answered at last: {r['answers']} {r['failures']}")
    return check


def lost_syn_acks(report, tool, r, packets, ports):
    report.check(r["verdict"]["finding"] == "syn_loss", f"SYN-ACKs are dropped: {r['verdict']}")
    report.check(not tool.measures or rungs(r)[:1] == [1.0], f"on the ladder of 1 s: {r['verdict']}")
    report.check(r["connections_with_loss"]["connecting"] == ports > 5, f"as many connections as nftables says, {ports}: {r['connections_with_loss']}")
    report.check(r["kernel"]["TCPSynRetrans"] >= packets, f"the kernel says so, too, {packets}: {r['kernel']}")


def lost_requests(report, tool, r, packets, ports):
    report.check(r["verdict"]["finding"] == "data_loss", f"requests are dropped: {r['verdict']}")
    report.check(r["connections_with_loss"] == {"connecting": 0, "request": ports, "answer": 0} and ports > 8,
                 f"as many connections as nftables says, {ports}: {r['connections_with_loss']}")
    report.check(r["slow"]["causes"]["request_lost"] == ports, f"each slow one is told: {r['slow']}")
    report.check(r["kernel"]["RetransSegs"] >= packets, f"as many packets at least as nftables says, {packets}: {r['kernel']}")


def lost_answers(report, tool, r, packets, ports):
    """Only the server's kernel knows that it sent them again; times tell."""
    if tool.measures:
        report.check(r["verdict"]["finding"] == "loss_likely" and "a lost answer is the server's to send again" in r["verdict"]["words"],
                     f"answers are dropped: {r['verdict']}")
    report.check(r["slow"]["count"] >= ports > 8 and r["connections_with_loss"]["request"] == 0, f"of {ports} connections: {r['slow']}")


def lost_parts(report, tool, r, packets, ports):
    report.check(r["connections_with_loss"]["answer"] > 8 and r["connections_with_loss"]["connecting"] == 0,
                 f"parts of answers are dropped, of {ports} connections: {r['connections_with_loss']}")
    report.check(r["verdict"]["finding"] == "data_loss" and r["slow"]["causes"]["answer_lost"] > 2, f"it says so: {r['verdict']} {r['slow']}")


def repaired(report, tool, r, packets, ports):
    report.check(r["slow"]["count"] == 0 and r["connections_with_loss"]["answer"] > 5, f"lost parts are sent again in time: {r['slow']} {r['connections_with_loss']}")
    lost = r["connections_with_loss"]["answer"]
    report.check(r["verdict"]["finding"] == "loss_repaired" and f"({lost} of 40 connections, in answers)" in r["verdict"]["words"],
                 f"the loss is told though nothing was slow: {r['verdict']}")


CASES = [
    (sound, nothing_lost),
    (lossy(f"{SYN} {EACH_SECOND}", "-n", 32, "--pause", "5ms", linear=0, pass_after=10), lost_syns([1.0, 3.0, 7.0, 15.0], "after 1 s")),
    (lossy(f"{SYN} {EACH_SECOND}", "-n", 32, "--pause", "5ms", linear=4, pass_after=3.5), lost_syns([1.0, 2.0, 3.0, 4.0], "each second")),
    (lossy(f"{SYN_ACK} {EACH_THIRD}", "-n", 30, "--pause", "10ms", port_of="dport"), lost_syn_acks),
    (lossy(f"{REQUEST} {EACH_SECOND}", "-n", 40, "--pause", "10ms", "--slow", "150ms"), lost_requests),
    (lossy(f"{ANSWER} {EACH_SECOND}", "-n", 60, "--pause", "20ms", "--slow", "180ms", port_of="dport"), lost_answers),
    (lossy(f"{ANSWER} numgen inc mod 5 < 2", "-n", 20, "--pause", "20ms", "--slow", "150ms", port_of="dport", body=b"x" * 40_000, mtu=1500),
     lost_parts),
    (lossy(f"{ANSWER} numgen inc mod 60 == 30", "-n", 40, "--pause", "20ms", "--slow", "30s", port_of="dport", body=b"x" * 40_000, mtu=1500),
     repaired),
]


def start(report, tool):
    """Starts all; gives what waits for their ends and judges them."""
    missing = why_not()
    if missing:
        report.note(f"no packets lost in a network of its own: {missing}")
        return lambda: None
    runs = [(run_in_namespace(lambda work=work: work(tool)), check) for work, check in CASES]

    def finish():
        for wait, check in runs:
            check(report, tool, *wait())
    return finish


def in_namespaces():
    """Names these cases among those of the command line."""
