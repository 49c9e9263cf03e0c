#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Checks that objects compiled for an instruction set share no function with the rest of the program.

    check_isa_symbols.py NM OBJECT...

The linker keeps one copy of a function that several objects define (a template, an inline function). If
that is the copy compiled for AVX-512, the program crashes on other processors. So every such symbol must
be in the namespace of its instruction set.
"""

import re
import subprocess
import sys

# Symbols the linker merges: weak, common, unique.
MERGED = set("WVwvCu")
NAMESPACE = re.compile(r"dpa4::cpu::(base|avx2|avx512)::")


def shared_symbols(nm, path):
    listing = subprocess.run([nm, "-C", "--defined-only", path], check=True, capture_output=True,
                             text=True).stdout
    found = []
    for line in listing.splitlines():
        match = re.match(r"[0-9a-fA-F]*\s+(\S)\s+(.*)", line)
        if match and match[1] in MERGED and not NAMESPACE.search(match[2]):
            found.append(match[2])
    return found, len(listing.splitlines())


def main():
    nm, objects = sys.argv[1], sys.argv[2:]
    if not objects:
        sys.exit("check_isa_symbols.py: no objects")
    bad = 0
    for path in objects:
        symbols, total = shared_symbols(nm, path)
        if total == 0:
            sys.exit(f"{path}: no symbols at all")
        for symbol in symbols:
            print(f"{path}: {symbol} may be shared with code for other processors")
            bad += 1
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
