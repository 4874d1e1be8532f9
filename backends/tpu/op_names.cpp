#include "backends/tpu/op_names.h"

#include <array>

namespace runner::backends::tpu {
namespace {

constexpr std::array<OpNames, kOpCount> kNames{{
    {Op::kInput, "xla::device_data", "parameter"},
    {Op::kConstant, "prim::Constant", "constant"},
    {Op::kNeg, "aten::neg", "negate"},
    {Op::kAbs, "aten::abs", "abs"},
    {Op::kSign, "aten::sign", "sign"},
    {Op::kExp, "aten::exp", "exponential"},
    {Op::kLog, "aten::log", "log"},
    {Op::kLog1p, "aten::log1p", "log-plus-one"},
    {Op::kSqrt, "aten::sqrt", "sqrt"},
    {Op::kRsqrt, "aten::rsqrt", "rsqrt"},
    {Op::kTanh, "aten::tanh", "tanh"},
    {Op::kSigmoid, "aten::sigmoid", "logistic"},
    {Op::kErf, "aten::erf", "erf"},
    {Op::kRelu, "aten::relu", ""},
    {Op::kGelu, "aten::gelu", ""},
    {Op::kGeluTanh, "aten::gelu", ""},
    {Op::kSilu, "aten::silu", ""},
    {Op::kIsFinite, "aten::isfinite", "is-finite"},
    {Op::kNot, "aten::logical_not", "not"},
    {Op::kCast, "xla::cast", "convert"},
    {Op::kAdd, "aten::add", "add"},
    {Op::kSub, "aten::sub", "subtract"},
    {Op::kMul, "aten::mul", "multiply"},
    {Op::kDiv, "aten::div", "divide"},
    {Op::kPow, "aten::pow", "power"},
    {Op::kMin, "aten::minimum", "minimum"},
    {Op::kMax, "aten::maximum", "maximum"},
    {Op::kEq, "aten::eq", "compare"},
    {Op::kNe, "aten::ne", "compare"},
    {Op::kLt, "aten::lt", "compare"},
    {Op::kLe, "aten::le", "compare"},
    {Op::kGt, "aten::gt", "compare"},
    {Op::kGe, "aten::ge", "compare"},
    {Op::kAnd, "aten::logical_and", "and"},
    {Op::kOr, "aten::logical_or", "or"},
    {Op::kWhere, "aten::where", "select"},
    {Op::kSum, "aten::sum", "reduce"},
    {Op::kReduceMax, "aten::amax", "reduce"},
    {Op::kReduceMin, "aten::amin", "reduce"},
    {Op::kArgMax, "aten::argmax", ""},
    {Op::kReshape, "aten::view", "reshape"},
    {Op::kDetach, "aten::detach", "copy"},
    {Op::kPermute, "aten::permute", "transpose"},
    {Op::kExpand, "aten::expand", "broadcast"},
    {Op::kSlice, "aten::slice", "slice"},
    {Op::kPad, "aten::constant_pad_nd", "pad"},
    {Op::kConcat, "aten::cat", "concatenate"},
    {Op::kGather, "aten::gather", ""},
    {Op::kScatterAdd, "aten::scatter_add", ""},
    {Op::kOneHot, "aten::one_hot", ""},
    {Op::kEmbedding, "aten::embedding", ""},
    {Op::kEmbeddingGrad, "aten::embedding_dense_backward", ""},
    {Op::kMatmul, "aten::matmul", "dot"},
    {Op::kSoftmax, "aten::softmax", ""},
    {Op::kLogSoftmax, "aten::log_softmax", ""},
    {Op::kCrossEntropy, "aten::cross_entropy_loss", ""},
    {Op::kCrossEntropyGrad, "aten::cross_entropy_loss_backward", ""},
    {Op::kLayerNorm, "aten::native_layer_norm", ""},
    {Op::kLayerNormGradX, "aten::native_layer_norm_backward", ""},
    {Op::kLayerNormGradGamma, "aten::native_layer_norm_backward", ""},
    {Op::kDropoutMask, "aten::bernoulli", ""},
    {Op::kRandomUniform, "aten::uniform", ""},
    {Op::kRandomNormal, "aten::normal", ""},
    {Op::kAllReduce, "xla::cross_replica_sum", "all-reduce"},
}};

constexpr bool in_order() {
  for (int op = 0; op < kOpCount; ++op)
    if (kNames[static_cast<size_t>(op)].op != static_cast<Op>(op)) return false;
  return true;
}
static_assert(in_order());

}  // namespace

const OpNames& names_of(Op op) {
  return kNames[static_cast<size_t>(op)];
}

std::string_view ir_name(const Program& program, ValueId id) {
  const Op op = program.node(id).op;
  return op == Op::kMatmul && program.type(id).shape.rank() == 2 ? kIrMm : names_of(op).ir;
}

}  // namespace runner::backends::tpu
