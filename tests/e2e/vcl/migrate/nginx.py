# SPDX-License-Identifier: BSD-2-Clause
"""nginx and what was made of its configuration, side by side in time: each case of nginx_cases."""
import os
import re
import shutil
import socket

import beside
import nginx_cases
from bed import world
from bed.http import Client, get
from bed.origin import Origin, head
from bed.report import until

PROGRAM = shutil.which("nginx", path="/usr/sbin:/usr/bin")
OWN = ("127.0.0.1", 8080)
HEAD = """worker_processes 1; daemon off; master_process off; pid %(dir)s/pid; error_log %(dir)s/error.log; events { worker_connections 512; }
http { access_log off; client_body_temp_path %(dir)s/b; proxy_temp_path %(dir)s/p; fastcgi_temp_path %(dir)s/f; uwsgi_temp_path %(dir)s/u; scgi_temp_path %(dir)s/s;
"""
# Header fields of a response that both must have alike.
ALIKE = ("location", "refresh", "x-a", "x-b", "x-c", "x-d", "x-h", "x-node", "x-pad", "x-s", "cache-control", "x-accel-expires", "vary", "content-type", "retry-after", "x-said")


def write(work, text, listen, second="81"):
    root = work / "www/static"
    root.mkdir(parents=True, exist_ok=True)
    os.chmod(work, 0o755)
    (root / "file").write_text("nginx's own")
    conf = work / "nginx.conf"
    conf.write_text((HEAD + text + "\n}\n") % {"dir": work, "listen": listen, "second": second, "hostname": "%(hostname)s"})
    return conf


def filled(requests):
    """Requests with the name of this machine."""
    name = {"hostname": socket.gethostname()}
    return [(host, path, {n: v % name for n, v in fields.items()}, method) for host, path, fields, method in requests]


def both(report, work, name, text, run):
    """`run` with nginx in the place, then with ours: both results, and the finished migration. None where one didn't come up."""
    work.mkdir(exist_ok=True)
    nginx = beside.Process([PROGRAM, "-c", str(write(work, text, "80"))], work / "nginx.log")
    try:
        if not report.check(nginx.up(beside.HTTP), f"{name}: nginx serves: {(work / 'nginx.log').read_text()[-500:]}"):
            return None
        theirs = run()
    finally:
        nginx.close()
    shutil.rmtree(work / "cache", ignore_errors=True)
    told = beside.migrate("nginx", work / "nginx.conf", work / "new")
    # Debian's varnishd has neither slices nor the module dynamic.
    refused = beside.genuine(work / "new", work) if name not in ("slices", "origins that requests name") else ""
    report.check(not refused, f"{name}: a genuine varnishd takes the VCL: {refused}")
    nginx = beside.Process([PROGRAM, "-c", str(write(work, text, "127.0.0.1:8080", "127.0.0.1:8081"))], work / "nginx.log")
    ours = beside.server(work / "new", work / "ours.log")
    try:
        up = nginx.up(OWN) and ours.up(beside.HTTP)
        if not report.check(up, f"{name}: both serve: {(work / 'ours.log').read_text()[-800:]}"):
            return None
        return theirs, run(), told
    finally:
        ours.close()
        nginx.close()


def cases(report, work, origins):
    for number, (name, text, requests, refused) in enumerate(nginx_cases.CASES):
        requests = filled(requests)
        got = both(report, work / f"n{number}", name, text, lambda: beside.ask(origins, requests))
        if not got:
            continue
        theirs, ours, told = got
        beside.there(report, name, requests, theirs)
        statuses, wanted = beside.lengths(both[0]["status"] for both in theirs), nginx_cases.STATUSES.get(name)
        report.check(statuses == wanted, f"{name}: nginx's statuses are {statuses}, not {wanted}")
        own = [both[0] for request, both in zip(requests, theirs) if request[1].endswith("/static/file") and not both[0]["from"][0]]
        report.check(all(answer["body"] in (None, b"nginx's own") for answer in own), f"{name}: nginx serves its file: {own}")
        report.check(told.returncode == (1 if refused else 0), f"{name}: exit status {told.returncode}: {told.stderr}")
        for directive in refused:
            report.check(f"refused: {directive}:" in told.stderr, f"{name}: {directive} is refused: {told.stderr}")
        for request, wanted, answers in zip(requests, theirs, ours):
            for time, (one, other) in enumerate(zip(wanted, answers)):
                compare(report, f"{name}: {request}, time {time + 1}", one, other, request[0])


def compare(report, what, theirs, ours, host):
    report.check(theirs["status"] == ours["status"], f"{what}: status is {ours['status']}, nginx's {theirs['status']}")
    report.check(theirs["from"] == ours["from"], f"{what}: the response is from {ours['from']}, nginx's from {theirs['from']}")
    report.check(theirs["body"] == ours["body"], f"{what}: body is {ours['body']}, nginx's {theirs['body']}")
    for field in ALIKE:
        one, other = (side["headers"].get(field) for side in (theirs, ours))
        if field == "location" and one and other:
            # nginx puts the name that it was asked by before a path, and where it isn't told that, the name of the server.
            own = re.compile(rf"http://({re.escape(host)}|[\w.-]*\.example|localhost)(:80)?/", re.I)
            one, other = (own.sub("/", v) for v in (one, other))
        report.check(one == other, f"{what}: {field} is {other}, nginx's {one}")
    # The Host that nginx itself sends to an origin depends on nginx alone.
    report.check(theirs["asked"] == ours["asked"], f"{what}: origins were asked {ours['asked']}, by nginx {theirs['asked']}")


def stale(report, work, origins):
    """What a client gets once an object is no longer fresh, while the origin works and while it fails."""
    def run():
        found = {}
        for is_failing in (False, True):
            origins.is_failing = False
            # All of them grow old together.
            paths = {name: f"/{name}/flaky/age1/{is_failing}" for name in nginx_cases.STALE}
            for path in paths.values():
                first = get(beside.HTTP, path, host="a.example")
                report.check(first.status == 200, f"{path} is there: {first}")
            origins.is_failing = is_failing
            for name, path in paths.items():
                seen = []

                def is_old():
                    answer = get(beside.HTTP, path, host="a.example")
                    seen.append((answer.status, answer.get("X-S")))
                    return answer.get("X-S") != "HIT"
                report.check(until(60, is_old), f"{path} grows old")
                found[name, is_failing] = seen[-1]
        origins.is_failing = False
        return found
    got = both(report, work / "stale", "stale", nginx_cases.STALE_SITE, run)
    if got:
        theirs, ours, _ = got
        for key, wanted in theirs.items():
            # There is no expired object where nothing stale is ever served.
            alike = [wanted, (wanted[0], "MISS")] if wanted[1] == "EXPIRED" else [wanted]
            report.check(ours[key] in alike, f"stale by {key}: {ours[key]}, nginx's {wanted}")


def unreachable(report, work):
    """An origin that has gone: nginx serves what is stale where `error` says so."""
    text = nginx_cases.STALE_SITE.replace("127.0.0.1:9001", "127.0.0.1:9009")

    def run():
        origins = beside.Origins((9009,))
        found = {}
        paths = {name: f"/{name}/age1" for name in nginx_cases.STALE}
        for path in paths.values():
            get(beside.HTTP, path, host="a.example")
        origins.close()
        for name, path in paths.items():
            seen = []

            def is_old():
                answer = get(beside.HTTP, path, host="a.example")
                seen.append((answer.status, answer.get("X-S")))
                return answer.get("X-S") != "HIT"
            until(60, is_old)
            status, how = seen[-1]
            found[name] = (status >= 500, how if status < 500 else "failed")
        return found
    got = both(report, work / "gone", "gone", text, run)
    if got:
        report.check(got[0] == got[1], f"an origin that has gone: {got[1]}, nginx's {got[0]}")


def upgraded(s):
    """An origin that takes any connection over and says a word."""
    if head(s, b""):
        s.sendall(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nhello")
        s.recv(1)


def two_servers(report, work):
    """Servers of one name on two ports, parts of which nginx goes on serving."""
    def run():
        found = {}
        for port, method, path in nginx_cases.TWO_ASKED:
            answer = get(("127.0.0.1", port), path, host="a.example", method=method, body=b"x" if method == "POST" else None)
            found[port, method, path] = answer.status, answer.get("X-Port"), answer.body if answer.status == 200 else None
        client = Client(("127.0.0.1", 81))
        answer = client.request("/cable", [("Upgrade", "websocket"), ("Connection", "Upgrade")], host="a.example")
        if answer.status == 101:
            until(60, lambda: len(client.buf) >= 5 or not client._more())
        found["upgrade"] = answer.status, client.buf
        client.sock.close()
        return found
    origin = Origin(upgraded, at=("127.0.0.1", 9004))
    got = both(report, work / "two", "two servers", nginx_cases.TWO, run)
    origin.close()
    if got:
        theirs, ours, told = got
        for port in (8080, 8081):
            report.check(f"let this server listen on 127.0.0.1:{port} alone" in told.stderr, f"two servers: the address with {port} is told: {told.stderr}")
        for key, wanted in theirs.items():
            report.check(ours[key] == wanted, f"two servers: {key}: {ours[key]}, nginx's {wanted}")


def run(report, work):
    origins = beside.Origins((9001, 9002, 9003))
    try:
        cases(report, work, origins)
        two_servers(report, work)
        stale(report, work, origins)
    finally:
        origins.close()
    unreachable(report, work)
