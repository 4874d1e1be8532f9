#include "schema/json_schema.h"

#include <algorithm>
#include <cmath>

#include "schema/field_value.h"
#include "schema/field_words.h"
#include "schema/value_json.h"

namespace runner::schema {
namespace {

Json section_schema(const std::string& path);

// Bounds of a number; a range is open where its end is not allowed.
void add_range(Json& schema, const Range& range) {
  if (!std::isinf(range.low)) schema[range.low_open ? "exclusiveMinimum" : "minimum"] = range.low;
  if (!std::isinf(range.high)) schema[range.high_open ? "exclusiveMaximum" : "maximum"] = range.high;
}

Json choices_schema(const Field& field) {
  Json names = Json::array();
  for (const std::string& name : choice_names(field)) names.push_back(name);
  return {{"enum", names}};
}

Json one_value_schema(const Field& field) {
  switch (field.type) {
    case FieldType::kSection: return section_schema(field.path() + (field.is_list ? "[]" : ""));
    case FieldType::kBoolean: return {{"type", "boolean"}};
    case FieldType::kInteger:
      return {{"type", "integer"}, {"minimum", field.range.least}, {"maximum", field.range.most}};
    case FieldType::kNumber: {
      Json schema = {{"type", "number"}};
      add_range(schema, field.range);
      return schema;
    }
    case FieldType::kText:
    case FieldType::kPath: return {{"type", "string"}, {"minLength", 1}};
    case FieldType::kChoice: return choices_schema(field);
    case FieldType::kLength: return {{"type", "string"}, {"pattern", "^[0-9]+ *(steps?|epochs?|samples?)$"}};
    case FieldType::kSize: return {{"type", "string"}, {"pattern", "^[0-9]+ *(B|KiB|MiB|GiB)$"}};
    case FieldType::kCharacter: return {{"type", {"string", "integer"}}, {"maxLength", 1}};
    case FieldType::kColumn: return {{"type", {"string", "integer"}}};
    case FieldType::kMetric:
      return {{"type", "string"},
              {"pattern", "^(loss|accuracy|top_[1-9][0-9]*|f1_macro|f1_micro|f1_binary|mse|mae|perplexity)$"}};
    case FieldType::kFree: return {{"type", "object"}};
  }
  return {};
}

Json value_schema(const Field& field) {
  Json one = one_value_schema(field);
  if (!field.is_list) return one;
  if (!field.is_section()) one = {{"anyOf", {one, {{"$ref", "#/$defs/substitution"}}}}};
  Json list = {{"type", "array"}, {"items", std::move(one)}};
  if (field.nonempty) list["minItems"] = 1;
  if (field.count > 0) list["minItems"] = list["maxItems"] = field.count;
  return list;
}

// The fields that share a path: any of them, or a ${…}, or null for the default.
Json property_schema(std::span<const Field> rows) {
  Json any = Json::array();
  for (const Field& row : rows) any.push_back(value_schema(row));
  if (rows[0].path() == "include") any.push_back({{"type", "string"}});
  any.push_back({{"$ref", "#/$defs/substitution"}});
  Json property = {{"description", rows[0].text}};
  const auto usual = std::find_if(rows[0].defaults.begin(), rows[0].defaults.end(),
                                  [](const FieldDefault& fallback) { return fallback.when.empty(); });
  if (usual != rows[0].defaults.end()) property["default"] = to_json(rows[0], read_default(rows[0], *usual));
  property["anyOf"] = std::move(any);
  return property;
}

Json section_schema(const std::string& path) {
  Json properties = Json::object();
  for (const std::span<const Field> rows : fields_by_path(path)) {
    properties[std::string(rows[0].name)] = property_schema(rows);
  }
  return {{"type", "object"}, {"properties", std::move(properties)}, {"additionalProperties", false}};
}

std::string escaped(std::string text) {
  for (size_t at = text.find('|'); at != std::string::npos; at = text.find('|', at + 2)) text.insert(at, 1, '\\');
  return text;
}

std::string default_text(const Field& field) {
  if (field.required) return "required";
  std::string text;
  for (const FieldDefault& fallback : field.defaults) {
    text += text.empty() ? "" : ", ";
    text += fmt::format("`{}`", fallback.value);
    for (const Condition& condition : fallback.when) {
      text += fmt::format(" with {}", fmt::join(condition.values, ", "));
    }
  }
  return text;
}

std::string meaning_text(const Field& field) {
  std::string text(field.text);
  const std::string range = range_phrase(field);
  const bool usual = field.type == FieldType::kInteger && field.range.least == 1 && field.range.most == INT32_MAX;
  const bool length = field.type == FieldType::kLength;
  if (!range.empty() && !usual && !length)
    text += fmt::format(" {}{}.", static_cast<char>(std::toupper(range[0])), range.substr(1));
  if (!field.unit.empty()) text += fmt::format(" In {}.", field.unit);
  for (const Condition& condition : field.when) {
    text += fmt::format(" With `{}: {}`.", condition.path, fmt::join(condition.values, "`, `"));
  }
  std::vector<std::string_view> later;
  for (const Choice& choice : field.choices)
    if (!choice.works) later.push_back(choice.name);
  if (!later.empty()) text += fmt::format(" Not yet: {}.", fmt::join(later, ", "));
  if (field.later != Later::kNo)
    text += field.defaults.empty() ? " Does not work yet." : " Only the default works yet.";
  return text;
}

std::string type_text(const Field& field) {
  return field.choices.empty() ? type_name(field) : fmt::format("{}", fmt::join(choice_names(field), " \\| "));
}

// A section's table, then those of the sections inside it, in the order of fields.yaml.
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

Every key, its type, its default and its meaning, as `runner explain RECIPE KEY` tells them one by one.  This page is
made from `schema/fields.yaml`.

A recipe is one YAML document of at most 1 MiB.  Only `schema_version`, `model` (or a hook that makes one), `data.train`,
`data.batch_size`, `optimizer.type` and one of `train.epochs` and `train.steps` must be written.

- **Types.** A boolean is `true` or `false`; `yes`, `no`, `on`, `off` are texts.  Numbers are decimal, do not begin with a
  zero and are finite.  Integers reach from 1 to 2147483647 unless their row says otherwise.  A text that looks like a
  number or a boolean needs quotes, except on the command line.
- **Lengths** say their unit: `100 steps`, `1 epoch`, `5000 samples`.  A step is an optimizer step, after accumulation.
  Sizes do too: `16 GiB`, `512 KiB`.
- **null** takes a value back, as if the key were not written: `scheduler.warmup: null`.
- **Paths** are relative to the file that holds them; those on the command line to the recipe.
- **`include:`** names one or more recipes to build on, relative to this one.  Sections merge key by key, everything else
  is replaced; what includes wins over what it includes, and later files win over earlier ones.
- **`vars:`** holds values of your own.  `${vars.width}` alone takes the variable's value and type, inside a longer text
  its digits or letters.  `${env:NAME:default}` reads the environment in the same way.  `$${` stands for `${`.  Inside
  `{ }` and `[ ]` put quotes around it: `{lr: "${vars.lr}"}`.
- **`key=value`** after the recipe on the command line wins over all files: `optimizer.lr=3e-4 model.hidden=[64,64]`.
- An option that the chosen type, backend or mode would ignore is an error, unless it is written with its default.  The
  sections `gpu` and `tpu` may always stand in a recipe.
)";

}  // namespace

std::string json_schema() {
  Json schema = {{"$schema", "https://json-schema.org/draft/2020-12/schema"}, {"title", "runner recipe"}};
  schema.update(section_schema(""));
  // Included files may hold the required keys.
  schema["if"] = {{"not", {{"required", {"include"}}}}};
  schema["then"] = {{"required", {"schema_version", "data", "optimizer", "train"}}};
  schema["$defs"]["substitution"] = {{"description", "${vars.NAME}, ${env:NAME:default}, or null for the default"},
                                     {"anyOf", {{{"type", "null"}}, {{"type", "string"}, {"pattern", "\\$\\{"}}}}};
  return dump(schema) + "\n";
}

std::string recipe_reference() {
  std::string out(kIntroduction);
  append_section(out, "", "");
  out +=
      "\n## Errors\n\nA recipe that cannot be used gets all its errors at once, and exit code 2.\n\n| id | meaning "
      "|\n|---|---|\n";
  for (const ErrorIdRow& row : error_ids()) out += fmt::format("| `{}` | {} |\n", row.name, row.text);
  return out;
}

}  // namespace runner::schema
