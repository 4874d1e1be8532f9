#include "runner/cli/command.h"
#include "runner/cli/commands/commands.h"
#include "runner/report/documents.h"

namespace runner::cli {
namespace {

constexpr Argument kRecipe{"RECIPE", "", "the recipe's file", &Options::recipe};
constexpr Argument kOverrides{"[KEY=VALUE ...]", "", "settings that win over the recipe's, such as optimizer.lr=1e-3",
                              &Options::overrides, Kind::kSetting};
constexpr Argument kRun{"RUN", "", "the run: its id, the start of it, its name, @last, @last~1, or @best(METRIC)",
                        &Options::run, Kind::kRun};
constexpr Argument kState{"--state", "ID", "this state of the run; default: the newest", &Options::state, Kind::kState};
constexpr Argument kOutput{"--output",       "FILE",      "writes there instead of to standard output, which is -",
                           &Options::output, Kind::kText, "-o"};
constexpr Argument kQuiet{"--quiet", "", "no progress, only warnings", &Options::quiet};

constexpr Argument kCommon[] = {
    {"--db", "PATH", "the store; default: $RUNNER_DB, or runner.db in this folder", &Options::db},
    {"--json", "", "one JSON document on standard output", &Options::json},
    {"--color", "auto|always|never", "colours; auto: on a terminal, unless NO_COLOR is set or TERM is dumb",
     &Options::color},
};

constexpr Argument kExec[] = {kRecipe, kOverrides, kQuiet};
constexpr Argument kResume[] = {
    kRun,
    {"[KEY=VALUE ...]", "",
     "what may change: num_processes, backend, log.*, checkpoint.*, a larger train.epochs or train.steps",
     &Options::overrides, Kind::kSetting},
    kQuiet};
constexpr Argument kFork[] = {
    kRun,
    {"[KEY=VALUE ...]", "", "the settings that the child run changes; all may change but the model's shapes",
     &Options::overrides, Kind::kSetting},
    kState,
    {"--restart", "", "takes the weights alone and counts from the first epoch", &Options::restart},
    kQuiet};
constexpr Argument kEval[] = {
    kRun,
    {"[DATA]", "", "a file like the recipe's data; default: the recipe's evaluation data", &Options::data},
    kState};
constexpr Argument kPredict[] = {
    kRun,
    {"DATA", "", "a file like the recipe's data, with or without labels; FEATURES,LABELS for idx and npy",
     &Options::data},
    {"--format", "csv|npy|json", "of the outputs; default: what FILE ends in, or else csv", &Options::format},
    kOutput,
    kState};
constexpr Argument kVerifyResume[] = {
    kRecipe, kOverrides, {"--kills", "N", "how often the process is killed; default: 5", &Options::kills}};

constexpr Argument kCheck[] = {kRecipe, kOverrides};
constexpr Argument kPlan[] = {kRecipe,
                              kOverrides,
                              {"--batches", "", "with --json: the sample indices of every batch", &Options::batches},
                              {"--epochs", "N", "with --batches: of the first N epochs; default: 1", &Options::epochs}};
constexpr Argument kExplain[] = {
    {"RECIPE", "", "the recipe's file, the id of an error, or one of the words error and exit", &Options::recipe,
     Kind::kExplained},
    {"[KEY]", "", "a setting, such as optimizer.lr, or a section; after error an id, after exit a code; default: all",
     &Options::key, Kind::kDetail},
    kOverrides};
constexpr Argument kInit[] = {
    {"[FILE]", "", "the recipe to write; default: recipe.yaml", &Options::file},
    {"--from", "CONFIG", "takes over what Accelerate's configuration file, default_config.yaml, says", &Options::from}};

constexpr Argument kLs[] = {
    {"--where", "CONDITION", "only runs that fit, such as 'best(eval/accuracy) > 0.97 and optimizer.lr < 1e-3'",
     &Options::where},
    {"--sort", "KEY,...", "in this order, such as best(eval/accuracy) or 'optimizer.lr desc'; default: newest first",
     &Options::sort, Kind::kRunFields},
    {"--columns", "NAME,...", "shows these instead: columns, parameters, metrics", &Options::columns, Kind::kRunFields},
    {"--limit", "N", "only the first N; default: all", &Options::limit},
    {"--trash", "", "the runs in the trash instead", &Options::trash}};
constexpr Argument kRunOnly[] = {kRun};
constexpr Argument kShow[] = {
    kRun,
    {"--metrics-report", "", "the metrics of an emulated TPU, as PyTorch/XLA prints them", &Options::metrics_report},
    {"--upstream-durations", "", "of that: as PyTorch/XLA writes them, with its error in rounding",
     &Options::upstream_durations}};
constexpr Argument kGraphs[] = {
    kRun,
    {"[KEY]", "", "a graph, or the beginning of its key: tells all about it", &Options::key},
    {"--ir", "", "prints its nodes as traced", &Options::ir},
    {"--hlo", "", "prints the module that it is lowered to", &Options::hlo}};
constexpr Argument kMetrics[] = {
    kRun,
    {"[METRIC]", "", "prints every point of it: step, tab, value with every digit", &Options::metric, Kind::kMetric}};
constexpr Argument kPlot[] = {
    {"RUN ... METRIC", "", "the runs and what is plotted of them", &Options::runs, Kind::kRunOrMetric},
    {"--x", "step|time", "what goes to the right; time is in seconds since the run began; default: step",
     &Options::x_axis},
    {"--log", "", "a logarithmic scale of values", &Options::log},
    {"--smooth", "S", "moving average with weight S on the past, such as 0.9; default: 0", &Options::smooth},
    {"--width", "N", "columns, 30 to 500; default: those of the terminal, else 80", &Options::width},
    {"--svg", "FILE", "writes a picture instead", &Options::svg_file}};
constexpr Argument kDiff[] = {{"A", "", "one run", &Options::run, Kind::kRun},
                              {"B", "", "the other", &Options::other_run, Kind::kRun}};
constexpr Argument kSql[] = {
    {"QUERY", "", "one SELECT; docs/store.md has the views: runs, params, metrics, points, states, …", &Options::query},
    {"--format", "table|csv|json", "how to print the rows; default: table", &Options::format}};
constexpr Argument kExport[] = {
    kRun,
    {"--model", "FILE", "writes the weights as safetensors, under the model's parameter names; - is standard output",
     &Options::model_file},
    {"--max-shard-size", "SIZE", "of FILE.safetensors: larger models are several files and an index; default: 10GB",
     &Options::shard_size},
    kState,
    {"--metrics", "FILE", "writes every metric point, as .csv, .json or .jsonl", &Options::metrics_file},
    {"--tensorboard", "DIR", "writes every metric point as an event file into the folder", &Options::tensorboard},
    {"--folder", "DIR", "writes the run as files: recipe, parameters, metrics, events, summary", &Options::folder},
    {"--artifact", "NAME", "writes the newest artifact of this name to FILE", &Options::artifact, Kind::kArtifact},
    {"[FILE]", "", "where --artifact writes; default: the last part of NAME; - is standard output", &Options::file}};
constexpr Argument kTrace[] = {kRun, kOutput};
constexpr Argument kReport[] = {
    {"FILE", "", "the report, or a log that has one; may be gzip; - is standard input", &Options::file},
    {"--durations", "exact|upstream",
     "how durations were printed; default: as the figures tell, else as torch_xla does", &Options::durations}};
constexpr Argument kTag[] = {
    kRun, {"TAG", "", "a word", &Options::tag}, {"--remove", "", "takes the tag away", &Options::remove}};
constexpr Argument kNote[] = {kRun, {"TEXT", "", "what to remember", &Options::text}};
constexpr Argument kRm[] = {
    {"RUN ...", "", "the runs", &Options::runs, Kind::kRun},
    {"--purge", "", "for good, from the trash too; they cannot be brought back", &Options::purge}};
constexpr Argument kRestore[] = {
    {"RUN ...", "", "runs in the trash; `runner ls --trash` lists them", &Options::runs, Kind::kTrashedRun}};
constexpr Argument kGc[] = {
    {"--grace", "DAYS", "removes runs that have been in the trash for so long; default: 30", &Options::grace}};

constexpr Argument kSelftest[] = {
    {"[ID ...]", "", "only scenarios whose ids begin so, such as data or state/resume; default: all", &Options::words,
     Kind::kScenario},
    {"--backend", "cpu|gpu|tpu", "only on this one; default: on all that work", &Options::backend}};
constexpr Argument kCompletion[] = {
    {"SHELL", "bash|zsh|fish|words", "the shell; words is what the scripts ask for", &Options::topic},
    {"[WORD ...]", "", "with words: the command line so far, behind --", &Options::words}};
constexpr Argument kHelp[] = {{"[COMMAND]", "", "the command to explain", &Options::topic, Kind::kCommand}};

constexpr GroupTitle kGroups[] = {{Group::kTrain, "train"},
                                  {Group::kRecipe, "recipes"},
                                  {Group::kStore, "runs and results"},
                                  {Group::kSystem, "this program"}};

constexpr Command kCommands[] = {
    {"exec", Group::kTrain, "train what a recipe declares",
     "A setting that is given as KEY=VALUE wins over the recipe; each may be given once.", kExec,
     "runner exec recipes/digits.yaml\nrunner exec recipes/digits.yaml train.epochs=5 optimizer.lr=3e-4 --json", exec,
     report::failed_run_document},
    {"resume", Group::kTrain, "continue a run from its newest complete state",
     "Goes on in the same run.  Settings may also say where the same files are found now, from the\n"
     "current folder: data.train.path and the like, model.init_from, hooks.  A finished run prints its\n"
     "document again.",
     kResume, "runner resume @last\nrunner resume digits train.epochs=40", resume, report::failed_run_document},
    {"fork", Group::kTrain, "start a child run from a state of a run",
     "The child takes over what fits and says of the rest, in a warning, that it starts afresh.", kFork,
     "runner fork @last train.epochs=60 optimizer.lr=1e-4\n"
     "runner fork digits train.epochs=80 optimizer.type=sgd optimizer.lr=0.1\n"
     "runner fork digits --restart 'model.freeze=[0.*]' name=transfer",
     fork, report::failed_run_document},
    {"eval", Group::kTrain, "compute the metrics of a run's model on data", "", kEval,
     "runner eval @last\nrunner eval digits more-digits.csv --json", eval, report::failure_document},
    {"predict", Group::kTrain, "write the outputs of a run's model for every sample of a file", "", kPredict,
     "runner predict digits new.csv\nrunner predict @last new.csv --format npy --output new.npy", predict,
     report::failure_document},
    {"verify-resume", Group::kTrain, "prove that training killed and resumed equals training in one go",
     "Trains in one go, and once more while it is killed and resumed.  Exit code 0 if weights,\n"
     "optimizer, metrics and sample ids are the same, bit for bit, else 1.",
     kVerifyResume, "runner verify-resume recipes/digits.yaml\nrunner verify-resume recipes/digits.yaml --kills 20",
     verify_resume, report::failure_document},

    {"init", Group::kRecipe, "write a recipe to start from, and a JSON Schema for editors",
     "runner.schema.json is written beside the recipe.  A recipe is never overwritten.  With --from, what\n"
     "has no place in a recipe is listed with the reason, in the recipe too; docs/from-accelerate.md has more.",
     kInit, "runner init\nrunner init first.yaml\nrunner init imported.yaml --from default_config.yaml", init,
     report::failure_document},
    {"check", Group::kRecipe, "tell everything that is wrong with a recipe", "", kCheck,
     "runner check recipes/digits.yaml\nrunner check recipes/digits.yaml optimizer.lr=1e-3 --json", check,
     report::failed_check_document},
    {"plan", Group::kRecipe, "show batches, steps, learning rate and memory before a run",
     "--batches prints up to 100 million indices, repeated samples included.", kPlan,
     "runner plan recipes/digits.yaml\nrunner plan recipes/digits.yaml --json --batches --epochs 2", plan,
     report::failure_document},
    {"estimate", Group::kRecipe, "tell the memory that training will take, in each precision",
     "Bytes of one process, from the steps that a run would compile: weights, gradients kept between\n"
     "batches, optimizer, activations, and the most at once in training, evaluation and while saving.\n"
     "Data and the program itself are not counted.",
     kCheck, "runner estimate recipes/digits.yaml\nrunner estimate recipes/digits.yaml num_processes=4 --json",
     estimate, report::failure_document},
    {"explain", Group::kRecipe, "tell a setting's value, origin and meaning; or what an error or exit code means",
     "KEY may be left out after the id of an error alone.", kExplain,
     "runner explain recipes/digits.yaml optimizer.lr\nrunner explain recipes/digits.yaml data\n"
     "runner explain exit 4\nrunner explain out-of-range",
     explain, report::failure_document},
    {"schema",
     Group::kRecipe,
     "print the JSON Schema of recipes",
     "",
     {},
     "runner schema > runner.schema.json",
     schema,
     report::failure_document},

    {"ls", Group::kStore, "list the runs, newest first",
     "Conditions, keys and columns name columns, parameters and metrics: docs/cli.md.", kLs,
     "runner ls\nrunner ls --where 'best(eval/accuracy) > 0.97 and optimizer.lr < 1e-3'\n"
     "runner ls --sort 'best(eval/loss)' --columns 'name,best(eval/loss),optimizer.lr' --limit 10",
     ls, report::failure_document},
    {"show", Group::kStore, "show everything recorded about a run",
     "Status, attempts, metrics, states, artifacts, parameters, events, notes, machine, kernels, git\n"
     "state and environment.",
     kShow, "runner show @last\nrunner show on-tpu --metrics-report", show, report::failure_document},
    {"graphs", Group::kStore, "list the graphs that an emulated TPU compiled, and why",
     "One row for each compilation, of all attempts: the training batch at which the graph first ran, how\n"
     "often it ran, its size, its memory and the time that a step is predicted to take on the device.",
     kGraphs, "runner graphs on-tpu\nrunner graphs on-tpu --json", graphs, report::failure_document},
    {"metrics", Group::kStore, "list the metrics of a run, or every point of one", "", kMetrics,
     "runner metrics @last\nrunner metrics digits train/loss", metrics, report::failure_document},
    {"plot", Group::kStore, "draw a metric of runs in the terminal, or as a picture",
     "The terminal gets braille dots.  --smooth averages all points before they are thinned to what can\n"
     "be seen.  A NaN is a gap.  Without colours several curves are drawn in letters.",
     kPlot,
     "runner plot @last train/loss\nrunner plot @last @last~1 eval/loss --log --smooth 0.9\n"
     "runner plot digits eval/accuracy --svg accuracy.svg",
     plot, report::failure_document},
    {"watch", Group::kStore, "follow a run until it ends; exits with its exit code",
     "Shows the step and how many there will be, the time left at the rate so far, newest metrics and a\n"
     "small plot: redrawn twice a second on a terminal, else a line every five seconds.  A crashed run\n"
     "is exit code 1.  Ctrl-C ends the watching, not the run.",
     kRunOnly, "runner watch @last", watch, report::failure_document},
    {"states", Group::kStore, "list the states of a run, newest first", "", kRunOnly, "runner states @last", states,
     report::failure_document},
    {"diff", Group::kStore, "show where two runs differ",
     "Parameters and environment (machine, libraries, variables, git state, texts) that differ, and the\n"
     "newest value of every metric.",
     kDiff, "runner diff digits @last", diff, report::failure_document},
    {"sql", Group::kStore, "query the store with SQL; it cannot write", "", kSql,
     "runner sql \"SELECT run, name, status FROM runs\"\n"
     "runner sql \"SELECT step, value FROM points WHERE metric = 'eval/accuracy'\" --format csv",
     sql, report::failure_document},
    {"export", Group::kStore, "write a run's model, metrics or artifacts to files",
     "--folder writes recipe.yaml, resolved.json, params.json, metrics.csv, events.jsonl, run.json (as\n"
     "show --json) and summary.json.  Values for TensorBoard are rounded to seven digits.  An artifact\n"
     "is checked against its digest.",
     kExport, "runner export @last --model digits.safetensors\nrunner export digits --metrics digits.csv", export_run,
     report::failure_document},
    {"trace", Group::kStore, "write what a run has traced of its steps, for chrome://tracing and Perfetto",
     "The section `profile` of a recipe says which steps: docs/profiling.md.  All cycles of the newest\n"
     "attempt that has any, of all processes on one clock.",
     kTrace, "runner trace traced -o trace.json", trace, report::failure_document},
    {"report", Group::kStore, "explain a metrics report of PyTorch/XLA, or the last one in a log",
     "Of releases up to 2.9, also cut off.  Durations are the true ones: torch_xla prints some parts one\n"
     "too high.  Compiles per step, what the training waits for, counts that do not fit together, and what\n"
     "to change: docs/xla-report.md.",
     kReport,
     "runner report recipes/data/bert_metrics_report.txt\n"
     "runner report recipes/data/bert_metrics_report.txt --json",
     metrics_report, report::failure_document},
    {"tag", Group::kStore, "mark a run with a word", "--remove of a tag that the run does not have is exit code 3.",
     kTag, "runner tag @last baseline\nrunner tag @last baseline --remove", tag, report::failure_document},
    {"note", Group::kStore, "keep a text with a run", "", kNote, "runner note @last \"learning rate too high\"", note,
     report::failure_document},
    {"rm", Group::kStore, "move runs to the trash",
     "Runs in the trash are hidden from ls and from names, with all they recorded.", kRm,
     "runner rm digits wine\nrunner rm @last --purge", rm, report::failure_document},
    {"restore", Group::kStore, "bring runs back from the trash", "show tells when a run was moved to the trash.",
     kRestore, "runner restore wine", restore, report::failure_document},
    {"gc", Group::kStore, "empty the trash of what is old, and give free space back",
     "Compiled graphs (tpu.persistent_cache) that no run has used for 30 days are removed as well.  The space\n"
     "of removed runs and states goes back to the file system.",
     kGc, "runner gc\nrunner gc --grace 0", gc, report::failure_document},

    {"selftest", Group::kSystem, "train scenarios on all backends, and compare their figures with what must come out",
     "Exit code 1 where a figure is wrong.  Small trainings by real processes, in a folder of their own\n"
     "that is gone afterwards: about half a minute.  docs/selftest.md tells what each is for.",
     kSelftest, "runner selftest\nrunner selftest --backend tpu\nrunner selftest data process/trigger --json", selftest,
     report::failure_document},
    {"doctor",
     Group::kSystem,
     "describe this machine, the kernels chosen and the store",
     "CPU, kernels and their speed as measured now, memory, SQLite, the store: for bug reports.",
     {},
     "runner doctor\nrunner doctor --json",
     doctor,
     report::failure_document},
    {"help", Group::kSystem, "explain a command", "", kHelp, "runner help exec\nrunner exec --help", help,
     report::failure_document},
    {"man", Group::kSystem, "print a manual page", "make install puts the pages into share/man.", kHelp,
     "runner man > runner.1\nrunner man exec > runner-exec.1", man, report::failure_document},
    {"completion", Group::kSystem, "print what makes a shell complete command lines",
     "Commands, options, settings, runs, metrics, states and artifacts.  make install puts the scripts\n"
     "where shells look; by hand: source <(runner completion bash).  The scripts ask for words, which\n"
     "prints what may stand last.",
     kCompletion,
     "runner completion bash > ~/.local/share/bash-completion/completions/runner\n"
     "runner completion fish > ~/.config/fish/completions/runner.fish",
     completion, report::failure_document},
    {"version",
     Group::kSystem,
     "print the version, as --version does",
     "",
     {},
     "runner version\nrunner --version",
     version,
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
