# SPDX-License-Identifier: BSD-2-Clause
"""A site on hitch and Debian's varnishd, and the same site on one command line: the same file for TLS, the same VCL, the same
questions; answers and log fields are held side by side."""
import contextlib
import pathlib
import re
import shutil

from bed.origin import Origin, simple
from bed.sealed import SealedClient, client_context
from served import Hitch, Ours, log_lines

GENUINE = "/usr/sbin/varnishd"
# As people have it who asked hitch what the client spoke.
VCL = """vcl 4.1;
import std;
import proxy;
backend default { .host = "%s"; .port = "%s"; }
acl inside { "127.0.0.0"/8; }
sub vcl_recv {
    unset req.http.X-Forwarded-Proto;
    if (proxy.is_ssl()) {
        set req.http.X-Forwarded-Proto = "https";
    }
    if (req.url ~ "^/only-tls" && req.http.X-Forwarded-Proto != "https") {
        return (synth(301, "https://" + req.http.Host + req.url));
    }
    if (req.method == "PURGE") {
        if (client.ip !~ inside) { return (synth(405)); }
        return (purge);
    }
    if (req.url ~ "^/pass") { return (pass); }
    if (req.url ~ "^/synth") { return (synth(418, "teapot")); }
}
sub vcl_hash { hash_data(req.http.X-Forwarded-Proto); }
sub vcl_deliver {
    set resp.http.Client = client.ip;
    set resp.http.Remote = remote.ip;
    set resp.http.Server-Address = server.ip;
    set resp.http.Proto = req.http.X-Forwarded-Proto;
    set resp.http.Version = proxy.ssl_version();
    set resp.http.Cipher = proxy.ssl_cipher();
    set resp.http.Name = proxy.authority();
    set resp.http.Alpn = proxy.alpn();
    set resp.http.Hits = obj.hits;
}
sub vcl_synth {
    if (resp.status == 301) { set resp.http.Location = resp.reason; }
}
"""
QUESTIONS = (
    ("GET", "/a", (), None), ("GET", "/a", (), None), ("GET", "/a", (("If-None-Match", '"tag"'),), None), ("HEAD", "/a", (), None),
    ("GET", "/long", (("Range", "bytes=5-14"),), None), ("GET", "/long", (), None), ("GET", "/pass", (), None),
    ("POST", "/form", (("Content-Type", "text/plain"),), b"x" * 20000), ("GET", "/missing", (), None), ("GET", "/synth", (), None),
    ("GET", "/only-tls", (), None), ("PURGE", "/a", (), None), ("GET", "/a", (), None), ("GET", "/vary", (("Accept-Language", "de"),), None),
    ("GET", "/vary", (("Accept-Language", "fr"),), None), ("GET", "/long", (("Accept-Encoding", "gzip"),), None),
    ("GET", "/a?" + "q" * 3000, (), None), ("GET", "/a", (("Connection", "close"),), None),
)
LOG = "%h %l %u %m %H %s %b %{Host}i %{X-Forwarded-Proto}i %U %q %{Varnish:handling}x %{Varnish:hitmiss}x"
# What is another's time, number or program.
# `remote` is who speaks to varnishd: hitch there, the client here.
APART = ("date", "age", "x-varnish", "via", "server", "expires", "remote")


def answer(method, path, fields):
    if path.startswith("/long"):
        return "Cache-Control: max-age=600\r\nContent-Type: text/plain\r\n", b"0123456789" * 5000
    if path.startswith("/vary"):
        return "Cache-Control: max-age=600\r\nVary: Accept-Language\r\n", fields.get("accept-language", "").encode()
    if path.startswith("/form"):
        return "Cache-Control: no-store\r\n", fields.get("x-forwarded-proto", "none").encode()
    return 'Cache-Control: max-age=600\r\nETag: "tag"\r\n', b"hello " + fields.get("x-forwarded-proto", "none").encode()


def asked(served, context, name):
    """The answers to all questions over one connection (a new one where it was closed), without what is a server's own."""
    out, c = [], None
    for method, path, fields, body in QUESTIONS:
        c = c or SealedClient(served.sealed, context, name)
        r = c.request(path, fields, method, name, body)
        # A page that the server makes has the number of the transaction in it, with more or fewer digits.
        is_page = "XID" in str(r.body)
        apart = (*APART, "content-length") if is_page else APART
        own = [(field.lower(), value) for field, value in r.fields if field.lower() not in apart]
        out.append((f"{method} {path[:20]}", r.status, r.reason, r.end, "page" if is_page else r.digest, own))
        if r.get("Connection") == "close":
            c.close()
            c = None
    if c:
        c.close()
    return out


def spoken(text):
    """A log's line without what the port or the program decides, and without the length of a page that was made."""
    text = re.sub(r"127\.0\.0\.1:\d+", "ADDRESS", text)
    words = text.split(" ")
    return " ".join([*words[:6], *words[7:]]) if text.endswith(" synth miss") else text


def side_by_side(report, o, made, extra=""):
    with Origin(simple(answer)) as origin, contextlib.ExitStack() as stack:
        vcl = VCL % origin.address[:2]
        theirs = stack.enter_context(Hitch(GENUINE, made.served, extra, vcl=vcl))
        # The very file that hitch was started with; its frontend is taken by hitch, so that the port is another.
        conf = (theirs.dir / "hitch.conf").read_text()
        ours = stack.enter_context(Ours(o.varnishd, made.served, "\n".join(conf.splitlines()[1 + len(made.served):]) + "\n", vcl=vcl))
        for version in ("1.2", "1.3"):
            for name in ("bed.test", "rsa.test"):
                context = client_context(made.root.root, versions=(version, version), alpn=["http/1.1"])
                for mine, other in zip(asked(ours, context, name), asked(theirs, context, name)):
                    report.check(mine == other, f"TLS {version}, {name}, {mine[0]}:\n       ours  {mine[1:]}\n       hitch {other[1:]}")
        count = 4 * len(QUESTIONS)
        for mine, other in zip(log_lines(ours, LOG, count), log_lines(theirs, LOG, count), strict=True):
            report.check(spoken(mine) == spoken(other), f"log: ours {mine!r}, hitch {other!r}")
        # Varnish's own says http of all.
        requests = log_lines(ours, "%r", count, program=pathlib.Path(o.varnishd).with_name("varnishncsa"))
        report.check(len(requests) == count and all(" https://" in line for line in requests), f"%r doesn't say https: {requests[:2]}")


def run(report, o, made):
    if not shutil.which("hitch"):
        report.note("hitch isn't installed: not held beside it")
        return
    side_by_side(report, o, made)
