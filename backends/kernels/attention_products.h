// Sizes of an attention, and the products of a block of its rows: in f32 or f64 (WideProducts), or in bf16 with
// instructions for pairs (PairProducts).
//
// With q, k, v, the gradient g of the result and the weights W of a block of rows, the products are
//
//     scores q kᵀ, result W v, and for the gradient g vᵀ (of W), dv += Wᵀ g, dk += Sᵀ q, dq = S k,
//
// where S is the gradient of the scores. The scale of the scores belongs to either q or S.
#pragma once

#include <algorithm>
#include <array>

#include "backends/ir/attention.h"
#include "backends/kernels/kernel.h"
#include "backends/kernels/rows_io.h"
#include "backends/tensor/rounding.h"

namespace runner::backends {

struct Attention {
  AttentionSpec spec;
  DType dtype;
  int64_t batch, heads, groups, tokens, keys, width;
  std::array<int64_t, 3> mask_strides;  // by sample, head and row
  int64_t block_rows, blocks;           // of one head
  int64_t parts;                        // of the blocks of one head of k; 1 in the forward pass
  int64_t units, chunks;
  int64_t mask_elems;  // to convert from 16-bit storage
  bool in_pairs;       // uses PairProducts

  bool is_gradient() const { return spec.grad >= 0; }
  bool is_native() const { return backends::is_native(dtype); }
  int64_t copies() const { return heads / groups; }  // heads of q per head of k
  int64_t q_elems() const { return batch * heads * tokens * width; }
  int64_t k_elems() const { return batch * groups * keys * width; }
  int64_t head_elems() const { return keys * width; }
  // Rows of scores are not a power of two apart, so that a column of them does not compete for one set of the cache.
  int64_t stride() const { return round_up<int64_t>(keys, 32) + 16; }
  // Whether a part adds to the gradients in the result itself.
  bool adds_in_place() const { return parts == 1 && is_native(); }
  uint64_t threshold() const { return dropout_threshold(spec.p); }
  float kept() const { return static_cast<float>(1.0 / (1.0 - spec.p)); }
};

template <class T>
const AttentionLoops<T>& attention_loops();
template <>
const AttentionLoops<float>& attention_loops() {
  return loops().attention_f32;
}
template <>
const AttentionLoops<double>& attention_loops() {
  return loops().attention_f64;
}

// A block of rows, which starts at element `first` of q. `keys`: how many any of its rows sees.
struct RowBlock {
  int64_t sample, head, first_row, rows, keys;
};

// Converts 16-bit operands to f32.
template <class T>
class WideProducts {
 public:
  using Value = T;

  WideProducts(const Attention& a, ScratchRoom& room) : a_(a) {
    const int64_t rows = a.block_rows, narrow = a.is_native() ? 0 : 1;
    const auto panel_elems = matmul_loops<T>().panel_elems;
    panels_ = room.take<T>(
        std::max({panel_elems(a.keys, a.width), panel_elems(a.width, a.keys), panel_elems(a.width, rows)}));
    q_room_ = room.take<T>(rows * a.width);
    grad_room_ = room.take<T>(a.is_gradient() ? narrow * rows * a.width : 0);
    k_room_ = room.take<T>(narrow * a.head_elems());
    v_room_ = room.take<T>(narrow * a.head_elems());
  }

  // By what to multiply scores().
  T scale_of_scores() const { return 1; }

  void load_head(const KernelArguments& arguments, int64_t head) {
    k_ = read(arguments, 1, head * a_.head_elems(), a_.head_elems(), k_room_);
    v_ = read(arguments, 2, head * a_.head_elems(), a_.head_elems(), v_room_);
  }
  // Loads rows of q, and of the gradient if there is one, from element `first` on.
  void load_rows(const KernelArguments& arguments, int64_t first, int64_t rows) {
    const T* const q = read(arguments, 0, first, rows * a_.width, q_room_);
    attention_loops<T>().scale(q_room_, q, static_cast<T>(a_.spec.scale), rows * a_.width);
    if (a_.is_gradient()) grad_ = read(arguments, a_.spec.grad, first, rows * a_.width, grad_room_);
  }

  // (rows, keys), rows stride() apart.
  void scores(T* scores, int64_t rows, int64_t keys) const {
    multiply({scores, a_.stride()}, {q_room_, a_.width, 1}, {k_, 1, a_.width}, rows, keys, a_.width);
  }
  void values(T* out, const T* weights, int64_t rows, int64_t keys) const {
    multiply({out, a_.width}, {weights, a_.stride(), 1}, {v_, a_.width, 1}, rows, a_.width, keys);
  }
  void weight_gradients(T* grads, int64_t rows, int64_t keys) const {
    multiply({grads, a_.stride()}, {grad_, a_.width, 1}, {v_, 1, a_.width}, rows, keys, a_.width);
  }
  // Sets dq and adds to dk and dv. `grads`: of the scores.
  void add_gradients(T* dq, T* dk, T* dv, const T* weights, T* grads, int64_t rows, int64_t keys) const {
    multiply({dv, a_.width}, {weights, 1, a_.stride()}, {grad_, a_.width, 1}, keys, a_.width, rows, true);
    multiply({dk, a_.width}, {grads, 1, a_.stride()}, {q_room_, a_.width, 1}, keys, a_.width, rows, true);
    multiply({dq, a_.width}, {grads, a_.stride(), 1}, {k_, a_.width, 1}, rows, a_.width, keys);
    attention_loops<T>().scale(dq, dq, static_cast<T>(a_.spec.scale), rows * a_.width);
  }

 private:
  using Matrix = MatrixView<const T>;

  const T* read(const KernelArguments& arguments, int index, int64_t first, int64_t n, T* room) const {
    return read_elements(arguments.operands[static_cast<size_t>(index)], a_.dtype, first, n, room);
  }
  void multiply(const MatrixView<T>& c, const Matrix& a, const Matrix& b, int64_t rows, int64_t cols, int64_t inner,
                bool add = false) const {
    multiply_views<T>(c, a, b, rows, cols, inner, panels_, add);
  }

  const Attention& a_;
  T *panels_, *q_room_, *grad_room_, *k_room_, *v_room_;  // q_room_: q · scale
  const T *grad_ = nullptr, *k_ = nullptr, *v_ = nullptr;
};

// Reads bf16 operands where they are, as pairs along the width. A product over rows or keys needs pairs of these: its
// operands are interleaved. Weights and gradients of scores are rounded to bf16. The width is even.
class PairProducts {
 public:
  using Value = float;

  PairProducts(const Attention& a, ScratchRoom& room) : a_(a), half_width_(a.width / 2) {
    const int64_t keys = pairs(a.keys), rows = pairs(a.block_rows), backward = a.is_gradient() ? 1 : 0;
    const auto panel_elems = matmul_loops<Bf16Pair>().panel_elems;
    panels_ = room.take<Bf16Pair>(std::max(panel_elems(a.width, keys), panel_elems(a.width, rows)));
    const int64_t packed = matmul_loops<Bf16Pair>().packed_elems(a.keys, half_width_);
    packed_k_ = room.take<Bf16Pair>(packed);
    packed_v_ = room.take<Bf16Pair>(backward * packed);
    by_keys_ = room.take<Bf16Pair>(keys * a.width);
    rounded_ = room.take<uint16_t>(a.block_rows * a.stride());
    scores_by_rows_ = room.take<Bf16Pair>(backward * rows * a.stride());
    q_by_rows_ = room.take<Bf16Pair>(backward * rows * a.width);
    grad_by_rows_ = room.take<Bf16Pair>(backward * rows * a.width);
  }

  float scale_of_scores() const { return static_cast<float>(a_.spec.scale); }

  void load_head(const KernelArguments& arguments, int64_t head) {
    const uint16_t* const k = operand<uint16_t>(arguments, 1) + head * a_.head_elems();
    const uint16_t* const v = operand<uint16_t>(arguments, 2) + head * a_.head_elems();
    pack_widths(packed_k_, k);
    if (a_.is_gradient()) pack_widths(packed_v_, v);
    interleave(by_keys_, a_.is_gradient() ? k : v, a_.width, a_.keys, a_.width);
  }
  void load_rows(const KernelArguments& arguments, int64_t first, int64_t rows) {
    q_ = operand<uint16_t>(arguments, 0) + first;
    if (!a_.is_gradient()) return;
    grad_ = operand<uint16_t>(arguments, static_cast<size_t>(a_.spec.grad)) + first;
    interleave(q_by_rows_, q_, a_.width, rows, a_.width);
    interleave(grad_by_rows_, grad_, a_.width, rows, a_.width);
  }

  void scores(float* scores, int64_t rows, int64_t keys) const { multiply_widths(scores, q_, packed_k_, rows, keys); }
  void values(float* out, const float* weights, int64_t rows, int64_t keys) const {
    round_rows(weights, 1, rows, keys);
    multiply_keys(out, rows, keys);
  }
  void weight_gradients(float* grads, int64_t rows, int64_t keys) const {
    multiply_widths(grads, grad_, packed_v_, rows, keys);
  }
  void add_gradients(float* dq, float* dk, float* dv, const float* weights, const float* grads, int64_t rows,
                     int64_t keys) const {
    round_rows(weights, 1, rows, keys);
    add_over_rows(dv, grad_by_rows_, rows, keys);
    round_rows(grads, static_cast<float>(a_.spec.scale), rows, keys);
    add_over_rows(dk, q_by_rows_, rows, keys);
    multiply_keys(dq, rows, keys);
  }

 private:
  using Matrix = MatrixView<const Bf16Pair>;

  static int64_t pairs(int64_t n) { return (n + 1) / 2; }
  static const Bf16Pair* as_pairs(const uint16_t* x) { return reinterpret_cast<const Bf16Pair*>(x); }
  Matrix rounded() const { return {as_pairs(rounded_), a_.stride() / 2, 1}; }

  // Rows of x, `stride` apart, two by two.
  static void interleave(Bf16Pair* out, const uint16_t* x, int64_t stride, int64_t rows, int64_t cols) {
    for (int64_t r = 0; r < rows; r += 2)
      pair_loops()->interleave(out + r / 2 * stride, x + r * stride, r + 1 < rows ? x + (r + 1) * stride : nullptr,
                               cols);
  }

  // Rounds rows of x, times a scale, to rounded_. Ends each with a zero if its last pair has one element only.
  void round_rows(const float* x, float scale, int64_t rows, int64_t keys) const {
    for (int64_t r = 0; r < rows; ++r) {
      uint16_t* const row = rounded_ + r * a_.stride();
      pair_loops()->round(row, x + r * a_.stride(), scale, keys);
      row[keys] = 0;  // stride() is larger than the number of keys
    }
  }

  // Packs the rows of a head as columns.
  void pack_widths(Bf16Pair* packed, const uint16_t* x) const {
    matmul_loops<Bf16Pair>().pack(packed, as_pairs(x), a_.keys, half_width_, 1, half_width_);
  }
  // c (rows, keys) = x yᵀ, over the width
  void multiply_widths(float* c, const uint16_t* x, Bf16Pair* packed_y, int64_t rows, int64_t keys) const {
    matmul_loops<Bf16Pair>().multiply({.c = c,
                                       .a = as_pairs(x),
                                       .b = nullptr,
                                       .panels = packed_y,
                                       .c_stride = a_.stride(),
                                       .a_row_stride = half_width_,
                                       .a_k_stride = 1,
                                       .b_k_stride = 0,
                                       .b_col_stride = 0,
                                       .rows = rows,
                                       .cols = keys,
                                       .inner = half_width_,
                                       .packed = true});
  }
  // c (rows, width) = rounded_ · the operand in by_keys_
  void multiply_keys(float* c, int64_t rows, int64_t keys) const {
    multiply({c, a_.width}, rounded(), {by_keys_, a_.width, 1}, rows, a_.width, pairs(keys));
  }
  // c (keys, width) += rounded_ᵀ · `by_rows`
  void add_over_rows(float* c, const Bf16Pair* by_rows, int64_t rows, int64_t keys) const {
    interleave(scores_by_rows_, rounded_, a_.stride(), rows, keys);
    multiply({c, a_.width}, {scores_by_rows_, 1, a_.stride()}, {by_rows, a_.width, 1}, keys, a_.width, pairs(rows),
             true);
  }
  void multiply(const MatrixView<float>& c, const Matrix& a, const Matrix& b, int64_t rows, int64_t cols, int64_t inner,
                bool add = false) const {
    multiply_views<Bf16Pair>(c, a, b, rows, cols, inner, panels_, add);
  }

  const Attention& a_;
  const int64_t half_width_;
  Bf16Pair* panels_;
  Bf16Pair *packed_k_, *packed_v_;
  Bf16Pair* by_keys_;                                      // pairs of keys of v, or of k for a gradient
  uint16_t* rounded_;                                      // weights, or gradients of scores
  Bf16Pair *scores_by_rows_, *q_by_rows_, *grad_by_rows_;  // pairs of rows
  const uint16_t *q_ = nullptr, *grad_ = nullptr;
};

}  // namespace runner::backends
