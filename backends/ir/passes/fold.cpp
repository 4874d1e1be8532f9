#include <algorithm>
#include <cmath>
#include <optional>

#include "backends/ir/passes/passes.h"
#include "backends/ir/passes/rewriter.h"

namespace runner::backends {
namespace {

class Folder {
 public:
  explicit Folder(const Program& program) : rewriter_(program) {}

  Program run() {
    for (ValueId id = 0; id < from().size(); ++id) {
      const ValueId known = simplified(id);
      if (known == kNoValue) {
        rewriter_.copy(id);
      } else {
        rewriter_.map(id, known);
      }
    }
    return rewriter_.finish();
  }

 private:
  const Program& from() const { return rewriter_.from(); }

  // The new value that stands for an old node, kNoValue: copy it.
  ValueId simplified(ValueId id) {
    const Node& node = from().node(id);
    const std::vector<ValueId> x = rewriter_.mapped_operands(id);
    rewriter_.make_from(id);
    if (const auto value = folded_constant(node, x)) return rewriter_.to().constant(*value, node.type);
    switch (node.op) {
      case Op::kMul: return is_constant(x[1], 1.0) ? x[0] : is_constant(x[0], 1.0) ? x[1] : kNoValue;
      case Op::kDiv: return is_constant(x[1], 1.0) ? x[0] : kNoValue;
      case Op::kSub: return is_constant(x[1], 0.0) && !std::signbit(*constant(x[1])) ? x[0] : kNoValue;
      case Op::kWhere: return known_branch(x);
      case Op::kCast: return rewriter_.to().type(x[0]).dtype == node.type.dtype ? x[0] : kNoValue;
      case Op::kDetach: return x[0];  // derivatives are taken before the passes
      case Op::kReshape: return reshaped(id, x[0]);
      case Op::kExpand: return expanded(id, x[0]);
      case Op::kPermute: return permuted(id, x[0]);
      default: return kNoValue;
    }
  }

  std::optional<double> constant(ValueId now) {
    const Program& to = rewriter_.to();
    if (to.node(now).op != Op::kConstant) return std::nullopt;
    return to.constant_value(now);
  }

  bool is_constant(ValueId now, double value) { return constant(now) == value; }

  // Ops whose result is exact in every dtype's compute type; others are left to the kernels, which alone know their
  // bits.
  std::optional<double> folded_constant(const Node& node, const std::vector<ValueId>& x) {
    if (x.empty()) return std::nullopt;
    const std::optional<double> a = constant(x[0]);
    if (!a) return std::nullopt;
    switch (node.op) {
      case Op::kReshape:
      case Op::kExpand:
      case Op::kPermute:
      case Op::kSlice: return a;
      case Op::kNeg: return is_float(node.type.dtype) ? std::optional(-*a) : std::nullopt;
      case Op::kAbs: return is_float(node.type.dtype) ? std::optional(std::fabs(*a)) : std::nullopt;
      default: break;
    }
    if (x.size() != 2 || node.type.dtype != DType::kF32) return std::nullopt;
    const std::optional<double> b = constant(x[1]);
    if (!b) return std::nullopt;
    const float p = static_cast<float>(*a), q = static_cast<float>(*b);
    switch (node.op) {
      case Op::kAdd: return p + q;
      case Op::kSub: return p - q;
      case Op::kMul: return p * q;
      case Op::kDiv: return p / q;
      default: return std::nullopt;
    }
  }

  ValueId known_branch(const std::vector<ValueId>& x) {
    const std::optional<double> condition = constant(x[0]);
    return condition ? (*condition != 0 ? x[1] : x[2]) : kNoValue;
  }

  ValueId reshaped(ValueId id, ValueId x) {
    Program& to = rewriter_.to();
    const TensorType& type = from().type(id);
    if (to.node(x).op == Op::kReshape) x = to.operands(x)[0];
    if (to.type(x).shape == type.shape) return x;
    const ValueId operands[] = {x};
    return to.record(Op::kReshape, operands, {}, type);
  }

  ValueId expanded(ValueId id, ValueId x) {
    Program& to = rewriter_.to();
    const TensorType& type = from().type(id);
    if (to.type(x).shape == type.shape) return x;
    if (to.node(x).op != Op::kExpand) return kNoValue;
    const ValueId operands[] = {to.operands(x)[0]};
    return to.record(Op::kExpand, operands, {}, type);
  }

  ValueId permuted(ValueId id, ValueId x) {
    Program& to = rewriter_.to();
    if (to.node(x).op != Op::kPermute) return kNoValue;
    std::vector<int64_t> axes(from().attrs(id).begin(), from().attrs(id).end());
    for (int64_t& axis : axes) axis = to.attrs(x)[static_cast<size_t>(axis)];
    const ValueId operands[] = {to.operands(x)[0]};
    return std::is_sorted(axes.begin(), axes.end()) ? operands[0] : to.record(Op::kPermute, operands, axes);
  }

  Rewriter rewriter_;
};

}  // namespace

Program fold(const Program& program) {
  return Folder(program).run();
}

}  // namespace runner::backends
