#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Checks the documentation against the sources and the programs.

    check_docs.py SOURCE_DIR BUILD_DIR [LMP]

What is named in README.md, CONTRIBUTING.md, CHANGELOG.md, doc/ and the READMEs of other folders exists:
files, links, functions, keywords of the pair style, options of programs and of CMake, messages. Blocks of
commands that are marked `sh test` or `lammps test` are run in a copy of the layout that a user sees; a
block `text output` behind one is what it must print. LAMMPS inputs need LMP.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

PAGES = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "doc/*.md", "examples/README.md",
         "potentials/README.md", "tests/data/README.md"]
SOURCE_FOLDERS = ["src", "kernels", "lammps_plugin", "tools", "tests", "bench", "cmake", "scripts"]
SOURCE_SUFFIXES = {".h", ".cpp", ".cu", ".cuh", ".py", ".cmake", ".txt", ".sh", ".in", ""}
# A path in the text: it starts with a folder or is a file of ours. Paths below build/ appear later.
PATH = re.compile(r"^(?:src|kernels|lammps_plugin|tools|tests|bench|cmake|scripts|examples|potentials|doc)"
                  r"(?:/[\w.*-]+)*/?$")
OF_LAMMPS = ("src/lammps.h",)  # paths of the other source tree
IDENTIFIER = re.compile(r"^[A-Za-z_]\w*(?:(?:::|\.|->)[A-Za-z_]\w*)*$")
FENCE = re.compile(r"^```(?P<kind>[^\n]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)


class Documentation:
    """The pages, the sources, and what was found wrong."""

    def __init__(self, root, build, lmp):
        self.root, self.build, self.lmp = root, build, lmp
        self.pages = {page.relative_to(root).as_posix(): page.read_text(encoding="utf-8")
                      for pattern in PAGES for page in sorted(root.glob(pattern))}
        self.sources = {file.relative_to(root).as_posix(): file.read_text(encoding="utf-8")
                        for top in SOURCE_FOLDERS for file in sorted((root / top).rglob("*"))
                        if file.is_file() and file.suffix in SOURCE_SUFFIXES
                        and "tests/data" not in file.as_posix() and "tests/docs" not in file.as_posix()}
        self.failures = []

    def fail(self, page, message):
        self.failures.append(f"{page}: {message}")

    def prose(self, page):
        """A page without its fenced and indented blocks."""
        text = FENCE.sub("", self.pages[page])
        return "\n".join(line for line in text.splitlines() if not line.startswith("    "))

    def code_words(self, page):
        """What stands in backticks. Indented text counts: it may continue an item of a list."""
        return re.findall(r"`([^`\n]+)`", FENCE.sub("", self.pages[page]))


def anchor(heading):
    """The anchor that the usual renderers give a heading."""
    kept = re.sub(r"[^\w\- ]", "", heading.strip().lower())
    return kept.replace(" ", "-")


def check_links(docs):
    for page, text in docs.pages.items():
        folder = (docs.root / page).parent
        for target in re.findall(r"\]\(([^)\s]+)\)", docs.prose(page)):
            if re.match(r"https?://", target):
                continue
            path, _, fragment = target.partition("#")
            file = (folder / path).resolve() if path else docs.root / page
            if not file.exists():
                docs.fail(page, f"link to {target}: no such file")
            elif fragment:
                headings = re.findall(r"^#+ (.*)$", file.read_text(encoding="utf-8"), re.MULTILINE)
                if fragment not in map(anchor, headings):
                    docs.fail(page, f"link to {target}: no such heading")


def check_paths(docs):
    for page in docs.pages:
        for word in docs.code_words(page):
            word = word.removeprefix("./")
            if word in OF_LAMMPS or "NAME" in word:
                continue
            if PATH.match(word) and not any(docs.root.glob(word.rstrip("/"))):
                docs.fail(page, f"`{word}` does not exist")


def check_identifiers(docs):
    """Functions, types and options that the pages for developers name."""
    words = set()
    for text in docs.sources.values():
        words.update(re.findall(r"[A-Za-z_]\w*", text))
    for page in ("doc/design.md", "doc/adding_an_option.md"):
        for word in docs.code_words(page):
            if not IDENTIFIER.match(word) or (docs.root / word).exists():
                continue
            parts = re.split(r"::|\.|->", word)
            file_names = {pathlib.PurePath(name).name for name in docs.sources}
            if word in file_names or word.endswith((".md", ".pt", ".json")):
                continue
            for part in parts:
                if part not in words:
                    docs.fail(page, f"`{word}`: nothing in the sources is called '{part}'")


def check_keywords(docs):
    """The table of pair_style has exactly the keywords that the style reads."""
    page = "doc/user_guide.md"
    section = docs.pages[page].split("\n## pair_style dpa4\n")[1].split("\n## ")[0]
    documented = set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE))
    read = set(re.findall(r'keyword == "(\w+)"', docs.sources["lammps_plugin/pair_settings.cpp"]))
    if not read:
        docs.fail(page, "no keywords found in lammps_plugin/pair_settings.cpp")
    for keyword in sorted(read ^ documented):
        where = "not documented" if keyword in read else "documented, but pair_style dpa4 does not know it"
        docs.fail(page, f"keyword {keyword}: {where}")


def check_tool_options(docs, tool):
    """The section on the dpa4 command has exactly the options that its help lists."""
    page = "doc/user_guide.md"
    section = docs.pages[page].split("\n## The dpa4 command line\n")[1]
    documented = set(re.findall(r"--[a-z][a-z-]+", section))
    known = set()
    for command in ([], ["info"], ["eval"], ["check"], ["bench"], ["tune"]):
        text = subprocess.run([tool, *command, "--help"], capture_output=True, text=True, check=True).stdout
        known.update(re.findall(r"--[a-z][a-z-]+", text.split("Options:")[1]))
    known |= {"--help"}
    for option in sorted(known ^ documented):
        docs.fail(page, f"option {option}: " + ("not documented" if option in known else "dpa4 does not know it"))


def check_script_options(docs):
    """Options of scripts/ and names of CMake options that the pages mention are there."""
    scripts = "\n".join(text for name, text in docs.sources.items() if name.startswith("scripts/"))
    cmake = (docs.root / "CMakeLists.txt").read_text() + "\n".join(
        text for name, text in docs.sources.items() if name.startswith("cmake/"))
    for page in ("README.md", "CONTRIBUTING.md", "doc/user_guide.md"):
        text = docs.pages[page].split("\n## The dpa4 command line\n")[0]
        for option in set(re.findall(r"`(--[a-z][a-z-]+)(?: DIR| N)?`", text)):
            if f"  {option} " not in scripts and f"| {option})" not in scripts and option not in scripts:
                docs.fail(page, f"{option}: no script knows it")
    for page in docs.pages:
        for name in set(re.findall(r"`(?:-D)?((?:DPA4|LAMMPS|TORCH)_[A-Z_]+)(?:=[^`]*)?`", docs.pages[page])):
            if name in ("LAMMPS_PLUGIN_PATH", "LAMMPS_POTENTIALS"):  # LAMMPS' own
                continue
            if name not in cmake and name not in scripts:
                docs.fail(page, f"{name}: no such option of CMake or of the scripts")
    for name in re.findall(r"^ *option\((DPA4_[A-Z_]+)|^set\((\w+) [^)]*CACHE", cmake, re.MULTILINE):
        if f"`{name[0] or name[1]}`" not in docs.pages["CONTRIBUTING.md"]:
            docs.fail("CONTRIBUTING.md", f"{name[0] or name[1]}: an option of CMake that no page describes")


def check_messages(docs):
    """The messages in the table of errors are ours, word by word."""
    page = "doc/user_guide.md"
    section = docs.pages[page].split("\n## Errors and what to change\n")[1].split("\n## ")[0]
    sources = "\n".join(docs.sources.values())
    sources = re.sub(r'"\s*\n\s*"', "", sources)  # literals that continue on the next line
    rows = [row.split("|")[1] for row in section.splitlines() if row.startswith("| ") and "---" not in row]
    for message in [m for row in rows for m in re.findall(r"`([^`]+)`", row)]:
        for part in filter(None, (p.strip(" ':") for p in message.split("..."))):
            if part not in sources:
                docs.fail(page, f"message `{message}`: '{part}' is in no source file")


def check_examples(docs):
    """Every example is complete, listed and run by a test."""
    tests = (docs.root / "tests" / "docs" / "CMakeLists.txt").read_text()
    listed = re.search(r"foreach\(example ([^)]*)\)", tests)[1].split()
    folders = sorted(folder.name for folder in (docs.root / "examples").iterdir() if folder.is_dir())
    for name in folders:
        for file in (f"in.{name}", "log.reference"):
            if not (docs.root / "examples" / name / file).is_file():
                docs.fail(f"examples/{name}", f"{file} is missing")
        if f"| `{name}` |" not in docs.pages["examples/README.md"]:
            docs.fail("examples/README.md", f"{name} has no row in the table")
        if name not in listed:
            docs.fail("tests/docs/CMakeLists.txt", f"no test runs the example {name}")


def run_block(docs, page, kind, body, work, output):
    environment = dict(os.environ)
    if kind == "sh test":
        command, stdin = ["bash", "-euo", "pipefail", "-c", body], None
    else:
        # A few steps show that the input is right.
        stdin = re.sub(r"^(run\s+)\d+$", r"\g<1>2", body, flags=re.MULTILINE)
        command = [docs.lmp, "-log", "none"]
        environment.pop("LAMMPS_PLUGIN_PATH", None)
    run = subprocess.run(command, cwd=work, env=environment, capture_output=True, text=True,
                         input=stdin if stdin else "")
    first = body.splitlines()[0]
    if run.returncode != 0:
        end = "\n".join((run.stdout + run.stderr).splitlines()[-12:])
        docs.fail(page, f"block '{first}': exit status {run.returncode}\n{end}")
    elif output is not None and run.stdout.rstrip() != output.rstrip():
        docs.fail(page, f"block '{first}': prints\n{run.stdout}instead of\n{output}")


def check_blocks(docs):
    """Runs what is marked, and looks at the shape of what is not."""
    n_run = 0
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        for entry in docs.root.iterdir():
            if entry.name != "build" and not entry.name.startswith("."):
                (work / entry.name).symlink_to(entry)
        (work / "build").mkdir()
        (work / "build" / "plain").symlink_to(docs.build)
        for page, text in docs.pages.items():
            blocks = [(m["kind"].strip(), m["body"]) for m in FENCE.finditer(text)]
            for i, (kind, body) in enumerate(blocks):
                if kind == "sh":
                    shell = subprocess.run(["bash", "-n", "-c", body], capture_output=True, text=True)
                    if shell.returncode != 0:
                        docs.fail(page, f"not a shell command: {body}{shell.stderr}")
                    for script in re.findall(r"\./(scripts/\w+)", body):
                        if not os.access(docs.root / script, os.X_OK):
                            docs.fail(page, f"{script} is no program")
                elif kind == "sh test" or (kind == "lammps test" and docs.lmp):
                    follows = blocks[i + 1] if i + 1 < len(blocks) else ("", "")
                    output = follows[1] if follows[0] == "text output" else None
                    run_block(docs, page, kind, body, work, output)
                    n_run += 1
                elif kind not in ("lammps test", "text", "text output", "cpp", "cmake", "json"):
                    docs.fail(page, f"block of unknown kind '{kind}'")
    if n_run == 0:
        docs.fail("README.md", "no block of commands is marked to be run")
    print(f"{n_run} blocks of commands run")


def main():
    root, build = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
    docs = Documentation(root, build, sys.argv[3] if len(sys.argv) > 3 else None)
    check_links(docs)
    check_paths(docs)
    check_identifiers(docs)
    check_keywords(docs)
    check_tool_options(docs, build / "tools" / "dpa4")
    check_script_options(docs)
    check_messages(docs)
    check_examples(docs)
    check_blocks(docs)
    print(f"{len(docs.pages)} pages checked")
    for failure in docs.failures:
        print(f"FAILED: {failure}")
    return 1 if docs.failures else 0


if __name__ == "__main__":
    sys.exit(main())
