// Memory plans of a TPU: hand-worked graphs with exact sizes, and properties of random Programs.
//
// All sizes are in tiles of 8 × 128: a row of 128 f32 takes 512 bytes, a tile 4,096.
#include <algorithm>
#include <map>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "backends/ir/ops.h"
#include "backends/ir/print.h"
#include "backends/ir/views.h"
#include "backends/tensor/byte_units.h"
#include "backends/tpu/hbm.h"
#include "tests/backends/support/on_tpu.h"
#include "tests/backends/support/random_program.h"

namespace runner::backends::tpu::testing {
namespace {

constexpr int64_t kTile = 4096;
constexpr int64_t kCode = 32 * 1024;  // of a group

struct Recording {
  Program program;

  Value input(InputKind kind, const Shape& shape, DType dtype = DType::kF32) {
    return {&program, program.input(kind, "x", {dtype, shape})};
  }
  Value state(const Shape& shape, DType dtype = DType::kF32) { return input(InputKind::kState, shape, dtype); }
  Value batch(const Shape& shape, DType dtype = DType::kF32) { return input(InputKind::kBatch, shape, dtype); }
  void returns(Value value) { program.output("", value.id); }
  void updates(int32_t state, Value value) { program.output("", value.id, state); }
};

struct Expected {
  int64_t arguments, outputs, aliased, temporaries;
  int groups;
};

void expect(const HbmPlan& plan, const Expected& want) {
  EXPECT_EQ(plan.arguments, want.arguments);
  EXPECT_EQ(plan.outputs, want.outputs);
  EXPECT_EQ(plan.aliased, want.aliased);
  EXPECT_EQ(plan.temporaries, want.temporaries);
  EXPECT_EQ(plan.code, want.groups * kCode);
  const int64_t reserved = 530 * kMiB;  // of v3
  EXPECT_EQ(plan.peak(), reserved + want.arguments + want.outputs - want.aliased + want.temporaries +
                             want.groups * kCode + plan.prefetched);
}

// 1. y = a · a, returned: an argument and an output, nothing else.
TEST(TpuHbm, ReturnedResult) {
  Recording r;
  const Value a = r.batch({8, 128});
  r.returns(ops::mul(a, a));
  expect(plan_hbm(OnTpu(r.program).device(), {}),
         {.arguments = kTile, .outputs = kTile, .aliased = 0, .temporaries = 0, .groups = 1});
}

// 2. a ← a + b: the new value is written over the old one.
TEST(TpuHbm, StateUpdatedInPlace) {
  Recording r;
  const Value a = r.state({16, 128}), b = r.batch({16, 128});
  r.updates(0, ops::add(a, b));
  const OnTpu graph(r.program);
  const Expected donated{
      .arguments = 4 * kTile, .outputs = 2 * kTile, .aliased = 2 * kTile, .temporaries = 0, .groups = 1};
  expect(plan_hbm(graph.device(), {}), donated);
  // A partial sync donates nothing: state and output both take memory.
  expect(plan_hbm(graph.device(), {.donate = false}),
         {.arguments = 4 * kTile, .outputs = 2 * kTile, .aliased = 0, .temporaries = 0, .groups = 1});
  // Three batches that wait: three times b.
  const HbmPlan waiting = plan_hbm(graph.device(), {.prefetched_batches = 3});
  expect(waiting, donated);
  EXPECT_EQ(waiting.prefetched, 3 * 2 * kTile);
}

// 3. x (8, 256) × w (256, 128) -> h (8, 128); exp in place; × v (128, 256) -> (8, 256), returned. Only h is temporary:
// exp reuses its memory.
TEST(TpuHbm, ElementWiseResultReusesItsOperand) {
  Recording r;
  const Value x = r.batch({8, 256}), w = r.state({256, 128}), v = r.state({128, 256});
  r.returns(ops::matmul(ops::exp(ops::matmul(x, w)), v));
  const int64_t weights = 2 * 32 * kTile;  // 256 · 128 f32 each
  expect(plan_hbm(OnTpu(r.program).device(), {}),
         {.arguments = 2 * kTile + weights, .outputs = 2 * kTile, .aliased = 0, .temporaries = kTile, .groups = 3});
}

// 4. a ← a · a, but the sum with the old a comes after the product in group order: the new value is a temporary and is
// copied at the end.
TEST(TpuHbm, StateReadAfterItsNewValueIsWritten) {
  Recording r;
  const Value a = r.state({128, 128});
  const Value squared = ops::matmul(a, a);
  const Value old = ops::add(ops::matmul(squared, a), a);
  r.updates(0, squared);
  r.returns(old);
  // Groups: product, product, sum. Temporaries: the new a (16 tiles) and the second product (16), which the output
  // cannot reuse, since it has memory of its own.
  expect(
      plan_hbm(OnTpu(r.program).device(), {}),
      {.arguments = 16 * kTile, .outputs = 32 * kTile, .aliased = 16 * kTile, .temporaries = 32 * kTile, .groups = 3});
}

// 5. bf16 (6291456, 4) × (4, 4), summed over its rows. As a result it is padded from 4 to 128 columns: 1.5 GiB instead
// of 48 MiB. As an argument, PyTorch/XLA makes the long axis most minor: 48 MiB. The (4, 4) operand takes 4 rows of
// 128, the result (4) a tile of 256 bf16.
TEST(TpuHbm, NarrowLastAxisIsPadded) {
  Recording r;
  const Value x = r.batch({6291456, 4}, DType::kBf16), w = r.state({4, 4}, DType::kBf16);
  const int64_t axes[] = {0};
  r.returns(ops::sum(ops::matmul(x, w), axes));
  const OnTpu graph(r.program);
  const int64_t arguments = 48 * kMiB + 4 * 128 * 2;
  const HbmPlan plan = plan_hbm(graph.device(), {});
  expect(plan, {.arguments = arguments, .outputs = 512, .aliased = 0, .temporaries = 1536 * kMiB, .groups = 2});
  EXPECT_EQ(plan.peak_bytes, 1536 * kMiB);
  EXPECT_EQ(plan.peak_unpadded, 48 * kMiB);
  EXPECT_EQ(plan.arguments_unpadded, 48 * kMiB + 4 * 4 * 2);
  const TensorBytes tensors = tensors_at_peak(plan);
  EXPECT_EQ(tensors.unpadded, 48 * kMiB + 4 * 4 * 2 + 48 * kMiB + 4 * 2);
  EXPECT_EQ(tensors.padded, arguments + 1536 * kMiB + 512);
  const std::vector<HbmBuffer> largest = largest_at_peak(plan, 2);
  ASSERT_EQ(largest.size(), 2U);
  EXPECT_DOUBLE_EQ(expansion(largest[0].tensor.type, largest[0].tensor.layout), 32);
  EXPECT_EQ(largest[0].allocation, Allocation::kTemporary);
  EXPECT_EQ(largest[1].allocation, Allocation::kArgument);
  // Its size in the better axis order.
  EXPECT_EQ(tightest_layout(largest[0].tensor.type).bytes, 48 * kMiB);
}

// 6. A flat state of (1024, 784) and (10): 1024 rows of 896 columns and a tile of 128, not a vector of 802,826
// elements.
TEST(TpuHbm, FlatStatesArePaddedTensorByTensor) {
  Recording r;
  const Value p = r.state({802826}), m = r.state({802826});
  r.updates(0, ops::sub(p, m));
  r.updates(1, ops::mul(m, m));
  const std::vector<TensorType> tensors{{DType::kF32, Shape{1024, 784}}, {DType::kF32, Shape{10}}};
  const int64_t one = 1024 * 896 * 4 + 128 * 4;
  expect(plan_hbm(OnTpu(r.program, {tensors, tensors}).device(), {}),
         {.arguments = 2 * one, .outputs = 2 * one, .aliased = 2 * one, .temporaries = 0, .groups = 2});
  // Without information about its tensors, a flat array is a vector: 785 tiles of 1,024.
  EXPECT_EQ(plan_hbm(OnTpu(r.program).device(), {}).arguments, 2 * 785 * 1024 * 4);
}

// 7. Gradients of (128, 64) and (10, 128), concatenated into a flat array and divided by its norm. The concatenated
// array is not a tensor of its own; the tensors are the two products, each padded separately, and the parts of the flat
// state that the division replaces.
TEST(TpuHbm, ConcatenatedGradientsAreTheTensorsOfTheirParts) {
  Recording r;
  const Value p = r.state({8192 + 1280});
  const Value x = r.batch({32, 64}), h = r.batch({32, 128}), g = r.batch({32, 10});
  const Value parts[] = {ops::flatten(ops::matmul(h, x, true)), ops::flatten(ops::matmul(g, h, true))};
  const Value flat = ops::concat(parts, 0);
  const Value norm = ops::sum(ops::mul(flat, flat));
  r.updates(0, ops::sub(p, ops::div(flat, ops::expand(norm, flat.shape()))));
  const std::vector<TensorType> tensors{{DType::kF32, Shape{128, 64}}, {DType::kF32, Shape{10, 128}}};
  // Arguments: (128, 64) is laid out as (64, 128), sorted by size: 64 · 128; (10, 128) has a padding factor of 1.6 and
  // is sorted too, to the same order: 16 · 128; x (32, 64) pads 64 to 128, a factor of 2, and is sorted to the same
  // order: 32 · 128; h 32 · 128; g (32, 10) is sorted to (10, 32): 16 · 128.
  const int64_t arguments = (64 * 128 + 16 * 128 + 32 * 128 + 32 * 128 + 16 * 128) * 4;
  const int64_t state = (64 * 128 + 16 * 128) * 4;
  // Temporaries: the products (128, 64) -> 128 · 128 and (10, 128) -> 16 · 128, their squares, and the sum, a scalar of
  // 128 · 4. The squares die with the sum, so the step that sums, in which all three are live, is the peak.
  const int64_t products = (128 * 128 + 16 * 128) * 4;
  expect(plan_hbm(OnTpu(r.program, {tensors}).device(), {}),
         {.arguments = arguments, .outputs = state, .aliased = state, .temporaries = 2 * products + 512, .groups = 5});
}

// 8. Gradients accumulated in a flat state, with a product of (16, 36) for a weight of (16, 4, 3, 3): the sum has the
// shapes of the state and is stored in it, whichever operand comes first.
TEST(TpuHbm, AccumulatedGradientsHaveTheShapesOfTheirState) {
  for (const bool state_first : {true, false}) {
    Recording r;
    const Value g = r.state({576 + 16});
    const Value x = r.batch({32, 36}), y = r.batch({32, 16}), bias = r.batch({16});
    const Value parts[] = {ops::flatten(ops::matmul(y, x, true)), bias};
    const Value now = ops::concat(parts, 0);
    r.updates(0, state_first ? ops::add(g, now) : ops::add(now, g));
    const std::vector<TensorType> tensors{{DType::kF32, Shape{16, 4, 3, 3}}, {DType::kF32, Shape{16}}};
    // (16, 4, 3, 3) sorted by size: 16 -> 128 columns, 4 rows, 9 times; (16) takes a tile of 128.
    const int64_t state = 9 * 4 * 128 * 4 + 128 * 4;
    // x (32, 36) with the 36 most minor: 32 · 128; y (32, 16) with the 32 most minor: 16 · 128; the bias 128.
    const int64_t arguments = state + (32 * 128 + 16 * 128 + 128) * 4;
    // Only the product is temporary: 16 · 128.
    expect(plan_hbm(OnTpu(r.program, {tensors}).device(), {}),
           {.arguments = arguments, .outputs = state, .aliased = state, .temporaries = 16 * 128 * 4, .groups = 2});
  }
}

// 9. mixed_precision: bf16 halves f32 tensors; labels stay s64, stored as two arrays of 32 bits.
TEST(TpuHbm, DeviceTypes) {
  Recording r;
  const Value logits = r.batch({64, 256}), labels = r.batch({64}, DType::kI64);
  r.returns(ops::cross_entropy(ops::exp(logits), labels));
  const int64_t label_bytes = 128 * 8;
  expect(plan_hbm(OnTpu(r.program).device(), {}),
         {.arguments = 16 * kTile + label_bytes, .outputs = 512, .aliased = 0, .temporaries = 16 * kTile, .groups = 2});
  expect(plan_hbm(OnTpu(r.program, {}, kBf16Types).device(), {}), {.arguments = 8 * kTile + label_bytes,
                                                                   .outputs = 512,  // 256 of bf16
                                                                   .aliased = 0,
                                                                   .temporaries = 8 * kTile,
                                                                   .groups = 2});
}

// 10. A cast between types that are equal on the device is not a copy: w f32 is bf16 there, and the product reads it
// directly.
TEST(TpuHbm, CastsBetweenEqualDeviceTypesAreFree) {
  Recording r;
  const Value x = r.batch({16, 128}, DType::kBf16), w = r.state({128, 128});
  r.returns(ops::matmul(x, ops::cast(w, DType::kBf16)));
  expect(plan_hbm(OnTpu(r.program).device(), {}), {.arguments = 16 * 128 * 2 + 16 * kTile,
                                                   .outputs = 16 * 128 * 2,
                                                   .aliased = 0,
                                                   .temporaries = 8 * kTile,
                                                   .groups = 2});
  const HbmPlan bf16 = plan_hbm(OnTpu(r.program, {}, kBf16Types).device(), {});
  EXPECT_EQ(bf16.arguments, 16 * 128 * 2 + 8 * kTile);
  EXPECT_EQ(bf16.temporaries, 0);
}

// 11. Two states that are swapped: the old b is copied; a is copied directly into b, then the copy of b into a.
TEST(TpuHbm, SwappedStates) {
  Recording r;
  const Value a = r.state({8, 128}), b = r.state({8, 128});
  r.updates(0, b);
  r.updates(1, a);
  expect(plan_hbm(OnTpu(r.program).device(), {}),
         {.arguments = 2 * kTile, .outputs = 2 * kTile, .aliased = 2 * kTile, .temporaries = kTile, .groups = 2});
}

// 12. Values kept for backward determine the peak. x (256, 128) -> f (256, 512) -> relu -> (256, 128); the derivative
// needs f > 0, one byte per element.
TEST(TpuHbm, ValuesKeptForBackward) {
  Recording r;
  const Value x = r.batch({256, 128}), w = r.state({128, 512}), v = r.state({512, 128});
  const Value f = ops::relu(ops::matmul(x, w));
  const Value mask = ops::gt(f, 0.0);
  const Value y = ops::matmul(f, v);
  const Value back = ops::matmul(y, v, false, true);
  r.returns(ops::where(mask, back, ops::full_like(back, 0)));
  // Live at the relu: the product (reused by relu) and the mask: 256 · 512 · (4 + 1). Live at the last step: back and
  // the mask; the output is elsewhere. The peak is in between, while f × v runs: f, mask, y.
  const int64_t f_bytes = 256 * 512 * 4, mask_bytes = 256 * 512, y_bytes = 256 * 128 * 4;
  expect(plan_hbm(OnTpu(r.program).device(), {}), {.arguments = y_bytes + 2 * 128 * 512 * 4,
                                                   .outputs = f_bytes,
                                                   .aliased = 0,
                                                   .temporaries = f_bytes + mask_bytes + y_bytes,
                                                   .groups = 5});
}

TEST(TpuHbm, FitsUpToTheLimit) {
  Recording r;
  const Value x = r.batch({int64_t{4} << 20, 1024}, DType::kBf16);  // 8 GiB
  r.returns(ops::sum(x));
  const OnTpu graph(r.program);
  EXPECT_FALSE(plan_hbm(graph.device(), {.generation = Generation::kV2}).fits());
  EXPECT_TRUE(plan_hbm(graph.device(), {.generation = Generation::kV3}).fits());
  EXPECT_EQ(plan_hbm(graph.device(), {.generation = Generation::kV2}).usable(), 7662 * kMiB);
}

// ---- properties ----------------------------------------------------------------------------------------------------

constexpr int kSteps = 24, kPrograms = 2000;

// Lower bound of the memory after each group: every computed value, once, that a later group or only the caller reads.
// Views and concats have no bytes of their own but keep their operands alive. Vectors count without padding.
class LiveSum {
 public:
  explicit LiveSum(const OnTpu& graph) : program_(graph.program()), groups_(graph.groups()) {
    for (size_t g = 0; g < groups_.size(); ++g) {
      for (const ValueId id : groups_[g].results) written_[id] = static_cast<int>(g);
      for (const ValueId id : groups_[g].operands)
        if (!is_join(groups_[g].nodes[0]))
          for (const ValueId root : roots(id)) read_[root] = static_cast<int>(g);
    }
  }

  int64_t after(int step) const {
    int64_t bytes = 0;
    for (const auto& [id, written] : written_)
      if (written <= step && read_.contains(id) && read_.at(id) > step && !leaves(id)) bytes += size(id);
    return bytes;
  }

 private:
  // A concat of vectors; one that uses a value twice is a copy.
  bool is_join(ValueId id) const {
    if (program_.node(id).op != Op::kConcat || program_.type(id).shape.rank() != 1) return false;
    const std::vector<ValueId> all = roots_of_operands(id);
    return std::set<ValueId>(all.begin(), all.end()).size() == all.size();
  }
  std::vector<ValueId> roots(ValueId id) const {
    if (program_.type(id).shape.elements() == 0) return {};
    if (is_view(program_, id) || program_.node(id).op == Op::kDetach) return roots(program_.operands(id)[0]);
    return is_join(id) ? roots_of_operands(id) : std::vector{id};
  }
  std::vector<ValueId> roots_of_operands(ValueId id) const {
    std::vector<ValueId> all;
    for (const ValueId part : program_.operands(id))
      for (const ValueId root : roots(part)) all.push_back(root);
    return all;
  }
  // Outputs, and the values they consist of, need not be in temporary memory.
  bool leaves(ValueId id) const {
    for (const Output& output : program_.outputs())
      for (const ValueId root : roots(output.value))
        if (root == id) return true;
    return false;
  }
  int64_t size(ValueId id) const {
    if (is_join(id) || program_.node(id).op == Op::kDetach) return 0;
    const TensorType& type = program_.type(id);
    return type.shape.rank() == 1 ? static_cast<int64_t>(type.bytes()) : row_major_layout(type).bytes;
  }

  const Program& program_;
  const std::vector<Group>& groups_;
  std::map<ValueId, int> written_, read_;
};

std::string overlap(const HbmPlan& plan) {
  for (const HbmBuffer& a : plan.buffers)
    for (const HbmBuffer& b : plan.buffers) {
      if (&a == &b || a.block < 0 || b.block < 0 || a.padded() == 0 || b.padded() == 0) continue;
      const bool together = a.first <= b.last && b.first <= a.last;
      const bool share = a.offset < b.offset + b.padded() && b.offset < a.offset + a.padded();
      if (together && share) return fmt::format("%{} and %{} overlap", a.tensor.value, b.tensor.value);
      if (a.offset + a.padded() > plan.temporaries) return fmt::format("%{} is outside", a.tensor.value);
    }
  return "";
}

TEST(TpuHbm, RandomProgramsKeepTheirProperties) {
  int64_t temporaries = 0, shared = 0;
  for (uint32_t seed = 1; seed <= kPrograms; ++seed) {
    const OnTpu graph(runner::backends::testing::RandomProgram(seed, kSteps).program);
    const HbmPlan plan = plan_hbm(graph.device(), {});
    const LiveSum live(graph);
    const std::string text = fmt::format("seed {}\n{}", seed, to_string(graph.program()));
    ASSERT_EQ(overlap(plan), "") << text;
    for (int step = 0; step < static_cast<int>(graph.groups().size()); ++step)
      ASSERT_GE(plan.temporaries, live.after(step)) << text << "\nstep " << step;
    ASSERT_GE(plan.used(), plan.arguments);
    ASSERT_GE(plan.outputs, plan.aliased);
    ASSERT_GE(plan.temporaries, plan.peak_bytes);
    ASSERT_GE(plan.peak_bytes, plan.peak_unpadded);
    ASSERT_GE(plan_hbm(graph.device(), {.donate = false}).peak(), plan.peak()) << text;
    temporaries += plan.temporaries;
    std::set<int> blocks;
    for (const HbmBuffer& buffer : plan.buffers) shared += buffer.block >= 0 && !blocks.insert(buffer.block).second;
  }
  EXPECT_GT(temporaries, 0);
  EXPECT_GT(shared, kPrograms / 10);
}

TEST(TpuHeap, UsesTheSmallestGapThatFits) {
  std::vector<HeapBlock> blocks{{100, 0, 9}, {60, 0, 4}, {50, 0, 9}, {40, 0, 4}, {36, 0, 9}, {35, 5, 9}};
  EXPECT_EQ(pack_best_fit(blocks), 286);
  std::vector<int64_t> offsets;
  for (const HeapBlock& block : blocks) offsets.push_back(block.offset);
  // 100 | 60 | 50 | 40 | 36: from step 5 on there are gaps of 60 and 40, and 35 is placed in the gap of 40.
  EXPECT_EQ(offsets, (std::vector<int64_t>{0, 100, 160, 210, 250, 210}));
  const Peak peak = peak_step(blocks, 10);
  EXPECT_EQ(peak.step, 0);
  EXPECT_EQ(peak.bytes, 286);
}

TEST(TpuHeap, RandomBlocksNeverOverlap) {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    std::vector<HeapBlock> blocks(1 + random() % 40);
    for (HeapBlock& block : blocks) {
      block.bytes = static_cast<int64_t>(random() % 1000);
      block.first = static_cast<int>(random() % 20);
      block.last = block.first + static_cast<int>(random() % 10);
    }
    const int64_t total = pack_best_fit(blocks);
    for (const HeapBlock& a : blocks)
      for (const HeapBlock& b : blocks)
        EXPECT_TRUE(&a == &b || a.first > b.last || b.first > a.last || a.offset >= b.offset + b.bytes ||
                    b.offset >= a.offset + a.bytes || a.bytes == 0 || b.bytes == 0);
    int64_t most = 0;
    for (int step = 0; step < 30; ++step) {
      int64_t live = 0;
      for (const HeapBlock& block : blocks) live += block.first <= step && step <= block.last ? block.bytes : 0;
      most = std::max(most, live);
    }
    EXPECT_EQ(peak_step(blocks, 30).bytes, most);
    EXPECT_GE(total, most);
  }
}

}  // namespace
}  // namespace runner::backends::tpu::testing
