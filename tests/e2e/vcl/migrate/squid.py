# SPDX-License-Identifier: BSD-2-Clause
"""squid and what was made of its configuration, one after the other: the same requests reach the same origins, and are kept or not alike.

Besides the cases, configurations are drawn (squid_drawn).
"""
import os
import shutil
import sys

import beside
import squid_drawn
from bed.certificates import Authority
from bed.report import until

PROGRAM = shutil.which("squid", path="/usr/sbin:/usr/bin")
HOSTS = ("a.example", "b.example", "x.a.example", "other.example")
PORTS = (9001, 9002, 9003)
DRAWN = 40 if "--full" in sys.argv else 2
# Each configuration begins with this; the rest are squid's own files, kept in one directory.
PORT = "http_port 80 accel defaultsite=b.example vhost\n"
HEAD = """pid_filename %(dir)s/squid.pid
cache_log %(dir)s/cache.log
coredump_dir %(dir)s
access_log none
shutdown_lifetime 0 seconds
workers 1
"""
PEERS = "".join(f"cache_peer 127.0.0.1 parent {port} 0 no-query originserver name=p{port}\n" for port in PORTS)
PEER = "cache_peer 127.0.0.1 parent 9001 0 no-query originserver name=p9001\n"
ACLS = """acl A dstdomain a.example
acl B dstdomain b.example
acl S dstdomain .a.example
acl P urlpath_regex ^/own
acl G method GET
acl L src 127.0.0.0/8 # comment
"""
CASES = {
    "who may use a peer": PEERS.replace("cache_peer 127.0.0.1 parent 9003", "#") + ACLS + """http_access allow A
cache_peer_access p9001 allow A
cache_peer_access p9001 deny all
http_access allow B
cache_peer_access p9002 allow B
cache_peer_access p9002 deny all
""",
    "the implied last rule": PEERS + ACLS + "http_access deny A\ncache_peer_access p9001 deny S\ncache_peer_access p9002 allow A\n",
    "no rule at all": PEER,
    "what isn't kept": PEER + ACLS + "http_access allow all\ncache deny P\ncache allow A\n",
    "allow before deny": PEER + ACLS + "http_access allow all\ncache allow A P\ncache deny P\ncache allow all\n",
    "who may miss": PEER + ACLS + "http_access allow all\nmiss_access deny P\nmiss_access allow all\n",
    "a hit needs no peer": PEER + "acl C req_header Cookie .\nhttp_access allow all\ncache_peer_access p9001 deny C\n",
    "what acls read": PEER + ACLS + """acl U url_regex ^http://other.example/s404
acl R dstdom_regex ^x[.]a[.]example$
http_access deny P
http_access deny U
http_access deny B
http_access deny R
http_access allow all
""",
    "lifetimes": PEER + "http_access allow all\nrefresh_pattern ^http://a.example/m 10 20%% 60\nrefresh_pattern . 0 20%% 4320\n",
    "names in any letters": PEERS + """acl Own urlpath_regex ^/own
acl own urlpath_regex ^/old
acl localhost src 10.0.0.1
http_access deny OWN
http_access deny !LOCALHOST
http_access allow all
cache_peer_access P9001 deny all
cache_mem 8 MB
cache_mem 16 MB
""",
    "whom a login is for": PEER.replace("\n", " login=PASS\n") + "http_access allow all\n",
    "hosts and logins of peers": PEERS.replace("name=p9001", "name=p9001 round-robin forceddomain=one.example login=PASS").replace("name=p9002", "name=p9002 forceddomain=two.example")
    + ACLS + "http_access allow all\ncache_peer_access p9001 allow A\ncache_peer_access p9002 allow B\n",
    "purges": PEER + "acl A dstdomain a.example\nacl purge method PURGE\nhttp_access deny purge !A\nhttp_access allow all\n",
    "lifetimes that nobody set": PEER + "http_access allow all\n",
}
CASES |= (UNKNOWN := {
    "the last line's acl isn't known": PEER + ACLS + "acl T note vpn yes\nhttp_access deny A\nhttp_access allow T\n",
    "lists whose acl isn't known": PEERS + ACLS + "acl T note vpn yes\nhttp_access allow all\ncache allow T\ncache_peer_access p9001 allow T\n",
    "misses whose acl isn't known": PEER + ACLS + "acl T note vpn yes\nhttp_access allow all\nmiss_access allow T\n",
})
CLOSED = ("no rule at all", "the last line's acl isn't known", "misses whose acl isn't known")
# Over TLS, too. A page that is kept has another one by the other scheme.
BOTH = "http_port 80 accel vhost\nhttps_port 443 accel vhost %(tls)s\n"
SEALED = {
    "two schemes": BOTH + PEER + "http_access allow all\n",
    "lifetimes by scheme": BOTH + PEER + "http_access allow all\nrefresh_pattern ^https: 10 20%% 60\nrefresh_pattern . 0 0%% 0\n",
    "acls of schemes": BOTH + PEER + """acl S proto HTTPS
acl N proto HTTP
acl U url_regex ^https://a.example/own
acl O port 443
acl L localport 443
http_access deny U
http_access deny N O
http_access deny S !O !L
cache deny O L
http_access allow all
""",
    "a site for each port": "http_port 80 accel defaultsite=b.example no-vhost\nhttps_port 443 accel defaultsite=a.example vhost %(tls)s\n" + PEERS + ACLS
    + "http_access allow all\ncache_peer_access p9001 allow A\ncache_peer_access p9002 allow B\n",
    "wishes by port": "http_port 80 accel vhost ignore-cc\nhttps_port 443 accel vhost %(tls)s\n" + PEER + "http_access allow all\n",
    "a sign for the origin": BOTH + PEER.replace("\n", " front-end-https=auto\n") + "http_access allow all\n",
}
SCHEMES = [(host, path, {}, "GET") for host in ("a.example", "b.example", "A.example.:443", "a.example:80", "a.example:81", "a.example:") for path in ("/long", "/old", "/own/old", "/s301/toapp")] + [
    ("a.example", "/long", {"Cache-Control": "no-cache"}, "GET"), ("a.example", "/", {}, "POST")]
PATHS = ("/", "/own/x", "/long", "/own/old", "/nostore", "/private", "/cookie/long", "/old", "/m/x", "/m/old", "/s404", "/s404/long", "/s500", "/future", "/past", "/age60", "/age60/old")


def requests():
    return [(host, path, {}, "GET") for host in HOSTS for path in PATHS] + [("a.example", "/long", {"Cookie": "x=1"}, "GET"), ("a.example", "/auth/long", {"Authorization": "Basic eDp5"}, "GET"),
            ("a.example", "/long", {"Cache-Control": "no-cache"}, "GET"), ("a.example", "/", {}, "POST"),
            *((host, "/long", {}, method) for host in ("a.example", "b.example") for method in ("PURGE", "GET")),
            *((host, path, {}, "GET") for host in ("a.example", "b.example.", "B.example:80", "x.a.example.:80", "other.example:81") for path in ("/%6fwn/x", "/s%3404"))]


def configurations():
    """Names, configurations and what is asked: addresses with the requests of each."""
    wanted = requests()
    for name, text in CASES.items():
        yield name, PORT + text, [(beside.HTTP, wanted)]
    for name, text in SEALED.items():
        yield name, text, [(address, SCHEMES) for address in (beside.HTTP, beside.HTTPS)]
    seed = os.environ.get("SEED", "1")
    for number in range(DRAWN):
        name = f"drawn {seed}.{number}"
        yield name, PORT + squid_drawn.Draw(f"{seed}.{number}").whole(), [(beside.HTTP, squid_drawn.requests(name))]


def run(report, work):
    origins = beside.Origins(PORTS)
    work.mkdir(exist_ok=True)
    os.chmod(work, 0o777)
    leaf = Authority(work / "authority", kind="rsa").leaf("a.example", kind="rsa")
    os.chmod(leaf.key, 0o644)
    try:
        for number, (name, text, asked) in enumerate(configurations()):
            here = work / f"s{number}"
            here.mkdir()
            os.chmod(here, 0o777)
            conf = here / "squid.conf"
            conf.write_text((HEAD + text) % {"dir": here, "tls": f"tls-cert={leaf.chain} tls-key={leaf.key}"})
            squid_drawn.files(here)
            case(report, here, origins, name, asked)
    finally:
        origins.close()


def case(report, here, origins, name, asked):
    """squid, then ours: both are asked the same."""
    conf, is_drawn = here / "squid.conf", name.startswith("drawn")
    theirs = beside.Process([PROGRAM, "-N", "-f", str(conf)], here / "squid.log")
    try:
        if not report.check(all(theirs.up(address) for address, _ in asked), f"{name}: squid serves: {(here / 'squid.log').read_text()[-400:]}"):
            return
        one = [beside.ask(origins, some, address=address) for address, some in asked]
    finally:
        theirs.close()
    for (_, some), found in zip(asked, one):
        beside.there(report, f"{name}: squid", some, found)
    is_there = any(both[0]["status"] == 200 for found in one for both in found)
    report.check(is_there != (name in CLOSED) or is_drawn, f"{name}: squid sends what is there, unless its rules let nobody in")
    told = beside.migrate("squid", conf, here / "new")
    report.check(told.returncode == (1 if name in UNKNOWN else 0), f"{name}: everything has its counterpart: {told.stderr}")
    refused = "" if is_drawn else beside.genuine(here / "new", here)
    report.check(not refused, f"{name}: a genuine varnishd takes the VCL: {refused}")
    ours = beside.server(here / "new", here / "ours.log")
    try:
        if not report.check(all(ours.up(address) for address, _ in asked), f"{name}: ours serves: {(here / 'ours.log').read_text()[-800:]}"):
            return
        other = [beside.ask(origins, some, address=address) for address, some in asked]
    finally:
        ours.close()
    for (address, some), before, after in zip(asked, one, other):
        compare(report, f"{name}, port {address[1]}", some, before, after, f"{conf.read_text()}{told.stderr}")


# Lines, and whether an old copy serves while the origin fails.
STALE = {"a week": ("refresh_pattern . 0 20%% 4320\n", True), "no pattern fits": ("", False), "max-stale": ("refresh_pattern . 0 20%% 4320 max-stale=0\n", False)}
CLOCK = ("a.example", "/clock/age1", {}, "GET")
OLD = [("a.example", path, {}, "GET") for path in ("/flaky/age1/old", "/flaky/age1/tag", "/flaky/age1")]


def stale(report, work):
    """Responses grow old, then the origin fails."""
    origins = beside.Origins(PORTS)
    try:
        for name, (line, is_served) in list(STALE.items())[:None if "--full" in sys.argv else 1]:
            here = work / name.replace(" ", "-")
            here.mkdir()
            os.chmod(here, 0o777)
            conf = here / "squid.conf"
            conf.write_text((HEAD + PORT + PEER + "http_access allow all\n" + line) % {"dir": here})
            told = beside.migrate("squid", conf, here / "new")
            report.check(told.returncode == 0, f"{name}: {told.stderr}")
            for begin in (lambda: beside.Process([PROGRAM, "-N", "-f", str(conf)], here / "squid.log"), lambda: beside.server(here / "new", here / "ours.log")):
                server, origins.is_failing = begin(), False
                try:
                    if not report.check(server.up(beside.HTTP), f"{name}: it serves"):
                        continue
                    beside.ask(origins, [*OLD, CLOCK], 1)
                    # Once the last is asked for anew twice, the others are old by a second.
                    for _ in range(2):
                        report.check(until(60, lambda: beside.ask(origins, [CLOCK], 1)[0][0]["asked"]), f"{name}: responses grow old")
                    origins.is_failing = True
                    found = [both[0]["status"] for both in beside.ask(origins, OLD, 1)]
                    report.check(found == [200 if is_served else 500] * len(OLD), f"{name}: {server.proc.args[0]}: statuses while the origin fails are {found}")
                finally:
                    server.close()
    finally:
        origins.close()


def compare(report, name, asked, theirs, ours, text):
    """Checks status, origin and who was asked for each request; the configuration is printed for the first difference."""
    for request, before, after in zip(asked, theirs, ours):
        for time, (squid, us) in enumerate(zip(before, after)):
            # squid asks its peers for digests by itself.
            found = [(side["status"], side["from"] if side["status"] != 304 else None, side["headers"].get("x-login"), side["headers"].get("x-signs"),
                      [one for one in side["asked"] if one[1] == request[1]]) for side in (squid, us)]
            # Ours compares what it fetched with the client's conditions itself.
            is_alike = "If-Modified-Since" in request[2] and (found[1][0] == 304 or not found[1][4])
            # squid keeps HEADs apart, and errors whatever a client wants: here the origin is asked.
            is_alike |= not found[0][4] and (request[3] == "HEAD" or found[0][0] >= 400 and "Cache-Control" in request[2]) and found[0][:2] == found[1][:2]
            if not report.check(is_alike or found[0] == found[1], f"{name}: {request}, time {time + 1}: status, origin and origins asked are {found[1]}, squid's {found[0]}"):
                report.note(text)
                return
