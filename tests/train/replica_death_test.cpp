// A replica ends at each of its collectives, in each way: the run ends soon, says who it was, and leaves nothing
// behind.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <regex>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/collectives/shared_memory.h"
#include "runner/train/replicas.h"
#include "schema/error.h"
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
  const char* message;  // begins with it, behind the rank
};

class ReplicaDeath : public RunFixture, public ::testing::WithParamInterface<Death> {
 protected:
  // What the run says when `rank` ends at its call number `call`; empty: it has not come to that.
  std::string error_at(int rank, int call) {
    ::setenv("MORTAL_RANK", std::to_string(rank).c_str(), 1);
    ::setenv("MORTAL_CALL", std::to_string(call).c_str(), 1);
    ::setenv("MORTAL_END", GetParam().way, 1);
    const Options options{.store = fmt::format("{}.db", call), .replica_program = MORTAL_REPLICA};
    try {
      const RunResult result = train(kMortals, options);
      EXPECT_EQ(result.exit_code, result.error ? 1 : 0);
      return result.error ? result.error->message : "";
    } catch (const Error& error) {  // before the run is recorded
      EXPECT_EQ(exit_code(error.kind()), 1);
      return error.message();
    }
  }
};

TEST_P(ReplicaDeath, AtAnyCollectiveEndsTheRun) {
  for (const int rank : {1, 2}) {
    int call = 0;
    for (;; ++call) {
      SCOPED_TRACE(fmt::format("rank {}, call {}", rank, call));
      const auto began = std::chrono::steady_clock::now();
      const std::string error = error_at(rank, call);
      EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(5));
      EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "a process is left";
      if (error.empty()) break;
      EXPECT_TRUE(error.starts_with(fmt::format("rank {}{}", rank, GetParam().message))) << error;
    }
    EXPECT_GT(call, 15) << "there are more calls in such a run";
  }
}

// Whether they are asked before anybody looks or while they wait: nobody waits for those that were not started.
TEST(Replicas, AskedToStopBeforeTheyStartNeverBegin) {
  const std::atomic<int> stop = 1;
  Replicas replicas(3, {.job = "", .program = "/nowhere", .stop = &stop});
  EXPECT_FALSE(replicas.begin());
  EXPECT_TRUE(replicas.stopped_at_start());
  EXPECT_THROW(replicas.collectives().barrier({"the others"}), Error);
}

INSTANTIATE_TEST_SUITE_P(Ways, ReplicaDeath,
                         ::testing::Values(Death{"kill", " was killed by signal 9 (Killed); its newest call was "},
                                           Death{"exit", " has ended with exit code 7; its newest call was "},
                                           Death{"throw", ": its time has come"}),
                         [](const auto& instance) { return std::string(instance.param.way); });

// Starts 32 processes where there are descriptors for a few: the error, and whether a process is left.
std::string start_without_descriptors() {
  const int next = ::dup(0);
  ::close(next);
  const rlimit few{static_cast<rlim_t>(next) + 7, static_cast<rlim_t>(next) + 7};
  ::setrlimit(RLIMIT_NOFILE, &few);
  std::string text = "no error";
  try {
    const Replicas replicas(32, {.job = "", .program = MORTAL_REPLICA});
  } catch (const Error& error) {
    text = error.message();
  }
  return text + (::waitpid(-1, nullptr, WNOHANG) == -1 ? "" : "; a process is left");
}

TEST(ReplicasStart, LeavesNothingBehindWhereTheSystemCannot) {
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
      "cannot start the process of rank [3-9]: Too many open files; a process may have [0-9]+ here, raise `ulimit -n`; "
      "a "
      "smaller num_processes needs less");
  EXPECT_TRUE(std::regex_match(text, expected)) << text;
}

}  // namespace
}  // namespace runner::train
