// Ranks that mpirun starts: the results, what is printed, and the ends of processes.
#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/cli/command.h"

namespace runner::cli::testing {
namespace {

namespace fs = std::filesystem;

struct Launcher {
  const char* name;
  const char* module;
  const char* command;        // starts processes on this machine
  const char* rank_variable;  // that it sets for each process
  // Whether it lets the other processes end by themselves when one is killed.
  bool grants_time;
};

constexpr Launcher kLaunchers[] = {
    {"OpenMpi", "openmpi",
     "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun.openmpi --oversubscribe --bind-to none",
     "OMPI_COMM_WORLD_RANK", true},
    {"Mpich", "mpich", "mpirun.mpich", "PMI_RANK", false},
};

constexpr const char* kRecipe = R"(schema_version: 1
name: r
model: {type: mlp, hidden: [16], dropout: 0.25}
data: {train: {format: synthetic, samples: 96, features: [6], classes: 3}, batch_size: 4}
optimizer: {type: adamw, lr: 0.01}
train: {epochs: 2}
)";

// It has gradients of several pieces, each larger than a message between hosts.
constexpr const char* kWide = R"(schema_version: 1
model: {type: mlp, hidden: [300, 400]}
data: {train: {format: synthetic, samples: 32, features: [6], classes: 3}, batch_size: 4}
optimizer: {type: sgd, lr: 0.01}
train: {epochs: 1}
)";

// It does not end by itself.
constexpr const char* kLong = R"(schema_version: 1
name: long
model: {type: mlp, hidden: [16]}
data: {train: {format: synthetic, samples: 64, features: [6], classes: 3}, batch_size: 4}
optimizer: {type: sgd, lr: 0.01}
train: {steps: 100000000}
checkpoint: {every: 50 steps, keep_last: 2}
num_processes: 4
)";

class LaunchedRuns : public ::testing::TestWithParam<Launcher> {
 protected:
  void SetUp() override {
    if (run(fmt::format("command -v {}", std::string(command()).substr(command().find("mpirun"), 14))).exit_code != 0)
      GTEST_SKIP() << "the launcher is not installed";
    write_text(file("r.yaml"), kRecipe);
    write_text(file("wide.yaml"), kWide);
    write_text(file("long.yaml"), kLong);
  }

  std::string command() const { return GetParam().command; }
  fs::path file(const std::string& name) const { return folder_.path() / name; }
  Result run(const std::string& text) const { return run_command(text, folder_.path()); }

  // Runs `arguments` of runner with a number of processes on each of the hosts a, b, …
  Result launch(const std::vector<int>& counts, const std::string& arguments) const {
    return run(launch_line(counts, arguments));
  }
  std::string launch_line(const std::vector<int>& counts, const std::string& arguments) const {
    std::vector<std::string> parts;
    for (const int count : counts)
      parts.push_back(fmt::format("-n {} env RUNNER_HOST={} sh -c 'echo $$ > pid.${}; exec runner {}'", count,
                                  static_cast<char>('a' + parts.size()), GetParam().rank_variable, arguments));
    return fmt::format("{} {}", command(), fmt::join(parts, " : "));
  }

  std::string weights(const std::string& selector) const {
    const Result result = run(fmt::format("runner export {} --model m.safetensors", selector));
    EXPECT_EQ(result.exit_code, 0) << result.err;
    // The header has the name of the run.
    const std::string text = read_text(file("m.safetensors"));
    uint64_t header = 0;
    std::copy_n(text.begin(), sizeof header, reinterpret_cast<char*>(&header));
    return text.substr(sizeof header + header);
  }

  // Starts long.yaml on the hosts, sends a signal to a rank once two states are saved, and waits for the end.
  Result signal_rank(const std::vector<int>& counts, const char* signal, int rank, int timeout_s = 600) const {
    return run(fmt::format(
        R"sh({} > out 2> err & launcher=$!
until [ "$(runner sql 'SELECT count(*) FROM states' --format csv 2>/dev/null | tail -n 1)" = 2 ]; do
  kill -0 $launcher || exit 99
done
kill -{} $(cat pid.{})
wait $launcher; code=$?
cat out; cat err >&2
tries=100
for pid in $(cat pid.*); do
  while [ -e /proc/$pid/exe ] && [ $((tries -= 1)) -gt 0 ]; do sleep 0.1; done
  [ -e /proc/$pid/exe ] && echo "process $pid is left" >&2
done
exit $code)sh",
        "timeout 60 env " + launch_line(counts, fmt::format("exec long.yaml --quiet collective_timeout={}", timeout_s)),
        signal, rank));
  }

  // Runs a command on two hosts with three ranks, and `meanwhile` at the same time. A program in place of ssh starts
  // each host's part on this machine. Open MPI's shared memory would take the hosts for one.
  Result run_on_hosts(const std::string& command, const std::string& meanwhile = "") const {
    write_text(file("ssh"), "#!/bin/sh\nfor last; do :; done\nexec sh -c \"$last\"\n");
    fs::permissions(file("ssh"), fs::perms::owner_all);
    return run(fmt::format(
        R"sh(export RUNNER_MPI={} OMPI_MCA_plm_rsh_agent=$PWD/ssh OMPI_MCA_btl=tcp,self OMPI_MCA_btl_tcp_if_include=lo
export HYDRA_LAUNCHER=ssh HYDRA_LAUNCHER_EXEC=$PWD/ssh
# Prints the process of rank $1 in this folder.
process_of() {{
  for process in $(grep -l -z -x "{}=$1" /proc/[0-9]*/environ 2>/dev/null | cut -d / -f 3); do
    case $(readlink "/proc/$process/cwd")/$(readlink "/proc/$process/exe") in "$PWD"/*/bin/runner) echo "$process" ;; esac
  done
}}
count() {{ runner sql "SELECT count(*) FROM $1" --format csv 2>/dev/null | tail -n 1; }}
timeout 100 {} --hosts 127.0.0.1:1,localhost:2 > out 2> err & run=$!
(
:
{}
)
wait $run; code=$?
cat out; cat err >&2
exit $code)sh",
        GetParam().module, GetParam().rank_variable, command, meanwhile));
  }

 private:
  Folder folder_;
};

INSTANTIATE_TEST_SUITE_P(, LaunchedRuns, ::testing::ValuesIn(kLaunchers),
                         [](const auto& parameter) { return std::string(parameter.param.name); });

// ---- results -------------------------------------------------------------------------------------------------------

TEST_P(LaunchedRuns, HaveTheSameWeightsHoweverRanksAreDivided) {
  for (const char* const backend : {"cpu", "gpu", "tpu"}) {
    const std::string arguments = fmt::format("exec r.yaml --quiet backend={}", backend);
    ASSERT_EQ(run(fmt::format("runner {} num_processes=4 name=own", arguments)).exit_code, 0);
    const std::string expected = weights("own");
    for (const std::vector<int>& counts : {std::vector{4}, {2, 2}, {1, 2, 1}}) {
      SCOPED_TRACE(fmt::format("{}, {} hosts", backend, counts.size()));
      const Result result = launch(counts, arguments);
      EXPECT_EQ(result.exit_code, 0) << result.err;
      EXPECT_EQ(weights("r"), expected);
    }
  }
}

TEST_P(LaunchedRuns, PassLargeGradientsBetweenHosts) {
  ASSERT_EQ(run("runner exec wide.yaml num_processes=3 name=own --quiet").exit_code, 0);
  const Result result = launch({1, 2}, "exec wide.yaml name=launched --quiet");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(weights("launched"), weights("own"));
}

// Only the connection tells how many processes there are.
TEST_P(LaunchedRuns, AreOneRunWithAServerAtAPort) {
  if (GetParam().module != std::string_view("mpich")) GTEST_SKIP() << "is an option of MPICH";
  const Result result = run("mpirun.mpich -pmi-port -n 2 runner exec r.yaml --quiet");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(run("runner sql 'SELECT num_processes FROM runs' --format csv").out, "num_processes\n2\n");
}

TEST_P(LaunchedRuns, PrintOneDocument) {
  const Result result = launch({1, 1}, "exec r.yaml --json");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out.substr(0, 2), "{\n");
  EXPECT_EQ(result.out.find("\n{"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("\"num_processes\": 2"), std::string::npos) << result.out;
  EXPECT_EQ(run("runner sql 'SELECT count(*) FROM runs' --format csv").out, "count(*)\n1\n");
}

TEST_P(LaunchedRuns, ResumeWithAnotherDivision) {
  ASSERT_EQ(launch({2, 2}, "exec r.yaml train.epochs=4 name=whole --quiet").exit_code, 0);
  ASSERT_EQ(launch({1, 3}, "exec r.yaml name=parts --quiet").exit_code, 0);
  const Result result = launch({3, 1}, "resume parts train.epochs=4 --quiet");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(weights("parts"), weights("whole"));
}

TEST_P(LaunchedRuns, RunOnHostsOverSsh) {
  ASSERT_EQ(run("runner exec r.yaml num_processes=3 name=own --quiet").exit_code, 0);
  const Result result = run_on_hosts("runner exec r.yaml name=remote --quiet");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(weights("remote"), weights("own"));
}

// ---- continued runs ------------------------------------------------------------------------------------------------

constexpr const char* kLongOnHosts =
    "runner exec long.yaml num_processes=3 train.steps=40000 'log.every=1000 steps' --json";
// Waits for the state number $1 and kills the process of rank $2.
constexpr const char* kKill = R"sh(
kill_at() {
  until [ "$(count states)" -ge 1 ] && [ "$(count attempts)" -eq "$1" ]; do kill -0 $run || exit; done
  until process=$(process_of "$2") && [ -n "$process" ]; do kill -0 $run || exit; done
  kill -KILL $process
}
)sh";

void expect_one_document(const std::string& out) {
  EXPECT_EQ(out.substr(0, 2), "{\n");
  EXPECT_EQ(out.find("\n{"), std::string::npos) << out;
  EXPECT_EQ(out.substr(out.size() - std::min<size_t>(3, out.size())), "\n}\n") << out;
}

TEST_P(LaunchedRuns, ContinueOnHostsAfterTheLossOfAProcess) {
  ASSERT_EQ(run(std::string(kLongOnHosts) + " name=own").exit_code, 0);
  const std::string expected = weights("own");
  fs::remove(file("runner.db"));
  const Result result = run_on_hosts(std::string(kLongOnHosts) + " max_restarts=3",
                                     std::string(kKill) + "kill_at 1 1; kill_at 2 0; kill_at 3 2");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  expect_one_document(result.out);
  EXPECT_NE(result.out.find("\"status\": \"done\""), std::string::npos) << result.out;
  for (const char* const restart : {"; restart 1 of 3\"", "; restart 2 of 3\"", "; restart 3 of 3\""})
    EXPECT_NE(result.out.find(restart), std::string::npos) << restart << '\n' << result.out;
  EXPECT_EQ(run("runner sql 'SELECT attempts FROM runs' --format csv").out, "attempts\n4\n");
  EXPECT_TRUE(weights("@last") == expected);
}

TEST_P(LaunchedRuns, FailOnHostsAfterTooManyLosses) {
  const Result result =
      run_on_hosts(std::string(kLongOnHosts) + " max_restarts=1", std::string(kKill) + "kill_at 1 1; kill_at 2 1");
  EXPECT_EQ(result.exit_code, 1) << result.err;
  expect_one_document(result.out);
  EXPECT_NE(result.out.find("\"status\": \"failed\""), std::string::npos) << result.out;
  EXPECT_EQ(run("runner sql 'SELECT attempts FROM runs' --format csv").out, "attempts\n2\n");
  EXPECT_EQ(run("runner resume @last num_processes=1 train.steps=40001 --quiet").exit_code, 0);
}

TEST_P(LaunchedRuns, AreNotContinuedAfterAnError) {
  write_text(file("hook.lua"), R"(return {
  on_step_end = function(acc)
    if acc.process_index == 1 and acc.step == 60 then error("out of luck") end
  end,
}
)");
  const Result result = run_on_hosts(std::string(kLongOnHosts) + " max_restarts=3 hooks=hook.lua");
  EXPECT_EQ(result.exit_code, 1) << result.err;
  expect_one_document(result.out);
  EXPECT_NE(result.err.find("error: hook.lua:3: rank 1, after 60 steps: out of luck"), std::string::npos) << result.err;
  EXPECT_EQ(run("runner sql 'SELECT attempts FROM runs' --format csv").out, "attempts\n1\n");
}

TEST_P(LaunchedRuns, AreNotContinuedAfterAnInterruption) {
  const Result result =
      run_on_hosts("runner exec long.yaml num_processes=3 max_restarts=3 --json",
                   "until [ \"$(count states)\" -ge 1 ]; do kill -0 $run || exit; done; kill -INT $run");
  EXPECT_EQ(result.exit_code, 4) << result.err;
  expect_one_document(result.out);
  EXPECT_EQ(run("runner sql 'SELECT status, attempts FROM runs' --format csv").out, "status,attempts\ninterrupted,1\n");
}

// A shell script in place of mpirun of Open MPI. `attempt`: what the attempt number $n does; `probe`: the end of a
// program that tests whether a host answers.
class FakeMpirun : public ::testing::Test {
 protected:
  void SetUp() override {
    if (run_command("command -v mpirun.openmpi", folder_.path()).exit_code != 0)
      GTEST_SKIP() << "the launcher is not installed";
    write_text(folder_.path() / "r.yaml", kRecipe);
  }

  // Appends the number of attempts to the output.
  Result run(const std::string& attempt, const std::string& probe = "exit 0",
             const std::string& hosts = "localhost:2") const {
    write_text(folder_.path() / "mpirun.openmpi", fmt::format(R"sh(#!/bin/sh
case "$*" in *" version") {}; exit ;; esac
echo attempt >>attempts
n=$(wc -l <attempts)
begun() {{ printf '\036{{"run": "abc", "name": "r", "max_restarts": %s}}\n' "$1"; }}
ended() {{ printf '\036{{"exit_code": 0, "lost_process": false, "message": "", "error": "", "data": "the end"}}\n'; }}
{}
)sh",
                                                              probe, attempt));
    fs::permissions(folder_.path() / "mpirun.openmpi", fs::perms::owner_all);
    return run_command(fmt::format(R"sh(export RUNNER_MPI=openmpi PATH=$PWD:$PATH
code=0
timeout --foreground 60 runner exec r.yaml --hosts {} || code=$?
echo "; attempts: $(wc -l <attempts)"
exit $code)sh",
                                   hosts),
                       folder_.path());
  }
  std::string contents(const char* file) const { return read_text(folder_.path() / file); }
  // Whether the process ends within three seconds whose id the script has written to the file "pid".
  bool has_ended() const {
    const char* const command = R"sh(for i in $(seq 30); do kill -0 "$(cat pid)" || exit 0; sleep 0.1; done; exit 1)sh";
    return run_command(command, folder_.path()).exit_code == 0;
  }

 private:
  Folder folder_;
};

TEST_F(FakeMpirun, MustReportTheEndOfARun) {
  const Result result = run("begun 0; exit 0");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_NE(result.err.find("exited with code 0; `runner resume abc` continues the run"), std::string::npos)
      << result.err;
}

TEST_F(FakeMpirun, MustPrintSomething) {
  const Result result = run("exit 0");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_NE(result.err.find("exited with code 0, but rank 0 has printed nothing"), std::string::npos) << result.err;
}

TEST_F(FakeMpirun, ContinuesARunWhoseRestartWasLostBeforeItBegan) {
  const Result result = run("case $n in 1) begun 2; kill -9 $$ ;; 2) kill -9 $$ ;; 3) begun 2; ended ;; esac");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, "the end; attempts: 3\n");
}

TEST_F(FakeMpirun, LosesARunWhoseRestartsDoNotBegin) {
  const Result result = run("[ $n -gt 1 ] || begun 2; kill -9 $$");
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.out, "; attempts: 3\n");
  EXPECT_NE(result.err.find("was ended by signal 9; `runner resume abc` continues the run"), std::string::npos)
      << result.err;
}

TEST_F(FakeMpirun, IsNotStartedAgainAfterAnInterruptionWhileHostsAreTested) {
  const Result result = run("begun 1; kill -9 $$", "kill -TERM $PPID; exec sleep 30");
  EXPECT_EQ(result.exit_code, 4) << result.err;
  EXPECT_EQ(result.out, "; attempts: 1\n");
  EXPECT_NE(result.err.find("interrupted before the run continued; `runner resume abc` continues the run"),
            std::string::npos)
      << result.err;
}

// The first request comes before the ranks can get it.
TEST_F(FakeMpirun, GetsARequestUntilTheRunHasEnded) {
  for (const char* const signal : {"TERM", "USR1", "USR2"}) {
    const Result result = run(fmt::format(
        "got=0; trap 'got=$((got + 1)); [ $got -lt 2 ] || {{ begun 0; ended; exit 0; }}' USR1; kill -{} $PPID\n"
        "while :; do sleep 0.1; done",
        signal));
    EXPECT_EQ(result.exit_code, 0) << signal << result.err;
    EXPECT_NE(result.out.find("the end"), std::string::npos) << signal;
  }
}

TEST_F(FakeMpirun, MayBeInterruptedBeforeTheRunBegins) {
  for (const int code : {0, 3}) {
    const Result result = run(fmt::format("trap 'exit {}' USR1; kill -TERM $PPID; while :; do sleep 0.1; done", code));
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_NE(result.err.find("error: interrupted before the run began; nothing was recorded"), std::string::npos)
        << result.err;
  }
}

TEST_F(FakeMpirun, NamesTheHostsThatAreLeftOut) {
  const Result result =
      run("[ $n -gt 1 ] && { printenv RUNNER_EARLIER_ATTEMPTS >earlier; begun 1; ended; exit; }\n"
          "begun 1; kill -9 $$",
          "case \"$*\" in *gone*) exit 1 ;; esac; exit 0", "localhost:2,gone:2");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(contents("earlier").find("restart 1 of 1, without gone, which does not answer"), std::string::npos)
      << contents("earlier");
}

TEST_F(FakeMpirun, IsKilledSomeTimeAfterTheSecondRequest) {
  run("trap '' TERM USR1; echo $$ >pid; begun 0; kill -TERM $PPID; sleep 0.5; kill -TERM $PPID\n"
      "while :; do sleep 1; done");
  EXPECT_TRUE(has_ended());
}

TEST_F(FakeMpirun, EndsWithTheProgram) {
  run("echo $$ >pid; begun 0; kill -KILL $PPID; exec sleep 50");
  EXPECT_TRUE(has_ended());
}

// ---- what is wrong -------------------------------------------------------------------------------------------------

// The launcher adds lines of its own.
void expect_once(const std::string& text, const std::string& line) {
  const size_t first = text.find(line);
  EXPECT_NE(first, std::string::npos) << text;
  if (first == std::string::npos) return;
  EXPECT_EQ(text.find(line, first + 1), std::string::npos) << text;
}

TEST_P(LaunchedRuns, ReportAWrongRecipeOnce) {
  const Result result = launch({2, 1}, "exec r.yaml train.epoch=3");
  EXPECT_EQ(result.exit_code, 2);
  expect_once(result.err, "unknown key train.epoch");
  expect_once(launch({3}, "exec --frobnicate").err, "--frobnicate");
}

TEST_P(LaunchedRuns, NeedAsManyProcessesAsRanks) {
  const Result result = launch({3}, "exec r.yaml num_processes=2");
  EXPECT_EQ(result.exit_code, 2);
  expect_once(result.err,
              "error: num_processes is 2, but the launcher has started 3 processes, one for each rank; start 2 "
              "processes, or set num_processes=3");
}

TEST_P(LaunchedRuns, NeedTheSameCommandLine) {
  for (const char* const other : {"wide.yaml", "--frobnicate"}) {
    const Result result = run(fmt::format("{} -n 1 runner exec r.yaml : -n 1 runner exec {}", command(), other));
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_NE(result.err.find("error: the processes have different command lines: `exec r.yaml` on host "),
              std::string::npos)
        << result.err;
  }
  EXPECT_FALSE(fs::exists(file("runner.db")));
}

// Each process opens the file of its own folder.
TEST_P(LaunchedRuns, NeedTheSameDataOnAllHosts) {
  for (const char* const host : {"a", "b"}) {
    fs::create_directory(file(host));
    write_text(file(host) / "data.csv", fmt::format("x,y\n1,no\n2,{}\n3,no\n2,yes\n", *host == 'a' ? "yes" : "no"));
  }
  write_text(file("csv.yaml"), R"(schema_version: 1
model: {type: linear}
data: {train: {format: csv, path: /proc/self/cwd/data.csv}, batch_size: 1}
optimizer: {type: sgd, lr: 0.1}
train: {epochs: 1}
)");
  const auto part = [&](const char* host) {
    return fmt::format("-n 1 env RUNNER_HOST={0} sh -c \"cd {0}; exec runner exec ../csv.yaml\"", host);
  };
  const Result result = run(fmt::format("{} {} : {}", command(), part("a"), part("b")));
  EXPECT_EQ(result.exit_code, 2) << result.err;
  expect_once(result.err, "rank 1 on host b has other data than rank 0 on host a: data.train is ");
}

// The first rank of each host reads them.
TEST_P(LaunchedRuns, ShareTheDataOfTheirHost) {
  std::string rows = "x,y,l\n";
  for (int i = 0; i < 40; ++i) rows += fmt::format("{},{},{}\n", i % 7, i % 5 == 0 ? "" : "2.5", i % 3);
  write_text(file("data.csv"), rows);
  for (const char* const how : {"split: {eval: 0.25}", "stream: true"}) {
    SCOPED_TRACE(how);
    write_text(file("csv.yaml"), fmt::format(R"(schema_version: 1
model: {{type: mlp, hidden: [8]}}
data:
  train: {{format: csv, path: data.csv, missing: mean}}
  {}
  normalize: standard
  batch_size: 2
optimizer: {{type: sgd, lr: 0.1}}
train: {{epochs: 2}}
)",
                                             how));
    ASSERT_EQ(run("runner exec csv.yaml num_processes=4 name=own --quiet").exit_code, 0);
    const Result result = launch({2, 2}, "exec csv.yaml name=launched --quiet");
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(weights("launched"), weights("own"));
  }
}

TEST_P(LaunchedRuns, AreIndependentIfConnectionsAreOff) {
  const Result result = launch({2}, "exec r.yaml --quiet --db s-$" + std::string(GetParam().rank_variable) + ".db");
  EXPECT_EQ(result.exit_code, 2) << result.err;  // two command lines
  const Result independent =
      run(fmt::format("{} -n 2 env RUNNER_MPI=off runner exec r.yaml --quiet > /dev/null", command()));
  EXPECT_EQ(independent.exit_code, 0) << independent.err;
  EXPECT_EQ(run("runner sql 'SELECT count(*) FROM runs' --format csv").out, "count(*)\n2\n");
}

TEST_P(LaunchedRuns, NeedTheModuleOfTheLibrary) {
  const Result result = run(fmt::format("{} -n 2 env RUNNER_MPI=lam runner exec r.yaml", command()));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE(result.err.find("error: the launcher connects its processes by lam, but this build has only "),
            std::string::npos)
      << result.err;
}

// ---- the ends of processes -----------------------------------------------------------------------------------------

TEST_P(LaunchedRuns, SaveAStateTogetherWhenOneIsAskedToStop) {
  for (const char* const signal : {"TERM", "USR1", "USR2"}) {
    SCOPED_TRACE(signal);
    const Result result = signal_rank({2, 2}, signal, 3);
    EXPECT_EQ(result.exit_code, 4) << result.err;
    EXPECT_EQ(result.err.find("is left"), std::string::npos) << result.err;
    EXPECT_EQ(run("runner sql \"SELECT status FROM runs\" --format csv").out, "status\ninterrupted\n");
    fs::remove(file("runner.db"));
  }
}

// MPICH kills the other processes at once, so only its own message tells the reason.
TEST_P(LaunchedRuns, EndWhenOneIsKilled) {
  for (const std::vector<int>& counts : {std::vector{4}, {2, 2}, {3, 1}}) {
    const Result result = signal_rank(counts, "KILL", 3);
    EXPECT_NE(result.exit_code, 0);
    EXPECT_EQ(result.err.find("is left"), std::string::npos) << result.err;
    const char* const name = counts.size() == 1 ? "rank 3" : "rank 3 on host b";
    if (GetParam().grants_time && counts.back() > 1)  // no other rank of its host sees the end
      expect_once(result.err, fmt::format("error: the process of {} has ended; it last called ", name));
    EXPECT_EQ(run("runner sql 'SELECT count(*) >= 2 AS kept FROM states' --format csv").out, "kept\n1\n");
    fs::remove(file("runner.db"));
  }
}

TEST_P(LaunchedRuns, EndWhenRank0IsKilled) {
  const Result result = signal_rank({2, 2}, "KILL", 0);
  EXPECT_NE(result.exit_code, 0);
  EXPECT_EQ(result.err.find("is left"), std::string::npos) << result.err;
  EXPECT_EQ(run("runner sql 'SELECT status FROM runs' --format csv").out, "status\ncrashed\n");
}

TEST_P(LaunchedRuns, EndWhenOnlyRank0HasAnError) {
  write_text(file("hook.lua"), R"(return {
  on_step_end = function(acc)
    if acc.process_index == 0 and acc.step == 60 then error("out of luck") end
  end,
}
)");
  const Result result = run("timeout 60 env " + launch_line({2, 2}, "exec long.yaml --quiet hooks=hook.lua"));
  EXPECT_EQ(result.exit_code, 1) << result.err;
  expect_once(result.err, "out of luck");
}

TEST_P(LaunchedRuns, CannotStartOtherHosts) {
  const Result result = launch({2}, "exec r.yaml --hosts a,b");
  EXPECT_EQ(result.exit_code, 2);
  expect_once(result.err, "error: --hosts cannot be used in processes that a launcher has started; remove it");
}

TEST_P(LaunchedRuns, NameAProcessThatHangs) {
  for (const std::vector<int>& counts : {std::vector{4}, {3, 1}}) {
    const Result result = signal_rank(counts, "STOP", 3, /*timeout_s=*/1);
    EXPECT_NE(result.exit_code, 0);
    EXPECT_EQ(result.err.find("is left"), std::string::npos) << result.err;
    const char* const name = counts.size() == 1 ? "rank 3 did not reach " : "host b (rank 3) did not reach ";
    expect_once(result.err, name);
    EXPECT_NE(result.err.find("within 1 s (collective_timeout)"), std::string::npos) << result.err;
    fs::remove(file("runner.db"));
  }
}

}  // namespace
}  // namespace runner::cli::testing
