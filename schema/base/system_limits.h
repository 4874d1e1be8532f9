// What the system refuses, in words that say which limit it was and what to do.  Thread-safe.
#pragma once

#include <exception>
#include <string>

#include "schema/base/error.h"

namespace runner {

// Why a call failed, by its errno: "No such file or directory"; of a file that may not grow also how large it may be,
// and where there are too many how many there may be.
std::string system_reason(int error);

// What an exception means that is no Error: out of memory, no room for a thread, or a fault of this program.
Error error_of(const std::exception& failure);

// Which limit keeps this process from having more processes or threads, and what to do: the one on its address space
// where it has come that near to it, else the one on a user's processes where it holds for this user.
std::string process_limits();

}  // namespace runner
