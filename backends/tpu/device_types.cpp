#include <vector>

#include "backends/ir/ops.h"
#include "backends/ir/passes/passes.h"
#include "backends/ir/passes/rewriter.h"
#include "backends/tpu/numerics.h"
#include "backends/tpu/owners.h"

namespace runner::backends::tpu {
namespace {

class TypeRewriter {
 public:
  TypeRewriter(const Program& program, const DeviceTypes& types, Rounding rounding)
      : rewriter_(program),
        types_(types),
        rounding_(rounding),
        owners_(owners_of(program)),
        rounded_(static_cast<size_t>(program.size())),
        wide_(static_cast<size_t>(program.size())) {
    find_leaving();
  }

  Program run() {
    for (ValueId id = 0; id < from().size(); ++id) {
      rewriter_.make_from(id);
      owners_[static_cast<size_t>(id)] == Owner::kUser ? rewrite(id) : copy_of_host(id);
    }
    for (const Output& output : from().outputs())
      rewriter_.to().output(output.name, on_host(output.value, output.state < 0), output.state);
    return rewriter_.finish_without_outputs();
  }

 private:
  const Program& from() const { return rewriter_.from(); }
  Value value(ValueId now) { return {&rewriter_.to(), now}; }
  TensorType device_type(ValueId old) const { return types_.of(from().type(old)); }

  // Marks values that are outputs or have a reader that is not element-wise: a fusion must round them.
  void find_leaving() {
    leaves_.resize(static_cast<size_t>(from().size()));
    for (ValueId id = 0; id < from().size(); ++id)
      for (const ValueId operand : from().operands(id))
        if (!is_elementwise(from().node(id).op) || marks_host(from(), id)) leaves_[static_cast<size_t>(operand)] = true;
    for (const Output& output : from().outputs()) leaves_[static_cast<size_t>(output.value)] = true;
  }

  void copy_of_host(ValueId id) {
    if (marks_host(from(), id))
      rewriter_.map(id, on_host(from().operands(id)[0], /*read=*/false));
    else
      rewriter_.copy(id);
  }

  // Returns the value in its logical type, rounded to what the device type can represent.
  ValueId on_host(ValueId old, bool read) {
    const ValueId held = is_converted(old, read) ? rounded(old) : rewriter_.mapped(old);
    return ops::cast(value(held), from().type(old).dtype).id;
  }
  // Whether `old` must still be rounded when it leaves: random numbers, and constants and batches that are read back
  // unchanged. `read`: false for the operand of an on_host() mark, whose constants and batches stay as the engine made
  // them.
  bool is_converted(ValueId old, bool read) const {
    const Op op = from().node(old).op;
    if (kind_of(op) == OpKind::kRandom) return true;
    return read && (op == Op::kConstant || (op == Op::kInput && input_kind(old) == InputKind::kBatch));
  }

  // Whether mapped() gives the value in its host type, so that user ops must convert it.
  bool enters(ValueId old) const { return is_given(old) || owners_[static_cast<size_t>(old)] != Owner::kUser; }
  bool is_given(ValueId old) const {
    const Op op = from().node(old).op;
    return op == Op::kInput || kind_of(op) == OpKind::kRandom;
  }

  // Returns `old` in its device type, as an operand of a user op.
  ValueId rounded(ValueId old) {
    if (!is_float(from().type(old).dtype)) return rewriter_.mapped(old);
    Value& known = rounded_[static_cast<size_t>(old)];
    if (!known) known = enters(old) ? entering(old) : ops::cast(value(rewriter_.mapped(old)), device_type(old).dtype);
    return known.id;
  }
  Value entering(ValueId old) {
    const TensorType type = device_type(old);
    if (from().node(old).op == Op::kConstant)
      return value(rewriter_.to().constant(held_on_device(type.dtype, from().constant_value(old)), type));
    const Value x = value(rewriter_.mapped(old));
    const bool transferred = from().node(old).op == Op::kInput && !is_state(old);
    return transferred && type.dtype == DType::kBf16 ? rounded_to_bf16(x) : ops::cast(x, type.dtype);
  }
  // States contain only values that the device type can represent from the second step on.
  bool is_state(ValueId old) const { return input_kind(old) == InputKind::kState; }
  InputKind input_kind(ValueId old) const { return from().input_of(old)->kind; }

  // Like rounded(), but bf16 values are widened to f32, for ops inside a fusion.
  ValueId wide(ValueId old) {
    if (device_type(old).dtype != DType::kBf16) return rounded(old);
    const Value now = value(rewriter_.mapped(old));
    if (!enters(old) && now.dtype() == DType::kF32) return now.id;
    Value& known = wide_[static_cast<size_t>(old)];
    if (!known) known = ops::cast(value(rounded(old)), DType::kF32);
    return known.id;
  }

  void rewrite(ValueId id) {
    const Node& node = from().node(id);
    if (is_given(id)) {
      rewriter_.copy(id);
    } else if (is_collective(node.op)) {
      rewriter_.map(id, reduced(id).id);
    } else if (rounding_ == Rounding::kFused && is_elementwise(node.op)) {
      const Value result = recorded(id, &TypeRewriter::wide);
      const bool stays = !leaves_[static_cast<size_t>(id)] || !is_float(node.type.dtype);
      rewriter_.map(id, stays ? result.id : ops::cast(result, device_type(id).dtype).id);
    } else {
      rewriter_.map(id, recorded(id, &TypeRewriter::rounded).id);
    }
  }

  Value recorded(ValueId id, ValueId (TypeRewriter::*operand_of)(ValueId)) {
    const Node& node = from().node(id);
    std::vector<ValueId> operands;
    for (const ValueId operand : from().operands(id)) operands.push_back((this->*operand_of)(operand));
    const bool is_wide = operand_of == &TypeRewriter::wide;
    TensorType type = device_type(id);
    if (is_wide && type.dtype == DType::kBf16) type.dtype = DType::kF32;
    if (node.op == Op::kCast) return ops::cast(value(operands[0]), type.dtype);
    const Value result = value(rewriter_.to().record(node.op, operands, from().attrs(id), type));
    return is_float(type.dtype) ? ops::cast(result, type.dtype) : result;
  }

  // Collectives do not support bf16: the sum over all ranks is computed in the logical type and rounded once.
  Value reduced(ValueId id) {
    const ValueId operands[] = {ops::cast(value(rounded(from().operands(id)[0])), from().type(id).dtype).id};
    const ValueId sum = rewriter_.to().record(from().node(id).op, operands, from().attrs(id), from().type(id));
    return ops::cast(value(sum), device_type(id).dtype);
  }

  Rewriter rewriter_;
  const DeviceTypes types_;
  const Rounding rounding_;
  std::vector<Owner> owners_;          // this vector and the following are indexed by value of the old Program
  std::vector<Value> rounded_, wide_;  // conversions of mapped() values, created on demand
  std::vector<bool> leaves_;
};

}  // namespace

Program with_device_types(const Program& program, const DeviceTypes& types, Rounding rounding) {
  const bool same = types.f32 == DType::kF32 && types.f64 == DType::kF64;
  return same ? program : TypeRewriter(compose_attention(program), types, rounding).run();
}

}  // namespace runner::backends::tpu
