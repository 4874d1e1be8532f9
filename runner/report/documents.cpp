#include "runner/report/documents.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "runner/report/memory_text.h"
#include "runner/report/run_text.h"
#include "schema/base/clock.h"
#include "schema/base/diagnostic.h"
#include "schema/base/json.h"
#include "schema/base/secrets.h"
#include "schema/base/sha256.h"
#include "store/process.h"
#include "store/value_text.h"

namespace runner::report {
namespace {

json::Value time_or_null(std::optional<int64_t> ms) {
  return ms ? json::Value(utc_time(*ms)) : json::Value();
}

// A line or column; null if it is unknown.
json::Value positive_or_null(int number) {
  return number > 0 ? json::Value(number) : json::Value();
}

json::Value error_json(const std::string& message, const std::string& file, int line) {
  return json::Object{
      {"message", hide_secrets(message)}, {"file", json::or_null(file)}, {"line", positive_or_null(line)}};
}

// Null if processes are not bound to cores.
json::Value cores_json(const std::vector<std::vector<int>>& cores) {
  if (cores.empty()) return {};
  return json::list_of(cores, [](const std::vector<int>& share) {
    return json::list_of(share, [](int core) { return int64_t{core}; });
  });
}

// Null if the batch size was not fitted to memory.
json::Value fitted_json(const std::optional<train::FittedBatch>& fitted) {
  if (!fitted) return {};
  return json::Object{
      {"batch_size", fitted->batch_size},
      {"gradient_accumulation_steps", fitted->accumulation},
      {"memory_bytes", fitted->memory_bytes > 0 ? json::Value(fitted->memory_bytes) : json::Value()},
      {"attempts", json::list_of(fitted->attempts, [](const train::BatchAttempt& attempt) {
         return json::Object{{"samples", attempt.samples}, {"bytes", attempt.bytes}, {"fits", attempt.fits}};
       })}};
}

json::Value input_json(const data::InputUse& input) {
  if (input.batches == 0) return {};
  return json::Object{{"batches", input.batches},
                      {"ready", input.mean_ready()},
                      {"most_ready", input.ahead},
                      {"wait_seconds", input.wait_seconds()}};
}

json::Value graphs_json(const std::optional<train::GraphUse>& graphs) {
  if (!graphs) return {};
  return json::Object{{"compiled", graphs->compiled},
                      {"compile_seconds", graphs->compile_seconds},
                      {"executions", graphs->executions},
                      {"predicted_seconds", json::List{graphs->least_seconds, graphs->most_seconds}}};
}

json::Object run_json(const train::RunResult& result) {
  json::Object metrics;
  for (const auto& [name, range] : result.metrics) {
    metrics.emplace_back(name, json::Object{{"last", range.last}, {"min", range.min}, {"max", range.max}});
  }
  return {{"run", json::or_null(result.run)},
          {"name", json::or_null(result.name)},
          {"status", std::string(store::to_string(result.status))},
          {"exit_code", result.exit_code},
          {"backend", json::or_null(result.backend)},
          {"num_processes", result.num_processes},
          {"cores", cores_json(result.cores)},
          {"epochs", result.epochs},
          {"optimizer_steps", result.optimizer_steps},
          {"skipped_steps", result.skipped_steps},
          {"samples", result.samples},
          {"repeated_samples", result.repeated_samples},
          {"input", input_json(result.input)},
          {"graphs", graphs_json(result.graphs)},
          {"gpu", result.gpu ? train::gpu_json(*result.gpu) : json::Value()},
          {"seconds", result.seconds},
          {"first_step_seconds", result.first_step_seconds ? json::Value(*result.first_step_seconds) : json::Value()},
          {"metrics", std::move(metrics)},
          {"states", json::list_of(result.states)},
          {"peak_memory", peak_json(result.peak_memory)},
          {"predicted_memory", result.predicted_memory ? peak_json(*result.predicted_memory) : json::Value()},
          {"auto_batch_size", fitted_json(result.fitted_batch)},
          {"warnings", json::list_of(result.warnings)},
          {"reason", json::or_null(result.reason)},
          {"error",
           result.error ? error_json(result.error->message, result.error->file, result.error->line) : json::Value()}};
}

void set(json::Object& object, std::string_view key, json::Value value) {
  for (auto& [name, member] : object) {
    if (name == key) return void(member = std::move(value));
  }
  object.emplace_back(key, std::move(value));
}

// Place of the error, else of the recipe's key that it is about.
const SourceMark& place_of(const Error& error) {
  return error.where().file.empty() ? error.in_recipe().mark : error.where();
}

// Adds an error to an existing document.
std::string failed(json::Object document, const Error& error) {
  set(document, "exit_code", exit_code(error.kind()));
  std::string message(error.text());
  if (const auto* recipe = dynamic_cast<const schema::RecipeError*>(&error)) {
    message = recipe->diagnostics().front().message;  // the first one represents all
    set(document, "errors", json::member(json::parse(schema::render_json(recipe->diagnostics())), "errors"));
  }
  const SourceMark& where = place_of(error);
  set(document, "error", error_json(message, where.file, where.line));
  return json::text(document);
}

// Labels of the classes, by their index; null if the labels are not classes.
json::Value classes_json(const data::Encoding& encoding) {
  if (encoding.label_kind != data::LabelKind::kClass || encoding.predicts_tokens()) return {};
  if (encoding.has_names()) return json::list_of(encoding.class_names);
  json::List labels;
  for (int64_t i = 0; i < encoding.outputs; ++i)
    labels.emplace_back(encoding.class_values.empty() ? i : encoding.class_values[static_cast<size_t>(i)]);
  return labels;
}

json::Object run_row_json(const store::RunRow& run) {
  return {{"run", run.uid},
          {"name", run.name},
          {"status", std::string(store::to_string(run.status))},
          {"exit_code", json::or_null(run.exit_code)},
          {"reason", json::or_null(run.reason)},
          {"created", utc_time(run.created_ms)},
          {"started", utc_time(run.started_ms)},
          {"ended", time_or_null(run.ended_ms)},
          {"backend", run.backend},
          {"num_processes", run.num_processes},
          {"seed", run.seed},
          {"parent", json::or_null(run.parent)},
          {"attempts", run.attempts},
          {"dropped_points", run.dropped_points},
          {"tags", json::list_of(run.tags)},
          {"trashed", time_or_null(run.trashed_ms)},
          {"total_seconds", seconds_of_attempts(run)}};
}

json::Object state_json(const store::StateInfo& state) {
  json::Object metrics;
  for (const auto& [name, value] : state.metrics) metrics.emplace_back(name, value);
  return {{"state", state.id},
          {"run", state.run},
          {"attempt", state.attempt},
          {"step", state.step},
          {"epoch", state.epoch},
          {"reason", state.reason},
          {"pinned", state.pinned},
          {"names", json::list_of(state.names, [](const std::string& name) { return name; })},
          {"superseded", state.superseded},
          {"bytes", state.bytes},
          {"new_bytes", state.new_bytes},
          {"created", utc_time(state.created_ms)},
          {"metrics", std::move(metrics)}};
}

json::Object artifact_json(const store::ArtifactInfo& artifact) {
  return {{"artifact", artifact.header.name},  {"attempt", artifact.attempt},
          {"step", artifact.header.step},      {"kind", artifact.header.kind},
          {"meta", artifact.header.meta},      {"bytes", artifact.bytes},
          {"new_bytes", artifact.new_bytes},   {"sha256", hex(artifact.digest)},
          {"superseded", artifact.superseded}, {"created", utc_time(artifact.created_ms)}};
}

json::Object source_json(const store::AttemptSource& source) {
  return {{"kind", source.kind},
          {"path", source.path},
          {"bytes", std::ssize(source.text)},
          {"sha256", hex(sha256(source.text))}};
}

json::Object data_json(const store::RecordedFile& file) {
  return {{"key", file.key},
          {"path", file.path},
          {"rows", file.rows},
          {"bytes", file.bytes},
          {"sha256", file.digest ? json::Value(hex(*file.digest)) : json::Value()}};
}

json::Object provenance_json(const store::AttemptProvenance& row) {
  const auto& [git, environment, sources, data] = row.provenance;
  const json::Object git_state{{"commit", json::or_null(git.commit)},
                               {"branch", json::or_null(git.branch)},
                               {"dirty", git.dirty ? json::Value(*git.dirty) : json::Value()},
                               {"untracked", json::list_of(git.untracked)},
                               {"note", json::or_null(git.note)}};
  return {{"attempt", row.attempt},
          {"git", git_state},
          {"environment", json::parse(environment)},
          {"sources", json::list_of(sources, source_json)},
          {"data", json::list_of(data, data_json)}};
}

json::Object metric_json(const store::MetricSummary& metric) {
  const int64_t finite = metric.n - metric.nan_count - metric.inf_count;
  return {{"name", metric.name},
          {"points", metric.n},
          {"first_step", metric.first_step},
          {"last_step", metric.last_step},
          {"first", metric.first},
          {"last", metric.last},
          {"min", metric.min},
          {"min_step", metric.min_step},
          {"max", metric.max},
          {"max_step", metric.max_step},
          {"mean", finite > 0 ? json::Value(metric.sum / static_cast<double>(finite)) : json::Value()},
          {"nan_count", metric.nan_count},
          {"inf_count", metric.inf_count}};
}

json::List points_json(std::span<const store::Point> points) {
  return json::list_of(points, [](const store::Point& point) { return json::List{point.step, point.value}; });
}

json::Object attempt_json(const store::AttemptRow& attempt) {
  return {{"attempt", attempt.no},
          {"start_step", attempt.start_step},
          {"from_state", json::or_null(attempt.from_state)},
          {"started", utc_time(attempt.started_ms)},
          {"ended", time_or_null(attempt.ended_ms)},
          {"status", std::string(store::to_string(attempt.status))},
          {"superseded_points", attempt.superseded_points},
          {"planned_steps", json::or_null(attempt.planned_steps)}};
}

json::Object event_json(const store::EventRow& event) {
  return {{"time", utc_time(event.time_ms)},
          {"attempt", event.attempt},
          {"level", event.level},
          {"kind", event.kind},
          {"data", json::parse(event.json)}};
}

json::Object note_json(const store::Note& note) {
  return {{"time", utc_time(note.time_ms)}, {"text", note.text}};
}

// Returns the metrics of a device with their attempt, or null if there are none.
json::Value of_attempt(const json::Value& counted, int64_t attempt) {
  if (counted == json::Value()) return {};
  json::Object figures{{"attempt", attempt}};
  const json::Object& all = json::members_of(counted);
  figures.insert(figures.end(), all.begin(), all.end());
  return figures;
}

json::Object params_json(const store::RunDetails& details) {
  json::Object params;
  for (const store::Param& param : details.params) {
    params.emplace_back(param.key, store::json_of(param.value));
  }
  return params;
}

std::vector<std::string> unique_names(const std::vector<std::string>& columns) {
  std::vector<std::string> names;
  for (const std::string& column : columns) {
    std::string name = column;
    for (int number = 2; std::find(names.begin(), names.end(), name) != names.end(); ++number) {
      name = fmt::format("{}_{}", column, number);
    }
    names.push_back(std::move(name));
  }
  return names;
}

}  // namespace

std::string run_document(const train::RunResult& result) {
  return json::text(run_json(result));
}

json::Value error_value(const std::string& message) {
  return error_json(message, "", 0);
}

std::string failure_document(const Error& error) {
  return failed({}, error);
}

std::string failed_run_document(const Error& error) {
  train::RunResult result;
  result.status = store::RunStatus::kFailed;
  result.seconds = store::seconds_since_process_start();
  result.run = error.run().id;
  result.name = error.run().name;
  result.backend = error.run().backend;
  if (error.run().num_processes > 0) result.num_processes = error.run().num_processes;
  return failed(run_json(result), error);
}

std::string check_document(const std::vector<std::string>& warnings) {
  return json::text(json::Object{
      {"ok", true}, {"errors", json::List{}}, {"warnings", json::list_of(warnings, [](const std::string& warning) {
                                                 return hide_secrets(warning);
                                               })}});
}

std::string failed_check_document(const Error& error) {
  // An error outside the recipe, such as in a data file; failed() replaces the list by those of a recipe.
  const SourceMark& where = place_of(error);
  const json::Object fault{{"id", json::Value()},
                           {"file", json::or_null(where.file)},
                           {"line", positive_or_null(where.line)},
                           {"column", positive_or_null(where.column)},
                           {"key", error.in_recipe().key},
                           {"message", hide_secrets(std::string(error.text()))},
                           {"hint", ""}};
  return failed({{"ok", false}, {"errors", json::List{fault}}}, error);
}

void add_damage(json::Object& document, std::span<const store::Damage> damage) {
  if (damage.empty()) return;
  std::set<std::string> parts;
  for (const store::Damage& part : damage) parts.insert(part.part);
  document.emplace_back("error", error_value(damage.front().message));
  document.emplace_back("left_out", json::list_of(parts));
}

std::string runs_document(const store::RunSelection& selection) {
  return json::list_text(selection.runs.size(), [&](size_t i) {
    json::Object run = run_row_json(selection.runs[i]);
    json::Object columns;
    for (size_t c = 0; c < selection.columns.size(); ++c) {
      columns.emplace_back(selection.columns[c], store::json_of(selection.values[i][c]));
    }
    if (!columns.empty()) run.emplace_back("columns", std::move(columns));
    return run;
  });
}

std::string states_document(std::span<const store::StateInfo> states) {
  return json::text(json::list_of(states, state_json));
}

std::string metrics_document(std::span<const store::MetricSummary> metrics) {
  return json::text(json::list_of(metrics, metric_json));
}

std::string points_document(const store::RunRow& run, std::string_view metric, std::span<const store::Point> points) {
  return json::line(json::Object{{"run", run.uid}, {"name", std::string(metric)}, {"points", points_json(points)}});
}

std::string all_points_document(const store::RunRow& run, const MetricPoints& metrics) {
  json::Object object;
  for (const auto& [name, points] : metrics) object.emplace_back(name, points_json(points));
  return json::line(json::Object{{"run", run.uid}, {"name", run.name}, {"metrics", std::move(object)}});
}

std::string params_document(const store::RunDetails& details) {
  return json::text(params_json(details));
}

std::string events_lines(const store::RunDetails& details) {
  std::string text;
  for (const store::EventRow& event : details.events) text += json::line(event_json(event));
  return text;
}

std::string show_document(const store::RunDetails& details, const MoreOfRun& more) {
  const store::DeviceMetrics& counted = more.device;
  const json::Value gpu = train::gpu_of_document(counted.json);
  const bool of_tpu = !counted.json.empty() && gpu == json::Value();
  json::Object document = run_row_json(details.run);
  const json::Object rest{{"host", details.run.host},
                          {"pid", details.run.pid},
                          {"binary_version", details.run.binary_version},
                          {"cpu_features", details.run.cpu_features},
                          {"kernels", json::parse(details.run.kernels_json)},
                          {"forks", json::list_of(details.children)},
                          {"classes", more.encoding ? classes_json(*more.encoding) : json::Value()},
                          {"recipe_hash", json::or_null(details.recipe.hash)},
                          {"recipe", json::or_null(details.recipe.text)},
                          {"params", params_json(details)},
                          {"origins", json::parse(details.recipe.origins_json)},
                          {"history", json::list_of(details.attempts, attempt_json)},
                          {"provenance", json::list_of(details.provenance, provenance_json)},
                          {"metrics", json::list_of(details.metrics, metric_json)},
                          {"states", json::list_of(details.states, state_json)},
                          {"artifacts", json::list_of(details.artifacts, artifact_json)},
                          {"events", json::list_of(details.events, event_json)},
                          {"notes", json::list_of(details.notes, note_json)},
                          {"tpu", of_tpu ? of_attempt(json::parse(counted.json), counted.attempt) : json::Value()},
                          {"gpu", of_attempt(gpu, counted.attempt)},
                          {"summary", json::parse(details.run.summary_json)}};
  document.insert(document.end(), rest.begin(), rest.end());
  add_damage(document, details.damage);
  return json::text(document);
}

std::string sql_document(const store::SqlResult& result) {
  const std::vector<std::string> names = unique_names(result.columns);
  return json::text(json::list_of(result.rows, [&](const std::vector<store::SqlValue>& row) {
    json::Object object;
    for (size_t c = 0; c < names.size(); ++c) object.emplace_back(names[c], store::json_of(row[c]));
    return object;
  }));
}

}  // namespace runner::report
