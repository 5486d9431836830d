# SPDX-License-Identifier: BSD-2-Clause
"""What is asked of both tools of a pair: command lines (without -n, -r, -d), by tool."""

QUERIES = [
    "ReqURL ~ '^/a'", "RespStatus >= 400", "RespStatus == 200.0", "not ReqURL", "ReqURL eq /a and RespStatus == 200",
    "(ReqURL eq '/a' or ReqURL eq /esi) and not RespStatus == 500", "ReqHeader:user-agent ~ curl",
    "ReqHeader:x-test[2] eq b", 'ReqHeader:x-test[3] eq "c d"', "ReqHeader:x-test[3] ne x", "Timestamp:Resp[2] >= 0.0",
    "Timestamp:Resp[2] < 100.5", "{1}ReqURL ~ esi", "{2+}BereqURL", "{2-}BereqURL", "{0}ReqURL", "vxid == 2", "vxid > 32768",
    "VCL_call,VCL_return ~ (?i)pass", "*URL ~ inc", "Begin ~ esi", "ReqURL !~ a", "ReqAcct[3] > 0 # comment", "Hit",
    "ReqURL ~ zzz\nReqURL ~ esi\n\n", "ReqURL ~ \\\n'/a'", "VCL_Log:mykey eq 'my value'", "End", "ReqURL != 3", "Link[2] > 3",
    "RespReason eq ''", "ReqURL eq ''", "BackendOpen[3] eq 127.0.0.1", "Length == 10", "Length <= 10.5", "-1 < 2",
]
BAD_QUERIES = [
    "x y", "ReqURL ~ '('", "ReqURL ~ 'x", "(ReqURL", "ReqURL and", "ReqU ~ x", "ReqURL ==", "ReqURL == x", "ReqURL == 1.x",
    "vxid ~ 1", "vxid", "vxid == 1.5", "vxid,ReqURL == 1", "ReqURL[0] eq x", "ReqURL[x] eq x", "{x}ReqURL", "{1-+}ReqURL", "{-1}ReqURL",
    "{}ReqURL", "Req*U* ~ x", "nope", "*nope", "ReqURL eq", "ReqURL eq (", "ReqURL $ x", "ReqURL) ", "ReqURL ~ a)", "ReqURL:[1] eq x",
]

LOG = [
    [], ["-v"], ["-g", "raw"], ["-g", "vxid"], ["-g", "request"], ["-g", "session"], ["-g", "sess", "-v"], ["-c"], ["-b"], ["-c", "-b"],
    ["-c", "-E"], ["-E"], ["-c", "-g", "request"], ["-b", "-g", "request"], ["-c", "-g", "session"], ["-b", "-c", "-g", "session"],
    ["-E", "-g", "request"], ["-c", "-g", "raw"], ["-b", "-g", "raw"],
    ["-i", "ReqURL"], ["-i", "ReqURL,BereqURL", "-g", "request"], ["-i", "*URL"], ["-i", "Req*"], ["-x", "VCL_*"],
    ["-i", "Req*", "-x", "ReqH*"], ["-x", "Req*", "-i", "ReqURL"], ["-I", "ReqHeader:^X-"], ["-I", "a"], ["-X", "a"], ["-I", "ReqURL:a$"],
    ["-X", "ReqHeader,RespHeader:e", "-c"], ["-C", "-I", "REQHEADER:^x-"], ["-I", "^/a", "-C", "-I", "HELLO"], ["-i", "ReqURL", "-I", "VCL_call:RECV"],
    ["-i", "requrl"], ["-i", "Debug,Hash", "-g", "raw"], ["-k", "1"], ["-k", "5", "-g", "request"], ["-L", "1"], ["-L", "3", "-g", "session"],
    ["-i", "ReqMethod", "-k", "3"], ["-T", "0"], ["-T", "5.5", "-k", "2"], ["-x", "Timestamp", "-g", "session", "-v"], ["-A"],
    *[["-q", q] for q in QUERIES], *[["-g", "request", "-q", q] for q in QUERIES], *[["-g", "session", "-q", q] for q in QUERIES],
    *[["-g", "raw", "-q", q] for q in QUERIES[:12]], ["-C", "-q", "ReqURL ~ ESI"], ["-C", "-q", "ReqURL eq /A"],
    ["-q", "ReqURL ~ a", "-q", "RespStatus == 404"], ["-w", "-"], ["-w", "-", "-i", "ReqURL"], ["-w", "-", "-q", "ReqURL ~ a", "-g", "request"],
    ["-w", "-", "-A"], ["-w", "-", "-c", "-X", "Host"], ["-R", "1000000"], ["-R", "5/1h"], ["-u", "-w", "-", "-A"], ["-t", "off", "-c"],
    ["-d", "-k", "2"], ["-i", "VCL_call,VCL_return", "-C"], ["-a", "-w", "-", "-A", "-i", "End"],
]
# Refused by both, with the same words and status.
LOG_ERRORS = [
    ["-g", "x"], ["-g", ""], ["-g", "r"], ["-i", "nope"], ["-i", "Req"], ["-i", "R*q*"], ["-x", ","], ["-I", "nope:x"], ["-I", "a("], ["-X", "ReqURL:[z"],
    ["-I", "ReqURL:a(b", "-C"], ["-k", "0"], ["-k", "x"], ["-k", "-1"], ["-L", "0"], ["-L", "x"], ["-L", "5x"], ["-T", "x"], ["-T", "-1"], ["-R", "0"],
    ["-R", "5/"], ["-R", "5x"], ["-R", "5/0s"], ["-R", "5/x"], ["-D"], ["-D", "-w", "-"], ["-Q", "/nonexistent"], ["-w", "/nonexistent/x"],
    ["-A", "-w", "/nonexistent/x"], ["-P", "/nonexistent/pid"], *[["-q", q] for q in BAD_QUERIES], *[["-C", "-q", q] for q in BAD_QUERIES[:4]],
]

FORMATS = [
    "%h %l %u %t %r %s %b", "%H %I %m %O %q %U %D %T", "%{Referer}i|%{X-Test}i|%{host}i", "%{X-Own}o %{Content-Length}o %{Nope}o",
    "%{%Y-%m-%d}t %{sec}t %{msec}t %{usec}t %{msec_frac}t %{usec_frac}t", "%{s}T %{ms}T %{us}T", "%{Varnish:time_firstbyte}x",
    "%{Varnish:hitmiss}x %{Varnish:handling}x %{Varnish:side}x %{Varnish:vxid}x", "%{VCL_Log:mykey}x|%{VCL_Log:nokey}x",
    "%{VSL:ReqURL}x %{VSL:Timestamp[2]}x %{VSL:Timestamp:Resp[3]}x %{VSL:Begin[3]}x", "%{VSL:VCL_call}x %{VSL:requrl}x", "a\\tb\\nc\\%x %%"[:11],
    "%{VSL:ReqHeader:x-test[1]}x %{VSL:ReqHeader:X-Test}x", '{"url":"%U","q":"%q","s":%s,"h":"%{X-Test}i","b":%b}', "%{User-agent}i %u", "plain", "",
]
BAD_FORMATS = ["%z", "%", "%{x", "%{x}z", "%{x}", "%{d}T", "%{Varnish:nope}x", "%{VSL:}x", "%{VSL:nope}x", "%{VSL:Req}x", "%{VSL:ReqURL[0]}x",
               "%{VSL:ReqURL[256]}x", "%{VSL:ReqURL[x]}x", "%{VSL:ReqURL[]}x", "%{VSL:[1]}x", "%{VSL:Debug}x", "%%"]
NCSA = [
    [], ["-b"], ["-c"], ["-E"], ["-b", "-c"], ["-b", "-E"], ["-g", "request"], ["-g", "request", "-q", "{2}BereqURL"], ["-q", "RespStatus != 200"],
    ["-C", "-q", "ReqURL ~ ESI"], ["-j"], ["-w", "-"], *[["-F", f] for f in FORMATS], *[["-j", "-F", f] for f in FORMATS], *[["-b", "-F", f] for f in FORMATS],
    *[["-b", "-c", "-E", "-F", f] for f in FORMATS[:8]], ["-j", "-F", "%{VSL:Debug}x"], ["-L", "2"], ["-d"], ["-R", "4/1h"], ["-t", "off"], ["-a", "-w", "-"],
]
NCSA_ERRORS = [["-g", "raw"], ["-g", "session"], ["-g", "x"], ["-D"], ["-D", "-w", "-"], ["-F", "a", "-F", "b"], ["-f", "/nonexistent"], ["-w", "/nonexistent/x"],
               *[["-F", f] for f in BAD_FORMATS]]

JSON = [
    [], ["-b"], ["-c"], ["-E"], ["-p"], ["-p", "-b"], ["-g", "vxid"], ["-g", "request"], ["-g", "request", "-p"], ["-g", "request", "-c"], ["-g", "probe"],
    ["-q", "RespStatus >= 400"], ["-g", "request", "-q", "{2}BereqURL"], ["-C", "-q", "ReqURL ~ ESI"], ["-k", "3"], ["-i", "ReqURL,RespStatus,Begin"],
    ["-x", "ReqHeader,RespHeader"], ["-I", "ReqHeader:^X-"], ["-X", "ReqHeader:^Host"], ["-b", "-x", "Timestamp"], ["-L", "2"], ["-E", "-q", "ReqURL ~ inc"],
]

STAT = [["-1"], ["-x"], ["-j"], ["-l"], ["-1", "-I", "MAIN.*"], ["-1", "-X", "MAIN.*"], ["-1", "-f", "MAIN.*"], ["-1", "-f", "^MAIN.*"],
        ["-1", "-I", "MAIN.cache*", "-I", "*.g_*"], ["-1", "-X", "MAIN.c*", "-I", "MAIN.*"], ["-1", "-I", "MAIN.*", "-X", "MAIN.c*"], ["-1", "-r"],
        ["-1", "-I", "[LM]*.?[!a-m]*"], ["-1", "-I", "nope"], ["-j", "-I", "SM?.s0.*"], ["-x", "-I", "VBE.*"], ["-l", "-f", "MGT.*"], ["-1", "-x", "-j"],
        ["-1", "-I", "VBE.*.happy"], ["-t", "off", "-1", "-f", "MGT.child*"], ["-1", "-I", "\\MAIN.uptime"], ["-1", "-I", "[M"]]
# Our varnishadm says more about a directory where nobody runs (e2e/tooling/find).
STAT_ERRORS = [["-t", "x"], ["-t", "-1"]]

TOP = [["-1"], ["-1", "-i", "ReqURL"], ["-1", "-f", "-i", "ReqHeader"], ["-1", "-I", "ReqHeader:^X"], ["-1", "-b"], ["-1", "-c", "-x", "Timestamp"], ["-1", "-f"],
       ["-1", "-q", "RespStatus == 404"], ["-1", "-g", "raw"], ["-1", "-g", "request", "-q", "{2}BereqURL", "-i", "*URL"], ["-1", "-C", "-I", "HOST"], ["-1", "-p", "3"],
       ["-1", "-E", "-i", "ReqURL"]]
TOP_ERRORS = [["-1", "-i", "nope"], ["-1", "-q", "x"], ["-1", "-g", "x"]]
HIST_ERRORS = [["-P", "nope"], ["-P", "Nope::1"], ["-P", "Debug::1"], ["-P", "Timestamp:x"], ["-p", "0"], ["-B", "0"], ["-B", "-1"], ["-g", "raw"], ["-P", "ReqURL:x"]]

# Words with blanks in them that Varnish's tool sends well, and one that no reading saves.
BLANKS = [["ban req.url == /y"], ["ban", "req.url == /x && obj.status == 200"], ["param.set default_ttl 120"], ["param.set", "default_ttl 120"],
          ["param.set", "vmod_path", '"/a b"'], ["vcl.discard nosuch"], ["nope", "a b"]]
# Those that it sends as too many: exit status and what they leave behind, by ours alone.
QUOTED = [(["param.set", "vmod_path", "/c d"], ["param.show", "vmod_path"], b"Value is: /c d"),
          (["ban", "req.url ~ /a b"], ["ban.list"], b"req.url ~ /a b"),
          (["ban", "req.url", "~", "/c d", "&&", "obj.status", "==", "200"], ["ban.list"], b"req.url ~ /c d && obj.status == 200"),
          (["ban req.url ~ /e f"], ["ban.list"], b"req.url ~ /e f")]
ADM = [["ping"], ["status"], ["banner"], ["help"], ["help", "-j"], ["vcl.list"], ["nope"], ["param.show", "default_ttl"], ["-p", "status"], ["-p", "nope"], ["backend.list"],
       ["param.set", "default_ttl"], ["ban", "req.url", "==", "/x"], *BLANKS, ["quit"], ["-p", "quit"], ["-t", "9", "status"], ["--", "status"], ["vcl.show", "boot"]]
# A genuine worker dies of one of these now and then (an assertion in its vcl_cli_discard()): they are compared on ours alone.
DEADLY = [["vcl.discard nosuch"], ["nope", "a b"]]
ADM_ERRORS = [["-T", "localhost:1", "-n", "x"], ["-S", "x", "status"], ["-x"], ["-n", "/nonexistent", "-t", "0", "status"]]
# One command each: of several Varnish's own tool may lose the last replies when its input ends.
ADM_INPUT = [b"", b"status\n", b"nope\n", b"vcl.inline boot << E\nvcl 4.1; backend b none;\nE\n", b"\n\nstatus\n", b"quit\n"]
