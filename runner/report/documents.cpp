#include "runner/report/documents.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "runner/report/format.h"
#include "schema/diagnostic.h"
#include "schema/sha256.h"

namespace runner::report {
namespace {

using Json = nlohmann::ordered_json;

// Names and messages may hold any bytes; they must not make a document that nobody can read.
std::string dump(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

// A list has one element on each line.
std::string text_of(const Json& document) {
  if (!document.is_array()) return dump(document, 2) + '\n';
  std::string out = "[";
  for (const Json& element : document) out += (out.size() > 1 ? ",\n " : "\n ") + dump(element, -1);
  return out + (out.size() > 1 ? "\n]\n" : "]\n");
}

template <class T, class Convert>
Json list_of(const T& items, Convert convert) {
  Json list = Json::array();
  for (const auto& item : items) list.push_back(convert(item));
  return list;
}

Json or_null(const std::string& text) {
  return text.empty() ? Json() : Json(text);
}

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

Json time_or_null(std::optional<int64_t> ms) {
  return ms ? Json(utc_time(*ms)) : Json();
}

// What the store keeps as JSON text.
Json parsed(const std::string& text) {
  Json json = Json::parse(text, nullptr, false);
  return json.is_discarded() ? Json() : json;
}

Json error_json(const std::string& message, const std::string& file, int line) {
  return {{"message", message}, {"file", or_null(file)}, {"line", line > 0 ? Json(line) : Json()}};
}

Json run_json(const train::RunResult& result) {
  Json metrics = Json::object();
  for (const auto& [name, range] : result.metrics) {
    metrics[name] = {{"last", range.last}, {"min", range.min}, {"max", range.max}};
  }
  return {{"run", or_null(result.run)},
          {"name", or_null(result.name)},
          {"status", store::to_string(result.status)},
          {"exit_code", result.exit_code},
          {"backend", or_null(result.backend)},
          {"num_processes", result.num_processes},
          {"epochs", result.epochs},
          {"optimizer_steps", result.optimizer_steps},
          {"skipped_steps", result.skipped_steps},
          {"samples", result.samples},
          {"seconds", result.seconds},
          {"first_step_seconds", result.first_step_seconds},
          {"metrics", std::move(metrics)},
          {"states", result.states},
          {"warnings", result.warnings},
          {"error", result.error ? error_json(result.error->message, result.error->file, result.error->line) : Json()}};
}

// Puts what went wrong into a document that exists already.
Json failed(Json document, const Error& error) {
  document["exit_code"] = exit_code(error.kind());
  const auto* recipe = dynamic_cast<const schema::RecipeError*>(&error);
  if (recipe != nullptr) document["errors"] = parsed(schema::render_json(recipe->diagnostics()))["errors"];
  // The first fault stands for the rest.
  const std::string& message = recipe != nullptr ? recipe->diagnostics().front().message : error.message();
  document["error"] = error_json(message, error.where().file, error.where().line);
  return document;
}

Json run_row_json(const store::RunRow& run) {
  return {{"run", run.uid},
          {"name", run.name},
          {"status", store::to_string(run.status)},
          {"exit_code", or_null(run.exit_code)},
          {"reason", or_null(run.reason)},
          {"created", utc_time(run.created_ms)},
          {"started", utc_time(run.started_ms)},
          {"ended", time_or_null(run.ended_ms)},
          {"backend", run.backend},
          {"num_processes", run.num_processes},
          {"seed", run.seed},
          {"parent", or_null(run.parent)},
          {"attempts", run.attempts},
          {"dropped_points", run.dropped_points},
          {"tags", run.tags}};
}

Json state_json(const store::StateInfo& state) {
  Json metrics = Json::object();
  for (const auto& [name, value] : state.metrics) metrics[name] = value;
  return {{"state", state.id},
          {"run", state.run},
          {"attempt", state.attempt},
          {"step", state.step},
          {"epoch", state.epoch},
          {"reason", state.reason},
          {"pinned", state.pinned},
          {"superseded", state.superseded},
          {"bytes", state.bytes},
          {"new_bytes", state.new_bytes},
          {"created", utc_time(state.created_ms)},
          {"metrics", std::move(metrics)}};
}

Json metric_json(const store::MetricSummary& metric) {
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
          {"mean", finite > 0 ? Json(metric.sum / static_cast<double>(finite)) : Json()},
          {"nan_count", metric.nan_count},
          {"inf_count", metric.inf_count}};
}

Json points_json(std::span<const store::Point> points) {
  return list_of(points, [](const store::Point& point) { return Json::array({point.step, point.value}); });
}

Json attempt_json(const store::AttemptRow& attempt) {
  return {{"attempt", attempt.no},
          {"start_step", attempt.start_step},
          {"from_state", or_null(attempt.from_state)},
          {"started", utc_time(attempt.started_ms)},
          {"ended", time_or_null(attempt.ended_ms)},
          {"status", store::to_string(attempt.status)},
          {"superseded_points", attempt.superseded_points}};
}

Json event_json(const store::EventRow& event) {
  return {{"time", utc_time(event.time_ms)},
          {"attempt", event.attempt},
          {"level", event.level},
          {"kind", event.kind},
          {"data", parsed(event.json)}};
}

Json note_json(const store::Note& note) {
  return {{"time", utc_time(note.time_ms)}, {"text", note.text}};
}

struct ValueJson {
  Json operator()(std::monostate) const { return nullptr; }
  Json operator()(const std::vector<std::byte>& bytes) const {
    return hex({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
  }
  template <class T>
  Json operator()(const T& value) const {
    return value;
  }
};

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
  return text_of(run_json(result));
}

std::string failure_document(const Error& error) {
  return text_of(failed(Json::object(), error));
}

std::string failed_run_document(const Error& error) {
  train::RunResult result;
  result.status = store::RunStatus::kFailed;
  return text_of(failed(run_json(result), error));
}

std::string failed_check_document(const Error& error) {
  return text_of(failed({{"ok", false}, {"errors", Json::array()}}, error));
}

std::string runs_document(std::span<const store::RunRow> runs) {
  return text_of(list_of(runs, run_row_json));
}

std::string states_document(std::span<const store::StateInfo> states) {
  return text_of(list_of(states, state_json));
}

std::string metrics_document(std::span<const store::MetricSummary> metrics) {
  return text_of(list_of(metrics, metric_json));
}

std::string points_document(const store::RunRow& run, std::string_view metric, std::span<const store::Point> points) {
  return dump({{"run", run.uid}, {"name", metric}, {"points", points_json(points)}}, -1) + '\n';
}

std::string all_points_document(const store::RunRow& run, const MetricPoints& metrics) {
  Json object = Json::object();
  for (const auto& [name, points] : metrics) object[name] = points_json(points);
  return dump({{"run", run.uid}, {"name", run.name}, {"metrics", std::move(object)}}, -1) + '\n';
}

std::string show_document(const store::RunDetails& details) {
  Json document = run_row_json(details.run);
  Json params = Json::object();
  for (const store::Param& param : details.params) params[param.key] = std::visit(ValueJson{}, param.value);
  document.update({{"host", details.run.host},
                   {"pid", details.run.pid},
                   {"binary_version", details.run.binary_version},
                   {"cpu_features", details.run.cpu_features},
                   {"kernels", parsed(details.run.kernels_json)},
                   {"recipe_hash", details.recipe.hash},
                   {"recipe", details.recipe.text},
                   {"params", std::move(params)},
                   {"origins", parsed(details.recipe.origins_json)},
                   {"history", list_of(details.attempts, attempt_json)},
                   {"metrics", list_of(details.metrics, metric_json)},
                   {"states", list_of(details.states, state_json)},
                   {"events", list_of(details.events, event_json)},
                   {"notes", list_of(details.notes, note_json)},
                   {"summary", parsed(details.run.summary_json)}});
  return text_of(document);
}

std::string sql_document(const store::SqlResult& result) {
  const std::vector<std::string> names = unique_names(result.columns);
  return text_of(list_of(result.rows, [&](const std::vector<store::SqlValue>& row) {
    Json object = Json::object();
    for (size_t c = 0; c < names.size(); ++c) object[names[c]] = std::visit(ValueJson{}, row[c]);
    return object;
  }));
}

std::string evaluation_document(const std::string& run, int64_t state, const std::map<std::string, double>& metrics) {
  return text_of({{"run", run}, {"state", state}, {"metrics", metrics}});
}

std::string object_document(const std::vector<std::pair<std::string, FieldValue>>& fields) {
  Json object = Json::object();
  for (const auto& [name, value] : fields) object[name] = std::visit(ValueJson{}, value);
  return text_of(object);
}

}  // namespace runner::report
