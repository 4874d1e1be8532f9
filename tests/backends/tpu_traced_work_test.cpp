// Work counted in addition to executions of a graph: operations, scalars and batches.
#include <algorithm>
#include <map>

#include <gtest/gtest.h>

#include "backends/ir/ops.h"
#include "backends/tpu/device_data_cache.h"
#include "backends/tpu/graph.h"

namespace runner::backends::tpu {
namespace {

std::map<std::string, int64_t> moved_counters(const MetricsRegistry& metrics) {
  std::map<std::string, int64_t> moved;
  for (const CounterSnapshot& counter : metrics.snapshot().counters)
    if (counter.value != 0) moved[counter.name] = counter.value;
  return moved;
}

MetricSnapshot outbound(const MetricsRegistry& metrics) {
  MetricSnapshot found;
  for (const MetricSnapshot& metric : metrics.snapshot().metrics)
    if (metric.name == "OutboundData") found = metric;
  return found;
}

TEST(TracedWork, CountsOperationsAndBatchesOfEachExecution) {
  Program program;
  const Value weight{&program, program.input(InputKind::kState, "w", {DType::kF32, Shape{3, 2}})};
  const Value x{&program, program.input(InputKind::kBatch, "x", {DType::kF32, Shape{4, 3}})};
  const Value labels{&program, program.input(InputKind::kBatch, "labels", {DType::kI64, Shape{4}})};
  const Value stack{&program, program.input(InputKind::kBatch, "stack", {DType::kF32, Shape{5, 2, 4}})};
  const Value product = ops::matmul(x, weight);
  const Value batched = ops::matmul(stack, ops::expand(product, {5, 4, 2}));
  program.output("loss", ops::sum(ops::mul(ops::cross_entropy(product, labels), 2.0)).id);
  program.output("batched", ops::add(batched, batched).id);

  const TracedWork work = traced_work(program, kBf16Types);
  EXPECT_EQ(work.uploads, (std::vector<int64_t>{4 * 3 * 2, 4 * 8, 5 * 2 * 4 * 2}));
  MetricsRegistry metrics(op_counter_names());
  count(work, metrics);
  count(work, metrics);
  EXPECT_EQ(moved_counters(metrics), (std::map<std::string, int64_t>{{"xla::add", 2},
                                                                     {"xla::cross_entropy_loss", 2},
                                                                     {"xla::expand", 2},
                                                                     {"xla::matmul", 2},
                                                                     {"xla::mm", 2},
                                                                     {"xla::mul", 2},
                                                                     {"xla::sum", 2}}));
  EXPECT_EQ(outbound(metrics).count, 6);
  EXPECT_EQ(outbound(metrics).sum, 2 * (24 + 32 + 80));
}

TEST(TracedWork, HasOneCounterPerName) {
  const std::vector<std::string> names = op_counter_names();
  for (size_t i = 1; i < names.size(); ++i) EXPECT_LT(names[i - 1], names[i]);
  for (const std::string& name : names) EXPECT_TRUE(name.starts_with("xla::")) << name;
  EXPECT_FALSE(std::ranges::binary_search(names, "xla::device_data"));
}

class Numbers {
 public:
  explicit Numbers(const ScalarRules& rules = {}, const DeviceTypes& types = {}) : cache_(rules, types) {}

  // Bytes uploaded to the device.
  int64_t upload(const std::vector<TracedScalar>& scalars) {
    const int64_t before = outbound(metrics_).sum;
    for (const TracedScalar& scalar : scalars) cache_.upload(scalar, metrics_);
    return outbound(metrics_).sum - before;
  }
  int64_t misses() const { return metrics_.value(XlaCounter::kDeviceDataCacheMiss); }

 private:
  DeviceDataCache cache_;
  MetricsRegistry metrics_;
};

TEST(DeviceDataCache, UploadsScalarsOnce) {
  Numbers numbers;
  const TracedScalar rate{ScalarUse::kFactor, -0.1}, one{ScalarUse::kOperand, 1}, value{ScalarUse::kValue, -0.1};
  EXPECT_EQ(numbers.upload({rate, rate, one}), 4);  // f32; equal scalars count once, and 1 is baked
  EXPECT_EQ(numbers.upload({rate}), 0);
  EXPECT_EQ(numbers.upload({value}), 8);  // f64
  EXPECT_EQ(numbers.misses(), 2);
  EXPECT_EQ(Numbers({}, kBf16Types).upload({rate, value}), 2 + 2);  // as the device stores them
}

// The least recently used number is evicted.
TEST(DeviceDataCache, KeepsTheLatest128) {
  Numbers numbers;
  for (int i = 0; i < 128; ++i) numbers.upload({{ScalarUse::kOperand, 2.0 + i}});
  EXPECT_EQ(numbers.upload({{ScalarUse::kOperand, 2.0}}), 0);
  EXPECT_EQ(numbers.upload({{ScalarUse::kOperand, 1000.0}}), 4);
  EXPECT_EQ(numbers.upload({{ScalarUse::kOperand, 2.0}}), 0);
  EXPECT_EQ(numbers.upload({{ScalarUse::kOperand, 3.0}}), 4);
  EXPECT_EQ(numbers.misses(), 130);
}

}  // namespace
}  // namespace runner::backends::tpu
