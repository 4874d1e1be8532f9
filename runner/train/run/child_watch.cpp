#include "runner/train/run/child_watch.h"

#include <ctime>

#include <sys/wait.h>
#include <unistd.h>
#if defined(__linux__)
#include <sys/prctl.h>
#endif

#include "schema/base/error.h"

namespace runner::train {

ChildWatch::ChildWatch() {
  sigemptyset(&watched_);
  for (const int signal : {SIGCHLD, SIGINT, SIGTERM, SIGHUP}) sigaddset(&watched_, signal);
  pthread_sigmask(SIG_BLOCK, &watched_, &former_);
}

ChildWatch::~ChildWatch() {
  constexpr timespec kNow{};
  while (interrupted_ && sigtimedwait(&watched_, nullptr, &kNow) > 0) continue;
  restore();
}

void ChildWatch::enter_child(pid_t parent) const {
#if defined(__linux__)
  prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
  if (getppid() != parent) _exit(1);
  restore();
}

int ChildWatch::wait(pid_t child) const {
  int status = 0;
  for (;;) {
    int signal = 0;
    sigwait(&watched_, &signal);
    if (signal == SIGCHLD) {
      if (waitpid(child, &status, WNOHANG) == child) return status;
      continue;
    }
    interrupted_ = true;
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    fail(ErrorKind::kRun, "interrupted; the trainings were removed");
  }
}

void ChildWatch::restore() const {
  pthread_sigmask(SIG_SETMASK, &former_, nullptr);
}

}  // namespace runner::train
