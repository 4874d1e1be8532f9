#include <algorithm>
#include <vector>

#include "backends/ir/op_def.h"
#include "backends/ir/ops.h"
#include "backends/ir/passes/passes.h"
#include "backends/ir/passes/rewriter.h"
#include "backends/tpu/numerics.h"

namespace runner::backends::tpu {
namespace {

class ProductRewriter {
 public:
  ProductRewriter(const Program& program, MatmulPrecision precision)
      : rewriter_(program), precision_(precision), parts_(static_cast<size_t>(program.size())) {}

  Program run() {
    const Program& from = rewriter_.from();
    // A rounded copy may come after nodes that use it.
    for (const Input& input : from.inputs()) rewriter_.copy(input.value);
    for (ValueId id = 0; id < from.size(); ++id) {
      if (from.node(id).op == Op::kInput) continue;
      if (is_matrix_product(from, id) && from.type(from.operands(id)[0]).dtype == DType::kF32) {
        rewriter_.make_from(id);
        rewriter_.map(id, product(id).id);
      } else {
        rewriter_.copy(id);
      }
    }
    return rewriter_.finish();
  }

 private:
  // bf16 parts of a value of the old Program.
  struct Parts {
    Value hi, lo;
  };

  // Nodes take the location of the first product that needs them.
  Value hi(ValueId old) {
    Parts& parts = parts_[static_cast<size_t>(old)];
    if (!parts.hi) parts.hi = rounded_copy(old);
    if (!parts.hi) parts.hi = rounded_to_bf16({&rewriter_.to(), rewriter_.mapped(old)});
    return parts.hi;
  }
  // Returns the rounded copy of an input, or the same view of it; null if the input has no rounded copy.
  Value rounded_copy(ValueId old) {
    const Program& from = rewriter_.from();
    if (from.node(old).op == Op::kInput) {
      const int32_t index = from.input_index(old);
      const auto copy = std::ranges::find(from.inputs(), index, &Input::rounded_of);
      return copy == from.inputs().end() ? Value() : Value{&rewriter_.to(), rewriter_.mapped(copy->value)};
    }
    if (from.node(old).op != Op::kReshape && from.node(old).op != Op::kSlice) return {};
    const Value whole = rounded_copy(from.operands(old)[0]);
    if (!whole) return {};
    if (from.node(old).op == Op::kReshape) return ops::reshape(whole, from.type(old).shape);
    const ValueId operands[] = {whole.id};
    return {&rewriter_.to(), rewriter_.to().record(Op::kSlice, operands, from.attrs(old))};
  }
  Value lo(ValueId old) {
    Parts& parts = parts_[static_cast<size_t>(old)];
    const Value x{&rewriter_.to(), rewriter_.mapped(old)};
    if (!parts.lo) parts.lo = rounded_to_bf16(ops::sub(x, ops::cast(hi(old), DType::kF32)));
    return parts.lo;
  }

  Value pass(ValueId product, Value a, Value b, Value addend = {}) {
    const Op op = rewriter_.from().node(product).op;
    const std::span<const int64_t> old = rewriter_.from().attrs(product);
    const size_t wide = attribute_index(op, "wide");
    std::vector<int64_t> attrs(old.begin(), old.end());
    attrs.resize(std::max(attrs.size(), wide + 1));
    attrs[wide] = 1;
    const ValueId operands[] = {a.id, b.id, addend.id};
    const std::span<const ValueId> given = std::span(operands).first(addend ? 3 : 2);
    return {&rewriter_.to(), rewriter_.to().record(op, given, attrs, rewriter_.from().type(product))};
  }

  Value product(ValueId id) {
    const std::span<const ValueId> operands = rewriter_.from().operands(id);
    const ValueId a = operands[0], b = operands[1];
    const Value addend = operands.size() > 2 ? Value{&rewriter_.to(), rewriter_.mapped(operands[2])} : Value{};
    if (precision_ == MatmulPrecision::kDefault) return pass(id, hi(a), hi(b), addend);
    const Value rest = ops::add(pass(id, hi(a), lo(b)), pass(id, lo(a), hi(b)));
    const Value whole = ops::add(pass(id, hi(a), hi(b)), rest);
    return addend ? ops::add(addend, whole) : whole;
  }

  Rewriter rewriter_;
  const MatmulPrecision precision_;
  std::vector<Parts> parts_;  // by value of the old Program
};

}  // namespace

int passes_of(MatmulPrecision precision) {
  constexpr int kPasses[] = {1, 3, 6};
  return kPasses[static_cast<size_t>(precision)];
}

bool is_matrix_product(const Program& program, ValueId id) {
  if (kind_of(program.node(id).op) != OpKind::kContraction) return false;
  const ProductSize product = NodeQuery(program, id).product();
  return product.m > 1 && product.n > 1;
}

Program with_matmul_precision(const Program& program, MatmulPrecision precision) {
  if (precision == MatmulPrecision::kHighest) return program;
  return ProductRewriter(compose_attention(program), precision).run();
}

}  // namespace runner::backends::tpu
