// Reads optimizers from golden files.
#pragma once

#include <stdexcept>
#include <string>

#include "schema/recipe/recipe.h"
#include "tests/golden/golden.h"

namespace runner::optim {

inline schema::OptimizerType optimizer_type_of(const std::string& name) {
  using enum schema::OptimizerType;
  for (const schema::OptimizerType type : {kSgd, kAdam, kAdamw, kRmsprop, kAdagrad, kLion})
    if (name == name_of(type)) return type;
  throw std::runtime_error("unknown optimizer in a golden file: " + name);
}

inline schema::OptimizerHyper hyper_of(const testing::Golden& item, schema::OptimizerType type) {
  const testing::Golden written = item["hyper"];
  const auto number = [&](const char* key, double otherwise) {
    return written.has(key) ? written[key].number() : otherwise;
  };
  const auto flag = [&](const char* key) { return written.has(key) && written[key].flag(); };
  schema::OptimizerHyper hyper;
  hyper.lr = number("lr", 0.01);
  hyper.weight_decay = number("weight_decay", type == schema::OptimizerType::kAdamw ? 0.01 : 0.0);
  hyper.momentum = number("momentum", 0);
  hyper.dampening = number("dampening", 0);
  hyper.nesterov = flag("nesterov");
  hyper.amsgrad = flag("amsgrad");
  hyper.centered = flag("centered");
  hyper.alpha = number("alpha", 0.99);
  hyper.lr_decay = number("lr_decay", 0);
  hyper.initial_accumulator_value = number("initial_accumulator_value", 0);
  hyper.eps = number("eps", type == schema::OptimizerType::kAdagrad ? 1e-10 : 1e-8);
  if (type == schema::OptimizerType::kLion) hyper.beta2 = 0.99;
  if (written.has("betas")) {
    hyper.beta1 = written["betas"].numbers()[0];
    hyper.beta2 = written["betas"].numbers()[1];
  }
  return hyper;
}

}  // namespace runner::optim
