#include "schema/recipe/settings.h"

#include <algorithm>

#include "schema/recipe/field_words.h"

namespace runner::schema {
namespace {

const Setting* find_in(const std::vector<Setting>& settings, std::string_view path) {
  const auto at = std::lower_bound(settings.begin(), settings.end(), path,
                                   [](const Setting& setting, std::string_view p) { return setting.path < p; });
  return at != settings.end() && at->path == path ? &*at : nullptr;
}

}  // namespace

const Setting* Settings::find(std::string_view path) const {
  return find_in(values, path);
}

const Setting* Settings::section(std::string_view path) const {
  return find_in(sections, path);
}

bool Settings::is_broken(std::string_view path) const {
  return std::ranges::any_of(broken, [&](const std::string& section) { return is_within(path, section); });
}

bool Settings::is_written(std::string_view path) const {
  const Setting* setting = find(path);
  return setting != nullptr && setting->origin != OriginKind::kDefault;
}

std::optional<std::string_view> Settings::text(std::string_view path) const {
  const Setting* setting = find(path);
  const std::string* text = setting != nullptr ? setting->value.text() : nullptr;
  return text != nullptr ? std::optional<std::string_view>(*text) : std::nullopt;
}

std::optional<double> Settings::number(std::string_view path) const {
  const Setting* setting = find(path);
  const double* number = setting != nullptr ? setting->value.number() : nullptr;
  return number != nullptr ? std::optional(*number) : std::nullopt;
}

std::optional<int64_t> Settings::integer(std::string_view path) const {
  const Setting* setting = find(path);
  const int64_t* integer = setting != nullptr ? setting->value.integer() : nullptr;
  return integer != nullptr ? std::optional(*integer) : std::nullopt;
}

bool Settings::is_true(std::string_view path) const {
  const Setting* setting = find(path);
  return setting != nullptr && setting->value.boolean() != nullptr && *setting->value.boolean();
}

}  // namespace runner::schema
