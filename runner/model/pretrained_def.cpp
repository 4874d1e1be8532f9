#include "runner/model/pretrained_def.h"

#include <algorithm>
#include <utility>

#include "runner/model/model_def.h"

namespace runner::nn {

std::string module_of_pattern(std::string_view pattern) {
  return std::string(pattern.substr(0, pattern.size() - std::string_view(".*").size()));
}

std::string name_in_model(const PretrainedDef& def, std::string name) {
  for (bool is_cut = true; is_cut;) {
    is_cut = false;
    for (const std::string_view wrapper : {"module.", "_orig_mod."})
      if (name.starts_with(wrapper)) {
        name.erase(0, wrapper.size());
        is_cut = true;
      }
  }
  if (std::ranges::any_of(def.roots, [&](const std::string& root) { return name.starts_with(root); }))
    name = def.prefix + name;
  constexpr std::pair<std::string_view, std::string_view> kNorms[] = {{".gamma", ".weight"}, {".beta", ".bias"}};
  for (const auto& [old, now] : kNorms)
    if (name.ends_with(old)) name.replace(name.size() - old.size(), old.size(), now);
  return name;
}

std::string name_in_hub(const schema::ModelSpec& spec, const std::string& name) {
  const PretrainedDef& def = find_model(spec.type)->pretrained();
  const bool is_bare = !def.head_of(spec).has_prefix && name.starts_with(def.prefix);
  return is_bare ? name.substr(def.prefix.size()) : name;
}

}  // namespace runner::nn
