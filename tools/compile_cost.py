#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""What the CUDA kernels cost to compile: time and memory of every file of kernels/cuda.

  compile_cost.py BUILD [--seconds 10] [--gigabytes 1] [--total 600]

BUILD is a configured build with -DDPA4_ENABLE_CUDA=ON; its compile_commands.json is replayed, one file
after another, into a temporary folder. Prints a Markdown table and fails if a file or the sum of
processor seconds is beyond the limits, which are meant for one architecture.
"""

import argparse
import json
import os
import pathlib
import shlex
import sys
import tempfile


def compile_file(command, directory, output):
    """Processor seconds and peak bytes of one process of a compilation."""
    words = shlex.split(command)
    if words and os.path.basename(words[0]) == "ccache":
        words = words[1:]
    words[words.index("-o") + 1] = output
    process = os.posix_spawnp("env", ["env", "-C", directory, *words], os.environ)
    _, status, usage = os.wait4(process, 0)
    if status != 0:
        sys.exit("does not compile: " + " ".join(words))
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, default=10, help="limit of a file")
    parser.add_argument("--gigabytes", type=float, default=1, help="limit of a file")
    parser.add_argument("--total", type=float, default=600, help="limit of all files [s]")
    options = parser.parse_args()
    database = options.build / "compile_commands.json"
    if not database.exists():
        sys.exit(f"{database}: not there; configure with cmake -DDPA4_ENABLE_CUDA=ON first")
    commands = [
        entry
        for entry in json.loads(database.read_text())
        if "dpa4_kernels_cuda" in entry["command"] or "kernels/cuda" in entry["file"]
    ]
    commands = [entry for entry in commands if "/tests/" not in entry["file"]]
    if not commands:
        sys.exit(f"{options.build}: compiles no CUDA kernels; configure with -DDPA4_ENABLE_CUDA=ON")

    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for entry in commands:
            seconds, peak = compile_file(
                entry["command"], entry["directory"], os.path.join(folder, "out.o")
            )
            rows.append((seconds, peak / 1e9, pathlib.Path(entry["file"]).name))
    rows.sort(reverse=True)
    total = sum(row[0] for row in rows)
    print("| file | processor seconds | peak GB |\n|---|---|---|")
    for seconds, peak, name in rows:
        print(f"| `{name}` | {seconds:.1f} | {peak:.2f} |")
    print(f"| all {len(rows)} files | {total:.0f} | |")
    beyond = [row[2] for row in rows if row[0] > options.seconds or row[1] > options.gigabytes]
    if beyond:
        sys.exit("beyond the limit of a file: " + ", ".join(beyond))
    if total > options.total:
        sys.exit(f"beyond the limit of all files: {total:.0f} s")


if __name__ == "__main__":
    main()
