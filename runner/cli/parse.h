// Parses the words of a command line into a command and its Options.
//
// Options may be anywhere, also before the command. Thread-safe.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "runner/cli/command.h"

namespace runner::cli {

struct CommandCall {
  const Command* command = nullptr;
  std::unique_ptr<Options> options = std::make_unique<Options>();  // of the type that the command takes
};

// `words`: the arguments without the program name. --help anywhere shows the help of the command. Sets call.command
// first, so that it is known even if the rest is invalid. Throws Error(kUsage), with the most similar name for an
// unknown one.
void parse(std::span<const std::string> words, CommandCall& call);

}  // namespace runner::cli
