// Texts that a language model continues: `runner generate`, and `generate` of a recipe.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "runner/data/text_codec.h"
#include "runner/train/loop/next_token.h"
#include "runner/train/loop/sampling.h"

namespace runner::train {

struct GenerationSpec {
  int64_t max_tokens = 100;
  Sampling sampling = {};
  uint64_t seed = 0;
};

// The options in `generate` of a recipe.
GenerationSpec generation_of(const schema::Generate& spec, const schema::Recipe& recipe);
// Returns the codec of the data of a recipe with `generate`. Throws Error(kRecipe), Error(kUsage) or Error(kData) if
// the model cannot generate while it trains, or if the prompt is wrong.
data::TextCodec checked_codec(const schema::Generate& spec, const StepBuilder& builder);

struct Generated {
  std::vector<int32_t> prompt, tokens;  // tokens: new ones, without the end token
  std::string text;                     // of the new tokens
  bool ended = false;                   // by the end token
  bool exceeds_context = false;         // the last tokens were computed from a part of the text
};

// Continues `prompt`, token by token. `on_text`: called with each part of the new text, in whole characters; may be
// empty. Throws like TextCodec::encode() and token_chances().
Generated generate(NextToken& model, const data::TextCodec& codec, std::string_view prompt, const GenerationSpec& spec,
                   const std::function<void(std::string_view part)>& on_text = {});

}  // namespace runner::train
