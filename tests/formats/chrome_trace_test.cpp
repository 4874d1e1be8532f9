// Traces as text, and documents combined from parts.
#include "runner/formats/chrome_trace.h"

#include <gtest/gtest.h>

#include "schema/base/error.h"
#include "tests/support/json.h"

namespace runner::formats {
namespace {

using backends::Span;
using backends::SpanKind;

std::vector<Span> two_spans() {
  Span product, wait;
  product.kind = SpanKind::kKernel;
  product.name = "matmul.f32";
  product.begin_ns = 12'345'678'901;
  product.end_ns = 12'345'680'000;
  product.bytes = 4096;
  product.flops = 1000;
  wait.kind = SpanKind::kCollective;
  wait.thread = 1;
  wait.name = "barrier";
  wait.begin_ns = 1;
  wait.end_ns = 2'000'001;
  wait.what = "the \"end\"\n";
  return {product, wait};
}

TEST(ChromeTrace, Text) {
  const std::vector<Span> spans = two_spans();
  const std::string events = trace_events({.process = 2, .threads = {"training", "loader"}, .spans = spans});
  EXPECT_EQ(trace_document(std::span(&events, 1)),
            R"({"displayTimeUnit": "ms", "traceEvents": [
{"name": "process_name", "ph": "M", "pid": 2, "tid": 0, "args": {"name": "rank 2"}},
{"name": "thread_name", "ph": "M", "pid": 2, "tid": 0, "args": {"name": "training"}},
{"name": "thread_name", "ph": "M", "pid": 2, "tid": 1, "args": {"name": "loader"}},
{"name": "matmul.f32", "cat": "kernel", "ph": "X", "ts": 12345678.901, "dur": 1.099, "pid": 2, "tid": 0, "args": {"bytes": 4096, "flops": 1000}},
{"name": "barrier", "cat": "collective", "ph": "X", "ts": 0.001, "dur": 2000.000, "pid": 2, "tid": 1, "args": {"what": "the \"end\"\n"}}
]}
)");
}

TEST(ChromeTrace, CombinesPartsOfProcessesAndDocuments) {
  const std::vector<Span> spans = two_spans();
  std::vector<std::string> parts;
  for (int rank = 0; rank < 3; ++rank)
    parts.push_back(trace_events({.process = rank, .threads = {"training"}, .spans = spans}));
  const std::string document = trace_document(parts);
  EXPECT_EQ(support::Json::parse(document)["traceEvents"].size(), 3U * (2 + 2));
  const std::vector<std::string> twice{std::string(events_of(document)), std::string(events_of(document))};
  EXPECT_EQ(support::Json::parse(trace_document(twice))["traceEvents"].size(), 2U * 3 * (2 + 2));
  EXPECT_TRUE(support::Json::parse(trace_document({}))["traceEvents"].items().empty());
}

TEST(ChromeTrace, ReportsOmittedSpans) {
  const std::string events = trace_events({.process = 0, .threads = {}, .spans = {}, .left_out = 12});
  const support::Json event = support::Json::parse(trace_document(std::span(&events, 1)))["traceEvents"][1];
  EXPECT_EQ(event["name"], "left_out");
  EXPECT_EQ(event["args"]["spans"], 12);
}

TEST(ChromeTrace, RejectsOtherDocuments) {
  for (const char* text : {"", "{}", "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n"})
    EXPECT_THROW(events_of(text), Error);
}

}  // namespace
}  // namespace runner::formats
