// Who watches children is told to end by more than one signal: `timeout` sends two, to the process and to its group.
#include "runner/train/replicas/child_watch.h"

#include <csignal>
#include <cstdlib>

#include <gtest/gtest.h>
#include <unistd.h>

#include "schema/error.h"

namespace runner::train {
namespace {

// 0: it has been told once that it is interrupted, and lives on.
int end_behind_two_signals() {
  bool told = false;
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
    told = error.kind() == ErrorKind::kRun;
  }
  return told ? 0 : 1;
}

TEST(ChildWatchDeathTest, ASecondSignalAsksForNoMoreThanTheFirst) {
  EXPECT_EXIT(std::exit(end_behind_two_signals()), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace runner::train
