// All commands: their options, which command_table.cpp describes, and their functions. Each function writes data to
// `out` and returns the exit code, or throws an Error.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runner/cli/command.h"
#include "runner/report/output.h"

namespace runner::cli {

// ---- options --------------------------------------------------------------------------------------------------------

struct RecipeOptions : Options {
  std::string recipe;
  std::vector<std::string> overrides;  // key=value
};

struct RunOptions : Options {
  std::string run;
};

struct StateOptions : RunOptions {
  std::string state;  // default: the newest
};

struct RunsOptions : Options {
  std::vector<std::string> runs;
};

struct ExecOptions : RecipeOptions {
  bool quiet = false;
};

struct ResumeOptions : StateOptions {
  std::vector<std::string> overrides;
  bool quiet = false;
};

struct ForkOptions : StateOptions {
  std::vector<std::string> overrides;
  bool restart = false;
  bool quiet = false;
};

struct EvalOptions : StateOptions {
  std::string data;
};

struct PredictOptions : EvalOptions {
  std::string format, output, as;
};

struct VerifyResumeOptions : RecipeOptions {
  int64_t kills = 5;
};

struct CheckOptions : RecipeOptions {
  bool static_only = false;
};

struct PlanOptions : RecipeOptions {
  bool batches = false;
  int64_t epochs = kNotGiven;  // default: 1
};

struct ExplainOptions : RecipeOptions {
  std::string key;
};

struct InitOptions : Options {
  std::string file;
  std::string from;  // a file to import
};

struct LsOptions : Options {
  std::string where, sort, columns;
  int64_t limit = kNotGiven;  // default: no limit
  bool trash = false;
};

struct ShowOptions : RunOptions {
  bool metrics_report = false;
  bool upstream_durations = false;
};

struct GraphsOptions : RunOptions {
  std::string key;
  bool ir = false;
  bool hlo = false;
};

struct MetricsOptions : RunOptions {
  std::string metric;
};

struct PlotOptions : RunsOptions {  // the last of `runs` is the metric
  std::string where, x_axis, smooth, svg_file;
  bool log = false;
  int64_t width = kNotGiven;  // default: width of the terminal
};

struct DiffOptions : RunOptions {
  std::string other_run;
};

struct SqlOptions : Options {
  std::string query, format;
};

struct ExportOptions : StateOptions {
  std::string model_file, shard_size, metrics_file, tensorboard, folder;
  std::string artifact, file;
  bool fold_normalization = false, trained_weights = false;
};

struct TraceOptions : RunOptions {
  std::string output;
};

struct ReportOptions : Options {
  std::string file, durations;
};

struct TagOptions : RunOptions {
  std::string tag;
  bool remove = false;
};

struct NoteOptions : RunOptions {
  std::string text;
};

struct RmOptions : RunsOptions {
  std::string where;
  bool purge = false;
};

struct GcOptions : Options {
  int64_t grace = 30;  // in days
};

struct SelftestOptions : Options {
  std::vector<std::string> ids;  // prefixes; empty: all scenarios
  std::string backend;           // empty: all
};

struct HelpOptions : Options {
  std::string command;
};

struct CompletionOptions : Options {
  std::string shell;
  std::vector<std::string> words;
};

// ---- functions ------------------------------------------------------------------------------------------------------

// Training: exec.cpp (exec, resume, fork), evaluate.cpp (eval, predict), verify_resume.cpp.
int exec(const ExecOptions& options, report::Output& out);
int resume(const ResumeOptions& options, report::Output& out);
int fork(const ForkOptions& options, report::Output& out);
int eval(const EvalOptions& options, report::Output& out);
int predict(const PredictOptions& options, report::Output& out);
int verify_resume(const VerifyResumeOptions& options, report::Output& out);

// Recipes: check.cpp, plan.cpp, estimate.cpp, explain.cpp, init.cpp.
int check(const CheckOptions& options, report::Output& out);
int parameters(const RecipeOptions& options, report::Output& out);
int plan(const PlanOptions& options, report::Output& out);
int estimate(const RecipeOptions& options, report::Output& out);
int explain(const ExplainOptions& options, report::Output& out);
int schema(const Options& options, report::Output& out);
int init(const InitOptions& options, report::Output& out);

// Runs and results: one file each, except annotate.cpp (tag, note) and remove.cpp (rm, restore, gc).
int ls(const LsOptions& options, report::Output& out);
int show(const ShowOptions& options, report::Output& out);
int metrics(const MetricsOptions& options, report::Output& out);
int plot(const PlotOptions& options, report::Output& out);
int watch(const RunOptions& options, report::Output& out);
int states(const RunOptions& options, report::Output& out);
int graphs(const GraphsOptions& options, report::Output& out);
int diff(const DiffOptions& options, report::Output& out);
int sql(const SqlOptions& options, report::Output& out);
int export_run(const ExportOptions& options, report::Output& out);
int trace(const TraceOptions& options, report::Output& out);
int metrics_report(const ReportOptions& options, report::Output& out);  // report.cpp
int tag(const TagOptions& options, report::Output& out);
int note(const NoteOptions& options, report::Output& out);
int rm(const RmOptions& options, report::Output& out);
int restore(const RunsOptions& options, report::Output& out);
int gc(const GcOptions& options, report::Output& out);

// This program: selftest.cpp, doctor.cpp, help.cpp (help, man, completion, version).
int selftest(const SelftestOptions& options, report::Output& out);
int doctor(const Options& options, report::Output& out);
int help(const HelpOptions& options, report::Output& out);
int man(const HelpOptions& options, report::Output& out);
int completion(const CompletionOptions& options, report::Output& out);
int version(const Options& options, report::Output& out);

}  // namespace runner::cli
