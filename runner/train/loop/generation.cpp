#include "runner/train/loop/generation.h"

#include <optional>

#include <fmt/format.h>

#include "runner/text/text_stream.h"

namespace runner::train {
namespace {

// The text of new tokens: that of a tokenizer, or token ids.
class NewText {
 public:
  // `before`: tokens that the new ones continue; empty at the beginning of a text.
  NewText(const data::TextCodec& codec, std::span<const int32_t> before) {
    if (codec.tokenizer() != nullptr) stream_.emplace(*codec.tokenizer(), before);
  }
  std::string add(int32_t token) { return stream_ ? stream_->add(token) : fmt::format(" {}", token); }
  std::string finish() { return stream_ ? stream_->finish() : ""; }

 private:
  std::optional<text::TextStream> stream_;
};

}  // namespace

GenerationSpec generation_of(const schema::Generate& spec, const schema::Recipe& recipe) {
  return {.max_tokens = spec.max_tokens,
          .sampling = {.temperature = spec.temperature, .top_k = spec.top_k, .top_p = spec.top_p},
          .seed = static_cast<uint64_t>(spec.seed.value_or(recipe.seed))};
}

// The model of a hook would be recorded in the middle of a training, which the hook could notice.
data::TextCodec checked_codec(const schema::Generate& spec, const StepBuilder& builder) {
  RUN_CHECK(builder.recipe().model.type != schema::ModelType::kHook, ErrorKind::kRecipe,
            "generate needs a model of the recipe, but that of this one is made by the hook; use `runner generate RUN` "
            "after the training");
  return about_key("generate", [&] {
    NextToken::check(builder);
    data::TextCodec codec(builder.encoding(), builder.recipe().data);
    try {
      codec.encode(spec.prompt);
    } catch (Error& error) {
      throw error.note("while reading generate.prompt");
    }
    return codec;
  });
}

Generated generate(NextToken& model, const data::TextCodec& codec, std::string_view prompt, const GenerationSpec& spec,
                   const std::function<void(std::string_view part)>& on_text) {
  Generated made{.prompt = codec.encode(prompt), .tokens = {}, .text = {}};
  const std::optional<int32_t> end = codec.end_token();
  NewText text(codec, prompt.empty() ? std::span<const int32_t>() : made.prompt);
  const auto add = [&](const std::string& part) {
    made.text += part;
    if (on_text && !part.empty()) on_text(part);
  };
  std::vector<int32_t> all = made.prompt;
  while (std::ssize(made.tokens) < spec.max_tokens) {
    made.exceeds_context = made.exceeds_context || std::ssize(all) > model.context();
    const int32_t token = choose_token(model.logits_after(all), spec.sampling, spec.seed, std::ssize(made.tokens));
    made.ended = token == end;
    if (made.ended) break;
    made.tokens.push_back(token);
    all.push_back(token);
    add(text.add(token));
  }
  add(text.finish());
  return made;
}

}  // namespace runner::train
