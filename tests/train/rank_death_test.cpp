// A rank dies at each of its collectives or within one, in each way. The run must end soon, name the rank, and leave no
// process behind.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <regex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/dist/shared_memory.h"
#include "runner/train/run/rank_processes.h"
#include "schema/base/error.h"
#include "tests/support/paths.h"
#include "tests/train/run_fixture.h"

namespace runner::train {
namespace {

constexpr const char* kMortals = R"(schema_version: 1
name: mortals
model: {type: mlp, hidden: [8]}
data:
  train: {format: synthetic, samples: 24, features: [5], classes: 3}
  eval: {format: synthetic, samples: 10, features: [5], classes: 3}
  batch_size: 4
optimizer: {type: adam, lr: 0.01}
train: {epochs: 1, clip_grad_norm: 1, early_stopping: {patience: 5}}
num_processes: 3
checkpoint: {every: 1 step}
log: {every: 1 step}
)";

struct Death {
  const char* way;
  const char* message;  // pattern that the message must match after the rank
};

class MortalRun : public RunFixture {
 protected:
  // Returns the error of a run in which `rank` ends at its call number `call` in the way `way`; empty if it makes fewer
  // calls.
  std::string error_at(int rank, int call, const char* way, std::vector<std::string> overrides = {}) {
    ::setenv("MORTAL_RANK", std::to_string(rank).c_str(), 1);
    ::setenv("MORTAL_CALL", std::to_string(call).c_str(), 1);
    ::setenv("MORTAL_END", way, 1);
    const Options options{.store = fmt::format("{}.db", call),
                          .overrides = std::move(overrides),
                          .rank_program = support::build_path("bin/mortal_rank")};
    const auto began = std::chrono::steady_clock::now();
    const std::string error = error_of(options);
    // Far less than collective_timeout, by which the run would end otherwise; under sanitizers on a busy machine the
    // run itself takes seconds.
    EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(60));
    EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "a child process is left";
    return error;
  }

 private:
  std::string error_of(const Options& options) {
    try {
      const RunResult result = train(kMortals, options);
      EXPECT_EQ(result.exit_code, result.error ? 1 : 0);
      return result.error ? result.error->message : "";
    } catch (const Error& error) {  // before the run is recorded
      EXPECT_EQ(exit_code(error.kind()), 2);
      return error.message();
    }
  }
};

class RankDeath : public MortalRun, public ::testing::WithParamInterface<Death> {};

TEST_P(RankDeath, AtAnyCollectiveEndsTheRun) {
  for (const int rank : {1, 2}) {
    int call = 0;
    for (;; ++call) {
      SCOPED_TRACE(fmt::format("rank {}, call {}", rank, call));
      const std::string error = error_at(rank, call, GetParam().way);
      if (error.empty()) break;
      const std::regex expected(fmt::format("rank {}{}[^]*", rank, GetParam().message));
      EXPECT_TRUE(std::regex_match(error, expected)) << error;
    }
    EXPECT_GT(call, 15) << "expected more calls in such a run";
  }
}

// Asked to stop before or while waiting: no rank waits for ranks that were not started.
TEST(RankProcesses, DoNotBeginIfStoppedBeforeTheyStart) {
  const std::atomic<int> stop = 1;
  RankProcesses ranks(3, {.job = "", .program = "/nowhere", .stop = &stop});
  EXPECT_FALSE(ranks.launcher().begin());
  EXPECT_TRUE(ranks.launcher().stopped_at_start());
  EXPECT_THROW(ranks.group().barrier({"the others"}), Error);
}

INSTANTIATE_TEST_SUITE_P(
    Ways, RankDeath,
    ::testing::Values(Death{"kill",
                            " was killed by signal 9 \\(Killed\\); it (last called|has called no collective yet)"},
                      Death{"exit", " exited with code 7; it (last called|has called no collective yet)"},
                      Death{"throw", "(, after [0-9]+ steps?)?: its time has come"}),
    [](const auto& instance) { return std::string(instance.param.way); });

// Weights of 512 · 256 are reduced in three pieces. In "reading" it dies at the last piece while the others wait for
// it; in "writing" at the first one, when the others have continued with the next.
TEST_F(MortalRun, InsideACollectiveEndsTheRun) {
  constexpr int kAfterAll = 1000;
  for (const char* way : {"reading", "writing"})
    for (const int rank : {1, 2}) {
      const std::string error =
          error_at(rank, kAfterAll, way, {"model.hidden=[512, 256]", "train.local_sgd.every=2 steps"});
      EXPECT_TRUE(error.starts_with(fmt::format("rank {} ", rank))) << error;
      EXPECT_NE(error.find("; it last called all_reduce of weights, (1"), std::string::npos) << error;
    }
}

// Exit statuses of all processes that this one has inherited; empty if they take too long.
std::vector<int> ends_of_all_processes() {
  std::vector<int> ends;
  const auto latest = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  while (std::chrono::steady_clock::now() < latest) {
    int status = 0;
    const pid_t ended = ::waitpid(-1, &status, WNOHANG);
    if (ended < 0) return ends;
    if (ended > 0) ends.push_back(status);
    if (ended == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ADD_FAILURE() << "a child process is left";
  return {};
}

std::set<std::string> shared_memory_with_names() {
  std::set<std::string> names;
  for (const auto& file : std::filesystem::directory_iterator("/dev/shm")) names.insert(file.path());
  return names;
}

// Rank 1 kills rank 0 before each of its calls, so at an arbitrary point. This process adopts the orphans.
TEST_F(MortalRun, OtherRanksDieWithRank0) {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  const std::set<std::string> names = shared_memory_with_names();
  for (int call = 0; call < 20; ++call) {
    SCOPED_TRACE(fmt::format("call {}", call));
    if (::fork() == 0) {
      error_at(1, call, "parent");
      ::_exit(9);  // it has survived
    }
    const std::vector<int> ends = ends_of_all_processes();
    EXPECT_GE(ends.size(), call == 0 ? 2u : 3u);  // with call 0, the last rank may not have been started
    EXPECT_TRUE(std::ranges::any_of(ends, [](int end) { return WIFSIGNALED(end) && WTERMSIG(end) == SIGKILL; }));
    EXPECT_TRUE(std::ranges::none_of(ends, [](int end) { return WIFEXITED(end) && WEXITSTATUS(end) == 9; }));
  }
  EXPECT_EQ(shared_memory_with_names(), names);
  ::prctl(PR_SET_CHILD_SUBREAPER, 0);
}

// Starts 32 processes with too few descriptors. Returns the error and whether a process is left.
std::string start_without_descriptors() {
  const int next = ::dup(0);
  ::close(next);
  const rlimit few{static_cast<rlim_t>(next) + 7, static_cast<rlim_t>(next) + 7};
  ::setrlimit(RLIMIT_NOFILE, &few);
  std::string text = "no error";
  try {
    const RankProcesses ranks(32, {.job = "", .program = support::build_path("bin/mortal_rank")});
  } catch (const Error& error) {
    text = error.message();
  }
  return text + (::waitpid(-1, nullptr, WNOHANG) == -1 ? "" : "; a process is left");
}

TEST(RankProcessesStart, LeavesNoProcessIfStartFails) {
  backends::SharedMemory answer(4096);
  const pid_t child = ::fork();  // the limit cannot be raised again
  if (child == 0) {
    std::ranges::copy(start_without_descriptors(), reinterpret_cast<char*>(answer.bytes().data()));
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  const std::string text = reinterpret_cast<const char*>(answer.bytes().data());
  const std::regex expected(
      "cannot start the process of rank [3-9]: Too many open files; the limit is [0-9]+ per process, raise `ulimit "
      "-n`; use a smaller num_processes");
  EXPECT_TRUE(std::regex_match(text, expected)) << text;
}

}  // namespace
}  // namespace runner::train
