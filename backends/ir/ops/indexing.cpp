// Ops that read or write at indices given as operands. Indices are i64 and checked at run time: an index out of range
// is an error of the run.
#include "backends/ir/ops/builder.h"
#include "backends/ir/ops/definition.h"

namespace runner::backends::op_defs {
namespace {

void check_gather_shapes(Query q) {
  const TensorType &x = q.operands[0], &index = q.operands[1];
  const std::string_view op = name_of(q.op);
  check_index(index, op);
  const int axis = x.shape.axis(q.attrs[0], op.data());
  bool fits = x.shape.rank() == index.shape.rank();
  for (int i = 0; fits && i < x.shape.rank(); ++i) fits = i == axis || index.shape[i] <= x.shape[i];
  check(fits, "{}: index {} does not match {} at axis {}", op, index, x, axis);
}

TensorType gather_type(Query q) {
  check_gather_shapes(q);
  return {q.operands[0].dtype, q.operands[1].shape};
}

TensorType scatter_add_type(Query q) {
  check_gather_shapes(q);
  const TensorType wanted{q.operands[0].dtype, q.operands[1].shape};
  check(q.operands[2] == wanted, "scatter_add: expected a source {1}, like index and tensor, got {0}", q.operands[2],
        wanted);
  return q.operands[0];
}

TensorType index_copy_type(Query q) {
  const TensorType &x = q.operands[0], &index = q.operands[1];
  check_index(index, "index_copy");
  check(index.shape.rank() == 1, "index_copy: expected an index (N), got {}", index);
  const int axis = x.shape.axis(q.attrs[0], "index_copy");
  const TensorType wanted{x.dtype, x.shape.with(axis, index.shape[0])};
  check(q.operands[2] == wanted, "index_copy: expected a source {1} for {2}, got {0}", q.operands[2], wanted, x);
  return x;
}

TensorType one_hot_type(Query q) {
  check_index(q.operands[0], "one_hot");
  check(q.attrs[0] >= 1, "one_hot: expected at least one class, got {}", q.attrs[0]);
  return append_axis(DType::kF32, q.operands[0].shape, q.attrs[0]);
}

TensorType embedding_type(Query q) {
  check(q.operands[0].shape.rank() == 2, "embedding: expected a table (V, D), got {}", q.operands[0]);
  check_index(q.operands[1], "embedding");
  return append_axis(q.operands[0].dtype, q.operands[1].shape, q.operands[0].shape[1]);
}

TensorType embedding_grad_type(Query q) {
  const TensorType &ids = q.operands[0], &grad = q.operands[1];
  check_index(ids, "embedding_grad");
  check(grad.shape.rank() > 0 && grad.shape.without(grad.shape.rank() - 1) == ids.shape,
        "embedding_grad: expected a gradient with one row per id of {1}, got {0}", grad, ids);
  return {grad.dtype, Shape{q.attrs[0], grad.shape.back()}};
}

void embedding_gradient(Value result, Value grad, Grads grads) {
  const int64_t rows[] = {operand(result, 0).shape()[0]};
  const ValueId operands[] = {operand(result, 1).id, grad.id};
  grads[0] = {result.program, result.program->record(Op::kEmbeddingGrad, operands, rows)};
}

// Whether each element of an index is the last of those equal to it. `size`: of the axis.
Value is_last_of_equal(Value index, int64_t size) {
  backends::Program& program = *index.program;
  const Value places = ops::arange(program, index.shape()[0]);
  const Value none{&program, program.constant(0, {DType::kI64, Shape{size}})};
  const Value last = ops::index_copy(none, 0, index, places);
  return ops::eq(ops::gather(last, 0, index), places);
}

void index_copy_gradient(Value result, Value grad, Grads grads) {
  const Value index = operand(result, 1), zeros = zeros_like(operand(result, 2));
  const auto axis = static_cast<int>(attrs(result)[0]);
  Shape along = zeros.shape();
  for (int i = 0; i < along.rank(); ++i)
    if (i != axis) along = along.with(i, 1);
  const auto of_each = [&](Value x) { return ops::expand(ops::reshape(x, along), zeros.shape()); };
  grads[0] = ops::index_copy(grad, axis, index, zeros);
  grads[2] = ops::where(of_each(is_last_of_equal(index, result.shape()[axis])), ops::gather(grad, axis, of_each(index)),
                        zeros);
}

struct IndexingDef {
  Required<Attributes> attributes;
  Required<TypeRule> infer;
  Required<Gradient> gradient;
  OpCost cost;
  Required<BatchRule> batch;
  Required<std::string_view> aten;
  InPlaceRule in_place = InPlaceRule::kNever;
};
constexpr OpDef indexing(const IndexingDef& def) {
  return {.attributes = def.attributes,
          .infer = def.infer,
          .gradient = def.gradient,
          .fold = kNoFold,
          .combines_by = std::nullopt,
          .product = kNoProduct,
          .matrix_operands = 0,
          .cost = def.cost,
          .batch = def.batch,
          .memory = MemoryRule::kBuffer,
          .in_place = def.in_place,
          .autocast = AutocastRule::kAsGiven,
          .numbers = kNumbersAreOperands,
          .xla = xla_names(def.aten, kCustomCall)};
}

constexpr Attribute kAlongAxis[] = {
    {"axis", Type::kAxis, kAnyInt, kAlways, kValue, "dim={}", ""},
};

}  // namespace

// (x, index), as torch.gather.
constexpr OpDef kGather = indexing(IndexingDef{
    .attributes = Attributes(kAlongAxis),
    .infer = gather_type,
    .gradient =
        [](Value y, Value grad, Grads grads) {
          const Value zeros = zeros_like(operand(y, 0));
          grads[0] = ops::scatter_add(zeros, attrs(y)[0], operand(y, 1), grad);
        },
    .cost = {.flops = flops<0>,
             .xla = xla_count<kNoArithmetic>,
             .traffic = Traffic{.is_each_once = false, .result = 2, .operands = {0, 1}}},
    .batch = BatchRule::kGrows,
    .aten = "aten::gather",
});

// (x, index, source), as torch.scatter_add.
constexpr OpDef kScatterAdd = indexing(IndexingDef{
    .attributes = Attributes(kAlongAxis),
    .infer = scatter_add_type,
    .gradient =
        [](Value y, Value grad, Grads grads) {
          grads[0] = grad;
          grads[2] = ops::gather(grad, attrs(y)[0], operand(y, 1));
        },
    .cost = {.flops = flops<1, 2>,
             .xla = xla_count<kOneFlop, 2>,
             .traffic = Traffic{.is_each_once = false, .result = 0, .operands = {0, 1, 3}}},
    .batch = BatchRule::kGrows,
    .aten = "aten::scatter_add",
});

// (x, index (N), source), as torch.index_copy: the rows of x at the indices along an axis are those of the source. Of
// equal indices, the last counts.
constexpr OpDef kIndexCopy = indexing(IndexingDef{
    .attributes = Attributes(kAlongAxis),
    .infer = index_copy_type,
    .gradient = index_copy_gradient,
    .cost = {.flops = flops<0>,
             .xla = xla_count<kNoArithmetic>,
             .traffic = Traffic{.is_each_once = false, .result = 0, .operands = {0, 1, 2}}},
    .batch = BatchRule::kGrows,
    .aten = "aten::index_copy",
    .in_place = InPlaceRule::kFirst,
});

// (index) -> (…, classes) f32.
constexpr Attribute kOneHotAttributes[] = {
    {"classes", Type::kInt, kSizes, kAlways, kValue, "", ""},
};
constexpr OpDef kOneHot = indexing(IndexingDef{
    .attributes = Attributes(kOneHotAttributes),
    .infer = one_hot_type,
    .gradient = kNoGradient,
    .cost = {.flops = flops<0>, .xla = xla_count<kOneFlop>, .traffic = kEachOnce},
    .batch = BatchRule::kGrows,
    .aten = "aten::one_hot",
});

// (table (V, D), ids (…)) -> (…, D).
constexpr OpDef kEmbedding = indexing(IndexingDef{
    .attributes = Attributes(),
    .infer = embedding_type,
    .gradient = embedding_gradient,
    .cost = {.flops = flops<0>,
             .xla = xla_count<kNoArithmetic>,
             .traffic = Traffic{.is_each_once = false, .result = 2, .operands = {0, 1}}},
    .batch = BatchRule::kGrows,
    .aten = "aten::embedding",
});

// (ids (…), grad (…, D)) -> (V, D): the sum of the rows of each id. The result is zeroed first.
constexpr Attribute kEmbeddingGradAttributes[] = {
    {"rows", Type::kInt, kSizes, kAlways, kValue, "", ""},
};
constexpr OpDef kEmbeddingGrad = indexing(IndexingDef{
    .attributes = Attributes(kEmbeddingGradAttributes),
    .infer = embedding_grad_type,
    .gradient = [](Value y, Value grad, Grads grads) { grads[1] = ops::embedding(grad, operand(y, 0)); },
    .cost = {.flops = flops<1, 1>,
             .xla = xla_count<kOneFlop, 1>,
             .traffic = Traffic{.is_each_once = false, .result = 1, .operands = {1, 3}}},
    .batch = BatchRule::kSumsSamples,
    .aten = "aten::embedding_dense_backward",
});

}  // namespace runner::backends::op_defs

namespace runner::backends::ops {

Value gather(Value x, int64_t axis, Value index) {
  const int64_t attrs[] = {normal_axis("gather", x, axis)};
  return record(Op::kGather, {x, index}, attrs);
}

Value scatter_add(Value x, int64_t axis, Value index, Value src) {
  const int64_t attrs[] = {normal_axis("scatter_add", x, axis)};
  return record(Op::kScatterAdd, {x, index, src}, attrs);
}

Value index_copy(Value x, int64_t axis, Value index, Value source) {
  const int64_t attrs[] = {normal_axis("index_copy", x, axis)};
  return record(Op::kIndexCopy, {x, index, source}, attrs);
}

Value one_hot(Value index, int64_t classes) {
  const int64_t attrs[] = {classes};
  return record(Op::kOneHot, {index}, attrs);
}

Value embedding(Value table, Value ids) {
  return record(Op::kEmbedding, {table, ids});
}

}  // namespace runner::backends::ops
