// Forecast GPU memory of steps, against the memory they use.
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "backends/exec/backend.h"
#include "backends/gpu/device_memory.h"
#include "backends/tensor/byte_units.h"
#include "tests/backends/support/gpu_memory.h"
#include "tests/backends/support/mlp_step.h"
#include "tests/backends/support/run_program.h"

namespace runner::backends::gpu::testing {
namespace {

using backends::testing::launched_plan;
using backends::testing::MlpStep;

TEST(GpuMemoryForecast, EqualsReservedMemory) {
  const MlpStep mlp({.batch = 512, .widths = {64, 1024, 10}});
  const MemoryTrace trace = trace_memory(launched_plan(mlp.program()));
  const MemoryForecast forecast = forecast_memory(trace, {"gpu 0", 1024 * kMiB, /*captures=*/false});
  // Three flat arrays of 76,810 floats share two small segments.
  EXPECT_EQ(mlp.parameter_count() * 4, 307240);
  EXPECT_EQ(forecast.resident, 2 * kMiB);
  EXPECT_EQ(forecast.temporary(), forecast.peak_reserved - 2 * kMiB);
  EXPECT_GE(forecast.peak_reserved, 3 * 307240 + peak_bytes(trace));

  DeviceMemory memory({"gpu 0", forecast.peak_reserved});
  for (int i = 0; i < 3; ++i) memory.allocate(307240, 0, memory.owners().intern("array"));
  StepAllocations step(trace, memory.owners());
  for (int i = 0; i < 5; ++i) memory.run(step, {});
  EXPECT_EQ(memory.allocator().statistics().all.reserved_bytes.peak, forecast.peak_reserved);
  EXPECT_EQ(memory.allocator().statistics().retries, 0);

  EXPECT_NO_THROW(forecast_memory(trace, {"gpu 0", forecast.peak_reserved, /*captures=*/false}));
  EXPECT_THROW(forecast_memory(trace, {"gpu 0", forecast.peak_reserved / 2, /*captures=*/false}), OutOfMemory);
  EXPECT_TRUE(message_of([&] {
                forecast_memory(trace, {"gpu 0", 2 * kMiB, /*captures=*/false});
              }).find("parameters") != std::string::npos);
}

// Their segments are separate and are not released if memory is short.
TEST(GpuMemoryForecast, CapturedGraphsHaveTheirOwnMemory) {
  const MlpStep mlp({.batch = 4096, .widths = {64, 1024, 10}});
  const MemoryTrace trace = trace_memory(launched_plan(mlp.program()));
  const MemoryForecast launched = forecast_memory(trace, {"gpu 0", 1024 * kMiB, /*captures=*/false});
  const MemoryForecast captured = forecast_memory(trace, {"gpu 0", 1024 * kMiB, /*captures=*/true});
  EXPECT_GT(captured.temporary(), launched.temporary() * 3 / 2);
  EXPECT_LE(captured.temporary(), launched.temporary() * 2) << "both use the same pool for batches";

  // Segments cached by eager launches are released for a graph, but not vice versa.
  DeviceMemory memory({"gpu 0", launched.peak_reserved + 2 * kMiB, /*captures=*/true});
  for (int i = 0; i < 3; ++i) memory.allocate(307240, 0, memory.owners().intern("array"));
  StepAllocations step(trace, memory.owners());
  while (step.runs() < 4) memory.run(step, {.pools = pools_of_run(step.runs(), /*captures=*/true)});
  EXPECT_GT(memory.allocator().statistics().retries, 0);
  EXPECT_NE(message_of([&] { memory.run(step, {}); }).find("disable gpu.capture"), std::string::npos);
}

// Training batches stay staged while an evaluation uses its own, and a smaller step may use another pool.
TEST(GpuMemoryForecast, OfTrainingEqualsReservedMemory) {
  const MemoryTrace whole = trace_of({{12 * kMiB, 0, 1}}, 2, {{"features", 6 * kMiB}});
  const MemoryTrace rest = trace_of({{kMiB / 2, 0, 1}}, 2, {{"features", 5 * kMiB}});
  const MemoryTrace update = trace_of({{3 * kMiB, 0, 0}}, 1);
  const MemoryTrace evaluation = trace_of({{14 * kMiB, 0, 0}}, 1, {{"features", 9 * kMiB}});
  const ArrayBytes arrays[] = {{"parameters", 4 * kMiB}, {"none", 0}};
  const auto reserved = [&](std::vector<const MemoryTrace*> training, std::vector<const MemoryTrace*> evaluating,
                            bool captures, int64_t limit = 1024 * kMiB) {
    return forecast_training(arrays, {std::move(training), std::move(evaluating)}, {"gpu 0", limit, captures}) / kMiB;
  };
  // The array shares a segment of 20 MiB with results; batches have another.
  EXPECT_EQ(reserved({&whole, &update}, {}, false), 20 + 20);
  EXPECT_EQ(reserved({&whole, &whole, &rest, &update}, {}, false), 20 + 20 + 2);
  EXPECT_EQ(reserved({&whole, &update}, {&evaluation}, false), 20 + 20 + 20) << "6, 6 and 9 MiB of batches";
  EXPECT_EQ(reserved({&whole, &update}, {}, true), 20 + 20 + 12);
  EXPECT_EQ(reserved({&whole, &update}, {}, true, 52 * kMiB), 52);
  EXPECT_THROW(reserved({&whole, &update}, {}, true, 51 * kMiB), OutOfMemory);
  const std::string text = message_of([&] { reserved({&whole, &update}, {}, true, 46 * kMiB); });
  EXPECT_NE(text.find("\nThe training would fit in 52.00 MiB, and the smallest gpu.model with this much memory is t4"),
            std::string::npos)
      << text;
}

// The second epoch uses as much as the first, the third uses more: by then batches are in other places.
TEST(GpuMemoryForecast, OfTrainingContinuesAfterAnEpochWithoutGrowth) {
  constexpr int64_t kHalf = kMiB / 2;
  const MemoryTrace first = trace_of({{9 * kHalf, 0, 1}, {3 * kHalf, 1, 1}}, 2, {{"features", 7 * kHalf}});
  const MemoryTrace second = trace_of({{29 * kHalf, 0, 0}, {29 * kHalf, 1, 1}}, 2, {{"features", 13 * kHalf}});
  const MemoryTrace third = trace_of({{kHalf, 0, 0}}, 1, {{"features", 5 * kHalf}});
  const MemoryTrace evaluation = trace_of({{9 * kHalf, 0, 0}}, 1, {{"features", 25 * kHalf}});
  const TrainingSteps steps{.training = {&first, &second, &third}, .evaluation = {&evaluation}};
  EXPECT_EQ(forecast_training({}, steps, {"gpu 0", 1024 * kMiB, /*captures=*/false}), 56 * kMiB);
}

// Of a million random training runs, one of those that grow longest.
TEST(GpuMemoryForecast, OfTrainingFindsGrowthInTheFifthEpoch) {
  constexpr int64_t kHalf = kMiB / 2;
  const MemoryTrace step = trace_of({{4 * kHalf, 1, 1}, {5 * kHalf, 1, 1}}, 2, {{"features", 7 * kHalf}});
  const MemoryTrace first = trace_of({{5 * kHalf, 1, 2}}, 2, {{"features", 27 * kHalf}});
  const MemoryTrace second = trace_of({{10 * kHalf, 1, 1}}, 2, {{"features", 3 * kHalf}});
  const MemoryTrace third =
      trace_of({{12 * kHalf, 0, 0}, {60 * kHalf, 0, 2}, {4 * kHalf, 1, 1}}, 2, {{"features", 28 * kHalf}});
  DeviceMemory memory({"gpu 0", 1024 * kMiB});
  StepAllocations training(step, memory.owners());
  StepAllocations evaluation[] = {{first, memory.owners()}, {second, memory.owners()}, {third, memory.owners()}};
  std::vector<int64_t> peaks;
  for (uint64_t epoch = 0; epoch < 8; ++epoch) {
    memory.run(training, {.staged = epoch});
    memory.stage(epoch + 1, training, batch_bytes(step));
    for (StepAllocations& batch : evaluation) memory.run(batch, {});
    peaks.push_back(memory.allocator().statistics().all.reserved_bytes.peak / kMiB);
  }
  EXPECT_EQ(peaks, (std::vector<int64_t>{84, 84, 84, 84, 98, 98, 98, 98}));
  const TrainingSteps steps{.training = {&step}, .evaluation = {&first, &second, &third}};
  EXPECT_EQ(forecast_training({}, steps, {"gpu 0", 1024 * kMiB, /*captures=*/false}), 98 * kMiB);
}

}  // namespace
}  // namespace runner::backends::gpu::testing
