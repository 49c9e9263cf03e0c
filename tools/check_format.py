#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Checks the source files: clang-format 14 with .clang-format, the SPDX line that heads each, and
that every CUDA kernel says begin_kernel() first, without which it may start too early.

    tools/check_format.py         print every file that differs; exit 1 if there is one
    tools/check_format.py --fix   format them in place

Other releases of clang-format lay out some constructs differently, so without release 14 the check
is skipped: it says so and exits 77.
"""

import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = ("src", "kernels", "lammps_plugin", "tools", "tests", "bench")
FORMATTED = {".h", ".cpp", ".cu", ".cuh"}
HEADED = FORMATTED | {".py", ".cmake", ".in", ".txt"}
SPDX = "SPDX-License-Identifier: GPL-2.0-or-later"


def source_files(suffixes):
    files = [f for top in FOLDERS for f in (ROOT / top).rglob("*") if f.suffix in suffixes]
    return sorted(f for f in files if (ROOT / "tests" / "data") not in f.parents)


def without_spdx():
    """Files whose first two lines (a script's first is its #!) do not name the licence."""
    return [f for f in source_files(HEADED)
            if not any(SPDX in line for line in f.read_text(encoding="utf-8").splitlines()[:2])]


def hasty_kernels():
    """Lines of CUDA kernels whose first statement is not begin_kernel() (kernels/cuda/launch.cuh)."""
    found = []
    for f in source_files({".cu", ".cuh", ".h", ".in"}):
        text = f.read_text(encoding="utf-8")
        for kernel in re.finditer(r"^.*\b__global__\b", text, re.MULTILINE):
            if text[kernel.start():].lstrip().startswith("//"):
                continue
            if not re.match(r"[^;{]*\) \{\s*begin_kernel\(\);", text[kernel.start():]):
                line = text.count("\n", 0, kernel.start()) + 1
                found.append(f"{f.relative_to(ROOT)}:{line}: does not start with begin_kernel()")
    return found


def clang_format():
    """The command for clang-format 14, or None."""
    for name in ("clang-format-14", "clang-format"):
        if shutil.which(name):
            version = subprocess.run([name, "--version"], capture_output=True, text=True, check=True)
            if "version 14." in version.stdout:
                return name
    return None


def main(arguments):
    if arguments not in ([], ["--fix"]):
        print(__doc__.strip())
        return 0 if arguments in (["-h"], ["--help"]) else 2
    bad = [f"{f.relative_to(ROOT)}: has no line '{SPDX}'" for f in without_spdx()]
    bad += hasty_kernels()
    command = clang_format()
    files = source_files(FORMATTED)
    if command and arguments:
        subprocess.run([command, "-i", *files], check=True, cwd=ROOT)
    elif command:
        for file in files:
            run = subprocess.run([command, "--dry-run", "-Werror", file], cwd=ROOT, capture_output=True)
            if run.returncode:
                bad.append(f"{file.relative_to(ROOT)}: run tools/check_format.py --fix")
    print(*bad, sep="\n", end="\n" if bad else "")
    if bad:
        return 1
    if not command:
        print("skipped: clang-format 14 is not installed (Debian package: clang-format)")
        return 77
    print(f"format: {len(files)} files")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
