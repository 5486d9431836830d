#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Origins that can't be reached or send no response: the server's terminal names each once with the cause, and says when it answers
again; `lacquer explain` names the cause, too. A backend that is the server itself is one of them.
"""
import contextlib
import pathlib
import re
import socket
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from bed.daemon import Varnishd, free_port
from bed.http import get
from bed.origin import Origin, head, simple
from bed.report import Report, options, until

LIMIT = 30
EFFECT = "requests that need it are answered 503"
# A busy machine may take seconds for what is answered at once: only backends that never answer have short times.
PARAMS = ["-p", "connect_timeout=30"]
MORE = {"plain": ".ssl = 1;", "probed": ".probe = { .interval = 0.1s; .timeout = 30s; .window = 1; .threshold = 1; }",
        "silent": ".first_byte_timeout = 2s;", "filtered": ".connect_timeout = 2s;"}
# What the operator reads of each fault.
CAUSES = {
    "refused": "connection refused",
    "filtered": "no connection within connect_timeout",
    "closes": "connection closed before a response",
    "silent": "no response in time (first_byte_timeout, between_bytes_timeout)",
    "garbage": "no valid response: it isn't HTTP",
    "plain": "TLS handshake failed: what came is no TLS record",
    "probed": "the health probe says sick: HTTP/1.1 500 Oops",
}
# The registered type of each (RFC 9209, 2.3), as the first response after it says in Proxy-Status.
TYPES = {
    "refused": "connection_refused",
    "filtered": "connection_timeout",
    "closes": "connection_terminated",
    "silent": "connection_read_timeout",
    "garbage": "http_protocol_error",
    "plain": "tls_protocol_error",
    "probed": "destination_unavailable",
}


def closes(s):
    head(s, b"")


def silent(s):
    head(s, b"")
    s.recv(1)


def garbage(s):
    head(s, b"")
    s.sendall(b"220 mail.example ESMTP\r\n\r\n")


def plain(s):
    s.sendall(b"220 mail.example ESMTP\r\n")
    s.recv(1)


def oops(s):
    head(s, b"")
    s.sendall(b"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n")


@contextlib.contextmanager
def filtered():
    """The address of a listener whose queue is full: like behind a firewall, nothing answers."""
    with socket.socket() as listener, contextlib.ExitStack() as open_sockets:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(4):
            s = open_sockets.enter_context(socket.socket())
            s.setblocking(False)
            s.connect_ex(listener.getsockname())
        yield listener.getsockname()


def vcl(backends):
    text = "vcl 4.1;\n"
    for name, (host, port) in backends.items():
        text += f'backend {name} {{ .host = "{host}"; .port = "{port}"; {MORE.get(name, "")} }}\n'
    text += "sub vcl_recv {\n"
    for name in backends:
        text += f'    if (req.url == "/{name}") {{ set req.backend_hint = {name}; }}\n'
    return text + "}\n"


def lines(v, name):
    """What the terminal says of a backend."""
    found = (re.search(rf"backend {name} \(\S+\): (.*)", line) for line in list(v.output))
    return [m.group(1).strip() for m in found if m]


def lacquer(v, *words):
    program = pathlib.Path(v.proc.args[0]).with_name("lacquer")
    p = subprocess.run([program, words[0], "-n", str(v.n), *words[1:]], capture_output=True, text=True, timeout=60)
    return p.stdout + p.stderr


def check_causes(report, v, backends):
    for name in backends:
        if name == "probed":
            report.check(until(LIMIT, lambda: lines(v, name)), "the probe's verdict isn't there")
        for n in range(3):
            r = get(v.address, f"/{name}", [], 30)
            report.check(r.status == 503, f"{name}: {r}")
            # Shortly after a refused connection no other one is attempted.
            kind = "destination_unavailable" if n and name == "refused" else TYPES[name]
            told = r.get("Proxy-Status", "")
            report.check(told.startswith(f"Lacquer; error={kind}; next-hop={name}; details="), f"{name}: {told}")
            report.check("127.0.0.1" not in told and "Oops" not in told and "mail" not in told, f"{name}: {told}")
    v.cli.ask("param.set proxy_status address")
    for name, (host, port) in backends.items():
        told = get(v.address, f"/{name}", [], 30).get("Proxy-Status", "")
        report.check(f'; next-hop="{host}:{port}"; ' in told, f"{name}: {told}")
    v.cli.ask("param.set proxy_status off")
    told = get(v.address, "/closes", [], 30).get("Proxy-Status")
    report.check(told is None, f"proxy_status=off: {told}")
    v.cli.ask("param.set proxy_status name")
    for name, cause in CAUSES.items():
        said = lines(v, name) if until(LIMIT, lambda: lines(v, name)) else []
        report.check(len(said) == 1 and said[0] == f"{cause}; {EFFECT}", f"{name}: the terminal says {said}")
        text = lacquer(v, "explain", f"http://bed.test/{name}")
        wanted = rf"Reason: fetch-failed(.|\n)*backend {name} \(127.0.0.1:\d+\) failed \d+ s ago: {re.escape(cause)}"
        report.check(re.search(wanted, text), f"{name}: explain says {text}")


def check_recovery(report, v, address):
    with Origin(simple(lambda *_: ("", b"ok")), at=address):
        report.check(until(LIMIT, lambda: get(v.address, "/refused", [], 30).status == 200), "the backend isn't asked again")
        report.check(until(LIMIT, lambda: "answers again" in lines(v, "refused")), f"{lines(v, 'refused')}")
    report.check(lines(v, "refused").count("answers again") == 1, f"{lines(v, 'refused')}")


def check_loop(report, v):
    """A backend that is the server itself, of a VCL that has others: answered at once, and named."""
    host, port = v.address
    itself = f'backend itself {{ .host = \\"{host}\\"; .port = \\"{port}\\"; }} sub vcl_recv {{ set req.backend_hint = itself; }}'
    v.cli.ask(f'vcl.inline loop "vcl 4.1; backend other none; {itself}"')
    v.cli.ask("vcl.use loop")
    for _ in range(2):
        r = get(v.address, "/loop", [], 30)
        report.check(r.status == 508, f"a loop: {r}")
        report.check(r.get("Proxy-Status", "").startswith("Lacquer; error=proxy_loop_detected"), f"a loop: {r.get('Proxy-Status')}")
    cause = "its address is this server's own, so that requests come back"
    said = lines(v, "itself") if until(LIMIT, lambda: lines(v, "itself")) else []
    report.check(said == [f"{cause}; requests that need it are answered 508"], f"the terminal says {said}")
    text = lacquer(v, "explain", "http://bed.test/loop")
    report.check(re.search(rf"backend itself \({host}:{port}\) failed \d+ s ago: {cause}", text), f"explain says {text}")


def main():
    o = options(__doc__)
    report = Report("outages")
    dead = ("127.0.0.1", free_port())
    with contextlib.ExitStack() as stack:
        serves = {"closes": closes, "silent": silent, "garbage": garbage, "plain": plain, "probed": oops}
        backends = {name: stack.enter_context(Origin(serve)).address for name, serve in serves.items()}
        backends |= {"refused": dead, "filtered": stack.enter_context(filtered())}
        v = stack.enter_context(Varnishd(o.varnishd, PARAMS, vcl=vcl(backends)))
        check_causes(report, v, backends)
        check_recovery(report, v, dead)
        check_loop(report, v)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
