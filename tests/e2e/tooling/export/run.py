#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""What leaves a server for other systems: `lacquer log --format`, `lacquer trace`, `varnishstat --statsd`, `traceparent`.

Collectors and receivers are of this suite's own making. Also of a genuine varnishd's log, as far as that is here.
"""
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
import protobuf
from bed import h2origin
from bed.daemon import Varnishd, die_with_parent, free_port
from bed.http import get
from bed.logs import is_followed
from bed.origin import Origin, simple
from bed.report import Report, options, until
from collectors import Collector, Datagrams, Lines, tcp, unix

LIMIT = 30
GENUINE = "/usr/sbin/varnishd"
VCL = """vcl 4.1;
import std;
backend default { .host = "%s"; .port = "%d"; }
sub vcl_recv {
    std.log("key:" + req.url);
    if (req.url ~ "^/pass") { return (pass); }
    if (req.url ~ "^/teapot") { return (synth(418)); }
}
sub vcl_backend_response { set beresp.do_esi = bereq.url ~ "^/page"; }
"""
CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
CONTEXT = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-0([01])$")



class Seen:
    """An origin that remembers the fields traceparent and tracestate of each path."""

    def __init__(self):
        self.contexts, self.states = {}, {}
        self.origin = Origin(simple(self.answer))

    def answer(self, _method, path, fields):
        self.contexts[path], self.states[path] = fields.get("traceparent"), fields.get("tracestate")
        return "Cache-Control: max-age=60\r\n", b"<esi:include src='/part'/>" if path.startswith("/page") else b"hello"


class Tool:
    """A tool that follows a server's log."""

    def __init__(self, v, *argv):
        self.proc = subprocess.Popen([str(a) for a in argv], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                     stderr=subprocess.PIPE, text=True, preexec_fn=die_with_parent)
        self.follows = is_followed(v, self.proc.pid)

    def end(self, number=signal.SIGTERM):
        self.proc.send_signal(number)
        out, self.err = self.proc.communicate(timeout=LIMIT)
        return out


def hostile(v):
    return get(v.address, "/hit", [("User-Agent", "<script>\xe2\x80\xae\"" + "x" * 5000), ("Cookie", "secret=1"), ("Authorization", "Basic c2VjcmV0")])


def logged(v):
    """Requests of clients that are in the log from their beginning to their end."""
    p = subprocess.run(["varnishlog", "-n", str(v.n), "-d", "-g", "request"], capture_output=True, timeout=LIMIT)
    return len(re.findall(rb"^\* +<< Request ", p.stdout, re.M))


def json_lines(report, lacquer, v, name):
    """A request a line, with its fetches and fragments; and nothing that nobody asked for."""
    n = ["-n", v.n]
    own, ecs = Tool(v, lacquer, "log", *n, "--format", "json"), Tool(v, lacquer, "log", *n, "--format=json", "--names", "ecs")
    ncsa = Tool(v, lacquer, "log", *n, "--format", "ncsa")
    bare = Tool(v, lacquer, "log", *n, "--format", "json", "-g", "vxid", "--show-field", "Cookie", "-b")
    report.check(all(tool.follows for tool in (own, ecs, ncsa, bare)), f"{name}: the log is followed")
    for path in ("/page", "/hit", "/hit", "/pass", "/teapot"):
        get(v.address, path)
    hostile(v)
    # Threads of a genuine one may write in another order than they answered.
    report.check(until(LIMIT, lambda: logged(v) == 6), f"{name}: {logged(v)} of six requests are logged")
    get(v.address, "/last")
    lines = [json.loads(line) for line in drained(own, "/last")]
    by_url = {line["request"]["url"]: line for line in lines}
    report.check(len(lines) == 7 and all(line["version"] == 1 and line["type"] == "request" for line in lines), f"{name}: {len(lines)} requests")
    handled = [(line["request"]["url"], line["handling"], line["response"]["status"]) for line in lines]
    # Threads of a genuine one may write in another order.
    report.check(sorted(handled) == [("/hit", "hit", 200), ("/hit", "miss", 200), ("/hit", "pass", 200), ("/last", "miss", 200), ("/page", "miss", 200),
                                     ("/pass", "pass", 200), ("/teapot", "synth", 418)], f"{name}: {handled}")
    page = by_url["/page"]
    kinds = [(c["type"], c["reason"], [g["reason"] for g in c.get("caused", [])]) for c in page["caused"]]
    report.check(sorted(kinds) == [("fetch", "fetch", []), ("request", "esi", ["fetch"])], f"{name}: {kinds}")
    fetch = next(c for c in page["caused"] if c["type"] == "fetch")
    report.check(fetch["backend"]["name"] == "default" and fetch["response"]["status"] == 200, f"{name}: {fetch}")
    report.check(page["notes"] == ["key:/page"] and page["calls"][0] == {"sub": "recv", "return": "hash"}, f"{name}: {page['notes']} {page['calls'][:1]}")
    report.check(0 <= page["duration"] < 5 and re.fullmatch(r"20\d\d-\d\d-\d\dT[\d:.]+Z", page["time"]) is not None, f"{name}: {page['time']}")
    told = {f["name"]: f["value"] for line in lines if line["request"]["url"] == "/hit" for f in line["request"]["fields"]}
    report.check((told["Cookie"], told["Authorization"]) == ("(hidden)",) * 2 and told["User-Agent"].startswith("<script>"), f"{name}: hidden {told}")
    elastic = [json.loads(line) for line in drained(ecs, "/last")]
    same = {(e["url"]["path"], e["http"]["response"]["status_code"], bool(e["lacquer"].get("caused"))) for e in elastic}
    report.check(same == {(line["request"]["url"], line["response"]["status"], "caused" in line) for line in lines}, f"{name}: ECS has the same requests: {same}")
    combined = drained(ncsa, "/last")
    shape = re.compile(r'127\.0\.0\.1 - - \[[^]]+\] "GET http://bed\.test/\S* HTTP/1\.1" \d{3} \d+ "[^"]*" "(?:[^"\\]|\\.)*"$')
    # Fragments are requests of nobody's: as varnishncsa without -E.
    report.check(len(combined) == 7 and all(shape.match(line) for line in combined), f"{name}: {combined}")
    fetches = [json.loads(line) for line in drained(bare, "/last")]
    report.check(all(line["type"] == "fetch" for line in fetches) and len(fetches) >= 5, f"{name}: fetches alone {len(fetches)}")


def drained(tool, last):
    """All that a tool has written up to the line that speaks of `last`, without blanks."""
    lines = []
    for line in tool.proc.stdout:
        lines.append(line.rstrip("\n"))
        if last in line:
            break
    tool.end()
    return lines


def receivers(report, lacquer, v):
    """Lines arrive at receivers of each kind; one that is away costs no more than its queue, and is told what it missed."""
    with tempfile.TemporaryDirectory() as d:
        (a, to_tcp), (b, to_unix) = tcp(), unix(pathlib.Path(d) / "socket")
        with a, b, Datagrams() as c:
            base = [lacquer, "log", "-n", v.n, "--format", "json", "--to"]
            tools = [Tool(v, *base, to) for to in (to_tcp, to_unix, f"syslog:127.0.0.1:{c.port}")]
            for i in range(20):
                get(v.address, f"/hit?{i}")
            for got, what in ((a.lines, "TCP"), (b.lines, "unix"), (c.got, "syslog")):
                arrived = until(LIMIT, lambda got=got: any(b"/hit?19" in line for line in got))
                report.check(arrived and len(got) == 20, f"{what}: {len(got)} of 20 lines")
            report.check(all(re.match(rb"<30>1 - - lacquer \d+ access - \{", line) for line in c.got), f"syslog: {c.got[:1]}")
            for tool in tools:
                tool.end()
        # Nobody is there: lines wait, then are lost, and whoever comes is told of it.
        port = free_port()
        tool = Tool(v, *base, f"tcp:127.0.0.1:{port}", "--queue", "4k")
        for i in range(20):
            get(v.address, f"/hit?lost{i}")
        with Lines(socket.create_server(("127.0.0.1", port))) as back:
            report.check(until(LIMIT, lambda: back.lines), "a receiver that comes later gets what has waited")
            found = until(LIMIT, lambda: get(v.address, "/hit?after").status and [json.loads(x) for x in back.lines if b'"gap"' in x])
            report.check(found and found[0]["lost"] > 0, f"the gap is told: {found}")
            tool.end()
            report.check("lines were lost" in tool.err, f"and on standard error: {tool.err}")


def reopened(report, lacquer, v):
    """A file that was moved away is opened again."""
    with tempfile.TemporaryDirectory() as d:
        file = pathlib.Path(d) / "access.json"
        tool = Tool(v, lacquer, "log", "-n", v.n, "--format", "json", "-w", file)
        get(v.address, "/before")
        report.check(until(LIMIT, lambda: b"/before" in file.read_bytes()), "the file has the first line")
        os.rename(file, file.with_suffix(".1"))
        tool.proc.send_signal(signal.SIGHUP)
        report.check(until(LIMIT, file.exists), "it is opened again")
        get(v.address, "/after")
        report.check(until(LIMIT, lambda: b"/after" in file.read_bytes()) and b"/after" not in file.with_suffix(".1").read_bytes(), "and has the next line")
        tool.end()


def whole(spans):
    """Whether each span that isn't the first has its parent here, and lies within it unless a fetch goes on."""
    by_id = {span.id: span for span in spans}
    for span in spans:
        above = by_id.get(span.parent)
        if above and not (above.begin <= span.begin and (span.kind == 3 or span.end <= above.end)):
            return False
    return len({span.trace for span in spans}) == 1


def traces(report, lacquer, v, name):
    """A page with a fragment, which is a hit, becomes one trace whose spans nest."""
    with Collector() as collector:
        tool = Tool(v, lacquer, "trace", "-n", v.n, "--to", collector.url, "--service", "shop", "--attribute", "zone=a", "--field", "X-Key: k")
        get(v.address, "/page?trace", [("traceparent", CALLER)])
        get(v.address, "/teapot")
        got = until(LIMIT, lambda: [s for s in collector.spans if s.attributes.get("url.path") == "/teapot"] and collector.spans)
        tool.end()
        page = [s for s in got if s.trace == CALLER.split("-")[1]]
        waits = [s for s in page if s.name in ("connect", "wait", "body")]
        kinds = sorted((s.name, s.kind) for s in page if s not in waits)
        report.check(kinds == [("GET", 1), ("GET", 2), ("fetch default", 3)], f"{name}: {kinds}")
        report.check(whole(page), f"{name}: spans nest: {page}")
        fetch = next(s for s in page if s.kind == 3)
        report.check({"wait", "body"} <= {s.name for s in waits} and all(s.parent == fetch.id and s.end <= fetch.end for s in waits), f"{name}: waits: {page}")
        root = next(s for s in page if s.kind == 2)
        report.check(root.parent == CALLER.split("-")[2], f"{name}: the caller's span is above: {root.parent}")
        facts = root.attributes
        report.check((facts["http.response.status_code"], facts["lacquer.handling"], facts["url.query"]) == (200, "miss", "trace"), f"{name}: {facts}")
        report.check(root.resource == {"service.name": "shop", "zone": "a"} and collector.heads[0][0] == "/v1/traces", f"{name}: {root.resource}")
        report.check(collector.heads[0][1].get("x-key") == "k", f"{name}: {collector.heads[0][1]}")
        report.check("Start" in [event for event, _ in root.events], f"{name}: {root.events}")


def sampled(report, lacquer, v):
    """What failed is told of although nothing else is; a collector that is away costs nothing but spans."""
    with Collector() as collector:
        tool = Tool(v, lacquer, "trace", "-n", v.n, "--to", collector.url, "--ratio", "0")
        for i in range(10):
            get(v.address, f"/hit?s{i}")
        get(v.address, "/hit?kept", [("traceparent", CALLER)])
        got = until(LIMIT, lambda: list(collector.spans))
        tool.end()
        report.check({s.attributes["url.query"] for s in collector.spans if s.kind != 1} == {"kept"} and got, f"only the caller's: {collector.spans}")
    tool = Tool(v, lacquer, "trace", "-n", v.n, "--to", collector.url)
    get(v.address, "/hit?away")
    told = tool.proc.stderr.readline()
    report.check("refused" in told and tool.proc.poll() is None, f"it says so and goes on without a collector: {told}")
    tool.end()
    report.check("spans didn't reach" in tool.err and tool.proc.returncode == 0, f"and how many it lost: {tool.proc.returncode} {tool.err}")


def handed_on(report, varnishd):
    """`traceparent=on`: the origin is told who asks it, in the client's trace or in one of ours; the log's reader finds the same."""
    seen = Seen()
    lacquer = pathlib.Path(varnishd).with_name("lacquer")
    with seen.origin, Varnishd(varnishd, ["-p", "traceparent=on", "-p", "traceparent_ratio=0"], vcl=VCL % seen.origin.address) as v, Collector() as collector:
        tool = Tool(v, lacquer, "trace", "-n", v.n, "--to", collector.url)
        get(v.address, "/a", [("traceparent", CALLER), ("tracestate", "a=1,b=2")])
        get(v.address, "/b", [("tracestate", "a=1")])
        get(v.address, "/c", [("traceparent", "nonsense"), ("tracestate", "a=1")])
        get(v.address, "/d", [("traceparent", CALLER), ("traceparent", CALLER.replace("-01", "-00"))])
        get(v.address, "/e", [("traceparent", CALLER), ("tracestate", "a=1,B=2")])
        until(LIMIT, lambda: sum(s.kind == 3 for s in collector.spans) == 5)
        tool.end()
        told = {path: CONTEXT.match(value or "") for path, value in seen.contexts.items()}
        report.check(all(told.get(path) for path in "/a /b /c /d /e".split()), f"origins are told: {seen.contexts}")
        report.check(told["/a"][1] == CALLER.split("-")[1] and told["/a"][2] != CALLER.split("-")[2], f"the client's trace goes on: {seen.contexts}")
        report.check(told["/d"][1] != CALLER.split("-")[1], f"of two causes none is one: {seen.contexts}")
        report.check(seen.states == {"/a": "a=1,b=2", "/b": None, "/c": None, "/d": None, "/e": None}, f"what is known of another trace goes: {seen.states}")
        report.check(told["/a"][3] == "1" and told["/b"][3] == "0" and told["/b"][1] != told["/c"][1], f"ours begin unmarked: {seen.contexts}")
        fetches = {s.attributes["url.path"]: (s.trace, s.id) for s in collector.spans if s.kind == 3}
        report.check(fetches == {path: (m[1], m[2]) for path, m in told.items()}, f"the same in the log: {fetches} {seen.contexts}")
    seen = Seen()
    with seen.origin, Varnishd(varnishd, vcl=VCL % seen.origin.address) as v:
        get(v.address, "/a", [("traceparent", "as it is")])
        get(v.address, "/b")
        report.check(seen.contexts == {"/a": "as it is", "/b": None}, f"off it is nobody's: {seen.contexts}")


def over_grpc(report, lacquer, v):
    """By gRPC: one connection for all batches, another one when the collector has closed it; what it refuses is told."""
    spans, codes = [], ["0"]

    def reply(asked):
        if asked.path != "/opentelemetry.proto.collector.trace.v1.TraceService/Export" or asked.body[:5] != b"\0" + len(asked.body[5:]).to_bytes(4, "big"):
            return 200, [("content-type", "application/grpc")], b"", [("grpc-status", "12")]
        came = protobuf.spans(asked.body[5:])
        if any(s.attributes.get("url.query") == "five" for s in came):
            behaviour.connections[-1].goes_away(2 * 10**9 + 1)
        spans.extend(came if codes[-1] == "0" else [])
        return 200, [("content-type", "application/grpc")], b"\0\0\0\0\0", [("grpc-status", codes[-1]), ("grpc-message", "not today")]

    behaviour = h2origin.Behaviour(reply)
    with h2origin.clear(behaviour) as origin:
        tool = Tool(v, lacquer, "trace", "-n", v.n, "--to", "http://%s:%d" % origin.address, "--grpc")
        seen = lambda path: until(LIMIT, lambda: any(s.attributes.get("url.query") == path for s in spans))
        for query in ("one", "two", "three"):
            get(v.address, f"/hit?{query}")
            report.check(seen(query), f"gRPC: {query} of {spans}")
        report.check(len(behaviour.connections) == 1, f"gRPC: {len(behaviour.connections)} connections for three batches")
        behaviour.connections[0].sock.shutdown(socket.SHUT_RDWR)
        get(v.address, "/hit?four")
        report.check(seen("four") and len(behaviour.connections) == 2, f"gRPC: a new one behind a closed one: {len(behaviour.connections)}")
        get(v.address, "/hit?five")
        report.check(seen("five") and len(behaviour.connections) == 2, f"gRPC: a goodbye with a batch on its way: {len(behaviour.connections)}")
        codes.append("7")
        get(v.address, "/hit?six")
        told = tool.proc.stderr.readline()
        report.check(len(behaviour.connections) == 3, f"gRPC: the next one comes by another connection: {len(behaviour.connections)}")
        report.check("code 7: not today" in told, f"gRPC: what it refuses is told: {told}")
        tool.end()
        report.check(tool.proc.returncode == 0 and re.search(r"[45] spans didn't reach", tool.err) and behaviour.faults == [], f"gRPC: {tool.proc.returncode} {tool.err} {behaviour.faults}")


SECRETS_VCL = """vcl 4.1;
import std;
backend default { .host = "%s"; .port = "%d"; }
sub vcl_recv {
    std.log("who: " + req.http.Cookie);
    set req.http.X-Copy = req.http.Authorization;
    return (hash);
}
sub vcl_backend_response { set beresp.http.Vary = "Cookie"; }
"""


def secrets(report, varnishd):
    """What is secret isn't told where VCL has copied it to, either, nor in a reason that quotes it; who names the field sees it."""
    lacquer = pathlib.Path(varnishd).with_name("lacquer")
    with Origin(simple(lambda *_: ("Cache-Control: max-age=60\r\n", b"hello"))) as origin, \
            Varnishd(varnishd, ["-p", "log_no_hit=on"], vcl=SECRETS_VCL % origin.address) as v, Collector() as collector:
        tools = {names: Tool(v, lacquer, "log", "-n", v.n, "--format", "json", "--names", names) for names in ("lacquer", "ecs", "otel")}
        tools["asked for"] = Tool(v, lacquer, "log", "-n", v.n, "--format", "json", "--show-field", "cookie", "--show-field", "Authorization")
        trace = Tool(v, lacquer, "trace", "-n", v.n, "--to", collector.url)
        report.check(all(tool.follows for tool in (*tools.values(), trace)), "secrets: the log is followed")
        for n in range(3):
            get(v.address, "/s", [("Cookie", f"sid=tOpSeCrEt{n}"), ("Authorization", "Bearer tOpSeCrEt")])
        get(v.address, "/last")
        said = {name: "\n".join(drained(tool, "/last")) for name, tool in tools.items()}
        until(LIMIT, lambda: [s for s in collector.spans if s.attributes.get("url.path") == "/last"])
        trace.end()
        said["trace"] = repr([vars(s) for s in collector.spans])
        for name, text in said.items():
            report.check(text.count("/s") >= 3 and "vary: Cookie" in text, f"secrets, {name}: {text[:300]}")
            report.check(("tOpSeCrEt" in text) == (name == "asked for"), f"secrets, {name}: {[line for line in text.split(',') if 'tOpSeCrEt' in line][:3]}")


def statsd(report, lacquer, v):
    """Counters as changes, gauges as they are."""
    with Datagrams() as d:
        p = subprocess.Popen([str(lacquer), "stat", "-n", str(v.n), "--statsd", f"127.0.0.1:{d.port}", "--interval", "0.1s", "--prefix", "web.", "-I", "MAIN.*"],
                             stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, preexec_fn=die_with_parent)
        report.check(until(LIMIT, lambda: any(b"web.MAIN.uptime" in x or b"web.MAIN.n_object:" in x for x in d.got)), "gauges arrive")
        for _ in range(7):
            get(v.address, "/hit?statsd")
        hits = re.compile(rb"web\.MAIN\.client_req:(\d+)\|c")
        counted = lambda: sum(int(n) for x in d.got for n in hits.findall(x))
        report.check(until(LIMIT, lambda: counted() == 7), f"7 requests are counted: {counted()}")
        p.send_signal(signal.SIGTERM)
        p.communicate(timeout=LIMIT)
        report.check(p.returncode == 0, f"it ends in order: {p.returncode}")


def mistakes(report, lacquer):
    """Each says what is wrong."""
    for argv, expected in (
        (["log", "--format", "xml"], "xml"), (["log", "--names", "ecs"], "--format"), (["log", "--format", "json", "--names", "x"], "ecs"),
        (["log", "--format", "json", "--to", "udp:a:1"], "tcp:HOST:PORT"), (["log", "--format", "json", "--queue", "x"], "16m"),
        (["log", "--format", "json", "--json"], "--format"), (["trace"], "--to"), (["trace", "--to", "collector:4318"], "URL"),
        (["trace", "--to", "http://x", "--ratio", "2"], "0 to 1"), (["trace", "--to", "http://x/y", "--grpc"], "path"),
        (["trace", "--to", "http://x", "--slow", "soon"], "500ms"), (["trace", "--to", "http://x", "--field", "a"], "NAME:VALUE"),
        (["stat", "--statsd", "a:x"], "port"), (["stat", "--interval", "1s"], "--statsd"), (["stat", "--statsd", "a", "-1"], "-1"),
    ):
        p = subprocess.run([str(lacquer), *argv], capture_output=True, text=True, timeout=LIMIT)
        report.check(p.returncode != 0 and expected in p.stderr, f"{argv}: {p.returncode} {p.stderr!r}")


def main():
    o = options(__doc__)
    lacquer = pathlib.Path(o.varnishd).with_name("lacquer")
    report = Report("export")
    mistakes(report, lacquer)
    for program in [o.varnishd] + [GENUINE] * os.access(GENUINE, os.X_OK):
        seen = Seen()
        with seen.origin, Varnishd(program, vcl=VCL % seen.origin.address) as v:
            name = "genuine" if program == GENUINE else "ours"
            json_lines(report, lacquer, v, name)
            traces(report, lacquer, v, name)
            if program != GENUINE:
                receivers(report, lacquer, v)
                reopened(report, lacquer, v)
                sampled(report, lacquer, v)
                over_grpc(report, lacquer, v)
                statsd(report, lacquer, v)
    handed_on(report, o.varnishd)
    secrets(report, o.varnishd)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
