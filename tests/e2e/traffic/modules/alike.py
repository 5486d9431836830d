#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Modules of varnish-modules with arguments drawn at random, on ours and on a genuine varnishd: do they answer the same?

By hand: tests/e2e/traffic/modules/alike.py [--seed N] [--requests N] [--only NAME]. Needs Debian's varnish and varnish-modules; skipped without.
Arguments come as request fields (any octet that a field may hold, empty, absent, long) and as literals in VCL (any octet at all).
Left out, where ours differs on purpose: how often xkey counts an object that has several of the purged keys, what vsthrottle makes
of negative limits, str.split past the text's end or beginning (there it reads on), var's integers of more than 32 bits, blanks
at the end of a field that regsub wrote, and lines that are no header fields.
"""
import pathlib
import random
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[2]))
from bed.daemon import Varnishd
from bed.http import Client, Response
from bed.origin import Origin
from bed.report import Report, options, until

STAT = "/usr/bin/varnishstat"
VMODS = pathlib.Path("/usr/lib")
PARAMS = ["-p", "vcc_err_unref=off", "-p", "http_req_hdr_len=32k", "-p", "http_resp_hdr_len=32k", "-p", "http_req_size=64k",
          "-p", "workspace_client=1m", "-p", "workspace_backend=1m", "-p", "thread_pools=1", "-p", "thread_pool_min=10"]
INTS = ["0", "1", "-1", "2", "-2", "3", "5", "-5", "7", "100", "-100", "4294967296", "2147483647", "-2147483648", "999999999999999",
        "-999999999999999"]
ANY = [chr(n) for n in range(1, 256) if n not in (10, 13)]
FIELD = [chr(n) for n in range(32, 256) if n != 127] + ["\t"]


def text(rng, alphabet="abAB ,;=\t", most=12):
    kind = rng.random()
    if kind < 0.08:
        return ""
    if kind < 0.2:
        return "".join(rng.choices(FIELD, k=rng.randrange(1, most)))
    if kind < 0.22:
        return rng.choice(["a", "ab", "a,b "]) * rng.randrange(1, 3000)
    return "".join(rng.choices(alphabet, k=rng.randrange(1, most)))


def literal(value):
    """A VCL literal for any text without a NUL."""
    return '"""' + value + '"""'


def shown(*calls):
    """VCL that writes what each call gives, and whether it gives a text at all."""
    return "".join(f"if ({c}) {{ synthetic(\"[\" + {c} + \"]\"); }} else {{ synthetic(\"unset\"); }} synthetic(\" \");\n" for c in calls)


def written(*calls):
    """VCL that writes numbers and truths."""
    return "".join(f"synthetic(\"{n}=\" + ({c}) + \" \");\n" for n, c in enumerate(calls))


def synth(imports, init, body):
    lines = "".join(f"import {name};\n" for name in imports)
    return f"vcl 4.1;\n{lines}backend none none;\nsub vcl_init {{\n{init}}}\nsub vcl_recv {{ return (synth(200)); }}\n" \
           f"sub vcl_synth {{\n{body}return (deliver); }}\n"


def fields(rng, **makers):
    """Request fields, each absent now and then."""
    return [(name, make()) for name, make in makers.items() if rng.random() > 0.07]


def splits(rng, value, separators):
    """A number of a word that is there, or that can't be because the text ends with its last."""
    for separator in separators:
        value = value.replace(separator, "\0")
    words = len([word for word in value.split("\0") if word])
    number = rng.choice(INTS)
    if words == 0:
        return "0"
    if number.startswith("-"):
        return str(-rng.randrange(1, words)) if words > 1 else "0"
    return str(rng.randrange(words + 1)) if value.endswith("\0") else number


def strs(rng, count):
    a, b, n, m = "req.http.a", "req.http.b", "std.integer(req.http.n, 4)", "std.integer(req.http.m, 4)"
    vcl = synth(["str", "std"], "", written(f"str.count({a})", f"str.startswith({a}, {b})", f"str.endswith({a}, {b})",
                                            f"str.contains({a}, {b})")
                + shown(f"str.take({a}, {n}, {m})", f"str.take({a}, {n})", f"str.reverse({a})", f"str.split({a}, std.integer(req.http.x, 1), {b})",
                        f"str.split({a}, std.integer(req.http.y, 1))"))
    value, number = (lambda: text(rng)), (lambda: rng.choice(INTS))
    short = lambda: text(rng, most=4)

    def one():
        lines = fields(rng, a=value, b=short, n=number, m=number)
        given = dict(lines)
        words = [splits(rng, given.get("a", "").strip(" \t"), separators) for separators in (given.get("b", "").strip(" \t"), " \t")]
        return ("GET", "/", lines + list(zip("xy", words)), None)

    yield "str", vcl, [one() for _ in range(count)]
    calls = []
    for _ in range(min(count, 300)):
        one, other = ("".join(rng.choices(ANY, k=rng.randrange(8))).replace('"', "'") for _ in "ab")
        a, b = literal(one), literal(other)
        calls.append(rng.choice([f"str.take({a}, {rng.choice(INTS)}, {rng.choice(INTS)})", f"str.reverse({a})",
                                 f"str.split({a}, {splits(rng, one, other)}, {b})"]))
    yield "str with literals", synth(["str"], "", shown(*calls)), [("GET", "/", [], None)]


def accepts(rng, count):
    """Rules of a few words, fields of words and weights; words come and go while they are used."""
    words = ["en", "EN", "de", "de-DE", "fr", "*", "text/html", "text/*", "*/*", "gzip", "identity", "x", "", "a_b", "en-us"]
    for round_ in range(3):
        init = ""
        for rule in range(4):
            init += f"new r{rule} = accept.rule({literal(rng.choice(words + ['none']))});\n"
            init += "".join(f"r{rule}.add({literal(w)});\n" for w in rng.sample(words, rng.randrange(6)))
        body = "".join(f"if (req.http.op{r} == \"add\") {{ r{r}.add(req.http.word); }} "
                       f"if (req.http.op{r} == \"remove\") {{ r{r}.remove(req.http.word); }}\n" for r in range(4))
        body += shown(*(f"r{r}.filter(req.http.a)" for r in range(4)))

        def field():
            if rng.random() < 0.1:
                return text(rng, "abe;q=,.01*/ -\t", 30)
            parts = []
            for _ in range(rng.choice([1, 1, 2, 3, 4, 9, 200])):
                weight = rng.choice(["", "", ";q=1", ";q=0", ";q=0.0", ";q=0.5", "; q=0.75", ";\tq=0.8 ", ";Q=0.4", ";q=1.000", ";q=0.999",
                                     ";q=0.1234", ";q=1.1", ";q=2", ";q=", ";q=-1", ";q=.5", ";q", ";level=1;q=0.3", ";q=0.3;level=1",
                                     ';a="b,c"', ';a="\\"";q=0.2', ";q =0.1", ";q= 0.1", ";q=00.5", ";q=1e-1", ";q=0.5e", ";q=0x1", ";q=1e-400", ";q=0.", ";q=0.5x", ";;q=0.1", ";"])
                parts.append(rng.choice(words) + weight)
            return rng.choice([", ", ",", " ,\t", ",,"]).join(parts) + rng.choice(["", "", "", ",", " "])

        def one():
            more = [("word", rng.choice(words))] if rng.random() > 0.1 else []
            more += [(f"op{r}", rng.choice(["add", "remove"])) for r in range(4) if rng.random() < 0.03]
            return ("GET", "/", fields(rng, a=field) + more, None)

        yield f"accept {round_}", synth(["accept"], init, body), [one() for _ in range(count)]


def variables(rng, count):
    """Sequences of variables set and read, by names of three kinds."""
    names = ['"a"', '"b"', '"A"', "req.http.name", "req.http.nope", '""']
    for round_ in range(2):
        body = ""
        for _ in range(150):
            name, value = rng.choice(names), rng.choice(["req.http.a", "req.http.b", '"x"', '""', "req.http.nope"])
            kind = rng.choice(["int", "real", "duration", "string", "ip"])
            given = {"int": rng.choice(["std.integer(req.http.n, 9)", "-7", "2147483647"]), "real": rng.choice(["1.5", "-0.25"]),
                     "duration": rng.choice(["1s", "2h"]), "string": value, "ip": "client.ip"}[kind]
            body += rng.choice([f"var.set({name}, {value});\n", f"var.set_{kind}({name}, {given});\n", shown(f"var.get({name})"),
                                shown(f"var.get_string({name})"),
                                written(f"var.get_{kind}({name})") if kind in ("int", "real", "duration") else "",
                                f"var.global_set({name}, {value});\n", shown(f"var.global_get({name})")])
            if rng.random() < 0.02:
                body += "var.clear();\n"
        value = lambda: text(rng)
        yield f"var {round_}", synth(["var", "std"], "", body), [
            ("GET", "/", fields(rng, a=value, b=value, n=lambda: str(rng.randrange(-2**31, 2**31)), name=lambda: rng.choice("abc")), None)
            for _ in range(count // 4)]


def throttles(rng, count):
    """Buckets with an hour's period: nothing is gained while this runs."""
    body = ""
    for _ in range(60):
        key, limit = rng.choice(['"a"', '"b"', '""', "req.http.key", "req.http.nope"]), rng.choice([0, 1, 2, 3, 7, 100])
        block = rng.choice(["", ", 1h"])
        bucket = f"{key}, {limit}, 1h{block}"
        body += rng.choice([written(f"vsthrottle.is_denied({bucket})")] * 4 + [written(f"vsthrottle.remaining({bucket})"),
                                                                               f"vsthrottle.return_token({bucket});\n"])
        if block:
            body += written(f"vsthrottle.blocked({bucket}) > 1800s")
    yield "vsthrottle", synth(["vsthrottle"], "", body), [("GET", "/", fields(rng, key=lambda: rng.choice("abcdef")), None)
                                                           for _ in range(count // 4)]


ORIGIN = """backend origin { .host = "127.0.0.1"; .port = "%d"; }
"""


def headers(rng, count):
    """Fields added, copied, read, removed and rewritten; the origin answers with the lines it got."""
    for round_ in range(3):
        names, patterns = ["x-a", "X-B", "x-c", "Cookie"], ["a", "^a", "b$", ".", "", "^$", "[0-9]+", "(a)(b)?", "A", "(?i)a", ",", "x-a"]
        body = ""
        for _ in range(25):
            name, other = rng.sample(names, 2)
            pattern, value = literal(rng.choice(patterns)), rng.choice(["req.http.v", "req.http.nope", '"ab"', '""'])
            body += rng.choice([
                f"header.append(req.http.{name}, {value});\n", f"header.copy(req.http.{name}, req.http.{other});\n",
                f"header.remove(req.http.{name}, {pattern});\n",
                f"set req.http.got = req.http.got + \"<\" + header.get(req.http.{name}, {pattern}) + \">\";\n",
                f"if (req.http.re) {{ header.regsub(req, {literal('^(' + name + ': *)(.*)a')}, {literal(chr(92) + '1Z' + chr(92) + '2.')}"
                f"{rng.choice(['', ', true'])}); }}\n"])
        vcl = f"vcl 4.1;\nimport header;\n@ORIGIN@sub vcl_recv {{\n{body}return (pass); }}\n"

        def one():
            lines = [(rng.choice(names), text(rng, "ab1, ", 8).strip()) for _ in range(rng.randrange(6))]
            return ("GET", "/", lines + fields(rng, v=lambda: text(rng, "ab1, ", 8).strip(), re=lambda: "1"), None)

        yield f"header {round_}", vcl, [one() for _ in range(count // 2)]


def bodies(rng, count):
    """Bodies of any octets, matched, measured and hashed."""
    patterns = ["a", "^a", "b$", "^$", "(?s)a.b", "[[:digit:]]{2}", "é", "\\\\x00", "a|$"]
    reads = "".join(f"set req.http.o = req.http.o + \" \" + bodyaccess.rematch_req_body({literal(p)});\n" for p in patterns)
    vcl = f"""vcl 4.1;
import bodyaccess;
import std;
@ORIGIN@sub vcl_recv {{
    unset req.http.o;
    if (!req.http.uncached) {{ std.cache_req_body(100KB); }}
    {reads}
    set req.http.o = req.http.o + " " + bodyaccess.len_req_body();
    return (hash);
}}
sub vcl_hash {{ bodyaccess.hash_req_body(); }}
sub vcl_backend_fetch {{ set bereq.method = "POST"; }}
sub vcl_backend_response {{ set beresp.ttl = 1h; }}
sub vcl_deliver {{ set resp.http.o = req.http.o; set resp.http.hits = obj.hits; }}
"""

    def one():
        size = rng.choice([0, 1, 2, 3, 8, 5000])
        body = bytes(rng.choices(b"ab10\n\0\xc3\xa9", k=size)) if rng.random() < 0.9 else None
        return ("POST" if body is not None else "GET", "/", fields(rng) + ([("uncached", "1")] if rng.random() < 0.1 else []), body)

    yield "bodyaccess", vcl, [one() for _ in range(count // 2)]


def keyed(rng, count):
    """Objects with keys, purged and softened by key between requests for them."""
    vcl = """vcl 4.1;
import xkey;
@ORIGIN@
sub vcl_recv {
    if (req.method == "PURGE") { return (synth(200, xkey.purge(req.http.keys))); }
    if (req.method == "MANY") { set req.http.reason = xkey.purge(req.http.keys) > 0; return (synth(200, req.http.reason)); }
    if (req.method == "SOFT") { return (synth(200, xkey.softpurge(req.http.keys))); }
    return (hash);
}
sub vcl_miss { if (req.http.in-miss) { set req.http.o = xkey.purge(req.http.in-miss) > 0; } }
sub vcl_hit { if (req.http.in-hit) { set req.http.o = xkey.purge(req.http.in-hit) > 0; } }
sub vcl_backend_response { set beresp.ttl = 1h; set beresp.grace = 0s; }
sub vcl_deliver {
    if (req.http.in-deliver) { set req.http.o = xkey.softpurge(req.http.in-deliver); }
    set resp.http.hits = obj.hits; set resp.http.o = req.http.o;
}
"""
    pool = ["a", "b", "A", "long" * 60, "é", "c", "d", "e:1", "#", "a;b"]

    def key():
        return rng.choice(pool)

    def one():
        kind = rng.random()
        if kind < 0.6:
            keys = rng.sample(pool, rng.randrange(4))
            lines = [(rng.choice(["x-key", "x-h2"]), rng.choice([", ", " ", ",", "\t,, "]).join(keys))] if keys else []
            more = [(rng.choice(["in-miss", "in-miss", "in-hit", "in-deliver"]), key())] if rng.random() < 0.15 else []
            return ("GET", f"/{rng.randrange(12)}", lines + more + [("x-v", rng.choice("12"))], None)
        if kind < 0.75:
            return ("PURGE", "/", [("keys", rng.choice(["", " ", ","]) + key() + rng.choice(["", " ", ",,"]))] if rng.random() > 0.1 else [], None)
        if kind < 0.85:
            return ("MANY", "/", [("keys", " ".join(rng.sample(pool, 3)))], None)
        return ("SOFT", "/", [("keys", ",".join(rng.sample(pool, rng.randrange(4))))], None)

    yield "xkey", vcl, [one() for _ in range(count * 2)]


def saints(rng, count):
    """Fetches that fail and are blacklisted for an hour, over directors with thresholds."""
    vcl = """vcl 4.1;
import saintmode;
import directors;
import std;
@ORIGIN@
backend other { .host = "127.0.0.1"; .port = "@PORT@"; }
sub vcl_init {
    new s0 = saintmode.saintmode(origin, %d);
    new s1 = saintmode.saintmode(other, %d);
    new d = directors.fallback();
    d.add_backend(s0.backend());
    d.add_backend(s1.backend());
}
sub vcl_recv {
    set req.http.o = s0.is_healthy() + " " + s1.is_healthy() + " " + s0.blacklist_count() + " " + std.healthy(d.backend());
    return (hash);
}
sub vcl_hash { set req.http.o = req.http.o + " " + s0.is_healthy(); }
sub vcl_miss { set req.http.o = req.http.o + " " + s0.is_healthy(); }
sub vcl_hit { set req.http.o = req.http.o + " " + s1.is_healthy(); }
sub vcl_backend_fetch {
    set bereq.backend = d.backend();
    set bereq.http.b = s0.is_healthy() + " " + s1.is_healthy() + " " + std.healthy(d.backend());
}
sub vcl_backend_response {
    set beresp.ttl = 1h; set beresp.grace = 0s;
    set beresp.http.from = beresp.backend;
    if (bereq.http.fail == "" + bereq.retries || bereq.http.fail == "all") {
        saintmode.blacklist(std.duration(bereq.http.for, 1h)); return (retry);
    }
}
sub vcl_deliver { set resp.http.o = req.http.o + " " + s0.is_healthy() + " " + s1.is_healthy() + " " + s1.blacklist_count();
    set resp.http.hits = obj.hits; }
"""
    for round_, thresholds in enumerate([(3, 5), (0, 2), (1, 0), (-1, 10)]):
        yield f"saintmode {round_}", vcl % thresholds, [
            ("GET", f"/{rng.randrange(9)}", ([("fail", rng.choice(["0", "1", "all"]))] if rng.random() < 0.2 else [])
             + [("for", rng.choice(["1h", "0s", "-1h", "1000000h"]))], None) for _ in range(min(count // 4, 60))]


def sockets(rng, count):
    names = ["cubic", "reno", "", "nothing", "x" * 40, "cubic\u00e9", "Cubic", "bbr"]
    vcl = synth(["tcp"], "", written("tcp.congestion_algorithm(req.http.a)"))
    yield "tcp", vcl, [("GET", "/", [("a", rng.choice(names))], None) for _ in range(min(count, 40))]


def serve(s):
    """An origin that answers with the lines it got, and with keys for xkey as it is told."""
    rest = b""
    while True:
        while b"\r\n\r\n" not in rest:
            more = s.recv(65536)
            if not more:
                return
            rest += more
        top, rest = rest.split(b"\r\n\r\n", 1)
        lines = top.decode("latin-1").split("\r\n")
        method, path, _ = lines[0].split(" ", 2)
        pairs = [(n.lower(), v.strip()) for n, _, v in (line.partition(":") for line in lines[1:])]
        by_name = dict(pairs)
        length = int(by_name.get("content-length", 0))
        while len(rest) < length:
            rest += s.recv(65536)
        rest = rest[length:]
        seen = "".join(f"{n}: {v}\n" for n, v in pairs 
                       if n not in ("x-varnish", "via", "host", "accept-encoding") and (n, v) != ("content-length", "0"))
        told = f"{method} {path} {length}\n{seen}".encode("latin-1")
        keys = "".join(f"{name}: {by_name[n]}\r\n" for n, name in (("x-key", "xkey"), ("x-h2", "X-HashTwo")) if n in by_name)
        s.sendall(f"HTTP/1.1 200 OK\r\nContent-Length: {len(told)}\r\nVary: x-v\r\n{keys}\r\n".encode("latin-1") + told)


def expired(v):
    """Whether what was purged is gone: the genuine one leaves that to its expiry thread."""
    counters = subprocess.run([STAT, "-1", "-n", v.n, "-f", "MAIN.exp_mailed", "-f", "MAIN.exp_received"], capture_output=True, text=True)
    numbers = [line.split()[1] for line in counters.stdout.splitlines() if line]
    return len(set(numbers)) < 2


def run(program, vcl, requests):
    """What the client sees of each request."""
    seen = []
    with Origin(serve) as origin:
        port = origin.address[1]
        vcl = vcl.replace("@ORIGIN@", ORIGIN % port).replace("@PORT@", str(port))
        with Varnishd(program, PARAMS, vcl=vcl) as v:
            client = Client(v.address, timeout=20)
            for method, path, lines, body in requests:
                try:
                    client = client or Client(v.address, timeout=20)
                    r = client.request(path, lines, method=method, body=body)
                except OSError:
                    # The worker panicked, and another isn't there yet.
                    until(60, lambda: "running" in v.cli.ask("status"))
                    client, r = None, Response()
                if r.get("Connection") == "close" or r.end != "complete":
                    client = None
                if "xkey" in vcl:
                    until(60, lambda: expired(v))
                seen.append((r.end, r.status, r.reason, r.get("o"), r.get("hits"), r.get("from"),
                             r.body if r.status == 200 else b""))
    return seen


def main():
    o = options(__doc__, genuine=dict(default=shutil.which("varnishd", path="/usr/sbin:/usr/local/sbin") or ""),
                requests=dict(type=int, default=400), only=dict(default=""))
    report = Report("alike")
    if not o.genuine or not list(VMODS.glob("*/varnish/vmods/libvmod_xkey.so")):
        report.note("skipped: no genuine varnishd with varnish-modules here")
        report.check(True, "")
        return report.close()
    rng = random.Random(o.seed)
    for make in (strs, accepts, variables, throttles, headers, bodies, keyed, saints, sockets):
        for name, vcl, requests in make(rng, o.requests):
            if o.only not in name:
                continue
            pairs = list(zip(requests, run(o.genuine, vcl, requests), run(o.varnishd, vcl, requests)))
            wrong = [(request, theirs, ours) for request, theirs, ours in pairs if theirs != ours]
            report.note(f"{name}: {len(pairs) - len(wrong)} of {len(pairs)} alike")
            for request, theirs, ours in wrong[:3]:
                report.note(f"  {request!r:.400}\n    genuine {theirs!r:.900}\n    ours    {ours!r:.900}")
            report.check(not wrong, f"{name}: {len(wrong)} requests differ")
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
