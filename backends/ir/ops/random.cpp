// Random numbers, as functions of a key (philox.h in kernels/).
#include <limits>

#include "backends/ir/attention.h"
#include "backends/ir/ops/builder.h"
#include "backends/ir/ops/definition.h"

namespace runner::backends::op_defs {
namespace {

void check_key(Query q) {
  const TensorType& key = q.operands[0];
  check(key == TensorType{DType::kI64, Shape{2}}, "{}: expected a key (2) i64, got {}", name_of(q.op), key);
}

TensorType random_type(Query q) {
  check_key(q);
  check(q.attrs[0] >= 0 && q.attrs[0] <= std::numeric_limits<uint32_t>::max(),
        "{}: expected a stream in [0, 2^32), got {}", name_of(q.op), q.attrs[0]);
  return {DType::kF32, q.requested.shape};
}

TensorType dropout_mask_type(Query q) {
  check_key(q);
  check_index(q.operands[1], "dropout_mask");
  const double p = unpack_f64(q.attrs[1]);
  check(p >= 0 && p < 1, "dropout_mask: expected p in [0, 1), got {}", p);
  check(q.requested.shape.rank() >= 1 && q.operands[1].shape == Shape{q.requested.shape[0]},
        "dropout_mask: expected one sample id per row of {}, got {}", q.requested.shape, q.operands[1]);
  check(!masks_weights(q.attrs) || q.requested.shape.rank() == 4, "dropout_mask: expected weights (B, H, T, S), got {}",
        q.requested.shape);
  return {DType::kF32, q.requested.shape};
}

struct RandomDef {
  Required<Attributes> attributes;
  Required<TypeRule> infer;
  Required<XlaRule> xla_count;
  Required<std::string_view> aten;
};
constexpr OpDef random_tensor(const RandomDef& def) {
  return {.attributes = def.attributes,
          .infer = def.infer,
          .gradient = kNoGradient,
          .fold = kNoFold,
          .combines_by = std::nullopt,
          .product = kNoProduct,
          .matrix_operands = 0,
          .cost = {.flops = flops<1>,
                   .xla = def.xla_count,
                   .traffic = Traffic{.is_each_once = false, .result = 1, .operands = {}}},  // keys count for nothing
          .batch = BatchRule::kGrows,
          .memory = MemoryRule::kBuffer,
          .in_place = InPlaceRule::kNever,
          .autocast = AutocastRule::kAsGiven,
          .numbers = kNumbersAreOperands,
          .xla = xla_names(def.aten, kCustomCall)};
}

constexpr Attribute kDropoutAttributes[] = {
    {"layer", Type::kInt, kAnyInt, kAlways, kNameAndValue, "", ""},
    {"p", Type::kF64, kAnyInt, kAlways, kNameAndValue, "p={}", ""},
    {"attention", Type::kInt, kFlag, kOptional, kNameAndValue, "", ""},  // weights (B, H, T, S)
};
constexpr Attribute kStream[] = {
    {"stream", Type::kInt, kAnyInt, kAlways, kNameAndValue, "", ""},
};

}  // namespace

// (key (2) i64 = {seed, epoch}, sample_ids (B) i64) -> (B, …) of 0 or 1/(1−p), f32.
constexpr OpDef kDropoutMask = random_tensor(RandomDef{
    .attributes = Attributes(kDropoutAttributes),
    .infer = dropout_mask_type,
    .xla_count = xla_count<kOneTranscendental.plus(2)>,  // compared and scaled
    .aten = "aten::bernoulli",
});

// (key (2) i64 = {seed, draw}) -> the requested shape of [0, 1), f32.
constexpr OpDef kRandomUniform = random_tensor(RandomDef{
    .attributes = Attributes(kStream),
    .infer = random_type,
    .xla_count = xla_count<kOneTranscendental>,
    .aten = "aten::uniform",
});

// (key (2) i64 = {seed, draw}) -> the requested shape of N(0, 1), f32.
constexpr OpDef kRandomNormal = random_tensor(RandomDef{
    .attributes = Attributes(kStream),
    .infer = random_type,
    .xla_count = xla_count<kOneTranscendental>,
    .aten = "aten::normal",
});

}  // namespace runner::backends::op_defs

namespace runner::backends::ops {

Value dropout_mask(Value key, Value sample_ids, const Shape& shape, int64_t layer, double p) {
  const int64_t attrs[] = {layer, pack_f64(p)};
  return record(Op::kDropoutMask, {key, sample_ids}, attrs, {DType::kF32, shape});
}

Value weights_dropout_mask(Value key, Value sample_ids, const Shape& shape, int64_t layer, double p) {
  const int64_t attrs[] = {layer, pack_f64(p), 1};
  return record(Op::kDropoutMask, {key, sample_ids}, attrs, {DType::kF32, shape});
}

Value random_uniform(Value key, const Shape& shape, int64_t stream) {
  const int64_t attrs[] = {stream};
  return record(Op::kRandomUniform, {key}, attrs, {DType::kF32, shape});
}

Value random_normal(Value key, const Shape& shape, int64_t stream) {
  const int64_t attrs[] = {stream};
  return record(Op::kRandomNormal, {key}, attrs, {DType::kF32, shape});
}

}  // namespace runner::backends::ops
