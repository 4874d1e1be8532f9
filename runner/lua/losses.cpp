#include "runner/lua/losses.h"

#include <string>

#include <lua.hpp>

#include "backends/graph/type_text.h"
#include "runner/lua/bind.h"
#include "runner/lua/tensor_arguments.h"

namespace runner::lua::losses {
namespace {

namespace ops = backends::ops;
using nn::Autocast;

constexpr int kOptions = 3;  // the argument that holds them

// Checks the options: none, or a table with keys among `known`.
void check_options(lua_State* state, std::string_view what, std::initializer_list<std::string_view> known) {
  if (lua_isnoneornil(state, kOptions)) return;
  if (!lua_istable(state, kOptions)) bad_argument(state, kOptions, "a table of options");
  check_keys(state, kOptions, what, {known.begin(), known.size()});
}

double number_option(lua_State* state, const char* name, double otherwise) {
  if (lua_isnoneornil(state, kOptions) || !push_field(state, kOptions, name)) return otherwise;
  if (lua_type(state, -1) != LUA_TNUMBER) bad_option(state, name, "a number");
  const double value = lua_tonumber(state, -1);
  lua_pop(state, 1);
  return value;
}

int64_t integer_option(lua_State* state, const char* name, int64_t otherwise) {
  if (lua_isnoneornil(state, kOptions) || !push_field(state, kOptions, name)) return otherwise;
  int exact = 0;
  const lua_Integer value = lua_tointegerx(state, -1, &exact);
  if (exact == 0 || lua_type(state, -1) != LUA_TNUMBER) bad_option(state, name, "an integer");
  lua_pop(state, 1);
  return value;
}

enum class Reduced { kNone, kMean, kSum };

Reduced reduction_option(lua_State* state) {
  if (lua_isnoneornil(state, kOptions) || !push_field(state, kOptions, "reduction")) return Reduced::kMean;
  if (lua_type(state, -1) != LUA_TSTRING) bad_option(state, "reduction", "a string");
  const std::string name = lua_tostring(state, -1);
  lua_pop(state, 1);
  if (name == "none") return Reduced::kNone;
  if (name == "sum") return Reduced::kSum;
  RUN_CHECK(name == "mean", ErrorKind::kRun, "unknown reduction '{}'; it is none, mean or sum", name);
  return Reduced::kMean;
}

int push_reduced(lua_State* state, Value losses, Reduced how) {
  push_tensor(state, how == Reduced::kSum ? ops::sum(losses) : how == Reduced::kMean ? ops::mean(losses) : losses);
  return 1;
}

struct Pair {
  Value prediction, target;
};
Pair pair_of(lua_State* state) {
  const Value x = tensor_argument(state, 1), y = tensor_argument(state, 2);
  record_here(state);
  RUN_CHECK(x.shape() == y.shape(), ErrorKind::kRun, "prediction {} and target {} have different shapes", x.type(),
            y.type());
  return {Autocast::raise(x), Autocast::raise(y)};
}

template <class Loss>
int element_loss(lua_State* state, const Loss& loss) {
  check_options(state, "options", {"reduction"});
  const Pair pair = pair_of(state);
  return push_reduced(state, loss(pair.prediction, pair.target), reduction_option(state));
}

}  // namespace

int cross_entropy(lua_State* state) {
  const Value logits = tensor_argument(state, 1), labels = tensor_argument(state, 2);
  record_here(state);
  check_options(state, "cross_entropy", {"reduction", "ignore_index", "label_smoothing", "weight"});
  const Reduced how = reduction_option(state);
  ops::CrossEntropyOptions options;
  options.ignore_index = integer_option(state, "ignore_index", -100);
  options.label_smoothing = number_option(state, "label_smoothing", 0);
  RUN_CHECK(options.label_smoothing >= 0 && options.label_smoothing <= 1, ErrorKind::kRun,
            "cross_entropy: label_smoothing must be in [0, 1], got {}", shown(options.label_smoothing));
  if (lua_istable(state, kOptions) && push_field(state, kOptions, "weight")) {
    options.class_weights =
        lua_istable(state, -1) ? vector_of(state, lua_gettop(state)) : tensor_value(state, -1, "weight");
    lua_pop(state, 1);
  }
  const Value losses = ops::cross_entropy(Autocast::raise(logits), labels, options);
  if (how != Reduced::kMean) return push_reduced(state, losses, how);
  push_tensor(state, ops::div(ops::sum(losses), ops::sum(ops::label_weights(labels, options))));
  return 1;
}

int mse(lua_State* state) {
  return element_loss(state, ops::mse);
}

int l1(lua_State* state) {
  return element_loss(state, ops::l1);
}

int huber(lua_State* state) {
  check_options(state, "huber", {"reduction", "delta"});
  const Pair pair = pair_of(state);
  const double delta = number_option(state, "delta", 1.0);
  return push_reduced(state, ops::huber(pair.prediction, pair.target, delta), reduction_option(state));
}

int bce_with_logits(lua_State* state) {
  return element_loss(state, ops::bce_with_logits);
}

}  // namespace runner::lua::losses
