#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Checks that includes point one way: from the plugin down to src/base.

    tools/check_layers.py [ROOT]        print FILE:LINE of every violation; exit 1 if there is one
    tools/check_layers.py --self-test   show that each kind of violation is caught
"""

import pathlib
import re
import sys
import tempfile

# Folder -> folders it may include besides itself and what those may include in turn.
# The longest matching folder counts.
LAYERS = {
    "src/base": [],
    "src/math": ["src/base"],
    "src/graph": ["src/base"],
    "src/model": ["src/graph", "src/math"],
    "src/io": ["src/model"],
    "src/eager": ["src/model"],
    "kernels/api": ["src/math"],
    "kernels/cpu": ["kernels/api"],
    "kernels/cuda": ["kernels/api"],
    "src/native": ["src/model", "kernels/api"],
    "src/engine": ["src/io", "src/eager", "src/native"],
    "lammps_plugin": ["src/engine"],
    "tools": ["src/engine"],
}

# One file chooses the backends; the rest of the native engine sees them through kernels/api.
FILE_EXTRAS = {"src/native/backends.cpp": ["kernels/cpu", "kernels/cuda"]}

# Free to include anything.
UNCHECKED = ("tests", "bench", "examples")

# External headers that only some folders may include: (name, pattern, folders).
EXTERNALS = [
    ("LibTorch", re.compile(r"(ATen|torch|c10|caffe2)/"), ("src/io", "src/eager")),
    ("Kokkos", re.compile(r"Kokkos_"), ("src/base", "lammps_plugin")),
    ("CUDA", re.compile(r"(cuda|cublas|cub/|cute/|cutlass/|nvrtc|mma\.h)"), ("kernels/cuda",)),
    ("LAMMPS", re.compile(r"(lammps|lammpsplugin|pair|atom|comm|neighbor|neigh_list|lmptype)\.h$"),
     ("lammps_plugin",)),
]

# Takes tens of seconds to compile and nothing here needs it.
FORBIDDEN = {"torch/torch.h": "include <ATen/ATen.h> or <torch/types.h>"}

# Headers that CMake writes into the build tree.
GENERATED = {"src/base/version.h"}

SOURCES = {".h", ".hpp", ".cpp", ".cc", ".cu", ".cuh", ".in"}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def reachable(folder):
    """The folder and everything it may include."""
    seen, stack = set(), [folder]
    while stack:
        layer = stack.pop()
        if layer not in seen:
            seen.add(layer)
            stack.extend(LAYERS[layer])
    return seen


def layer_of(path):
    """The layer that holds a path, or None."""
    matches = [layer for layer in LAYERS if path.startswith(layer + "/")]
    return max(matches, key=len) if matches else None


def violation(root, path, layer, quote, target):
    """Why `path` may not include `target`, or None."""
    if target in FORBIDDEN:
        return FORBIDDEN[target]
    if (root / target).is_file() or target in GENERATED:
        if quote == "<":
            return "a header of this project is included with quotes"
        allowed = reachable(layer).union(*(reachable(f) for f in FILE_EXTRAS.get(path, [])))
        if layer_of(target) in allowed:
            return None
        return f"{layer} may include only {', '.join(sorted(allowed))}"
    for name, pattern, folders in EXTERNALS:
        if pattern.match(target) and layer not in folders:
            return f"only {', '.join(folders)} may include {name}"
    if quote == '"' and layer != "lammps_plugin":  # LAMMPS' own headers are included with quotes
        return "includes of this project are written from the repository root"
    if quote == '"' and (root / path).parent.joinpath(target).is_file():
        return "includes of this project are written from the repository root"
    return None


def check(root):
    """All violations in the tree below `root`, as printable lines; and the number of files read."""
    lines, n_files = [], 0
    for top in ("src", "kernels", "lammps_plugin", "tools"):
        for file in sorted((root / top).rglob("*")):
            if file.suffix not in SOURCES or not file.is_file():
                continue
            path = file.relative_to(root).as_posix()
            layer = layer_of(path)
            n_files += 1
            if layer is None:
                lines.append(f"{path}:1: this folder is not a layer; name it in tools/check_layers.py")
                continue
            for number, text in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
                match = INCLUDE.match(text)
                reason = match and violation(root, path, layer, match[1], match[2])
                if reason:
                    lines.append(f"{path}:{number}: includes {match[2]}: {reason}")
    return lines, n_files


def self_test():
    """Plants one violation of each kind in a small tree and expects exactly those lines."""
    header = "#pragma once\n"
    files = {
        "src/base/error.h": header,
        "src/math/wigner.h": header + '#include "src/base/error.h"\n#include <cmath>\n',
        "src/graph/edge_list.h": header,
        "src/model/evaluator.h": header + '#include "src/graph/edge_list.h"\n',
        "kernels/api/op.h": header + '#include "src/base/version.h"\n',
        "kernels/cpu/op.h": header + '#include "kernels/api/op.h"\n',
        "src/native/backends.cpp": '#include "kernels/cpu/op.h"\n#include "src/model/evaluator.h"\n',
        "src/eager/eager.cpp": "#include <ATen/ATen.h>\n",
        "src/engine/engine.h": header + '#include "src/native/plan.h"\n#include "src/eager/eager.cpp"\n',
        "src/native/plan.h": header,
        "lammps_plugin/pair_dpa4.cpp": '#include "pair.h"\n#include "src/engine/engine.h"\n',
        "lammps_plugin/pair_dpa4.h": header,
        "tests/any_test.cpp": '#include "lammps_plugin/pair_dpa4.h"\n#include <torch/torch.h>\n',
    }
    planted = {
        "src/base/up.h:1": '#include "src/math/wigner.h"',
        "src/math/side.h:2": '\n#include "src/graph/edge_list.h"',
        "src/model/down.h:1": '#  include "src/native/plan.h"',
        "src/native/engine.cpp:1": '#include "kernels/cpu/op.h"',
        "src/native/torch.cpp:1": "#include <c10/util/Half.h>",
        "src/io/relative.cpp:1": '#include "checkpoint.h"',
        "src/eager/slow.cpp:1": "#include <torch/torch.h>",
        "src/eager/angle.cpp:1": "#include <src/model/evaluator.h>",
        "kernels/api/lammps.h:1": '#include "pair.h"',
        "kernels/cpu/kokkos.h:1": "#include <Kokkos_Core.hpp>",
        "src/model/cuda.h:1": "#include <cuda_runtime.h>",
        "lammps_plugin/relative.cpp:1": '#include "pair_dpa4.h"',
        "tools/up.cpp:1": '#include "lammps_plugin/pair_dpa4.h"',
        "src/newfolder/a.h:1": header,
    }
    with tempfile.TemporaryDirectory() as name:
        root = pathlib.Path(name)

        def write(path, text):
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text, encoding="utf-8")

        for path, text in files.items():
            write(path, text)
        clean, n_files = check(root)
        if clean or n_files != len(files) - 1:
            print("self-test: a clean tree is reported:", *clean, n_files, sep="\n")
            return 1
        for place, text in planted.items():
            write(place.rsplit(":", 1)[0], text + "\n")
        found = {":".join(line.split(":", 2)[:2]) for line in check(root)[0]}
    if found != planted.keys():
        print("self-test: missed", sorted(planted.keys() - found))
        print("self-test: reported for nothing", sorted(found - planted.keys()))
        return 1
    print(f"self-test: all {len(planted)} planted violations are caught, and nothing else")
    return 0


def main(arguments):
    if arguments == ["--self-test"]:
        return self_test()
    if len(arguments) > 1 or (arguments and arguments[0].startswith("-")):
        print(__doc__.strip())
        return 0 if arguments in (["-h"], ["--help"]) else 2
    root = pathlib.Path(arguments[0] if arguments else pathlib.Path(__file__).parent.parent).resolve()
    lines, n_files = check(root)
    print(*lines, sep="\n", end="\n" if lines else "")
    if n_files == 0:
        print(f"{root}: no source file found")
        return 1
    print(f"layers: {n_files} files, {len(lines)} violations")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
