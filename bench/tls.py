#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""CPU per request over TLS beside the peers: hitch in front of Debian's varnishd, nginx, haproxy and h2o.

As bench/run.py: all run at once on core 0 with one thread (or process) for traffic, one is asked at a time, generator and origin
have core 1, rounds are interleaved, CPU is what all processes of a server ran. All have the same certificate, made for the run, and
are asked for the same version, cipher and group. They have session tickets; nginx, haproxy and h2o a cache of sessions, too. h2o
has no cache of answers: it serves files. Behind varnishd haproxy speaks TLS to the origin.

usage: bench/tls.py [--rounds N] [--seconds S] [--cases A,B] [--servers a,b] [--ours PROGRAM] [--also NAME=PROGRAM] [--key ecdsa|rsa]
                    [--cipher NAMES] [--out FILE]
It fails when an answer of ours is wrong, or when ours takes more than 0.9 of the best of the peers' CPU (for idle connections: more
memory than the best, or 6 KB).
"""
import argparse
import http.client
import json
import os
import pathlib
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import time

import servers
from cases import HIT, HIT100K, Load
from run import commit, measure, medians, table
from servers import BIN, HERE, Bed, Haproxy, Nginx, Ours, Server, Varnish, another, build_tls, free_port, spawn

HOST = "www.example.com"
PASS = "/n/1024/1"
MOST = 0.9           # of the best of the peers
IDLE, MOST_IDLE_BYTES = 2000, 6 * 1024
RESUMED_AT_LEAST = 0.9
# What an OpenSSL client asks for first; the same strength in both versions.
CIPHERS = "TLS_AES_256_GCM_SHA384:ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-RSA-AES256-GCM-SHA384"
KEYS = {"ecdsa": ["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"], "rsa": ["-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"]}
UNVERIFIED = ssl.create_default_context()
UNVERIFIED.check_hostname, UNVERIFIED.verify_mode = False, ssl.CERT_NONE


class Certificate:
    """A key and a certificate for HOST, in files of their own and in one."""

    def __init__(self, directory, kind):
        self.key, self.cert, self.pem = (directory / name for name in ("key.pem", "cert.pem", "both.pem"))
        subprocess.run(["openssl", "genpkey", *KEYS[kind], "-out", self.key], check=True, capture_output=True)
        subprocess.run(["openssl", "req", "-x509", "-new", "-key", self.key, "-out", self.cert, "-days", "30", "-subj", f"/CN={HOST}",
                        "-addext", f"subjectAltName=DNS:{HOST}"], check=True, capture_output=True)
        self.pem.write_text(self.key.read_text() + self.cert.read_text())
        for file in (self.key, self.pem):
            os.chmod(file, 0o600)


class OverTls:
    """A server that is asked over TLS."""
    generator = "lg-tls"
    certificate, tls_origin = None, None  # of the run
    passes = True  # whether the origin over TLS is asked

    def connection(self):
        return http.client.HTTPSConnection("127.0.0.1", self.port, timeout=2, context=UNVERIFIED)


class SealedNginx(OverTls, Nginx):
    """TLS towards clients."""
    speaks = ""

    def argv(self):
        argv, conf = super().argv(), self.dir / "nginx.conf"
        conf.write_text(conf.read_text().replace(" backlog=4096;", f""" ssl {self.speaks} backlog=4096; ssl_certificate {self.certificate.cert};
  ssl_certificate_key {self.certificate.key}; ssl_protocols TLSv1.2 TLSv1.3; ssl_session_cache shared:s:20m; ssl_session_timeout 1h;
  ssl_session_tickets on;"""))
        return argv


class TlsNginx(SealedNginx):
    def argv(self):
        argv, conf = super().argv(), self.dir / "nginx.conf"
        text = conf.read_text().replace(" ssl_session_tickets on;", f""" ssl_session_tickets on;
  location /n/ {{ proxy_pass https://t; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header Host $host;
   proxy_ssl_name {HOST}; proxy_ssl_server_name on; }}""")
        conf.write_text(text.replace(" server {", f" upstream t {{ server 127.0.0.1:{self.tls_origin}; keepalive 64; keepalive_requests 100000000; }}\n server {{", 1))
        return argv


class SealedHaproxy(OverTls, Haproxy):
    """TLS towards clients."""
    speaks = "http/1.1"

    def argv(self):
        argv, conf = super().argv(), self.dir / "h.cfg"
        text = conf.read_text().replace(" backlog 4096", f" backlog 4096 ssl crt {self.certificate.pem} alpn {self.speaks}")
        conf.write_text(text.replace("global\n", "global\n ssl-default-bind-options ssl-min-ver TLSv1.2\n ssl-server-verify none\n"))
        return argv


class TlsHaproxy(SealedHaproxy):
    def argv(self):
        argv, conf = super().argv(), self.dir / "h.cfg"
        text = conf.read_text().replace(f" alpn {self.speaks}", f" alpn {self.speaks}\n use_backend t if {{ path_beg /n/ }}")
        conf.write_text(text + f"backend t\n server o 127.0.0.1:{self.tls_origin} ssl sni str({HOST})\n")
        return argv


class ClearH2o(Server):
    """Files for hits; what isn't cached goes to the origin."""
    name = "h2o"

    def listens(self):
        return ""

    def passes_to(self):
        return f"http://127.0.0.1:{self.origin}/n"

    def argv(self):
        for size, name in ((100, "0"), (1024, "1"), (102400, "1")):
            file = self.dir / f"www/c/{size}/{name}"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(b"x" * size)
        (self.dir / "h2o.yaml").write_text(f"""num-threads: 1
user: root
pid-file: {self.dir}/pid
error-log: {self.dir}/err
max-connections: 9900
http1-request-timeout: 300
tcp-fastopen: 0
ssl-session-resumption:
  mode: all
listen:
  host: 127.0.0.1
  port: {self.port}{self.listens()}
hosts:
  default:
    paths:
      /c:
        file.dir: {self.dir}/www/c
      /n:
        proxy.reverse.url: {self.passes_to()}
        proxy.ssl.verify-peer: OFF
        proxy.timeout.keepalive: 100000
""")
        return ["h2o", "-m", "worker", "-c", self.dir / "h2o.yaml"]


class SealedH2o(OverTls, ClearH2o):
    """TLS towards clients."""

    def listens(self):
        return f"""
  ssl:
    certificate-file: {self.certificate.cert}
    key-file: {self.certificate.key}
    minimum-version: TLSv1.2"""


class H2o(SealedH2o):
    def passes_to(self):
        return f"https://127.0.0.1:{self.tls_origin}/n"


class Hitch(OverTls, Varnish):
    """hitch, varnishd behind it, and haproxy behind that; over unix sockets, and one worker each."""
    name, speaks, behind = "hitch+varnish", "http/1.1", ()

    def start(self):
        d = self.dir
        sealed = f"""backend t {{ .path = "{d}/behind"; }}
sub vcl_recv {{ if (req.url ~ "^/n/") {{ set req.backend_hint = t; }} }}"""
        (d / "site.vcl").write_text(f"""vcl 4.1; backend default {{ .host = "127.0.0.1"; .port = "{self.origin}"; }}
{sealed if self.passes else ''}""")
        (d / "behind.cfg").write_text(f"""global
 nbthread 1
 ssl-server-verify none
defaults
 mode tcp
 timeout client 300s
 timeout server 300s
 timeout connect 5s
listen behind
 bind unix@{d}/behind mode 666
 server o 127.0.0.1:{self.tls_origin} ssl sni str({HOST})
""")
        (d / "hitch.conf").write_text(f"""frontend = "[127.0.0.1]:{self.port}"
backend = "{d}/inner"
pem-file = "{self.certificate.pem}"
tls-protos = TLSv1.2 TLSv1.3
alpn-protos = "{self.speaks}"
write-proxy-v2 = on
workers = 1
user = "nobody"
backlog = 4096
daemon = off
syslog = off
quiet = on
""")
        with open(d / "out", "wb") as out:
            common = {"stdout": out, "stderr": out, "stdin": subprocess.DEVNULL}
            self.others = [spawn(0, ["haproxy", "-W", "-f", d / "behind.cfg"], **common),
                           spawn(0, ["varnishd", "-F", "-a", f"{d}/inner,PROXY,mode=0666", "-f", d / "site.vcl", "-s", f"malloc,{self.store}",
                                     "-n", d / "n", "-p", "timeout_idle=300", *self.behind], **common)]
        end = time.time() + servers.START_LIMIT
        while not (d / "inner").exists() and time.time() < end:
            time.sleep(0.05)
        try:
            super().start()
        except BaseException:
            self.stop_others()
            raise

    def argv(self):
        return ["hitch", f"--config={self.dir}/hitch.conf"]

    def pids(self):
        return [pid for process in (self.process, *self.others) for pid in servers.descendants(process.pid)]

    def stop(self):
        self.stop_others()
        super().stop()

    def stop_others(self):
        for process in self.others:
            process.send_signal(signal.SIGTERM)
            process.wait(20)


class TlsOurs(OverTls, Ours):
    speaks = "http/1.1"

    def argv(self):
        d = self.dir
        (d / "tls.conf").write_text(f'frontend = "[127.0.0.1]:{self.port}"\npem-file = "{self.certificate.pem}"\nalpn-protos = "{self.speaks}"\n')
        sealed = f"""backend t {{ .host = "127.0.0.1"; .port = "{self.tls_origin}"; .host_header = "{HOST}"; .ssl = 1; .ssl_verify_peer = 0; }}
sub vcl_recv {{ if (req.url ~ "^/n/") {{ set req.backend_hint = t; }} }}"""
        (d / "site.vcl").write_text(f"""vcl 4.1; backend default {{ .host = "127.0.0.1"; .port = "{self.origin}"; }}
{sealed if self.passes else ''}""")
        return [self.program(), "-F", "-A", d / "tls.conf", "-f", d / "site.vcl", "-s", f"malloc,{self.store}", "-n", d / "n",
                "-p", "timeout_idle=300", *self.more]


class TlsLoad(Load):
    """As a load in clear; says how many connections were resumed."""

    def __init__(self, name, path, options=(), version="1.3", is_resumed=False):
        super().__init__(name, path, ["-T", version, *options, *(["-R"] if is_resumed else [])], body=0)
        self.is_resumed = is_resumed
        self.columns = ("rps", "p50_us", "p99_us", "resumed")

    def measured(self, bed, server, path, options, seconds):
        counted = {}

        class Counting:
            def load(self, *a):
                counted.update(bed.load(*a))
                return counted
        figures = super().measured(Counting(), server, path, options, seconds)
        return figures | {"resumed": counted["resumed"] / max(1, counted["conns"]), "spoken": counted["spoken"]}

    def remarks(self, median):
        lines, wrong = beside(self.key, MOST, median)
        for name, own in median.items():
            if self.is_resumed and own["resumed"] < RESUMED_AT_LEAST:
                (wrong if name.startswith("ours") else lines).append(f"{name} resumed {own['resumed']:.2f} of the connections")
        return lines, wrong


class TlsIdle(Load):
    """Memory of a connection that had one answer and is idle."""

    def __init__(self, name):
        super().__init__(name, HIT, key="bytes")
        self.columns, self.once = (), True

    def measure(self, bed, server, seconds):
        # As many connections as there will be have come and gone: what a server keeps for the next ones isn't counted.
        with bed.hold(server, HIT, 64):
            pass
        time.sleep(0.5)
        before = server.pss()
        with bed.hold(server, HIT, IDLE):
            time.sleep(1.0)
            return {"bytes": (server.pss() - before) / IDLE}

    def remarks(self, median):
        lines, wrong = beside(self.key, 1.0, median)
        ours = median.get("ours", {}).get("bytes", 0)
        return lines, wrong + ([f"ours has {ours:.0f} bytes a connection"] if ours > MOST_IDLE_BYTES else [])


def beside(key, most, median):
    """Ours against the best of the peers, and whether that is too much."""
    peers = {name: own[key] for name, own in median.items() if not name.startswith("ours")}
    ours = {name: own[key] for name, own in median.items() if name.startswith("ours")}
    if not peers or not ours:
        return [], []
    best = min(peers, key=peers.get)
    lines = [f"{name} to the best, {best}: {own / peers[best]:.2f}" for name, own in ours.items()]
    return lines, [line for line, own in zip(lines, ours.values()) if own > most * peers[best]]


def each_version(name, is_resumed):
    return [TlsLoad(f"{name}-{version}", HIT, ["-k", "1", "-c", "32"], version, is_resumed) for version in ("1.3", "1.2")]


CASES = {case.name: case for case in (
    TlsLoad("hit-1k", HIT, ["-B"]), TlsLoad("hit-100k", HIT100K, ["-c", "16", "-B"]), *each_version("full", False), *each_version("resumed", True),
    TlsLoad("pass-tls", PASS, ["-c", "32"]), TlsIdle("idle-bytes"))}
SERVERS = {"hitch+varnish": Hitch, "nginx": TlsNginx, "haproxy": TlsHaproxy, "h2o": H2o, "ours": TlsOurs}
NEEDS = {"hitch+varnish": "hitch", "h2o": "h2o"}


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--rounds", type=int, default=5)
    a.add_argument("--seconds", type=float, default=1.0)
    a.add_argument("--cases", default=",".join(CASES))
    a.add_argument("--servers", default=",".join(SERVERS))
    a.add_argument("--ours", default=str(HERE.parent / "dist/bin/varnishd"))
    a.add_argument("--also", action="append", default=[], metavar="NAME=PROGRAM", help="another build of ours beside it")
    a.add_argument("--key", choices=KEYS, default="ecdsa")
    a.add_argument("--cipher", default=CIPHERS)
    a.add_argument("--out")
    o = a.parse_args()
    unknown = set(o.cases.split(",")) - set(CASES) | set(o.servers.split(",")) - set(SERVERS)
    if unknown:
        a.error(f"no {', '.join(unknown)}")
    build_tls()
    servers.SERVERS.update(SERVERS)
    servers.NEEDS.update(NEEDS)
    names = o.servers.split(",") + [also(*word.split("=", 1)) for word in o.also]
    Bed.asking = ["-C", o.cipher, "-G", "X25519:P-256", "-S", HOST]
    results, wrong, files = {}, [], pathlib.Path(tempfile.mkdtemp(prefix="lacquer-bench-tls.", dir="/dev/shm"))
    OverTls.passes = "pass-tls" in o.cases.split(",")
    OverTls.certificate, OverTls.tls_origin = Certificate(files, o.key), free_port()
    origin = spawn(1, [BIN / "origin-tls", OverTls.tls_origin, ".", OverTls.certificate.pem])
    try:
        with Bed(names, o.ours) as bed:
            for case in map(CASES.get, o.cases.split(",")):
                results[case.name] = measure(case, bed, o.rounds, o.seconds)
                text, complaints = table(case, results[case.name])
                spoken = {row.get("spoken", "") for rows in results[case.name].values() for row in rows}
                print(f"{text}\n{', '.join(sorted(filter(None, spoken)))}", flush=True)
                wrong += complaints
    finally:
        origin.terminate()
        origin.wait()
        shutil.rmtree(files, ignore_errors=True)
    saved = {"when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "commit": commit(), "load": os.getloadavg()[0],
             "rounds": o.rounds, "seconds": o.seconds, "key": o.key, "results": results}
    if o.out:
        pathlib.Path(o.out).write_text(json.dumps(saved, indent=1) + "\n")
    print("\n| case | " + " | ".join(names) + " | ours to best |\n|" + " --- |" * (len(names) + 2))
    for name, by in results.items():
        own = {server: figures[CASES[name].key] for server, figures in medians(by).items()}
        peers = [figure for server, figure in own.items() if not server.startswith("ours")]
        ratio = f"{own['ours'] / min(peers):.2f}" if "ours" in own and peers else "-"
        print(f"| {name} | " + " | ".join(f"{own[server]:.4g}" if server in own else "-" for server in names) + f" | {ratio} |")
    print("\n".join(f"tls: {text}" for text in wrong))
    return 1 if wrong else 0


def also(name, program):
    """A further build of ours under a name of its own."""
    servers.SERVERS[name] = type(name, (TlsOurs,), {"name": name, "program": lambda _: program})
    return name


if __name__ == "__main__":
    sys.exit(main())
