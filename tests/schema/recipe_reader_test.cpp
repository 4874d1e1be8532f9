#include "schema/recipe/recipe_reader.h"

#include <gtest/gtest.h>

#include "schema/recipe/recipe_identity.h"
#include "tests/schema/case_file.h"

namespace runner::schema {
namespace {

constexpr const char* kEverything = R"(schema_version: 1
name: everything
seed: 5
threads: 2
mixed_precision: bf16
split_batches: true
gradient_accumulation_steps: 4
model: {type: mlp, hidden: [256, 128], activation: gelu_tanh, dropout: 0.1, layer_norm: true, bias: false,
        init_from: weights/w.safetensors, freeze: ["0.*", "*.bias"]}
data:
  train: {format: csv, path: a.csv, label: y, features: [x, 3, -1], header: true, delimiter: ";", missing: mean, scale: 0.5}
  eval: {format: idx, features: x.gz, labels: /abs/y.gz}
  seed: 6
  batch_size: 64
  shuffle: false
  drop_last: true
  even_batches: false
  dispatch_batches: true
  normalize: min_max
  prefetch: 2
optimizer:
  type: rmsprop
  lr: 0.5
  momentum: 0.25
  alpha: 0.75
  centered: true
  groups:
    - {params: ["*.bias"], weight_decay: 0.125, momentum: 0}
    - {params: [a, b], lr: 1}
scheduler: {type: plateau, warmup: 3 samples, metric: eval/f1_macro, mode: max, factor: 0.5, patience: 2,
            threshold: 0.25, threshold_mode: abs, cooldown: 1, min_lr: 0.125, eps: 0}
train: {steps: 100, loss: cross_entropy, class_weights: [1, 2.5], label_smoothing: 0.25, ignore_index: -100,
        clip_grad_norm: 1.5, clip_grad_value: 0.5, on_nan: skip,
        early_stopping: {metric: eval/loss, patience: 7, min_delta: 0.5}}
eval: {every: 2 epochs, metrics: [loss, top_3, f1_macro], batch_size: 256}
checkpoint: {every: 50 steps, keep_last: 3, keep_best: {metric: eval/top_3, mode: max, count: 2}}
log: {every: 1 epoch}
)";

TEST(RecipeReader, FillsEveryMember) {
  const Recipe r = read_recipe_text(kEverything, "folder/recipe.yaml").recipe;
  EXPECT_EQ(r.schema_version, 1);
  EXPECT_EQ(r.name, "everything");
  EXPECT_EQ(r.seed, 5);
  EXPECT_EQ(r.threads, 2);
  EXPECT_EQ(r.backend, Backend::kCpu);
  EXPECT_EQ(r.num_processes, 1);
  EXPECT_EQ(r.mixed_precision, Precision::kBf16);
  EXPECT_TRUE(r.split_batches);
  EXPECT_EQ(r.gradient_accumulation_steps, 4);

  EXPECT_EQ(r.model.type, ModelType::kMlp);
  EXPECT_EQ(r.model.hidden, (std::vector<int64_t>{256, 128}));
  EXPECT_EQ(r.model.activation, Activation::kGeluTanh);
  EXPECT_EQ(r.model.dropout, 0.1);
  EXPECT_TRUE(r.model.layer_norm);
  EXPECT_FALSE(r.model.bias);
  EXPECT_EQ(r.model.init_from, "folder/weights/w.safetensors");
  EXPECT_EQ(r.model.freeze, (std::vector<std::string>{"0.*", "*.bias"}));

  const DatasetSpec& train = r.data.train;
  EXPECT_EQ(train.format, DataFormat::kCsv);
  EXPECT_EQ(train.path, "folder/a.csv");
  EXPECT_EQ(train.label->name, "y");
  ASSERT_EQ(train.features.size(), 3u);
  EXPECT_EQ(train.features[0].name, "x");
  EXPECT_EQ(train.features[1].index, 3);
  EXPECT_EQ(train.features[2].index, -1);
  EXPECT_EQ(train.delimiter, ';');
  EXPECT_EQ(train.missing, Missing::kMean);
  EXPECT_EQ(train.scale, 0.5);
  ASSERT_TRUE(r.data.eval);
  EXPECT_EQ(r.data.eval->format, DataFormat::kIdx);
  EXPECT_EQ(r.data.eval->features_file, "folder/x.gz");
  EXPECT_EQ(r.data.eval->labels_file, "/abs/y.gz");
  EXPECT_FALSE(r.data.split);
  EXPECT_EQ(r.data.seed, 6);
  EXPECT_EQ(r.data.batch_size, 64);
  EXPECT_FALSE(r.data.shuffle);
  EXPECT_TRUE(r.data.drop_last);
  EXPECT_FALSE(r.data.even_batches);
  EXPECT_TRUE(r.data.dispatch_batches);
  EXPECT_EQ(r.data.normalize, Normalize::kMinMax);
  EXPECT_EQ(r.data.prefetch, 2);

  EXPECT_EQ(r.optimizer.type, OptimizerType::kRmsprop);
  EXPECT_EQ(r.optimizer.hyper.lr, 0.5);
  EXPECT_EQ(r.optimizer.hyper.momentum, 0.25);
  EXPECT_EQ(r.optimizer.hyper.alpha, 0.75);
  EXPECT_TRUE(r.optimizer.hyper.centered);
  EXPECT_EQ(r.optimizer.hyper.eps, 1e-8);

  const SchedulerSpec& s = r.scheduler;
  EXPECT_EQ(s.type, SchedulerType::kPlateau);
  EXPECT_EQ(s.warmup, (Length{3, Unit::kSamples}));
  EXPECT_EQ(s.metric, "eval/f1_macro");
  EXPECT_EQ(s.mode, Mode::kMax);
  EXPECT_EQ(s.factor, 0.5);
  EXPECT_EQ(s.patience, 2);
  EXPECT_EQ(s.threshold, 0.25);
  EXPECT_EQ(s.threshold_mode, ThresholdMode::kAbs);
  EXPECT_EQ(s.cooldown, 1);
  EXPECT_EQ(s.min_lr, 0.125);
  EXPECT_EQ(s.eps, 0);
  EXPECT_EQ(s.compat, Compat::kNone);

  EXPECT_FALSE(r.train.epochs);
  EXPECT_EQ(r.train.steps, 100);
  EXPECT_EQ(r.train.loss, Loss::kCrossEntropy);
  EXPECT_EQ(r.train.class_weights.by_class, (std::vector<double>{1, 2.5}));
  EXPECT_EQ(r.train.label_smoothing, 0.25);
  EXPECT_EQ(r.train.ignore_index, -100);
  EXPECT_EQ(r.train.clip_grad_norm, 1.5);
  EXPECT_EQ(r.train.clip_grad_value, 0.5);
  EXPECT_EQ(r.train.on_nan, OnNan::kSkip);
  ASSERT_TRUE(r.train.early_stopping);
  EXPECT_EQ(r.train.early_stopping->patience, 7);
  EXPECT_EQ(r.train.early_stopping->min_delta, 0.5);
  EXPECT_EQ(r.train.early_stopping->mode, Mode::kAuto);

  EXPECT_EQ(r.eval.every, (Length{2, Unit::kEpochs}));
  ASSERT_EQ(r.eval.metrics.size(), 3u);
  EXPECT_EQ(r.eval.metrics[1].name, "top_3");
  EXPECT_EQ(r.eval.metrics[1].k, 3);
  EXPECT_EQ(r.eval.batch_size, 256);
  EXPECT_EQ(r.checkpoint.every, (Length{50, Unit::kSteps}));
  EXPECT_EQ(r.checkpoint.keep_last, 3);
  ASSERT_TRUE(r.checkpoint.keep_best);
  EXPECT_EQ(r.checkpoint.keep_best->metric, "eval/top_3");
  EXPECT_EQ(r.checkpoint.keep_best->mode, Mode::kMax);
  EXPECT_EQ(r.checkpoint.keep_best->count, 2);
  EXPECT_EQ(r.log.every, (Length{1, Unit::kEpochs}));
}

TEST(RecipeReader, GroupsStartFromTheOptimizersValues) {
  const OptimizerSpec optimizer = read_recipe_text(kEverything, "r.yaml").recipe.optimizer;
  ASSERT_EQ(optimizer.groups.size(), 2u);
  EXPECT_EQ(optimizer.groups[0].params, (std::vector<std::string>{"*.bias"}));
  EXPECT_EQ(optimizer.groups[0].hyper.lr, 0.5);
  EXPECT_EQ(optimizer.groups[0].hyper.weight_decay, 0.125);
  EXPECT_EQ(optimizer.groups[0].hyper.momentum, 0);
  EXPECT_EQ(optimizer.groups[1].hyper.lr, 1);
  EXPECT_EQ(optimizer.groups[1].hyper.momentum, 0.25);
  EXPECT_EQ(optimizer.groups[1].hyper.alpha, 0.75);
}

constexpr const char* kOneCycle = R"(schema_version: 1
model: {type: linear}
data: {train: {format: synthetic, samples: 8, features: [2, 3], targets: 4}, split: {eval: 0.25}, batch_size: 4}
optimizer: {type: lion}
scheduler: {type: one_cycle, max_lr: 1, pct_start: 0.5, div_factor: 2, final_div_factor: 3, three_phase: true,
            anneal_strategy: linear, cycle_momentum: false, base_momentum: 0.25, max_momentum: 0.5, length: 7 steps}
train: {epochs: 2}
)";

TEST(RecipeReader, FillsOneCycleAndSyntheticData) {
  const Recipe r = read_recipe_text(kOneCycle, "r.yaml").recipe;
  EXPECT_EQ(r.scheduler.max_lr, 1);
  EXPECT_EQ(r.scheduler.pct_start, 0.5);
  EXPECT_EQ(r.scheduler.div_factor, 2);
  EXPECT_EQ(r.scheduler.final_div_factor, 3);
  EXPECT_TRUE(r.scheduler.three_phase);
  EXPECT_EQ(r.scheduler.anneal_strategy, AnnealStrategy::kLinear);
  EXPECT_FALSE(r.scheduler.cycle_momentum);
  EXPECT_EQ(r.scheduler.base_momentum, 0.25);
  EXPECT_EQ(r.scheduler.max_momentum, 0.5);
  EXPECT_EQ(r.scheduler.length, (Length{7, Unit::kSteps}));
  EXPECT_EQ(r.data.train.samples, 8);
  EXPECT_EQ(r.data.train.feature_shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(r.data.train.targets, 4);
  EXPECT_FALSE(r.data.train.classes);
  EXPECT_EQ(r.data.split->eval, 0.25);
  EXPECT_EQ(r.optimizer.hyper.beta1, 0.9);
  EXPECT_EQ(r.optimizer.hyper.beta2, 0.99);
  EXPECT_EQ(r.optimizer.hyper.lr, 1e-4);
  EXPECT_EQ(r.name, "r");
  EXPECT_EQ(r.eval.every, (Length{1, Unit::kEpochs}));
  EXPECT_TRUE(r.eval.metrics.empty());
}

TEST(RecipeReader, ArgumentsAreTextsUnlessTheyBeginWithAQuoteOrBracket) {
  for (const char* text : {"a: b", "- a", "line\nbreak"})
    EXPECT_EQ(
        read_recipe_text(kEverything, "recipe.yaml", std::vector<std::string>{std::string("name=") + text}).recipe.name,
        text);
}

TEST(RecipeReader, FindsThePlaceOfEachValue) {
  const std::vector<std::string> overrides = {"seed=9", "optimizer.lr=2"};
  const ReadResult result = read_recipe_text(kEverything, "folder/recipe.yaml", overrides);
  EXPECT_EQ(result.mark_of("data.train.path").to_string(), "folder/recipe.yaml:11:30");
  EXPECT_EQ(result.mark_of("data.eval.labels").to_string(), "folder/recipe.yaml:12:47");
  EXPECT_EQ(result.mark_of("optimizer.groups[1].lr").to_string(), "folder/recipe.yaml:29:28");
  EXPECT_EQ(result.mark_of("optimizer.lr").to_string(), "command line:2:14");
  EXPECT_EQ(result.find("optimizer.lr")->origin, OriginKind::kCommandLine);
  EXPECT_EQ(result.find("seed")->origin, OriginKind::kCommandLine);
  EXPECT_EQ(result.find("name")->origin, OriginKind::kRecipe);
  EXPECT_EQ(result.find("optimizer.eps")->origin, OriginKind::kDefault);
  // Defaults, absent keys and absent sections have the place of the nearest written section, else of the first line.
  EXPECT_EQ(result.mark_of("optimizer.eps").to_string(), "folder/recipe.yaml:21:1");
  EXPECT_EQ(result.mark_of("train.epochs").to_string(), "folder/recipe.yaml:32:1");
  EXPECT_EQ(result.mark_of("tpu.generation").to_string(), "folder/recipe.yaml:1:1");
  EXPECT_EQ(result.find("tpu.generation"), nullptr);
}

TEST(RecipeReader, UnreadableFile) {
  try {
    read_recipe("/none/such.yaml");
    FAIL();
  } catch (const RecipeError& error) {
    EXPECT_STREQ(
        error.what(),
        "/none/such.yaml:1:1: error: cannot read /none/such.yaml: No such file or directory [unreadable-file]\n");
    EXPECT_EQ(error.kind(), ErrorKind::kRecipe);
    EXPECT_EQ(error.where().line, 1);
    EXPECT_EQ(exit_code(error.kind()), 2);
  }
}

TEST(RecipeReader, NamesARunAfterItsFile) {
  const std::string unnamed =
      std::string(kEverything).replace(0, std::string(kEverything).find("seed:"), "schema_version: 1\n");
  const auto name_in = [&](const char* file) { return read_recipe_text(unnamed, file).recipe.name; };
  EXPECT_EQ(name_in("folder.d/digits.v2.yaml"), "digits.v2");
  EXPECT_EQ(name_in("folder/@digits.yaml"), "digits") << "a name with @ in front is a selector";
  EXPECT_EQ(name_in("@.yaml"), "run");
}

// The stored form of a recipe reads back as the same recipe.
TEST(RecipeReader, ResolvedFormsReadBack) {
  int read = 0;
  for (const std::string& path : testing::case_files()) {
    for (const testing::Case& c : testing::read_cases(path)) {
      if (c.expects_errors || !c.files.empty() || !c.environment.empty()) continue;
      const ReadResult before = read_recipe_text(c.recipe, "/folder/recipe.yaml", c.overrides);
      const ReadResult after = read_resolved(resolved_json(before));
      EXPECT_EQ(resolved_json(after), resolved_json(before)) << c.name;
      EXPECT_EQ(after.leaves.size(), before.leaves.size()) << c.name;
      ++read;
    }
  }
  EXPECT_GT(read, 25);
}

TEST(RecipeReader, ResolvedFormsAcceptOverrides) {
  const ReadResult before =
      read_recipe_text(kEverything, "folder/recipe.yaml", std::vector<std::string>{"name=a$${b}"});
  EXPECT_EQ(before.recipe.name, "a${b}");
  const std::vector<std::string> overrides = {"vars.w=3", "log.every=${vars.w} steps"};
  const ReadResult after = read_resolved(resolved_json(before), overrides);
  EXPECT_EQ(after.recipe.name, "a${b}");
  EXPECT_EQ(after.recipe.log.every, (Length{3, Unit::kSteps}));
  EXPECT_EQ(after.recipe.data.eval->labels_file, "/abs/y.gz");
}

// Older versions had no limit on names and no selectors; their runs can still be resumed.
TEST(RecipeReader, ResolvedFormsKeepTheNameOfTheRun) {
  const std::string before = resolved_json(read_recipe_text(kEverything, "folder/recipe.yaml", {}));
  const std::string name = "\"name\": \"";
  const size_t begin = before.find(name) + name.size();
  for (const std::string& old : {std::string(300, 'n'), std::string("@last")}) {
    std::string stored = before;
    stored.replace(begin, stored.find('"', begin) - begin, old);
    EXPECT_EQ(read_resolved(stored).recipe.name, old);
    EXPECT_EQ(read_resolved(stored, std::vector<std::string>{"name=new"}).recipe.name, "new");
    EXPECT_THROW(read_resolved(before, std::vector<std::string>{"name=" + old}), RecipeError);
  }
}

}  // namespace
}  // namespace runner::schema
