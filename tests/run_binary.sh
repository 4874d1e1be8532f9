#!/bin/sh
# Runs one test binary and prints the failures. Writes "PASSED FAILED" to RESULTS/NAME, and a line
# "MILLISECONDS NAME TEST" for each test that takes over 2 s to RESULTS/NAME.times.
# usage: tests/run_binary.sh BUILD_FOLDER RESULTS NAME. A crash, a hang or no test at all counts as one failure.
set -u

name=$3
log=$2/$name.log

# ThreadSanitizer of GCC 12 fails with the address space randomisation of newer kernels.
run=
case $1 in
  *tsan*)
    setarch -R true 2>/dev/null && run="setarch -R"
    export TSAN_OPTIONS="suppressions=$(dirname "$(realpath "$0")")/tsan.supp"
    ;;
esac

limit=900 # seconds; sanitizers take several times as long
case $1 in *asan* | *tsan*) limit=3600 ;; esac
started=$(date +%s)
timeout "$limit" $run "$1/bin/$name" --gtest_color=no >"$log" 2>&1
status=$?
good=$(sed -n 's/^\[  PASSED  \] \([0-9]*\) tests\{0,1\}\..*/\1/p' "$log" | tail -n 1)
bad=$(grep -c '^\[  FAILED  \] .* ([0-9]* ms)$' "$log")
good=${good:-0}
[ "$status" -ne 0 ] && [ "$bad" -eq 0 ] && bad=1
[ "$good" -eq 0 ] && [ "$bad" -eq 0 ] && bad=1
sed -n 's/^\[ *\(OK\|FAILED\) *\] \(.*\) (\([0-9]*\) ms)$/\3 '"$name"' \2/p' "$log" | awk '$1 > 2000' >"$2/$name.times"

if [ "$bad" -eq 0 ]; then
  : >"$log"
else
  # The output of a test is between its lines RUN and FAILED; after a crash there is no FAILED.
  grep -v '^\[--' "$log" | awk '/^\[ RUN/ { text = "" } { text = text $0 "\n" } /^\[       OK/ { text = "" } /^\[  FAILED/ { printf "%s", text; text = "" } END { printf "%s", text }' >"$log.failed"
  mv "$log.failed" "$log"
  [ "$status" -gt 1 ] && echo "$name ended with status $status" >>"$log"
fi
echo "$name: $good passed, $bad failed, $(($(date +%s) - started)) s" >>"$log"
cat "$log"
echo "$good $bad" >"$2/$name"
