#include <algorithm>

#include "runner/cli/access.h"
#include "runner/cli/chosen_state.h"
#include "runner/cli/commands/commands.h"
#include "runner/formats/points.h"
#include "runner/formats/write.h"
#include "runner/report/documents.h"
#include "runner/train/stored_model.h"
#include "schema/json.h"

namespace runner::cli {
namespace {

namespace fs = std::filesystem;

std::vector<formats::Scalar> scalars_of(const report::MetricPoints& metrics) {
  std::vector<formats::Scalar> scalars;
  for (const auto& [name, points] : metrics) {
    for (const store::Point& point : points) scalars.push_back({name, point.step, point.time_ms, point.value});
  }
  return scalars;
}

// A line for each point of every metric.
std::string points_csv(const report::MetricPoints& metrics) {
  std::string text = formats::csv_header(/*origins=*/false);
  for (const formats::Scalar& point : scalars_of(metrics)) text += formats::csv_line(point);
  return text;
}

report::MetricPoints all_points(store::Store& store, const store::RunRow& run) {
  report::MetricPoints metrics;
  for (const store::MetricSummary& metric : store::list_metrics(store, run.id)) {
    metrics.emplace_back(metric.name, store::metric_points(store, run, metric.name));
  }
  return metrics;
}

// A document on each line for each point.
std::string points_jsonl(const report::MetricPoints& metrics) {
  std::string text;
  for (const formats::Scalar& point : scalars_of(metrics)) text += formats::json_line(point);
  return text;
}

void export_metrics(store::Store& store, const store::RunRow& run, const std::string& file) {
  const bool csv = file.ends_with(".csv"), lines = file.ends_with(".jsonl");
  const report::MetricPoints metrics = all_points(store, run);
  formats::write_file(file, csv     ? points_csv(metrics)
                            : lines ? points_jsonl(metrics)
                                    : report::all_points_document(run, metrics));
}

void make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  RUN_CHECK(!error, ErrorKind::kRun, "cannot make the folder {}: {}", folder.string(), error.message());
}

// Returns the file.  By step, as TensorBoard expects a file to grow; its name is what it looks for, and the same again.
std::string export_events(store::Store& store, const store::RunRow& run, const fs::path& folder) {
  const report::MetricPoints metrics = all_points(store, run);
  std::vector<formats::Scalar> scalars = scalars_of(metrics);
  std::stable_sort(scalars.begin(), scalars.end(), [](const auto& a, const auto& b) { return a.step < b.step; });
  make_folder(folder);
  const fs::path file = folder / fmt::format("events.out.tfevents.{}.{}", run.created_ms / 1000, run.uid);
  formats::write_file(file, formats::event_file(run.created_ms, scalars));
  return file.string();
}

std::string events_jsonl(const store::RunDetails& details) {
  std::string text;
  for (const store::EventRow& event : details.events) {
    text += json::line(json::Object{{"time", formats::utc_time(event.time_ms)},
                                    {"attempt", event.attempt},
                                    {"level", event.level},
                                    {"kind", event.kind},
                                    {"data", json::parse(event.json)}});
  }
  return text;
}

// Everything but states and artifacts, as files that any program reads.
void export_folder(store::Store& store, const store::RunRow& run, const fs::path& folder) {
  const store::RunDetails details = store::show_run(store, run);
  make_folder(folder);
  json::Object params;
  for (const store::Param& param : details.params) {
    params.emplace_back(param.key, std::visit([](const auto& value) { return json::Value(value); }, param.value));
  }
  formats::write_file(folder / "recipe.yaml", details.recipe.text);
  formats::write_file(folder / "resolved.json", json::text(json::parse(details.recipe.resolved_json)));
  formats::write_file(folder / "params.json", json::text(params));
  formats::write_file(folder / "metrics.csv", points_csv(all_points(store, run)));
  formats::write_file(folder / "events.jsonl", events_jsonl(details));
  formats::write_file(folder / "run.json", report::show_document(details));
  formats::write_file(folder / "summary.json", json::text(json::parse(details.run.summary_json)));
}

// Returns the file: FILE, or what the name ends in.
std::string export_artifact(store::Store& store, const store::RunRow& run, const Options& options) {
  const store::ArtifactInfo artifact = store::find_artifact(store, run.id, options.artifact);
  std::string file = options.file.empty() ? fs::path(artifact.header.name).filename().string() : options.file;
  const std::vector<std::byte> bytes = store::read_artifact(store, artifact);
  formats::write_file(file, std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  return file;
}

void check_targets(const Options& options) {
  const std::string& metrics = options.metrics_file;
  const auto ends = [&](const char* ending) { return metrics.ends_with(ending); };
  RUN_CHECK(metrics.empty() || ends(".csv") || ends(".jsonl") || ends(".json"), ErrorKind::kUsage,
            "--metrics writes .csv, .json or .jsonl, and {} is none of them; rename it", metrics);
  const fs::path folder = options.folder;
  RUN_CHECK(folder.empty() || !fs::exists(folder) || fs::is_empty(folder), ErrorKind::kUsage,
            "{} is there already and is no empty folder; name another one", folder.string());
  RUN_CHECK(options.model_file != "-" || options.file != "-", ErrorKind::kUsage,
            "the model and the artifact cannot both go to standard output; name a file");
}

// Before anything is written.
void check_wanted(const Options& options) {
  RUN_CHECK(
      !options.model_file.empty() || !options.metrics_file.empty() || !options.artifact.empty() ||
          !options.tensorboard.empty() || !options.folder.empty(),
      ErrorKind::kUsage,
      "export needs --model FILE, --metrics FILE, --tensorboard DIR, --folder DIR or --artifact NAME; see `runner "
      "export --help`");
  RUN_CHECK(
      options.file.empty() || !options.artifact.empty(), ErrorKind::kUsage,
      "{} is where --artifact NAME would write; which file is the model's or the metrics', --model and --metrics say",
      options.file);
  RUN_CHECK(options.state == Options::kNotGiven || !options.model_file.empty(), ErrorKind::kUsage,
            "--state says whose model --model FILE writes, and there is no --model; name its file");
  check_targets(options);
  RUN_CHECK(!options.json || options.model_file != "-", ErrorKind::kUsage,
            "--json and the model cannot both go to standard output; name a file with --model");
  RUN_CHECK(!options.json || options.file != "-", ErrorKind::kUsage,
            "--json and the artifact cannot both go to standard output; name a file");
}

}  // namespace

int export_run(const Options& options, report::Output& out) {
  check_wanted(options);
  store::Store store = open_store(options);
  const store::RunRow run = store::find_run(store, options.run);
  json::Value state, model, metrics, tensorboard, folder, artifact;
  if (!options.model_file.empty()) {
    const ChosenState chosen = load_chosen_state(store, run, options.state);  // `run`: @last may be another by now
    train::export_model(chosen.state, options.model_file);
    out.talk(fmt::format("wrote {}: the model of state {}\n", options.model_file, chosen.state.info.id));
    state = chosen.state.info.id;
    model = options.model_file;
  }
  if (!options.metrics_file.empty()) {
    export_metrics(store, run, options.metrics_file);
    out.talk(fmt::format("wrote {}: every metric point\n", options.metrics_file));
    metrics = options.metrics_file;
  }
  if (!options.tensorboard.empty()) {
    const std::string file = export_events(store, run, options.tensorboard);
    out.talk(
        fmt::format("wrote {}: every metric point; `tensorboard --logdir {}` shows them\n", file, options.tensorboard));
    tensorboard = file;
  }
  if (!options.folder.empty()) {
    export_folder(store, run, options.folder);
    out.talk(fmt::format("wrote {}: the run as files\n", options.folder));
    folder = options.folder;
  }
  if (!options.artifact.empty()) {
    const std::string file = export_artifact(store, run, options);
    out.talk(fmt::format("wrote {}: the artifact {}\n", file, options.artifact));
    artifact = file;
  }
  if (options.json) {
    out.data(json::text(json::Object{{"run", run.uid},
                                     {"state", state},
                                     {"model", model},
                                     {"metrics", metrics},
                                     {"tensorboard", tensorboard},
                                     {"folder", folder},
                                     {"artifact", artifact}}));
  }
  return 0;
}

}  // namespace runner::cli
