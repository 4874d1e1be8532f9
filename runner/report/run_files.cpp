#include "runner/report/run_files.h"

#include <algorithm>

#include <fmt/format.h>

#include "runner/formats/text_rows.h"
#include "runner/formats/write.h"
#include "schema/base/json.h"

namespace runner::report {
namespace {

namespace fs = std::filesystem;

std::vector<formats::Scalar> scalars_of(const MetricPoints& metrics) {
  std::vector<formats::Scalar> scalars;
  for (const auto& [name, points] : metrics) {
    for (const store::Point& point : points) scalars.push_back({name, point.step, point.time_ms, point.value});
  }
  return scalars;
}

// One line for each point of every metric.
std::string points_csv(const MetricPoints& metrics) {
  std::string text = formats::csv_header(/*origins=*/false);
  for (const formats::Scalar& point : scalars_of(metrics)) text += formats::csv_point(point);
  return text;
}

// One JSON document per line for each point.
std::string points_jsonl(const MetricPoints& metrics) {
  std::string text;
  for (const formats::Scalar& point : scalars_of(metrics)) text += formats::json_point(point);
  return text;
}

void make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  RUN_CHECK(!error, ErrorKind::kRun, "cannot create the folder {}: {}", folder.string(), error.message());
}

// A file of write_run_folder(), and the part of the run's record that it contains.
struct RunFile {
  const char* name;
  const char* part;
  std::string (*text)(const store::RunDetails& details, AllPoints& points);
};

constexpr RunFile kRunFiles[] = {
    {"recipe.yaml", "recipe", [](const auto& details, auto&) { return details.recipe.text; }},
    {"resolved.json", "recipe",
     [](const auto& details, auto&) { return json::text(json::parse(details.recipe.resolved_json)); }},
    {"params.json", "parameters", [](const auto& details, auto&) { return params_document(details); }},
    {"metrics.csv", "points", [](const auto&, auto& points) { return points_csv(points.get()); }},
    {"events.jsonl", "events", [](const auto& details, auto&) { return events_lines(details); }},
    {"run.json", "", [](const auto& details, auto&) { return show_document(details); }},
    {"summary.json", "", [](const auto& details, auto&) { return json::text(json::parse(details.run.summary_json)); }},
};

}  // namespace

const MetricPoints& AllPoints::get() {
  if (!points_) {
    points_.emplace();
    for (const store::MetricSummary& metric : store::list_metrics(store_, run_.id))
      points_->emplace_back(metric.name, store::metric_points(store_, run_, metric.name));
  }
  return *points_;
}

void write_metrics(AllPoints& points, const std::string& file) {
  const MetricPoints& metrics = points.get();
  const bool csv = file.ends_with(".csv"), lines = file.ends_with(".jsonl");
  formats::write_file(file, csv     ? points_csv(metrics)
                            : lines ? points_jsonl(metrics)
                                    : all_points_document(points.run(), metrics));
}

std::string write_events(AllPoints& points, const fs::path& folder) {
  const store::RunRow& run = points.run();
  std::vector<formats::Scalar> scalars = scalars_of(points.get());
  // TensorBoard expects the points of an event file in the order of steps.
  std::stable_sort(scalars.begin(), scalars.end(), [](const auto& a, const auto& b) { return a.step < b.step; });
  make_folder(folder);
  const fs::path file = folder / fmt::format("events.out.tfevents.{}.{}", run.created_ms / 1000, run.uid);
  formats::write_file(file, formats::event_file(run.created_ms, scalars));
  return file.string();
}

std::vector<store::Damage> write_run_folder(const store::RunDetails& details, AllPoints& points,
                                            const fs::path& folder) {
  std::vector<store::Damage> damage = details.damage;
  make_folder(folder);
  for (const RunFile& file : kRunFiles) {
    if (std::ranges::find(details.damage, file.part, &store::Damage::part) != details.damage.end()) continue;
    std::string text;
    try {
      text = file.text(details, points);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kStore) throw;
      damage.push_back({file.part, error.message()});
      continue;
    }
    formats::write_file(folder / file.name, text);
  }
  return damage;
}

}  // namespace runner::report
