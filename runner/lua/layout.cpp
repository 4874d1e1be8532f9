#include <algorithm>
#include <vector>

#include <fmt/format.h>
#include <lua.hpp>

#include "backends/ir/type_text.h"
#include "backends/tensor/rounding.h"
#include "runner/lua/arguments.h"
#include "runner/lua/tensor_arguments.h"
#include "runner/lua/tensor_functions.h"

namespace runner::lua::layout {
namespace {

namespace ops = backends::ops;
using backends::Shape;

std::vector<Value> tensors_in(lua_State* state, int index) {
  if (!lua_istable(state, index)) bad_argument(state, index, "a list of tensors");
  std::vector<Value> parts;
  const int64_t size = list_argument_size(state, index);
  for (lua_Integer i = 1; i <= size; ++i) {
    lua_rawgeti(state, index, i);
    parts.push_back(tensor_value(state, -1, fmt::format("entry {} of the list", i)));
    lua_pop(state, 1);
  }
  RUN_CHECK(!parts.empty(), ErrorKind::kRun, "the list of tensors is empty");
  return parts;
}

// Reads the position of a new axis: 1…rank + 1 or −1…−rank − 1. Returns 0…rank.
int64_t place_of(lua_State* state, int index, Value x, std::string_view what) {
  const int64_t axis = integer_argument(state, index);
  const int rank = x.shape().rank();
  RUN_CHECK(axis != 0 && axis <= rank + 1 && axis >= -rank - 1, ErrorKind::kRun,
            "{}: axis {} is out of range for {}; axes count from 1, or from -1 at the end", what, axis, x.type());
  return axis > 0 ? axis - 1 : axis + rank + 1;
}

template <Value (*triangle)(Value, int64_t)>
int triangle_of(lua_State* state) {
  const Value x = operand(state);
  return push_tensor(state, triangle(x, integer_argument(state, 2, 0)));
}

}  // namespace

// Reads sizes. At most one may be −1; it is inferred from the number of elements.
int reshape(lua_State* state) {
  const Value x = operand(state);
  Integers sizes = integers_from(state, 2);
  int64_t* open = nullptr;
  for (int64_t& size : std::span(sizes.values).first(sizes.count)) {
    RUN_CHECK(size >= 0 || (size == -1 && open == nullptr), ErrorKind::kRun,
              "reshape: invalid size {}; only one may be -1", size);
    if (size == -1) open = &size;
  }
  if (open != nullptr) {
    *open = 1;
    const int64_t known = Shape(sizes.span()).elements();  // throws if the product is too large
    *open = known == 0 ? 0 : x.shape().elements() / known;
  }
  const Shape shape(sizes.span());
  RUN_CHECK(shape.elements() == x.shape().elements(), ErrorKind::kRun,
            "reshape: cannot reshape {} with {} elements to {} with {}", x.type(), x.shape().elements(), shape,
            shape.elements());
  return push_tensor(state, ops::reshape(x, shape));
}

int flatten(lua_State* state) {
  const Value x = operand(state);
  if (lua_isnoneornil(state, 2)) return push_tensor(state, ops::flatten(x));
  const int64_t first = axis_of(state, 2, x);
  const Shape shape = x.shape();
  const auto kept = static_cast<size_t>(first < 0 ? first + shape.rank() : first);
  std::vector<int64_t> dims(shape.dims().begin(), shape.dims().begin() + static_cast<std::ptrdiff_t>(kept));
  int64_t rest = 1;
  for (const int64_t size : shape.dims().subspan(kept)) rest *= size;
  dims.push_back(rest);
  return push_tensor(state, ops::reshape(x, Shape(dims)));
}

int transpose(lua_State* state) {
  const Value x = operand(state);
  RUN_CHECK(x.shape().rank() >= 2, ErrorKind::kRun, "transpose: {} has fewer than two axes", x.type());
  if (lua_gettop(state) == 1) return push_tensor(state, ops::transpose(x, -2, -1));
  return push_tensor(state, ops::transpose(x, axis_of(state, 2, x), axis_of(state, 3, x)));
}

int t(lua_State* state) {
  return transpose(state);
}

int permute(lua_State* state) {
  const Value x = operand(state);
  const Integers axes = axes_from(state, 2, x);
  RUN_CHECK(axes.count == static_cast<size_t>(x.shape().rank()), ErrorKind::kRun, "permute: got {} axes for {}",
            axes.count, x.type());
  return push_tensor(state, from_one([&] { return ops::permute(x, axes.span()); }));
}

int expand(lua_State* state) {
  const Value x = operand(state);
  return push_tensor(state, ops::expand(x, shape_from(state, 2)));
}

int unsqueeze(lua_State* state) {
  const Value x = operand(state);
  return push_tensor(state, ops::unsqueeze(x, place_of(state, 2, x, "unsqueeze")));
}

int squeeze(lua_State* state) {
  const Value x = operand(state);
  const int64_t requested = lua_isnoneornil(state, 2) ? -Shape::kMaxRank - 1 : axis_of(state, 2, x);
  const int64_t axis = requested < 0 && requested >= -Shape::kMaxRank ? requested + x.shape().rank() : requested;
  Integers dims;
  for (int i = 0; i < x.shape().rank(); ++i) {
    const bool goes = axis < 0 ? x.shape()[i] == 1 : i == axis;
    RUN_CHECK(!goes || x.shape()[i] == 1, ErrorKind::kRun, "squeeze: expected size 1 of axis {} of {}", i + 1,
              x.type());
    if (!goes) dims.add(x.shape()[i]);
  }
  return push_tensor(state, ops::reshape(x, Shape(dims.span())));
}

// x:slice(axis, first, last [, step]): both ends are inclusive, as in string.sub.
int slice(lua_State* state) {
  const Value x = operand(state);
  const int64_t axis = axis_of(state, 2, x);
  const int64_t size = x.shape()[x.shape().axis(axis, "slice")];
  int64_t first = integer_argument(state, 3);
  int64_t last = integer_argument(state, 4, -1);
  const int64_t step = integer_argument(state, 5, 1);
  if (first < 0) first += size + 1;
  if (last < 0) last += size + 1;
  RUN_CHECK(first >= 1 && last <= size && first <= last + 1 && step >= 1, ErrorKind::kRun,
            "slice: {} to {} by {} is out of range for axis {} of {}", first, last, step, axis < 0 ? axis : axis + 1,
            x.type());
  return push_tensor(state, ops::slice(x, axis, first - 1, last, step));
}

int concat(lua_State* state) {
  record_here(state);
  const std::vector<Value> parts = tensors_in(state, 1);
  const int64_t axis = lua_isnoneornil(state, 2) ? 0 : axis_of(state, 2, parts.front());
  return push_tensor(state, from_one([&] { return ops::concat(parts, axis); }));
}

int stack(lua_State* state) {
  record_here(state);
  const std::vector<Value> parts = tensors_in(state, 1);
  const int64_t place = lua_isnoneornil(state, 2) ? 0 : place_of(state, 2, parts.front(), "stack");
  return push_tensor(state, from_one([&] { return ops::stack(parts, place); }));
}

// Returns a list of at most `count` slices of x along an axis. All have the same size, except that the last may be
// smaller.
int chunk(lua_State* state) {
  const Value x = operand(state);
  const int64_t count = integer_argument(state, 2);
  const int64_t axis = lua_isnoneornil(state, 3) ? 0 : axis_of(state, 3, x);
  const int64_t size = x.shape()[x.shape().axis(axis, "chunk")];
  RUN_CHECK(count >= 1 && count <= size, ErrorKind::kRun, "chunk: cannot split {} elements of {} into {} parts", size,
            x.type(), count);
  const int64_t step = backends::ceil_div(size, count);
  lua_newtable(state);
  for (int64_t begin = 0; begin < size; begin += step) {
    push_tensor(state, ops::slice(x, axis, begin, std::min(begin + step, size)));
    lua_rawseti(state, -2, begin / step + 1);
  }
  return 1;
}

int pad(lua_State* state) {
  const Value x = operand(state);
  const int64_t axis = axis_of(state, 2, x);
  const int64_t before = integer_argument(state, 3), after = integer_argument(state, 4);
  return push_tensor(state, from_one([&] { return ops::pad(x, axis, before, after); }));
}

int tril(lua_State* state) {
  return triangle_of<ops::tril>(state);
}

int triu(lua_State* state) {
  return triangle_of<ops::triu>(state);
}

}  // namespace runner::lua::layout
