// The first SIGINT, SIGTERM or SIGHUP asks a run to stop after its step, the second ends the process at once.
//
// One lives at a time.  A signal that the parent made this process ignore stays ignored (nohup).
#pragma once

#include <atomic>

namespace runner::cli {

class Interrupt {
 public:
  // live: stderr shows a line that is redrawn, so a message has to begin on a new one.
  explicit Interrupt(bool live);
  // Puts the former handlers back.
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  // Whether there is a step to finish and a run to save a state of: what the message says.  Not at first.
  void run_has_begun(bool begun);

  // The number of signals so far.
  const std::atomic<int>& count() const;
};

}  // namespace runner::cli
