# SPDX-License-Identifier: BSD-2-Clause
"""Configurations of squid, drawn over its grammar: acls of all kinds, lists of rules in any order, refresh patterns with their options, comments, included files. SEED draws the same again."""
import random

HOSTS = ("a.example", "b.example", "x.a.example", "other.example")
PATHS = ("/", "/own/x", "/OWN/x", "/img/a.png", "/img/B.PNG")
WORDS = ("long", "plain", "old", "age60", "nostore", "nostore/long", "private/long", "nocache/old", "must/old", "cookie/long", "past", "past/old", "future", "s404", "s404/long", "s500", "s301", "s301/long",
         "s302/long", "s303/long", "s401", "s410", "varystar/long", "shared60", "public/old", "tag")
FIELDS = ({}, {"Cookie": "x=1"}, {"Authorization": "Basic eDp5"}, {"Cache-Control": "no-cache"}, {"Cache-Control": "max-age=0"}, {"Cache-Control": "no-store"}, {"Pragma": "no-cache"}, {"Cache-Control": "only-if-cached"},
          {"X-Mode": "secret"}, {"Cache-Control": "max-age=600"}, {"User-Agent": "Robot/1"}, {"If-Modified-Since": "Thu, 01 Jan 2015 00:00:00 GMT"})
ACLS = {
    "A": ("dstdomain a.example",), "B": ("dstdomain b.example # comment",), "S": ("dstdomain .a.example",), "P": ("urlpath_regex ^/own",), "I": ("urlpath_regex -i ^/OWN",), "G": ("method GET",), "L": ("src 127.0.0.0/8",),
    "V": ("src 10.0.0.0/8",), "W": ("src 10.0.0.1-10.0.0.9", "src 127.0.0.1"), "U": ("url_regex -i ^http://A.EXAMPLE/own",), "R": ("dstdom_regex ^x[.]",), "D": ("dstdom_regex -i ^X[.]A", "dstdom_regex ^b"),
    "H": ("req_header X-Mode -i ^SECRET$",), "O": ("port 80",), "Q": ("port 81-90",), "T": ("proto HTTP",), "X": ("proto HTTPS",), "F": ('dstdomain "%(dir)s/domains"',), "K": ("browser -i robot",), "E": ("localport 80",),
    "M": ("urlpath_regex -i PNG$ +i ^/own/x$",), "N": ("any-of A P",), "Y": ("all-of S !P",), "Z": ("any-of !A H",),
}
PEERS = "".join(f"cache_peer 127.0.0.1 parent {port} 0 no-query originserver name=p{port}%s\n" for port in (9001, 9002, 9003))


class Draw:
    def __init__(self, seed):
        self.draw = random.Random(f"squid {seed}")

    def rules(self, directive, most=4):
        """A list: its lines keep their order, whatever stands between them."""
        out = []
        for _ in range(self.draw.randint(0, most)):
            acls = [self.draw.choice(("", "", "!")) + self.draw.choice(list(ACLS)) for _ in range(self.draw.randint(1, 2))]
            if self.draw.random() < 0.25:
                acls = ["all"]
            joint, comment = self.draw.choice((" ", " ", " \\\n  # within\n\n   ")), self.draw.choice(("", "", " # all # of it"))
            out.append(f"{directive} {self.draw.choice(('allow', 'deny'))}{joint}{' '.join(acls)}{comment}\n")
        return out

    def refresh(self):
        pick, out = self.draw.choice, []
        for _ in range(self.draw.randint(0, 3)):
            options = self.draw.sample(("override-expire", "override-lastmod", "ignore-reload", "ignore-no-store", "ignore-private", "reload-into-ims", "store-stale", "refresh-ims", "max-stale=60"), self.draw.randint(0, 2))
            out.append(f"refresh_pattern {pick(('', '-i '))}{pick(('^http://a.example/', '[.]PNG$', '/own', '.', 'old'))} {pick((0, 10, 60))} {pick((0, 20, 50))}%% {pick((60, 4320))} {' '.join(options)}\n")
        return out

    def others(self):
        lines = ["negative_ttl 5 minutes\n", "max_stale 1 week\n", "reload_into_ims on\n", "never_direct allow all\n", "always_direct deny all\n", "# cache deny all\n", "include %(dir)s/more.conf\n", "maximum_object_size 4 MB\n"]
        return self.draw.sample(lines, self.draw.randint(0, 3))

    def whole(self):
        lists = [self.rules("http_access") + ["http_access allow all\n"] * (self.draw.random() < 0.6), self.rules("cache") if self.draw.random() < 0.6 else [], self.rules("miss_access", 2) if self.draw.random() < 0.2 else [],
                 *(self.rules(f"cache_peer_access p{port}", 3) for port in (9001, 9002, 9003)), self.refresh(), self.others()]
        whole = []
        while any(lists):
            whole.append(self.draw.choice([one for one in lists if one]).pop(0))
        options = tuple(self.draw.choice(("", "", " proxy-only", " default", " login=PASS")) for _ in range(3))
        acls = "".join(f"acl {name} {text}\n" for name, texts in ACLS.items() for text in texts)
        return PEERS % options + acls + "".join(whole)


def files(here):
    """Files that drawn configurations name."""
    (here / "domains").write_text("# hosts\nb.example\n.a.example\n")
    (here / "more.conf").write_text("# more\nnegative_ttl 1 hour # of errors\ncache deny Q\n")


def requests(seed):
    draw = random.Random(f"requests {seed}")
    out = []
    for _ in range(16):
        host, path = draw.choice(HOSTS), draw.choice(PATHS).rstrip("/") + "/" + draw.choice(WORDS)
        one = (host, path, {}, "GET")
        out += [one, (host, path, draw.choice(FIELDS), "GET")]
        if draw.random() < 0.15:
            out += [(host, path, {}, draw.choice(("POST", "HEAD"))), one]
    return out
