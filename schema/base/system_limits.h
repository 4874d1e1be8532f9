// Messages for failed system calls: which limit was reached, and what to do. Thread-safe.
#pragma once

#include <exception>
#include <string>
#include <string_view>

#include "schema/base/error.h"

namespace runner {

// Returns the reason for an errno, such as "No such file or directory". Includes the limit if a file is too large or
// too many files are open.
std::string system_reason(int error);

// Throws Error(kUsage) if the stack is so small that the program would end by a signal.
void check_stack_limit();

// "out of memory", `when`, the limit if there is one, and what to do.
Error out_of_memory(ErrorKind kind, std::string_view when, std::string_view remedy);

// Returns the Error itself, or one for any other exception: out of memory, no more threads, or a bug in this program.
Error error_of(const std::exception& failure);

// Returns which limit prevents more processes or threads, and what to do: the limit on address space if the process was
// close to it, else the limit on processes per user if it applies to this user.
std::string process_limits();

}  // namespace runner
