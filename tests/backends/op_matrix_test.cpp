// The op matrix: every op of ir/op_list.def through every consumer of its definition: kernels, gradient, costs,
// launches on an emulated GPU, texts, rounding, growth with the batch, memory, and stored Programs.
//
// An op takes part as soon as a case of op_cases.cpp, or the gradient of one, records it; one that none records fails.
#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "backends/exec/cpu_device.h"
#include "backends/gpu/launch.h"
#include "backends/gpu/memory_trace.h"
#include "backends/gpu/tf32.h"
#include "backends/ir/autograd.h"
#include "backends/ir/batch_growth.h"
#include "backends/ir/op_def.h"
#include "backends/ir/passes/passes.h"
#include "backends/ir/print.h"
#include "backends/ir/program_bytes.h"
#include "backends/ir/views.h"
#include "backends/tpu/graph_text.h"
#include "backends/tpu/numerics.h"
#include "tests/backends/kernels_harness.h"
#include "tests/backends/op_cases.h"
#include "tests/backends/support/derivative.h"
#include "tests/backends/support/run_program.h"
#include "tests/backends/support/tolerance.h"
#include "tests/support/pattern.h"

namespace runner::backends::testing {
namespace {

// One node on its own: a Program whose inputs are its operands and whose output is its result, with operands that the
// node had in a case.
struct OpNode {
  std::string name;
  Program program;
  std::vector<HostTensor> tensors;
  ValueId id = kNoValue;
  bool is_recorded = true;  // by the case itself; else by its gradient

  const TensorType& type() const { return program.type(id); }
  const TensorType& operand_type(size_t i) const { return program.type(program.operands(id)[i]); }
};

// A case with its gradients by all inputs.
struct DerivedCase {
  RecordedCase recorded;
  ValueId last_recorded;

  explicit DerivedCase(const OpCase& c) : recorded(c), last_recorded(recorded.program.size() - 1) {
    if (!is_float(recorded.result.dtype())) return;
    differentiate(recorded.result, ops::full_like(recorded.result, 1.0), recorded.inputs);
  }
};

// Collects nodes of every op, no two with the same types and attributes.
class NodeCollector {
 public:
  std::map<Op, std::vector<OpNode>> run() {
    for (const OpCase& c : op_cases(OpCaseSize::kSmall)) collect(c);
    return std::move(nodes_);
  }

 private:
  static constexpr int kMaxOfAKind = 8;  // of one op, one dtype, recorded or of a gradient

  void collect(const OpCase& c) {
    const DerivedCase derived(c);
    const Program& program = derived.recorded.program;
    for (ValueId id = 0; id < program.size(); ++id) {
      const bool is_recorded = id <= derived.last_recorded;
      int& count = counts_[{program.node(id).op, program.type(id).dtype, is_recorded}];
      if (count >= kMaxOfAKind || !is_new(program, id, is_recorded)) continue;
      ++count;
      OpNode node = cut(derived.recorded, id);
      node.name = fmt::format("{}: {}", c.name(), to_string(program, id));
      node.is_recorded = is_recorded;
      nodes_[program.node(id).op].push_back(std::move(node));
    }
  }

  bool is_new(const Program& program, ValueId id, bool is_recorded) {
    const std::string attributes = kind_of(program.node(id).op) == OpKind::kLeaf ? "" : attributes_text(program, id);
    std::string key =
        fmt::format("{} {} {} {}", is_recorded, name_of(program.node(id).op), attributes, program.type(id).to_string());
    for (const ValueId operand : program.operands(id)) key += " " + program.type(operand).to_string();
    return known_.insert(std::move(key)).second;
  }

  OpNode cut(const RecordedCase& recorded, ValueId id) {
    const Program& from = recorded.program;
    OpNode node;
    if (from.node(id).op == Op::kInput) {
      node.id = node.program.input(InputKind::kBatch, "x", from.type(id));
      node.tensors.push_back(recorded.tensors[static_cast<size_t>(from.input_index(id))]);
    } else {
      node.tensors = operands_of(recorded, id);
      std::vector<ValueId> operands;
      for (const HostTensor& tensor : node.tensors)
        operands.push_back(node.program.input(InputKind::kBatch, fmt::format("x{}", operands.size()), tensor.type));
      node.id = node.program.record(from.node(id).op, operands, from.attrs(id), from.type(id));
    }
    node.program.output("y", node.id);
    return node;
  }

  // The operands of a node, computed by reference kernels.
  std::vector<HostTensor> operands_of(const RecordedCase& recorded, ValueId id) {
    if (recorded.program.operands(id).empty()) return {};
    Program program = recorded.program.without_outputs();
    for (const ValueId operand : program.operands(id)) program.output("operand", operand);
    return run_plan_once(program, recorded.tensors, {.kernels = kReferenceKernels}, pool_of(1)).outputs;
  }

  std::map<Op, std::vector<OpNode>> nodes_;
  std::map<std::tuple<Op, DType, bool>, int> counts_;
  std::set<std::string> known_;
};

const std::vector<OpNode>& nodes_of(Op op) {
  static std::map<Op, std::vector<OpNode>> nodes = NodeCollector().run();
  return nodes[op];
}

// The node with operand `updated` as a state that the result replaces.
Program with_updated_operand(const OpNode& node, size_t updated) {
  Program program;
  std::vector<ValueId> operands;
  for (size_t i = 0; i < node.tensors.size(); ++i)
    operands.push_back(program.input(i == updated ? InputKind::kState : InputKind::kBatch, fmt::format("x{}", i),
                                     node.tensors[i].type));
  const ValueId result =
      program.record(node.program.node(node.id).op, operands, node.program.attrs(node.id), node.type());
  program.output("y", result, static_cast<int32_t>(updated));
  return program;
}

class OpMatrix : public ::testing::TestWithParam<int> {
 protected:
  Op op() const { return static_cast<Op>(GetParam()); }
  OpKind kind() const { return kind_of(op()); }
  // Whether matrix units compute the op.
  bool has_products() const { return kind() == OpKind::kContraction || kind() == OpKind::kAttention; }
  const OpDef& def() const { return def_of(op()); }

  // Calls body(node) for each node of the op. Fails if there is none.
  template <class Body>
  void for_nodes(const Body& body) const {
    ASSERT_FALSE(nodes_of(op()).empty()) << name_of(op()) << " has no case in op_cases.cpp";
    for (const OpNode& node : nodes_of(op())) {
      SCOPED_TRACE(node.name);
      body(node);
      if (HasFatalFailure()) return;
    }
  }
};

INSTANTIATE_TEST_SUITE_P(EveryOp, OpMatrix, ::testing::Range(0, kOpCount),
                         [](const auto& tested) { return std::string(name_of(static_cast<Op>(tested.param))); });

// ---- kernels -------------------------------------------------------------------------------------------------------

// The same bits on every instruction set, products apart, and the reference's numbers.
TEST_P(OpMatrix, KernelsAgreeOnEveryInstructionSet) {
  constexpr double kUlps = 16;
  EveryIsa isas;
  for_nodes([&](const OpNode& node) {
    const auto run = [&](const PlanBuildOptions& options) {
      return run_plan_once(node.program, node.tensors, options, pool_of(2)).outputs[0];
    };
    const HostTensor want = run({.kernels = kReferenceKernels});
    std::optional<HostTensor> first;
    isas.run([&](Isa isa) {
      const HostTensor got = run({});
      EXPECT_EQ(far_apart(got, want, kUlps), "") << name_of(isa);
      if (!first) first = got;
      if (!has_products()) {
        EXPECT_EQ(got, *first) << name_of(isa);
      }
    });
  });
}

// ---- gradient ------------------------------------------------------------------------------------------------------

// Σ w · y with distinct weights w, and its gradients with respect to the operands.
struct WeightedNode {
  Program program;
  Inputs tensors;
  std::vector<size_t> operands;  // that have a gradient

  explicit WeightedNode(const OpNode& node) : program(node.program.without_outputs()), tensors(node.tensors) {
    std::vector<Value> values;
    for (const ValueId operand : program.operands(node.id)) values.push_back({&program, operand});
    operands = output_weighted_sum({&program, node.id}, values, tensors);
  }
};

// Every other op whose result depends on its operands must have a gradient, or say that it has none.
TEST(OpDefinitions, OpsWithoutGradientAreConstantOrCountAsConstant) {
  std::string names;
  for (int op = 0; op < kOpCount; ++op)
    if (def_of(static_cast<Op>(op)).gradient == kNoGradient) names += fmt::format("{} ", name_of(static_cast<Op>(op)));
  EXPECT_EQ(names,
            "input constant sign is_finite not eq ne lt le gt ge and or argmax detach one_hot dropout_mask "
            "random_uniform random_normal label_rank rotary_table top_k ");
}

TEST_P(OpMatrix, GradientAgreesWithFiniteDifferences) {
  const auto device = make_cpu_device(1);
  const bool has_gradient = def().gradient != kNoGradient && def().gradient != kNotDifferentiable;
  int checked = 0;
  bool has_case = false;  // else only gradients record it
  for_nodes([&](const OpNode& node) { has_case |= node.is_recorded; });
  for_nodes([&](const OpNode& node) {
    if (node.type().dtype != DType::kF64 || node.is_recorded != has_case || kind() == OpKind::kLeaf) return;
    const auto is_narrow = [](const HostTensor& x) { return is_float(x.type.dtype) && x.type.dtype != DType::kF64; };
    if (std::ranges::any_of(node.tensors, is_narrow) || (!has_gradient && !has_case)) return;
    WeightedNode weighted(node);
    if (!has_gradient) {
      EXPECT_TRUE(weighted.operands.empty());
      return;
    }
    Session session(*device, weighted.program, weighted.tensors);
    for (size_t k = 0; k < weighted.operands.size(); ++k) {
      const size_t input = weighted.operands[k];
      session.submit();
      const HostTensor gradient = session.output(1 + k);
      for (int64_t i = 0; i < std::min<int64_t>(gradient.size(), 60); ++i, ++checked) {
        const double slope = finite_difference(session, 0, weighted.tensors[input], input, i);
        EXPECT_NEAR(gradient[i], slope, 1e-8 * std::max(1.0, std::fabs(slope))) << "operand " << input << ", " << i;
      }
    }
  });
  EXPECT_EQ(has_gradient, checked > 0);
}

// ---- costs ---------------------------------------------------------------------------------------------------------

// Number of elements that an indexing op adds to others.
int64_t added_elements(const OpNode& node) {
  switch (node.program.node(node.id).op) {
    case Op::kScatterAdd: return node.operand_type(2).shape.elements();
    case Op::kEmbeddingGrad: return node.operand_type(1).shape.elements();
    default: return 0;
  }
}

TEST_P(OpMatrix, CostsMatchTheKindOfOp) {
  for_nodes([&](const OpNode& node) {
    const NodeQuery query(node.program, node.id);
    const int64_t elements = node.type().shape.elements();
    const int64_t flops = query.flops(), xla = query.xla_count().flops + query.xla_count().transcendentals;
    switch (kind()) {
      case OpKind::kLeaf:
      case OpKind::kMovement:
        EXPECT_EQ(flops, 0);
        EXPECT_EQ(xla, 0);
        break;
      case OpKind::kContraction: {
        const ProductSize product = query.product();
        const int64_t added = node.tensors.size() > 2 ? elements : 0;
        EXPECT_EQ(flops, 2 * product.batch * product.m * product.n * product.k + added);
        EXPECT_LE(xla, flops);  // XLA does not count padding
        EXPECT_EQ(xla > 0, flops > 0);
        break;
      }
      case OpKind::kAttention:
        EXPECT_EQ(flops > 0, node.operand_type(0).shape.elements() > 0 && node.operand_type(1).shape.elements() > 0);
        EXPECT_EQ(xla > 0, flops > 0);
        break;
      case OpKind::kElementwise:
        EXPECT_EQ(flops, op() == Op::kCast ? 0 : elements);
        EXPECT_GE(xla, elements);
        break;
      case OpKind::kReduction:
        EXPECT_EQ(flops, node.operand_type(0).shape.elements() * (node.tensors.size() > 1 ? 3 : 1));
        EXPECT_EQ(xla > 0, flops > elements);
        break;
      case OpKind::kWindow:
      case OpKind::kRow:
        EXPECT_EQ(flops > 0, node.tensors[0].size() > 0);
        EXPECT_EQ(xla > 0, node.tensors[0].size() > 0);
        break;
      case OpKind::kRandom:
      case OpKind::kCollective:
        EXPECT_EQ(flops > 0, elements > 0);
        EXPECT_EQ(xla > 0, elements > 0);
        break;
      case OpKind::kIndexing:
        EXPECT_EQ(flops, added_elements(node));
        EXPECT_EQ(xla, op() == Op::kOneHot ? elements : added_elements(node));
        break;
    }
    EXPECT_EQ(def().matrix_operands > 0, has_products());
    EXPECT_EQ(def().product != kNoProduct, kind() == OpKind::kContraction);
  });
}

TEST_P(OpMatrix, TrafficCountsOperandsAndResult) {
  for_nodes([&](const OpNode& node) {
    const auto bytes_of = [&](ValueId id) { return static_cast<int64_t>(node.program.type(id).bytes()); };
    const Traffic& traffic = def().cost.traffic;
    int64_t want = traffic.result * bytes_of(node.id);
    for (size_t i = 0; i < node.program.operands(node.id).size(); ++i) {
      const int weight = traffic.is_each_once ? 1 : i < traffic.operands.size() ? traffic.operands[i] : 0;
      want += weight * static_cast<int64_t>(node.operand_type(i).bytes());
    }
    EXPECT_EQ(touched_bytes(node.program, node.id, bytes_of), want);
    const bool moves_nothing = op() == Op::kInput || def().memory == MemoryRule::kView || op() == Op::kDetach;
    EXPECT_EQ(traffic.is_each_once || traffic.result > 0 || std::ranges::count(traffic.operands, 0) < 3,
              !moves_nothing);
  });
}

// ---- memory of results ---------------------------------------------------------------------------------------------

// A state that a node reads and its result replaces is overwritten in place if the op allows it.
TEST_P(OpMatrix, ResultsOverwriteTheOperandsOfTheirRule) {
  for_nodes([&](const OpNode& node) {
    if (kind() == OpKind::kLeaf || node.type().bytes() == 0) return;
    if (is_view(node.program, node.id) || op() == Op::kDetach) return;  // copied by an element-wise op
    const HostTensor want = run_plan_once(node.program, node.tensors, {}, pool_of(1)).outputs[0];
    for (size_t i = 0; i < node.tensors.size(); ++i) {
      if (node.operand_type(i) != node.type()) continue;
      const Program updating = with_updated_operand(node, i);
      const bool is_in_place = allows(def().in_place, i);
      EXPECT_EQ(build_plan(updating).copies.empty(), is_in_place) << "operand " << i;
      EXPECT_EQ(run_plan_once(updating, node.tensors, {}, pool_of(1)).states[0], want) << "operand " << i;
    }
  });
}

// ---- an emulated GPU -----------------------------------------------------------------------------------------------

TEST_P(OpMatrix, LaunchesHaveTheCostsOfTheOp) {
  int launches = 0;
  for_nodes([&](const OpNode& node) {
    const Plan plan = launched_plan(node.program);
    for (const PlanStep& step : plan.steps) {
      if (plan.program.node(step.node).op != op()) continue;
      ++launches;
      const gpu::Launch launch = gpu::launch_of(plan, step, {}),
                        with_tf32 = gpu::launch_of(plan, step, {.allow_tf32 = true});
      EXPECT_GE(launch.duration, gpu::kShortestKernel);
      EXPECT_EQ(launch.name, name_of(op()));
      if (kind() != OpKind::kCollective) {
        EXPECT_EQ(launch.flops, NodeQuery(plan.program, step.node).flops());
      }
      EXPECT_EQ(launch.cls == gpu::LaunchClass::kMatmul, has_products());
      const bool faster = has_products() && node.operand_type(0).dtype == DType::kF32 && launch.flops > 0;
      EXPECT_EQ(with_tf32.at_peak < launch.at_peak, faster);
    }
  });
  const bool is_free_op = op() == Op::kInput || op() == Op::kDetach || def().memory == MemoryRule::kView;
  const bool becomes_others = op() == Op::kBatchNorm;
  EXPECT_EQ(launches > 0, !is_free_op && !becomes_others);
}

TEST_P(OpMatrix, MemoryTraceHasTheResult) {
  for_nodes([&](const OpNode& node) {
    const gpu::MemoryTrace trace = gpu::trace_memory(launched_plan(node.program));
    const auto bytes = static_cast<int64_t>(node.type().bytes());
    const bool is_operand = op() == Op::kDetach || (op() == Op::kCast && node.operand_type(0) == node.type());
    const ValueId made_by = is_operand ? node.program.operands(node.id)[0] : node.id;  // after the fold pass
    const Origin origin = node.program.node(made_by).origin;
    const bool is_held = std::ranges::any_of(trace.buffers, [&](const gpu::TraceBuffer& buffer) {
      return buffer.origin == origin && buffer.bytes == bytes;
    });
    EXPECT_EQ(is_held, bytes > 0);
    EXPECT_EQ(trace.has_f32_products, has_products() && node.type().dtype == DType::kF32);
  });
}

// ---- numbers of devices --------------------------------------------------------------------------------------------

TEST_P(OpMatrix, MatrixUnitsRoundOnlyProducts) {
  for_nodes([&](const OpNode& node) {
    const bool is_product = has_products() && node.operand_type(0).dtype == DType::kF32;
    const Program tf32 = gpu::with_tf32_products(node.program);
    EXPECT_EQ(verify(tf32), "");
    EXPECT_EQ(tf32.same_structure(node.program), !is_product);
    for (const auto precision : {tpu::MatmulPrecision::kDefault, tpu::MatmulPrecision::kHigh}) {
      const Program rounded = tpu::with_matmul_precision(node.program, precision);
      EXPECT_EQ(verify(rounded), "");
      const bool is_composed = kind() == OpKind::kAttention;  // of products, whatever its dtype
      EXPECT_EQ(rounded.same_structure(node.program),
                !is_composed && (!is_product || !tpu::is_matrix_product(node.program, node.id)));
    }
  });
}

// On a device whose f32 is bf16, results of the user's floats are numbers of bf16.
TEST_P(OpMatrix, ResultsHaveDeviceTypes) {
  const tpu::DeviceTypes types{.f32 = DType::kBf16, .f64 = DType::kBf16};
  for_nodes([&](const OpNode& node) {
    if (kind() == OpKind::kContraction && node.tensors.size() > 2) return;  // addends are f32 or f64
    if (op() == Op::kCast && node.operand_type(0) == node.type()) return;   // a mark of the engine's own numbers
    for (const auto rounding : {tpu::Rounding::kPerOp, tpu::Rounding::kFused}) {
      const Program rewritten = tpu::with_device_types(node.program, types, rounding);
      EXPECT_EQ(verify(rewritten), "");
      const HostTensor got = run_plan_once(rewritten, node.tensors, {}, pool_of(1)).outputs[0];
      ASSERT_EQ(got.type, node.type());
      const bool takes_floats =
          std::ranges::any_of(node.tensors, [](const HostTensor& tensor) { return is_float(tensor.type.dtype); });
      if (!is_float(got.type.dtype) || (!takes_floats && kind() != OpKind::kRandom)) continue;
      for (int64_t i = 0; i < got.size(); ++i) {
        const double held = tpu::held_in(types.of(got.type.dtype), got[i]);
        ASSERT_TRUE(held == got[i] || std::isnan(got[i])) << i << ": " << got[i];
      }
    }
  });
}

// ---- texts ---------------------------------------------------------------------------------------------------------

size_t count_of(std::string_view text, std::string_view what) {
  size_t count = 0;
  for (size_t at = text.find(what); at != std::string_view::npos; at = text.find(what, at + 1)) ++count;
  return count;
}

TEST_P(OpMatrix, ProgramsPrintNamesAndAttributes) {
  for_nodes([&](const OpNode& node) {
    const std::string text = to_string(node.program, node.id);
    EXPECT_NE(text.find(fmt::format("= {}", name_of(op()))), std::string::npos) << text;
    if (kind() == OpKind::kLeaf) return;
    size_t texts = 0;  // one for each number, but one for all windows
    for (const AttributeValue& value : attributes_of(node.program, node.id))
      texts += value.attribute->type == AttributeType::kWindows ? 1 : value.numbers.size();
    const std::string attributes = attributes_text(node.program, node.id);
    EXPECT_EQ(attributes.empty() ? 0 : 1 + count_of(attributes, ", "), texts) << attributes;
    for (const AttributeValue& value : attributes_of(node.program, node.id))
      if (value.attribute->printed == Printed::kNameAndValue) {
        EXPECT_NE(attributes.find(std::string_view(value.attribute->name)), std::string::npos) << attributes;
      }
  });
}

TEST_P(OpMatrix, IrTextShowsAttributes) {
  for_nodes([&](const OpNode& node) {
    const std::string text = tpu::ir_text(node.program);
    EXPECT_NE(text.find(fmt::format(" {}(", aten_name(node.program, node.id))), std::string::npos) << text;
    for (const AttributeValue& value : attributes_of(node.program, node.id)) {
      const std::string_view shown = value.attribute->aten;
      EXPECT_NE(text.find(shown.substr(0, shown.find('='))), std::string::npos) << text;
    }
    EXPECT_EQ(count_of(text, "{}"), 0u) << text;
  });
}

// Every value that a line of HLO names is defined by a line before it.
void expect_defined_before_use(const std::string& hlo) {
  const support::Pattern line(R"((?:^|\n) +(?:ROOT )?%([\w.-]+) = ([^\n]*))"), use(R"((\w+=)?%([\w.-]+))");
  const size_t entry = hlo.find("ENTRY");
  ASSERT_NE(entry, std::string::npos);
  std::set<std::string> known;
  for (const support::Pattern::Groups& defined : line.find_all(hlo.substr(hlo.find('\n', entry)))) {
    for (const support::Pattern::Groups& used : use.find_all(defined[2])) {
      const bool is_value = used[1].empty();  // else a computation: to_apply=%add.f32
      EXPECT_TRUE(!is_value || known.contains(used[2])) << defined[0];
    }
    known.insert(defined[1]);
  }
  EXPECT_FALSE(known.empty());
}

TEST_P(OpMatrix, HloTextNamesTheInstruction) {
  for_nodes([&](const OpNode& node) {
    const std::string text = tpu::hlo_text(node.program);
    expect_defined_before_use(text);
    const Hlo& hlo = def().xla.hlo;
    const bool keeps_type = hlo.form == HloForm::kConvert && node.operand_type(0) == node.type();
    if (keeps_type) return;
    EXPECT_NE(text.find(fmt::format(" {}(", std::string_view(hlo.opcode))), std::string::npos) << text;
    if (hlo.form == HloForm::kCustomCall) {
      const std::string target = fmt::format("custom_call_target=\"{}\"", std::string_view(def().xla.aten));
      EXPECT_NE(text.find(target), std::string::npos) << text;
    }
    const std::string_view applies = hlo.applies;
    EXPECT_EQ(count_of(text, "to_apply=%"), applies.empty() ? 0 : 1) << text;
    EXPECT_NE(text.find(fmt::format("to_apply=%{}", applies)) == std::string::npos, !applies.empty()) << text;
  });
}

// ---- the batch -----------------------------------------------------------------------------------------------------

// A case with a batch of `scale` times its size: that is the first axis of the inputs where it has size `batch`.
struct ScaledCase {
  Program program;
  bool fits = true;

  ScaledCase(const OpCase& c, int64_t batch, int64_t scale) {
    std::vector<Value> inputs;
    for (const OpInput& input : c.inputs) {
      TensorType type = input.type;
      const bool has_batch = type.shape.rank() > 0 && type.shape[0] == batch;
      if (has_batch) type.shape = type.shape.with(0, batch * scale);
      const InputKind kind = has_batch ? InputKind::kBatch : InputKind::kState;
      inputs.push_back({&program, program.input(kind, fmt::format("x{}", inputs.size()), type)});
    }
    try {
      const Value result = c.record(inputs);
      const Value seed{&program, program.input(InputKind::kBatch, "seed", result.type())};
      if (is_float(result.dtype())) differentiate(result, seed, inputs);
    } catch (const Error&) {
      fits = false;  // the case records a shape of its own
    }
  }
};

// By op, the nodes with an operand that grows: whether the node grows, and whether grows_with_batch() says so.
struct Growth {
  std::string node;
  bool grows, is_declared;
};

class GrowthCollector {
 public:
  std::map<Op, std::vector<Growth>> run() {
    for (const OpCase& c : op_cases(OpCaseSize::kSmall)) {
      std::set<int64_t> batches;
      for (const OpInput& input : c.inputs)
        if (input.type.shape.rank() > 0 && input.type.shape[0] > 1) batches.insert(input.type.shape[0]);
      for (const int64_t batch : batches) compare(c, batch);
    }
    return std::move(growth_);
  }

 private:
  void compare(const OpCase& c, int64_t batch) {
    const ScaledCase once(c, batch, 1), twice(c, batch, 2);
    if (!once.fits || !twice.fits || once.program.size() != twice.program.size()) return;
    const std::vector<char> declared = grows_with_batch(once.program);
    const auto grows = [&](ValueId id) { return twice.program.type(id).shape != once.program.type(id).shape; };
    // Skips nodes with samples along another axis, or whose operands are not classified correctly, such as constants.
    const auto is_clear = [&](ValueId id) {
      const Shape &from = once.program.type(id).shape, &to = twice.program.type(id).shape;
      const bool along_first = from.rank() == to.rank() && from.rank() > 0 && from.with(0, to[0]) == to;
      return (declared[static_cast<size_t>(id)] != 0) == grows(id) && (along_first || !grows(id));
    };
    for (ValueId id = 0; id < once.program.size(); ++id) {
      const auto operands = once.program.operands(id);
      if (std::ranges::none_of(operands, grows) || !std::ranges::all_of(operands, is_clear)) continue;
      const Op op = once.program.node(id).op;
      const bool has_no_samples = kind_of(op) == OpKind::kRow && once.program.type(operands[0]).shape.rank() == 1;
      if (is_free(once.program, id) || has_no_samples) continue;
      growth_[op].push_back({fmt::format("{}: {}", c.name(), to_string(once.program, id)), grows(id),
                             declared[static_cast<size_t>(id)] != 0});
    }
  }

  std::map<Op, std::vector<Growth>> growth_;
};

TEST_P(OpMatrix, BatchRuleMatchesTheGrowthOfShapes) {
  static std::map<Op, std::vector<Growth>> all = GrowthCollector().run();
  const std::vector<Growth>& growth = all[op()];
  // Leaves have no operands, random tensors no operand of the batch's size; views and broadcasts take no memory.
  const bool may_be_absent = kind() == OpKind::kLeaf || op() == Op::kRandomUniform || op() == Op::kRandomNormal ||
                             def().memory == MemoryRule::kView || def().memory == MemoryRule::kBroadcast;
  EXPECT_TRUE(!growth.empty() || may_be_absent) << name_of(op()) << " has no case in op_cases.cpp that takes any batch";
  for (const Growth& each : growth) {
    // An op whose rule is kGrows may be declared to grow although it does not, but not vice versa.
    EXPECT_TRUE(each.is_declared || !each.grows) << each.node;
    if (def().batch != BatchRule::kGrows) {
      EXPECT_EQ(each.is_declared, each.grows) << each.node;
    }
  }
}

// ---- stored Programs -----------------------------------------------------------------------------------------------

TEST_P(OpMatrix, RoundTripsThroughBytes) {
  for_nodes([&](const OpNode& node) {
    ByteWriter to;
    write_program(to, node.program);
    const std::vector<std::byte> bytes = to.take();
    ByteReader from(bytes);
    const Program read = read_program(from, node.program);
    from.end();
    EXPECT_TRUE(read.same_structure(node.program));
    EXPECT_EQ(to_string(read), to_string(node.program));
  });
}

TEST_P(OpMatrix, AcceptsOnlyItsAttributes) {
  for_nodes([&](const OpNode& node) {
    std::vector<TensorType> operands;
    for (const HostTensor& tensor : node.tensors) operands.push_back(tensor.type);
    if (op() == Op::kInput) operands.clear();
    std::vector<int64_t> attrs(node.program.attrs(node.id).begin(), node.program.attrs(node.id).end());
    EXPECT_TRUE(takes_attributes(op(), operands, attrs));
    attrs.push_back(99);
    EXPECT_FALSE(takes_attributes(op(), operands, attrs));
    attrs.resize(attrs.size() - 1);
    const Attributes& attributes = def().attributes;
    if (attrs.empty() || attributes.back().type == AttributeType::kAxes) return;
    attrs.pop_back();
    const bool was_optional =
        attributes.back().presence == Presence::kOptional && attrs.size() + 1 == attributes.size();
    EXPECT_EQ(takes_attributes(op(), operands, attrs), was_optional);
  });
}

}  // namespace
}  // namespace runner::backends::testing
