# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash disable=SC2034,SC2016
# Shared by bootstrap, demo and test; sourced, never run. Everything it says goes to stderr.

set -euo pipefail
export LC_ALL=C.UTF-8

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
started=$SECONDS
DPA4_ROOT=  # set by setup where things are built and run in a Debian root

say() { printf '%s\n' "$*" >&2; }
die() { say "error: $*"; exit 1; }

# 75 -> 1:15
clock() { printf '%d:%02d' $(($1 / 60)) $(($1 % 60)); }

# Ends a process and all that it started.
kill_tree() {
  local child
  for child in $(cat "/proc/$1/task/$1/children" 2>/dev/null || true); do kill_tree "$child"; done
  kill "$1" 2>/dev/null || true
}
end_jobs() {
  local job
  for job in $(jobs -p); do kill_tree "$job"; done
}
trap end_jobs EXIT
trap 'exit 130' INT TERM

# step TITLE LOG PROGRESS COMMAND...: runs a command with its output in LOG. Every 15 seconds, and at
# the end, one line tells how far it is: what the function PROGRESS prints (it is given LOG).
step() {
  local title=$1 log=$2 progress=$3 begin=$SECONDS last=$SECONDS pid state
  shift 3
  mkdir -p "$(dirname "$log")"
  say "$title ..."
  "$@" >"$log" 2>&1 </dev/null &
  pid=$!
  while kill -0 "$pid" 2>/dev/null; do
    sleep 0.3
    if ((SECONDS - last >= 15)); then
      last=$SECONDS
      state=$("$progress" "$log" 2>/dev/null) || state=""
      say "  $title: ${state:-working} ($(clock $((SECONDS - begin))))"
    fi
  done
  if ! wait "$pid"; then
    say "$title failed after $(clock $((SECONDS - begin))). The end of $log:"
    tail -n 25 "$log" | sed 's/^/  | /' >&2
    return 1
  fi
  say "$title: done ($(clock $((SECONDS - begin))))"
}

no_progress() { :; }

# The last "[12/345]" of a ninja log, as "12 of 345 files".
ninja_progress() {
  local counter
  counter=$(tr '\r' '\n' <"$1" | sed -n 's/^\[\([0-9]*\)\/\([0-9]*\)\].*/\1 of \2 files/p' | tail -n 1)
  printf '%s' "$counter"
}

# locked NAME COMMAND...: one run at a time may do this for a cache or a build folder.
locked() {
  local file=$1 fd status=0
  shift
  mkdir -p "$(dirname "$file")"
  exec {fd}>"$file"
  if ! flock --nonblock "$fd"; then
    say "another run is at work there (lock: $file); waiting for it ..."
    flock "$fd"
  fi
  "$@" || status=$?
  exec {fd}>&-
  return "$status"
}

# in_root ROOT COMMAND...: runs a command in the Debian root that `bootstrap --kokkos` made, at the same
# place in the tree. The root sees the source tree, the cache and LibTorch where they are outside; what is
# mounted for that vanishes with the command.
in_root() {
  local debian=$1
  shift
  local -a as_root=(env)
  if ((EUID != 0)); then as_root=(sudo); fi
  "${as_root[@]}" unshare --mount --propagation private bash -c '
    set -e
    debian=$1 root=$2 cache=$3 torch=$4
    shift 4
    mount -t proc proc "$debian/proc"
    mount --rbind /dev "$debian/dev"
    mount --rbind /sys "$debian/sys"
    for folder in "$root" "$cache" "$torch"; do
      mkdir -p "$debian$folder"
      mountpoint -q "$debian$folder" || mount --bind "$folder" "$debian$folder"
    done
    exec chroot "$debian" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 TMPDIR=/tmp \
      DEBIAN_FRONTEND=noninteractive bash -c "cd \"\$0\" && exec \"\$@\"" "$root" "$@"
  ' in_root "$debian" "$root" "$DPA4_CACHE" "$TORCH_DIR" "$@"
}

# can_enter_root: whether this user may do what in_root does.
can_enter_root() {
  if ((EUID == 0)); then
    unshare --mount --propagation private true 2>/dev/null
  else
    command -v sudo >/dev/null && sudo -n unshare --mount --propagation private true 2>/dev/null
  fi
}

# What `bootstrap` takes, for the --help of those that hand it on.
bootstrap_options='  --torch DIR           your LibTorch: the folder with include/ and lib/   [TORCH_DIR]
  --lammps-source DIR   your LAMMPS source tree: holds src/lammps.h        [LAMMPS_SOURCE_DIR]
  --lammps-build DIR    your build of it: liblammps.so and lmp             [LAMMPS_LIBRARY_DIR]
  --cache DIR           where fetched and built things are kept            [DPA4_CACHE_DIR]
                        (default: ${XDG_CACHE_HOME:-~/.cache}/dpa4-lammps)
  --jobs N              compile with N processes (default: one a core)'

# setup ARGUMENTS...: runs bootstrap and takes over what it found.
setup() {
  local found
  found=$("$root/scripts/bootstrap" "$@") || exit 1
  eval "$found"
}

# here COMMAND...: runs it in the root, where bootstrap made one (DPA4_ROOT), else as it is.
here() {
  if [[ ${DPA4_ROOT:-} ]]; then in_root "$DPA4_ROOT" "$@"; else "$@"; fi
}

# build_preset PRESET TARGET...: configures, with cmake_options, and builds into build/PRESET.
cmake_options=()
build_preset() {
  locked "$root/build/.$1.lock" build_preset_locked "$@"
}
build_preset_locked() {
  local preset=$1
  shift
  cd "$root"
  step "Configuring (preset $preset)" "build/$preset-configure.log" no_progress \
    here cmake --preset "$preset" "-DTORCH_DIR=$TORCH_DIR" "-DLAMMPS_SOURCE_DIR=$LAMMPS_SOURCE_DIR" \
    "-DLAMMPS_LIBRARY_DIR=$LAMMPS_LIBRARY_DIR" ${cmake_options[@]+"${cmake_options[@]}"} || return 1
  step "Compiling (preset $preset)" "build/$preset-build.log" ninja_progress \
    here env NINJA_STATUS='[%f/%t] ' cmake --build "build/$preset" --parallel "$DPA4_JOBS" --target "$@"
}
