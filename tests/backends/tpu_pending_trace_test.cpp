// Several traced batches as one graph.
#include <gtest/gtest.h>

#include "backends/ir/needed.h"
#include "backends/ir/ops.h"
#include "backends/tpu/pending_trace.h"

namespace runner::backends::tpu {
namespace {

const TensorType kVector{DType::kF32, Shape{4}};

// w' = w · batch, and the former w; `loss`: Σ w'.
GraphIdentity step(double rate, std::vector<int32_t> absent = {}) {
  Program program;
  const Value weights{&program, program.input(InputKind::kState, "w", kVector)};
  const Value former{&program, program.input(InputKind::kState, "former", kVector)};
  const Value batch{&program, program.input(InputKind::kBatch, "batch", kVector)};
  const Value product = ops::mul(weights, batch);
  program.output("loss", ops::sum(product).id);
  program.output("w", product.id, 0);
  program.output("former", ops::add(former, weights).id, 1);
  const std::vector<TracedScalar> scalars{{ScalarUse::kOperand, rate}};
  return {std::make_shared<const Program>(std::move(program)), scalars, signature_of(scalars), std::move(absent)};
}

// Σ w, or Σ batch.
GraphIdentity reading(bool of_weights) {
  Program program;
  const Value weights{&program, program.input(InputKind::kState, "w", kVector)};
  program.input(InputKind::kState, "former", kVector);
  const Value batch{&program, program.input(InputKind::kBatch, "batch", kVector)};
  program.output("item", ops::sum(of_weights ? weights : batch).id);
  return {std::make_shared<const Program>(std::move(program)), {}, {}, {}};
}

TEST(PendingTrace, ContinuesFromTheStatesOfEarlierParts) {
  PendingTrace pending;
  pending.add(step(0.5));
  pending.add(step(0.25));
  const GraphIdentity whole = pending.take();
  EXPECT_TRUE(pending.empty());
  const Program& program = *whole.program;
  ASSERT_EQ(program.inputs().size(), 4u);   // w, former, and one batch per part
  ASSERT_EQ(program.outputs().size(), 4u);  // one loss per part, and each state once
  EXPECT_EQ(program.outputs()[2].state, 0);
  EXPECT_EQ(program.outputs()[3].state, 1);
  // The second batch is multiplied by the product of the first.
  const ValueId second = program.outputs()[2].value;
  const ValueId first = program.operands(second)[0];
  EXPECT_EQ(program.operands(first)[0], program.inputs()[0].value);
  EXPECT_EQ(program.operands(second)[1], program.inputs()[3].value);
  EXPECT_EQ(whole.scalars.size(), 2u);
  EXPECT_EQ(whole.signature, signature_of(whole.scalars));
}

TEST(PendingTrace, OfOnePartEqualsThePartWithStatesLast) {
  PendingTrace pending;
  pending.add(step(0.5, {1}));
  const GraphIdentity whole = pending.take(), part = step(0.5, {1});
  EXPECT_EQ(whole.absent, part.absent);
  EXPECT_TRUE(whole.program->same_structure(*part.program));
}

TEST(PendingTrace, CreatesAbsentStatesOnce) {
  PendingTrace pending;
  pending.add(step(0.5, {1}));
  pending.add(step(0.5));
  EXPECT_EQ(pending.take().absent, std::vector<int32_t>{1});
}

TEST(PendingTrace, EqualPartsGiveEqualGraphs) {
  PendingTrace one, other, longer;
  for (PendingTrace* pending : {&one, &other, &longer}) pending->add(step(0.5));
  for (PendingTrace* pending : {&one, &other, &longer}) pending->add(step(0.25));
  longer.add(step(0.25));
  const GraphIdentity whole = one.take();
  EXPECT_EQ(whole.program->hash(), other.take().program->hash());
  EXPECT_FALSE(whole.program->hash() == longer.take().program->hash());
}

TEST(PendingTrace, AReadIncludesTheOpsThatItNeeds) {
  PendingTrace pending;
  pending.add(step(0.5));
  const GraphIdentity of_batch = pending.read(reading(/*of_weights=*/false));
  EXPECT_TRUE(of_batch.program->same_structure(*reading(false).program));
  const GraphIdentity of_weights = pending.read(reading(/*of_weights=*/true));
  ASSERT_EQ(of_weights.program->outputs().size(), 1u);
  EXPECT_EQ(states_read(*of_weights.program), std::vector<int32_t>{0});  // not `former`
  EXPECT_EQ(of_weights.scalars.size(), 1u);
  EXPECT_FALSE(pending.empty());  // the trace continues
  EXPECT_EQ(pending.take().program->outputs().size(), 3u);
}

}  // namespace
}  // namespace runner::backends::tpu
