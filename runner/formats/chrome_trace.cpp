#include "runner/formats/chrome_trace.h"

#include <algorithm>

#include <fmt/format.h>

#include "schema/base/error.h"
#include "schema/base/json.h"

namespace runner::formats {
namespace {

// Formats nanoseconds exactly.
std::string microseconds(int64_t ns) {
  return fmt::format("{}.{:03}", ns / 1000, ns % 1000);
}

std::string json_text(std::string_view text) {
  return json::compact(std::string(text));
}

// Returns the metadata event that names a process or one of its threads.
std::string name_event(std::string_view kind, int process, int thread, const std::string& name) {
  return fmt::format(R"({{"name": "{}", "ph": "M", "pid": {}, "tid": {}, "args": {{"name": {}}}}})", kind, process,
                     thread, json_text(name));
}

std::string arguments_of(const backends::Span& span) {
  std::string text;
  const auto add = [&](std::string_view name, const std::string& value) {
    text += fmt::format("{}\"{}\": {}", text.empty() ? "" : ", ", name, value);
  };
  if (!span.what.empty()) add("what", json_text(span.what));
  if (span.bytes > 0) add("bytes", std::to_string(span.bytes));
  if (span.flops > 0) add("flops", std::to_string(span.flops));
  return text;
}

std::string span_event(const backends::Span& span, int process) {
  return fmt::format(
      R"({{"name": {}, "cat": "{}", "ph": "X", "ts": {}, "dur": {}, "pid": {}, "tid": {}, "args": {{{}}}}})",
      json_text(span.name), name_of(span.kind), microseconds(span.begin_ns), microseconds(span.end_ns - span.begin_ns),
      process, span.thread, arguments_of(span));
}

}  // namespace

std::string trace_events(const ProcessSpans& process) {
  std::string text = name_event("process_name", process.process, 0, fmt::format("rank {}", process.process));
  const auto add = [&](const std::string& event) { (text += kTraceBetween) += event; };
  const auto process_of = [&](int thread) {
    const bool is_predicted = std::ranges::find(process.predicted, thread) != process.predicted.end();
    return process.process + (is_predicted ? kPredictedProcess : 0);
  };
  if (!process.predicted.empty())
    add(name_event("process_name", process_of(process.predicted[0]), 0,
                   fmt::format("rank {}, predicted", process.process)));
  for (int i = 0; i < static_cast<int>(process.threads.size()); ++i)
    add(name_event("thread_name", process_of(i), i, process.threads[static_cast<size_t>(i)]));
  for (const backends::Span& span : process.spans) add(span_event(span, process_of(span.thread)));
  if (process.left_out > 0)
    add(fmt::format(R"({{"name": "left_out", "ph": "M", "pid": {}, "tid": 0, "args": {{"spans": {}}}}})",
                    process.process, process.left_out));
  return text;
}

std::string trace_document(std::span<const std::string> parts) {
  return fmt::format("{}{}{}", kTraceBegin, fmt::join(parts, kTraceBetween), kTraceEnd);
}

std::string_view events_of(std::string_view document) {
  RUN_CHECK(document.starts_with(kTraceBegin) && document.ends_with(kTraceEnd), ErrorKind::kStore,
            "a trace is damaged: its begin or end is missing");
  document.remove_prefix(kTraceBegin.size());
  document.remove_suffix(kTraceEnd.size());
  return document;
}

}  // namespace runner::formats
