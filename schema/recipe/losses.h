// The labels that each loss needs. Constant data, thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "schema/base/required.h"
#include "schema/base/suggest.h"
#include "schema/recipe/choice_table.h"
#include "schema/recipe/metric_names.h"
#include "schema/recipe/recipe.h"

namespace runner::schema {

struct LossFacts {
  Required<Labels> labels;             // kAny: the loss follows from the labels
  Required<bool> needs_probabilities;  // numbers from 0 to 1
};

inline constexpr ChoiceRow<Loss, LossFacts> kLossFacts[] = {
    {Loss::kAuto, {Labels::kAny, false}},      {Loss::kCrossEntropy, {Labels::kClasses, false}},
    {Loss::kMse, {Labels::kNumbers, false}},   {Loss::kL1, {Labels::kNumbers, false}},
    {Loss::kHuber, {Labels::kNumbers, false}}, {Loss::kBceWithLogits, {Labels::kNumbers, true}},
};
static_assert(has_all_choices(kLossFacts));

constexpr const LossFacts& facts_of(Loss loss) {
  return value_of(kLossFacts, loss);
}

// Returns the labels that train.loss needs; kAny if it does not exist.
constexpr Labels labels_of_loss(std::string_view name) {
  for (const auto& [loss, facts] : kLossFacts)
    if (name_of(loss) == name) return facts.labels;
  return Labels::kAny;
}

// Returns the losses that need such labels, for messages: "mse, l1, huber or bce_with_logits".
inline std::string losses_for(Labels labels) {
  std::vector<std::string> names;
  for (const auto& [loss, facts] : kLossFacts)
    if (facts.labels == labels) names.emplace_back(name_of(loss));
  return join_or(names);
}

}  // namespace runner::schema
