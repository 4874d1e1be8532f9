// Reverse-mode derivative rules, one per differentiable op; named in the op table's vjp column.
//
// A rule records the gradients of the operands of `result` in terms of `grad`, the gradient of `result`.
#pragma once

#include <span>

#include "backends/ir/program.h"

namespace runner::backends::derivatives {

using Grads = std::span<Value>;

void neg(Value result, Value grad, Grads grads);
void abs(Value result, Value grad, Grads grads);
void exp(Value result, Value grad, Grads grads);
void log(Value result, Value grad, Grads grads);
void log1p(Value result, Value grad, Grads grads);
void sqrt(Value result, Value grad, Grads grads);
void rsqrt(Value result, Value grad, Grads grads);
void tanh(Value result, Value grad, Grads grads);
void sigmoid(Value result, Value grad, Grads grads);
void erf(Value result, Value grad, Grads grads);
void relu(Value result, Value grad, Grads grads);
void gelu(Value result, Value grad, Grads grads);
void gelu_tanh(Value result, Value grad, Grads grads);
void silu(Value result, Value grad, Grads grads);
void cast(Value result, Value grad, Grads grads);

void add(Value result, Value grad, Grads grads);
void sub(Value result, Value grad, Grads grads);
void mul(Value result, Value grad, Grads grads);
void div(Value result, Value grad, Grads grads);
void pow(Value result, Value grad, Grads grads);
void min(Value result, Value grad, Grads grads);  // equal operands share the gradient, as torch.minimum
void max(Value result, Value grad, Grads grads);
void where(Value result, Value grad, Grads grads);

void sum(Value result, Value grad, Grads grads);
void reduce_extremum(Value result, Value grad, Grads grads);  // equal elements share the gradient, as torch.amax
void reshape(Value result, Value grad, Grads grads);
void permute(Value result, Value grad, Grads grads);
void expand(Value result, Value grad, Grads grads);
void slice(Value result, Value grad, Grads grads);
void pad(Value result, Value grad, Grads grads);
void concat(Value result, Value grad, Grads grads);

void gather(Value result, Value grad, Grads grads);
void scatter_add(Value result, Value grad, Grads grads);
void embedding(Value result, Value grad, Grads grads);

void matmul(Value result, Value grad, Grads grads);
void softmax(Value result, Value grad, Grads grads);
void log_softmax(Value result, Value grad, Grads grads);
void cross_entropy(Value result, Value grad, Grads grads);
void layer_norm(Value result, Value grad, Grads grads);

void all_reduce(Value result, Value grad, Grads grads);  // of a sum; what every replica's loss depends on

}  // namespace runner::backends::derivatives
