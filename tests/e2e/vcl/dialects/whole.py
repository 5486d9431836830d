# SPDX-License-Identifier: BSD-2-Clause
"""VCL 4.x files as people publish them, made into programs that can be checked: templates filled in, includes found in the same tree or
left empty, host names and sockets made local, and what only a missing include could declare declared. Nothing else is changed: what is
wrong in a file stays wrong."""
import itertools
import pathlib
import re
import subprocess

NEW = re.compile(r"(?m)^\s*vcl\s+4\.[01]\s*;")
TEMPLATES = (".erb", ".j2", ".tmpl", ".template", ".tpl", ".ejs")
NO_VCL = (".log", ".snap", ".bats", ".yaml", ".yml", ".phtml", ".txt", ".vcc", ".inc", ".conf.in", ".patch", ".diff", ".md")
ROUNDS = 40
LOCAL = '"127.0.0.1"'
DECLARATION = {"sub": "\nsub {} {{ }}", "acl": "\nacl {} {{ " + LOCAL + "; }}", "backend": "\nbackend {} {{ .host = " + LOCAL + "; }}",
               "probe": "\nprobe {} {{ }}"}
USE = {"sub": "\nsub vcl_recv {{ if (false) {{ call {}; }} }}", "acl": "\nsub vcl_recv {{ if (client.ip ~ {}) {{ }} }}",
       "backend": "\nsub vcl_recv {{ if (req.backend_hint == {}) {{ }} }}", "probe": "\nbackend use_{0} {{ .host = " + LOCAL + "; .probe = {0}; }}"}
OPENS = ("if", "unless", "for", "range", "with", "define", "block", "macro", "case", "while", "raw", "filter")
# Conditions that hold from a loop's second turn on, or before its last: not in its only one.
LATER_TURN = re.compile(r"\bnot loop\.(first|last)\b|\bloop\.index0? > [01]\b|\b(gt|ne) \$\w+ 0\b|\bif (i|j|k|n|idx|index) *(>|!=) *0\b"
                        r"|\bunless (i|j|k|n|idx|index) *== *0\b")
CLOSES = ("end", "endif", "endfor", "endblock", "endmacro", "endraw", "endfilter", "endwith", "}")


def read(path):
    return pathlib.Path(path).read_bytes().decode("utf8", "surrogateescape").replace("\r\n", "\n").removeprefix("\ufeff")


def name_of(expression):
    name = re.sub(r"\W+", "_", expression).strip("_")[:30]
    return name if re.match("[a-zA-Z]", name) else "t" + name


def value(before, after, expression):
    """What may stand where a template has an expression."""
    line, rest = before.rsplit("\n", 1)[-1], after.split("\n", 1)[0]
    default = (re.match(r"\$\{\w+:-([^}]+)\}$", expression) or re.match(r'\(?getenv "\w+" "([^"]*)"\)?$', expression)
               or re.search(r"""\|\s*default\(\s*["']([^"']+)["']\s*\)$""", expression))
    if default:
        return default[1]
    quoted = line.count('"') % 2 == 1
    q = (lambda text: text) if quoted else (lambda text: f'"{text}"')
    field = re.search(r'\.(\w+)\s*=\s*"?[^";]*$', line)
    field = field[1] if field else ""
    if field == "probe":
        return "filled_probe"
    if re.search(r"^\s*\.$", line) and rest.lstrip().startswith("="):
        return "url"
    fixed = {"host": "127.0.0.1", "port": "8080", "url": "/", "request": "GET / HTTP/1.1"}.get(field)
    if fixed:
        return q(fixed)
    number = {"window": "8", "threshold": "3", "initial": "5", "max_connections": "5", "expected_response": "200"}.get(field)
    if number:
        return number
    if field in ("timeout", "interval", "connect_timeout", "first_byte_timeout", "between_bytes_timeout"):
        return "5" if re.match(r"\s*(ms|s|m|h)\b", rest) else "5s"
    if quoted:
        return "127.0.0.1" if re.match(r'\s*!?\s*"$', line) else "filled"
    if re.match(r"(ms|s|m|h|d|w|y)\b", rest):
        return "5"
    if re.search(r'"\s*/$', line):
        return "32"
    if re.search(r"\bimport\s+$", line):
        return "std"
    if re.search(r"cache_req_body\(\s*$", line):
        return "1KB"
    if re.search(r"\.http\.$|(sub|call|backend|acl|new|probe)\s+[\w-]*$|[\w-]$", line) or re.match(r"[\w-]|\.backend|[(._]", rest):
        return name_of(expression)
    if re.search(r"\bacl\s+[\w-]+\s*\{[^}]*$", before):
        return LOCAL + ";" if not rest.strip().startswith(";") else LOCAL
    if re.search(r"backend_hint\s*=\s*$|add_backend\(\s*$|backend\s*==?\s*$|backend\($", line):
        return "filled_backend"
    if re.search(r"(ttl|grace|keep|timeout)\s*[=+-]*\s*$", line):
        return "5s"
    if re.search(r"(status|retries|restarts|hits)\s*[=<>!]+\s*$|synth\($", line):
        return "500"
    return '"filled"' if re.search(r"=\s*$|[(,~+]\s*$", line) else ""


def is_statement(tag, body, kind, ejs):
    if kind == "erb":
        return not (body.startswith("=") or ejs and body.startswith("-"))
    if tag.startswith("{%"):
        return True
    word = body.strip().strip("-").strip()
    return not re.match(r"include\s+\"", word) and bool(
        re.match(r"(if|else|end|range|with|define|block|template|include)\b|/\*|\$\w+\s*:?=|#|/|\^", word))


def filled(text, kind, ejs=False):
    """Of each condition the first branch that may hold, of each loop one turn; expressions as values that fit."""
    tags = re.compile(r"<%(.*?)%>" if kind == "erb" else r"\{%(.*?)%\}|\{\{(.*?)\}\}|\{#(.*?)#\}", re.S)
    out, at, stack, taken = [], 0, [], []
    for m in tags.finditer(text):
        if all(stack):
            out.append(text[at:m.start()])
        at = m.end()
        body = next(g for g in m.groups() if g is not None)
        if m[0].startswith("{#") or kind == "erb" and body.startswith("#"):
            continue
        word = body.strip().strip("-").strip()
        if not is_statement(m[0], body, kind, ejs):
            if all(stack):
                out.append(value("".join(out)[-400:], text[at:at + 60], word.lstrip("=")))
            continue
        first = word.split()[0].rstrip("()") if word.split() else ""
        # `next unless ...` and its like stand on one line and end nothing.
        if first in OPENS or word.startswith(("#", "^")) or re.search(r"(\bdo|\{)\s*(\|[^|]*\|)?$", word):
            stack.append(first != "define" and not LATER_TURN.search(word))
            taken.append(stack[-1])
        elif first in ("else", "elsif", "elif", "when") and stack:
            stack[-1] = not taken[-1]
            taken[-1] = True
        elif (first in CLOSES or word.startswith("/")) and stack:
            stack.pop()
            taken.pop()
    if all(stack):
        out.append(text[at:])
    return "".join(out)


def without_templates(text, path):
    if "<%" in text:
        text = filled(text, "erb", path.endswith(".ejs"))
    # Some hide their tags in comments.
    text = re.sub(r"/\*\s*(\{\{.*?\}\})\s*\*/", r"\1", text)
    if re.search(r"\{%|\{\{", text):
        text = filled(text, "go")
    hole = r"\$\{?[A-Z][A-Z0-9_]+(?::[^}\"]*)?\}?|@[A-Z_]{3,}@|__+[A-Z_]{3,}__+|%[A-Z_]{3,}%|<[A-Z_]{3,}>|(?<=\.host = )[A-Z_]+(?=;)|(?<=\.port = )[A-Z_]+(?=;)"
    return re.sub(hole, lambda m: value(text[:m.start()][-400:], text[m.end():m.end() + 60], m[0]), text)


def local(text):
    """Hosts, ports, sockets and names in ACLs as ones that are here."""
    text = re.sub(r'(\.host\s*=\s*)"([^"]*)"', lambda m: m[0] if re.match(r"[0-9.:\[\]]+$", m[2]) else m[1] + LOCAL, text)
    text = re.sub(r'(\.port\s*=\s*)"([^"]*)"', lambda m: m[0] if re.match(r"[0-9]+$", m[2]) else m[1] + '"8080"', text)
    text = re.sub(r'\.path\s*=\s*"[^"]*"', ".host = " + LOCAL, text)

    def acl(m):
        address = r"[0-9.]+(/\d+)?$|[0-9a-fA-F:.]*:[0-9a-fA-F:.]*(/\d+)?$"
        return m[1] + re.sub(r'(!?\s*\(?\s*)"([^"]*)"', lambda n: n[0] if re.match(address, n[2]) else n[1] + LOCAL, m[2]) + "}"
    return re.sub(r"(\bacl\s+[\w-]+[^{]*\{)([^}]*)\}", acl, text)


def bare_name(path):
    name = pathlib.PurePosixPath(path).name
    for end in TEMPLATES:
        name = name.removesuffix(end)
    return name


class Tree:
    """The files of one project, by name."""

    def __init__(self, top):
        self.top = pathlib.Path(top)
        self.by_name, self.imports_of = {}, {}
        for f in sorted(p for p in self.top.rglob("*") if p.is_file()):
            self.by_name.setdefault(bare_name(f), []).append(f)
        # What a file is included by may import for it.
        for f in (f for all_of in self.by_name.values() for f in all_of if f.stat().st_size < 1 << 19):
            text = read(f)
            imports = re.findall(r"(?m)^\s*import\s+(\w+)", text)
            for name in re.findall(r'\binclude\s+"([^"]+)"', text):
                self.imports_of.setdefault(bare_name(name), set()).update(imports)

    def find(self, name, source):
        """The file that an include most likely means: by what its path ends in, then beside the one that includes it."""
        parts = pathlib.PurePosixPath(bare_name(name)).parts if "/" not in name else (*pathlib.PurePosixPath(name).parent.parts, bare_name(name))

        def rank(p):
            same = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(reversed((*p.parent.parts, bare_name(p))), reversed(parts)))
            return p.parent.resolve() == (source.parent / name).parent.resolve(), len(list(same)), p.parent == source.parent
        found = [p for p in self.by_name.get(bare_name(name), []) if p != source]
        return max(found, key=rank, default=None)


class Whole:
    """One file made whole in a directory of its own: `main`, and what was filled in."""

    def __init__(self, file, tree, directory):
        self.tree, self.dir, self.missing, self.extra, self.notes = tree, pathlib.Path(directory), [], [], []
        self.is_template = False
        self.text = self.prepared(file)
        self.imports = tree.imports_of.get(bare_name(file), set())
        whole = self.text + "".join(read(f) for f in self.dir.iterdir())
        # Without any of the machine's subroutines it is for another file to include, which uses what it declares.
        self.is_part = not re.search(r"(?m)^\s*sub\s+vcl_", whole)
        self.labels = sorted(set(re.findall(r"return\s*\(\s*vcl\s*\(\s*([\w-]+)\s*\)", whole)))
        self.stores = sorted(set(re.findall(r"\bstorage\.(\w+)", whole)))
        self.main = self.dir / "main.vcl"

    def prepared(self, file):
        raw = read(file)
        self.is_template |= bool(re.search(r"<%|\{%|\{\{|\$\{?[A-Z_]{3,}|__[A-Z]", raw))
        return self.included(local(without_templates(raw, str(file))), file)

    def included(self, text, source):
        def put(m):
            name = "inc_" + re.sub(r"[^\w.-]", "_", m[2])
            path = self.dir / name
            if not path.exists():
                path.write_text("")
                found = self.tree.find(m[2], source)
                if found is None:
                    self.missing.append(m[2])
                else:
                    path.write_bytes(self.prepared(found).encode("utf8", "surrogateescape"))
            return f'{m[1]}include "{path}";'
        return re.sub(r'(?m)^(?!\s*(?:#|//|\*))([^#\n"]*?)\binclude\s+(?:[+-]\w+\s*)*"([^"]+)"\s*;', put, text)

    def write(self):
        self.main.write_bytes((self.text + "".join(self.extra)).encode("utf8", "surrogateescape"))

    def at_top(self, what):
        self.text = NEW.sub(lambda m: m[0] + "\n" + what, self.text, count=1)
        self.notes.append(what)

    def check(self, lacquer):
        """'' or why our compiler refuses it, after all that could be missing was put in."""
        options = [o for kind, names in (("--label", self.labels), ("--store", self.stores)) for n in names for o in (kind, n)]
        for _ in range(ROUNDS):
            self.write()
            done = subprocess.run([lacquer, "vcl", "check", *options, str(self.main)], capture_output=True, timeout=60)
            why = (done.stdout + done.stderr).decode("utf8", "replace") if done.returncode else ""
            if not why or not self.mend(why):
                return why
        return why

    def mend(self, why):
        """Puts in what an error says is missing, if only an include or a template could have had it; false: nothing."""
        open_ended = bool(self.missing) or self.is_template or self.is_part
        m = re.search(r"Undefined (sub|acl|backend|probe) ([\w-]+)|Subroutine ([\w-]+) does not exist", why)
        if m and open_ended:
            return self.append(DECLARATION[m[1] or "sub"].format(m[2] or m[3]))
        if "No backends or directors" in why:
            return self.append(DECLARATION["backend"].format("filled_default"))
        m = re.search(r"Symbol not found: '([\w-]+)\.(?:backend|add_backend)'", why)
        if m and open_ended:
            name = m[1]
            if f"new {name} =" in self.text:
                return False
            imports = "" if re.search(r"\bimport\s+directors\b", self.text) else "import directors;\n"
            self.text = re.sub(r"\bimport\s+directors\s*;", "", self.text)
            self.at_top(f"import directors;\nbackend b_{name} {{ .host = {LOCAL}; }}\n"
                        f"sub vcl_init {{ new {name} = directors.round_robin(); {name}.add_backend(b_{name}); }}\n")
            return True
        m = re.search(r"Symbol not found: '([\w-]+)\.[\w.]+'", why)
        if m and (self.missing or m[1] in self.imports) and f"`import {m[1]};` is missing" in why and f"import {m[1]};" not in self.notes:
            self.at_top(f"import {m[1]};")
            return True
        m = re.search(r"Symbol not found: '([\w-]+)'", why)
        if m and open_ended and ".probe" in why and f"probe {m[1]} {{ }}" not in self.notes:
            self.at_top(f"probe {m[1]} {{ }}")
            return True
        m = re.search(r"Unused (sub|acl|backend|probe) ([\w-]+)", why)
        return bool(m and open_ended) and self.append(USE[m[1]].format(m[2]))

    def append(self, what):
        if what in self.extra:
            return False
        self.extra.append(what)
        return True


def files(top):
    """(label, file, tree) of each whole 4.x file below `top`, each text once."""
    top, seen, trees = pathlib.Path(top), set(), {}
    for f in sorted(p for p in top.rglob("*") if p.is_file() and p.stat().st_size < 1 << 19):
        label = str(f.relative_to(top))
        if label.endswith(NO_VCL) or label.endswith(".tpl"):
            continue
        text = read(f)
        plain = re.sub(r"\s+", " ", text)
        if not NEW.search(text) or plain in seen:
            continue
        seen.add(plain)
        tree = top / f.relative_to(top).parts[0]
        yield label, f, trees.setdefault(tree, Tree(tree if tree.is_dir() else top))
