#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# usage: plugin_symbols.sh PLUGIN...
# What a plugin wants of LAMMPS must be the same whether LAMMPS was compiled as C++17 or as C++20. Its formatting
# library is not: it is that of the standard where the compiler has it. So no plugin may need it.
set -euo pipefail
for plugin in "$@"; do
  wanted=$(nm --dynamic --undefined-only --demangle "$plugin")
  grep -q LAMMPS_NS <<<"$wanted" || { echo "$plugin wants nothing of LAMMPS"; exit 1; }
  if grep -E 'fmt::|format_args' <<<"$wanted"; then
    echo "$plugin needs LAMMPS' formatting library: give Error::all and the like a finished string"
    exit 1
  fi
done
