// Reading metrics reports: several releases, within logs, truncated, repeated, and 10,000 random ones.
#include <cmath>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "backends/tpu/metrics.h"
#include "runner/report/xla/report_reader.h"
#include "tests/support/paths.h"
#include "tests/support/temp_folder.h"

namespace runner::report::xla {
namespace {

constexpr const char *kBert = "recipes/data/bert_metrics_report", *kMlp = "tests/report/samples/mlp_2.9",
                     *kShort = "tests/report/samples/mlp_2.9_short";

std::string sample(const std::string& name) {
  return support::read_text(fmt::format("{}/{}.txt", support::source_path(), name));
}

ReportReading read(const std::string& text) {
  const auto reading = read_report(text);
  if (!reading) throw std::runtime_error("no report in " + text);
  return *reading;
}

std::vector<std::string> problems_of(const ReportReading& reading) {
  std::vector<std::string> all;
  for (const ReportProblem& problem : reading.problems)
    all.push_back(fmt::format("{}: {}", problem.line, problem.text));
  return all;
}

using Problems = std::vector<std::string>;

TEST(XlaReader, DecodesTheReportOfABertRun) {
  const std::string text = sample(kBert);
  const ReportReading reading = read(text);
  EXPECT_EQ(report_text(reading.report, DurationStyle::kUpstream), text);
  EXPECT_EQ(problems_of(reading), Problems());
  EXPECT_TRUE(reading.durations.certain());
  EXPECT_EQ(reading.durations.style, DurationStyle::kUpstream);

  const ReportMetric& compile = *reading.report.metric("CompileTime");
  EXPECT_EQ(compile.total_samples, 5);
  EXPECT_EQ(compile.accumulator, 27'920'153'731);
  EXPECT_EQ(*compile.value_rate, 92'152'037);
  EXPECT_EQ(*compile.rate, 0.0165028);
  const double seconds[] = {0.428053505,  0.428053505,  0.428053505,  2.639888060, 2.650126150,
                            11.109545595, 11.109545595, 11.109545595, 11.109545595};
  ASSERT_EQ(compile.percentiles.size(), std::size(seconds));
  for (size_t i = 0; i < std::size(seconds); ++i) {
    EXPECT_EQ(compile.percentiles[i].value, std::round(seconds[i] * 1e9)) << i;
  }
  EXPECT_EQ(reading.report.metric("DeviceLockWait")->accumulator, 38'195'476'007);
  EXPECT_EQ(reading.report.metric("ExecuteTime")->accumulator, 261'554'668'071);
  EXPECT_EQ(reading.report.counter("CachedCompile"), 1215);
  EXPECT_EQ(reading.report.counter("CreateCompileHandles"), 5);
}

TEST(XlaReader, ReadsReportsOfTorchXla29) {
  for (const char* name : {kMlp, kShort}) {
    const std::string text = sample(name);
    const ReportReading reading = read(text);
    EXPECT_EQ(report_text(reading.report, DurationStyle::kUpstream), text) << name;
    EXPECT_EQ(problems_of(reading), Problems()) << name;
    EXPECT_EQ(reading.reports, 1) << name;
    EXPECT_EQ(reading.report.counter("MarkStep"), 6) << name;
  }
  const ReportReading reading = read(sample(kMlp));
  EXPECT_EQ(reading.report.metrics.front().block, 0);
  EXPECT_EQ(reading.report.metrics.back().block, 1);
  EXPECT_EQ(reading.report.metric("TensorsGraphSize")->kind, MetricKind::kValue);
  EXPECT_EQ(reading.report.metric("OutboundData")->accumulator, 49.5 * 1024);
}

// ---- other releases ------------------------------------------------------------------------------------------------

TEST(XlaReader, ReadsTheOldestReleases) {
  const ReportReading reading = read(
      "Metric: CompileTime\n"
      "  TotalSamples: 24\n"
      "  Counter: 07s501ms263.438us\n"
      "  ValueRate: 415ms845.224us / second\n"
      "  Rate: 1.53144 / second\n"
      "  Percentiles: 1%=092ms776.335us; 90%=191ms81.607us; 99%=417ms171.393us\n"
      "Metric: InboundData\n"
      "  TotalSamples: 880\n"
      "  Counter: 3.44KB\n"
      "  Percentiles: 1%=4.00B; 50%=4.00B\n"
      "Counter: CreateXlaTensor\n"
      "  Value: 7\n");
  EXPECT_EQ(problems_of(reading), Problems());
  EXPECT_EQ(reading.report.metric("CompileTime")->accumulator, 6'501'263'438);
  EXPECT_EQ(reading.report.metric("CompileTime")->percentiles[1].value, 191'081'607);
  EXPECT_EQ(reading.report.metric("InboundData")->accumulator, 3.44 * 1024);
  EXPECT_EQ(reading.report.counter("CreateXlaTensor"), 7);
}

TEST(XlaReader, ReadsMetricsOfAnXrtServer) {
  const std::string server =
      "Metric: XrtCompile\n"
      "  TotalSamples: 64\n"
      "  Accumulator: 09m50s948ms416.998us\n"
      "  Mean: 08s280ms444.016us\n"
      "  StdDev: 16s800ms825.434us\n"
      "  Rate: 0.0449311 / second\n"
      "  Percentiles: 25%=011ms230.058us; 50%=043ms595.301us; 80%=17s984ms841.220us\n"
      "Counter: XrtExecutorEvict\n"
      "  Value: 3\n"
      "Metric: XrtReadLiteral\n"
      "  TotalSamples: 2\n"
      "  Accumulator: 002ms000.000us\n"
      "  Mean: 001ms000.000us\n"
      "  StdDev: 000.000us\n"
      "  Percentiles: 25%=001ms000.000us\n";
  const std::string empty =
      "Metric: XrtTryFreeMemory\n"
      "  TotalSamples: 0\n"
      "  Accumulator: nanB\n"
      "  Mean: nanB\n"
      "  StdDev: nanB\n"
      "  Percentiles: \n";
  const ReportReading reading = read(sample(kBert) + server + empty);
  EXPECT_EQ(problems_of(reading), Problems());
  EXPECT_EQ(reading.reports, 1);
  const ReportMetric& compile = *reading.report.metric("XrtCompile");
  EXPECT_EQ(*compile.mean, 8'280'444'016);
  EXPECT_EQ(*compile.stddev, 15'799'825'434);
  EXPECT_EQ(compile.percentiles[0].percent, 25);
  EXPECT_EQ(reading.report.counter("XrtExecutorEvict"), 3);
  EXPECT_EQ(reading.report.metric("XrtTryFreeMemory"), nullptr);
  EXPECT_EQ(report_text(reading.report, DurationStyle::kUpstream), sample(kBert) + server);
}

// ---- in logs -------------------------------------------------------------------------------------------------------

std::string each_line(const std::string& text, const std::string& before, const std::string& after = "\n") {
  std::istringstream lines(text);
  std::string wrapped;
  for (std::string line; std::getline(lines, line);) wrapped += before + line + after;
  return wrapped;
}

TEST(XlaReader, FindsAReportInALog) {
  const std::string text = sample(kBert);
  const ReportReading plain = read(text);
  for (const std::string& log :
       {"step 12, loss 0.3, Learning Rate: 0.1\nMetric: accuracy is 3\n>>> print(met.metrics_report())\n" + text +
            "...\n\nTrain on TPUs\n",
        each_line(text, "2026-03-01 12:00:00,123 INFO:root:"), each_line(text, "[rank0]:"), each_line(text, "> "),
        each_line(text, "\x1b[32m", "\x1b[0m\n"), each_line(text, "", "\r\n"),
        "{\"message\": \"" + each_line(text, "", "\\n") + "\"}", each_line(text, "", "\nstep 7: loss 0.25\n")}) {
    const ReportReading reading = read(log);
    EXPECT_EQ(reading.report, plain.report) << log;
    EXPECT_EQ(problems_of(reading), Problems()) << log;
    EXPECT_EQ(reading.reports, 1) << log;
  }
  EXPECT_EQ(read(each_line(text, "[rank3]:")).rank, 3);
  EXPECT_EQ(read("\n\nhello\n" + text).line, 4);
}

TEST(XlaReader, ReturnsTheLastOfSeveralReports) {
  const std::string first = sample(kBert), last = sample(kMlp);
  const ReportReading reading = read(first + "\n" + first + "some text\n" + last);
  EXPECT_EQ(reading.reports, 3);
  EXPECT_EQ(report_text(reading.report, DurationStyle::kUpstream), last);

  const std::string file = "[MetricsData; step=1]\n" + first + "\n[MetricsData; step=20]\n" + last + "\n";
  EXPECT_EQ(read(file).reports, 2);
  EXPECT_EQ(read(file).step, "20");
  EXPECT_EQ(report_text(read(file).report, DurationStyle::kUpstream), last);
}

TEST(XlaReader, SeparatesInterleavedLinesOfRanks) {
  std::istringstream one(sample(kBert)), two(sample(kMlp));
  std::string log, line;
  while (one || two) {
    if (std::getline(two, line)) log += "[rank0]: " + line + "\n";
    if (std::getline(one, line)) log += "[rank1]: " + line + "\n";
  }
  const ReportReading reading = read(log);
  EXPECT_EQ(reading.rank, 0);
  EXPECT_EQ(reading.reports, 2);
  EXPECT_EQ(report_text(reading.report, DurationStyle::kUpstream), sample(kMlp));
}

// In torch_xla 2 a name may occur in both blocks, and a short report may contain aten counters twice.
TEST(XlaReader, AddsCountersOfBothBlocks) {
  const std::string metric = "  TotalSamples: 1\n  Accumulator: 1.00\n  Percentiles: 1%=1.00\n";
  const ReportReading reading =
      read("Metric: A\n" + metric + "Counter: X\n  Value: 3\nMetric: B\n" + metric +
           "Counter: X\n  Value: 4\nCounter: aten::nonzero\n  Value: 5\nCounter: aten::nonzero\n  Value: 5\n");
  EXPECT_EQ(reading.reports, 1);
  EXPECT_EQ(reading.report.counter("X"), 7);
  EXPECT_EQ(reading.report.counter("aten::nonzero"), 5);
  EXPECT_EQ(read("Counter: X\n  Value: 3\nCounter: X\n  Value: 4\n").reports, 2);
}

// ---- truncated reports ---------------------------------------------------------------------------------------------

// Wherever a report is truncated, the complete entries before are read, and nothing else.
TEST(XlaReader, ReadsTruncatedReports) {
  const std::string text = sample(kBert);
  const MetricsReport whole = read(text).report;
  int without = 0;
  for (size_t length = 0; length < text.size(); ++length) {
    const auto reading = read_report(text.substr(0, length));
    if (!reading) {
      ++without;
      continue;
    }
    for (const ReportMetric& metric : reading->report.metrics) {
      ASSERT_NE(whole.metric(metric.name), nullptr) << length;
      EXPECT_EQ(metric.total_samples, whole.metric(metric.name)->total_samples) << length;
      EXPECT_LE(metric.percentiles.size(), whole.metric(metric.name)->percentiles.size()) << length;
    }
  }
  EXPECT_LT(without, 75);
  EXPECT_EQ(problems_of(read(text.substr(0, text.find("  Percentiles:")))),
            (Problems{"1: CompileTime ends before the end of its Percentiles"}));
  EXPECT_EQ(problems_of(read(text.substr(0, text.find(" 50%=03s650")))),
            (Problems{"1: CompileTime ends before the end of its Percentiles"}));
  EXPECT_EQ(problems_of(read(text.substr(0, text.find("ms126.150us")))),
            (Problems{"6: cannot parse the percentiles of CompileTime, starting at '50%=03s650'"}));
  EXPECT_EQ(problems_of(read(text.substr(0, text.find("Metric: ExecuteTime") + 38))),
            (Problems{"13: ExecuteTime ends before its Accumulator"}));
  EXPECT_EQ(problems_of(read(text.substr(0, text.find("15\nCounter: Create")))),
            (Problems{"20: the text ends within the value of CachedCompile, which may be truncated"}));
}

TEST(XlaReader, ReadsFromTheMiddleOfAReport) {
  const std::string text = sample(kBert);
  const std::string tail = text.substr(text.find("  Rate: 0.0165"));
  const ReportReading reading = read(tail);
  EXPECT_EQ(problems_of(reading), (Problems{"3: the report begins in the middle of an entry"}));
  EXPECT_EQ(reading.report.metrics.size(), 2U);
  const ReportReading two = read(tail + "step 9\n" + text);
  EXPECT_EQ(two.reports, 2);
  EXPECT_EQ(report_text(two.report, DurationStyle::kUpstream), text);
  EXPECT_EQ(problems_of(two), Problems());
}

TEST(XlaReader, ReportsUnreadableLines) {
  const auto problems = [](const std::string& accumulator, const std::string& rest) {
    return problems_of(
        read("Counter: A\n  Value: 1\nMetric: M\n  TotalSamples: 2\n  Accumulator: " + accumulator + "\n" + rest));
  };
  EXPECT_EQ(problems("12h", ""), (Problems{"5: Accumulator of M is '12h': expected a value"}));
  EXPECT_EQ(problems("2000ms000.000us", "").size(), 1U);
  EXPECT_EQ(problems("3.00", "  ValueRate: 4.00KB / second\n  Rate: 2 / minute\n  Percentiles: 1%=1.00; 5%2.00\n"),
            (Problems{"6: ValueRate of M is '4.00KB / second': expected a value of the metric's kind",
                      "7: Rate of M is '2 / minute': expected a rate",
                      "8: cannot parse the percentiles of M, starting at '5%2.00'"}));
  EXPECT_EQ(
      read("Metric: \xff\n  TotalSamples: 1\n  Accumulator: 1.00\nCounter: A\n  Value: 1\n").report.metrics.size(), 0U);
  EXPECT_EQ(problems_of(read("Counter: A\n  Value: 1\nCounter: B\n  Value: many\n")),
            (Problems{"4: Value of B is 'many': expected an integer"}));
}

// A damaged line does not affect the lines below it.
TEST(XlaReader, KeepsLinesBelowADamagedLine) {
  const std::string text = sample(kBert), sum = "28s920ms153.731us", samples = "TotalSamples: 5\n";
  const MetricsReport whole = read(text).report;
  const auto damaged = [&](const std::string& what, const std::string& with) {
    return read(std::string(text).replace(text.find(what), what.size(), with));
  };
  const ReportReading without_sum = damaged(sum, "28s92?ms153.731us");
  EXPECT_EQ(problems_of(without_sum),
            (Problems{"3: Accumulator of CompileTime is '28s92?ms153.731us': expected a value"}));
  const ReportMetric& compile = *without_sum.report.metric("CompileTime");
  EXPECT_FALSE(compile.accumulator);
  ReportMetric but_the_sum = *whole.metric("CompileTime");
  but_the_sum.accumulator.reset();
  EXPECT_EQ(compile, but_the_sum);

  const ReportReading without_samples = damaged(samples, "TotalSamples: 5x\n");
  EXPECT_EQ(problems_of(without_samples),
            (Problems{"2: TotalSamples of CompileTime is '5x': expected a number of samples; the metric is ignored"}));
  EXPECT_EQ(without_samples.report.metric("CompileTime"), nullptr);
  EXPECT_EQ(*without_samples.report.metric("ExecuteTime"), *whole.metric("ExecuteTime"));
}

TEST(XlaReader, FindsNoReportInOtherTexts) {
  for (const char* text :
       {"", "\n", "loss 0.3\n", "Metric: accuracy\n", "Metric: M\n  TotalSamples: 3\n", "Counter: A\n",
        "Value: 3\nRate: 0.1\n", "Metric: M\n  TotalSamples: 3\n  Accumulator: 1h\n"}) {
    EXPECT_FALSE(read_report(text)) << text;
  }
}

// ---- styles --------------------------------------------------------------------------------------------------------

TEST(XlaReader, InfersTheStyleFromTheFigures) {
  const auto decision = [](const std::string& sum, const std::string& rest) {
    return read("Metric: M\n  TotalSamples: 2\n  Accumulator: " + sum + "\n" + rest).durations;
  };
  // No evidence: the upstream style, with the warning that another reading is possible.
  EXPECT_EQ(decision("28s920ms153.731us", "").style, DurationStyle::kUpstream);
  EXPECT_FALSE(decision("28s920ms153.731us", "").certain());
  EXPECT_EQ(decision("28s920ms153.731us", "").differing, 1);
  EXPECT_TRUE(decision("28s020ms153.231us", "").certain());
  // Evidence from parts.
  EXPECT_TRUE(decision("28s1000ms900.731us", "").certain());
  EXPECT_EQ(decision("01s920ms153.731us", "").style, DurationStyle::kExact);
  EXPECT_TRUE(decision("01s920ms153.731us", "").certain());
  // Evidence from percentiles that would decrease.
  EXPECT_TRUE(decision("28s920ms153.731us", "  Percentiles: 1%=054ms856.143us; 5%=054ms447.633us\n").certain());
  EXPECT_EQ(decision("28s920ms153.731us",
                     "  Percentiles: 1%=053ms900.000us; 5%=054ms100.000us; 9%=054ms700.000us; 10%=054ms800.000us; "
                     "11%=055ms200.000us; 12%=055ms600.000us; 13%=055ms100.000us\n")
                .style,
            DurationStyle::kUpstream);
  // Evidence from the sum of two samples 1 s apart: 28.92 or 27.92 s.
  EXPECT_EQ(decision("28s920ms153.731us", "  ValueRate: 28s920ms153.731us / second\n  Rate: 2 / second\n").certain(),
            false);
  EXPECT_EQ(decision("28s920ms153.731us", "  ValueRate: 14s460ms076.866us / second\n  Rate: 1 / second\n").style,
            DurationStyle::kExact);
  EXPECT_EQ(decision("28s920ms153.731us", "  ValueRate: 14s960ms076.866us / second\n  Rate: 1 / second\n").style,
            DurationStyle::kUpstream);
  EXPECT_TRUE(decision("28s920ms153.731us", "  ValueRate: 14s960ms076.866us / second\n  Rate: 1 / second\n").certain());
  EXPECT_EQ(decision("28s500ms000.000us", "").ties, 1);
  const auto specified =
      read_report("Metric: M\n  TotalSamples: 2\n  Accumulator: 28s920ms153.731us\n", DurationStyle::kExact);
  EXPECT_TRUE(specified->durations.certain());
  EXPECT_EQ(specified->report.metric("M")->accumulator, 28'920'153'731);
}

// ---- 10,000 random reports -----------------------------------------------------------------------------------------

class RandomDevice {
 public:
  explicit RandomDevice(uint64_t seed) : random_(seed) {}

  backends::tpu::MetricsSnapshot snapshot() {
    backends::tpu::MetricsRegistry metrics({"xla::add", "xla::mm", "xla::_log_softmax"});
    for (size_t i = 0; i < backends::tpu::kMetricCount; ++i) {
      if (below(3) == 0) fill(metrics, static_cast<backends::tpu::XlaMetric>(i));
    }
    for (size_t i = 0; i < backends::tpu::kCounterCount; ++i) {
      metrics.count(static_cast<backends::tpu::XlaCounter>(i), below(3) * below(1'000'000));
    }
    for (size_t op = 0; op < 3; ++op) metrics.count_op(op, below(2) * below(1000));
    metrics.count(backends::tpu::XlaCounter::kMarkStep);
    return metrics.snapshot();
  }

 private:
  int64_t below(int64_t limit) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(limit)); }

  // Adds up to 40 samples, sometimes more than the ring holds, of one or many magnitudes; some are at half a unit.
  void fill(backends::tpu::MetricsRegistry& metrics, backends::tpu::XlaMetric metric) {
    const int64_t count = below(100) == 0 ? 1000 + below(100) : below(40);
    const int64_t magnitude = 1 + below(46), step = below(4) == 0 ? 0 : 1 + below(1'000'000'000);
    int64_t at_ns = below(1'000'000'000);
    for (int64_t i = 0; i < count; ++i) {
      int64_t value = below(int64_t{1} << (below(2) == 0 ? magnitude : 1 + below(46)));
      if (below(8) == 0) value = value / 500'000 * 500'000;
      metrics.add(metric, value, at_ns);
      at_ns += step;
    }
  }

  std::mt19937_64 random_;
};

void expect_decoded(const MetricsReport& read, const MetricsReport& made, uint64_t seed) {
  for (const ReportMetric& metric : made.metrics) {
    if (metric.total_samples == 0) continue;
    const ReportMetric* const found = read.metric(metric.name);
    ASSERT_NE(found, nullptr) << metric.name << " of " << seed;
    EXPECT_EQ(found->total_samples, metric.total_samples);
    if (metric.kind != MetricKind::kTime) continue;
    EXPECT_EQ(found->accumulator, metric.accumulator) << metric.name << " of " << seed;
    for (size_t i = 0; i < metric.percentiles.size(); ++i) {
      EXPECT_EQ(found->percentiles[i].value, metric.percentiles[i].value) << metric.name << " of " << seed;
    }
  }
  for (const ReportCounter& counter : made.counters) EXPECT_EQ(read.counter(counter.name), counter.value) << seed;
}

// In each style, the reading prints as the same text, and times are the original whole nanoseconds, except if two
// durations print the same. If the reader is certain of the style, it is right.
TEST(XlaReader, TenThousandRandomReportsRoundTrip) {
  int ties = 0, uncertain = 0;
  for (uint64_t seed = 0; seed < 10'000; ++seed) {
    const MetricsReport made = report_of(RandomDevice(seed).snapshot());
    for (const DurationStyle style : {DurationStyle::kExact, DurationStyle::kUpstream}) {
      const std::string text = report_text(made, style);
      const auto reading = read_report(text, style);
      ASSERT_TRUE(reading) << text;
      ASSERT_EQ(problems_of(*reading), Problems()) << text;
      ASSERT_EQ(report_text(reading->report, style), text) << seed;
      ties += reading->durations.ties;
      if (reading->durations.ties == 0) expect_decoded(reading->report, made, seed);
      const auto guessed = read_report(text);
      uncertain += guessed->durations.certain() ? 0 : 1;
      if (guessed->durations.certain()) {
        ASSERT_EQ(report_text(guessed->report, style), text) << seed;
      }
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(ties, 100);
  EXPECT_LT(uncertain, 2000);
}

}  // namespace
}  // namespace runner::report::xla
