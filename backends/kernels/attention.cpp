// Scaled dot-product attention and its gradient: blocks of rows of one head against all keys that they see, so that
// scores take a block of rows of memory per chunk. The gradient computes the softmax again.
//
// A block is a unit of work of the forward pass. The gradients of k and v are sums over blocks: the blocks of one head
// of k are cut into parts by shape; a part adds its blocks in order, then the parts are added in order.

#include "backends/ir/attention.h"

#include <fmt/format.h>

#include "backends/kernels/attention_products.h"
#include "backends/kernels/kernel_choices.h"
#include "backends/kernels/op_kernels.h"
#include "backends/kernels/rows_io.h"
#include "backends/tensor/alignment.h"
#include "backends/tensor/rounding.h"
#include "schema/base/error.h"

namespace runner::backends {

namespace {

// ---- scratch of a chunk --------------------------------------------------------------------------------------------

// Scores of a block of rows, and what goes with them.
template <class T>
struct AttentionScratch {
  T *scores, *grads, *factors;
  T* out;  // to be converted to 16-bit storage
  int64_t* seen;
  float* dropout;

  AttentionScratch(const Attention& a, ScratchRoom& room) {
    const int64_t rows = a.block_rows;
    scores = room.take<T>(rows * a.stride());
    grads = room.take<T>(a.is_gradient() ? rows * a.stride() : 0);
    factors = room.take<T>(rows);
    out = room.take<T>(a.is_native() ? 0 : rows * a.width);
    seen = room.take<int64_t>(rows);
    dropout = room.take<float>(a.spec.p > 0 ? a.keys : 0);
  }
};

// ---- a block of rows -----------------------------------------------------------------------------------------------

struct RowBlock {
  int64_t sample, head, first_row, rows;
  int64_t keys;  // that any of its rows sees
};

// Computes blocks of rows, with the Products of attention_products.h.
template <class Products>
class AttentionWorker {
 public:
  using T = typename Products::Value;

  // `mask`: null without one.
  AttentionWorker(const Attention& a, const KernelArguments& arguments, const T* mask, ScratchRoom room)
      : a_(a), arguments_(arguments), scratch_(a, room), products_(a, room), mask_(mask) {}

  static size_t scratch_bytes(const Attention& a) {
    ScratchRoom room(nullptr);
    AttentionScratch<T>(a, room);
    Products(a, room);
    return room.size();
  }

  void forward(int64_t unit) {
    const RowBlock block = block_of(unit / (a_.heads * a_.blocks), unit / a_.blocks % a_.heads, unit % a_.blocks);
    load_head(block.sample * a_.groups + block.head / a_.copies());
    const int64_t at = offset(block);
    T* const out = place(at);
    if (block.keys == 0) {
      std::fill_n(out, block.rows * a_.width, T{0});
    } else {
      weigh(block);
      for (int64_t r = 0; r < block.rows && a_.spec.p > 0; ++r)
        loops().attention.of<T>().drop(scratch_.scores + r * a_.stride(), dropout_row(block, r), scratch_.seen[r]);
      products_.values(out, scratch_.scores, block.rows, block.keys);
      loops().attention.of<T>().scale_rows(out, scratch_.factors, block.rows, a_.width);
    }
    store(at, block.rows * a_.width);
  }

  // Adds the gradients of a part of the blocks of one head of k and v to dk and dv.
  void backward(int64_t head, int64_t part, T* dk, T* dv) {
    load_head(head);
    std::fill_n(dk, a_.head_elems(), T{0});
    std::fill_n(dv, a_.head_elems(), T{0});
    const IndexRange<int64_t> blocks = part_of(a_.copies() * a_.blocks, part, a_.parts);
    for (int64_t i = blocks.begin; i < blocks.end; ++i) {
      const int64_t copy = i / std::max<int64_t>(a_.blocks, 1);
      backward(block_of(head / a_.groups, head % a_.groups * a_.copies() + copy, i - copy * a_.blocks), dk, dv);
    }
  }

 private:
  RowBlock block_of(int64_t sample, int64_t head, int64_t index) const {
    const int64_t first = index * a_.block_rows, rows = std::min(a_.block_rows, a_.tokens - first);
    return {sample, head, first, rows, seen_by(first + rows - 1)};
  }
  int64_t seen_by(int64_t row) const {
    return a_.spec.causal ? std::clamp<int64_t>(row + 1 + a_.keys - a_.tokens, 0, a_.keys) : a_.keys;
  }
  int64_t offset(const RowBlock& block) const {
    return ((block.sample * a_.heads + block.head) * a_.tokens + block.first_row) * a_.width;
  }
  T* place(int64_t first) const { return place_of_elements(arguments_.results[0], a_.dtype, first, scratch_.out); }
  void store(int64_t first, int64_t n) const {
    if (!a_.is_native()) store_elements(arguments_.results[0], a_.dtype, first, scratch_.out, n);
  }

  void load_head(int64_t head) {
    if (head_ == head) return;
    head_ = head;
    products_.load_head(arguments_, head);
  }

  // Loads the rows of a block, and computes the exponentials of their scores and their factors.
  void weigh(const RowBlock& block) {
    products_.load_rows(arguments_, offset(block), block.rows);
    products_.scores(scratch_.scores, block.rows, block.keys);
    for (int64_t r = 0; r < block.rows; ++r) scratch_.seen[r] = seen_by(block.first_row + r);
    loops().attention.of<T>().exponentials({.scores = scratch_.scores,
                                            .scale = products_.scale_of_scores(),
                                            .stride = a_.stride(),
                                            .rows = block.rows,
                                            .keys = block.keys,
                                            .seen = scratch_.seen,
                                            .mask = mask_of(block),
                                            .mask_stride = a_.mask_strides[2]},
                                           scratch_.factors);
  }

  const T* mask_of(const RowBlock& block) const {
    return mask_ == nullptr ? nullptr
                            : mask_ + block.sample * a_.mask_strides[0] + block.head * a_.mask_strides[1] +
                                  block.first_row * a_.mask_strides[2];
  }

  // The dropout mask of row r of a block.
  const float* dropout_row(const RowBlock& block, int64_t r) const {
    const auto* key = operand<int64_t>(arguments_, static_cast<size_t>(a_.spec.key));
    const auto* ids = operand<int64_t>(arguments_, static_cast<size_t>(a_.spec.sample_ids));
    const DropoutStream stream(static_cast<uint64_t>(key[0]), static_cast<uint64_t>(key[1]),
                               static_cast<uint64_t>(ids[block.sample]), static_cast<uint32_t>(a_.spec.layer));
    loops().random.dropout(scratch_.dropout, scratch_.seen[r], HeadDropout::stream(stream, block.head),
                           HeadDropout::block(block.first_row + r), a_.threshold(), a_.kept());
    return scratch_.dropout;
  }

  void backward(const RowBlock& block, T* dk, T* dv) {
    const int64_t at = offset(block), elems = block.rows * a_.width;
    T* const dq = place(at);
    if (block.keys == 0) {
      std::fill_n(dq, elems, T{0});
    } else {
      weigh(block);
      products_.weight_gradients(scratch_.grads, block.rows, block.keys);
      for (int64_t r = 0; r < block.rows; ++r) row_gradient(block, r);
      products_.add_gradients(dq, dk, dv, scratch_.scores, scratch_.grads, block.rows, block.keys);
    }
    store(at, elems);
  }

  void row_gradient(const RowBlock& block, int64_t r) {
    const int64_t seen = scratch_.seen[r];
    T* const grads = scratch_.grads + r * a_.stride();
    loops().attention.of<T>().gradient({.weights = scratch_.scores + r * a_.stride(),
                                        .grads = grads,
                                        .dropout = a_.spec.p > 0 ? dropout_row(block, r) : nullptr,
                                        .factor = scratch_.factors[r],
                                        .keys = seen});
    std::fill_n(grads + seen, block.keys - seen, T{0});
  }

  const Attention& a_;
  const KernelArguments& arguments_;
  const AttentionScratch<T> scratch_;
  Products products_;
  const T* const mask_;
  int64_t head_ = -1;  // of k and v
};

// ---- running -------------------------------------------------------------------------------------------------------

// Scratch after that of the chunks.
template <class T>
struct AttentionShared {
  T* mask;  // converted
  T* sums;  // gradients of k and v, by part

  AttentionShared(const Attention& a, ScratchRoom& room) {
    mask = room.take<T>(a.mask_elems);
    sums = room.take<T>(!a.is_gradient() || a.adds_in_place() ? 0 : a.units * 2 * a.head_elems());
  }
};

// The kernel: Products of f32, f64 or pairs of bf16.
template <class Products>
struct AttentionKernel {
  using T = typename Products::Value;
  using Worker = AttentionWorker<Products>;

  static size_t scratch_bytes(const Attention& a) {
    ScratchRoom room(nullptr);
    AttentionShared<T>(a, room);
    return static_cast<size_t>(a.chunks) * Worker::scratch_bytes(a) + room.size();
  }

  static void run(const Attention& a, const KernelArguments& arguments) {
    const size_t bytes = Worker::scratch_bytes(a);  // of a chunk
    ScratchRoom room(arguments.scratch + static_cast<size_t>(a.chunks) * bytes);
    const AttentionShared<T> shared(a, room);
    const T* const mask = a.spec.mask < 0 ? nullptr
                                          : read_elements(arguments.operands[static_cast<size_t>(a.spec.mask)], a.dtype,
                                                          0, a.mask_elems, shared.mask);
    arguments.pool.parallel_for(a.chunks, [&](int64_t chunk) {
      Worker worker(a, arguments, mask, ScratchRoom(arguments.scratch + static_cast<size_t>(chunk) * bytes));
      const IndexRange<int64_t> units = part_of(a.units, chunk, a.chunks);
      for (int64_t unit = units.begin; unit < units.end; ++unit)
        a.is_gradient() ? backward(a, arguments, worker, shared.sums, unit) : worker.forward(unit);
    });
    if (!a.is_gradient() || a.adds_in_place()) return;
    arguments.pool.parallel_for(2 * a.batch * a.groups,
                                [&](int64_t i) { add_parts(a, arguments, shared.sums, i / 2, i % 2); });
  }

 private:
  static void backward(const Attention& a, const KernelArguments& arguments, Worker& worker, T* sums, int64_t unit) {
    const int64_t head = unit / a.parts;
    T* const in_result = result<T>(arguments) + a.q_elems() + head * a.head_elems();
    T* const part = sums + unit * 2 * a.head_elems();
    if (a.adds_in_place())
      worker.backward(head, 0, in_result, in_result + a.k_elems());
    else
      worker.backward(head, unit % a.parts, part, part + a.head_elems());
  }

  // Adds the parts of dk (side 0) or dv (side 1) of one head and stores the sum.
  static void add_parts(const Attention& a, const KernelArguments& arguments, T* sums, int64_t head, int64_t side) {
    const int64_t elems = a.head_elems();
    T* const sum = sums + (head * a.parts * 2 + side) * elems;
    for (int64_t part = 1; part < a.parts; ++part) add_elements(sum, sum + part * 2 * elems, elems);
    const int64_t at = a.q_elems() + side * a.k_elems() + head * elems;
    store_elements(arguments.results[0], a.dtype, at, sum, elems);
  }
};

// ---- preparing -----------------------------------------------------------------------------------------------------

// Rows of a block: their scores fit the L2 cache, in whole tiles of products, and all blocks have about the same size.
// Causal attention has at least two blocks, because a block sees no keys after its last row.
// Small blocks see fewer keys and stay in faster caches; large ones read packed keys less often, which takes longer in
// f32.
int64_t block_rows_of(int64_t tokens, int64_t keys, bool causal, bool in_pairs) {
  constexpr int64_t kTileRows = 12, kLeast = 2 * kTileRows, kScores = 64 << 10;
  const int64_t limit = (causal || in_pairs ? 3 : 6) * kTileRows;
  const int64_t most = std::clamp(kScores / std::max<int64_t>(keys, 1), kLeast, limit);
  const int64_t blocks = std::max<int64_t>(ceil_div(tokens, most), causal && tokens >= 2 * kLeast ? 2 : 1);
  return std::max<int64_t>(std::min(round_up(ceil_div(tokens, blocks), kTileRows), tokens), 1);
}

std::array<int64_t, 3> mask_strides_of(const Shape& mask) {
  const std::array<int64_t, Shape::kMaxRank> strides = mask.strides();
  std::array<int64_t, 3> used{};
  for (size_t axis = 0; axis < 3; ++axis) used[axis] = mask[static_cast<int>(axis)] == 1 ? 0 : strides[axis];
  return used;
}

// Whether products of pairs of bf16 are faster: not for few rows, which do not pay for interleaving their operands.
bool suits_pairs(const TensorType& q) {
  constexpr int64_t kLeastRows = 16;
  return q.dtype == DType::kBf16 && q.shape[2] >= kLeastRows && q.shape[3] % 2 == 0 && pair_loops() != nullptr &&
         bf16_products_in_use() == Bf16Products::kNative;
}

Kernel prepare_attention(const KernelRequest& request) {
  constexpr double kFlopsPerNs = 60;
  constexpr int64_t kLeastUnits = 16;
  const Shape &q = request.operands[0].shape, &k = request.operands[1].shape;
  Attention a{.spec = AttentionSpec::of(request.op, request.operands.size(), request.attrs),
              .dtype = request.operands[0].dtype,
              .batch = q[0],
              .heads = q[1],
              .groups = k[1],
              .tokens = q[2],
              .keys = k[2],
              .width = q[3],
              .mask_strides = {},
              .block_rows = 0,
              .blocks = 0,
              .parts = 1,
              .units = 0,
              .chunks = 0,
              .mask_elems = 0,
              .in_pairs = suits_pairs(request.operands[0])};
  a.block_rows = block_rows_of(a.tokens, a.keys, a.spec.causal, a.in_pairs);
  if (a.spec.mask >= 0) {
    const Shape& mask = request.operands[static_cast<size_t>(a.spec.mask)].shape;
    a.mask_strides = mask_strides_of(mask);
    a.mask_elems = a.is_native() ? 0 : mask.elements();
  }
  a.blocks = ceil_div(a.tokens, a.block_rows);
  if (a.spec.p > 0) check_weights_mask(request.op, Shape{a.batch, a.heads, a.tokens, a.keys}, a.spec.layer);
  const int64_t heads = a.batch * a.groups;
  if (!a.is_gradient()) {
    a.units = a.batch * a.heads * a.blocks;
  } else {
    const int64_t blocks = std::max<int64_t>(a.copies() * a.blocks, 1);
    a.parts = std::clamp(ceil_div(kLeastUnits, std::max<int64_t>(heads, 1)), int64_t{1}, blocks);
    a.units = heads * a.parts;
  }
  if (a.width == 0) a.units = 0;
  const double pairs = static_cast<double>(a.batch * a.heads * a.tokens) * static_cast<double>(a.keys);
  const double products = a.is_gradient() ? 5 : 2, row_ns = a.spec.p > 0 ? 2 : 1;
  const double slow = a.dtype == DType::kF64 ? 4 : 1;
  a.chunks = chunk_count(slow * pairs * (2 * products * static_cast<double>(a.width) / kFlopsPerNs + row_ns), a.units);
  std::string name = fmt::format("{}.{}{}", name_of(request.op), name_of(a.dtype), a.in_pairs ? ".pairs" : "");
  const auto kernel_of = [&]<class Products>(std::type_identity<Products>) {
    using Used = AttentionKernel<Products>;
    return make_kernel<Used::run>(std::move(name), a, Used::scratch_bytes(a));
  };
  if (a.in_pairs) return kernel_of(std::type_identity<PairProducts>{});
  if (a.dtype == DType::kF64) return kernel_of(std::type_identity<WideProducts<double>>{});
  return kernel_of(std::type_identity<WideProducts<float>>{});
}

}  // namespace

// ---- reference kernels ----------------------------------------------------------------------------------------------

namespace reference {
namespace {

// One row of one head, by the definition of attention.
struct AttentionRow {
  std::vector<Real> weights;  // before dropout
  std::vector<Real> dropout;  // factor of each weight
};

struct AttentionSizes {
  AttentionSpec spec;
  int64_t batch, heads, groups, tokens, keys, width;

  explicit AttentionSizes(const Call& call)
      : spec(AttentionSpec::of(call.op, call.operand_types.size(), call.attrs)),
        batch(call.operand_types[0].shape[0]),
        heads(call.operand_types[0].shape[1]),
        groups(call.operand_types[1].shape[1]),
        tokens(call.operand_types[0].shape[2]),
        keys(call.operand_types[1].shape[2]),
        width(call.operand_types[0].shape[3]) {}

  int64_t q_at(int64_t b, int64_t h, int64_t t) const { return ((b * heads + h) * tokens + t) * width; }
  int64_t k_at(int64_t b, int64_t h, int64_t s) const {
    return ((b * groups + h / (heads / groups)) * keys + s) * width;
  }
  // Calls body(b, h, t) for each row.
  template <class Body>
  void for_rows(const Body& body) const {
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t h = 0; h < heads; ++h)
        for (int64_t t = 0; t < tokens; ++t) body(b, h, t);
  }
};

Real mask_value(const Tensor& mask, int64_t b, int64_t h, int64_t t, int64_t s) {
  const Shape& shape = mask.shape();
  const auto place = [&](int axis, int64_t index) { return shape[axis] == 1 ? 0 : index; };
  return mask[((place(0, b) * shape[1] + place(1, h)) * shape[2] + place(2, t)) * shape[3] + s];
}

Real product_of_rows(const Tensor& x, int64_t i, const Tensor& y, int64_t j, int64_t width) {
  Real sum = 0;
  for (int64_t d = 0; d < width; ++d) sum += x[i + d] * y[j + d];
  return sum;
}

AttentionRow attention_row(const AttentionSizes& a, Operands in, int64_t b, int64_t h, int64_t t) {
  AttentionRow row{std::vector<Real>(static_cast<size_t>(a.keys), 0),
                   std::vector<Real>(static_cast<size_t>(a.keys), 1)};
  constexpr Real kHidden = -std::numeric_limits<Real>::infinity();
  Real top = kHidden, sum = 0;
  for (int64_t s = 0; s < a.keys; ++s) {
    Real score = product_of_rows(in[0], a.q_at(b, h, t), in[1], a.k_at(b, h, s), a.width) * a.spec.scale;
    if (a.spec.mask >= 0) score += mask_value(in[static_cast<size_t>(a.spec.mask)], b, h, t, s);
    if (a.spec.causal && s > t + a.keys - a.tokens) score = kHidden;
    row.weights[static_cast<size_t>(s)] = score;
    top = std::max(top, score);
  }
  for (Real& weight : row.weights) sum += weight = top == kHidden ? 0 : std::exp(weight - top);
  for (Real& weight : row.weights) weight = sum == 0 ? 0 : weight / sum;
  if (a.spec.p == 0) return row;
  const Tensor &key = in[static_cast<size_t>(a.spec.key)], &ids = in[static_cast<size_t>(a.spec.sample_ids)];
  const DropoutStream stream(static_cast<uint64_t>(key.integer(0)), static_cast<uint64_t>(key.integer(1)),
                             static_cast<uint64_t>(ids.integer(b)), static_cast<uint32_t>(a.spec.layer));
  for (int64_t s = 0; s < a.keys; ++s) {
    const uint32_t word = HeadDropout::word(stream, h, t, s);
    row.dropout[static_cast<size_t>(s)] =
        word < dropout_threshold(a.spec.p) ? 0
                                           : static_cast<float>(1 / (1 - a.spec.p));  // as ops::weights_dropout_mask()
  }
  return row;
}

void attention_loop(const Call& call, Operands in, Tensor& out) {
  const AttentionSizes a(call);
  a.for_rows([&](int64_t b, int64_t h, int64_t t) {
    const AttentionRow row = attention_row(a, in, b, h, t);
    for (int64_t s = 0; s < a.keys; ++s)
      for (int64_t d = 0; d < a.width; ++d)
        out[a.q_at(b, h, t) + d] +=
            row.weights[static_cast<size_t>(s)] * row.dropout[static_cast<size_t>(s)] * in[2][a.k_at(b, h, s) + d];
  });
}

void attention_grad_loop(const Call& call, Operands in, Tensor& out) {
  const AttentionSizes a(call);
  const int64_t dk = in[0].shape().elements(), dv = dk + in[1].shape().elements();
  a.for_rows([&](int64_t b, int64_t h, int64_t t) {
    const AttentionRow row = attention_row(a, in, b, h, t);
    const int64_t q = a.q_at(b, h, t);
    std::vector<Real> of_weights(row.weights.size());
    Real mean = 0;
    for (int64_t s = 0; s < a.keys; ++s) {
      const auto i = static_cast<size_t>(s);
      of_weights[i] = product_of_rows(in[3], q, in[2], a.k_at(b, h, s), a.width) * row.dropout[i];
      mean += row.weights[i] * of_weights[i];
    }
    for (int64_t s = 0; s < a.keys; ++s) {
      const auto i = static_cast<size_t>(s);
      const Real of_product = row.weights[i] * (of_weights[i] - mean) * a.spec.scale;
      const int64_t k = a.k_at(b, h, s);
      for (int64_t d = 0; d < a.width; ++d) {
        out[q + d] += of_product * in[1][k + d];
        out[dk + k + d] += of_product * in[0][q + d];
        out[dv + k + d] += row.weights[i] * row.dropout[i] * in[3][q + d];
      }
    }
  });
}

}  // namespace
}  // namespace reference

constexpr OpKernels op_kernels::kAttention = {.reference = reference::attention_loop, .prepare = prepare_attention};
constexpr OpKernels op_kernels::kAttentionGrad = {.reference = reference::attention_grad_loop,
                                                  .prepare = prepare_attention};

}  // namespace runner::backends
