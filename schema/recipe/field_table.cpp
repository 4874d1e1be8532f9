#include "schema/recipe/field_table.h"

#include <algorithm>
#include <limits>

namespace runner::schema {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
#include "schema/recipe/field_table.inc"

}  // namespace

bool Field::is_word(std::string_view value) const {
  return std::ranges::find(choices, value, &Choice::name) != choices.end();
}

std::span<const Field> fields() {
  return kFields;
}

std::span<const Field> fields_of(std::string_view section) {
  const auto [first, last] =
      std::equal_range(std::begin(kFields), std::end(kFields), section, [](const auto& a, const auto& b) {
        if constexpr (std::is_same_v<std::decay_t<decltype(a)>, Field>) {
          return a.parent < b;
        } else {
          return a < b.parent;
        }
      });
  return {first, last};
}

std::span<const Field> find_fields(std::string_view path) {
  const size_t dot = path.rfind('.');
  const bool nested = dot != std::string_view::npos;
  const std::string_view name = nested ? path.substr(dot + 1) : path;
  const std::span<const Field> section = fields_of(nested ? path.substr(0, dot) : std::string_view());
  const auto first = std::find_if(section.begin(), section.end(), [&](const Field& f) { return f.name == name; });
  const auto last = std::find_if(first, section.end(), [&](const Field& f) { return f.name != name; });
  return {first, last};
}

int64_t largest_num_processes() {
  return find_fields("num_processes")[0].range.most;
}

std::vector<std::span<const Field>> fields_by_path(std::string_view section) {
  std::vector<std::span<const Field>> groups;
  const std::span<const Field> all = fields_of(section);
  for (size_t i = 0; i < all.size();) {
    size_t end = i + 1;
    while (end < all.size() && all[end].name == all[i].name) ++end;
    groups.push_back(all.subspan(i, end - i));
    i = end;
  }
  std::sort(groups.begin(), groups.end(), [](const auto& a, const auto& b) { return a[0].order < b[0].order; });
  return groups;
}

std::vector<std::string> paths_ending_with(std::string_view word) {
  std::vector<std::string> paths;
  for (const Field& field : fields()) {
    const std::string path = field.path();
    if (field.name == word && (paths.empty() || paths.back() != path)) paths.push_back(path);
  }
  std::ranges::stable_sort(paths, {}, [](const std::string& path) { return std::ranges::count(path, '.'); });
  return paths;
}

std::string type_name(const Field& field) {
  constexpr std::string_view kNames[] = {"section", "boolean", "integer", "number",        "text",
                                         "path",    "choice",  "length",  "size",          "character",
                                         "column",  "metric",  "any",     "class weights", "renames"};
  return (field.is_list ? "list of " : "") + std::string(kNames[static_cast<size_t>(field.type)]);
}

}  // namespace runner::schema
