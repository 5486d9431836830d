# SPDX-License-Identifier: BSD-2-Clause
"""The same client before pebble, Let's Encrypt's test CA, which is strict about each request, its signature and its nonce."""
import json
import os
import pathlib
import shutil
import socket
import ssl
import subprocess
import urllib.request

from bed.certificates import Authority
from bed.daemon import Varnishd, die_with_parent, free_port, workdir
from bed.report import until

LIMIT = 60
PROGRAMS = ("pebble", "pebble-challtestsrv")
VCL = """vcl 4.1;
backend none none;
sub vcl_recv { return (synth(403)); }
"""
ALLOWS = """vcl 4.1;
backend none none;
sub vcl_recv {
    if (local.socket == "acme:demand" && req.http.host ~ "\\.pebble\\.test$") { return (synth(204)); }
    return (synth(403));
}
"""


def built():
    """Where both programs are; Go builds them once."""
    place = pathlib.Path(os.environ.get("PEBBLE") or pathlib.Path.home() / ".cache/lacquer-pebble")
    if not all((place / name).exists() for name in PROGRAMS):
        sources = [f"github.com/letsencrypt/pebble/v2/cmd/{name}@latest" for name in PROGRAMS]
        subprocess.run(["go", "install", *sources], env={**os.environ, "GOBIN": str(place)}, check=True, timeout=1200)
    return place


class Pebble:
    """A pebble that asks for proofs at these ports of loopback, whatever the name."""

    def __init__(self, http_port, tls_port):
        place, self.dir = built(), workdir()
        own = Authority(self.dir / "authority").leaf("127.0.0.1")
        port, management, dns, other = (free_port() for _ in range(4))
        config = {"listenAddress": f"127.0.0.1:{port}", "managementListenAddress": f"127.0.0.1:{management}",
                  "certificate": str(own.chain), "privateKey": str(own.key), "httpPort": http_port, "tlsPort": tls_port,
                  "ocspResponderURL": "", "externalAccountBindingRequired": True,
                  "externalAccountMACKeys": {"kid-1": "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W"},
                  "retryAfter": {"authz": 1, "order": 1}}
        (self.dir / "config").write_text(json.dumps({"pebble": config}))
        self.trusted, self.directory = self.dir / "authority/cert.pem", f"https://127.0.0.1:{port}/dir"
        self.management = management
        commands = [[place / "pebble-challtestsrv", "-defaultIPv4", "127.0.0.1", "-defaultIPv6", "", "-dnsserver", f"127.0.0.1:{dns}", "-management",
                     f"127.0.0.1:{other}", "-http01", "", "-https01", "", "-tlsalpn01", "", "-doh", ""],
                    [place / "pebble", "-config", self.dir / "config", "-dnsserver", f"127.0.0.1:{dns}", "-strict"]]
        self.log = open(self.dir / "log", "wb")
        self.running = [subprocess.Popen(command, env={**os.environ, "PEBBLE_VA_NOSLEEP": "1"}, stdout=self.log, stderr=self.log,
                                         preexec_fn=die_with_parent) for command in commands]
        until(LIMIT, lambda: self.answers())

    def answers(self):
        try:
            self.roots = self.fetch("/roots/0")
            return True
        except OSError:
            return False

    def fetch(self, path):
        context = ssl.create_default_context(cafile=self.trusted)
        with urllib.request.urlopen(f"https://127.0.0.1:{self.management}{path}", context=context, timeout=LIMIT) as r:
            return r.read().decode()

    def close(self):
        for p in self.running:
            p.terminate()
            p.wait(LIMIT)
        self.log.close()
        shutil.rmtree(self.dir, ignore_errors=True)


def judge(report, program):
    for kind in ("http-01", "tls-alpn-01"):
        http_port, tls_port = free_port(), free_port()
        pebble = Pebble(http_port, tls_port)
        try:
            (pebble.dir / "eab").write_text("zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W\n")
            names = ["a.pebble.test", "b.pebble.test"]
            settings = ["me@pebble.example", f"directory={pebble.directory}", f"ca-file={pebble.trusted}", f"state-dir={pebble.dir}/state",
                        f"challenge={kind}", "retry=1s", "eab-kid=kid-1", f"eab-key-file={pebble.dir}/eab"]
            context = ssl.create_default_context(cadata=pebble.roots)
            # Names that are said, and then names that clients ask for and VCL allows, by the account of before.
            for said, vcl, asked in ((names, VCL, names), (["on-demand=vcl"], ALLOWS, ["c.pebble.test", "d.pebble.test"])):
                args = ["--acme", ",".join([*said, *settings]), "-a", f"127.0.0.1:{http_port}", "-a", f"tls=127.0.0.1:{tls_port},https"]
                with Varnishd(program, args, vcl=vcl) as v:
                    for name in asked:
                        report.check(until(LIMIT, lambda: is_trusted(context, tls_port, name)),
                                     f"pebble, {kind}: {name}\n{v.log()}\n{(pebble.dir / 'log').read_text()[-2000:]}")
                    report.check(not is_trusted(context, tls_port, "refused.test"), f"pebble, {kind}: a name that nobody allows")
        finally:
            pebble.close()


def is_trusted(context, port, name):
    try:
        with socket.create_connection(("127.0.0.1", port), LIMIT) as s, context.wrap_socket(s, server_hostname=name):
            return True
    except OSError:
        return False
