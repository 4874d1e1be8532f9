// Signal handling during a run: the first SIGINT, SIGTERM or SIGHUP requests a stop after the current step, the second
// ends the process at once. SIGUSR1 and SIGUSR2, which job schedulers send before a time limit, only request a stop,
// and so does SIGTERM in processes of a launcher: at a time limit Slurm sends it to them and to srun, which passes it
// on.
//
// At most one object may exist at a time. A signal that the parent process set to be ignored stays ignored (nohup).
#pragma once

#include <atomic>

namespace runner::cli {

class Interrupt {
 public:
  // What the first signal prints. kOnNewLine: stderr shows a redrawn line.
  enum class Messages { kNone, kPlain, kOnNewLine };
  explicit Interrupt(Messages messages);
  // Restores the previous handlers.
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  // Sets whether the message mentions a step to finish and a state to save. Initially false.
  void run_has_begun(bool begun);

  // Returns the number of signals received so far.
  const std::atomic<int>& count() const;
};

}  // namespace runner::cli
