#!/bin/sh
# Runs one test binary, prints what failed, and leaves "PASSED FAILED" in RESULTS/NAME.
# usage: tests/run_binary.sh BUILD_FOLDER RESULTS NAME.  A crash, a hang or no test at all counts as one failure.
set -u

name=$3
log=$2/$name.log

# ThreadSanitizer of GCC 12 cannot live with the address randomisation of newer kernels.
run=
case $1 in
  *tsan*)
    setarch -R true 2>/dev/null && run="setarch -R"
    export TSAN_OPTIONS="suppressions=$(dirname "$(realpath "$0")")/tsan.supp"
    ;;
esac

started=$(date +%s)
timeout 900 $run "$1/bin/$name" --gtest_brief=1 --gtest_color=no >"$log" 2>&1
status=$?
good=$(sed -n 's/^\[  PASSED  \] \([0-9]*\) tests\{0,1\}\..*/\1/p' "$log" | tail -n 1)
bad=$(grep -c '^\[  FAILED  \] .* ([0-9]* ms)$' "$log")
good=${good:-0}
[ "$status" -ne 0 ] && [ "$bad" -eq 0 ] && bad=1
[ "$good" -eq 0 ] && [ "$bad" -eq 0 ] && bad=1

[ "$bad" -eq 0 ] && : >"$log"
[ "$bad" -ne 0 ] && [ "$status" -gt 1 ] && echo "$name ended with status $status" >>"$log"
echo "$name: $good passed, $bad failed, $(($(date +%s) - started)) s" >>"$log"
cat "$log"
echo "$good $bad" >"$2/$name"
