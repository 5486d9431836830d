# SPDX-License-Identifier: BSD-2-Clause
"""The old server and what was made of its configuration, one after the other on the same ports: the same requests, and what came of each."""
import email.utils
import itertools
import math
import os
import pathlib
import re
import shlex
import subprocess
import time

from bed import world
from bed.daemon import die_with_parent
from bed.http import get
from bed.report import until
from bed.sealed import client_context, sealed_get

LACQUER = world.BIN / "lacquer"
HTTP, HTTPS = ("127.0.0.1", 80), ("127.0.0.1", 443)
LIMIT = 60


def fetch(address, path, fields=(), **more):
    """One request on a connection of its own, over TLS where that is the port's."""
    if address == HTTPS:
        return sealed_get(address, path, client_context(), name=None, fields=fields, **more)
    return get(address, path, fields, **more)


class Origins:
    """Servers on several ports that note each request. The path says what the response is: words of it are looked up in WORDS."""

    WORDS = {
        "nostore": ("Cache-Control", "no-store"), "private": ("Cache-Control", "private"), "age60": ("Cache-Control", "max-age=60"),
        "age1": ("Cache-Control", "max-age=1"), "cookie": ("Set-Cookie", "x=1"), "varystar": ("Vary", "*"), "accel0": ("X-Accel-Expires", "0"),
        "accel60": ("X-Accel-Expires", "60"), "past": ("Expires", "Thu, 01 Jan 1998 00:00:00 GMT"), "future": ("Expires", "Thu, 01 Jan 2037 00:00:00 GMT"),
        "old": ("Last-Modified", "Thu, 01 Jan 1998 00:00:00 GMT"), "long": ("Cache-Control", "max-age=600"), "shared60": ("Cache-Control", "max-age=0, s-maxage=60"),
        "tag": ("ETag", '"t"'), "public": ("Cache-Control", "public"), "must": ("Cache-Control", "must-revalidate"), "nocache": ("Cache-Control", "no-cache"),
        "quoted": ("Cache-Control", 'max-age="0"'), "junk": ("Cache-Control", "max-age=60x"),
        "accelfile": ("X-Accel-Redirect", "/files/file"),
        "html": ("Content-Type", "text/html"), "json": ("Content-Type", "application/json"), "encoded": ("Content-Type", "text/plain; charset=latin1"),
        "toapp": ("Location", "http://app/moved/x?y=1"), "toport": ("Location", "http://127.0.0.1:9001/moved/x"), "tonumber": ("Location", "http://app/moved/5"),
        "tob": ("Location", "http://app/moved/b/c"), "topath": ("Location", "/moved/x"), "tonobody": ("Location", "http://other/app"),
        "unbuffered": ("X-Accel-Buffering", "no"), "refresh": ("Refresh", "5; url=http://app/moved/r"), "pad": ("X-Pad", "1"), "ranges": ("Accept-Ranges", "bytes"),
    }

    def __init__(self, ports):
        self.site = world.Site(self, ports)
        self.ports, self.is_failing = ports, False

    def answer(self, method, path, fields, _body, port):
        lines = [(name, value) for word, (name, value) in self.WORDS.items() if word in path]
        if "recoded" in path:
            lines += [("Content-Type", "text/html; charset=a"), ("X-Accel-Charset", "b")]
        # squid heeds max-age only beside a Date. A response that lives for one second is dated up to one second ahead: else it may be stale on arrival.
        date = math.ceil(time.time()) if "age1" in path else time.time()
        lines += [("Date", email.utils.formatdate(date, usegmt=True)), ("X-Port", str(port)), ("X-Path", path),
                  ("X-Login", fields.get("authorization", "none")), ("X-Said", " ".join(fields.get(name, "-") for name in ("x-login", "x_login"))),
                  ("X-Signs", " ".join(fields.get(name, "-") for name in ("front-end-https", "x-forwarded-proto")))]
        if self.is_failing and "flaky" in path:
            return 500, lines, "no"
        status = next((status for status in (404, 500, 503, 410, 301, 302, 303, 401, 409) if f"s{status}" in path), 200)
        body = f"{method} {path} of {port}"
        if "ranges" in path and "long" in path:
            body = "".join(f"{number:07} " for number in range(25_000))
            if match := re.fullmatch(r"bytes=(\d+)-(\d+)", fields.get("range", "")):
                begin, end = int(match[1]), min(int(match[2]), len(body) - 1)
                if begin > end:
                    return 416, [*lines, ("Content-Range", f"bytes */{len(body)}")], ""
                return 206, [*lines, ("Content-Range", f"bytes {begin}-{end}/{len(body)}")], body[begin:end + 1]
        return status, lines, body

    def asked(self, before):
        return [(port, path, fields.get("host")) for _, path, fields, port in self.site.seen[before:]]

    def close(self):
        self.site.close()


class Process:
    """A server in the foreground, up when its address answers."""

    def __init__(self, words, log):
        self.log = open(log, "wb")
        self.proc = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=self.log, stderr=subprocess.STDOUT, preexec_fn=die_with_parent)

    def up(self, address):
        def answers():
            return self.proc.poll() is not None or world.listens(address) and fetch(address, "/up", host="up.example").status > 0
        # The limit is for one that hangs: others may load the machine.
        return until(120, answers) and self.proc.poll() is None

    def close(self):
        world.end(self.proc)
        self.log.close()


def ask(origins, requests, times=2, address=HTTP):
    """For each request, each time: status, the header fields and body that matter, and what the origins saw."""
    found = []
    for host, path, fields, method in requests:
        both = []
        for _ in range(times):
            before = len(origins.site.seen)
            answer = fetch(address, path, list(fields.items()), method=method, host=host, body=b"x" if method == "POST" else None)
            both.append({"status": answer.status, "asked": origins.asked(before), "from": (answer.get("X-Port"), answer.get("X-Path")),
                         "body": answer.body if answer.status in (200, 206) and method != "HEAD" else None, "headers": {n.lower(): v for n, v in answer.fields}})
        found.append(both)
    return found


def lengths(all_statuses):
    """Statuses as one text, those that are the same together: `200*3 404`."""
    groups = [(status, len(list(group))) for status, group in itertools.groupby(all_statuses)]
    return " ".join(f"{status}*{count}" if count > 1 else str(status) for status, count in groups)


def there(report, what, requests, found):
    """Checks that responses of the origins are what they send: two servers without an origin, or without a file, are alike, too."""
    for request, both in zip(requests, found):
        for number, answer in enumerate(both):
            port, path = answer["from"]
            if answer["status"] == 200 and port and answer["body"] is not None and not ("ranges" in path and "long" in path):
                wanted = f"{request[3]} {path} of {port}".encode()
                report.check(answer["body"] == wanted, f"{what}: {request}, time {number + 1}: the body is {answer['body']}, the origin's {wanted}")


def migrate(kind, conf, out, *options):
    """The result of `lacquer migrate`: the finished process; the files are in `out`."""
    return subprocess.run([LACQUER, "migrate", kind, str(conf), "--out", str(out), *options], capture_output=True, text=True, timeout=LIMIT)


def server(out, log):
    """Our server with the command line that was written; stores are empty, though they last over restarts."""
    for path in pathlib.Path("/var/lib/varnish").glob("*.store*"):
        path.unlink()
    # The directory of stores is in memory here.
    words = [re.sub(r"^(disk=file,[^,]*),.*", r"\1,64m", word) for word in shlex.split((out / "varnishd.args").read_text())]
    return Process(["varnishd", "-F", *words], log)


def genuine(out, work):
    """What a genuine varnishd says of the VCL: nothing where it takes it; None where there is none here."""
    program = "/usr/sbin/varnishd"
    if not os.access(program, os.X_OK):
        return None
    p = subprocess.run([program, "-C", "-f", str(out / "default.vcl"), "-n", str(work / "genuine")], capture_output=True, text=True, timeout=LIMIT)
    return p.stderr if p.returncode else ""
