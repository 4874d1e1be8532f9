#include <string>
#include <vector>

#include <lua.hpp>

#include "backends/ir/type_text.h"
#include "runner/lua/tensor_arguments.h"
#include "runner/lua/tensor_functions.h"

namespace runner::lua::queries {
namespace {

using backends::DType;
using backends::Shape;

void push_element(lua_State* state, DType dtype, double value) {
  if (dtype == DType::kBool) {
    lua_pushboolean(state, value != 0);
  } else if (is_float(dtype)) {
    lua_pushnumber(state, value);
  } else {
    lua_pushinteger(state, static_cast<lua_Integer>(value));
  }
}

// Pushes the elements of a tensor at fixed indices of the first `axis` axes as a nested list. `next`: next element to
// push.
void push_list(lua_State* state, const backends::TensorType& type, int axis, const double*& next) {
  if (axis == type.shape.rank()) return push_element(state, type.dtype, *next++);
  const int64_t size = type.shape[axis];
  lua_createtable(state, static_cast<int>(size), 0);
  for (int64_t i = 1; i <= size; ++i) {
    push_list(state, type, axis + 1, next);
    lua_rawseti(state, -2, i);
  }
}

}  // namespace

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

int tolist(lua_State* state) {
  const Value x = tensor_argument(state, 1);
  constexpr int64_t kMaxElements = 1 << 20;
  RUN_CHECK(x.shape().elements() <= kMaxElements, ErrorKind::kRun,
            "tolist: {} has more than {} elements; reduce it first", x.type(), kMaxElements);
  RUN_CHECK(lua_checkstack(state, 2 * backends::Shape::kMaxRank) != 0, ErrorKind::kRun,
            "tolist: the Lua stack is full");
  const std::vector<double> elements = recording_of(state, "a tensor").read(state, x);
  const double* next = elements.data();
  push_list(state, x.type(), 0, next);
  return 1;
}

int item(lua_State* state) {
  const Value x = tensor_argument(state, 1);
  RUN_CHECK(x.shape().elements() == 1, ErrorKind::kRun,
            "item: expected a tensor with one element, got {} with {}; reduce it first", x.type(),
            x.shape().elements());
  push_element(state, x.dtype(), recording_of(state, "a tensor").read(state, x).front());
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

}  // namespace runner::lua::queries
