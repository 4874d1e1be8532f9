#include "runner/lua/attention.h"

#include <vector>

#include <lua.hpp>

#include "backends/ir/type_text.h"
#include "runner/lua/arguments.h"
#include "runner/lua/bind.h"
#include "runner/lua/recording.h"
#include "runner/lua/tensor_arguments.h"
#include "runner/lua/tensor_functions.h"
#include "runner/model/attention.h"

namespace runner::lua {
namespace {

namespace ops = backends::ops;
using backends::DType;
using backends::Op;
using backends::Shape;

// A mask as numbers to add to scores of a dtype. `hides`: of nn::additive_mask(), for a bool mask.
Value additive(Value mask, DType dtype, bool hides) {
  return mask.dtype() == DType::kBool ? nn::additive_mask(mask, dtype, hides) : ops::cast(mask, dtype);
}

// A mask (…, T, S) with four axes, the last of them in full.
Value with_four_axes(lua_State* state, Value mask, int64_t keys) {
  const Shape shape = mask.shape();
  RUN_CHECK(shape.rank() >= 1 && shape.rank() <= 4, ErrorKind::kRun,
            "{}: expected a mask that broadcasts to (B, heads, T, S), got {}", called_as(state),
            mask.type().to_string());
  std::vector<int64_t> dims(4, 1);
  for (int axis = 0; axis < shape.rank(); ++axis) dims[static_cast<size_t>(4 - shape.rank() + axis)] = shape[axis];
  mask = ops::reshape(mask, Shape(dims));
  return dims[3] == 1 && keys != 1 ? ops::expand(mask, Shape(dims).with(3, keys)) : mask;
}

}  // namespace

namespace functions {

int scaled_dot_product_attention(lua_State* state) {
  nn::ForwardContext& context = record_here(state).forward();
  const OptionTable table(state, 4, {"attn_mask", "dropout_p", "is_causal", "scale"});
  const auto heads = [&](int index) { return context.autocast.operand(Op::kAttention, tensor_argument(state, index)); };
  const Value q = heads(1), k = heads(2), v = heads(3);
  ops::AttentionOptions options{.causal = table.flag("is_causal", false)};
  if (table.push("scale")) {
    lua_pop(state, 1);
    options.scale = table.number("scale", 0);
  }
  if (const Value mask = tensor_option(state, table, "attn_mask"))
    options.mask =
        with_four_axes(state, additive(mask, q.dtype(), /*hides=*/false), k.shape().rank() == 4 ? k.shape()[2] : 1);
  nn::use_dropout(context, options, table.number("dropout_p", 0));
  return push_tensor(state, ops::attention(q, k, v, options));
}

int rotary(lua_State* state) {
  const Value x = tensor_argument(state, 1), positions = tensor_argument(state, 2);
  const double theta = number_argument(state, 3, 10000);
  RUN_CHECK(x.shape().rank() == 4, ErrorKind::kRun, "nn.rotary: expected x (B, H, T, D), got {}", x.type().to_string());
  RUN_CHECK(std::isfinite(theta) && theta > 0, ErrorKind::kRun, "nn.rotary: expected theta above 0, got {}", theta);
  const Value frequencies = nn::rotary_frequencies(*x.program, x.shape()[3], theta);
  return push_tensor(state, ops::rotary(x, ops::rotary_table(positions, frequencies)));
}

}  // namespace functions

nn::AttentionCall attention_call(lua_State* state, int first, Value x, bool takes_keys) {
  const char* const padding_name = takes_keys ? "key_padding_mask" : "src_key_padding_mask";
  const char* const mask_name = takes_keys ? "attn_mask" : "src_mask";
  nn::AttentionCall call;
  const auto sequences = [&](int index) {
    return lua_isnoneornil(state, index) ? Value() : tensor_argument(state, index);
  };
  if (takes_keys) call.key = sequences(first), call.value = sequences(first + 1);
  const OptionTable options(state, first + (takes_keys ? 2 : 0), {padding_name, mask_name, "is_causal"});
  call.causal = options.flag("is_causal", false);
  const Value keys = call.key ? call.key : x;
  RUN_CHECK(keys.shape().rank() == 3, ErrorKind::kRun, "{}: expected sequences (B, T, width) of floats, got {}",
            takes_keys ? "nn.MultiheadAttention" : "nn.TransformerEncoderLayer", keys.type().to_string());
  const DType dtype = DType::kF32;
  if (const Value mask = tensor_option(state, options, mask_name))
    call.mask = with_four_axes(state, additive(mask, dtype, /*hides=*/true), keys.shape()[1]);
  if (const Value padding = tensor_option(state, options, padding_name)) {
    RUN_CHECK(padding.shape() == (Shape{keys.shape()[0], keys.shape()[1]}), ErrorKind::kRun,
              "{}: expected a mask ({}, {}), true for keys to ignore, got {}", padding_name, keys.shape()[0],
              keys.shape()[1], padding.type().to_string());
    const Value own =
        ops::reshape(additive(padding, dtype, /*hides=*/true), Shape{keys.shape()[0], 1, 1, keys.shape()[1]});
    call.mask = call.mask ? ops::add(call.mask, own) : own;
  }
  return call;
}

}  // namespace runner::lua
