# Functions of the scripts that check runs under Slurm and on hosts. The store is in the current folder.

same() {
  if [ "$1" != "$2" ]; then
    echo "expected: $2"
    echo "found:    $1"
    return 1
  fi
}

# Waits up to $1 seconds for a command to succeed. Without trace.
wait_for() (
  set +ex
  tries=$(($1 * 5))
  shift
  until "$@"; do
    tries=$((tries - 1))
    [ "$tries" -gt 0 ] || exit 1
    sleep 0.2
  done
) 2>/dev/null

# Prints a checksum of the tensors of a run, by default of the newest, without the header of the file.
tensors() {
  runner export "${1:-@last}" --model model.safetensors >/dev/null
  header=$(od -A n -t u8 -N 8 model.safetensors | tr -d ' ')
  tail -c +$((header + 9)) model.safetensors | sha256sum
  rm model.safetensors
}
