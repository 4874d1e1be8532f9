// A recorded run as files for other programs: its metric points, and a folder with all but its states and artifacts.
// Not thread-safe.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "runner/report/documents.h"
#include "store/queries.h"

namespace runner::report {

// All points of a run, decoded once, on first use. `store` and `run` must outlive the object.
class AllPoints {
 public:
  AllPoints(store::Store& store, const store::RunRow& run) : store_(store), run_(run) {}

  const store::RunRow& run() const { return run_; }
  const MetricPoints& get();

 private:
  store::Store& store_;
  const store::RunRow& run_;
  std::optional<MetricPoints> points_;
};

// Returns the recorded recipe with every default filled in, as the lines that messages about it count.
std::string resolved_recipe(const store::RunDetails& details);

// Writes every point as CSV or JSON lines if the file's name ends in .csv or .jsonl, else as one JSON document.
void write_metrics(AllPoints& points, const std::string& file);

// Writes every point to a TensorBoard event file in a folder, which is created if it does not exist. Returns the file's
// name, which follows TensorBoard's pattern and is the same for each export of the run.
std::string write_events(AllPoints& points, const std::filesystem::path& folder);

// Returns the run without what identifies the machine (host, process, processor, environment) and the repository.
store::RunDetails public_parts(store::RunDetails details);

// ", with its recipe, hook and environment": what the files of the run contain about its code and machine.
std::string source_kinds_text(const store::RunDetails& details);

// Writes recipe.yaml, resolved.json, params.json, metrics.csv, events.jsonl, run.json and summary.json. Returns the
// damaged parts of the record, which are omitted.
std::vector<store::Damage> write_run_folder(const store::RunDetails& details, AllPoints& points,
                                            const std::filesystem::path& folder);

}  // namespace runner::report
