// The definition of an op: all that programs, passes, autograd and device models need to know about it.
//
// Each op of op_list.def has one OpDef, in ops/*.cpp beside the function that records it; its kernels are in
// kernels/op_kernels.h, above this folder.  There are no defaults: a definition that leaves a field out does not
// compile, an op without a definition does not link.  No code outside ops/ switches over ops; it asks for the kind or a
// field. docs/decisions/061-one-definition-per-op.md says why.  Definitions are constants; thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "backends/ir/op.h"
#include "backends/ir/program.h"
#include "backends/ir/traced_scalar.h"
#include "backends/tensor/shape.h"
#include "schema/base/required.h"

namespace runner::backends {

// ---- attributes ----------------------------------------------------------------------------------------------------

// How many numbers of a node's attributes an attribute takes, and what they are.
enum class AttributeType : uint8_t {
  kInt,          // one, within bounds
  kF64,          // one: the bits of a double (pack_f64)
  kAxis,         // one: an axis of operand 0
  kAxes,         // all that are left: axes of operand 0, ascending
  kPermutation,  // for each axis of operand 0, an axis of it
  kSlices,       // for each axis of operand 0: start, stop, step
  kMargins,      // for each axis of operand 0: before, after
  kShape,        // none: the shape that the caller requested, which is the result's
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
  Required<Bounds> bounds;  // of each number, where they are neither axes nor f64
  Required<Presence> presence;
  Required<Printed> printed;
  Required<std::string_view> aten,
      hlo;  // in PyTorch/XLA's texts, {} standing for the value: "dim=({})"; empty: not shown
};
using Attributes = std::span<const Attribute>;

// ---- rules ---------------------------------------------------------------------------------------------------------

// A node as the rules of its op see it.
struct TypeQuery {
  Op op;
  std::span<const TensorType> operands;
  std::span<const int64_t> attrs;
  TensorType requested;  // by the caller, of ops that cannot infer it: cast, reshape, expand, random tensors
};

// The type of the result.  Throws Error(kRun) that starts with the op's name and gives the operand types.
using TypeRule = TensorType (*)(const TypeQuery& query);

// Records the gradients of the operands, given that of the result.  `grads` has one slot per operand; a rule leaves a
// slot unset (id < 0) where there is no gradient.
using Gradient = void (*)(Value result, Value grad, std::span<Value> grads);
inline constexpr Gradient kNoGradient = nullptr;  // the gradient of every operand is zero

// A node about to be copied by the fold pass, its operands as values of the new Program.
struct FoldQuery {
  const Program& from;
  ValueId id;
  Program& to;
  std::span<const ValueId> operands;

  const TensorType& type() const { return from.type(id); }
  // The value of an operand that is a constant.
  std::optional<double> constant(size_t operand) const;
  bool is_constant(size_t operand, double value) const { return constant(operand) == value; }
};
// The value of `to` that replaces the node, bit for bit; kNoValue: the node is copied.
using FoldRule = ValueId (*)(const FoldQuery& query);
inline constexpr FoldRule kNoFold = nullptr;

// `batch` products (m, k) × (k, n).
struct ProductSize {
  int64_t batch, m, k, n;
};
using ProductRule = ProductSize (*)(const TypeQuery& query, const TensorType& result);
inline constexpr ProductRule kNoProduct = nullptr;

// ---- cost ----------------------------------------------------------------------------------------------------------

// Operations of one execution.
using FlopRule = int64_t (*)(const TypeQuery& query, const TensorType& result);

// As XLA's HloCostAnalysis counts the HLO that PyTorch/XLA makes of the op: one flop for each element of arithmetic,
// comparisons and conversions; exp, log, sqrt, tanh, erf, pow and random numbers apart.
struct XlaCount {
  int64_t flops = 0, transcendentals = 0;
};
using XlaRule = XlaCount (*)(const TypeQuery& query, const TensorType& result);

// Bytes that one execution touches in memory, as XLA's HloCostAnalysis counts: a weight for the bytes of the result and
// of each operand.
struct Traffic {
  bool is_each_once;  // the result and each different operand once, however many there are
  int result;
  std::array<int, 3> operands;
};
inline constexpr Traffic kEachOnce{true, 1, {}}, kUntouched{false, 0, {}};

// There are two counts of flops because the reports that show them must agree with different tools: `flops` with what
// profilers count (exp is one operation, a cast none), `xla` with HloCostAnalysis (exp is no flop but a transcendental,
// a cast is one flop, a reduction of n elements takes n − 1).
struct OpCost {
  Required<FlopRule> flops;  // of plans, spans, and launches on an emulated GPU
  Required<XlaRule> xla;     // of predictions for a TPU
  Required<Traffic> traffic;
};

// ---- properties ----------------------------------------------------------------------------------------------------

// Whether a result is larger for a larger batch, given that an operand is.
enum class BatchRule : uint8_t {
  kGrows,
  kUnlessReduced,     // unless the samples' axis, the first, is among the reduced ones
  kUnlessContracted,  // unless it is a product of two matrices that both grow: a sum over samples
  kSumsSamples,       // never: the gradient of a parameter
};

// What a node takes of memory beyond its operand.
enum class MemoryRule : uint8_t {
  kBuffer,     // a buffer for its result
  kView,       // nothing: its elements are those of operand 0 in their order
  kSliceView,  // nothing where its elements lie one behind the other in operand 0
  kBroadcast,  // nothing where element-wise nodes read it, which look through it; else a buffer
};

// In which type operands are taken where autocast is in force, by PyTorch's lists for the CPU.
enum class AutocastRule : uint8_t {
  kLowerPrecision,  // the region's type: products
  kFloat32,         // softmax, losses, norms
  kAsGiven,
};

// How PyTorch's op takes a number that stands before or after a tensor; which decides what a TPU compiles.
struct NumberUses {
  ScalarUse before, after;
};
inline constexpr NumberUses kNumbersAreOperands{ScalarUse::kOperand, ScalarUse::kOperand};

// What XLA makes of a node.
enum class HloForm : uint8_t {
  kParameter,
  kConstant,
  kConvert,          // takes an operand of any type; nothing between types that are one on the device
  kBroadcast,        // drops the axes that it stretches, and makes them anew
  kMaximumWithZero,  // relu
  kDot,
  kInstruction,
  kCustomCall,  // XLA has no single instruction for it
};
struct Hlo {
  Required<HloForm> form;
  Required<std::string_view> opcode;   // "exponential"
  Required<std::string_view> details;  // behind the operands: ", direction=EQ"
  Required<std::string_view>
      scalar;  // a number that is a further operand: where a reduction begins, what is padded with
  Required<std::string_view> applies;  // the opcode of the computation that it applies: "add"
};

struct XlaNames {
  Required<std::string_view> aten;              // of a traced node: "aten::add"
  Required<std::string_view> aten_of_matrices;  // with a result of two axes, if that has a name of its own: "aten::mm"
  Required<Hlo> hlo;
};

// ---- the definition ------------------------------------------------------------------------------------------------

struct OpDef {
  Required<Attributes> attributes;
  Required<TypeRule> infer;
  Required<Gradient> gradient;
  Required<FoldRule> fold;
  Required<std::optional<Op>> combines_by;  // of reductions: the op of two operands that they repeat
  Required<ProductRule> product;            // of contractions
  Required<int> matrix_operands;  // so many first operands go through matrix units, which may round them (TF32, bf16)
  OpCost cost;
  Required<BatchRule> batch;
  Required<MemoryRule> memory;
  Required<AutocastRule> autocast;
  Required<NumberUses> numbers;
  XlaNames xla;
};

extern const OpDef* const kOpDefs[kOpCount];
inline const OpDef& def_of(Op op) {
  return *kOpDefs[static_cast<int>(op)];
}

// The type of a node's result.  Throws as TypeRule.
TensorType result_type(Op op, std::span<const TensorType> operands, std::span<const int64_t> attrs,
                       const TensorType& requested = {});

// What PyTorch/XLA calls a node.
std::string_view aten_name(const Program& program, ValueId id);

// A recorded node as the rules of its op see it.
class NodeQuery {
 public:
  NodeQuery(const Program& program, ValueId id);
  NodeQuery(const NodeQuery&) = delete;
  NodeQuery& operator=(const NodeQuery&) = delete;

  int64_t flops() const { return def().cost.flops(query_, type_); }
  XlaCount xla_count() const { return def().cost.xla(query_, type_); }
  // Of a contraction.
  ProductSize product() const { return def().product(query_, type_); }

 private:
  const OpDef& def() const { return def_of(query_.op); }

  std::vector<TensorType> operands_;
  TensorType type_;
  TypeQuery query_;
};

}  // namespace runner::backends
