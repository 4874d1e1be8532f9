#include "runner/lua/convolution.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <lua.hpp>

#include "backends/ir/type_text.h"
#include "runner/lua/arguments.h"
#include "runner/lua/bind.h"
#include "runner/lua/modules.h"
#include "runner/lua/recording.h"
#include "runner/lua/tensor_arguments.h"
#include "runner/lua/tensor_functions.h"
#include "runner/model/convolution.h"

namespace runner::lua {
namespace {

namespace ops = backends::ops;
using backends::Op;
using backends::Pooling;
using nn::ConvOptions;
using nn::Sizes;

// ---- sizes ---------------------------------------------------------------------------------------------------------

// "Conv2d: argument 3"
std::string argument_name(lua_State* state, int index) {
  return fmt::format("{}: argument {}", called_as(state), argument_number(state, index));
}
// "Conv2d: stride"
std::string option_name(lua_State* state, std::string_view option) {
  return fmt::format("{}: {}", called_as(state), option);
}

// A value of a wrong type or with a fraction, for messages: "string" or "1.5".
std::string wrong_value(lua_State* state, int index) {
  return lua_type(state, index) == LUA_TNUMBER ? text_of(state, index) : std::string(type_name(state, index));
}

// Sums and products of two sizes stay below the limit of int64_t.
int64_t checked_size(int64_t size, int64_t least, std::string_view name) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  RUN_CHECK(size >= least, ErrorKind::kRun, "{} is {}, expected at least {}", name, size, least);
  RUN_CHECK(size <= kMost, ErrorKind::kRun, "{} is {}, expected at most {}", name, size, kMost);
  return size;
}

// Calls `read` for each entry of the list at `index`, with the entry at the top of the stack.
template <class Read>
void for_each_entry(lua_State* state, int index, const std::string& name, const Read& read) {
  const int64_t size = list_size(state, index, name);
  for (lua_Integer i = 1; i <= size; ++i) {
    lua_rawgeti(state, index, i);
    read(fmt::format("{}[{}]", name, i));
    lua_pop(state, 1);
  }
}

// Reads an integer or a list of integers of at least `least`. `name`: as messages begin.
Sizes size_list(lua_State* state, int index, int64_t least, const std::string& name) {
  if (const std::optional<int64_t> size = integer_at(state, index)) return {checked_size(*size, least, name)};
  RUN_CHECK(lua_istable(state, index), ErrorKind::kRun, "{} is {}, expected an integer or a list of integers", name,
            wrong_value(state, index));
  Sizes sizes;
  for_each_entry(state, index, name, [&](const std::string& entry) {
    const std::optional<int64_t> size = integer_at(state, -1);
    RUN_CHECK(size.has_value(), ErrorKind::kRun, "{} is {}, expected an integer", entry, wrong_value(state, -1));
    sizes.push_back(checked_size(*size, least, entry));
  });
  return sizes;
}

// The same with a size for each axis.
template <int axes>
Sizes sizes_at(lua_State* state, int index, int64_t least, const std::string& name) {
  const bool is_list = lua_istable(state, index);
  Sizes sizes = size_list(state, index, least, name);
  RUN_CHECK(!is_list || sizes.size() == axes, ErrorKind::kRun, "{}: expected {}, got {}", name,
            axes == 1 ? "1 entry" : "2 entries", sizes.size());
  sizes.resize(axes, sizes[0]);
  return sizes;
}

template <int axes>
Sizes sizes_argument(lua_State* state, int index) {
  return sizes_at<axes>(state, index, 1, argument_name(state, index));
}

// Empty if the option is missing.
template <int axes>
Sizes sizes_option(lua_State* state, const OptionTable& options, const char* option, int64_t least = 1) {
  if (!options.push(option)) return {};
  Sizes sizes = sizes_at<axes>(state, lua_gettop(state), least, option_name(state, option));
  lua_pop(state, 1);
  return sizes;
}

// ---- convolution ---------------------------------------------------------------------------------------------------

// Reads stride, padding, dilation and groups, which modules and functions have.
template <int axes>
void read_conv(lua_State* state, const OptionTable& options, ConvOptions& conv) {
  conv.stride = sizes_option<axes>(state, options, "stride");
  conv.dilation = sizes_option<axes>(state, options, "dilation");
  conv.groups = checked_size(options.integer("groups", 1), 1, option_name(state, "groups"));
}

// A padding in numbers, or "same" or "valid".
template <int axes>
void read_padding(lua_State* state, const OptionTable& options, ConvOptions& conv) {
  if (!options.push("padding")) return;
  const bool is_word = lua_type(state, -1) == LUA_TSTRING;
  lua_pop(state, 1);
  if (!is_word) {
    conv.padding = sizes_option<axes>(state, options, "padding", 0);
    return;
  }
  const std::string word = options.text("padding", "");
  RUN_CHECK(word == "same" || word == "valid", ErrorKind::kRun,
            "{} is '{}', expected same, valid, an integer or a list of integers", option_name(state, "padding"), word);
  conv.same = word == "same";
}

template <int axes>
void read_output_padding(lua_State* state, const OptionTable& options, ConvOptions& conv) {
  conv.padding = sizes_option<axes>(state, options, "padding", 0);
  conv.output_padding = sizes_option<axes>(state, options, "output_padding", 0);
}

// (in, out, kernel)
template <int axes>
ConvOptions conv_arguments(lua_State* state) {
  const auto channels = [&](int index) {
    return checked_size(integer_argument(state, index), 1, argument_name(state, index));
  };
  return {.in = channels(1), .out = channels(2), .kernel = sizes_argument<axes>(state, 3)};
}

// The tensors of nn.conv2d or nn.conv_transpose2d, in the precision of convolutions.
struct ConvTensors {
  Value x, weight, bias;
};

template <int axes>
ConvTensors conv_tensors(lua_State* state, const OptionTable& options, bool is_transposed) {
  const nn::Autocast& autocast = record_here(state).forward().autocast;
  const Value x = tensor_argument(state, 1), weight = tensor_argument(state, 2),
              bias = tensor_option(state, options, "bias");
  constexpr int kRank = 2 + axes;
  RUN_CHECK(x.shape().rank() == kRank && weight.shape().rank() == kRank, ErrorKind::kRun,
            "{}: expected tensors (B, C, {}) and ({}, {}), got {} and {}", called_as(state), axes == 1 ? "L" : "H, W",
            is_transposed ? "C, O / groups" : "O, C / groups", axes == 1 ? "K" : "K, K", x.type(), weight.type());
  const auto operand = [&](Value value) { return autocast.operand(Op::kConv, value); };
  return {operand(x), operand(weight), bias ? operand(bias) : bias};
}

// The sizes of the kernel are those of the weight.
void read_kernel(Value weight, ConvOptions& conv) {
  const backends::Shape shape = weight.shape();
  conv.kernel.assign(shape.dims().begin() + 2, shape.dims().end());
}

int push_with_bias(lua_State* state, Value y, Value bias) {
  if (!bias) return push_tensor(state, y);
  const int64_t channels = y.shape()[1];
  RUN_CHECK(bias.shape() == backends::Shape{channels}, ErrorKind::kRun,
            "{} is {}, expected ({}), one number per channel", option_name(state, "bias"), bias.type(), channels);
  return push_tensor(state, nn::with_channel_bias(y, bias));
}

// ---- pooling -------------------------------------------------------------------------------------------------------

// Reads the windows of pooling: a kernel at `index`, then stride, padding, dilation and ceil_mode.
template <int axes>
std::vector<Pooling> pools_of(lua_State* state, int index, const OptionTable& options, bool takes_dilation) {
  const Sizes kernel = sizes_argument<axes>(state, index), stride = sizes_option<axes>(state, options, "stride"),
              padding = sizes_option<axes>(state, options, "padding", 0),
              dilation = takes_dilation ? sizes_option<axes>(state, options, "dilation") : Sizes{};
  const bool ceil_mode = options.flag("ceil_mode", false);
  std::vector<Pooling> pools;
  for (size_t i = 0; i < axes; ++i)
    pools.push_back({.size = kernel[i],
                     .stride = stride.empty() ? kernel[i] : stride[i],
                     .padding = padding.empty() ? 0 : padding[i],
                     .dilation = dilation.empty() ? 1 : dilation[i],
                     .ceil_mode = ceil_mode});
  return pools;
}

OptionTable max_pool_options(lua_State* state, int index) {
  return {state, index, {"stride", "padding", "dilation", "ceil_mode"}};
}
OptionTable avg_pool_options(lua_State* state, int index) {
  return {state, index, {"stride", "padding", "ceil_mode", "count_include_pad"}};
}

// ---- interpolation -------------------------------------------------------------------------------------------------

double checked_factor(lua_State* state, int index, const std::string& name) {
  RUN_CHECK(lua_type(state, index) == LUA_TNUMBER, ErrorKind::kRun, "{} is {}, expected a number or a list of numbers",
            name, type_name(state, index));
  const double factor = lua_tonumber(state, index);
  RUN_CHECK(std::isfinite(factor) && factor > 0, ErrorKind::kRun, "{} is {}, expected a number above 0", name,
            shown(factor));
  return factor;
}

// Reads a number, or a list of numbers.
std::vector<double> factors_at(lua_State* state, int index, const std::string& name) {
  if (!lua_istable(state, index)) return {checked_factor(state, index, name)};
  std::vector<double> factors;
  for_each_entry(state, index, name,
                 [&](const std::string& entry) { factors.push_back(checked_factor(state, -1, entry)); });
  return factors;
}

nn::Interpolation mode_of(lua_State* state, const OptionTable& options) {
  const std::string mode = options.text("mode", "nearest");
  if (mode == "nearest") return nn::Interpolation::kNearest;
  if (mode == "linear") return nn::Interpolation::kLinear;
  RUN_CHECK(mode == "bilinear", ErrorKind::kRun, "{} is '{}', expected nearest, linear or bilinear",
            option_name(state, "mode"), mode);
  return nn::Interpolation::kBilinear;
}

// Options of nn.Upsample and nn.interpolate in the table at `index`.
nn::InterpolateOptions interpolate_options(lua_State* state, int index) {
  const OptionTable options(state, index, {"size", "scale_factor", "mode", "align_corners"});
  nn::InterpolateOptions by{.mode = mode_of(state, options), .align_corners = options.flag("align_corners", false)};
  const bool has_size = options.push("size");
  if (has_size) {
    by.sizes = size_list(state, lua_gettop(state), 1, option_name(state, "size"));
    lua_pop(state, 1);
  }
  const bool has_factor = options.push("scale_factor");
  if (has_factor) {
    by.factors = factors_at(state, lua_gettop(state), option_name(state, "scale_factor"));
    lua_pop(state, 1);
  }
  RUN_CHECK(has_size != has_factor, ErrorKind::kRun, "{}: expected size or scale_factor, got {}", called_as(state),
            has_size ? "both" : "none");
  const size_t numbers = by.sizes.size() + by.factors.size();
  RUN_CHECK(numbers == 1 || numbers == 2, ErrorKind::kRun, "{}: expected 1 or 2 entries, got {}",
            option_name(state, has_size ? "size" : "scale_factor"), numbers);
  RUN_CHECK(!by.align_corners || by.mode != nn::Interpolation::kNearest, ErrorKind::kRun,
            "{}: align_corners is for the modes linear and bilinear", called_as(state));
  return by;
}

}  // namespace

// ---- modules -------------------------------------------------------------------------------------------------------

namespace constructors {

template <int axes>
int conv(lua_State* state) {
  ConvOptions conv = conv_arguments<axes>(state);
  const OptionTable options(state, 4, {"stride", "padding", "dilation", "groups", "bias"});
  read_conv<axes>(state, options, conv);
  read_padding<axes>(state, options, conv);
  conv.bias = options.flag("bias", true);
  return push_made(state, nn::conv(conv));
}

template <int axes>
int conv_transpose(lua_State* state) {
  ConvOptions conv = conv_arguments<axes>(state);
  const OptionTable options(state, 4, {"stride", "padding", "output_padding", "dilation", "groups", "bias"});
  read_conv<axes>(state, options, conv);
  read_output_padding<axes>(state, options, conv);
  conv.bias = options.flag("bias", true);
  return push_made(state, nn::conv_transpose(conv));
}

template <int axes>
int max_pool(lua_State* state) {
  return push_made(state, nn::max_pool(pools_of<axes>(state, 1, max_pool_options(state, 2), true)));
}

template <int axes>
int avg_pool(lua_State* state) {
  const OptionTable options = avg_pool_options(state, 2);
  return push_made(state,
                   nn::avg_pool(pools_of<axes>(state, 1, options, false), options.flag("count_include_pad", true)));
}

template <int axes>
int adaptive_avg_pool(lua_State* state) {
  return push_made(state, nn::adaptive_avg_pool(sizes_argument<axes>(state, 1)));
}

template <int axes>
int adaptive_max_pool(lua_State* state) {
  return push_made(state, nn::adaptive_max_pool(sizes_argument<axes>(state, 1)));
}

int upsample(lua_State* state) {
  return push_made(state, nn::upsample(interpolate_options(state, 1)));
}

template int conv<1>(lua_State*);
template int conv<2>(lua_State*);
template int conv_transpose<1>(lua_State*);
template int conv_transpose<2>(lua_State*);
template int max_pool<1>(lua_State*);
template int max_pool<2>(lua_State*);
template int avg_pool<1>(lua_State*);
template int avg_pool<2>(lua_State*);
template int adaptive_avg_pool<1>(lua_State*);
template int adaptive_avg_pool<2>(lua_State*);
template int adaptive_max_pool<1>(lua_State*);
template int adaptive_max_pool<2>(lua_State*);

}  // namespace constructors

// ---- functions -----------------------------------------------------------------------------------------------------

namespace functions {

template <int axes>
int conv(lua_State* state) {
  const OptionTable options(state, 3, {"bias", "stride", "padding", "dilation", "groups"});
  const ConvTensors tensors = conv_tensors<axes>(state, options, /*is_transposed=*/false);
  ConvOptions conv;
  read_kernel(tensors.weight, conv);
  read_conv<axes>(state, options, conv);
  read_padding<axes>(state, options, conv);
  return push_with_bias(state, from_one([&] { return nn::convolved(tensors.x, tensors.weight, conv); }), tensors.bias);
}

template <int axes>
int conv_transpose(lua_State* state) {
  const OptionTable options(state, 3, {"bias", "stride", "padding", "output_padding", "dilation", "groups"});
  const ConvTensors tensors = conv_tensors<axes>(state, options, /*is_transposed=*/true);
  ConvOptions conv;
  read_kernel(tensors.weight, conv);
  read_conv<axes>(state, options, conv);
  read_output_padding<axes>(state, options, conv);
  return push_with_bias(state, from_one([&] { return nn::transposed_convolved(tensors.x, tensors.weight, conv); }),
                        tensors.bias);
}

template <int axes>
int max_pool(lua_State* state) {
  const Value x = operand(state);
  const std::vector<Pooling> pools = pools_of<axes>(state, 2, max_pool_options(state, 3), true);
  return push_tensor(state, from_one([&] { return ops::max_pool(x, pools); }));
}

template <int axes>
int avg_pool(lua_State* state) {
  const Value x = operand(state);
  const OptionTable options = avg_pool_options(state, 3);
  const std::vector<Pooling> pools = pools_of<axes>(state, 2, options, false);
  const bool counts_padding = options.flag("count_include_pad", true);
  return push_tensor(state, from_one([&] { return ops::avg_pool(x, pools, counts_padding); }));
}

template <int axes>
int adaptive_avg_pool(lua_State* state) {
  const Value x = operand(state);
  const Sizes sizes = sizes_argument<axes>(state, 2);
  return push_tensor(state, from_one([&] { return ops::adaptive_avg_pool(x, sizes); }));
}

template <int axes>
int adaptive_max_pool(lua_State* state) {
  const Value x = operand(state);
  const Sizes sizes = sizes_argument<axes>(state, 2);
  return push_tensor(state, from_one([&] { return ops::adaptive_max_pool(x, sizes); }));
}

int interpolate(lua_State* state) {
  const Value x = operand(state);
  const nn::InterpolateOptions by = interpolate_options(state, 2);
  return push_tensor(state, from_one([&] { return nn::interpolated(x, by); }));
}

template int conv<1>(lua_State*);
template int conv<2>(lua_State*);
template int conv_transpose<1>(lua_State*);
template int conv_transpose<2>(lua_State*);
template int max_pool<1>(lua_State*);
template int max_pool<2>(lua_State*);
template int avg_pool<1>(lua_State*);
template int avg_pool<2>(lua_State*);
template int adaptive_avg_pool<1>(lua_State*);
template int adaptive_avg_pool<2>(lua_State*);
template int adaptive_max_pool<1>(lua_State*);
template int adaptive_max_pool<2>(lua_State*);

}  // namespace functions
}  // namespace runner::lua
