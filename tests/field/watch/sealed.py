# SPDX-License-Identifier: BSD-2-Clause
"""The page over TLS: certificates of clients in a token's place, renewed certificates, and what the process that the server starts may do."""
import http.client
import json
import os
import pathlib
import pwd
import shutil
import socket
import ssl

from bed.certificates import Authority
from bed.daemon import directory
from bed.report import until
from bed.sealed import client_context

LIMIT = 60  # seconds; ends a wait for what never comes
TOKEN = "0123456789abcdef0123"


def ask(address, path, context, method="GET", body=None, fields=()):
    """Status, fields and body; None where TLS came to nothing."""
    connection = http.client.HTTPSConnection(*address, context=context, timeout=20)
    try:
        connection.request(method, path, body=body, headers=dict(fields))
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


def shown(address):
    """The certificate that a client is shown."""
    try:
        return ssl.get_server_certificate(address, timeout=LIMIT)
    except OSError:
        return None


def certificates(report, Watch, lacquer, v):
    with directory() as place:
        _certificates(report, Watch, lacquer, v, place)


def _certificates(report, Watch, lacquer, v, directory):
    ours, others = Authority(directory / "ours", "ours"), Authority(directory / "others", "others")
    server, spare, me, stranger = ours.leaf("127.0.0.1"), ours.leaf("127.0.0.1"), ours.leaf("me", use="client"), others.leaf("me", use="client")
    files = [directory / name for name in ("watch.pem", "token")]
    shutil.copy(server.pem, files[0])
    files[1].write_text(TOKEN)
    as_me, as_nobody, as_stranger = (client_context(ours.cert, leaf) for leaf in (me, None, stranger))
    status = lambda address, path, context, **more: (ask(address, path, context, **more) or [None])[0]
    with Watch(lacquer, v.n, "--tls-cert", str(files[0]), "--client-ca", str(ours.cert), "--control") as w:
        report.check("watch: https://" in "".join(w.said), f"it says https: {w.said}")
        statuses = lambda: [status(w.address, path, as_me) for path in ("/", "/api/state", "/metrics", "/healthz")]
        # Until it has read the server's state, it isn't healthy.
        report.check(until(60, lambda: statuses() == [200] * 4), f"who shows a certificate sees all: {statuses()}")
        refused = [status(w.address, path, as_nobody) for path in ("/", "/api/state", "/metrics", "/api/seconds")]
        report.check(refused == [403] * 4, f"who shows none sees nothing: {refused}")
        report.check(ask(w.address, "/healthz", as_nobody)[2] == b'{"status":"ok"}', "but whether it is healthy, without reasons")
        report.check(ask(w.address, "/", as_stranger) is None, "who shows another's isn't let in")
        with socket.create_connection(w.address, LIMIT) as s:
            s.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            got = b"".join(iter(lambda: s.recv(4096), b"")) if s else b""
        report.check(b"HTTP/1.1" not in got, f"clear text gets no answer: {got[:40]}")
        key = json.loads(ask(w.address, "/api/state", as_me)[2])["about"]["key"]
        own = [("Origin", f"https://{w.address[0]}:{w.address[1]}"), ("X-Watch-Key", key), ("Content-Type", "application/json")]
        ban = lambda context: ask(w.address, "/api/ask/ban", context, "POST", b'{"expression": "req.url == /sealed"}', own)
        report.check(ban(as_nobody)[0] == 403 and json.loads(ban(as_me)[2])["ok"] and "/sealed" in v.cli.ask("ban.list"), "a ban by who is known")
        with as_me.wrap_socket(socket.create_connection(w.address, LIMIT), server_hostname=w.address[0]) as s:
            s.sendall(b"GET /api/seconds HTTP/1.1\r\nHost: a\r\n\r\n")
            got = b""
            while got.count(b"event: second") < 2 and (d := s.recv(65536)):
                got += d
        report.check(got.count(b"event: second") == 2, f"seconds over TLS: {got[-200:]}")
        before = shown(w.address)
        files[0].write_text("nonsense")
        # It looks when somebody comes.
        report.check(until(LIMIT, lambda: shown(w.address) == before and "former certificate stays" in "".join(w.said)), f"a broken file changes nothing: {w.said}")
        shutil.copy(spare.pem, files[0])
        report.check(until(LIMIT, lambda: (now := shown(w.address)) and now != before), "a renewed certificate is read by itself")
    with Watch(lacquer, v.n, "--tls-cert", str(server.chain), "--tls-key", str(server.key), "--token-file", str(files[1])) as w:
        report.check([status(w.address, "/metrics", context) for context in (as_me, as_nobody)] == [401] * 2, "without --client-ca certificates say nothing")
        report.check(status(w.address, "/metrics", as_nobody, fields=[("Authorization", f"Bearer {TOKEN}")]) == 200, "the token does")
        login = ask(w.address, "/login", as_nobody, "POST", f"token={TOKEN}".encode())
        report.check(login[0] == 303 and login[1]["Set-Cookie"].endswith("; Secure"), f"its cookie goes over TLS alone: {login and login[1]['Set-Cookie']}")


def jail():
    """Words that have root give itself up, where there is root: the process can't read keys itself then."""
    try:
        is_there = os.geteuid() == 0 and pwd.getpwnam("varnish").pw_gid == pwd.getpwnam("vcache").pw_gid
    except KeyError:
        is_there = False
    return ["-j", "unix,user=varnish"] if is_there else []


def words(pid):
    return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")


def started_by_server(report, Varnishd, of_server, is_watch, program, vcl):
    """What the process of --watch has of the server: questions by a channel; the secret only to change the server."""
    with directory() as place:
        _started_by_server(report, Varnishd, of_server, is_watch, program, vcl, place)


def _started_by_server(report, Varnishd, of_server, is_watch, program, vcl, directory):
    ours = Authority(directory / "ours", "ours")
    server, me = ours.leaf("127.0.0.1"), ours.leaf("me", use="client")
    (directory / "token").write_text(TOKEN)
    context = client_context(ours.cert, me)
    setting = f"127.0.0.1:0,tls-cert={server.pem},client-ca={ours.cert}"
    for control in (False, True):
        with Varnishd(program, [*jail(), "--watch", setting + ",control" * control], vcl=vcl) as v:
            address = of_server(v)
            pid = next(p for p in v.pids() if is_watch(p))
            report.check((b"-S" in words(pid)) == control, f"the secret goes with control alone ({control}): {words(pid)}")
            report.check(until(LIMIT, lambda: (ask(address, "/api/state", context) or [0])[0] == 200), "its page is there")
            key = json.loads(ask(address, "/api/state", context)[2])["about"]["key"]
            own = [("Origin", f"https://{address[0]}:{address[1]}"), ("X-Watch-Key", key)]
            post = lambda what, body: json.loads(ask(address, f"/api/ask/{what}", context, "POST", json.dumps(body).encode(), own)[2])
            told = post("explain", {"url": "http://a/account"})
            report.check(told["ok"] and "pass" in told["text"], f"explain ({control}): {told}")
            told = [post(what, {}) for what in ("vcls", "bans", "profile")]
            report.check(all(t["ok"] for t in told) and "boot" in json.dumps(told[0]) and told[2]["sources"], f"lists and profile ({control}): {told}"[:300])
            told = post("ban", {"expression": "req.url == /mine"})
            report.check((told["ok"], "/mine" in v.cli.ask("ban.list")) == (control, control), f"a ban ({control}): {told}")
