// nn.batch_norm and nn.group_norm: torch.nn.functional's.
#include "runner/model/norms.h"

#include "backends/ir/type_text.h"
#include "runner/lua/arguments.h"
#include "runner/lua/bind.h"
#include "runner/lua/tensor_arguments.h"
#include "runner/lua/tensor_functions.h"

namespace runner::lua::functions {

namespace {

void check_of_channels(Value of_channels, Value x, const char* name) {
  RUN_CHECK(!of_channels || of_channels.shape() == backends::Shape{x.shape()[1]}, ErrorKind::kRun,
            "{}: expected ({}), one number per channel, got {}", name, x.shape()[1], of_channels.type());
}

// x (B, C, …) and its weight and bias.
struct Affine {
  Value x, weight, bias;
};

Affine affine_arguments(lua_State* state, const OptionTable& options) {
  const Affine of{operand(state), tensor_option(state, options, "weight"), tensor_option(state, options, "bias")};
  RUN_CHECK(of.x.shape().rank() >= 2 && is_float(of.x.dtype()), ErrorKind::kRun,
            "{}: expected a tensor (B, C, ...) of floats, got {}", called_as(state), of.x.type());
  check_of_channels(of.weight, of.x, "weight");
  check_of_channels(of.bias, of.x, "bias");
  return of;
}

}  // namespace

int batch_norm(lua_State* state) {
  const OptionTable options(state, 4, {"weight", "bias", "training", "eps"});
  const auto [x, weight, bias] = affine_arguments(state, options);
  const double eps = options.number("eps", nn::kNormEpsilon);
  if (options.flag("training", false)) {
    const nn::ForwardContext& context = recording_of(state, "a tensor").forward();
    return push_tensor(state, nn::normalised_by_batch(context, x, weight, bias, eps));
  }
  const Value mean = tensor_argument(state, 2), variance = tensor_argument(state, 3);
  check_of_channels(mean, x, "running_mean");
  check_of_channels(variance, x, "running_var");
  return push_tensor(state, nn::normalised_by(x, mean, variance, weight, bias, eps));
}

int group_norm(lua_State* state) {
  const OptionTable options(state, 3, {"weight", "bias", "eps"});
  const auto [x, weight, bias] = affine_arguments(state, options);
  return push_tensor(state, nn::group_normalised(x, integer_argument(state, 2), weight, bias,
                                                 options.number("eps", nn::kNormEpsilon)));
}

}  // namespace runner::lua::functions
