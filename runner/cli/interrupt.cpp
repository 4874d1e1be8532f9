#include "runner/cli/interrupt.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <string_view>

#include <unistd.h>

#include "runner/cli/launcher.h"
#include "schema/base/signal_set.h"

namespace runner::cli {
namespace {

constexpr std::string_view kAtStart = "\ninterrupt: stopping before the first step; press Ctrl-C again to stop now\n";
constexpr std::string_view kInRun =
    "\ninterrupt: finishing the step and saving a state; press Ctrl-C again to stop now\n";
constexpr std::array kSignals{SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};

// A signal handler can access only static data.
std::atomic<int> signals{0};
std::atomic<int> strong_signals{0};  // all but USR1, USR2 and, if launched, TERM; the second ends the process
std::atomic<bool> is_term_strong{true};
std::atomic<bool> prints{true};
std::atomic<size_t> message_start{0};
std::atomic<bool> in_run{false};
std::array<struct sigaction, kSignals.size()> former{};
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<size_t>::is_always_lock_free &&
              std::atomic<bool>::is_always_lock_free);

// Async-signal-safe: uses only lock-free atomics, write and _exit.
extern "C" void on_signal(int signal) {
  const int saved_errno = errno;
  const bool is_strong = signal == SIGTERM ? is_term_strong.load() : signal != SIGUSR1 && signal != SIGUSR2;
  if (is_strong && strong_signals.fetch_add(1) > 0) ::_exit(128 + signal);
  if (signals.fetch_add(1) > 0 || !prints.load()) return;
  const std::string_view message = (in_run.load() ? kInRun : kAtStart).substr(message_start.load());
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, message.data(), message.size());
  errno = saved_errno;
}

}  // namespace

Interrupt::Interrupt(Messages messages) {
  signals = 0;
  strong_signals = 0;
  is_term_strong = !is_launched();
  prints = messages != Messages::kNone;
  message_start = messages == Messages::kOnNewLine ? 0 : 1;
  in_run = false;
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  const sigset_t of_schedulers = signal_set({SIGUSR1, SIGUSR2});  // blocked if a launcher has started this process
  for (size_t i = 0; i < kSignals.size(); ++i) {
    ::sigaction(kSignals[i], nullptr, &former[i]);
    if (former[i].sa_handler != SIG_IGN) ::sigaction(kSignals[i], &action, nullptr);
  }
  ::pthread_sigmask(SIG_UNBLOCK, &of_schedulers, nullptr);
}

Interrupt::~Interrupt() {
  for (size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &former[i], nullptr);
}

void Interrupt::run_has_begun(bool begun) {
  in_run = begun;
}

const std::atomic<int>& Interrupt::count() const {
  return signals;
}

}  // namespace runner::cli
