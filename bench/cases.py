# SPDX-License-Identifier: BSD-2-Clause
"""What is measured. A case gives figures for one server and one round; one of them, `key`, is what servers are compared by."""
import contextlib
import tempfile
import time

import traces
import vclgen
from servers import IDLE

HIT, HIT100K = "/c/1024/1", "/c/102400/1"
OBJECTS = 300_000
MOST_LOG_OFF = 0.05
LEAST_GOODPUT, MOST_CLI_MS = 0.9, 1000
MOST_OBJECT_BYTES, LEAST_HITS = 340, 0.66
MOST_ADDED, MOST_LOGGING = 0.10, 0.15  # of what a heavy VCL adds to varnishd; of the CPU of a hit
MOST_PROFILING = 0.10                  # of the CPU of a hit


class Case:
    key = "cpu_us"
    columns = ("rps", "p50_us", "p99_us", "records")
    servers = None  # names; None: those that run all the time
    once = False    # one round is enough

    def __init__(self, name):
        self.name = name

    @contextlib.contextmanager
    def taking_part(self, bed):
        """name: server; those that this case alone needs live as long as it."""
        with contextlib.ExitStack() as stack:
            if self.servers is None:
                yield {server.name: server for server in bed.servers if self.takes(server.name)}
                return
            able, out = {server.name for server in bed.servers}, {}
            for name in self.servers:
                base, _, variant = name.partition("+")
                if base in able:
                    out[name] = bed.another(base, **self.options(bed, variant))
                    stack.callback(out[name].stop)
            yield out

    def takes(self, name):
        return True

    def options(self, bed, variant):
        return {}

    def prepare(self, bed):
        pass

    def ratio(self, median):
        """Ours to varnishd's, of the medians of `key`."""
        if "ours" in median and median.get("varnish"):
            return median["ours"][self.key] / median["varnish"][self.key]
        return None

    def remarks(self, median):
        """Lines for the table, and what is wrong."""
        return [], []

    def measured(self, bed, server, path, options, seconds):
        """One stretch of load: its figures."""
        records, ran = server.records(), server.ran_ns()
        got = bed.load(server, path, ["-d", str(seconds), *options])
        ran = server.ran_ns() - ran
        done = max(1, got["issued"] - got["errors"])
        figures = {k: got[k] for k in ("rps", "p50_us", "p99_us", "errors", "non200", "issued")}
        figures["cpu_us"] = ran / done / 1e3
        if records is not None:
            figures["records"] = (server.records() - records) / done
        return figures


class Load(Case):
    """The same request again and again. body: what the null server answers with; 0: it can't take part."""

    def __init__(self, name, path, options=(), body=1024, key="cpu_us"):
        super().__init__(name)
        self.path, self.load, self.body, self.key = path, list(options), body, key
        self.columns = tuple(c for c in ("cpu_us", *Case.columns) if c != key)

    def takes(self, name):
        return self.body or name != "null"

    def prepare(self, bed):
        bed.null_body(self.body)

    def measure(self, bed, server, seconds):
        bed.load(server, self.path, ["-d", "0.15", *self.load])
        return self.measured(bed, server, self.path, self.load, seconds)

    def remarks(self, median):
        ours, theirs = (median.get(n, {}).get("records") for n in ("ours", "varnish"))
        wrong = self.name.startswith("hit") and ours is not None and theirs and abs(ours / theirs - 1) > MOST_LOG_OFF
        return [], [f"{ours:.2f} log records a request, varnishd has {theirs:.2f}"] if wrong else []


class Miss(Load):
    """Never the same request twice."""

    def __init__(self):
        super().__init__("miss", "/c/1024/", body=0)
        self.seen = {}

    def measure(self, bed, server, seconds):
        begin = self.seen.get(server.name, 0)
        options = ["-N", "10000000", "-o"]
        bed.load(server, self.path, ["-d", "0.15", *options, str(begin)])
        figures = self.measured(bed, server, self.path, [*options, str(begin + 1_000_000)], seconds)
        self.seen[server.name] = begin + 1_000_000 + figures["issued"] + 1000
        return figures


class IdleBytes(Case):
    """Memory that a connection takes while it is idle after one answer."""
    key, columns, once = "bytes", (), True

    def measure(self, bed, server, seconds):
        bed.load(server, HIT, ["-d", "0.3"])
        time.sleep(0.3)
        before = server.pss()
        with bed.hold(server, HIT, IDLE):
            time.sleep(1.0)
            return {"bytes": (server.pss() - before) / IDLE}


class ObjectBytes(Case):
    """Memory that an object takes beside its body and its stored head, as the origin sent it."""
    key, columns, once, servers = "bytes", ("whole",), True, ("varnish", "ours")

    def options(self, bed, variant):
        return {"more": ["-l", "2m"]}  # a log that is full from the beginning

    def measure(self, bed, server, seconds):
        bed.load(server, "/c/100/p", ["-N", "5000", "-n", "5000"])
        before = server.pss()
        got = bed.load(server, "/c/100/", ["-N", str(OBJECTS), "-n", str(OBJECTS)])
        time.sleep(0.5)
        whole = (server.pss() - before) / OBJECTS
        asked = bed.asked()
        bed.load(server, "/c/100/", ["-N", str(OBJECTS), "-n", str(OBJECTS)])
        again = bed.asked() - asked
        if again > OBJECTS // 100:
            raise SystemExit(f"bench: {server.name} fetched {again} of {OBJECTS} objects again")
        return {"bytes": whole - 100 - bed.head_bytes(server), "whole": whole, "errors": got["errors"], "non200": got["non200"]}

    def remarks(self, median):
        ours = median.get("ours", {}).get("bytes", 0)
        return [], [f"{ours:.0f} bytes an object"] if ours > MOST_OBJECT_BYTES else []


class Zipf(Case):
    """Hit ratio with a store of a tenth of the bytes, after as many requests to warm up."""
    key, columns, once, servers, count = "hit_ratio", ("pss_mb", "rps"), True, ("varnish", "ours"), 240_000

    def options(self, bed, variant):
        return {"store": "155m"}

    def measure(self, bed, server, seconds):
        half = str(self.count // 2)
        with tempfile.NamedTemporaryFile("w", prefix="lacquer-bench.") as trace:
            trace.writelines(f"/z/{n}\n" for n in traces.zipf(400_000)[:self.count])
            trace.flush()
            bed.load(server, "/", ["-f", trace.name, "-n", half, "-c", "32"])
            asked = bed.asked()
            got = bed.load(server, "/", ["-f", trace.name, "-o", half, "-n", half, "-c", "32"])
        return {"hit_ratio": 1 - (bed.asked() - asked) / (self.count // 2), "pss_mb": server.pss() / 1e6,
                **{k: got[k] for k in ("rps", "errors", "non200")}}

    def remarks(self, median):
        ours = median.get("ours", {}).get("hit_ratio", 1)
        return [], [f"{ours:.3f} of the requests hit"] if ours < LEAST_HITS else []


class HeavyVcl(Case):
    """What a VCL of 32 tests adds to a plain one, and what splitting it by host saves."""
    columns, servers = ("rps", "records"), tuple(f"{s}+{v}" for v in vclgen.VARIANTS for s in ("varnish", "ours"))
    fresh_agents = False

    def options(self, bed, variant):
        return {"vcl": vclgen.VARIANTS[variant](bed.origin_port)}

    @contextlib.contextmanager
    def taking_part(self, bed):
        with tempfile.NamedTemporaryFile("w", prefix="lacquer-bench.") as trace:
            trace.writelines("\t".join(r) + "\n" for r in vclgen.requests(fresh_agents=self.fresh_agents))
            trace.flush()
            self.trace = ["-f", trace.name, "-B"]
            with super().taking_part(bed) as servers:
                for server in servers.values():
                    bed.load(server, "/", [*self.trace, "-n", "4000"])
                yield servers

    def measure(self, bed, server, seconds):
        bed.load(server, "/", [*self.trace, "-d", "0.15"])
        return self.measured(bed, server, "/", self.trace, seconds)

    def figures(self, median):
        """What heavy and split add: (ours, varnishd's) each."""
        def added(variant):
            return tuple(median[f"{s}+{variant}"]["cpu_us"] - median[f"{s}+plain"]["cpu_us"] for s in ("ours", "varnish"))
        return (added("heavy"), added("split")) if all(name in median for name in self.servers) else None

    def ratio(self, median):
        figures = self.figures(median)
        return figures and figures[0][0] / figures[0][1]

    def remarks(self, median):
        if not self.figures(median):
            return [], []
        (heavy, heavy_v), (split, split_v) = self.figures(median)
        lines = ["| | heavy adds | split by host adds |", "| --- | --- | --- |", f"| varnish | {heavy_v:.2f} us | {split_v:.2f} us |",
                 f"| ours | {heavy:.2f} us | {split:.2f} us |", f"| ratio | {heavy / heavy_v:.3f} | {split / split_v:.3f} |"]
        wrong = [f"the heavy VCL adds {heavy / heavy_v:.2f} of what it adds to varnishd"] if heavy > MOST_ADDED * heavy_v else []
        return lines, wrong


class FreshAgents(HeavyVcl):
    """The same, but no User-Agent comes twice within 4,000 requests."""
    fresh_agents = True


class Profiled(HeavyVcl):
    """What `vcl.profile on` costs a request that the heavy VCL is run for."""
    servers = ("varnish+plain", "ours+heavy", "ours+profiled")

    def options(self, bed, variant):
        return super().options(bed, "heavy" if variant == "profiled" else variant)

    @contextlib.contextmanager
    def taking_part(self, bed):
        with super().taking_part(bed) as servers:
            if "ours+profiled" in servers:
                servers["ours+profiled"].admin("vcl.profile", "on")
            yield servers

    def ratio(self, median):
        """Here: what it adds, as a share of the same request without it."""
        if not {"ours+heavy", "ours+profiled"} <= set(median):
            return None
        return median["ours+profiled"]["cpu_us"] / median["ours+heavy"]["cpu_us"] - 1

    def remarks(self, median):
        added = self.ratio(median)
        if added is None:
            return [], []
        return [f"Profiling adds {added:.1%}."], [f"profiling adds {added:.0%}"] if added > MOST_PROFILING else []


class LogOff(Case):
    """What logging costs: the same hit with every record masked."""
    servers = ("varnish", "varnish+masked", "ours", "ours+masked")
    tags = """Begin Link SessOpen SessClose ReqStart ReqMethod ReqURL ReqProtocol ReqHeader ReqUnset VCL_call VCL_return VCL_use Hash Hit
        RespProtocol RespStatus RespReason RespHeader RespUnset Timestamp ReqAcct Length Filters Debug End""".split()

    def options(self, bed, variant):
        return {"more": ["-p", "vsl_mask=" + ",".join(f"-{tag}" for tag in self.tags)] if variant else []}

    def measure(self, bed, server, seconds):
        bed.load(server, HIT, ["-d", "0.15", "-B"])
        return self.measured(bed, server, HIT, ["-B"], seconds)

    def ratio(self, median):
        """Here: the share of our own hit that logging takes."""
        if not {"ours", "ours+masked"} <= set(median):
            return None
        return 1 - median["ours+masked"]["cpu_us"] / median["ours"]["cpu_us"]

    def remarks(self, median):
        if self.ratio(median) is None:
            return [], []
        lines = [f"Logging takes {self.ratio(median):.1%} of our hit."]
        wrong = [f"logging takes {self.ratio(median):.0%} of a hit"] if self.ratio(median) > MOST_LOGGING else []
        if median["ours+masked"]["records"] > 0.1:
            wrong.append(f"{median['ours+masked']['records']:.2f} records a hit though all are masked")
        return lines, wrong


class Overload(Case):
    """Twice the load that the server can serve, on connections that don't wait for each other: how much is still served of
    what it can serve, and how long the CLI takes. The server alone is the limit: hits with a dear VCL. Of a round, little
    can be said: the peak and what is served beyond it are seconds apart, and the machine has other work. So there are several,
    and the table shows how far they differ; the CPU of a good answer at the peak (peak_us) and beyond (good_us) depends
    less on what else runs."""
    key, servers = "goodput", ("varnish", "ours")
    columns = ("peak", "peak_us", "good_us", "refused", "p99_us", "cli_ms", "pss_mb")
    path, crowd = HIT, 2000
    policy = "sub vcl_recv {\n" + """set req.http.X = regsuball("%s", "[ab]", "xy");\n""" % ("ab-" * 60) * 15 + "}\n"
    more = ()

    def options(self, bed, variant):
        return {"vcl": vclgen.plain(bed.origin_port) + self.policy, "more": self.more}

    def measure(self, bed, server, seconds):
        seconds = max(seconds, 3.0)
        bed.load(server, self.path, ["-d", "0.5"])
        at_peak, peak_us = self.cost(bed, server, ["-d", str(seconds)])
        peak = at_peak["rps"]
        with server.pinged() as pings:
            options = ["-r", str(2 * peak), "-c", str(self.crowd), "-w", "1", "-d", str(seconds)]
            got, good_us = self.cost(bed, server, options)
        # Requests that were not even sent, or not answered when the time was up, are no errors here.
        good = got["rps"] * (1 - got["non200"] / max(1, got["ok"]))
        return {"goodput": good / peak, "peak": peak, "peak_us": peak_us, "good_us": good_us,
                "refused": got["non200"], "p99_us": got["p99_us"],
                "cli_ms": max(pings) * 1e3 if pings else float("inf"), "pss_mb": server.pss() / 1e6}

    def cost(self, bed, server, options):
        """A stretch of load, and the CPU of a good answer; what was answered before the generator counts is in it by its share."""
        ran = server.ran_ns()
        got = bed.load(server, self.path, options)
        ran = server.ran_ns() - ran
        warm = float(options[options.index("-w") + 1]) if "-w" in options else 0.0
        share = got["seconds"] / (got["seconds"] + warm)
        return got, ran * share / max(1, got["ok"] - got["non200"]) / 1e3

    def remarks(self, median):
        if "ours" not in median:
            return [], []
        wrong = [f"goodput is {median['ours']['goodput']:.2f} of the peak"] if median["ours"]["goodput"] < LEAST_GOODPUT else []
        if median["ours"]["cli_ms"] > MOST_CLI_MS:
            wrong.append(f"the CLI took {median['ours']['cli_ms']:.0f} ms to answer")
        return [], wrong


class Crowd(Overload):
    """The same with fetches, 200 in progress and 1,000 waiting at most: some are refused, the rest isn't read, memory stays."""
    path, crowd = "/n/40000/1", 4000
    policy = """sub vcl_recv { return (pass); }
sub vcl_backend_response { set beresp.do_gzip = true; }
"""
    more = ("-p", "thread_pool_min=100", "-p", "thread_pool_max=100", "-p", "thread_queue_limit=500")

    def remarks(self, median):
        lines, wrong = super().remarks(median)
        if median.get("ours", {}).get("refused", 1) == 0:
            wrong.append("nothing was refused")
        return lines, wrong


CASES = {case.name: case for case in (
    Load("hit-keepalive-B", HIT, ["-B"]),
    Load("hit-10perconn", HIT, ["-k", "10"]),
    Load("hit-1conn-B", HIT, ["-k", "1", "-B"]),
    Load("hit-pipelined", HIT, ["-P", "16"]),
    Load("hit-100k", HIT100K, body=102400),
    Load("pass", "/n/1024/1", body=0),
    Miss(),
    Load("open-5k", HIT, ["-r", "5000", "-w", "0.2"], key="p99_us"),
    IdleBytes("idle-bytes"),
    HeavyVcl("heavy-vcl"),
    FreshAgents("heavy-vcl-fresh"),
    Profiled("profile"),
    LogOff("log-off"),
    ObjectBytes("object-bytes"),
    Zipf("zipf"),
    Overload("overload"),
    Crowd("overload-fetches"),
)}
