#include "runner/model/pretrained_tensors.h"

#include <algorithm>

#include "runner/formats/model_files.h"
#include "schema/base/error.h"
#include "schema/base/text.h"

namespace runner::nn {
namespace {

using Match = PretrainedTensors::Match;

auto place_of(const std::vector<Match>& matches, std::string_view parameter) {
  return std::ranges::lower_bound(matches, parameter, {}, &Match::parameter);
}

void check_matched_once(const std::vector<Match>& matches, const std::string& file) {
  const auto twice = std::ranges::adjacent_find(matches, {}, &Match::parameter);
  RUN_CHECK(twice == matches.end(), ErrorKind::kData, "model.pretrained: {} and {} of {} are both the parameter {}",
            in_quotes(twice->tensor->name), in_quotes(std::next(twice)->tensor->name), file, twice->parameter);
}

}  // namespace

const formats::NamedTensor* PretrainedTensors::find(std::string_view parameter) const {
  const auto found = place_of(matches, parameter);
  return found == matches.end() || found->parameter != parameter ? nullptr : found->tensor;
}

PretrainedTensors match_tensors(const PretrainedDef& def, const std::string& file,
                                std::span<const formats::NamedTensor> tensors, const ParameterSet& parameters,
                                bool has_new_outputs) {
  PretrainedTensors found;
  std::vector<Match> copies;
  for (const formats::NamedTensor& tensor : tensors) {
    const std::string name = name_in_model(def, tensor.name);
    const bool is_parameter = parameters.find(name) != nullptr;
    const auto tied = def.tied.find(name);
    if (is_parameter && !(has_new_outputs && any_matches(def.outputs, name))) {
      found.matches.push_back({name, &tensor});
    } else if (!is_parameter && tied != def.tied.end() && parameters.find(tied->second) != nullptr) {
      copies.push_back({tied->second, &tensor});
    } else if (!any_matches(def.ignored, name)) {
      found.unused.push_back(tensor.name);
    }
  }
  std::ranges::sort(found.matches, {}, &Match::parameter);
  check_matched_once(found.matches, file);
  for (Match& copy : copies) {
    const formats::NamedTensor* const original = found.find(copy.parameter);
    if (original == nullptr) {
      found.matches.insert(place_of(found.matches, copy.parameter), std::move(copy));
    } else if (original->type != copy.tensor->type || !std::ranges::equal(original->bytes, copy.tensor->bytes)) {
      found.untied.push_back(copy.tensor->name);
    }
  }
  return found;
}

}  // namespace runner::nn
