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
  // Whether k and v are packed once a head, which takes several blocks of rows to pay.
  bool packs_heads() const { return copies() * blocks > 1; }
  uint64_t threshold() const { return dropout_threshold(spec.p); }
  float kept() const { return static_cast<float>(1.0 / (1.0 - spec.p)); }
};

// k or v of one head as the right operand of the products of its blocks: packed once if there are enough rows, else
// read where it is. `T`: of an element.
template <class T>
class HeadOperand {
 public:
  // (inner, cols)
  HeadOperand(int64_t inner, int64_t cols, bool is_packed, ScratchRoom& room)
      : inner_(inner),
        cols_(cols),
        is_packed_(is_packed),
        room_(room.take<T>(is_packed ? matmul_loops<T>().packed_elems(cols, inner)
                                     : matmul_loops<T>().panel_elems(cols, inner))) {}

  void load(const MatrixView<const T>& view) {
    view_ = view;
    if (is_packed_) matmul_loops<T>().pack(room_, view.data, cols_, inner_, view.row_stride, view.col_stride);
  }

  // c (rows, cols) = a (rows, inner) times the first `inner` rows and `cols` columns
  void multiply(const MatrixView<SumOf<T>>& c, const MatrixView<const T>& a, int64_t rows, int64_t cols,
                int64_t inner) const {
    if (is_packed_)
      multiply_packed<T>(c, a, room_, inner_, rows, cols, inner);
    else
      multiply_views<T>(c, a, view_, rows, cols, inner, room_, /*add=*/false);
  }

 private:
  const int64_t inner_, cols_;
  const bool is_packed_;
  T* const room_;
  MatrixView<const T> view_{};
};

// Converts 16-bit operands to f32.
template <class T>
class WideProducts {
 public:
  using Value = T;

  WideProducts(const Attention& a, ScratchRoom& room)
      : a_(a),
        k_by_width_(a.width, a.keys, a.packs_heads(), room),
        v_by_width_(a.width, a.is_gradient() ? a.keys : 0, a.packs_heads(), room),
        by_keys_(a.keys, a.width, a.packs_heads(), room) {
    const int64_t rows = a.block_rows, narrow = a.is_native() ? 0 : 1, backward = a.is_gradient() ? 1 : 0;
    panels_ = room.take<T>(backward * matmul_loops<T>().panel_elems(a.width, rows));
    q_room_ = room.take<T>(rows * a.width);
    grad_room_ = room.take<T>(backward * narrow * rows * a.width);
    k_room_ = room.take<T>(narrow * a.head_elems());
    v_room_ = room.take<T>(narrow * a.head_elems());
  }

  // By what to multiply scores().
  T scale_of_scores() const { return 1; }

  void load_head(const KernelArguments& arguments, int64_t head) {
    const T* const k = read(arguments, 1, head * a_.head_elems(), a_.head_elems(), k_room_);
    const T* const v = read(arguments, 2, head * a_.head_elems(), a_.head_elems(), v_room_);
    k_by_width_.load({k, 1, a_.width});
    if (a_.is_gradient()) v_by_width_.load({v, 1, a_.width});
    by_keys_.load({a_.is_gradient() ? k : v, a_.width, 1});
  }
  // Loads rows of q, and of the gradient if there is one, from element `first` on.
  void load_rows(const KernelArguments& arguments, int64_t first, int64_t rows) {
    const T* const q = read(arguments, 0, first, rows * a_.width, q_room_);
    loops().attention.of<T>().scale(q_room_, q, static_cast<T>(a_.spec.scale), rows * a_.width);
    if (a_.is_gradient()) grad_ = read(arguments, a_.spec.grad, first, rows * a_.width, grad_room_);
  }

  // (rows, keys), rows stride() apart.
  void scores(T* scores, int64_t rows, int64_t keys) const {
    k_by_width_.multiply({scores, a_.stride()}, {q_room_, a_.width, 1}, rows, keys, a_.width);
  }
  void values(T* out, const T* weights, int64_t rows, int64_t keys) const {
    by_keys_.multiply({out, a_.width}, {weights, a_.stride(), 1}, rows, a_.width, keys);
  }
  void weight_gradients(T* grads, int64_t rows, int64_t keys) const {
    v_by_width_.multiply({grads, a_.stride()}, {grad_, a_.width, 1}, rows, keys, a_.width);
  }
  // Sets dq and adds to dk and dv. `grads`: of the scores.
  void add_gradients(T* dq, T* dk, T* dv, const T* weights, const T* grads, int64_t rows, int64_t keys) const {
    add_over_rows(dv, weights, grad_, rows, keys);
    add_over_rows(dk, grads, q_room_, rows, keys);
    by_keys_.multiply({dq, a_.width}, {grads, a_.stride(), 1}, rows, a_.width, keys);
    loops().attention.of<T>().scale(dq, dq, static_cast<T>(a_.spec.scale), rows * a_.width);
  }

 private:
  const T* read(const KernelArguments& arguments, int index, int64_t first, int64_t n, T* room) const {
    return read_elements(arguments.operands[static_cast<size_t>(index)], a_.dtype, first, n, room);
  }
  // c (keys, width) += xᵀ y
  void add_over_rows(T* c, const T* x, const T* y, int64_t rows, int64_t keys) const {
    multiply_views<T>({c, a_.width}, {x, 1, a_.stride()}, {y, a_.width, 1}, keys, a_.width, rows, panels_,
                      /*add=*/true);
  }

  const Attention& a_;
  HeadOperand<T> k_by_width_, v_by_width_;                // v: for a gradient only
  HeadOperand<T> by_keys_;                                // v, or k for a gradient
  T *panels_, *q_room_, *grad_room_, *k_room_, *v_room_;  // q_room_: q · scale
  const T* grad_ = nullptr;
};

// Reads bf16 operands where they are, as pairs along the width. A product over rows or keys needs pairs of these: its
// operands are interleaved. Weights and gradients of scores are rounded to bf16. The width is even.
class PairProducts {
 public:
  using Value = float;

  PairProducts(const Attention& a, ScratchRoom& room)
      : a_(a),
        half_width_(a.width / 2),
        k_by_width_(half_width_, a.keys, a.packs_heads(), room),
        v_by_width_(half_width_, a.is_gradient() ? a.keys : 0, a.packs_heads(), room),
        by_keys_(pairs(a.keys), a.width, a.packs_heads(), room) {
    const int64_t rows = pairs(a.block_rows), backward = a.is_gradient() ? 1 : 0;
    panels_ = room.take<Bf16Pair>(backward * matmul_loops<Bf16Pair>().panel_elems(a.width, rows));
    key_pairs_ = room.take<Bf16Pair>(pairs(a.keys) * a.width);
    rounded_ = room.take<uint16_t>(a.block_rows * a.stride());
    scores_by_rows_ = room.take<Bf16Pair>(backward * rows * a.stride());
    q_by_rows_ = room.take<Bf16Pair>(backward * rows * a.width);
    grad_by_rows_ = room.take<Bf16Pair>(backward * rows * a.width);
  }

  float scale_of_scores() const { return static_cast<float>(a_.spec.scale); }

  void load_head(const KernelArguments& arguments, int64_t head) {
    const uint16_t* const k = operand<uint16_t>(arguments, 1) + head * a_.head_elems();
    const uint16_t* const v = operand<uint16_t>(arguments, 2) + head * a_.head_elems();
    k_by_width_.load({as_pairs(k), 1, half_width_});
    if (a_.is_gradient()) v_by_width_.load({as_pairs(v), 1, half_width_});
    interleave(key_pairs_, a_.is_gradient() ? k : v, a_.width, a_.keys, a_.width);
    by_keys_.load({key_pairs_, a_.width, 1});
  }
  void load_rows(const KernelArguments& arguments, int64_t first, int64_t rows) {
    q_ = operand<uint16_t>(arguments, 0) + first;
    if (!a_.is_gradient()) return;
    grad_ = operand<uint16_t>(arguments, static_cast<size_t>(a_.spec.grad)) + first;
    interleave(q_by_rows_, q_, a_.width, rows, a_.width);
    interleave(grad_by_rows_, grad_, a_.width, rows, a_.width);
  }

  void scores(float* scores, int64_t rows, int64_t keys) const {
    k_by_width_.multiply({scores, a_.stride()}, {as_pairs(q_), half_width_, 1}, rows, keys, half_width_);
  }
  void values(float* out, const float* weights, int64_t rows, int64_t keys) const {
    round_rows(weights, 1, rows, keys);
    multiply_keys(out, rows, keys);
  }
  void weight_gradients(float* grads, int64_t rows, int64_t keys) const {
    v_by_width_.multiply({grads, a_.stride()}, {as_pairs(grad_), half_width_, 1}, rows, keys, half_width_);
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
  static int64_t pairs(int64_t n) { return (n + 1) / 2; }
  static const Bf16Pair* as_pairs(const uint16_t* x) { return reinterpret_cast<const Bf16Pair*>(x); }

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

  // c (rows, width) = rounded_ · the operand in by_keys_
  void multiply_keys(float* c, int64_t rows, int64_t keys) const {
    by_keys_.multiply({c, a_.width}, {as_pairs(rounded_), a_.stride() / 2, 1}, rows, a_.width, pairs(keys));
  }
  // c (keys, width) += rounded_ᵀ · `by_rows`
  void add_over_rows(float* c, const Bf16Pair* by_rows, int64_t rows, int64_t keys) const {
    interleave(scores_by_rows_, rounded_, a_.stride(), rows, keys);
    multiply_views<Bf16Pair>({c, a_.width}, {scores_by_rows_, 1, a_.stride()}, {by_rows, a_.width, 1}, keys, a_.width,
                             pairs(rows), panels_, /*add=*/true);
  }

  const Attention& a_;
  const int64_t half_width_;
  HeadOperand<Bf16Pair> k_by_width_, v_by_width_;  // v: for a gradient only
  HeadOperand<Bf16Pair> by_keys_;                  // v, or k for a gradient
  Bf16Pair *panels_, *key_pairs_;
  uint16_t* rounded_;                                      // weights, or gradients of scores
  Bf16Pair *scores_by_rows_, *q_by_rows_, *grad_by_rows_;  // pairs of rows
  const uint16_t *q_ = nullptr, *grad_ = nullptr;
};

}  // namespace runner::backends
