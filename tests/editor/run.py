#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""An editor, played over stdin and stdout: `lacquer vcl lsp`; and `lacquer vcl fmt` on files."""
import json
import os
import pathlib
import queue
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from bed.report import Report, options

LIMIT = 30


class Editor:
    """A language client: `ask` waits for the answer, `tell` doesn't, `diagnostics` gives the last about a file."""

    def __init__(self, lacquer, *args):
        self.process = subprocess.Popen([lacquer, "vcl", "lsp", *args], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.inbox, self.number, self.kept = queue.Queue(), 0, []
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        out = self.process.stdout
        while True:
            length = 0
            while (line := out.readline().strip()):
                if line.lower().startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
            if not length:
                return
            self.inbox.put(json.loads(out.read(length)))

    def send(self, message):
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        self.process.stdin.flush()

    def tell(self, method, params):
        self.send({"method": method, "params": params})

    def ask(self, method, params):
        self.number += 1
        self.send({"id": self.number, "method": method, "params": params})
        while True:
            message = self.inbox.get(timeout=LIMIT)
            if message.get("id") == self.number:
                return message.get("result", message.get("error"))
            self.kept.append(message)

    def diagnostics(self, path):
        """What it last said of the file; a request that it answers comes after all that it had to say."""
        self.ask("textDocument/documentSymbol", {"textDocument": {"uri": uri(path)}})
        told = [m["params"]["diagnostics"] for m in self.kept
                if m.get("method") == "textDocument/publishDiagnostics" and m["params"]["uri"] == uri(path)]
        return told[-1]

    def open(self, path, text):
        self.tell("textDocument/didOpen",
                  {"textDocument": {"uri": uri(path), "languageId": "vcl", "version": 1, "text": text}})
        return self.diagnostics(path)

    def change(self, path, text):
        self.tell("textDocument/didChange",
                  {"textDocument": {"uri": uri(path), "version": 2}, "contentChanges": [{"text": text}]})
        return self.diagnostics(path)

    def at(self, method, path, text, mark):
        """Asks about the place just after `mark` in `text`."""
        before = text[:text.index(mark) + len(mark)]
        line = before.count("\n")
        character = len(before[before.rfind("\n") + 1:].encode("utf-16-le")) // 2
        return self.ask(method, {"textDocument": {"uri": uri(path)}, "position": {"line": line, "character": character}})

    def labels(self, path, text, mark):
        return [item["label"] for item in self.at("textDocument/completion", path, text, mark)]


class Checks:
    """What was found wrong is shown with what was got."""

    def __init__(self, report):
        self.report = report

    def check(self, what, ok, got=""):
        self.report.check(ok, f"{what} {got}".rstrip())


def uri(path):
    return "file://" + str(path)


MAIN = '''vcl 4.1;
import std;
import directors as d;
include "./parts.vcl";

backend b {
    .host = "origin.example.com";
    .probe = {
        .url = "/";
    }
}

sub vcl_init {
    new rr = d.round_robin();
    rr.add_backend(b);
}

sub vcl_recv {
    # äöü 😀
    set req.http.x-device = std.tolower(req.http.User-Agent);
    if (client.ip ~ office) {
        call helper;
        return (pass);
    }
    set req.backend_hint = rr.backend();
}
'''
PARTS = '''acl office {
    "10.0.0.0"/8;
}

sub helper {
    unset req.http.Cookie;
}
'''


def session(report, lacquer, folder):
    main, parts = folder / "main.vcl", folder / "parts.vcl"
    main.write_text(MAIN)
    parts.write_text(PARTS)
    editor = Editor(lacquer)
    told = editor.ask("initialize", {"processId": None, "rootUri": None, "capabilities": {}})
    editor.tell("initialized", {})
    report.check("it says what it can do", told["capabilities"]["hoverProvider"] is True, told)

    report.check("a good file has nothing", editor.open(main, MAIN) == [])
    broken = MAIN.replace("req.backend_hint = rr", "req.backend_hint = xx")
    found = editor.change(main, broken)
    line = broken[:broken.index("xx.backend")].count("\n")
    report.check("an error has its place and words",
                 [(d["range"]["start"], d["severity"]) for d in found] == [({"line": line, "character": 27}, 1)]
                 and "xx.backend" in found[0]["message"], found)
    unused = editor.change(main, MAIN.replace("call helper;", ""))
    report.check("a warning in an included file goes to that file",
                 unused == [] and [d["severity"] for d in editor.diagnostics(parts)] == [2])
    report.check("mended, it is gone", editor.change(main, MAIN) == [] and editor.diagnostics(parts) == [])
    report.check("an included file is judged with the file that includes it", editor.open(parts, PARTS) == [])
    editor.tell("textDocument/didChange", {"textDocument": {"uri": uri(parts), "version": 3},
                                           "contentChanges": [{"text": PARTS.replace("office", "home")}]})
    report.check("unsaved text counts", any("office" in d["message"] for d in editor.diagnostics(main)))
    report.check("saved text comes back", editor.change(parts, PARTS) == [])

    def hover(mark):
        return (editor.at("textDocument/hover", main, MAIN, mark) or {}).get("contents", {}).get("value", "")

    report.check("a variable's type, text and places", all(w in hover("set req.http.x-dev") for w in ("HEADER", "Set in vcl_recv")))
    report.check("a function's arguments", "STRING std.tolower(STRANDS s)" in hover("= std.tol").replace("STRINGS", "STRING"), hover("= std.tol"))
    report.check("a method of an object", "rr.backend(" in hover("= rr.back"))
    report.check("a type of objects", "d.round_robin".split(".")[1] in hover("new rr = d.rou"))
    report.check("an action", "past the cache" in hover("return (pas"))
    report.check("a declaration elsewhere", "10.0.0.0" in hover("client.ip ~ off"))
    report.check("a subroutine of the language", "Returns" in hover("sub vcl_in"))
    report.check("nothing in a string", hover('"origin.ex') == "")

    def goes(mark):
        place = editor.at("textDocument/definition", main, MAIN, mark)
        place = place[0] if isinstance(place, list) else place
        return place and (place["uri"], place["range"]["start"]["line"])

    report.check("to an acl in an included file", goes("client.ip ~ off") == (uri(parts), 0))
    report.check("to a subroutine", goes("call hel") == (uri(parts), 4))
    report.check("to a backend", goes("add_backend(b") == (uri(main), 5))
    report.check("to an object from its method", goes("= rr.back") == (uri(main), 13))
    report.check("to an included file", goes('include "./par') == (uri(parts), 0))

    def offered(piece, mark, instead="    call helper;\n"):
        text = MAIN.replace(instead, piece, 1)
        editor.change(main, text)
        return editor.labels(main, text, mark)

    report.check("actions of this subroutine",
                 (lambda got: "pass" in got and "deliver" not in got)(offered("return (", "return (")))
    report.check("actions of another",
                 offered("sub vcl_deliver { return (", "return (", "sub vcl_recv {") == ["deliver", "fail", "restart", "synth"])
    report.check("functions of a module",
                 (lambda got: "std.log" in got and all(g.startswith("std.") for g in got))(offered("std.", "\n    std.")))
    report.check("what can be set here", (lambda got: "req.url" in got and "beresp.ttl" not in got and "client.ip" not in got)
                 (offered("set ", "{\n    set ")))
    report.check("subroutines to call", offered("call ", "{\n    call ") == ["helper", "vcl_init", "vcl_recv"])
    report.check("attributes of a backend", ".first_byte_timeout" in offered('    .fi\n', "    .fi", '    .host = "origin.example.com";\n'))
    report.check("modules", "cookie" in offered("import ", "import ", "import std;"))
    report.check("statements", (lambda got: "set" in got and "backend" not in got)(offered("s\n", "{\n    s")))

    symbols = editor.ask("textDocument/documentSymbol", {"textDocument": {"uri": uri(parts)}})
    report.check("symbols", [(s["name"], s["detail"]) for s in symbols] == [("office", "acl"), ("helper", "sub")])
    editor.change(main, MAIN.replace("    ", "  ") + "sub  x{}")
    edits = editor.ask("textDocument/formatting",
                       {"textDocument": {"uri": uri(main)}, "options": {"tabSize": 4, "insertSpaces": True}})
    report.check("layout", edits and edits[0]["newText"] == MAIN + "\nsub x {\n}\n", edits)

    # What no editor should send.
    answer = editor.ask("textDocument/frobnicate", {})
    report.check("an unknown request is refused by name", "frobnicate" in answer.get("message", ""), answer)
    editor.tell("textDocument/didChange", {"textDocument": {"uri": "untitled:1"}, "contentChanges": []})
    editor.tell("textDocument/didOpen", {"no": "document"})
    for position in ({"line": 2**63, "character": 2**63}, {"line": -1}, None):
        editor.ask("textDocument/hover", {"textDocument": {"uri": uri(main)}, "position": position})
    circle = 'vcl 4.1;\ninclude "./main.vcl";\n'
    report.check("a file that includes itself", len(editor.change(main, circle)) == 1)
    editor.change(main, "sub vcl_recv { " + "if (req.url) { " * 50000)
    report.check("it survives all that", editor.ask("textDocument/hover", {"textDocument": {"uri": uri(main)},
                 "position": {"line": 0, "character": 5}})["contents"]["kind"] == "markdown")
    editor.ask("shutdown", None)
    editor.tell("exit", None)
    report.check("it ends when told to", editor.process.wait(LIMIT) == 0)


def layout(report, lacquer, folder):
    file, good = folder / "a.vcl", "sub a {\n    b();\n}\n"

    def run(*args, stdin=""):
        done = subprocess.run([lacquer, "vcl", "fmt", *args], input=stdin, capture_output=True, text=True, timeout=LIMIT)
        return done.returncode, done.stdout, done.stderr

    file.write_text("sub a{b();}")
    os.chmod(file, 0o640)
    report.check("--check names what would change", run("--check", str(file)) == (2, f"{file}\n", ""))
    report.check("and changes nothing", file.read_text() == "sub a{b();}")
    report.check("a file is laid out in place", run(str(file)) == (0, "", "") and file.read_text() == good)
    report.check("with its mode", file.stat().st_mode & 0o777 == 0o640)
    report.check("and no other file beside it", sorted(os.listdir(folder)) == ["a.vcl", "main.vcl", "parts.vcl"])
    report.check("then --check is silent", run("--check", str(file)) == (0, "", ""))
    report.check("stdin to stdout", run("-", "--indent", "tab", stdin="sub a{b();}") == (0, "sub a {\n\tb();\n}\n", ""))
    status, _, why = run(str(file), str(folder / "none.vcl"))
    report.check("a missing file is named", status == 2 and "none.vcl" in why, why)
    file.write_text('sub a { set req.url = "x;\n}')
    status, _, why = run(str(file))
    report.check("what can't be read stays and is shown", status == 2 and "Line 1 Pos 23" in why
                 and file.read_text() == 'sub a { set req.url = "x;\n}', why)


def main():
    lacquer = str(pathlib.Path(options(__doc__).varnishd).resolve())
    report = Report("editor")
    checks = Checks(report)
    with tempfile.TemporaryDirectory() as folder:
        session(checks, lacquer, pathlib.Path(folder))
        layout(checks, lacquer, pathlib.Path(folder))
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
