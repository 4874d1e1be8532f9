#include <cstdio>
#include <cstdlib>

#include "backends/runtime/abandoned.h"
#include "runner/cli/out_of_memory.h"
#include "runner/cli/program.h"

// Runs before the constructors of static objects, which allocate memory.
[[gnu::constructor(101)]] static void prepare() {
  runner::cli::prepare_for_exhausted_memory();
}

int main(int argc, char** argv) {
  const int code = runner::cli::run_program(argc, argv);
  if (runner::backends::abandoned().empty()) return code;
  // A thread that never ends may use static objects.
  std::fflush(nullptr);
  std::quick_exit(code);
}
