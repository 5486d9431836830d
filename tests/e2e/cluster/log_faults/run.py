#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Faults of the servers that keep a fleet's log: three of NATS, and a Redis with its replica. What one node has acknowledged holds on another one,
which stands still during the fault, once all is healed. A run fills two nodes, purges before, during and after a fault, heals it, and asks both
nodes for all objects. The closing table counts stale answers, purges that are lost although no node has said so, and what was invalidated.

Without --full each of QUICK once; with it each fault 20 times (--runs), and the split in a network namespace, which needs root and nft."""
import dataclasses
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import time

TESTS = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(TESTS), str(TESTS / "e2e/cluster")]
from bed import namespace
from bed.engines import Cluster, RedisPair
from bed.report import Report, options, settled, until
from fleet.run import Fleet

LIMIT = 120  # seconds; it only ends what hangs
PATHS = [f"/{n}" for n in range(30)]
USERS = (61101, 61102, 61103)


@dataclasses.dataclass
class Row:
    """A line of the table."""
    runs: int = 0
    acknowledged: int = 0
    refused: int = 0
    restored: int = 0
    stale: int = 0
    silent: int = 0
    caches: int = 0


def copies_of(place, to):
    """What a disk has while nothing is written."""
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(place, to)


def put_back(place, saved):
    shutil.rmtree(place)
    shutil.copytree(saved, place)


def flip(draw, file):
    """Flips a drawn bit."""
    data = bytearray(file.read_bytes())
    at = draw.randrange(len(data))
    data[at] ^= 1 << draw.randrange(8)
    file.write_bytes(data)
    return f"bit of byte {at} of {len(data)} in {file.name}"


class NatsFaults:
    """What befalls three servers of NATS. `prepare` comes before the purges that a fault may lose, `heal` after those during it."""
    make, word = Cluster, "nats"

    def __init__(self, fleet, draw):
        self.fleet, self.engine, self.draw, self.victim = fleet, fleet.engine, draw, 0

    def leader(self):
        return settled(LIMIT, lambda: self.engine.leader(self.fleet.name), lambda n: n is not None)[1]

    def wait_for_election(self, former):
        if not until(LIMIT, lambda: self.engine.follows_another(self.fleet.name, former)):
            raise SystemExit(f"nobody is elected in the place of s{former}:\n{self.engine.condition(self.fleet.name)}")

    def saved(self, n):
        return self.engine.dir / f"saved{n}"

    def save(self):
        """As the disks are at one moment."""
        for proc in self.engine.procs:
            proc.send_signal(signal.SIGSTOP)
        for n in range(3):
            copies_of(self.engine.data(n), self.saved(n))
        for proc in self.engine.procs:
            proc.send_signal(signal.SIGCONT)

    def restart(self, servers, change=lambda n: None):
        for n in servers:
            self.engine.end(n)
        for n in servers:
            change(n)
        for n in servers:
            self.engine.start(n)

    def power_cut(self):
        """All lose their power: their disks have what was synced last."""
        yield self.save()
        yield self.restart(range(3), lambda n: put_back(self.engine.data(n), self.saved(n)))
        yield None

    def one_power_cut(self):
        """The leader alone loses its power, and what it hasn't synced."""
        yield self.save()
        leader = self.leader()
        yield self.restart([leader], lambda n: put_back(self.engine.data(n), self.saved(n)))
        yield None

    def flipped_bit(self):
        """A bit of the leader's entries is flipped while it is down; then the others die, so that it may lead again."""
        yield None
        leader = self.leader()
        blocks = lambda n: sorted(self.engine.data(n).glob(f"jetstream/*/streams/LACQUER_{self.fleet.name}/msgs/*.blk"))
        yield self.restart([leader], lambda n: flip(self.draw, self.draw.choice([b for b in blocks(n) if b.stat().st_size])))
        yield self.restart([n for n in range(3) if n != leader])

    def paused_leader(self):
        """The leader stands still for longer than an election takes."""
        yield None
        leader = self.leader()
        self.engine.procs[leader].send_signal(signal.SIGSTOP)
        yield self.wait_for_election(leader)
        yield self.engine.procs[leader].send_signal(signal.SIGCONT)

    def split_brain(self):
        """The leader is cut off from the other two, but not from the nodes."""
        yield None
        leader = self.leader()
        ports = ", ".join(str(port) for n, port in enumerate(self.engine.routes) if n != leader)
        matches = (f"meta skuid {USERS[leader]} tcp dport {{ {ports} }}", f"meta skuid {USERS[leader]} tcp sport {self.engine.routes[leader]}",
                   f"tcp dport {self.engine.routes[leader]}")
        rules = "table inet split {\nchain out {\ntype filter hook output priority 0;\n" + "".join(f"{match} drop\n" for match in matches) + "}\n}\n"
        subprocess.run(["nft", "-f", "-"], input=rules, text=True, check=True)
        yield self.wait_for_election(leader)
        yield subprocess.run(["nft", "delete", "table", "inet", "split"], check=True)

    def old_backup(self):
        """All get the files of before the purges of this run."""
        if not self.saved(9).exists():
            self.save()
            for n in range(3):
                copies_of(self.saved(n), self.saved(9 + n))
        yield None
        yield self.restart(range(3), lambda n: put_back(self.engine.data(n), self.saved(9 + n)))
        # The next run's backup.
        yield [shutil.rmtree(self.saved(9 + n)) for n in range(3)]

    def disk_full(self):
        """The leader's disk has no room."""
        yield None
        leader = self.leader()
        filler = self.engine.data(leader) / "filler"
        fill(filler)
        yield None
        filler.unlink()
        # NATS then says `JetStream out of resources, will be DISABLED`, and takes nothing there until it is restarted.
        yield self.restart([leader])


class RedisFaults:
    """What befalls a Redis with a replica."""
    make, word = RedisPair, "redis"

    def __init__(self, fleet, draw):
        self.fleet, self.engine, self.draw = fleet, fleet.engine, draw

    def save(self, name):
        first = self.engine.first
        first.stop()
        copies_of(first.data, first.dir / name)
        first.go_on()

    def restart(self, change):
        """The first one dies and begins again; the replica takes what that has."""
        first = self.engine.first
        first.end()
        change()
        first.start()
        until(LIMIT, self.engine.is_linked)

    def power_cut(self):
        """The first one's disk has what was synced some entries ago, as if with appendfsync everysec; the replica follows it."""
        yield self.save("saved")
        yield self.restart(lambda: put_back(self.engine.first.data, self.engine.first.dir / "saved"))
        yield None

    def flipped_bit(self):
        """A bit of the append-only file is flipped. A file that Redis refuses is cut by redis-check-aof, as its manual says."""
        yield None
        yield self.restart(self.flip)
        yield None

    def flip(self):
        data = self.engine.first.data / "appendonlydir"
        file = max(data.glob("*.incr.aof"), key=lambda one: one.stat().st_size)
        flip(self.draw, file)
        manifest = next(data.glob("*.manifest"))
        subprocess.run(["redis-check-aof", "--fix", str(manifest)], input="y\n", text=True, stdout=subprocess.DEVNULL, check=True)

    def paused_master(self):
        """The master stands still, the replica is promoted, and the old master then follows it, until they change places again."""
        yield None
        first, second = self.engine.first, self.engine.second
        first.stop()
        second.ask("REPLICAOF", "NO", "ONE")
        appends_to = lambda: self.fleet.nodes[0].status()["append"].get("server", "")
        yield until(LIMIT, lambda: str(second.port) in appends_to())
        first.go_on()
        yield self.change_places()

    def split_brain(self):
        """The replica is promoted while the master serves: two masters. The second one's entries stay."""
        yield None
        self.engine.second.ask("REPLICAOF", "NO", "ONE")
        yield None
        yield self.change_places()

    def change_places(self):
        """The second one's state becomes that of both, and the first one is the master again."""
        first, second = self.engine.first, self.engine.second
        first.ask("REPLICAOF", "127.0.0.1", second.port)
        until(LIMIT, lambda: b"master_link_status:up" in first.info())
        first.ask("REPLICAOF", "NO", "ONE")
        second.ask("REPLICAOF", "127.0.0.1", first.port)
        until(LIMIT, self.engine.is_linked)

    def old_backup(self):
        """The first one gets the file of before the purges of this run."""
        first = self.engine.first
        if not (first.dir / "old").exists():
            self.save("old")
        yield None
        yield self.restart(lambda: put_back(first.data, first.dir / "old"))
        yield shutil.rmtree(first.dir / "old")

    def disk_full(self):
        """The master's disk has no room."""
        yield None
        filler = self.engine.first.data / "filler"
        fill(filler)
        yield None
        filler.unlink()
        # A Redis that couldn't write its file ends, as with appendfsync always it may have acknowledged what isn't there.
        if self.engine.first.proc.poll() is not None:
            self.engine.first.start()
        yield until(LIMIT, self.engine.is_linked)


def fill(filler):
    """Takes all room of a small disk."""
    with open(filler, "wb", buffering=0) as f:
        try:
            while f.write(b"\0" * 65536):
                pass
        except OSError:
            pass


class SmallDisks(Cluster):
    """Each server has a disk of its own, of 24 MB."""

    def start(self, n):
        self.data(n).mkdir(exist_ok=True)
        if not self.data(n).is_mount():
            mount(self.data(n))
        super().start(n)

    def close(self):
        for proc in self.procs:
            proc.kill()
            proc.wait()
        for n in range(3):
            subprocess.run(["umount", self.data(n)], check=True)
        super().close()


class SmallDisk(RedisPair):
    def __init__(self, _secure=False):
        super().__init__()
        first = self.first
        first.end()
        mount(first.data)
        first.start()
        until(LIMIT, self.is_linked)

    def close(self):
        self.second.close()
        self.first.end()
        subprocess.run(["umount", self.first.data], check=True)
        self.first.close()


def mount(place):
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "lacquer-small", place], check=True)


def users_of(_secure=False):
    return Cluster(users=USERS)


def why_not(name, faults):
    """What is missing for a fault, if anything is."""
    if name == "disk_full" and os.geteuid():
        return "a small disk needs root"
    if name == "split_brain" and faults is NatsFaults:
        return namespace.why_not()
    return ""


# Each fault with servers as it needs them. Clocks don't jump here: NATS asks the kernel by itself, and Debian's Redis (jemalloc) and libfaketime wait
# for each other. The simulator has nodes whose clocks jump.
FAULTS = {
    NatsFaults: {"power_cut": Cluster, "one_power_cut": Cluster, "flipped_bit": Cluster, "paused_leader": Cluster, "split_brain": users_of,
                 "old_backup": Cluster, "disk_full": SmallDisks},
    RedisFaults: {"power_cut": RedisPair, "flipped_bit": RedisPair, "paused_master": RedisPair, "split_brain": RedisPair, "old_backup": RedisPair,
                  "disk_full": SmallDisk},
}
# The faults that surely take acknowledged entries from the log.
LOSING = ("power_cut", "old_backup")
QUICK = {NatsFaults: ("power_cut",), RedisFaults: ("power_cut", "flipped_bit")}


def purge(fleet, row, paths, lost):
    """Purges on the first node. A path whose purge isn't acknowledged may be stale from then on; after the first of these no more is asked for."""
    for path in paths:
        fleet.pages.change(path)
        if fleet.nodes[0].ask(path, "PURGE").status == 200:
            row.acknowledged += 1
            lost.discard(path)
        else:
            row.refused += 1
            lost.add(path)
            break


def tell_condition(report, fleet):
    """Nodes can't agree where servers don't: whose fault it is, by the servers' own word."""
    if isinstance(fleet.engine, Cluster):
        report.note(f"the servers say:\n{fleet.engine.condition(fleet.name)}")


def agree(fleet):
    """All follow the log, to its end, and nothing is owed to it."""
    def is_there():
        all_of = [node.status() for node in fleet.nodes]
        return (len({(s["applied"], s["head"]) for s in all_of}) == 1
                and all(s["follow"]["up"] and s["append"]["up"] and s["serves"] == "all" and not s["lag"] and not s["owed"] for s in all_of))
    return until(LIMIT, is_there)


def sum_of(fleet, name):
    return sum(node.status()[name] for node in fleet.nodes)


def once(report, fleet, faults, name, row):
    """One run of a fault."""
    draw, lost = faults.draw, set()
    a, b = fleet.nodes
    before = {word: [node.status()[word] for node in fleet.nodes] for word in ("gaps", "restored")}
    a.walk(PATHS), b.walk(PATHS)
    paths = draw.sample(PATHS, 24)
    steps = getattr(faults, name)()
    purge(fleet, row, paths[:6], lost)
    if not agree(fleet):
        return report.check(False, f"{name}: they agree before: {[n.status() for n in fleet.nodes]}")
    next(steps)
    # The node hasn't seen what the log then loses.
    worker = b.v.worker() if row.runs % 2 == 0 else None
    if worker:
        os.kill(worker, signal.SIGSTOP)
    try:
        purge(fleet, row, paths[6:14], lost)
        next(steps)
        purge(fleet, row, paths[14:20], lost)
        next(steps)
    finally:
        if worker:
            os.kill(worker, signal.SIGCONT)
    purge(fleet, row, paths[20:], lost)
    if not report.check(agree(fleet), f"{name}: they agree once it is healed: {[n.status() for n in fleet.nodes]}"):
        tell_condition(report, fleet)
    row.runs += 1
    gaps = [node.status()["gaps"] - was for node, was in zip(fleet.nodes, before["gaps"])]
    for node, gap in zip(fleet.nodes, gaps):
        stale = [text for text in node.walk(PATHS) if text.split(":")[0] not in lost]
        row.stale += len(stale)
        row.silent += 0 if gap else len(stale)
        report.check(not stale, f"{name}, run {row.runs}: stale on {node.name}: {stale[:3]}")
    row.caches += sum(gaps)
    restored = sum_of(fleet, "restored") - sum(before["restored"])
    row.restored += restored
    report.check(name not in LOSING or restored or sum(gaps), f"{name}, run {row.runs}: the log has lost nothing, so the fault proves nothing")
    # The next run begins without doubts.
    is_ready = all(until(LIMIT, lambda: a.ask(path, "PURGE").status == 200) for path in sorted(lost)) and agree(fleet)
    if not is_ready:
        tell_condition(report, fleet)
    return report.check(is_ready, f"{name}: they agree before the next run: {[n.status() for n in fleet.nodes]}")


def case(report, o, faults, name, runs):
    row, draw = Row(), random.Random(f"{o.seed} {faults.__name__} {name}")
    begin = time.monotonic()
    with Fleet(o, FAULTS[faults][name], 2, settings=",patience=3s,wait=60s") as fleet:
        report.check(fleet.follow(), f"{name}: both follow the log: {[n.status() for n in fleet.nodes]}")
        instance = faults(fleet, draw)
        for _ in range(runs):
            if not once(report, fleet, instance, name, row):
                break
    report.check(row.runs == runs and row.acknowledged >= 10 * runs, f"{name}: {row}")
    report.note(f"{faults.make.kind}: {name}: {runs} runs took {time.monotonic() - begin:.0f} s")
    return row


def main():
    names = [f"{faults.word}.{name}" for faults, all_of in FAULTS.items() for name in all_of]
    o = options(__doc__, cases=names, runs={"type": int, "default": 0, "help": "runs of each fault (20 with --full, else 1)"})
    report, rows = Report("log_faults"), []
    runs = o.runs or (20 if o.full else 1)
    for (faults, name), label in zip(((f, n) for f, all_of in FAULTS.items() for n in all_of), names):
        if label not in o.cases or not (o.full or o.words or name in QUICK[faults]):
            continue
        if why := why_not(name, faults):
            report.note(f"{label} isn't tried: {why}")
            continue
        work = lambda: rows.append((faults.make.kind, name, case(report, o, faults, name, runs)))
        in_namespace = name == "split_brain" and faults is NatsFaults
        work.__name__ = label
        report.run([namespace.run_in_namespace(work) if in_namespace else work])
    print("| log | fault | runs | acknowledged | refused | appended again | stale after heal | silent losses | caches invalidated |")
    print("| --- " * 9 + "|")
    for kind, name, row in rows:
        cells = (row.runs, row.acknowledged, row.refused, row.restored, row.stale, row.silent, row.caches)
        print(f"| {kind} | {name.replace('_', ' ')} | {' | '.join(map(str, cells))} |")
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
