// An emulated GPU with too little memory: when it fails, what it keeps, and that it stays usable.
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "backends/exec/backend.h"
#include "backends/gpu/caching_allocator.h"
#include "backends/gpu/gpu_device.h"
#include "backends/gpu/gpu_executable.h"
#include "backends/gpu/gpu_step.h"
#include "backends/tensor/byte_units.h"
#include "tests/backends/support/gpu_memory.h"
#include "tests/backends/support/mlp_step.h"
#include "tests/backends/support/run_program.h"
#include "tests/support/thrown_text.h"

namespace runner::backends::gpu::testing {
namespace {

using backends::testing::MlpStep;
using backends::testing::run_program;

// A few MiB, mostly activations.
const MlpStep& sized_step() {
  static const MlpStep step({.batch = 50000, .widths = {16, 64, 64, 64, 64, 64, 10}});
  return step;
}

int64_t peak_of(const ModelledDevice& device) {
  return model_of_gpu(device).memory_statistics().all.reserved_bytes.peak;
}

// The subject of the error message's first line.
std::string wanted_by(const std::string& message) {
  const size_t begin = message.find(" for ");
  return message.substr(begin, message.find('\n') - begin) + message.substr(0, message.find(':', 8));
}

TEST(GpuMemoryLimit, CountsArraysWhileTheyExist) {
  const auto device = make_gpu_device({.memory = 64 * kMiB});
  const PoolStatistics& counted = model_of_gpu(*device).memory_statistics().all;
  EXPECT_EQ(device->memory_limit(), 64 * kMiB);
  {
    const auto own = device->allocate(3 * kMiB, "parameters");
    const auto shared = device->wrap(std::make_shared<std::byte>(), 2 * kMiB, "exp_avg");
    const auto view = device->wrap(std::make_shared<std::byte>(), kMiB);
    const auto empty = device->allocate(0);
    EXPECT_EQ(counted.allocated_bytes.current, 5 * kMiB);
    EXPECT_EQ(message_of([&] { device->allocate(60 * kMiB, "gradients"); }).substr(0, 69),
              "out of memory: gpu 0 cannot allocate 60.00 MiB for gradients\nOf 64.00");
  }
  EXPECT_EQ(counted.allocated_bytes.current, 0);
  EXPECT_EQ(model_of_gpu(*device).memory_statistics().ooms, 1);
}

TEST(GpuMemoryLimit, ArraysMayOutliveTheDevice) {
  std::shared_ptr<Buffer> array;
  {
    const auto device = make_gpu_device({});
    array = device->allocate(1000);
  }
  array.reset();
}

// The memory of a step in addition to its states equals what the device reserves.
TEST(GpuMemoryLimit, StepsUseTheForecastMemory) {
  const auto device = make_gpu_device({});
  backends::testing::Session session(*device, sized_step().program(), sized_step().inputs(1));
  const int64_t arrays = peak_of(*device);
  for (int i = 0; i < 3; ++i) session.submit();
  device->synchronize();
  const Plan plan = build_plan(sized_step().program(), kGpuLaunches);
  const MemoryForecast forecast =
      forecast_memory(trace_memory(plan), {.device = "gpu 0", .limit = *device->memory_limit()});
  const int64_t temporary = forecast.temporary();
  EXPECT_EQ(peak_of(*device), arrays + temporary);
}

// With each limit, from the required memory down to the minimum, either an error is thrown before anything is computed
// or the results are bit-identical.
TEST(GpuMemoryLimit, EveryLimitFailsCleanlyOrSuffices) {
  const auto whole = make_gpu_device({});
  const auto wanted = run_program(*whole, sized_step().program(), sized_step().inputs(1), 2);
  int errors = 0;
  for (int64_t limit = peak_of(*whole) + 2 * kMiB; limit >= 2 * kMiB; limit -= 2 * kMiB) {
    const auto device = make_gpu_device({.memory = limit});
    const std::string error = message_of(
        [&] { EXPECT_EQ(run_program(*device, sized_step().program(), sized_step().inputs(1), 2), wanted) << limit; });
    errors += !error.empty();
    EXPECT_EQ(error.empty(), limit >= peak_of(*whole)) << limit << error;
    EXPECT_EQ(error.empty(), error.find("First thing to change: ") == std::string::npos) << error;
    const int64_t blocks = model_of_gpu(*device).memory_statistics().all.blocks.current;
    EXPECT_TRUE(blocks == 0 || error.empty()) << "blocks remain allocated: " << blocks;
  }
  EXPECT_GE(errors, 10);
}

// Other arrays use more and more memory, so that the step's allocations are refused one after the other.
TEST(GpuMemoryLimit, RefusedSubmissionsChangeNothing) {
  const auto device = make_gpu_device({.memory = 256 * kMiB});
  backends::testing::Session session(*device, sized_step().program(), sized_step().inputs(1));
  session.submit();
  const auto before = session.results().states;
  std::set<std::string> refused;
  for (int64_t others = 256; others > 0; others -= 2) {  // in segments of 2 MiB
    std::shared_ptr<Buffer> array;
    if (!message_of([&] { array = device->allocate(static_cast<size_t>(others * kMiB), "others"); }).empty()) continue;
    const std::string error = message_of([&] { session.submit(); });
    if (error.empty()) break;
    refused.insert(wanted_by(error));
    EXPECT_EQ(session.results().states, before) << error;
  }
  EXPECT_GE(refused.size(), 6u);
  // Three submissions ran: the first, the one with enough room, and this one.
  session.submit();
  const auto other = make_gpu_device({});
  EXPECT_EQ(session.results(), run_program(*other, sized_step().program(), sized_step().inputs(1), 3));
}

}  // namespace
}  // namespace runner::backends::gpu::testing
