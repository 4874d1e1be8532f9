#include "runner/cli/command.h"
#include "runner/cli/commands/commands.h"
#include "runner/report/documents.h"

namespace runner::cli {
namespace {

template <class Own>
Own options_of(int (*)(const Own&, report::Output&));

// The options of `function` are the type of its first parameter.
template <auto function>
constexpr Action action{[]() -> std::unique_ptr<Options> { return std::make_unique<decltype(options_of(function))>(); },
                        [](const Options& options, report::Output& out) {
                          return function(static_cast<const decltype(options_of(function))&>(options), out);
                        }};

constexpr Argument kRecipe{"RECIPE", "", "recipe file", &RecipeOptions::recipe};
constexpr Argument kOverrides{"[KEY=VALUE ...]", "", "settings that override the recipe, such as optimizer.lr=1e-3",
                              &RecipeOptions::overrides, Kind::kSetting};
constexpr Argument kRun{"RUN", "", "run: its id, a unique prefix of the id, its name, @last, @last~1, or @best(METRIC)",
                        &RunOptions::run, Kind::kRun};
constexpr Argument kState{"--state", "STATE",
                          "state (checkpoint) of the run: its id, best, or best(METRIC); default: the newest",
                          &StateOptions::state, Kind::kState};
constexpr Argument output_argument(Target target) {
  return {"--output", "FILE", "output file; default: -, standard output", target, Kind::kText, "-o"};
}

constexpr Argument quiet_argument(Target target) {
  return {"--quiet", "", "print warnings only, no progress", target};
}

constexpr Argument kCommon[] = {
    {"--db", "PATH", "store file; default: $RUNNER_DB, or runner.db in the current folder", &Options::db},
    {"--json", "", "print one JSON document on standard output", &Options::json},
    {"--color", "auto|always|never", "when to use colours; auto: on a terminal, unless NO_COLOR is set or TERM is dumb",
     &Options::color},
};

constexpr Argument kExec[] = {kRecipe, kOverrides, quiet_argument(&ExecOptions::quiet)};
constexpr Argument kResume[] = {
    kRun,
    {"[KEY=VALUE ...]", "",
     "settings to change: num_processes, backend, log.*, checkpoint.*, a larger train.epochs or train.steps",
     &ResumeOptions::overrides, Kind::kSetting},
    kState,
    quiet_argument(&ResumeOptions::quiet)};
constexpr Argument kFork[] = {
    kRun,
    {"[KEY=VALUE ...]", "", "settings to change in the child run: any except the shapes of the model",
     &ForkOptions::overrides, Kind::kSetting},
    kState,
    {"--restart", "", "load only the weights and start from the first epoch", &ForkOptions::restart},
    quiet_argument(&ForkOptions::quiet)};
constexpr Argument kEval[] = {
    kRun,
    {"[DATA]", "", "data file in the format of the recipe's data; default: the recipe's evaluation data",
     &EvalOptions::data},
    kState};
constexpr Argument kPredict[] = {
    kRun,
    {"DATA", "", "data file in the format of the recipe's data, with or without labels", &PredictOptions::data},
    {"--format", "csv|npy|json", "output format; default: from the extension of FILE, else csv",
     &PredictOptions::format},
    {"--as", "logits|probabilities|classes",
     "what to write for each row of a model with classes, in addition to the class; default: logits",
     &PredictOptions::as},
    output_argument(&PredictOptions::output),
    kState};
constexpr Argument kVerifyResume[] = {
    kRecipe,
    kOverrides,
    {"--kills", "N", "how many times to kill the process; default: 5", &VerifyResumeOptions::kills}};

constexpr Argument kRecipeOnly[] = {kRecipe, kOverrides};
constexpr Argument kCheck[] = {
    kRecipe,
    kOverrides,
    {"--static", "", "check only what the recipe and the hook file say, without reading data",
     &CheckOptions::static_only}};
constexpr Argument kPlan[] = {
    kRecipe,
    kOverrides,
    {"--batches", "", "with --json: print the sample indices of every batch", &PlanOptions::batches},
    {"--epochs", "N", "with --batches: print the first N epochs; default: 1", &PlanOptions::epochs}};
constexpr Argument kExplain[] = {
    {"RECIPE", "", "recipe file, id of an error, or the word error or exit", &ExplainOptions::recipe, Kind::kExplained},
    {"[KEY]", "", "setting, such as optimizer.lr, or section; after error an id, after exit a code; default: all",
     &ExplainOptions::key, Kind::kDetail},
    kOverrides};
constexpr Argument kInit[] = {
    {"[FILE]", "", "recipe file to write; default: recipe.yaml", &InitOptions::file},
    {"--from", "CONFIG", "import the settings of an Accelerate configuration file, such as default_config.yaml",
     &InitOptions::from}};

constexpr Argument kLs[] = {
    {"--where", "CONDITION", "list only runs that match, such as 'best(eval/accuracy) > 0.97 and optimizer.lr < 1e-3'",
     &LsOptions::where},
    {"--sort", "KEY,...", "sort order, such as best(eval/accuracy) or 'optimizer.lr desc'; default: newest first",
     &LsOptions::sort, Kind::kRunFields},
    {"--columns", "NAME,...", "columns, parameters and metrics to show instead of the default columns",
     &LsOptions::columns, Kind::kRunFields},
    {"--limit", "N", "list only the first N runs; default: all", &LsOptions::limit},
    {"--trash", "", "list the runs in the trash instead", &LsOptions::trash}};
constexpr Argument kRunOnly[] = {kRun};
constexpr Argument kShow[] = {
    kRun,
    {"--metrics-report", "", "print the metrics report of an emulated TPU, in the format of PyTorch/XLA",
     &ShowOptions::metrics_report},
    {"--upstream-durations", "", "with --metrics-report: print durations as PyTorch/XLA does, with its rounding error",
     &ShowOptions::upstream_durations}};
constexpr Argument kGraphs[] = {
    kRun,
    {"[KEY]", "", "key of a graph, or a unique prefix of it: print the details of that graph", &GraphsOptions::key},
    {"--ir", "", "print the traced nodes of the graph", &GraphsOptions::ir},
    {"--hlo", "", "print the HLO module that the graph is lowered to", &GraphsOptions::hlo}};
constexpr Argument kMetrics[] = {kRun,
                                 {"[METRIC]", "", "print every point of this metric: step, tab, value with all digits",
                                  &MetricsOptions::metric, Kind::kMetric}};
constexpr Argument kPlot[] = {
    {"RUN ... METRIC", "", "runs or patterns such as 'digits*', and the metric to plot, or several: METRIC,METRIC",
     &PlotOptions::runs, Kind::kRunOrMetric},
    {"--where", "CONDITION", "also plot all runs that match, such as 'optimizer.lr < 1e-3'", &PlotOptions::where},
    {"--x", "step|time", "horizontal axis; time is in seconds since the start of the run; default: step",
     &PlotOptions::x_axis},
    {"--log", "", "use a logarithmic scale for values", &PlotOptions::log},
    {"--smooth", "S", "moving average with weight S on past values, such as 0.9; default: 0", &PlotOptions::smooth},
    {"--width", "N", "width in columns, 30 to 500; default: the width of the terminal, else 80", &PlotOptions::width},
    {"--svg", "FILE", "write an SVG image to FILE instead", &PlotOptions::svg_file}};
constexpr Argument kDiff[] = {{"A", "", "first run", &DiffOptions::run, Kind::kRun},
                              {"B", "", "second run", &DiffOptions::other_run, Kind::kRun}};
constexpr Argument kSql[] = {
    {"QUERY", "", "one SELECT statement; docs/store.md lists the views: runs, params, metrics, points, states, …",
     &SqlOptions::query},
    {"--format", "table|csv|json", "output format of the rows; default: table", &SqlOptions::format}};
constexpr Argument kExport[] = {
    kRun,
    {"--model", "FILE",
     "write the weights as .safetensors, with the model's parameter names, or the whole model as .onnx; - is standard "
     "output, for safetensors",
     &ExportOptions::model_file},
    {"--max-shard-size", "SIZE",
     "maximum size of a safetensors file; a larger model becomes several files and an index; default: 10GB",
     &ExportOptions::shard_size},
    {"--fold-normalization", "",
     "put scale and normalisation of the features into the model, so that it takes raw rows",
     &ExportOptions::fold_normalization},
    {"--trained-weights", "", "write the weights themselves, not the average that train.ema or train.swa keeps",
     &ExportOptions::trained_weights},
    kState,
    {"--metrics", "FILE", "write every metric point as .csv, .json or .jsonl", &ExportOptions::metrics_file},
    {"--tensorboard", "DIR", "write every metric point to a TensorBoard event file in DIR",
     &ExportOptions::tensorboard},
    {"--folder", "DIR", "write the run as files in DIR: recipe, parameters, metrics, events, summary",
     &ExportOptions::folder},
    {"--artifact", "NAME", "write the newest artifact of this name to FILE", &ExportOptions::artifact, Kind::kArtifact},
    {"[FILE]", "", "output file of --artifact; default: the last part of NAME; - is standard output",
     &ExportOptions::file}};
constexpr Argument kTrace[] = {kRun, output_argument(&TraceOptions::output)};
constexpr Argument kReport[] = {
    {"FILE", "", "metrics report, or a log that contains one; may be compressed with gzip; - is standard input",
     &ReportOptions::file},
    {"--durations", "exact|upstream",
     "how the durations were printed; default: detected from the report, else upstream", &ReportOptions::durations}};
constexpr Argument kTag[] = {
    kRun, {"TAG", "", "one word", &TagOptions::tag}, {"--remove", "", "remove the tag", &TagOptions::remove}};
constexpr Argument kNote[] = {kRun, {"TEXT", "", "text to keep with the run", &NoteOptions::text}};
constexpr Argument kRm[] = {
    {"[RUN ...]", "", "runs; * and ? match parts of names and ids", &RmOptions::runs, Kind::kRun},
    {"--where", "CONDITION", "remove the runs that match, as `runner ls --where` lists them", &RmOptions::where},
    {"--purge", "", "delete permanently, also runs that are in the trash; this cannot be undone", &RmOptions::purge}};
constexpr Argument kRestore[] = {{"RUN ...", "", "runs in the trash, also with * and ?; `runner ls --trash` lists them",
                                  &RunsOptions::runs, Kind::kTrashedRun}};
constexpr Argument kGc[] = {
    {"--grace", "DAYS", "delete runs that have been in the trash for DAYS days; default: 30", &GcOptions::grace}};

constexpr Argument kSelftest[] = {
    {"[ID ...]", "", "run only scenarios whose ids begin with ID, such as data or state/resume; default: all",
     &SelftestOptions::ids, Kind::kScenario},
    {"--backend", "cpu|gpu|tpu", "run on this backend only; default: on every backend", &SelftestOptions::backend}};
constexpr Argument kCompletion[] = {
    {"SHELL", "bash|zsh|fish|words", "shell; words prints the candidates, for the scripts", &CompletionOptions::shell},
    {"[WORD ...]", "", "with words: the command line so far, after --", &CompletionOptions::words}};
constexpr Argument kHelp[] = {{"[COMMAND]", "", "command to describe", &HelpOptions::command, Kind::kCommand}};

constexpr GroupTitle kGroups[] = {{Group::kTrain, "train"},
                                  {Group::kRecipe, "recipes"},
                                  {Group::kStore, "runs and results"},
                                  {Group::kSystem, "this program"}};

constexpr Command kCommands[] = {
    {"exec", Group::kTrain, "train the model that a recipe declares",
     "KEY=VALUE settings override the recipe; each key may be given once.  Paths in them are relative to the\n"
     "recipe.",
     kExec, "runner exec recipes/digits.yaml\nrunner exec recipes/digits.yaml train.epochs=5 optimizer.lr=3e-4 --json",
     action<exec>, report::failed_run_document},
    {"resume", Group::kTrain, "continue a run from its newest state (checkpoint)",
     "Continues the same run, with its recorded recipe and hook.  If files were moved, settings can name the\n"
     "new path, relative to the current folder: data.train.path and similar, model.init_from, hooks.  For a\n"
     "run that is already finished, the result is printed again.",
     kResume, "runner resume @last\nrunner resume digits train.epochs=40", action<resume>, report::failed_run_document},
    {"fork", Group::kTrain, "start a new run from a state (checkpoint) of another run",
     "The new run, the child, loads everything that fits its recipe; a warning lists what starts from\n"
     "scratch.  Paths in settings are relative to the current folder.",
     kFork,
     "runner fork @last train.epochs=60 optimizer.lr=1e-4\n"
     "runner fork digits train.epochs=80 optimizer.type=sgd optimizer.lr=0.1\n"
     "runner fork digits --restart 'model.freeze=[0.*]' name=transfer",
     action<fork>, report::failed_run_document},
    {"eval", Group::kTrain, "compute the metrics of a run's model on data", "", kEval,
     "runner eval @last\nrunner eval digits more-digits.csv --json", action<eval>, report::failure_document},
    {"predict", Group::kTrain, "write the outputs of a run's model for every row of a file",
     "Labels are not read.  A row that cannot be used stays, without a prediction and with the reason.", kPredict,
     "runner predict digits new.csv --as probabilities\nrunner predict @last new.csv --format npy --output new.npy",
     action<predict>, report::failure_document},
    {"verify-resume", Group::kTrain, "prove that killed and resumed training equals uninterrupted training",
     "Trains once without interruption and once while being killed and resumed.  Exit code 0 if weights,\n"
     "optimizer, metrics and sample ids are the same, bit for bit, else 1.",
     kVerifyResume, "runner verify-resume recipes/digits.yaml\nrunner verify-resume recipes/digits.yaml --kills 20",
     action<verify_resume>, report::failure_document},

    {"init", Group::kRecipe, "write a starter recipe, and a JSON Schema for editors",
     "runner.schema.json is written to the recipe's folder.  A recipe is never overwritten.  With --from,\n"
     "settings that have no counterpart are listed with the reason, in the recipe too; see\n"
     "docs/from-accelerate.md.",
     kInit, "runner init\nrunner init first.yaml\nrunner init imported.yaml --from default_config.yaml", action<init>,
     report::failure_document},
    {"check", Group::kRecipe, "list all errors of a recipe, and try its first steps",
     "Reads the data, makes model and optimizers, and traces a training and an evaluation step.  Trains and\n"
     "records nothing.",
     kCheck, "runner check recipes/digits.yaml\nrunner check recipes/digits.yaml optimizer.lr=1e-3 --json",
     action<check>, report::failed_check_document},
    {"plan", Group::kRecipe, "show batches, steps, learning rate and memory before a run",
     "--batches prints up to 100 million indices, including repeated samples.", kPlan,
     "runner plan recipes/digits.yaml\nrunner plan recipes/digits.yaml --json --batches --epochs 2", action<plan>,
     report::failure_document},
    {"parameters", Group::kRecipe, "list the parameters of a recipe's model",
     "Names, shapes, groups of optimizer.groups in their order (the last has the rest), and their settings.\n"
     "model.freeze and optimizer.groups select by these names; * and ? match any characters.",
     kRecipeOnly, "runner parameters recipes/digits.yaml\nrunner parameters recipes/digits.yaml --json",
     action<parameters>, report::failure_document},
    {"estimate", Group::kRecipe, "estimate the memory that training needs, in each precision",
     "Bytes of one process, computed from the steps that a run would compile: weights, gradients kept\n"
     "between batches, optimizer, activations, and the peak in training, evaluation and saving.  Data and\n"
     "the program itself are not counted.",
     kRecipeOnly, "runner estimate recipes/digits.yaml\nrunner estimate recipes/digits.yaml num_processes=4 --json",
     action<estimate>, report::failure_document},
    {"explain", Group::kRecipe, "show a setting's value, origin and meaning, or the meaning of an error or exit code",
     "The id of an error may also be given without the word error.", kExplain,
     "runner explain recipes/digits.yaml optimizer.lr\nrunner explain recipes/digits.yaml data\n"
     "runner explain exit 4\nrunner explain out-of-range",
     action<explain>, report::failure_document},
    {"schema",
     Group::kRecipe,
     "print the JSON Schema of recipes",
     "",
     {},
     "runner schema > runner.schema.json",
     action<schema>,
     report::failure_document},

    {"ls", Group::kStore, "list the runs, newest first",
     "--where, --sort and --columns accept columns, parameters and metrics: docs/cli.md.", kLs,
     "runner ls\nrunner ls --where 'best(eval/accuracy) > 0.97 and optimizer.lr < 1e-3'\n"
     "runner ls --sort 'best(eval/loss)' --columns 'name,best(eval/loss),optimizer.lr' --limit 10",
     action<ls>, report::failure_document},
    {"show", Group::kStore, "show everything recorded about a run",
     "Status, attempts, metrics, states, artifacts, parameters, events, notes, machine, kernels, git\n"
     "state and environment.",
     kShow, "runner show @last\nrunner show on-tpu --metrics-report", action<show>, report::failure_document},
    {"graphs", Group::kStore, "list the graphs that an emulated TPU compiled, with the reasons",
     "One row for each compilation, over all attempts: the training batch at which the graph first ran, how\n"
     "often it ran, its size, its memory and the predicted time of a step on the device.",
     kGraphs, "runner graphs on-tpu\nrunner graphs on-tpu --json", action<graphs>, report::failure_document},
    {"metrics", Group::kStore, "list the metrics of a run, or every point of one", "", kMetrics,
     "runner metrics @last\nrunner metrics digits train/loss", action<metrics>, report::failure_document},
    {"plot", Group::kStore, "plot metrics of one or more runs, in the terminal or as an SVG image",
     "The terminal plot uses braille dots.  --smooth averages all points before they are thinned to the\n"
     "resolution of the plot.  A NaN is a gap.  Without colours, several curves are drawn as letters.",
     kPlot,
     "runner plot @last train/loss\nrunner plot @last @last~1 eval/loss --log --smooth 0.9\n"
     "runner plot digits eval/accuracy --svg accuracy.svg",
     action<plot>, report::failure_document},
    {"watch", Group::kStore, "follow a run until it ends, and exit with its exit code",
     "Shows the step and the number of steps, the time left at the rate so far, the newest metrics and a\n"
     "small plot: redrawn twice a second on a terminal, else a line every five seconds.  A crashed run gives\n"
     "exit code 1.  Ctrl-C stops watching, not the run.",
     kRunOnly, "runner watch @last", action<watch>, report::failure_document},
    {"states", Group::kStore, "list the states (checkpoints) of a run, newest first", "", kRunOnly,
     "runner states @last", action<states>, report::failure_document},
    {"diff", Group::kStore, "show the differences between two runs",
     "Parameters and environment (machine, libraries, variables, git state, texts) that differ, and the\n"
     "newest value of every metric.",
     kDiff, "runner diff digits @last", action<diff>, report::failure_document},
    {"sql", Group::kStore, "query the store with SQL, read-only", "", kSql,
     "runner sql \"SELECT run, name, status FROM runs\"\n"
     "runner sql \"SELECT step, value FROM points WHERE metric = 'eval/accuracy'\" --format csv",
     action<sql>, report::failure_document},
    {"export", Group::kStore, "write a run's model, metrics or artifacts to files",
     "--folder writes recipe.yaml, resolved.json, params.json, metrics.csv, events.jsonl, run.json (like\n"
     "show --json) and summary.json.  Values for TensorBoard are rounded to seven digits.  The digest of an\n"
     "artifact is verified.",
     kExport, "runner export @last --model digits.safetensors\nrunner export digits --metrics digits.csv",
     action<export_run>, report::failure_document},
    {"trace", Group::kStore, "write the profile of a run as a trace for chrome://tracing and Perfetto",
     "The section `profile` of a recipe selects the steps: docs/profiling.md.  The trace has all cycles of\n"
     "the newest attempt that recorded any, with all processes on one time axis.",
     kTrace, "runner trace traced -o trace.json", action<trace>, report::failure_document},
    {"report", Group::kStore, "explain a metrics report of PyTorch/XLA, or the last one in a log",
     "Reads reports of releases up to 2.9, also truncated ones.  Shows compiles per step, the bottleneck of\n"
     "training, inconsistent counts and what to change.  Durations are corrected: torch_xla prints some\n"
     "parts one too high.  See docs/xla-report.md.",
     kReport,
     "runner report recipes/data/bert_metrics_report.txt\n"
     "runner report recipes/data/bert_metrics_report.txt --json",
     action<metrics_report>, report::failure_document},
    {"tag", Group::kStore, "add a tag to a run", "Removing a tag that the run does not have gives exit code 3.", kTag,
     "runner tag @last baseline\nrunner tag @last baseline --remove", action<tag>, report::failure_document},
    {"note", Group::kStore, "add a note to a run", "", kNote, "runner note @last \"learning rate too high\"",
     action<note>, report::failure_document},
    {"rm", Group::kStore, "move runs to the trash",
     "ls does not list runs in the trash, and no name finds them.  `runner restore` takes a run out of it, and gc "
     "deletes\n"
     "runs that have been in it for 30 days.",
     kRm, "runner rm 'digits*' wine\nrunner rm @last --purge", action<rm>, report::failure_document},
    {"restore", Group::kStore, "restore runs from the trash", "`runner show` prints when a run was moved to the trash.",
     kRestore, "runner restore wine", action<restore>, report::failure_document},
    {"gc", Group::kStore, "delete old runs from the trash, and release free space",
     "Also deletes compiled graphs (tpu.persistent_cache) that no run has used for 30 days.  The space of\n"
     "deleted runs and states is returned to the file system.  A damaged store is reported, not changed.",
     kGc, "runner gc\nrunner gc --grace 0", action<gc>, report::failure_document},

    {"selftest", Group::kSystem, "train scenarios on all backends, and compare the results with expected values",
     "Exit code 1 if a check fails.  Runs small trainings as real processes in a temporary folder, in less\n"
     "than half a minute.  docs/selftest.md describes each scenario.",
     kSelftest, "runner selftest\nrunner selftest --backend tpu\nrunner selftest data process/trigger --json",
     action<selftest>, report::failure_document},
    {"doctor",
     Group::kSystem,
     "describe this machine, the selected kernels and the store",
     "Prints CPU, kernels and their measured speed, memory, SQLite and the store, for bug reports.",
     {},
     "runner doctor\nrunner doctor --json",
     action<doctor>,
     report::failure_document},
    {"help", Group::kSystem, "show the help of a command", "", kHelp, "runner help exec\nrunner exec --help",
     action<help>, report::failure_document},
    {"man", Group::kSystem, "print a manual page", "make install installs the pages in share/man.", kHelp,
     "runner man > runner.1\nrunner man exec > runner-exec.1", action<man>, report::failure_document},
    {"completion", Group::kSystem, "print the completion script of a shell",
     "The script completes commands, options, settings, runs, metrics, states and artifacts.  `make install`\n"
     "installs it for every shell.  Without it, run: source <(runner completion bash).  To find the\n"
     "candidates for a word, the script calls `runner completion words`.",
     kCompletion,
     "runner completion bash > ~/.local/share/bash-completion/completions/runner\n"
     "runner completion fish > ~/.config/fish/completions/runner.fish",
     action<completion>, report::failure_document},
    {"version",
     Group::kSystem,
     "print the version, as --version does",
     "",
     {},
     "runner version\nrunner --version",
     action<version>,
     report::failure_document},
};

}  // namespace

std::span<const Command> commands() {
  return kCommands;
}

std::span<const GroupTitle> groups() {
  return kGroups;
}

std::span<const Argument> common_arguments() {
  return kCommon;
}

}  // namespace runner::cli
