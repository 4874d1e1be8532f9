// Supervises a child process so that an interrupted command leaves nothing running.
//
// While the object exists, wait() handles the signals that would otherwise end this process. Use it on the only thread
// of a single-threaded process.
#pragma once

#include <csignal>

#include <sys/types.h>

namespace runner::train {

class ChildWatch {
 public:
  ChildWatch();
  ~ChildWatch();
  ChildWatch(const ChildWatch&) = delete;
  ChildWatch& operator=(const ChildWatch&) = delete;

  // Call in the child. It then dies with its parent, and signals have the effect that they had in the parent before the
  // object was created. Safe between fork and exec.
  void enter_child(pid_t parent) const;

  // Waits for the child and returns its wait status. On a signal, kills the child and throws Error(kRun). Further
  // signals are discarded until the object is destroyed.
  int wait(pid_t child) const;

 private:
  void restore() const;

  sigset_t watched_, former_;
  mutable bool interrupted_ = false;
};

}  // namespace runner::train
