// Modelled memory of an emulated GPU over submissions: what is allocated when, and which outcomes are remembered.
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "backends/gpu/device_memory.h"
#include "backends/tensor/byte_units.h"
#include "tests/backends/support/gpt_step.h"
#include "tests/backends/support/gpu_memory.h"
#include "tests/backends/support/mlp_step.h"
#include "tests/backends/support/run_program.h"
#include "tests/support/allocations.h"

namespace runner::backends::gpu::testing {
namespace {

using backends::testing::GptStep;
using backends::testing::launched_plan;
using backends::testing::MlpStep;

TEST(GpuDeviceMemory, FreesOutputsAndBatchesAtTheNextSubmission) {
  DeviceMemory memory({"gpu 0", 100 * kMiB});
  const MemoryTrace trace = trace_of({{1024, 0, 1}, {512, 1, 2}, {2048, 1, 3}}, 3, {{"features", 512}});
  StepAllocations step(trace, memory.owners());
  memory.run(step, {});
  // The batch is in the segment of the copy stream; outputs are placed after the other results.
  EXPECT_EQ(allocated_text(memory), fmt::format("0+512 {}+2048 ", 2 * kMiB + 1536));
  EXPECT_EQ(memory.allocator().statistics().all.allocated_bytes.peak, 512 + 1024 + 512 + 2048);
  memory.run(step, {});
  EXPECT_EQ(allocated_text(memory), fmt::format("512+512 {}+2048 ", 2 * kMiB + 1536))
      << "the other batch was already staged";
  memory.run(step, {});
  EXPECT_EQ(allocated_text(memory), fmt::format("0+512 {}+2048 ", 2 * kMiB + 1536));
  EXPECT_EQ(memory.allocator().statistics().all.blocks.total, 3 * 4);
  memory.release_step();
  EXPECT_EQ(allocated_text(memory), "");
}

// A staged batch stays allocated until a submission brings another.
TEST(GpuDeviceMemory, KeepsStagedBatchesInAddition) {
  DeviceMemory memory({"gpu 0", 100 * kMiB});
  const MemoryTrace trace =
      trace_of({{1024, 0, 1}}, 1,
               {{.name = "features", .bytes = 2048, .input = 0}, {.name = "labels", .bytes = 512, .input = 2}});
  const MemoryTrace update = trace_of({{4096, 0, 1}}, 1);
  StepAllocations step(trace, memory.owners()), updating(update, memory.owners());
  const std::vector<int64_t> bytes{2048, 64, 512};
  memory.stage(1, step, bytes);
  EXPECT_EQ(memory.allocator().statistics().all.blocks.current, 2) << "inputs that no step reads are not copied";
  memory.run(step, {.staged = 1});
  memory.stage(2, step, bytes);
  EXPECT_EQ(memory.allocator().statistics().all.blocks.current, 4 + 1) << "two batches and an output";
  memory.run(updating, {});
  EXPECT_EQ(memory.allocator().statistics().all.blocks.current, 4 + 1) << "an update has no batch, and frees none";
  memory.run(step, {.staged = 1});
  memory.run(step, {.staged = 2});
  EXPECT_EQ(memory.allocator().statistics().all.blocks.current, 2 + 1) << "the first batch is freed";
  EXPECT_EQ(memory.allocator().statistics().all.blocks.total, 4 + 3 + 1) << "no staged input was copied again";

  // An evaluation brings its own batch while the training batch is staged.
  memory.stage(3, step, bytes);
  memory.run(step, {});
  EXPECT_EQ(memory.allocator().statistics().all.blocks.current, 4 + 1);
  memory.run(step, {.staged = 3});
  EXPECT_EQ(memory.allocator().statistics().all.blocks.current, 2 + 1);

  // If a staged input has another size, the submission brings its own.
  memory.stage(4, step, std::vector<int64_t>{1024, 0, 512});
  memory.run(step, {.staged = 4});
  EXPECT_EQ(memory.allocator().statistics().all.blocks.current, 3 + 1);
  memory.stage(5, step, bytes);
  memory.drop_staged();
  memory.release_step();
  EXPECT_EQ(memory.allocator().statistics().all.blocks.current, 0);
}

TEST(GpuDeviceMemory, RemembersOutcomesOfSubmissions) {
  DeviceMemory memory({"gpu 0", 100 * kMiB});
  const MemoryTrace trace = trace_of({{1024, 0, 1}, {3 * kMiB, 1, 2}, {2048, 1, 3}}, 3, {{"features", 512}});
  StepAllocations step(trace, memory.owners());
  for (int i = 0; i < 10; ++i) memory.run(step, {});
  // The first run allocates segments; the batches of the next two are in alternating places.
  EXPECT_EQ(step.known_runs(), 7);
  const BlockId array = memory.allocate(700, 0, memory.owners().intern("array"));
  memory.run(step, {});
  EXPECT_EQ(step.known_runs(), 7) << "after another allocation";
  memory.free(array);
  memory.run(step, {});
  EXPECT_EQ(step.known_runs(), 8);
  memory.release_step();
  memory.allocator().empty_cache();
  memory.run(step, {});
  EXPECT_EQ(step.known_runs(), 8) << "after segments were released";
}

// Compares two devices, one of which replays each submission again.
TEST(GpuDeviceMemory, RememberedOutcomesEqualReplays) {
  const MlpStep mlp({.batch = 64, .widths = {32, 700, 9}, .layer_norm = true});
  const MlpStep evaluation({.batch = 100, .widths = {32, 64, 9}});
  const GptStep gpt({.batch = 3, .length = 40, .width = 64, .heads = 4, .layers = 2, .vocabulary = 50});
  std::vector<MemoryTrace> traces;
  for (const Program* program : {&mlp.program(), &evaluation.program(), &gpt.program()})
    traces.push_back(trace_memory(launched_plan(*program)));
  DeviceMemory knowing({"gpu 0", 64 * kMiB}), replaying({"gpu 0", 64 * kMiB});
  std::vector<StepAllocations> steps;
  for (const MemoryTrace& trace : traces) steps.emplace_back(trace, knowing.owners());
  std::mt19937 random(3);
  std::vector<BlockId> arrays, other_arrays;
  for (int i = 0; i < 600; ++i) {
    const size_t which = i % 40 < 30 ? 0 : random() % traces.size();
    StepAllocations fresh(traces[which], replaying.owners());
    const StepPools pools{.compute = i % 300 < 250 ? 0 : 2, .copy_in = i % 200 < 100 ? 1 : 0};
    knowing.run(steps[which], {.pools = pools});
    replaying.run(fresh, {.pools = pools});
    ASSERT_EQ(fresh.known_runs(), 0);
    ASSERT_EQ(layout_of(knowing), layout_of(replaying)) << i;
    ASSERT_EQ(figures_of(knowing.allocator().statistics()), figures_of(replaying.allocator().statistics())) << i;
    if (random() % 50 == 0) {
      const int64_t bytes = 1 + static_cast<int64_t>(random() % (2 * kMiB));
      arrays.push_back(knowing.allocate(bytes, 0, knowing.owners().intern("array")));
      other_arrays.push_back(replaying.allocate(bytes, 0, replaying.owners().intern("array")));
    }
    if (random() % 60 == 0 && !arrays.empty()) {
      const auto one = static_cast<std::ptrdiff_t>(random() % arrays.size());
      knowing.free(arrays[static_cast<size_t>(one)]);
      replaying.free(other_arrays[static_cast<size_t>(one)]);
      arrays.erase(arrays.begin() + one);
      other_arrays.erase(other_arrays.begin() + one);
    }
    for (DeviceMemory* memory : {&knowing, &replaying})
      if (i % 97 == 0) {
        memory->allocator().reset_peaks();
      } else if (i % 151 == 0) {
        memory->release_step();
        memory->allocator().empty_cache();
      }
  }
  EXPECT_GT(steps[0].known_runs(), 300);
  EXPECT_LT(steps[0].known_runs(), steps[0].runs());
}

TEST(GpuDeviceMemory, RememberedOutcomesAllocateNoHostMemory) {
  const MlpStep mlp({.batch = 64, .widths = {32, 64, 9}});
  const MemoryTrace trace = trace_memory(launched_plan(mlp.program()));
  DeviceMemory memory({"gpu 0", 64 * kMiB});
  StepAllocations step(trace, memory.owners());
  const auto run = [&](int times) {
    for (int i = 0; i < times; ++i) memory.run(step, {});
  };
  run(5);
  const int64_t before = support::allocations_of_this_thread();
  run(20);
  EXPECT_EQ(support::allocations_of_this_thread(), before);
  EXPECT_EQ(step.known_runs(), 22);
}

}  // namespace
}  // namespace runner::backends::gpu::testing
