// Inner loops of kernels, compiled once per instruction set; one set is chosen when the process starts.
//
// Every file isa/*.cpp is compiled several times (CMakeLists.txt), with different flags and with RUNNER_ISA set to the
// namespace of its table: baseline, avx2, avx512. Except for matrix products, all sets give the same bits: no FMA, and
// the order of every sum is explicit (lanes.h, docs/numerics.md).
//
// Invariant of isa/*.cpp: only the table has external linkage, and functions of the standard library are inlined or
// plain C. The linker keeps one copy of any other function, perhaps one that this CPU cannot run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "backends/ir/label_rank.h"
#include "backends/ir/op.h"
#include "backends/kernels/philox.h"
#include "backends/tensor/dtype.h"

// Tells the compiler that the next loop's iterations are independent: its arrays are disjoint or exactly the same.
#if defined(__clang__)
#define RUNNER_VECTOR_LOOP _Pragma("clang loop vectorize(assume_safety)")
#else
#define RUNNER_VECTOR_LOOP _Pragma("GCC ivdep")
#endif

namespace runner::backends {

enum class Isa : uint8_t { kBaseline, kAvx2, kAvx512 };
inline constexpr int kIsaCount = 3;

// Register types of element-wise groups: f32 for f32, bf16, f16 and bool (0 or 1); f64; i64 for integers.
enum class Compute : uint8_t { kF32, kF64, kI64 };
inline constexpr int kComputeCount = 3;

constexpr Compute compute_of(DType dtype) {
  return is_int(dtype) ? Compute::kI64 : dtype == DType::kF64 ? Compute::kF64 : Compute::kF32;
}
constexpr size_t size_of(Compute compute) {
  return compute == Compute::kF32 ? 4 : 8;
}

struct EltwiseLoops {
  // dst[i] = op(a[i], b[i], c[i]); dst may be one of the sources. Null if the op does not take the register type.
  using Apply = void (*)(void* dst, const void* a, const void* b, const void* c, int64_t n);
  // dst[i] = src[i · stride]
  using Load = void (*)(void* dst, const void* src, int64_t stride, int64_t n);
  using Convert = void (*)(void* dst, const void* src, int64_t n);

  Apply apply[kOpCount][kComputeCount];
  Load load[kDTypeCount];                    // storage to register
  Convert store[kDTypeCount];                // register to storage
  Convert cast[kComputeCount][kDTypeCount];  // register to register, rounded to the dtype
};

// A group compiled to one loop over rows × cols elements (isa/named_loops.cpp).
struct NamedLoop {
  static constexpr int kMaxInputs = 16, kMaxOutputs = 6;
  struct Arguments {
    const std::byte* inputs[kMaxInputs];
    int64_t row_bytes[kMaxInputs];  // from one row of an input to the next one
    const double* constants;
    std::byte* outputs[kMaxOutputs];  // contiguous
    int64_t rows, cols;
  };
  const char* name;
  const char* text;  // EltwiseGroup::to_string() of its groups
  void (*run)(const Arguments& arguments);
};

// Reductions. Accumulators are f64 for sums of floats, i64 for sums of integers, register types for extrema.
struct ReduceLoops {
  enum Kind { kSum, kMax, kMin };
  static constexpr int kKinds = 3;
  // *acc = combine(*acc, x[0], …, x[n − 1])
  using FoldRow = void (*)(void* acc, const void* x, int64_t n);
  // acc[j] = combine(acc[j], x[j], x[stride + j], …) over `rows` rows, for j in [0, cols)
  using FoldRows = void (*)(void* acc, const void* x, int64_t rows, int64_t stride, int64_t cols);
  // Returns the position of the first of the largest elements; NaN counts as largest. n ≥ 1.
  using ArgMax = int64_t (*)(const void* x, int64_t n);

  FoldRow fold_row[kKinds][kComputeCount];
  FoldRows fold_rows[kKinds][kComputeCount];
  ArgMax argmax[kComputeCount];
};

// Losses of a batch. Labels are checked before. Loss and gradient are zero if `label == ignore`.
template <class T>
struct CrossEntropyRows {
  const T* logits;  // (rows, classes)
  const int64_t* labels;
  const T* weights;  // (classes) or null
  const T* grad;     // (rows); gradient only
  int64_t rows, classes, ignore;
  double smoothing;
};

template <class T>
struct LayerNormRows {
  const T* x;      // (rows, width)
  const T* gamma;  // (width)
  const T* beta;   // (width); forward of layer_norm only
  const T* grad;   // (rows, width); gradients only
  int64_t rows, width;
  double eps;
};

// Row ops on f32 or f64.
template <class T>
struct RowLoops {
  void (*softmax)(const T* x, T* out, int64_t rows, int64_t cols);
  void (*log_softmax)(const T* x, T* out, int64_t rows, int64_t cols);
  void (*cross_entropy)(const CrossEntropyRows<T>& rows, T* loss);
  void (*cross_entropy_grad)(const CrossEntropyRows<T>& rows, T* out);
  void (*layer_norm)(const LayerNormRows<T>& rows, T* out);
  void (*layer_norm_grad_x)(const LayerNormRows<T>& rows, T* out);
  void (*layer_norm_grad_gamma)(const LayerNormRows<T>& rows, double* acc);  // added to acc (width)
  void (*rms_norm)(const LayerNormRows<T>& rows, T* out);
  void (*rms_norm_grad_x)(const LayerNormRows<T>& rows, T* out);
  void (*rms_norm_grad_weight)(const LayerNormRows<T>& rows, double* acc);  // added to acc (width)
  void (*label_rank)(const T* x, const int64_t* labels, LabelRank* out, int64_t rows, int64_t cols);  // cols: [1, 2³¹)
};

// Rows of attention scores. Rows have room for whole groups of 32 elements; loops may change what is after `keys`.
template <class T>
struct AttentionRows {
  T* scores;  // (rows, keys), rows `stride` apart
  T scale;    // of the scores
  int64_t stride, rows, keys;
  const int64_t* seen;  // (rows): the row sees the first `seen` keys
  const T* mask;        // added to the scores, rows `mask_stride` apart; null: none
  int64_t mask_stride;
};
// One row of the gradient of softmax and dropout.
template <class T>
struct AttentionRowGradient {
  T* weights;            // (keys) exponentials, then zeros -> weights after dropout
  T* grads;              // (keys) gradient of the weights after dropout -> of the scores
  const float* dropout;  // (keys) mask, or null
  T factor;              // 1 / Σ exponentials
  int64_t keys;
};
template <class T>
struct AttentionLoops {
  // Replaces scores by exp(scale · score + mask − maximum of the row), 0 for keys that the row does not see. factors:
  // (rows), 1 / Σ of them; 0 for a row that sees no key.
  void (*exponentials)(const AttentionRows<T>& rows, T* factors);
  void (*gradient)(const AttentionRowGradient<T>& row);
  void (*drop)(T* weights, const float* dropout, int64_t n);  // weights · dropout
  void (*scale)(T* out, const T* x, T factor, int64_t n);
  void (*scale_rows)(T* x, const T* factors, int64_t rows, int64_t width);  // each row times its factor
};

// Rows of windows (backends/ir/windows.h): element k of n windows is x[0], x[stride], ….
template <class T>
struct WindowLoops {
  // best[i] = x[i · stride] where it is larger or NaN.
  void (*largest)(T* best, const T* x, int64_t stride, int64_t n);
  // The same, and at[i] = `element` there; also where at[i] < 0.
  void (*largest_at)(T* best, int32_t* at, const T* x, int64_t stride, int64_t n, int32_t element);
  void (*add)(T* sums, const T* x, int64_t stride, int64_t n);       // sums[i] += x[i · stride]
  void (*add_to)(T* x, int64_t stride, const T* values, int64_t n);  // x[i · stride] += values[i]
};
// Windows of 2 × 2 elements that follow each other, y (rows, cols). A row of x has x_stride elements, at least 2 cols.
// `T`: float, double, or uint16_t for bf16.
template <class T>
struct WindowsOfFour {
  // y = the largest of each window
  void (*largest)(T* y, const T* x, int64_t x_stride, int64_t rows, int64_t cols);
  // Writes grad_y to the first of the largest elements of its window, or to the last NaN, and 0 to the others.
  void (*spread_to_largest)(T* grad_x, const T* x, const T* grad_y, int64_t x_stride, int64_t rows, int64_t cols);
};

// Sums of channels, of rows of `cols` elements: adds the sum of each row to sums[row]. Terms are computed in T, and
// added in f64 in an order that depends on cols only.
template <class T>
struct ChannelLoops {
  void (*add_values)(double* sums, const T* a, int64_t rows, int64_t cols);
  void (*add_squares)(double* sums, const T* x, const T* means, int64_t rows, int64_t cols);  // (x − mean)²
  // a (x − mean)
  void (*add_products)(double* sums, const T* a, const T* x, const T* means, int64_t rows, int64_t cols);
};

// Two bf16 that are next to each other on the inner axis of a product, the first in the low half.
using Bf16Pair = uint32_t;

// The type of the sums of products of T.
template <class T>
using SumOf = std::conditional_t<std::is_same_v<T, Bf16Pair>, float, T>;

// C = A B for a block of C. Strides and the inner axis are in elements T; rows of C are contiguous.
template <class T>
struct MatmulBlock {
  SumOf<T>* c;
  const T* a;
  const T* b;
  T* panels;  // room for MatmulLoops::panel_elems, or B as MatmulLoops::pack() has packed it
  int64_t c_stride, a_row_stride, a_k_stride, b_k_stride, b_col_stride;
  int64_t rows, cols, inner;
  bool add = false;          // adds to the contents of C
  bool in_place = false;     // reads B where it is: whole vectors of rows that are contiguous
  int64_t packed_inner = 0;  // of pack(), at least `inner`; 0: B is not packed
};
template <class T>
struct MatmulLoops {
  int64_t (*panel_elems)(int64_t cols, int64_t inner);
  // Packs B for several products with all its rows and columns, or with the first ones.
  int64_t (*packed_elems)(int64_t cols, int64_t inner);
  void (*pack)(T* packed, const T* b, int64_t cols, int64_t inner, int64_t k_stride, int64_t col_stride);
  void (*multiply)(const MatmulBlock<T>& block);
};

// Products of bf16, of two elements per instruction.
struct PairLoops {
  const MatmulLoops<Bf16Pair>& products;
  // out[i] = (first[i], second[i]); second: null for zeros.
  void (*interleave)(Bf16Pair* out, const uint16_t* first, const uint16_t* second, int64_t n);
  // out[i] = scale · x[i], rounded to nearest, ties to even. Subnormal results become zero.
  void (*round)(uint16_t* out, const float* x, float scale, int64_t n);
};

// y = x B for the columns of a block. B has rows of `stride` elements.
struct MatvecBlock {
  float* y;        // (cols)
  const float* x;  // (inner)
  const void* b;
  int64_t stride, cols, inner;
};
struct MatvecLoops {
  struct ByLayout {
    void (*by_rows)(const MatvecBlock& block);     // B (inner, cols)
    void (*by_columns)(const MatvecBlock& block);  // B (cols, inner)
  };
  ByLayout f32, bf16;
};

// The linear maps of minimal filtering, F(2 × 2, 3 × 3), in n lanes: a grid has an element every `stride` floats, row
// by row. (convolution_winograd.cpp)
struct WinogradLoops {
  using Map = void (*)(float* to, int64_t to_stride, const float* from, int64_t from_stride, int64_t n);

  // even[i], odd[i] = elements 2 i and 2 i + 1 of a row, for i < n: `before` zeros, the `size` elements of x, zeros.
  void (*split)(float* even, float* odd, const float* x, int64_t size, int64_t before, int64_t n);
  // x[2 i], x[2 i + 1] = even[i], odd[i], for i < n.
  void (*join)(float* x, const float* even, const float* odd, int64_t n);

  Map weights;      // 3 × 3 to 4 × 4
  Map input;        // 4 × 4 to 4 × 4
  Map output;       // 4 × 4 to 2 × 2
  Map output_grad;  // 2 × 2 to 4 × 4
  // One row of 4 points, from the whole grid.
  Map input_rows[4], output_grad_rows[4];
  Map weights_grad;  // 4 × 4 to 3 × 3
};

// dst[j · dst_stride + i] = src[i · src_stride + j] for i in [0, rows), j in [0, cols), by element size in bytes.
struct TransposeLoops {
  using Transpose = void (*)(void* dst, int64_t dst_stride, const void* src, int64_t src_stride, int64_t rows,
                             int64_t cols);
  Transpose bytes_2, bytes_4;
};

struct RandomLoops {
  // out[0, n) = elements of one sample's dropout mask, starting with block `first`: 0 or `kept`.
  using Dropout = void (*)(float* out, int64_t n, const DropoutStream& stream, uint32_t first, uint64_t threshold,
                           float kept);
  // out[0, n) = elements of a random tensor, starting with block `first`.
  using Fill = void (*)(float* out, int64_t n, const TensorStream& stream, uint32_t first);

  // out[0, n) = values of the elements from `first` on, times `scale`: uniform in [−1, 1), or standard normal.
  using Initial = void (*)(float* out, int64_t n, const ElementStream& stream, uint64_t first, float scale);

  Dropout dropout;
  Fill uniform, normal;
  Initial initial_uniform, initial_normal;
};

// The two tables of loops that exist for float and for double.
template <template <class> class Table>
struct ByFloat {
  const Table<float>& f32;
  const Table<double>& f64;

  template <class T>
  const Table<T>& of() const {
    if constexpr (std::is_same_v<T, float>)
      return f32;
    else
      return f64;
  }
};

struct Loops {
  const EltwiseLoops& eltwise;
  std::span<const NamedLoop> named;
  const ReduceLoops& reduce;
  ByFloat<RowLoops> rows;
  ByFloat<MatmulLoops> matmul;
  MatvecLoops matvec;
  ByFloat<AttentionLoops> attention;
  ByFloat<WindowLoops> windows;
  ByFloat<WindowsOfFour> windows_of_four;
  const WindowsOfFour<uint16_t>& windows_of_four_bf16;
  ByFloat<ChannelLoops> channels;
  const WinogradLoops& winograd;
  const TransposeLoops& transpose;
  RandomLoops random;
};

// Loops of the widest set that this CPU supports, or of the set in RUNNER_ISA (baseline, avx2, avx512).
const Loops& loops();
Isa isa_in_use();
// Loops of one set; null if the CPU or the build lacks it.
const Loops* loops_of(Isa isa);
std::string_view name_of(Isa isa);
// Null unless this CPU computes them faster than products of f32, with instructions that RUNNER_ISA allows.
const PairLoops* pair_loops();
// For tests: makes kernels that are prepared from now on use this set.
void use_isa(Isa isa);

}  // namespace runner::backends
