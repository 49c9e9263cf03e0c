#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Time of a step in LAMMPS over the number of atoms (bench/in.sic_size), and a picture of it.

    bench/lammps_bench.py run --lmp LMP --plugin PLUGIN.so --ways kk,cuda,cpu [--atoms N,...] --json RESULT.json
    bench/lammps_bench.py draw RESULT.json [RESULT.json ...] -o PICTURE.svg
    bench/lammps_bench.py overhead --lmp LMP --plugin PLUGIN.so --model-bench PROGRAM

overhead: the pair style's time in dpa4/kk beside that of the engine alone (model_bench) on the same crystal.
Ways to run: kk (dpa4/kk on the GPU), kk_threads (dpa4/kk on the host), cuda (host style, device cuda), cpu (host
style, device cpu). Threads of the host: OMP_NUM_THREADS. Python alone is needed.
"""

import argparse
import json
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from plot_bench import COLORS, Picture

HERE = pathlib.Path(__file__).resolve().parent
SIZES = (64, 216, 1000, 4096, 13824, 32768)
ATOM_STEPS = {"cpu": 6000, "kk_threads": 6000}  # worth measuring; on a GPU:
ATOM_STEPS_GPU = 400000
TITLES = {"kk": "dpa4/kk, GPU", "kk_threads": "dpa4/kk, threads", "cuda": "host style, GPU", "cpu": "host style, CPU"}
OVERHEAD_CASES = (("c_neo", "C", 8, 40), ("cu_nano", "Cu", 2, 400))  # model, element, cells, steps
LEFT, TOP, WIDTH, HEIGHT = 80, 60, 480, 320


def switches(way, threads):
    if way == "kk":
        return ["-k", "on", "g", "1", "-sf", "kk"]
    if way == "kk_threads":
        return ["-k", "on", "t", str(threads), "-sf", "kk"]
    return []


def lammps(arguments, way, script, n, steps, variables):
    """Runs an input of 8 n^3 atoms. Seconds of a step and of its part in the pair style, and the log."""
    atoms = 8 * n**3
    with tempfile.TemporaryDirectory() as work:
        log = pathlib.Path(work) / "log"
        command = [arguments.lmp, *switches(way, arguments.threads), "-in", str(HERE / script),
                   "-log", str(log), "-screen", "none"]
        variables = {"n": n, "steps": steps, "plugin": arguments.plugin,
                     "potentials": HERE.parent / "potentials", **variables}
        for name, value in variables.items():
            command += ["-var", name, str(value)]
        environment = {**os.environ, "OMP_NUM_THREADS": str(arguments.threads)}
        done = subprocess.run(command, stdin=subprocess.DEVNULL, env=environment, check=False)
        said = log.read_text() if log.exists() else ""
    loops = re.findall(r"^Loop time of (\S+) on .* for (\d+) steps", said, re.MULTILINE)
    pairs = re.findall(r"^Pair +\|[^|]*\| *(\S+)", said, re.MULTILINE)
    if done.returncode != 0 or len(loops) != 2 or len(pairs) != 2:
        raise SystemExit(f"{way}, {atoms} atoms: LAMMPS failed; the end of its log:\n{said[-2000:]}")
    return float(loops[1][0]) / steps, float(pairs[1]) / steps, said


def measure(arguments, way, n):
    """Seconds: of a step, and of its part in the pair style."""
    steps = max(5, min(300, ATOM_STEPS.get(way, ATOM_STEPS_GPU) // (8 * n**3)))
    device = way if way in ("cuda", "cpu") else "auto"
    return lammps(arguments, way, "in.sic_size", n, steps, {"device": device})[:2]


def overhead(arguments):
    print("| model | atoms | Pair of dpa4/kk [ms] | engine alone [ms] | ratio |\n|---|---|---|---|---|")
    for model, element, n, steps in OVERHEAD_CASES:
        _, pair, said = lammps(arguments, "kk", "in.diamond", n, steps, {"model": model, "element": element})
        arithmetic = re.search(r"^ *kernels: +(\w+)", said, re.MULTILINE)
        if not arithmetic:
            raise SystemExit(f"{model}: LAMMPS' log does not name the kernels")
        with tempfile.TemporaryDirectory() as work:
            result = pathlib.Path(work) / "result.json"
            command = [arguments.model_bench, "--device", "cuda", "--warm-up", "20", "--repeat", "40",
                       "--arithmetic", arithmetic.group(1), "--json", str(result),
                       f"{HERE.parent / 'potentials' / model}.pt:{8 * n**3}"]
            subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True)
            engine = json.loads(result.read_text())["rows"][0]["median_s"]
        print(f"| {model} | {8 * n**3} | {1e3 * pair:.3f} | {1e3 * engine:.3f} | {pair / engine:.3f} |")
        sys.stdout.flush()


def machine_name(ways):
    if "kk" in ways or "cuda" in ways:
        query = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
        return subprocess.run(query, capture_output=True, text=True, check=True).stdout.splitlines()[0]
    found = re.search(r"^model name\s*:\s*(.*)", pathlib.Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return found.group(1) if found else "CPU"


def run(arguments):
    ways = arguments.ways.split(",")
    unknown = [way for way in ways if way not in TITLES]
    if unknown:
        raise SystemExit(f"--ways: '{unknown[0]}' is none of {', '.join(TITLES)}")
    rows = []
    print("| atoms | " + " | ".join(f"{TITLES[way]} [ms] (pair)" for way in ways) + " |")
    print("|---" * (1 + len(ways)) + "|")
    for atoms in arguments.atoms:
        n = round((atoms / 8) ** (1 / 3))
        cells = []
        for way in ways:
            if way in ATOM_STEPS and 8 * n**3 > arguments.most_on_cpu:
                cells.append("")
                continue
            step, pair = measure(arguments, way, n)
            rows.append({"way": way, "atoms": 8 * n**3, "step_s": step, "pair_s": pair})
            cells.append(f"{1e3 * step:.3f} ({1e3 * pair:.3f})")
        print(f"| {8 * n**3} | " + " | ".join(cells) + " |")
        sys.stdout.flush()
    result = {"machine": machine_name(ways), "threads": arguments.threads, "model": "sic_mini", "rows": rows}
    arguments.json.write_text(json.dumps(result, indent=1) + "\n")


def draw(results):
    """Curves on logarithmic scales, one for each way and result."""
    curves = {}
    for result in results:
        for row in result["rows"]:
            name = TITLES[row["way"]]
            if row["way"] in ATOM_STEPS:
                name += f" ({result['threads']} threads)"
            curves.setdefault(name, []).append((row["atoms"], row["step_s"]))
    if not curves:
        raise SystemExit("no rows to draw")
    atoms = [point[0] for points in curves.values() for point in points]
    seconds = [point[1] for points in curves.values() for point in points]
    left, right = math.log10(min(atoms)) - 0.1, math.log10(max(atoms)) + 0.1
    low = math.floor(math.log10(min(seconds)))
    high = max(math.ceil(math.log10(max(seconds))), low + 1)

    def place(count, second):
        return (LEFT + WIDTH * (math.log10(count) - left) / (right - left),
                TOP + HEIGHT * (high - math.log10(second)) / (high - low))

    picture = Picture()
    title = f"{results[0]['machine']}: a step of {results[0]['model']} in LAMMPS"
    picture.text(LEFT, 22, title, "start", 14)
    for power in range(low, high + 1):
        y = place(atoms[0], 10.0**power)[1]
        picture.line(LEFT, y, LEFT + WIDTH, y)
        picture.text(LEFT - 6, y + 4, f"{1e3 * 10.0**power:g} ms", "end")
    for count in sorted(set(atoms)):
        x = place(count, 10.0**low)[0]
        picture.line(x, TOP, x, TOP + HEIGHT)
        picture.text(x, TOP + HEIGHT + 16, str(count))
    picture.text(LEFT + WIDTH / 2, TOP + HEIGHT + 34, "atoms")
    for i, (name, points) in enumerate(curves.items()):
        color = COLORS[i % len(COLORS)]
        at = [place(*point) for point in sorted(points)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in at)
        picture.lines.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2"/>')
        for (x, y), (count, second) in zip(at, sorted(points)):
            picture.rect(x - 3, y - 3, 6, 6, color, f"{name}, {count} atoms: {1e3 * second:.2f} ms")
        y = TOP + 8 + 18 * i
        picture.rect(LEFT + 10, y, 10, 10, color)
        picture.text(LEFT + 26, y + 9, name, "start")
    return picture.svg(LEFT + WIDTH + 30, TOP + HEIGHT + 50)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    runner = commands.add_parser("run", help="measure")
    comparer = commands.add_parser("overhead", help="compare with the engine alone")
    for command in (runner, comparer):
        command.add_argument("--lmp", required=True)
        command.add_argument("--plugin", required=True)
    comparer.add_argument("--model-bench", required=True)
    runner.add_argument("--ways", required=True, help="kk, kk_threads, cuda, cpu; separated by commas")
    runner.add_argument("--atoms", default=SIZES,
                        type=lambda text: [int(word) for word in text.split(",")])
    runner.add_argument("--most-on-cpu", type=int, default=4096, help="larger systems on the GPU only")
    runner.add_argument("--json", type=pathlib.Path, required=True)
    drawer = commands.add_parser("draw", help="the picture of results")
    drawer.add_argument("results", nargs="+", type=pathlib.Path)
    drawer.add_argument("-o", "--output", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    arguments.threads = int(os.environ.get("OMP_NUM_THREADS", os.cpu_count() or 1))
    if arguments.command == "run":
        run(arguments)
    elif arguments.command == "overhead":
        overhead(arguments)
    else:
        arguments.output.write_text(draw([json.loads(path.read_text()) for path in arguments.results]))


if __name__ == "__main__":
    main()
