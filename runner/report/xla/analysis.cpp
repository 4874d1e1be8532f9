#include "runner/report/xla/analysis.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <span>

#include <fmt/format.h>

#include "schema/base/duration.h"
#include "schema/base/text.h"

namespace runner::report::xla {
namespace {

// Thresholds of PyTorch/XLA's own analysis.
constexpr double kManyPerStep = 0.5;
constexpr int64_t kWarmupSteps = 10;
constexpr double kLongCompileNs = 300e9, kLongExecutionNs = 30e9;
constexpr double kManyEvictionsPerStep = 0.1;
constexpr std::string_view kScalarRead = "aten::_local_scalar_dense";

// Device utilisation above which the device is busy except for launch overhead.
constexpr double kBusy = 0.9;
// Minimum wait for the device, relative to its execution time, that is more than lock noise.
constexpr double kWaitShare = 0.1;

using Names = std::span<const std::string_view>;

int64_t samples_of(const MetricsReport& report, Names names) {
  return std::accumulate(names.begin(), names.end(), int64_t{0},
                         [&](int64_t sum, std::string_view name) { return sum + report.samples(name); });
}

// Returns the sum of the accumulators, or nullopt if one of them is unknown.
std::optional<double> sum_of(const MetricsReport& report, Names names) {
  double sum = 0;
  for (const std::string_view name : names) {
    const ReportMetric* const metric = report.metric(name);
    if (metric == nullptr) continue;
    if (!metric->accumulator) return {};
    sum += *metric->accumulator;
  }
  return sum;
}

// Names in releases 1 and 2.
constexpr std::string_view kExecutions[] = {"ExecuteTime", "ExecuteReplicatedTime", "ExecuteParallelTime"};
// Metrics of graphs with one operation each, in eager mode.
constexpr std::string_view kEagerExecutions = "EagerOpExecuteTime", kEagerCompiles = "EagerOpCompileTime";
constexpr std::string_view kDownloads[] = {"TransferFromDeviceTime", "TransferFromServerTime"};

// Rates of fewer executions are not meaningful, because the first execution ran before the period that rates are
// computed over.
constexpr int64_t kMinSamplesForRates = 10;

std::string seconds_text(double ns) {
  return duration_text(ns / 1e9);
}

// Text after a count; "" if the sum is unknown.
std::string took_text(std::optional<double> ns) {
  return ns ? fmt::format(", which took {}", seconds_text(*ns)) : "";
}

// ---- steps and times -----------------------------------------------------------------------------------------------

bool is_eager(const MetricsReport& report) {
  return report.samples(kEagerExecutions) > 0 && samples_of(report, kExecutions) == 0;
}

// Reports do not print zero counts. So zero compilations are certain only if every execution found its graph in a
// cache.
std::optional<int64_t> compiles_of(const MetricsReport& report, int64_t executions) {
  const int64_t compiles = std::max({report.samples("CompileTime"), report.samples(kEagerCompiles),
                                     report.counter("UncachedCompile"), report.counter("CreateCompileHandles")});
  if (compiles > 0) return compiles;
  const int64_t found = report.counter("CachedCompile") + report.counter("PersistentCacheHit");
  return found > 0 && found >= executions ? std::optional<int64_t>(0) : std::nullopt;
}

Cadence cadence_of(const MetricsReport& report) {
  Cadence cadence;
  cadence.is_eager = is_eager(report);
  const Names executions = cadence.is_eager ? Names(&kEagerExecutions, 1) : Names(kExecutions);
  cadence.executions = samples_of(report, executions);
  cadence.execute_ns = sum_of(report, executions);
  cadence.compiles = compiles_of(report, cadence.executions);
  cadence.compile_ns = sum_of(report, std::array{cadence.is_eager ? kEagerCompiles : std::string_view("CompileTime")});
  cadence.steps_are_marked = report.counter("MarkStep") > 0;
  cadence.steps = cadence.steps_are_marked ? report.counter("MarkStep") : cadence.executions;
  const ReportMetric* const execute = report.metric("ExecuteTime");
  if (execute == nullptr || execute->total_samples < kMinSamplesForRates) return cadence;
  if (!execute->value_rate || !execute->rate || *execute->rate <= 0) return cadence;
  cadence.period_ns = 1e9 / *execute->rate;
  cadence.running_ns = *execute->value_rate / *execute->rate;
  const ReportMetric* const wait = report.metric("DeviceLockWait");
  if (wait != nullptr && wait->value_rate) cadence.waiting_ns = *wait->value_rate / *execute->rate;
  return cadence;
}

// ---- identities ----------------------------------------------------------------------------------------------------

Identity equality(std::string text, int64_t left, int64_t right, std::string left_figures = {}) {
  const bool holds = left == right;
  if (left_figures.empty()) left_figures = fmt::format("{}", left);
  return {std::move(text), fmt::format("{} {} {}", left_figures, holds ? "=" : "≠", right), holds};
}

std::vector<Identity> identities_of(const MetricsReport& report) {
  std::vector<Identity> all;
  const bool eager = is_eager(report);
  const std::string_view compiled = eager ? kEagerCompiles : "CompileTime";
  const std::string_view executed = eager ? kEagerExecutions : "ExecuteTime";
  const int64_t compiles = report.samples(compiled), executions = report.samples(executed);
  const int64_t cached = report.counter("CachedCompile"), uncached = report.counter("UncachedCompile");
  const int64_t handles = report.counter("CreateCompileHandles"), waits = report.samples("DeviceLockWait");
  // A partial copy of a report may lack UncachedCompile; the samples of CompileTime are the same number.
  if (cached > 0 && executions > 0) {
    const int64_t misses = uncached > 0 ? uncached : compiles;
    all.push_back(
        equality(fmt::format("CachedCompile + {} = {} samples",
                             uncached > 0 ? "UncachedCompile" : fmt::format("{} samples", compiled), executed),
                 cached + misses, executions, fmt::format("{} + {}", cached, misses)));
  }
  if (compiles > 0 && uncached > 0)
    all.push_back(equality(fmt::format("{} samples = UncachedCompile", compiled), compiles, uncached));
  if (compiles > 0 && handles > 0) {
    all.push_back(equality(fmt::format("{} samples = CreateCompileHandles", compiled), compiles, handles));
  }
  if (waits > 0 && executions > 0) {
    const bool holds = waits >= executions;
    all.push_back({fmt::format("DeviceLockWait samples ≥ {} samples", executed),
                   fmt::format("{} {} {}", waits, holds ? "≥" : "<", executions), holds});
  }
  return all;
}

// ---- pace ----------------------------------------------------------------------------------------------------------

std::optional<double> percentile_of(const ReportMetric* metric, double percent) {
  if (metric == nullptr) return {};
  const auto found = std::ranges::find(metric->percentiles, percent, &Percentile::percent);
  return found != metric->percentiles.end() ? std::optional(found->value) : std::nullopt;
}

// DeviceLockWait is the time that a sync waits until the previous execution has released the device: about device time
// minus host time. If most waits are long, the device limits the speed. If they are short and the device is idle in
// between, the host does: it traces, reads values, or waits for input.
Verdict verdict_of(const MetricsReport& report, const Cadence& cadence) {
  if (cadence.executions > 0 && cadence.compile_ns && cadence.execute_ns && *cadence.compile_ns > *cadence.execute_ns) {
    return {Pace::kCompiler, fmt::format("compilation took {}, all executions {}: to see the training speed, report a "
                                         "longer run or reduce the number of graphs",
                                         seconds_text(*cadence.compile_ns), seconds_text(*cadence.execute_ns))};
  }
  if (cadence.is_eager)
    return {Pace::kUnknown, "operations run eagerly: cannot predict the bottleneck in graph mode from an eager run"};
  const auto wait = percentile_of(report.metric("DeviceLockWait"), 50);
  if (!cadence.period_ns || !wait) {
    return {Pace::kUnknown,
            "not enough data: the report needs ten executions with rates, and percentiles of DeviceLockWait"};
  }
  const double busy = *cadence.running_ns / *cadence.period_ns;
  const std::string idle = fmt::format("the device is idle {:.0f} % of the time", 100 * std::max(0.0, 1 - busy));
  if (*wait >= kWaitShare * *cadence.running_ns) {
    return {
        Pace::kDevice,
        fmt::format(
            "half of all syncs wait {} or longer for the device: make the graph faster; a faster host would not help",
            seconds_text(*wait))};
  }
  if (busy < kBusy) {
    return {Pace::kHost,
            fmt::format(
                "half of all syncs find the device free within {}, and {}: check tracing, reads of values and input",
                seconds_text(*wait), idle)};
  }
  return {Pace::kBoth, fmt::format("half of all syncs find the device free within {}, but {}: host and device take "
                                   "about the same time, the host slightly more",
                                   seconds_text(*wait), idle)};
}

// ---- findings ------------------------------------------------------------------------------------------------------

// Returns whether `count` is more than `most` per step, after the warm-up of the training.
bool is_often(int64_t count, const Cadence& cadence, double most) {
  return cadence.steps > kWarmupSteps && static_cast<double>(count) > most * static_cast<double>(cadence.steps);
}

std::string often_text(std::string_view what, int64_t count, const Cadence& cadence, double most) {
  return fmt::format("{} {} in {}, {:.2f} per step (expected at most {:g} after {} steps)", count, what,
                     count_text(cadence.steps, "step"), static_cast<double>(count) / static_cast<double>(cadence.steps),
                     most, kWarmupSteps);
}

void find_many_compiles(const MetricsReport&, const Cadence& cadence, std::vector<Finding>& findings) {
  if (cadence.is_eager || !cadence.compiles || !is_often(*cadence.compiles, cadence, kManyPerStep)) return;
  findings.push_back(
      {"many-compiles",
       fmt::format("{}{}: the graph changes from step to step",
                   often_text("compiles", *cadence.compiles, cadence, kManyPerStep), took_text(cadence.compile_ns)),
       "use one or a few batch shapes (drop the last batch, pad to fixed lengths); keep loop indices and other "
       "changing numbers out of the graph or pass them as tensors; log at every step or in a step closure"});
}

// In eager mode each kind of operation is compiled once, most of them in the first step.
void find_eager_mode(const MetricsReport&, const Cadence& cadence, std::vector<Finding>& findings) {
  if (!cadence.is_eager) return;
  const std::string each =
      cadence.steps_are_marked
          ? fmt::format(" in {}, {:.0f} per step,", count_text(cadence.steps, "step"),
                        static_cast<double>(cadence.executions) / static_cast<double>(cadence.steps))
          : "";
  findings.push_back({"eager-mode",
                      fmt::format("{}{} executed eagerly{}; {} of operation compiled{}",
                                  count_text(cadence.executions, "operation"), each, took_text(cadence.execute_ns),
                                  count_text(cadence.compiles.value_or(0), "kind"), took_text(cadence.compile_ns)),
                      "disable eager mode (torch_xla.experimental.eager_mode, or tpu.eager): a step compiled as one "
                      "graph has fused operations, and the host waits for it once"});
}

// A read in the middle of a step splits it into two graphs, so there are more executions than steps. A read after a
// step, as in a step closure, only waits.
std::string reads_text(const Cadence& cadence) {
  if (cadence.is_eager) return "each waits for the device";
  if (!cadence.steps_are_marked || cadence.executions == 0)
    return "each waits for the device, and a read in the middle of a step breaks its graph";
  if (cadence.executions > cadence.steps) {
    return fmt::format("each waits for the device, and reads in the middle of a step break its graph: {} in {}",
                       count_text(cadence.executions, "execution"), count_text(cadence.steps, "step"));
  }
  return fmt::format(
      "each waits for the device; they cause no graph breaks, because there are no more executions ({}) than steps",
      cadence.executions);
}

void find_many_reads(const MetricsReport& report, const Cadence& cadence, std::vector<Finding>& findings) {
  const int64_t reads = samples_of(report, kDownloads);
  if (!is_often(reads, cadence, kManyPerStep)) return;
  const int64_t scalars = report.counter(kScalarRead);
  findings.push_back(
      {"many-reads",
       fmt::format("{}{}{}: {}", often_text("reads of values from the device", reads, cadence, kManyPerStep),
                   took_text(sum_of(report, kDownloads)),
                   scalars > 0 ? fmt::format(", and {} of scalars (.item(), print, if)", scalars) : "",
                   reads_text(cadence)),
       "read the loss every few steps and in a step closure; accumulate metrics on the device"});
}

// Reports the largest percentile if it is too long. With at most a hundred samples it is the maximum.
void find_long(const MetricsReport& report, std::string_view name, double most_ns, Finding finding,
               std::vector<Finding>& findings) {
  const ReportMetric* const metric = report.metric(name);
  if (metric == nullptr || metric->percentiles.empty()) return;
  const Percentile& longest = metric->percentiles.back();
  if (longest.value <= most_ns) return;
  finding.text = fmt::format("the {:g} % percentile of {} is {} (expected at most {})", longest.percent, name,
                             seconds_text(longest.value), seconds_text(most_ns));
  findings.push_back(std::move(finding));
}

void find_long_compiles(const MetricsReport& report, const Cadence&, std::vector<Finding>& findings) {
  find_long(report, "CompileTime", kLongCompileNs,
            {"long-compile", "",
             "make the graph smaller: use scan over equal layers, or gradient accumulation over smaller batches; use a "
             "persistent compilation cache"},
            findings);
}

void find_long_executions(const MetricsReport& report, const Cadence&, std::vector<Finding>& findings) {
  find_long(
      report, "ExecuteTime", kLongExecutionNs,
      {"long-execution", "", "sync once per batch (mark_step): without a sync, the graph grows from step to step"},
      findings);
}

void find_fallbacks(const MetricsReport& report, const Cadence&, std::vector<Finding>& findings) {
  std::string ops;
  for (const ReportCounter& counter : report.counters) {
    if (!counter.name.starts_with("aten::") || counter.name == kScalarRead || counter.value == 0) continue;
    ops += fmt::format("{}{} ({})", ops.empty() ? "" : ", ", counter.name, count_text(counter.value, "call"));
  }
  if (ops.empty()) return;
  findings.push_back(
      {"fallback", fmt::format("executed on the host, because XLA has no lowering for: {}", ops),
       "replace them by other operations: each call copies its operands from the device and its result back"});
}

void find_evictions(const MetricsReport& report, const Cadence& cadence, std::vector<Finding>& findings) {
  for (const char* name : {"XrtTryFreeMemory", "XrtCompaction", "XrtExecutorEvict"}) {
    const int64_t times = std::max(report.samples(name), report.counter(name));
    if (!is_often(times, cadence, kManyEvictionsPerStep)) continue;
    findings.push_back({"memory-pressure", often_text(name, times, cadence, kManyEvictionsPerStep),
                        "the device memory is nearly full and is compacted or evicted: use smaller batches"});
  }
}

constexpr void (*kFindings[])(const MetricsReport&, const Cadence&, std::vector<Finding>&) = {
    find_eager_mode,      find_many_compiles, find_many_reads, find_long_compiles,
    find_long_executions, find_fallbacks,     find_evictions};

}  // namespace

std::optional<double> Cadence::compiles_per_step() const {
  if (steps == 0 || !compiles) return {};
  return static_cast<double>(*compiles) / static_cast<double>(steps);
}

std::string_view name_of(Pace pace) {
  switch (pace) {
    case Pace::kUnknown: return "unknown";
    case Pace::kCompiler: return "compiler";
    case Pace::kHost: return "host";
    case Pace::kDevice: return "device";
    case Pace::kBoth: return "both";
  }
  return "";
}

Analysis analysis_of(const MetricsReport& report) {
  Analysis analysis;
  analysis.cadence = cadence_of(report);
  analysis.identities = identities_of(report);
  analysis.verdict = verdict_of(report, analysis.cadence);
  for (const auto find : kFindings) find(report, analysis.cadence, analysis.findings);
  return analysis;
}

json::Object analysis_json(const Analysis& analysis) {
  const Cadence& cadence = analysis.cadence;
  const auto number = [](const std::optional<double>& value) { return value ? json::Value(*value) : json::Value(); };
  return {
      {"steps", cadence.steps},
      {"steps_are", cadence.steps_are_marked ? "MarkStep" : "executions"},
      {"executions", cadence.executions},
      {"executions_are", cadence.is_eager ? "operations" : "graphs"},
      {"compiles", cadence.compiles ? json::Value(*cadence.compiles) : json::Value()},
      {"compiles_per_step", number(cadence.compiles_per_step())},
      {"period", number(cadence.period_ns)},
      {"running", number(cadence.running_ns)},
      {"waiting", number(cadence.waiting_ns)},
      {"pace", std::string(name_of(analysis.verdict.pace))},
      {"verdict", analysis.verdict.text},
      {"identities",
       json::list_of(
           analysis.identities,
           [](const Identity& identity) {
             return json::Object{{"identity", identity.text}, {"figures", identity.figures}, {"holds", identity.holds}};
           })},
      {"findings", json::list_of(analysis.findings, [](const Finding& finding) {
         return json::Object{{"id", std::string(finding.id)}, {"text", finding.text}, {"advice", finding.advice}};
       })}};
}

}  // namespace runner::report::xla
