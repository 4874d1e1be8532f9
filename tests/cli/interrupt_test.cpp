#include "runner/cli/interrupt.h"

#include <csignal>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/cli/command.h"

namespace runner::cli {
namespace {

// What a child process that runs `body` ends with, and what it writes to stderr.
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
    if (std::freopen(path.c_str(), "w", stderr) == nullptr) ::_exit(99);
    body();
    ::_exit(0);
  }
  Ended ended;
  ::waitpid(child, &ended.status, 0);
  ended.err = testing::read_text(path);
  return ended;
}

TEST(Interrupt, TheFirstSignalIsCountedAndExplained) {
  const Ended ended = in_child([] {
    const Interrupt interrupt(false);
    if (interrupt.count() != 0) ::_exit(1);
    std::raise(SIGINT);
    if (interrupt.count() != 1) ::_exit(2);
  });
  EXPECT_EQ(ended.status, 0);
  EXPECT_EQ(ended.err, "interrupt: finishing the step and saving a state; again to stop now\n");
}

TEST(Interrupt, BeginsANewLineBelowALiveOne) {
  const Ended ended = in_child([] {
    const Interrupt interrupt(true);
    std::raise(SIGTERM);
  });
  EXPECT_EQ(ended.err, "\ninterrupt: finishing the step and saving a state; again to stop now\n");
}

TEST(Interrupt, TheSecondSignalEndsTheProcess) {
  for (const int second : {SIGINT, SIGTERM}) {
    const Ended ended = in_child([second] {
      const Interrupt interrupt(false);
      std::raise(SIGTERM);
      std::raise(second);
    });
    ASSERT_TRUE(WIFEXITED(ended.status));
    EXPECT_EQ(WEXITSTATUS(ended.status), 128 + second);
  }
}

TEST(Interrupt, LeavesASignalIgnoredThatWasIgnored) {
  const Ended ended = in_child([] {
    std::signal(SIGHUP, SIG_IGN);
    const Interrupt interrupt(false);
    std::raise(SIGHUP);
    if (interrupt.count() != 0) ::_exit(1);
  });
  EXPECT_EQ(ended.status, 0);
  EXPECT_EQ(ended.err, "");
}

TEST(Interrupt, PutsTheFormerHandlersBack) {
  const Ended ended = in_child([] {
    { const Interrupt interrupt(false); }
    std::raise(SIGTERM);
  });
  EXPECT_TRUE(WIFSIGNALED(ended.status));
}

}  // namespace
}  // namespace runner::cli
