// The functions of all commands.  Each prints data to `out` and returns the exit code, or throws an Error.
#pragma once

#include "runner/cli/command.h"
#include "runner/report/output.h"

namespace runner::cli {

// training (exec.cpp, evaluate.cpp, verify_resume.cpp)
int exec(const Options& options, report::Output& out);
int resume(const Options& options, report::Output& out);
int fork(const Options& options, report::Output& out);

// recipes (check.cpp, plan.cpp, explain.cpp, init.cpp)

// the store, one file each
int ls(const Options& options, report::Output& out);
int show(const Options& options, report::Output& out);
int metrics(const Options& options, report::Output& out);
int states(const Options& options, report::Output& out);
int sql(const Options& options, report::Output& out);

// the program itself
int help(const Options& options, report::Output& out);
int version(const Options& options, report::Output& out);

}  // namespace runner::cli
