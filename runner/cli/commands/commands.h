// Functions of all commands. Each writes data to `out` and returns the exit code, or throws an Error.
#pragma once

#include "runner/cli/command.h"
#include "runner/report/output.h"

namespace runner::cli {

// Training: exec.cpp (exec, resume, fork), evaluate.cpp (eval, predict), verify_resume.cpp.
int exec(const Options& options, report::Output& out);
int resume(const Options& options, report::Output& out);
int fork(const Options& options, report::Output& out);
int eval(const Options& options, report::Output& out);
int predict(const Options& options, report::Output& out);
int verify_resume(const Options& options, report::Output& out);

// Recipes: check.cpp, plan.cpp, estimate.cpp, explain.cpp, init.cpp.
int check(const Options& options, report::Output& out);
int plan(const Options& options, report::Output& out);
int estimate(const Options& options, report::Output& out);
int explain(const Options& options, report::Output& out);
int schema(const Options& options, report::Output& out);
int init(const Options& options, report::Output& out);

// Runs and results: one file each, except annotate.cpp (tag, note) and remove.cpp (rm, restore, gc).
int ls(const Options& options, report::Output& out);
int show(const Options& options, report::Output& out);
int metrics(const Options& options, report::Output& out);
int plot(const Options& options, report::Output& out);
int watch(const Options& options, report::Output& out);
int states(const Options& options, report::Output& out);
int graphs(const Options& options, report::Output& out);
int diff(const Options& options, report::Output& out);
int sql(const Options& options, report::Output& out);
int export_run(const Options& options, report::Output& out);
int trace(const Options& options, report::Output& out);
int metrics_report(const Options& options, report::Output& out);  // report.cpp
int tag(const Options& options, report::Output& out);
int note(const Options& options, report::Output& out);
int rm(const Options& options, report::Output& out);
int restore(const Options& options, report::Output& out);
int gc(const Options& options, report::Output& out);

// This program: selftest.cpp, doctor.cpp, help.cpp (help, man, completion, version).
int selftest(const Options& options, report::Output& out);
int doctor(const Options& options, report::Output& out);
int help(const Options& options, report::Output& out);
int man(const Options& options, report::Output& out);
int completion(const Options& options, report::Output& out);
int version(const Options& options, report::Output& out);

}  // namespace runner::cli
