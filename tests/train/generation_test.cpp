// Samples of a run: when they are made, that they change nothing else, and that a stored model makes the same.
#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "runner/train/run/stored_model.h"
#include "schema/recipe/recipe_reader.h"
#include "store/artifacts.h"
#include "store/state_store.h"
#include "store/store.h"
#include "tests/backends/support/on_threads.h"
#include "tests/train/run_fixture.h"

namespace runner::train {
namespace {

const std::string kLettersRecipe = R"(schema_version: 1
name: letters
seed: 4
model: {type: gpt, layers: 1, heads: 2, width: 16, dropout: 0.2}
data: {train: {format: text, path: t.txt, sequence_length: 12}, batch_size: 4}
optimizer: {type: adamw, lr: 0.01}
train: {steps: 12, ema: {decay: 0.9}}
checkpoint: {every: 4 steps}
log: {every: 1 step}
)";
const std::string kEveryThirdStep =
    "generate: {every: 3 steps, prompt: ab, max_tokens: 15, temperature: 0.9, top_k: 20}\n";

class SamplesTest : public RunFixture {
 protected:
  SamplesTest() {
    std::string text;
    for (int i = 0; i < 600; ++i) text += static_cast<char>('a' + (i * i / 3 + i) % 20);
    write("t.txt", text);
  }

  using Sections = std::map<std::string, std::vector<std::byte>>;
  // Weights, moments and losses.
  Sections trained(const std::string& recipe, const Options& options) {
    const RunResult result = train(recipe, options);
    EXPECT_EQ(result.exit_code, 0) << (result.error ? result.error->text : "");
    Sections sections = last_state(options.store);
    sections.erase("run");
    return sections;
  }

  // Names and texts of the samples of the last run.
  std::vector<std::pair<std::string, std::string>> samples() const {
    store::Store store = store::Store::open(path("runner.db"), store::Access::kRead);
    std::vector<std::pair<std::string, std::string>> all;
    for (const store::ArtifactInfo& artifact : store::list_artifacts(store, store::find_run(store, "@last").id)) {
      if (artifact.superseded) continue;
      EXPECT_EQ(artifact.header.kind, "sample");
      const std::vector<std::byte> bytes = store::read_artifact(store, artifact);
      all.emplace_back(artifact.header.name, std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
    }
    return all;
  }
};

TEST_F(SamplesTest, ChangeNothingElse) {
  for (const std::vector<std::string>& more : {std::vector<std::string>{},
                                               {"num_processes=2", "data.batch_size=2"},
                                               {"backend=gpu", "num_processes=2", "data.batch_size=2"},
                                               {"backend=tpu", "num_processes=1"},
                                               {"gradient_accumulation_steps=2", "mixed_precision=bf16"}}) {
    SCOPED_TRACE(fmt::format("{}", fmt::join(more, " ")));
    Options without, with;
    without.overrides = with.overrides = more;
    without.store = "without.db";
    if (!more.empty() && more[0] == "num_processes=2")
      without.transport = with.transport = [](int size, const auto& body) {
        backends::testing::on_threads(size, body, {.spin = false});
      };
    const Sections expected = trained(kLettersRecipe, without);
    const auto losses = points("train/loss", "without.db");
    EXPECT_EQ(trained(kLettersRecipe + kEveryThirdStep, with), expected);
    EXPECT_EQ(points("train/loss"), losses);
    EXPECT_EQ(samples().size(), 4);
  }
}

TEST_F(SamplesTest, AreThoseOfTheStoredModel) {
  std::vector<std::string> notices;
  Options options;
  options.notices = &notices;
  const RunResult result = train(kLettersRecipe + kEveryThirdStep, options);
  const auto made = samples();
  ASSERT_EQ(made.size(), 4);
  EXPECT_EQ(made[0].first, "samples/step-3.txt");
  EXPECT_EQ(made[3].first, "samples/step-12.txt");
  ASSERT_EQ(notices.size(), 4);
  EXPECT_EQ(notices[3], fmt::format("step 12/12  sample: {}", made[3].second));
  store::Store store = store::Store::open(path("runner.db"), store::Access::kRead);
  write("r.yaml", kLettersRecipe);
  const schema::Recipe recipe = schema::read_recipe(path("r.yaml").string()).recipe;
  StoredModel model(recipe, nullptr, store::load_state(store, result.states.back()));
  const GenerationSpec spec{
      .max_tokens = 15, .sampling = {.temperature = 0.9, .top_k = 20}, .seed = static_cast<uint64_t>(recipe.seed)};
  const Generated again = model.generate("ab", spec, {});
  EXPECT_EQ("ab" + again.text, made[3].second);
  EXPECT_EQ(model.warnings().size(), 1);
}

TEST_F(SamplesTest, OfAResumedRunAreThoseOfAnUninterruptedOne) {
  train(kLettersRecipe + kEveryThirdStep);
  const auto whole = samples();
  Options first, second;
  first.stop_after = 7;
  const RunResult interrupted = train(kLettersRecipe + kEveryThirdStep, first);
  EXPECT_EQ(interrupted.status, store::RunStatus::kInterrupted);
  second.resume = interrupted.run;
  train(kLettersRecipe + kEveryThirdStep, second);
  EXPECT_EQ(samples(), whole);
}

// A step of this size makes weights whose products are not finite.
TEST_F(SamplesTest, OfWeightsThatCannotGenerateAreWarnings) {
  Options options;
  options.overrides = {"optimizer.lr=1e30", "train.steps=1", "generate.every=1 step"};
  const RunResult result = train(kLettersRecipe + kEveryThirdStep, options);
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_TRUE(samples().empty());
  const std::vector<std::string> warnings = events("warning");
  EXPECT_TRUE(std::ranges::any_of(warnings, [](const std::string& text) {
    return text.find(
               "no text could be generated at step 1: the model's logits of the next token are not finite; its "
               "training may have diverged") != std::string::npos;
  })) << fmt::format("{}", fmt::join(warnings, "\n"));
}

TEST_F(SamplesTest, NeedALanguageModelAndAPromptThatItKnows) {
  const auto message = [&](const std::string& recipe) -> std::string {
    try {
      train(recipe);
    } catch (const Error& error) {
      return error.message();
    }
    return "";
  };
  EXPECT_EQ(message(std::string(kFourEpochs) + kEveryThirdStep),
            "generate needs a model that predicts the next token, but data.train has classes as labels");
  EXPECT_EQ(message(kLettersRecipe + "generate: {every: 1 step, prompt: aZ}\n"),
            "the vocabulary of 12 characters has no 'Z'");
}

}  // namespace
}  // namespace runner::train
