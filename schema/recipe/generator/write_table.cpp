#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "schema/recipe/generator/writers.h"

namespace runner::generator {
namespace {

const std::map<std::string, std::string> kTypes = {
    {"section", "kSection"},     {"boolean", "kBoolean"},
    {"integer", "kInteger"},     {"number", "kNumber"},
    {"text", "kText"},           {"path", "kPath"},
    {"choice", "kChoice"},       {"length", "kLength"},
    {"size", "kSize"},           {"column", "kColumn"},
    {"character", "kCharacter"}, {"metric", "kMetric"},
    {"free", "kFree"},           {"class weights", "kClassWeights"},
    {"renames", "kRenames"},
};

class TableWriter {
 public:
  explicit TableWriter(const FieldFile& file) : file_(file) {
    for (const Entry& entry : file.entries) add(entry, "", false);
    for (const auto& [key, row] : rows_) paths_.insert(row.entry.path());
  }

  std::string text() {
    for (const auto& [key, row] : rows_) write(row);
    return arrays_ + "constexpr Field kFields[] = {\n" + fields_ + "};\n";
  }

 private:
  struct Row {
    Entry entry;            // with its full path
    bool inherits = false;  // in a list of sections, so without defaults
    int order = 0;
  };

  // Adds an entry and the entries of its template.
  void add(Entry entry, const std::string& section, bool inherits) {
    if (!section.empty()) entry.parent = entry.parent.empty() ? section : section + "." + entry.parent;
    const int order = static_cast<int>(rows_.size());
    const std::string path = entry.path() + (entry.is_list ? "[]" : "");
    rows_.emplace(std::tuple(entry.parent, entry.name, order), Row{entry, inherits, order});
    if (entry.like.empty()) return;
    for (const Entry& child : file_.find_template(entry.like).entries) add(child, path, entry.is_list);
  }

  // Emits a constexpr array and returns the expression that names it, {} if there are no elements.
  std::string array(const std::string& type, const std::vector<std::string>& elements) {
    if (elements.empty()) return "{}";
    std::string name = "kArray" + std::to_string(++array_count_);
    arrays_ += "constexpr " + type + " " + name + "[] = {" + join(elements, ", ") + "};\n";
    return name;
  }

  std::string conditions(const Entry& entry, const std::vector<Condition>& when) {
    std::vector<std::string> elements;
    for (const Condition& condition : when) {
      std::string path = condition.path;
      if (path.starts_with('.')) path.insert(0, entry.parent);
      if (!paths_.contains(path)) refuse(entry, "condition on an unknown path " + path);
      std::vector<std::string> values;
      for (const std::string& value : condition.values) values.push_back(quoted(value));
      elements.push_back("{" + quoted(path) + ", " + array("std::string_view", values) + "}");
    }
    return array("Condition", elements);
  }

  std::string defaults(const Row& row) {
    if (row.inherits) return "{}";
    std::vector<std::string> elements;
    for (const Default& fallback : row.entry.defaults) {
      const std::string value = join(fallback.values, ", ");
      elements.push_back("{" + quoted(fallback.is_list ? "[" + value + "]" : value) + ", " +
                         conditions(row.entry, fallback.when) + "}");
    }
    return array("FieldDefault", elements);
  }

  std::string choices(const Entry& entry) {
    std::vector<std::string> elements;
    for (const std::string& name : entry.choices) elements.push_back("{" + quoted(name) + "}");
    return array("Choice", elements);
  }

  static std::string on_resume(const Entry& entry) {
    if (entry.resume == "fixed") return "OnResume::kFixed";
    if (entry.resume == "any") return "OnResume::kAny";
    if (entry.resume == "larger") return "OnResume::kLarger";
    if (entry.resume == "same_step") return "OnResume::kSameStep";
    if (entry.resume == "shapes_model") return "OnResume::kShapesModel";
    refuse(entry, "unknown resume " + entry.resume);
  }

  void check_names(const Entry& entry) const {
    if (!entry.excludes.empty() && !paths_.contains(entry.parent + "." + entry.excludes))
      refuse(entry, "excludes an unknown sibling " + entry.excludes);
    if (!entry.shorthand.empty() && !paths_.contains(entry.path() + (entry.is_list ? "[]." : ".") + entry.shorthand))
      refuse(entry, "is short for an unknown field " + entry.shorthand);
  }

  // Parses "[a, b)"; either end may be empty.
  static std::string range(const Entry& entry) {
    const bool whole = entry.type == "integer" || (entry.type == "length" && !entry.is_list);
    const std::string text = !entry.range.empty() ? entry.range : whole ? "[1, 2147483647]" : "(, )";
    const size_t comma = text.find(", ");
    if (text.size() < 4 || comma == std::string::npos) refuse(entry, "range is not [a, b]");
    const std::string low = text.substr(1, comma - 1), high = text.substr(comma + 2, text.size() - comma - 3);
    if (whole && (low.empty() || high.empty())) refuse(entry, "a range of integers needs both ends");
    return "{" +
           join({whole ? low + "LL" : "0", whole ? high + "LL" : "0", !whole && !low.empty() ? low : "-kInfinity",
                 !whole && !high.empty() ? high : "kInfinity", text.front() == '(' ? "true" : "false",
                 text.back() == ')' ? "true" : "false"},
                ", ") +
           "}";
  }

  // Writes the columns in the order of Field's members.
  void write(const Row& row) {
    const Entry& entry = row.entry;
    const auto type = kTypes.find(entry.type);
    if (type == kTypes.end()) refuse(entry, "unknown type " + entry.type);
    check_names(entry);
    const auto flag = [](bool value) { return std::string(value ? "true" : "false"); };
    const std::vector<std::string> columns = {quoted(entry.parent),
                                              quoted(entry.name),
                                              "FieldType::" + type->second,
                                              flag(entry.is_list),
                                              flag(entry.is_scalar),
                                              flag(entry.required),
                                              flag(entry.optional),
                                              flag(entry.later),
                                              on_resume(entry),
                                              std::to_string(row.order),
                                              entry.count,
                                              flag(entry.nonempty),
                                              range(entry),
                                              choices(entry),
                                              conditions(entry, entry.when),
                                              conditions(entry, entry.implied_by),
                                              defaults(row),
                                              quoted(entry.excludes),
                                              quoted(entry.shorthand),
                                              quoted(entry.unit),
                                              quoted(entry.text)};
    fields_ += "    {" + join(columns, ", ") + "},\n";
  }

  const FieldFile& file_;
  std::map<std::tuple<std::string, std::string, int>, Row> rows_;  // by parent, name, order
  std::set<std::string> paths_;
  std::string arrays_, fields_;
  int array_count_ = 0;
};

}  // namespace

std::string field_table(const FieldFile& file) {
  return TableWriter(file).text();
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) out += c == '"' || c == '\\' ? std::string{'\\', c} : std::string(1, c);
  return out + '"';
}

std::string join(const std::vector<std::string>& texts, const char* separator) {
  std::string out;
  for (const std::string& text : texts) out += (&text != texts.data() ? separator : "") + text;
  return out;
}

}  // namespace runner::generator
