// Derivatives of whole models against finite differences, and guarantees of differentiate() beyond single ops.
#include "backends/ir/autograd.h"

#include <array>
#include <limits>

#include <gtest/gtest.h>

#include "backends/exec/cpu_device.h"
#include "backends/exec/plan.h"
#include "backends/ir/print.h"
#include "tests/backends/support/gpt_step.h"
#include "tests/backends/support/run_program.h"

namespace runner::backends::testing {
namespace {

// A function of f64 inputs under construction; its sum is differentiated.
struct Model {
  Program program;
  std::vector<Value> parameters;
  Inputs inputs;

  Value parameter(const Shape& shape, uint32_t seed = 0) {
    std::mt19937 random(seed + static_cast<uint32_t>(parameters.size()) * 31 + 1);
    inputs.push_back(random_tensor({DType::kF64, shape}, random));
    parameters.push_back({&program, program.input(InputKind::kBatch, "p", inputs.back().type)});
    return parameters.back();
  }
  Value integers(const Shape& shape, std::vector<double> values) {
    inputs.emplace_back(TensorType{DType::kI64, shape}, values);
    return {&program, program.input(InputKind::kBatch, "i", inputs.back().type)};
  }
};

// Checks the derivative of Σ root with respect to every element by a formula with error h⁴.
void check_gradients(Model& model, Value root) {
  const Value sum = ops::sum(root);
  model.program.output("sum", sum.id);
  const std::vector<Value> grads = differentiate(sum, ops::full_like(sum, 1.0), model.parameters);
  for (const Value grad : grads) {
    ASSERT_TRUE(grad);
    model.program.output("gradient", grad.id);
  }
  const auto device = make_cpu_device(1);
  Session session(*device, model.program, model.inputs);
  const auto sum_at = [&](size_t input, int64_t element, double step) {
    HostTensor moved = model.inputs[input];
    moved.set(element, moved[element] + step);
    session.set_input(input, moved);
    session.submit();
    const double value = session.output(0)[0];
    session.set_input(input, model.inputs[input]);
    return value;
  };
  session.submit();
  std::vector<HostTensor> gradients;
  for (size_t p = 0; p < grads.size(); ++p) gradients.push_back(session.output(p + 1));
  for (size_t p = 0; p < grads.size(); ++p) {
    const auto input = static_cast<size_t>(model.program.attrs(model.parameters[p].id)[1]);
    for (int64_t i = 0; i < gradients[p].size(); ++i) {
      constexpr double h = 1e-3;
      const double slope =
          (8 * (sum_at(input, i, h) - sum_at(input, i, -h)) - (sum_at(input, i, 2 * h) - sum_at(input, i, -2 * h))) /
          (12 * h);
      ASSERT_NEAR(gradients[p][i], slope, 1e-7 * std::max(1.0, std::fabs(slope))) << "parameter " << p << " at " << i;
    }
  }
}

TEST(Autograd, Mlp) {
  Model m;
  const Value x = m.parameter({3, 4}), w1 = m.parameter({5, 4}), b1 = m.parameter({5});
  const Value w2 = m.parameter({2, 5}), b2 = m.parameter({2});
  const Value hidden = ops::tanh(ops::add(ops::matmul(x, w1, false, true), b1));
  const Value logits = ops::add(ops::matmul(hidden, w2, false, true), b2);
  check_gradients(
      m, ops::cross_entropy(logits, m.integers({3}, {0, 1, 1}), {.label_smoothing = 0.1, .class_weights = {}}));
}

TEST(Autograd, AttentionBlock) {
  Model m;
  const int64_t tokens = 3, heads = 2, head = 2, width = heads * head;
  const Value x = m.parameter({2, tokens, width}), w = m.parameter({3 * width, width});
  const Value gamma = m.parameter({width}), beta = m.parameter({width});
  const Value qkv = ops::matmul(ops::layer_norm(x, gamma, beta), w, false, true);
  const auto part = [&](int64_t i) {
    const Value own = ops::slice(qkv, 2, i * width, (i + 1) * width);
    return ops::transpose(ops::reshape(own, {2, tokens, heads, head}), 1, 2);
  };
  const Value weights = ops::softmax(ops::mul(ops::matmul(part(0), part(1), false, true), 0.7));
  const Value mixed = ops::reshape(ops::transpose(ops::matmul(weights, part(2)), 1, 2), {2, tokens, width});
  const Value both[] = {x, mixed};
  check_gradients(m, ops::gelu(ops::concat(both, 2)));
}

TEST(Autograd, EmbeddingTiedToTheOutput) {
  Model m;
  const Value table = m.parameter({5, 3});
  const Value ids = m.integers({4}, {0, 2, 2, 4});  // one row is used twice, some are unused
  check_gradients(m, ops::log_softmax(ops::matmul(ops::tanh(ops::embedding(table, ids)), table, false, true)));
}

TEST(Autograd, ValuesWithManyUses) {
  Model m;
  const Value x = m.parameter({2, 3}), y = m.parameter({3});
  const Value shared = ops::mul(x, y);
  Value sum = ops::add(shared, shared);
  sum = ops::add(sum, ops::mul(shared, ops::sigmoid(shared)));
  sum = ops::add(sum, ops::expand(ops::mean(shared), {2, 3}));
  sum = ops::add(sum, ops::slice(ops::pad(shared, 1, 1, 1), 1, 0, 3));
  check_gradients(m, ops::mul(sum, x));
}

TEST(Autograd, GatherScatterAndReductions) {
  Model m;
  const Value x = m.parameter({3, 4});
  const Value index = m.integers({3, 2}, {0, 3, 1, 1, 2, 0});
  const Value picked = ops::gather(x, 1, index);
  const Value spread = ops::scatter_add(ops::mul(x, 0.5), 1, index, ops::mul(picked, picked));
  check_gradients(m,
                  ops::div(ops::norm(spread, std::vector<int64_t>{1}), ops::add(ops::reduce_max(ops::mul(x, x)), 1.0)));
}

TEST(Autograd, IndexCopy) {
  Model m;
  const Value x = m.parameter({3, 4}), rows = m.parameter({3, 3});
  const Value copied = ops::index_copy(x, 1, m.integers({3}, {3, 1, 3}), rows);  // the last of equal indices counts
  check_gradients(m, ops::mul(copied, copied));
}

TEST(Autograd, GptParameters) {
  const GptStep step({.batch = 1, .length = 3, .width = 4, .heads = 2, .layers = 1, .vocabulary = 5});
  Program program = step.program();
  const Value losses{&program, step.losses().id};
  program.output("sum", ops::sum(losses).id);
  for (const Value grad : step.gradients()) program.output("gradient", grad.id);
  const std::vector<HostTensor> inputs = step.inputs(5);
  const auto device = make_cpu_device(1);
  Session session(*device, program, inputs);
  session.submit();
  const size_t first = program.outputs().size() - step.gradients().size();
  std::vector<double> gradient;  // the parameters are contiguous in state 0
  for (size_t i = 0; i < step.gradients().size(); ++i)
    for (const double value : session.output(first + i).values()) gradient.push_back(value);

  const auto loss_at = [&](int64_t element, double move) {
    std::vector<HostTensor> moved = inputs;
    moved[0].set(element, moved[0][element] + move);
    return run_program(*device, program, moved).outputs[1][0];
  };
  // In f32, so with large steps and few digits; op_cases_test checks single ops to many digits.
  ASSERT_EQ(static_cast<int64_t>(gradient.size()), inputs[0].size());
  for (int64_t i = 0; i < inputs[0].size(); i += 3) {
    const double slope = (loss_at(i, 0.02) - loss_at(i, -0.02)) / 0.04;
    EXPECT_NEAR(gradient[static_cast<size_t>(i)], slope, 2e-2 * std::max(0.1, std::fabs(slope))) << i;
  }
}

// ---- promises ------------------------------------------------------------------------------------------------------

// Σ g² of the gradients g of `root`, as in a gradient penalty.
Value penalty(Value root, std::span<const Value> wrt) {
  Value sum;
  for (const Value grad : differentiate(root, ops::full_like(root, 1.0), wrt)) {
    const Value squares = ops::sum(ops::mul(grad, grad));
    sum = sum ? ops::add(sum, squares) : squares;
  }
  return sum;
}

TEST(Autograd, GradientsOfLossesAndOfEmbeddingsCanBeDifferentiatedAgain) {
  for (const double smoothing : {0.0, 0.2}) {
    for (const bool weighted : {false, true}) {
      Model m;
      const Value x = m.parameter({4, 3}), w = m.parameter({5, 3}), b = m.parameter({5});
      const Value logits = ops::add(ops::matmul(x, w, false, true), b);
      ops::CrossEntropyOptions options{.ignore_index = 1, .label_smoothing = smoothing, .class_weights = {}};
      const HostTensor weights(TensorType{DType::kF64, {5}}, std::vector<double>{1, 2, 0.5, 0.25, 3});
      if (weighted) {
        m.inputs.push_back(weights);
        options.class_weights = {&m.program, m.program.input(InputKind::kBatch, "w", weights.type)};
      }
      const Value losses = ops::cross_entropy(logits, m.integers({4}, {0, 4, 1, 2}), options);
      check_gradients(m, penalty(ops::mul(losses, losses), std::array{x, w}));
    }
  }
  Model m;
  const Value table = m.parameter({5, 3});
  const Value rows = ops::tanh(ops::embedding(table, m.integers({4}, {0, 2, 2, 4})));
  check_gradients(m, penalty(ops::mul(rows, rows), std::array{table}));
}

TEST(Autograd, TheGradientOfLayerNormIsNotDifferentiatedInSilence) {
  Model m;
  const Value x = m.parameter({2, 3}), gamma = m.parameter({3}), beta = m.parameter({3});
  m.program.set_mark(SourceMark{"h.lua", 7, 0});
  const Value squares = penalty(ops::layer_norm(x, gamma, beta), std::array{x});
  try {
    differentiate(squares, ops::full_like(squares, 1.0), std::array{x});
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "h.lua:7: the gradient of layer_norm cannot be differentiated again");
  }
}

// Blocks of products and activations with dropout, and the gradients of their weights.
Program blocks_with_dropout(bool recomputes) {
  constexpr int64_t kBatch = 8, kWidth = 16;
  Program program;
  const auto input = [&](InputKind kind, const TensorType& type) {
    return Value{&program, program.input(kind, "x", type)};
  };
  Value x = input(InputKind::kBatch, {DType::kF32, {kBatch, kWidth}});
  const Value ids = input(InputKind::kBatch, {DType::kI64, {kBatch}}),
              key = input(InputKind::kBatch, {DType::kI64, {2}});
  std::vector<Value> weights;
  for (int i = 0; i < 12; ++i) weights.push_back(input(InputKind::kState, {DType::kF32, {kWidth, kWidth}}));
  for (size_t i = 0; i < weights.size(); ++i) {
    const ValueId first = program.size();
    const Value hidden = ops::tanh(ops::gelu(ops::matmul(x, weights[i], false, true)));
    const Value mask = ops::dropout_mask(key, ids, hidden.shape(), static_cast<int64_t>(i), 0.5);
    x = ops::add(x, ops::sigmoid(ops::mul(hidden, mask)));
    if (recomputes) program.recompute_from(first);
  }
  const Value loss = ops::sum(ops::mul(x, x));
  program.output("loss", loss.id);
  for (const Value grad : differentiate(loss, ops::full_like(loss, 1.0), weights)) program.output("gradient", grad.id);
  return program;
}

TEST(Recomputation, GivesTheSameBitsInLessMemory) {
  const Program kept = blocks_with_dropout(false), recomputed = blocks_with_dropout(true);
  std::mt19937 random(3);
  Inputs inputs;
  for (const Input& input : kept.inputs()) inputs.push_back(random_tensor(kept.type(input.value), random));
  for (const Fusion fusion : {Fusion::kAll, Fusion::kNone}) {
    const Plan all = build_plan(kept, {.fusion = fusion}), less = build_plan(recomputed, {.fusion = fusion});
    EXPECT_LT(less.arena_bytes, all.arena_bytes * 3 / 4);
    EXPECT_GT(less.flops, all.flops * 5 / 4);
  }
  const auto device = make_cpu_device(1);
  const auto results = [&](const Program& program) {
    Session session(*device, program, inputs);
    session.submit();
    std::vector<HostTensor> outputs;
    for (size_t i = 0; i < program.outputs().size(); ++i) outputs.push_back(session.output(i));
    return outputs;
  };
  EXPECT_EQ(results(kept), results(recomputed));
}

TEST(Recomputation, IsPartOfTheStructure) {
  const auto program = [](bool recomputes, bool early) {
    Program made;
    const Value x{&made, made.input(InputKind::kBatch, "x", {DType::kF32, {4}})};
    const ValueId first = made.size();
    const Value y = ops::exp(x);
    if (recomputes && early) made.recompute_from(first);
    ops::exp(y);
    if (recomputes && !early) made.recompute_from(first);
    return made;
  };
  const Program early = program(true, true), late = program(true, false), none = program(false, false);
  EXPECT_TRUE(early.same_structure(program(true, true)));
  EXPECT_EQ(early.hash(), program(true, true).hash());
  for (const auto& [a, b] : {std::pair{&early, &late}, {&early, &none}, {&late, &none}}) {
    EXPECT_FALSE(a->same_structure(*b));
    EXPECT_NE(a->hash(), b->hash());
  }
}

TEST(Autograd, UnreachedValuesHaveNoGradient) {
  Model m;
  const Value x = m.parameter({2}), unused = m.parameter({2});
  const Value counted = ops::cast(ops::argmax(x, 0), DType::kF64);  // argmax has no derivative
  const Value compared = ops::cast(ops::gt(x, 0.5), DType::kF64);   // nor has a comparison
  const Value signs = ops::sign(x);
  const Value y = ops::add(ops::mul(ops::mul(compared, signs), 2.0), counted);
  const Value later = ops::neg(y);
  const Value wrt[] = {x, unused, y, later};
  const std::vector<Value> grads = differentiate(y, ops::full_like(y, 1.0), wrt);
  EXPECT_FALSE(grads[0]);
  EXPECT_FALSE(grads[1]);
  EXPECT_EQ(grads[2].type(), y.type());  // gradient of itself: the seed
  EXPECT_FALSE(grads[3]);
}

TEST(Autograd, IndicesLabelsAndConditionsHaveNoGradient) {
  Model m;
  const Value table = m.parameter({3, 2}), ids = m.integers({2}, {0, 1});
  const Value rows = ops::embedding(table, ids);
  const Value losses = ops::where(ops::gt(rows, 0.0), rows, ops::neg(rows));
  const Value wrt[] = {ids, table};
  const std::vector<Value> grads = differentiate(losses, ops::full_like(losses, 1.0), wrt);
  EXPECT_FALSE(grads[0]);
  EXPECT_EQ(grads[1].type(), table.type());
}

TEST(Autograd, IntermediateValuesHaveGradientsToo) {
  Model m;
  const Value x = m.parameter({2});
  const Value square = ops::mul(x, x);
  const Value y = ops::exp(square);
  const Value wrt[] = {square, x};
  const std::vector<Value> grads = differentiate(y, ops::full_like(y, 3.0), wrt);
  for (const Value grad : grads) m.program.output("g", grad.id);
  const auto device = make_cpu_device(1);
  const Results results = run_program(*device, m.program, m.inputs);
  for (int64_t i = 0; i < 2; ++i) {
    const double at = m.inputs[0][i];
    EXPECT_NEAR(results.outputs[0][i], 3 * std::exp(at * at), 1e-12 * std::exp(at * at));
    EXPECT_NEAR(results.outputs[1][i], 6 * at * std::exp(at * at), 1e-11 * std::exp(at * at));
  }
}

TEST(Autograd, SecondDerivatives) {
  Model m;
  const Value x = m.parameter({3});
  const Value cube = ops::mul(ops::mul(x, x), x);
  const Value wrt[] = {x};
  const Value slope = differentiate(cube, ops::full_like(cube, 1.0), wrt)[0];
  check_gradients(m, ops::mul(slope, slope));  // d Σ (3x²)² = 36 x³
}

// Squares of large elements must not overflow where the derivative vanishes.
TEST(Autograd, SecondDerivativesOfActivationsVanishForLargeElements) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  WorkerPool pool(1);
  constexpr double kLarge[] = {40, -40, 300, -300, 60000, -60000, kInf, -kInf};
  for (const DType dtype : {DType::kF16, DType::kBf16, DType::kF32, DType::kF64})
    for (const auto activation : {ops::gelu, ops::gelu_tanh, ops::silu}) {
      Program program;
      const TensorType type{dtype, Shape{std::ssize(kLarge)}};
      const Value x{&program, program.input(InputKind::kBatch, "x", type)};
      const Value y = activation(x);
      const Value slope = differentiate(y, ops::full_like(y, 1.0), {&x, 1})[0];
      const Value curvature = differentiate(slope, ops::full_like(slope, 1.0), {&x, 1})[0];
      program.output("slope", slope.id);
      program.output("curvature", curvature.id);
      const HostTensor tensor(type, [&](int64_t i) { return kLarge[i]; });
      const Results results = run_plan_once(program, {tensor}, {}, pool);
      for (int64_t i = 0; i < std::ssize(kLarge); ++i) {
        EXPECT_NEAR(results.outputs[0][i], kLarge[i] > 0 ? 1 : 0, 1e-12) << y.type().to_string() << kLarge[i];
        EXPECT_NEAR(results.outputs[1][i], 0, 1e-12) << y.type().to_string() << kLarge[i];
      }
    }
}

TEST(Autograd, NodesHaveTheLineOfTheForwardOp) {
  Model m;
  m.program.set_mark({"model.lua", 1, 0});
  const Value x = m.parameter({2});
  m.program.set_mark({"model.lua", 2, 0});
  const Value y = ops::tanh(x);
  m.program.set_mark({"model.lua", 3, 0});
  const Value z = ops::exp(y);
  m.program.set_mark({"model.lua", 4, 0});
  const ValueId before = m.program.size();
  const Value seed = ops::full_like(z, 1.0);
  const Value wrt[] = {x};
  differentiate(z, seed, wrt);
  const Value after = ops::neg(x);
  std::vector<int> lines;
  for (ValueId id = before; id < m.program.size(); ++id) lines.push_back(m.program.mark_of(id).line);
  EXPECT_EQ(lines.front(), 4);
  EXPECT_EQ(lines[1], 3);                          // from exp: grad · exp(y)
  EXPECT_EQ(lines[2], 2);                          // from tanh
  EXPECT_EQ(m.program.mark_of(after.id).line, 4);  // the current line again
}

TEST(Autograd, ContributionsAreAddedInReverseOrder) {
  Model m;
  const Value x = m.parameter({2});
  const Value a = ops::mul(x, 2.0), b = ops::mul(x, 3.0), c = ops::mul(x, 5.0);
  const Value y = ops::add(ops::add(a, b), c);
  const ValueId before = m.program.size();
  const Value wrt[] = {x};
  differentiate(y, ops::full_like(y, 1.0), wrt);
  std::string text;
  for (ValueId id = before; id < m.program.size(); ++id) text += to_string(m.program, id) + "\n";
  EXPECT_EQ(text,
            "%9 = constant 1 : (2) f64\n"
            "%10 = mul %9 %5 : (2) f64\n"  // from c, recorded last
            "%11 = mul %9 %0 : (2) f64\n"
            "%12 = mul %9 %3 : (2) f64\n"
            "%13 = mul %9 %0 : (2) f64\n"
            "%14 = add %10 %12 : (2) f64\n"
            "%15 = mul %9 %1 : (2) f64\n"
            "%16 = mul %9 %0 : (2) f64\n"
            "%17 = add %14 %15 : (2) f64\n");
}

}  // namespace
}  // namespace runner::backends::testing
