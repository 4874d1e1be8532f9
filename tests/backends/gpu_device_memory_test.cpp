// The memory of an emulated GPU through submissions: what is there when, what is known, and what is said when it is
// short.
#include <functional>
#include <random>
#include <set>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "backends/gpu/device_memory.h"
#include "backends/gpu/memory_forecast.h"
#include "backends/gpu/memory_shortage.h"
#include "backends/gpu/size_text.h"
#include "backends/runtime/out_of_memory.h"
#include "tests/backends/support/gpt_step.h"
#include "tests/backends/support/launched_plan.h"
#include "tests/backends/support/mlp_step.h"
#include "tests/support/allocations.h"

namespace runner::backends::gpu::testing {
namespace {

using backends::testing::GptStep;
using backends::testing::launched_plan;
using backends::testing::MlpStep;

// A trace by hand: buffers in order of their allocation, with the steps of their lives; `steps` to the end: it stays.
struct Life {
  int64_t bytes;
  int first, last;
  std::string name = "op";
};

MemoryTrace trace_of(const std::vector<Life>& lives, int steps, std::vector<TraceInput> batch = {}) {
  MemoryTrace trace;
  trace.batch = std::move(batch);
  for (const Life& life : lives) {
    const auto line = static_cast<int>(trace.buffers.size()) + 1;
    trace.buffers.push_back({.bytes = life.bytes,
                             .name = life.name,
                             .origin = static_cast<Origin>(line),
                             .line = {"hook.lua", line, 0},
                             .first = life.first,
                             .last = life.last});
  }
  const auto count = static_cast<int32_t>(lives.size());
  for (int step = 0; step < steps; ++step) {
    for (int32_t b = 0; b < count; ++b)
      if (lives[static_cast<size_t>(b)].first == step) trace.events.push_back({b, true});
    for (int32_t b = 0; b < count; ++b)
      if (lives[static_cast<size_t>(b)].last == step) trace.events.push_back({b, false});
  }
  for (int32_t b = 0; b < count; ++b)
    if (lives[static_cast<size_t>(b)].last >= steps) trace.outputs.push_back(b);
  return trace;
}

std::vector<int64_t> figures_of(const DeviceMemory& memory) {
  const MemoryStatistics& statistics = memory.allocator().statistics();
  std::vector<int64_t> figures{statistics.retries, statistics.ooms};
  for (const auto pool : kPools)
    for (const auto statistic : kStatistics) {
      const Statistic& its = (statistics.*pool).*statistic;
      figures.insert(figures.end(), {its.current, its.peak, its.total});
    }
  return figures;
}

std::vector<Extent> layout_of(const DeviceMemory& memory) {
  std::vector<Extent> layout;
  memory.allocator().copy_layout(layout);
  return layout;
}

// "address+bytes" of what is allocated.
std::string allocated_text(const DeviceMemory& memory) {
  std::string text;
  for (const Extent& extent : layout_of(memory))
    if (extent.allocated) text += fmt::format("{}+{} ", extent.address, extent.bytes);
  return text;
}

TEST(GpuDeviceMemory, OutputsStayUntilTheNextSubmissionAndBatchesUntilTheNextOneIsThere) {
  DeviceMemory memory("gpu 0", 100 * kMiB);
  const MemoryTrace trace = trace_of({{1024, 0, 1}, {512, 1, 2}, {2048, 1, 3}}, 3, {{"features", 512}});
  StepAccount step(trace, memory.owners());
  memory.run(step, {});
  // The batch has the segment of the copying stream; what stays lies behind the others' places.
  EXPECT_EQ(allocated_text(memory), fmt::format("0+512 {}+2048 ", 2 * kMiB + 1536));
  EXPECT_EQ(memory.allocator().statistics().all.allocated_bytes.peak, 512 + 1024 + 512 + 2048);
  memory.run(step, {});
  EXPECT_EQ(allocated_text(memory), fmt::format("512+512 {}+2048 ", 2 * kMiB + 1536)) << "the other batch was there";
  memory.run(step, {});
  EXPECT_EQ(allocated_text(memory), fmt::format("0+512 {}+2048 ", 2 * kMiB + 1536));
  EXPECT_EQ(memory.allocator().statistics().all.blocks.total, 3 * 4);
  memory.release_step();
  EXPECT_EQ(allocated_text(memory), "");
}

// A staged batch is there from then on until a submission brings another.
TEST(GpuDeviceMemory, StagedBatchesAreBesideThoseThatAreComputed) {
  DeviceMemory memory("gpu 0", 100 * kMiB);
  const MemoryTrace trace =
      trace_of({{1024, 0, 1}}, 1,
               {{.name = "features", .bytes = 2048, .input = 0}, {.name = "labels", .bytes = 512, .input = 2}});
  const MemoryTrace update = trace_of({{4096, 0, 1}}, 1);
  StepAccount step(trace, memory.owners()), updating(update, memory.owners());
  const std::vector<int64_t> bytes{2048, 64, 512};
  memory.stage(1, step, bytes);
  EXPECT_EQ(memory.allocator().statistics().all.blocks.current, 2) << "what no step reads is not copied";
  memory.run(step, {.staged = 1});
  memory.stage(2, step, bytes);
  EXPECT_EQ(memory.allocator().statistics().all.blocks.current, 4 + 1) << "two batches and an output";
  memory.run(updating, {});
  EXPECT_EQ(memory.allocator().statistics().all.blocks.current, 4 + 1) << "an update has no batch, and frees none";
  memory.run(step, {.staged = 1});
  memory.run(step, {.staged = 2});
  EXPECT_EQ(memory.allocator().statistics().all.blocks.current, 2 + 1) << "the first is not needed any more";
  EXPECT_EQ(memory.allocator().statistics().all.blocks.total, 4 + 3 + 1) << "nothing was brought that was there";

  // An evaluation brings its own, while that of the training waits.
  memory.stage(3, step, bytes);
  memory.run(step, {});
  EXPECT_EQ(memory.allocator().statistics().all.blocks.current, 4 + 1);
  memory.run(step, {.staged = 3});
  EXPECT_EQ(memory.allocator().statistics().all.blocks.current, 2 + 1);

  // A part of another size brings what is not there.
  memory.stage(4, step, std::vector<int64_t>{1024, 0, 512});
  memory.run(step, {.staged = 4});
  EXPECT_EQ(memory.allocator().statistics().all.blocks.current, 3 + 1);
  memory.stage(5, step, bytes);
  memory.drop_staged();
  memory.release_step();
  EXPECT_EQ(memory.allocator().statistics().all.blocks.current, 0);
}

TEST(GpuDeviceMemory, KnowsWhatASubmissionComesTo) {
  DeviceMemory memory("gpu 0", 100 * kMiB);
  const MemoryTrace trace = trace_of({{1024, 0, 1}, {3 * kMiB, 1, 2}, {2048, 1, 3}}, 3, {{"features", 512}});
  StepAccount step(trace, memory.owners());
  for (int i = 0; i < 10; ++i) memory.run(step, {});
  // The first takes segments; the next two have their batches in one and in the other place.
  EXPECT_EQ(step.known_runs(), 7);
  const BlockId array = memory.allocate(700, 0, memory.owners().intern("array"));
  memory.run(step, {});
  EXPECT_EQ(step.known_runs(), 7) << "another block is there";
  memory.free(array);
  memory.run(step, {});
  EXPECT_EQ(step.known_runs(), 8);
  memory.release_step();
  memory.allocator().empty_cache();
  memory.run(step, {});
  EXPECT_EQ(step.known_runs(), 8) << "without segments";
}

// Whatever is known: two devices, of which one replays each submission anew.
TEST(GpuDeviceMemory, KnownSubmissionsLeaveWhatReplaysLeave) {
  const MlpStep mlp({.batch = 64, .widths = {32, 700, 9}, .layer_norm = true});
  const MlpStep evaluation({.batch = 100, .widths = {32, 64, 9}});
  const GptStep gpt({.batch = 3, .length = 40, .width = 64, .heads = 4, .layers = 2, .vocabulary = 50});
  std::vector<MemoryTrace> traces;
  for (const Program* program : {&mlp.program(), &evaluation.program(), &gpt.program()})
    traces.push_back(trace_memory(launched_plan(*program)));
  DeviceMemory knowing("gpu 0", 64 * kMiB), replaying("gpu 0", 64 * kMiB);
  std::vector<StepAccount> accounts;
  for (const MemoryTrace& trace : traces) accounts.emplace_back(trace, knowing.owners());
  std::mt19937 random(3);
  std::vector<BlockId> arrays, other_arrays;
  for (int i = 0; i < 600; ++i) {
    const size_t which = i % 40 < 30 ? 0 : random() % traces.size();
    StepAccount fresh(traces[which], replaying.owners());
    const StepPools pools{.compute = i % 300 < 250 ? 0 : 2, .copy_in = i % 200 < 100 ? 1 : 0};
    knowing.run(accounts[which], {.pools = pools});
    replaying.run(fresh, {.pools = pools});
    ASSERT_EQ(fresh.known_runs(), 0);
    ASSERT_EQ(layout_of(knowing), layout_of(replaying)) << i;
    ASSERT_EQ(figures_of(knowing), figures_of(replaying)) << i;
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
  EXPECT_GT(accounts[0].known_runs(), 300);
  EXPECT_LT(accounts[0].known_runs(), accounts[0].runs());
}

TEST(GpuDeviceMemory, KnownSubmissionsTakeNoMemoryOfTheHost) {
  const MlpStep mlp({.batch = 64, .widths = {32, 64, 9}});
  const MemoryTrace trace = trace_memory(launched_plan(mlp.program()));
  DeviceMemory memory("gpu 0", 64 * kMiB);
  StepAccount step(trace, memory.owners());
  const auto run = [&](int times) {
    for (int i = 0; i < times; ++i) memory.run(step, {});
  };
  run(5);
  const int64_t before = support::allocations_of_this_thread();
  run(20);
  EXPECT_EQ(support::allocations_of_this_thread(), before);
  EXPECT_EQ(step.known_runs(), 22);
}

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const OutOfMemory& error) {
    return error.what();
  }
  return "no error";
}

TEST(GpuOutOfMemory, OfAnArray) {
  DeviceMemory memory("gpu 1", 24 * kMiB);
  memory.allocate(12 * kMiB, 0, memory.owners().intern("parameters"));
  memory.allocate(1000, 0, memory.owners().intern("scale"));
  memory.free(memory.allocate(kMiB, 0, memory.owners().intern("scale")));
  EXPECT_EQ(message_of([&] { memory.allocate(12 * kMiB, 0, memory.owners().intern("exp_avg")); }),
            R"(out of memory: gpu 1 cannot allocate 12.00 MiB for exp_avg
Of 24.00 MiB, 12.00 MiB is allocated, 2.00 MiB is reserved but unallocated, and 10.00 MiB is free; the request takes a segment of 12.00 MiB, since no free block of its pool is larger than 0 bytes.

  The largest of what is allocated:

     12.00 MiB  parameters
      1.00 KiB  scale

First thing to change: a smaller model)");
  EXPECT_TRUE(
      message_of([&] { memory.allocate(int64_t{1} << 40, 0, 0); })
          .starts_with("out of memory: gpu 1 cannot allocate 1024.00 GiB for parameters\nOf 24.00 MiB, 12.00 MiB "
                       "is allocated, 2.00 MiB is reserved but unallocated, and 10.00 MiB is free.\n\n"));
}

// The blocks of a submission are those of its lines, and of equal name and line they are one owner.
TEST(GpuOutOfMemory, OfAStepNamesItsLines) {
  DeviceMemory memory("gpu 0", 40 * kMiB);
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
  StepAccount step(trace, memory.owners());
  SourceLines lines;
  for (const int line : {1, 10, 11, 11, 12, 13}) lines.add(lines.intern({"mlp.lua", line, 0}));
  const std::string text =
      R"(Of 40.00 MiB, 26.00 MiB is allocated, 4.00 MiB is reserved but unallocated, and 10.00 MiB is free; the request takes a segment of 12.00 MiB, since no free block of its pool is larger than 4.00 MiB.

  The largest of what is allocated:

     10.00 MiB  parameters
      8.00 MiB  relu (mlp.lua:11), 2 times
      4.00 MiB  matmul (mlp.lua:10)
      2.00 MiB  features
      2.00 MiB  exp (mlp.lua:12)

First thing to change: a batch of 32 instead of 64 samples; with gradient_accumulation_steps 2 times as large, as train.auto_batch_size does it where the loop is not a hook's, gradients are kept between them (saves about 14.00 MiB))";
  EXPECT_EQ(message_of([&] { memory.run(step, {.pools = {}}, &lines); }),
            "mlp.lua:13: out of memory: gpu 0 cannot allocate 12.00 MiB for matmul\n" + text);
  // What the submission had is free again, and the next one is told the same, with its own lines.
  EXPECT_EQ(allocated_text(memory), fmt::format("0+{} ", 10 * kMiB));
  EXPECT_TRUE(message_of([&] { memory.run(step, {.pools = {}}); }).starts_with("hook.lua:5: out of memory: gpu 0"));
  EXPECT_EQ(memory.allocator().statistics().ooms, 2);
}

// The batch before is there until this one is.
TEST(GpuOutOfMemory, OfABatch) {
  DeviceMemory memory("gpu 0", 34 * kMiB);
  memory.allocate(10 * kMiB, 0, memory.owners().intern("parameters"));
  MemoryTrace trace = trace_of({{512, 0, 1}}, 2, {{"labels", 512, true, 0}, {"features", 16 * kMiB, true, 1}});
  trace.batch_size = 64;
  trace.writes_states = true;
  StepAccount step(trace, memory.owners());
  memory.run(step, {});
  EXPECT_EQ(message_of([&] { memory.run(step, {}); }),
            R"(out of memory: gpu 0 cannot allocate 16.00 MiB for features
Of 34.00 MiB, 26.00 MiB is allocated, 2.00 MiB is reserved but unallocated, and 6.00 MiB is free; the request takes a segment of 16.00 MiB, since no free block of its pool is larger than 0 bytes.

  The largest of what is allocated:

     16.00 MiB  features
     10.00 MiB  parameters
      1.00 KiB  labels, 2 times

First thing to change: a batch of 32 instead of 64 samples; with gradient_accumulation_steps 2 times as large, as train.auto_batch_size does it where the loop is not a hook's, gradients are kept between them (saves about 8.00 MiB))");
  memory.release_step();
  EXPECT_EQ(allocated_text(memory), fmt::format("0+{} ", 10 * kMiB));
}

TEST(GpuOutOfMemory, OfAStagedBatch) {
  DeviceMemory memory("gpu 0", 44 * kMiB);
  memory.allocate(10 * kMiB, 0, memory.owners().intern("parameters"));
  MemoryTrace trace = trace_of({{512, 0, 1}}, 1, {{"labels", 512, true, 0}, {"features", 16 * kMiB, true, 1}});
  trace.batch_size = 64;
  StepAccount step(trace, memory.owners());
  memory.run(step, {});
  const std::vector<int64_t> bytes{512, 16 * kMiB};
  const std::string text = message_of([&] { memory.stage(1, step, bytes); });
  EXPECT_TRUE(text.starts_with("out of memory: gpu 0 cannot allocate 16.00 MiB for features\n")) << text;
  EXPECT_NE(text.find("First thing to change: a batch of 32 instead of 64 samples"), std::string::npos) << text;
  EXPECT_NE(text.find("op (hook.lua:1)"), std::string::npos) << "an output, which is no array of a model: " << text;
  EXPECT_EQ(memory.allocator().statistics().all.blocks.current, 1 + 2 + 1) << "what is computed is still there";
}

// Half the batch would do for launches, in what the array leaves of its segment; the graph that they become has
// segments of its own.
TEST(GpuOutOfMemory, AdviceIsOfCapturedGraphsWhereStepsBecomeThem) {
  const auto advice = [](bool captures) {
    DeviceMemory memory("gpu 0", 30 * kMiB, captures);
    memory.allocate(4 * kMiB, kStreamPools.compute, memory.owners().intern("parameters"));
    MemoryTrace trace = trace_of({{28 * kMiB, 0, 0}}, 1);
    trace.batch_size = 64;
    trace.buffers[0].grows = true;
    StepAccount step(trace, memory.owners());
    const std::string text = message_of([&] { memory.run(step, {}); });
    const size_t begin = text.find("change: ") + 8;
    return text.substr(begin, text.find("instead") - begin);
  };
  EXPECT_EQ(advice(false), "a batch of 32 ");
  EXPECT_EQ(advice(true), "leave gpu.capture out, and a batch of 32 ");
}

Advice advice_for(const MemoryTrace* trace, std::vector<int64_t> arrays, int64_t limit) {
  return first_thing_to_change({.requested = 512, .trace = trace, .arrays = std::move(arrays)},
                               CachingAllocator(limit));
}

TEST(GpuOutOfMemory, TheFirstThingToChange) {
  MemoryTrace trace = trace_of({{16 * kMiB, 0, 9}, {12 * kMiB, 1, 9}, {10 * kMiB, 2, 9}}, 3);
  trace.batch_size = 48;
  trace.has_f32_products = trace.writes_states = true;
  for (const size_t b : {0, 1}) trace.buffers[b].grows = trace.buffers[b].is_f32 = true;
  // 38 MiB, 28 of them by the batch.  With half of it 8 and 6 MiB share a segment of 20 MiB.
  EXPECT_EQ(advice_for(&trace, {}, 36 * kMiB).text,
            "a batch of 24 instead of 48 samples; with gradient_accumulation_steps 2 times as large, as "
            "train.auto_batch_size does it where the loop is not a hook's, gradients are kept between them");
  EXPECT_EQ(advice_for(&trace, {}, 36 * kMiB).saving, 14 * kMiB);
  // 8 + 6 + 10 MiB are too much; 4 and 3 share such a segment, but not with 10; all three do with 2 and 1.5 MiB.
  EXPECT_EQ(advice_for(&trace, {}, 20 * kMiB).text,
            "a batch of 12 instead of 48 samples; with gradient_accumulation_steps 4 times as large, as "
            "train.auto_batch_size does it where the loop is not a hook's, gradients are kept between them");
  trace.writes_states = false;
  EXPECT_EQ(advice_for(&trace, {}, 36 * kMiB).text,
            "a batch of 24 instead of 48 samples; in an evaluation that is eval.batch_size");
  trace.batch_size = 1;
  EXPECT_EQ(advice_for(&trace, {}, 36 * kMiB).text, "mixed_precision: bf16");
  EXPECT_EQ(advice_for(&trace, {}, 36 * kMiB).saving, 14 * kMiB);
  trace.has_f32_products = false;
  EXPECT_EQ(advice_for(&trace, {20 * kMiB, 10 * kMiB}, 50 * kMiB).text,
            "a model of half the size: what outlives its steps takes 30.00 MiB");
  EXPECT_EQ(advice_for(&trace, {}, 38 * kMiB).text,
            "let all steps be of one size (data.drop_last, an eval.batch_size like data.batch_size): there is enough "
            "memory, but in pieces; PyTorch can join them with expandable_segments");
  EXPECT_EQ(advice_for(&trace, {}, 20 * kMiB).text, "a smaller model");
  trace.batch_size = 48;
  trace.writes_states = true;
  EXPECT_TRUE(advice_for(&trace, {}, 10 * kMiB).text.ends_with("; by itself that is not enough"));
  EXPECT_EQ(advice_for(nullptr, {}, 20 * kMiB).text, "a smaller model");
}

// 40 MiB in four pieces of 10, of which every other is free: 20 MiB are there, and there is no room for them.
TEST(GpuOutOfMemory, OfMemoryInPieces) {
  DeviceMemory memory("gpu 0", 40 * kMiB);
  const BlockId whole = memory.allocate(40 * kMiB, 0, memory.owners().intern("evaluation"));
  memory.free(whole);
  std::vector<BlockId> arrays;
  for (int i = 0; i < 4; ++i) arrays.push_back(memory.allocate(10 * kMiB, 0, memory.owners().intern("array")));
  memory.free(arrays[0]);
  memory.free(arrays[2]);
  const MemoryTrace trace = trace_of({{20 * kMiB, 0, 9, "matmul"}}, 1);
  StepAccount step(trace, memory.owners());
  EXPECT_EQ(message_of([&] { memory.run(step, {.pools = {}}); }),
            R"(hook.lua:1: out of memory: gpu 0 cannot allocate 20.00 MiB for matmul
Of 40.00 MiB, 20.00 MiB is allocated, 20.00 MiB is reserved but unallocated, and 0 bytes is free; the request takes a segment of 20.00 MiB, since no free block of its pool is larger than 10.00 MiB.

  The largest of what is allocated:

     20.00 MiB  array, 2 times

First thing to change: let all steps be of one size (data.drop_last, an eval.batch_size like data.batch_size): there is enough memory, but in pieces; PyTorch can join them with expandable_segments)");
}

// Each request of a sequence in turn is the one for which there is no segment.
TEST(GpuOutOfMemory, AtEachRequest) {
  std::vector<Life> lives;
  for (int i = 0; i < 8; ++i) lives.push_back({(10 + 2 * i) * kMiB, i, 7, fmt::format("op{}", i)});
  const MemoryTrace trace = trace_of(lives, 8);
  int64_t reserved = 2 * kMiB;  // of the array
  for (size_t at = 0; at < lives.size(); ++at) {
    DeviceMemory memory("gpu 0", reserved + lives[at].bytes - 1);
    memory.allocate(600, 0, memory.owners().intern("scale"));
    const std::vector<Extent> before = layout_of(memory);
    const std::vector<OwnerUse> uses = memory.allocator().uses();
    StepAccount step(trace, memory.owners());
    for (int again = 1; again <= 2; ++again) {
      const std::string text = message_of([&] { memory.run(step, {.pools = {}}); });
      const int64_t allocated = reserved - 2 * kMiB + 1024;
      const std::string expected = fmt::format(
          "hook.lua:{}: out of memory: gpu 0 cannot allocate {} for op{}\nOf {}, {} is allocated, {} is reserved but "
          "unallocated, and {} is free; the request takes a segment of {}, since no free block of its pool is larger "
          "than 0 bytes.\n\n",
          at + 1, size_text(lives[at].bytes), at, size_text(memory.allocator().limit()), size_text(allocated),
          size_text(reserved - allocated), size_text(lives[at].bytes - 1), size_text(lives[at].bytes));
      EXPECT_EQ(text.substr(0, expected.size()), expected);
      // The five largest: those allocated last, and the array where there is room for it.
      size_t rows = 0;
      for (size_t i = at; i-- > 0 && rows < 5; ++rows)
        EXPECT_NE(text.find(fmt::format("{:>12}  op{} (hook.lua:{})\n", size_text(lives[i].bytes), i, i + 1)),
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

// On a device that is too small in any way a step has all it needs, or none; and the next one is not the worse for it.
TEST(GpuOutOfMemory, WithAnyMemory) {
  const GptStep gpt({.batch = 4, .length = 64, .width = 128, .heads = 4, .layers = 2, .vocabulary = 100});
  const MlpStep mlp({.batch = 2, .widths = {8, 4}});
  const MemoryTrace large = trace_memory(launched_plan(gpt.program()));
  const MemoryTrace small = trace_memory(launched_plan(mlp.program()));
  std::set<int> refused;
  bool has_fitted = false;
  for (int64_t limit = 4 * kMiB; limit <= 120 * kMiB; limit += 2 * kMiB) {
    DeviceMemory memory("gpu 0", limit);
    StepAccount large_step(large, memory.owners()), small_step(small, memory.owners());
    memory.run(small_step, {.pools = {}});
    memory.release_step();
    try {
      memory.run(large_step, {.pools = {}});
      has_fitted = true;
      memory.release_step();
    } catch (const OutOfMemory& error) {
      EXPECT_FALSE(has_fitted) << "with less memory there was room";
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

TEST(GpuMemoryForecast, IsWhatADeviceReserves) {
  const MlpStep mlp({.batch = 512, .widths = {64, 1024, 10}});
  const MemoryTrace trace = trace_memory(launched_plan(mlp.program()));
  const MemoryForecast forecast = forecast_memory(trace, "gpu 0", 1024 * kMiB, /*captures=*/false);
  // Three flat arrays of 76,810 floats share two small segments.
  EXPECT_EQ(mlp.parameter_count() * 4, 307240);
  EXPECT_EQ(forecast.resident, 2 * kMiB);
  EXPECT_EQ(forecast.temporary(), forecast.peak_reserved - 2 * kMiB);
  EXPECT_GE(forecast.peak_reserved, 3 * 307240 + fullest_bytes(trace));

  DeviceMemory memory("gpu 0", forecast.peak_reserved);
  for (int i = 0; i < 3; ++i) memory.allocate(307240, 0, memory.owners().intern("array"));
  StepAccount step(trace, memory.owners());
  for (int i = 0; i < 5; ++i) memory.run(step, {});
  EXPECT_EQ(memory.allocator().statistics().all.reserved_bytes.peak, forecast.peak_reserved);
  EXPECT_EQ(memory.allocator().statistics().retries, 0);

  EXPECT_NO_THROW(forecast_memory(trace, "gpu 0", forecast.peak_reserved, /*captures=*/false));
  EXPECT_THROW(forecast_memory(trace, "gpu 0", forecast.peak_reserved / 2, /*captures=*/false), OutOfMemory);
  EXPECT_TRUE(message_of([&] { forecast_memory(trace, "gpu 0", 2 * kMiB, /*captures=*/false); }).find("parameters") !=
              std::string::npos);
}

// Their segments are no others', and stay where memory is short.
TEST(GpuMemoryForecast, CapturedGraphsHaveMemoryOfTheirOwn) {
  const MlpStep mlp({.batch = 4096, .widths = {64, 1024, 10}});
  const MemoryTrace trace = trace_memory(launched_plan(mlp.program()));
  const MemoryForecast launched = forecast_memory(trace, "gpu 0", 1024 * kMiB, /*captures=*/false);
  const MemoryForecast captured = forecast_memory(trace, "gpu 0", 1024 * kMiB, /*captures=*/true);
  EXPECT_GT(captured.temporary(), launched.temporary() * 3 / 2);
  EXPECT_LE(captured.temporary(), launched.temporary() * 2) << "batches are in a pool of both";

  // What launches had cached goes back to the device for a graph, and not the other way round.
  DeviceMemory memory("gpu 0", launched.peak_reserved + 2 * kMiB, /*captures=*/true);
  for (int i = 0; i < 3; ++i) memory.allocate(307240, 0, memory.owners().intern("array"));
  StepAccount step(trace, memory.owners());
  while (step.runs() < 4) memory.run(step, {.pools = pools_of_run(step.runs(), /*captures=*/true)});
  EXPECT_GT(memory.allocator().statistics().retries, 0);
  EXPECT_NE(message_of([&] { memory.run(step, {}); }).find("leave gpu.capture out"), std::string::npos);
}

// Batches of training wait while an evaluation has its own, and a smaller step may ask another pool for memory.
TEST(GpuMemoryForecast, OfATrainingIsWhatItReserves) {
  const MemoryTrace whole = trace_of({{12 * kMiB, 0, 1}}, 2, {{"features", 6 * kMiB}});
  const MemoryTrace rest = trace_of({{kMiB / 2, 0, 1}}, 2, {{"features", 5 * kMiB}});
  const MemoryTrace update = trace_of({{3 * kMiB, 0, 0}}, 1);
  const MemoryTrace evaluation = trace_of({{14 * kMiB, 0, 0}}, 1, {{"features", 9 * kMiB}});
  const ArrayBytes arrays[] = {{"parameters", 4 * kMiB}, {"none", 0}};
  const auto reserved = [&](std::vector<const MemoryTrace*> training, std::vector<const MemoryTrace*> evaluating,
                            bool captures, int64_t limit = 1024 * kMiB) {
    return forecast_training({arrays, std::move(training), std::move(evaluating)}, "gpu 0", limit, captures) / kMiB;
  };
  // The array shares a segment of 20 MiB with what is computed; batches have another.
  EXPECT_EQ(reserved({&whole, &update}, {}, false), 20 + 20);
  EXPECT_EQ(reserved({&whole, &whole, &rest, &update}, {}, false), 20 + 20 + 2);
  EXPECT_EQ(reserved({&whole, &update}, {&evaluation}, false), 20 + 20 + 20) << "6, 6 and 9 MiB of batches";
  EXPECT_EQ(reserved({&whole, &update}, {}, true), 20 + 20 + 12);
  EXPECT_EQ(reserved({&whole, &update}, {}, true, 52 * kMiB), 52);
  EXPECT_THROW(reserved({&whole, &update}, {}, true, 51 * kMiB), OutOfMemory);
}

// The second epoch takes what the first does, the third takes more: batches lie elsewhere by then.
TEST(GpuMemoryForecast, OfATrainingLooksBeyondAnEpochThatTakesNoMore) {
  constexpr int64_t kHalf = kMiB / 2;
  const MemoryTrace first = trace_of({{9 * kHalf, 0, 1}, {3 * kHalf, 1, 1}}, 2, {{"features", 7 * kHalf}});
  const MemoryTrace second = trace_of({{29 * kHalf, 0, 0}, {29 * kHalf, 1, 1}}, 2, {{"features", 13 * kHalf}});
  const MemoryTrace third = trace_of({{kHalf, 0, 0}}, 1, {{"features", 5 * kHalf}});
  const MemoryTrace evaluation = trace_of({{9 * kHalf, 0, 0}}, 1, {{"features", 25 * kHalf}});
  const TrainingTraces traces{.arrays = {}, .training = {&first, &second, &third}, .evaluation = {&evaluation}};
  EXPECT_EQ(forecast_training(traces, "gpu 0", 1024 * kMiB, /*captures=*/false), 56 * kMiB);
}

}  // namespace
}  // namespace runner::backends::gpu::testing
