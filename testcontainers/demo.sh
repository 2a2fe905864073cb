#!/usr/bin/env bash
# Word count from end to end, twice: undisturbed, and killed in the midst of it. `demo.sh PROGRAM FOLDER`: the program, and a
# folder for what it keeps on this host. Against the broker in KAFKA_BOOTSTRAP, or else one of its own.
set -euo pipefail
stormglass=$1
# The program takes every variable of this prefix for a setting; the one that `make` knows is none.
unset "${!STORMGLASS_@}"
export STATE_DIRECTORY=$2/demo-$$
lines=${LINES_TO_COUNT:-1000000}
words_a_line=12
workers=()

# A program in the place of a shell of its own. Whatever ends this, a signal that nobody can catch included, ends it too:
# setpriv is of Debian's base system. If this ended before that was said, nothing is begun.
tied() {
  command -v setpriv >/dev/null || exec "$@"
  exec setpriv --pdeathsig KILL bash -c '[ "$PPID" = "$0" ] && exec "$@"' "$$" "$@"
}

leave() {
  kill -9 "${workers[@]}" 2>/dev/null || true
  wait 2>/dev/null || true
  rm -rf "$STATE_DIRECTORY"
}
trap leave EXIT
trap 'exit 130' INT TERM
rm -rf "$2"/demo-*
mkdir -p "$STATE_DIRECTORY"

say() { printf '\n\033[1m%s\033[0m\n' "$1"; }

# Waited for, not run in the foreground: bash hears a signal only while it waits.
attend() {
  tied "$stormglass" "$@" &
  workers+=($!)
  wait $!
}

step() {
  say "$1"
  printf '$ stormglass %s\n' "${*:2}"
  attend "${@:2}"
}

if [ -z "${KAFKA_BOOTSTRAP:-}" ]; then
  say 'Start a small broker in a process of its own (KAFKA_BOOTSTRAP=HOST:PORT takes a real one instead)'
  exec {broker}< <(tied "$stormglass" broker --listen 127.0.0.1:0)
  workers+=($!)
  read -r -t 30 -u "$broker" _ _ KAFKA_BOOTSTRAP || { echo 'The broker does not start.' >&2; exit 1; }
fi
brokers=(--brokers "$KAFKA_BOOTSTRAP")
name=demo-$$

step "Write $lines lines of $words_a_line words" load "${brokers[@]}" --topic "$name-lines" --lines "$lines"
step 'Count every word, each of them a tracked tuple' \
  run "${brokers[@]}" --input "$name-lines" --output "$name-counts" --group "$name" --until-end --no-http
step 'Read both topics afresh, recount without the engine, compare' \
  audit "${brokers[@]}" --input "$name-lines" --output "$name-counts" --top 10

say 'Count again, and kill -9 it twice while it counts: it goes on from its last commit, with the counts of that commit'
job=(run "${brokers[@]}" --input "$name-lines" --output "$name-again" --group "$name-again" --until-end --no-http)
printf '$ stormglass %s\n' "${job[*]}"
said=$STATE_DIRECTORY/said
for _ in 1 2; do
  # There before the program is.
  : >"$said"
  tied "$stormglass" "${job[@]}" 2>"$said" &
  workers+=($!)
  until grep -q restored_keys "$said" || ! kill -0 $! 2>/dev/null; do sleep 0.01; done
  sleep 0.4
  kill -9 $! 2>/dev/null && wait $! 2>/dev/null || echo 'killed.'
  cat "$said" >>"$said.all"
done
attend "${job[@]}" 2>"$said" || { cat "$said" >&2; exit 1; }
tee -a "$said.all" <"$said"

say 'The same audit: nothing is missing, and what was counted twice is at most what the starts have announced'
recount=$(tied "$stormglass" audit "${brokers[@]}" --input "$name-lines" --output "$name-again" --limit 0) || [ $? = 1 ]
echo "$recount"
announced=$(grep -o 'possible_repeats=[0-9]*' "$said.all" | awk -F = -v words=$words_a_line '{ n += $2 } END { print n * words }')
[[ $recount =~ missing\ ([0-9]+),\ surplus\ ([0-9]+) ]]
echo "announced: at most $announced words may be counted twice"
if [ "${BASH_REMATCH[1]}" != 0 ] || [ "${BASH_REMATCH[2]}" -gt "$announced" ]; then
  echo 'The promise is broken.' >&2
  exit 1
fi
