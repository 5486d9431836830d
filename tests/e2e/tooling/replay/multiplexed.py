# SPDX-License-Identifier: BSD-2-Clause
"""`lacquer replay --http2`: what it sends over HTTP/2, and what it counts of what comes back."""
import pathlib
import tempfile

from bed.certificates import Authority
from bed.h2origin import Behaviour, clear, sealed
from bed.origin import Origin, simple
from bed.sealed import server_context

NAME = "replay.test"


class Judging(Behaviour):
    """Answers by the path: /reset, /cut, /refused and /goodbye do what they say, once for those that are sent again."""

    def __init__(self):
        super().__init__(lambda asked: (404 if asked.path == "/missing" else 200, [("age", "3")], b"x" * 1000, None))
        self.again = set()

    def complete(self, connection, at, own):
        path = own.get(":path")
        is_first = path not in self.again
        self.again.add(path)
        if path == "/reset":
            connection.reset(at, 2)
        elif path == "/cut":
            connection.answer(at, 200, [], b"begun", ends=False)
            connection.reset(at, 2)
        elif path == "/goodbye" and is_first:
            connection.goes_away(at)
            super().complete(connection, at, own)
            connection.ends()
        else:
            super().complete(connection, at, own)


def group(report, tool, d):
    paths = [f"/{n}" for n in range(40)] + ["/missing", "/reset", "/cut", "/goodbye"] + [f"/after{n}" for n in range(10)]
    (d / "h2").write_text("".join(f"http://a.test{path}\tCookie: k=v\n" for path in paths))
    b = Judging()
    with clear(b) as origin:
        r = tool.json("--http2", "--to", f"127.0.0.1:{origin.address[1]}", "-c", 1, d / "h2")
        report.check([own.get(":path") for own in b.requests] == paths, f"what arrives: {[own.get(':path') for own in b.requests]}")
        own = b.requests[0]
        report.check((own.get(":authority"), own.get("cookie"), own.get(":scheme")) == ("a.test", "k=v", "http"), f"fields: {own.fields}")
        report.check(r["answers"] == len(paths) - 2, f"answers: {r['answers']}")
        # One connection, and a new one behind each failure and the GOAWAY.
        report.check(len(b.connections) == 4, f"connections: {len(b.connections)}")
        report.check(not b.faults, f"faults: {b.faults}")
    with tempfile.TemporaryDirectory() as root:
        ca = Authority(pathlib.Path(root) / "ca")
        leaf = ca.leaf(NAME)
        b = Judging()
        with sealed(b, server_context(leaf)) as origin:
            r = tool.json("--http2", "--to", f"https://127.0.0.1:{origin.address[1]}", "--sni", NAME, "--ca", ca.cert, "-c", 2, "--requests", 20, d / "h2")
            report.check(r["answers"] == 20 and b.requests and b.requests[0].get(":scheme") == "https", f"by TLS: {r['answers']}")
    with Origin(simple(lambda method, path, fields: ("", b"no"))) as origin:
        r = tool.json("--http2", "--to", f"127.0.0.1:{origin.address[1]}", "-c", 1, "--requests", 3, d / "h2")
        report.check(r["answers"] == 0, f"who speaks HTTP/1 answers nothing: {r['answers']}")
