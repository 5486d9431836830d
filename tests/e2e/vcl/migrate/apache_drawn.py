# SPDX-License-Identifier: BSD-2-Clause
"""Apache and what was made of a drawn configuration, one after the other: mod_cache and the program keep the same responses, from the same origins.

A configuration is drawn over Apache's grammar: virtual hosts, sections in sections, the directives of mod_cache, of mod_proxy, of access and of headers.
SEED draws the same again.
"""
import os
import random
import re
import sys

import beside

OWN = ("127.0.0.1", 8080)
PORTS = (9001, 9002, 9003)
DRAWN = 40 if "--full" in sys.argv else 2
MODULES = "/usr/lib/apache2/modules"
LOADED = ("mpm_event", "authz_core", "authz_host", "access_compat", "headers", "setenvif", "env", "rewrite", "proxy", "proxy_http", "cache", "cache_disk")
HEAD = "".join(f"LoadModule {name}_module {MODULES}/mod_{name}.so\n" for name in LOADED) + """Listen 80
ServerRoot %(dir)s
PidFile %(dir)s/pid
ErrorLog %(dir)s/error.log
User www-data
Group www-data
ServerName main.example
CacheRoot %(dir)s/kept
Define PRIVATE /c/private
"""
HOSTS = ("a.example", "b.example", "x.b.example", "other.example")
PREFIXES = ("/", "/c/", "/c/private/", "/d/")
WORDS = ("long", "plain", "old", "nostore/long", "private/long", "nocache", "cookie/long", "past", "future", "s404", "s404/long", "s301", "varystar/long", "shared60", "public", "must", "x.css", "tag")
# Directives about a URL that may be kept.
FIELDS = ({}, {"Cookie": "x=1"}, {"Authorization": "Basic eDp5"}, {"Cache-Control": "no-cache"}, {"Cache-Control": "max-age=0"}, {"Cache-Control": "no-store"}, {"Pragma": "no-cache"}, {"Range": "bytes=0-1"},
          {"If-None-Match": '"other"'}, {"If-Modified-Since": "Thu, 01 Jan 1998 00:00:00 GMT"}, {"X-Mode": "secret"}, {"Cache-Control": "max-age=600"})
ACCESS = ("Require all granted", "Require ip 127.0.0.1", "Require ip 10.0.0.0/8", "Require all denied", "Order allow,deny\nAllow from all", "Order allow,deny\nAllow from 127.0.0.1")


class Draw:
    """A configuration of Apache in any order."""

    def __init__(self, seed):
        self.draw = random.Random(f"apache {seed}")

    def maybe(self, share, lines):
        return lines if self.draw.random() < share else []

    def path(self):
        return self.draw.choice(("/", "/c", "/c/", "/d", "/c/private", "${PRIVATE}", '"/c/"', "'/d'"))

    def setting(self):
        pick = self.draw.choice
        return pick((f"CacheDefaultExpire {pick((0, 600))}", f"CacheMaxExpire {pick((0, 600))}", f"CacheMinExpire {pick((0, 60))}", f"CacheStoreNoStore {pick(('On', 'Off'))}",
                     f"CacheStorePrivate {pick(('On', 'Off'))}", f"CacheIgnoreNoLastMod {pick(('On', 'Off'))}", f"CacheStoreExpired {pick(('On', 'Off'))}", f"CacheStaleOnError {pick(('On', 'off'))}",
                     "CacheLastModifiedFactor 0.5"))

    def ruled(self, has_path):
        """Rules beside mod_cache's, some of which keep a response out of it; those of access need a path."""
        return self.draw.choice((*ACCESS[:len(ACCESS) if has_path else 0], "SetEnv no-cache 1", "SetEnvIf Request_URI \\.css$ no-cache", "SetEnvIf X-Mode secret no-cache", "Header set Cache-Control max-age=60", "Header unset Cache-Control",
                                 "RequestHeader set X-Seen 1", "# CacheDisable on", "SetEnv comment 'CacheDisable on'"))

    def inside(self, depth=0, has_path=True):
        """Draws the lines of a section. Where no section has a path, mod_cache's lines name one."""
        out, path = [], "" if has_path else f" {self.path()}"
        for _ in range(self.draw.randint(1, 2)):
            kind = self.draw.random()
            if kind < 0.25:
                out.append(self.draw.choice((f"CacheEnable disk{path}", f"CacheDisable{path or ' on'}")))
            elif kind < 0.6:
                out.append(self.setting())
            elif kind < 0.8:
                out += self.ruled(has_path).split("\n")
            elif depth < 2:
                out += self.nested(depth, has_path)
        return out

    def nested(self, depth, has_path):
        kind, lines = self.draw.choice(('IfModule mod_cache.c', 'IfModule !mod_cache.c', 'IfModule mod_none.c', 'IfDefine PRIVATE', 'IfDefine !PRIVATE', 'IfVersion >= 2.4', 'IfVersion < 2.4')), self.inside(depth + 1, has_path)
        return [f"<{kind}>", *lines, f"</{kind.split()[0]}>"]

    def section(self):
        kind = self.draw.choice(("Location", "Location", "LocationMatch", "If", "Files", "IfModule"))
        if kind == "IfModule":
            return self.nested(0, False)
        argument = {"Location": self.path(), "LocationMatch": self.draw.choice(('"\\.css$"', "^/c/", '"^/(c|d)/priv"')), "If": '"%{QUERY_STRING} =~ /x/"', "Files": '"*.css"'}[kind]
        # mod_cache's switches aren't allowed in all of them.
        lines = [line for line in self.inside() if kind not in ("Files", "If") or not line.startswith(("CacheEnable", "CacheDisable"))]
        return [f"<{kind} {argument}>", *lines, f"</{kind}>"]

    def proxied(self):
        lines = [f"ProxyPass /d http://127.0.0.1:{self.draw.choice(PORTS)}/d", "ProxyPassMatch ^/c/private/(.*)$ http://127.0.0.1:9003/c/private/$1", "ProxyPassReverse / http://127.0.0.1:9001/"]
        self.draw.shuffle(lines)
        lines = lines[:self.draw.randint(0, 3)] + [f"ProxyPass / http://127.0.0.1:{self.draw.choice(PORTS)}/"]
        return lines + self.maybe(0.3, ["RewriteEngine On", "RewriteRule ^/c/(x.*)$ http://127.0.0.1:9003/c/$1 [P]"])

    def server(self):
        out = self.maybe(0.5, [f"CacheEnable disk {self.path()}"]) + self.maybe(0.3, [f"CacheDisable {self.path()}"]) + self.maybe(0.4, [self.setting()])
        out += self.maybe(0.2, [self.draw.choice(("CacheIgnoreHeaders Set-Cookie", "CacheIgnoreQueryString On", "CacheIgnoreCacheControl On"))])
        out += self.maybe(0.25, ["SetEnvIf Request_URI \\.css$ no-cache"])
        for _ in range(self.draw.randint(0, 2)):
            out += self.section()
        return out

    def whole(self):
        lines = self.maybe(0.6, ["CacheQuickHandler off"]) + self.maybe(0.6, ["CacheEnable disk /"]) + self.server() + self.proxied()
        for names in (("a.example",), ("b.example", "*.b.example"))[:self.draw.randint(0, 2)]:
            aliases = [f"ServerAlias {name}" for name in names[1:]]
            lines += ["<VirtualHost *:80>", f"ServerName {names[0]}", *aliases, *self.server(), *self.proxied(), "</VirtualHost>"]
        return HEAD + "".join(f"{line}\n" for line in lines)


def requests(seed):
    draw = random.Random(f"requests {seed}")
    plain = [(draw.choice(HOSTS), draw.choice(PREFIXES) + draw.choice(WORDS) + draw.choice(("", "", "", "?x=1")), {}, "GET") for _ in range(24)]
    out = []
    for one in plain:
        host, path, _, _ = one
        out += [one, (host, path, draw.choice(FIELDS), "GET")]
        # mod_cache keeps what a POST that is redirected may have changed.
        if draw.random() < 0.2 and "s301" not in path:
            out += [(host, path, {}, draw.choice(("POST", "HEAD"))), one]
        if draw.random() < 0.1:
            out.append((host, path.replace("c", "%63", 1), {}, "GET"))
    return out


def begun(program, conf, address, report, name, log):
    apache = beside.Process([program, "-f", str(conf), "-X"], log)
    if report.check(apache.up(address), f"{name}: Apache serves: {log.read_text()[-500:]}\n{conf.read_text()}"):
        return apache
    apache.close()
    return None


def own_files(new, conf):
    """The files as they became, with what the messages ask for: Apache keeps no copies of its own."""
    changed = new / str(conf).lstrip("/")
    changed.write_text(re.sub(r"(?m)^CacheEnable .*$", "#", changed.read_text()))
    return changed


def compare(report, name, told, wanted, theirs, ours, text):
    is_passed = bool(re.search("(these|all) requests are passed", told))
    is_denied = "answered with 403" in told
    for request, before, after in zip(wanted, theirs, ours):
        for time, (apache, us) in enumerate(zip(before, after)):
            what = f"{name}: {request}, time {time + 1}"
            if is_denied and us["status"] == 403:
                continue
            asked = [[(port, path) for port, path, _ in side["asked"]] for side in (apache, us)]
            is_same = asked[0] == asked[1] or (is_passed and not asked[0])
            is_alike = apache["status"] == us["status"] or "Range" in request[2] and (apache["status"], us["status"]) == (200, 206)
            # The message about CacheStoreExpired: mod_cache serves an expired response to a client that sends max-age.
            is_same |= "note: CacheStoreExpired" in told and "max-age=600" in request[2].values() and not asked[0]
            # Ours keeps a URL's other spellings apart.
            is_same |= "%63" in request[1] and not asked[0]
            if any(field.startswith("If-") for field in request[2]):
                # Ours compares what it has with the client's conditions itself; mod_cache asks Apache where they don't hold.
                is_alike, is_same = is_alike or us["status"] == 304, is_same or not asked[1]
            if not report.check(is_alike and is_same, f"{what}: {us['status']}, origins asked {asked[1]}; Apache {apache['status']}, {asked[0]}"):
                report.note(f"{text.split('PRIVATE /c/private', 1)[1]}{told}")
                return


def run(report, work, program):
    origins = beside.Origins(PORTS)
    work.mkdir()
    os.chmod(work, 0o755)
    seed = os.environ.get("SEED", "1")
    try:
        for number in range(DRAWN):
            one(report, work / f"a{number}", program, origins, f"{seed}.{number}")
    finally:
        origins.close()


def one(report, here, program, origins, seed):
    name, text, wanted = f"Apache, drawn {seed}", Draw(seed).whole(), requests(seed)
    here.mkdir()
    (here / "kept").mkdir()
    for directory, mode in ((here, 0o755), (here / "kept", 0o777)):
        os.chmod(directory, mode)
    conf = here / "apache.conf"
    conf.write_text(text.replace("%(dir)s", str(here)))
    apache = begun(program, conf, beside.HTTP, report, name, here / "apache.log")
    if not apache:
        return
    try:
        theirs = beside.ask(origins, wanted)
    finally:
        apache.close()
    told = beside.migrate("apache", conf, here / "new", "--origin", "127.0.0.1:8080")
    if not report.check(told.returncode in (0, 1), f"{name}: {told.stderr}"):
        return
    apache = begun(program, own_files(here / "new", conf), OWN, report, name, here / "apache.log")
    if not apache:
        return
    ours = beside.server(here / "new", here / "ours.log")
    try:
        if report.check(ours.up(beside.HTTP), f"{name}: ours serves: {(here / 'ours.log').read_text()[-800:]}"):
            compare(report, name, told.stderr, wanted, theirs, beside.ask(origins, wanted), text)
    finally:
        ours.close()
        apache.close()
