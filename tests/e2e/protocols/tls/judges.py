# SPDX-License-Identifier: BSD-2-Clause
"""What other people's programs say: curl, Chromium, testssl.sh, sslyze, tlsfuzzer. Who isn't here is named and left out.

tlsfuzzer has no package: TLSFUZZER names a copy of it (what is in fuzzer.py was tried with commit 14555fe of January 2026). What it needs
comes from PyPI (scripts/need-python tlsfuzzer). PYTHON names one that has sslyze.
"""
import contextlib
import fnmatch
import json
import os
import pathlib
import re
import shutil
import subprocess

from bed import pypi
from bed.certificates import openssl
from bed.daemon import workdir
from fuzzer import APART, MORE, SCRIPTS
from hostile import HANDSHAKE_LIMIT
from served import Ours

CIPHERS_OF_12 = ("ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-ECDSA-AES256-GCM-SHA384", "ECDHE-ECDSA-CHACHA20-POLY1305")
# Severities of testssl.sh that are no finding.
FINE = ("OK", "INFO", "DEBUG")
# What testssl.sh says of the bed, not of the server: an authority of its own, short lives, no DNS.
OF_THE_BED = ("engine_problem", "cert_notAfter", "cert_chain_of_trust", "cert_trust", "DNS_CAArecord", "cert_revocation", "cert_crlDistributionPoints", "cert_ocspURL", "OCSP_stapling",
              "cert_expirationStatus", "cert_extlifeSpan", "certificate_transparency", "cert_validityPeriod", "HSTS", "HPKP", "security_headers",
              "cookie_count", "banner_server", "banner_application", "HTTP_headerAge", "overall_grade", "grade_cap_reason_1", "grade_cap_reason_2")

# What it finds, and why that stays: all suites are of one strength, and clients without AES in hardware choose better than we.
MEANT = ("cipher_order",)
SSLYZE = [f"--{scan}" for scan in ("sslv2", "sslv3", "tlsv1", "tlsv1_1", "tlsv1_2", "tlsv1_3", "compression", "openssl_ccs", "heartbleed", "robot",
                                   "reneg", "fallback", "ems", "elliptic_curves", "early_data")]


def run(*words, limit=120, **more):
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, errors="replace", timeout=limit, **more)


def curl(report, bed):
    host, port = bed.served.sealed
    common = ["curl", "-sS", "--cacert", bed.made.root.root, "--resolve", f"bed.test:{port}:{host}", "--max-time", "20"]
    url = f"https://bed.test:{port}"
    for more, path, wanted in ((["--tlsv1.3"], "/1000/hit", "200 1000 0"), (["--tls-max", "1.2"], "/1000/hit", "200 1000 0"), (["--http1.1"], "/1048576/pass", "200 1048576 0"),
                               (["--http2"], "/1000/hit", "200 1000 0"), (["-r", "5-14"], "/1000/hit", "206 10 0"), (["-d", "a=b"], "/upload", "200 5 0"),
                               (["-I"], "/1000/hit", "200 0 0")):
        done = run(*common, *more, "-o", "/dev/null", "-w", "%{http_code} %{size_download} %{ssl_verify_result}", url + path)
        report.check(done.returncode == 0 and done.stdout == wanted, f"curl {' '.join(more)} {path}: {done.stdout!r} {done.stderr!r}")
    done = run(*common, "--tls-max", "1.1", "-o", "/dev/null", url)
    report.check(done.returncode == 35, f"curl with TLS 1.1 at most ends with {done.returncode}")


def chromium(report, bed):
    host, port = bed.served.sealed
    names = ("MAIN.tls_post_quantum", "MAIN.tls_cert_compressed")
    before = None if bed.is_hitch else [bed.served.counter(name) for name in names]
    der = subprocess.run(["openssl", "x509", "-in", bed.made.default.cert, "-pubkey", "-noout"], capture_output=True, check=True).stdout
    der = subprocess.run(["openssl", "pkey", "-pubin", "-outform", "der"], input=der, capture_output=True, check=True).stdout
    pin = subprocess.run(["openssl", "dgst", "-sha256", "-binary"], input=der, capture_output=True, check=True).stdout
    pin = openssl("base64", text=pin).decode().strip()
    profile = workdir()
    try:
        done = run("chromium", "--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}", f"--host-resolver-rules=MAP bed.test {host}",
                   f"--ignore-certificate-errors-spki-list={pin}", "--dump-dom", f"https://bed.test:{port}/1000/hit")
        report.check("the quick brown fox" in done.stdout, f"chromium: {done.stdout[:200]!r} {done.stderr[-300:]!r}")
        if not bed.is_hitch:
            grown = [bed.served.counter(name) > old for name, old in zip(names, before)]
            report.check(grown == [True, True], f"chromium agrees on X25519MLKEM768, and gets compressed certificates: {grown}")
    finally:
        shutil.rmtree(profile, ignore_errors=True)


def testssl(report, bed):
    host, port = bed.served.sealed
    out = workdir()
    try:
        run("testssl", "--quiet", "--warnings", "batch", "--color", "0", "--add-ca", bed.made.root.root, "--jsonfile", out / "o.json",
            "--nodns", "none", f"{host}:{port}", limit=900)
        found = json.loads((out / "o.json").read_text())
        findings = [f"{one['id']} {one['severity']}: {one['finding'][:120]}" for one in found
                    if one["severity"] not in FINE and not one["id"].split(" ")[0].startswith(OF_THE_BED + MEANT)]
        report.note(f"testssl: {len(found)} statements, {len(findings)} findings")
        report.check(len(found) > 100 and not findings, "testssl: " + "; ".join(findings))
    finally:
        shutil.rmtree(out, ignore_errors=True)


def sslyze(report, bed):
    host, port = bed.served.sealed
    out = workdir() / "o.json"
    try:
        done = run(*sslyze_program(), f"--json_out={out}", "--sni=bed.test", "--mozilla_config=disable", *SSLYZE, f"{host}:{port}", limit=300)
        result = json.loads(out.read_text())["server_scan_results"][0]["scan_result"]
        spoken = {name.removesuffix("_cipher_suites"): [one["cipher_suite"]["name"] for one in result[name]["result"]["accepted_cipher_suites"]]
                  for name in result if name.endswith("_cipher_suites")}
        report.note(f"sslyze: {spoken}")
        report.check(not any(spoken[old] for old in ("ssl_2_0", "ssl_3_0", "tls_1_0", "tls_1_1")) and spoken["tls_1_2"] and spoken["tls_1_3"], f"sslyze: {spoken}")
        for name, fault in (("heartbleed", "is_vulnerable_to_heartbleed"), ("openssl_ccs_injection", "is_vulnerable_to_ccs_injection"),
                            ("tls_compression", "supports_compression"), ("session_renegotiation", "is_vulnerable_to_client_renegotiation_dos")):
            got = (result[name]["result"] or {}).get(fault)
            report.check(got is False, f"sslyze: {fault} is {got}")
        robot = result["robot"]["result"]["robot_result"]
        report.check(robot.startswith("NOT_VULNERABLE"), f"sslyze: robot is {robot}")
        # Its word on resumption isn't asked: it takes a session for a new one when a new ticket came with it.
    finally:
        shutil.rmtree(out.parent, ignore_errors=True)


def sslyze_program():
    return [os.environ["PYTHON"], "-m", "sslyze"] if os.environ.get("PYTHON") else ["sslyze"]


def fuzzer(report, bed):
    """tlsfuzzer's scripts by a fixed list; each says what of it doesn't hold, and why (fuzzer.py)."""
    folder = pathlib.Path(os.environ["TLSFUZZER"])
    python, reason = pypi.made("tlsfuzzer")
    if not report.check(python, f"tlsfuzzer: no Python for it: {reason}"):
        return
    unknown = [path.name for path in sorted(folder.glob("scripts/test-*.py")) if (path.name in SCRIPTS) + (path.name in MORE) + is_apart(path.name) != 1]
    report.check(not unknown, f"tlsfuzzer: scripts that fuzzer.py doesn't name once: {unknown}")
    ours, clients = servers(bed)

    def judge(script, server, is_modern, options, left_out=(), failing=()):
        words = [word for name in left_out for word in ("-e", name)]
        program = [pathlib.Path(__file__).parent / "modern.py", folder] if is_modern else []
        client = clients["ecdsa" if "ecdsa" in script else "rsa"]
        certificate = ("-k", client.key, "-c", client.cert) if "clients" in server else ()
        host, port = ours[server].sealed
        try:
            done = run(python, *program, f"scripts/{script}", "-h", host, "-p", port, *options, *certificate, *words, cwd=folder,
                       env=dict(os.environ, PYTHONPATH=str(folder)), limit=600)
            counts = {key: int(n) for key, n in re.findall(r"^(TOTAL|PASS|FAIL|XFAIL|XPASS|SKIP): (\d+)", done.stdout, re.M)}
        except subprocess.TimeoutExpired:
            done, counts = None, {}
        failed = re.findall(r"^\t'(.*)'$", done.stdout, re.M) if done else ["no end"]
        failed = [name for name in failed if not any(fnmatch.fnmatchcase(name, pattern) for pattern in failing)]
        report.check(done is not None and (done.returncode == 0 or failing) and counts.get("PASS") and not failed, f"tlsfuzzer {script}: {counts} {failed[:6]}")
        report.note(f"tlsfuzzer {script}: {counts}")

    with contextlib.ExitStack() as stack:
        for served in set(ours.values()) - {bed.served}:
            stack.enter_context(served)
        for script, (options, left_out, _why) in SCRIPTS.items():
            judge(script, "rsa", False, options, left_out=left_out)
        for script, (server, is_modern, options, failing, _why) in MORE.items():
            judge(script, server, is_modern, options, failing=failing)


def is_apart(script):
    name = script.removeprefix("test-").removesuffix(".py")
    return any(fnmatch.fnmatchcase(name, pattern.strip()) for patterns in APART for pattern in patterns.split(","))


def servers(bed):
    """Ours by the certificate that it has, and whether it asks clients for theirs; and certificates of clients."""
    made, limit = bed.made, ["-p", f"tls_handshake_timeout={HANDSHAKE_LIMIT}", "-p", "timeout_idle=30"]
    issuers = made.dir / "issuers.pem"
    issuers.write_text(made.middle.between() + pathlib.Path(made.root.root).read_text())
    asking = f'client-verify = optional\nclient-verify-ca = "{issuers}"\n'

    def ours(default, more=""):
        return Ours(bed.program, [leaf for leaf in made.served if leaf is not default] + [default], more=more, args=limit, backend=bed.origin)
    asked = ours(made.rsa, asking)
    clients = {kind: made.middle.leaf(use="client", subject=kind, kind=kind) for kind in ("ecdsa", "rsa")}
    return {"rsa": bed.served, "ecdsa": ours(made.default), "clients": asked, "ecdsa clients": asked}, clients


CASES = {check.__name__: check for check in (curl, chromium, testssl, sslyze, fuzzer)}


def is_here(name):
    if name == "fuzzer":
        return "TLSFUZZER" in os.environ
    if name == "sslyze":
        return bool(os.environ.get("PYTHON") or shutil.which("sslyze"))
    return bool(shutil.which(name))
