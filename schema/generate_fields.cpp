// Build tool: turns schema/fields.yaml into the constexpr table that schema/field_table.cpp includes.
//
//   generate_fields fields.yaml field_table.inc
//
// Refuses a table that contradicts itself (unknown attributes, types or conditions); what the table says about values,
// such as defaults inside their ranges, is checked by the tests.
#include <cstdio>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include <fmt/format.h>
#include <fmt/os.h>
#include <yaml-cpp/yaml.h>

namespace {

struct Row {
  std::string parent, name;
  YAML::Node node;
  bool inherits = false;  // in a list of sections: no defaults
  int order = 0;

  std::string path() const { return parent.empty() ? name : parent + "." + name; }
};

[[noreturn]] void refuse(const Row& row, const std::string& what) {
  throw std::runtime_error(row.path() + ": " + what);
}

std::string text_of(const YAML::Node& row, const char* key, const std::string& otherwise = "") {
  return row[key] ? row[key].as<std::string>() : otherwise;
}

// One name, or a list of names.
std::vector<std::string> names_of(const YAML::Node& node) {
  if (node.IsScalar()) return {node.as<std::string>()};
  return node.as<std::vector<std::string>>();
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) out += c == '"' || c == '\\' ? std::string{'\\', c} : std::string(1, c);
  return out + '"';
}

class Generator {
 public:
  explicit Generator(const YAML::Node& table) : templates_(table["templates"]) {
    for (const YAML::Node& node : table["fields"]) add(node, "", false);
    for (const auto& [key, row] : rows_) paths_.insert(row.path());
  }

  std::string run() {
    for (const auto& [key, row] : rows_) write(row);
    return arrays_ + "constexpr Field kFields[] = {\n" + fields_ + "};\n";
  }

 private:
  void add(const YAML::Node& node, const std::string& prefix, bool inherits) {
    const std::string path = prefix + node["path"].as<std::string>();
    const size_t dot = path.rfind('.');
    const std::string parent = dot != std::string::npos ? path.substr(0, dot) : "";
    const std::string name = dot != std::string::npos ? path.substr(dot + 1) : path;
    const int order = static_cast<int>(rows_.size());
    const Row row{parent, name, node, inherits, order};
    rows_.emplace(std::tuple(parent, name, order), row);
    if (!node["like"]) return;
    const bool list = is_list(row);
    for (const YAML::Node& child : templates_[node["like"].as<std::string>()]) {
      add(child, path + (list ? "[]." : "."), list);
    }
  }

  static bool is_list(const Row& row) { return text_of(row.node, "type").starts_with("list of "); }

  std::string type_of(const Row& row) const {
    static const std::map<std::string, std::string> kTypes = {
        {"section", "kSection"},     {"boolean", "kBoolean"}, {"integer", "kInteger"}, {"number", "kNumber"},
        {"text", "kText"},           {"path", "kPath"},       {"choice", "kChoice"},   {"length", "kLength"},
        {"size", "kSize"},           {"column", "kColumn"},   {"metric", "kMetric"},   {"free", "kFree"},
        {"character", "kCharacter"},
    };
    const std::string name = text_of(row.node, "type");
    const auto found = kTypes.find(is_list(row) ? name.substr(8) : name);
    if (found == kTypes.end()) refuse(row, "unknown type " + name);
    return "FieldType::" + found->second;
  }

  void check_attributes(const Row& row) const {
    static const std::set<std::string> kKnown = {
        "path",     "type",       "range", "count", "nonempty", "default",  "default_if", "choices", "required",
        "optional", "implied_by", "when",  "later", "resume",   "excludes", "unit",       "like",    "text"};
    for (const auto& attribute : row.node) {
      const std::string name = attribute.first.as<std::string>();
      if (!kKnown.contains(name)) refuse(row, "unknown attribute " + name);
    }
    if (text_of(row.node, "text").empty()) refuse(row, "no text");
  }

  // Emits a constexpr array and returns the expression that names it, {} if there are no elements.
  std::string array(const std::string& type, const std::vector<std::string>& elements) {
    if (elements.empty()) return "{}";
    std::string name = fmt::format("kArray{}", ++array_count_);
    arrays_ += fmt::format("constexpr {} {}[] = {{{}}};\n", type, name, fmt::join(elements, ", "));
    return name;
  }

  std::string conditions(const Row& row, const YAML::Node& when) {
    std::vector<std::string> elements;
    for (const auto& condition : when) {
      std::string path = condition.first.as<std::string>();
      if (path.starts_with('.')) path.insert(0, row.parent);
      if (!paths_.contains(path)) refuse(row, "condition on an unknown path " + path);
      std::vector<std::string> values;
      for (const std::string& value : names_of(condition.second)) values.push_back(quoted(value));
      elements.push_back(fmt::format("{{{}, {}}}", quoted(path), array("std::string_view", values)));
    }
    return array("Condition", elements);
  }

  static std::string literal(const YAML::Node& value) {
    if (!value.IsSequence()) return quoted(value.as<std::string>());
    return quoted(fmt::format("[{}]", fmt::join(value.as<std::vector<std::string>>(), ", ")));
  }

  std::string defaults(const Row& row) {
    if (row.inherits) return "{}";
    std::vector<std::string> elements;
    for (const YAML::Node& other : row.node["default_if"]) {
      elements.push_back(fmt::format("{{{}, {}}}", literal(other["value"]), conditions(row, other["when"])));
    }
    if (row.node["default"]) elements.push_back(fmt::format("{{{}, {{}}}}", literal(row.node["default"])));
    return array("FieldDefault", elements);
  }

  std::string choices(const Row& row) {
    std::set<std::string> later;
    const YAML::Node names = row.node["later"];
    if (names && names.IsSequence()) {
      for (const std::string& name : names_of(names)) later.insert(name);
    }
    std::vector<std::string> elements;
    if (row.node["choices"]) {
      for (const std::string& name : names_of(row.node["choices"])) {
        elements.push_back(fmt::format("{{{}, {}}}", quoted(name), later.erase(name) == 0));
      }
    }
    if (!later.empty()) refuse(row, "later names no choice: " + *later.begin());
    return array("Choice", elements);
  }

  static std::string later(const Row& row) {
    const YAML::Node& node = row.node["later"];
    if (node && !node.IsSequence() && node.as<std::string>() != "true") refuse(row, "unknown later");
    return node ? "true" : "false";
  }

  static std::string on_resume(const Row& row) {
    const std::string name = text_of(row.node, "resume", "fixed");
    if (name != "fixed" && name != "any" && name != "larger") refuse(row, "unknown resume " + name);
    return name == "any" ? "OnResume::kAny" : name == "larger" ? "OnResume::kLarger" : "OnResume::kFixed";
  }

  std::string excludes(const Row& row) const {
    std::string name = text_of(row.node, "excludes");
    if (!name.empty() && !paths_.contains(row.parent + "." + name)) refuse(row, "excludes an unknown sibling " + name);
    return name;
  }

  // "[a, b)" with either end empty.
  static std::string range(const Row& row) {
    const std::string type = text_of(row.node, "type");
    const bool whole = type.ends_with("integer") || type == "length";
    const std::string text = text_of(row.node, "range", whole ? "[1, 2147483647]" : "(, )");
    const size_t comma = text.find(", ");
    if (text.size() < 4 || comma == std::string::npos) refuse(row, "range is not [a, b]");
    const std::string low = text.substr(1, comma - 1), high = text.substr(comma + 2, text.size() - comma - 3);
    if (whole && (low.empty() || high.empty())) refuse(row, "a range of integers needs both ends");
    return fmt::format("{{{}, {}, {}, {}, {}, {}}}", whole ? low + "LL" : "0", whole ? high + "LL" : "0",
                       !whole && !low.empty() ? low : "-kInfinity", !whole && !high.empty() ? high : "kInfinity",
                       text.front() == '(', text.back() == ')');
  }

  // In the order of Field's members.
  void write(const Row& row) {
    check_attributes(row);
    const YAML::Node& node = row.node;
    const auto flag = [&](const char* key) { return std::string(node[key] ? "true" : "false"); };
    const std::vector<std::string> columns = {quoted(row.parent),
                                              quoted(row.name),
                                              type_of(row),
                                              is_list(row) ? "true" : "false",
                                              flag("required"),
                                              flag("optional"),
                                              later(row),
                                              on_resume(row),
                                              std::to_string(row.order),
                                              text_of(node, "count", "0"),
                                              flag("nonempty"),
                                              range(row),
                                              choices(row),
                                              conditions(row, node["when"]),
                                              conditions(row, node["implied_by"]),
                                              defaults(row),
                                              quoted(excludes(row)),
                                              quoted(text_of(node, "unit")),
                                              quoted(text_of(node, "text"))};
    fields_ += fmt::format("    {{{}}},\n", fmt::join(columns, ", "));
  }

  YAML::Node templates_;
  std::map<std::tuple<std::string, std::string, int>, Row> rows_;  // by parent, name, order
  std::set<std::string> paths_;
  std::string arrays_, fields_;
  int array_count_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: generate_fields fields.yaml field_table.inc\n");
    return 2;
  }
  try {
    const std::string text = Generator(YAML::LoadFile(argv[1])).run();
    fmt::output_file(argv[2]).print("// Generated from schema/fields.yaml.\n{}", text);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", argv[1], error.what());
    return 1;
  }
  return 0;
}
