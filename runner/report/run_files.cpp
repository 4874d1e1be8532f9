#include "runner/report/run_files.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "runner/formats/text_rows.h"
#include "runner/formats/used_files.h"
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

// Writes files to a folder. Unless keep() is called, the destructor removes new files, and the folders that create()
// created.
class FilesInFolder {
 public:
  explicit FilesInFolder(fs::path folder) : folder_(std::move(folder)) {}

  void create() {
    formats::check_output(folder_);
    add_missing(folder_);
    formats::create_folder(folder_);
  }

  fs::path write(const std::string& name, std::string_view text) {
    fs::path file = folder_ / name;
    created_.add(file);
    formats::write_file(file, text, formats::kind_of(text));
    return file;
  }

  void keep() { created_.keep(); }

 private:
  // Outer folders first.
  void add_missing(const fs::path& folder) {
    std::error_code ignored;
    if (folder.empty() || fs::exists(folder, ignored)) return;
    add_missing(folder.parent_path());
    created_.add(folder);
  }

  const fs::path folder_;
  formats::NewFiles created_;
};

// A file of write_run_folder(), and the part of the run's record that it contains.
struct RunFile {
  const char* name;
  const char* part;
  std::string (*text)(const store::RunDetails& details, AllPoints& points);
};

constexpr RunFile kRunFiles[] = {
    {"recipe.yaml", "recipe", [](const auto& details, auto&) { return details.recipe.text; }},
    {"resolved.json", "recipe", [](const auto& details, auto&) { return resolved_recipe(details); }},
    {"params.json", "parameters", [](const auto& details, auto&) { return params_document(details); }},
    {"metrics.csv", "points", [](const auto&, auto& points) { return points_csv(points.get()); }},
    {"events.jsonl", "events", [](const auto& details, auto&) { return events_lines(details); }},
    {"run.json", "", [](const auto& details, auto&) { return show_document(details); }},
    {"summary.json", "", [](const auto& details, auto&) { return json::text(json::parse(details.run.summary_json)); }},
};

}  // namespace

std::string resolved_recipe(const store::RunDetails& details) {
  return json::text(json::parse(details.recipe.resolved_json));
}

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
  formats::write_file(file,
                      csv     ? points_csv(metrics)
                      : lines ? points_jsonl(metrics)
                              : all_points_document(points.run(), metrics),
                      csv ? formats::FileKind::kMetrics : formats::FileKind::kJson);
}

std::string write_events(AllPoints& points, const fs::path& folder) {
  const store::RunRow& run = points.run();
  std::vector<formats::Scalar> scalars = scalars_of(points.get());
  // TensorBoard expects the points of an event file in the order of steps.
  std::stable_sort(scalars.begin(), scalars.end(), [](const auto& a, const auto& b) { return a.step < b.step; });
  FilesInFolder files(folder);
  files.create();
  const fs::path file = files.write(fmt::format("events.out.tfevents.{}.{}", run.created_ms / 1000, run.uid),
                                    formats::event_file(run.created_ms, scalars));
  files.keep();
  return file.string();
}

store::RunDetails public_parts(store::RunDetails details) {
  details.run.host.clear();
  details.run.pid = 0;
  details.run.cpu_features.clear();
  details.run.kernels_json = "{}";
  for (store::AttemptProvenance& attempt : details.provenance) {
    attempt.provenance.environment_json = "{}";
    attempt.provenance.git = {};
    std::erase_if(attempt.provenance.sources,
                  [](const store::AttemptSource& source) { return source.kind == store::kDiffSource; });
  }
  return details;
}

std::string source_kinds_text(const store::RunDetails& details) {
  std::vector<std::string> parts;
  if (!details.recipe.text.empty()) parts.emplace_back("recipe");
  const auto has = [&](std::string_view kind) {
    return std::ranges::any_of(details.provenance, [&](const store::AttemptProvenance& attempt) {
      return std::ranges::find(attempt.provenance.sources, kind, &store::AttemptSource::kind) !=
             attempt.provenance.sources.end();
    });
  };
  if (has(store::kHookSource)) parts.emplace_back("hook");
  const bool has_environment = std::ranges::any_of(details.provenance, [](const store::AttemptProvenance& attempt) {
    return attempt.provenance.environment_json.size() > std::string_view("{}").size();
  });
  if (has_environment) parts.emplace_back("environment");
  if (has(store::kDiffSource)) parts.emplace_back("uncommitted changes of the code");
  if (parts.empty()) return "";
  const std::string last = parts.back();
  parts.pop_back();
  return parts.empty() ? fmt::format(", with its {}", last)
                       : fmt::format(", with its {} and {}", fmt::join(parts, ", "), last);
}

std::vector<store::Damage> write_run_folder(const store::RunDetails& details, AllPoints& points,
                                            const fs::path& folder) {
  std::vector<store::Damage> damage = details.damage;
  FilesInFolder files(folder);
  files.create();
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
    files.write(file.name, text);
  }
  files.keep();
  return damage;
}

}  // namespace runner::report
