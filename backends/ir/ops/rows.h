// Building blocks of the definitions of ops over the last axis.
#pragma once

#include "backends/ir/ops/definition.h"

namespace runner::backends::op_defs {

void check_gradient(const TensorType& grad, const TensorType& result, std::string_view op);

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
