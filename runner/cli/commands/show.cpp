#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/ranges.h>

#include "runner/cli/commands/shared_options.h"
#include "runner/cli/recorded_run.h"
#include "runner/cli/store_access.h"
#include "runner/formats/write.h"
#include "runner/images/write_png.h"
#include "runner/report/documents.h"
#include "runner/report/format.h"
#include "runner/report/output.h"
#include "runner/report/run_files.h"
#include "runner/report/run_text.h"
#include "runner/report/sample_sheet.h"
#include "runner/report/xla/metrics_report.h"
#include "runner/report/xla/report_json.h"
#include "runner/train/run/checkpoint/sections.h"
#include "runner/train/run/gpu_use.h"
#include "runner/train/run/run_data.h"
#include "schema/base/text.h"
#include "store/device_report.h"

namespace runner::cli {
namespace {

struct ShowOptions : RunOptions {
  bool recipe = false;
  bool metrics_report = false;
  std::string durations;
  bool upstream_durations = false;
  std::string samples_file;
};

constexpr Argument kShowArguments[] = {
    kRunArgument,
    {"--recipe", "", "print the recipe with every default filled in, as JSON", &ShowOptions::recipe},
    {"--metrics-report", "", "print the metrics report of an emulated TPU, in the format of PyTorch/XLA",
     &ShowOptions::metrics_report},
    {"--durations", "exact|upstream",
     "with --metrics-report: how to print durations; upstream: as PyTorch/XLA does, with its rounding error; default: "
     "exact",
     &ShowOptions::durations},
    {"--upstream-durations", "", "the same as --durations upstream", &ShowOptions::upstream_durations},
    {"--samples", "FILE", "write images of the first training batch, after augmentation, to FILE, a .png file",
     &ShowOptions::samples_file}};

constexpr int64_t kMostSamples = 64;  // of a contact sheet

report::xla::DurationStyle duration_style(const ShowOptions& options) {
  RUN_CHECK(!options.upstream_durations || options.durations != "exact", ErrorKind::kUsage,
            "--upstream-durations conflicts with --durations exact; remove one of them");
  const bool as_upstream = options.upstream_durations || options.durations == "upstream";
  return as_upstream ? report::xla::DurationStyle::kUpstream : report::xla::DurationStyle::kExact;
}

// Returns whether the run used the dialect of PyTorch/XLA 1.7.
bool is_in_1_7(store::Store& store, const store::RunRow& run) {
  const std::vector<store::Param> params = store::show_intact_parts(store, run).params;
  const auto dialect = std::ranges::find(params, "tpu.dialect", &store::Param::key);
  return dialect != params.end() && dialect->value == store::Param::Value(std::string("xla-1.7"));
}

int show_metrics_report(store::Store& store, const ShowOptions& options, report::Output& out) {
  RUN_CHECK(!options.json, ErrorKind::kUsage,
            "--json conflicts with --metrics-report; the JSON document has the metrics under the key tpu");
  const store::RunRow run = store::find_run(store, options.run, store::Trash::kIncluded);
  const std::string metrics = store::newest_device_metrics(store, run.id).json;
  const bool has_report = !metrics.empty() && train::gpu_of_document(metrics) == json::Value();
  RUN_CHECK(has_report || run.backend == "tpu", ErrorKind::kNotFound,
            "run {} has no metrics report: its backend is {}, not tpu", run.uid, run.backend);
  RUN_CHECK(has_report, ErrorKind::kNotFound,
            "run {} has no metrics report yet: it is recorded with each state, and at the end", run.uid);
  auto report = report::xla::report_of_json(json::parse(metrics));
  RUN_CHECK(report.has_value(), ErrorKind::kStore,
            "the metrics report of run {} is damaged; restore the store from a backup", run.uid);
  if (is_in_1_7(store, run)) report = report::xla::as_in_1_7(std::move(*report));
  out.data(report::xla::report_text(*report, duration_style(options)));
  return 0;
}

// Reads the data of the run again. Its newest state has their fingerprint.
int show_samples(store::Store& store, const ShowOptions& options, report::Output& out) {
  const store::RunDetails details =
      store::show_intact_parts(store, store::find_run(store, options.run, store::Trash::kIncluded));
  const schema::ReadResult recipe = recorded_recipe(details, store_path(options));
  const std::optional<train::Checkpoint> state = train::host_part_of(store, details.run);
  const data::Data data = about_missing_files(
      details, store_path(options), {}, [&] { return data::load(recipe.recipe, state ? &state->encoding : nullptr); });
  if (state)
    train::check_data("data.train", state->train_data, data.train.fingerprint().to_string(), "restore the data");
  const report::SampleSheet sheet = report::sample_sheet(data, recipe.recipe, kMostSamples);
  out.file(options.samples_file, images::png_bytes(sheet.image), formats::FileKind::kPng);
  out.say(fmt::format("wrote {}: samples of the first training batch{}{}", report::file_text(options.samples_file),
                      data.augmenter ? " after augmentation" : "", sheet.values.empty() ? "" : "; " + sheet.values));
  if (!sheet.labels.empty()) out.say(fmt::format("labels, row by row: {}", fmt::join(sheet.labels, ", ")));
  if (!recipe.recipe.hooks.empty()) out.say("a transform of the hook is not applied");
  if (!state) out.say("the run has no state, so that the data cannot be compared with those of the run");
  return 0;
}

int show_recipe(const store::RunDetails& details, report::Output& out) {
  const auto damage = std::ranges::find(details.damage, "recipe", &store::Damage::part);
  RUN_CHECK(damage == details.damage.end(), ErrorKind::kStore, "the recipe of run {} cannot be read: {}",
            details.run.uid, damage->message);
  out.data(report::resolved_recipe(details));
  return 0;
}

int show(const ShowOptions& options, report::Output& out) {
  RUN_CHECK(options.metrics_report || (!options.upstream_durations && options.durations.empty()), ErrorKind::kUsage,
            "{} needs --metrics-report", options.upstream_durations ? "--upstream-durations" : "--durations");
  RUN_CHECK(!options.recipe || !(options.metrics_report || options.json), ErrorKind::kUsage,
            "--recipe conflicts with {}; remove one of them", options.json ? "--json" : "--metrics-report");
  const std::string& samples = options.samples_file;
  RUN_CHECK(samples.empty() || !(options.metrics_report || options.json || options.recipe), ErrorKind::kUsage,
            "--samples conflicts with {}; remove one of them",
            options.json     ? "--json"
            : options.recipe ? "--recipe"
                             : "--metrics-report");
  RUN_CHECK(samples.empty() || report::is_standard_output(samples) || lower_case(samples).ends_with(".png"),
            ErrorKind::kUsage, "--samples: expected a file name that ends in .png, got {}", samples);
  store::Store store = open_store(options);
  if (!samples.empty()) return show_samples(store, options, out);
  if (options.metrics_report) return show_metrics_report(store, options, out);
  const store::RunDetails details =
      store::show_intact_parts(store, store::find_run(store, options.run, store::Trash::kIncluded));
  note_namesakes(store, details.run, options.run, out);
  if (options.recipe) return show_recipe(details, out);
  const report::MoreOfRun more = more_of(store, details.run);
  out.colored_data(options.json ? report::show_document(details, more)
                                : report::show_text(details, more, out.data_width(), out.data_color()));
  for (const store::Damage& damage : details.damage) {
    out.colored_talk(
        report::error_text(fmt::format("shown without its {}: {}", damage.part, damage.message), out.talk_color()));
  }
  return details.damage.empty() ? 0 : exit_code(ErrorKind::kStore);
}

}  // namespace

const Command kShowCommand{
    .name = "show",
    .group = Group::kStore,
    .summary = "show everything recorded about a run",
    .details =
        "Status, attempts, metrics, states, artifacts, parameters, events, notes, machine, kernels, git\n"
        "state and environment.",
    .arguments = kShowArguments,
    .examples =
        "runner show @last\n"
        "runner show @last --recipe\n"
        "runner show on-tpu --metrics-report",
    .other_names = "info inspect status",
    .has_json = true,
    .action = action<show>,
    .failure_document = report::failure_document,
};

}  // namespace runner::cli
