// Logits of the next token: with and without a cache, of models of recipes and of hooks; texts made of them.
#include "runner/train/loop/next_token.h"

#include <memory>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "backends/exec/cpu_device.h"
#include "runner/data/load.h"
#include "runner/lua/hook_file.h"
#include "runner/train/loop/generation.h"
#include "schema/recipe/recipe_reader.h"
#include "tests/golden/golden.h"
#include "tests/support/paths.h"
#include "tests/support/temp_folder.h"

namespace runner::train {
namespace {

// The untrained model of a recipe file.
class Language {
 public:
  explicit Language(const std::string& file)
      : recipe_(schema::read_recipe(file).recipe),
        hooks_(recipe_.hooks.empty() ? nullptr : lua::hooks_maker()(recipe_)),
        data_(data::load(recipe_)),
        device_(backends::make_cpu_device(2)),
        trainer_(recipe_, data_.encoding, device_, hooks_.get()) {
    trainer_.allocate();
  }

  NextToken next() { return {trainer_.builder(), device_, evaluated_weights(trainer_)}; }
  void negate_weights() {
    for (backends::Buffer* const buffer : evaluated_weights(trainer_)) {
      std::vector<float> values(buffer->bytes() / sizeof(float));
      device_.read(*buffer, 0, std::as_writable_bytes(std::span(values)));
      for (float& value : values) value = -value;
      device_.write(*buffer, 0, std::as_bytes(std::span(values)));
    }
  }
  data::TextCodec codec() const { return {data_.encoding, recipe_.data}; }
  int64_t vocabulary() const { return data_.encoding.vocabulary; }

 private:
  const schema::Recipe recipe_;
  const std::unique_ptr<Hooks> hooks_;
  const data::Data data_;
  backends::ModelledDevice device_;
  Trainer trainer_;
};

std::vector<int32_t> some_tokens(int64_t count, int64_t vocabulary) {
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < count; ++i) ids.push_back(static_cast<int32_t>((i * i * 7 + i * 3 + 5) % vocabulary));
  return ids;
}

void expect_near(std::span<const float> got, std::span<const float> want, float tolerance) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(got[i], want[i], tolerance) << i;
}

// At every place of a text, token by token and as a whole; the text of some cases fills the context.
TEST(NextTokenLogits, AreThoseOfPyTorch) {
  for (const testing::Golden& item : testing::Golden::load("language_models.json").cases()) {
    SCOPED_TRACE(item.name());
    Language language(support::source_path("tests/golden/language/" + item.name() + ".yaml"));
    NextToken cached = language.next(), whole = language.next();
    std::vector<int32_t> ids;
    for (const int64_t id : item["ids"].integers()) ids.push_back(static_cast<int32_t>(id));
    const std::vector<float> want = item["logits"].tensor().as<float>();
    const auto width = static_cast<size_t>(language.vocabulary());
    for (size_t size = 1; size <= ids.size(); ++size) {
      SCOPED_TRACE(size);
      const auto text = std::span(ids).first(size);
      const auto row = std::span(want).subspan((size - 1) * width, width);
      expect_near(cached.logits_after(text), row, 1e-5F);
      whole.forget();
      expect_near(whole.logits_after(text), row, 1e-5F);
    }
  }
}

class LettersTest : public ::testing::Test {
 protected:
  // Characters a to z. `model`: a section, or that of the hook `h.lua`.
  std::string recipe(const std::string& model, int64_t sequence) const {
    std::string letters;
    for (int i = 0; i < 400; ++i) letters += static_cast<char>('a' + (i * i + i / 26) % 26);
    support::write_text(folder_ / "t.txt", letters + "abcdefghijklmnopqrstuvwxyz");
    support::write_text(
        folder_ / "r.yaml",
        fmt::format("schema_version: 1\nseed: 5\n{}\n"
                    "data: {{train: {{format: text, path: t.txt, sequence_length: {}}}, batch_size: 2}}\n"
                    "optimizer: {{type: sgd, lr: 0.1}}\ntrain: {{steps: 1}}\n",
                    model, sequence));
    return (folder_ / "r.yaml").string();
  }
  void write(const std::string& file, const std::string& text) const { support::write_text(folder_ / file, text); }

 private:
  const support::TempFolder folder_;
};

const std::string kSmallGpt = "model: {type: gpt, layers: 2, heads: 3, width: 24}";

// Capacities of 64, 128 and 160, then texts that are longer than the context.
TEST_F(LettersTest, LongerOnesThanTheCacheBeginAgain) {
  for (const std::string& model :
       {kSmallGpt, std::string("model: {type: llama, layers: 2, heads: 4, kv_heads: 2, width: 24}"),
        kSmallGpt + "\nmixed_precision: bf16"}) {
    SCOPED_TRACE(model);
    Language language(recipe(model, 160));
    NextToken cached = language.next(), whole = language.next();
    EXPECT_EQ(cached.context(), 160);
    const std::vector<int32_t> ids = some_tokens(163, 26);
    for (size_t size = 60; size <= ids.size(); ++size) {
      SCOPED_TRACE(size);
      const auto text = std::span(ids).first(size);
      expect_near(cached.logits_after(text), whole.logits_after(text.last(std::min<size_t>(size, 160))),
                  model.ends_with("bf16") ? 0.01F : 2e-6F);
      whole.forget();
    }
  }
}

TEST_F(LettersTest, AnotherTextUsesNoOldKeys) {
  Language language(recipe(kSmallGpt, 32));
  NextToken next = language.next(), other = language.next();
  const std::vector<int32_t> first{1, 2, 3, 4}, second{1, 2, 9, 4, 5};
  next.logits_after(std::span(first).first(3));
  next.logits_after(first);
  expect_near(next.logits_after(second), other.logits_after(second), 0);
  const std::vector<int32_t> shorter{1, 2};
  expect_near(next.logits_after(shorter), other.logits_after(shorter), 0);
}

// Nor copies of the weights in bf16.
TEST_F(LettersTest, OtherWeightsUseNoOldValuesAfterForget) {
  for (const std::string& model : {kSmallGpt, kSmallGpt + "\nmixed_precision: bf16"}) {
    SCOPED_TRACE(model);
    Language language(recipe(model, 32));
    NextToken kept = language.next(), next = language.next(), whole = language.next();
    const std::vector<int32_t> text{1, 2, 3, 4};
    kept.logits_after(std::span(text).first(3));
    next.logits_after(std::span(text).first(3));
    language.negate_weights();
    next.forget();
    const auto expected = whole.logits_after(text);
    expect_near(next.logits_after(text), expected, 0);
    EXPECT_FALSE(std::ranges::equal(kept.logits_after(text), expected)) << "the cached keys are of other weights";
  }
}

TEST_F(LettersTest, OfPaddedVocabulariesHaveNoTokensWithoutText) {
  Language language(recipe("model: {type: gpt, layers: 1, heads: 2, width: 8, vocabulary: 40}", 16));
  NextToken next = language.next();
  EXPECT_EQ(next.logits_after(std::vector<int32_t>{0}).size(), 26);
  const Generated made =
      generate(next, language.codec(), "a", {.max_tokens = 300, .sampling = {.temperature = 100}, .seed = 1});
  EXPECT_EQ(made.tokens.size(), 300);
  for (const int32_t token : made.tokens) EXPECT_LT(token, 26);
}

// The largest logit of a whole forward pass over the last tokens, again and again.
TEST_F(LettersTest, OfTemperatureZeroAreThoseOfAPlainLoop) {
  Language language(recipe(kSmallGpt, 24));
  NextToken next = language.next(), whole = language.next();
  const Generated made = generate(next, language.codec(), "hello", {.max_tokens = 60, .sampling = {.temperature = 0}});
  std::vector<int32_t> all = made.prompt;
  for (int i = 0; i < 60; ++i) {
    whole.forget();
    const auto logits = whole.logits_after(std::span(all).last(std::min<size_t>(all.size(), 24)));
    all.push_back(static_cast<int32_t>(std::ranges::max_element(logits) - logits.begin()));
  }
  EXPECT_EQ(made.tokens, std::vector<int32_t>(all.begin() + 5, all.end()));
  EXPECT_TRUE(made.exceeds_context);
  EXPECT_EQ(made.text, language.codec().tokenizer()->decode(made.tokens));
}

TEST_F(LettersTest, DependOnTheSeedAndNotOnThePartsThatArePrinted) {
  Language language(recipe(kSmallGpt, 24));
  NextToken next = language.next();
  std::string printed;
  const auto text = [&](uint64_t seed) {
    return generate(next, language.codec(), "ab", {.max_tokens = 22, .seed = seed},
                    [&](std::string_view part) { printed += part; })
        .text;
  };
  const std::string one = text(1);
  EXPECT_EQ(printed, one);
  EXPECT_EQ(text(1), one);
  EXPECT_NE(text(2), one);
}

// A model of a hook that has no cache: its logits are the token before and the number of the place.
TEST_F(LettersTest, OfAHooksModelAreComputedAsAWhole) {
  write("h.lua", R"(local nn = require "nn"
return { model = function(cfg) return nn.Embedding(cfg.outputs, cfg.outputs) end }
)");
  Language language(recipe("hooks: h.lua", 6));
  NextToken next = language.next();
  EXPECT_EQ(next.context(), 6);
  const auto copy = [&](const std::vector<int32_t>& text) {
    const auto logits = next.logits_after(text);
    return std::vector<float>(logits.begin(), logits.end());
  };
  const std::vector<float> after_three = copy({3});
  EXPECT_EQ(copy({9, 8, 3}), after_three);
  EXPECT_EQ(copy({1, 2, 3, 4, 5, 6, 7, 8, 3}), after_three);
  EXPECT_NE(copy({3, 9}), after_three);
}

TEST_F(LettersTest, NeedALanguageModel) {
  write("h.lua", R"(local nn = require "nn"
return { model = function(cfg) return nn.Embedding(cfg.outputs, 3) end,
         training_step = function(batch, model) return model(batch.x):mean() end,
         evaluation_step = function(batch, model)
           return { predictions = nn.Embedding(cfg.outputs, cfg.outputs)(batch.x) } end }
)");
  Language language(recipe("hooks: h.lua", 6));
  NextToken next = language.next();
  try {
    next.logits_after(std::vector<int32_t>{1});
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.message(),
              "generate needs a model that returns logits (1, 6, 26), but this one returns (1, 6, 3) f32 for 6 tokens");
  }
}

}  // namespace
}  // namespace runner::train
