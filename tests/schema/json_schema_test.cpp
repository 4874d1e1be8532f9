// Compares the committed JSON Schema with the table, the recipes and the cases.
#include <filesystem>
#include <regex>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "schema/recipe/field_table.h"
#include "schema/recipe/recipe_reader.h"
#include "schema/recipe/yaml_tree.h"
#include "tests/schema/case_file.h"
#include "tests/support/paths.h"
#include "tests/support/temp_folder.h"

namespace runner::schema {
namespace {

using Document = nlohmann::json;

const Document& committed() {
  static const Document schema = Document::parse(support::read_text(support::source_path("schema/runner.schema.json")));
  return schema;
}

// Validator for the part of JSON Schema that our schema uses; an unknown keyword fails the test.
class Validator {
 public:
  bool accepts(const Document& schema, const Document& value) const {
    for (const auto& [keyword, argument] : schema.items()) {
      if (!holds(schema, keyword, argument, value)) return false;
    }
    return true;
  }

 private:
  bool holds(const Document& schema, const std::string& keyword, const Document& argument,
             const Document& value) const {
    if (keyword == "type") return has_type(argument, value);
    if (keyword == "enum") return std::find(argument.begin(), argument.end(), value) != argument.end();
    if (keyword == "anyOf") {
      return std::any_of(argument.begin(), argument.end(),
                         [&](const Document& option) { return accepts(option, value); });
    }
    if (keyword == "$ref")
      return accepts(committed().at(Document::json_pointer(argument.get<std::string>().substr(1))), value);
    if (keyword == "not") return !accepts(argument, value);
    if (keyword == "if") return !accepts(argument, value) || accepts(schema.at("then"), value);
    if (keyword == "minimum") return !value.is_number() || value >= argument;
    if (keyword == "maximum") return !value.is_number() || value <= argument;
    if (keyword == "exclusiveMinimum") return !value.is_number() || value > argument;
    if (keyword == "exclusiveMaximum") return !value.is_number() || value < argument;
    if (keyword == "minLength") return !value.is_string() || value.get<std::string>().size() >= argument;
    if (keyword == "maxLength") return !value.is_string() || value.get<std::string>().size() <= argument;
    if (keyword == "minItems") return !value.is_array() || value.size() >= argument;
    if (keyword == "maxItems") return !value.is_array() || value.size() <= argument;
    if (keyword == "pattern") {
      return !value.is_string() || std::regex_search(value.get<std::string>(), std::regex(argument.get<std::string>()));
    }
    if (keyword == "items") {
      return !value.is_array() ||
             std::all_of(value.begin(), value.end(), [&](const Document& item) { return accepts(argument, item); });
    }
    if (keyword == "required") {
      return std::all_of(argument.begin(), argument.end(), [&](const Document& key) { return value.contains(key); });
    }
    if (keyword == "properties") {
      for (const auto& [key, sub] : argument.items())
        if (value.is_object() && value.contains(key) && !accepts(sub, value.at(key))) return false;
      return true;
    }
    if (keyword == "additionalProperties") {
      for (const auto& [key, member] : value.items())
        if (value.is_object() && !schema.at("properties").contains(key)) return false;
      return true;
    }
    const bool silent = keyword == "then" || keyword == "$defs" || keyword == "$schema" || keyword == "title" ||
                        keyword == "description" || keyword == "default";
    EXPECT_TRUE(silent) << keyword;
    return true;
  }

  static bool has_type(const Document& type, const Document& value) {
    if (type.is_array())
      return std::any_of(type.begin(), type.end(), [&](const Document& t) { return has_type(t, value); });
    if (type == "integer") return value.is_number() && value == std::floor(value.get<double>());
    if (type == "number") return value.is_number();
    if (type == "object") return value.is_object();
    return type == value.type_name();
  }
};

// Returns a recipe as an editor reads it: YAML 1.2, nothing expanded.
Document to_json(const YamlNode& node) {
  switch (node.kind) {
    case YamlNode::Kind::kMap: {
      Document object = Document::object();
      for (const YamlNode::Member& member : node.members) object[member.key] = to_json(member.value);
      return object;
    }
    case YamlNode::Kind::kList: {
      Document list = Document::array();
      for (const YamlNode& item : node.items) list.push_back(to_json(item));
      return list;
    }
    case YamlNode::Kind::kScalar: break;
    default: return nullptr;
  }
  const Value value = node.quoted ? Value(node.text) : read_plain_scalar(node.text).value;
  if (const bool* boolean = value.boolean()) return *boolean;
  if (const int64_t* integer = value.integer()) return *integer;
  if (const double* number = value.number()) return *number;
  return value.is_null() ? Document() : Document(*value.text());
}

Document to_json(const std::string& text) {
  Report report;
  return to_json(parse_yaml(report.add_source({OriginKind::kRecipe, "r.yaml", "", text}), report).root);
}

bool accepts(const std::string& text) {
  return Validator().accepts(committed(), to_json(text));
}

TEST(JsonSchema, IsDraft202012) {
  EXPECT_EQ(committed()["$schema"], "https://json-schema.org/draft/2020-12/schema");
  EXPECT_EQ(committed()["type"], "object");
}

TEST(JsonSchema, AcceptsRecipesThatTheReaderAccepts) {
  int recipes = 0;
  for (const auto& entry : std::filesystem::directory_iterator(support::source_path("recipes"))) {
    if (entry.path().extension() != ".yaml") continue;
    EXPECT_TRUE(accepts(support::read_text(entry.path().string()))) << entry.path();
    EXPECT_NO_THROW(read_recipe(entry.path().string())) << entry.path();
    ++recipes;
  }
  EXPECT_GE(recipes, 3);
  for (const std::string& path : testing::case_files()) {
    for (const testing::Case& c : testing::read_cases(path)) {
      EXPECT_TRUE(c.expects_errors || accepts(c.recipe)) << c.name;
    }
  }
}

TEST(JsonSchema, RejectsAFaultInOneKey) {
  const std::string base =
      "schema_version: 1\nmodel: {type: linear}\noptimizer: {type: sgd}\ntrain: {epochs: 1}\n"
      "data: {train: {format: csv, path: d.csv}, batch_size: 4}\n";
  EXPECT_TRUE(accepts(base));
  for (const char* line : {"sede: 1",
                           "seed: -1",
                           "seed: 1.5",
                           "seed: x",
                           "backend: cpuu",
                           "log: {every: 10}",
                           "log: {every: 10 seconds}",
                           "gpu: {memory: 16}",
                           "gpu: {memory: 16GB}",
                           "eval: {metrics: [top_k]}",
                           "eval: {metrics: loss}",
                           "scheduler: {pct_start: 1.5}",
                           "split_batches: yes",
                           "name: 3",
                           "name: ''",
                           "scheduler: linear",
                           "vars: 3",
                           "include: 3",
                           "checkpoint: {keep_last: 0}",
                           "comm: {hook: zip}",
                           "mixed_precision: false"}) {
    EXPECT_FALSE(accepts(base + line + "\n")) << line;
  }
  EXPECT_FALSE(accepts("schema_version: 1\n"));
  EXPECT_TRUE(accepts("include: base.yaml\n"));
}

// Walks the schema along the table: it has exactly the keys of the table.
size_t count_properties(const Document& schema) {
  size_t count = 0;
  if (schema.is_object() && schema.contains("properties")) count += schema["properties"].size();
  for (const auto& [keyword, member] : schema.items())
    if (member.is_structured()) count += count_properties(member);
  return count;
}

TEST(JsonSchema, HasTheFieldsOfTheTable) {
  std::set<std::string> paths;
  for (const Field& field : fields()) {
    paths.insert(field.path());
    std::string pointer;
    for (size_t start = 0; start <= field.path().size();) {
      const std::string path = field.path();
      const size_t dot = std::min(path.find('.', start), path.size());
      std::string name = path.substr(start, dot - start);
      const bool list = name.ends_with("[]");
      if (list) name.resize(name.size() - 2);
      pointer += "/properties/" + name;
      if (dot < path.size()) pointer += list ? "/anyOf/0/items" : "/anyOf/0";
      // A word may be written instead of the section.
      if (committed().at(Document::json_pointer(pointer)).contains("anyOf") && list) pointer += "/anyOf/1";
      start = dot + 1;
    }
    ASSERT_TRUE(committed().contains(Document::json_pointer(pointer))) << pointer;
    EXPECT_TRUE(committed().at(Document::json_pointer(pointer)).contains("description"));
  }
  EXPECT_EQ(count_properties(committed()), paths.size());
}

}  // namespace
}  // namespace runner::schema
