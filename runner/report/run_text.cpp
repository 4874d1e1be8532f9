#include "runner/report/run_text.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "runner/data/labels.h"
#include "runner/report/format.h"
#include "runner/report/memory_text.h"
#include "runner/report/value_rows.h"
#include "runner/train/run/gpu_use.h"
#include "schema/base/duration.h"
#include "schema/base/json.h"
#include "schema/base/sha256.h"
#include "schema/base/text.h"
#include "store/value_text.h"

namespace runner::report {
namespace {

std::string seconds_between(int64_t from_ms, int64_t to_ms) {
  return duration_text(static_cast<double>(to_ms - from_ms) / 1000);
}

std::string time_taken(const store::RunRow& run) {
  return duration_text(seconds_of_attempts(run));
}

// "3.2 s in 2 attempts, 1.1 s in the newest".
std::string time_of_attempts(const store::RunRow& run) {
  if (run.attempts <= 1) return time_taken(run);
  return fmt::format("{} in {} attempts, {} in the newest", time_taken(run), run.attempts,
                     seconds_between(run.started_ms, run.ended_ms.value_or(run.heartbeat_ms)));
}

std::string joined(std::span<const std::string> words) {
  return fmt::format("{}", fmt::join(words, " "));
}

// Moves the notes of an error (Error::note) to its line if the error has only one line.
std::string with_notes_inline(std::string text) {
  constexpr std::string_view kNote = "\n  note: ";
  if (text.find('\n') != text.find(kNote)) return text;
  for (size_t at = 0; (at = text.find(kNote, at)) != std::string::npos;) text.replace(at, kNote.size(), "; note: ");
  return text;
}

std::string status_text(const store::RunRow& run) {
  std::string text(store::to_string(run.status));
  if (run.exit_code) text += fmt::format(", exit code {}", *run.exit_code);
  return run.reason.empty() ? text : text + ": " + with_notes_inline(run.reason);
}

// The counters of a run's summary.
std::string work_text(const json::Value& summary) {
  std::vector<std::string> parts;
  const auto count = [&](const char* name) { return json::integer_of(json::member(summary, name)); };
  if (const auto epochs = count("epochs")) parts.push_back(count_text(*epochs, "epoch"));
  if (const auto steps = count("optimizer_steps")) parts.push_back(count_text(*steps, "step"));
  if (const int64_t skipped = count("skipped_steps").value_or(0); skipped > 0)
    parts.push_back(fmt::format("{} skipped", skipped));
  if (const auto samples = count("samples")) parts.push_back(count_text(*samples, "sample"));
  if (const int64_t repeated = count("repeated_samples").value_or(0); repeated > 0)
    parts.push_back(fmt::format("{} repeated", repeated));
  return fmt::format("{}", fmt::join(parts, ", "));
}

// Result of train.auto_batch_size; "" if it was not used.
std::string fitted_text(const json::Value& summary) {
  const json::Value& fitted = json::member(summary, "auto_batch_size");
  const auto number = [](const json::Value& object, const char* name) {
    return json::integer_of(json::member(object, name)).value_or(0);
  };
  if (json::members_of(fitted).empty()) return "";
  std::vector<std::string> tried;
  for (const json::Value& attempt : json::elements_of(json::member(fitted, "attempts")))
    tried.push_back(fmt::format("{} in {}", number(attempt, "samples"), bytes_text(number(attempt, "bytes"))));
  std::string text = fmt::format("micro-batch of {}, {} per step", count_text(number(fitted, "batch_size"), "sample"),
                                 number(fitted, "gradient_accumulation_steps"));
  if (!tried.empty())
    text +=
        fmt::format(" (tried {}; {} available)", fmt::join(tried, ", "), bytes_text(number(fitted, "memory_bytes")));
  return text;
}

// Cores of each process, by rank: "0-1 | 2-3"; "" if processes are not bound to cores.
std::string cores_text(const json::Value& summary) {
  std::vector<std::string> shares;
  for (const json::Value& share : json::elements_of(json::member(summary, "cores"))) {
    std::vector<int> cores;
    for (const json::Value& core : json::elements_of(share)) cores.push_back(static_cast<int>(*core.integer()));
    shares.push_back(ranges_text(cores));
  }
  return fmt::format("{}", fmt::join(shares, " | "));
}

std::string facts_text(const store::RunDetails& details, const std::optional<data::Encoding>& encoding, bool color) {
  const store::RunRow& run = details.run;
  const json::Value summary = json::parse(run.summary_json);
  KeyValueTable facts;
  facts.add("run", run.uid, Color::kBold);
  facts.add("name", run.name);
  facts.add("status", status_text(run), color_of(run.status));
  if (run.trashed_ms) {
    facts.add("in the trash",
              fmt::format("since {}; `runner restore {}` restores it", local_time(*run.trashed_ms), run.uid),
              Color::kYellow);
  }
  facts.add("created", local_time(run.created_ms));
  if (run.attempts > 1) facts.add("resumed", local_time(run.started_ms));
  facts.add("time", time_of_attempts(run));
  facts.add("trained", work_text(summary));
  facts.add("labels", encoding ? data::labels_text(*encoding) : "");
  facts.add("peak memory", peak_text(json::member(summary, "peak_memory")));
  facts.add("backend", fmt::format("{}, {}", run.backend, count_text(run.num_processes, "process")));
  facts.add("batch", fitted_text(summary));
  facts.add("cores by rank", cores_text(summary));
  facts.add("seed", std::to_string(run.seed));
  facts.add("parent", run.parent);
  facts.add("forks", joined(details.children));
  facts.add("tags", joined(run.tags));
  facts.add("recipe hash", details.recipe.hash);
  facts.add("host", fmt::format("{}, process {}", run.host, run.pid));
  facts.add("cpu features", run.cpu_features);
  facts.add("kernels", kernels_text(run.kernels_json));
  facts.add("version", run.binary_version);
  if (!details.provenance.empty()) {
    const store::Provenance& provenance = details.provenance.back().provenance;
    facts.add("git", git_text(provenance.git));
    for (const store::RecordedFile& file : recorded_files(details)) facts.add(file.key, data_file_text(file));
  }
  if (run.dropped_points > 0) facts.add("dropped points", std::to_string(run.dropped_points), Color::kYellow);
  return facts.render(color);
}

// "default", "recipe.yaml:12", "command line".
std::string origin_text(const json::Value& origin) {
  const std::string file = json::text_of(json::member(origin, "file"));
  const auto line = json::integer_of(json::member(origin, "line"));
  return file.empty() || !line ? json::text_of(json::member(origin, "kind")) : fmt::format("{}:{}", file, *line);
}

// Elements of a list have the origin of the list.
Table params_table(const store::RunDetails& details) {
  const json::Value origins = json::parse(details.recipe.origins_json);
  const std::map<std::string, json::Value> known(json::members_of(origins).begin(), json::members_of(origins).end());
  Table table({{"parameter"}, {"value"}, {"from"}});
  for (const store::Param& param : details.params) {
    auto found = known.find(param.key);
    if (found == known.end()) found = known.find(param.key.substr(0, param.key.rfind('[')));
    table.add({param.key, param_text(param.value), found == known.end() ? "" : origin_text(found->second)});
  }
  return table;
}

Table attempts_table(std::span<const store::AttemptRow> attempts) {
  Table table({{"attempt", Align::kRight},
               {"status"},
               {"started"},
               {"time"},
               {"from step", Align::kRight},
               {"from state", Align::kRight},
               {"points removed", Align::kRight}});
  for (const store::AttemptRow& attempt : attempts) {
    table.add(
        {std::to_string(attempt.no), Cell(std::string(store::to_string(attempt.status)), color_of(attempt.status)),
         local_time(attempt.started_ms), attempt.ended_ms ? seconds_between(attempt.started_ms, *attempt.ended_ms) : "",
         std::to_string(attempt.start_step), attempt.from_state ? std::to_string(*attempt.from_state) : "",
         std::to_string(attempt.superseded_points)});
  }
  return table;
}

Table artifacts_table(std::span<const store::ArtifactInfo> artifacts) {
  Table table({{"artifact"}, {"kind"}, {"step", Align::kRight}, {"bytes", Align::kRight}, {"sha256"}, {"saved"}, {""}});
  for (const store::ArtifactInfo& artifact : artifacts) {
    table.add({artifact.header.name, artifact.header.kind, std::to_string(artifact.header.step),
               bytes_text(artifact.bytes), hex(artifact.digest).substr(0, 12), local_time(artifact.created_ms),
               artifact.superseded ? "superseded" : ""});
  }
  return table;
}

Table environment_table(const std::string& environment_json) {
  Table table({{"environment"}, {""}});
  const json::Value environment = json::parse(environment_json);
  for (const auto& [key, value] : json::members_of(environment)) table.add({key, schema::display_text(value)});
  return table;
}

Table sources_table(std::span<const store::AttemptProvenance> attempts) {
  Table table({{"source"}, {"path"}, {"attempt", Align::kRight}, {"bytes", Align::kRight}, {"sha256"}});
  for (const store::AttemptProvenance& attempt : attempts) {
    for (const store::AttemptSource& source : attempt.provenance.sources) {
      table.add({source.kind, source.path, std::to_string(attempt.attempt), bytes_text(std::ssize(source.text)),
                 hex(sha256(source.text)).substr(0, 12)});
    }
  }
  return table;
}

Color color_of_level(std::string_view level) {
  if (level == "error") return Color::kRed;
  return level == "warning" ? Color::kYellow : Color::kNone;
}

Table events_table(std::span<const store::EventRow> events) {
  Table table({{"time"}, {"level"}, {"event"}, {"data"}});
  for (const store::EventRow& event : events) {
    table.add({local_time(event.time_ms), Cell(event.level, color_of_level(event.level)), event.kind, event.json});
  }
  return table;
}

Table notes_table(std::span<const store::Note> notes) {
  Table table({{"time"}, {"note"}});
  for (const store::Note& note : notes) table.add({local_time(note.time_ms), note.text});
  return table;
}

}  // namespace

std::vector<store::RecordedFile> recorded_files(const store::RunDetails& run) {
  std::vector<store::RecordedFile> files;
  for (auto attempt = run.provenance.rbegin(); attempt != run.provenance.rend(); ++attempt)
    for (const store::RecordedFile& file : attempt->provenance.data)
      if (std::ranges::find(files, file.key, &store::RecordedFile::key) == files.end()) files.push_back(file);
  return files;
}

std::string data_file_text(const store::RecordedFile& file) {
  const std::string rows = file.rows > 0 ? count_text(file.rows, "row") + ", " : "";  // weights have none
  return fmt::format("{}{}, sha256 {}", rows, bytes_text(file.bytes),
                     file.digest ? hex(*file.digest).substr(0, 12) : "not known");
}

Color color_of(store::RunStatus status) {
  switch (status) {
    case store::RunStatus::kRunning: return Color::kBlue;
    case store::RunStatus::kDone: return Color::kGreen;
    case store::RunStatus::kFailed: return Color::kRed;
    case store::RunStatus::kInterrupted:
    case store::RunStatus::kCrashed: return Color::kYellow;
  }
  return Color::kNone;
}

std::string param_text(const store::Param::Value& value) {
  return std::holds_alternative<std::monostate>(value) ? "null" : store::text_of(value);
}

std::string kernels_text(const std::string& kernels_json) {
  const json::Value kernels = json::parse(kernels_json);
  std::vector<std::string> texts;
  for (const auto& [work, kernel] : json::members_of(kernels)) {
    if (kernel.text() != nullptr) texts.push_back(work + ' ' + *kernel.text());
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::string git_text(const store::GitState& git) {
  std::string text = git.commit.substr(0, 12);
  const auto add = [&](const std::string& more) { text += (text.empty() ? "" : ", ") + more; };
  if (!git.branch.empty()) add("branch " + git.branch);
  if (git.dirty == true) add("uncommitted changes");
  if (!git.untracked.empty()) add(count_text(std::ssize(git.untracked), "untracked file"));
  if (!git.note.empty()) add(git.note);
  return text;
}

std::string steps_text(const store::RunRow& run, int64_t step) {
  std::string text = fmt::format("step {}", step);
  if (!run.planned_steps) return text;
  text += fmt::format("/{}", *run.planned_steps);
  const int64_t done = step - run.start_step, left = *run.planned_steps - step;
  if (run.status != store::RunStatus::kRunning || done <= 0 || left <= 0) return text;
  const double seconds = static_cast<double>(run.heartbeat_ms - run.started_ms) / 1000;
  return text +
         fmt::format("  {} left", duration_text(seconds * static_cast<double>(left) / static_cast<double>(done)));
}

namespace {

// "best(eval/accuracy) 0.972".
std::string main_metric(const store::RunSelection& selection, size_t run) {
  for (size_t i = 0; i < selection.columns.size(); ++i)
    if (const auto* const value = std::get_if<double>(&selection.values[run][i]))
      return fmt::format("{} {}", selection.columns[i], rounded_text(*value));
  return "";
}

}  // namespace

Table runs_table(const store::RunSelection& selection) {
  Table table({{"run"}, {"name"}, {"status"}, {"created"}, {"time", Align::kRight}, {"backend"}, {"metric"}, {"tags"}});
  for (size_t i = 0; i < selection.runs.size(); ++i) {
    const store::RunRow& run = selection.runs[i];
    table.add({run.uid, run.name, Cell(std::string(store::to_string(run.status)), color_of(run.status)),
               local_time(run.created_ms), time_taken(run), run.backend, main_metric(selection, i), joined(run.tags)});
  }
  return table;
}

namespace {

// Shortens a text with several lines, such as an out-of-memory error.
store::Param::Value first_line_of(const store::Param::Value& value) {
  const auto* text = std::get_if<std::string>(&value);
  const size_t end = text != nullptr ? text->find('\n') : std::string::npos;
  return end == std::string::npos ? value : store::Param::Value(text->substr(0, end) + " …");
}

}  // namespace

Table selection_table(const store::RunSelection& selection) {
  std::vector<std::string> titles{"run"};
  std::vector<std::vector<store::Param::Value>> rows;
  for (const store::RunRow& run : selection.runs) rows.push_back({run.uid});
  for (size_t c = 0; c < selection.columns.size(); ++c) {
    if (selection.columns[c] == "run") continue;  // always the first column
    titles.push_back(selection.columns[c]);
    for (size_t i = 0; i < rows.size(); ++i) rows[i].push_back(first_line_of(selection.values[i][c]));
  }
  return rows_table(titles, rows);
}

Table states_table(std::span<const store::StateInfo> states) {
  Table table({{"state", Align::kRight},
               {"step", Align::kRight},
               {"epoch", Align::kRight},
               {"bytes", Align::kRight},
               {"new", Align::kRight},
               {"reason"},
               {"saved"},
               {"names"},
               {""}});
  for (const store::StateInfo& state : states) {
    table.add({std::to_string(state.id), std::to_string(state.step), std::to_string(state.epoch),
               bytes_text(state.bytes), bytes_text(state.new_bytes), state.reason, local_time(state.created_ms),
               fmt::format("{}", fmt::join(state.names, ", ")),
               state.superseded ? "superseded"
               : state.pinned   ? "pinned"
                                : ""});
  }
  return table;
}

Table metrics_table(std::span<const store::MetricSummary> metrics) {
  Table table({{"metric"},
               {"points", Align::kRight},
               {"last", Align::kRight},
               {"step", Align::kRight},
               {"min", Align::kRight},
               {"step", Align::kRight},
               {"max", Align::kRight},
               {"step", Align::kRight},
               {"nan", Align::kRight}});
  for (const store::MetricSummary& metric : metrics) {
    table.add({metric.name, std::to_string(metric.n), rounded_text(metric.last), std::to_string(metric.last_step),
               rounded_text(metric.min), std::to_string(metric.min_step), rounded_text(metric.max),
               std::to_string(metric.max_step), metric.nan_count > 0 ? std::to_string(metric.nan_count) : ""});
  }
  return table;
}

namespace {

// Metrics of the GPUs, with a note if they are incomplete or of an older attempt.
std::string device_text(const store::RunRow& run, const store::DeviceMetrics& counted, int width, bool color) {
  const json::Value gpu = train::gpu_of_document(counted.json);
  std::string text = gpu_text(gpu, width, color);
  if (text.empty()) return "";
  if (counted.attempt < run.attempts) return fmt::format("\nemulated GPUs, attempt {}:\n", counted.attempt) + text;
  if (train::gpus_in(gpu) < run.num_processes)
    text += "\nonly the GPU of rank 0 is listed: the other ranks report when a run ends without an error\n";
  return text;
}

}  // namespace

double seconds_of_attempts(const store::RunRow& run) {
  return static_cast<double>(run.ended_ms.value_or(run.heartbeat_ms) + run.earlier_ms - run.started_ms) / 1000;
}

std::string show_text(const store::RunDetails& details, const MoreOfRun& more, int width, bool color) {
  std::string text = facts_text(details, more.encoding, color) + device_text(details.run, more.device, width, color);
  for (const Table& table :
       {attempts_table(details.attempts), metrics_table(details.metrics), states_table(details.states),
        artifacts_table(details.artifacts), params_table(details), sources_table(details.provenance),
        environment_table(details.provenance.empty() ? "" : details.provenance.back().provenance.environment_json),
        events_table(details.events), notes_table(details.notes)}) {
    if (!table.empty()) text += '\n' + table.render(width, color);
  }
  return text;
}

}  // namespace runner::report
