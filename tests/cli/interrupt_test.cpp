#include "runner/cli/interrupt.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <regex>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/cli/command.h"
#include "tests/support/paths.h"

namespace runner::cli {
namespace {

// Exit status and stderr of a child process that runs `body`.
struct Ended {
  int status = 0;
  std::string err;
};

template <class Body>
Ended in_child(Body body) {
  const testing::Folder folder;
  const std::string path = (folder.path() / "err").string();
  const pid_t child = ::fork();
  if (child == 0) {
    for (const int signal : {SIGHUP, SIGINT, SIGTERM}) std::signal(signal, SIG_DFL);  // a background job ignores SIGINT
    if (std::freopen(path.c_str(), "w", stderr) == nullptr) ::_exit(99);
    body();
    ::_exit(0);
  }
  Ended ended;
  ::waitpid(child, &ended.status, 0);
  ended.err = testing::read_text(path);
  return ended;
}

TEST(Interrupt, FirstSignalIsCountedAndExplained) {
  const Ended ended = in_child([] {
    Interrupt interrupt(Interrupt::Messages::kPlain);
    interrupt.run_has_begun(true);
    if (interrupt.count() != 0) ::_exit(1);
    std::raise(SIGINT);
    if (interrupt.count() != 1) ::_exit(2);
  });
  EXPECT_EQ(ended.status, 0);
  EXPECT_EQ(ended.err, "interrupt: finishing the step and saving a state; press Ctrl-C again to stop now\n");
}

TEST(Interrupt, PromisesNoStateBeforeTheRunBegins) {
  const Ended ended = in_child([] {
    { Interrupt(Interrupt::Messages::kPlain).run_has_begun(true); }
    const Interrupt interrupt(Interrupt::Messages::kPlain);
    std::raise(SIGINT);
  });
  EXPECT_EQ(ended.err, "interrupt: stopping before the first step; press Ctrl-C again to stop now\n");
}

TEST(Interrupt, MessageBeginsBelowARedrawnLine) {
  const Ended ended = in_child([] {
    Interrupt interrupt(Interrupt::Messages::kOnNewLine);
    interrupt.run_has_begun(true);
    std::raise(SIGTERM);
  });
  EXPECT_EQ(ended.err, "\ninterrupt: finishing the step and saving a state; press Ctrl-C again to stop now\n");
}

TEST(Interrupt, SecondSignalEndsTheProcess) {
  for (const int second : {SIGINT, SIGTERM}) {
    const Ended ended = in_child([second] {
      const Interrupt interrupt(Interrupt::Messages::kPlain);
      std::raise(SIGTERM);
      std::raise(second);
    });
    ASSERT_TRUE(WIFEXITED(ended.status));
    EXPECT_EQ(WEXITSTATUS(ended.status), 128 + second);
  }
}

TEST(Interrupt, SecondTerminationByALauncherHasNoEffect) {
  const Ended ended = in_child([] {
    ::setenv("SLURM_STEP_NUM_TASKS", "1", 1);
    ::setenv("SLURM_PROCID", "0", 1);
    const Interrupt interrupt(Interrupt::Messages::kPlain);
    std::raise(SIGTERM);
    std::raise(SIGTERM);
    if (interrupt.count() != 2) ::_exit(1);
  });
  EXPECT_EQ(ended.status, 0);
}

TEST(Interrupt, IgnoredSignalStaysIgnored) {
  const Ended ended = in_child([] {
    std::signal(SIGHUP, SIG_IGN);
    const Interrupt interrupt(Interrupt::Messages::kPlain);
    std::raise(SIGHUP);
    if (interrupt.count() != 0) ::_exit(1);
  });
  EXPECT_EQ(ended.status, 0);
  EXPECT_EQ(ended.err, "");
}

TEST(Interrupt, RestoresThePreviousHandlers) {
  const Ended ended = in_child([] {
    { const Interrupt interrupt(Interrupt::Messages::kPlain); }
    std::raise(SIGTERM);
  });
  EXPECT_TRUE(WIFSIGNALED(ended.status));
}

// Tests a real Ctrl-C: runs `runner exec long.yaml` in `folder` and interrupts it after it has written `sign`.
Ended interrupted_at(const testing::Folder& folder, std::string_view sign) {
  Ended ended;
  int talk[2];
  if (::pipe(talk) != 0) return ended;
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(talk[0]);
    std::signal(SIGINT, SIG_DFL);  // the shell may have started the tests with SIGINT ignored
    if (::chdir(folder.path().c_str()) != 0 || ::dup2(talk[1], 2) != 2 || std::freopen("out", "w", stdout) == nullptr)
      ::_exit(99);
    ::execl(support::build_path("bin/runner").c_str(), "runner", "exec", "long.yaml", nullptr);
    ::_exit(98);
  }
  ::close(talk[1]);
  bool interrupted = false;
  char buffer[4096];
  for (ssize_t count = 0; (count = ::read(talk[0], buffer, sizeof buffer)) > 0;) {
    ended.err.append(buffer, static_cast<size_t>(count));
    if (interrupted || ended.err.find(sign) == std::string::npos) continue;
    interrupted = true;
    ::kill(child, SIGINT);
  }
  ::close(talk[0]);
  ::waitpid(child, &ended.status, 0);
  return ended;
}

void expect_saved_at_interrupt(const testing::Folder& folder, std::string_view sign) {
  const auto [status, err] = interrupted_at(folder, sign);
  ASSERT_TRUE(WIFEXITED(status)) << err;
  EXPECT_EQ(WEXITSTATUS(status), 4) << err;
  EXPECT_NE(err.find("interrupt: finishing the step and saving a state; press Ctrl-C again to stop now\n"),
            std::string::npos)
      << err;
  const testing::Result states = testing::run_command(
      "runner sql \"SELECT r.status, s.reason FROM runs r JOIN states s USING (run)\" --format csv", folder.path());
  EXPECT_EQ(states.out, "status,reason\ninterrupted,interrupt\n");
}

constexpr const char* kLongRecipe = R"(
schema_version: 1
model: {type: linear}
data: {train: {format: synthetic, samples: 64, features: [4], classes: 2}, split: {eval: 0.25}, batch_size: 8}
optimizer: {type: sgd, lr: 0.01}
train: {epochs: 1000000}
eval: {every: 100 epochs}
)";

TEST(Interrupt, SigintSavesAState) {
  const testing::Folder folder;
  testing::write_text(folder.path() / "long.yaml", kLongRecipe);
  expect_saved_at_interrupt(folder, "\nstep");
}

TEST(Interrupt, SigintEndsALoopThatCatchesAllErrors) {
  const testing::Folder folder;
  testing::write_text(folder.path() / "long.yaml", fmt::format("{}hooks: h.lua\n", kLongRecipe));
  testing::write_text(folder.path() / "h.lua", R"(
local nn = require "nn"
local function train_an_epoch(acc)
  for batch in acc:batches() do
    acc:backward(nn.cross_entropy(acc.model(batch.features), batch.labels))
    acc.optimizer:step()
    acc.optimizer:zero_grad()
  end
end
return {train = function(acc)
  acc:print("training")
  while true do pcall(train_an_epoch, acc) end
end}
)");
  expect_saved_at_interrupt(folder, "training\n");
}

constexpr const char* kHookedRecipe = R"(
schema_version: 1
hooks: h.lua
include: backend.yaml
data: {train: {format: synthetic, samples: 64, features: [4], classes: 2}, batch_size: 8}
optimizer: {type: sgd, lr: 0.01}
train: {epochs: 1000000}
)";

// The hook's model() is called before the run is recorded.
TEST(Interrupt, SigintDuringPreparationRecordsNothing) {
  for (const char* backend : {"{backend: cpu}", "{backend: cpu, num_processes: 2}", "{backend: gpu, num_processes: 8}",
                              "{backend: tpu, num_processes: 8}"}) {
    SCOPED_TRACE(backend);
    const testing::Folder folder;
    testing::write_text(folder.path() / "backend.yaml", backend);
    testing::write_text(folder.path() / "long.yaml", kHookedRecipe);
    testing::write_text(folder.path() / "h.lua", R"(
local nn = require "nn"
return {model = function()
  print("preparing")
  for i = 1, 2e7 do end
  return nn.Linear(4, 2)
end}
)");
    const auto [status, err] = interrupted_at(folder, "preparing\n");
    ASSERT_TRUE(WIFEXITED(status)) << err;
    EXPECT_EQ(WEXITSTATUS(status), 1) << err;
    EXPECT_NE(
        err.find("interrupt: stopping before the first step; press Ctrl-C again to stop now\nerror: interrupted "),
        std::string::npos)
        << err;
    EXPECT_FALSE(std::filesystem::exists(folder.path() / "runner.db"));
  }
}

// The step of an endless hook cannot be finished.
TEST(Interrupt, SigintEndsAnEndlessHook) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer delays signals until the next intercepted call, and a loop in Lua makes none";
#endif
  const testing::Folder folder;
  testing::write_text(folder.path() / "long.yaml", fmt::format("{}hooks: h.lua\n", kLongRecipe));
  testing::write_text(folder.path() / "h.lua", R"(
return {on_step_end = function(acc)
  acc:print("looping")
  while true do
    local t = {}
    for i = 1, 1e5 do t[i] = ("x"):rep(1000) end
  end
end}
)");
  const auto [status, err] = interrupted_at(folder, "looping\n");
  ASSERT_TRUE(WIFEXITED(status)) << err;
  EXPECT_EQ(WEXITSTATUS(status), 1) << err;
  // A slow machine reaches the limit of CPU time first.
  EXPECT_TRUE(std::regex_search(err, std::regex("the hook has run for (100 million Lua instructions|1 s of CPU time) "
                                                "after the run was interrupted: is there an endless loop\\?\n")))
      << err;
}

}  // namespace
}  // namespace runner::cli
