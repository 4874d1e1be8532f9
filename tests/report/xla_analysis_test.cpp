// Analysis of a metrics report: steps, pace, identities and findings; and warnings about how it was read.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "runner/report/xla/analysis.h"
#include "runner/report/xla/analysis_text.h"
#include "runner/report/xla/report_reader.h"
#include "tests/support/json.h"
#include "tests/support/paths.h"
#include "tests/support/temp_folder.h"

namespace runner::report::xla {
namespace {

MetricsReport bert_report() {
  return read_report(support::read_text(support::source_path("recipes/data/bert_metrics_report.txt")))->report;
}

// Returns a metric whose samples each took `each`, at `rate` samples per second.
ReportMetric steady(const std::string& name, int64_t samples, double each, double rate) {
  ReportMetric metric;
  metric.name = name;
  metric.kind = MetricKind::kTime;
  metric.total_samples = samples;
  metric.accumulator = each * static_cast<double>(samples);
  metric.rate = rate;
  metric.value_rate = each * rate;
  metric.percentiles = {{50, each}, {99, each}};
  return metric;
}

MetricsReport report_with(std::vector<ReportMetric> metrics, std::vector<ReportCounter> counters) {
  return {std::move(metrics), std::move(counters)};
}

std::vector<std::string> found_in(const MetricsReport& report) {
  std::vector<std::string> ids;
  for (const Finding& finding : analysis_of(report).findings) ids.emplace_back(finding.id);
  return ids;
}

using Ids = std::vector<std::string>;

// Expected values computed by hand from the text: 1 / 4.33049 s, 0.922872877 / 4.33049 s, 0.151051277 / 4.33049 s.
TEST(XlaAnalysis, BertRun) {
  const Analysis analysis = analysis_of(bert_report());
  EXPECT_EQ(analysis.cadence.steps, 1220);
  EXPECT_FALSE(analysis.cadence.steps_are_marked);
  EXPECT_EQ(analysis.cadence.compiles, 5);
  EXPECT_NEAR(*analysis.cadence.compiles_per_step(), 0.0040984, 1e-7);
  EXPECT_EQ(analysis.cadence.compile_ns, 27'920'153'731);
  EXPECT_NEAR(*analysis.cadence.period_ns, 230'920'750, 1);
  EXPECT_NEAR(*analysis.cadence.running_ns, 213'110'497, 1);
  EXPECT_NEAR(*analysis.cadence.waiting_ns, 34'880'874, 1);
  EXPECT_EQ(analysis.verdict.pace, Pace::kBoth);
  EXPECT_TRUE(analysis.findings.empty());
  ASSERT_EQ(analysis.identities.size(), 3U);
  EXPECT_EQ(analysis.identities[0].text, "CachedCompile + CompileTime samples = ExecuteTime samples");
  EXPECT_EQ(analysis.identities[0].figures, "1215 + 5 = 1220");
  EXPECT_EQ(analysis.identities[2].figures, "1281 ≥ 1220");
  for (const Identity& identity : analysis.identities) EXPECT_TRUE(identity.holds) << identity.text;
}

TEST(XlaAnalysis, ChecksIdentitiesOfCounts) {
  const auto time = [](const char* name, int64_t samples) { return steady(name, samples, 1e6, 1); };
  const auto report = report_with({time("CompileTime", 3), time("DeviceLockWait", 9), time("ExecuteTime", 10)},
                                  {{"CachedCompile", 0, 8}, {"CreateCompileHandles", 0, 4}, {"UncachedCompile", 0, 2}});
  std::vector<std::string> lines;
  for (const Identity& identity : analysis_of(report).identities) {
    lines.push_back(fmt::format("{}: {}, {}", identity.text, identity.figures, identity.holds));
  }
  EXPECT_EQ(lines, (std::vector<std::string>{"CachedCompile + UncachedCompile = ExecuteTime samples: 8 + 2 = 10, true",
                                             "CompileTime samples = UncachedCompile: 3 ≠ 2, false",
                                             "CompileTime samples = CreateCompileHandles: 3 ≠ 4, false",
                                             "DeviceLockWait samples ≥ ExecuteTime samples: 9 < 10, false"}));
  EXPECT_TRUE(analysis_of(report_with({time("ExecuteTime", 10)}, {})).identities.empty());
  EXPECT_FALSE(analysis_of(report_with({time("CompileTime", 10)}, {})).cadence.compiles_per_step());
}

TEST(XlaAnalysis, EagerMode) {
  const auto eager = [](int64_t compiles) {
    return report_with({steady("EagerOpCompileTime", compiles, 1e6, 1), steady("EagerOpExecuteTime", 3600, 1e5, 1)},
                       {{"CachedCompile", 0, 3600 - compiles},
                        {"CreateCompileHandles", 0, compiles},
                        {"MarkStep", 0, 36},
                        {"UncachedCompile", 0, compiles}});
  };
  const Analysis analysis = analysis_of(eager(97));
  EXPECT_EQ(analysis.cadence.executions, 3600);
  EXPECT_EQ(analysis.cadence.compile_ns, 97e6);
  EXPECT_EQ(analysis.verdict.pace, Pace::kUnknown);
  EXPECT_EQ(analysis.verdict.text,
            "operations run eagerly: cannot predict the bottleneck in graph mode from an eager run");
  ASSERT_EQ(analysis.findings.size(), 1U);
  EXPECT_EQ(analysis.findings[0].id, "eager-mode");
  EXPECT_EQ(analysis.findings[0].text,
            "3600 operations in 36 steps, 100 per step, executed eagerly, which took 0.36 s; 97 kinds of operation "
            "compiled, which took 97.0 ms");
  ASSERT_EQ(analysis.identities.size(), 3U);
  EXPECT_EQ(analysis.identities[0].text, "CachedCompile + UncachedCompile = EagerOpExecuteTime samples");
  for (const Identity& identity : analysis.identities) EXPECT_TRUE(identity.holds) << identity.text;
  // A run that is only partly eager has graphs too.
  MetricsReport both = eager(97);
  both.metrics.push_back(steady("ExecuteTime", 36, 1e6, 1));
  EXPECT_EQ(analysis_of(both).cadence.executions, 36);
  EXPECT_EQ(found_in(both), Ids{"many-compiles"});
}

// Model: the device needs d per graph and the host h per step. A step takes the longer time, and the host waits for the
// difference if d is longer.
TEST(XlaAnalysis, FindsWhatLimitsTheSpeed) {
  const struct {
    double device_ms, host_ms;
    Pace pace;
    const char* text;
  } rows[] = {
      {100, 20, Pace::kDevice,
       "half of all syncs wait 80.0 ms or longer for the device: make the graph faster; a faster host would not help"},
      {20, 100, Pace::kHost,
       "half of all syncs find the device free within 2.0 us, and the device is idle 80 % of the time: check tracing, "
       "reads of values and input"},
      {95, 100, Pace::kBoth,
       "half of all syncs find the device free within 2.0 us, but the device is idle 5 % of the time: host and device "
       "take about the same time, the host slightly more"},
  };
  for (const auto& row : rows) {
    const double step_ms = std::max(row.device_ms, row.host_ms);
    const double wait_ms = std::max(row.device_ms - row.host_ms, 0.002);
    const Verdict verdict = analysis_of(report_with({steady("CompileTime", 2, 1e9, 1),
                                                     steady("DeviceLockWait", 500, wait_ms * 1e6, 1000 / step_ms),
                                                     steady("ExecuteTime", 500, row.device_ms * 1e6, 1000 / step_ms)},
                                                    {}))
                                .verdict;
    EXPECT_EQ(verdict.pace, row.pace) << row.device_ms;
    EXPECT_EQ(verdict.text, row.text);
  }
}

TEST(XlaAnalysis, PaceIsUnknownWithoutEnoughData) {
  const Verdict compiling =
      analysis_of(report_with({steady("CompileTime", 2, 30e9, 1), steady("ExecuteTime", 50, 1e9, 1)}, {})).verdict;
  EXPECT_EQ(compiling.pace, Pace::kCompiler);
  EXPECT_EQ(compiling.text,
            "compilation took 60.0 s, all executions 50.0 s: to see the training speed, report a longer run or reduce "
            "the number of graphs");
  for (const auto& report :
       {report_with({steady("ExecuteTime", 50, 1e9, 1)}, {}),
        report_with({steady("DeviceLockWait", 9, 1e9, 1), steady("ExecuteTime", 9, 1e9, 1)}, {})}) {
    const Verdict verdict = analysis_of(report).verdict;
    EXPECT_EQ(verdict.pace, Pace::kUnknown);
    EXPECT_EQ(verdict.text,
              "not enough data: the report needs ten executions with rates, and percentiles of DeviceLockWait");
  }
}

// ---- findings, just at and just above their thresholds -------------------------------------------------------------

TEST(XlaAnalysis, FindsRecompilations) {
  const auto report = [](int64_t compiles, int64_t steps) {
    return report_with({steady("CompileTime", compiles, 2e9, 1), steady("ExecuteTime", steps, 9e9, 1)},
                       {{"MarkStep", 0, steps}});
  };
  EXPECT_EQ(found_in(report(10, 20)), Ids());
  EXPECT_EQ(found_in(report(10, 10)), Ids());
  EXPECT_EQ(found_in(report(11, 20)), Ids{"many-compiles"});
  EXPECT_EQ(found_in(report(6, 11)), Ids{"many-compiles"});
  const Finding finding = analysis_of(report(11, 20)).findings[0];
  EXPECT_EQ(finding.text,
            "11 compiles in 20 steps, 0.55 per step (expected at most 0.5 after 10 steps), which took 22.0 s: the "
            "graph changes from step to step");
  EXPECT_EQ(finding.advice,
            "use one or a few batch shapes (drop the last batch, pad to fixed lengths); keep loop indices and other "
            "changing numbers out of the graph or pass them as tensors; log at every step or in a step closure");
}

TEST(XlaAnalysis, FindsFrequentReadsOfValues) {
  const auto report = [](const char* name, int64_t reads, int64_t scalars) {
    return report_with({steady(name, reads, 3e6, 1), steady("ExecuteTime", 20, 9e9, 1)},
                       {{"MarkStep", 0, 20}, {"aten::_local_scalar_dense", 0, scalars}});
  };
  EXPECT_EQ(found_in(report("TransferFromDeviceTime", 10, 0)), Ids());
  EXPECT_EQ(found_in(report("TransferFromDeviceTime", 11, 0)), Ids{"many-reads"});
  EXPECT_EQ(found_in(report("TransferFromServerTime", 11, 0)), Ids{"many-reads"});
  EXPECT_EQ(analysis_of(report("TransferFromServerTime", 20, 18)).findings[0].text,
            "20 reads of values from the device in 20 steps, 1.00 per step (expected at most 0.5 after 10 steps), "
            "which took 60.0 ms, and 18 of scalars (.item(), print, if): each waits for the device; they cause no "
            "graph breaks, because there are no more executions (20) than steps");
  EXPECT_EQ(analysis_of(report("TransferFromDeviceTime", 11, 0)).findings[0].advice,
            "read the loss every few steps and in a step closure; accumulate metrics on the device");
  // Reads within a step split it into two executions. Without marked steps, this is unknown.
  const auto text = [](int64_t steps) {
    const auto reads = steady("TransferFromDeviceTime", 20, 3e6, 1), executions = steady("ExecuteTime", 39, 9e9, 1);
    const std::string all = analysis_of(report_with({reads, executions}, {{"MarkStep", 0, steps}})).findings[0].text;
    return all.substr(all.find("each waits"));
  };
  EXPECT_EQ(text(20),
            "each waits for the device, and reads in the middle of a step break its graph: 39 executions in 20 steps");
  EXPECT_EQ(text(0), "each waits for the device, and a read in the middle of a step breaks its graph");
}

// Zero counts are not printed and damaged lines are missing, so a missing entry does not mean zero.
TEST(XlaAnalysis, CountsCompilationsFromAvailableEntries) {
  const auto compiles = [](std::vector<ReportMetric> metrics, std::vector<ReportCounter> counters) {
    return analysis_of(report_with(std::move(metrics), std::move(counters))).cadence.compiles;
  };
  const ReportMetric executions = steady("ExecuteTime", 20, 1e6, 1);
  EXPECT_EQ(compiles({executions}, {{"CachedCompile", 0, 15}, {"CreateCompileHandles", 0, 5}}), 5);
  EXPECT_EQ(compiles({executions}, {{"CachedCompile", 0, 18}, {"UncachedCompile", 0, 2}}), 2);
  EXPECT_EQ(compiles({executions}, {{"CachedCompile", 0, 15}}), std::nullopt);
  EXPECT_EQ(compiles({executions}, {}), std::nullopt);
  EXPECT_EQ(compiles({executions}, {{"CachedCompile", 0, 20}}), 0);
  EXPECT_EQ(compiles({executions}, {{"CachedCompile", 0, 19}, {"PersistentCacheHit", 0, 1}}), 0);
}

TEST(XlaAnalysis, OmitsAnUnreadableSum) {
  ReportMetric compile = steady("CompileTime", 15, 30e9, 1);
  compile.accumulator.reset();
  const Analysis analysis = analysis_of(report_with({compile, steady("ExecuteTime", 20, 1e9, 1)}, {}));
  EXPECT_EQ(analysis.findings[0].text,
            "15 compiles in 20 steps, 0.75 per step (expected at most 0.5 after 10 steps): the graph changes from step "
            "to step");
  EXPECT_EQ(analysis.verdict.pace, Pace::kUnknown);
}

TEST(XlaAnalysis, FindsLongCompilationsAndExecutions) {
  EXPECT_EQ(found_in(report_with({steady("CompileTime", 1, 300e9, 1)}, {})), Ids());
  EXPECT_EQ(found_in(report_with({steady("ExecuteTime", 1, 30e9, 1)}, {})), Ids());
  const auto findings =
      analysis_of(report_with({steady("CompileTime", 1, 301e9, 1), steady("ExecuteTime", 1, 31e9, 1)}, {})).findings;
  ASSERT_EQ(findings.size(), 2U);
  EXPECT_EQ(findings[0].id, "long-compile");
  EXPECT_EQ(findings[0].text, "the 99 % percentile of CompileTime is 5 min 01 s (expected at most 5 min 00 s)");
  EXPECT_EQ(findings[0].advice,
            "make the graph smaller: use scan over equal layers, or gradient accumulation over smaller batches; use a "
            "persistent compilation cache");
  EXPECT_EQ(findings[1].id, "long-execution");
  EXPECT_EQ(findings[1].text, "the 99 % percentile of ExecuteTime is 31.0 s (expected at most 30.0 s)");
  EXPECT_EQ(findings[1].advice, "sync once per batch (mark_step): without a sync, the graph grows from step to step");
}

TEST(XlaAnalysis, FindsFallbacksToTheHost) {
  EXPECT_EQ(found_in(report_with({}, {{"aten::_local_scalar_dense", 0, 7}, {"aten::nonzero", 0, 0}})), Ids());
  const auto findings = analysis_of(report_with({}, {{"aten::nonzero", 0, 12}, {"aten::unique", 0, 1}})).findings;
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].id, "fallback");
  EXPECT_EQ(findings[0].text,
            "executed on the host, because XLA has no lowering for: aten::nonzero (12 calls), aten::unique (1 call)");
  EXPECT_EQ(findings[0].advice,
            "replace them by other operations: each call copies its operands from the device and its result back");
}

TEST(XlaAnalysis, FindsMemoryPressure) {
  for (const char* name : {"XrtTryFreeMemory", "XrtCompaction", "XrtExecutorEvict"}) {
    const auto report = [&](int64_t times) { return report_with({}, {{"MarkStep", 0, 20}, {name, 0, times}}); };
    EXPECT_EQ(found_in(report(2)), Ids());
    EXPECT_EQ(found_in(report(3)), Ids{"memory-pressure"});
    EXPECT_EQ(analysis_of(report(3)).findings[0].text,
              fmt::format("3 {} in 20 steps, 0.15 per step (expected at most 0.1 after 10 steps)", name));
  }
  // The same count as a metric of the server.
  EXPECT_EQ(found_in(report_with({steady("XrtCompaction", 3, 1e6, 1)}, {{"MarkStep", 0, 20}})), Ids{"memory-pressure"});
}

// ---- warnings about how a report was read --------------------------------------------------------------------------

std::vector<std::string> warnings_of(const std::string& text, std::optional<DurationStyle> style = {}) {
  return reading_warnings(*read_report(text, style), "x.log");
}

TEST(XlaAnalysis, WarnsOfAmbiguousDurations) {
  const std::string metric = "Metric: M\n  TotalSamples: 2\n  Accumulator: ", end = "\n  Percentiles: \n";
  using Texts = std::vector<std::string>;
  EXPECT_EQ(warnings_of(metric + "28s020ms153.131us" + end), Texts());
  EXPECT_EQ(warnings_of(metric + "28s920ms153.731us" + end),
            Texts{"cannot detect how the report's durations were printed; assuming upstream; 1 duration would differ "
                  "if they are exact; set --durations"});
  EXPECT_EQ(warnings_of(metric + "28s920ms153.731us" + end, DurationStyle::kUpstream), Texts());
  EXPECT_EQ(warnings_of(metric + "28s1000ms900.731us" + end, DurationStyle::kExact),
            Texts{"--durations exact contradicts the report: 1 figure can only be in the other style"});
  EXPECT_EQ(warnings_of(metric + "28s500ms000.000us" + end, DurationStyle::kUpstream),
            Texts{"1 duration may be one unit longer: torch_xla rounds exactly half a unit to an even number"});
  EXPECT_EQ(warnings_of("a log\nCounter: A\n  Value: 1\nCounter: B\n  Value: x\n"),
            Texts{"x.log:5: Value of B is 'x': expected an integer"});
}

// If exact durations do not fit, short ones are shown; they are never cut.
TEST(XlaAnalysis, NarrowTerminalShowsShortDurations) {
  const auto reading = read_report(support::read_text(support::source_path("recipes/data/bert_metrics_report.txt")));
  EXPECT_NE(analysis_text(*reading, 120, false).find("27s920ms153.731us  05s584ms030.746us"), std::string::npos);
  const std::string narrow = analysis_text(*reading, 80, false);
  EXPECT_TRUE(
      narrow.starts_with("metric          samples       total     mean     50%     99%   a second\n"
                         "CompileTime           5      27.9 s   5.58 s  2.65 s  11.1 s  0.0165028\n"
                         "DeviceLockWait     1281      38.2 s  29.8 ms  3.7 us  0.22 s    4.54374\n"
                         "ExecuteTime        1220  4 min 22 s   0.21 s  0.22 s  0.24 s    4.33049\n"))
      << narrow;
}

TEST(XlaAnalysis, TimesBelowAMillisecondAreInMicroseconds) {
  ReportReading reading;
  reading.report = report_with({steady("ExecuteTime", 20, 40e3, 1e4)}, {});
  const std::string text = analysis_text(reading, 0, false);
  EXPECT_NE(text.find("every 100.0 us, 40.0 us of it on the device (40.0 %)"), std::string::npos) << text;
  EXPECT_NE(text.find("unknown: the report has neither CompileTime nor a counter of compilations"), std::string::npos)
      << text;
}

TEST(XlaAnalysis, JsonDocument) {
  const std::string text = support::read_text(support::source_path("tests/report/samples/mlp_2.9.txt"));
  const auto document =
      support::Json::parse(analysis_document(*read_report("[MetricsData; step=6]\n" + text), "m.txt"));
  EXPECT_EQ(document.keys(), (std::vector<std::string>{"file", "line", "rank", "step", "reports", "durations",
                                                       "metrics", "counters", "analysis", "warnings"}));
  EXPECT_EQ(document["file"].text(), "m.txt");
  EXPECT_EQ(document["line"].integer(), 2);
  EXPECT_EQ(document["rank"], nullptr);
  EXPECT_EQ(document["step"].text(), "6");
  EXPECT_EQ(document["durations"]["style"].text(), "upstream");
  EXPECT_TRUE(document["durations"]["certain"].flag());
  EXPECT_EQ(document["metrics"]["CompileTime"]["sum"].integer(), 186'996'115);
  EXPECT_EQ(document["metrics"]["TensorsGraphSize"]["kind"].text(), "value");
  EXPECT_EQ(document["metrics"]["OutboundData"]["percentiles"]["99"].integer(), 8192);
  EXPECT_EQ(document["counters"]["MarkStep"].integer(), 6);
  const support::Json analysis = document["analysis"];
  EXPECT_EQ(analysis["steps"].integer(), 6);
  EXPECT_EQ(analysis["steps_are"].text(), "MarkStep");
  EXPECT_EQ(analysis["period"], nullptr);
  EXPECT_EQ(analysis["pace"].text(), "compiler");
  EXPECT_EQ(analysis["identities"].size(), 4U);
  EXPECT_TRUE(analysis["identities"][0]["holds"].flag());
  EXPECT_EQ(analysis["findings"].size(), 0U);
}

}  // namespace
}  // namespace runner::report::xla
