# SPDX-License-Identifier: BSD-2-Clause
"""What every black-box harness needs: a varnishd to start, origins, a strict HTTP/1 client, memory figures, a report.

Python's standard library only. No fixed ports, no sleeps: things are waited for, with a limit.
"""
