// From the words of a command line to a command and its Options.
//
// Options may stand anywhere, also before the command.  Thread-safe.
#pragma once

#include <span>
#include <string>

#include "runner/cli/command.h"

namespace runner::cli {

struct Call {
  const Command* command = nullptr;
  Options options;
};

// words: without the program's name.  --help anywhere asks for the help of the command.  Fills `call`, the command
// first, so that it is known when the rest is wrong.  Throws Error(kUsage), with the nearest name for a wrong one.
void parse(std::span<const std::string> words, Call& call);

}  // namespace runner::cli
