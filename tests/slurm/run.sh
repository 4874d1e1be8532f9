#!/bin/sh
# Trains under Slurm, on a cluster of two nodes that cluster.sh starts on this machine.
# usage: tests/slurm/run.sh BUILD_FOLDER. Takes three minutes; needs the packages of cluster.sh.
# Prints "ok" or "FAILED" for each check, with the output of a failed one, and ends with "N passed, N failed". A check
# is skipped if Slurm or the build lacks the MPI library.
set -u

here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "$1" && pwd -P) || exit 1
. "$here/../support/launch_checks.sh"
export PATH="$build/bin:$PATH"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
work=$(mktemp -d /tmp/runner-slurm-XXXXXX) # a short path, for sockets
chmod 755 "$work"
export SLURM_CONF="$work/cluster/slurm.conf"
trap '"$here/cluster.sh" stop "$work/cluster"; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
"$here/cluster.sh" start "$work/cluster" 2 || exit 1

passed=0
failed=0

# check FUNCTION TEXT: runs the function in a folder of its own, where r.yaml is a short recipe and long.yaml one that
# takes many minutes.
check() {
  mkdir "$work/$1"
  recipe 3 >"$work/$1/r.yaml"
  recipe 10000000 >"$work/$1/long.yaml"
  (
    set -eux
    cd "$work/$1"
    "$1"
  ) >"$work/$1.log" 2>&1
  if [ $? -eq 0 ]; then
    passed=$((passed + 1))
    echo "ok      $2"
  else
    failed=$((failed + 1))
    echo "FAILED  $2"
    sed 's/^/        /' "$work/$1.log"
    scancel --user="$(id -un)" # so that the next checks find free CPUs
  fi
}

recipe() {
  cat <<EOF
schema_version: 1
name: small
seed: 3
model: {type: mlp, hidden: [16]}
data: {train: {format: synthetic, samples: 256, features: [8], classes: 4}, batch_size: 8}
optimizer: {type: adamw, lr: 0.01}
train: {epochs: $1}
log: {every: 1000 steps}
EOF
}

# Functions of checks. The store is in the current folder.

# Prints status and number of processes of each run.
runs() { runner sql "SELECT status, num_processes FROM runs ORDER BY created" --format csv | tail -n +2; }

# The tensors that 4 processes train without Slurm, by a recipe.
expected_tensors() {
  mkdir -p alone
  (cd alone && runner exec "../$1" num_processes=4 --quiet >/dev/null && tensors)
}

are_running() { [ "$(runs | grep -c '^running')" -eq "$1" ]; }
# A scontrol that gets no answer says nothing about the job.
has_ended() {
  job=$(scontrol show job "$1") || return 1
  ! echo "$job" | grep -q -E 'JobState=(PENDING|RUNNING|COMPLETING|REQUEUED|CONFIGURING)'
}

# Waits until a job has ended, and prints its state and exit code.
job_end() {
  wait_for 180 has_ended "$1"
  echo $(scontrol show job "$1" | sed -n 's/.*\(JobState\|ExitCode\)=\([^ ]*\).*/\2/p')
}

# The output has no colours, and only rank 0 prints.
is_plain() {
  same "$(grep -c "$(printf '\033')" "$1")" 0
  same "$(grep -c '^run .* done ' "$1")" 1
}

# The checks. TYPE is pmi2 or pmix.

trained_by_srun() {
  timeout 100 srun "$@" >output
  is_plain output
  same "$(runs)" "done,4"
  same "$(tensors)" "$(expected_tensors r.yaml)"
}
one_node() { trained_by_srun -n 4 "--mpi=$type" runner exec r.yaml; }
two_nodes() { trained_by_srun -N 2 -n 4 "--mpi=$type" runner exec r.yaml; }
two_hosts() { trained_by_srun -N 2 -n 4 "--mpi=$type" sh -c 'RUNNER_HOST=$SLURMD_NODENAME exec runner exec r.yaml'; }
one_node_pmi2() { one_node; }
one_node_pmix() { one_node; }
two_nodes_pmi2() { two_nodes; }
two_nodes_pmix() { two_nodes; }
two_hosts_pmi2() { two_hosts; }
two_hosts_pmix() { two_hosts; }

trained_by_mpirun() {
  timeout 100 sbatch --wait -N 2 -n 4 -o output --wrap "$1 -n 4 $2 runner exec r.yaml"
  is_plain output
  same "$(runs)" "done,4"
  same "$(tensors)" "$(expected_tensors r.yaml)"
}
mpirun_mpich() { trained_by_mpirun mpirun.mpich ""; }
mpirun_openmpi() { trained_by_mpirun mpirun.openmpi "--bind-to none"; }

without_pmi() {
  code=0
  timeout 100 srun -n 4 --mpi=none runner exec r.yaml 2>errors || code=$?
  same "$code" 2
  same "$(grep -c '^error: Slurm started 4 processes (SLURM_STEP_NUM_TASKS=4), which .* --mpi=pmi2' errors)" 4
  same "$(grep -c -v '^srun:' errors)" 4
  same "$(ls)" "$(printf 'errors\nlong.yaml\nr.yaml')"
}

batch_script() {
  timeout 100 sbatch --wait -n 4 -o output --wrap "runner exec r.yaml"
  is_plain output
  same "$(runs)" "done,1"
}
allocation() {
  timeout 100 salloc -n 4 runner exec r.yaml num_processes=4 >output
  same "$(runs)" "done,4"
  same "$(tensors)" "$(expected_tensors r.yaml)"
}
one_task() {
  timeout 100 srun -n 1 --mpi=pmi2 runner exec r.yaml num_processes=4 >output
  same "$(runs)" "done,4"
}
other_number() {
  code=0
  timeout 100 srun -n 4 "--mpi=$type" runner exec r.yaml num_processes=3 2>errors || code=$?
  same "$code" 2
  same "$(grep -c '^error: num_processes is 3, but the launcher has started 4 processes' errors)" 1
  same "$(grep -c '^error' errors)" 1
}

# interrupted SIGNAL OPTION…: sends a signal by scancel to a job of 4 ranks.
interrupted() {
  job=$(sbatch --parsable -n 4 -o output --wrap "srun --mpi=$type runner exec long.yaml; echo code \$?")
  wait_for 60 are_running 1
  scancel "$@" "$job"
  job_end "$job"
  cat output
  same "$(runs)" "interrupted,4"
  same "$(runner sql "SELECT count(*) FROM states" --format csv | tail -n 1)" 1
}
by_signal() {
  interrupted "$@"
  grep -q '^code 4$' output
}
by_term_pmi2() { by_signal --signal=TERM; }
by_term_pmix() { by_signal --signal=TERM; }
by_usr1_pmi2() { by_signal --signal=USR1; }
by_usr1_pmix() { by_signal --signal=USR1; }
by_cancel_pmi2() { interrupted; }
by_cancel_pmix() { interrupted; }

# Time limits have whole minutes. So the jobs run at the same time, each in a folder of its own.
start_limited() { # NAME OPTION… COMMAND
  folder=$1
  shift
  mkdir "$folder"
  cp long.yaml "$folder"
  (cd "$folder" && sbatch --parsable --time 1 -o output "$@" >job)
}
limited() { # NAME STATE_AND_EXIT_CODE
  end=$(job_end "$(cat "$1/job")")
  cat "$1/output"
  same "$(cd "$1" && runs | cut -d , -f 1)" interrupted
  same "$end" "$2"
}
time_limits() {
  start_limited of_tasks -n 2 --signal=USR1@50 --wrap "srun --mpi=$type runner exec long.yaml"
  start_limited of_script -n 1 --signal=B:USR1@50 --wrap "exec runner exec long.yaml"
  start_limited without_signal -n 2 --wrap "runner exec long.yaml num_processes=2"
  start_limited with_srun -n 2 --wrap "srun --mpi=$type runner exec long.yaml"
  limited of_tasks "FAILED 4:0"
  limited of_script "FAILED 4:0"
  # Slurm sends SIGTERM.
  limited without_signal "TIMEOUT 0:15"
  limited with_srun "TIMEOUT 0:15"
}

requeued() {
  recipe 6000 >medium.yaml
  cat >job.sh <<'EOF'
#!/bin/sh
if [ "${SLURM_RESTART_COUNT:-0}" -eq 0 ]; then
  srun "--mpi=$1" runner exec medium.yaml
else
  srun "--mpi=$1" runner resume @last
fi
code=$?
echo "code $code"
if [ "$code" -eq 4 ]; then
  scontrol requeue "$SLURM_JOB_ID"
  sleep 60
fi
exit "$code"
EOF
  job=$(sbatch --parsable --requeue -n 4 --open-mode=append -o output job.sh "$type")
  wait_for 60 are_running 1
  scancel --signal=USR1 "$job"
  sleep 2
  same "$(job_end "$job")" "COMPLETED 0:0"
  cat output
  same "$(grep '^code' output)" "$(printf 'code 4\ncode 0')"
  same "$(runs)" "done,4"
  same "$(tensors)" "$(expected_tensors medium.yaml)"
}

# requeued_by_key SCRIPT OPTION…: interrupts a job of 4 ranks, which requeues itself once.
requeued_by_key() {
  job=$(sbatch --parsable --open-mode=append -o output "$@")
  wait_for 60 are_running 1
  scancel --signal=TERM "$job"
  same "$(job_end "$job")" "COMPLETED 0:0"
  cat output
  same "$(grep -c "^requeued job $job" output)" 1
  same "$(runner sql "SELECT status, num_processes, attempts FROM runs" --format csv | tail -n +2)" "done,4,2"
  same "$(tensors)" "$(expected_tensors medium.yaml)"
}
key_in_own_script() {
  recipe 6000 >medium.yaml
  echo "slurm: {requeue: true}" >>medium.yaml
  printf '#!/bin/sh\nsrun --mpi=%s runner exec medium.yaml\n' "$type" >job.sh
  requeued_by_key --requeue -n 4 job.sh
}
launched_with_requeue() {
  recipe 6000 >medium.yaml
  runner launch slurm medium.yaml --tasks-per-node 4 --mpi "$type" --requeue --output job.sh
  requeued_by_key job.sh
}
cancelled_with_key() {
  recipe 10000000 >long.yaml
  echo "slurm: {requeue: true}" >>long.yaml
  job=$(sbatch --parsable --requeue -n 4 -o output --wrap "srun --mpi=$type runner exec long.yaml")
  wait_for 60 are_running 1
  scancel "$job"
  same "$(job_end "$job" | cut -d ' ' -f 1)" CANCELLED
  cat output
  same "$(runs)" "interrupted,4"
}

two_jobs() {
  recipe 3000 >medium.yaml
  first=$(sbatch --parsable -w node1 -n 2 -o output1 --wrap "srun --mpi=$type runner exec medium.yaml name=first")
  second=$(sbatch --parsable -w node1 -n 2 -o output2 --wrap "srun --mpi=$type runner exec medium.yaml name=second")
  wait_for 60 are_running 2
  job_end "$first"
  job_end "$second"
  cat output1 output2
  same "$(runs)" "$(printf 'done,2\ndone,2')"
}

killed_rank() {
  job=$(sbatch --parsable -n 4 -o output --wrap "srun --mpi=$type runner exec long.yaml; echo code \$?")
  wait_for 60 are_running 1
  kill -9 "$(processes | tail -n 1)"
  job_end "$job"
  cat output
  same "$(grep -c '^code 0' output)" 0
  same "$(runs | grep -c -v running)" 1
}

# Prints the ids of processes that train in these checks.
processes() {
  for process in /proc/[0-9]*; do
    case $(readlink "$process/cwd") in "$work"/*) ;; *) continue ;; esac
    case $(readlink "$process/exe") in "$build/bin/runner") basename "$process" ;; esac
  done
}
no_process_left() {
  sleep 1
  same "$(processes)" ""
}

check without_pmi "srun --mpi=none is refused, and nothing is recorded"
check batch_script "a batch script trains one run with one process"
check allocation "salloc trains one run"
check one_task "srun -n 1 starts the ranks of num_processes itself"
for type in pmi2 pmix; do
  case $type in pmi2) mpi=mpich ;; pmix) mpi=openmpi ;; esac
  if [ ! -e "$build/lib/runner/mpi-$mpi.so" ] || ! srun --mpi=list 2>&1 | grep -q "^[[:space:]]*$type\$"; then
    echo "skipped $type: Slurm lacks its plugin, or the build lacks $mpi"
    continue
  fi
  check "one_node_$type" "srun --mpi=$type trains the weights of num_processes=4"
  check "two_nodes_$type" "srun --mpi=$type on two nodes does, too"
  check "two_hosts_$type" "srun --mpi=$type does without shared memory, too"
  if command -v "mpirun.$mpi" >/dev/null; then
    check "mpirun_$mpi" "mpirun of $mpi in a job of two nodes does, too"
  fi
  check "by_term_$type" "$type: scancel --signal=TERM saves a state"
  check "by_usr1_$type" "$type: scancel --signal=USR1 saves a state"
  check "by_cancel_$type" "$type: scancel saves a state"
  last=$type
done
if [ -n "${last-}" ]; then
  check other_number "srun -n 4 with num_processes=3 is refused once"
  check time_limits "a state is saved before and at the time limit"
  check requeued "a requeued job resumes, and trains the same weights"
  check key_in_own_script "slurm.requeue requeues a job once, and the job continues the run"
  check launched_with_requeue "so does a script of launch slurm --requeue"
  check cancelled_with_key "a cancelled job is not requeued"
  check two_jobs "two jobs on a node at the same time finish"
  check killed_rank "the loss of a rank ends the job"
fi
check no_process_left "no process remains"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
