# SPDX-License-Identifier: BSD-2-Clause
"""What a program writes when somebody looks on."""
import os
import pty
import sys


def on_terminal(argv, env=None):
    """All that a program writes to a terminal, until it ends."""
    argv = [str(word) for word in argv]
    pid, fd = pty.fork()
    if pid == 0:
        try:
            os.execve(argv[0], argv, os.environ if env is None else env)
        except OSError:
            sys.stderr.write(f"{argv[0]} can't be run\n")
        finally:
            os._exit(127)
    out = b""
    try:
        while chunk := os.read(fd, 65536):
            out += chunk
    except OSError:
        pass
    os.close(fd)
    os.waitpid(pid, 0)
    return out.decode(errors="replace")
