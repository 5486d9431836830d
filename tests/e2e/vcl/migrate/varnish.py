# SPDX-License-Identifier: BSD-2-Clause
"""Varnish's own files: the start line that comes of them is one that our varnishd takes, whole."""
import shlex
import subprocess

from bed import world

LACQUER, VARNISHD = world.BIN / "lacquer", world.BIN / "varnishd"
LIMIT = 60

# Names and values as the releases had them, in words of our own.
FILES = {
    "2.1-debian": """
START=yes
NFILES=131072
INSTANCE=$(uname -n)
DAEMON_OPTS="-a :6081 \\
             -T localhost:6082 \\
             -f %(dir)s/site.vcl \\
             -h classic,16383 -s malloc,256m"
""",
    "3.0-redhat": """
RELOAD_VCL=1
VARNISH_VCL_CONF=%(dir)s/site.vcl
VARNISH_LISTEN_ADDRESS=
VARNISH_LISTEN_PORT=6081
VARNISH_MIN_THREADS=1
VARNISH_MAX_THREADS=1000
VARNISH_THREAD_TIMEOUT=120
VARNISH_STORAGE="malloc,${SIZE:-64M}"
VARNISH_TTL=120
DAEMON_OPTS="-a ${VARNISH_LISTEN_ADDRESS}:${VARNISH_LISTEN_PORT} -f ${VARNISH_VCL_CONF} -t ${VARNISH_TTL} \\
             -w ${VARNISH_MIN_THREADS},${VARNISH_MAX_THREADS},${VARNISH_THREAD_TIMEOUT} -s ${VARNISH_STORAGE} \\
             -l 80m,1m,+ -p sess_workspace=262144 -p session_linger=50 -p purge_dups=on -p expiry_sleep=1"
""",
    "4.0-params": """
VARNISH_VCL_CONF=%(dir)s/site.vcl
VARNISH_LISTEN_PORT=6081
VARNISH_ADMIN_LISTEN_ADDRESS=127.0.0.1
VARNISH_ADMIN_LISTEN_PORT=6082
VARNISH_STORAGE="malloc,256M"
DAEMON_OPTS="-p thread_pool_add_delay=2 -p shm_reclen=1000"
""",
    "9-unit": """
[Service]
LimitNOFILE=131072
ExecStart=/usr/sbin/varnishd \\
    -a :6081 -a proxy=localhost:8443,PROXY -p feature=+http2 \\
    -f %(dir)s/site.vcl -s malloc,256m
""",
}
VCL = 'vcl 4.1;\nbackend default { .host = "127.0.0.1"; .port = "9"; }\n'


def migrated(*words):
    return subprocess.run([LACQUER, "migrate", *words], capture_output=True, text=True, timeout=LIMIT)


def run(report, work):
    work.mkdir()
    (work / "site.vcl").write_text(VCL)
    for name, text in FILES.items():
        path = work / name
        path.write_text(text % {"dir": work})
        told = migrated("varnish", str(path))
        report.check(told.returncode == 0, f"{name}: nothing is refused: {told.returncode} {told.stderr}")
        words = shlex.split(told.stdout)
        report.check(words[:1] == ["varnishd"], f"{name}: a start line is printed: {told.stdout!r}")
        taken = subprocess.run([VARNISHD, "-C", "-j", "none", *words[1:]], capture_output=True, text=True, timeout=LIMIT)
        report.check(taken.returncode == 0, f"{name}: varnishd takes {told.stdout.strip()}: {taken.stderr[-400:]}")
        report.check("is called" not in taken.stderr and "ignored" not in taken.stderr, f"{name}: by today's names: {taken.stderr[-400:]}")
    drop_in = work / "override.conf"
    drop_in.write_text("[Service]\nExecStart=\nExecStart=/usr/sbin/varnishd -a :80 -b 127.0.0.1:9 -p nonsense=1\n")
    told = migrated("varnish", str(work / "9-unit"), str(drop_in))
    report.check(told.returncode == 1 and told.stdout == "varnishd -a :80 -b 127.0.0.1:9\n", f"a drop-in replaces ExecStart: {told}")
    report.check(f"{drop_in}:3: refused: -p: nonsense=1" in told.stderr, f"an unknown parameter is refused by line: {told.stderr}")
    hitch = work / "hitch.conf"
    hitch.write_text('frontend = "[127.0.0.1]:6443"\nbackend = "[127.0.0.1]:6086"\nworkers = 4\n')
    told = migrated("hitch", str(hitch), "--report", "--format", "json")
    report.check(told.returncode == 0 and '"coverage": 100.0' in told.stdout, f"hitch's file: {told}")
