// A process that watches children may receive more than one signal: `timeout` sends one to the process and one to its
// group.
#include "runner/train/run/child_watch.h"

#include <csignal>
#include <cstdlib>

#include <gtest/gtest.h>
#include <unistd.h>

#include "schema/base/error.h"

namespace runner::train {
namespace {

// Returns 0 if it was interrupted exactly once and survived.
int end_after_two_signals() {
  bool reported = false;
  try {
    const ChildWatch watch;
    const pid_t parent = getpid(), child = fork();
    if (child == 0) {
      watch.enter_child(parent);
      for (;;) pause();
    }
    raise(SIGTERM);
    try {
      watch.wait(child);
    } catch (const Error&) {
      raise(SIGTERM);
      throw;
    }
  } catch (const Error& error) {
    reported = error.kind() == ErrorKind::kRun;
  }
  return reported ? 0 : 1;
}

TEST(ChildWatchDeathTest, ASecondSignalIsIgnored) {
  EXPECT_EXIT(std::exit(end_after_two_signals()), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace runner::train
