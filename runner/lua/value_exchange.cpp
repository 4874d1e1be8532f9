#include "runner/lua/value_exchange.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <lua.hpp>

#include "backends/ir/ops.h"
#include "backends/ir/type_text.h"
#include "backends/tensor/float16.h"
#include "runner/lua/arguments.h"
#include "runner/lua/plain_data.h"
#include "runner/lua/runtime.h"
#include "runner/lua/tensor_arguments.h"
#include "runner/train/loop/hook_tensors.h"
#include "schema/base/packing.h"

namespace runner::lua {
namespace {

namespace ops = backends::ops;
using train::HookTensors;
using train::HostTensor;
using train::SentTensor;

constexpr size_t kMaxTables = 32;  // maximum nesting depth
constexpr int kStackSlots = 8;     // maximum stack slots per nesting level
constexpr int kMaxSlots = 1000;
constexpr int64_t kEntry = 20;  // instructions charged per entry visited

std::string_view name_of(train::Fold fold) {
  return fold == train::Fold::kSum ? "sum" : fold == train::Fold::kMean ? "take the mean of" : "take the maximum of";
}

// Pops the value at the top, a list or a single value, and appends its first `most` elements to the list below it.
void append(lua_State* state, lua_Integer most = LUA_MAXINTEGER) {
  auto place = static_cast<lua_Integer>(lua_rawlen(state, -2));
  if (!lua_istable(state, -1)) return lua_rawseti(state, -2, place + 1);
  const lua_Integer size = std::min(static_cast<lua_Integer>(lua_rawlen(state, -1)), most);
  for (lua_Integer i = 1; i <= size; ++i) {
    lua_rawgeti(state, -1, i);
    lua_rawseti(state, -3, ++place);
  }
  lua_pop(state, 1);
}

// Removes the rows of padding samples. A tensor that is not per sample is kept if the batch has a sample on this rank,
// else becomes empty.
void leave_out_repeats(HostTensor& tensor, const HookTensors::Rows& rows) {
  backends::Shape& shape = tensor.type.shape;
  const bool by_sample = shape.rank() > 0 && shape[0] == rows.all;
  if (!by_sample && rows.samples > 0) return;
  shape = shape.rank() > 0 ? shape.with(0, rows.samples) : backends::Shape{0};
  tensor.bytes.resize(tensor.type.bytes());
}

}  // namespace

std::string ValueExchange::name() const {
  return fmt::format("acc:{}", what_);
}

std::vector<std::string> ValueExchange::texts(int index) const {
  RUN_CHECK(!holds_tensor(index), ErrorKind::kRun,
            "{}: cannot gather a tensor as an object; use acc:gather, or its values, tensor:tolist()", name());
  if (ranks_ == nullptr) return {text_of(index)};
  const Sent sent = sent_by_all("plain data", [&](std::string& text) { text += text_of(index); });
  return {sent.contents.begin(), sent.contents.end()};
}

std::string ValueExchange::text_of(int index) const {
  return plain_text(state_, index, fmt::format("{}: the value", name()), PlainUse::kExchange);
}

template <class Add>
ValueExchange::Sent ValueExchange::sent_by_all(std::string_view kind, const Add& add) const {
  const std::string place = fmt::format("{}{}{}", kind, path_.empty() ? "" : " at ", fmt::join(path_, "."));
  std::string text = pack(place);
  add(text);
  Sent sent{ranks_->gather_objects(text, site_of(state_, accelerator_, what_)), {}};
  std::vector<std::string> places;
  for (const std::string& each : sent.texts) {
    Unpacker unpacker(each);
    places.push_back(unpacker.read<std::string>());
    sent.contents.push_back(unpacker.rest());
  }
  if (std::ranges::count(places, place) == std::ssize(places)) return sent;
  for (size_t rank = 0; rank < places.size(); ++rank) places[rank] = fmt::format("rank {} has {}", rank, places[rank]);
  fail(ErrorKind::kRun, "{}: the values differ between processes: {}", name(), fmt::join(places, ", "));
}

// ---- tables --------------------------------------------------------------------------------------------------------

bool ValueExchange::is_list(int index) const {
  if (!lua_istable(state_, index)) return false;
  const bool stray = push_stray_key(state_, index, static_cast<int64_t>(lua_rawlen(state_, index)));
  if (stray) lua_pop(state_, 1);
  return !stray;
}

bool ValueExchange::holds_tensor(int index) const {
  if (is_tensor(state_, index)) return true;
  if (!lua_istable(state_, index)) return false;
  RUN_CHECK(lua_checkstack(state_, kStackSlots) != 0 && lua_gettop(state_) < kMaxSlots, ErrorKind::kRun,
            "{}: tables are nested too deeply, or a table contains itself", name());
  bool found = false;
  lua_pushnil(state_);
  while (!found && lua_next(state_, index) != 0) {
    Runtime::of(state_).spend(state_, kEntry);  // because a table may be referenced many times
    found = holds_tensor(lua_gettop(state_));
    lua_pop(state_, found ? 2 : 1);
  }
  return found;
}

// Returns the string keys of a table. Throws if `each` would skip an entry or recurse without end.
std::vector<std::string> ValueExchange::names_in(int index) const {
  RUN_CHECK(path_.size() < kMaxTables && lua_checkstack(state_, kStackSlots) != 0, ErrorKind::kRun,
            "{}: tables are nested too deeply, or a table contains itself", name());
  const auto size = static_cast<int64_t>(lua_rawlen(state_, index));
  const int64_t entries = count_entries(state_, index);
  Runtime::of(state_).spend(state_, kEntry * entries);
  std::vector<std::string> names = text_keys(state_, index);
  RUN_CHECK(entries == size + std::ssize(names), ErrorKind::kRun,
            "{}: expected the keys of a table to be names or 1, 2, … without gaps", name());
  return names;
}

// Calls `leaf`, which pushes a result, for the value if it is a leaf, or for all leaves in a table. Then pushes a table
// of the results.
template <class IsLeaf, class Leaf>
void ValueExchange::each(int index, const IsLeaf& is_leaf, const Leaf& leaf) {
  if (!lua_istable(state_, index) || is_leaf(index)) return leaf(index);
  const std::vector<std::string> names = names_in(index);
  lua_newtable(state_);
  const int result = lua_gettop(state_);
  const auto size = static_cast<lua_Integer>(lua_rawlen(state_, index));
  for (lua_Integer i = 1; i <= size; ++i) {
    path_.push_back(std::to_string(i));
    lua_rawgeti(state_, index, i);
    each(lua_gettop(state_), is_leaf, leaf);
    lua_rawseti(state_, result, i);
    lua_settop(state_, result);
    path_.pop_back();
  }
  for (const std::string& key : names) {
    path_.push_back(key);
    lua_pushlstring(state_, key.data(), key.size());
    lua_pushvalue(state_, -1);
    lua_rawget(state_, index);
    each(lua_gettop(state_), is_leaf, leaf);
    lua_replace(state_, result + 2);
    lua_settop(state_, result + 2);
    lua_rawset(state_, result);
    lua_settop(state_, result);
    path_.pop_back();
  }
}

// ---- tensors -------------------------------------------------------------------------------------------------------

HostTensor ValueExchange::read(int index) const {
  RUN_CHECK(accelerator_.tensors != nullptr, ErrorKind::kRun,
            "{}: tensors can be exchanged between processes only in events and in a custom loop, the hook entry train; "
            "elsewhere exchange numbers or tables of them, or return metrics from a step, which are merged",
            name());
  const Value x = tensor_argument(state_, index);
  Recording& recording = record_here(state_);
  recording.work().count_read(state_, recording.program(), x.id);
  return accelerator_.tensors->read(x);
}

template <class Make>
HostTensor ValueExchange::of_all(const HostTensor& mine, std::string_view kind, const Make& make) const {
  const Sent sent = sent_by_all(kind, [&](std::string& text) { mine.pack_into(text); });
  std::vector<SentTensor> all;
  for (const std::string_view text : sent.contents) all.push_back(SentTensor::of_packed(text));
  return make(all);
}

void ValueExchange::push(HostTensor tensor) {
  push_tensor(state_, accelerator_.tensors->give(std::move(tensor)));
}

// ---- gather --------------------------------------------------------------------------------------------------------

void ValueExchange::gather(int index, bool for_metrics) {
  each(
      index, [this](int at) { return is_list(at) && !holds_tensor(at); },
      [&](int at) { is_tensor(state_, at) ? gather_tensor(at, for_metrics) : gather_list(at, for_metrics); });
}

void ValueExchange::gather_tensor(int index, bool for_metrics) {
  if (ranks_ == nullptr) {
    record_here(state_);
    const Value x = tensor_argument(state_, index);
    push_tensor(state_, x.shape().rank() == 0 ? ops::flatten(x) : x);
    return;
  }
  HostTensor mine = read(index);
  if (const auto rows = accelerator_.tensors->rows(); for_metrics && rows) leave_out_repeats(mine, *rows);
  push(of_all(mine, "a tensor", [&](const auto& all) { return train::joined(all, name()); }));
}

void ValueExchange::gather_list(int index, bool for_metrics) {
  lua_newtable(state_);
  lua_pushvalue(state_, index);
  const auto rows = for_metrics && accelerator_.tensors != nullptr ? accelerator_.tensors->rows() : std::nullopt;
  const bool by_sample = rows && lua_istable(state_, -1) && static_cast<int64_t>(lua_rawlen(state_, -1)) == rows->all;
  if (rows && rows->samples == 0) {
    lua_pop(state_, 1);
  } else {
    append(state_, by_sample ? rows->samples : LUA_MAXINTEGER);
  }
  if (ranks_ == nullptr) return;
  const std::vector<std::string> all = texts(lua_gettop(state_));
  lua_pop(state_, 1);
  lua_newtable(state_);
  for (const std::string& text : all) {
    push_plain(state_, text);
    append(state_);
  }
}

// ---- reduce, broadcast, pad ----------------------------------------------------------------------------------------

void ValueExchange::reduce(int index, train::Fold fold) {
  each(
      index, [](int) { return false; },
      [&](int at) {
        if (!is_tensor(state_, at)) return reduce_number(at, fold);
        if (ranks_ == nullptr) return lua_pushvalue(state_, at);
        push(fold_all(read(at), "a tensor", fold));
      });
}

HostTensor ValueExchange::fold_all(const HostTensor& mine, std::string_view kind, train::Fold fold) const {
  return of_all(mine, fmt::format("{} to {}", kind, name_of(fold)),
                [&](const auto& all) { return train::folded(all, fold, name()); });
}

void ValueExchange::reduce_number(int index, train::Fold fold) {
  if (lua_type(state_, index) != LUA_TNUMBER) bad_argument(state_, 2, "a number, a tensor, or a table of them");
  const double number = lua_tonumber(state_, index);
  if (ranks_ == nullptr) return lua_pushnumber(state_, number);
  const auto bytes = std::as_bytes(std::span(&number, 1));
  const HostTensor mine{{backends::DType::kF64, {}}, {bytes.begin(), bytes.end()}};
  lua_pushnumber(state_, backends::load_element(backends::DType::kF64, fold_all(mine, "a number", fold).bytes.data()));
}

void ValueExchange::broadcast(int index) {
  each(
      index, [this](int at) { return !holds_tensor(at); },
      [&](int at) {
        if (ranks_ == nullptr) return lua_pushvalue(state_, at);
        push_first(at);
      });
}

// Pushes the value of rank 0. Other ranks may have any value there.
void ValueExchange::push_first(int index) {
  const bool is_mine = is_tensor(state_, index);
  const Sent sent = sent_by_all("a value", [&](std::string& text) {
    text += is_mine ? 't' : 'p';
    is_mine ? read(index).pack_into(text) : void(text += text_of(index));
  });
  const std::string_view first = sent.contents.front();
  first.front() == 't' ? push(SentTensor::of_packed(first.substr(1)).copy())
                       : push_plain(state_, std::string(first.substr(1)));
}

void ValueExchange::pad_across_processes(int index, double pad, int64_t axis) {
  each(
      index, [this](int at) { return !holds_tensor(at); },
      [&](int at) {
        if (!is_tensor(state_, at) && !lua_istable(state_, at)) bad_argument(state_, 2, "a tensor or a list");
        if (ranks_ == nullptr) return lua_pushvalue(state_, at);
        is_tensor(state_, at) ? pad_tensor(at, pad, axis) : pad_list(at, pad);
      });
}

int64_t ValueExchange::longest(int64_t mine) const {
  ranks_->all_reduce({backends::DType::kI64, {}}, std::as_writable_bytes(std::span(&mine, 1)),
                     backends::Reduction::kMax, site_of(state_, accelerator_, what_));
  return mine;
}

void ValueExchange::pad_tensor(int index, double pad, int64_t axis) {
  const Value x = tensor_argument(state_, index);
  const auto rank = x.shape().rank();
  RUN_CHECK(axis >= 1 && axis <= rank, ErrorKind::kRun, "{}: axis {} is out of range for {}", name(), axis, x.type());
  const auto at = static_cast<int>(axis - 1);
  const int64_t missing = longest(x.shape()[at]) - x.shape()[at];
  backends::Program& program = record_here(state_).program();
  const Value padding{&program, program.constant(pad, {x.dtype(), x.shape().with(at, missing)})};
  push_tensor(state_, missing == 0 ? x : ops::concat(std::array{x, padding}, at));
}

void ValueExchange::pad_list(int index, double pad) {
  const auto size = static_cast<int64_t>(lua_rawlen(state_, index));
  const int64_t length = longest(size);
  lua_newtable(state_);
  lua_pushvalue(state_, index);
  append(state_);
  for (int64_t place = size + 1; place <= length; ++place) {
    lua_pushnumber(state_, pad);
    lua_rawseti(state_, -2, place);
  }
}

}  // namespace runner::lua
