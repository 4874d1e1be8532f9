#include "schema/recipe/bind.h"

#include <algorithm>

#include "schema/base/suggest.h"
#include "schema/base/text.h"
#include "schema/recipe/field_value.h"
#include "schema/recipe/field_words.h"

namespace runner::schema {
namespace {

enum class Truth { kNo, kYes, kUnknown };

bool is_variable_name(std::string_view name) {
  return name.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == std::string::npos;
}

// Writes a dotted key, as the command line has it, as sections of a file: "optimizer: {lr: 0.1}".
std::string nested(const std::string& key, const YamlNode& value) {
  std::string text = value.kind == YamlNode::Kind::kScalar ? value.text : "...";
  std::string sections = key;
  for (size_t dot; (dot = sections.rfind('.')) != std::string::npos; sections.resize(dot))
    text = fmt::format("{{{}: {}}}", sections.substr(dot + 1), text);
  return fmt::format("{}: {}", sections, text);
}

class Binder {
 public:
  Binder(const YamlTree& tree, Report& report) : tree_(tree), report_(report) {}

  Settings run() {
    bind_section("", "", &tree_.root, {});
    const auto by_path = [](const Setting& a, const Setting& b) { return a.path < b.path; };
    std::sort(settings_.values.begin(), settings_.values.end(), by_path);
    std::sort(settings_.sections.begin(), settings_.sections.end(), by_path);
    return std::move(settings_);
  }

 private:
  // Returns the node written at a path without lists; null if there is none or it is empty.
  const YamlNode* written(std::string_view path) const {
    const YamlNode* node = &tree_.root;
    while (!path.empty()) {
      const size_t dot = std::min(path.find('.'), path.size());
      const YamlNode::Member* member = node->find(path.substr(0, dot));
      if (member == nullptr) return nullptr;
      node = &member->value;
      path.remove_prefix(std::min(dot + 1, path.size()));
    }
    return node->is_unset() ? nullptr : node;
  }

  Truth holds(const Condition& condition) const {
    const Field& field = find_fields(condition.path)[0];
    std::string_view name = field.defaults.empty() ? std::string_view() : field.defaults.back().value;
    if (const YamlNode* node = written(condition.path)) name = node->text;
    const auto is = [&](std::string_view value) { return value == name; };
    if (std::any_of(condition.values.begin(), condition.values.end(), is)) return Truth::kYes;
    const bool known = field.type == FieldType::kBoolean ? is("true") || is("false")
                                                         : std::any_of(field.choices.begin(), field.choices.end(),
                                                                       [&](const Choice& c) { return is(c.name); });
    return known ? Truth::kNo : Truth::kUnknown;
  }

  Truth hold(std::span<const Condition> conditions) const {
    Truth all = Truth::kYes;
    for (const Condition& condition : conditions) {
      const Truth truth = holds(condition);
      if (truth == Truth::kNo) return truth;
      if (truth == Truth::kUnknown) all = truth;
    }
    return all;
  }

  void broken(const std::string& path) { settings_.broken.push_back(path); }

  // `schema`: path in the table, "optimizer.groups[]". `path`: with indices. `node`: null if not written.
  void bind_section(std::string_view schema, const std::string& path, const YamlNode* node, const Place& place) {
    if (node != nullptr && node->kind != YamlNode::Kind::kMap && !node->is_unset()) {
      wrong_section(schema, path, *node);
      return;
    }
    settings_.sections.push_back({path, nullptr, {}, origin_of(node), place});
    if (node != nullptr) report_unknown_keys(schema, path, *node);
    for (const std::span<const Field> rows : fields_by_path(schema)) {
      const YamlNode::Member* member = node != nullptr ? node->find(rows[0].name) : nullptr;
      bind_field(rows, child_path(path, rows[0].name), member, place);
    }
  }

  // Other keys that a type needs: ", hidden: …".
  static std::string required_with(std::string_view section, std::string_view type) {
    std::string keys;
    for (const Field& field : fields()) {
      if (!field.required || field.parent != section || field.name == "type") continue;
      const auto allows = [&](const Condition& condition) {
        return !condition.path.ends_with(".type") ||
               std::ranges::find(condition.values, type) != condition.values.end();
      };
      if (std::ranges::all_of(field.when, allows)) keys += fmt::format(", {}: …", field.name);
    }
    return keys;
  }

  // Whether a section has the name of a backend, which other programs choose by `cpu: true`.
  static bool is_backend(std::string_view section) {
    const std::span<const Field> rows = find_fields("backend");
    return std::ranges::any_of(rows, [&](const Field& field) {
      return std::ranges::find(field.choices, section, &Choice::name) != field.choices.end();
    });
  }

  void wrong_section(std::string_view schema, const std::string& path, const YamlNode& node) {
    broken(path);
    if (node.kind == YamlNode::Kind::kInvalid) return;
    std::string hint;
    const std::span<const Field> type = find_fields(child_path(schema, "type"));
    const bool named = !type.empty() && node.kind == YamlNode::Kind::kScalar;
    if (named)
      hint = fmt::format("write {}: {{type: {}{}}}", path, node.text, required_with(type[0].parent, node.text));
    if (node.kind == YamlNode::Kind::kScalar && is_backend(path)) hint = fmt::format("write backend: {}", path);
    report_.add(ErrorId::kWrongType, node.place, path,
                fmt::format("{} must be a section, got {}", path, describe(node)), hint);
  }

  void report_unknown_keys(std::string_view schema, const std::string& path, const YamlNode& node) {
    for (const YamlNode::Member& member : node.members) {
      const bool is_path = member.key.find_first_of(".[") != std::string::npos;  // of a field in a section of this one
      const bool exists = !find_fields(child_path(schema, member.key)).empty();
      if (exists && !is_path) continue;
      report_.add(ErrorId::kUnknownKey, member.place, child_path(path, member.key),
                  fmt::format("unknown key {}", child_path(path, member.key)),
                  exists ? "write " + nested(member.key, member.value) : suggest_key(schema, path, member.key));
    }
  }

  // `rows`: the fields that share a path.
  void bind_field(std::span<const Field> rows, const std::string& path, const YamlNode::Member* member,
                  const Place& section) {
    const Field* row = nullptr;
    bool unknown = false;
    for (const Field& candidate : rows) {
      const Truth truth = hold(candidate.when);
      if (truth == Truth::kYes && row == nullptr) row = &candidate;
      unknown |= truth == Truth::kUnknown;
    }
    if (row == nullptr && unknown) {
      broken(path);
      return;
    }
    const bool present = member != nullptr && member->value.kind != YamlNode::Kind::kNull;
    if (rows[0].type == FieldType::kFree) {
      if (present) bind_free(rows[0], path, *member);
    } else if (rows[0].is_section() && present && row == nullptr) {
      broken(path);
      ignored(rows, path, *member);
    } else if (rows[0].is_section()) {
      bind_subsection(rows[0], path, present ? member : nullptr, section);
    } else if (present) {
      bind_written(row, rows, path, *member);
    } else if (row != nullptr) {
      bind_absent(*row, path, member != nullptr ? member->place : section);
    }
  }

  void bind_subsection(const Field& field, const std::string& path, const YamlNode::Member* member,
                       const Place& section) {
    const std::string schema = field.path();
    const YamlNode* node = member != nullptr ? &member->value : nullptr;
    if (field.is_list) {
      if (node != nullptr) return bind_list(field, schema, path, *node);
      if (field.required && hold(field.when) == Truth::kYes) missing(path, section, field);
      return;
    }
    std::optional<YamlNode> written_out;
    if (node != nullptr) node = &(written_out = section_of(field, *node)).value();
    const bool implied = !field.implied_by.empty() && hold(field.implied_by) == Truth::kYes;
    if (node == nullptr && field.required) {
      missing(path, section, field);
    } else if (node != nullptr || !field.optional || implied) {
      bind_section(schema, path, node, member != nullptr ? member->place : section);
    }
  }

  // A value that is written instead of a section, as that section.
  static YamlNode section_of(const Field& field, const YamlNode& node) {
    if (node.kind != YamlNode::Kind::kScalar || field.shorthand.empty()) return node;
    YamlNode section = node;
    section.kind = YamlNode::Kind::kMap;
    section.members.push_back({std::string(field.shorthand), node.place, node});
    return section;
  }

  void bind_list(const Field& field, const std::string& schema, const std::string& path, const YamlNode& node) {
    if (node.kind != YamlNode::Kind::kList) {
      broken(path);
      if (node.kind == YamlNode::Kind::kInvalid) return;
      report_.add(ErrorId::kWrongType, node.place, path,
                  fmt::format("{} must be {}, got {}", path, type_phrase(field), describe(node)));
      return;
    }
    if (field.nonempty && node.items.empty()) {
      broken(path);
      report_.add(ErrorId::kOutOfRange, node.place, path, path + " must not be empty");
    }
    for (size_t i = 0; i < node.items.size(); ++i) {
      const YamlNode item = section_of(field, node.items[i]);
      bind_section(schema + "[]", fmt::format("{}[{}]", path, i), &item, item.place);
    }
  }

  void bind_written(const Field* row, std::span<const Field> rows, const std::string& path,
                    const YamlNode::Member& member) {
    const YamlNode& node = member.value;
    std::optional<Value> value = read_field_value(row != nullptr ? *row : rows[0], node, path, report_);
    if (!value) {
      broken(path);
    } else if (row != nullptr) {
      Value recorded = recorded_value(node);
      if (row->type == FieldType::kPath && !row->is_list && !row->is_word(*value->text())) {
        if (!recorded.is_null() && !value->text()->starts_with('/')) recorded = rebase(*recorded.text(), node.place);
        value = rebase(*value->text(), node.place);
      }
      settings_.values.push_back({path, row, std::move(*value), origin_of(&node), node.place, std::move(recorded)});
    } else if (!equals_default(rows[0], *value)) {
      broken(path);
      ignored(rows, path, member);
    }
  }

  void bind_absent(const Field& row, const std::string& path, const Place& place) {
    for (const FieldDefault& fallback : row.defaults) {
      if (hold(fallback.when) != Truth::kYes) continue;
      settings_.values.push_back({path, &row, read_default(row, fallback), OriginKind::kDefault, place});
      return;
    }
    if (row.required) missing(path, place, row);
  }

  void missing(const std::string& path, const Place& place, const Field& field) {
    broken(path);
    if (!tree_.complete) return;
    const std::vector<std::string> choices = choice_names(field);
    report_.add(ErrorId::kMissingKey, place, path, fmt::format("{} is missing", path),
                choices.empty() ? hint_of(field) : "one of " + join_or(choices));
  }

  // "an integer: samples per batch of one process"
  static std::string hint_of(const Field& field) {
    if (field.type == FieldType::kInteger && field.range.least == field.range.most)
      return fmt::format("write {}: {}", field.path(), field.range.least);
    std::string text(field.text.substr(0, field.text.size() - 1));
    text[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(text[0])));
    return type_phrase(field) + ": " + text;
  }

  static bool equals_default(const Field& field, const Value& value) {
    return !field.defaults.empty() && read_default(field, field.defaults.back()) == value;
  }

  // All `when` conditions of the rows are about the same fields. Reports the first that does not hold.
  void ignored(std::span<const Field> rows, const std::string& path, const YamlNode::Member& member) {
    for (const Condition& condition : rows[0].when) {
      if (holds(condition) == Truth::kYes) continue;
      std::vector<std::string> values;
      for (const Field& row : rows)
        for (const Condition& other : row.when)
          if (other.path == condition.path) values.insert(values.end(), other.values.begin(), other.values.end());
      const Field& field = find_fields(condition.path)[0];
      const YamlNode* chosen = written(condition.path);
      const std::string_view name = chosen != nullptr ? std::string_view(chosen->text) : field.defaults.back().value;
      const SourceText& source = report_.source(member.place.source);
      const bool elsewhere = source.kind() == OriginKind::kInclude || source.is_recorded();
      report_.add(ErrorId::kIgnoredOption, member.place, path,
                  fmt::format("{} is ignored with {}: {}", path, condition.path, name),
                  fmt::format("{}; it needs {}: {}", elsewhere ? "write " + path + ": null to unset it" : "remove it",
                              condition.path, join_or(values)));
      return;
    }
  }

  void bind_free(const Field& field, const std::string& path, const YamlNode::Member& member) {
    const YamlNode& node = member.value;
    if (node.kind == YamlNode::Kind::kInvalid || node.is_unset()) return;
    if (node.kind != YamlNode::Kind::kMap) {
      report_.add(ErrorId::kWrongType, node.place, path,
                  fmt::format("{} must be a section, got {}", path, describe(node)));
      return;
    }
    settings_.sections.push_back({path, &field, {}, origin_of(&node), member.place});
    for (const YamlNode::Member& child : node.members) bind_variable(field, path, child);
  }

  void bind_variable(const Field& field, const std::string& section, const YamlNode::Member& member) {
    const std::string path = section + "." + member.key;
    if (!is_variable_name(member.key)) {
      report_.add(ErrorId::kBadKey, member.place, path,
                  fmt::format("the name {} may contain only letters, digits and _", member.key));
      return;
    }
    const YamlNode& node = member.value;
    if (node.kind == YamlNode::Kind::kMap) {
      for (const YamlNode::Member& child : node.members) bind_variable(field, path, child);
    } else if (std::optional<Value> value = read_free_value(node, path, report_)) {
      settings_.values.push_back({path, &field, std::move(*value), origin_of(&node), node.place, recorded_value(node)});
    }
  }

  OriginKind origin_of(const YamlNode* node) const {
    if (node == nullptr) return OriginKind::kDefault;
    return node->from_env ? OriginKind::kEnv : report_.source(node->place.source).kind();
  }

  // Converts a path relative to the file that contains it to one relative to the recipe's folder.
  std::string rebase(const std::string& path, const Place& place) const {
    const std::string& here = report_.source(place.source).folder();
    const std::string& recipe = report_.source(0).folder();
    const bool as_written = here == recipe || path.starts_with('/');
    return as_written ? join_path("", path) : relative_path(recipe, join_path(here, path));
  }

  const YamlTree& tree_;
  Report& report_;
  Settings settings_;
};

}  // namespace

Settings bind(const YamlTree& tree, Report& report) {
  return Binder(tree, report).run();
}

}  // namespace runner::schema
