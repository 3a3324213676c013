#!/bin/sh
# Tells where an apply of a generated site spends its time: seconds of processor time and MiB of memory each half second,
# beside the number of lines that the run has printed. One line is printed for each group in the plan, two for each step,
# one for each checkpoint. Linux only.
#
#   benches/phases.sh SITE
#
# SITE is one that benches/measure.sh made, before it was applied: generate it anew. TRUEUP as there.
set -eu

here=$(cd "$(dirname "$0")/.." && pwd)
trueup=${TRUEUP:-${CARGO_TARGET_DIR:-$here/target}/release/trueup}
printed=$(mktemp)
trap 'rm -f "$printed"' EXIT
cd "$1"
"$trueup" apply --yes --parallelism 1000 >"$printed.out" 2>"$printed" &
run=$!
ticks=$(getconf CLK_TCK)
page=$(getconf PAGESIZE)
while state=$(cat "/proc/$run/stat" 2>/dev/null); do
    # shellcheck disable=SC2086
    set -- ${state##*) }
    [ "$1" != Z ] || break
    awk -v user="${12}" -v kernel="${13}" -v pages="${22}" -v ticks="$ticks" -v page="$page" -v lines="$(wc -l <"$printed")" \
        'BEGIN { printf "%7.2f s %6d MiB %8d lines\n", (user + kernel) / ticks, pages * page / 1048576, lines }'
    sleep 0.5
done
rm -f "$printed.out"
wait "$run"
