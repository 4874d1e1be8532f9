// Constructors of nn.Conv2d, nn.MaxPool2d, nn.Upsample and the like. The functions nn.conv2d, nn.max_pool2d, … are in
// tensor_functions.h.
//
// `axes`: spatial axes, 1 or 2. Sizes are an integer for all axes or a list with one for each.
#pragma once

struct lua_State;

namespace runner::lua::constructors {

// (in, out, kernel [, {stride, padding, dilation, groups, bias}]); a padding may be "same" or "valid".
template <int axes>
int conv(lua_State* state);
// (in, out, kernel [, {stride, padding, output_padding, dilation, groups, bias}])
template <int axes>
int conv_transpose(lua_State* state);
// (kernel [, {stride, padding, dilation, ceil_mode}])
template <int axes>
int max_pool(lua_State* state);
// (kernel [, {stride, padding, ceil_mode, count_include_pad}])
template <int axes>
int avg_pool(lua_State* state);
// (size)
template <int axes>
int adaptive_avg_pool(lua_State* state);
template <int axes>
int adaptive_max_pool(lua_State* state);
// {size or scale_factor, mode, align_corners}
int upsample(lua_State* state);

}  // namespace runner::lua::constructors
