#!/usr/bin/env bash
# Word count from end to end against the broker in KAFKA_BOOTSTRAP: `make demo` gives it one, and the program's path.
set -euo pipefail
stormglass=$1
lines=${LINES_TO_COUNT:-1000000}

step() {
  printf '\n\033[1m%s\033[0m\n$ stormglass %s\n' "$1" "${*:2}"
  "$stormglass" "${@:2}"
}

step "Write $lines lines of twelve words into the topic \"lines\"" \
  load --brokers "$KAFKA_BOOTSTRAP" --topic lines --lines "$lines"
step "Count every word, each of them a tracked tuple, into the topic \"counts\"" \
  run --brokers "$KAFKA_BOOTSTRAP" --input lines --output counts --group demo --until-end --no-http
step "Read both topics afresh, recount without the engine, compare" \
  audit --brokers "$KAFKA_BOOTSTRAP" --input lines --output counts --top 10
printf '\nNothing missing, nothing counted twice. Topics, broker and files are gone when this ends.\n'
