// Reference kernels: every op as the plain loop of its definition.
//
// Values are held as long double, whose 64 bits of mantissa hold every i64 and f64 exactly, so that a result has one
// rounding: the last.  Slow on purpose, allocates freely; tests compare everything else with it.

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "backends/ir/op.h"
#include "backends/ir/program.h"
#include "backends/kernels/eltwise.h"
#include "backends/kernels/make_kernel.h"
#include "backends/kernels/philox.h"
#include "backends/kernels/prepare.h"
#include "backends/tensor/float16.h"
#include "schema/base/error.h"

namespace runner::backends {

namespace {

using Real = long double;
using Index = std::array<int64_t, Shape::kMaxRank>;

struct Tensor {
  TensorType type;
  std::vector<Real> values;

  const Shape& shape() const { return type.shape; }
  int64_t rows() const { return type.shape.elements() / std::max<int64_t>(1, type.shape.back()); }
  Real& operator[](int64_t i) { return values[static_cast<size_t>(i)]; }
  Real operator[](int64_t i) const { return values[static_cast<size_t>(i)]; }
  int64_t integer(int64_t i) const { return static_cast<int64_t>((*this)[i]); }
};

struct Call {
  Op op;
  std::vector<TensorType> operand_types;
  std::vector<int64_t> attrs;
  TensorType result;

  int64_t attr(size_t i) const { return attrs[i]; }
  double attr_f64(size_t i) const { return unpack_f64(attrs[i]); }
};

using Operands = std::span<const Tensor>;

// ---- storage -------------------------------------------------------------------------------------------------------

Real load(const std::byte* data, DType dtype, int64_t i) {
  switch (dtype) {
    case DType::kF32: return reinterpret_cast<const float*>(data)[i];
    case DType::kF64: return reinterpret_cast<const double*>(data)[i];
    case DType::kBf16: return bf16_to_f32(reinterpret_cast<const uint16_t*>(data)[i]);
    case DType::kF16: return f16_to_f32(reinterpret_cast<const uint16_t*>(data)[i]);
    case DType::kI32: return reinterpret_cast<const int32_t*>(data)[i];
    case DType::kI64: return static_cast<Real>(reinterpret_cast<const int64_t*>(data)[i]);
    case DType::kBool: return reinterpret_cast<const uint8_t*>(data)[i];
  }
  return 0;
}

// Truncates; NaN and what does not fit give the smallest i64, as the hardware does.
int64_t to_integer(Real value) {
  constexpr Real kLimit = 9223372036854775808.0L;
  return value >= -kLimit && value < kLimit ? static_cast<int64_t>(value) : std::numeric_limits<int64_t>::min();
}

void store(std::byte* data, DType dtype, int64_t i, Real value) {
  switch (dtype) {
    case DType::kF32: reinterpret_cast<float*>(data)[i] = static_cast<float>(value); break;
    case DType::kF64: reinterpret_cast<double*>(data)[i] = static_cast<double>(value); break;
    case DType::kBf16: reinterpret_cast<uint16_t*>(data)[i] = f32_to_bf16(static_cast<float>(value)); break;
    case DType::kF16: reinterpret_cast<uint16_t*>(data)[i] = f32_to_f16(static_cast<float>(value)); break;
    case DType::kI32: reinterpret_cast<int32_t*>(data)[i] = static_cast<int32_t>(to_integer(value)); break;
    case DType::kI64: reinterpret_cast<int64_t*>(data)[i] = to_integer(value); break;
    case DType::kBool: reinterpret_cast<uint8_t*>(data)[i] = value != 0; break;
  }
}

// Calls body(flat, index) for each element of a shape in row-major order.
template <class Body>
void for_each(const Shape& shape, const Body& body) {
  Index index{};
  for (int64_t flat = 0; flat < shape.elements(); ++flat) {
    body(flat, index);
    for (int axis = shape.rank(); axis-- > 0;) {
      if (++index[static_cast<size_t>(axis)] < shape[axis]) break;
      index[static_cast<size_t>(axis)] = 0;
    }
  }
}

int64_t flat_index(const Shape& shape, const Index& index) {
  int64_t flat = 0;
  for (int axis = 0; axis < shape.rank(); ++axis) flat = flat * shape[axis] + index[static_cast<size_t>(axis)];
  return flat;
}

int64_t checked(int64_t index, int64_t size, const char* op, int64_t at) {
  RUN_CHECK(index >= 0 && index < size, ErrorKind::kRun, "{}: index {} at position {} is out of range: there are {}",
            op, index, at, size);
  return index;
}

// ---- element-wise --------------------------------------------------------------------------------------------------

Real sigmoid(Real x) {
  return 1 / (1 + std::exp(-x));
}

Real eltwise(Op op, Real x, Real y, Real z) {
  constexpr Real kSqrtHalf = 0.70710678118654752440L, kSqrt2OverPi = 0.79788456080286535588L;
  switch (op) {
    case Op::kNeg: return -x;
    case Op::kAbs: return std::fabs(x);
    case Op::kSign: return static_cast<Real>((x > 0) - (x < 0));
    case Op::kExp: return std::exp(x);
    case Op::kLog: return std::log(x);
    case Op::kLog1p: return std::log1p(x);
    case Op::kSqrt: return std::sqrt(x);
    case Op::kRsqrt: return 1 / std::sqrt(x);
    case Op::kTanh: return std::tanh(x);
    case Op::kSigmoid: return sigmoid(x);
    case Op::kErf: return std::erf(x);
    case Op::kRelu: return x <= 0 ? 0 : x;
    case Op::kGelu: return x * (std::erfc(-x * kSqrtHalf) / 2);
    case Op::kGeluTanh: return x * sigmoid(2 * kSqrt2OverPi * (x + 0.044715L * x * x * x));
    case Op::kSilu: return x * sigmoid(x);
    case Op::kIsFinite: return std::isfinite(x);
    case Op::kNot: return x == 0;
    case Op::kCast: return x;
    case Op::kAdd: return x + y;
    case Op::kSub: return x - y;
    case Op::kMul: return x * y;
    case Op::kDiv: return x / y;
    case Op::kPow: return std::pow(x, y);
    case Op::kMin: return std::isnan(x) || x < y ? x : y;
    case Op::kMax: return std::isnan(x) || x > y ? x : y;
    case Op::kEq: return x == y;
    case Op::kNe: return x != y;
    case Op::kLt: return x < y;
    case Op::kLe: return x <= y;
    case Op::kGt: return x > y;
    case Op::kGe: return x >= y;
    case Op::kAnd: return x != 0 && y != 0;
    case Op::kOr: return x != 0 || y != 0;
    case Op::kWhere: return x != 0 ? y : z;
    default: assertion_failed("an element-wise op", __FILE__, __LINE__);
  }
}

void run_eltwise(const Call& call, Operands in, Tensor& out) {
  for (int64_t i = 0; i < out.shape().elements(); ++i)
    out[i] = eltwise(call.op, in[0][i], in.size() > 1 ? in[1][i] : 0, in.size() > 2 ? in[2][i] : 0);
}

// ---- reductions ----------------------------------------------------------------------------------------------------

void run_reduce(const Call& call, Operands in, Tensor& out) {
  constexpr Real kInfinity = std::numeric_limits<Real>::infinity();
  const Shape& shape = in[0].shape();
  std::array<bool, Shape::kMaxRank> reduced{};
  for (const int64_t axis : call.attrs) reduced[static_cast<size_t>(axis)] = true;
  const Real start = call.op == Op::kSum ? 0 : call.op == Op::kReduceMax ? -kInfinity : kInfinity;
  std::fill(out.values.begin(), out.values.end(), start);
  for_each(shape, [&](int64_t flat, const Index& index) {
    int64_t at = 0;
    for (int axis = 0; axis < shape.rank(); ++axis)
      if (!reduced[static_cast<size_t>(axis)]) at = at * shape[axis] + index[static_cast<size_t>(axis)];
    const Op combine = call.op == Op::kSum ? Op::kAdd : call.op == Op::kReduceMax ? Op::kMax : Op::kMin;
    out[at] = eltwise(combine, out[at], in[0][flat], 0);
  });
}

void run_argmax(const Call& call, Operands in, Tensor& out) {
  const int axis = static_cast<int>(call.attr(0));
  const Shape& shape = in[0].shape();
  for_each(out.shape(), [&](int64_t flat, const Index& index) {
    Index at{};
    for (int i = 0; i < out.shape().rank(); ++i)
      at[static_cast<size_t>(i < axis ? i : i + 1)] = index[static_cast<size_t>(i)];
    Real best = 0;
    for (int64_t k = 0; k < shape[axis]; ++k) {
      at[static_cast<size_t>(axis)] = k;
      const Real value = in[0][flat_index(shape, at)];
      if (k > 0 && !(value > best) && !(std::isnan(value) && !std::isnan(best))) continue;
      best = value;
      out[flat] = static_cast<Real>(k);
    }
  });
}

// ---- layout --------------------------------------------------------------------------------------------------------

void run_reshape(const Call&, Operands in, Tensor& out) {
  out.values = in[0].values;
}

void run_permute(const Call& call, Operands in, Tensor& out) {
  for_each(out.shape(), [&](int64_t flat, const Index& index) {
    Index at{};
    for (int i = 0; i < out.shape().rank(); ++i)
      at[static_cast<size_t>(call.attr(static_cast<size_t>(i)))] = index[static_cast<size_t>(i)];
    out[flat] = in[0][flat_index(in[0].shape(), at)];
  });
}

void run_expand(const Call&, Operands in, Tensor& out) {
  const Shape& shape = in[0].shape();
  const int lead = out.shape().rank() - shape.rank();
  for_each(out.shape(), [&](int64_t flat, const Index& index) {
    Index at{};
    for (int i = 0; i < shape.rank(); ++i)
      at[static_cast<size_t>(i)] = shape[i] == 1 ? 0 : index[static_cast<size_t>(i + lead)];
    out[flat] = in[0][flat_index(shape, at)];
  });
}

void run_slice(const Call& call, Operands in, Tensor& out) {
  for_each(out.shape(), [&](int64_t flat, const Index& index) {
    Index at{};
    for (size_t i = 0; i < static_cast<size_t>(out.shape().rank()); ++i)
      at[i] = call.attr(3 * i) + index[i] * call.attr(3 * i + 2);
    out[flat] = in[0][flat_index(in[0].shape(), at)];
  });
}

void run_pad(const Call& call, Operands in, Tensor& out) {
  std::fill(out.values.begin(), out.values.end(), 0);
  for_each(in[0].shape(), [&](int64_t flat, const Index& index) {
    Index at{};
    for (size_t i = 0; i < static_cast<size_t>(out.shape().rank()); ++i) at[i] = index[i] + call.attr(2 * i);
    out[flat_index(out.shape(), at)] = in[0][flat];
  });
}

void run_concat(const Call& call, Operands in, Tensor& out) {
  const auto axis = static_cast<size_t>(call.attr(0));
  int64_t start = 0;
  for (const Tensor& part : in) {
    for_each(part.shape(), [&](int64_t flat, Index index) {
      index[axis] += start;
      out[flat_index(out.shape(), index)] = part[flat];
    });
    start += part.shape()[static_cast<int>(axis)];
  }
}

// ---- indexing ------------------------------------------------------------------------------------------------------

void run_gather(const Call& call, Operands in, Tensor& out) {
  const int axis = static_cast<int>(call.attr(0));
  for_each(out.shape(), [&](int64_t flat, Index index) {
    index[static_cast<size_t>(axis)] = checked(in[1].integer(flat), in[0].shape()[axis], "gather", flat);
    out[flat] = in[0][flat_index(in[0].shape(), index)];
  });
}

void run_scatter_add(const Call& call, Operands in, Tensor& out) {
  const int axis = static_cast<int>(call.attr(0));
  out.values = in[0].values;
  for_each(in[1].shape(), [&](int64_t flat, Index index) {
    index[static_cast<size_t>(axis)] = checked(in[1].integer(flat), out.shape()[axis], "scatter_add", flat);
    out[flat_index(out.shape(), index)] += in[2][flat];
  });
}

void run_one_hot(const Call& call, Operands in, Tensor& out) {
  std::fill(out.values.begin(), out.values.end(), 0);
  for (int64_t i = 0; i < in[0].shape().elements(); ++i)
    out[i * call.attr(0) + checked(in[0].integer(i), call.attr(0), "one_hot", i)] = 1;
}

void run_embedding(const Call&, Operands in, Tensor& out) {
  const int64_t width = in[0].shape()[1];
  for (int64_t i = 0; i < in[1].shape().elements(); ++i) {
    const int64_t row = checked(in[1].integer(i), in[0].shape()[0], "embedding", i);
    for (int64_t d = 0; d < width; ++d) out[i * width + d] = in[0][row * width + d];
  }
}

void run_embedding_grad(const Call& call, Operands in, Tensor& out) {
  const int64_t width = out.shape()[1];
  std::fill(out.values.begin(), out.values.end(), 0);
  for (int64_t i = 0; i < in[0].shape().elements(); ++i) {
    const int64_t row = checked(in[0].integer(i), call.attr(0), "embedding_grad", i);
    for (int64_t d = 0; d < width; ++d) out[row * width + d] += in[1][i * width + d];
  }
}

// ---- products ------------------------------------------------------------------------------------------------------

void run_matmul(const Call& call, Operands in, Tensor& out) {
  const bool ta = call.attr(0) != 0, tb = call.attr(1) != 0;
  const int rank = out.shape().rank();
  const int64_t rows = out.shape()[rank - 2], cols = out.shape()[rank - 1];
  const int64_t inner = in[0].shape()[rank - (ta ? 2 : 1)];
  const int64_t batch = rows * cols == 0 ? 0 : out.shape().elements() / (rows * cols);
  for (int64_t g = 0; g < batch; ++g)
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < cols; ++j) {
        Real sum = 0;
        for (int64_t k = 0; k < inner; ++k)
          sum += in[0][g * rows * inner + (ta ? k * rows + i : i * inner + k)] *
                 in[1][g * inner * cols + (tb ? j * inner + k : k * cols + j)];
        const int64_t at = (g * rows + i) * cols + j;
        out[at] = sum + (in.size() > 2 ? in[2][at] : 0);
      }
}

// ---- over the last axis --------------------------------------------------------------------------------------------

// log Σ exp of row r, by the maximum.
Real log_sum_exp(const Tensor& x, int64_t r) {
  const int64_t width = x.shape().back();
  Real top = -std::numeric_limits<Real>::infinity(), sum = 0;
  for (int64_t c = 0; c < width; ++c) top = eltwise(Op::kMax, top, x[r * width + c], 0);
  for (int64_t c = 0; c < width; ++c) sum += std::exp(x[r * width + c] - top);
  return top + std::log(sum);
}

void run_softmax(const Call& call, Operands in, Tensor& out) {
  const int64_t width = out.shape().back();
  for (int64_t r = 0; r < out.rows(); ++r) {
    const Real lse = log_sum_exp(in[0], r);
    for (int64_t c = 0; c < width; ++c) {
      const Real log_p = in[0][r * width + c] - lse;
      out[r * width + c] = call.op == Op::kSoftmax ? std::exp(log_p) : log_p;
    }
  }
}

// The row's target distribution in the sense of torch's cross_entropy: (1 − ls)·w[y] at the label, ls/C·w[c]
// everywhere.
Real target_weight(const Call& call, const Tensor* weights, int64_t classes, int64_t label, int64_t c) {
  const Real smoothing = call.attr_f64(1);
  const Real weight = weights != nullptr ? (*weights)[c] : 1;
  return weight * (smoothing / static_cast<Real>(classes) + (c == label ? 1 - smoothing : 0));
}

// Label of row r, −1 where it is ignored.
int64_t label_of(const Call& call, const Tensor& labels, int64_t r, int64_t classes) {
  const int64_t label = labels.integer(r);
  if (label == call.attr(0)) return -1;
  RUN_CHECK(label >= 0 && label < classes, ErrorKind::kRun,
            "cross_entropy: label {} at row {} is out of range: the model has {} classes", label, r, classes);
  return label;
}

void run_cross_entropy(const Call& call, Operands in, Tensor& out) {
  const int64_t classes = in[0].shape().back();
  const Tensor* weights = in.size() > 2 ? &in[2] : nullptr;
  for (int64_t r = 0; r < in[0].rows(); ++r) {
    const int64_t label = label_of(call, in[1], r, classes);
    const Real lse = log_sum_exp(in[0], r);
    Real loss = 0;
    for (int64_t c = 0; c < classes && label >= 0; ++c) {
      const Real target = target_weight(call, weights, classes, label, c);
      if (target != 0) loss -= target * (in[0][r * classes + c] - lse);
    }
    out[r] = loss;
  }
}

void run_cross_entropy_grad(const Call& call, Operands in, Tensor& out) {
  const int64_t classes = in[0].shape().back();
  const Tensor* weights = in.size() > 3 ? &in[3] : nullptr;
  for (int64_t r = 0; r < in[0].rows(); ++r) {
    const int64_t label = label_of(call, in[1], r, classes);
    const Real lse = log_sum_exp(in[0], r);
    Real total = 0;
    for (int64_t c = 0; c < classes; ++c) total += target_weight(call, weights, classes, label, c);
    for (int64_t c = 0; c < classes; ++c) {
      const Real p = std::exp(in[0][r * classes + c] - lse);
      out[r * classes + c] = label < 0 ? 0 : in[2][r] * (p * total - target_weight(call, weights, classes, label, c));
    }
  }
}

struct RowMoments {
  Real mean = 0, rstd = 0;
};

RowMoments moments(const Call& call, const Tensor& x, int64_t r) {
  const int64_t width = x.shape().back();
  RowMoments m;
  Real variance = 0;
  for (int64_t d = 0; d < width; ++d) m.mean += x[r * width + d] / static_cast<Real>(width);
  for (int64_t d = 0; d < width; ++d)
    variance += (x[r * width + d] - m.mean) * (x[r * width + d] - m.mean) / static_cast<Real>(width);
  m.rstd = 1 / std::sqrt(variance + static_cast<Real>(call.attr_f64(0)));
  return m;
}

void run_layer_norm(const Call& call, Operands in, Tensor& out) {
  const int64_t width = out.shape().back();
  for (int64_t r = 0; r < out.rows(); ++r) {
    const RowMoments m = moments(call, in[0], r);
    for (int64_t d = 0; d < width; ++d)
      out[r * width + d] = (in[0][r * width + d] - m.mean) * m.rstd * in[1][d] + in[2][d];
  }
}

// dx = rstd · (gγ − mean(gγ) − x̂ · mean(gγ · x̂))
void run_layer_norm_grad_x(const Call& call, Operands in, Tensor& out) {
  const int64_t width = out.shape().back();
  for (int64_t r = 0; r < out.rows(); ++r) {
    const RowMoments m = moments(call, in[0], r);
    Real mean_g = 0, mean_gx = 0;
    const auto normal = [&](int64_t d) { return (in[0][r * width + d] - m.mean) * m.rstd; };
    const auto scaled = [&](int64_t d) { return in[1][d] * in[2][r * width + d]; };
    for (int64_t d = 0; d < width; ++d) mean_g += scaled(d) / static_cast<Real>(width);
    for (int64_t d = 0; d < width; ++d) mean_gx += scaled(d) * normal(d) / static_cast<Real>(width);
    for (int64_t d = 0; d < width; ++d) out[r * width + d] = m.rstd * (scaled(d) - mean_g - normal(d) * mean_gx);
  }
}

void run_layer_norm_grad_gamma(const Call& call, Operands in, Tensor& out) {
  const int64_t width = out.shape().back();
  std::fill(out.values.begin(), out.values.end(), 0);
  for (int64_t r = 0; r < in[0].rows(); ++r) {
    const RowMoments m = moments(call, in[0], r);
    for (int64_t d = 0; d < width; ++d) out[d] += in[1][r * width + d] * (in[0][r * width + d] - m.mean) * m.rstd;
  }
}

// ---- random --------------------------------------------------------------------------------------------------------

void run_dropout_mask(const Call& call, Operands in, Tensor& out) {
  const int64_t samples = out.shape()[0];
  const int64_t width = samples == 0 ? 0 : out.shape().elements() / samples;
  const double p = call.attr_f64(1);
  for (int64_t s = 0; s < samples; ++s) {
    const DropoutStream stream(static_cast<uint64_t>(in[0].integer(0)), static_cast<uint64_t>(in[0].integer(1)),
                               static_cast<uint64_t>(in[1].integer(s)), static_cast<uint32_t>(call.attr(0)));
    for (int64_t e = 0; e < width; ++e) {
      const uint32_t word = stream.block(static_cast<uint32_t>(e / 4))[static_cast<size_t>(e % 4)];
      out[s * width + e] = word < dropout_threshold(p) ? 0 : 1 / (1 - p);
    }
  }
}

TensorStream tensor_stream(const Call& call, const Tensor& key, TensorStream::Use use) {
  return {static_cast<uint64_t>(key.integer(0)), static_cast<uint64_t>(key.integer(1)),
          static_cast<uint32_t>(call.attr(0)), use};
}

void run_random_uniform(const Call& call, Operands in, Tensor& out) {
  const TensorStream stream = tensor_stream(call, in[0], TensorStream::Use::kUniform);
  for (int64_t e = 0; e < out.shape().elements(); ++e) {
    const uint32_t word = stream.block(static_cast<uint32_t>(e / 4))[static_cast<size_t>(e % 4)];
    out[e] = std::ldexp(static_cast<Real>(word >> 8), -24);
  }
}

// Box and Muller, "A note on the generation of random normal deviates", 1958: √(−2 ln u) (cos φ, sin φ) for each two
// words, u of the first, rounded to f32, and φ of the second.
void run_random_normal(const Call& call, Operands in, Tensor& out) {
  const TensorStream stream = tensor_stream(call, in[0], TensorStream::Use::kNormal);
  for (int64_t e = 0; e < out.shape().elements(); ++e) {
    const PhiloxCounter words = stream.block(static_cast<uint32_t>(e / 4));
    const auto pair = static_cast<size_t>(e % 4 / 2 * 2);
    const Real u = static_cast<float>(words[pair] >> 1) * 0x1p-31f + 0x1p-32f;
    const Real angle = 2 * std::acos(Real{-1}) * std::ldexp(static_cast<Real>(words[pair + 1]), -32);
    out[e] = std::sqrt(-2 * std::log(u)) * (e % 2 == 0 ? std::cos(angle) : std::sin(angle));
  }
}

// ---- dispatch ------------------------------------------------------------------------------------------------------

using Function = void (*)(const Call&, Operands, Tensor&);

Function function_of(Op op) {
  switch (op) {
    case Op::kSum:
    case Op::kReduceMax:
    case Op::kReduceMin: return run_reduce;
    case Op::kArgMax: return run_argmax;
    case Op::kReshape:
    case Op::kDetach: return run_reshape;
    case Op::kPermute: return run_permute;
    case Op::kExpand: return run_expand;
    case Op::kSlice: return run_slice;
    case Op::kPad: return run_pad;
    case Op::kConcat: return run_concat;
    case Op::kGather: return run_gather;
    case Op::kScatterAdd: return run_scatter_add;
    case Op::kOneHot: return run_one_hot;
    case Op::kEmbedding: return run_embedding;
    case Op::kEmbeddingGrad: return run_embedding_grad;
    case Op::kMatmul: return run_matmul;
    case Op::kSoftmax:
    case Op::kLogSoftmax: return run_softmax;
    case Op::kCrossEntropy: return run_cross_entropy;
    case Op::kCrossEntropyGrad: return run_cross_entropy_grad;
    case Op::kLayerNorm: return run_layer_norm;
    case Op::kLayerNormGradX: return run_layer_norm_grad_x;
    case Op::kLayerNormGradGamma: return run_layer_norm_grad_gamma;
    case Op::kDropoutMask: return run_dropout_mask;
    case Op::kRandomUniform: return run_random_uniform;
    case Op::kRandomNormal: return run_random_normal;
    default: RUN_ASSERT(is_elementwise(op)); return run_eltwise;
  }
}

void run_reference(const Call& call, const KernelArguments& arguments) {
  std::vector<Tensor> in;
  for (size_t k = 0; k < call.operand_types.size(); ++k) {
    const TensorType& type = call.operand_types[k];
    Tensor& tensor = in.emplace_back(Tensor{type, std::vector<Real>(static_cast<size_t>(type.shape.elements()))});
    for (int64_t i = 0; i < type.shape.elements(); ++i) tensor[i] = load(arguments.operands[k], type.dtype, i);
  }
  Tensor out{call.result, std::vector<Real>(static_cast<size_t>(call.result.shape.elements()))};
  function_of(call.op)(call, in, out);
  for (int64_t i = 0; i < call.result.shape.elements(); ++i) store(arguments.results[0], call.result.dtype, i, out[i]);
}

// One element of a group at a time; every instruction rounds to its dtype by way of storage.
void run_reference_eltwise(const EltwiseGroup& group, const KernelArguments& arguments) {
  std::vector<Real> registers(group.inputs.size());
  registers.insert(registers.end(), group.constants.begin(), group.constants.end());
  const size_t first_result = registers.size();
  registers.resize(first_result + group.code.size());
  for_each(group.shape, [&](int64_t flat, const Index& index) {
    for (size_t k = 0; k < group.inputs.size(); ++k) {
      int64_t at = 0;
      for (size_t axis = 0; axis < Shape::kMaxRank; ++axis) at += index[axis] * group.inputs[k].strides[axis];
      registers[k] = load(arguments.operands[k], group.inputs[k].dtype, at);
    }
    for (size_t k = 0; k < group.code.size(); ++k) {
      const EltwiseInstruction& code = group.code[k];
      std::array<Real, 3> x{};
      for (size_t s = 0; s < 3; ++s)
        if (code.sources[s] >= 0) x[s] = registers[static_cast<size_t>(code.sources[s])];
      alignas(8) std::array<std::byte, 8> rounded;
      store(rounded.data(), code.dtype, 0, eltwise(code.op, x[0], x[1], x[2]));
      registers[first_result + k] = load(rounded.data(), code.dtype, 0);
    }
    for (size_t k = 0; k < group.outputs.size(); ++k) {
      const auto source = static_cast<size_t>(group.outputs[k]);
      store(arguments.results[k], group.code[source - first_result].dtype, flat, registers[source]);
    }
  });
}

}  // namespace

Kernel prepare_reference_eltwise(const EltwiseGroup& group) {
  return make_kernel<run_reference_eltwise>("reference.eltwise", group);
}

Kernel prepare_reference_kernel(const KernelRequest& request) {
  if (is_collective(request.op)) return prepare_all_reduce(request);  // whose arithmetic is the replicas'
  Call call{.op = request.op,
            .operand_types = {request.operands.begin(), request.operands.end()},
            .attrs = {request.attrs.begin(), request.attrs.end()},
            .result = request.result};
  return make_kernel<run_reference>(fmt::format("reference.{}", name_of(request.op)), std::move(call));
}

}  // namespace runner::backends
