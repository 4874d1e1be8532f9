// Spans: which are recorded, and which are not.
#include "backends/runtime/spans.h"

#include <thread>

#include <gtest/gtest.h>

namespace runner::backends {
namespace {

std::vector<std::string> names_of(const std::vector<Span>& spans) {
  std::vector<std::string> names;
  for (const Span& span : spans) names.push_back(span.name);
  return names;
}

TEST(Spans, Nest) {
  SpanRecorder recorder;
  const RecordingThread thread(&recorder, "main");
  recorder.begin();
  const int64_t before = monotonic_ns();
  {
    const ScopedSpan outer(SpanKind::kExecute, "outer");
    const ScopedSpan inner(SpanKind::kKernel, "inner", {.bytes = 7, .flops = 9, .what = "x"});
  }
  const int64_t after = monotonic_ns();
  const std::vector<Span> spans = recorder.end();
  ASSERT_EQ(names_of(spans), (std::vector<std::string>{"inner", "outer"}));
  const Span &inner = spans[0], &outer = spans[1];
  EXPECT_LE(before, outer.begin_ns);
  EXPECT_LE(outer.begin_ns, inner.begin_ns);
  EXPECT_LE(inner.begin_ns, inner.end_ns);
  EXPECT_LE(inner.end_ns, outer.end_ns);
  EXPECT_LE(outer.end_ns, after);
  EXPECT_EQ(inner.kind, SpanKind::kKernel);
  EXPECT_EQ(inner.bytes, 7);
  EXPECT_EQ(inner.flops, 9);
  EXPECT_EQ(inner.what, "x");
}

TEST(Spans, AreRecordedOnlyWhileRecording) {
  SpanRecorder recorder;
  { const ScopedSpan nowhere(SpanKind::kData, "no recorder"); }
  const RecordingThread thread(&recorder, "main");
  { const ScopedSpan paused(SpanKind::kData, "before begin"); }
  recorder.begin();
  { const ScopedSpan kept(SpanKind::kData, "kept"); }
  {
    const RecordingThread aside(nullptr, "");
    const ScopedSpan nowhere(SpanKind::kData, "aside");
  }
  EXPECT_EQ(RecordingThread::recorder(), &recorder);
  std::jthread([] { const ScopedSpan nowhere(SpanKind::kData, "another thread"); }).join();
  EXPECT_EQ(names_of(recorder.end()), std::vector<std::string>{"kept"});
  { const ScopedSpan paused(SpanKind::kData, "after end"); }
  EXPECT_TRUE(recorder.end().empty());
}

// Spans of warm-up steps are discarded, and so are spans that began during warm-up.
TEST(Spans, MustBeginAndEndInTheSameRound) {
  SpanRecorder recorder;
  const RecordingThread thread(&recorder, "main");
  recorder.begin();
  { const ScopedSpan first(SpanKind::kData, "of the round before"); }
  {
    const ScopedSpan across(SpanKind::kData, "across");
    recorder.begin();
    const ScopedSpan inside(SpanKind::kData, "inside");
  }
  EXPECT_EQ(names_of(recorder.end()), std::vector<std::string>{"inside"});
}

TEST(Spans, AreRecordedByConcurrentThreads) {
  constexpr int kThreads = 4, kEach = 1000;
  SpanRecorder recorder;
  const RecordingThread thread(&recorder, "main");
  recorder.begin();
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; ++t)
      threads.emplace_back([&recorder, t] {
        const RecordingThread mine(&recorder, "thread " + std::to_string(t));
        for (int i = 0; i < kEach; ++i) const ScopedSpan span(SpanKind::kData, "work");
      });
  }
  const std::vector<std::string> threads = recorder.threads();
  ASSERT_EQ(threads.size(), 1U + kThreads);
  std::vector<int> count(threads.size());
  for (const Span& span : recorder.end()) ++count[static_cast<size_t>(span.thread)];
  for (size_t i = 1; i < count.size(); ++i) EXPECT_EQ(count[i], kEach) << threads[i];
  EXPECT_EQ(threads[0], "main");
  EXPECT_EQ(count[0], 0);
}

TEST(Spans, BeyondTheMaximumAreCounted) {
  SpanRecorder recorder(/*most=*/3);
  const RecordingThread thread(&recorder, "main");
  recorder.begin();
  for (int i = 0; i < 5; ++i) const ScopedSpan span(SpanKind::kData, "work");
  EXPECT_EQ(recorder.left_out(), 2);
  EXPECT_EQ(recorder.end().size(), 3U);
  recorder.begin();
  EXPECT_EQ(recorder.left_out(), 0);
}

}  // namespace
}  // namespace runner::backends
