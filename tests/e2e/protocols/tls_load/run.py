#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""TLS under attack and under change: half, slow and silent handshakes, floods; certificates, ticket keys and programs that change
under 64 clients.

Honest clients in a process of their own ask 60 times a second, in turn on a connection that they keep, on a new one, and on one that
is resumed. With --clocks their p99 during an attack is held against that without one. Memory is Pss of all processes of the server.
Reduced: 1,000 half, 400 slow handshakes, 3 rounds; --full: 5,000 and 2,000, 10 rounds. --peer NAME: nginx, haproxy, or hitch with a varnishd
behind it, in the place of ours: what it makes of the attacks is told and not judged. --table FILE: a row for each attack is added to that file.
"""
import hashlib
import json
import pathlib
import resource
import shutil
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[2]))
sys.path.insert(0, str(HERE.parent / "tls"))
from bed import clocks
from bed.daemon import cpu, die_with_parent, pss, workdir
from bed.origin import Origin, simple
from bed.report import Report, options, until
from bed.sealed import SealedClient, client_context, sealed_get
from keys import ticket_key
from served import Certificates, Ours
import peers

RATE = 60            # honest requests a second
MOST_P99 = 2.0       # of that without an attack
FLOOR_MS = 25.0      # what two processes more on the same cores may cost in any case
LIMIT = 60           # seconds; it only ends what hangs
MOST_EACH = 32 << 10  # bytes of memory of a handshake that isn't finished
MOST_FLOOD = 16 << 20  # bytes more under a flood, whatever its length
HANDSHAKE_TIMEOUT = 3
PATIENT_TIMEOUT = 30  # where the machine may be busy: an honest handshake has that long
ROUND = 1.5          # seconds
STEPS = 3            # of the clients: 50 requests each
PATIENT = ["-p", "timeout_idle=600", "-p", f"tls_handshake_timeout={PATIENT_TIMEOUT}"]
LARGE = bytes(range(256)) * 32768  # more than sockets hold


class Process:
    """One of this suite's programs: says by a line that it has begun, and how it goes on; runs until it is told to end, then says JSON."""

    def __init__(self, program, *words):
        self.p = subprocess.Popen([sys.executable, str(HERE / program), *map(str, words)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  text=True, preexec_fn=die_with_parent)
        self.lines = []
        self.reader = threading.Thread(target=lambda: self.lines.extend(self.p.stdout), daemon=True)
        self.reader.start()
        self.goes_on(1)

    def goes_on(self, steps):
        """Waits for so many lines more."""
        wanted = len(self.lines) + steps
        until(LIMIT, lambda: len(self.lines) >= wanted or self.p.poll() is not None)

    def end(self):
        self.p.stdin.close()
        self.reader.join()
        return json.loads(self.lines[-1] if self.lines else "{}")


def quiet(served, seconds):
    """What honest clients have without an attack."""
    clients = Process("clients.py", *served.sealed, 8, RATE)
    time.sleep(seconds)
    return clients.end()


HEADING = """| server | attack | held | honest p99 without | honest p99 | times | failed | CPU a second | memory each |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |
"""


def tell(o, kind, count, seconds, base, honest, hostile, used, grown):
    """A row of the table, which is begun with its heading."""
    with open(o.table, "a") as out:
        without, p99 = base["all_p99_ms"], honest["all_p99_ms"] or float("inf")
        each = f"{grown / max(1, hostile['open']) / 1024:.1f} KB" if hostile["open"] >= count / 2 else "-"
        out.write(HEADING * (not out.tell()) + f"| {o.peer or 'lacquer'} | {kind} | {count} | {without} ms | {p99} ms | {p99 / without:.1f} | "
                  f"{honest['failed']} of {honest['asked']} | {used / seconds:.2f} s | {each} |\n")


def attack(report, o, served, kind, count, seconds, base):
    """One attack: what is wrong of it, and whether honest clients' p99 is what it may be."""
    before, pid, used = pss(served.pids()), served.worker(), cpu(served.pids())
    attackers = Process("attackers.py", kind, *served.sealed, count)
    clients = Process("clients.py", *served.sealed, 8, RATE)
    peak, end = before, time.monotonic() + seconds
    while time.monotonic() < end:
        peak = max(peak, pss(served.pids()))
        # The attack goes on: how much memory there is in the midst of it.
        time.sleep(0.2)
    honest, hostile = clients.end(), attackers.end()
    used = cpu(served.pids()) - used
    grown, is_flood = peak - before, kind in ("flood", "alerts", "names")
    p99 = honest["all_p99_ms"] or float("inf")
    report.note(f"{kind}, {count}: {hostile}; honest {honest['failed']} of {honest['asked']} failed, p99 {p99} ms "
                f"({base['all_p99_ms']} without, {p99 / base['all_p99_ms']:.1f} times); {used:.1f} s of CPU; Pss {before / 1e6:.1f} -> {peak / 1e6:.1f} MB"
                + ("" if is_flood else f", {grown / max(1, hostile['open']) / 1024:.1f} KB each"))
    if o.table:
        tell(o, kind, count, seconds, base, honest, hostile, used, grown)
    if o.peer:
        return True
    report.check(honest["asked"] > (seconds * RATE / 3 if o.clocks else 0) and not honest["failed"], f"{kind}: honest requests failed: {honest['why']}, {honest['asked']} asked")
    most = MOST_FLOOD if is_flood else count * MOST_EACH
    report.check(grown <= most, f"{kind}: {grown >> 20} MB more, at most {most >> 20} may be")
    back = until(LIMIT, lambda: sealed_get(served.sealed, "/page", client_context(), timeout=LIMIT).whole())
    report.check(back and served.worker() == pid, f"{kind}: no service afterwards, worker {pid} -> {served.worker()}")
    return p99 <= max(MOST_P99 * base["all_p99_ms"], FLOOR_MS)


def asked(o, made, origin):
    """Ours, or the peer that the options name."""
    if o.peer:
        return peers.start(o.peer, o.varnishd, made, origin.address, HANDSHAKE_TIMEOUT)
    args = ["-p", "timeout_idle=600", "-p", f"tls_handshake_timeout={HANDSHAKE_TIMEOUT if o.clocks else PATIENT_TIMEOUT}"]
    return Ours(o.varnishd, made.served, args=args, backend=origin.address)


def attacks(report, o, made, origin):
    times = 5 if o.full else 1
    with asked(o, made, origin) as served:
        sealed_get(served.sealed, "/page", client_context())
        seconds = 14 if o.full else 6 if o.clocks else 3
        base = quiet(served, seconds)
        report.note(f"without attackers: {base}")
        # What else the machine does shows in a p99: where it is judged, the best of three counts.
        tries = 3 if o.clocks else 1
        for kind, count in (("half", 1000 * times), ("half-1.2", 1000 * times), ("slow", 400 * times), ("silent", 1000 * times), ("flood", 500),
                            ("names", 500), ("alerts", 1000)):
            if not o.only or o.only in kind:
                fine = any(attack(report, o, served, kind, count, seconds, base if not n else quiet(served, seconds)) for n in range(tries))
                report.check(fine or not o.clocks, f"{kind}: p99 is more than {MOST_P99} times of that without attackers, {tries} times")


def changes(report, o, made, origin):
    """The certificate's file and the tickets' keys change and are read again, round by round, under 64 clients."""
    leaves = [made.middle.leaf("bed.test", kind=kind) for kind in ("ecdsa", "rsa", "p384")]
    shown = made.dir / "shown.pem"
    shown.write_bytes(leaves[0].pem.read_bytes())

    class Shown:
        pem = shown
    tickets = made.dir / "ticket-keys"
    tickets.write_text(ticket_key())
    with Ours(o.varnishd, (Shown,), f'ticket-keys-file = "{tickets}"\n', args=PATIENT, backend=origin.address) as served:
        pid = served.worker()
        clients = Process("clients.py", *served.sealed, 64, 0)
        for n in range(1, (10 if o.full else 3) + 1):
            leaf = leaves[n % len(leaves)]
            new = shown.with_suffix(".new")
            new.write_bytes(leaf.pem.read_bytes())
            new.rename(shown)
            # A new key for tickets; the one before still opens what it has sealed.
            tickets.write_text(ticket_key() + tickets.read_text().splitlines(True)[0])
            served.cli.ask("tls.cert.reload")
            begin = time.monotonic()
            got = until(LIMIT, lambda: fingerprint(served) == leaf.fingerprint())
            report.check(got, f"round {n}: the new certificate isn't shown after {time.monotonic() - begin:.1f} s")
            clients.goes_on(STEPS)
            time.sleep(ROUND)
        honest = clients.end()
        report.note(f"reloads under 64 clients: {honest}")
        report.check(honest["asked"] > 100 and not honest["failed"], f"reloads: {honest['failed']} of {honest['asked']} failed: {honest['why']}")
        report.check(honest["resumed"] > honest["asked"] / 10, f"changed keys: {honest['resumed']} of {honest['asked']} resumed")
        report.check(len(honest["shown"]) == len(leaves), f"clients saw {len(honest['shown'])} of {len(leaves)} certificates")
        report.check(served.worker() == pid, f"reloads: worker {pid} -> {served.worker()}")


def upgrades(report, o, made, origin):
    """Another worker takes over, round by round, under 64 clients; one has half an answer, one is idle."""
    with Ours(o.varnishd, made.served, args=["-p", "upgrade_drain=600", *PATIENT], backend=origin.address) as served:
        rounds, workers = 5 if o.full else 2, {served.worker()}
        slow = SealedClient(served.sealed, client_context(), rcvbuf=8192)
        slow.send(b"GET /large HTTP/1.1\r\nHost: bed.test\r\n\r\n")
        idle = SealedClient(served.sealed, client_context())
        report.check(idle.request("/page").whole(), "an answer before")
        clients = Process("clients.py", *served.sealed, 64, 0)
        for n in range(rounds):
            clients.goes_on(STEPS)
            time.sleep(ROUND)
            status, text = served.cli.ask_raw("upgrade")
            report.check(status == 200, f"upgrade {n + 1}: {status} {text}")
            workers.add(served.worker())
        report.check(len(workers) == rounds + 1, f"{rounds} upgrades: workers {workers}")
        r = idle.request("/page")
        report.check(r.whole() and r.get("Connection") == "close", f"an idle connection gets its answer and is told to end: {r} {r.fields}")
        report.check(ended_by_tls(idle), "and its end is told by TLS")
        r = slow.response()
        report.check(r.whole() and r.body == LARGE, f"an answer half read goes on: {r} {r.reason}")
        slow.close()
        clients.goes_on(STEPS)
        time.sleep(ROUND)
        honest = clients.end()
        report.note(f"{rounds} upgrades under 64 clients: {honest}")
        report.check(honest["asked"] > 100 and not honest["failed"], f"upgrades: {honest['failed']} of {honest['asked']} failed: {honest['why']}")
        report.check(honest["resumed"] > honest["asked"] / 10, f"upgrades: {honest['resumed']} of {honest['asked']} resumed")
        report.check(honest["told_to_end"] > 0, "upgrades: nobody was told to end its connection")
        left = until(LIMIT, lambda: [pid for pid in workers - {served.worker()} if pathlib.Path(f"/proc/{pid}").exists()] == [])
        report.check(left, f"workers of before end with their connections: {workers}, {served.worker()}")


def ended_by_tls(client):
    try:
        return client.sock.recv(1) == b""
    except OSError:
        return False


def answer(_method, path, _fields):
    return "Cache-Control: max-age=600\r\n", LARGE if path == "/large" else b"hello" * 200


def fingerprint(served):
    try:
        with SealedClient(served.sealed, client_context(), "bed.test") as c:
            return hashlib.sha256(c.sock.getpeercert(True)).hexdigest()
    except OSError:
        return None


def main():
    o = options(__doc__, only=dict(help="only attacks whose name holds this; `changes`; `upgrades`"), peer=dict(choices=tuple(peers.PEERS), help="who is asked in the place of ours"), table=dict(help="where rows are added"), **clocks.OPTION)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 20000) if hard > 0 else 20000), hard))
    report, files = Report("tls_load"), workdir()
    try:
        made = Certificates(files)
        with Origin(simple(answer)) as origin:
            if o.only not in ("changes", "upgrades"):
                attacks(report, o, made, origin)
            if not o.peer and o.only in (None, "changes"):
                changes(report, o, made, origin)
            if not o.peer and o.only in (None, "upgrades"):
                upgrades(report, o, made, origin)
    finally:
        shutil.rmtree(files, ignore_errors=True)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
