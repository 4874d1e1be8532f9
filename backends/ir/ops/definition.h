// Building blocks of op definitions: checks of operands, type rules, gradients and counts that several ops share.
#pragma once

#include <fmt/format.h>

#include "backends/ir/op_def.h"
#include "backends/ir/ops.h"
#include "backends/ir/type_text.h"
#include "schema/base/error.h"

namespace runner::backends::op_defs {

// The definitions, one for each line of op_list.def.
#define RUNNER_OP(id, name, kind, least, most) extern const OpDef id;
#include "backends/ir/op_list.def"

using Query = const TypeQuery&;
using Grads = std::span<Value>;

template <class... Args>
void check(bool holds, fmt::format_string<Args...> format, Args&&... args) {
  if (!holds) throw Error(ErrorKind::kRun, fmt::format(format, std::forward<Args>(args)...));
}

// ---- attributes ----------------------------------------------------------------------------------------------------

using Type = AttributeType;
using enum Presence;
using enum Printed;

// ---- types ---------------------------------------------------------------------------------------------------------

TensorType as_requested(Query q);
TensorType as_operand(Query q);                                         // takes anything
TensorType number_operand(Query q);                                     // one operand, not of bools
TensorType float_operand(Query q);                                      // one operand of floats
TensorType append_axis(DType dtype, const Shape& shape, int64_t size);  // (…) -> (…, size)
void check_index(const TensorType& index, std::string_view op);

// ---- gradients -----------------------------------------------------------------------------------------------------

inline Value operand(Value result, size_t i) {
  return {result.program, result.program->operands(result.id)[i]};
}
// Valid until another node is recorded.
inline std::span<const int64_t> attrs(Value result) {
  return result.program->attrs(result.id);
}
inline std::vector<int64_t> copy_of_attrs(Value result) {
  return {attrs(result).begin(), attrs(result).end()};
}
inline Value zeros_like(Value x) {
  return ops::full_like(x, 0.0);
}

// ---- folding -------------------------------------------------------------------------------------------------------

// Fold rule of ops that move elements: moving a constant gives a constant.
ValueId fold_moved_constant(const FoldQuery& query);

// ---- costs ---------------------------------------------------------------------------------------------------------

// The tensor over whose elements an op iterates: an operand, or the result.
inline constexpr int kResult = -1;
template <int operand>
const TensorType& iterated(Query q, const TensorType& result) {
  if constexpr (operand == kResult)
    return result;
  else
    return q.operands[operand];
}

// Counts `each` per element of that tensor.
template <int each, int operand = kResult>
int64_t flops(Query q, const TensorType& result) {
  if constexpr (each == 0)
    return 0;
  else
    return each * iterated<operand>(q, result).shape.elements();
}

// Counts per element of that tensor, per row of it (its last axis), and per element of the result.
struct XlaRates {
  int64_t flops = 0, flops_of_row = 0, flops_of_result = 0;
  int64_t transcendentals = 0, transcendentals_of_row = 0;

  constexpr XlaRates plus(int64_t more_flops, int64_t more_of_row = 0, int64_t more_transcendentals_of_row = 0) const {
    return {flops + more_flops, flops_of_row + more_of_row, flops_of_result, transcendentals,
            transcendentals_of_row + more_transcendentals_of_row};
  }
};
inline constexpr XlaRates kNoArithmetic{}, kOneFlop{.flops = 1}, kOneTranscendental{.transcendentals = 1};

XlaCount counted(const XlaRates& rates, const TensorType& iterated, const TensorType& result);

template <XlaRates rates, int operand = kResult>
XlaCount xla_count(Query q, const TensorType& result) {
  return counted(rates, iterated<operand>(q, result), result);
}

// ---- names ---------------------------------------------------------------------------------------------------------

constexpr Hlo hlo_form(HloForm form, std::string_view opcode) {
  return {.form = form, .opcode = opcode, .details = "", .scalar = "", .applies = ""};
}
constexpr Hlo hlo_instruction(std::string_view opcode, std::string_view details = "") {
  return {.form = HloForm::kInstruction, .opcode = opcode, .details = details, .scalar = "", .applies = ""};
}
inline constexpr Hlo kCustomCall = hlo_form(HloForm::kCustomCall, "custom-call");

constexpr XlaNames xla_names(std::string_view aten, const Hlo& hlo) {
  return {.aten = aten, .aten_of_matrices = "", .hlo = hlo};
}

// ---- families ------------------------------------------------------------------------------------------------------

// Fields in which element-wise ops differ. Definitions name the struct, elementwise(ElementwiseDef{…}), so that
// compilers name a field that is left out.
struct ElementwiseDef {
  Required<TypeRule> infer;
  Required<Gradient> gradient;
  Required<FoldRule> fold;
  Required<FlopRule> flops;
  Required<XlaRule> xla_count;
  Required<NumberUses> numbers;
  XlaNames xla;
};
constexpr OpDef elementwise(const ElementwiseDef& def) {
  return {.attributes = Attributes(),
          .infer = def.infer,
          .gradient = def.gradient,
          .fold = def.fold,
          .combines_by = std::nullopt,
          .product = kNoProduct,
          .matrix_operands = 0,
          .cost = {.flops = def.flops, .xla = def.xla_count, .traffic = kEachOnce},
          .batch = BatchRule::kGrows,
          .memory = MemoryRule::kBuffer,
          .in_place = InPlaceRule::kSameElement,
          .autocast = AutocastRule::kAsGiven,
          .numbers = def.numbers,
          .xla = def.xla};
}

// Fields in which functions of one float tensor differ.
struct FunctionDef {
  Required<Gradient> gradient;
  Required<XlaRule> xla_count;
  XlaNames xla;
};
constexpr OpDef float_function(const FunctionDef& def) {
  return elementwise(ElementwiseDef{.infer = float_operand,
                                    .gradient = def.gradient,
                                    .fold = kNoFold,
                                    .flops = flops<1>,
                                    .xla_count = def.xla_count,
                                    .numbers = kNumbersAreOperands,
                                    .xla = def.xla});
}

void check_gradient(const TensorType& grad, const TensorType& result, std::string_view op);

// Fields in which ops over the last axis differ.
struct RowDef {
  Required<Attributes> attributes;
  Required<TypeRule> infer;
  Required<Gradient> gradient;
  Required<FlopRule> flops;
  Required<XlaRule> xla_count;
  Required<BatchRule> batch;
  Required<std::string_view> aten;
};
constexpr OpDef row_op(const RowDef& def) {
  return {.attributes = def.attributes,
          .infer = def.infer,
          .gradient = def.gradient,
          .fold = kNoFold,
          .combines_by = std::nullopt,
          .product = kNoProduct,
          .matrix_operands = 0,
          .cost = {.flops = def.flops, .xla = def.xla_count, .traffic = kEachOnce},
          .batch = def.batch,
          .memory = MemoryRule::kBuffer,
          .in_place = InPlaceRule::kNever,
          .autocast = AutocastRule::kFloat32,
          .numbers = kNumbersAreOperands,
          .xla = xla_names(def.aten, kCustomCall)};
}

// XLA: the maximum of a row, a difference, an exponential and a sum.
inline constexpr XlaRates kLogSumExp{.flops = 3, .flops_of_row = -2, .transcendentals = 1};

}  // namespace runner::backends::op_defs
