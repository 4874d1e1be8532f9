#include "schema/recipe/check_context.h"

#include <algorithm>

#include "schema/base/suggest.h"
#include "schema/base/text.h"
#include "schema/recipe/field_value.h"
#include "schema/recipe/field_words.h"

namespace runner::schema {

bool CheckContext::has(std::string_view path) const {
  return settings.find(path) != nullptr || settings.section(path) != nullptr;
}

bool CheckContext::applies(std::string_view path) const {
  const auto holds = [this](const Condition& condition) {
    const Field& field = find_fields(condition.path)[0];
    const std::string_view value = field.type == FieldType::kBoolean
                                       ? (settings.is_true(condition.path) ? "true" : "false")
                                       : settings.text(condition.path).value_or("");
    return std::ranges::find(condition.values, value) != condition.values.end();
  };
  return std::ranges::any_of(find_fields(path), [&](const Field& row) { return std::ranges::all_of(row.when, holds); });
}

bool CheckContext::has_eval_data() const {
  return has("data.eval") || has("data.split") || broken("data.eval") || broken("data.split");
}

bool CheckContext::changes_default(std::string_view path) const {
  const Setting* setting = settings.find(path);
  return setting != nullptr && setting->origin != OriginKind::kDefault &&
         read_default(*setting->field, setting->field->defaults.back()) != setting->value;
}

bool CheckContext::are_recorded(std::string_view a, std::string_view b) const {
  const auto is_recorded = [this](std::string_view path) {
    return has(path) && report.source(place(path).source).is_recorded();
  };
  return is_recorded(a) && is_recorded(b);
}

void CheckContext::fault(ErrorId id, std::string_view path, const std::string& message, std::string_view hint) const {
  report.add(id, place(path), path, message, hint);
}

void CheckContext::missing_one_of(std::string_view section, const std::string& a, const std::string& b,
                                  std::string_view hint) const {
  if (!complete || has(a) || has(b) || broken(a) || broken(b)) return;
  report.add(ErrorId::kMissingKey, place(section), a, fmt::format("{} or {} is missing", a, b), hint);
}

std::string_view CheckContext::variant(const std::string& section, std::span<const Variant> variants) const {
  std::vector<std::string> keys, found;
  const Variant* chosen = nullptr;
  for (const Variant& variant : variants) {
    const std::string path = child_path(section, variant.key);
    if (broken(path)) return {};
    keys.emplace_back(variant.key);
    if (!has(path)) continue;
    found.push_back(path);
    chosen = &variant;
  }
  if (chosen == nullptr || found.size() != 1) {
    if (found.empty() && complete)
      fault(ErrorId::kMissingKey, section, fmt::format("{} has none of {}", section, join_or(keys)));
    if (found.size() > 1)
      fault(ErrorId::kConflictingKeys, found[1], fmt::format("{} and {} exclude each other", found[0], found[1]),
            "write one section for each, in their order");
    return {};
  }
  for (const Variant& variant : variants)
    for (const std::string_view option : variant.options)
      if (const std::string path = child_path(section, option);
          has(path) && std::ranges::find(chosen->options, option) == chosen->options.end()) {
        fault(ErrorId::kIgnoredOption, path, fmt::format("{} is ignored with {}", path, found[0]), "remove it");
        return {};
      }
  return chosen->key;
}

void CheckContext::ignored(std::string_view option, std::string_view by, std::string_view what) const {
  if (are_recorded(option, by)) return;
  fault(ErrorId::kIgnoredOption, option, fmt::format("{} is ignored with {}", option, what),
        fmt::format("remove {} or {}", option, by));
}

const Place& CheckContext::place(std::string_view path) const {
  const Setting* setting = settings.find(path);
  return setting != nullptr ? setting->place : settings.section(path)->place;
}

}  // namespace runner::schema
