# SPDX-License-Identifier: BSD-2-Clause
"""A server's log as transactions that can be compared: grouped by request, without what time, ports and numbers make differ."""
import re
import subprocess

# When, how many octets, which descriptors and connections: not what VCL decided.
DROPPED = {"Timestamp", "ReqAcct", "BereqAcct", "PipeAcct", "ReqStart", "BackendStart", "VCL_use", "Debug", "SessOpen", "SessClose",
           "WorkThread", "BackendClose", "BackendReuse", "CLI", "Notice", "Storage", "Gzip", "ESI_xmlerror", "Witness", "Length"}
# Seconds by which a time that passes may differ: a busy machine asks the second server so much later.
ALLOWED = 20
DURATION = re.compile(r"(?<![\d.])(\d+)\.\d+")


def read(n_dir):
    """{request number: {transaction's name: [record, ...]}}, and whether all transactions are over."""
    out = subprocess.run(["varnishlog", "-n", str(n_dir), "-d", "-g", "raw"], stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
    records = {}
    for line in out.stdout.decode("latin-1").splitlines():
        m = re.match(r"\s*(\d+) (\S+)\s+([-cb]) ?(.*)", line)
        if m and m[1] != "0":
            records.setdefault(int(m[1]), []).append((m[2], m[4]))
    linked = {int(d.split()[1]) for some in records.values() for t, d in some if t == "Link"}
    is_over = linked <= records.keys() and all(some[-1][0] == "End" for some in records.values())
    found = {}
    # Numbers are handed out in lots: what began first says a transaction's Start.
    for vxid in sorted(records, key=lambda n: (next((d for t, d in records[n] if t == "Timestamp"), ""), n)):
        transaction = records[vxid]
        begin = next((d.split() for t, d in transaction if t == "Begin"), None)
        number = next((d.split(": ")[1] for t, d in transaction if t in ("ReqHeader", "BereqHeader") and d.lower().startswith("x-req: ")), None)
        if not begin or begin[0] == "sess" or number is None:
            continue
        mine = found.setdefault(int(number), {})
        name = " ".join([begin[0], *begin[2:]])
        same = sum(1 for n in mine if n.split("#")[0] == name)
        mine[f"{name}#{same}"] = [r for t, d in transaction if (r := plain(t, d))]
    for mine in found.values():
        # Framing isn't compared where it hangs on chance: the length of a page with a transaction number in it, and whether a
        # body that a filter changes was whole when its delivery began; nor do two packers pack to the same length.
        texts = {r for transaction in mine.values() for r in transaction}
        if texts & {"VCL_call SYNTH", "VCL_call BACKEND_ERROR"} or any(r.startswith("Filters ") and r != "Filters range" for r in texts) \
                or "content-encoding: gzip" in " ".join(texts).lower():
            for transaction in mine.values():
                transaction[:] = [r for r in transaction if not re.match(r"\w+ (content-length|transfer-encoding):", r, re.I)]
    return found, is_over


def plain(tag, data):
    """One record without what may differ; '' for one that doesn't count."""
    if tag in DROPPED:
        return ""
    words = data.split()
    if tag in ("Begin", "Link"):
        return f"{tag} {words[0]} {' '.join(words[2:])}"
    if tag == "ExpBan":
        return f"{tag} {' '.join(words[1:])}"
    if tag == "BackendOpen":
        return f"{tag} {words[1]}"
    if tag in ("Hit", "HitMiss", "HitPass"):
        # Behind the remaining TTL, grace and keep: how far the fetch is, if it isn't over yet, which hangs on chance.
        return f"{tag} {' '.join([passing(words[1]), *(near(w) for w in words[2:4])])}"
    if tag == "TTL":
        # source, ttl, grace, keep, now, then what it was computed from
        return f"{tag} {' '.join(near(w) if len(w) < 10 else 'T' for w in words)}"
    if tag in ("ReqHeader", "BereqHeader", "BerespHeader", "RespHeader", "ObjHeader", "ReqUnset", "BereqUnset", "BerespUnset", "RespUnset"):
        name, _, value = data.partition(": ")
        return f"{tag} {name}: {field(name, value)}"
    if tag == "End":
        return f"{tag} {data}".strip()
    if tag == "VCL_Log":
        return f"{tag} {field(tag, data)}"
    if tag in ("Filters", "Fetch_Body"):
        return " ".join([tag, *words])
    return f"{tag} {unnumbered(data)}"


def near(word):
    """Times within a second or two are the same."""
    try:
        value = float(word)
    except ValueError:
        return word
    if value > 1e6:
        return f"{value:.5g}"  # varnishd keeps 24 bits of a time
    return word if value == -1 else "none" if abs(value) < 0.5 else str(round(value / 5) * 5)


def passing(word):
    """A time that goes by while the two servers are asked one after the other, marked for `aligned`."""
    try:
        value = float(word)
    except ValueError:
        return word
    return near(word) if abs(value) > 1e6 else f"~{value:.3f}~"


PASSING = re.compile(r"~(-?[\d.]+)~")


def aligned(ours, theirs):
    """Our lines, with their times for ours wherever a line differs in nothing but times that pass, and in these by less than ALLOWED seconds."""
    if ours is None or theirs is None or len(ours) != len(theirs):
        return ours
    return [b if a != b and is_alike(a, b) else a for a, b in zip(ours, theirs)]


def is_alike(a, b):
    times = [(float(x), float(y)) for x, y in zip(PASSING.findall(a), PASSING.findall(b))]
    # Two whole numbers are no times that pass.
    alike = all(x == y or abs(x - y) < ALLOWED and not (x.is_integer() and y.is_integer()) for x, y in times)
    return PASSING.sub("~", a) == PASSING.sub("~", b) and alike


def unnumbered(text):
    """Without ports, vxids and what a clock says."""
    text = re.sub(r"127\.0\.0\.[12][: ]\d{4,5}", "ADDR", text)
    text = re.sub(r"\b\w{3}, \d\d \w{3} 20\d\d \d\d:\d\d:\d\d GMT", "DATE", text)
    return text


def field(name, value):
    low = name.lower()
    if low in ("x-varnish", "x-vxid", "x-request-id", "xid", "x-trace"):
        return re.sub(r"\d+", "N", value)
    if low == "via":
        return re.sub(r"1\.1 [^, ]+ \(Varnish/7\.1\)", "1.1 v", value)
    if low == "content-range" and value.startswith("bytes */"):
        return "bytes */N"
    if low == "age":
        return f"~{value}.5~" if value.isdigit() else value  # whole seconds that pass
    if low in ("content-length", "last-modified", "if-modified-since", "expires"):
        return value
    value = re.sub(r"(?<![\d.])1[67]\d{8}(\.\d+)?", "NOW", unnumbered(value))
    return re.sub(r"(?<![\d.])-?\d+\.\d\d\d(?!\d)", lambda m: passing(m[0]), value)
