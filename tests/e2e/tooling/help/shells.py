# SPDX-License-Identifier: BSD-2-Clause
"""Completion in zsh and fish, by the shells themselves, as far as they are here."""
import os
import pty
import re
import select
import shutil
import subprocess
import time

from bed.report import ROOT

FILES = ROOT / "packaging/files/usr/share"
FISH = FILES / "fish/vendor_completions.d/lacquer.fish"
ZSH = FILES / "zsh/vendor-completions"
LIMIT = 30  # seconds; only ends a hang
QUIET = 1.0  # seconds without output, after which Tab is typed again
# What is typed, what must be offered, what mustn't.
OFFERED = [
    ("lacquer talk", {"talkers"}, {"demo"}), ("lacquer help talk", {"talkers"}, {"demo"}), ("lacquer asn --gr", {"--group"}, {"--live"}),
    ("lacquer replay --order ", {"log", "shuffle"}, {"Cargo.toml"}), ("lacquer vcl mig", {"migrate"}, {"check"}),
    ("lacquer vcl fmt --ch", {"--check"}, {"--diff"}), ("lacquer talkers --sort b", {"bytes", "backend"}, {"requests"}),
    ("lacquer migrate --for", {"--format"}, {"--out"}), ("varnishlog -", {"-g", "-q"}, {"--by"}),
]


def fish(bin_dir, typed):
    p = subprocess.run(["fish", "--no-config", "-c", f"source {FISH}; complete -C '{typed}'"], capture_output=True, text=True, timeout=LIMIT,
                       env=dict(os.environ, PATH=f"{bin_dir}:{os.environ['PATH']}"), cwd=ROOT, stdin=subprocess.DEVNULL)
    return {line.split("\t")[0] for line in p.stdout.splitlines()} | set(p.stderr.splitlines())


class Zsh:
    """A zsh at a terminal, as somebody types into it."""

    def __init__(self, bin_dir):
        self.turn = 0
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(ROOT)
            os.execvpe("zsh", ["zsh", "-f", "-i"], dict(os.environ, PATH=f"{bin_dir}:{os.environ['PATH']}", TERM="dumb", COLUMNS="200", LINES="200"))
        self.read(lambda text: "%" in text or "#" in text)
        self.say(f"PS1='READY> '; unsetopt zle_bracketed_paste; LISTMAX=1000; setopt auto_list list_rows_first no_list_beep; fpath=({ZSH} $fpath); "
                 "autoload -Uz compinit; compinit -u -D; zstyle ':completion:*' verbose no; echo LOA''DED")
        self.read(lambda text: "LOADED" in text)

    def read(self, is_enough, quiet=LIMIT):
        """The text that it writes, until that is enough, or it has been quiet for so long."""
        text, end = "", time.monotonic() + LIMIT
        while time.monotonic() < end and not is_enough(text):
            if not select.select([self.fd], [], [], quiet)[0]:
                break
            try:
                text += os.read(self.fd, 65536).decode(errors="replace")
            except OSError:
                break
        return text

    def say(self, line):
        os.write(self.fd, (line + "\n").encode())

    def completed(self, typed, wanted):
        """The words that it shows once `wanted` are among them: of one, the line is completed by it; of several, they are listed below."""
        text, end = "", time.monotonic() + LIMIT
        os.write(self.fd, typed.encode() + b"\t")
        while True:
            text += self.read(lambda more: wanted <= words(text + more), QUIET)
            if wanted <= words(text) or time.monotonic() > end:
                break
            # What all have in common was completed: the next Tab lists them.
            os.write(self.fd, b"\t")
        os.write(self.fd, b"\x15")  # not Ctrl-C: the terminal would forget what is typed behind it
        self.turn += 1
        self.say(f"echo O''VER{self.turn}.")
        return words(text + self.read(lambda more: f"OVER{self.turn}." in more))

    def close(self):
        os.write(self.fd, b"\x15exit\n")
        self.read(lambda _: False)  # to its end
        os.close(self.fd)
        os.waitpid(self.pid, 0)


def words(text):
    """The words of a text without escapes."""
    return set(re.split(r"[\s\x07\x08]+", re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", " ", text)))


def run(report, lacquer):
    for shell in ("fish", "zsh"):
        if not shutil.which(shell):
            report.note(f"{shell} isn't here: its completion isn't tried")
            continue
        zsh = Zsh(lacquer.parent) if shell == "zsh" else None
        for typed, wanted, unwanted in OFFERED:
            got = zsh.completed(typed, wanted) if zsh else fish(lacquer.parent, typed)
            report.check(wanted <= got and not unwanted & got, f"{shell}: {typed}<Tab> offers {wanted}, not {unwanted}: {sorted(got)[:30]}")
        if zsh:
            zsh.close()
