# SPDX-License-Identifier: BSD-2-Clause
"""Apache and what was made of its configuration, side by side in time: nobody is let in whom Apache by itself keeps out, by any address or spelling."""
import contextlib
import os
import shutil

import beside
from bed.certificates import Authority
from bed.http import get

PROGRAM = shutil.which("apache2", path="/usr/sbin:/usr/bin")
MODULES = "/usr/lib/apache2/modules"
OWN = ("127.0.0.1", 8080)
BEGIN = """Listen 80
ServerRoot %(dir)s
PidFile %(dir)s/pid
ErrorLog %(dir)s/error.log
User www-data
Group www-data
ServerName a.example
DocumentRoot %(dir)s/root
Header set Cache-Control "max-age=60"
CacheRoot %(dir)s/kept
<Directory %(dir)s/root>
Require all granted
</Directory>
"""
CONFIGURATION = BEGIN + """CacheQuickHandler off
CacheEnable disk /
CacheDisable /admin
<Location /private>
Require ip 127.0.0.1
</Location>
<Location /out>
Require ip 10.0.0.0/8
</Location>
<Location /open>
Require all granted
</Location>
"""
# Storing depends on the host, and delivery on the request. Host, path, header fields: each is asked for twice, at each address.
IN, OUT = {"Cookie": "in=1"}, {}
CASES = {
    "names that several hosts have": (BEGIN + """CacheEnable disk /
<VirtualHost *:80>
ServerName one.example
ServerAlias *.example
CacheDisable /admin
</VirtualHost>
<VirtualHost *:80>
ServerName two.example
</VirtualHost>
""", [(host, path, OUT) for host in ("two.example", "one.example", "x.example", "else") for path in ("/admin", "/open")]),
    "conditions on requests": (BEGIN + """CacheQuickHandler off
CacheEnable disk /
<If "%%{REQUEST_URI} =~ m#^/private# && %%{HTTP_COOKIE} !~ /in=1/">
Require all denied
</If>
RewriteEngine on
RewriteCond %%{HTTP:X-Role} !admin
RewriteRule ^/admin$ - [F]
""", [("a.example", "/private", IN), ("a.example", "/private", OUT), ("a.example", "/admin", {"X-Role": "admin"}), ("a.example", "/admin", OUT), ("a.example", "/open", OUT)]),
}
# Over TLS, too: a host for each scheme, and files that are rules of both.
SEALED = {
    "http goes to https": (BEGIN + """Listen 443
SSLCertificateFile %(cert)s
SSLCertificateKeyFile %(key)s
CacheEnable disk /
<VirtualHost *:80>
ServerName a.example
Redirect permanent /admin https://a.example/admin
Header set X-Scheme "%%{REQUEST_SCHEME}s plain"
</VirtualHost>
<VirtualHost _default_:443>
ServerName a.example
SSLEngine on
CacheDisable /private
Header set X-Scheme "sealed"
Header set X-Env "%%{HTTPS}e"
RewriteEngine on
RewriteCond %%{HTTPS} !=on
RewriteRule ^ https://a.example/loop [R=301,L]
<Location /out>
Require all denied
</Location>
<Location /admin>
SSLRequireSSL
</Location>
</VirtualHost>
<VirtualHost *:443>
ServerName b.example
SSLEngine on
Header set X-Scheme "second"
Redirect 302 /open https://a.example/open
</VirtualHost>
""", [(host, path, OUT) for host in ("a.example", "b.example", "else.example") for path in ("/open", "/private", "/admin", "/out", "/folder")]),
}
LOADED = ("mpm_event", "authz_core", "authz_host", "headers", "mime", "cache", "cache_disk", "rewrite", "ssl", "setenvif", "alias", "dir", "socache_shmcb")
PATHS = ("/open", "/open", "/private", "/%70rivate", "//private", "/open/../private", "/./private", "/privat%65?x=1", "/out", "/admin", "/admin.html", "/private", "/none")
SOURCES = ("127.0.0.1", "127.0.0.2")


def ask():
    return {(source, number, path): get(beside.HTTP, path, host="a.example", source=source) for source in SOURCES for number, path in enumerate(PATHS)}


def write(work, text):
    """A configuration with its files."""
    work.mkdir(parents=True)
    os.chmod(work, 0o755)
    (work / "root").mkdir()
    (work / "kept").mkdir()
    os.chmod(work / "kept", 0o777)
    for name in ("open", "private", "out", "admin", "admin.html"):
        (work / "root" / name).write_text(name)
    (work / "root/folder").mkdir()
    leaf = Authority(work / "authority", kind="rsa").leaf("a.example", kind="rsa") if "443" in text else None
    conf = work / "apache.conf"
    loads = "".join(f"LoadModule {name}_module {MODULES}/mod_{name}.so\n" for name in LOADED)
    conf.write_text(loads + "TypesConfig /etc/mime.types\n" + text % {"dir": work, "cert": leaf and leaf.chain, "key": leaf and leaf.key})
    return conf


@contextlib.contextmanager
def alone(report, name, conf, work, addresses=(beside.HTTP,)):
    """Apache in the foreground, checked to serve."""
    apache = beside.Process([PROGRAM, "-f", str(conf), "-X"], work / "apache.log")
    try:
        yield report.check(all(apache.up(address) for address in addresses), f"{name}: Apache serves: {(work / 'apache.log').read_text()[-500:]}")
    finally:
        apache.close()


@contextlib.contextmanager
def behind(report, name, conf, work, addresses=(beside.HTTP,)):
    """Ours in Apache's place, and Apache behind it with its changed files."""
    with alone(report, name, work / "new" / str(conf).lstrip("/"), work, (OWN,)) as is_up:
        ours = beside.server(work / "new", work / "ours.log")
        try:
            yield report.check(all(ours.up(address) for address in addresses), f"{name}: ours serves: {(work / 'ours.log').read_text()[-800:]}") and is_up
        finally:
            ours.close()


def case(report, work, name, text, requests, addresses=(beside.HTTP,)):
    """Asks Apache alone, then ours in its place: statuses and bodies are alike, and what Apache doesn't keep isn't kept."""
    asked = [(address, *request) for address in addresses for request in requests]

    def ask():
        return [beside.fetch(address, path, list(fields.items()), host=host) for address, host, path, fields in asked for _ in range(2)]
    conf = write(work, text.replace("CacheRoot", "CacheHeader on\nCacheRoot"))
    with alone(report, name, conf, work, addresses) as is_up:
        theirs = ask() if is_up else []
    told = beside.migrate("apache", conf, work / "new", "--origin", "127.0.0.1:8080")
    report.check(len(addresses) == 1 or told.returncode == 0, f"{name}: everything has its counterpart: {told.stderr}")
    with behind(report, name, conf, work, addresses) as is_up:
        for number, (wanted, got) in enumerate(zip(theirs, ask() if is_up else [])):
            address, host, path, fields = asked[number // 2]
            what = f"{name}: {host}:{address[1]}{path} {fields}, time {number % 2 + 1}"
            found, expected = ((answer.status, answer.body if answer.status == 200 else None, *(answer.get(field) for field in ("Location", "X-Scheme", "X-Env"))) for answer in (got, wanted))
            report.check(found == expected, f"{what}: {found}, Apache's {expected}: {told.stderr}")
            report.check(wanted.status != 200 or wanted.body == path[1:].encode(), f"{what}: Apache sends its file: {wanted.body}")
            is_hit, was_hit = len(got.get("X-Varnish", "").split()) > 1, (wanted.get("X-Cache") or "").startswith("HIT")
            report.check(was_hit or not is_hit, f"{what}: it is kept, and Apache keeps nothing: {wanted.get('X-Cache')}")
        report.check(any((answer.get("X-Cache") or "").startswith("HIT") for answer in theirs), f"{name}: Apache keeps something")


def run(report, work):
    for number, (name, (text, requests)) in enumerate((CASES | SEALED).items()):
        case(report, work / f"a{number}", name, text, requests, (beside.HTTP, beside.HTTPS) if name in SEALED else (beside.HTTP,))
    work /= "rules"
    conf = write(work, CONFIGURATION)
    with alone(report, "rules", conf, work) as is_up:
        if not is_up:
            return
        theirs = ask()
    found = {path: (answer.status, answer.body) for (_, _, path), answer in theirs.items()}
    report.check(found["/open"] == (200, b"open") and found["/admin.html"] == (200, b"admin.html") and found["/out"][0] == 403 and found["/none"][0] == 404,
                 f"Apache: it serves its files: {found}")
    told = beside.migrate("apache", conf, work / "new", "--origin", "127.0.0.1:8080")
    report.check(told.returncode == 1 and "refused: Require" in told.stderr, f"Apache: what it would decide otherwise is refused: {told.stderr}")
    with behind(report, "rules", conf, work) as is_up:
        for asked, wanted in theirs.items() if is_up else ():
            source, _, path = asked
            got = get(beside.HTTP, path, host="a.example", source=source)
            # A client that is let in by its address waits for the operator, too.
            alike = [wanted.status, 403] if "rivat" in path else [wanted.status]
            report.check(got.status in alike, f"Apache: {path} from {source}: {got.status}, Apache's {wanted.status}")
            is_passed = "admin" in path or path == "/out"
            report.check(not is_passed or not got.get("Age", "0").strip("0"), f"Apache: {path} isn't kept: Age {got.get('Age')}")
