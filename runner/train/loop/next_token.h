// Logits of the token after a text, computed by a language model. Not thread-safe.
//
// A model of the recipe keeps keys and values (key_cache.h), so that a text that is one token longer than the last one
// costs one token. The model of a hook computes the whole text each time, followed by padding, which its tokens must
// not see. Programs are compiled once for each capacity of the cache and for each number of tokens that begin a text.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <span>
#include <tuple>
#include <vector>

#include "backends/exec/backend.h"
#include "backends/ir/passes/passes.h"
#include "runner/train/engine/trainer.h"

namespace runner::train {

// Returns the flat buffers of the weights that evaluations of a trainer use, followed by the buffers of the model.
std::vector<backends::Buffer*> evaluated_weights(const Trainer& trainer);

class NextToken {
 public:
  // `weights`: the flat buffers of the model's parameters, and its buffers, in memory of `device`. All arguments, and
  // what they refer to, must outlive the object. Throws like check().
  NextToken(const StepBuilder& builder, backends::Device& device, std::vector<backends::Buffer*> weights);

  // Throws Error(kUsage) if the model is no language model.
  static void check(const StepBuilder& builder);

  // The model sees the last so many tokens of a text.
  int64_t context() const { return context_; }

  // Returns the logits of each token of the vocabulary; those of rows of the embedding without a token are left out.
  // Valid until the next call. `text`: at least one token.
  std::span<const float> logits_after(std::span<const int32_t> text);

  // Call it after the weights have changed.
  void forget();

 private:
  // A value that depends on the weights alone, such as their copy in bf16. It is computed once for all tokens.
  struct HoistedValue {
    backends::Program program;
    std::shared_ptr<backends::Executable> executable;
    std::shared_ptr<backends::Buffer> buffer;
    bool is_current = false;
  };
  struct Compiled {
    std::shared_ptr<backends::Executable> executable;
    std::vector<HoistedValue*> hoisted;  // its first states
    std::vector<backends::TensorType> caches;
    int logits = 0;  // index of the output
  };
  enum class Form { kFirst, kNext, kWhole };

  const Compiled& compiled(Form form, int64_t tokens);
  Compiled compile(Form form, int64_t tokens);
  backends::Program record(Form form, int64_t tokens) const;
  HoistedValue& find_or_add(backends::Program value);
  void compute(HoistedValue& value);
  void run(const Compiled& step, std::span<const int32_t> tokens, int64_t position);
  void begin(std::span<const int32_t> text);

  const StepBuilder& builder_;
  backends::Device& device_;
  const std::vector<backends::Buffer*> weights_;
  const int64_t context_;
  const bool has_cache_;
  std::map<std::tuple<Form, int64_t, int64_t>, Compiled> compiled_;  // by form, tokens and capacity
  std::list<HoistedValue> hoisted_;                                  // of all forms
  int64_t capacity_ = 0;                                             // of the caches
  std::vector<std::shared_ptr<backends::Buffer>> caches_;
  std::vector<int32_t> known_;  // the text in the caches
  std::vector<int64_t> ids_;
  std::vector<float> logits_;
};

}  // namespace runner::train
