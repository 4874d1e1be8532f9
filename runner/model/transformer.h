// PyTorch's modules of transformers, with its parameter names. Sequences are (B, T, E): batch first.
#pragma once

#include "runner/model/module.h"

namespace runner::nn {

// Arguments of a call in addition to the queries x.
struct AttentionCall {
  Value key = {}, value = {};  // (B, S, E); unset: x
  // Added to the scores, which are (B, heads, T, S); broadcasts except along S. Unset: every key is visible.
  Value mask = {};
  bool causal = false;
};

// A module that computes attention.
class AttentionModule : public Group {
 public:
  // As forward(), with arguments.
  Value attend(ForwardContext& context, Value x, const AttentionCall& call) const;
  // Whether a call may have keys and values of its own.
  virtual bool takes_keys() const = 0;

 private:
  virtual Value record_call(ForwardContext& context, Value x, const AttentionCall& call) const = 0;
  Value record(ForwardContext& context, Value x) const final { return record_call(context, x, {}); }
};

// torch.nn.MultiheadAttention without the average of the weights in the result: in_proj_weight (3 E, E), in_proj_bias,
// out_proj.weight, out_proj.bias. Throws Error(kRun) if the heads do not divide the width.
std::shared_ptr<AttentionModule> multihead_attention(int64_t width, int64_t heads, double dropout, bool bias);

struct EncoderLayerOptions {
  int64_t width, heads;
  int64_t feedforward = 2048;
  double dropout = 0.1;
  schema::Activation activation = schema::Activation::kRelu;
  double eps = kNormEpsilon;
  bool norm_first = false, bias = true;
};
// torch.nn.TransformerEncoderLayer: self_attn, linear1, linear2, norm1, norm2.
ModulePtr transformer_encoder_layer(const EncoderLayerOptions& options);

}  // namespace runner::nn
