#include "runner/model/key_cache.h"

namespace runner::nn {

namespace ops = backends::ops;

// Records the contents of a cache with new rows.
Value KeyCache::kept(Value rows, const char* name) {
  backends::Program& program = *rows.program;
  const backends::TensorType type{rows.dtype(), rows.shape().with(2, capacity_)};
  const auto state = static_cast<int32_t>(program.inputs().size());
  const Value old{&program, program.input(backends::InputKind::kState, name, type)};
  const Value now =
      position_ ? ops::index_copy(old, 2, position_, rows) : ops::pad(rows, 2, 0, capacity_ - rows.shape()[2]);
  program.output(name, now.id, state);
  return now;
}

KeyCache::Seen KeyCache::add(Value k, Value v) {
  const Value keys = kept(k, "keys"), values = kept(v, "values");
  if (!position_) return {.k = k, .v = v, .is_causal = true};
  return {.k = keys, .v = values, .visible = ops::le(ops::arange(*k.program, capacity_), position_)};
}

Value token_positions(const ForwardContext& context, int64_t tokens) {
  const Value position = context.cache != nullptr ? context.cache->position() : Value{};
  return position ? position : ops::arange(context.program, tokens);
}

Value predicting_tokens(const ForwardContext& context, Value x) {
  return context.cache != nullptr ? ops::slice(x, 1, x.shape()[1] - 1, x.shape()[1]) : x;
}

}  // namespace runner::nn
