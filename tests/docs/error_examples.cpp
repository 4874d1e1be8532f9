// A small example of each error of a recipe, a command-line key or an expression.
#include "tests/docs/pages.h"

namespace runner::docs {

using schema::ErrorId;

std::span<const ErrorExample> error_examples() {
  static const std::vector<ErrorExample> examples{
      {ErrorId::kUnreadableFile, "", {"runner check recipes/digit.yaml"}},
      {ErrorId::kFileTooLarge, "", {"yes '# much too long' | head -n 80000 > large.yaml", "runner check large.yaml"}},
      {ErrorId::kNotUtf8, "", {R"(printf 'name: caf\351\n' > latin1.yaml)", "runner check latin1.yaml"}},
      {ErrorId::kControlCharacter, "", {R"(printf 'name: bell \007\n' > bell.yaml)", "runner check bell.yaml"}},
      {ErrorId::kTabIndent, "", {R"(printf 'train:\n\tepochs: 3\n' > tab.yaml)", "runner check tab.yaml"}},
      {ErrorId::kYamlSyntax, "", {"runner check recipes/wine.yaml 'model={type: mlp'"}},
      {ErrorId::kSeveralDocuments, "include: recipes/wine.yaml\n---\nseed: 1\n", {"runner check wrong.yaml"}},
      {ErrorId::kYamlTag, "include: recipes/wine.yaml\nseed: !!str 1\n", {"runner check wrong.yaml"}},
      {ErrorId::kMergeKey, "include: recipes/wine.yaml\ntrain:\n  <<: {epochs: 3}\n", {"runner check wrong.yaml"}},
      {ErrorId::kBadKey, "include: recipes/wine.yaml\n[seed]: 1\n", {"runner check wrong.yaml"}},
      {ErrorId::kDuplicateKey, "include: recipes/wine.yaml\nseed: 1\nseed: 2\n", {"runner check wrong.yaml"}},
      {ErrorId::kCyclicAlias, "include: recipes/wine.yaml\nvars: &all {again: *all}\n", {"runner check wrong.yaml"}},
      {ErrorId::kTooDeep, "", {"runner check recipes/wine.yaml \"vars.x=$(printf '[%.0s' $(seq 40))\""}},
      {ErrorId::kTooManyValues,
       "include: recipes/wine.yaml\nvars:\n  a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n"
       "  b: &b [*a, *a, *a, *a, *a, *a, *a, *a, *a, *a]\n  c: &c [*b, *b, *b, *b, *b, *b, *b, *b, *b, *b]\n"
       "  d: &d [*c, *c, *c, *c, *c, *c, *c, *c, *c, *c]\n",
       {"runner check wrong.yaml"}},
      {ErrorId::kIncludeCycle, "include: [recipes/wine.yaml, wrong.yaml]\n", {"runner check wrong.yaml"}},
      {ErrorId::kTooManyIncludes,
       "",
       {"for i in $(seq 65); do echo 'seed: 1' > $i.yaml; echo \"  - $i.yaml\"; done > list",
        "(echo include:; cat list) > many.yaml", "runner check many.yaml"}},
      {ErrorId::kBadOverride, "", {"runner check recipes/wine.yaml optimizer.lr"}},
      {ErrorId::kBadSubstitution, "", {"runner check recipes/wine.yaml 'name=${width}'"}},
      {ErrorId::kUnknownVariable, "", {"runner check recipes/wine.yaml 'name=${vars.title}'"}},
      {ErrorId::kCyclicVariable, "", {"runner check recipes/wine.yaml 'vars.a=${vars.b}' 'vars.b=${vars.a}'"}},
      {ErrorId::kUnsetEnvironment, "", {"runner check recipes/wine.yaml 'name=${env:TITLE}'"}},
      {ErrorId::kChangedSecret,
       "",
       {"API_TOKEN=one runner exec recipes/wine.yaml 'vars.token=${env:API_TOKEN}' train.epochs=2 --quiet > summary",
        "API_TOKEN=two runner resume wine train.epochs=3"}},
      {ErrorId::kUnknownKey, "", {"runner check recipes/wine.yaml optimizer.learning_rate=1e-3 optimiser.lr=1e-3"}},
      {ErrorId::kMissingKey, "", {"runner check recipes/wine.yaml data.batch_size=null"}},
      {ErrorId::kMissingValue, "include: recipes/wine.yaml\nseed:\n", {"runner check wrong.yaml"}},
      {ErrorId::kWrongType, "", {"runner check recipes/wine.yaml optimizer.lr=fast"}},
      {ErrorId::kLeadingZero, "", {"runner check recipes/wine.yaml seed=007"}},
      {ErrorId::kNotFinite, "", {"runner check recipes/wine.yaml optimizer.lr=.inf"}},
      {ErrorId::kOutOfRange, "", {"runner check recipes/wine.yaml model.dropout=1.5"}},
      {ErrorId::kUnknownChoice, "", {"runner check recipes/wine.yaml optimizer.type=sdg"}},
      {ErrorId::kUnitMissing, "", {"runner check recipes/wine.yaml log.every=100"}},
      {ErrorId::kBadLength, "", {"runner check recipes/wine.yaml 'log.every=1.5 steps'"}},
      {ErrorId::kBadSize, "", {"runner check recipes/wine.yaml 'gpu.memory=2 floppies'"}},
      {ErrorId::kNotYet, "", {"runner check recipes/wine.yaml 'sweep={seed: [1, 2]}'"}},
      {ErrorId::kIgnoredOption, "", {"runner check recipes/wine.yaml 'optimizer.betas=[0.9, 0.99]'"}},
      {ErrorId::kConflictingKeys, "include: recipes/wine.yaml\ntrain: {steps: 100}\n", {"runner check wrong.yaml"}},
      {ErrorId::kNeedsOption, "", {"runner check recipes/wine.yaml optimizer.nesterov=true optimizer.momentum=0"}},
      {ErrorId::kNoEvalData, "", {"runner check recipes/wine.yaml data.split=null"}},
      {ErrorId::kMetricNotRecorded, "", {"runner check recipes/digits.yaml checkpoint.keep_best.metric=eval/f1_macro"}},
      {ErrorId::kTaskMismatch, "", {"runner check recipes/digits.yaml train.loss=mse"}},
      {ErrorId::kWarmupTooLong,
       "",
       {"runner check recipes/digits.yaml 'scheduler.warmup=50 epochs' 'scheduler.length=30 epochs'"}},
      {ErrorId::kResumeChange,
       "",
       {"runner exec recipes/wine.yaml train.epochs=2 --quiet > summary", "runner resume wine optimizer.lr=1"}},
      {ErrorId::kBadHook, "", {"runner check recipes/wine.yaml scheduler.type=hook"}},
      {ErrorId::kBadExpression, "", {"runner ls --where 'optimizer.lr >'"}},
  };
  return examples;
}

}  // namespace runner::docs
