# SPDX-License-Identifier: BSD-2-Clause
"""Start lines of each release, ten of each: packages' units, containers, the parameters that the release brought. All start; what has no effect
says so, and what can't be had here is refused by name. What `lacquer migrate varnish` makes of them starts, too.
"""
import functools
import os
import pathlib
import shlex
import signal
import subprocess

from bed.daemon import cli_of, die_with_parent
from bed.http import get
from bed.report import until

LIMIT = 60
TOGETHER = 3
ROOT = os.geteuid() == 0

# The line without -n and -F; then texts that the start prints. {f} is a VCL file, {d} the line's own directory, {name} a name of its own, {own} a
# loopback address that nobody else uses.
UNIT = "-a 127.0.0.1:0 -T 127.0.0.1:0 -f {f} -S {secret} -s malloc,64m"
PLAIN = "-a 127.0.0.1:0 -f {f} -s malloc,64m"
RELEASES = {
    "6.0": [
        (UNIT,), ("-j unix,user=vcache " + UNIT,) if ROOT else (UNIT + " -j none",),
        (PLAIN + " -p feature=+http2 -p thread_pool_min=200 -p thread_pool_max=4000",),
        (PLAIN + " -p esi_iovs=10", "esi_iovs is ignored"),
        (PLAIN + " -p vcc_allow_inline_c=off -p vcc_err_unref=off -p vcc_unsafe_path=on",),
        (PLAIN + " -p pcre_match_limit=10000 -p pcre_match_limit_recursion=20", "pcre2_match_limit"),
        (PLAIN + " -p workspace_client=160k -p workspace_backend=256k -p http_resp_hdr_len=65536 -p http_resp_size=98304",),
        (PLAIN + " -p timeout_idle=60 -p idle_send_timeout=120 -p send_timeout=600 -p first_byte_timeout=300",),
        (PLAIN + " -p ban_lurker_sleep=0.1 -p ban_lurker_age=60 -p ban_dups=off -p ban_cutoff=5000",),
        ("-a 127.0.0.1:0 -f {f} -s default,64m -s Transient=malloc,16m -p nuke_limit=1000 -p lru_interval=20", "no effect"),
    ],
    "7.1": [
        (UNIT,), ("-a 127.0.0.1:0 -a {d}/v.sock,PROXY,mode=666 -f {f} -s malloc,64m -p feature=+http2",),
        (PLAIN + " -p pcre2_match_limit=20000 -p pcre2_depth_limit=40 -p pcre2_jit_compilation=on", "no effect"),
        (PLAIN + " -p h2_rx_window_low_water=20M -p h2_rx_window_increment=2M -p h2_initial_window_size=131072",),
        (PLAIN + " -l 16m -p vsl_buffer=32k -p vsl_reclen=4k -p vsl_mask=+Hash,-VCL_trace",),
        (PLAIN + " -p feature=+esi_disable_xml_check,+esi_ignore_https,+http_date_postel",), (PLAIN + " -W epoll -h critbit",),
        ("-a 127.0.0.1:0 -f {f} -s file,{d}/storage,16m -P {d}/pid",), (PLAIN + " -r vcl_path -t 300 -i north-7",),
        (PLAIN + " -p vcl_cooldown=60 -p shortlived=5 -p default_grace=3600 -p default_keep=600 -p uncacheable_ttl=10",),
    ],
    "7.5": [
        (PLAIN + " -p feature=none,+http2",), (PLAIN + " -p vsl_mask=all,-Debug",), (PLAIN + " -p vcc_feature=-err_unref",),
        (PLAIN + " -p pipe_timeout=never -p first_byte_timeout=never -p between_bytes_timeout=never",), (PLAIN + " -p startup_timeout=10",),
        (PLAIN + " -p transit_buffer=1m",), (PLAIN + " -p feature=+trace,-vcl_req_reset",), (PLAIN + " -E h2 -E proxy",),
        (PLAIN + " -p h2_rapid_reset=1 -p h2_rapid_reset_limit=100 -p h2_rapid_reset_period=60",),
        (PLAIN + " -p cli_limit=64k -p debug=none,+vclrel -p default_ttl=1h -p default_grace=10m",),
    ],
    "7.7": [
        (UNIT + " -p feature=+http2",), ("-j linux " + UNIT,) if ROOT else (UNIT,),
        ("-j linux,transparent_hugepage=disable " + PLAIN, "no effect here") if ROOT else (UNIT,),
        (PLAIN + " -p panic_buffer=64k", "panic_buffer is ignored"), (PLAIN + " -p ban_any_variant=100",), (PLAIN + " -p http_req_overflow_status=431",),
        ("-a {own}:{ports} -f {f} -s malloc,64m",), (PLAIN + " -p backend_wait_limit=10 -p backend_wait_timeout=5",),
        (PLAIN + " -p pipe_task_deadline=1h -p vcc_feature=none",), ("-a 127.0.0.1:0 -a @{name} -f {f} -s malloc,64m",),
    ],
    "8.0": [
        (UNIT,), (PLAIN + " -p uncacheable_ttl=60 -p rush_exponent=1",), (PLAIN + " -p h2_window_timeout=never",),
        (PLAIN + " -p feature=+validate_headers,+vcl_req_reset",), (PLAIN + " -p send_timeout=never -p connect_timeout=2s",),
        (PLAIN + " -p vcc_feature=+err_unref,+unsafe_path,-allow_inline_c",), (PLAIN + " -p feature=default -p vsl_mask=default -p debug=default",),
        (PLAIN + " -p vary_notice=20 -p syslog_cli_traffic=off -p cli_timeout=never",), (PLAIN + " -p http_max_hdr=128 -p max_esi_depth=3 -p max_restarts=2",),
        (PLAIN + " -p acceptor_sleep_max=50ms -p tcp_keepalive_time=600s -p listen_depth=4096", "no effect"),
    ],
    "9.0": [
        (UNIT + " -p feature=+http2",), (PLAIN + " -p tls_handshake_timeout=8 -p tls_ja3=off -p tls_err_dup_servername=on",),
        (PLAIN + " -p ssl_buffer=4k -p sslbuf_pool=10,100,10 -p tls_cleanup_batch=100", "ssl_buffer", "sslbuf_pool", "tls_cleanup_batch"),
        (PLAIN + " -p feature=all",), (PLAIN + " -p feature=+https_scheme",), (PLAIN + " -p debug=+cli_show_sensitive", "no CLI command is hidden"),
        (PLAIN + " -p vsl_mask=+ReqTarget",), (PLAIN + " -p h2_max_header_list_size=0 -p h2_max_frame_size=32k",),
        ("-a 127.0.0.1:0 -f {f} -s default,64m -s two=malloc,16m -s Transient=default,16m",), (PLAIN + " -E math -E tls",),
    ],
    # The programs are links to the same one; the lines are those of its package and of its manual.
    "Vinyl 9": [
        (UNIT,), (PLAIN + " -p feature=+http2",), (PLAIN + " -p vsl_mask=all,-Debug -p feature=none,+http2",),
        ("-j linux " + UNIT,) if ROOT else (UNIT,), ("-a 127.0.0.1:0 -a @{name} -f {f} -s malloc,64m",), ("-a {own}:{ports} -f {f} -s malloc,64m",),
        (PLAIN + " -p transit_buffer=1m -p vcc_feature=-err_unref",), (PLAIN + " -t 300 -i north-7 -P {d}/pid",),
        ("-a 127.0.0.1:0 -b none -s malloc,64m",), (PLAIN + " -p startup_timeout=10 -p pipe_timeout=never",),
    ],
    # As the image's entry point makes them of its variables and of the words behind the image's name.
    "docker": [
        ("-f {f} -a http=127.0.0.1:0,HTTP -a proxy=127.0.0.1:0,PROXY -p feature=+http2 -s malloc,100M" + more,) for more in (
            "", " -p default_keep=300", " -p default_grace=1h -p default_ttl=10m", " -p thread_pools=4 -p thread_pool_max=2000",
            " -p vsl_mask=+Hash -p vsl_reclen=1k", " -a @{name},PROXY", " -a {d}/v.sock,mode=660", " -s two=malloc,20M", " -t 60 -r vcl_path", " -i north-7")
    ],
}
# The line and what is said of it.
REFUSED = [
    ("-a 127.0.0.1:0 -f {f} -E nosuch", "nosuch"), ("-a 127.0.0.1:0 -f {f} -p feature=+nosuch", "nosuch"),
    ("-a 127.0.0.1:0 -f {f} -p vcc_feature=+nosuch", "nosuch"), ("-a 127.0.0.1:0 -f {f} -j solaris", "There are unix, linux and none."),
    ("-a 127.0.0.1:0 -f {f} -j linux,transparent_hugepage=maybe", "ignore, enable, disable or try-disable"),
    ("-a 127.0.0.1:0 -f {f} -p http_req_overflow_status=200", "from 400 to 500"), ("-a 127.0.0.1:90-80 -f {f}", "90-80"),
    ("-a 127.0.0.1:0 -f {f} -p startup_timeout=soon", "soon"), ("-a 127.0.0.1:0 -f {f} -p vsl_mask=all,-Nosuch", "Nosuch"),
    ("-a 127.0.0.1:0 -f {f} -s umem,64m", "Solaris"),
]


def ran(report, bed, name, program, line, texts):
    """Starts a line, has a request answered, ends it, and looks at what it printed."""
    with bed.line() as names:
        n = names["d"] / "n"
        words = [word.format(**names) for word in line.split()]
        with open(names["d"] / "out", "w+", encoding="utf-8") as out:
            proc = subprocess.Popen([program, "-F", "-n", str(n), *words], stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                    preexec_fn=die_with_parent, cwd=names["d"])
            said = lambda: pathlib.Path(out.name).read_text(encoding="utf-8")
            cli = None
            try:
                cli = until(LIMIT, lambda: cli_of(n) or (proc.poll() is not None and "ended"))
                if not report.check(cli and cli != "ended", f"{name}: `{line}` doesn't start: {said()[-400:]}"):
                    return
                report.check(until(LIMIT, lambda: "running" in cli.ask("status")), f"{name}: `{line}`: {cli.ask('status')}: {said()[-400:]}")
                host, port = next((host, int(port)) for _, host, port in map(str.split, cli.ask("debug.listen_address").splitlines()) if port.isdigit() and int(port))
                if "-b none" not in line:
                    report.check(get((host, port), "/x", timeout=LIMIT).whole(), f"{name}: `{line}`: no answer")
                proc.send_signal(signal.SIGTERM)
                report.check(proc.wait(LIMIT) == 0, f"{name}: `{line}`: exit status {proc.returncode}")
                for text in texts:
                    report.check(text in said(), f"{name}: `{line}` says nothing of {text!r}: {said()[-400:]}")
            finally:
                if cli and cli != "ended":
                    cli.close()
                if proc.poll() is None:
                    proc.kill()
                    proc.wait()


def migrated(report, bed, name, line):
    """Puts a line into a unit; what comes of it must be whole, and a line that varnishd takes."""
    with bed.line() as names:
        unit = names["d"] / "varnish.service"
        unit.write_text(f"[Service]\nExecStart=/usr/sbin/varnishd -F {line.format(**names)}\n", encoding="utf-8")
        told = subprocess.run([pathlib.Path(bed.program).with_name("lacquer"), "migrate", "varnish", unit], stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=LIMIT, check=False)
        words = shlex.split(told.stdout)
        if report.check(told.returncode == 0 and words[:2] == ["varnishd", "-F"], f"{name}: migrate `{line}`: {told.returncode} {told.stderr[-400:]}"):
            p = subprocess.run([bed.program, "-C", "-n", str(names["d"] / "n"), *words[2:]], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                               timeout=LIMIT, check=False)
            report.check(p.returncode == 0 and "is called" not in p.stderr, f"{name}: `{line}` became `{told.stdout.strip()}`: {p.stderr[-400:]}")


def refused(report, bed, line, text):
    with bed.line() as names:
        words = [word.format(**names) for word in line.split()]
        p = subprocess.run([bed.program, "-F", "-n", str(names["d"] / "n"), *words], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                           timeout=LIMIT, preexec_fn=die_with_parent, check=False)
        report.check(p.returncode == 2 and text in p.stderr, f"`{line}`: status {p.returncode}, or no {text!r} in {p.stderr[-400:]!r}")


def all_releases(report, bed):
    vinyl = bed.dir / "vinyld"
    vinyl.symlink_to(pathlib.Path(bed.program).resolve())
    jobs = [(f"{release} {i + 1}", str(vinyl) if release.startswith("Vinyl") else bed.program, line, texts)
            for release, lines in RELEASES.items() for i, (line, *texts) in enumerate(lines)]
    assert all(len(lines) == 10 for lines in RELEASES.values())
    cases = [functools.partial(ran, report, bed, *job) for job in jobs]
    cases += [functools.partial(migrated, report, bed, name, line) for name, _, line, _ in jobs]
    for case, (name, *_) in zip(cases, [*jobs, *jobs]):
        case.__name__ = name
    report.run(cases, at_once=TOGETHER)
    for line, text in REFUSED:
        refused(report, bed, line, text)
