// The functions of tensors in Lua, apart from operators and methods that tensor.cpp defines. tensor.cpp has the table
// of all of them.
#pragma once

struct lua_State;

namespace runner::lua {

// Create tensors of numbers.
namespace creation {

int tensor(lua_State* state);
int full(lua_State* state);
int full_like(lua_State* state);
int zeros(lua_State* state);
int ones(lua_State* state);
int zeros_like(lua_State* state);
int ones_like(lua_State* state);
int arange(lua_State* state);
int eye(lua_State* state);
int rand(lua_State* state);
int randn(lua_State* state);

}  // namespace creation

// Move elements without computing.
namespace layout {

int reshape(lua_State* state);
int flatten(lua_State* state);
int transpose(lua_State* state);
int t(lua_State* state);  // transpose() without axes: the number of arguments is registered by function
int permute(lua_State* state);
int expand(lua_State* state);
int unsqueeze(lua_State* state);
int squeeze(lua_State* state);
int slice(lua_State* state);
int concat(lua_State* state);
int stack(lua_State* state);
int chunk(lua_State* state);
int pad(lua_State* state);
int tril(lua_State* state);
int triu(lua_State* state);

}  // namespace layout

// Losses of `nn`: functions of predictions, targets and a table of options. They compute in f32 for any precision of
// the model, and return the mean unless `reduction` is given.
namespace losses {

// (logits (N, C), labels (N) [, {reduction, ignore_index, label_smoothing, weight}]). With class weights, the mean is
// weighted as in torch.
int cross_entropy(lua_State* state);

// (prediction, target of the same shape [, {reduction}])
int mse(lua_State* state);
int l1(lua_State* state);
int huber(lua_State* state);  // also {delta}
int bce_with_logits(lua_State* state);

}  // namespace losses

namespace functions {

// (q, k, v [, {attn_mask, dropout_p, is_causal, scale}]). Dropout applies in training only.
int scaled_dot_product_attention(lua_State* state);
// (x, positions [, theta])
int rotary(lua_State* state);
// (x, running_mean, running_var [, {weight, bias, training, eps}]). In training the means may be nil.
int batch_norm(lua_State* state);
// (x, groups [, {weight, bias, eps}])
int group_norm(lua_State* state);

// Convolution and pooling of x (B, C, L) or (B, C, H, W), with one or two spatial axes: torch.nn.functional's.
// (x, weight [, {bias, stride, padding, dilation, groups}])
template <int axes>
int conv(lua_State* state);
// (x, weight [, {bias, stride, padding, output_padding, dilation, groups}])
template <int axes>
int conv_transpose(lua_State* state);
// (x, kernel [, {stride, padding, dilation, ceil_mode}])
template <int axes>
int max_pool(lua_State* state);
// (x, kernel [, {stride, padding, ceil_mode, count_include_pad}])
template <int axes>
int avg_pool(lua_State* state);
// (x, size)
template <int axes>
int adaptive_avg_pool(lua_State* state);
template <int axes>
int adaptive_max_pool(lua_State* state);
// (x, {size or scale_factor, mode, align_corners})
int interpolate(lua_State* state);

}  // namespace functions

// Queries of a tensor: its shape and dtype, and its values, which are computed on demand.
namespace queries {

int shape(lua_State* state);
int size(lua_State* state);
int dim(lua_State* state);
int numel(lua_State* state);
int dtype(lua_State* state);
int tolist(lua_State* state);
int item(lua_State* state);
int to_string(lua_State* state);
int length(lua_State* state);

}  // namespace queries

}  // namespace runner::lua
