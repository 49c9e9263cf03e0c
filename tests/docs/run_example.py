#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs an example as a user does and compares what LAMMPS prints with the example's log.reference.

    run_example.py SOURCE_DIR NAME LMP PLUGIN_DIR [SWITCH...]

The same steps are compared, on one rank. A run that is shorter than the reference's is enough: a wrong
number shows in the first steps, and later ones differ anyway, since trajectories that differ by rounding
separate.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

# Steps to run, and how far a printed number may be from the reference: relative, and for pressures, which
# are small differences of large numbers, absolute in the units of the example.
#
# float64: numbers are printed with 8 digits, so equal ones may differ by 1 in the last: 1e-7. In float32
# an energy is right to 1e-8, forces to 1e-5 (src/math and two engines, several instruction sets): the
# kinetic energy follows with 1e-6 in a few steps, the virial with 1e-3 eV, which is 1 bar here.
EXAMPLES = {
    "sic_nve": {"steps": 5, "relative": 2e-6, "pressure": 2.0},
    "sic_kk": {"steps": 5, "relative": 2e-6, "pressure": 2.0},
    "cu_npt": {"steps": 8, "relative": 2e-7, "pressure": 1e-2},
    "water_nvt": {"steps": 4, "relative": 2e-7, "pressure": 1e-2},
    # A minimizer's path may differ; where it starts and where it ends may not.
    "relax": {"steps": 0, "relative": 2e-7, "pressure": 1e-2},
}
# The end of `relax`, which stops at forces of 1e-6 eV/Angstrom: the lattice constant is right to 1e-6, and
# the energy, being at its minimum, to the last printed digit.
RESULT = re.compile(r"^lattice constant ([0-9.]+) Angstrom, energy (-[0-9.]+) eV/atom$", re.MULTILINE)
RESULT_TOLERANCE = (1e-5, 2e-6)


def thermo_table(log):
    """{step: {column: number}} of the first thermo table of a log, and its columns."""
    rows, columns = {}, None
    for line in log.splitlines():
        words = line.split()
        if columns is None:
            if words[:1] == ["Step"]:
                columns = words
        elif line.startswith("Loop time"):
            break
        elif len(words) == len(columns) and re.fullmatch(r"\d+", words[0]):
            rows[int(words[0])] = dict(zip(columns, map(float, words)))
    return rows, columns


def compare(name, actual_log, reference_log):
    """Messages of what differs."""
    limits = EXAMPLES[name]
    actual, columns = thermo_table(actual_log)
    reference, expected_columns = thermo_table(reference_log)
    if not reference:
        return ["log.reference has no thermo table"]
    if columns != expected_columns:
        return [f"the columns are {columns}, those of log.reference {expected_columns}"]
    failures = []
    steps = [step for step in reference if step <= limits["steps"]]
    for step in steps:
        if step not in actual:
            failures.append(f"step {step} is not in the thermo table")
            continue
        for column in columns:
            value, wanted = actual[step][column], reference[step][column]
            allowed = limits["relative"] * abs(wanted)
            if column == "Press":
                allowed = max(allowed, limits["pressure"])
            if not abs(value - wanted) <= allowed:
                failures.append(
                    f"step {step}: {column} = {value:.9g}, in log.reference {wanted:.9g}, allowed {allowed:.1e}"
                )
    ends = [RESULT.search(log) for log in (actual_log, reference_log)]
    if ends[1]:
        if not ends[0]:
            return failures + ["no line 'lattice constant ...' at the end"]
        for what, value, wanted, allowed in zip(
            ("lattice constant", "energy"), ends[0].groups(), ends[1].groups(), RESULT_TOLERANCE
        ):
            if not abs(float(value) - float(wanted)) <= allowed:
                failures.append(f"{what} {value}, in log.reference {wanted}, allowed {allowed:.0e}")
    return failures


def main():
    source, name, lmp, plugin_dir, *switches = sys.argv[1:]
    source = pathlib.Path(source)
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        (work / "potentials").symlink_to(source / "potentials")
        folder = work / "examples" / name
        shutil.copytree(source / "examples", work / "examples")
        command = [lmp, *switches, "-in", f"in.{name}", "-log", "log.lammps"]
        if EXAMPLES[name]["steps"] > 0:
            command += ["-var", "steps", str(EXAMPLES[name]["steps"])]
        environment = dict(os.environ, LAMMPS_PLUGIN_PATH=plugin_dir)
        run = subprocess.run(
            command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True
        )
        if run.returncode != 0:
            print(f"{' '.join(command)}: exit status {run.returncode}; the end of what it said:")
            print("\n".join((run.stdout + run.stderr).splitlines()[-20:]))
            return 1
        failures = compare(name, (folder / "log.lammps").read_text(), (folder / "log.reference").read_text())
    for failure in failures:
        print(f"FAILED: examples/{name}: {failure}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
