// Makes a process that runs out of memory end with an error, whichever thread it happens in.
#pragma once

namespace runner::cli {

// Sets up two things for the whole process; call it once, before anything else.
// - A reserve of memory is given back when an allocation fails for the first time. That allocation still fails, but the
//   code that handles and reports the failure can allocate.
// - std::bad_alloc that nothing can catch (it leaves a thread or a destructor) prints an error and ends the process
// with
//   the exit code of ErrorKind::kRun, without running destructors. The store needs none to stay valid.
void prepare_for_exhausted_memory();

}  // namespace runner::cli
