#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""An editor, played over stdin and stdout: `lacquer vcl lsp`; `lacquer vcl fmt` on files; `lacquer vcl check` beside varnishd."""
import concurrent.futures
import json
import os
import pathlib
import queue
import re
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from bed.report import ROOT, Report, options

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

    def raw(self, body):
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        self.process.stdin.flush()

    def send(self, message):
        self.raw(json.dumps({"jsonrpc": "2.0", **message}).encode())

    def start(self, capabilities=None, **more):
        told = self.ask("initialize", {"processId": None, "rootUri": None, "capabilities": capabilities or {}, **more})
        self.tell("initialized", {})
        return told

    def next(self):
        return self.inbox.get(timeout=LIMIT)

    def end(self):
        self.ask("shutdown", None)
        self.tell("exit", None)
        return self.process.wait(LIMIT)

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

    def at(self, method, path, text, mark, more=None):
        """Asks about the place just after `mark` in `text`."""
        before = text[:text.index(mark) + len(mark)]
        return self.ask(method, {"textDocument": {"uri": uri(path)}, "position": position(before), **(more or {})})

    def labels(self, path, text, mark):
        return [item["label"] for item in self.at("textDocument/completion", path, text, mark)]


class Checks:
    """What was found wrong is shown with what was got."""

    def __init__(self, report):
        self.report = report

    def check(self, what, ok, got=""):
        self.report.check(ok, f"{what} {got}".rstrip())


def uri(path):
    return path if str(path).startswith("untitled:") else "file://" + str(path)


def position(before):
    """Of the place behind this text."""
    line = before[before.rfind("\n") + 1:]
    return {"line": before.count("\n"), "character": len(line.encode("utf-16-le")) // 2}


def edited(text, edits):
    """The text with the edits of an answer made."""
    lines = text.split("\n")

    def at(place):
        head = lines[place["line"]].encode("utf-16-le")[:2 * place["character"]].decode("utf-16-le")
        return sum(len(line) + 1 for line in lines[:place["line"]]) + len(head)

    for edit in sorted(edits, key=lambda e: at(e["range"]["start"]), reverse=True):
        text = text[:at(edit["range"]["start"])] + edit["newText"] + text[at(edit["range"]["end"]):]
    return text


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
    report.check("what is wrong in an included file goes to that file",
                 unused == [] and [(d["severity"], d["code"]) for d in editor.diagnostics(parts)] == [(1, "unused")])
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
    report.check("an action", "Bypasses the cache" in hover("return (pas"))
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
    report.check("a file that includes itself", "Recursive use" in editor.change(main, circle)[-1]["message"])
    editor.change(main, "sub vcl_recv { " + "if (req.url) { " * 50000)
    report.check("it survives all that", editor.ask("textDocument/hover", {"textDocument": {"uri": uri(main)},
                 "position": {"line": 0, "character": 5}})["contents"]["kind"] == "markdown")
    editor.ask("shutdown", None)
    editor.tell("exit", None)
    report.check("it ends when told to", editor.process.wait(LIMIT) == 0)


def protocol(report, lacquer):
    """What the protocol says of clients that are odd, and of streams that are none."""
    editor = Editor(lacquer)
    editor.tell("textDocument/didOpen", {"textDocument": {"uri": "file:///x", "text": "x"}})
    report.check("a request before initialize", editor.ask("textDocument/hover", {}).get("code") == -32002)
    told = editor.start({"general": {"positionEncodings": ["utf-16", "utf-8"]}})
    report.check("the cheapest encoding that is offered", told["capabilities"]["positionEncoding"] == "utf-8", told)
    report.check("initialize again", editor.ask("initialize", {}).get("code") == -32600)
    for method in ("$/cancelRequest", "$/setTrace", "workspace/didChangeConfiguration", "x/y"):
        editor.tell(method, {"id": 1, "value": "off", "settings": None})
    editor.raw(b"{not json")
    report.check("what is no JSON is said, and it goes on", editor.next()["error"]["code"] == -32700)
    editor.raw(b"[]")
    report.check("what is no request, too", editor.next()["error"]["code"] == -32600)
    editor.raw(b'{"jsonrpc":"2.0","id":"text","method":"$/unknown"}')
    report.check("an id may be a text", (lambda m: (m["id"], m["error"]["code"]))(editor.next()) == ("text", -32601))
    text = "vcl 4.1;\nbackend b none;\nsub vcl_recv {\n    set req.http.a = \"\u00e4\U0001f600\" + nope;\n}\n"
    found = editor.open("untitled:Untitled-1", text)
    report.check("a text that is no file, in bytes", [d["range"]["start"] for d in found] == [{"line": 3, "character": 32}], found)
    huge = "# " + "\u00e4" * 5_000_000 + "\n"
    report.check("a huge text", len(editor.change("untitled:Untitled-1", text + huge)) == 1)
    report.check("shutdown", editor.ask("shutdown", None) is None)
    report.check("a request after shutdown", editor.ask("textDocument/hover", {}).get("code") == -32600)
    editor.tell("textDocument/didOpen", {"textDocument": {"uri": "file:///x", "text": "x"}})
    editor.tell("exit", None)
    report.check("exit after shutdown", editor.process.wait(LIMIT) == 0)

    for what, stream in (
            ("exit without shutdown", b'Content-Length: 17\r\n\r\n{"method":"exit"}'),
            ("a stream that ends", b""),
            ("one that ends in a message", b"Content-Length: 99\r\n\r\n{}"),
            ("a length that is too long", b"Content-Length: 99999999999999\r\n\r\n{}"),
            ("what is no header", b"GET / HTTP/1.1\nx\n\n")):
        done = subprocess.run([lacquer, "vcl", "lsp", "--stdio"], input=stream, capture_output=True, timeout=LIMIT)
        report.check(f"{what} ends it with 1", done.returncode == 1 and b"panicked" not in done.stderr, done)


WIDE = '''vcl 4.1;
import std;

acl office {
    "10.0.0.0"/8;
}

backend web {
    .host = "192.0.2.1";
}

sub helper {
    set req.http.X-Own = std.tolower("\u00e4\U0001f600" + req.http.host);
}

sub vcl_recv {
    /* office */
    if (client.ip ~ office || client.ip !~ office) {
        call helper;
    }
    set req.http.y = regsub(req.url, "office", req.http.X-Own);
    set req.backend_hint = web;
}
'''


def wide(report, lacquer, folder):
    """Names across texts, changes in parts, and mends."""
    main, part = folder / "wide.vcl", folder / "part.vcl"
    main.write_text(WIDE)
    editor = Editor(lacquer)
    editor.start({"textDocument": {"publishDiagnostics": {"relatedInformation": True, "tagSupport": {"valueSet": [1]}}}},
                 workspaceFolders=None)
    report.check("a good text", editor.open(main, WIDE) == [], editor.diagnostics(main))

    # Changes of stretches, with what takes two units and lines of all three kinds.
    text = WIDE.replace("\n", "\r\n", 5)
    editor.change(main, text)

    def stretch(old, new):
        nonlocal text
        at = text.index(old)
        change = {"range": {"start": position(text[:at]), "end": position(text[:at + len(old)])}, "text": new}
        text = text[:at] + new + text[at + len(old):]
        return change

    changes = [stretch("\U0001f600\" + req", "\U0001f600\" + \"\U0001f600\" + req"), stretch("X-Own = std", "X-Own =  std"),
               stretch("call helper;", "call helpr;")]
    editor.tell("textDocument/didChange", {"textDocument": {"uri": uri(main), "version": 7}, "contentChanges": changes})
    found = editor.diagnostics(main)
    report.check("changes of stretches", [d["range"]["start"] for d in found] == [position(text[:text.index("helpr")])], found)
    report.check("with the hint", "Is helper meant?" in found[0]["message"], found)

    def act(text, only=None):
        """The text with all that it offers for its diagnostics done, one by one."""
        for _ in range(9):
            found = editor.change(main, text)
            edits = []
            for one in found:
                context = {"diagnostics": [one], **({"only": only} if only else {})}
                offered = editor.ask("textDocument/codeAction", {"textDocument": {"uri": uri(main)}, "range": one["range"],
                                                                 "context": context})
                edits = edits or [a["edit"]["changes"][uri(main)] for a in offered if a["kind"] == "quickfix"]
            if not edits:
                return text
            text = edited(text, edits[0])
        return text

    report.check("a mend", act(text) == text.replace("helpr", "helper"), act(text))
    report.check("only when mends are asked for", act(text, ["refactor"]) == text)
    for what, wrong in {
            "a bracket": WIDE.replace("!~ office)", "!~ office"),
            "a semicolon": WIDE.replace("call helper;", "call helper"),
            "odd quotes": WIDE.replace('"office"', "\u201eoffice\u201c"),
            "a space": WIDE.replace("call helper", "call\u00a0helper"),
            "nothing to see": WIDE.replace("call helper", "call \u200bhelper"),
            "an import": WIDE.replace("import std;\n", "").replace("vcl 4.1;\n\n", "vcl 4.1;\n"),
            "a name": WIDE.replace("req.backend_hint", "req.backend"),
            "quotes": WIDE.replace('"192.0.2.1"', '"192.0.2.1"; .port = 80'),
            "three things": WIDE.replace("office || ", "office or ").replace("call helper;", "call helper")
                                .replace("req.backend_hint", "req.backend")}.items():
        right = WIDE.replace('.1";', '.1"; .port = "80";') if what == "quotes" else WIDE
        if what == "an import":
            right = right.replace("vcl 4.1;\nimport std;\n\n", "vcl 4.1;\nimport std;\n")
        report.check(f"{what} mended", act(wrong) == right, act(wrong))
    both = WIDE.replace("client.ip !~ office", "clnt.ip !~ office").replace("= web", "= wab").replace("call helper", "call\n hlper")
    found = sorted(editor.change(main, both), key=lambda d: d["range"]["start"]["line"])
    report.check("all errors are found",
                 [d["range"]["start"]["line"] for d in found ] == [17, 19, 22], found)
    late = WIDE.replace("call helper;", "call helper;\n        return (pass);\n        unset req.http.z;")
    report.check("what is never reached is tagged",
                 [(d["code"], d["tags"], d["severity"]) for d in editor.change(main, late)] == [("unreachable", [1], 2)])
    wrong = WIDE.replace("std.tolower", "resp.http.a + std.tolower")
    found = editor.change(main, wrong)
    places = [r["location"]["range"]["start"]["line"] for d in found for r in d.get("relatedInformation", [])]
    report.check("other places belong to it", len(found) == 1 and 18 in places and 11 in places, found)
    editor.change(main, WIDE)

    def lines(method, mark, more=None):
        found = editor.at(method, main, WIDE, mark, more) or []
        return [(r.get("uri", uri(main)) == uri(main), r["range"]["start"]["line"]) for r in found]

    report.check("uses of an acl", lines("textDocument/references", "~ off") == [(True, 3), (True, 17), (True, 17)],
                 lines("textDocument/references", "~ off"))
    report.check("without its declaration",
                 lines("textDocument/references", "~ off", {"context": {"includeDeclaration": False}}) == [(True, 17), (True, 17)])
    report.check("uses of a field", lines("textDocument/references", "set req.http.X-O") == [(True, 12), (True, 20)])
    report.check("uses in this text", lines("textDocument/documentHighlight", "call help") == [(True, 11), (True, 18)])

    def rename(mark, new):
        answer = editor.at("textDocument/rename", main, WIDE, mark, {"newName": new})
        return edited(WIDE, answer["changes"][uri(main)]) if "changes" in answer else answer["message"]

    report.check("an acl is renamed", rename("~ off", "home") == WIDE.replace("acl office", "acl home")
                 .replace("~ office", "~ home"), rename("~ off", "home"))
    report.check("a module is renamed", rename("= st", "s") == WIDE.replace("import std", "import std as s").replace("std.to", "s.to"))
    report.check("what can't be renamed", "server" in rename("sub vcl_re", "x") and "no name" in rename("~ off", "a b")
                 and "declared already" in rename("~ off", "web") and "language's own" in rename("set req.http.X-O", "x"))
    report.check("nor offered", editor.at("textDocument/prepareRename", main, WIDE, "sub vcl_re") is None
                 and editor.at("textDocument/prepareRename", main, WIDE, "call hel")["placeholder"] == "helper")

    def signature(mark, text=WIDE):
        got = editor.at("textDocument/signatureHelp", main, text, mark)
        return got and (got["signatures"][0]["label"], got["activeParameter"])

    report.check("how a function is called", signature("std.tolower(") == ("STRING std.tolower(STRANDS s)", 0), signature("std.tolower("))
    report.check("with its arguments", signature("regsub(req.url, ") == ("regsub(STRING, REGEX, STRING)", 1), signature("regsub(req.url, "))
    report.check("not outside of it", signature("call ") is None)
    folds = editor.ask("textDocument/foldingRange", {"textDocument": {"uri": uri(main)}})
    report.check("folds", (15, 21) in [(f["startLine"], f["endLine"]) for f in folds], folds)
    report.check("attributes are told of", "name or address" in editor.at("textDocument/hover", main, WIDE, ".ho")["contents"]["value"])
    report.check("nothing in comments", editor.at("textDocument/hover", main, WIDE, "/* off") is None
                 and editor.labels(main, WIDE, "/* off") == [] and editor.at("textDocument/references", main, WIDE, "/* off") is None)
    report.check("fields that the text names", "req.http.X-Own" in editor.labels(main, WIDE, "req.url, \"office\", req.http."))
    typed = WIDE.replace('.host = "192.0.2.1";', '.host = "192.0.2.1";\n    .probe = {\n        .u\n    }')
    editor.change(main, typed)
    report.check("attributes of a probe inside", editor.labels(main, typed, "        .u") == [".url"])
    editor.change(main, WIDE)

    # A text that two others include, and what is said of it when they go.
    part.write_text("sub shared { set req.http.z = nope; }\n")
    first, second = folder / "first.vcl", folder / "second.vcl"
    whole = 'vcl 4.1;\nbackend b none;\ninclude "part.vcl";\nsub vcl_recv { call shared; }\n'
    for file in (first, second):
        editor.open(file, whole)
    report.check("said once of what two include", len(editor.diagnostics(part)) == 1, editor.diagnostics(part))
    editor.tell("textDocument/didClose", {"textDocument": {"uri": uri(first)}})
    report.check("still said while one does", len(editor.diagnostics(part)) == 1)
    editor.tell("textDocument/didClose", {"textDocument": {"uri": uri(second)}})
    report.check("and taken back", editor.diagnostics(part) == [])
    first.write_text(whole)
    os.mkfifo(folder / "a.vcl")
    found = editor.open(part, part.read_text())
    report.check("a file on disk that includes it is found", len(found) == 1 and "nope" in found[0]["message"], found)
    report.check("and read for it", editor.change(part, "sub shared { unset req.http.z; }\n") == [])
    names = "vcl 4.1;\nbackend b none;\nsub vcl_recv { return (vcl(shop)); }\nsub vcl_backend_response { set beresp.storage = storage.disk; }\n"
    report.check("a server's labels and stores", editor.open(folder / "names.vcl", names) == [], editor.diagnostics(folder / "names.vcl"))
    strict = Editor(lacquer, "--label", "other", "--store", "ssd")
    strict.start()
    report.check("unless they are named", len(strict.open(folder / "names.vcl", names)) == 2 and strict.end() == 0)
    alone = folder / "alone.vcl"
    text = "sub a {\n    call elsewhere;\n    set req.http.a = other.thing();\n    set req.url == req.http.x;\n}\n"
    found = editor.open(alone, text)
    report.check("of a part alone that it can't be loaded, and what is its own",
                 [(d["code"], d["range"]["start"]["line"]) for d in found] == [("version", 0), ("syntax", 3)], found)
    report.check("it ends when told to", editor.end() == 0)
    parts = Editor(lacquer, "--part")
    parts.start()
    found = parts.open(alone, text)
    report.check("only the latter of what is said to be a part", [d["range"]["start"]["line"] for d in found] == [3] and parts.end() == 0, found)


OLD = '''backend b {
    .host = "192.0.2.1";
}

sub vcl_recv {
    if (req.request == "GET") {
        set req.backend = b;
        return (lookup);
    }
}

sub vcl_fetch {
    set beresp.ttl = 1h;
    set req.http.x = nope;
}
'''


def old(report, lacquer, folder):
    """A VCL of 3.0."""
    file = folder / "old.vcl"
    editor = Editor(lacquer)
    editor.start()
    found = editor.open(file, OLD)
    # The first is of the whole text: what grace means since 4.0.
    report.check("an error in an old text, and what a line of it means now",
                 [(d["range"]["start"], d["severity"]) for d in found] ==
                 [({"line": 0, "character": 0}, 2), ({"line": 13, "character": 4}, 2), ({"line": 13, "character": 21}, 1)], found)

    def hover(mark):
        return (editor.at("textDocument/hover", file, OLD, mark) or {}).get("contents", {}).get("value", "")

    report.check("an old variable", all(w in hover("req.req") for w in ("req.method", "VCL 3.0", "vcl_recv")), hover("req.req"))
    report.check("an old action", "vcl_recv" in hover("return (look"), hover("return (look"))
    report.check("an old subroutine", "hit_for_pass" in hover("sub vcl_fe"), hover("sub vcl_fe"))
    text = OLD.replace("return (lookup)", "return (").replace("    set req.http.x = nope;", "    set b\n    re")
    editor.change(file, text)
    report.check("actions of then", editor.labels(file, text, "return (") == ["error", "lookup", "pass", "pipe"])
    report.check("variables of then", "beresp.ttl" in editor.labels(file, text, "    set b") and
                 "beresp.uncacheable" not in editor.labels(file, text, "    set b"))
    report.check("it ends when told to", editor.end() == 0)
    dialect = Editor(lacquer, "--dialect", "2.1")
    dialect.start()
    plain = OLD.replace("return (lookup)", "set req.http.a = req.url \"x\"").replace("    set req.http.x = nope;\n", "")
    found = dialect.open(file, plain)
    report.check("the dialect that is asked for", [d["message"].split(":")[0] for d in found] == ["VCL 2.1 -> (grace)"], found)
    report.check("is kept", dialect.end() == 0)


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
    file.write_text("sub a{b();}\n# c\n")
    status, shown, why = run("--diff", str(file))
    report.check("--diff shows it and changes nothing",
                 (status, why, shown) == (2, "", f"--- {file}\n+++ {file}\n@@ -1,2 +1,5 @@\n-sub a{{b();}}\n+sub a {{\n+    b();\n+}}\n+\n # c\n")
                 and file.read_text() == "sub a{b();}\n# c\n", shown)
    mine, link, twin = folder / "a.vcl.new", folder / "link.vcl", folder / "twin.vcl"
    mine.write_text("mine")
    link.symlink_to(file)
    os.link(file, twin)
    if os.getuid() == 0:
        os.chown(file, 12, 34)
    report.check("through a link, with a second name", run(str(link)) == (0, "", "") and link.is_symlink()
                 and twin.read_text() == good + "\n# c\n")
    for other in (link, twin):
        other.unlink()
    file.write_text("sub a{b();}")
    report.check("its owner and others' files stay", run(str(file)) == (0, "", "") and mine.read_text() == "mine"
                 and (os.getuid() or (file.stat().st_uid, file.stat().st_gid) == (12, 34)))
    mine.unlink()
    before = file.stat()
    report.check("what is right isn't touched", run(str(file)) == (0, "", "") and file.stat().st_mtime_ns == before.st_mtime_ns
                 and file.stat().st_ino == before.st_ino and run("--diff", str(file)) == (0, "", ""))
    file.write_bytes(b"sub a{\r\nb();}\r\n")
    report.check("CRLF stays", run(str(file))[0] == 0 and file.read_bytes() == good.replace("\n", "\r\n").encode())
    status, _, why = run("--check", "--sub", "x", str(file))
    report.check("an option of another command is refused", status == 1 and "--sub isn't for this command" in why, why)
    status, _, why = run(str(file), str(folder / "none.vcl"))
    report.check("a missing file is named", status == 2 and "none.vcl" in why, why)
    file.write_text('sub a { set req.url = "x;\n}')
    status, _, why = run(str(file))
    report.check("what can't be read stays and is shown", status == 2 and "Line 1 Pos 23" in why
                 and file.read_text() == 'sub a { set req.url = "x;\n}', why)


def programs(report, lacquer, folder):
    """`check`, `explain` and `migrate` where their output goes and their input comes from."""
    good = b"vcl 4.1;\nbackend b none;\n"
    old = 'backend b { .host = "192.0.2.1"; }\nsub vcl_fetch {\n    set beresp.http.x = "\u00e9";\n}\n'.encode("latin-1")

    def run(*args, stdin=good, stdout=subprocess.PIPE):
        done = subprocess.run([lacquer, "vcl", *args], input=stdin, stdout=stdout, stderr=subprocess.PIPE, timeout=LIMIT)
        return done.returncode, done.stdout or b"", done.stderr

    report.check("check reads stdin", run("check", "-") == (0, b"-: good\n", b""))
    report.check("explain too", b"The rest is looked up in the cache." in run("explain", "-")[1])
    told = json.loads(run("explain", "--format", "json", "-")[1])
    report.check("and as JSON", [sub["name"] for sub in told["subs"]][:1] == ["vcl_recv"], told)
    report.check("the bytecode", b"sub vcl_recv" in run("explain", "--code", "--builtin", "-")[1])
    bad = good + b"sub vcl_recv {\n    set req.urll = 1;\n    unset req.url;\n}\n"
    status, text, _ = run("check", "-", stdin=bad)
    report.check("check tells all errors, with marks and without colours",
                 status == 2 and text.startswith(b"-: refused, 2 errors\n") and text.count(b"^") > 1 and b"\x1b" not in text, text)
    part = b"sub helper {\n    set req.backend_hint = elsewhere;\n}\n"
    status, text, _ = run("check", "--part", "--format", "json", "-", stdin=part)
    report.check("a part of a VCL is judged alone", status == 0 and json.loads(text)["notes"], text)
    status, text, _ = run("check", "-", stdin=part)
    report.check("what can't be loaded isn't good", status == 2 and b"By itself it can't be loaded" in text and b"--part" in text, text)
    status, text, _ = run("fmt", "--ascii", "-", stdin="sub\u00a0a {\nset req.http.b = \u201cit\u2019s\u201d; # \u201cc\u201d\n}\n".encode())
    report.check("fmt --ascii replaces what looks like VCL", text.decode() == 'sub a {\n    set req.http.b = "it\u2019s"; # \u201cc\u201d\n}\n', text)
    status, _, why = run("fmt", "-", stdin="sub\u00a0a { }\n".encode())
    report.check("fmt names it", status == 2 and b"1 no-break space: `lacquer vcl fmt --ascii FILE`" in why, why)
    status, text, why = run("explain", "--sub", "nope", "-")
    report.check("a subroutine that isn't there", (status, text) == (2, b"") and b"vcl_recv" in why, why)
    status, text, _ = run("migrate", "-", stdin=old)
    report.check("migrate keeps all bytes", status == 0 and b'"\xe9"' in text, text)
    with open("/dev/full", "wb") as full:
        for args in (["check", "-"], ["explain", "-"], ["migrate", "-"], ["fmt", "-"], ["help"]):
            status, _, why = run(*args, stdin=old if args[0] == "migrate" else good, stdout=full)
            report.check(f"{args[0]} says that it can't write", status in (1, 2) and b"No space left" in why and b"panicked" not in why, why)
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as closed:
        status, _, why = run("check", "-", stdout=closed)
    report.check("nobody reading is no failure", (status, why) == (0, b""), why)
    status, text, _ = run("check", "--format", "json", "-", stdin=good + b"sub vcl_recv { if (req.urll) { } }\n")
    error = json.loads(text)["errors"][0]
    report.check("a hint in JSON", (status, error["hint"], error["line"]) == (2, "Is req.url meant?", 3), error)
    status, text, _ = run("check", "--format", "json", "-", stdin=good + b'acl unused { "192.0.2.1"; }\n')
    error = json.loads(text)["errors"][0]
    report.check("an error in JSON isn't called a warning", (status, error["code"]) == (2, "unused") and error["text"].endswith("\nHint: " + error["hint"]), error)


DAMAGE = (
    lambda text: re.sub(r"(?m)^vcl 4\.\d;", "", text),
    lambda text: re.sub(r"(?m)^backend \w+ (none;|\{[^{}]*(\{[^{}]*\})?[^{}]*\})", "", text),
    lambda text: text.replace("}", "", 1),
    lambda text: text.replace('"', "\u201c", 1),
    lambda text: text.replace("req.", "rec.", 1),
    lambda text: re.sub(r"(?m)^sub vcl_(recv|fetch|hash).*\n", "", text, count=1),
)


def verdicts(report, lacquer, folder):
    """`check`, `explain` and an editor find a file good exactly where `varnishd -C` does: files of all dialects, whole, damaged, and parts."""
    sites = [p for top in ("tests/e2e/vcl", "packaging") for p in (ROOT / top).rglob("*.vcl")]
    texts = [(p.name, p.read_text(encoding="utf-8").replace("@PORT@", "9080")) for p in sorted(sites)]
    texts += [(f"{name}, damaged in way {n % len(DAMAGE)}", DAMAGE[n % len(DAMAGE)](text)) for n, (name, text) in enumerate(texts)]
    texts += [("nothing", ""), ("a comment", "# vcl 4.1;\n"), ("a backend", 'backend a { .host = "127.0.0.1"; }\n'),
              ("new words without a version", 'backend a { .host = "127.0.0.1"; }\nsub vcl_synth { }\n')]
    whole = "vcl 4.1;\nbackend b none;\n"
    texts += [("a subroutine alone", "sub helper {\n    unset req.http.x;\n}\n"), ("a version and no backend", "vcl 4.1;\nsub vcl_recv {\n    return (pass);\n}\n"),
              ("an include that isn't there", whole + 'include "./none.vcl";\n'), ("a file that includes itself", whole + 'include "./a.vcl";\n'),
              ("a path that is no socket", 'vcl 4.1;\nbackend b { .path = "/etc/passwd"; }\n'), ("a path where nothing is", 'vcl 4.1;\nbackend b { .path = "/none"; }\n'),
              ("certificates that aren't there", 'vcl 4.1;\nbackend b { .host = "127.0.0.1"; .ssl = 1; .ssl_ca_file = "/none.pem"; }\n')]
    # A whole file and the part of it that stands beside it.
    part = "sub helper {\n    set req.http.x = %s;\n}\n"
    parts = {"a part that is good": part % "req.url", "a part with an error": part % "req.urll", "a part that nothing is used of": part % "req.url" + "sub other { }\n",
             "a part with a version": "vcl 4.1;\n" + part % "req.url", "a part with a newer version": "vcl 4.1;\n" + part % "local.endpoint"}
    includes = {name: whole + 'include "./part.vcl";\nsub vcl_recv {\n    call helper;\n}\n' for name in parts}
    includes["a part with a newer version"] = includes["a part with a newer version"].replace("4.1", "4.0")
    parts["a part that only the folder tells of"] = part % "req.url"
    includes["a part that only the folder tells of"] = includes["a part that is good"].replace("./part", "part")
    texts += includes.items()
    varnishd = str(pathlib.Path(lacquer).with_name("varnishd"))
    folder.chmod(0o755)  # varnishd reads with the rights of its jail

    def judged(numbered):
        n, (name, text) = numbered
        place = folder / str(n)
        place.mkdir()
        file = place / "a.vcl"
        file.write_text(text, encoding="utf-8")
        if name in parts:
            (place / "part.vcl").write_text(parts[name])
        run = lambda *words: subprocess.run([*words, file], stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT, check=False)
        ends = [run(varnishd, "-n", place / "n", "-C", "-f"), run(lacquer, "vcl", "check", "--resolve"), run(lacquer, "vcl", "check"),
                run(lacquer, "vcl", "explain"), run(lacquer, "vcl", "explain", "--code")]
        editor = Editor(lacquer)
        editor.start()
        editor.open(file, text)
        shown = [one for m in editor.kept if m.get("method") == "textDocument/publishDiagnostics" for one in m["params"]["diagnostics"]]
        editor.end()
        return name, [end.returncode == 0 for end in ends], not any(one["severity"] == 1 for one in shown), ends, shown

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        results = list(pool.map(judged, enumerate(texts)))
    for name, (loads, resolved, good, explained, listed), shown_good, ends, shown in results:
        said = [end.stdout[-600:] + end.stderr[-600:] for end in ends]
        report.check(f"{name}: varnishd -C and check agree", loads == resolved, said[:2])
        # Neither looks host names up.
        report.check(f"{name}: check and explain agree", good == explained == listed, said[2:])
        report.check(f"{name}: check and the editor agree", good == shown_good, [said[2], shown])
    taken = sum(loads for _, (loads, *_), *_ in results)
    report.check("some load and some don't", 10 < taken < len(results) - 10, taken)


def main():
    lacquer = str(pathlib.Path(options(__doc__).varnishd).resolve())
    report = Report("editor")
    checks = Checks(report)
    protocol(checks, lacquer)
    for part in (wide, old, programs, verdicts):
        with tempfile.TemporaryDirectory() as folder:
            part(checks, lacquer, pathlib.Path(folder))
    with tempfile.TemporaryDirectory() as folder:
        session(checks, lacquer, pathlib.Path(folder))
        layout(checks, lacquer, pathlib.Path(folder))
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
