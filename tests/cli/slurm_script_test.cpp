#include "runner/cli/slurm_script.h"

#include <gtest/gtest.h>

#include "runner/cli/shell_word.h"
#include "schema/base/utf8.h"
#include "tests/cli/command.h"

namespace runner::cli {
namespace {

using testing::Folder;
using testing::Result;
using testing::run_command;

TEST(SlurmScript, HasAllOptions) {
  EXPECT_EQ(slurm_script({.runner = "/opt/runner",
                          .recipe = "/home/a b/r.yaml",
                          .store = "/home/a b/it's.db",
                          .name = "digits",
                          .settings = {"optimizer.lr=0.1", "vars.text=$HOME \"x\""},
                          .nodes = 2,
                          .tasks_per_node = 4,
                          .cpus_per_task = 8,
                          .time = "1-12",
                          .partition = "short,long",
                          .mpi = "pmix",
                          .max_restarts = 2,
                          .requeue = true}),
            R"(#!/bin/sh
#SBATCH --job-name=digits
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=8
#SBATCH --time=1-12
#SBATCH --partition=short,long
#SBATCH --output=%x-%j.log
#SBATCH --open-mode=append
#SBATCH --signal=USR1@120
#SBATCH --requeue

set -eu
runner=/opt/runner
recipe='/home/a b/r.yaml'
store='/home/a b/it'\''s.db'

# The id of this job, also if it is an element of an array.
job=$SLURM_JOB_ID
if [ -n "${SLURM_ARRAY_TASK_ID:-}" ]; then job=${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID; fi
run=digits-$job

# Trains. If $1 is above 0, resumes the run, or begins again if it has no state yet.
train() {
  states=
  if [ "$1" -gt 0 ] && [ -e "$store" ]; then
    states=$("$runner" states "$run" --db "$store") || {
      code=$?
      [ "$code" -eq 3 ] || exit "$code"
    }
  fi
  if [ -n "$states" ]; then
    set -- resume "$run"
  else
    set -- exec "$recipe" 'optimizer.lr=0.1' 'vars.text=$HOME "x"' "name=$run"
  fi
  # Slurm 22.05 does not pass --cpus-per-task of the job on to srun. The ranks of a run leave together. If one of them
  # ends alone, the others end by themselves, or else --wait kills them after two minutes.
  code=0
  srun --cpus-per-task="$SLURM_CPUS_PER_TASK" --mpi=pmix --export=ALL --kill-on-bad-exit=0 --wait=120 \
    "$runner" "$@" --db "$store" </dev/null || code=$?
}
train "${SLURM_RESTART_COUNT:-0}"

# Exit codes above 128: a signal has ended a process.
restarts=0
while [ "$code" -gt 128 ] && [ "$restarts" -lt 2 ]; do
  restarts=$((restarts + 1))
  echo "a process of the run has ended, exit code $code; restart $restarts of 2" >&2
  train 1
done
exit "$code"
)");
}

// A job without options.
SlurmJob job_of(const std::string& recipe) {
  return {.runner = "/opt/runner",
          .recipe = recipe,
          .store = "/s.db",
          .name = "r",
          .settings = {},
          .time = "",
          .partition = "",
          .mpi = ""};
}

TEST(SlurmScript, LeavesOutWhatIsNotGiven) {
  const std::string script = slurm_script(job_of("/r.yaml"));
  for (const char* absent : {"--time", "--partition", "--mpi", "requeue"})
    EXPECT_EQ(script.find(absent), std::string::npos) << absent;
  EXPECT_NE(script.find("#SBATCH --nodes=1\n#SBATCH --ntasks-per-node=1\n#SBATCH --cpus-per-task=1\n"),
            std::string::npos);
}

// A batch script may have directives only before its first command.
TEST(SlurmScript, BeginsWithTheDirectives) {
  const std::string script = slurm_script(job_of("/r\n#SBATCH --nodes=9"));
  EXPECT_LT(script.find("set -eu"), script.find("nodes=9"));
}

TEST(SlurmJobName, HasNoSigns) {
  EXPECT_EQ(slurm_job_name("digits_2.b+c"), "digits_2.b+c");
  EXPECT_EQ(slurm_job_name("it's a/b"), "it-s-a-b");
  EXPECT_EQ(slurm_job_name("--x*?%j\n#"), "x---j--");
  EXPECT_EQ(slurm_job_name("größe"), "größe");
  EXPECT_EQ(slurm_job_name("a\xff\u202e"), "a--");
  EXPECT_EQ(slurm_job_name("-"), "run");
  EXPECT_EQ(slurm_job_name(""), "run");
  std::string longest;
  for (int i = 0; i < 200; ++i) longest += "ö";
  EXPECT_EQ(count_characters(slurm_job_name(longest)), 150);
}

TEST(SlurmSeconds, ReadsTheFormatsOfSlurm) {
  EXPECT_EQ(slurm_seconds("90"), 90 * 60);
  EXPECT_EQ(slurm_seconds("0"), 0);
  EXPECT_EQ(slurm_seconds("5:30"), 330);
  EXPECT_EQ(slurm_seconds("4:00:00"), 4 * 3600);
  EXPECT_EQ(slurm_seconds("04:00:09"), 4 * 3600 + 9);
  EXPECT_EQ(slurm_seconds("1-12"), 36 * 3600);
  EXPECT_EQ(slurm_seconds("1-12:30"), 36 * 3600 + 1800);
  EXPECT_EQ(slurm_seconds("1-12:30:05"), 36 * 3600 + 1805);
  for (const char* wrong : {"", "4h", "1:2:3:4", "1-", "-1", "1-2-3", "1-2:3:4:5", "1:", ":1", "1::2", " 1", "1 ", "+1",
                            "1.5", "99999999999999999999", "1-1:-1", "UNLIMITED"})
    EXPECT_EQ(slurm_seconds(wrong), std::nullopt) << wrong;
}

TEST(ShellWord, IsReadByAShellAsItIs) {
  const Folder folder;
  for (const char* text :
       {"plain", "", "a b", "it's", "$HOME", "`ls`", "a\nb", "\\", "\"", "~", "*", "#", "a=b", "-n"}) {
    const Result result = run_command("printf %s_ " + shell_word(text), folder.path());
    EXPECT_EQ(result.out, std::string(text) + "_") << shell_word(text);
  }
}

}  // namespace
}  // namespace runner::cli
