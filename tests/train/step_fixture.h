// The steps of a small model, built without data or a device.
#pragma once

#include "runner/train/step/step_builder.h"

namespace runner::train {

class Steps {
 public:
  // An mlp 4-5-3 for classes, unless the recipe says otherwise; the recipe must outlive it.
  explicit Steps(const schema::Recipe& recipe)
      : optimizers_(optimizers_of(recipe)),
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

  Shares shares(int rank, int size) const { return {model_.parameters, optimizers_, {}, rank, size}; }

  // Of the first flat buffer.
  int64_t parameters() const { return model_.parameters.buffers()[0].elements; }

 private:
  static data::Encoding make_encoding() {
    data::Encoding encoding;
    encoding.feature_shape = {4};
    encoding.label_kind = data::LabelKind::kClass;
    encoding.outputs = 3;
    return encoding;
  }

  nn::Model make_model(const schema::Recipe& recipe) const {
    nn::Model model = nn::build_model(recipe.model, encoding_.feature_shape, encoding_.outputs);
    lay_out(model.parameters, recipe, optimizers_);
    return model;
  }

  const data::Encoding encoding_ = make_encoding();
  const Optimizers optimizers_;
  const nn::Model model_;
  const DeviceLayout layout_;

 public:
  const StepBuilder builder;
};

}  // namespace runner::train
