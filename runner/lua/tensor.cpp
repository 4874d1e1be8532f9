#include "runner/lua/tensor.h"

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <lua.hpp>

#include "backends/ir/op_def.h"
#include "backends/ir/type_text.h"
#include "runner/lua/arguments.h"
#include "runner/lua/bind.h"
#include "runner/lua/numbers.h"
#include "runner/lua/seal.h"
#include "runner/lua/tensor_arguments.h"
#include "runner/lua/tensor_functions.h"

namespace runner::lua {
namespace {

namespace ops = backends::ops;
using backends::DType;
using backends::Op;
using backends::ScalarUse;
using nn::Autocast;

// ---- operators -----------------------------------------------------------------------------------------------------

// Rank of a dtype in torch's type promotion.
int width_of(DType dtype) {
  switch (dtype) {
    case DType::kBool: return 0;
    case DType::kI32: return 1;
    case DType::kI64: return 2;
    case DType::kBf16:
    case DType::kF16: return 3;
    case DType::kF32: return 4;
    case DType::kF64: return 5;
  }
  return 0;
}

DType wider(DType a, DType b) {
  if (a == b) return a;
  if (width_of(a) == width_of(b)) return DType::kF32;  // bf16 with f16
  return width_of(a) > width_of(b) ? a : b;
}

// Converts a tensor to the dtype of a result with a number: that of the tensor, or f32 if the tensor has integers and
// the number has a fraction. A bool tensor becomes i64, or f32 if the number is a float.
Value promoted(Value tensor, Number number) {
  const DType dtype = tensor.dtype();
  if (is_float(dtype)) return tensor;
  if (number.value != std::floor(number.value)) return ops::cast(tensor, DType::kF32);
  if (dtype != DType::kBool) return tensor;
  return ops::cast(tensor, number.is_integer ? DType::kI64 : DType::kF32);
}

// Converts a number operand to a value of the tensor's dtype, which it promotes first. Quotients are floats.
Value converted_number(const Recording& recording, Value& tensor, Number number, Op op, bool before) {
  const bool is_logical = op == Op::kAnd || op == Op::kOr;
  if (op == Op::kDiv && !is_float(tensor.dtype())) tensor = ops::cast(tensor, DType::kF32);
  if (!is_logical) tensor = promoted(tensor, number);
  const backends::NumberUses& uses = backends::def_of(op).numbers;
  return number_operand(recording, number, tensor, before ? uses.before : uses.after);
}

struct Operands {
  Value a, b;
};
Operands operands_of(lua_State* state, Op op) {
  const Recording& recording = record_here(state);
  if (lua_type(state, 1) == LUA_TNUMBER) {
    Value b = tensor_argument(state, 2);
    const Value a = converted_number(recording, b, number_at(state, 1), op, /*before=*/true);
    return {a, b};
  }
  Value a = tensor_argument(state, 1);
  if (lua_type(state, 2) == LUA_TNUMBER) {
    const Value b = converted_number(recording, a, number_at(state, 2), op, /*before=*/false);
    return {a, b};
  }
  Value b = tensor_argument(state, 2);
  const bool divides = op == Op::kDiv;
  if (a.dtype() == b.dtype() && (!divides || is_float(a.dtype()))) return {a, b};
  DType common = wider(a.dtype(), b.dtype());
  if (divides && !is_float(common)) common = DType::kF32;
  return {ops::cast(a, common), ops::cast(b, common)};
}

// Calls `record` with operands cast to a common dtype. An error names the types of the hook's operands instead.
template <class Record>
Value recorded_for(lua_State* state, int a, int b, const Operands& cast, const Record& record) {
  try {
    return record(cast.a, cast.b);
  } catch (const Error& error) {
    if (!is_tensor(state, a) || !is_tensor(state, b)) throw;
    const auto both = [](Value x, Value y) { return fmt::format("{} and {}", x.type(), y.type()); };
    std::string message = error.message();
    const std::string types = both(cast.a, cast.b);
    if (const size_t at = message.find(types); at != std::string::npos)
      message.replace(at, types.size(), both(tensor_argument(state, a), tensor_argument(state, b)));
    throw Error(error.kind(), message, error.where());
  }
}

// What an operation of two bool tensors is, as in torch.
constexpr Op op_of_bools(Op op) {
  switch (op) {
    case Op::kMul:
    case Op::kMin: return Op::kAnd;
    case Op::kAdd:
    case Op::kMax: return Op::kOr;
    default: return op;
  }
}

template <Op op>
int binary(lua_State* state) {
  const auto record = [](Value a, Value b) {
    const bool are_bools = a.dtype() == DType::kBool && b.dtype() == DType::kBool;
    return ops::binary(are_bools ? op_of_bools(op) : op, a, b);
  };
  return push_tensor(state, recorded_for(state, 1, 2, operands_of(state, op), record));
}

template <Op op>
int unary(lua_State* state) {
  const Value x = operand(state);
  return push_tensor(state, ops::unary(op, x));
}

// __unm, to which Lua passes its operand twice.
int negate(lua_State* state) {
  lua_settop(state, 1);
  return unary<Op::kNeg>(state);
}

int rms_norm(lua_State* state) {
  const nn::Autocast& autocast = record_here(state).forward().autocast;
  const Value x = autocast.operand(Op::kRmsNorm, tensor_argument(state, 1));
  const Value weight = ops::cast(tensor_argument(state, 2), x.dtype());
  return push_tensor(state, ops::rms_norm(x, weight, number_argument(state, 3, nn::kRmsNormEpsilon)));
}

int topk(lua_State* state) {
  const Value x = operand(state);
  const Value places = ops::top_k(x, integer_argument(state, 2));
  push_tensor(state, ops::gather(x, -1, places));
  push_tensor(state, places);
  return 2;
}

template <Value (*function)(Value)>
int function_of(lua_State* state) {
  return push_tensor(state, function(operand(state)));
}

Value square(Value x) {
  return ops::mul(x, x);
}

Value number_argument_for(lua_State* state, int index, Value x, ScalarUse use) {
  return number_operand(recording_of(state, "a number"), checked_number(state, index), x, use);
}
Value number_argument_for(lua_State* state, int index, Value x, ScalarUse use, Number otherwise) {
  return number_operand(recording_of(state, "a number"), checked_number(state, index, otherwise), x, use);
}

int leaky_relu(lua_State* state) {
  const Value x = operand(state);
  return push_tensor(state, ops::leaky_relu(x, number_argument_for(state, 2, x, ScalarUse::kValue, {0.01, false})));
}

int elu(lua_State* state) {
  const Value x = operand(state);
  return push_tensor(state, ops::elu(x, number_argument_for(state, 2, x, ScalarUse::kValue, {1, false})));
}

int matmul(lua_State* state) {
  const Value a = tensor_argument(state, 1), b = tensor_argument(state, 2);
  const Autocast& autocast = record_here(state).forward().autocast;
  return push_tensor(state, ops::matmul(autocast.operand(Op::kMatmul, a), autocast.operand(Op::kMatmul, b)));
}

// ---- reductions ----------------------------------------------------------------------------------------------------

// Arguments of a reduction: no axes, several axes, or a list of them; optionally followed by `true` to keep the axes.
struct Reduction {
  Integers axes;
  bool keep = false;
};
Reduction reduction_of(lua_State* state, Value x) {
  Reduction reduction;
  if (lua_gettop(state) > 1 && lua_isboolean(state, -1)) {
    reduction.keep = lua_toboolean(state, -1) != 0;
    lua_pop(state, 1);
  }
  if (lua_gettop(state) == 2 && lua_isnil(state, 2)) return reduction;
  reduction.axes = axes_from(state, 2, x);
  return reduction;
}

using Reduce = Value (*)(Value, std::span<const int64_t>, bool);

template <Reduce reduce>
int reduction(lua_State* state) {
  const Value x = operand(state);
  const Reduction over = reduction_of(state, x);
  return push_tensor(state, from_one([&] { return reduce(x, over.axes.span(), over.keep); }));
}

Value deviation(Value x, std::span<const int64_t> axes, bool keep) {
  return ops::sqrt(ops::variance(x, axes, keep));
}

Value argmin(Value x, int64_t axis, bool keep) {
  return ops::argmax(ops::neg(x), axis, keep);
}

template <Value (*where)(Value, int64_t, bool)>
int place(lua_State* state) {
  const Value x = operand(state);
  const int64_t axis = lua_isnoneornil(state, 2) ? -1 : axis_of(state, 2, x);
  const bool keep = boolean_argument(state, 3, false);
  return push_tensor(state, from_one([&] { return where(x, axis, keep); }));
}

using OverAxis = Value (*)(Value, int64_t);

template <Op op, OverAxis over>
int over_axis(lua_State* state) {
  const Value given = tensor_argument(state, 1);
  const Value x = record_here(state).forward().autocast.operand(op, given);
  return push_tensor(state, over(x, lua_isnoneornil(state, 2) ? -1 : axis_of(state, 2, x)));
}

// ---- indexing and selection ----------------------------------------------------------------------------------------

int gather_axis(lua_State* state) {
  const Value x = tensor_argument(state, 1), index = tensor_argument(state, 3);
  record_here(state);
  const int64_t axis = axis_of(state, 2, x);
  return push_tensor(state, from_one([&] { return ops::gather(x, axis, index); }));
}

int scatter_add(lua_State* state) {
  const Value x = tensor_argument(state, 1), index = tensor_argument(state, 3), source = tensor_argument(state, 4);
  record_here(state);
  const int64_t axis = axis_of(state, 2, x);
  return push_tensor(state, from_one([&] { return ops::scatter_add(x, axis, index, source); }));
}

int one_hot(lua_State* state) {
  const Value labels = tensor_argument(state, 1);
  record_here(state);
  return push_tensor(state, ops::one_hot(labels, integer_argument(state, 2)));
}

int where(lua_State* state) {
  const Value condition = tensor_argument(state, 1);
  record_here(state);
  const bool first = is_tensor(state, 2), second = is_tensor(state, 3);
  if (!first && !second) bad_argument(state, 2, "a tensor here or as the next argument");
  Value x, y;
  if (first) x = tensor_argument(state, 2);
  if (second) y = tensor_argument(state, 3);
  if (!first) {
    y = promoted(y, checked_number(state, 2));
    x = number_argument_for(state, 2, y, ScalarUse::kFactor);
  }
  if (!second) {
    x = promoted(x, checked_number(state, 3));
    y = number_argument_for(state, 3, x, ScalarUse::kFactor);
  }
  const DType common = wider(x.dtype(), y.dtype());
  const Operands operands{ops::cast(x, common), ops::cast(y, common)};
  return push_tensor(
      state, recorded_for(state, 2, 3, operands, [&](Value a, Value b) { return ops::where(condition, a, b); }));
}

int masked_fill(lua_State* state) {
  const Value x = operand(state), mask = tensor_argument(state, 2);
  return push_tensor(state, ops::where(mask, number_argument_for(state, 3, x, ScalarUse::kValue), x));
}

// nn.embedding(ids, table), with the argument order of torch.nn.functional.
int embedding(lua_State* state) {
  const Value ids = operand(state), table = tensor_argument(state, 2);
  return push_tensor(state, ops::embedding(table, ids));
}

int clamp(lua_State* state) {
  const Value x = operand(state);
  const auto bound = [&](int index) {
    return lua_isnoneornil(state, index) ? std::nullopt : std::optional(checked_number(state, index));
  };
  const std::optional<Number> low = bound(2), high = bound(3);
  RUN_CHECK(low || high, ErrorKind::kRun, "clamp: expected low, high or both: x:clamp(low, high)");
  RUN_CHECK(!low || !high || low->value <= high->value, ErrorKind::kRun, "clamp: low {} is greater than high {}",
            shown(low->value), shown(high->value));
  const auto as_operand = [&](const std::optional<Number>& number) {
    return number ? number_operand(recording_of(state, "a number"), *number, x, ScalarUse::kFactor) : Value{};
  };
  const Value least = as_operand(low), greatest = as_operand(high);
  return push_tensor(state, ops::clamp(x, least, greatest));
}

int cast(lua_State* state) {
  const Value x = operand(state);
  return push_tensor(state, ops::cast(x, dtype_of(state, 2)));
}

int detach(lua_State* state) {
  const Value x = operand(state);
  return push_tensor(state, ops::detach(x));
}

// ---- unsupported operators ------------------------------------------------------------------------------------------

// Comparison operators, whose results Lua converts to true or false; a traced tensor has no value yet.
int no_comparison(lua_State*) {
  fail(ErrorKind::kRun,
       "tensors cannot be compared with <, <= or ==; use x:lt(y), x:le(y), x:eq(y), or compare numbers from x:item()");
}

int no_concat(lua_State*) {
  fail(ErrorKind::kRun, ".. concatenates strings; use nn.concat({{x, y}}, axis) for tensors");
}

constexpr TensorFunction kTensorFunctions[] = {
    {"add", bound<binary<Op::kAdd>>, true, true, "x + y", "Sum."},
    {"sub", bound<binary<Op::kSub>>, true, true, "x - y", "Difference."},
    {"mul", bound<binary<Op::kMul>>, true, true, "x * y", "Elementwise product."},
    {"div", bound<binary<Op::kDiv>>, true, true, "x / y", "Quotient; integers are converted to f32 first."},
    {"pow", bound<binary<Op::kPow>>, true, true, "x ^ y", "Power."},
    {"minimum", bound<binary<Op::kMin>>, true, true, "x:minimum(y)", "Elementwise minimum; NaN if either is NaN."},
    {"maximum", bound<binary<Op::kMax>>, true, true, "x:maximum(y)", "Elementwise maximum; NaN if either is NaN."},
    {"eq", bound<binary<Op::kEq>>, true, true, "x:eq(y)", "Whether equal; bool."},
    {"ne", bound<binary<Op::kNe>>, true, true, "x:ne(y)", "Whether different; bool."},
    {"lt", bound<binary<Op::kLt>>, true, true, "x:lt(y)", "Whether less; bool."},
    {"le", bound<binary<Op::kLe>>, true, true, "x:le(y)", "Whether less or equal; bool."},
    {"gt", bound<binary<Op::kGt>>, true, true, "x:gt(y)", "Whether greater; bool."},
    {"ge", bound<binary<Op::kGe>>, true, true, "x:ge(y)", "Whether greater or equal; bool."},
    {"logical_and", bound<binary<Op::kAnd>>, true, true, "x:logical_and(y)", "Logical and, of bool."},
    {"logical_or", bound<binary<Op::kOr>>, true, true, "x:logical_or(y)", "Logical or, of bool."},
    {"logical_not", bound<unary<Op::kNot>>, true, true, "x:logical_not()", "Logical not, of bool."},
    {"neg", bound<unary<Op::kNeg>>, true, true, "-x", "Negative."},
    {"abs", bound<unary<Op::kAbs>>, true, true, "x:abs()", "Absolute value."},
    {"sign", bound<unary<Op::kSign>>, true, true, "x:sign()", "-1, 0 or 1."},
    {"exp", bound<unary<Op::kExp>>, true, true, "x:exp()", "Exponential."},
    {"log", bound<unary<Op::kLog>>, true, true, "x:log()", "Natural logarithm."},
    {"log1p", bound<unary<Op::kLog1p>>, true, true, "x:log1p()", "Logarithm of 1 + x, exact near 0."},
    {"sqrt", bound<unary<Op::kSqrt>>, true, true, "x:sqrt()", "Square root."},
    {"square", bound<function_of<square>>, true, true, "x:square()", "Square."},
    {"rsqrt", bound<unary<Op::kRsqrt>>, true, true, "x:rsqrt()", "1 / square root."},
    {"tanh", bound<unary<Op::kTanh>>, true, true, "x:tanh()", "Hyperbolic tangent."},
    {"sigmoid", bound<unary<Op::kSigmoid>>, true, true, "x:sigmoid()", "1 / (1 + exp(-x))."},
    {"erf", bound<unary<Op::kErf>>, true, true, "x:erf()", "Error function."},
    {"relu", bound<unary<Op::kRelu>>, true, true, "x:relu()", "x, or 0 where negative."},
    {"gelu", bound<unary<Op::kGelu>>, true, true, "x:gelu()", "GELU, exact (erf)."},
    {"gelu_tanh", bound<unary<Op::kGeluTanh>>, true, true, "x:gelu_tanh()", "GELU, tanh approximation."},
    {"silu", bound<unary<Op::kSilu>>, true, true, "x:silu()", "x times its sigmoid."},
    {"leaky_relu", bound<leaky_relu>, true, true, "x:leaky_relu([slope])",
     "x, or slope (0.01) times it where negative."},
    {"elu", bound<elu>, true, true, "x:elu([alpha])", "x, or alpha (1) times exp(x) - 1 where negative."},
    {"softplus", bound<function_of<ops::softplus>>, true, true, "x:softplus()", "log(1 + exp(x))."},
    {"log_sigmoid", bound<function_of<ops::log_sigmoid>>, true, true, "x:log_sigmoid()",
     "Logarithm of the sigmoid, exact where the sigmoid is near 0."},
    {"is_finite", bound<unary<Op::kIsFinite>>, true, true, "x:is_finite()", "Neither infinite nor NaN; bool."},
    {"matmul", bound<matmul>, true, true, "x:matmul(y)", "Matrix product (..., M, K) x (..., K, N)."},
    {"mm", bound<matmul>, true, false, "x:mm(y)", "Short for matmul."},
    {"sum", bound<reduction<ops::sum>>, true, true, "x:sum([axis..., keep])", "Sum over the axes, or over all axes."},
    {"mean", bound<reduction<ops::mean>>, true, true, "x:mean([axis..., keep])",
     "Mean over the axes, or over all axes."},
    {"max", bound<reduction<ops::reduce_max>>, true, true, "x:max([axis..., keep])",
     "Maximum over the axes, or over all axes."},
    {"min", bound<reduction<ops::reduce_min>>, true, true, "x:min([axis..., keep])",
     "Minimum over the axes, or over all axes."},
    {"norm", bound<reduction<ops::norm>>, true, true, "x:norm([axis..., keep])", "Square root of the sum of squares."},
    {"var", bound<reduction<ops::variance>>, true, true, "x:var([axis..., keep])",
     "Variance, divided by n - 1 like torch's."},
    {"std", bound<reduction<deviation>>, true, true, "x:std([axis..., keep])",
     "Standard deviation: square root of var."},
    {"logsumexp", bound<reduction<ops::logsumexp>>, true, true, "x:logsumexp([axis..., keep])",
     "Logarithm of the sum of exponentials."},
    {"argmax", bound<place<ops::argmax>>, true, true, "x:argmax([axis, keep])",
     "Index of the maximum, from 0 like labels."},
    {"argmin", bound<place<argmin>>, true, true, "x:argmin([axis, keep])", "Index of the minimum, from 0."},
    {"softmax", bound<over_axis<Op::kSoftmax, ops::softmax>>, true, true, "x:softmax([axis])",
     "Softmax over the last axis."},
    {"log_softmax", bound<over_axis<Op::kLogSoftmax, ops::log_softmax>>, true, true, "x:log_softmax([axis])",
     "Logarithm of softmax."},
    {"rms_norm", bound<rms_norm>, false, true, "nn.rms_norm(x, weight [, eps])",
     "x divided by the root of its mean square over the last axis, times weight."},
    {"batch_norm", bound<functions::batch_norm>, false, true,
     "nn.batch_norm(x, running_mean, running_var [, {weight, bias, training, eps}])",
     "x (B, C, ...) normalized per channel: by the running statistics, or with training by those of the batch, which "
     "moves no statistics."},
    {"group_norm", bound<functions::group_norm>, false, true, "nn.group_norm(x, groups [, {weight, bias, eps}])",
     "x (B, C, ...) normalized per sample and group of channels."},
    {"conv1d", bound<functions::conv<1>>, false, true,
     "nn.conv1d(x, weight [, {bias, stride, padding, dilation, groups}])",
     "Convolution of x (B, C, L) with weight (O, C / groups, K), as nn.Conv1d."},
    {"conv2d", bound<functions::conv<2>>, false, true,
     "nn.conv2d(x, weight [, {bias, stride, padding, dilation, groups}])",
     "Convolution of x (B, C, H, W) with weight (O, C / groups, K, K), as nn.Conv2d."},
    {"conv_transpose1d", bound<functions::conv_transpose<1>>, false, true,
     "nn.conv_transpose1d(x, weight [, {bias, stride, padding, output_padding, dilation, groups}])",
     "Transposed convolution of x (B, C, L) with weight (C, O / groups, K)."},
    {"conv_transpose2d", bound<functions::conv_transpose<2>>, false, true,
     "nn.conv_transpose2d(x, weight [, {bias, stride, padding, output_padding, dilation, groups}])",
     "Transposed convolution of x (B, C, H, W) with weight (C, O / groups, K, K)."},
    {"max_pool1d", bound<functions::max_pool<1>>, false, true,
     "nn.max_pool1d(x, kernel [, {stride, padding, dilation, ceil_mode}])", "Maximum of each window of x (B, C, L)."},
    {"max_pool2d", bound<functions::max_pool<2>>, false, true,
     "nn.max_pool2d(x, kernel [, {stride, padding, dilation, ceil_mode}])",
     "Maximum of each window of x (B, C, H, W)."},
    {"avg_pool1d", bound<functions::avg_pool<1>>, false, true,
     "nn.avg_pool1d(x, kernel [, {stride, padding, ceil_mode, count_include_pad}])",
     "Mean of each window of x (B, C, L)."},
    {"avg_pool2d", bound<functions::avg_pool<2>>, false, true,
     "nn.avg_pool2d(x, kernel [, {stride, padding, ceil_mode, count_include_pad}])",
     "Mean of each window of x (B, C, H, W)."},
    {"adaptive_avg_pool1d", bound<functions::adaptive_avg_pool<1>>, false, true, "nn.adaptive_avg_pool1d(x, size)",
     "Means of x (B, C, L), to (B, C, size)."},
    {"adaptive_avg_pool2d", bound<functions::adaptive_avg_pool<2>>, false, true, "nn.adaptive_avg_pool2d(x, size)",
     "Means of x (B, C, H, W), to (B, C, size, size)."},
    {"adaptive_max_pool1d", bound<functions::adaptive_max_pool<1>>, false, true, "nn.adaptive_max_pool1d(x, size)",
     "Maxima of x (B, C, L), to (B, C, size)."},
    {"adaptive_max_pool2d", bound<functions::adaptive_max_pool<2>>, false, true, "nn.adaptive_max_pool2d(x, size)",
     "Maxima of x (B, C, H, W), to (B, C, size, size)."},
    {"interpolate", bound<functions::interpolate>, false, true,
     "nn.interpolate(x, {size or scale_factor, mode, align_corners})",
     "Changes the size of x (B, C, L) or (B, C, H, W), as nn.Upsample."},
    {"scaled_dot_product_attention", bound<functions::scaled_dot_product_attention>, false, true,
     "nn.scaled_dot_product_attention(q, k, v [, {attn_mask, dropout_p, is_causal, scale}])",
     "Attention of q (B, H, T, D) over k and v (B, G, S, D), H a multiple of G; a bool mask is true for keys to see."},
    {"rotary", bound<functions::rotary>, false, true, "nn.rotary(x, positions [, theta])",
     "Rotary embedding of x (B, H, T, D): rotates elements i and i + D/2 by position / theta^(2i/D); theta is 10000."},
    {"topk", bound<topk>, true, true, "x:topk(k)",
     "The k largest of the last axis, largest first, and their indices from 0."},
    {"reshape", bound<layout::reshape>, true, true, "x:reshape(size...)", "Changes the shape; one size may be -1."},
    {"flatten", bound<layout::flatten>, true, true, "x:flatten([axis])",
     "One axis, or one of the axes from this one on."},
    {"transpose", bound<layout::transpose>, true, true, "x:transpose([axis, axis])",
     "Swaps two axes; default: the last two."},
    {"t", bound<layout::t>, true, false, "x:t()", "Short for transpose."},
    {"permute", bound<layout::permute>, true, true, "x:permute(axis...)", "Reorders the axes."},
    {"expand", bound<layout::expand>, true, true, "x:expand(size...)", "Repeats along axes of size 1."},
    {"unsqueeze", bound<layout::unsqueeze>, true, true, "x:unsqueeze(axis)", "Inserts an axis of size 1."},
    {"squeeze", bound<layout::squeeze>, true, true, "x:squeeze([axis])",
     "Removes an axis of size 1; default: all of them."},
    {"slice", bound<layout::slice>, true, true, "x:slice(axis, first, last [, step])",
     "A part of an axis; both ends are included."},
    {"concat", bound<layout::concat>, false, true, "nn.concat({x, y} [, axis])",
     "Concatenates along an axis; default: the first."},
    {"stack", bound<layout::stack>, false, true, "nn.stack({x, y} [, axis])",
     "Joins along a new axis; default: the first."},
    {"chunk", bound<layout::chunk>, true, true, "x:chunk(count [, axis])",
     "Splits an axis (default: the first) into a list of equal parts; the last may be smaller."},
    {"pad", bound<layout::pad>, true, true, "x:pad(axis, before, after)", "Adds zeros at both ends of an axis."},
    {"tril", bound<layout::tril>, true, true, "x:tril([diagonal])",
     "Sets elements above the diagonal of the last two axes to 0."},
    {"triu", bound<layout::triu>, true, true, "x:triu([diagonal])",
     "Sets elements below the diagonal of the last two axes to 0."},
    {"gather", bound<gather_axis>, true, true, "x:gather(axis, index)", "Like torch.gather; index counts from 0."},
    {"scatter_add", bound<scatter_add>, true, true, "x:scatter_add(axis, index, y)", "Like torch.scatter_add."},
    {"one_hot", bound<one_hot>, true, true, "x:one_hot(classes)", "1 at the label, else 0; f32."},
    {"embedding", bound<embedding>, false, true, "nn.embedding(ids, table)",
     "A row of the table (rows, width) for each id from 0."},
    {"where", bound<where>, false, true, "nn.where(condition, x, y)", "x where true, else y."},
    {"clamp", bound<clamp>, true, true, "x:clamp(low, high)",
     "Limits values to [low, high]; nil is no limit; keeps NaN."},
    {"masked_fill", bound<masked_fill>, true, true, "x:masked_fill(condition, value)",
     "value where the condition is true, else x."},
    {"cast", bound<cast>, true, true, "x:cast(dtype)", "Converts to a dtype: f32, f64, bf16, f16, i32, i64, bool."},
    {"detach", bound<detach>, true, true, "x:detach()", "The same values without a gradient."},
    {"cross_entropy", bound<losses::cross_entropy>, false, true, "nn.cross_entropy(logits, labels [, options])",
     "Labels are classes (N), or their probabilities (N, C).  Options: reduction (none, mean, sum), ignore_index, "
     "label_smoothing, weight (by class)."},
    {"mse", bound<losses::mse>, false, true, "nn.mse(x, y [, {reduction}])", "Squared difference."},
    {"l1", bound<losses::l1>, false, true, "nn.l1(x, y [, {reduction}])", "Absolute difference."},
    {"huber", bound<losses::huber>, false, true, "nn.huber(x, y [, {reduction, delta}])",
     "Squared difference up to delta, absolute difference beyond."},
    {"bce_with_logits", bound<losses::bce_with_logits>, false, true,
     "nn.bce_with_logits(logits, y [, {reduction, pos_weight}])",
     "Binary cross entropy of sigmoid(logits); pos_weight, a list or tensor, multiplies the term of y = 1."},
    {"full", bound<creation::full>, false, true, "nn.full({size...}, value [, dtype])", "A tensor filled with value."},
    {"full_like", bound<creation::full_like>, true, true, "x:full_like(value)",
     "A tensor of x's shape and dtype filled with value."},
    {"zeros", bound<creation::zeros>, false, true, "nn.zeros(size... [, dtype])", "Zeros; f32."},
    {"ones", bound<creation::ones>, false, true, "nn.ones(size... [, dtype])", "Ones; f32."},
    {"zeros_like", bound<creation::zeros_like>, true, true, "x:zeros_like()", "Zeros of x's shape and dtype."},
    {"ones_like", bound<creation::ones_like>, true, true, "x:ones_like()", "Ones of x's shape and dtype."},
    {"arange", bound<creation::arange>, false, true, "nn.arange(size)", "0, 1, ..., size - 1; i64."},
    {"eye", bound<creation::eye>, false, true, "nn.eye(size)", "1 on the diagonal, else 0; f32."},
    {"rand", bound<creation::rand>, false, true, "nn.rand(size...)", "Random numbers in [0, 1); f32."},
    {"randn", bound<creation::randn>, false, true, "nn.randn(size...)", "Normal random numbers; f32."},
    {"tensor", bound<creation::tensor>, false, true, "nn.tensor({number...})", "A list of up to 1,024 numbers; f32."},
    {"shape", bound<queries::shape>, true, false, "x:shape()", "Sizes of the axes, as a list."},
    {"size", bound<queries::size>, true, false, "x:size(axis)", "Size of an axis."},
    {"dim", bound<queries::dim>, true, false, "x:dim()", "Number of axes."},
    {"numel", bound<queries::numel>, true, false, "x:numel()", "Number of elements."},
    {"dtype", bound<queries::dtype>, true, false, "x:dtype()", "dtype, as a text."},
    {"item", bound<queries::item>, true, false, "x:item()",
     "Value of a tensor with one element, as a number; executes the recorded operations."},
    {"tolist", bound<queries::tolist>, true, false, "x:tolist()",
     "All values, as a list of lists; executes the recorded operations."},
};

constexpr NamedFunction kOperators[] = {
    {"__add", bound<binary<Op::kAdd>>}, {"__sub", bound<binary<Op::kSub>>}, {"__mul", bound<binary<Op::kMul>>},
    {"__div", bound<binary<Op::kDiv>>}, {"__pow", bound<binary<Op::kPow>>}, {"__unm", bound<negate>},
    {"__len", bound<queries::length>},  {"__lt", bound<no_comparison>},     {"__le", bound<no_comparison>},
    {"__eq", bound<no_comparison>},     {"__concat", bound<no_concat>},     {"__tostring", bound<queries::to_string>}};

// Methods of torch tensors that have another name here.
constexpr std::pair<std::string_view, std::string_view> kOfTorch[] = {
    {"backward", "write acc:backward(x)"}, {"view", "write x:reshape(size...)"}, {"to", "write x:cast(dtype)"},
    {"float", "write x:cast(\"f32\")"},    {"numpy", "write x:tolist()"},        {"cat", "write nn.concat{x, y}"}};

// x.name for an unknown method: throws an error that suggests one.
int no_method(lua_State* state) {
  if (lua_type(state, 2) != LUA_TSTRING)
    fail(ErrorKind::kRun, "a tensor cannot be indexed; use x:slice(axis, first, last)");
  std::vector<std::string> names;
  for (const TensorFunction& known : kTensorFunctions)
    if (known.is_method) names.emplace_back(known.name);
  const std::string_view name = text_argument(state, 2);
  for (const auto& [of_torch, hint] : kOfTorch)
    if (name == of_torch) fail(ErrorKind::kRun, "a tensor has no method '{}'; {}", name, hint);
  fail_unknown("a tensor has no method", name, names, "docs/lua.md lists them");
}

}  // namespace

std::span<const TensorFunction> tensor_functions() {
  return kTensorFunctions;
}

void open_tensors(lua_State* state) {
  lua_newtable(state);
  set_functions(state, kOperators);
  lua_pushliteral(state, "tensor");
  lua_setfield(state, -2, "__name");
  lua_newtable(state);  // table of methods; Lua looks them up without a call
  set_functions(state, kTensorFunctions, [](const TensorFunction& row) { return row.is_method; });
  lua_createtable(state, 0, 1);
  set_function(state, "__index", bound<no_method>);
  lua_setmetatable(state, -2);
  lua_setfield(state, -2, "__index");
  protect_metatable(state);
  set_tensor_metatable(state);
}

}  // namespace runner::lua
