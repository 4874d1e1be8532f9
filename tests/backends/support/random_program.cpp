#include "tests/backends/support/random_program.h"

#include <algorithm>
#include <numeric>
#include <random>

#include "backends/ir/autograd.h"
#include "backends/ir/ops.h"
#include "schema/base/error.h"
#include "tests/backends/support/run_program.h"

namespace runner::backends::testing {
namespace {

class Generator {
 public:
  Generator(uint32_t seed, int steps, Program& program, Inputs& inputs)
      : random_(seed), program_(program), inputs_(inputs) {
    for (int i = 0; i < 4; ++i) add_input(InputKind::kState, {any_dtype(), any_shape()});
    for (int i = 0; i < 3; ++i) add_input(InputKind::kBatch, {any_dtype(), any_shape()});
    add_input(InputKind::kScalar, {DType::kF32, {}});
    for (int i = 0; i < steps; ++i) {
      program_.set_mark({"random.lua", i + 1, 0});
      add_step();
    }
    random_.seed(seed + 1);  // outputs must not depend on how many numbers the steps drew
    update_states();
    add_outputs();
  }

 private:
  using Step = void (Generator::*)();

  // ---- choices -----------------------------------------------------------------------------------------------------

  int64_t up_to(int64_t most) { return std::uniform_int_distribution<int64_t>(0, most)(random_); }
  bool chance(int percent) { return up_to(99) < percent; }
  template <class T>
  T one_of(std::initializer_list<T> items) {
    return items.begin()[up_to(static_cast<int64_t>(items.size()) - 1)];
  }

  DType any_dtype() {
    return one_of({DType::kF32, DType::kF32, DType::kF32, DType::kF32, DType::kF32, DType::kF32, DType::kF32,
                   DType::kF32, DType::kBf16, DType::kF64, DType::kF16, DType::kI32, DType::kI64, DType::kBool});
  }

  int64_t any_dim() { return chance(3) ? 0 : one_of<int64_t>({1, 1, 2, 2, 3, 4, 5, 7}); }

  Shape any_shape() {
    if (chance(4)) return one_of({Shape{1030}, Shape{33, 65}, Shape{3, 700}, Shape{2, 17, 31}});
    std::vector<int64_t> dims(static_cast<size_t>(up_to(3)));
    for (int64_t& dim : dims) dim = any_dim();
    return Shape(dims);
  }

  // Returns a value for which `fits` holds, or an unset value.
  template <class Fits>
  Value find(const Fits& fits) {
    const auto n = static_cast<int64_t>(pool_.size());
    const int64_t start = chance(60) ? n - 1 - up_to(std::min<int64_t>(n - 1, 3)) : up_to(n - 1);  // often a recent one
    for (int64_t i = 0; i < n; ++i) {
      const Value value = pool_[static_cast<size_t>((start - i + n) % n)];
      if (fits(value)) return value;
    }
    return {};
  }
  Value any_float() {
    return find([](Value v) { return is_float(v.dtype()); });
  }
  Value any_number() {
    return find([](Value v) { return v.dtype() != DType::kBool; });
  }
  Value any_bool() {
    return find([](Value v) { return v.dtype() == DType::kBool; });
  }
  Value any_value() {
    const Value value = find([](Value) { return true; });
    RUN_ASSERT(value);
    return value;
  }

  static bool broadcasts(const Shape& a, const Shape& b) {
    for (int i = 1; i <= std::min(a.rank(), b.rank()); ++i) {
      const int64_t x = a[a.rank() - i], y = b[b.rank() - i];
      if (x != y && x != 1 && y != 1) return false;
    }
    return true;
  }

  // Returns a value, or sometimes a constant, that can be combined with `a` in a binary op.
  Value partner(Value a) {
    if (chance(15)) return ops::full_like(a, one_of({0.0, -0.0, 1.0, -1.0, 0.5, 2.0}));
    return find([&](Value b) { return b.dtype() == a.dtype() && broadcasts(a.shape(), b.shape()) && small(a, b); });
  }
  static bool small(Value a, Value b) { return broadcast(a.shape(), b.shape()).elements() <= kMaxElements; }

  std::vector<int64_t> some_axes(const Shape& shape) {
    std::vector<int64_t> axes;
    for (int axis = 0; axis < shape.rank(); ++axis)
      if (chance(50)) axes.push_back(axis);
    return axes;
  }
  int64_t some_axis(const Shape& shape) { return up_to(shape.rank() - 1); }

  // ---- inputs ------------------------------------------------------------------------------------------------------

  Value add_input(InputKind kind, const TensorType& type) {
    return add_input(kind, kind == InputKind::kScalar ? HostTensor(type, [](int64_t) { return 0.75; })
                                                      : random_tensor(type, random_));
  }
  Value add_input(InputKind kind, HostTensor tensor) {
    const Value value{&program_, program_.input(kind, fmt::format("x{}", inputs_.size()), tensor.type)};
    inputs_.push_back(std::move(tensor));
    pool_.push_back(value);
    return value;
  }
  // Integers in [0, limit).
  Value add_indices(const Shape& shape, int64_t limit) {
    return add_input(InputKind::kBatch,
                     HostTensor({DType::kI64, shape}, [&](int64_t) { return static_cast<double>(up_to(limit - 1)); }));
  }

  // ---- steps -------------------------------------------------------------------------------------------------------

  void add_step() {
    constexpr Step kAnyStep[] = {
        &Generator::unary,      &Generator::unary,     &Generator::unary,      &Generator::unary,
        &Generator::unary,      &Generator::sign_like, &Generator::binary,     &Generator::binary,
        &Generator::binary,     &Generator::binary,    &Generator::binary,     &Generator::binary,
        &Generator::binary,     &Generator::binary,    &Generator::compare,    &Generator::logic,
        &Generator::choose,     &Generator::cast,      &Generator::clamp,      &Generator::reduce,
        &Generator::reduce,     &Generator::argmax,    &Generator::reshape,    &Generator::reshape,
        &Generator::permute,    &Generator::expand,    &Generator::slice,      &Generator::slice,
        &Generator::pad,        &Generator::concat,    &Generator::join_flat,  &Generator::gather,
        &Generator::scatter,    &Generator::one_hot,   &Generator::embedding,  &Generator::matmul,
        &Generator::matmul,     &Generator::softmax,   &Generator::layer_norm, &Generator::cross_entropy,
        &Generator::dropout,    &Generator::noise,     &Generator::twin,       &Generator::constant,
        &Generator::derivative, &Generator::derivative};
    (this->*kAnyStep[up_to(std::ssize(kAnyStep) - 1)])();
  }

  void keep(Value value) { pool_.push_back(value); }

  void unary() {
    const Op op = one_of({Op::kExp, Op::kLog, Op::kLog1p, Op::kSqrt, Op::kRsqrt, Op::kTanh, Op::kSigmoid, Op::kErf,
                          Op::kRelu, Op::kGelu, Op::kGeluTanh, Op::kSilu, Op::kGeluSlope, Op::kGeluTanhSlope,
                          Op::kSiluSlope, Op::kIsFinite});
    if (const Value x = any_float()) keep(ops::unary(op, x));
  }
  void sign_like() {
    if (const Value x = any_number()) keep(ops::unary(one_of({Op::kNeg, Op::kAbs, Op::kSign}), x));
  }
  void binary() {
    const Value a = any_number();
    const Value b = a ? partner(a) : a;
    if (!b) return;
    // Integers grow only by addition, so that no product overflows.
    const bool floats = is_float(a.dtype());
    const Op op = floats ? one_of({Op::kAdd, Op::kSub, Op::kMul, Op::kMul, Op::kDiv, Op::kPow, Op::kMin, Op::kMax})
                         : one_of({Op::kAdd, Op::kSub, Op::kMin, Op::kMax});
    keep(chance(50) ? ops::binary(op, a, b) : ops::binary(op, b, a));
  }
  void compare() {
    const Value a = any_value(), b = partner(a);
    if (b) keep(ops::binary(one_of({Op::kEq, Op::kNe, Op::kLt, Op::kLe, Op::kGt, Op::kGe}), a, b));
  }
  void logic() {
    const Value a = any_bool();
    if (!a) return;
    if (chance(30)) return keep(ops::unary(Op::kNot, a));
    if (const Value b = partner(a)) keep(ops::binary(one_of({Op::kAnd, Op::kOr}), a, b));
  }
  void choose() {
    const Value x = any_value(), y = partner(x);
    if (!y) return;
    const Shape shape = broadcast(x.shape(), y.shape());
    const Value condition = find([&](Value v) {
      return v.dtype() == DType::kBool && broadcasts(v.shape(), shape) &&
             broadcast(v.shape(), shape).elements() <= kMaxElements;
    });
    if (chance(10)) return keep(ops::where(scalar(program_, chance(50), DType::kBool), x, y));
    if (condition) keep(ops::where(condition, x, y));
  }
  void cast() {
    Value x = any_value();
    const DType to = any_dtype();
    if (is_float(x.dtype()) && is_int(to)) {  // values outside the integer range are undefined
      x = ops::where(ops::is_finite(x), x, ops::full_like(x, 0.0));
      x = ops::clamp(x, -100.0, 100.0);
    }
    keep(ops::cast(x, to));
  }
  void clamp() {
    if (const Value x = any_float()) keep(ops::clamp(x, -0.5, chance(50) ? std::optional(0.75) : std::nullopt));
  }

  void reduce() {
    const Value x = any_number();
    if (!x) return;
    const std::vector<int64_t> axes = some_axes(x.shape());
    const bool keep_dims = chance(30);
    if (x.shape().elements() > 0 && chance(40))
      return keep(chance(50) ? ops::reduce_max(x, axes, keep_dims) : ops::reduce_min(x, axes, keep_dims));
    if (is_float(x.dtype()) && chance(40))
      return keep(chance(50) ? ops::mean(x, axes, keep_dims) : ops::norm(x, axes, keep_dims));
    keep(ops::sum(x, axes, keep_dims));
  }
  void argmax() {
    const Value x =
        find([](Value v) { return v.dtype() != DType::kBool && v.shape().rank() > 0 && v.shape().elements() > 0; });
    if (x) keep(ops::argmax(x, some_axis(x.shape()), chance(30)));
  }

  void reshape() {
    const Value x = any_value();
    const Shape shape = x.shape();
    std::vector<int64_t> dims(shape.dims().begin(), shape.dims().end());
    if (chance(30)) return keep(ops::flatten(x));
    if (dims.size() >= 2 && chance(50)) {  // join two axes
      const auto at = static_cast<size_t>(up_to(std::ssize(dims) - 2));
      dims[at] *= dims[at + 1];
      dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(at) + 1);
    } else if (dims.size() < 5) {
      dims.insert(dims.begin() + up_to(std::ssize(dims)), 1);
    }
    keep(ops::reshape(x, Shape(dims)));
  }
  void permute() {
    const Value x = any_value();
    std::vector<int64_t> axes(static_cast<size_t>(x.shape().rank()));
    std::iota(axes.begin(), axes.end(), 0);
    std::shuffle(axes.begin(), axes.end(), random_);
    keep(ops::permute(x, axes));
  }
  void expand() {
    const Value x = any_value();
    const Shape shape = x.shape();
    std::vector<int64_t> dims(shape.dims().begin(), shape.dims().end());
    for (int64_t& dim : dims)
      if (dim == 1 && chance(60)) dim = any_dim();
    if (dims.size() < 4 && chance(40)) dims.insert(dims.begin(), any_dim());
    if (Shape(dims).elements() <= kMaxElements) keep(ops::expand(x, Shape(dims)));
  }
  void slice() {
    const Value x = find([](Value v) { return v.shape().rank() > 0; });
    if (!x) return;
    const int64_t axis = chance(50) ? 0 : some_axis(x.shape());
    const int64_t start = up_to(x.shape()[static_cast<int>(axis)]);
    const int64_t stop = start + up_to(x.shape()[static_cast<int>(axis)] - start);
    keep(ops::slice(x, axis, start, stop, chance(70) ? 1 : 2));
  }
  void pad() {
    const Value x = find([](Value v) { return v.shape().rank() > 0 && v.shape().elements() < kMaxElements / 4; });
    if (x) keep(ops::pad(x, some_axis(x.shape()), up_to(2), up_to(2)));
  }
  void concat() {
    const Value x = find([](Value v) { return v.shape().rank() > 0 && v.shape().elements() < kMaxElements / 4; });
    if (!x) return;
    const auto axis = static_cast<int>(some_axis(x.shape()));
    std::vector<Value> parts = {x};
    for (int64_t i = up_to(3); i > 0; --i)
      if (const Value part = find([&](Value v) {
            return v.dtype() == x.dtype() && v.shape().rank() == x.shape().rank() &&
                   v.shape().with(axis, 1) == x.shape().with(axis, 1) && v.shape()[axis] < 500;
          }))
        parts.push_back(part);
    keep(ops::concat(parts, axis));
  }
  // Like gradients concatenated into one array.
  void join_flat() {
    std::vector<Value> parts;
    for (int i = 0; i < 3; ++i)
      if (const Value part =
              find([](Value v) { return v.dtype() == DType::kF32 && v.shape().elements() < kMaxElements / 4; }))
        parts.push_back(ops::flatten(part));
    if (!parts.empty()) keep(ops::concat(parts, 0));
  }

  void gather() {
    const Value x = find([](Value v) { return v.shape().rank() > 0 && v.shape().elements() > 0; });
    if (!x) return;
    const auto axis = static_cast<int>(some_axis(x.shape()));
    keep(ops::gather(x, axis, add_indices(x.shape().with(axis, 1 + up_to(3)), x.shape()[axis])));
  }
  void scatter() {
    const Value x =
        find([](Value v) { return v.dtype() != DType::kBool && v.shape().rank() > 0 && v.shape().elements() > 0; });
    if (!x) return;
    const auto axis = static_cast<int>(some_axis(x.shape()));
    const Value index = add_indices(x.shape().with(axis, 1 + up_to(3)), x.shape()[axis]);
    const Value source = find([&](Value v) { return v.dtype() == x.dtype() && v.shape() == index.shape(); });
    keep(ops::scatter_add(x, axis, index, source ? source : ops::full_like(ops::cast(index, x.dtype()), 1.0)));
  }
  void one_hot() {
    const int64_t classes = 1 + up_to(4);
    keep(ops::one_hot(add_indices({any_dim(), 2}, classes), classes));
  }
  void embedding() {
    const Value table = find([](Value v) { return is_float(v.dtype()) && v.shape().rank() == 2 && v.shape()[0] > 0; });
    if (table) keep(ops::embedding(table, add_indices(Shape{2, 1 + up_to(2)}, table.shape()[0])));
  }

  void matmul() {
    const Value a = find([](Value v) { return is_float(v.dtype()) && v.shape().rank() >= 2; });
    if (!a) return;
    const bool ta = chance(30), tb = chance(30);
    const int rank = a.shape().rank();
    const int64_t inner = a.shape()[rank - (ta ? 2 : 1)];
    Shape shape = a.shape().with(rank - (tb ? 1 : 2), inner).with(rank - (tb ? 2 : 1), 1 + up_to(4));
    const Value b = find([&](Value v) { return v.type() == TensorType{a.dtype(), shape}; });
    keep(ops::matmul(a, b ? b : add_input(InputKind::kBatch, TensorType{a.dtype(), shape}), ta, tb));
  }

  Value any_rows() {
    return find([](Value v) { return is_float(v.dtype()) && v.shape().rank() > 0 && v.shape().elements() > 0; });
  }
  void softmax() {
    const Value x = any_rows();
    if (!x) return;
    const int64_t axis = chance(70) ? -1 : some_axis(x.shape());
    keep(chance(50) ? ops::softmax(x, axis) : ops::log_softmax(x, axis));
  }
  void layer_norm() {
    const Value x = any_rows();
    if (!x) return;
    const TensorType row{x.dtype(), Shape{x.shape().back()}};
    keep(ops::layer_norm(x, add_input(InputKind::kBatch, row), add_input(InputKind::kBatch, row)));
  }
  void cross_entropy() {
    const Value x =
        find([](Value v) { return is_float(v.dtype()) && v.shape().rank() == 2 && v.shape().elements() > 0; });
    if (!x) return;
    ops::CrossEntropyOptions options{.ignore_index = 0, .label_smoothing = chance(50) ? 0.1 : 0, .class_weights = {}};
    if (chance(30)) options.class_weights = add_input(InputKind::kBatch, {x.dtype(), Shape{x.shape()[1]}});
    keep(ops::cross_entropy(x, add_indices(Shape{x.shape()[0]}, x.shape()[1]), options));
  }
  void dropout() {
    const Value x = find([](Value v) { return v.dtype() == DType::kF32 && v.shape().rank() > 0; });
    if (!x) return;
    const Value mask = ops::dropout_mask(add_indices({2}, 1000), add_indices({x.shape()[0]}, 1000), x.shape(), 3, 0.4);
    keep(ops::mul(x, mask));
  }
  void noise() {
    const Value x = find([](Value v) { return v.dtype() == DType::kF32; });
    if (!x) return;
    const Value key = add_indices({2}, 1000);
    const Value first = chance(50) ? ops::random_normal(key, x.shape(), 0) : ops::random_uniform(key, x.shape(), 0);
    const Value second = ops::random_normal(key, x.shape(), up_to(1));  // may equal the first
    keep(ops::add(ops::mul(x, first), second));
  }

  // Records the same node twice, for common subexpression elimination.
  void twin() {
    const Value x = any_float();
    if (!x) return;
    keep(ops::add(ops::mul(x, x), 1.0));
    keep(ops::add(ops::mul(x, x), 1.0));
  }
  void constant() { keep({&program_, program_.constant(one_of({0.0, 1.0, -2.5}), {any_dtype(), any_shape()})}); }

  void derivative() {
    if (++derivatives_ > 2) return;
    const Value root = any_float();
    if (!root) return;
    std::vector<Value> wrt = {any_float(), root};
    for (const Input& input : program_.inputs())
      if (is_float(program_.type(input.value).dtype)) wrt.push_back({&program_, input.value});
    std::vector<Value> grads, flat;
    try {
      grads = differentiate(root, ops::full_like(root, 1.0), wrt);
    } catch (const Error&) {  // the gradient of layer_norm has none
      return;
    }
    for (const Value grad : grads) {
      if (!grad) continue;
      keep(grad);
      if (grad.dtype() == root.dtype()) flat.push_back(ops::flatten(grad));
    }
    if (!flat.empty()) keep(ops::concat(flat, 0));
  }

  // ---- outputs ------------------------------------------------------------------------------------------------------

  void update_states() {
    std::vector<int32_t> states;
    for (size_t i = 0; i < program_.inputs().size(); ++i)
      if (program_.inputs()[i].kind == InputKind::kState) states.push_back(static_cast<int32_t>(i));
    for (const int32_t state : states) {
      if (chance(20)) continue;
      const Value old{&program_, program_.inputs()[static_cast<size_t>(state)].value};
      Value now = find([&](Value v) { return v.type() == old.type() && (v.id != old.id || chance(20)); });
      if (!now || chance(20)) now = of_type(any_value(), old.type());
      if (now) program_.output("", now.id, state);
    }
  }

  // Returns a value of the given type, made from x by a slice, a cast and a view; unset if x has too few elements.
  Value of_type(Value x, const TensorType& type) {
    if (x.shape().elements() < type.shape.elements() || (is_float(x.dtype()) && is_int(type.dtype))) return {};
    const Value run = ops::slice(ops::flatten(x), 0, 0, type.shape.elements());
    return ops::reshape(ops::cast(run, type.dtype), type.shape);
  }

  void add_outputs() {
    for (int i = 0; i < 5; ++i) program_.output(fmt::format("y{}", i), any_value().id);
    for (int i = 0; i < 2; ++i) program_.output("last", pool_[pool_.size() - 1 - static_cast<size_t>(i)].id);
  }

  static constexpr int64_t kMaxElements = 8192;

  std::mt19937 random_;
  Program& program_;
  Inputs& inputs_;
  std::vector<Value> pool_;
  int derivatives_ = 0;
};

}  // namespace

RandomProgram::RandomProgram(uint32_t seed, int steps) {
  Generator(seed, steps, program, inputs);
}

}  // namespace runner::backends::testing
