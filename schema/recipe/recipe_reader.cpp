#include "schema/recipe/recipe_reader.h"

#include <algorithm>

#include "schema/base/error.h"
#include "schema/base/text.h"
#include "schema/recipe/bind.h"
#include "schema/recipe/compose.h"
#include "schema/recipe/field_value.h"
#include "schema/recipe/recipe_build.h"
#include "schema/recipe/recipe_check.h"
#include "schema/recipe/settings.h"
#include "schema/recipe/substitute.h"

namespace runner::schema {
namespace {

const Leaf* find_leaf(const std::vector<Leaf>& leaves, std::string_view path) {
  const auto at = std::lower_bound(leaves.begin(), leaves.end(), path,
                                   [](const Leaf& leaf, std::string_view p) { return leaf.path < p; });
  return at != leaves.end() && at->path == path ? &*at : nullptr;
}

std::vector<Leaf> leaves_of(std::vector<Setting> settings, const Report& report) {
  std::vector<Leaf> leaves;
  leaves.reserve(settings.size());
  for (Setting& s : settings) {
    leaves.push_back({std::move(s.path), s.field, std::move(s.value), s.origin, report.mark(s.place), s.place,
                      std::move(s.recorded)});
  }
  return leaves;
}

// `source`: index of the recipe's text.
ReadResult read_source(int source, std::span<const std::string> overrides, Report& report) {
  YamlTree tree = compose(source, overrides, report);
  Settings settings = bind(tree, report);
  check_availability(settings, report);
  check_together(settings, tree.complete, report);
  report.throw_if_any();

  ReadResult result;
  result.file = report.source(source).name();
  result.folder = report.source(source).folder();
  result.text = report.source(source).text();
  for (int i = 0; i < report.source_count(); ++i) {
    const SourceText& part = report.source(i);
    if (part.kind() == OriginKind::kInclude) result.includes.push_back({part.name(), part.text()});
  }
  result.environment = std::move(tree.environment);
  derive_defaults(settings, result.file);
  result.recipe = build_recipe(settings, result.folder);
  result.leaves = leaves_of(std::move(settings.values), report);
  result.sections = leaves_of(std::move(settings.sections), report);
  result.texts = std::move(report);
  return result;
}

// Returns the leaf or section `path` of `all`, which are those of the recipe. Adds one that the recipe does not have.
Leaf& found_or_added(ReadResult& recipe, std::vector<Leaf>& all, const std::string& path) {
  const auto at = std::ranges::lower_bound(all, path, {}, &Leaf::path);
  if (at != all.end() && at->path == path) return *at;
  return *all.insert(at, {.path = path,
                          .field = recipe.field_of(path),
                          .value = {},
                          .origin = OriginKind::kDefault,
                          .mark = recipe.mark_of(path),
                          .place = recipe.place_of(path)});
}

}  // namespace

void set_defaults(ReadResult& recipe, std::span<const std::pair<std::string, Value>> values) {
  for (const auto& [path, value] : values) {
    Leaf& leaf = found_or_added(recipe, recipe.leaves, path);
    RUN_ASSERT(leaf.origin == OriginKind::kDefault);
    leaf.value = value;
    found_or_added(recipe, recipe.sections, path.substr(0, path.rfind('.')));
  }
  Settings settings;
  for (const Leaf& leaf : recipe.leaves)
    settings.values.push_back({leaf.path, leaf.field, leaf.value, leaf.origin, leaf.place, leaf.recorded});
  for (const Leaf& section : recipe.sections)
    settings.sections.push_back({section.path, section.field, {}, section.origin, section.place, {}});
  recipe.recipe = build_recipe(settings, recipe.folder);
}

const Leaf* ReadResult::find(std::string_view path) const {
  return find_leaf(leaves, path);
}

Place ReadResult::place_of(std::string_view path) const {
  const Leaf* leaf = find(path);
  if (leaf == nullptr) leaf = find_leaf(sections, path);
  for (; leaf == nullptr && !path.empty(); leaf = find_leaf(sections, path)) {
    const size_t dot = path.rfind('.');
    path = path.substr(0, dot == std::string_view::npos ? 0 : dot);
  }
  return leaf != nullptr ? leaf->place : Place{};
}

SourceMark ReadResult::mark_of(std::string_view path) const {
  return texts.mark(place_of(path));
}

bool ReadResult::is_recorded(std::string_view path) const {
  return texts.source(place_of(path).source).is_recorded();
}

std::string ReadResult::place_text(std::string_view path) const {
  return is_recorded(path) ? "" : mark_of(path).to_string() + ": ";
}

Diagnostic ReadResult::fault(ErrorId id, std::string_view path, std::string_view message) const {
  return texts.diagnostic(id, place_of(path), path, message);
}

const Field* ReadResult::field_of(std::string_view path) const {
  if (path.starts_with("vars.") || path.starts_with("sweep.")) path = path.substr(0, path.find('.'));
  // "groups[0]" is "groups[]" in the table.
  std::string in_table;
  for (size_t i = 0; i < path.size(); ++i) {
    if (i > 0 && path[i - 1] == '[') i = std::min(path.find(']', i), path.size() - 1);
    in_table += path[i];
  }
  const std::span<const Field> rows = find_fields(in_table);
  for (const Field& row : rows)
    if (holds(row.when)) return &row;
  return rows.empty() ? nullptr : rows.data();
}

bool ReadResult::holds(std::span<const Condition> conditions) const {
  return std::all_of(conditions.begin(), conditions.end(), [&](const Condition& condition) {
    const Leaf* leaf = find(condition.path);
    return leaf != nullptr && std::find(condition.values.begin(), condition.values.end(), display_text(leaf->value)) !=
                                  condition.values.end();
  });
}

Value ReadResult::default_of(const Field& field) const {
  for (const FieldDefault& fallback : field.defaults)
    if (holds(fallback.when)) return read_default(field, fallback);
  return {};
}

ReadResult read_recipe(const std::string& path, std::span<const std::string> overrides) {
  Report report;
  const int source = load_source(OriginKind::kRecipe, path, report);
  report.throw_if_any();
  return read_source(source, overrides, report);
}

ReadResult read_recipe_text(std::string text, const std::string& file, std::span<const std::string> overrides) {
  Report report;
  return read_source(report.add_source({OriginKind::kRecipe, file, folder_of(file), std::move(text)}), overrides,
                     report);
}

ReadResult read_resolved(const std::string& resolved_json, std::span<const std::string> overrides,
                         const std::string& file) {
  Report report;
  // The recipe is resolved: ${ in it is text, except in references to secret variables.
  SourceText source(OriginKind::kRecipe, file, "", escape_references(resolved_json, References::kOther));
  source.set_recorded();
  return read_source(report.add_source(std::move(source)), overrides, report);
}

}  // namespace runner::schema
