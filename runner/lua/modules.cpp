#include "runner/lua/modules.h"

#include <charconv>
#include <functional>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <lua.hpp>

#include "runner/lua/arguments.h"
#include "runner/lua/attention.h"
#include "runner/lua/bind.h"
#include "runner/lua/convolution.h"
#include "runner/lua/document.h"
#include "runner/lua/lua_module.h"
#include "runner/lua/recording.h"
#include "runner/lua/runtime.h"
#include "runner/lua/seal.h"
#include "runner/lua/tensor.h"
#include "runner/model/norms.h"

namespace runner::lua {
namespace {

namespace ops = backends::ops;

constexpr const char* kModuleName = "nn module";

nn::ModulePtr* module_test(lua_State* state, int module_field) {
  return static_cast<nn::ModulePtr*>(luaL_testudata(state, module_field, kModuleName));
}

// ---- constructors --------------------------------------------------------------------------------------------------

int64_t size_argument(lua_State* state, int module_field) {
  const int64_t size = integer_argument(state, module_field);
  RUN_CHECK(size >= 1, ErrorKind::kRun, "{}: argument {} is {}, expected a size of at least 1", called_as(state),
            argument_number(state, module_field), size);
  return size;
}

int linear(lua_State* state) {
  const int64_t in = size_argument(state, 1), out = size_argument(state, 2);
  return push_made(state, nn::linear(in, out, OptionTable(state, 3, {"bias"}).flag("bias", true)));
}

int embedding_module(lua_State* state) {
  return push_made(state, nn::embedding(size_argument(state, 1), size_argument(state, 2)));
}

int layer_norm(lua_State* state) {
  const int64_t width = size_argument(state, 1);
  return push_made(state, nn::layer_norm(width, number_argument(state, 2, nn::kNormEpsilon)));
}

int rms_norm_module(lua_State* state) {
  const int64_t width = size_argument(state, 1);
  return push_made(state, nn::rms_norm(width, number_argument(state, 2, nn::kRmsNormEpsilon)));
}

// PyTorch's None is false here, because nil is an option that is missing.
std::optional<double> momentum_option(lua_State* state, const OptionTable& options) {
  const nn::BatchNormOptions defaults;
  if (!options.push("momentum")) return defaults.momentum;
  const bool is_number = lua_type(state, -1) == LUA_TNUMBER;
  const double momentum = is_number ? lua_tonumber(state, -1) : 0;
  if (is_number ? !(momentum >= 0 && momentum <= 1) : !lua_isboolean(state, -1) || lua_toboolean(state, -1))
    bad_option(state, "momentum", "a number from 0 to 1, or false for the plain mean over batches");
  lua_pop(state, 1);
  return is_number ? std::optional(momentum) : std::nullopt;
}

schema::FrozenNorm frozen_option(lua_State* state, const OptionTable& options) {
  const std::string frozen = options.text("frozen", "");
  RUN_CHECK(frozen.empty() || frozen == "statistics" || frozen == "all", ErrorKind::kRun,
            "{}: frozen is '{}', expected statistics or all", called_as(state), frozen);
  return frozen.empty()           ? schema::FrozenNorm::kNone
         : frozen == "statistics" ? schema::FrozenNorm::kStatistics
                                  : schema::FrozenNorm::kAll;
}

template <int dimensions>
int batch_norm_module(lua_State* state) {
  const int64_t channels = size_argument(state, 1);
  const OptionTable options(state, 2, {"eps", "momentum", "affine", "sync", "frozen"});
  return push_made(state, nn::batch_norm(channels, dimensions,
                                         {.eps = options.number("eps", nn::kNormEpsilon),
                                          .momentum = momentum_option(state, options),
                                          .affine = options.flag("affine", true),
                                          .sync = options.flag("sync", false),
                                          .frozen = frozen_option(state, options)}));
}

int group_norm_module(lua_State* state) {
  const int64_t groups = size_argument(state, 1), channels = size_argument(state, 2);
  const OptionTable options(state, 3, {"eps", "affine"});
  return push_made(
      state, nn::group_norm(groups, channels, options.number("eps", nn::kNormEpsilon), options.flag("affine", true)));
}

int multihead_attention(lua_State* state) {
  const int64_t width = size_argument(state, 1), heads = size_argument(state, 2);
  const OptionTable options(state, 3, {"dropout", "bias"});
  return push_made(state,
                   nn::multihead_attention(width, heads, options.number("dropout", 0), options.flag("bias", true)));
}

int transformer_encoder_layer(lua_State* state) {
  const OptionTable options(state, 3,
                            {"dim_feedforward", "dropout", "activation", "layer_norm_eps", "norm_first", "bias"});
  const std::string activation = options.text("activation", "relu");
  RUN_CHECK(activation == "relu" || activation == "gelu", ErrorKind::kRun,
            "{}: unknown activation '{}'; expected relu or gelu", called_as(state), activation);
  nn::EncoderLayerOptions layer{.width = size_argument(state, 1), .heads = size_argument(state, 2)};
  layer.feedforward = options.integer("dim_feedforward", layer.feedforward);
  layer.dropout = options.number("dropout", layer.dropout);
  layer.activation = activation == "gelu" ? schema::Activation::kGelu : schema::Activation::kRelu;
  layer.eps = options.number("layer_norm_eps", layer.eps);
  layer.norm_first = options.flag("norm_first", layer.norm_first);
  layer.bias = options.flag("bias", layer.bias);
  return push_made(state, nn::transformer_encoder_layer(layer));
}

int dropout(lua_State* state) {
  const double p = number_argument(state, 1, 0.5);
  RUN_CHECK(p >= 0 && p < 1, ErrorKind::kRun, "nn.Dropout: expected p in [0, 1), got {}", shown(p));
  return push_made(state, nn::dropout(p));
}

template <schema::Activation kind>
int activation(lua_State* state) {
  return push_made(state, nn::activation(kind));
}

// An activation that recipes do not offer.
class Pointwise : public nn::Module {
 public:
  using Function = std::function<Value(Value)>;
  Pointwise(std::string_view type, Function function, std::optional<double> number = std::nullopt)
      : type_(type), function_(std::move(function)), number_(number) {}

 private:
  Value record(nn::ForwardContext&, Value x) const override { return function_(x); }
  std::string_view type() const override { return type_; }
  std::string text() const override { return fmt::format("{}({})", type_, number_ ? fmt::to_string(*number_) : ""); }

  const std::string_view type_;  // a string literal
  const Function function_;
  const std::optional<double> number_;  // constructor argument
};

int leaky_relu_module(lua_State* state) {
  const double slope = number_argument(state, 1, 0.01);
  return push_made(state, std::make_shared<Pointwise>(
                              "nn.LeakyReLU", [slope](Value x) { return ops::leaky_relu(x, slope); }, slope));
}

int elu_module(lua_State* state) {
  const double alpha = number_argument(state, 1, 1);
  return push_made(state, std::make_shared<Pointwise>(
                              "nn.ELU", [alpha](Value x) { return ops::elu(x, alpha); }, alpha));
}

int softplus(lua_State* state) {
  return push_made(state, std::make_shared<Pointwise>("nn.Softplus", ops::softplus));
}

int flatten(lua_State* state) {
  return push_made(state, nn::flatten());
}

// nn.Sequential{…} or nn.Sequential(a, b): modules, or functions of a tensor.
int sequential(lua_State* state) {
  if (lua_istable(state, 1)) {
    check_argument_count(state, 1);
  } else {
    const int count = lua_gettop(state);
    lua_createtable(state, count, 0);
    lua_insert(state, 1);
    for (int i = count; i >= 1; --i) lua_rawseti(state, 1, i);
  }
  lua_settop(state, 1);
  std::vector<nn::ModulePtr> members;
  const int64_t size = list_size(state, 1, "nn.Sequential", "use nn.Module for named members");
  for (lua_Integer i = 1; i <= size; ++i) {
    lua_rawgeti(state, 1, i);
    if (const nn::ModulePtr* member = module_test(state, -1)) {
      members.push_back(*member);
    } else {
      RUN_CHECK(lua_isfunction(state, -1), ErrorKind::kRun,
                "nn.Sequential: entry {} is {}, expected a module or a function", i, type_name(state, -1));
      members.push_back(std::make_shared<LuaModule>(state));
    }
    lua_pop(state, 1);
  }
  return push_made(state, nn::sequential(std::move(members)));
}

int lua_module(lua_State* state) {
  if (!lua_istable(state, 1)) bad_argument(state, 1, "a table with modules and a function forward");
  lua_settop(state, 1);
  RUN_CHECK(push_field(state, 1, "forward") && lua_isfunction(state, -1), ErrorKind::kRun,
            "nn.Module: missing function forward(self, x) in the table");
  lua_settop(state, 1);
  return push_made(state, std::make_shared<LuaModule>(state));
}

constexpr ModuleFunction kModules[] = {
    {"Linear", bound<linear>, "nn.Linear(inputs, outputs [, {bias = true}])",
     "x (..., inputs) to (..., outputs); weight (outputs, inputs) and bias, initialised like torch's."},
    {"Embedding", bound<embedding_module>, "nn.Embedding(rows, width)",
     "Row x of weight (rows, width); ids count from 0."},
    {"LayerNorm", bound<layer_norm>, "nn.LayerNorm(width [, eps])",
     "Layer normalization over the last axis, with weight and bias."},
    {"RMSNorm", bound<rms_norm_module>, "nn.RMSNorm(width [, eps])",
     "x divided by the root of its mean square over the last axis, times weight."},
    {"BatchNorm1d", bound<batch_norm_module<1>>, "nn.BatchNorm1d(channels [, {eps, momentum, affine, sync, frozen}])",
     "Batch normalization of (B, C) or (B, C, L); momentum 0.1, or false for the plain mean over batches; sync = true: "
     "statistics of all ranks; frozen: \"statistics\" or \"all\"."},
    {"BatchNorm2d", bound<batch_norm_module<2>>, "nn.BatchNorm2d(channels [, {eps, momentum, affine, sync, frozen}])",
     "The same for (B, C, H, W)."},
    {"GroupNorm", bound<group_norm_module>, "nn.GroupNorm(groups, channels [, {eps, affine}])",
     "Normalization of each group of channels of a sample, with weight and bias."},
    {"Conv1d", bound<constructors::conv<1>>,
     "nn.Conv1d(inputs, outputs, kernel [, {stride, padding, dilation, groups, bias}])",
     "Convolution of (B, inputs, L); weight (outputs, inputs / groups, kernel) and bias, initialised like torch's; "
     "padding: a number, \"same\" or \"valid\"."},
    {"Conv2d", bound<constructors::conv<2>>,
     "nn.Conv2d(inputs, outputs, kernel [, {stride, padding, dilation, groups, bias}])",
     "The same for (B, inputs, H, W); weight (outputs, inputs / groups, kernel, kernel)."},
    {"ConvTranspose1d", bound<constructors::conv_transpose<1>>,
     "nn.ConvTranspose1d(inputs, outputs, kernel [, {stride, padding, output_padding, dilation, groups, bias}])",
     "Transposed convolution of (B, inputs, L); weight (inputs, outputs / groups, kernel) and bias; output_padding is "
     "below the stride."},
    {"ConvTranspose2d", bound<constructors::conv_transpose<2>>,
     "nn.ConvTranspose2d(inputs, outputs, kernel [, {stride, padding, output_padding, dilation, groups, bias}])",
     "The same for (B, inputs, H, W); weight (inputs, outputs / groups, kernel, kernel)."},
    {"MaxPool1d", bound<constructors::max_pool<1>>,
     "nn.MaxPool1d(kernel [, {stride = kernel, padding, dilation, ceil_mode}])",
     "Maximum of each window of (B, C, L)."},
    {"MaxPool2d", bound<constructors::max_pool<2>>,
     "nn.MaxPool2d(kernel [, {stride = kernel, padding, dilation, ceil_mode}])", "The same for (B, C, H, W)."},
    {"AvgPool1d", bound<constructors::avg_pool<1>>,
     "nn.AvgPool1d(kernel [, {stride = kernel, padding, ceil_mode, count_include_pad = true}])",
     "Mean of each window of (B, C, L)."},
    {"AvgPool2d", bound<constructors::avg_pool<2>>,
     "nn.AvgPool2d(kernel [, {stride = kernel, padding, ceil_mode, count_include_pad = true}])",
     "The same for (B, C, H, W)."},
    {"AdaptiveAvgPool1d", bound<constructors::adaptive_avg_pool<1>>, "nn.AdaptiveAvgPool1d(size)",
     "Means of parts of an axis, to (B, C, size)."},
    {"AdaptiveAvgPool2d", bound<constructors::adaptive_avg_pool<2>>, "nn.AdaptiveAvgPool2d(size)",
     "The same, to (B, C, size, size)."},
    {"AdaptiveMaxPool1d", bound<constructors::adaptive_max_pool<1>>, "nn.AdaptiveMaxPool1d(size)",
     "Maxima of parts of an axis, to (B, C, size)."},
    {"AdaptiveMaxPool2d", bound<constructors::adaptive_max_pool<2>>, "nn.AdaptiveMaxPool2d(size)",
     "The same, to (B, C, size, size)."},
    {"Upsample", bound<constructors::upsample>, "nn.Upsample{size or scale_factor, mode = \"nearest\", align_corners}",
     "Changes the size of (B, C, L) or (B, C, H, W); modes nearest, linear for (B, C, L), and bilinear for (B, C, H, "
     "W)."},
    {"MultiheadAttention", bound<multihead_attention>,
     "nn.MultiheadAttention(width, heads [, {dropout = 0, bias = true}])",
     "attention(query, key, value [, {key_padding_mask, attn_mask, is_causal}]) of sequences (B, T, width)."},
    {"TransformerEncoderLayer", bound<transformer_encoder_layer>,
     "nn.TransformerEncoderLayer(width, heads [, options])",
     "layer(x [, {src_key_padding_mask, src_mask, is_causal}]); options dim_feedforward, dropout, activation, "
     "layer_norm_eps, norm_first, bias as torch's."},
    {"Dropout", bound<dropout>, "nn.Dropout(p)", "Sets elements to zero with probability p in training."},
    {"ReLU", bound<activation<schema::Activation::kRelu>>, "nn.ReLU()", "x, or 0 where negative."},
    {"GELU", bound<activation<schema::Activation::kGelu>>, "nn.GELU()", "GELU, exact (erf)."},
    {"GELUTanh", bound<activation<schema::Activation::kGeluTanh>>, "nn.GELUTanh()", "GELU, tanh approximation."},
    {"SiLU", bound<activation<schema::Activation::kSilu>>, "nn.SiLU()", "x times its sigmoid."},
    {"LeakyReLU", bound<leaky_relu_module>, "nn.LeakyReLU([slope])", "x, or slope (0.01) times it where negative."},
    {"ELU", bound<elu_module>, "nn.ELU([alpha])", "x, or alpha (1) times exp(x) - 1 where negative."},
    {"Softplus", bound<softplus>, "nn.Softplus()", "log(1 + exp(x))."},
    {"Tanh", bound<activation<schema::Activation::kTanh>>, "nn.Tanh()", "Hyperbolic tangent."},
    {"Sigmoid", bound<activation<schema::Activation::kSigmoid>>, "nn.Sigmoid()", "1 / (1 + exp(-x))."},
    {"Identity", bound<activation<schema::Activation::kIdentity>>, "nn.Identity()", "x itself."},
    {"Flatten", bound<flatten>, "nn.Flatten()", "(B, ...) to (B, elements)."},
    {"Sequential", bound<sequential>, "nn.Sequential(module...)",
     "Applies modules or functions of a tensor one after the other; also nn.Sequential{module...}."},
    {"Module", bound<lua_module>, "nn.Module{name = module..., forward = function(self, x) ... end}",
     "A custom module; its submodules are named by their keys."},
};

// ---- methods of modules --------------------------------------------------------------------------------------------

nn::ModulePtr& module_argument(lua_State* state, int module_field) {
  nn::ModulePtr* module = module_test(state, module_field);
  if (module == nullptr) bad_argument(state, module_field, "a module");
  RUN_ASSERT(*module != nullptr);
  return *module;
}

// Converts tensors of 16 bits to f32 in the value at `index`, which is replaced. A plain table is replaced by a new
// table.
void raise_outputs(lua_State* state, int module_field, int depth) {
  constexpr int kDeepest = 4;  // nesting depth of tables
  if (is_tensor(state, module_field)) {
    push_tensor(state, nn::Autocast::raise_half(tensor_argument(state, module_field)));
    return lua_replace(state, module_field);
  }
  if (!lua_istable(state, module_field) || depth == kDeepest) return;
  luaL_checkstack(state, 4, nullptr);
  if (lua_getmetatable(state, module_field) != 0) return lua_pop(state, 1);
  lua_newtable(state);
  const int raised = lua_gettop(state);
  for (lua_pushnil(state); lua_next(state, module_field) != 0;) {
    raise_outputs(state, lua_gettop(state), depth + 1);
    lua_pushvalue(state, -2);
    lua_insert(state, -2);
    lua_rawset(state, raised);
  }
  lua_replace(state, module_field);
}

// module(x). A module written in Lua takes the arguments of its function.
int call_module(lua_State* state) {
  const nn::Module* module = module_argument(state, 1).get();  // owned by the stack
  Recording& recording = *Runtime::of(state).recording;
  const ModuleCall module_call(recording);
  if (const auto* in_lua = dynamic_cast<const LuaModule*>(module)) {
    lua_rotate(state, 2, in_lua->push_callee(state));
    lua_remove(state, 1);
    lua_call(state, lua_gettop(state) - 1, LUA_MULTRET);
    if (module_call.is_outermost() && recording.is_mixed())
      for (int result = lua_gettop(state); result > 0; --result) raise_outputs(state, result, 0);
    return lua_gettop(state);
  }
  if (const auto* attention = dynamic_cast<const nn::AttentionModule*>(module)) {
    recording_of(state, "the output of a module").mark_line(state);
    recording.set_caller(state);
    const Value x = tensor_argument(state, 2);
    const nn::AttentionCall call = attention_call(state, 3, x, attention->takes_keys());
    const Value y = attention->attend(recording.forward(), x, call);
    lua_settop(state, 0);
    return push_tensor(state, module_call.is_outermost() ? nn::Autocast::raise_half(y) : y);
  }
  RUN_CHECK(lua_isnoneornil(state, 3), ErrorKind::kRun, "{}: expected one argument, a tensor, got {}", module->text(),
            lua_gettop(state) - 1);
  recording_of(state, "the output of a module").mark_line(state);
  recording.set_caller(state);
  const Value y = module->forward(recording.forward(), tensor_argument(state, 2));
  lua_settop(state, 0);
  return push_tensor(state, module_call.is_outermost() ? nn::Autocast::raise_half(y) : y);
}

// Pushes a member: sequential[1] is the first one; sequential["0"] is the same one by its name in checkpoints.
int member(lua_State* state, std::span<const nn::ModulePtr> members) {
  lua_Integer number = 0;
  if (lua_type(state, 2) == LUA_TSTRING) {
    const std::string_view name = text_argument(state, 2);
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
    number = error == std::errc() && std::to_string(number) == name ? number + 1 : 0;
  } else if (lua_isinteger(state, 2)) {
    number = lua_tointeger(state, 2);
  }
  if (number >= 1 && number <= std::ssize(members))
    return push_module(state, members[static_cast<size_t>(number - 1)]), 1;
  const bool is_name = lua_type(state, 2) == LUA_TSTRING;
  fail(ErrorKind::kRun,
       "this nn.Sequential has no member {}{}{}; its members are [1] to [{}], named \"0\" to \"{}\" in states",
       is_name ? "\"" : "[", text_of(state, 2), is_name ? "\"" : "]", members.size(), members.size() - 1);
}

// #sequential
int length(lua_State* state) {
  const nn::Module& module = *module_argument(state, 1);
  if (const auto* in_lua = dynamic_cast<const LuaModule*>(&module)) {
    in_lua->push_table(state);
    lua_pushinteger(state, lua_istable(state, -1) ? static_cast<lua_Integer>(lua_rawlen(state, -1)) : 0);
  } else {
    lua_pushinteger(state, std::ssize(module.members()));
  }
  return 1;
}

constexpr std::string_view kTieHint =
    "to tie weights, use the other module's weight in forward (docs/from-xla.md#tied-weights)";

int no_module_assignment(lua_State* state) {
  fail(ErrorKind::kRun, "a module is read-only: '{}' cannot be set; {}", text_of(state, 2), kTieHint);
}

bool is_named(lua_State* state, int index, std::string_view name) {
  return lua_type(state, index) == LUA_TSTRING && text_argument(state, index) == name;
}

// Pushes module.weight, a member of nn.Sequential, or an entry of the table of a module written in Lua.
int module_field(lua_State* state) {
  const nn::Module& module = *module_argument(state, 1);
  if (const auto* in_lua = dynamic_cast<const LuaModule*>(&module)) {
    in_lua->push_table(state);
    lua_pushvalue(state, 2);
    lua_gettable(state, -2);
    if (!lua_isnil(state, -1) || !is_named(state, 2, "tie_weights")) return 1;
  }
  if (is_named(state, 2, "tie_weights")) fail(ErrorKind::kRun, "a module has no tie_weights(); {}", kTieHint);
  if (!module.members().empty()) return member(state, module.members());
  if (lua_type(state, 2) != LUA_TSTRING)
    fail(ErrorKind::kRun, "a module has no entry [{}]; only nn.Sequential has numbered members", text_of(state, 2));
  const std::string_view name = text_argument(state, 2);
  for (const auto& [own, id] : module.own_parameters()) {
    if (own != name) continue;
    push_tensor(state, recording_of(state, "a parameter", kTieHint).forward().parameter(id));
    return 1;
  }
  for (const auto& [own, id] : module.own_buffers()) {
    if (own != name) continue;
    push_tensor(state, recording_of(state, "a buffer").forward().buffer(id));
    return 1;
  }
  std::vector<std::string> names;
  for (const auto& [own, id] : module.own_parameters()) names.push_back(own);
  for (const auto& [own, id] : module.own_buffers()) names.push_back(own);
  fail_unknown("the module has no", name, names, names.empty() ? "it has no parameters; call it: module(x)" : "");
}

// Text of a module and its submodules, one per line: "nn.Sequential(\n (0): nn.ReLU()\n)".
class Structure {
 public:
  explicit Structure(const nn::Module& module) { add(module, ""); }

  std::string text;

 private:
  void add(const nn::Module& module, const std::string& indent) {
    text += module.text();
    const auto* const in_lua = dynamic_cast<const LuaModule*>(&module);
    const bool holds = in_lua != nullptr ? !in_lua->named_members().empty() : !module.members().empty();
    if (!holds) return;
    text += '(';
    if (in_lua != nullptr) {
      for (const auto& [name, member] : in_lua->named_members()) add_member(name, *member, indent);
    } else {
      for (size_t i = 0; i < module.members().size(); ++i) add_member(std::to_string(i), *module.members()[i], indent);
    }
    text += fmt::format("\n{})", indent);
  }

  // The number of lines is limited because a shared module is shown at each place where it is used.
  void add_member(const std::string& name, const nn::Module& member, const std::string& indent) {
    constexpr int kMaxLines = 1000;
    if (lines_ > kMaxLines) return;
    text += fmt::format("\n{}  ", indent);
    if (++lines_ > kMaxLines) {
      text += "...";
      return;
    }
    text += fmt::format("({}): ", name);
    add(member, indent + "  ");
  }

  int lines_ = 0;
};

int module_to_string(lua_State* state) {
  const std::string text = Structure(*module_argument(state, 1)).text;
  lua_pushlstring(state, text.data(), text.size());
  return 1;
}

int collect_module(lua_State* state) {
  module_argument(state, 1).~shared_ptr();
  return 0;
}

bool is_function(const TensorFunction& row) {
  return row.is_function;
}

std::vector<std::string> function_names() {
  std::vector<std::string> names;
  for (const TensorFunction& known : tensor_functions())
    if (known.is_function) names.emplace_back(known.name);
  return names;
}

int missing_function(lua_State* state) {
  fail_unknown("nn.functional has no", key_argument(state, "nn.functional"), function_names(),
               "docs/lua.md lists its entries");
}

int missing_constructor(lua_State* state) {
  std::vector<std::string> names = names_of(kModules);
  for (std::string& name : function_names()) names.push_back(std::move(name));
  fail_unknown("nn has no", key_argument(state, "nn"), names, "docs/lua.md lists its entries");
}

}  // namespace

std::span<const ModuleFunction> module_functions() {
  return kModules;
}

void push_module(lua_State* state, nn::ModulePtr module) {
  void* place = lua_newuserdatauv(state, sizeof(nn::ModulePtr), 0);
  new (place) nn::ModulePtr(std::move(module));
  luaL_setmetatable(state, kModuleName);
}

int push_made(lua_State* state, nn::ModulePtr module) {
  module->set_made_at(line_of_caller(state));
  push_module(state, std::move(module));
  return 1;
}

bool is_module(lua_State* state, int module_field) {
  return module_test(state, module_field) != nullptr;
}

nn::ModulePtr module_value(lua_State* state, int module_field, std::string_view what) {
  const nn::ModulePtr* module = module_test(state, module_field);
  RUN_CHECK(module != nullptr, ErrorKind::kRun, "{}: expected a module of nn, got {}", what,
            type_name(state, module_field));
  return *module;
}

nn::ModulePtr model_at_top(lua_State* state) {
  if (const nn::ModulePtr* module = module_test(state, -1)) return *module;
  RUN_CHECK(lua_istable(state, -1), ErrorKind::kRun,
            "the hook model returned {}, expected a module of nn or a table of them", type_name(state, -1));
  return std::make_shared<LuaModule>(state);
}

void open_modules(lua_State* state) {
  luaL_newmetatable(state, kModuleName);
  constexpr NamedFunction kEntries[] = {{"__call", bound<call_module>},
                                        {"__index", bound<module_field>},
                                        {"__newindex", bound<no_module_assignment>},
                                        {"__len", bound<length>},
                                        {"__tostring", bound<module_to_string>},
                                        {"__gc", collect_module}};
  set_functions(state, kEntries);
  protect_metatable(state);
  lua_pop(state, 1);
}

int open_nn(lua_State* state) {
  lua_newtable(state);
  set_functions(state, kModules);
  set_functions(state, tensor_functions(), is_function);
  lua_newtable(state);
  set_functions(state, tensor_functions(), is_function);
  open_library(state, "nn.functional", bound<missing_function>);
  lua_setfield(state, -2, "functional");
  return open_library(state, "nn", bound<missing_constructor>);
}

}  // namespace runner::lua
