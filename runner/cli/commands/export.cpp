#include "runner/cli/access.h"
#include "runner/cli/chosen_state.h"
#include "runner/cli/commands/commands.h"
#include "runner/formats/write.h"
#include "runner/report/csv.h"
#include "runner/report/documents.h"
#include "runner/report/format.h"
#include "runner/train/stored_model.h"
#include "schema/json.h"

namespace runner::cli {
namespace {

namespace fs = std::filesystem;

// A line for each point of every metric.
std::string points_csv(const report::MetricPoints& metrics) {
  std::string text = "metric,step,time,value\n";
  for (const auto& [name, points] : metrics) {
    for (const store::Point& point : points) {
      text += report::csv_line(std::vector{name, std::to_string(point.step), report::utc_time(point.time_ms),
                                           fmt::format("{}", point.value)});
    }
  }
  return text;
}

void export_metrics(store::Store& store, const store::RunRow& run, const std::string& file) {
  const bool csv = file.ends_with(".csv");
  RUN_CHECK(csv || file.ends_with(".json"), ErrorKind::kUsage,
            "--metrics writes .csv or .json, and {} is neither; rename it", file);
  report::MetricPoints metrics;
  for (const store::MetricSummary& metric : store::list_metrics(store, run.id)) {
    metrics.emplace_back(metric.name, store::metric_points(store, run, metric.name));
  }
  formats::write_file(file, csv ? points_csv(metrics) : report::all_points_document(run, metrics));
}

// Returns the file: FILE, or what the name ends in.
std::string export_artifact(store::Store& store, const store::RunRow& run, const Options& options) {
  const store::ArtifactInfo artifact = store::find_artifact(store, run.id, options.artifact);
  const std::string file = options.file.empty() ? fs::path(artifact.header.name).filename().string() : options.file;
  const std::vector<std::byte> bytes = store::read_artifact(store, artifact);
  formats::write_file(file, std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  return file;
}

void check_wanted(const Options& options) {
  RUN_CHECK(!options.model_file.empty() || !options.metrics_file.empty() || !options.artifact.empty(),
            ErrorKind::kUsage,
            "export needs --model FILE, --metrics FILE or --artifact NAME; see `runner export --help`");
  RUN_CHECK(
      options.file.empty() || !options.artifact.empty(), ErrorKind::kUsage,
      "{} is where --artifact NAME would write; which file is the model's or the metrics', --model and --metrics say",
      options.file);
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
  json::Value state, model, metrics, artifact;
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
  if (!options.artifact.empty()) {
    const std::string file = export_artifact(store, run, options);
    out.talk(fmt::format("wrote {}: the artifact {}\n", file, options.artifact));
    artifact = file;
  }
  if (options.json) {
    out.data(json::text(json::Object{
        {"run", run.uid}, {"state", state}, {"model", model}, {"metrics", metrics}, {"artifact", artifact}}));
  }
  return 0;
}

}  // namespace runner::cli
