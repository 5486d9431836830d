# SPDX-License-Identifier: BSD-2-Clause
"""tlsfuzzer's scripts that are run, with their options, what of each is left out, and why."""
SCRIPTS = {}
