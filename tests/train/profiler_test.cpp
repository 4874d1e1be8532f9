// Which steps are traced, what a trace contains, and that tracing does not change training.
#include "runner/train/run/profiler.h"

#include <set>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "runner/formats/chrome_trace.h"
#include "runner/train/run/trace_file.h"
#include "schema/base/error.h"
#include "store/artifacts.h"
#include "tests/golden/golden.h"
#include "tests/support/bytes.h"
#include "tests/support/full_disk.h"
#include "tests/support/json.h"
#include "tests/train/run_fixture.h"

namespace runner::train {
namespace {

using support::Json;

// ---- the schedule --------------------------------------------------------------------------------------------------

char letter_of(ProfileAction action) {
  switch (action) {
    case ProfileAction::kNone: return '.';
    case ProfileAction::kWarmup: return 'w';
    case ProfileAction::kRecord: return 'r';
    case ProfileAction::kRecordAndSave: return 'R';
  }
  return '?';
}

std::string actions(const schema::ProfileSpec& spec, size_t steps) {
  std::string text;
  for (size_t step = 0; step < steps; ++step) text += letter_of(profile_action(spec, static_cast<int64_t>(step)));
  return text;
}

TEST(ProfileSchedule, MatchesTorch) {
  const std::vector<testing::Golden> cases = testing::Golden::load("profile.json").cases();
  EXPECT_EQ(cases.size(), 243U);
  for (const testing::Golden& one : cases) {
    const schema::ProfileSpec spec{.wait = one["wait"].integer(),
                                   .warmup = one["warmup"].integer(),
                                   .active = one["active"].integer(),
                                   .repeat = one["repeat"].integer(),
                                   .skip_first = one["skip_first"].integer(),
                                   .out = {}};
    const std::string want = one["steps"].text();
    EXPECT_EQ(actions(spec, want.size()), want) << one.name();
  }
}

// ---- runs ----------------------------------------------------------------------------------------------------------

// A recipe of twenty steps.
class ProfiledRun : public RunFixture {
 protected:
  RunResult profiled(const std::string& profile, std::vector<std::string> overrides = {}, const Options& options = {}) {
    if (!profile.empty()) overrides.push_back("profile={" + profile + "}");
    Options all = options;
    all.overrides = std::move(overrides);
    return train(kFourEpochs, all);
  }

  // The cycles stored by the last run.
  std::vector<Json> traces() const {
    store::Store store = store::Store::open(path("runner.db"), store::Access::kRead);
    std::vector<Json> found;
    for (const store::ArtifactInfo& artifact : store::list_artifacts(store, store::find_run(store, "@last").id)) {
      if (artifact.header.kind != kTraceKind) continue;
      found.push_back(Json::parse(support::text_of(store::read_artifact(store, artifact))));
    }
    return found;
  }
};

struct TraceEvent {
  std::string name, kind;
  int64_t process, thread;
  double begin, end;  // microseconds
};

std::vector<TraceEvent> spans_of(const Json& trace) {
  std::vector<TraceEvent> events;
  for (const Json& event : trace["traceEvents"].items()) {
    if (event["ph"].text() != "X") continue;
    const double begin = event["ts"].number();
    events.push_back({event["name"].text(), event["cat"].text(), event["pid"].integer(), event["tid"].integer(), begin,
                      begin + event["dur"].number()});
  }
  return events;
}

std::vector<std::string> steps_of(const Json& trace, int64_t process = 0) {
  std::vector<std::string> steps;
  for (const TraceEvent& event : spans_of(trace))
    if (event.kind == "step" && event.process == process) steps.push_back(event.name);
  return steps;
}

std::set<std::string> kinds_of(const Json& trace, int64_t process = 0) {
  std::set<std::string> kinds;
  for (const TraceEvent& event : spans_of(trace))
    if (event.process == process) kinds.insert(event.kind);
  return kinds;
}

using StepNames = std::vector<std::string>;

TEST_F(ProfiledRun, KeepsCyclesOfSteps) {
  ASSERT_EQ(profiled("skip_first: 2, wait: 1, warmup: 2, active: 3, repeat: 2").exit_code, 0);
  const std::vector<Json> found = traces();
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(steps_of(found[0]), (StepNames{"step 6", "step 7", "step 8"}));
  EXPECT_EQ(steps_of(found[1]), (StepNames{"step 12", "step 13", "step 14"}));
}

TEST_F(ProfiledRun, KeepsAnIncompleteLastCycle) {
  ASSERT_EQ(profiled("skip_first: 16, active: 3").exit_code, 0);
  const std::vector<Json> found = traces();
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(steps_of(found[1]), StepNames{"step 20"});
}

TEST_F(ProfiledRun, KeepsNoEmptyCycle) {
  ASSERT_EQ(profiled("active: 10").exit_code, 0);
  EXPECT_EQ(traces().size(), 2U);
}

TEST_F(ProfiledRun, TracesFromTheBeginning) {
  ASSERT_EQ(profiled("active: 5, repeat: 1", {"checkpoint.every=2 steps"}).exit_code, 0);
  const Json found = traces().at(0);
  EXPECT_EQ(kinds_of(found),
            (std::set<std::string>{"step", "data", "compile", "execute", "kernel", "transfer", "evaluation", "state"}));
  bool product = false, compiled = false;
  for (const Json& event : found["traceEvents"].items()) {
    if (event["ph"].text() != "X") continue;
    if (event["name"].text().starts_with("matmul"))
      product |= event["args"]["bytes"].integer() > 0 && event["args"]["flops"].integer() > 0;
    if (event["name"].text() == "compile") compiled |= event["args"]["what"].text().size() == 16;
  }
  EXPECT_TRUE(product);
  EXPECT_TRUE(compiled);
}

// Two spans of a thread are either disjoint or nested.
TEST_F(ProfiledRun, SpansOfAThreadAreNested) {
  ASSERT_EQ(profiled("active: 20", {"checkpoint.every=2 steps", "gradient_accumulation_steps=2"}).exit_code, 0);
  const std::vector<TraceEvent> spans = spans_of(traces().at(0));
  EXPECT_GT(spans.size(), 100U);
  int inside = 0;
  for (const TraceEvent& a : spans) {
    for (const TraceEvent& b : spans) {
      if (a.thread != b.thread || a.begin >= b.begin) continue;
      EXPECT_TRUE(a.end <= b.begin || b.end <= a.end) << a.name << " and " << b.name;
      inside += b.kind == "kernel" && a.kind == "execute" && b.end <= a.end;
    }
  }
  EXPECT_GT(inside, 50);
}

TEST_F(ProfiledRun, ChangesNoBit) {
  ASSERT_EQ(profiled("", {"model.dropout=0.3"}, {.store = "plain.db"}).exit_code, 0);
  ASSERT_EQ(profiled("wait: 1, warmup: 1, active: 2", {"model.dropout=0.3"}).exit_code, 0);
  EXPECT_EQ(last_state(), last_state("plain.db"));
  for (const char* metric : {"train/loss", "eval/loss", kBatchDigest})
    EXPECT_EQ(points(metric), points(metric, "plain.db")) << metric;
}

// Each attempt counts its own steps, and `profile` may change on resume.
TEST_F(ProfiledRun, AResumedAttemptStartsItsOwnSchedule) {
  ASSERT_EQ(profiled("", {}, {.store = "plain.db"}).exit_code, 0);
  ASSERT_EQ(profiled("skip_first: 1, active: 2, repeat: 1", {}, {.stop_after = 7}).exit_code, 4);
  ASSERT_EQ(profiled("skip_first: 1, active: 2, repeat: 1", {}, {.resume = "@last"}).exit_code, 0);
  const std::vector<Json> found = traces();
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(steps_of(found[0]), (StepNames{"step 2", "step 3"}));
  EXPECT_EQ(steps_of(found[1]), (StepNames{"step 9", "step 10"}));
  EXPECT_EQ(last_state(), last_state("plain.db"));
}

TEST_F(ProfiledRun, WritesTheSameToAFile) {
  ASSERT_EQ(profiled("wait: 5, active: 2, out: traces/t.json").exit_code, 0);
  const Json file = Json::parse(support::read_text(path("traces/t.json")));
  std::vector<Json> events;
  for (const Json& trace : traces())
    for (const Json& event : trace["traceEvents"].items()) events.push_back(event);
  EXPECT_EQ(file["traceEvents"].items(), events);
  EXPECT_EQ(steps_of(file), (StepNames{"step 6", "step 7", "step 13", "step 14", "step 20"}));
  // The next run replaces the trace.
  ASSERT_EQ(profiled("active: 1, repeat: 1, out: traces/t.json").exit_code, 0);
  EXPECT_EQ(steps_of(Json::parse(support::read_text(path("traces/t.json")))), StepNames{"step 1"});
}

TEST_F(ProfiledRun, KeepsItsTraceIfTheRunFails) {
  const RunResult result = profiled("active: 20", {"optimizer={type: sgd, lr: 1e30}"});
  ASSERT_EQ(result.exit_code, 1);
  EXPECT_FALSE(steps_of(traces().at(0)).empty());
}

// ---- the file ------------------------------------------------------------------------------------------------------

using TraceFileTest = RunFixture;

std::string message_of_opening(const std::string& path) {
  try {
    TraceFile file(path);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kData);
    return error.message();
  }
  return "no error";
}

TEST_F(TraceFileTest, RejectsOtherFiles) {
  write("data.csv", "a,b\n1,2\n");
  const std::string csv = path("data.csv").string(), below = csv + "/t.json", folder = path("").string();
  EXPECT_EQ(message_of_opening(csv),
            fmt::format("profile.out: {} already exists and is not a trace; choose another file or remove it", csv));
  EXPECT_EQ(message_of_opening(below), fmt::format("profile.out: cannot write {}: Not a directory", below));
  EXPECT_EQ(message_of_opening(folder), fmt::format("profile.out: cannot write {}: Is a directory", folder));
  EXPECT_EQ(support::read_text(path("data.csv")), "a,b\n1,2\n");
}

TEST_F(TraceFileTest, IsATraceAtAnyTimeEvenOnAFullDisk) {
  const std::string name = path("t.json").string();
  TraceFile file(name);
  file.begin();
  const auto count = [&] { return Json::parse(support::read_text(name))["traceEvents"].size(); };
  EXPECT_EQ(count(), 0U);
  const std::string part = formats::trace_events({.process = 0, .threads = {}, .spans = {}});
  EXPECT_EQ(file.add(part), std::nullopt);
  EXPECT_EQ(count(), 1U);
  {
    const support::FullDisk limit(std::filesystem::file_size(name) + 10);
    const std::string text = file.add(part).value_or("");
    EXPECT_TRUE(text.starts_with(fmt::format("profile.out: cannot write {}: File too large", name))) << text;
    EXPECT_TRUE(text.ends_with("; a cycle is missing; `runner trace` writes all cycles")) << text;
  }
  EXPECT_EQ(count(), 1U);
  EXPECT_EQ(file.add(part), std::nullopt);
  EXPECT_EQ(count(), 2U);
}

}  // namespace
}  // namespace runner::train
