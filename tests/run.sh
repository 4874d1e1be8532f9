#!/bin/sh
# Runs every test binary of a build folder, two at a time, because many tests wait for the disk or for a process.
# usage: tests/run.sh BUILD_FOLDER [BINARIES_AT_A_TIME].
# Prints the tests that take over 2 s, and ends with "N passed, N failed".
set -u

here=$(dirname "$0")
results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT

# Most tests write small SQLite files. In memory, without waiting for the disk, store_tests takes half the time.
if [ -z "${TMPDIR-}" ] && [ -w /dev/shm ] && [ "$(df -Pk /dev/shm | awk 'NR == 2 { print $4 }')" -gt 1048576 ]; then
  TMPDIR=$(mktemp -d /dev/shm/runner-tests-XXXXXX)
  chmod 755 "$TMPDIR" # some tests work as another user
  export TMPDIR
  trap 'rm -rf "$results" "$TMPDIR"' EXIT
fi

# The longest first, to shorten the total time.
names="cli_tests train_tests store_tests docs_tests"
for binary in "$1"/bin/*_tests; do
  name=$(basename "$binary")
  case " $names " in *" $name "*) ;; *) names="$names $name" ;; esac
done
printf '%s\n' $names | xargs -n 1 -P "${2:-2}" "$here/run_binary.sh" "$1" "$results"

if [ -n "$(cat "$results"/*.times)" ]; then
  echo "slowest tests (over 2 s):"
  sort -k 1,1 -n -r "$results"/*.times | awk '{ printf "%8.1f s  %s  %s\n", $1 / 1000, $2, $3 }'
fi

passed=0
failed=0
for name in $names; do
  good=0
  bad=1  # if the binary left no result
  [ -s "$results/$name" ] && read -r good bad <"$results/$name"
  passed=$((passed + good))
  failed=$((failed + bad))
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
