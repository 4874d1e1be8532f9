// Traces in Chrome's Trace Event Format, which chrome://tracing and https://ui.perfetto.dev show.
//
// A document is made of parts: the events of one process each, as text, so that the parts of several processes, or of
// several documents, make a document together.
// https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU has the format.  Thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/runtime/spans.h"

namespace runner::formats {

// What one process has recorded.
struct ProcessSpans {
  int process = 0;                        // rank
  std::vector<std::string> threads;       // names
  std::span<const backends::Span> spans;  // any order
  int64_t left_out = 0;                   // that there was no room for
  std::vector<int> predicted = {};        // threads whose times are predicted: a process of their own
};

// Number of the process that has the predicted threads of rank 0; those of others follow.
inline constexpr int kPredictedProcess = 1'000'000;

// A complete event for each span, in microseconds of its clock, with "bytes", "flops" and "what" where they are known;
// names of process and threads.
std::string trace_events(const ProcessSpans& process);

// What a document begins with, what it ends with, and what stands between two parts.
inline constexpr std::string_view kTraceBegin = "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n";
inline constexpr std::string_view kTraceEnd = "\n]}\n";
inline constexpr std::string_view kTraceBetween = ",\n";

std::string trace_document(std::span<const std::string> parts);

// The events of such a document, as a part of another one.  Throws Error(kStore) where it is none.
std::string_view events_of(std::string_view document);

}  // namespace runner::formats
