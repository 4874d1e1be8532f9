#!/bin/sh
# Trains on three hosts, each a network namespace of this machine with a host name, an address and processes of its own.
# usage: tests/hosts/run.sh BUILD_FOLDER. Takes four minutes; needs root, iproute2 and util-linux.
# Prints "ok" or "FAILED" for each check, with the output of a failed one, and ends with "N passed, N failed". Ends with
# the reason, and code 0, if this machine cannot make network namespaces.
set -u

build=$(cd "$1" && pwd -P) || exit 1
. "$(dirname "$0")/../support/launch_checks.sh"
export PATH="$build/bin:$PATH:/usr/sbin:/sbin"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
hosts="h1 h2 h3"
prefix=runner$$
work=$(mktemp -d /tmp/runner-hosts-XXXXXX)
trap 'exit 130' INT TERM

skip() {
  echo "skipped: $1"
  rm -rf "$work"
  exit 0
}
[ "$(id -u)" -eq 0 ] || skip "network namespaces need root"
command -v ip >/dev/null || skip "ip is missing; install iproute2"
ip netns add "$prefix-net" 2>"$work/reason" || skip "cannot make a network namespace: $(cat "$work/reason")"

# ---- the hosts ------------------------------------------------------------------------------------------------------

in_host() { # HOST COMMAND…
  host=$1
  shift
  ip netns exec "$prefix-$host" unshare --uts sh -c 'hostname "$0" && exec "$@"' "$host" "$@"
}
processes_of() { ip netns pids "$prefix-$1"; }
# As after a power cut: no process can say goodbye.
kill_host() {
  touch "$work/gone.$1"
  processes=$(processes_of "$1")
  ip -n "$prefix-$1" link set eth0 down
  kill -KILL $processes
}
unplug() { ip -n "$prefix-$1" link set eth0 down; }
restore_hosts() {
  for host in $hosts; do
    processes=$(processes_of "$host")
    [ -z "$processes" ] || kill -KILL $processes
    ip -n "$prefix-$host" link set eth0 up
  done
  rm -f "$work"/gone.* "$work"/silent.* /dev/shm/vader_segment.h[123].*
}
remove_hosts() {
  for host in $hosts; do
    for process in $(processes_of "$host" 2>/dev/null); do kill -KILL "$process"; done
    ip netns delete "$prefix-$host" 2>/dev/null
    rm -rf "/etc/netns/$prefix-$host"
  done
  ip netns delete "$prefix-net"
  rm -rf "$work"
}
trap remove_hosts EXIT

# A host resolves its own name to 127.0.1.1, as Debian does. Other hosts cannot use that address.
ip -n "$prefix-net" link add bridge type bridge
ip -n "$prefix-net" link set bridge up
for host in $hosts; do
  number=${host#h}
  ip netns add "$prefix-$host"
  ip -n "$prefix-$host" link set lo up
  ip -n "$prefix-net" link add "to$host" type veth peer name eth0 netns "$prefix-$host"
  ip -n "$prefix-net" link set "to$host" master bridge up
  ip -n "$prefix-$host" address add "10.77.0.$number/24" dev eth0
  ip -n "$prefix-$host" link set eth0 up
  mkdir -p "/etc/netns/$prefix-$host"
  {
    echo "127.0.0.1 localhost"
    for other in $hosts; do
      [ "$other" = "$host" ] && echo "127.0.1.1 $other" || echo "10.77.0.${other#h} $other"
    done
  } >"/etc/netns/$prefix-$host/hosts"
done

# In place of ssh.
cat >"$work/ssh" <<END
#!/bin/sh
while case \$1 in -*) true ;; *) false ;; esac do shift; done
host=\$1
shift
[ ! -e "$work/gone.\$host" ] || exit 255
[ ! -e "$work/silent.\$host" ] || exec sleep 600
exec ip netns exec "$prefix-\$host" unshare --uts sh -c 'hostname "\$0" && exec sh -c "\$*"' "\$host" "\$@"
END
chmod +x "$work/ssh"
export OMPI_MCA_plm_rsh_agent="$work/ssh" HYDRA_LAUNCHER=ssh HYDRA_LAUNCHER_EXEC="$work/ssh"
export OMPI_MCA_btl_tcp_if_include=eth0 OMPI_MCA_oob_tcp_if_include=eth0 HYDRA_IFACE=eth0
# MPICH would find out that the hosts are one machine, and use shared memory.
export UCX_TLS=tcp,self UCX_NET_DEVICES=eth0 FI_PROVIDER=tcp FI_TCP_IFACE=eth0

# ---- checks ---------------------------------------------------------------------------------------------------------

passed=0
failed=0

# check FUNCTION TEXT: runs the function in a folder of its own, with the MPI library $mpi.
check() {
  mkdir "$work/$mpi-$1"
  write_recipe >"$work/$mpi-$1/r.yaml"
  (
    set -eux
    cd "$work/$mpi-$1"
    export RUNNER_MPI="$mpi"
    "$1"
  ) >"$work/$mpi-$1.log" 2>&1
  if [ $? -eq 0 ]; then
    passed=$((passed + 1))
    echo "ok      $mpi: $2"
  else
    failed=$((failed + 1))
    echo "FAILED  $mpi: $2"
    sed 's/^/        /' "$work/$mpi-$1.log"
  fi
  restore_hosts
}

write_recipe() {
  cat <<EOF_RECIPE
schema_version: 1
name: r
seed: 3
model: {type: mlp, hidden: [64, 64]}
data: {train: {format: synthetic, samples: 256, features: [8], classes: 4}, batch_size: 8}
optimizer: {type: adamw, lr: 0.01}
train: {steps: 200}
checkpoint: {every: 50 steps}
log: {every: 1000 steps}
collective_timeout: 3
EOF_RECIPE
}

count() { runner sql "SELECT count(*) FROM $1" --format csv | tail -n 1; }
has_states() { [ "$(count states)" -ge 1 ]; }
# The command runs on the first host.
train() { in_host h1 timeout 200 runner exec r.yaml --hosts h1:1,h2:2,h3:1 "$@"; }
# Starts a run that does not end by itself, and waits for a state.
start_long() {
  train train.steps=100000000 --json "$@" >out 2>err &
  run=$!
  wait_for 60 has_states
}
end_of_run() {
  code=0
  wait "$run" || code=$?
  cat out err
}
are_idle() { for host in "$@"; do [ -z "$(processes_of "$host")" ] || return 1; done; }
rank_processes() { for process in $(processes_of "$1"); do readlink "/proc/$process/exe"; done | grep -c "/bin/runner$"; }
# Prints the process of the program that has started mpirun, which only it has in its command line.
launcher_process() {
  for process in $(processes_of h1); do
    case $(readlink "/proc/$process/exe") in */bin/runner) ;; *) continue ;; esac
    tr '\0' '\n' <"/proc/$process/cmdline" | grep -q -x -e --hosts && echo "$process"
  done
}
has_no_ranks() { for host in $hosts; do [ "$(rank_processes "$host")" -eq 0 ] || return 1; done; }
# Counts files of shared memory. Those of a killed host's MPI are left, and would end with the host.
shared_memory() { ls /dev/shm | grep -c -E "^vader_segment\\.h[$1]\\.|^mpich" || true; }

same_weights() {
  runner exec r.yaml num_processes=4 name=own --quiet
  train name=remote --quiet
  same "$(tensors remote)" "$(tensors own)"
  same "$(runner sql "SELECT num_processes FROM runs WHERE name = 'remote'" --format csv | tail -n 1)" 4
  wait_for 10 are_idle $hosts
}
partition() {
  before=$(shared_memory 123)
  start_long
  unplug h2
  end_of_run
  same "$code" 1
  grep -q 'host h2 (ranks 1 to 2) did not reach .* within 3 s (collective_timeout)' err
  wait_for 100 has_no_ranks
  wait_for 10 are_idle h1 h3
  same "$(shared_memory 123)" "$before"
  runner resume @last num_processes=4 train.steps=100000000 --quiet & resumed=$!
  wait_for 30 has_attempts 2
  kill -TERM $resumed
  wait $resumed || same $? 4
}
has_attempts() { [ "$(count attempts)" -ge "$1" ]; }
lost_host() {
  before=$(shared_memory 13)
  start_long
  kill_host h2
  end_of_run
  same "$code" 1
  wait_for 100 are_idle $hosts
  same "$(shared_memory 13)" "$before"
}
restart_without_a_host() {
  start_long max_restarts=1
  kill_host h2
  wait_for 100 has_attempts 2
  same "$(runner sql "SELECT num_processes FROM runs" --format csv | tail -n 1)" 2
  same "$(runner show @last --recipe | grep -c 'gradient_accumulation_steps: 2\|"gradient_accumulation_steps": 2')" 1
  kill -TERM "$(launcher_process)"
  end_of_run
  same "$code" 4
  same "$(grep -c 'restart 1 of 1' out)" 1
}
silent_host() {
  touch "$work/silent.h2"
  train >out 2>err &
  run=$!
  wait_for 60 grep -q 'have not connected within 20 s' err
  for request in 1 2; do # the first one may be enough
    launcher=$(launcher_process) || true
    [ -z "$launcher" ] || kill -INT "$launcher"
  done
  end_of_run
  grep -q 'interrupted before the run began' err
}

for mpi in openmpi mpich; do
  if [ ! -e "$build/lib/runner/mpi-$mpi.so" ]; then
    echo "skipped $mpi: the build lacks it"
    continue
  fi
  check same_weights "three hosts train the weights of num_processes=4"
  check partition "a host without network is named, and no rank remains"
  check lost_host "a lost host ends the run"
  check silent_host "a host that ssh does not reach is reported"
  check restart_without_a_host "max_restarts continues without a lost host"
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
