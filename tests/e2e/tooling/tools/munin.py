# SPDX-License-Identifier: BSD-2-Clause
"""Munin: our own plugin, and Debian's of 2009 (varnish_, where it is installed) on our varnishstat's old layout."""
import os
import pathlib
import subprocess

import traffic
from bed.daemon import Varnishd

PLUGIN = pathlib.Path(os.environ.get("MUNIN_PLUGIN", "/usr/share/munin/plugins/varnish_"))
ASPECTS = ["backend_traffic", "uptime", "memory_usage", "transfer_rates", "request_rate", "expunge", "hit_rate", "threads", "objects"]


def ask(argv, **env):
    p = subprocess.run(argv, capture_output=True, text=True, env={**os.environ, **env}, timeout=30, stdin=subprocess.DEVNULL)
    return p.returncode, p.stdout, p.stderr


def fields(text, what):
    return {line.split(".")[0] for line in text.splitlines() if f".{what} " in line}


def run(report, varnishd, tools, work):
    with traffic.origin() as origin, Varnishd(varnishd, vcl=traffic.vcl(origin), storage="malloc,20m") as v:
        traffic.send(v.address)
        lacquer = pathlib.Path(varnishd).resolve()
        link = work / "lacquer_MAIN.cache"
        link.symlink_to(lacquer)
        for argv in ([str(lacquer), "munin", "MAIN.cache"], [str(link)]):
            config, values = (ask([*argv, *more], name=str(v.n)) for more in (["config"], []))
            report.check(config[0] == values[0] == 0 and fields(config[1], "label") == fields(values[1], "value") != set(),
                         f"{argv[0]}: {config} {values}")
        if not PLUGIN.exists():
            report.note(f"Munin's own plugin is not here ({PLUGIN})")
            return
        stat = f"{tools / 'varnishstat'} --xml3"
        for aspect in ASPECTS:
            link = work / f"varnish_{aspect}"
            link.symlink_to(PLUGIN)
            config, values = (ask(["perl", str(link), *more], name=str(v.n), varnishstat=stat) for more in (["config"], []))
            labels, got = fields(config[1], "label"), fields(values[1], "value")
            report.check(config[0] == values[0] == 0 and labels == got != set(), f"varnish_{aspect}: {labels} {got} {config[2]} {values[2]}")
