// Child processes of a command that leaves nothing behind when it is interrupted.
//
// While the object lives, signals that would end this process are taken by wait() instead.  For processes of one
// thread, on that thread.
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

  // In the child: it dies with its parent, and signals do to it what they did to the parent before.  Safe between fork
  // and exec.
  void enter_child(pid_t parent) const;

  // The child's wait status.  Throws Error(kRun) after a signal, when the child is gone: those that come until the
  // object goes, too, ask for no more than that.
  int wait(pid_t child) const;

 private:
  void restore() const;

  sigset_t watched_, former_;
  mutable bool interrupted_ = false;
};

}  // namespace runner::train
