# SPDX-License-Identifier: BSD-2-Clause
"""Views that are shipped as files: Grafana's dashboards name nothing that isn't there, and Munin's plugin shows what varnishstat does.
Before ours and before a genuine varnishd."""
import fnmatch
import json
import os
import pathlib
import re
import socket
import subprocess
import threading

from bed.daemon import die_with_parent
from bed.http import get
from bed.report import ROOT, until

SHARE = ROOT / "packaging/files/usr/share"
OWN = "Lacquer alone"
# What the traffic of this suite must bring to Graphite, and not only could.
ARRIVES = ["MAIN.client_req", "MAIN.cache_hit", "MAIN.s_resp_bodybytes", "gauges MAIN.n_object", "gauges SMA.s0.g_bytes", "VBE.boot.default.req"]


def panels(name, with_own):
    """The panels of a dashboard; those of Lacquer's own counters too, if so asked."""
    all_of = json.loads((SHARE / "lacquer/grafana" / name).read_text())["panels"]
    row = next(n for n, panel in enumerate(all_of) if panel["title"] == OWN)
    return [panel for n, panel in enumerate(all_of) if panel["type"] != "row" and (with_own or n < row)]


def layout(report):
    """What Grafana wants of a dashboard, and that the files are what the table says."""
    p = subprocess.run([ROOT / "scripts/dashboards", "--check"], capture_output=True, text=True)
    report.check(p.returncode == 0, f"scripts/dashboards --check: {p.stderr}")
    for name, field in (("prometheus.json", "expr"), ("graphite.json", "target")):
        d = json.loads((SHARE / "lacquer/grafana" / name).read_text())
        cells = [(x, y) for p in d["panels"] for at in [p["gridPos"]] for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])]
        report.check(len(set(cells)) == len(cells) and max(x for x, _ in cells) < 24, f"{name}: no panel lies on another, or beyond column 24")
        ids = [p["id"] for p in d["panels"]]
        report.check(len(set(ids)) == len(ids) > 10 and d["schemaVersion"] and d["uid"], f"{name}: each panel has a number of its own: {ids}")
        known = {v["name"] for v in d["templating"]["list"]}
        used = set(re.findall(r"\$\{?(\w+)", json.dumps(d))) - {"__rate_interval", "__all"}
        report.check(used == known, f"{name}: variables {used} of {known}")
        for panel in panels(name, True):
            refs = [t["refId"] for t in panel["targets"]]
            report.check(len(set(refs)) == len(refs) > 0 and all(t[field] for t in panel["targets"]), f"{name}: {panel['title']}: {refs}")


def prometheus(report, who, page, with_own):
    """Each metric and each label that is asked for stands on the exporter's page."""
    lines = re.findall(r"^(varnish_\w+)(?:\{(.*)\})? \S+$", page, re.M)
    count = 0
    for panel in panels("prometheus.json", with_own):
        for target in panel["targets"]:
            for name, labels in re.findall(r"(varnish_\w+)\{([^}]*)\}", target["expr"]):
                wanted = [label for label in labels.split(",") if not label.startswith("instance")]
                found = [had for had_name, had in lines if had_name == name and all(label in had for label in wanted)]
                report.check(found, f"{who}: dashboard, {panel['title']}: no {name} {wanted} at the exporter")
                count += 1
            for label in re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]):
                report.check(all(f'{label}="' in had for had_name, had in lines if had_name == name), f"{who}: {name} has no {label}")
    report.check(count > 30, f"{who}: only {count} metrics were looked at")


class Graphite:
    """Takes points; keeps their names."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.names = set()
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self):
        while True:
            try:
                s = self.listener.accept()[0]
            except OSError:
                return
            with s, s.makefile() as lines:
                self.names |= {line.split(" ")[0] for line in lines}

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


def counters(varnishstat, v):
    text = subprocess.run([varnishstat, "-j", "-n", str(v.n)], capture_output=True, text=True, check=True).stdout
    return {name: (c["flag"], c["value"]) for name, c in json.loads(text)["counters"].items()}


def graphite(report, who, lacquer, varnishstat, v, with_own):
    """Each path is that of a counter or a gauge; what the traffic counts is at Graphite by that name."""
    known = {f"stats.{'gauges.' * (flag == 'g')}lacquer.{name}" for name, (flag, _) in counters(varnishstat, v).items()}
    paths = {}
    for panel in panels("graphite.json", with_own):
        for target in panel["targets"]:
            for path in re.findall(r"stats\.[\w.$*]+", target["target"]):
                paths[path.replace("$prefix", "lacquer")] = panel["title"]
    report.check(len(paths) > 25, f"{who}: only {len(paths)} paths")
    for path, title in paths.items():
        report.check(fnmatch.filter(known, path), f"{who}: dashboard, {title}: {path} is no counter's path")
    carbon = Graphite()
    config = v.dir / "statsd.js"
    config.write_text(f'{{ address: "127.0.0.1", port: "any", mgmt_port: false, flushInterval: 200, graphiteHost: "127.0.0.1", '
                      f'graphitePort: {carbon.listener.getsockname()[1]}, backends: ["./backends/graphite"] }}\n')
    statsd = subprocess.Popen([lacquer, "statsd", config], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, preexec_fn=die_with_parent)
    export = None
    try:
        port = next(m[1] for line in statsd.stdout if (m := re.search(r"listening on udp .*:(\d+)$", line.rstrip())))
        threading.Thread(target=statsd.stdout.read, daemon=True).start()
        export = subprocess.Popen([lacquer, "statsd", "--export", f"127.0.0.1:{port}", "-n", str(v.n), "-i", "0.1"], stdin=subprocess.DEVNULL,
                                  preexec_fn=die_with_parent)
        wanted = ["stats." + ("gauges.lacquer." + name[7:] if name.startswith("gauges ") else "lacquer." + name) for name in ARRIVES]

        def arrived():
            get(v.address, "/miss/0")
            get(v.address, "/pass")
            return carbon.names >= set(wanted)
        report.check(until(60, arrived, step=0.1), f"{who}: at Graphite: {set(wanted) - carbon.names} is missing")
        own = {name for name in carbon.names if re.match(r"stats\.(gauges\.)?lacquer\.", name)}
        report.check(own <= known, f"{who}: paths that no counter has: {own - known}")
    finally:
        for process in (export, statsd):
            if process:
                process.terminate()
                process.wait(20)
        carbon.close()


def munin(report, who, lacquer, varnishstat, v):
    """The plugin in the environment that munin-node makes: nothing but PATH and what plugin-conf.d says."""
    plugin = SHARE / "munin/plugins/lacquer_"
    marks = re.findall(r"^#%# (\w+)=(.*)$", plugin.read_text(), re.M)
    report.check(marks == [("family", "auto"), ("capabilities", "autoconf suggest")], f"munin-node-configure's marks: {marks}")

    def ask(prefix, *words, **env):
        link = v.dir / f"lacquer_{prefix}"
        if not link.is_symlink():
            link.symlink_to(plugin)
        p = subprocess.run([link, *words], capture_output=True, text=True, timeout=30, stdin=subprocess.DEVNULL,
                           env={"PATH": "/usr/bin:/bin", "lacquer": str(lacquer), "name": str(v.n), **env})
        report.check(p.returncode == 0 and not p.stderr, f"{who}: lacquer_{prefix} {words}: {p}")
        return p.stdout

    report.check(ask("", "autoconf") == "yes\n", f"{who}: autoconf")
    report.check(ask("", "autoconf", name=str(v.dir / "nobody")).startswith("no ("), f"{who}: autoconf without a server")
    suggested = ask("", "suggest").split()
    report.check({"MAIN.cache", "SMA.s0.", "VBE.boot.default."} <= set(suggested), f"{who}: suggested: {suggested}")
    for prefix in suggested:
        config, values = ask(prefix, "config"), ask(prefix)
        labels, got = re.findall(r"^(\w+)\.label .", config, re.M), re.findall(r"^(\w+)\.value [-\d.U]+$", values, re.M)
        report.check(config.startswith("graph_title ") and labels == got != [], f"{who}: {prefix}: {labels} {got}")
    config = ask("MAIN.cache", "config")
    report.check("MAIN_cache_hit.type DERIVE\nMAIN_cache_hit.min 0\n" in config, f"{who}: {config}")
    report.check("MAIN_n_object.type GAUGE\n" in ask("MAIN.n_object", "config"), f"{who}: a gauge")
    for name in ("MAIN.cache_hit", "MAIN.cache_miss", "MAIN.n_object", "SMA.s0.c_req", "VBE.boot.default.req"):
        # The last request may be counted between the two looks.
        field = re.sub(r"\W", "_", name)
        both = lambda: (counters(varnishstat, v)[name][1], ask(name))
        report.comes(both, lambda seen: seen[0] > 0 and f"{field}.value {seen[0]}\n" in seen[1], f"{who}: {name}, as varnishstat and the plugin say")
    both = ask("MAIN.cache", "config", MUNIN_CAP_DIRTYCONFIG="1")
    report.check("MAIN_cache_hit.label" in both and "MAIN_cache_hit.value" in both, f"{who}: dirtyconfig: {both}")


def check(report, who, program, lacquer, varnishstat, v, page):
    with_own = "nohit" in page
    report.check(with_own == (pathlib.Path(os.path.realpath(program)).name == "lacquer"), f"{who}: counters of Lacquer's own")
    prometheus(report, who, page, with_own)
    graphite(report, who, lacquer, varnishstat, v, with_own)
    munin(report, who, lacquer, varnishstat, v)
