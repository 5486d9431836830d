# SPDX-License-Identifier: BSD-2-Clause
"""Roll-outs to a fleet's nodes: in stages, taken back where they do harm, and by the nodes themselves when nobody tends them."""
import json
import os
import pathlib
import signal
import subprocess
import threading

from bed.daemon import tree
from bed.http import Client
from bed.report import until
from bed.stores import INVALIDATING_VCL as VCL

LIMIT = 60
SETTINGS = ",group=web,deploy=on"
DELIVER = "sub vcl_deliver { set resp.http.x-version = \"%s\"; }\n"


def text(fleet, version, more=""):
    """A VCL that answers with its version."""
    return VCL % fleet.origin.address[:2] + "\n" + DELIVER % version + more


def write(fleet, version, more="", included=False):
    """Its file; or two, of which one includes the other."""
    file = fleet.dir / f"{version}.vcl"
    if included:
        (fleet.dir / "part.vcl").write_text(DELIVER % version)
        file.write_text(VCL % fleet.origin.address[:2] + f'\ninclude "{fleet.dir}/part.vcl";\n{more}')
    else:
        file.write_text(text(fleet, version, more))
    file.chmod(0o644)
    return str(file)


def begin(o, node, *words):
    lacquer = str(pathlib.Path(o.varnishd).with_name("lacquer"))
    command = [lacquer, "fleet", "deploy", "-n", str(node.v.n), "--group", "web", *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def deploy(o, node, *words):
    """Its exit status, and what it says."""
    p = begin(o, node, *words)
    said = p.communicate(timeout=LIMIT * 3)[0]
    return p.returncode, said


def version(node):
    return node.ask("/").get("x-version")


def deployed(node, name=None):
    """What a node is known to run."""
    nodes = json.loads(node.v.cli.ask("fleet.nodes -j"))[-1]["nodes"]
    return next((n["deployed"] or {} for n in nodes if n["node"] == (name or node.name)), {})


def said_by(node):
    """What its agent said last."""
    return [line.strip() for line in node.v.output if "rollout:" in line][-8:]


def known(fleet):
    """Waits until each node knows all, as ready for roll-outs: whichever begins one counts those that it knows."""
    def is_known():
        lists = [json.loads(node.v.cli.ask("fleet.nodes -j"))[-1]["nodes"] for node in fleet.nodes]
        return all(sum(n["deployed"] is not None and not n["away"] for n in nodes) == len(fleet.nodes) for nodes in lists)
    return until(LIMIT, is_known)


class Load:
    """Asks all nodes until it ends; what each answered."""

    def __init__(self, fleet):
        self.over, self.statuses = threading.Event(), {node.name: [] for node in fleet.nodes}
        self.threads = [threading.Thread(target=self.ask, args=(node,)) for node in fleet.nodes]
        [thread.start() for thread in self.threads]

    def ask(self, node):
        with Client(node.v.address, timeout=LIMIT) as c:
            n = 0
            while not self.over.wait(0.005):
                self.statuses[node.name].append(c.request(f"/{n % 30}").status)
                n += 1

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.over.set()
        [thread.join() for thread in self.threads]

    def errors(self, name):
        return sum(status >= 500 for status in self.statuses[name])


def rolled_out(report, o, make, fleet):
    """A VCL and a parameter go to all, in stages; a node that comes late, and one that comes back, serve nothing before they have them."""
    with fleet(o, make, 3, settings=SETTINGS) as f:
        report.check(known(f), "all take part")
        status, said = deploy(o, f.nodes[1], write(f, "v1", included=True), "--stages", "1,all", "--watch", "2s")
        report.check(status == 0 and "stage 1 of 2: n0\n" in said and "stage 2 of 2: n0, n1, n2\n" in said, f"deploy: {status} {said}")
        report.check("for 3 nodes of the group web: n0, n1, n2\n" in said and "without" not in said, f"it says for whom: {said}")
        report.check([version(n) for n in f.nodes] == ["v1"] * 3, "all answer with it")
        report.check(until(LIMIT, lambda: all(deployed(f.nodes[0], n.name).get("state") == "confirmed" for n in f.nodes)), f"it is confirmed: {deployed(f.nodes[0])}")
        status, said = deploy(o, f.nodes[0], write(f, "v1", included=True), "--stages", "all", "--watch", "0s")
        report.check(status == 0 and "the group web already runs" in said, f"the same again: {said}")
        status, said = deploy(o, f.nodes[2], "--param", "default_ttl=7", "--stages", "all", "--watch", "1s")
        report.check(status == 0, f"a parameter: {status} {said}")
        ttl = lambda n: json.loads(n.v.cli.ask("param.show -j default_ttl"))[-1]["value"]
        report.check([ttl(n) for n in f.nodes] == [7] * 3, f"all have it: {[ttl(n) for n in f.nodes]}")
        late = f.node("late", settings=SETTINGS)
        first = late.ask("/")
        report.check(first.get("x-version") == "v1" and ttl(late) == 7, f"a late node's first answer: {first} {ttl(late)}")
        f.nodes[1].kill()
        f.nodes[1].start()
        first = f.nodes[1].ask("/")
        report.check(first.get("x-version") == "v1" and ttl(f.nodes[1]) == 7, f"the first answer of one that comes back: {first}")
        report.check(known(f), "all are known again")
        status, said = deploy(o, f.nodes[0], write(f, "v2"), "--stages", "all", "--watch", "0s")
        report.check(status == 0 and [version(n) for n in f.nodes] == ["v2"] * 4, f"the next one: {said}")
        # One that has just come is counted, though the node that is asked hasn't looked since; one that takes no part, or is away, is named.
        f.node("apart", settings=",group=web")
        newest = f.node("newest", settings=SETTINGS)
        report.check(until(LIMIT, lambda: deployed(newest).get("state") == "confirmed"), "another one has come")
        status, said = deploy(o, f.nodes[0], "--param", "default_ttl=8", "--stages", "all", "--watch", "0s")
        report.check(status == 0 and "late, n0, n1, n2, newest" in said and "apart: it was started without deploy=on" in said, f"who takes part: {said}")
        newest.kill()
        report.check(until(LIMIT, lambda: "node newest is away" in f.nodes[0].output()), f"it is told who is away: {f.nodes[0].output()[-500:]}")
        status, said = deploy(o, f.nodes[0], "--param", "default_ttl=9", "--stages", "all", "--watch", "0s")
        report.check(status == 0 and "newest: it has been away for " in said and ": late, n0, n1, n2\n" in said, f"who is away is named: {said}")
        newest.start()
        report.check(ttl(newest) == 9, f"and has it when it comes back: {ttl(newest)}")
        f.engine.end()
        alone = f.node("alone", settings=f"{SETTINGS},wait=2s")
        report.check(alone.ask("/").get("x-version") is None, "without the log's server a node serves what it was started with")
        f.engine.start()
        report.check(until(LIMIT, lambda: version(alone) == "v2"), "and what the group runs once it is there")
        other = f.node("other", settings=",group=web")
        report.check(until(LIMIT, lambda: other.follows()) and version(other) is None, "who doesn't say deploy=on takes nothing")
        status, said = deploy(o, other, write(f, "v3"))
        report.check(status == 1 and "deploy=on" in said, f"and can roll out nothing: {said}")


def taken_back(report, o, make, fleet):
    """What doesn't compile, what doesn't on the first node only, and what answers 500 is taken back; other nodes' users see nothing of it."""
    with fleet(o, make, settings=SETTINGS) as f:
        for n in range(3):
            f.node(f"n{n}", settings=SETTINGS, args=("-s", "big=malloc,16m") if n else ())
        report.check(known(f), "all take part")
        a, c = f.nodes[0], f.nodes[2]
        with Load(f) as load:
            status, said = deploy(o, c, write(f, "bad", "sub vcl_recv { nonsense }"), "--stages", "1,all", "--watch", "1s")
            report.check(status == 1 and "nonsense" in said, f"what doesn't compile: {status} {said}")
            status, said = deploy(o, c, write(f, "big", "sub vcl_backend_response { set beresp.storage = storage.big; }"), "--stages", "1,all", "--watch", "1s")
            report.check(status == 1 and "n0: " in said and "big" in said and "aken back" in said, f"what doesn't compile on the first node: {status} {said}")
            report.check(not any(load.errors(n.name) for n in f.nodes), "no error so far")
            status, said = deploy(o, c, write(f, "broken", "sub vcl_recv { return (synth(500)); }"), "--stages", "1,all", "--watch", "20s")
            report.check(status == 1 and "had a status of 500 or more" in said and "aken back" in said, f"what answers 500: {status} {said}")
            report.check(until(LIMIT, lambda: version(a) is None and a.ask("/").status == 200), "the first node runs what it ran")
        report.check(load.errors("n0") > 0 and load.errors("n1") == load.errors("n2") == 0, f"errors: {[load.errors(n.name) for n in f.nodes]}")
        report.comes(lambda: deployed(c, "n0"), lambda said: said.get("state") == "back", "and says so")
        report.comes(lambda: a.v.cli.ask("vcl.list"), lambda listed: "fleet_" not in listed and "boot" in listed, "nothing is left behind")
        status, said = deploy(o, c, write(f, "good"), "--stages", "1,all", "--watch", "1s")
        report.check(status == 0 and [version(n) for n in f.nodes] == ["good"] * 3, f"a good one goes through: {said}")


def untended(report, o, make, fleet):
    """Whoever rolls out is killed in the midst of it: the nodes go back by themselves, and the next one can begin. The same when the log's server goes."""
    with fleet(o, make, 3, settings=SETTINGS) as f:
        report.check(known(f), "all take part")
        a, b = f.nodes[0], f.nodes[1]
        p = begin(o, b, write(f, "v1"), "--stages", "1,all", "--watch", "60s")
        report.check(until(LIMIT, lambda: version(a) == "v1"), "the first node uses it")
        status, said = deploy(o, f.nodes[2], write(f, "other"))
        report.check(status == 1 and "is already rolling out" in said, f"two at once: {said}")
        p.send_signal(signal.SIGKILL)
        p.communicate()
        report.check(until(LIMIT, lambda: version(a) is None), "it goes back by itself")
        report.check(until(LIMIT, lambda: "n't renewed" in deployed(b, "n0").get("why", "")), f"and says why: {deployed(b, 'n0')}")
        status, said = deploy(o, b, write(f, "v2"), "--stages", "1,all", "--watch", "0s")
        report.check(status == 0 and [version(n) for n in f.nodes] == ["v2"] * 3, f"the next one: {status} {said}")
        p = begin(o, b, write(f, "v3"), "--stages", "1,all", "--watch", "60s")
        report.check(until(LIMIT, lambda: version(a) == "v3"), "the first node uses another")
        f.engine.end()
        said = p.communicate(timeout=LIMIT)[0]
        report.check(p.returncode == 1, f"the log's server goes: {said}")
        report.check(until(LIMIT, lambda: version(a) == "v2"), f"it goes back to what was confirmed: {version(a)} {said_by(a)}")
        f.engine.start()
        report.check(until(LIMIT, lambda: known(f)), "the server is there again")
        report.check([version(n) for n in f.nodes] == ["v2"] * 3, "all run what was confirmed")


def agent_of(node):
    """The process that does what is rolled out."""
    return next((pid for pid in tree(node.v.proc.pid) if b"lacquer-rollout" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()), None)


def orphaned(report, o, make, fleet):
    """The agent of a node dies in a trial: while the log's server is there the trial goes on; when that goes, too, the node goes back by itself."""
    with fleet(o, make, 2, settings=SETTINGS) as f:
        report.check(known(f), "all take part")
        a, b = f.nodes
        p = begin(o, b, write(f, "v1"), "--param", "default_ttl=7", "--stages", "1,all", "--watch", "8s")
        report.check(until(LIMIT, lambda: version(a) == "v1"), "the first node uses it")
        os.kill(agent_of(a), signal.SIGKILL)
        said = p.communicate(timeout=LIMIT * 3)[0]
        report.check(p.returncode == 0 and [version(n) for n in f.nodes] == ["v1"] * 2, f"it goes on: {said}")
        ttl = lambda: json.loads(a.v.cli.ask("param.show -j default_ttl"))[-1]["value"]
        p = begin(o, b, write(f, "v2"), "--param", "default_ttl=9", "--stages", "1,all", "--watch", "60s")
        report.check(until(LIMIT, lambda: version(a) == "v2" and ttl() == 9), f"the first node uses another: {version(a)} {ttl()}")
        status, text = a.v.cli.ask_raw("upgrade")
        report.check(status == 300 and b"on trial" in text, f"in a trial nothing is upgraded: {status} {text}")
        f.engine.end()
        os.kill(agent_of(a), signal.SIGKILL)
        report.check(until(LIMIT, lambda: version(a) == "v1" and ttl() == 7), f"it goes back: {version(a)} {ttl()} {said_by(a)}")
        p.communicate(timeout=LIMIT)
        report.check(p.returncode == 1, f"who rolls out is told: {p.returncode}")
        report.comes(lambda: a.v.cli.ask("fleet.kept"), "", "what is kept of it")


def leader_dies(report, o, cluster, fleet):
    """Three servers of NATS: the one that leads what is rolled out is killed in a trial. It goes through."""
    with fleet(o, cluster, 3, settings=SETTINGS + ",patience=20s,wait=60s") as f:
        report.check(until(LIMIT, lambda: known(f)), "all take part")
        p = begin(o, f.nodes[1], write(f, "v1"), "--stages", "1,all", "--watch", "12s")
        report.check(until(LIMIT, lambda: version(f.nodes[0]) == "v1"), "the first node uses it")
        leader = f.engine.leader(f.name, "LACQUER-BOARD")
        f.engine.procs[leader].kill()
        said = p.communicate(timeout=LIMIT * 3)[0]
        report.check(p.returncode == 0 and [version(n) for n in f.nodes] == ["v1"] * 3, f"it goes through: {said} {[version(n) for n in f.nodes]}")
        status, said = deploy(o, f.nodes[2], write(f, "v2"), "--stages", "1,all", "--watch", "1s")
        report.check(status == 0 and [version(n) for n in f.nodes] == ["v2"] * 3, f"the next one, with two servers: {said}")


CASES = (rolled_out, taken_back, untended, orphaned)
