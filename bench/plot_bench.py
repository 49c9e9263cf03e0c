#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Draws the results of model_bench or `dpa4 bench` as an SVG picture, with Python alone.

    bench/plot_bench.py RESULT.json [RESULT.json ...] -o PICTURE.svg

One group of bars a model and size: time of a step of each result, beside DeePMD-kit's where it is known,
on a logarithmic scale. Below it, one bar a row with operations: how the time of a step is made up.
"""

import argparse
import json
import math
import pathlib
from xml.sax.saxutils import escape

COLORS = ["#2b6cb0", "#dd6b20", "#2f855a", "#805ad5", "#b83280", "#4a5568", "#d69e2e", "#319795"]
DEEPMD = "#a0aec0"
BAR, GAP, HEIGHT, LEFT, WIDTH = 16, 26, 240, 64, 40


class Picture:
    """Lines of SVG."""

    def __init__(self):
        self.lines = []

    def rect(self, x, y, width, height, color, title=""):
        self.lines.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 0):.1f}" '
                          f'height="{max(height, 0):.1f}" fill="{color}">'
                          f"<title>{escape(title)}</title></rect>")

    def text(self, x, y, text, anchor="middle", size=11):
        self.lines.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" '
                          f'font-size="{size}">{escape(text)}</text>')

    def line(self, x1, y1, x2, y2):
        self.lines.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" '
                          'stroke="#cbd5e0"/>')

    def svg(self, width, height):
        head = (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
                'font-family="sans-serif">')
        return "\n".join([head, f'<rect width="{width:.0f}" height="{height:.0f}" fill="white"/>',
                          *self.lines, "</svg>", ""])


def label(result):
    return f"{result['arithmetic']}, memory {result['memory']}"


def groups_of(results):
    """(model, atoms) -> [(label, color, seconds)], in the order of the results."""
    groups = {}
    for i, result in enumerate(results):
        for row in result["rows"]:
            bars = groups.setdefault((row["model"], row["atoms"]), [])
            bars.append((label(result), COLORS[i % len(COLORS)], row["median_s"]))
    for result in results:
        for row in result["rows"]:
            bars = groups[(row["model"], row["atoms"])]
            if "deepmd_s" in row and all(bar[0] != "DeePMD-kit" for bar in bars):
                bars.append(("DeePMD-kit", DEEPMD, row["deepmd_s"]))
    return groups


def draw_times(picture, groups, top):
    """Bars of all groups; returns the width."""
    seconds = [bar[2] for bars in groups.values() for bar in bars]
    low = math.floor(math.log10(min(seconds)))
    high = max(math.ceil(math.log10(max(seconds))), low + 1)
    bottom = top + HEIGHT

    def height(value):
        return HEIGHT * (math.log10(value) - low) / (high - low)

    width = LEFT
    for bars in groups.values():
        width += GAP + BAR * len(bars)
    for power in range(low, high + 1):
        y = bottom - height(10.0**power)
        picture.line(LEFT, y, width, y)
        picture.text(LEFT - 6, y + 4, f"{1e3 * 10.0**power:g} ms", "end")
    x = LEFT + GAP / 2
    for (model, atoms), bars in groups.items():
        for name, color, value in bars:
            picture.rect(x, bottom - height(value), BAR - 2, height(value), color,
                         f"{model}, {atoms} atoms, {name}: {1e3 * value:.2f} ms")
            x += BAR
        picture.text(x - BAR * len(bars) / 2, bottom + 14, model)
        picture.text(x - BAR * len(bars) / 2, bottom + 27, str(atoms))
        x += GAP
    return width


def draw_operations(picture, results, top, width):
    """A bar of operations for each row that has them; returns the bottom."""
    rows = [(result, row) for result in results for row in result["rows"] if row["operations"]]
    totals = {}
    for _, row in rows:
        whole = sum(operation["s"] for operation in row["operations"])
        for operation in row["operations"]:
            totals[operation["name"]] = totals.get(operation["name"], 0) + operation["s"] / whole
    named = sorted(totals, key=totals.get, reverse=True)[:len(COLORS)]
    y = top
    for result, row in rows:
        whole = sum(operation["s"] for operation in row["operations"])
        picture.text(LEFT, y + 12, f"{row['model']} {row['atoms']}: {label(result)}", "start")
        x = LEFT
        for operation in sorted(row["operations"],
                                key=lambda o: named.index(o["name"]) if o["name"] in named else 99):
            part = (width - LEFT) * operation["s"] / whole
            color = COLORS[named.index(operation["name"])] if operation["name"] in named else DEEPMD
            picture.rect(x, y + 17, part, BAR, color,
                         f"{operation['name']}: {1e3 * operation['s']:.3f} ms")
            x += part
        y += 44
    x = LEFT
    for i, name in enumerate(named):
        if x > LEFT and x + 8 * len(name) > width:
            x, y = LEFT, y + 18
        picture.rect(x, y + 4, 10, 10, COLORS[i])
        picture.text(x + 14, y + 13, name, "start")
        x += 30 + 7 * len(name)
    return y + (30 if rows else 0)


def draw(results):
    """The picture of results as they come from JSON."""
    picture = Picture()
    groups = groups_of(results)
    if not groups:
        raise SystemExit("no rows to draw")
    width = max(draw_times(picture, groups, 70), 560)
    picture.text(LEFT, 18, f"{results[0]['machine']}: time of a step", "start", 14)
    entries = [(label(result), COLORS[i % len(COLORS)]) for i, result in enumerate(results)]
    if any(bar[0] == "DeePMD-kit" for bars in groups.values() for bar in bars):
        entries.append(("DeePMD-kit", DEEPMD))
    x = LEFT
    for name, color in entries:
        picture.rect(x, 32, 10, 10, color)
        picture.text(x + 14, 41, name, "start")
        x += 34 + 7 * len(name)
    bottom = draw_operations(picture, results, 70 + HEIGHT + 48, width)
    return picture.svg(max(width, x) + WIDTH, bottom + 10)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", nargs="+", type=pathlib.Path)
    parser.add_argument("-o", "--output", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    arguments.output.write_text(draw([json.loads(path.read_text()) for path in arguments.results]))


if __name__ == "__main__":
    main()
