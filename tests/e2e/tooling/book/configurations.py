# SPDX-License-Identifier: BSD-2-Clause
"""Configurations in the book, each read by what it is for, as far as that is here."""
import re
import shutil
import subprocess

import yaml

LIMIT = 60


def run(report, block, *argv, **more):
    p = subprocess.run([str(a) for a in argv], capture_output=True, text=True, timeout=LIMIT, **more)
    report.check(p.returncode == 0, f"{block}: {argv[0]}: {p.stdout}{p.stderr}")


def yaml_file(report, block, work):
    """Any YAML is YAML; alerts and scrapes are Prometheus'."""
    try:
        documents = list(yaml.safe_load_all(block.text))
    except yaml.YAMLError as error:
        report.check(False, f"{block}: no YAML: {error}")
        return
    report.check(all(isinstance(d, dict) and d for d in documents), f"{block}: it says nothing")
    path = work / "block.yml"
    path.write_text(block.text)
    first = documents[0]
    if "groups" in first and shutil.which("promtool"):
        run(report, block, "promtool", "check", "rules", path)
    if "scrape_configs" in first and shutil.which("promtool"):
        # Its rules are those of the package, which isn't installed here.
        path.write_text(re.sub(r"(?m)^rule_files:\n(  .*\n)+", "", block.text))
        run(report, block, "promtool", "check", "config", path)


def unit(report, block, work):
    """Lines of a unit: put onto one that is whole, they are read by systemd's own judge."""
    for line in block.text.splitlines():
        report.check(re.match(r"(\[\w+\]|[A-Z]\w+=.*|#.*|)$", line), f"{block}: no line of a unit: {line}")
    start = [line for line in block.text.splitlines() if line.startswith("ExecStart=/usr/sbin/varnishd ")]
    for line in start:
        # -C compiles and ends: options that nobody knows end it with an error.
        words = line.split()[1:]
        usable = [w for w in words if w != "-F"]
        for option, count in (("-j", 2), ("-S", 2), ("-T", 2), ("-f", 2), ("--watch", 2), ("-a", 2)):
            while option in usable:
                at = usable.index(option)
                del usable[at:at + count]
        run(report, block, "varnishd", "-C", "-b", "127.0.0.1:8080", *usable, stdin=subprocess.DEVNULL)
    if shutil.which("systemd-analyze") and start:
        path = work / "varnish-book.service"
        path.write_text("[Unit]\nDescription=x\n" + block.text.replace("/usr/sbin/varnishd", "/bin/true"))
        run(report, block, "systemd-analyze", "verify", "--man=no", path)


def nginx(report, block, work):
    path = work / "nginx.conf"
    path.write_text(block.text)
    if shutil.which("nginx", path="/usr/sbin:/usr/bin"):
        run(report, block, "/usr/sbin/nginx", "-t", "-c", path)


def python(report, block, _work):
    try:
        compile(block.text, str(block), "exec")
    except SyntaxError as error:
        report.check(False, f"{block}: no Python: {error}")


READERS = {"yaml": yaml_file, "ini": unit, "nginx": nginx, "python": python}
