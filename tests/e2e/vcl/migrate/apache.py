# SPDX-License-Identifier: BSD-2-Clause
"""Apache and what was made of its configuration, side by side in time: nobody is let in whom Apache by itself keeps out, by any address or spelling."""
import os
import shutil

import beside
from bed.http import get

PROGRAM = shutil.which("apache2", path="/usr/sbin:/usr/bin")
MODULES = "/usr/lib/apache2/modules"
OWN = ("127.0.0.1", 8080)
CONFIGURATION = """Listen 80
ServerRoot %(dir)s
PidFile %(dir)s/pid
ErrorLog %(dir)s/error.log
User www-data
Group www-data
ServerName a.example
DocumentRoot %(dir)s/root
Header set Cache-Control "max-age=60"
CacheQuickHandler off
CacheEnable disk /
CacheDisable /admin
CacheRoot %(dir)s/kept
<Directory %(dir)s/root>
Require all granted
</Directory>
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
LOADED = ("mpm_event", "authz_core", "authz_host", "headers", "mime", "cache", "cache_disk")
PATHS = ("/open", "/open", "/private", "/%70rivate", "//private", "/open/../private", "/./private", "/privat%65?x=1", "/out", "/admin", "/admin.html", "/private", "/none")
SOURCES = ("127.0.0.1", "127.0.0.2")


def ask():
    return {(source, number, path): get(beside.HTTP, path, host="a.example", source=source) for source in SOURCES for number, path in enumerate(PATHS)}


def run(report, work):
    work.mkdir()
    os.chmod(work, 0o755)
    (work / "root").mkdir()
    (work / "kept").mkdir()
    os.chmod(work / "kept", 0o777)
    for name in ("open", "private", "out", "admin", "admin.html"):
        (work / "root" / name).write_text(name)
    conf = work / "apache.conf"
    loads = "".join(f"LoadModule {name}_module {MODULES}/mod_{name}.so\n" for name in LOADED)
    conf.write_text(loads + "TypesConfig /etc/mime.types\n" + CONFIGURATION % {"dir": work})
    apache = beside.Process([PROGRAM, "-f", str(conf), "-X"], work / "apache.log")
    try:
        if not report.check(apache.up(beside.HTTP), f"Apache serves: {(work / 'apache.log').read_text()[-500:]}"):
            return
        theirs = ask()
    finally:
        apache.close()
    told = beside.migrate("apache", conf, work / "new", "--origin", "127.0.0.1:8080")
    report.check(told.returncode == 1 and "refused: Require" in told.stderr, f"Apache: what it would decide otherwise is refused: {told.stderr}")
    apache = beside.Process([PROGRAM, "-f", str(work / "new" / str(conf).lstrip("/")), "-X"], work / "apache.log")
    ours = beside.server(work / "new", work / "ours.log")
    try:
        if not report.check(apache.up(OWN) and ours.up(beside.HTTP), f"Apache and ours serve: {(work / 'ours.log').read_text()[-800:]}"):
            return
        for asked, wanted in theirs.items():
            source, _, path = asked
            got = get(beside.HTTP, path, host="a.example", source=source)
            # A client that is let in by its address waits for the operator, too.
            alike = [wanted.status, 403] if "rivat" in path else [wanted.status]
            report.check(got.status in alike, f"Apache: {path} from {source}: {got.status}, Apache's {wanted.status}")
            is_passed = "admin" in path or path == "/out"
            report.check(not is_passed or not got.get("Age", "0").strip("0"), f"Apache: {path} isn't kept: Age {got.get('Age')}")
    finally:
        ours.close()
        apache.close()
