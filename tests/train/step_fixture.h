// The steps of a small model, built without data or a device.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "runner/train/step/declared_step.h"
#include "runner/train/step/step_builder.h"

namespace runner::train {

class StepFixture {
 public:
  // An MLP 4-5-3 for classes unless the recipe says otherwise. `recipe` must outlive the object.
  explicit StepFixture(const schema::Recipe& recipe, const data::Encoding& encoding = classes())
      : encoding_(encoding),
        optimizers_(optimizers_of(recipe)),
        model_(make_model(recipe)),
        layout_(model_.parameters, optimizers_, recipe.gradient_accumulation_steps > 1 || recipe.num_processes > 1),
        builder(recipe, model_, optimizers_, layout_, encoding_, nullptr) {}

  static schema::Recipe recipe() {
    schema::Recipe recipe;
    recipe.model.type = schema::ModelType::kMlp;
    recipe.model.hidden = {5};
    recipe.optimizer.hyper.lr = 0.1;
    return recipe;
  }

  Shard shard(int rank, int size) const { return {model_.parameters, optimizers_, {}, rank, size}; }

  // Four numbers per sample, and its class.
  static data::Encoding classes() {
    data::Encoding encoding;
    encoding.feature_shape = {4};
    encoding.label_kind = data::LabelKind::kClass;
    encoding.outputs = 3;
    return encoding;
  }

  // Of the first flat buffer.
  int64_t parameters() const { return model_.parameters.buffers()[0].elements; }

 private:
  nn::Model make_model(const schema::Recipe& recipe) const {
    nn::Model model = nn::build_model(recipe.model, encoding_);
    lay_out(model.parameters, recipe, optimizers_);
    return model;
  }

  const data::Encoding encoding_;
  const Optimizers optimizers_;
  const nn::Model model_;
  const DeviceLayout layout_;

 public:
  const StepBuilder builder;
};

// Visits every built-in rule with a different set of slots, at each position in an optimizer step, with and without
// clipping.
template <class Visit>
void for_each_update(const Visit& visit) {
  using schema::OptimizerType;
  for (const OptimizerType type : {OptimizerType::kSgd, OptimizerType::kAdam, OptimizerType::kAdamw,
                                   OptimizerType::kRmsprop, OptimizerType::kAdagrad, OptimizerType::kLion})
    for (const StepShape& shape :
         {StepShape{8, true, true}, StepShape{8, true, false}, StepShape{8, false, true}, StepShape{8, false, false}})
      for (const double clip : {0.0, 1.0}) {
        SCOPED_TRACE(fmt::format("optimizer {}, first {}, last {}, clip {}", static_cast<int>(type), shape.first,
                                 shape.last, clip));
        schema::Recipe recipe = StepFixture::recipe();
        recipe.optimizer.type = type;
        recipe.optimizer.hyper.momentum = type == OptimizerType::kSgd ? 0.9 : 0;
        if (clip > 0) recipe.train.clip_grad_norm = clip;
        if (!shape.first || !shape.last) recipe.gradient_accumulation_steps = 2;
        visit(recipe, shape);
      }
}

}  // namespace runner::train
