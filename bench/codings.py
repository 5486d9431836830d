#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""CPU a hit and bytes sent, for clients that take gzip, br, zstd or nothing, beside the peers with the modules that Debian has for them.

A page of 20 KB that the origin has in gzip, too. Debian's varnishd keeps gzip and unpacks it for others; nginx keeps the page as it is and packs
each answer (`nginx`, module brotli), or has all forms as files (`nginx+static`, no cache at all); Traffic Server keeps what its plugin compress
made. As bench/run.py: servers on core 0, one is asked at a time, generator and origin have core 1, rounds are interleaved.
What a client got is in the table: a server that has no such coding sends what it has.

usage: bench/codings.py [--rounds N] [--seconds S] [--servers a,b] [--ours PROGRAM] [--bytes N] [--out FILE]
It takes about two minutes. It fails when an answer of ours isn't in the coding that the client likes or isn't the page, or when a hit for a client
that takes nothing costs more than 0.35 of varnishd's.
"""
import argparse
import gzip
import http.client
import json
import os
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from run import commit
from servers import Bed, HERE, Nginx, Ours, Server, Varnish

CLIENTS = {"gzip": "gzip", "br": "gzip, br", "zstd": "zstd", "identity": None}
MOST_IDENTITY = 0.35
PAGE = "/f/page.html"
FORM_LIMIT = 20  # seconds until what is made in the background is there
MODULES = pathlib.Path("/usr/lib/nginx/modules")


def page(size):
    """A page as there are many: markup that repeats itself around words that don't."""
    dice = random.Random(1)
    words = ["".join(dice.choices("aaabcdeeeefghiiklmnnooprrsssttttuvwy", k=dice.randint(2, 9))) for _ in range(900)]
    out, at = ["<!DOCTYPE html><html><head><title>A page</title></head><body>\n"], 0
    while at < size:
        text = " ".join(dice.choices(words, k=dice.randint(5, 40)))
        out.append(f'<div class="item" id="i{at}"><a href="/item/{dice.randint(1, 99999)}">{text[:20]}</a><p>{text}</p></div>\n')
        at = sum(map(len, out))
    return "".join(out).encode()[:size]


class CodingOurs(Ours):
    def __init__(self, *args, **options):
        super().__init__(*args, **options, more=("-p", "http_brotli_support=on", "-p", "http_zstd_support=on"))


class CodingNginx(Nginx):
    """Keeps the page as it is and packs each answer."""

    def argv(self):
        argv, conf = super().argv(), self.dir / "nginx.conf"
        text, module = conf.read_text(), MODULES / "ngx_http_brotli_filter_module.so"
        brotli = " brotli on; brotli_types *;" if module.exists() else ""
        head = f"load_module {module};\n" if module.exists() else ""
        text = text.replace("http {", f"http {{ gzip on; gzip_types *; gzip_proxied any; gzip_http_version 1.1; gzip_vary on;{brotli}", 1)
        conf.write_text(head + text.replace('proxy_set_header Connection "";', 'proxy_set_header Connection ""; proxy_set_header Accept-Encoding "";'))
        return argv


class StaticNginx(Nginx):
    """Has all forms as files."""
    name, files = "nginx+static", None

    def argv(self):
        argv, conf = super().argv(), self.dir / "nginx.conf"
        text, module = conf.read_text(), MODULES / "ngx_http_brotli_static_module.so"
        brotli = " brotli_static on;" if module.exists() else ""
        head = f"load_module {module};\n" if module.exists() else ""
        conf.write_text(head + text.replace("location / {", f"location /f/ {{ alias {self.files}/; gzip_static on;{brotli} }} location / {{", 1))
        return argv


class TrafficServer(Server):
    """With the plugin compress, which caches what it makes."""
    name = "trafficserver"

    def argv(self):
        d = self.dir
        for name in ("run", "log", "var", "data", "cache"):
            (d / name).mkdir(exist_ok=True)
        shutil.copytree("/etc/trafficserver", d / "etc", dirs_exist_ok=True)
        (d / "runroot.yaml").write_text("".join(f"{key}: {value}\n" for key, value in {
            "prefix": d, "exec_prefix": "/usr", "bindir": "/usr/bin", "sbindir": "/usr/sbin", "sysconfdir": d / "etc", "datadir": d / "data",
            "includedir": "/usr/include", "libdir": "/usr/lib/trafficserver", "libexecdir": "/usr/lib/trafficserver/modules",
            "localstatedir": d / "var", "runtimedir": d / "run", "logdir": d / "log", "cachedir": d / "cache"}.items()))
        (d / "etc/records.config").write_text("".join(f"CONFIG proxy.config.{name} {kind} {value}\n" for name, kind, value in (
            ("exec_thread.autoconfig", "INT", 0), ("exec_thread.limit", "INT", 1), ("accept_threads", "INT", 0), ("task_threads", "INT", 1),
            ("http.server_ports", "STRING", f"{self.port}:ip-in=127.0.0.1"), ("http.cache.required_headers", "INT", 0),
            ("log.logging_enabled", "INT", 0), ("http.keep_alive_no_activity_timeout_in", "INT", 300), ("http.normalize_ae", "INT", 0),
            ("http.insert_response_via_str", "INT", 0), ("http.insert_request_via_str", "INT", 0), ("admin.user_id", "STRING", "nobody"))))
        (d / "etc/remap.config").write_text(f"map / http://127.0.0.1:{self.origin}/\n")
        (d / "etc/storage.config").write_text(f"{d}/cache 256M\n")
        (d / "etc/compress.config").write_text("cache true\nremove-accept-encoding true\ncompressible-content-type text/*\n"
                                               "supported-algorithms br,gzip\n")
        (d / "etc/plugin.config").write_text(f"compress.so {d}/etc/compress.config\n")
        subprocess.run(["chown", "-R", "nobody", d], check=True)
        return ["traffic_server", f"--run-root={d}/runroot.yaml"]


ALL = {"varnish": Varnish, "nginx": CodingNginx, "nginx+static": StaticNginx, "trafficserver": TrafficServer, "ours": CodingOurs}
NEEDS = {"varnish": "varnishd", "nginx": "nginx", "nginx+static": "nginx", "trafficserver": "traffic_server"}


def ask(server, accept):
    """The coding and the body of one answer. http.client would add an Accept-Encoding where there is none."""
    c = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    c.putrequest("GET", PAGE, skip_accept_encoding=True)
    if accept:
        c.putheader("Accept-Encoding", accept)
    c.endheaders()
    answer = c.getresponse()
    body = answer.read()
    c.close()
    return answer.getheader("Content-Encoding") or "identity", body


def settle(server, client, accept):
    """Asks until the client gets what it likes, or nothing changes any more; what it gets then."""
    end, least = time.time() + FORM_LIMIT, time.time() + 0.5
    while True:
        got = ask(server, accept)
        if time.time() > end or (time.time() > least and (got[0] == client or server.name != "ours")):
            return got
        time.sleep(0.01)


def measure(bed, server, accept, seconds):
    header = ["-H", f"Accept-Encoding: {accept}"] if accept else []
    ran = server.ran_ns()
    got = bed.load(server, PAGE, ["-B", "-d", str(seconds), *header])
    ran = server.ran_ns() - ran
    return {"cpu_us": ran / max(1, got["issued"] - got["errors"]) / 1e3, "bad": got["errors"] + got["non200"]}


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--rounds", type=int, default=3)
    a.add_argument("--seconds", type=float, default=1.0)
    a.add_argument("--servers", default=",".join(ALL))
    a.add_argument("--ours", default=str(HERE.parent / "dist/bin/varnishd"))
    a.add_argument("--bytes", type=int, default=20_000)
    a.add_argument("--out")
    o = a.parse_args()
    o.ours = os.path.abspath(o.ours)
    text, wrong, rows = page(o.bytes), [], {}
    with tempfile.TemporaryDirectory(prefix="lacquer-bench-files.", dir="/dev/shm") as files:
        os.chmod(files, 0o755)
        pathlib.Path(files, "page.html").write_bytes(text)
        pathlib.Path(files, "page.html.gz").write_bytes(gzip.compress(text, 6, mtime=0))
        if shutil.which("brotli"):
            subprocess.run(["brotli", "-q", "11", "-k", pathlib.Path(files, "page.html")], check=True)
        StaticNginx.files = files
        os.chdir(files)  # where the origin looks for files
        with Bed([], o.ours) as bed:
            for name in o.servers.split(","):
                if name in NEEDS and not shutil.which(NEEDS[name]):
                    print(f"bench: {name} left out: no {NEEDS[name]} here", file=sys.stderr)
                    continue
                bed.servers.append(ALL[name](bed.origin_port, o.ours))
            for s in bed.servers:
                for client, accept in CLIENTS.items():
                    settle(s, client, accept)
            # What is delivered often is packed again: that shall be done with before it counts.
            for client, accept in CLIENTS.items():
                for s in bed.servers:
                    measure(bed, s, accept, 0.3)
            time.sleep(3)
            got = {(s.name, client): ask(s, accept) for s in bed.servers for client, accept in CLIENTS.items()}
            for n in range(o.rounds):
                for client, accept in CLIENTS.items():
                    for s in bed.servers[n % len(bed.servers):] + bed.servers[:n % len(bed.servers)]:
                        rows.setdefault((s.name, client), []).append(measure(bed, s, accept, o.seconds))
            for (name, client), (coding, body) in got.items():
                if name == "ours" and coding != client:
                    wrong.append(f"a client that likes {client} gets {coding}")
                if name == "ours" and coding in ("identity", "gzip") and (gzip.decompress(body) if coding == "gzip" else body) != text:
                    wrong.append(f"in {coding} it isn't the page")
    print(f"A page of {len(text)} bytes; CPU us a hit (median of {o.rounds}), bytes of the body, the coding that the client got\n")
    print("| client takes | " + " | ".join(dict.fromkeys(name for name, _ in rows)) + " | ours to varnish |\n|" + " --- |" * (len({n for n, _ in rows}) + 2))
    saved = {}
    for client in CLIENTS:
        cells, cpu = [], {}
        for name in dict.fromkeys(name for name, _ in rows):
            runs = rows[name, client]
            cpu[name] = statistics.median(run["cpu_us"] for run in runs)
            coding, body = got[name, client]
            cells.append(f"{cpu[name]:.1f} us, {len(body)}, {coding}")
            saved[f"{name} {client}"] = {"cpu_us": cpu[name], "bytes": len(body), "coding": coding}
            if name == "ours" and any(run["bad"] for run in runs):
                wrong.append(f"{client}: {sum(run['bad'] for run in runs)} wrong answers")
        ratio = cpu["ours"] / cpu["varnish"] if {"ours", "varnish"} <= cpu.keys() else None
        print(f"| {client} | " + " | ".join(cells) + f" | {ratio:.2f} |" if ratio else f"| {client} | " + " | ".join(cells) + " | - |")
        if client == "identity" and ratio and ratio > MOST_IDENTITY:
            wrong.append(f"a hit for a client without gzip costs {ratio:.2f} of varnishd's, more than {MOST_IDENTITY}")
    if o.out:
        pathlib.Path(o.out).write_text(json.dumps({"commit": commit(), "bytes": len(text), "results": saved}, indent=1) + "\n")
    print("\n".join(f"bench: {w}" for w in wrong))
    print(f"bench: {len(rows)} pairs measured, {len(wrong)} complaints")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
