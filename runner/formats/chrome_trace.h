// Chrome Trace Event Format, which chrome://tracing and https://ui.perfetto.dev display.
//
// A document consists of parts, each with the events of one process as text. Parts of several processes or documents
// can be combined into one document. Format:
// https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU. Thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/runtime/spans.h"

namespace runner::formats {

// The recorded spans of one process.
struct ProcessSpans {
  int process = 0;                        // rank
  std::vector<std::string> threads;       // names
  std::span<const backends::Span> spans;  // in any order
  int64_t left_out = 0;                   // number of spans not recorded for lack of memory
  std::vector<int> predicted = {};        // threads with predicted times; the trace shows them as a separate process
};

// Process id for the predicted threads of rank 0; rank r uses kPredictedProcess + r.
inline constexpr int kPredictedProcess = 1'000'000;

// Returns a complete event ("X") for each span, and the metadata events that name the process and its threads. Times
// are in microseconds of the spans' clock. Arguments "bytes", "flops" and "what" are included if known.
std::string trace_events(const ProcessSpans& process);

// Beginning and end of a document, and the separator of its parts.
inline constexpr std::string_view kTraceBegin = "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n";
inline constexpr std::string_view kTraceEnd = "\n]}\n";
inline constexpr std::string_view kTraceBetween = ",\n";

std::string trace_document(std::span<const std::string> parts);

// Returns the events of a document as a part of another one. Throws Error(kStore) if `document` is not a trace.
std::string_view events_of(std::string_view document);

}  // namespace runner::formats
