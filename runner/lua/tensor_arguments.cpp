#include "runner/lua/tensor_arguments.h"

#include <charconv>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <lua.hpp>

#include "backends/ir/type_text.h"
#include "runner/lua/arguments.h"

namespace runner::lua {
namespace {

using backends::DType;
using backends::Shape;

int64_t checked_axis(int64_t axis, Value x) {
  const int rank = x.shape().rank();
  RUN_CHECK(axis != 0 && axis >= -rank && axis <= rank, ErrorKind::kRun,
            "axis {} is out of range for {}; axes count from 1, or from -1 at the end", axis, x.type());
  return axis > 0 ? axis - 1 : axis;
}

}  // namespace

Error with_axes_from_one(const Error& error) {
  constexpr std::string_view kWord = "axis ";
  std::string result;
  std::string_view text = error.message();
  for (size_t at = text.find(kWord); at != std::string_view::npos; at = text.find(kWord)) {
    at += kWord.size();
    result += text.substr(0, at);
    text.remove_prefix(at);
    uint64_t axis = 0;  // unsigned: axes counted from the end have a minus sign and are skipped
    const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), axis);
    if (failure != std::errc()) continue;
    result += std::to_string(axis + 1);
    text.remove_prefix(static_cast<size_t>(end - text.data()));
  }
  return {error.kind(), result.append(text), error.where()};
}

Recording& record_here(lua_State* state) {
  Recording& now = recording_of(state, "a tensor");
  now.mark_line(state);
  return now;
}

Value operand(lua_State* state) {
  const Value x = tensor_argument(state, 1);
  record_here(state);
  return x;
}

int64_t axis_of(lua_State* state, int index, Value x) {
  return checked_axis(integer_argument(state, index), x);
}

void Integers::add(int64_t value) {
  RUN_CHECK(count < values.size(), ErrorKind::kRun, "a tensor has at most {} axes", values.size());
  values[count++] = value;
}

Integers integers_from(lua_State* state, int first) {
  Integers integers;
  if (!lua_istable(state, first)) {
    for (int i = first; i <= lua_gettop(state); ++i) integers.add(integer_argument(state, i));
    return integers;
  }
  const int64_t size = list_argument_size(state, first);
  for (lua_Integer i = 1; i <= size; ++i) {
    lua_rawgeti(state, first, i);
    const std::optional<int64_t> value = integer_at(state, -1);
    RUN_CHECK(value.has_value(), ErrorKind::kRun, "entry {} of the list is {}, expected an integer", i,
              type_name(state, -1));
    integers.add(*value);
    lua_pop(state, 1);
  }
  return integers;
}

Integers axes_from(lua_State* state, int first, Value x) {
  Integers axes = integers_from(state, first);
  for (size_t i = 0; i < axes.count; ++i) axes.values[i] = checked_axis(axes.values[i], x);
  return axes;
}

Shape shape_from(lua_State* state, int first) {
  return Shape(integers_from(state, first).span());
}

Value tensor_option(lua_State* state, const OptionTable& options, const char* name) {
  if (!options.push(name)) return {};
  if (!is_tensor(state, -1)) bad_option(state, name, "a tensor");
  const Value tensor = tensor_argument(state, lua_gettop(state));
  lua_pop(state, 1);
  return tensor;
}

DType dtype_of(lua_State* state, int index) {
  const std::string_view requested = text_argument(state, index);
  std::vector<std::string_view> names;
  for (int i = 0; i < backends::kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    if (name_of(dtype) == requested) return dtype;
    names.push_back(name_of(dtype));
  }
  fail(ErrorKind::kRun, "unknown dtype '{}'; expected one of {}", requested, fmt::join(names, ", "));
}

}  // namespace runner::lua
