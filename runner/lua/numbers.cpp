#include "runner/lua/numbers.h"

#include <vector>

#include <lua.hpp>

#include "runner/lua/arguments.h"

namespace runner::lua {

namespace ops = backends::ops;
using backends::DType;
using backends::InputKind;
using backends::Program;
using backends::ScalarUse;
using backends::Shape;
using backends::TensorType;
using backends::TracedScalar;

namespace {

constexpr const char* kInput = "number";

Value constant(const Recording& recording, double value, const TensorType& type) {
  return {&recording.program(), recording.program().constant(value, type)};
}

Value scalar_input(const Recording& recording, nn::HostValues& host, double value, DType dtype) {
  host.scalars.push_back(value);
  return {&recording.program(), recording.program().input(InputKind::kScalar, kInput, {dtype, {}})};
}

std::vector<float> numbers_of(lua_State* state, int index) {
  constexpr int64_t kMaxSize = 1024;
  const int64_t size = list_argument_size(state, index);
  RUN_CHECK(size > 0 && size <= kMaxSize, ErrorKind::kRun, "expected a list of 1 to {1} numbers, got {0}", size,
            kMaxSize);
  std::vector<float> numbers;
  numbers.reserve(static_cast<size_t>(size));
  for (lua_Integer i = 1; i <= size; ++i) {
    lua_rawgeti(state, index, i);
    RUN_CHECK(lua_type(state, -1) == LUA_TNUMBER, ErrorKind::kRun, "entry {} of the list is {}, expected a number", i,
              type_name(state, -1));
    numbers.push_back(static_cast<float>(lua_tonumber(state, -1)));
    lua_pop(state, 1);
  }
  return numbers;
}

}  // namespace

Number number_at(lua_State* state, int index) {
  return {lua_tonumber(state, index), lua_isinteger(state, index) != 0};
}

Number checked_number(lua_State* state, int index) {
  return {number_argument(state, index), lua_isinteger(state, index) != 0};
}

Number checked_number(lua_State* state, int index, Number otherwise) {
  return lua_isnoneornil(state, index) ? otherwise : checked_number(state, index);
}

Value number_operand(const Recording& recording, Number number, const TensorType& type, ScalarUse use) {
  nn::HostValues* const host = recording.forward().host;
  if (host == nullptr) return constant(recording, number.value, type);
  TracedScalar traced{.use = use,
                      .value = number.value,
                      .name = "a number in the hook",
                      .tensor_dtype = type.dtype,
                      .is_integer = number.is_integer,
                      .is_from_hook = true};
  const bool is_constant = host->fixed || (host->bakes && is_special(traced));
  const Value value =
      is_constant ? constant(recording, number.value, type) : scalar_input(recording, *host, number.value, type.dtype);
  traced.origin = recording.program().node(value.id).origin;
  host->traced.push_back(traced);
  return value;
}

Value filled(const Recording& recording, Number number, const TensorType& type) {
  const Value value = number_operand(recording, number, type, ScalarUse::kFactor);
  return value.shape() == type.shape ? value : ops::expand(value, type.shape);
}

Value host_number(const Recording& recording, double number) {
  nn::HostValues* const host = recording.forward().host;
  return host == nullptr || host->fixed ? constant(recording, number, {DType::kF32, {}})
                                        : scalar_input(recording, *host, number, DType::kF32);
}

Value list_of_numbers(lua_State* state, int index) {
  const Recording& recording = recording_of(state, "a tensor");
  const std::vector<float> numbers = numbers_of(state, index);
  nn::HostValues* const host = recording.forward().host;
  Program& program = recording.program();
  if (host == nullptr || host->fixed) return ops::vector(program, std::vector<double>(numbers.begin(), numbers.end()));
  const std::span bytes = std::as_bytes(std::span(numbers));
  host->given.emplace_back(bytes.begin(), bytes.end());
  const TensorType type{DType::kF32, Shape{static_cast<int64_t>(numbers.size())}};
  return {&program, program.input(InputKind::kBatch, "numbers", type)};
}

}  // namespace runner::lua
