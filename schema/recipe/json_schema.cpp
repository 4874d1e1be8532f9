#include "schema/recipe/json_schema.h"

#include <algorithm>
#include <cmath>

#include "schema/base/json.h"
#include "schema/base/suggest.h"
#include "schema/recipe/field_value.h"
#include "schema/recipe/field_words.h"
#include "schema/recipe/metric_names.h"

namespace runner::schema {
namespace {

using json::List;
using json::Object;

Object section_schema(const std::string& path);

// Adds the bounds of a number; a bound is exclusive if the range is open there.
void add_range(Object& schema, const Range& range) {
  if (!std::isinf(range.low)) schema.emplace_back(range.low_open ? "exclusiveMinimum" : "minimum", range.low);
  if (!std::isinf(range.high)) schema.emplace_back(range.high_open ? "exclusiveMaximum" : "maximum", range.high);
}

std::string metric_pattern() {
  std::string pattern;
  for (const MetricName& known : kMetricNames) {
    pattern += pattern.empty() ? "^(" : "|";
    pattern += known.name == "top_K" ? "top_[1-9][0-9]*" : known.name;
  }
  return pattern + ")$";
}

Object class_weights_schema() {
  const Object weight{{"type", "number"}, {"minimum", 0}};
  return {{"anyOf", List{Object{{"const", "balanced"}}, Object{{"type", "array"}, {"items", weight}, {"minItems", 1}},
                         Object{{"type", "object"}, {"additionalProperties", weight}, {"minProperties", 1}}}}};
}

// A choice that YAML reads as a boolean is written as one.
List choices_of(const Field& field) {
  return json::list_of(choice_names(field), [&](const std::string& name) { return as_written(field, name); });
}

Object one_value_schema(const Field& field) {
  switch (field.type) {
    case FieldType::kSection: return section_schema(field.path() + (field.is_list ? "[]" : ""));
    case FieldType::kBoolean: return {{"type", "boolean"}};
    case FieldType::kInteger:
      return {{"type", "integer"}, {"minimum", field.range.least}, {"maximum", field.range.most}};
    case FieldType::kNumber: {
      Object schema{{"type", "number"}};
      add_range(schema, field.range);
      return schema;
    }
    case FieldType::kText:
    case FieldType::kPath: return {{"type", "string"}, {"minLength", 1}};
    case FieldType::kChoice: return {{"enum", choices_of(field)}};
    case FieldType::kLength:
      return {{"type", "string"}, {"pattern", "^([0-9]+ *(steps?|epochs?|samples?)|[0-9]+(\\.[0-9]+)? *(epochs?|%))$"}};
    case FieldType::kSize: return {{"type", "string"}, {"pattern", "^[0-9]+(\\.[0-9]+)? *(B|KiB|MiB|GiB|TiB)$"}};
    case FieldType::kCharacter: return {{"type", List{"string", "integer"}}, {"maxLength", 1}};
    case FieldType::kColumn: return {{"type", List{"string", "integer"}}};
    case FieldType::kMetric: return {{"type", "string"}, {"pattern", metric_pattern()}};
    case FieldType::kFree: return {{"type", "object"}};
    case FieldType::kClassWeights: return class_weights_schema();
    case FieldType::kRenames:
      return {{"type", "object"},
              {"additionalProperties", Object{{"type", "string"}, {"minLength", 1}}},
              {"minProperties", 1}};
  }
  return {};
}

Object substitution() {
  return {{"$ref", "#/$defs/substitution"}};
}

Object value_schema(const Field& field) {
  Object one = one_value_schema(field);
  if (field.has_words()) one = {{"anyOf", List{std::move(one), Object{{"enum", choices_of(field)}}}}};
  if (field.is_list && !field.shorthand.empty()) {
    const Field& word = find_fields(child_path(field.path() + "[]", field.shorthand))[0];
    one = {{"anyOf", List{value_schema(word), std::move(one), substitution()}}};
  }
  if (!field.is_list) return one;
  const Object element = one;
  if (!field.is_section()) one = {{"anyOf", List{std::move(one), substitution()}}};
  Object list{{"type", "array"}, {"items", std::move(one)}};
  const auto least = field.count > 0 ? int64_t{field.count} : int64_t{field.nonempty};
  if (least > 0) list.emplace_back("minItems", least);
  if (field.count > 0) list.emplace_back("maxItems", least);
  if (field.is_scalar) return {{"anyOf", List{element, std::move(list)}}};
  return list;
}

// Schema of the fields that share a path: any of them, or ${…}, or null for the default.
Object property_schema(std::span<const Field> rows) {
  List any = json::list_of(rows, value_schema);
  if (!rows[0].is_list && !rows[0].shorthand.empty())
    any.push_back(value_schema(find_fields(child_path(rows[0].path(), rows[0].shorthand))[0]));
  any.push_back(substitution());
  Object property{{"description", std::string(rows[0].text)}};
  const auto usual = std::find_if(rows[0].defaults.begin(), rows[0].defaults.end(),
                                  [](const FieldDefault& fallback) { return fallback.when.empty(); });
  if (usual != rows[0].defaults.end())
    property.emplace_back("default", as_written(rows[0], read_default(rows[0], *usual)));
  property.emplace_back("anyOf", std::move(any));
  return property;
}

Object section_schema(const std::string& path) {
  Object properties;
  for (const std::span<const Field> rows : fields_by_path(path)) {
    properties.emplace_back(rows[0].name, property_schema(rows));
  }
  return {{"type", "object"}, {"properties", std::move(properties)}, {"additionalProperties", false}};
}

std::string escaped(std::string text) {
  for (size_t at = text.find('|'); at != std::string::npos; at = text.find('|', at + 2)) text.insert(at, 1, '\\');
  return text;
}

// Example: "`1e-2` with adamw; otherwise `0`".
std::string default_text(const Field& field) {
  if (field.required) return "required";
  std::string text;
  for (const FieldDefault& fallback : field.defaults) {
    if (!text.empty()) text += fallback.when.empty() ? "; otherwise " : "; ";
    text += fmt::format("`{}`", fallback.value);
    for (const Condition& condition : fallback.when) {
      const bool flag = find_fields(condition.path)[0].type == FieldType::kBoolean;
      const std::vector<std::string> values(condition.values.begin(), condition.values.end());
      text += fmt::format(" with {}{}", flag ? fmt::format("{}: ", condition.path) : "", join_or(values));
    }
  }
  return text;
}

// Example: " Only with `backend: tpu` and `optimizer.type: sgd` or `rmsprop`."
std::string conditions_text(std::span<const Condition> conditions) {
  std::vector<std::string> texts;
  for (const Condition& condition : conditions) {
    std::vector<std::string> values;
    for (const std::string_view value : condition.values) values.push_back(fmt::format("`{}`", value));
    values.front().insert(1, fmt::format("{}: ", condition.path));
    texts.push_back(join_or(values));
  }
  return texts.empty() ? "" : fmt::format(" Only with {}.", fmt::join(texts, " and "));
}

std::string meaning_text(const Field& field) {
  std::string text(field.text);
  const std::string range = range_phrase(field);
  const bool usual = field.type == FieldType::kInteger && field.range.least == 1 && field.range.most == INT32_MAX;
  const bool length = field.type == FieldType::kLength;
  if (!range.empty() && !usual && !length)
    text += fmt::format(" {}{}.", static_cast<char>(std::toupper(range[0])), range.substr(1));
  if (!field.unit.empty()) text += fmt::format(" In {}.", field.unit);
  text += conditions_text(field.when);
  if (!field.excludes.empty()) text += fmt::format(" Not with `{}`.", child_path(field.parent, field.excludes));
  return text + availability_phrase(field);
}

std::string type_text(const Field& field) {
  return field.choices.empty() ? type_name(field) : fmt::format("{}", fmt::join(choice_names(field), " \\| "));
}

// Appends the table of a section, then those of the sections in it, in the order of fields.yaml.
void append_section(std::string& out, const std::string& path, std::string_view text) {
  std::vector<const Field*> rows;
  for (const std::span<const Field> same_path : fields_by_path(path)) {
    for (const Field& field : same_path) rows.push_back(&field);
  }
  out += path.empty() ? "\n## Top level\n\n" : fmt::format("\n## {}\n\n{}\n\n", path, text);
  out += "| key | type | default | meaning |\n|---|---|---|---|\n";
  for (const Field* field : rows) {
    out += fmt::format("| `{}` | {} | {} | {} |\n", field->name, type_text(*field), default_text(*field),
                       escaped(meaning_text(*field)));
  }
  for (const Field* field : rows) {
    if (field->is_section()) append_section(out, field->path() + (field->is_list ? "[]" : ""), field->text);
  }
}

constexpr std::string_view kIntroduction = R"(# The recipe

All keys with their types, defaults and meanings, as printed by `runner explain RECIPE KEY`.  This page is generated from
`schema/fields.yaml`.

A recipe is one YAML document of at most 1 MiB.  Required are `schema_version`, `model` (or a hook with a function
`model`), `data.train`, `data.batch_size`, `optimizer.type`, and `train.epochs` or `train.steps`.

- **Types.** A boolean is `true` or `false`; `yes`, `no`, `on`, `off` are texts.  Numbers are decimal and finite, without
  leading zeros.  Integers are between 1 and 2147483647 unless their row gives another range.  A text that looks like a
  number or a boolean needs quotes, except on the command line.
- **Lengths** have a unit: `100 steps`, `1 epoch`, `0.5 epochs`, `5000 samples`, `10 %` of the run.  A step is an
  optimizer step, after gradient accumulation.  Sizes have one, too: `16 GiB`, `1.5 GiB`, `512 KiB`.
- **null** resets a key to its default, as if it were not written: `scheduler.warmup: null`.
- **Paths** are relative to the file that contains them.  On the command line they are relative to the recipe;
  [`resume` and `fork`](cli.md#relative-paths) have no recipe file and use the current folder.
- **`include:`** lists one or more recipes to build on, relative to this one.  Sections are merged key by key: a key that a
  section does not contain keeps its included value (a warning reports a `mode: max` that is kept with another `metric`).
  All other values are replaced.  A recipe overrides the recipes that it includes, and later files override earlier ones.
- **`vars:`** defines custom values.  A `${vars.width}` that is the whole value has the variable's value and type; within a
  longer text it is replaced by the variable's text.  `${env:NAME:default}` reads an environment variable in the same way.
  `$${` is a literal `${`.  Inside `{ }` and `[ ]` it needs quotes: `{lr: "${vars.lr}"}`.
- **`secret:`** lists environment variables of which only [a digest is recorded](recipes.md#secrets).
- **`key=value`** after the recipe on the command line overrides all files: `optimizer.lr=3e-4 model.hidden=[64,64]`.  It
  also removes a key that excludes it: `train.steps=100` removes the `train.epochs` of the files.  The value is taken as it
  is, so `name='run #2'` needs quotes for the shell only; `null`, quoted texts, `[...]` and `{...}` are read as in a recipe.
- An option that the chosen type, backend or mode would ignore is an error, unless it has its default value.  The sections
  `gpu` and `tpu` are always allowed.
)";

}  // namespace

std::string json_schema() {
  Object schema{{"$schema", "https://json-schema.org/draft/2020-12/schema"}, {"title", "runner recipe"}};
  for (auto& member : section_schema("")) schema.push_back(std::move(member));
  // Included files may contain the required keys.
  schema.emplace_back("if", Object{{"not", Object{{"required", List{"include"}}}}});
  schema.emplace_back("then", Object{{"required", List{"schema_version", "data", "optimizer", "train"}}});
  const Object text{{"type", "string"}, {"pattern", "\\$\\{"}};
  const Object substitution{{"description", "${vars.NAME}, ${env:NAME:default}, or null for the default"},
                            {"anyOf", List{Object{{"type", "null"}}, text}}};
  schema.emplace_back("$defs", Object{{"substitution", substitution}});
  return json::text(schema);
}

FieldReference reference_of(const Field& field) {
  FieldReference about{.type = type_text(field), .fallback = default_text(field), .meaning = meaning_text(field)};
  std::erase(about.type, '\\');
  std::erase(about.fallback, '`');
  std::erase(about.meaning, '`');
  return about;
}

std::string recipe_reference() {
  std::string out(kIntroduction);
  append_section(out, "", "");
  out +=
      "\n## Errors\n\nIf a recipe is invalid, all its errors are listed at once, and the exit code is 2.  The "
      "[error catalogue](error_catalogue.md) shows each kind.\n";
  return out;
}

}  // namespace runner::schema
