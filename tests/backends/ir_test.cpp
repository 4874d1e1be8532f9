// Text of every stage of some small Programs, compared with ir/NAME.txt.
//
// RUNNER_UPDATE=1 writes the files; review the change as a diff.
#include <fstream>

#include <gtest/gtest.h>

#include "backends/exec/plan.h"
#include "backends/ir/passes/passes.h"
#include "backends/ir/print.h"
#include "tests/backends/support/mlp_step.h"
#include "tests/backends/support/run_program.h"
#include "tests/support/expected_text.h"
#include "tests/support/paths.h"

namespace runner::backends::testing {
namespace {

struct Builder {
  Program program;

  Value state(const char* name, const Shape& shape, DType dtype = DType::kF32) {
    return {&program, program.input(InputKind::kState, name, {dtype, shape})};
  }
  Value batch(const char* name, const Shape& shape, DType dtype = DType::kF32) {
    return {&program, program.input(InputKind::kBatch, name, {dtype, shape})};
  }
  Value scalar(const char* name) { return {&program, program.input(InputKind::kScalar, name, {})}; }
  void give(const char* name, Value value, int32_t state = -1) { program.output(name, value.id, state); }
};

// Folds arithmetic on constants, ×1, /1, −0, nested layout ops and known conditions.
Program folding() {
  Builder b;
  const Value x = b.batch("x", {2, 3});
  const Value two = ops::add(scalar(b.program, 0.5), 1.5);
  Value y = ops::mul(ops::div(ops::sub(ops::mul(x, 1.0), 0.0), 1.0), two);
  y = ops::reshape(ops::reshape(y, {3, 2}), {6});
  const Value yes = ops::full_like(ops::is_finite(y), 1.0);
  b.give("y", ops::where(yes, y, ops::exp(y)));
  return std::move(b.program);
}

// exp(x) is recorded three times and computed once.
Program common_nodes() {
  Builder b;
  const Value x = b.batch("x", {4});
  const Value sum = ops::add(ops::exp(x), ops::exp(x));
  b.give("y", ops::mul(sum, ops::exp(x)));
  return std::move(b.program);
}

// a and c could be one group, but for the product between them.
Program product_between() {
  Builder b;
  const Value x = b.batch("x", {4, 4}), w = b.state("w", {4, 4});
  const Value a = ops::tanh(x);
  const Value product = ops::matmul(a, w);
  b.give("c", ops::mul(ops::add(product, 1.0), a));
  return std::move(b.program);
}

// The mask is computed after gelu(x) and before their product: gelu moves after the mask, into one group with the
// product.
Program dropout() {
  Builder b;
  const Value x = b.batch("x", {2, 3}), key = b.batch("key", {2}, DType::kI64);
  const Value samples = b.batch("samples", {2}, DType::kI64);
  const Value active = ops::gelu(x);
  b.give("y", ops::mul(active, ops::dropout_mask(key, samples, x.shape(), 0, 0.5)));
  return std::move(b.program);
}

// The bias is read through its expand, by strides.
Program bias_and_activation() {
  Builder b;
  const Value x = b.batch("x", {8, 4}), w = b.state("w", {3, 4}), bias = b.state("b", {3});
  b.give("y", ops::gelu(ops::add(ops::matmul(x, w, false, true), bias)));
  return std::move(b.program);
}

// Two sums, each with one half of the state; the first sum uses the elements from `first` on.
Program halves_added(int64_t first) {
  Builder b;
  const Value sum = b.state("sum", {6}), x = b.batch("x", {2, 3});
  const auto half = [&](int64_t begin) { return ops::slice(sum, 0, begin, begin + 3); };
  const std::vector<int64_t> rows{0};
  const Value sums[] = {ops::add(half(first), ops::sum(x, rows)), ops::add(half(3 - first), ops::reduce_max(x, rows))};
  b.give("sum", ops::concat(sums, 0), 0);
  return std::move(b.program);
}

// Each half is added in place in the state, like gradient accumulation: no concat and no copy.
Program parts_added_to_a_state() {
  return halves_added(0);
}

// The halves are swapped: what the first sum overwrites is read later.
Program parts_of_a_state_swapped() {
  return halves_added(3);
}

// Both parts are written directly into the state after its old contents are read: no concat and no copy.
Program concat_into_state() {
  Builder b;
  const Value old = b.state("sum", {6}), x = b.batch("x", {2, 3});
  const Value first = ops::slice(old, 0, 0, 1);
  const Value columns[] = {ops::sum(x, std::vector<int64_t>{0}), ops::reduce_max(x, std::vector<int64_t>{0})};
  b.give("first", first);
  b.give("sum", ops::concat(columns, 0), 0);
  return std::move(b.program);
}

// Each state gets the other's contents: one goes through the arena.
Program state_swap() {
  Builder b;
  const Value p = b.state("p", {4}), q = b.state("q", {4});
  b.give("p", q, 0);
  b.give("q", p, 1);
  return std::move(b.program);
}

// p is updated in place; m is read by the last product, so its new value is copied at the end.
Program late_read_of_a_state() {
  Builder b;
  const Value p = b.state("p", {2, 2}), m = b.state("m", {2, 2}), g = b.batch("g", {2, 2});
  const Value now = ops::add(ops::mul(m, 0.9), g);
  b.give("m", now, 1);
  b.give("p", ops::sub(p, ops::mul(now, 0.1)), 0);
  b.give("y", ops::matmul(ops::add(now, 1.0), m));
  return std::move(b.program);
}

// Outputs that are inputs, views of inputs, constants, or duplicates are copied or shared.
Program plain_outputs() {
  Builder b;
  const Value x = b.batch("x", {2, 3}), s = b.state("s", {3});
  b.give("x", x);
  b.give("row", ops::slice(x, 0, 1, 2));
  b.give("one", scalar(b.program, 1.0));
  const Value y = ops::neg(s);
  b.give("y", y);
  b.give("s", y, 1);
  return std::move(b.program);
}

Program bf16_linear() {
  Builder b;
  const Value x = b.batch("x", {8, 4}), w = b.state("w", {3, 4});
  const Value product = ops::matmul(ops::cast(x, DType::kBf16), ops::cast(w, DType::kBf16), false, true);
  const Value y = ops::relu(ops::cast(product, DType::kF32));
  const Value wrt[] = {w};
  b.give("dw", differentiate(y, ops::full_like(y, 1.0), wrt)[0]);
  return std::move(b.program);
}

Program tied_embedding() {
  Builder b;
  const Value table = b.state("table", {5, 4}), ids = b.batch("ids", {3}, DType::kI64);
  const Value labels = b.batch("labels", {3}, DType::kI64), rate = b.scalar("rate");
  const Value losses = ops::cross_entropy(ops::matmul(ops::embedding(table, ids), table, false, true), labels);
  const Value wrt[] = {table};
  const Value grad = differentiate(losses, ops::full_like(losses, 1.0), wrt)[0];
  b.give("table", ops::sub(table, ops::mul(grad, rate)), 0);
  return std::move(b.program);
}

Program softmax_and_norm() {
  Builder b;
  const Value x = b.batch("x", {2, 3, 4}), gamma = b.state("gamma", {4}), beta = b.state("beta", {4});
  const Value y = ops::softmax(ops::layer_norm(x, gamma, beta), 1);
  const Value wrt[] = {x, gamma, beta};
  for (const Value grad : differentiate(y, y, wrt)) b.give("d", grad);
  return std::move(b.program);
}

Program mlp_step() {
  return MlpStep({.batch = 8, .widths = {4, 16, 3}}).program();
}

// Uses the reference kernels, whose names and scratch sizes are the same on every machine.
std::string stages(const Program& recorded) {
  std::string text, last;
  const auto add = [&](const char* stage, const std::string& now) {
    text += fmt::format("== {}\n{}\n", stage, now == last ? "(the same)\n" : now);
    last = now;
  };
  add("recorded", to_string(recorded));
  const Program folded = fold(recorded);
  add("fold", to_string(folded));
  const Program merged = cse(folded);
  add("cse", to_string(merged));
  const Program live = dce(merged);
  add("dce", to_string(live));
  const Program legal = legalise(live);
  add("legalise", to_string(legal));
  add("groups", to_string(legal, make_groups(legal)));
  add("plan", to_string(build_plan(recorded, {.kernels = kReferenceKernels})));
  return text;
}

struct Case {
  const char* name;
  Program (*build)();
};

class Ir : public ::testing::TestWithParam<Case> {};

TEST_P(Ir, StagesMatchTheRecordedText) {
  const std::string path = fmt::format("{}/tests/backends/ir/{}.txt", support::source_path(), GetParam().name);
  const std::string now = stages(GetParam().build());
  if (support::should_update()) std::ofstream(path) << now;
  std::ifstream file(path);
  EXPECT_EQ(now, std::string((std::istreambuf_iterator<char>(file)), {})) << path;
}

#define RUNNER_IR_CASE(name) \
  Case {                     \
#name, name              \
  }
INSTANTIATE_TEST_SUITE_P(Programs, Ir,
                         ::testing::Values(RUNNER_IR_CASE(folding), RUNNER_IR_CASE(common_nodes),
                                           RUNNER_IR_CASE(product_between), RUNNER_IR_CASE(dropout),
                                           RUNNER_IR_CASE(bias_and_activation), RUNNER_IR_CASE(concat_into_state),
                                           RUNNER_IR_CASE(parts_added_to_a_state),
                                           RUNNER_IR_CASE(parts_of_a_state_swapped), RUNNER_IR_CASE(state_swap),
                                           RUNNER_IR_CASE(late_read_of_a_state), RUNNER_IR_CASE(plain_outputs),
                                           RUNNER_IR_CASE(bf16_linear), RUNNER_IR_CASE(tied_embedding),
                                           RUNNER_IR_CASE(softmax_and_norm), RUNNER_IR_CASE(mlp_step)),
                         [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace runner::backends::testing
