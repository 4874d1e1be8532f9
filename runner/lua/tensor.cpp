#include "runner/lua/tensor.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <lua.hpp>

#include "backends/graph/type_text.h"
#include "runner/lua/bind.h"
#include "runner/lua/losses.h"
#include "runner/lua/tensor_arguments.h"
#include "schema/suggest.h"

namespace runner::lua {
namespace {

namespace ops = backends::ops;
using backends::DType;
using backends::Op;
using backends::Shape;
using nn::Autocast;

int push(lua_State* state, Value value) {
  push_tensor(state, value);
  return 1;
}

// ---- operators -----------------------------------------------------------------------------------------------------

// torch's type promotion among the types that we have.
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
  if (width_of(a) == width_of(b)) return DType::kF32;  // bf16 and f16
  return width_of(a) > width_of(b) ? a : b;
}

bool is_fraction(double number) {
  return number != std::floor(number);
}

// A number beside a tensor: a constant of its type, or f32 where an integer tensor meets a fraction.
Value beside(Value& tensor, double number, bool fraction) {
  if (!is_float(tensor.dtype()) && fraction) tensor = ops::cast(tensor, DType::kF32);
  return ops::full_like(tensor, number);
}

struct Operands {
  Value a, b;
};
Operands operands_of(lua_State* state, Op op) {
  record_here(state);
  const bool divides = op == Op::kDiv;
  if (lua_type(state, 1) == LUA_TNUMBER) {
    Value b = tensor_argument(state, 2);
    const double number = lua_tonumber(state, 1);
    const Value a = beside(b, number, divides || is_fraction(number));
    return {a, b};
  }
  Value a = tensor_argument(state, 1);
  if (lua_type(state, 2) == LUA_TNUMBER) {
    const double number = lua_tonumber(state, 2);
    const Value b = beside(a, number, divides || is_fraction(number));
    return {a, b};
  }
  Value b = tensor_argument(state, 2);
  if (a.dtype() == b.dtype() && (!divides || is_float(a.dtype()))) return {a, b};
  DType common = wider(a.dtype(), b.dtype());
  if (divides && !is_float(common)) common = DType::kF32;
  return {ops::cast(a, common), ops::cast(b, common)};
}

template <Op op>
int binary(lua_State* state) {
  const Operands operands = operands_of(state, op);
  return push(state, ops::binary(op, operands.a, operands.b));
}

template <Op op>
int unary(lua_State* state) {
  const Value x = operand(state);
  return push(state, ops::unary(op, x));
}

int matmul(lua_State* state) {
  const Value a = tensor_argument(state, 1), b = tensor_argument(state, 2);
  const Autocast& autocast = record_here(state).forward().autocast;
  return push(state, ops::matmul(autocast.lower(a), autocast.lower(b)));
}

// ---- reductions ----------------------------------------------------------------------------------------------------

// Axes as the reductions take them: none, some, or a list; a last `true` keeps them.
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
  return push(state, reduce(x, over.axes.span(), over.keep));
}

int argmax(lua_State* state) {
  const Value x = operand(state);
  const int64_t axis = lua_isnoneornil(state, 2) ? -1 : axis_of(state, 2, x);
  return push(state, ops::argmax(x, axis, boolean_argument(state, 3, false)));
}

using OverAxis = Value (*)(Value, int64_t);

template <OverAxis over>
int over_axis(lua_State* state) {
  const Value x = operand(state);
  return push(state, over(Autocast::raise(x), lua_isnoneornil(state, 2) ? -1 : axis_of(state, 2, x)));
}

// ---- layout --------------------------------------------------------------------------------------------------------

// Sizes with at most one −1, which takes what is left.
int reshape(lua_State* state) {
  const Value x = operand(state);
  Integers sizes = integers_from(state, 2);
  int64_t known = 1;
  int64_t* open = nullptr;
  for (int64_t& size : std::span(sizes.values).first(sizes.count)) {
    RUN_CHECK(size >= 0 || (size == -1 && open == nullptr), ErrorKind::kRun, "reshape: bad size {}; one may be -1",
              size);
    if (size == -1) open = &size;
    if (size != -1) known *= size;
  }
  if (open != nullptr) *open = known == 0 ? 0 : x.shape().elements() / known;
  const Shape shape(sizes.span());
  RUN_CHECK(shape.elements() == x.shape().elements(), ErrorKind::kRun, "reshape: {} has {} elements, {} has {}",
            x.type(), x.shape().elements(), shape, shape.elements());
  return push(state, ops::reshape(x, shape));
}

int flatten(lua_State* state) {
  const Value x = operand(state);
  return push(state, ops::flatten(x));
}

int transpose(lua_State* state) {
  const Value x = operand(state);
  RUN_CHECK(x.shape().rank() >= 2, ErrorKind::kRun, "transpose: {} has fewer than two axes", x.type());
  if (lua_gettop(state) == 1) return push(state, ops::transpose(x, -2, -1));
  return push(state, ops::transpose(x, axis_of(state, 2, x), axis_of(state, 3, x)));
}

int permute(lua_State* state) {
  const Value x = operand(state);
  const Integers axes = axes_from(state, 2, x);
  RUN_CHECK(axes.count == static_cast<size_t>(x.shape().rank()), ErrorKind::kRun, "permute: {} axes for {}", axes.count,
            x.type());
  return push(state, ops::permute(x, axes.span()));
}

int expand(lua_State* state) {
  const Value x = operand(state);
  return push(state, ops::expand(x, shape_from(state, 2)));
}

int unsqueeze(lua_State* state) {
  const Value x = operand(state);
  const int64_t axis = integer_argument(state, 2);
  const int rank = x.shape().rank();
  RUN_CHECK(axis != 0 && axis <= rank + 1 && axis >= -rank - 1, ErrorKind::kRun,
            "unsqueeze: there is no place {} in {}; axes count from 1, or from -1 at the end", axis, x.type());
  const int64_t at = axis > 0 ? axis - 1 : axis + rank + 1;
  Integers dims;
  for (int i = 0; i < rank; ++i) {
    if (i == at) dims.add(1);
    dims.add(x.shape()[i]);
  }
  if (at == rank) dims.add(1);
  return push(state, ops::reshape(x, Shape(dims.span())));
}

int squeeze(lua_State* state) {
  const Value x = operand(state);
  const int64_t wanted = lua_isnoneornil(state, 2) ? -Shape::kMaxRank - 1 : axis_of(state, 2, x);
  const int64_t axis = wanted < 0 && wanted >= -Shape::kMaxRank ? wanted + x.shape().rank() : wanted;
  Integers dims;
  for (int i = 0; i < x.shape().rank(); ++i) {
    const bool goes = axis < 0 ? x.shape()[i] == 1 : i == axis;
    RUN_CHECK(!goes || x.shape()[i] == 1, ErrorKind::kRun, "squeeze: axis {} of {} is not of size 1", i + 1, x.type());
    if (!goes) dims.add(x.shape()[i]);
  }
  return push(state, ops::reshape(x, Shape(dims.span())));
}

// x:slice(axis, first, last [, step]): both ends count, as in string.sub.
int slice(lua_State* state) {
  const Value x = operand(state);
  const int64_t axis = axis_of(state, 2, x);
  const int64_t size = x.shape()[x.shape().axis(axis, "slice")];
  int64_t first = integer_argument(state, 3);
  int64_t last = lua_isnoneornil(state, 4) ? -1 : integer_argument(state, 4);
  const int64_t step = lua_isnoneornil(state, 5) ? 1 : integer_argument(state, 5);
  if (first < 0) first += size + 1;
  if (last < 0) last += size + 1;
  RUN_CHECK(first >= 1 && last <= size && first <= last + 1 && step >= 1, ErrorKind::kRun,
            "slice: {} to {} by {} does not lie in axis {} of {}", first, last, step, axis < 0 ? axis : axis + 1,
            x.type());
  return push(state, ops::slice(x, axis, first - 1, last, step));
}

std::vector<Value> tensors_in(lua_State* state, int index) {
  if (!lua_istable(state, index)) bad_argument(state, index, "a list of tensors");
  std::vector<Value> parts;
  const auto size = static_cast<lua_Integer>(lua_rawlen(state, index));
  for (lua_Integer i = 1; i <= size; ++i) {
    lua_rawgeti(state, index, i);
    parts.push_back(tensor_value(state, -1, fmt::format("entry {} of the list", i)));
    lua_pop(state, 1);
  }
  RUN_CHECK(!parts.empty(), ErrorKind::kRun, "the list of tensors is empty");
  return parts;
}

int concat(lua_State* state) {
  record_here(state);
  const std::vector<Value> parts = tensors_in(state, 1);
  const int64_t axis = lua_isnoneornil(state, 2) ? 0 : axis_of(state, 2, parts.front());
  return push(state, ops::concat(parts, axis));
}

// ---- indexing and choice -------------------------------------------------------------------------------------------

int gather(lua_State* state) {
  const Value x = tensor_argument(state, 1), index = tensor_argument(state, 3);
  record_here(state);
  return push(state, ops::gather(x, axis_of(state, 2, x), index));
}

int scatter_add(lua_State* state) {
  const Value x = tensor_argument(state, 1), index = tensor_argument(state, 3), source = tensor_argument(state, 4);
  record_here(state);
  return push(state, ops::scatter_add(x, axis_of(state, 2, x), index, source));
}

int one_hot(lua_State* state) {
  const Value labels = tensor_argument(state, 1);
  record_here(state);
  return push(state, ops::one_hot(labels, integer_argument(state, 2)));
}

int where(lua_State* state) {
  const Value condition = tensor_argument(state, 1);
  record_here(state);
  const bool first = is_tensor(state, 2), second = is_tensor(state, 3);
  if (!first && !second) bad_argument(state, 2, "a tensor here or after it");
  Value x, y;
  if (first) x = tensor_argument(state, 2);
  if (second) y = tensor_argument(state, 3);
  if (!first) x = ops::full_like(y, number_argument(state, 2));
  if (!second) y = ops::full_like(x, number_argument(state, 3));
  const DType common = wider(x.dtype(), y.dtype());
  return push(state, ops::where(condition, ops::cast(x, common), ops::cast(y, common)));
}

int clamp(lua_State* state) {
  const Value x = operand(state);
  std::optional<double> low, high;
  if (!lua_isnoneornil(state, 2)) low = number_argument(state, 2);
  if (!lua_isnoneornil(state, 3)) high = number_argument(state, 3);
  return push(state, ops::clamp(x, low, high));
}

int cast(lua_State* state) {
  const Value x = operand(state);
  return push(state, ops::cast(x, dtype_of(state, 2)));
}

int detach(lua_State* state) {
  const Value x = operand(state);
  return push(state, ops::detach(x));
}

// ---- making and asking ---------------------------------------------------------------------------------------------

int tensor(lua_State* state) {
  record_here(state);
  if (!lua_istable(state, 1)) bad_argument(state, 1, "a list of numbers");
  return push(state, vector_of(state, 1));
}

// nn.full({2, 3}, value [, dtype])
int full(lua_State* state) {
  Recording& now = record_here(state);
  if (!lua_istable(state, 1)) bad_argument(state, 1, "a list of sizes");
  const Shape shape = shape_from(state, 1);
  const DType dtype = lua_isnoneornil(state, 3) ? DType::kF32 : dtype_of(state, 3);
  return push(state, {&now.program(), now.program().constant(number_argument(state, 2), {dtype, shape})});
}

int full_like(lua_State* state) {
  const Value x = operand(state);
  return push(state, ops::full_like(x, number_argument(state, 2)));
}

int shape(lua_State* state) {
  const Value x = tensor_argument(state, 1);
  const Shape dims = x.shape();
  lua_createtable(state, dims.rank(), 0);
  for (int i = 0; i < dims.rank(); ++i) {
    lua_pushinteger(state, dims[i]);
    lua_rawseti(state, -2, i + 1);
  }
  return 1;
}

int size(lua_State* state) {
  const Value x = tensor_argument(state, 1);
  const int64_t axis = axis_of(state, 2, x);
  lua_pushinteger(state, x.shape()[x.shape().axis(axis, "size")]);
  return 1;
}

int dim(lua_State* state) {
  lua_pushinteger(state, tensor_argument(state, 1).shape().rank());
  return 1;
}

int numel(lua_State* state) {
  lua_pushinteger(state, tensor_argument(state, 1).shape().elements());
  return 1;
}

int dtype(lua_State* state) {
  const std::string_view name = name_of(tensor_argument(state, 1).dtype());
  lua_pushlstring(state, name.data(), name.size());
  return 1;
}

int item(lua_State* state) {
  const Value x = tensor_argument(state, 1);
  RUN_CHECK(x.shape().elements() == 1, ErrorKind::kRun, "item: {} has {} elements; reduce it to one first", x.type(),
            x.shape().elements());
  const double value = recording_of(state, "a tensor").read(x);
  if (x.dtype() == DType::kBool) {
    lua_pushboolean(state, value != 0);
  } else if (is_float(x.dtype())) {
    lua_pushnumber(state, value);
  } else {
    lua_pushinteger(state, static_cast<lua_Integer>(value));
  }
  return 1;
}

int to_string(lua_State* state) {
  const std::string text = "tensor " + tensor_argument(state, 1).type().to_string();
  lua_pushlstring(state, text.data(), text.size());
  return 1;
}

int length(lua_State* state) {
  const Value x = tensor_argument(state, 1);
  lua_pushinteger(state, x.shape().rank() == 0 ? 1 : x.shape()[0]);
  return 1;
}

// What Lua would answer with true or false, which a tensor is not before it is computed.
int no_comparison(lua_State*) {
  fail(ErrorKind::kRun,
       "<, <= and == between tensors would have to be true or false; write x:lt(y), x:le(y), x:eq(y), or "
       "compare numbers from x:item()");
}

int no_concat(lua_State*) {
  fail(ErrorKind::kRun, ".. joins texts; nn.concat({{x, y}}, axis) joins tensors");
}

constexpr TensorFunction kFunctions[] = {
    {"add", bound<binary<Op::kAdd>>, true, true, "x + y", "Sum."},
    {"sub", bound<binary<Op::kSub>>, true, true, "x - y", "Difference."},
    {"mul", bound<binary<Op::kMul>>, true, true, "x * y", "Product, element by element."},
    {"div", bound<binary<Op::kDiv>>, true, true, "x / y", "Quotient; integers become f32 first."},
    {"pow", bound<binary<Op::kPow>>, true, true, "x ^ y", "Power."},
    {"minimum", bound<binary<Op::kMin>>, true, true, "x:minimum(y)",
     "The smaller of each two elements; NaN if either is."},
    {"maximum", bound<binary<Op::kMax>>, true, true, "x:maximum(y)",
     "The larger of each two elements; NaN if either is."},
    {"eq", bound<binary<Op::kEq>>, true, true, "x:eq(y)", "Whether equal; bool."},
    {"ne", bound<binary<Op::kNe>>, true, true, "x:ne(y)", "Whether different; bool."},
    {"lt", bound<binary<Op::kLt>>, true, true, "x:lt(y)", "Whether less; bool."},
    {"le", bound<binary<Op::kLe>>, true, true, "x:le(y)", "Whether less or equal; bool."},
    {"gt", bound<binary<Op::kGt>>, true, true, "x:gt(y)", "Whether greater; bool."},
    {"ge", bound<binary<Op::kGe>>, true, true, "x:ge(y)", "Whether greater or equal; bool."},
    {"logical_and", bound<binary<Op::kAnd>>, true, true, "x:logical_and(y)", "Both, of bool."},
    {"logical_or", bound<binary<Op::kOr>>, true, true, "x:logical_or(y)", "Either, of bool."},
    {"logical_not", bound<unary<Op::kNot>>, true, true, "x:logical_not()", "Not, of bool."},
    {"neg", bound<unary<Op::kNeg>>, true, true, "-x", "Negative."},
    {"abs", bound<unary<Op::kAbs>>, true, true, "x:abs()", "Absolute value."},
    {"sign", bound<unary<Op::kSign>>, true, true, "x:sign()", "-1, 0 or 1."},
    {"exp", bound<unary<Op::kExp>>, true, true, "x:exp()", "Exponential."},
    {"log", bound<unary<Op::kLog>>, true, true, "x:log()", "Natural logarithm."},
    {"log1p", bound<unary<Op::kLog1p>>, true, true, "x:log1p()", "Logarithm of 1 + x, exact near 0."},
    {"sqrt", bound<unary<Op::kSqrt>>, true, true, "x:sqrt()", "Square root."},
    {"rsqrt", bound<unary<Op::kRsqrt>>, true, true, "x:rsqrt()", "1 / square root."},
    {"tanh", bound<unary<Op::kTanh>>, true, true, "x:tanh()", "Hyperbolic tangent."},
    {"sigmoid", bound<unary<Op::kSigmoid>>, true, true, "x:sigmoid()", "1 / (1 + exp(-x))."},
    {"erf", bound<unary<Op::kErf>>, true, true, "x:erf()", "Error function."},
    {"relu", bound<unary<Op::kRelu>>, true, true, "x:relu()", "x, or 0 where negative."},
    {"gelu", bound<unary<Op::kGelu>>, true, true, "x:gelu()", "GELU, the erf form."},
    {"gelu_tanh", bound<unary<Op::kGeluTanh>>, true, true, "x:gelu_tanh()", "GELU, the tanh form."},
    {"silu", bound<unary<Op::kSilu>>, true, true, "x:silu()", "x times its sigmoid."},
    {"is_finite", bound<unary<Op::kIsFinite>>, true, true, "x:is_finite()", "Neither infinite nor NaN; bool."},
    {"matmul", bound<matmul>, true, true, "x:matmul(y)", "Matrix product (..., M, K) x (..., K, N)."},
    {"mm", bound<matmul>, true, false, "x:mm(y)", "Short for matmul."},
    {"sum", bound<reduction<ops::sum>>, true, true, "x:sum([axis..., keep])", "Sum over axes, or over all."},
    {"mean", bound<reduction<ops::mean>>, true, true, "x:mean([axis..., keep])", "Mean over axes, or over all."},
    {"max", bound<reduction<ops::reduce_max>>, true, true, "x:max([axis..., keep])", "Largest over axes, or of all."},
    {"min", bound<reduction<ops::reduce_min>>, true, true, "x:min([axis..., keep])", "Smallest over axes, or of all."},
    {"norm", bound<reduction<ops::norm>>, true, true, "x:norm([axis..., keep])", "Root of the sum of squares."},
    {"argmax", bound<argmax>, true, true, "x:argmax([axis, keep])", "Where the largest is, from 0 as labels count."},
    {"softmax", bound<over_axis<ops::softmax>>, true, true, "x:softmax([axis])", "Softmax, over the last axis."},
    {"log_softmax", bound<over_axis<ops::log_softmax>>, true, true, "x:log_softmax([axis])", "Its logarithm."},
    {"reshape", bound<reshape>, true, true, "x:reshape(size...)", "Another shape; one size may be -1."},
    {"flatten", bound<flatten>, true, true, "x:flatten()", "One axis."},
    {"transpose", bound<transpose>, true, true, "x:transpose([axis, axis])", "Two axes swapped; the last two."},
    {"t", bound<transpose>, true, false, "x:t()", "Short for transpose."},
    {"permute", bound<permute>, true, true, "x:permute(axis...)", "Axes in another order."},
    {"expand", bound<expand>, true, true, "x:expand(size...)", "Repeated along axes of size 1."},
    {"unsqueeze", bound<unsqueeze>, true, true, "x:unsqueeze(axis)", "A new axis of size 1."},
    {"squeeze", bound<squeeze>, true, true, "x:squeeze([axis])", "Without an axis of size 1; without all."},
    {"slice", bound<slice>, true, true, "x:slice(axis, first, last [, step])", "A part of an axis; both ends count."},
    {"concat", bound<concat>, false, true, "nn.concat({x, y} [, axis])", "Joined along an axis, the first."},
    {"gather", bound<gather>, true, true, "x:gather(axis, index)", "As torch.gather; index counts from 0."},
    {"scatter_add", bound<scatter_add>, true, true, "x:scatter_add(axis, index, y)", "As torch.scatter_add."},
    {"one_hot", bound<one_hot>, true, true, "x:one_hot(classes)", "1 where the label is, else 0; f32."},
    {"where", bound<where>, false, true, "nn.where(condition, x, y)", "x where true, else y."},
    {"clamp", bound<clamp>, true, true, "x:clamp(low, high)", "Within bounds; nil is none; NaN stays."},
    {"cast", bound<cast>, true, true, "x:cast(dtype)", "In another dtype: f32, f64, bf16, f16, i32, i64, bool."},
    {"detach", bound<detach>, true, true, "x:detach()", "The same values, without a gradient."},
    {"cross_entropy", bound<losses::cross_entropy>, false, true, "nn.cross_entropy(logits, labels [, options])",
     "Options: reduction (none, mean, sum), ignore_index, label_smoothing, weight (by class)."},
    {"mse", bound<losses::mse>, false, true, "nn.mse(x, y [, {reduction}])", "Squared difference."},
    {"l1", bound<losses::l1>, false, true, "nn.l1(x, y [, {reduction}])", "Absolute difference."},
    {"huber", bound<losses::huber>, false, true, "nn.huber(x, y [, {reduction, delta}])",
     "Squared near 0, absolute beyond delta."},
    {"bce_with_logits", bound<losses::bce_with_logits>, false, true, "nn.bce_with_logits(logits, y [, {reduction}])",
     "Binary cross entropy of sigmoid(logits)."},
    {"full", bound<full>, false, true, "nn.full({size...}, value [, dtype])", "Every element the same."},
    {"full_like", bound<full_like>, true, true, "x:full_like(value)",
     "Of x's shape and dtype, every element the same."},
    {"tensor", bound<tensor>, false, true, "nn.tensor({number...})", "A list of up to 1,024 numbers; f32."},
    {"shape", bound<shape>, true, false, "x:shape()", "Its sizes, as a list."},
    {"size", bound<size>, true, false, "x:size(axis)", "The size of an axis."},
    {"dim", bound<dim>, true, false, "x:dim()", "How many axes."},
    {"numel", bound<numel>, true, false, "x:numel()", "How many elements."},
    {"dtype", bound<dtype>, true, false, "x:dtype()", "Its dtype, as a text."},
    {"item", bound<item>, true, false, "x:item()", "The number itself, of a tensor with one element; computes now."},
};

constexpr NamedFunction kOperators[] = {
    {"__add", bound<binary<Op::kAdd>>}, {"__sub", bound<binary<Op::kSub>>}, {"__mul", bound<binary<Op::kMul>>},
    {"__div", bound<binary<Op::kDiv>>}, {"__pow", bound<binary<Op::kPow>>}, {"__unm", bound<unary<Op::kNeg>>},
    {"__len", bound<length>},           {"__lt", bound<no_comparison>},     {"__le", bound<no_comparison>},
    {"__eq", bound<no_comparison>},     {"__concat", bound<no_concat>},     {"__tostring", bound<to_string>}};

// x.name: a method (upvalue 1 holds them), or an error that suggests one.
int method(lua_State* state) {
  lua_pushvalue(state, 2);
  if (lua_rawget(state, lua_upvalueindex(1)) != LUA_TNIL) return 1;
  if (lua_type(state, 2) != LUA_TSTRING)
    fail(ErrorKind::kRun, "a tensor has no entries; x:slice(axis, first, last) takes a part of it");
  std::vector<std::string> names;
  for (const TensorFunction& known : kFunctions)
    if (known.is_method) names.emplace_back(known.name);
  const std::string_view name = text_argument(state, 2);
  fail(ErrorKind::kRun, "a tensor has no method '{}'; {}", name,
       schema::did_you_mean(name, names, "docs/lua.md lists them"));
}

}  // namespace

std::span<const TensorFunction> tensor_functions() {
  return kFunctions;
}

void open_tensors(lua_State* state) {
  luaL_newmetatable(state, kTensorName);
  set_functions(state, kOperators);
  lua_newtable(state);
  set_functions(state, kFunctions, [](const TensorFunction& row) { return row.is_method; });
  lua_pushcclosure(state, bound<method>, 1);
  lua_setfield(state, -2, "__index");
  protect_metatable(state);
  lua_pop(state, 1);
}

}  // namespace runner::lua
