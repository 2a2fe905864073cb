#!/usr/bin/env bash
# One Apache Kafka node without Docker, from the jars on Maven Central. `kafka.sh help` prints the lines below.
#
#   kafka.sh start [PORT] [--watch PID]   start a broker (default port 9092, 0: any free one), wait until it answers, and
#                                         print its address; resumes the data that `stop --keep` or a crash left there.
#                                         --watch: when process PID is gone, the broker and its files go too
#   kafka.sh stop [PORT|all] [--keep]     end it and remove its files; --keep: end it gracefully, leave the data
#   kafka.sh status [PORT]                list the brokers; exit code 3 if there is none
#   kafka.sh env [PORT]                   print the line that points the tests at it, for `eval`
#   kafka.sh with COMMAND [ARG...]        run a command with a broker of its own, whose address it finds in KAFKA_BOOTSTRAP
#   kafka.sh tool NAME [ARG...]           run one of Kafka's console tools, e.g. `tool kafka-topics --list`, against
#                                         KAFKA_BOOTSTRAP (default 127.0.0.1:9092)
#   kafka.sh fetch                        only fetch the jars
#
# Jars are kept in STORMGLASS_CACHE (default $XDG_CACHE_HOME/stormglass or ~/.cache/stormglass); a broker's data, log
# and process id in STORMGLASS_KAFKA_STATE (default $TMPDIR/stormglass-kafka-UID), one folder per port.
# Words for people go to stderr, so stdout can be read by a script.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
version=$(sed -n 's:.*<kafka.version>\(.*\)</.*:\1:p' "$here/pom.xml")
cache=${STORMGLASS_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/stormglass}
# The pom's checksum is part of the name, so that an edited pom never meets yesterday's jars.
libs=$cache/kafka-$version-$(cksum <"$here/pom.xml" | cut -d' ' -f1)
state=${STORMGLASS_KAFKA_STATE:-${TMPDIR:-/tmp}/stormglass-kafka-$UID}
start_seconds=90
stop_seconds=30

say() { printf '%s\n' "$*" >&2; }
die() { say "kafka.sh: $*"; exit 1; }
need() { command -v "$1" >/dev/null || die "$1 is missing: install ${2} (Debian: apt-get install ${3})."; }

fetch() {
  need java "a Java runtime, 17 or newer" default-jre-headless
  [ -d "$libs" ] && return
  need mvn "Apache Maven" maven
  say "Fetching Apache Kafka $version (54 MB, once) into $libs"
  mkdir -p "$cache"
  local new
  new=$(mktemp -d "$cache/fetching.XXXXXX")
  # -C: a jar whose checksum does not match is an error.
  if ! mvn -B -q -C -f "$here/pom.xml" dependency:copy-dependencies -DoutputDirectory="$new" >"$new/log" 2>&1; then
    grep -v '^$' "$new/log" | tail -n 5 >&2
    rm -rf "$new"
    die "Maven could not fetch Apache Kafka $version; the reason stands above."
  fi
  rm "$new/log"
  # Renamed when whole, so that nobody sees half a folder; a second fetcher may have been faster.
  if [ -d "$libs" ]; then rm -rf "$new"; else mv "$new" "$libs"; fi
}

# SIGKILL is the normal end of a broker whose data nobody wants, so Java may leave nothing outside the broker's folder.
# `java` is always called by its own name: behind a function, $! would be a shell's process id.
java_options=(-XX:-UsePerfData -Dorg.slf4j.simpleLogger.defaultLogLevel=warn -Dorg.slf4j.simpleLogger.showDateTime=true
  -Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS -cp "$libs/*")
# Short-lived programs are quicker without the optimizing compiler and with the simplest collector.
tool_options=(-XX:TieredStopAtLevel=1 -XX:+UseSerialGC "${java_options[@]}")

# A process that has ended but that nobody has waited for yet (Linux: state Z) is gone.
alive() { kill -0 "$1" 2>/dev/null && ! grep -qs '^State:.*Z' "/proc/$1/status"; }

# The process that the file names, if it still is ours: ids are used again.
pid_in() {
  local pid
  pid=$(cat "$1" 2>/dev/null) && [ -n "$pid" ] && alive "$pid" || return 1
  [ ! -r "/proc/$pid/cmdline" ] || tr '\0' ' ' <"/proc/$pid/cmdline" | grep -qF -e "$dir/server.properties" -e kafka.sh || return 1
  echo "$pid"
}

listens() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# Below the range from which the kernel takes ports for outgoing connections.
free_port() {
  local port
  while :; do
    port=$((20000 + RANDOM % 12000))
    [ -e "$state/$port" ] || listens "$port" || break
  done
  echo "$port"
}

# Asks Kafka's own Metadata request (v1, no topics) and wants at least one broker in the answer: a socket that is open
# is not yet a broker that serves.
answers() (
  exec 3<>"/dev/tcp/127.0.0.1/$1" || exit 1
  printf '\0\0\0\x0e\0\x03\0\x01\0\0\0\x01\xff\xff\0\0\0\0' >&3
  reply=$(timeout 2 head -c 12 <&3 | od -An -tx1 | tr -d ' \n')
  [ "${#reply}" = 24 ] && [ "${reply:16}" != 00000000 ]
) 2>/dev/null

start() {
  local port=9092 watch='' pid fresh=''
  while [ $# -gt 0 ]; do
    case $1 in
      --watch) watch=${2:?--watch wants a process id}; shift ;;
      *[!0-9]* | '') die "\"$1\" is no port number." ;;
      *) port=$1 ;;
    esac
    shift
  done
  [ "$port" -le 65535 ] || die "\"$port\" is no port number."
  fetch
  [ "$port" != 0 ] || port=$(free_port)
  dir=$state/$port
  if pid=$(pid_in "$dir/pid"); then die "a broker already runs on port $port (process $pid); see kafka.sh status."; fi
  if listens "$port"; then die "port $port is taken by another program; choose another one, or 0 for any."; fi

  say "Starting Apache Kafka $version on 127.0.0.1:$port"
  mkdir -p "$state"
  ! mkdir "$dir" 2>/dev/null || fresh=yes
  echo $$ >"$dir/pid"
  trap 'remove; exit 130' INT TERM
  if [ -n "$fresh" ]; then
    sed -e "s|@PORT@|$port|; s|@CONTROLLER_PORT@|$(free_port)|; s|@DIR@|$dir|" "$here/server.properties.in" >"$dir/server.properties"
    # A cluster id is 16 bytes in 22 characters of base64.
    java "${tool_options[@]}" kafka.tools.StorageTool format --standalone -t "$(head -c 16 /dev/urandom | base64 | tr '+/' 'AA' | cut -c1-22)" \
      -c "$dir/server.properties" >"$dir/log" 2>&1 || failed "could not format its data folder"
  fi
  # Job control puts the broker into a process group of its own: Ctrl-C is for whoever started it, who then stops it.
  set -m
  java -Xmx1g "-Djava.io.tmpdir=$dir" "${java_options[@]}" kafka.Kafka "$dir/server.properties" </dev/null >>"$dir/log" 2>&1 &
  pid=$!
  echo "$pid" >"$dir/pid"
  if [ -n "$watch" ] && ! pid_in "$dir/watch.pid" >/dev/null; then
    "$here/kafka.sh" watch "$watch" "$port" </dev/null >/dev/null 2>&1 &
    echo $! >"$dir/watch.pid"
  fi
  disown -a
  set +m

  local deadline=$((SECONDS + start_seconds))
  until answers "$port"; do
    alive "$pid" || failed "ended while starting"
    [ $SECONDS -lt $deadline ] || failed "did not answer within $start_seconds s"
    sleep 0.1
  done
  trap - INT TERM
  echo "127.0.0.1:$port"
}

failed() {
  tail -n 15 "$dir/log" >&2
  [ -n "$fresh" ] && remove || kill_in "$dir/pid"
  die "the broker on port $port $1; the end of its log stands above."
}

kill_in() {
  local pid
  pid=$(pid_in "$1") && [ "$pid" != $$ ] || return 0
  kill -9 "$pid" 2>/dev/null || true
  while alive "$pid"; do sleep 0.02; done
}

remove() {
  kill_in "$dir/watch.pid"
  kill_in "$dir/pid"
  rm -rf "$dir"
  rmdir "$state" 2>/dev/null || true
}

stop() {
  local port=9092 keep='' pid each
  for each in "$@"; do
    case $each in
      --keep) keep=yes ;;
      all) for dir in "$state"/*/; do [ ! -d "$dir" ] || { dir=${dir%/}; remove; }; done; return ;;
      *) port=$each ;;
    esac
  done
  dir=$state/$port
  [ -d "$dir" ] || die "no broker on port $port."
  if [ -z "$keep" ]; then remove; return; fi
  pid=$(pid_in "$dir/pid") || return 0
  kill "$pid"
  local deadline=$((SECONDS + stop_seconds))
  while alive "$pid"; do
    if [ $SECONDS -ge $deadline ]; then say "the broker on port $port did not end within $stop_seconds s: killed."; kill_in "$dir/pid"; fi
    sleep 0.05
  done
}

with() {
  local address
  [ $# -gt 0 ] || die "with what command? See kafka.sh help."
  address=$(start 0 --watch $$)
  dir=$state/${address##*:}
  trap remove EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM
  # No exec: the broker ends with the command, not at the watch's next look.
  KAFKA_BOOTSTRAP=$address "$@"
}

# The broker's guard: outlives whoever started the broker, even if that was killed with SIGKILL.
watch() {
  dir=$state/$2
  while alive "$1"; do sleep 0.2; done
  remove
}

status() {
  local found='' pid
  for dir in "$state"/${1:-*}/; do
    [ -d "$dir" ] || continue
    dir=${dir%/}
    if pid=$(pid_in "$dir/pid"); then
      found=yes
      echo "127.0.0.1:${dir##*/} process $pid, $(du -sh "$dir" | cut -f1) in $dir"
    else
      say "port ${dir##*/} is stopped, its data kept: $(du -sh "$dir" | cut -f1) in $dir"
    fi
  done
  [ -n "$found" ] || { say "No broker runs${1:+ on port $1}."; exit 3; }
}

tool() {
  local class
  case ${1:-} in
    kafka-topics) class=org.apache.kafka.tools.TopicCommand ;;
    kafka-configs) class=org.apache.kafka.tools.ConfigCommand ;;
    kafka-consumer-groups) class=org.apache.kafka.tools.consumer.group.ConsumerGroupCommand ;;
    kafka-console-consumer) class=org.apache.kafka.tools.consumer.ConsoleConsumer ;;
    kafka-console-producer) class=org.apache.kafka.tools.ConsoleProducer ;;
    kafka-producer-perf-test) class=org.apache.kafka.tools.ProducerPerformance ;;
    kafka-get-offsets) class=org.apache.kafka.tools.GetOffsetShell ;;
    kafka-transactions) class=org.apache.kafka.tools.TransactionsCommand ;;
    *) die "unknown tool \"${1:-}\"; there are kafka-topics, kafka-configs, kafka-consumer-groups, kafka-console-consumer, kafka-console-producer, kafka-producer-perf-test, kafka-get-offsets and kafka-transactions." ;;
  esac
  shift
  fetch
  # In our place, so that whoever signals us signals the tool.
  exec java "${tool_options[@]}" "$class" --bootstrap-server "${KAFKA_BOOTSTRAP:-127.0.0.1:9092}" "$@"
}

command=${1:-help}
[ $# -eq 0 ] || shift
case $command in
  start | stop | status | with | tool | fetch | watch) "$command" "$@" ;;
  env) status "${1:-9092}" >/dev/null && echo "export KAFKA_BOOTSTRAP=127.0.0.1:${1:-9092}" ;;
  help) sed -n '2,/^set/ s/^# \{0,1\}//p' "$here/kafka.sh" ;;
  *) die "unknown command \"$command\"; see kafka.sh help." ;;
esac
