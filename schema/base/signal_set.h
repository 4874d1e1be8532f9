// Sets of signals.
#pragma once

#include <csignal>
#include <initializer_list>

namespace runner {

inline sigset_t signal_set(std::initializer_list<int> signals) {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : signals) sigaddset(&set, signal);
  return set;
}

}  // namespace runner
