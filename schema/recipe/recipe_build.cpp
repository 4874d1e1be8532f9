#include "schema/recipe/recipe_build.h"

#include <algorithm>
#include <charconv>
#include <type_traits>

#include "schema/base/text.h"

namespace runner::schema {
namespace {

template <class Enum>
requires std::is_enum_v<Enum>
void convert(const Setting& setting, Enum& out) {
  out = static_cast<Enum>(choice_index(setting));
}

void convert(const Setting& setting, bool& out) {
  out = *setting.value.boolean();
}
void convert(const Setting& setting, int64_t& out) {
  out = *setting.value.integer();
}
void convert(const Setting& setting, double& out) {
  const int64_t* integer = setting.value.integer();
  out = integer != nullptr ? static_cast<double>(*integer) : *setting.value.number();
}
void convert(const Setting& setting, std::string& out) {
  out = *setting.value.text();
}
void convert(const Setting& setting, char& out) {
  out = setting.value.text()->front();
}
void convert(const Setting& setting, Length& out) {
  out = parse_length(*setting.value.text());
}

Column column_of(const Value& value) {
  return value.text() != nullptr ? Column{*value.text(), 0} : Column{"", *value.integer()};
}
void convert(const Setting& setting, Column& out) {
  out = column_of(setting.value);
}

void convert(const Setting& setting, ClassWeights& out) {
  const Value& value = setting.value;
  out = {.balanced = value.text() != nullptr};
  if (const ValueList* list = value.list())
    for (const Value& weight : *list) out.by_class.push_back(*weight.number());
  if (const ValueMap* map = value.map())
    for (const auto& [name, weight] : *map) out.by_name.emplace_back(name, *weight.number());
}

void convert(const Setting& setting, std::vector<Rename>& out) {
  out.clear();
  for (const auto& [pattern, text] : *setting.value.map()) out.push_back({pattern, *text.text()});
}

template <class Number>
NumberOrWord<Number> number_or_word(const Value& value) {
  if (value.text() != nullptr) return {0, *value.text()};
  if (value.integer() != nullptr) return {static_cast<Number>(*value.integer())};
  return {static_cast<Number>(*value.number())};
}
template <class Number>
void convert(const Setting& setting, NumberOrWord<Number>& out) {
  out = number_or_word<Number>(setting.value);
}
template <class Number>
void convert(const Setting& setting, std::vector<NumberOrWord<Number>>& out) {
  out.clear();
  for (const Value& value : *setting.value.list()) out.push_back(number_or_word<Number>(value));
}

template <class Element>
void convert(const Setting& setting, std::vector<Element>& out) {
  out.clear();
  for (const Value& value : *setting.value.list()) {
    if constexpr (std::is_same_v<Element, Column>) {
      out.push_back(column_of(value));
    } else if constexpr (std::is_same_v<Element, Metric>) {
      const std::string& name = *value.text();
      Metric metric{name, 0};
      if (name.starts_with("top_")) std::from_chars(name.data() + 4, name.data() + name.size(), metric.k);
      out.push_back(metric);
    } else {
      out.push_back(std::get<Element>(value));
    }
  }
}

template <class Plain>
void convert(const Setting& setting, std::optional<Plain>& out) {
  convert(setting, out.emplace());
}

// Reads the fields of one section. The get functions do not change `out` if the field has no value.
class Section {
 public:
  Section(const Settings& settings, std::string path, const std::string& folder)
      : settings_(settings), path_(std::move(path)), folder_(folder) {}

  bool has(std::string_view section) const { return settings_.section(full(section)) != nullptr; }
  Section sub(std::string_view name) const { return {settings_, full(name), folder_}; }

  // Returns the sections of a list.
  std::vector<Section> items(std::string_view name) const {
    std::vector<Section> items;
    for (std::string item = fmt::format("{}[0]", name); has(item); item = fmt::format("{}[{}]", name, items.size()))
      items.push_back(sub(item));
    return items;
  }

  template <class T>
  void get(std::string_view name, T& out) const {
    if (const Setting* setting = settings_.find(full(name))) convert(*setting, out);
  }

  // As get(), if the value has the given type. Several fields may share a name.
  template <class T>
  void get(std::string_view name, T& out, FieldType type) const {
    const Setting* setting = settings_.find(full(name));
    if (setting != nullptr && setting->field->type == type) convert(*setting, out);
  }

  void get_path(std::string_view name, std::string& out) const {
    const Setting* setting = settings_.find(full(name));
    if (setting == nullptr || setting->field->type != FieldType::kPath) return;
    const std::string& path = *setting->value.text();
    out = setting->field->is_word(path) ? path : join_path(folder_, path);
  }

  // Writes the elements of a list to `out`.
  template <class T>
  void get_each(std::string_view name, std::initializer_list<T*> out) const {
    std::vector<T> elements;
    get(name, elements);
    if (elements.size() != out.size()) return;
    size_t i = 0;
    for (T* target : out) *target = elements[i++];
  }

  void get_free(std::string_view name, ValueMap& out) const {
    const std::string prefix = full(name) + ".";
    for (const Setting& setting : settings_.values)
      if (setting.path.starts_with(prefix)) out.emplace_back(setting.path.substr(prefix.size()), setting.value);
  }

 private:
  std::string full(std::string_view name) const {
    return path_.empty() ? std::string(name) : path_ + "." + std::string(name);
  }

  const Settings& settings_;
  std::string path_;
  const std::string& folder_;
};

#include "schema/recipe/recipe_readers.inc"

}  // namespace

size_t choice_index(const Setting& setting) {
  const std::span<const Choice> choices = setting.field->choices;
  return static_cast<size_t>(std::ranges::find(choices, *setting.value.text(), &Choice::name) - choices.begin());
}

Length parse_length(std::string_view text) {
  const size_t space = text.find(' ');
  RUN_ASSERT(space != std::string_view::npos);
  const std::string_view unit = text.substr(space + 1);
  Length length;
  length.unit = unit == "%"              ? Unit::kRuns
                : unit.starts_with("e")  ? Unit::kEpochs
                : unit.starts_with("sa") ? Unit::kSamples
                                         : Unit::kSteps;
  length.divisor = length.unit == Unit::kRuns ? 100 : 1;
  bool behind_point = false;
  for (const char c : text.substr(0, space)) {
    behind_point |= c == '.';
    if (c == '.') continue;
    length.count = length.count * 10 + (c - '0');
    if (behind_point) length.divisor *= 10;
  }
  return length;
}

Recipe build_recipe(const Settings& settings, const std::string& folder) {
  Recipe recipe;
  const Section top(settings, "", folder);
  read(top, recipe);
  if (recipe.optimizer.type == OptimizerType::kHook) top.sub("optimizer").get("lr", recipe.hook_lr);
  return recipe;
}

}  // namespace runner::schema
