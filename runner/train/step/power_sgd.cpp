#include "runner/train/step/power_sgd.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "backends/ir/ops.h"
#include "runner/train/step/gradients.h"
#include "runner/train/step/loss_scaler.h"

namespace runner::train {
namespace {

namespace ops = backends::ops;
using backends::DType;
using backends::Shape;
using schema::CommHook;
using schema::CommSpec;

LowRankMatrix square_of(const nn::ParameterSet& parameters, int32_t buffer) {
  const int64_t elements = parameters.buffers()[static_cast<size_t>(buffer)].elements;
  auto side = static_cast<int64_t>(std::sqrt(static_cast<double>(elements)));
  while (side * side < elements) ++side;
  return {.name = "", .elements = elements, .rows = side, .columns = side};
}

LowRankMatrix matrix_of(const nn::Parameter& parameter) {
  const int64_t rows = parameter.shape.rank() > 0 ? parameter.shape[0] : 1;
  return {.name = parameter.name,
          .offset = parameter.offset,
          .elements = parameter.elements(),
          .rows = rows,
          .columns = parameter.elements() / rows};
}

bool gets_smaller(const LowRankMatrix& matrix, double rate) {
  const auto before = static_cast<double>(matrix.rows * matrix.columns);
  return static_cast<double>((matrix.rows + matrix.columns) * matrix.rank) * rate < before;
}

Value norms_of_columns(Value matrix) {
  const int64_t rows[] = {0};
  return ops::sqrt(ops::sum(ops::mul(matrix, matrix), rows, /*keep_dims=*/true));
}

Value zeros_like(Value x) {
  return ops::full_like(x, 0.0);
}

// Gram–Schmidt in f64. A column that depends linearly on the previous ones becomes 0; in torch it becomes NaN.
Value orthogonal(Value matrix) {
  const DType dtype = matrix.dtype();
  Value rest = ops::cast(matrix, DType::kF64);
  const int64_t columns = matrix.shape()[1], rows[] = {0};
  std::vector<Value> done;
  for (int64_t i = 0; i < columns; ++i) {
    const Value column = ops::slice(rest, 1, 0, 1), norm = norms_of_columns(column);
    const Value is_zero = ops::eq(norm, zeros_like(norm));
    done.push_back(ops::div(column, ops::where(is_zero, ops::full_like(norm, 1.0), norm)));
    if (i + 1 == columns) break;
    rest = ops::slice(rest, 1, 1, columns - i);
    const Value along = ops::sum(ops::mul(done.back(), rest), rows, /*keep_dims=*/true);
    rest = ops::sub(rest, ops::mul(along, done.back()));
  }
  return ops::cast(ops::concat(done, 1), dtype);
}

// Compresses one buffer.
class Compression {
 public:
  Compression(ArrayValues& arrays, const StepBuilder& builder, int32_t buffer)
      : arrays_(arrays),
        recipe_(builder.recipe()),
        buffer_(buffer),
        matrices_(low_rank_matrices(recipe_.comm, builder.model().parameters, buffer)),
        error_(arrays.get(ArrayRole::kCompression, buffer, kError)),
        qs_(arrays.get(ArrayRole::kCompression, buffer, kQs)),
        count_(arrays.get(ArrayRole::kCompression, buffer, kReductions)) {}

  Value of(Value sum) {
    const Value first = ops::full_like(count_, static_cast<double>(recipe_.comm.start));
    const Value going_on = ops::logical_and(ops::ge(count_, first), all_finite(std::array{sum}));
    std::vector<Value> approximated, errors, qs;
    int64_t end = 0;
    for (const LowRankMatrix& matrix : matrices_) {
      if (matrix.offset > end) approximated.push_back(ops::slice(sum, 0, end, matrix.offset));
      end = matrix.offset + matrix.elements;
      compress(matrix, ops::slice(sum, 0, matrix.offset, end), approximated, errors, qs);
    }
    const int64_t elements = sum.shape()[0];
    if (elements > end) approximated.push_back(ops::slice(sum, 0, end, elements));
    arrays_.set(ops::add(count_, 1.0), ArrayRole::kCompression, buffer_, kReductions);
    if (matrices_.empty()) return sum;
    set(kError, going_on, ops::concat(errors, 0), error_);
    set(kQs, going_on, ops::concat(qs, 0), qs_);
    return ops::where(going_on, ops::concat(approximated, 0), sum);
  }

 private:
  void set(CompressionState what, Value condition, Value now, Value before) {
    arrays_.set(ops::where(condition, now, before), ArrayRole::kCompression, buffer_, what);
  }

  // Rounds to the wrapper's dtype, if there is one.
  Value rounded(Value x) const { return rounded_for_communication(x, recipe_.comm); }

  void compress(const LowRankMatrix& matrix, Value part, std::vector<Value>& approximated, std::vector<Value>& errors,
                std::vector<Value>& qs) {
    const int64_t size = matrix.rows * matrix.columns;
    Value padded = matrix.elements < size ? ops::pad(part, 0, 0, size - matrix.elements) : part;
    const Value error = ops::slice(error_, 0, error_offset_, error_offset_ + size);
    error_offset_ += size;
    if (recipe_.comm.error_feedback) padded = rounded(ops::add(padded, error));
    const Value m = ops::reshape(padded, Shape{matrix.rows, matrix.columns});
    const Value before = rounded(orthogonal(first_q(matrix)));
    const Value p = rounded(orthogonal(rounded(ops::matmul(m, before))));
    const Value q = rounded(ops::matmul(m, p, /*transpose_a=*/true));
    const Value approximation = ops::flatten(rounded(ops::matmul(p, q, false, /*transpose_b=*/true)));
    approximated.push_back(ops::slice(approximation, 0, 0, matrix.elements));
    errors.push_back(recipe_.comm.error_feedback ? rounded(ops::sub(padded, approximation)) : zeros_like(padded));
    qs.push_back(ops::flatten(alive(q, before)));
  }

  // Keeps the previous direction of columns that have become 0; otherwise they would remain 0.
  static Value alive(Value q, Value before) {
    const Value norms = ops::expand(norms_of_columns(q), q.shape());
    return ops::where(ops::eq(norms, zeros_like(norms)), before, q);
  }

  // Returns the Q of the previous reduction, or, without warm_start, a new random one.
  Value first_q(const LowRankMatrix& matrix) {
    const Shape shape{matrix.columns, matrix.rank};
    if (recipe_.comm.warm_start)
      return ops::reshape(ops::slice(qs_, 0, matrix.q_offset, matrix.q_offset + shape.elements()), shape);
    const Value count = ops::cast(count_, DType::kI64);
    const Value key = ops::stack(std::array{ops::full_like(count, static_cast<double>(recipe_.seed)), count}, 0);
    return ops::random_normal(key, shape, /*stream=*/matrix.q_offset);
  }

  ArrayValues& arrays_;
  const schema::Recipe& recipe_;
  const int32_t buffer_;
  const std::vector<LowRankMatrix> matrices_;
  const Value error_, qs_, count_;
  int64_t error_offset_ = 0;
};

}  // namespace

bool is_power_sgd(const CommSpec& comm) {
  return comm.hook == CommHook::kPowerSgd || comm.hook == CommHook::kBatchedPowerSgd;
}

std::vector<LowRankMatrix> low_rank_matrices(const CommSpec& comm, const nn::ParameterSet& parameters, int32_t buffer) {
  std::vector<LowRankMatrix> matrices;
  int64_t q_offset = 0;
  const auto add = [&](LowRankMatrix matrix) {
    matrix.rank = std::min({comm.rank, matrix.rows, matrix.columns});
    if (comm.hook == CommHook::kPowerSgd && !gets_smaller(matrix, comm.min_compression_rate)) return;
    matrix.q_offset = q_offset;
    q_offset += matrix.columns * matrix.rank;
    matrices.push_back(std::move(matrix));
  };
  if (comm.hook == CommHook::kBatchedPowerSgd) {
    add(square_of(parameters, buffer));
  } else {
    for (const nn::ParameterId id : parameters.in_buffer(buffer)) add(matrix_of(parameters[id]));
  }
  return matrices;
}

// Recorded without a source line: no line of a hook can change the numbers in it.
Value compressed(ArrayValues& arrays, const StepBuilder& builder, int32_t buffer, Value sum) {
  backends::Program& program = *sum.program;
  const SourceMark line = program.mark();
  program.set_mark(kNoMark);
  const Value result = Compression(arrays, builder, buffer).of(ops::detach(sum));
  program.set_mark(line);
  return result;
}

}  // namespace runner::train
