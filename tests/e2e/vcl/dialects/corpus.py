# SPDX-License-Identifier: BSD-2-Clause
"""Old VCL files as people publish them, made into programs that can run here: their includes in their places, placeholders of templates
filled in, names that another file of theirs declares declared, and backends at @PORT@."""
import pathlib
import re

import whole

OLD = re.compile(r"\b(vcl_fetch|vcl_error|req\.request|req\.backend\b(?!_)|hit_for_pass|purge_url|ban_url|return\s*\(\s*lookup\s*\)|"
                 r"beresp\.cacheable|obj\.cacheable|beresp\.response|obj\.response|error\s+[0-9]{3}|"
                 r"director\s+\w+\s+(random|round-robin|client|hash|fallback|dns))")
NEW = re.compile(r"(?m)^\s*vcl\s+4|\bvcl_backend_(response|fetch)\b|\breq\.method\b")
TAG = re.compile(r"varnish-(2\.0|2\.1|3\.0)\b")
WORD = r"[A-Za-z_][\w-]*"
BACKEND = ' { .host = "127.0.0.1"; .port = "@PORT@"; }\n'


def bare(text):
    """Without comments and what stands in strings and C."""
    text = re.sub(r"C\{.*?\}C", "", text, flags=re.S)
    text = re.sub(r'\{".*?"\}', '""', text, flags=re.S)
    text = re.sub(r"(?m)(^|\s)(#|//).*$|/\*[\s\S]*?\*/", " ", text)
    return re.sub(r'"[^"\n]*"', '""', text)


def is_old(text):
    """Whether a text is VCL from before 4.0, by its words."""
    plain = bare(text)
    return bool(OLD.search(plain)) and not NEW.search(plain)


def dialect_of(label):
    """The dialect of a file below a directory named as a release's tag (varnish-3.0.7), whatever its words; else None."""
    return next((m[1] for part in pathlib.PurePosixPath(label).parts[:-1] if (m := TAG.match(part))), None)


class Program:
    """One file made whole; `filled` says what was put in."""

    def __init__(self, file, tree):
        self.filled = []
        self.tree = pathlib.Path(tree)
        self.text = self.included(pathlib.Path(file), 0)
        self.template()
        self.hosts()
        self.declare()

    def note(self, text):
        if text not in self.filled:
            self.filled.append(text)

    def included(self, file, depth):
        text = file.read_bytes().decode("latin-1").replace("\r\n", "\n").removeprefix("\xef\xbb\xbf")

        def put(m):
            name = m[2]
            near = [file.parent / name, self.tree / name, self.tree / name.lstrip("/"), file.parent / pathlib.Path(name).name,
                    *sorted(self.tree.rglob(pathlib.Path(name).name))]
            found = next((p for p in near if p.is_file() and p != file), None)
            if found is None or depth > 8:
                self.note("include")
                return f"{m[1]}# include {name}\n"
            return f"{m[1]}{self.included(found, depth + 1)}\n"
        return re.sub(r'(?m)^([ \t]*)include\s+"([^"\n]*)"\s*;', put, text)

    def template(self):
        """Placeholders: of ERB, of Jinja and its like, @NAME@."""
        before = self.text
        t = whole.without_templates(before, "")
        if t != before:
            self.text = t
            self.note("template")

    def hosts(self):
        t = re.sub(r'\.port\s*=\s*"?[^;"]*"?\s*;', "", self.text)
        t = re.sub(r'(?<![\w])\.host\s*=\s*"[^"]*"\s*;', '.host = "127.0.0.1"; .port = "@PORT@";', t)
        t = re.sub(r'(?m)^(\s*!?\s*)"[a-z][\w.-]*\.[a-z]{2,}"\s*;', r'\1"192.0.2.1";', t)
        self.text = t

    def declare(self):
        plain = bare(self.text)
        declared = lambda what: {m[1] for m in re.finditer(rf"\b(?:{what})\s+({WORD})", plain)}
        more = ""
        backends = declared("backend|director")
        wanted = {m[1] for m in re.finditer(rf"(?:set\s+req\.backend\s*=|\.backend\s*=)\s*({WORD})\s*;", plain)} - backends
        if wanted:
            self.note("backend")
            more += "".join(f"backend {n}" + BACKEND for n in sorted(wanted))
        elif not backends:
            self.note("backend")
            more += "backend default" + BACKEND
        acls = {m[1] for m in re.finditer(rf"(?:client|server)\.ip\s*!?~\s*({WORD})", plain)} - declared("acl")
        if acls:
            self.note("acl")
            more += "".join(f'acl {n} {{ "127.0.0.1"; }}\n' for n in sorted(acls))
        if re.search(r"\bstd\.\w", plain) and not re.search(r"\bimport\s+std\b", plain):
            self.note("import")
            self.text = "import std;\n" + self.text
        self.text += "\n" + more
        subs = {m[1] for m in re.finditer(rf"\bcall\s+({WORD})\s*;", plain)} - declared("sub")
        if subs:
            self.note("sub")
            self.text += "".join(f"sub {n} {{ }}\n" for n in sorted(subs))
        if not re.search(rf"\bsub\s+{WORD}\s*\{{", plain) and re.search(r"\b(set|if|unset|remove|return|error)\b", plain):
            # Only statements: what an include in a subroutine would be.
            name = "vcl_fetch" if "beresp." in plain else "vcl_deliver" if "resp." in plain else "vcl_error" if "obj." in plain else "vcl_recv"
            body, self.text = self.text.removesuffix("\n" + more), more
            self.note("sub")
            self.text += f"sub {name} {{\n{body}\n}}\n"


def files(top):
    """(label, file, tree) of each old file below `top`; the tree is the directory of `top` that it is in."""
    top = pathlib.Path(top)
    for f in sorted(p for p in top.rglob("*") if p.is_file() and p.stat().st_size < 1 << 19):
        label = str(f.relative_to(top))
        if dialect_of(label) or is_old(f.read_bytes().decode("latin-1")):
            tree = top / f.relative_to(top).parts[0]
            yield label, f, tree if tree.is_dir() else top
