#!/bin/sh
# Runs every fuzz target of a build folder for FUZZ_SECONDS (600) each. usage: tests/fuzz/run.sh BUILD_FOLDER [NAME…]
# Keeps the corpus of libFuzzer in BUILD_FOLDER/fuzz/NAME and failing inputs in BUILD_FOLDER/fuzz.
set -u

build=$1
shift
here=$(dirname "$0")
[ $# -eq 0 ] && set -- $(ls "$here/corpus")
failed=
for name in "$@"; do
  mkdir -p "$build/fuzz/$name"
  echo "fuzz $name"
  "$build/bin/fuzz_$name" -max_total_time="${FUZZ_SECONDS:-600}" -timeout=10 -max_len=4096 -print_final_stats=1 \
    -verbosity=0 -print_funcs=0 -dict="$here/dictionaries/$name.dict" -artifact_prefix="$build/fuzz/$name-" \
    "$build/fuzz/$name" "$here/corpus/$name" || failed="$failed $name"
done
[ -z "$failed" ] && exit 0
echo "fuzz: found something in$failed, see $build/fuzz" >&2
exit 1
