#!/bin/sh
# Starts or stops a Slurm cluster on this machine, without systemd and cgroups.
# usage: tests/slurm/cluster.sh start|stop FOLDER [NODES]
#
# The nodes are node1, node2 …, by default one. Each has 4 CPUs, also on a smaller machine. FOLDER gets everything that
# belongs to the cluster: key, configuration, state and logs. `start` deletes what an earlier cluster left there. Use
# the cluster with SLURM_CONF=FOLDER/slurm.conf. Needs munge, slurmctld, slurmd and slurm-client, as in Debian 12. The
# daemons run as the user who starts them.
set -eu

PATH=$PATH:/usr/sbin:/sbin
export LC_ALL=C

die() {
  echo "cluster.sh: $*" >&2
  exit 1
}

[ $# -eq 2 ] || [ $# -eq 3 ] || die "usage: cluster.sh start|stop FOLDER [NODES]"
action=$1
nodes=${3:-1}
[ "$action" = stop ] || mkdir -p "$2"
folder=$(cd "$2" && pwd) || die "cannot open the folder $2"
export SLURM_CONF="$folder/slurm.conf"

# Prints the process id that the pid file of a daemon contains, or nothing if that process is no daemon that runs.
pid_in() {
  [ -s "$1" ] || return 0
  pid=$(cat "$1")
  case $(readlink "/proc/$pid/exe") in */munged | */slurmctld* | */slurmd*) echo "$pid" ;; esac
}

# Waits up to $1 seconds for a command to succeed.
wait_for() {
  tries=$(($1 * 10))
  shift
  until "$@" >/dev/null 2>&1; do
    tries=$((tries - 1))
    [ "$tries" -gt 0 ] || return 1
    sleep 0.1
  done
}

has_ended() { [ -z "$(pid_in "$1")" ]; }
has_no_jobs() { jobs=$(timeout 10 squeue --noheader) && [ -z "$jobs" ]; }
are_nodes_idle() { [ "$(timeout 10 sinfo --noheader --format '%D %t')" = "$nodes idle" ]; }

stop() {
  # Jobs end first, because they would outlive the daemons.
  if ! has_ended "$folder/slurmctld.pid"; then
    for job in $(timeout 10 squeue --noheader --format %A); do
      timeout 10 scancel "$job" || true
    done
    wait_for 30 has_no_jobs || echo "cluster.sh: jobs remain" >&2
  fi
  for file in "$folder"/node*.pid "$folder/slurmctld.pid" "$folder/munged.pid"; do
    pid=$(pid_in "$file")
    [ -n "$pid" ] || continue
    kill "$pid" || true
    wait_for 20 has_ended "$file" || kill -9 "$pid"
    rm -f "$file"
  done
}

# Prints the first of $2 successive TCP ports above $1 on which no process listens.
free_ports() {
  used=$(cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | awk '{ print $2 }')
  first=$1
  count=0
  while [ "$count" -lt "$2" ]; do
    case $used in
      *:"$(printf '%04X' $((first + count)))"*)
        first=$((first + count + 1))
        count=0
        ;;
      *) count=$((count + 1)) ;;
    esac
  done
  echo "$first"
}

write_configuration() {
  user=$(id -un)
  # Below the ports that the system gives to outgoing connections. Clusters that start at once try different ports.
  port=$(free_ports $((20000 + $$ % 10000)) $((nodes + 1)))
  # proctrack and task: without cgroups. config_overrides: more CPUs than the machine has. cred_expire: Slurm starts a
  # requeued job after this time.
  cat >"$SLURM_CONF" <<EOF
ClusterName=runner
SlurmctldHost=$(hostname)(127.0.0.1)
SlurmctldPort=$port
SlurmUser=$user
SlurmdUser=$user
AuthInfo=socket=$folder/munge.socket,cred_expire=5
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool/%n
TmpFS=$folder/tmp/%n
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/%n.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=bf_interval=1,sched_interval=2
MailProg=/bin/true
MpiDefault=none
ReturnToService=2
JobRequeue=1
KillWait=10
NodeName=node[1-$nodes] NodeHostname=$(hostname) NodeAddr=127.0.0.1 Port=[$((port + 1))-$((port + nodes))] CPUs=4
PartitionName=all Nodes=ALL Default=YES MaxTime=60
EOF
}

# Runs a command that starts a daemon and returns.
launch() {
  "$@" >"$folder/start.log" 2>&1 || die "$1 does not start: $(cat "$folder/start.log")"
}

start() {
  for program in mungekey munged slurmctld slurmd sinfo; do
    command -v "$program" >/dev/null || die "$program is missing; install munge, slurmctld, slurmd and slurm-client"
  done
  # The path of a socket has up to 107 bytes.
  [ ${#folder} -le 80 ] || die "the path of the folder is longer than 80 bytes: $folder"
  stop
  rm -rf "$folder/state" "$folder/spool" "$folder/tmp" "$folder"/munge.* "$folder"/*.log "$folder"/*.pid
  mkdir -p "$folder/state"
  for i in $(seq "$nodes"); do mkdir -p "$folder/spool/node$i" "$folder/tmp/node$i"; done

  launch mungekey --create --keyfile "$folder/munge.key"
  # --force: also in a folder that others can write.
  launch munged --force --key-file="$folder/munge.key" --socket="$folder/munge.socket" --pid-file="$folder/munged.pid" \
    --log-file="$folder/munged.log" --seed-file="$folder/munge.seed"
  write_configuration
  launch slurmctld -c
  for i in $(seq "$nodes"); do launch slurmd -N "node$i"; done
  if ! wait_for 60 are_nodes_idle; then
    tail -n 20 "$folder"/*.log >&2
    stop
    die "the nodes are not idle after 60 s"
  fi
}

case $action in
  start | stop) "$action" ;;
  *) die "unknown action $action" ;;
esac
