// Softmax, cross-entropy, layer normalisation and ranks of labels of whole rows of f32 or f64.
//
// Exponentials are computed for several short rows at once, so that ten classes cost as much per element as a thousand.
// Sums, means and variances are f64 (lanes.h).

#include "backends/kernels/isa/lanes.h"
#include "backends/kernels/isa/loops.h"
#include "backends/kernels/isa/scalar_ops.h"

namespace runner::backends::RUNNER_ISA {

namespace {

using lanes::Doubles;

constexpr int64_t kBlock = 1024;  // elements whose exponentials are computed together

template <class T>
RUNNER_INLINE T exp_of(T x) {
  return scalar_ops::Scalar<Op::kExp>::apply(x);
}

// log s for s = Σ exp(x − max x), which has a term 1.
RUNNER_INLINE float log_of_sum(double s, float) {
  return vector_math::log1p(static_cast<float>(s - 1.0));
}
RUNNER_INLINE double log_of_sum(double s, double) {
  return std::log(s);
}

RUNNER_INLINE int64_t rows_per_block(int64_t cols) {
  return cols < kBlock ? kBlock / cols : 1;
}
RUNNER_INLINE int64_t smaller(int64_t a, int64_t b) {
  return a < b ? a : b;
}

// out = exp(x − maximum of the row); top: the maxima.
template <class T>
void exp_rows(const T* x, T* out, T* top, int64_t rows, int64_t cols) {
  for (int64_t r = 0; r < rows; ++r) {
    const T largest = top[r] = lanes::extremum<true>(x + r * cols, cols);
    RUNNER_VECTOR_LOOP
    for (int64_t c = 0; c < cols; ++c) out[r * cols + c] = x[r * cols + c] - largest;
  }
  RUNNER_VECTOR_LOOP
  for (int64_t i = 0; i < rows * cols; ++i) out[i] = exp_of(out[i]);
}

// Calls body(first, n, top) for each block of rows, after writing its exponentials to out.
template <class T, class Body>
RUNNER_INLINE void for_blocks(const T* x, T* out, int64_t rows, int64_t cols, const Body& body) {
  T top[kBlock];
  const int64_t step = rows_per_block(cols);
  for (int64_t first = 0; first < rows; first += step) {
    const int64_t n = smaller(step, rows - first);
    exp_rows(x + first * cols, out + first * cols, top, n, cols);
    body(first, n, top);
  }
}

template <class T>
void softmax(const T* x, T* out, int64_t rows, int64_t cols) {
  for_blocks(x, out, rows, cols, [&](int64_t first, int64_t n, const T*) {
    for (int64_t r = first; r < first + n; ++r) {
      const auto scale = static_cast<T>(1.0 / lanes::sum(out + r * cols, cols));
      RUNNER_VECTOR_LOOP
      for (int64_t c = 0; c < cols; ++c) out[r * cols + c] *= scale;
    }
  });
}

template <class T>
void log_softmax(const T* x, T* out, int64_t rows, int64_t cols) {
  for_blocks(x, out, rows, cols, [&](int64_t first, int64_t n, const T* top) {
    for (int64_t r = first; r < first + n; ++r) {
      const T log_sum = log_of_sum(lanes::sum(out + r * cols, cols), T{});
      const T largest = top[r - first];
      RUNNER_VECTOR_LOOP
      for (int64_t c = 0; c < cols; ++c) out[r * cols + c] = (x[r * cols + c] - largest) - log_sum;
    }
  });
}

// ---- cross-entropy -------------------------------------------------------------------------------------------------

// Sum of the class weights, or the number of classes.
template <class T>
RUNNER_INLINE double total_weight(const CrossEntropyRows<T>& in) {
  return in.weights != nullptr ? lanes::sum(in.weights, in.classes) : static_cast<double>(in.classes);
}

// Σ_c w_c (x_c − top) of a row.
template <class T>
RUNNER_INLINE double weighted_sum(const CrossEntropyRows<T>& in, const T* x, T top) {
  const auto shifted = [&](int64_t c) { return static_cast<double>(x[c]) - static_cast<double>(top); };
  if (in.weights == nullptr)
    return lanes::sum(
        in.classes,
        [&](int64_t c, Doubles& out) {
          lanes::load(out, x + c);
          out -= static_cast<double>(top);
        },
        shifted);
  return lanes::sum(
      in.classes,
      [&](int64_t c, Doubles& out) {
        Doubles weight;
        lanes::load(weight, in.weights + c);
        lanes::load(out, x + c);
        out = (out - static_cast<double>(top)) * weight;
      },
      [&](int64_t c) { return shifted(c) * static_cast<double>(in.weights[c]); });
}

// Σ exp(x − top) of a long row, block by block.
template <class T>
RUNNER_INLINE double sum_of_exp(const T* x, T top, int64_t cols) {
  T block[kBlock];
  double total = 0;
  for (int64_t first = 0; first < cols; first += kBlock) {
    const int64_t n = smaller(kBlock, cols - first);
    RUNNER_VECTOR_LOOP
    for (int64_t i = 0; i < n; ++i) block[i] = exp_of(x[first + i] - top);
    total += lanes::sum(block, n);
  }
  return total;
}

// As torch's cross_entropy with reduction "none":
//   (1 − s) w_y nll_y + s/C Σ_c w_c nll_c,   nll_c = log Σ exp(x − top) − (x_c − top)
template <class T>
RUNNER_INLINE T row_loss(const CrossEntropyRows<T>& in, int64_t r, T top, double sum_exp, double weights) {
  const int64_t label = in.labels[r];
  if (label == in.ignore) return T{0};
  const T* x = in.logits + r * in.classes;
  const double log_sum = log_of_sum(sum_exp, T{});
  const double weight = in.weights != nullptr ? in.weights[label] : 1.0;
  double loss = (1.0 - in.smoothing) * weight * (log_sum - (static_cast<double>(x[label]) - static_cast<double>(top)));
  if (in.smoothing != 0)
    loss += in.smoothing / static_cast<double>(in.classes) * (log_sum * weights - weighted_sum(in, x, top));
  return static_cast<T>(loss);
}

template <class T>
void cross_entropy(const CrossEntropyRows<T>& in, T* loss) {
  const double weights = total_weight(in);
  T block[kBlock], top[kBlock];
  const int64_t step = rows_per_block(in.classes);
  for (int64_t first = 0; first < in.rows; first += step) {
    const T* x = in.logits + first * in.classes;
    const int64_t n = smaller(step, in.rows - first);
    if (in.classes <= kBlock) {
      exp_rows(x, block, top, n, in.classes);
      for (int64_t r = 0; r < n; ++r)
        loss[first + r] = row_loss(in, first + r, top[r], lanes::sum(block + r * in.classes, in.classes), weights);
    } else {
      const T largest = lanes::extremum<true>(x, in.classes);
      loss[first] = row_loss(in, first, largest, sum_of_exp(x, largest, in.classes), weights);
    }
  }
}

// g (p_c W − t_c), t_c = s/C w_c + (1 − s) w_y [c = y], W = Σ t
template <class T>
void cross_entropy_grad(const CrossEntropyRows<T>& in, T* out) {
  const int64_t classes = in.classes;
  const double share = in.smoothing / static_cast<double>(classes);
  const double smooth_weight = share * total_weight(in);
  for_blocks(in.logits, out, in.rows, classes, [&](int64_t first, int64_t n, const T*) {
    for (int64_t r = first; r < first + n; ++r) {
      T* row = out + r * classes;
      const int64_t label = in.labels[r];
      const double grad = label == in.ignore ? 0.0 : static_cast<double>(in.grad[r]);
      const double own =
          label == in.ignore ? 0.0 : (1.0 - in.smoothing) * (in.weights != nullptr ? in.weights[label] : 1.0);
      const auto scale = static_cast<T>(grad * (own + smooth_weight) / lanes::sum(row, classes));
      const auto smooth = static_cast<T>(grad * share);
      if (label == in.ignore) {
        for (int64_t c = 0; c < classes; ++c) row[c] = T{0};
        continue;
      }
      if (in.weights != nullptr) {
        RUNNER_VECTOR_LOOP
        for (int64_t c = 0; c < classes; ++c) row[c] = row[c] * scale - smooth * in.weights[c];
      } else {
        RUNNER_VECTOR_LOOP
        for (int64_t c = 0; c < classes; ++c) row[c] = row[c] * scale - smooth;
      }
      row[label] = static_cast<T>(static_cast<double>(row[label]) - grad * own);
    }
  });
}

// ---- layer normalisation -------------------------------------------------------------------------------------------

struct Moments {
  double mean, rstd;
};

// Which mean is subtracted: that of the row in layer_norm, 0 in rms_norm.
enum class Norm { kLayer, kRootMeanSquare };

// Mean and 1 / √(variance + eps) of a row, in two passes, with the biased variance.
template <Norm norm, class T>
RUNNER_INLINE Moments moments(const T* x, int64_t width, double eps) {
  const double mean = norm == Norm::kLayer ? lanes::sum(x, width) / static_cast<double>(width) : 0;
  const double squares = lanes::sum(
      width,
      [=](int64_t i, Doubles& out) {
        lanes::load(out, x + i);
        out -= mean;
        out *= out;
      },
      [=](int64_t i) { return (static_cast<double>(x[i]) - mean) * (static_cast<double>(x[i]) - mean); });
  return {mean, 1.0 / std::sqrt(squares / static_cast<double>(width) + eps)};
}

// Calls body(row, before(row)) for each row; `before` for several rows at a time, so that the latencies of their sums
// overlap.
template <class Before, class Body>
RUNNER_INLINE void for_rows(int64_t rows, const Before& before, const Body& body) {
  constexpr int64_t kTogether = 16;
  decltype(before(0)) ahead[kTogether];
  for (int64_t first = 0; first < rows; first += kTogether) {
    const int64_t n = smaller(kTogether, rows - first);
    for (int64_t r = 0; r < n; ++r) ahead[r] = before(first + r);
    for (int64_t r = 0; r < n; ++r) body(first + r, ahead[r]);
  }
}

template <Norm norm, class T>
RUNNER_INLINE Moments moments_of(const LayerNormRows<T>& in, int64_t r) {
  return moments<norm>(in.x + r * in.width, in.width, in.eps);
}

template <class T>
void layer_norm(const LayerNormRows<T>& in, T* out) {
  const auto before = [&](int64_t r) { return moments_of<Norm::kLayer>(in, r); };
  for_rows(in.rows, before, [&](int64_t r, const Moments& m) {
    const T* x = in.x + r * in.width;
    T* y = out + r * in.width;
    RUNNER_VECTOR_LOOP
    for (int64_t i = 0; i < in.width; ++i)
      y[i] = static_cast<T>((static_cast<double>(x[i]) - m.mean) * m.rstd) * in.gamma[i] + in.beta[i];
  });
}

template <class T>
void rms_norm(const LayerNormRows<T>& in, T* out) {
  const auto before = [&](int64_t r) { return moments_of<Norm::kRootMeanSquare>(in, r); };
  for_rows(in.rows, before, [&](int64_t r, const Moments& m) {
    const T* x = in.x + r * in.width;
    T* y = out + r * in.width;
    RUNNER_VECTOR_LOOP
    for (int64_t i = 0; i < in.width; ++i) y[i] = static_cast<T>(static_cast<double>(x[i]) * m.rstd) * in.gamma[i];
  });
}

// Sums for the gradient of a row: mean(gγ), and mean(gγ x̂) · rstd.
struct GradientSums {
  Moments m;
  double mean_g, slope;
};

template <Norm norm, class T>
RUNNER_INLINE GradientSums gradient_sums(const LayerNormRows<T>& in, int64_t r) {
  const T* x = in.x + r * in.width;
  const T* g = in.grad + r * in.width;
  const T* gamma = in.gamma;
  const Moments m = moments_of<norm>(in, r);
  const auto product = [=](int64_t i) { return static_cast<double>(g[i]) * static_cast<double>(gamma[i]); };
  const auto products = [=](int64_t i, Doubles& wide) {
    Doubles scale;
    lanes::load(wide, g + i);
    lanes::load(scale, gamma + i);
    wide *= scale;
  };
  const auto moment = [=](int64_t i) { return product(i) * (static_cast<double>(x[i]) - m.mean); };
  const auto moment_products = [=](int64_t i, Doubles& wide) {
    Doubles centred;
    products(i, wide);
    lanes::load(centred, x + i);
    wide *= centred - m.mean;
  };
  const auto width = static_cast<double>(in.width);
  return {m, norm == Norm::kLayer ? lanes::sum(in.width, products, product) / width : 0,
          lanes::sum(in.width, moment_products, moment) * m.rstd * m.rstd / width};
}

// dx = rstd (gγ − mean(gγ) − x̂ mean(gγ x̂)), without mean(gγ) for rms_norm
template <class T, Norm norm>
void norm_grad_x(const LayerNormRows<T>& in, T* out) {
  const auto before = [&](int64_t r) { return gradient_sums<norm>(in, r); };
  for_rows(in.rows, before, [&](int64_t r, const GradientSums& s) {
    const T* x = in.x + r * in.width;
    const T* g = in.grad + r * in.width;
    T* y = out + r * in.width;
    RUNNER_VECTOR_LOOP
    for (int64_t i = 0; i < in.width; ++i)
      y[i] = static_cast<T>(s.m.rstd * (static_cast<double>(g[i]) * static_cast<double>(in.gamma[i]) - s.mean_g -
                                        (static_cast<double>(x[i]) - s.m.mean) * s.slope));
  });
}

template <class T, Norm norm>
void norm_grad_gamma(const LayerNormRows<T>& in, double* acc) {
  const auto before = [&](int64_t r) { return moments_of<norm>(in, r); };
  for_rows(in.rows, before, [&](int64_t r, const Moments& m) {
    const T* x = in.x + r * in.width;
    const T* g = in.grad + r * in.width;
    RUNNER_VECTOR_LOOP
    for (int64_t i = 0; i < in.width; ++i)
      acc[i] += static_cast<double>(g[i]) * ((static_cast<double>(x[i]) - m.mean) * m.rstd);
  });
}

// ---- ranks of labels ------------------------------------------------------------------------------------------------

// Number of values larger than x[label]: NaN is larger than any number; of equal values the first is larger.
template <class T>
RUNNER_INLINE int64_t rank_of(const T* x, int64_t n, int64_t label) {
  const T own = x[label];
  int32_t larger = 0;
  if (own != own) {
    for (int64_t i = 0; i < label; ++i) larger += x[i] != x[i];
    return larger;
  }
  for (int64_t i = 0; i < label; ++i) larger += !(x[i] < own);
  for (int64_t i = label + 1; i < n; ++i) larger += !(x[i] <= own);
  return larger;
}

template <class T>
void label_rank(const T* x, const int64_t* labels, LabelRank* out, int64_t rows, int64_t cols) {
  for (int64_t r = 0; r < rows; ++r, x += cols) {
    const int64_t label = labels[r], largest = lanes::argmax(x, cols);
    const bool is_class = label >= 0 && label < cols;
    out[r] = {is_class ? rank_of(x, cols, label) : -1, largest, x[largest] != x[largest]};
  }
}

template <class T>
constexpr RowLoops<T> kTable = {softmax<T>,
                                log_softmax<T>,
                                cross_entropy<T>,
                                cross_entropy_grad<T>,
                                layer_norm<T>,
                                norm_grad_x<T, Norm::kLayer>,
                                norm_grad_gamma<T, Norm::kLayer>,
                                rms_norm<T>,
                                norm_grad_x<T, Norm::kRootMeanSquare>,
                                norm_grad_gamma<T, Norm::kRootMeanSquare>,
                                label_rank<T>};

}  // namespace

const RowLoops<float>& row_loops_f32() {
  return kTable<float>;
}
const RowLoops<double>& row_loops_f64() {
  return kTable<double>;
}

}  // namespace runner::backends::RUNNER_ISA
