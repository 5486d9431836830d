#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""HTTP/2 towards clients, in raw frames: requests and frames that nobody should send, floods, slow readers; and what honest ones get.

--peer asks Debian's varnishd, nginx, haproxy or h2o instead, which shows that a case is right (README.md has what they do). --words says
which cases to run, by parts of their names. --full: over TLS, too, and longer floods; and h2spec when H2SPEC names it.
"""
import collections
import os
import pathlib
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import abuse
import answers
import crowd
import cuts
import early
import frames
import malformed
import mutated
import peers
import slow
import websocket
from bed import clocks, h2
from bed.beside import beside
from bed.certificates import Authority
from bed.daemon import workdir
from bed.origin import Origin
from bed.report import Report, options
from bed.sealed import client_context
from bed.witness import Witness
from sources import Source

# Group: the module, and whether it wants the origin that remembers octets, or the one that does what a path says.
GROUPS = {"malformed": (malformed, True), "frames": (frames, True), "cuts": (cuts, True), "mutated": (mutated, True), "answers": (answers, False), "slow": (slow, False), "abuse": (abuse, False), "crowd": (crowd, False), "websocket": (websocket, False), "early": (early, False)}
LAX_ALLOWED = 0
OF_TLS = ("malformed", "frames", "answers")  # what is asked over TLS, too
OF_TLS_ALONE = ("websocket", "early")  # in clear it isn't announced, nor do curl and nghttp ask for it


class Bed:
    """A server and its origin; `connect` gives a socket to it."""
    LIMIT = h2.LIMIT

    def __init__(self, o, report, leaf, origin, **more):
        self.o, self.report, self.is_full, self.leaf, self.origin = o, report, o.full, leaf, origin
        self.witness = self.source = origin.serves
        self.context = client_context(alpn=("h2",)) if leaf else None
        self.server = peers.start(o, origin.address, leaf, **more)
        self.process = peers.process(self.server)

    def connect(self, rcvbuf=None):
        return h2.sealed(self.server.address, self.context) if self.context else h2.plain(self.server.address, rcvbuf=rcvbuf)

    def serves(self):
        """Whether a good request on a connection of its own is answered."""
        try:
            with h2.Connection(self.connect()) as c:
                return c.get("/live", self.LIMIT).whole()
        except OSError:
            return False

    def again(self, **more):
        """A bed with a fresh server."""
        return Bed(self.o, self.report, self.leaf, self.origin, **more)

    def is_same(self):
        return peers.process(self.server) == self.process

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.close()


def tell(report, name, groups):
    """The table of what was ok, lax and forbidden."""
    total = collections.Counter()
    for counts in groups.values():
        total.update(counts)
    for group, counts in {**groups, "all": total}.items():
        print(f"     {name} {group:20} {counts['ok']:3} ok {counts['lax']:3} lax {counts['forbidden']:3} forbidden", flush=True)
    report.passed += total["ok"] + min(total["lax"], LAX_ALLOWED)
    report.failed += total["forbidden"] + max(0, total["lax"] - LAX_ALLOWED)


def one(o, report, name, leaf):
    module, is_witnessed = GROUPS[name]
    serves = Witness() if is_witnessed else Source()
    with Origin(serves.serve) as origin:
        origin.serves = serves
        with Bed(o, report, leaf, origin, **({} if o.peer else getattr(module, "OURS", {}))) as bed:
            got = module.run(bed, o.words, o.verbose)
            if got and name == "malformed":
                tell(report, "sealed" if leaf else "clear", got)
            report.check(bed.serves(), f"{name}: nothing is served afterwards")
            report.check(bed.is_same(), f"{name}: the process is another one than at the start")


def main():
    o = options(__doc__, peer=dict(choices=list(peers.PEERS)), group=dict(choices=[*GROUPS, "h2spec"]), sealed=dict(action="store_true", help="over TLS alone"),
                words=dict(nargs="*", default=[]), verbose=dict(action="store_true"), table=abuse.TABLE, **clocks.OPTION)
    report, files = Report("h2"), workdir()
    if o.peer and not peers.is_here(o.peer):
        sys.exit(f"{o.peer} isn't here")
    try:
        leaf = Authority(files / "root", "Test Root").leaf("bed.test")
        is_whole = not (o.group or o.peer or o.sealed or o.words or o.table or o.clocks)
        if is_whole:
            # The longest first.
            names = sorted(GROUPS, key=lambda name: name not in ("abuse", "crowd", "frames"))
            beside(report, o, [["--group", name] for name in names])
        for name in [] if is_whole else GROUPS:
            if o.group not in (None, name):
                continue
            if not o.sealed and name not in OF_TLS_ALONE:
                one(o, report, name, None)
            if o.sealed or name in OF_TLS_ALONE or o.full and name in OF_TLS and o.peer != "varnish":
                one(o, report, name, leaf)
        if o.group == "h2spec" or o.full and os.environ.get("H2SPEC"):
            import h2spec
            h2spec.judge(o, report, leaf)
    finally:
        shutil.rmtree(files, ignore_errors=True)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
