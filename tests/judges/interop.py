# SPDX-License-Identifier: BSD-2-Clause
"""The cases of the QUIC interop runner that concern a server of HTTP/3, for other people's clients.

handshake, transfer (3 files of 2 MB, in which the client renews its keys), streams (60 of 200 KB at once), multiconnect (30 connections), resumption, zerortt;
`retry`: each client has to show its address first; `loss`: transfer over a path that loses, doubles and turns round 3 of 100 datagrams.

A judge has a function of (case, address, the file with the roots, a directory) that does what the client does and gives one dict for each response: `status`,
`bytes`, `digest` (SHA-256), `resumed`, `zerortt`, `error`.
"""
import argparse
import asyncio
import hashlib
import pathlib
import random
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from bed import built, pypi

if why := pypi.missing("aioquic"):
    sys.exit(f"aioquic is missing: {why}")

sys.path.insert(0, str(HERE.parent / "e2e/protocols/h3"))
from bed.certificates import Authority
from bed.daemon import Varnishd, directory, on_one_port
from bed.origin import Origin, simple
from bed.report import Report
from client import Path

LIMIT = 120  # seconds for a case
FILES, STREAMS, CONNECTIONS = 3, 60, 30
LARGE = random.Random(3).randbytes(2 << 20)
BODIES = {"large": LARGE, "middle": LARGE[:200_000]}
VCL = """vcl 4.1;
backend origin { .host = "%s"; .port = "%s"; }
sub vcl_recv { if (req.url == "/own") { return (synth(200)); } }
"""
# case: (what the client does, parameters of the server, datagrams of a hundred that are lost)
CASES = {
    **{name: (name, (), 0) for name in ("handshake", "transfer", "streams", "multiconnect", "resumption", "chacha20")},
    "zerortt": ("zerortt", ("h3_early_data=on",), 0),
    "retry": ("multiconnect", ("h3_retry_threshold=0",), 0),
    "loss": ("transfer", (), 3),
}


def body_of(path):
    return BODIES[path.lstrip("/").split("?")[0].split("/")[0]]


async def asked(ask, case, address, roots, top, lost):
    async with Path.open(address, 1, lost=lost, delay=0.005 if lost else 0.0) as path:
        return await asyncio.wait_for(ask(case, path.address if lost else address, roots, top), LIMIT)


def judge_case(report, o, name, ask, authority, top, origin):
    case, params, lost = CASES[name]
    args = ["-A", str(top / "tls.conf"), *(word for param in params for word in ("-p", param))]
    started = []
    on_one_port(lambda port: started.append(Varnishd(o.varnishd, ["-a", "clear=127.0.0.1:0", "-a", f"tls=127.0.0.1:{port},https", "-a",
                                                                  f"quic=127.0.0.1:{port},quic", *args], vcl=VCL % origin.address)))
    (own := top / name).mkdir()
    with started[-1] as server:
        got = asyncio.run(asked(ask, case, ("127.0.0.1", server.addresses["tls"][1]), authority.root, own, lost))
    body = LARGE if case == "transfer" else b"" if case == "handshake" else BODIES["middle"]
    wrong = [one for one in got if one.get("error") or one["status"] != 200 or body and (one["bytes"], one["digest"]) != (len(body), hashlib.sha256(body).hexdigest())]
    report.check(got and not wrong, f"{name}: {wrong[:2]}")
    if case in ("resumption", "zerortt"):
        report.check(not got[0]["resumed"] and got[-1]["resumed"], f"{name}: the session isn't taken up: {got}")
    if case == "zerortt":
        report.check(got[-1]["zerortt"], f"{name}: no early data: {got}")
    report.note(f"{name}: {len(got)} responses")


def main(name, doc, make, left_out=()):
    """The whole of a judge. `make` gets a directory, and gives the function that is the client."""
    cases = [case for case in CASES if case not in left_out]
    p = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("cases", nargs="*", metavar="CASE", help=", ".join(cases))
    p.add_argument("--varnishd", type=pathlib.Path, default=built.program("varnishd"))
    o = p.parse_intermixed_args()
    if missing := built.why_not(o.varnishd):
        sys.exit(missing)
    report = Report(name)
    with directory() as top:
        ask, authority = make(top), Authority(top / "ca")
        leaf = authority.leaf("bed.test", "localhost")
        (top / "tls.conf").write_text(f'pem-file = "{leaf.pem}"\n')
        with Origin(simple(lambda _method, path, _fields: ("Cache-Control: max-age=60\r\n", body_of(path)))) as origin:
            for case in o.cases or cases:
                judge_case(report, o, case, ask, authority, top, origin)
    return report.close()
