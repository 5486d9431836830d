# SPDX-License-Identifier: BSD-2-Clause
"""packaging/kubernetes without a cluster: what kustomize makes of it, references between the objects, the program's own words. With --full, and Go,
each object is read by Kubernetes' own types (`kubernetes_types/`), which know every field."""
import pathlib
import re
import shutil
import subprocess

import yaml

from bed.daemon import workdir

LIMIT = 60
LIMIT_FULL = 600  # Go fetches and compiles Kubernetes' types
HERE = pathlib.Path(__file__).resolve().parent


def run(report, packaging, lacquer, full):
    d = workdir()
    try:
        place = d / "kubernetes"
        shutil.copytree(packaging / "kubernetes", place, ignore=shutil.ignore_patterns("token"))
        (place / "token").write_text("a token of the test's\n")
        whole = kustomized(report, place)
        if whole is None:
            return
        made = [o for o in yaml.safe_load_all(whole) if o]
        objects(report, made)
        program(report, lacquer, place, made)
        if full:
            types(report, whole)
    finally:
        shutil.rmtree(d, ignore_errors=True)


def kustomized(report, place):
    """All objects as one text: by kubectl where it is here, else the files as they stand, with what the generators would add."""
    if shutil.which("kubectl"):
        p = subprocess.run(["kubectl", "kustomize", place], capture_output=True, text=True, timeout=LIMIT)
        return p.stdout if report.check(p.returncode == 0 and not p.stderr, f"kustomize: {p.stderr}") else None
    report.note("kubectl isn't here: what kustomize makes is put together by hand")
    said = yaml.safe_load((place / "kustomization.yaml").read_text())
    found = [o for name in said["resources"] for o in yaml.safe_load_all((place / name).read_text())]
    for kind, key in (("ConfigMap", "configMapGenerator"), ("Secret", "secretGenerator")):
        for one in said[key]:
            data = {name: (place / name).read_text() for name in one["files"]}
            found.append({"apiVersion": "v1", "kind": kind, "metadata": {"name": one["name"]}, "stringData" if kind == "Secret" else "data": data})
    labels = said["labels"][0]["pairs"]
    for o in found:
        o["metadata"].setdefault("labels", {}).update(labels)
        if o["kind"] == "Service":
            o["spec"]["selector"] = labels
        if o["kind"] == "Deployment":
            o["spec"]["selector"] = {"matchLabels": labels}
            o["spec"]["template"].setdefault("metadata", {})["labels"] = labels
    return yaml.safe_dump_all(found)


def objects(report, made):
    def named(kind):
        return [o for o in made if o["kind"] == kind]
    kinds = sorted(o["kind"] for o in made)
    report.check(kinds == ["ConfigMap", "Deployment", "NetworkPolicy", "PodDisruptionBudget", "Secret", "Service", "Service"], f"kubernetes: {kinds}")
    deployment = named("Deployment")[0]
    pod = deployment["spec"]["template"]
    labels = pod["metadata"]["labels"]
    for o in [deployment, *named("Service"), *named("PodDisruptionBudget")]:
        selector = o["spec"].get("selector") or {}
        selector = selector.get("matchLabels", selector)
        report.check(selector and selector.items() <= labels.items(), f"kubernetes: {o['kind']} {o['metadata']['name']} selects {selector}, the pods are {labels}")
    container, = pod["spec"]["containers"]
    mounts, volumes = {m["name"] for m in container["volumeMounts"]}, {v["name"]: v for v in pod["spec"]["volumes"]}
    report.check(mounts == set(volumes), f"kubernetes: mounted are {mounts}, there are {set(volumes)}")
    report.check(volumes["vcl"]["configMap"]["name"] == named("ConfigMap")[0]["metadata"]["name"]
                 and volumes["token"]["secret"]["secretName"] == named("Secret")[0]["metadata"]["name"], f"kubernetes: volumes name what there is: {volumes}")
    ports = {p["name"]: p["containerPort"] for p in container["ports"]}
    wanted = {container[k]["httpGet"]["port"] for k in ("readinessProbe", "livenessProbe")} | {p["targetPort"] for s in named("Service") for p in s["spec"]["ports"]}
    report.check(wanted <= set(ports), f"kubernetes: ports {wanted} are asked for, {ports} are there")
    report.check([container[k]["httpGet"]["path"] for k in ("readinessProbe", "livenessProbe")] == ["/readyz", "/healthz"], "kubernetes: probes ask for health")
    bounds = {**pod["spec"]["securityContext"], **container["securityContext"]}
    report.check(bounds["runAsNonRoot"] and bounds["runAsUser"] == 1000 and bounds["readOnlyRootFilesystem"] and not bounds["allowPrivilegeEscalation"]
                 and bounds["capabilities"]["drop"] == ["ALL"] and bounds["seccompProfile"]["type"] == "RuntimeDefault", f"kubernetes: no rights: {bounds}")
    report.check(all(port > 1023 for port in ports.values()), f"kubernetes: who isn't root binds no port below 1024: {ports}")
    args = container["args"]
    grace = next(float(a.partition("=")[2]) for a in args if a.startswith("shutdown_grace="))
    waits = container["lifecycle"]["preStop"]["sleep"]["seconds"]
    most = pod["spec"]["terminationGracePeriodSeconds"]
    report.check(grace + waits < most, f"kubernetes: {waits} s and {grace} s end within {most} s")
    listens = {int(re.search(r":(\d+)", a)[1]) for a in args if re.match(r"(\w+=)?[\d.]*:\d+", a)}
    report.check(listens == set(ports.values()), f"kubernetes: it listens at {listens}, its ports are {ports}")


def program(report, lacquer, place, made):
    """Its options and its VCL are known to the program; the name in the VCL is the cluster's."""
    text = re.sub(r'\.host = "[^"]*"', '.host = "127.0.0.1"', (place / "default.vcl").read_text())
    p = subprocess.run([lacquer, "vcl", "check", "-"], input=text, capture_output=True, text=True, timeout=LIMIT)
    report.check(p.returncode == 0, f"kubernetes: its VCL: {p.stdout}{p.stderr}")
    (place / "default.vcl").write_text(text)
    args = next(o for o in made if o["kind"] == "Deployment")["spec"]["template"]["spec"]["containers"][0]["args"]
    p = subprocess.run([lacquer, "serve", "-C", "-f", place / "default.vcl", *args], capture_output=True, text=True, timeout=LIMIT, stdin=subprocess.DEVNULL)
    report.check(p.returncode == 0, f"kubernetes: its options: {p.stderr[-1000:]}")
    tag = yaml.safe_load((place / "kustomization.yaml").read_text())["images"][0]["newTag"]
    version = subprocess.run([lacquer, "--version"], capture_output=True, text=True, timeout=LIMIT).stdout
    report.check(f"acquer {tag}" in version, f"kubernetes: the image's tag is the program's version: {tag}, {version}")


def types(report, whole):
    if not shutil.which("go"):
        report.note("go isn't here: Kubernetes' own types aren't asked")
        return
    p = subprocess.run(["go", "run", "."], cwd=HERE / "kubernetes_types", input=whole, capture_output=True, text=True, timeout=LIMIT_FULL)
    report.check(p.returncode == 0, f"kubernetes: as its own types read them: {p.stdout}{p.stderr[-2000:]}")
    odd = subprocess.run(["go", "run", "."], cwd=HERE / "kubernetes_types", input=whole.replace("maxSurge", "maxSurges"), capture_output=True, text=True, timeout=LIMIT_FULL)
    report.check(odd.returncode != 0 and "maxSurges" in odd.stderr, f"kubernetes: a field that there isn't is told of: {odd.stderr[-300:]}")
