#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Several processes as one run: what they send together is what one would have sent, and who is lost is told."""
import collections
import contextlib
import json
import pathlib
import re
import signal
import socket
import sys
import tempfile
import threading

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[2]), str(HERE.parent / "replay")]
from bed.daemon import Varnishd
from bed.origin import Nginx, Origin, simple
from bed.report import Report, options, until
from kit import GENUINE, LIMIT, STAMP, Ear, Tool, log_of, stat

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Workers:
    """So many `--serve` processes."""

    def __init__(self, tool, n, *args):
        self.processes = [tool.start("--serve", "0", *args) for _ in range(n)]
        self.addresses = [re.search(rb"at (\S+)", p.stdout.readline())[1].decode() for p in self.processes]

    @property
    def words(self):
        return ["--workers", ",".join(self.addresses)]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for p in self.processes:
            if p.poll() is None:
                p.send_signal(signal.SIGINT)
        self.ended = [(p.wait(LIMIT), p.stderr.read().decode()) for p in self.processes]


def sums(report, tool, d):
    """Each request is sent once, by whoever; counts equal the server's; sources, hosts and methods are as with one process."""
    n = 3000
    log = d / "fleet.log"
    log.write_text("".join(line + "\n" for line in log_of(n, 30, 500, 9)))
    want = collections.Counter((m[1], f"www{m[2]}.test", m[3]) for m in re.finditer(r'"(\w+) http://www(\d+)\.test(\S+) ', log.read_text()))
    with Workers(tool, 3) as workers:
        with Ear() as ear:
            r = tool.json("--to", ear.address, *workers.words, "-c", 7, log)
            report.check(collections.Counter(ear.asked()) == want, f"three workers send {len(ear.heard)} of {n}")
            report.check((r["sent"], r["answers"], r["end"], r["source"]["requests"]) == (n, n, "done", n), f"they add up: {r['sent']} {r['answers']} {r['end']}")
            report.check(r["latency_ms"]["count"] == n == sum(w["answers"] for w in r["workers"]), "every latency is counted once")
            report.check(all(w["answers"] > 100 for w in r["workers"]), f"each has its share: {[w['answers'] for w in r['workers']]}")
            # This origin answers HEAD with a body, which costs the connection.
            heads = sum(count for (method, *_), count in want.items() if method == "HEAD")
            report.check(r["connections"] == 7 + heads == ear.connections, f"connections are divided: {r['connections']} {ear.connections}")
        # The same workers again: few requests, two addresses, what is left out.
        (d / "few").write_text("http://a.test/1\nhttp://b.test/2\nPOST http://a.test/3\nhttp://b.test/4\nnonsense\n")
        with Ear() as one, Ear() as two:
            r = tool.json("--to", one.address, "--map", f"b.test={two.address}", *workers.words, "-H", "X-A: b", d / "few")
            report.check([a[2] for a in one.asked()] == ["/1"] and sorted(a[2] for a in two.asked()) == ["/2", "/4"], f"hosts: {one.asked()} {two.asked()}")
            report.check(r["source"]["skipped"]["other_method"] == 1 and one.heard[0][3].get("x-a") == "b", f"what is left out: {r['source']}")
        for name, program in [("lacquer", tool.varnishd), ("varnishd", GENUINE)]:
            with Origin(simple(lambda *_: ("Cache-Control: max-age=100\r\n", b"body"))) as origin, Varnishd(program, backend=origin.address) as v:
                r = tool.json("--to", "%s:%d" % v.address, *workers.words, "--pid", v.proc.pid, log)
                by = r["cache"]["by"]["X-Varnish"]
                got = until(60, lambda: (c := stat(program, v.n))["cache_hit"] + c["cache_miss"] >= n and c)
                report.check(got and (by["told"], by["hits"]) == (n, got["cache_hit"]), f"{name}: hits {by}, {stat(program, v.n)}")
                report.check(r["server"]["cpu_seconds"] > 0 and r["client"]["cpu_seconds"] > 0, f"{name}: CPU of both ends")
        status, out, err = tool.run("--to", "127.0.0.1:1", *workers.words, "--give-up", "500ms", "--loop", "-d", 60, d / "few")
        report.check(status == 1 and "given up" in out and out.count("worker ") >= 3, f"a server that isn't there: {status} {out[-300:]!r}")
    report.check(all(status == 0 for status, _ in workers.ended), f"Ctrl-C ends a worker: {workers.ended}")


def pacing(report, tool, d):
    """Rates are divided, and the log's clock holds for all together: nothing is sent before its time. How late: tests/timing/replay."""
    (d / "list").write_text("".join(f"/{i}\n" for i in range(1000)))
    with Workers(tool, 4) as workers:
        with Ear() as ear:
            r = tool.json("--to", ear.address, *workers.words, "--rate", 200, "--requests", 300, "--loop", d / "list")
            report.check((r["answers"], r["end"], len(ear.heard)) == (300, "done", 300), f"200 a second from four: {r['answers']} {r['end']}")
            report.check(r["seconds"] > 1.4 and sum(r["series"]["answers"]) <= 300, f"over a second and a half: {r['seconds']} {r['series']['answers']}")
            report.check(all(w["answers"] == 75 for w in r["workers"]), f"a quarter each: {[w['answers'] for w in r['workers']]}")
        with Ear() as ear:
            r = tool.json("--to", ear.address, *workers.words, "--rate", 200, "-d", 1, "--loop", d / "list")
            report.check(r["sent"] + r["unsent"] == 200 and r["end"] == "time", f"for a second: {r['sent']} {r['unsent']} {r['end']}")
        stamps = [0, 0, 0, 0, 1, 2, 3, 4]
        lines = [f'1.1.1.1 - - {STAMP % s} "GET /{i} HTTP/1.1" 200 1' for i, s in enumerate(stamps)]
        with Ear() as ear:
            r = tool.json("--to", ear.address, *workers.words, "--speed", 4, "-", stdin="\n".join(lines).encode())
            asked = sorted(p for *_, p in ear.asked())
            report.check(asked == [f"/{i}" for i in range(8)] and r["seconds"] > 0.95, f"--speed 4 by four: {asked} in {r['seconds']} s")
        # A stall of the server is charged to all who had to wait, whoever sent.
        gate, turn = threading.Event(), threading.Semaphore(0)

        def answer(path):
            turn.release()
            gate.wait(LIMIT)
            return OK

        def opens():
            for _ in range(8):
                turn.acquire(timeout=LIMIT)
            threading.Event().wait(0.5)  # the stall
            gate.set()
        threading.Thread(target=opens, daemon=True).start()
        with Ear(answer) as ear:
            r = tool.json("--to", ear.address, *workers.words, "--rate", 400, "--requests", 600, "-c", 8, "--loop", d / "list")
            report.check(r["answers"] == 600 and r["latency_ms"]["p99"] > 400, f"a stall: {r['latency_ms']}")
            report.check(r["slowest"] and r["slowest"][0]["ms"] > 400, f"the slowest of all: {r['slowest'][:1]}")
        # A slow log is sent at once, whoever is next.
        with Ear() as ear:
            p = tool.start("--to", ear.address, *workers.words, "-", "--format", "json", stdin=-1)
            for i in range(5):
                p.stdin.write(b"/%d\n" % i)
                p.stdin.flush()
                report.check(until(60, lambda: len(ear.heard) == i + 1), f"line {i} of a slow log is sent at once")
            out, _ = p.communicate(timeout=LIMIT)
            report.check(json.loads(out)["answers"] == 5, "a slow log")


def parts(report, tool, d):
    """Passes, a ramp, a walker, a number of requests, warm-up."""
    (d / "pages").write_text("".join(f"/{i}\n" for i in range(50)))
    (d / "site").write_text("".join(f"/site{i}\n" for i in range(5)))
    with Workers(tool, 2) as workers:
        with Origin(simple(lambda *_: ("Cache-Control: max-age=100\r\n", b"body"))) as origin, Varnishd(tool.varnishd, backend=origin.address) as v:
            r = tool.json("--to", "%s:%d" % v.address, *workers.words, "--passes", 3, d / "pages")
            hits = [p["cache"]["by"]["X-Varnish"]["hits"] for p in r["passes"]]
            report.check(hits == [0, 50, 50] and [p["answers"] for p in r["passes"]] == [50] * 3, f"cold and hot: {hits}")
        with Ear() as ear:
            r = tool.json("--to", ear.address, *workers.words, "--loop", "--requests", 777, d / "pages")
            report.check(r["answers"] == 777 == len(ear.heard), f"--requests: {r['answers']}")
        with Ear() as ear:
            r = tool.json("--to", ear.address, *workers.words, "--loop", "-d", 1, "-c", 2, "--walker", d / "site", "--walker-rate", 20, d / "ten")
            walked = [p for *_, p in ear.asked() if p.startswith("/site")]
            report.check(0 < len(walked) <= 20 and walked == [f"/site{i % 5}" for i in range(len(walked))], f"one walker, in order: {len(walked)}")
            report.check(r["walker"]["answers"] == len(walked) and r["answers"] == len(ear.heard) - len(walked), f"counted by itself: {r['walker']['answers']}")
        # Two connections and 100 ms a response: 20 a second at most.
        with Ear(lambda path: threading.Event().wait(0.1) or OK) as ear:
            r = tool.json("--to", ear.address, *workers.words, "-c", 2, "--loop", "--ramp", "4:84:80", "--hold", "2s", "--until", "p50>500ms", d / "ten")
            report.check((r["last_good_rate"], r["limit_passed"], len(r["steps"])) == (4, "p50>500ms", 2), f"a ramp: {r['last_good_rate']} {r['limit_passed']}")
        with Ear() as ear:
            r = tool.json("--to", ear.address, *workers.words, "--rate", 100, "--warmup", 1, "-d", 1, "--loop", d / "ten")
            report.check(len(ear.heard) > r["answers"] > 0, f"--warmup: {len(ear.heard)} {r['answers']}")


def losses(report, tool, d):
    """Who dies, is stopped or leaves is told, the rest goes on; no coordinator, no load."""
    with Ear() as ear, Workers(tool, 3) as workers:
        p = tool.start("--to", ear.address, *workers.words, "--rate", 100, "-d", 6, "--loop", "--format", "json", d / "ten")
        until(60, lambda: len(ear.heard) > 150)
        workers.processes[1].kill()
        out, _ = p.communicate(timeout=LIMIT)
        r = json.loads(out)
        lost = [bool(w["lost"]) for w in r["workers"]]
        report.check(p.returncode == 1 and lost == [False, True, False], f"one of three is killed: {p.returncode} {lost}")
        ends = [w["end"] for w in r["workers"][::2]]
        report.check(ends == ["time"] * 2, f"the others go on until the end: {ends}")
        report.check(r["workers"][1]["answers"] > 0 and 150 <= r["answers"] <= len(ear.heard), f"what it had counted is in the report: {r['workers'][1]} {r['answers']}")
        report.check(any(workers.addresses[1] in n and "lost" in n for n in r["notes"]), f"it is told: {r['notes']}")
        # Ctrl-C at a worker: it says what it has, and the others go on; the next run misses it.
        p = tool.start("--to", ear.address, "--workers", ",".join(workers.addresses[::2]), "--rate", 100, "-d", 6, "--loop", "--format", "json", d / "ten")
        before = len(ear.heard)
        until(60, lambda: len(ear.heard) > before + 20)
        workers.processes[2].send_signal(signal.SIGINT)
        r = json.loads(p.communicate(timeout=LIMIT)[0])
        report.check(r["workers"][1]["end"] == "interrupted" and r["workers"][0]["end"] == "time" == r["end"], f"Ctrl-C at a worker: {r['end']} {r['workers']}")
        report.check(p.returncode == 1 and is_told(r, workers.addresses[2]), f"Ctrl-C at a worker is told: {p.returncode} {r['notes']}")
        status, _, err = tool.run("--to", ear.address, *workers.words, d / "ten")
        report.check(status == 1 and workers.addresses[1] in err and "refused" in err, f"who isn't there: {status} {err!r}")
        # Ctrl-C at the coordinator: the report of what there is.
        one = ["--workers", workers.addresses[0]]
        p = tool.start("--to", ear.address, *one, "--loop", "-d", 60, "--format", "json", d / "ten")
        before = len(ear.heard)
        until(60, lambda: len(ear.heard) > before + 50)
        p.send_signal(signal.SIGINT)
        out, err = p.communicate(timeout=LIMIT)
        r = json.loads(out)
        report.check(p.returncode == 0 and r["end"] == "interrupted" and r["answers"] > 50 and not err, f"Ctrl-C: {p.returncode} {r['end']} {err!r}")
        # Ctrl-C at one of two workers in the first pass: the other goes through all passes. At the only worker: the run has failed.
        with Ear(lambda path: threading.Event().wait(0.002) or OK) as slow, Workers(tool, 2) as pair:
            for at, words in ((1, ["--passes", 3]), (0, ["--loop", "-d", 60])):
                p = tool.start("--to", slow.address, "--workers", ",".join(pair.addresses[:at + 1]), "-c", at + 1, *words, "--format", "json", d / "many")
                before = len(slow.heard)
                until(60, lambda: len(slow.heard) > before + 50)
                pair.processes[at].send_signal(signal.SIGINT)
                r = json.loads(p.communicate(timeout=LIMIT)[0])
                passes = r.get("passes", [r])
                told = all(is_told(one, pair.addresses[at]) for one in passes)
                report.check(p.returncode == 1 and told, f"Ctrl-C at a worker, {words}: {p.returncode} {[one['notes'] for one in passes]}")
                ends = [one["end"] for one in passes]
                report.check(ends == (["done"] * 3 if at else ["gave_up"]), f"Ctrl-C at a worker, {words}: {ends}")
        # A coordinator that is killed: its worker stops, and takes the next run.
        p = tool.start("--to", ear.address, *one, "--loop", "-d", 60, d / "ten")
        before = len(ear.heard)
        until(60, lambda: len(ear.heard) > before + 50)
        status, _, err = tool.run("--to", ear.address, *one, d / "ten")
        report.check(status == 1 and "busy" in err, f"a worker has one run at a time: {status} {err!r}")
        p.kill()
        p.communicate()
        r = until(60, lambda: (got := tool.run("--to", ear.address, *one, "--format", "json", d / "ten"))[0] == 0 and got[1])
        report.check(r and json.loads(r)["answers"] == 10, "the coordinator is killed, its worker is free again")
        # A worker that stands still for ever is lost after some seconds.
        p = tool.start("--to", ear.address, *one, "--loop", "-d", 60, "--format", "json", d / "ten")
        before = len(ear.heard)
        until(60, lambda: len(ear.heard) > before + 50)
        workers.processes[0].send_signal(signal.SIGSTOP)
        out, _ = p.communicate(timeout=LIMIT)
        workers.processes[0].send_signal(signal.SIGCONT)
        r = json.loads(out)
        report.check(p.returncode == 1 and "silent" in r["workers"][0]["lost"], f"a worker that stands still: {p.returncode} {r['workers']}")


def is_told(r, address):
    return any(address in note and "it was interrupted there" in note for note in r["notes"])


def strangers(report, tool, d):
    """Whom a worker obeys: who has its secret; nobody else can stop or crash it."""
    (d / "secret").write_text("correct horse\n")
    (d / "other").write_text("battery staple\n")
    (d / "short").write_text("short\n")
    with Ear() as ear, Workers(tool, 1, "--secret", d / "secret") as workers:
        for words, want in [([], 1), (["--secret", d / "other"], 1), (["--secret", d / "secret"], 0)]:
            status, _, err = tool.run("--to", ear.address, *workers.words, *words, d / "ten")
            report.check(status == want and (not want or "secret" in err), f"{words}: {status} {err!r}")
        report.check(len(ear.heard) == 10, f"nothing is sent for strangers: {len(ear.heard)}")
        host, port = workers.addresses[0].split(":")
        for junk in [b"", b"GET / HTTP/1.1\r\n\r\n", b"K\xff\xff\xff\xff", b"K\0\0\0\x02{}", b"O\0\0\0\x02{}", bytes(range(256)) * 100]:
            with contextlib.suppress(OSError), socket.create_connection((host, int(port)), timeout=20) as s:
                s.sendall(junk)
                s.shutdown(socket.SHUT_WR)
                while s.recv(4096):
                    pass
        status, _, err = tool.run("--to", ear.address, *workers.words, "--secret", d / "secret", d / "ten")
        report.check(status == 0, f"after strangers: {status} {err!r}")
    # Those who know it (here: it has none) may break the protocol, too.
    with Ear() as ear, Workers(tool, 1) as workers:
        for frames in [b"B\0\0\0\5\0\0\0\0\0", b"P\0\0\0\2{}", b"O\0\0\0\2{}", b"F\0\0\0\5\7\0\0\0\0", b"A\0\0\0\1x", b"C\0\0\0\0",
                       b"A\0\0\0\x0e127.0.0.1:8080" * 30000]:
            impostor(workers.addresses[0], frames)
        got = until(60, lambda: tool.run("--to", ear.address, *workers.words, d / "ten")[0] == 0)
        report.check(got, "after coordinators that break the protocol")
    told = workers.ended[0][1].count("not of this protocol")
    report.check(told == 7, f"each breach ends its run, and is told: {told} {workers.ended}")
    # And a worker that isn't one.
    with Ear() as ear:
        status, _, err = tool.run("--to", ear.address, "--workers", ear.address, d / "ten")
        report.check(status == 1 and not ear.heard, f"a worker that is a web server: {status} {err!r}")
    for words, text in [(["--serve", "0.0.0.0:0"], "--secret"), (["--serve", "x y"], "no such address"), (["--serve", "0", "--to", "x"], "only --bind"),
                        (["--serve", "0", "--secret", d / "short"], "shorter"), (["--to", "127.0.0.1:1", "--workers", "a,b", "-c", 1, d / "ten"], "fewer connections"),
                        (["--to", "127.0.0.1:1", "--workers", "a", "--bind", "127.0.0.1", d / "ten"], "--bind"), (["--to", "127.0.0.1:1", "--secret", d / "secret", d / "ten"], "--secret is for")]:
        status, _, err = tool.run(*words)
        report.check(status == 2 and text in err, f"{words}: {status} {err!r}")


def impostor(address, frames):
    """Greets as a coordinator without a secret does, then says something wrong, and waits for the end."""
    import hashlib
    import hmac
    host, port = address.split(":")
    with socket.create_connection((host, int(port)), timeout=20) as s:
        def read():
            head = b""
            while len(head) < 5:
                head += s.recv(5 - len(head)) or b"N\0\0\0\0"
            body = b""
            while len(body) < int.from_bytes(head[1:5], "big"):
                body += s.recv(4096)
            return head[:1], body
        kind, hello = read()
        nonce = json.loads(hello)["nonce"]
        proof = hmac.new(b"", f"lacquer replay coordinator {nonce} 00".encode(), hashlib.sha256).hexdigest()
        text = json.dumps({"protocol": 2, "nonce": "00", "proof": proof}).encode()
        s.sendall(b"K" + len(text).to_bytes(4, "big") + text)
        kind, _ = read()
        with contextlib.suppress(OSError):
            if kind == b"W":
                s.sendall(frames)
                s.shutdown(socket.SHUT_WR)
            while s.recv(4096):
                pass


def crowd(report, tool, d):
    """25 clients and several thousand connections, as one field report had to arrange with 37 shells."""
    with Nginx("location / { return 200 x; }") as nginx, Workers(tool, 25) as workers:
        r = tool.json("--to", "%s:%d" % nginx.address, *workers.words, "-c", 3000, "--think", "1s-3s", "--loop", "-d", 5, d / "ten")
        report.check(r["failed"] == 0 and r["connections"] == 3000 and len(r["workers"]) == 25, f"25 workers: {r['failed']} failed, {r['connections']} connections")
        report.check(r["answers"] > 3000 and all(w["answers"] > 0 for w in r["workers"]), f"25 workers: {r['answers']}")


CASES = (sums, pacing, parts, losses, strangers, crowd)


def main():
    o = options(__doc__, CASES, lacquer=dict(default=None, help="the program `lacquer`"))
    report = Report("replay_fleet")
    with tempfile.TemporaryDirectory() as name:
        d = pathlib.Path(name)
        (d / "ten").write_text("/x\n" * 10)
        (d / "many").write_text("/x\n" * 1000)
        report.run(o.cases, report, Tool.of(o), d)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
