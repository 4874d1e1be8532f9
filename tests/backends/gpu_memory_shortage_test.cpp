// Out-of-memory errors of an emulated GPU: their text, and the state of the memory afterwards.
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "backends/exec/backend.h"
#include "backends/gpu/device_memory.h"
#include "backends/gpu/gpu_data_sheet.h"
#include "backends/gpu/memory_shortage.h"
#include "backends/gpu/torch_size_text.h"
#include "backends/tensor/byte_units.h"
#include "tests/backends/support/gpt_step.h"
#include "tests/backends/support/gpu_memory.h"
#include "tests/backends/support/mlp_step.h"
#include "tests/backends/support/run_program.h"

namespace runner::backends::gpu::testing {
namespace {

using backends::testing::GptStep;
using backends::testing::launched_plan;
using backends::testing::MlpStep;

TEST(GpuOutOfMemory, ForAnArray) {
  DeviceMemory memory({"gpu 1", 24 * kMiB});
  memory.allocate(12 * kMiB, 0, memory.owners().intern("parameters"));
  memory.allocate(1000, 0, memory.owners().intern("scale"));
  memory.free(memory.allocate(kMiB, 0, memory.owners().intern("scale")));
  EXPECT_EQ(message_of([&] { memory.allocate(12 * kMiB, 0, memory.owners().intern("exp_avg")); }),
            R"(out of memory: gpu 1 cannot allocate 12.00 MiB for exp_avg
Of 24.00 MiB, 12.00 MiB is allocated, 2.00 MiB is reserved but unallocated, and 10.00 MiB is free; the request needs a new segment of 12.00 MiB, because the largest free block that it can use has 0 bytes.

  Largest allocations:

     12.00 MiB  parameters
      1.00 KiB  scale

First thing to change: a smaller model)");
  EXPECT_TRUE(
      message_of([&] { memory.allocate(int64_t{1} << 40, 0, 0); })
          .starts_with("out of memory: gpu 1 cannot allocate 1024.00 GiB for parameters\nOf 24.00 MiB, 12.00 MiB "
                       "is allocated, 2.00 MiB is reserved but unallocated, and 10.00 MiB is free.\n\n"));
}

// An array of 12 MiB does not fit. Since all arrays are announced, the error has the memory that would suffice.
TEST(GpuOutOfMemory, ForAnArrayIfAllArraysAreAnnounced) {
  DeviceMemory memory({"gpu 0", 24 * kMiB});
  memory.expect_arrays({12 * kMiB, 1000, 12 * kMiB}, {});
  memory.allocate(12 * kMiB, 0, memory.owners().intern("parameters"));
  memory.allocate(1000, 0, memory.owners().intern("scale"));
  const std::string text = message_of([&] { memory.allocate(12 * kMiB, 0, memory.owners().intern("exp_avg")); });
  EXPECT_EQ(text.substr(text.find("First")),
            "First thing to change: a model of half the size: its persistent arrays need 24.00 MiB (saves about 12.00 "
            "MiB)\nThe arrays alone would fit in 26.00 MiB, and the smallest gpu.model with this much memory is t4; "
            "`runner estimate` prints the memory of all steps");
}

// Blocks get the source lines of the submission; those with equal name and line have one owner.
TEST(GpuOutOfMemory, ForAStepReportsSourceLines) {
  DeviceMemory memory({"gpu 0", 40 * kMiB});
  memory.allocate(10 * kMiB, 0, memory.owners().intern("parameters"));
  MemoryTrace trace = trace_of({{4 * kMiB, 0, 9, "matmul"},
                                {4 * kMiB, 1, 9, "relu"},
                                {4 * kMiB, 2, 9, "relu"},
                                {2 * kMiB, 3, 9, "exp"},
                                {12 * kMiB, 4, 9, "matmul"}},
                               5, {{"features", 2 * kMiB, true}});
  trace.batch_size = 64;
  trace.writes_states = true;
  for (TraceBuffer& buffer : trace.buffers) buffer.grows = true;
  StepAllocations step(trace, memory.owners());
  SourceLines lines;
  for (const int line : {1, 10, 11, 11, 12, 13}) lines.add(lines.intern({"mlp.lua", line, 0}));
  const std::string text =
      R"(Of 40.00 MiB, 26.00 MiB is allocated, 4.00 MiB is reserved but unallocated, and 10.00 MiB is free; the request needs a new segment of 12.00 MiB, because the largest free block that it can use has 4.00 MiB.

  Largest allocations:

     10.00 MiB  parameters
      8.00 MiB  relu (mlp.lua:11), 2 times
      4.00 MiB  matmul (mlp.lua:10)
      2.00 MiB  features
      2.00 MiB  exp (mlp.lua:12)

First thing to change: a batch of 32 instead of 64 samples; with gradient_accumulation_steps 2 times as large, which train.auto_batch_size sets unless the hook has its own loop (saves about 14.00 MiB)
This step would fit in 62.00 MiB, and the smallest gpu.model with this much memory is t4; `runner estimate` prints the memory of all steps)";
  EXPECT_EQ(message_of([&] { memory.run(step, {.pools = {}}, &lines); }),
            "mlp.lua:13: out of memory: gpu 0 cannot allocate 12.00 MiB for matmul\n" + text);
  // The submission's memory has been freed. The next submission gets the same error with its own lines.
  EXPECT_EQ(allocated_text(memory), fmt::format("0+{} ", 10 * kMiB));
  EXPECT_TRUE(message_of([&] { memory.run(step, {.pools = {}}); }).starts_with("hook.lua:5: out of memory: gpu 0"));
  EXPECT_EQ(memory.allocator().statistics().ooms, 2);
}

// The previous batch stays until the new one is allocated.
TEST(GpuOutOfMemory, ForABatch) {
  DeviceMemory memory({"gpu 0", 34 * kMiB});
  memory.allocate(10 * kMiB, 0, memory.owners().intern("parameters"));
  MemoryTrace trace = trace_of({{512, 0, 1}}, 2, {{"labels", 512, true, 0}, {"features", 16 * kMiB, true, 1}});
  trace.batch_size = 64;
  trace.writes_states = true;
  StepAllocations step(trace, memory.owners());
  memory.run(step, {});
  EXPECT_EQ(message_of([&] { memory.run(step, {}); }),
            R"(out of memory: gpu 0 cannot allocate 16.00 MiB for features
Of 34.00 MiB, 26.00 MiB is allocated, 2.00 MiB is reserved but unallocated, and 6.00 MiB is free; the request needs a new segment of 16.00 MiB, because the largest free block that it can use has 0 bytes.

  Largest allocations:

     16.00 MiB  features
     10.00 MiB  parameters
      1.00 KiB  labels, 2 times

First thing to change: a batch of 32 instead of 64 samples; with gradient_accumulation_steps 2 times as large, which train.auto_batch_size sets unless the hook has its own loop (saves about 8.00 MiB)
This step would fit in 44.00 MiB, and the smallest gpu.model with this much memory is t4; `runner estimate` prints the memory of all steps)");
  memory.release_step();
  EXPECT_EQ(allocated_text(memory), fmt::format("0+{} ", 10 * kMiB));
}

TEST(GpuOutOfMemory, ForAStagedBatch) {
  DeviceMemory memory({"gpu 0", 44 * kMiB});
  memory.allocate(10 * kMiB, 0, memory.owners().intern("parameters"));
  MemoryTrace trace = trace_of({{512, 0, 1}}, 1, {{"labels", 512, true, 0}, {"features", 16 * kMiB, true, 1}});
  trace.batch_size = 64;
  trace.writes_states = true;
  StepAllocations step(trace, memory.owners());
  memory.run(step, {});
  const std::vector<int64_t> bytes{512, 16 * kMiB};
  const std::string text = message_of([&] { memory.stage(1, step, bytes); });
  EXPECT_TRUE(text.starts_with("out of memory: gpu 0 cannot allocate 16.00 MiB for features\n")) << text;
  EXPECT_NE(text.find("First thing to change: a batch of 32 instead of 64 samples"), std::string::npos) << text;
  EXPECT_NE(text.find("op (hook.lua:1)"), std::string::npos) << "an output is not an array of the model: " << text;
  EXPECT_EQ(memory.allocator().statistics().all.blocks.current, 1 + 2 + 1) << "results are still allocated";
}

// Two batches of 8 MiB share a segment, three need two: the staged training batch stays during the evaluation.
TEST(GpuOutOfMemory, ForAnEvaluationWithAStagedBatch) {
  DeviceMemory memory({"gpu 0", 30 * kMiB});
  memory.allocate(kMiB / 2, 0, memory.owners().intern("parameters"));
  MemoryTrace training = trace_of({{512, 0, 1}}, 1, {{"features", 8 * kMiB, true, 0}});
  training.batch_size = 64;
  MemoryTrace evaluation = training;
  training.writes_states = true;
  StepAllocations trained(training, memory.owners()), evaluated(evaluation, memory.owners());
  const std::vector<int64_t> bytes{8 * kMiB};
  memory.run(trained, {});
  memory.stage(1, trained, bytes);
  const std::string text = message_of([&] { memory.run(evaluated, {}); });
  EXPECT_NE(text.find("First thing to change: a batch of 32 instead of 64 samples (in an evaluation"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("This step and those before it would fit in 42.00 MiB"), std::string::npos) << text;
}

// The evaluation by itself fits into the memory that the advice names, but not after a training step, whose results and
// batches have segments of other sizes.
TEST(GpuOutOfMemory, AdviceOnMemoryCountsEarlierSteps) {
  MemoryTrace training = trace_of({{12 * kMiB, 0, 1}}, 2, {{"features", 6 * kMiB}});
  training.writes_states = true;
  const MemoryTrace evaluation = trace_of({{14 * kMiB, 0, 0}}, 1, {{"features", 9 * kMiB}});
  const auto refusal = [&](int64_t limit) {
    DeviceMemory memory({"gpu 0", limit});
    memory.allocate(4 * kMiB, kStreamPools.compute, memory.owners().intern("parameters"));
    StepAllocations trained(training, memory.owners()), evaluated(evaluation, memory.owners());
    return message_of([&] {
      for (uint64_t epoch = 0; epoch < 8; ++epoch) {
        memory.run(trained, {.staged = epoch});
        memory.stage(epoch + 1, trained, batch_bytes(training));
        memory.run(evaluated, {});
      }
    });
  };
  const std::string text = refusal(50 * kMiB);
  EXPECT_NE(text.find("This step and those before it would fit in 60.00 MiB"), std::string::npos) << text;
  EXPECT_NE(refusal(58 * kMiB), "");
  EXPECT_EQ(refusal(60 * kMiB), "");
}

// With eager launches half the batch would fit into the rest of the array's segment. A captured graph has segments of
// its own.
TEST(GpuOutOfMemory, AdviceConsidersCapturedGraphs) {
  const auto advice = [](bool captures) {
    DeviceMemory memory({"gpu 0", 30 * kMiB, captures});
    memory.allocate(4 * kMiB, kStreamPools.compute, memory.owners().intern("parameters"));
    MemoryTrace trace = trace_of({{28 * kMiB, 0, 0}}, 1);
    trace.batch_size = 64;
    trace.buffers[0].grows = true;
    StepAllocations step(trace, memory.owners());
    const std::string text = message_of([&] { memory.run(step, {}); });
    const size_t begin = text.find("change: ") + 8;
    return text.substr(begin, text.find("instead") - begin);
  };
  EXPECT_EQ(advice(false), "a batch of 32 ");
  EXPECT_EQ(advice(true), "disable gpu.capture, and use a batch of 32 ");
}

Advice advice_for(const MemoryTrace* trace, std::vector<int64_t> arrays, int64_t limit,
                  std::vector<int64_t> for_parts = {}) {
  const MemorySpec spec{.device = "gpu 0", .limit = limit, .for_parts = std::move(for_parts)};
  return first_thing_to_change({.spec = &spec, .requested = 512, .trace = trace, .arrays = std::move(arrays)},
                               CachingAllocator(limit));
}

TEST(GpuOutOfMemory, AdvisesTheFirstThingToChange) {
  MemoryTrace trace = trace_of({{16 * kMiB, 0, 9}, {12 * kMiB, 1, 9}, {10 * kMiB, 2, 9}}, 3);
  trace.batch_size = 48;
  trace.has_f32_products = trace.writes_states = true;
  for (const size_t b : {0, 1}) trace.buffers[b].grows = trace.buffers[b].is_f32 = true;
  // 38 MiB, of which 28 grow with the batch. With half the batch, 8 and 6 MiB share a segment of 20 MiB.
  EXPECT_EQ(advice_for(&trace, {}, 36 * kMiB).text,
            "a batch of 24 instead of 48 samples; with gradient_accumulation_steps 2 times as large, which "
            "train.auto_batch_size sets unless the hook has its own loop");
  EXPECT_EQ(advice_for(&trace, {}, 36 * kMiB).saving, 14 * kMiB);
  // 8 + 6 + 10 MiB do not fit; 4 and 3 MiB share such a segment, but not with 10; 10, 2 and 1.5 MiB do.
  EXPECT_EQ(advice_for(&trace, {}, 20 * kMiB).text,
            "a batch of 12 instead of 48 samples; with gradient_accumulation_steps 4 times as large, which "
            "train.auto_batch_size sets unless the hook has its own loop");
  // 3 MiB of kept gradients are added: 8 + 6 + 3 MiB share the segment.
  EXPECT_EQ(
      advice_for(&trace, {}, 36 * kMiB, {3 * kMiB}).text,
      "a batch of 24 instead of 48 samples; with gradient_accumulation_steps 2 times as large, which "
      "train.auto_batch_size sets unless the hook has its own loop, 3.00 MiB of gradients are kept between batches");
  EXPECT_EQ(advice_for(&trace, {}, 36 * kMiB, {3 * kMiB}).saving, 11 * kMiB);
  // With another 14 MiB no batch is small enough, but bf16 is.
  EXPECT_EQ(advice_for(&trace, {}, 36 * kMiB, {30 * kMiB}).text, "mixed_precision: bf16");
  trace.writes_states = false;
  EXPECT_EQ(advice_for(&trace, {}, 36 * kMiB, {30 * kMiB}).text,
            "a batch of 24 instead of 48 samples (in an evaluation eval.batch_size)");
  trace.batch_size = 1;
  EXPECT_EQ(advice_for(&trace, {}, 36 * kMiB).text, "mixed_precision: bf16");
  EXPECT_EQ(advice_for(&trace, {}, 36 * kMiB).saving, 14 * kMiB);
  trace.has_f32_products = false;
  EXPECT_EQ(advice_for(&trace, {20 * kMiB, 10 * kMiB}, 50 * kMiB).text,
            "a model of half the size: its persistent arrays need 30.00 MiB");
  EXPECT_EQ(advice_for(&trace, {}, 38 * kMiB).text,
            "use the same batch size for all steps (data.drop_last, eval.batch_size equal to data.batch_size): there "
            "is enough memory, but it is fragmented; PyTorch can avoid this with expandable_segments");
  EXPECT_EQ(advice_for(&trace, {}, 20 * kMiB).text, "a smaller model");
  trace.batch_size = 48;
  trace.writes_states = true;
  EXPECT_TRUE(advice_for(&trace, {}, 10 * kMiB).text.ends_with("; this alone is not enough"));
  EXPECT_EQ(advice_for(nullptr, {}, 20 * kMiB).text, "a smaller model");
}

TEST(GpuOutOfMemory, ReportsTheMemoryThatSuffices) {
  MemoryTrace trace = trace_of({{16 * kMiB, 0, 9}, {12 * kMiB, 1, 9}}, 2);
  const auto sufficient = [&trace](std::vector<int64_t> arrays, int64_t limit) {
    const MemorySpec spec{.device = "gpu 0", .limit = limit};
    return memory_that_suffices({.spec = &spec, .trace = &trace, .arrays = std::move(arrays)}).value_or(0);
  };
  EXPECT_EQ(sufficient({13 * kMiB}, 20 * kMiB), 42 * kMiB) << "14 for the array, and a segment for each result";
  EXPECT_EQ(sufficient({13 * kMiB}, 41 * kMiB), 42 * kMiB);
  EXPECT_EQ(sufficient({13 * kMiB}, 42 * kMiB), 0) << "the memory is sufficient already";
  EXPECT_EQ(sufficient({}, 20 * kMiB), 0) << "other memory is unknown";
  EXPECT_EQ(sufficient({int64_t{1} << 52}, 20 * kMiB), 0) << "no GPU has so much memory";

  EXPECT_EQ(smallest_gpu_with(kMiB)->name, "t4");
  EXPECT_EQ(smallest_gpu_with(row_of(GpuProduct::kT4).capacity_bytes)->name, "t4");
  EXPECT_EQ(smallest_gpu_with(row_of(GpuProduct::kT4).capacity_bytes + 1)->name, "l4");
  EXPECT_EQ(smallest_gpu_with(row_of(GpuProduct::kH200).capacity_bytes)->name, "h200");
  EXPECT_EQ(smallest_gpu_with(row_of(GpuProduct::kH200).capacity_bytes + 1), nullptr);
}

// 40 MiB in four pieces of 10 MiB, every other one free: 20 MiB are free, but no request of 20 MiB fits.
TEST(GpuOutOfMemory, ForFragmentedMemory) {
  DeviceMemory memory({"gpu 0", 40 * kMiB});
  const BlockId whole = memory.allocate(40 * kMiB, 0, memory.owners().intern("evaluation"));
  memory.free(whole);
  std::vector<BlockId> arrays;
  for (int i = 0; i < 4; ++i) arrays.push_back(memory.allocate(10 * kMiB, 0, memory.owners().intern("array")));
  memory.free(arrays[0]);
  memory.free(arrays[2]);
  const MemoryTrace trace = trace_of({{20 * kMiB, 0, 9, "matmul"}}, 1);
  StepAllocations step(trace, memory.owners());
  EXPECT_EQ(message_of([&] { memory.run(step, {.pools = {}}); }),
            R"(hook.lua:1: out of memory: gpu 0 cannot allocate 20.00 MiB for matmul
Of 40.00 MiB, 20.00 MiB is allocated, 20.00 MiB is reserved but unallocated, and 0 bytes is free; the request needs a new segment of 20.00 MiB, because the largest free block that it can use has 10.00 MiB.

  Largest allocations:

     20.00 MiB  array, 2 times

First thing to change: use the same batch size for all steps (data.drop_last, eval.batch_size equal to data.batch_size): there is enough memory, but it is fragmented; PyTorch can avoid this with expandable_segments)");
}

// Each request of the step in turn is the first without a segment.
TEST(GpuOutOfMemory, AtEveryRequestOfAStep) {
  std::vector<Life> lives;
  for (int i = 0; i < 8; ++i) lives.push_back({(10 + 2 * i) * kMiB, i, 7, fmt::format("op{}", i)});
  const MemoryTrace trace = trace_of(lives, 8);
  int64_t reserved = 2 * kMiB;  // the segment of the array
  for (size_t at = 0; at < lives.size(); ++at) {
    DeviceMemory memory({"gpu 0", reserved + lives[at].bytes - 1});
    memory.allocate(600, 0, memory.owners().intern("scale"));
    const std::vector<Extent> before = layout_of(memory);
    const std::vector<OwnerUse> uses = memory.allocator().uses();
    StepAllocations step(trace, memory.owners());
    for (int again = 1; again <= 2; ++again) {
      const std::string text = message_of([&] { memory.run(step, {.pools = {}}); });
      const int64_t allocated = reserved - 2 * kMiB + 1024;
      const std::string expected = fmt::format(
          "hook.lua:{}: out of memory: gpu 0 cannot allocate {} for op{}\nOf {}, {} is allocated, {} is reserved but "
          "unallocated, and {} is free; the request needs a new segment of {}, because the largest free block that it "
          "can use has 0 bytes.\n\n",
          at + 1, torch_size_text(lives[at].bytes), at, torch_size_text(memory.allocator().limit()),
          torch_size_text(allocated), torch_size_text(reserved - allocated), torch_size_text(lives[at].bytes - 1),
          torch_size_text(lives[at].bytes));
      EXPECT_EQ(text.substr(0, expected.size()), expected);
      // The five largest owners: the latest allocations, and the array if there is room for it.
      size_t rows = 0;
      for (size_t i = at; i-- > 0 && rows < 5; ++rows)
        EXPECT_NE(text.find(fmt::format("{:>12}  op{} (hook.lua:{})\n", torch_size_text(lives[i].bytes), i, i + 1)),
                  std::string::npos);
      EXPECT_EQ(text.find("scale") != std::string::npos, rows < 5);
      EXPECT_EQ(memory.allocator().statistics().ooms, again);
    }
    memory.allocator().empty_cache();
    EXPECT_EQ(layout_of(memory), before);
    EXPECT_EQ(memory.allocator().uses()[0].bytes, uses[0].bytes);
    reserved += lives[at].bytes;
  }
}

// With every limit below the required memory, a step gets all its memory or none, and later steps are not affected.
TEST(GpuOutOfMemory, WithEveryMemoryLimit) {
  const GptStep gpt({.batch = 4, .length = 64, .width = 128, .heads = 4, .layers = 2, .vocabulary = 100});
  const MlpStep mlp({.batch = 2, .widths = {8, 4}});
  const MemoryTrace large = trace_memory(launched_plan(gpt.program()));
  const MemoryTrace small = trace_memory(launched_plan(mlp.program()));
  std::set<int> refused;
  bool has_fitted = false;
  for (int64_t limit = 4 * kMiB; limit <= 120 * kMiB; limit += 2 * kMiB) {
    DeviceMemory memory({"gpu 0", limit});
    StepAllocations large_step(large, memory.owners()), small_step(small, memory.owners());
    memory.run(small_step, {.pools = {}});
    memory.release_step();
    try {
      memory.run(large_step, {.pools = {}});
      has_fitted = true;
      memory.release_step();
    } catch (const OutOfMemory& error) {
      EXPECT_FALSE(has_fitted) << "it did fit with less memory";
      EXPECT_GT(error.bytes(), limit);
      EXPECT_EQ(error.limit(), limit);
      refused.insert(error.where().line);
    }
    EXPECT_EQ(memory.allocator().statistics().all.blocks.current, 0);
    EXPECT_NO_THROW(memory.run(small_step, {.pools = {}}));
  }
  EXPECT_TRUE(has_fitted);
  EXPECT_FALSE(refused.empty());
}

}  // namespace
}  // namespace runner::backends::gpu::testing
