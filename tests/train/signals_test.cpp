// Which threads of a run handle signals.
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/support/sanitizers.h"
#include "tests/train/run_fixture.h"

namespace runner::train {
namespace {

// Signal mask of a thread from the kernel: bit n − 1 for signal n.
uint64_t blocked_signals(const std::filesystem::path& task) {
  std::ifstream status(task / "status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("SigBlk:")) return std::stoull(line.substr(7), nullptr, 16);
  return 0;
}

class Signals : public RunFixture {};

// Another thread might handle a signal late, because it sleeps or is busy with an earlier step.
TEST_F(Signals, AreHandledByTheTrainingThread) {
  int others = 0, open = 0;
  const auto look = [&](const RunProgress&) {
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
      if (task.path().filename() == std::to_string(::gettid())) continue;
      ++others;
      open += (blocked_signals(task.path()) >> (SIGTERM - 1) & 1) == 0;
    }
  };
  ASSERT_EQ(train(kFourEpochs, {.overrides = {"threads=3"}, .on_step = look}).exit_code, 0);
  EXPECT_GT(others, 3 * 20) << "two workers and the loader, at each of 20 steps";
  if (support::kSanitized) return;  // a sanitizer has a thread of its own
  EXPECT_EQ(open, 0);
}

}  // namespace
}  // namespace runner::train
