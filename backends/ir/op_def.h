// The definition of an op: everything that Programs, passes, autograd and device models need to know about it.
//
// Each op of op_list.def has one OpDef in ops/*.cpp, next to the function that records it. Its kernels are in
// kernels/op_kernels.h, which this folder may not include. There are no defaults: a definition without one of the
// fields does not compile, and an op without a definition does not link. Code outside ops/ does not switch over ops; it
// uses the kind or a field (docs/decisions/061-one-definition-per-op.md). Definitions are constants; thread-safe.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "backends/ir/op.h"
#include "backends/ir/program.h"
#include "backends/ir/traced_scalar.h"
#include "backends/tensor/shape.h"
#include "schema/base/required.h"

namespace runner::backends {

// ---- attributes ----------------------------------------------------------------------------------------------------

// How many of the numbers in Node::attrs an attribute takes, and their meaning.
enum class AttributeType : uint8_t {
  kInt,          // one, within bounds
  kF64,          // one: the bits of a double (pack_f64)
  kAxis,         // one: an axis of operand 0
  kAxes,         // all remaining ones: axes of operand 0, ascending
  kPermutation,  // for each axis of operand 0, an axis of it
  kSlices,       // for each axis of operand 0: start, stop, step
  kMargins,      // for each axis of operand 0: before, after
  kWindows,      // for each axis of operand 0 but the first two: a Window (windows.h)
  kShape,        // none: the requested shape, which is the shape of the result
};

struct Bounds {
  int64_t least, most;
};
inline constexpr Bounds kAnyInt{INT64_MIN, INT64_MAX}, kNatural{0, INT64_MAX}, kFlag{0, 1};
inline constexpr Bounds kSizes{0, (int64_t{1} << 40) - 1};  // so that sizes can be added up
constexpr Bounds one_of(int64_t choices) {
  return {0, choices - 1};
}

enum class Presence : uint8_t { kAlways, kOptional };    // optional ones come last
enum class Printed : uint8_t { kValue, kNameAndValue };  // in Programs: "{0, 1}", "{eps 1e-05}"

struct Attribute {
  Required<std::string_view> name;
  Required<AttributeType> type;
  Required<Bounds> bounds;  // of each number, unless they are axes or f64
  Required<Presence> presence;
  Required<Printed> printed;
  Required<std::string_view> aten,
      hlo;  // in PyTorch/XLA's texts, {} standing for the value: "dim=({})"; empty: not shown
};
using Attributes = std::span<const Attribute>;

// ---- rules ---------------------------------------------------------------------------------------------------------

// Arguments of the rules of an op.
struct TypeQuery {
  Op op;
  std::span<const TensorType> operands;
  std::span<const int64_t> attrs;
  TensorType requested;  // for ops that cannot infer the type: cast, reshape, expand, random tensors
};

// Returns the type of the result. Throws Error(kRun) with the name of the op and the operand types.
using TypeRule = TensorType (*)(const TypeQuery& query);

// Vector-Jacobian product: records the gradients of the operands.
// `grad`: gradient of the result.
// `grads`: one slot per operand; stays unset (id < 0) for an operand without a gradient.
using Gradient = void (*)(Value result, Value grad, std::span<Value> grads);
inline constexpr Gradient kNoGradient = nullptr;  // the result is constant, or counts as constant, in each operand
// The result depends on the operands, but its gradient does not exist: differentiating it is an error.
inline void not_differentiable(Value /*result*/, Value /*grad*/, std::span<Value> /*grads*/) {}
inline constexpr Gradient kNotDifferentiable = not_differentiable;

// A node that the fold pass is about to copy. `operands` are values of the new Program.
struct FoldQuery {
  const Program& from;
  ValueId id;
  Program& to;
  std::span<const ValueId> operands;

  const TensorType& type() const { return from.type(id); }
  // The value of an operand, if it is a constant.
  std::optional<double> constant(size_t operand) const;
  bool is_constant(size_t operand, double value) const { return constant(operand) == value; }
};
// Returns the value of `to` that replaces the node with the same bits, or kNoValue to copy the node.
using FoldRule = ValueId (*)(const FoldQuery& query);
inline constexpr FoldRule kNoFold = nullptr;

// `batch` products (m, k) × (k, n).
struct ProductSize {
  int64_t batch, m, k, n;
};
using ProductRule = ProductSize (*)(const TypeQuery& query, const TensorType& result);
inline constexpr ProductRule kNoProduct = nullptr;

// ---- cost ----------------------------------------------------------------------------------------------------------

// Floating-point operations of one execution.
using FlopRule = int64_t (*)(const TypeQuery& query, const TensorType& result);

// As XLA's HloCostAnalysis counts the HLO that PyTorch/XLA generates for the op: one flop per element of arithmetic,
// comparisons and conversions; exp, log, sqrt, tanh, erf, pow and random numbers are transcendentals.
struct XlaCount {
  int64_t flops = 0, transcendentals = 0;
};
using XlaRule = XlaCount (*)(const TypeQuery& query, const TensorType& result);

// Bytes that one execution reads and writes, as XLA's HloCostAnalysis counts: the bytes of the result and of each
// operand times a weight.
struct Traffic {
  bool is_each_once;  // weight 1 for the result and each distinct operand
  int result;
  std::array<int, 3> operands;
};
inline constexpr Traffic kEachOnce{true, 1, {}}, kUntouched{false, 0, {}};

// There are two counts of flops because they are compared with different tools: `flops` with profilers (exp is one
// operation, a cast none), `xla` with HloCostAnalysis (exp is a transcendental, a cast is one flop, a reduction of n
// elements takes n − 1).
struct OpCost {
  Required<FlopRule> flops;  // for plans, spans, and launches on an emulated GPU
  Required<XlaRule> xla;     // for predictions for a TPU
  Required<Traffic> traffic;
};

// ---- properties ----------------------------------------------------------------------------------------------------

// Whether the result grows with the batch if an operand does.
enum class BatchRule : uint8_t {
  kGrows,
  kUnlessReduced,     // unless the first axis, that of the samples, is reduced
  kUnlessContracted,  // unless it is a product of two matrices that both grow, which sums over samples
  kSumsSamples,       // never: the gradient of a parameter
};

// The memory of a result.
enum class MemoryRule : uint8_t {
  kBuffer,     // a buffer of its own
  kView,       // that of operand 0: the same elements in the same order
  kSliceView,  // that of operand 0 if its elements are contiguous there, else a buffer
  kBroadcast,  // none if only element-wise nodes read it, which look through it; else a buffer
};

// Whether the result may be computed into the buffer of an operand that is not read later.
enum class InPlaceRule : uint8_t {
  kNever,
  kSameElement,  // of any operand with as many elements: element i of the result needs only element i of it
  kFirst,        // of operand 0, whose elements the others do not depend on
  kAddend,       // of operand 2, if there is one
};
// Whether the rule allows the buffer of this operand.
constexpr bool allows(InPlaceRule rule, size_t operand) {
  return rule == InPlaceRule::kSameElement || (rule == InPlaceRule::kFirst && operand == 0) ||
         (rule == InPlaceRule::kAddend && operand == 2);
}

// The type of operands under autocast, by PyTorch's op lists for the CPU.
enum class AutocastRule : uint8_t {
  kLowerPrecision,  // the dtype of the autocast region: products
  kFloat32,         // softmax, losses, norms
  kAsGiven,
};

// How PyTorch's op takes a number as its left or right operand, which decides what a TPU compiles into the graph.
struct NumberUses {
  ScalarUse before, after;
};
inline constexpr NumberUses kNumbersAreOperands{ScalarUse::kOperand, ScalarUse::kOperand};

// The HLO of a node.
enum class HloForm : uint8_t {
  kParameter,
  kConstant,
  kConvert,          // takes an operand of any type; omitted between types that are the same on the device
  kBroadcast,        // stretched axes are dropped by a reshape, then added by a broadcast
  kMaximumWithZero,  // relu
  kDot,
  kConvolution,  // `details`: names of the axes without the spatial ones: "bf_oi->bf"
  kInstruction,
  kCustomCall,  // XLA has no single instruction for it
};
struct Hlo {
  Required<HloForm> form;
  Required<std::string_view> opcode;   // "exponential"
  Required<std::string_view> details;  // after the operands: ", direction=EQ"
  Required<std::string_view> scalar;   // a further operand: initial value of a reduction, or padding value
  Required<std::string_view> applies;  // opcode of the computation in to_apply: "add"
};

struct XlaNames {
  Required<std::string_view> aten;              // of a traced node: "aten::add"
  Required<std::string_view> aten_of_matrices;  // for a 2-D result, if it has a name of its own: "aten::mm"
  Required<Hlo> hlo;
};

// ---- the definition ------------------------------------------------------------------------------------------------

struct OpDef {
  Required<Attributes> attributes;
  Required<TypeRule> infer;
  Required<Gradient> gradient;
  Required<FoldRule> fold;
  Required<std::optional<Op>> combines_by;  // of reductions: the binary op that they fold with
  Required<ProductRule> product;            // of contractions
  Required<int>
      matrix_operands;  // number of leading operands that matrix units take, which may round them (TF32, bf16)
  OpCost cost;
  Required<BatchRule> batch;
  Required<MemoryRule> memory;
  Required<InPlaceRule> in_place;
  Required<AutocastRule> autocast;
  Required<NumberUses> numbers;
  XlaNames xla;
};

extern const OpDef* const kOpDefs[kOpCount];
inline const OpDef& def_of(Op op) {
  return *kOpDefs[static_cast<int>(op)];
}

// Returns the type of a result. Throws as TypeRule.
TensorType result_type(Op op, std::span<const TensorType> operands, std::span<const int64_t> attrs,
                       const TensorType& requested = {});

std::vector<TensorType> operand_types(const Program& program, ValueId id);

// ---- attributes of nodes -------------------------------------------------------------------------------------------

// Whether the number and range of the attributes are valid for the op. Its type rule relies on that: builders and
// passes record no others. `operands`: as many as the op takes.
bool takes_attributes(Op op, std::span<const TensorType> operands, std::span<const int64_t> attrs);

struct AttributeValue {
  const Attribute* attribute;
  std::span<const int64_t> numbers;  // of the node; empty for a shape
};
// Returns the attributes of a node, in order.
std::vector<AttributeValue> attributes_of(const Program& program, ValueId id);

// Returns the position of an attribute in Node::attrs, for ops whose attributes are single numbers.
size_t attribute_index(Op op, std::string_view name);

// ---- nodes ---------------------------------------------------------------------------------------------------------

// The name of a node in PyTorch/XLA: "aten::mm".
std::string_view aten_name(const Program& program, ValueId id);

// Returns the bytes that a kernel reads and writes to compute a node, by the Traffic of its op. `bytes_of(id)` returns
// the bytes of a value in memory.
template <class BytesOf>
int64_t touched_bytes(const Program& program, ValueId id, const BytesOf& bytes_of) {
  const std::span<const ValueId> operands = program.operands(id);
  const Traffic& traffic = def_of(program.node(id).op).cost.traffic;
  int64_t sum = traffic.result > 0 ? traffic.result * bytes_of(id) : 0;
  if (traffic.is_each_once) {
    for (auto at = operands.begin(); at != operands.end(); ++at)
      if (std::find(operands.begin(), at, *at) == at) sum += bytes_of(*at);
    return sum;
  }
  for (size_t i = 0; i < traffic.operands.size(); ++i)
    if (traffic.operands[i] > 0) sum += traffic.operands[i] * bytes_of(operands[i]);
  return sum;
}

// A recorded node as argument of the rules of its op.
class NodeQuery {
 public:
  NodeQuery(const Program& program, ValueId id);
  NodeQuery(const NodeQuery&) = delete;
  NodeQuery& operator=(const NodeQuery&) = delete;

  int64_t flops() const { return def().cost.flops(query_, type_); }
  XlaCount xla_count() const { return def().cost.xla(query_, type_); }
  // For contractions only.
  ProductSize product() const { return def().product(query_, type_); }

 private:
  const OpDef& def() const { return def_of(query_.op); }

  std::vector<TensorType> operands_;
  TensorType type_;
  TypeQuery query_;
};

}  // namespace runner::backends
