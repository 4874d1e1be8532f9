#include <algorithm>
#include <cctype>
#include <map>

#include "schema/recipe/generator/writers.h"

namespace runner::generator {
namespace {

struct Member {
  std::string name;
  std::string type;     // "double"
  std::string initial;  // initial value; empty for that of the type
  std::string comment;
  bool is_optional = false;
};

struct Struct {
  std::string name, comment;
  std::vector<Member> members;
  std::string reads;  // statements that fill `out` from `in`
};

struct Enum {
  std::string name;
  std::vector<std::string> choices;
};

// "EarlyStopping" from "early_stopping", with `_` between digits: "A100_40g".
std::string pascal_case(const std::string& name) {
  const auto is_digit = [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; };
  std::string out;
  bool begins = true;
  for (const char c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) {
      begins = true;
    } else {
      if (begins && !out.empty() && is_digit(out.back()) && is_digit(c)) out += '_';
      out += begins ? static_cast<char>(std::toupper(static_cast<unsigned char>(c))) : c;
      begins = false;
    }
  }
  return out;
}

std::string enumerator(const std::string& choice) {
  return "k" + pascal_case(choice);
}

std::string type_of(const Entry& entry) {
  static const std::map<std::string, std::string> kTypes = {
      {"boolean", "bool"},
      {"integer", "int64_t"},
      {"number", "double"},
      {"text", "std::string"},
      {"path", "std::string"},
      {"length", "Length"},
      {"size", "int64_t"},
      {"character", "char"},
      {"column", "Column"},
      {"metric", "Metric"},
      {"free", "ValueMap"},
      {"class weights", "ClassWeights"},
      {"renames", "std::vector<Rename>"},
  };
  if (entry.type == "choice" && entry.enum_type.empty()) refuse(entry, "a choice needs the name of its enum");
  std::string one = entry.type == "choice" ? entry.enum_type : kTypes.at(entry.type);
  if (entry.has_words()) one = "NumberOrWord<" + one + ">";
  return entry.is_list ? "std::vector<" + one + ">" : one;
}

// "25 MiB" in bytes.
std::string bytes_of(const std::string& size) {
  static const std::map<std::string, int> kShifts = {{"B", 0}, {"KiB", 10}, {"MiB", 20}, {"GiB", 30}, {"TiB", 40}};
  const size_t space = size.find(' ');
  return "int64_t{" + size.substr(0, space) + "} << " + std::to_string(kShifts.at(size.substr(space + 1)));
}

// "{1, Unit::kEpochs}" from "1 epoch".
std::string length_of(const std::string& length) {
  const size_t space = length.find(' ');
  std::string unit = length.substr(space + 1);
  if (!unit.ends_with('s')) unit += 's';
  return "{" + length.substr(0, space) + ", Unit::" + enumerator(unit) + "}";
}

std::string literal(const Entry& entry, const std::string& value) {
  if (entry.type == "choice") return entry.enum_type + "::" + enumerator(value);
  if (entry.type == "text" || entry.type == "path" || entry.type == "metric") return quoted(value);
  if (entry.type == "character") return "'" + value + "'";
  if (entry.type == "length") return length_of(value);
  if (entry.has_words()) {
    const bool is_word = std::find(entry.choices.begin(), entry.choices.end(), value) != entry.choices.end();
    return is_word ? "{0, " + quoted(value) + "}" : "{" + value + "}";
  }
  return entry.type == "size" ? bytes_of(value) : value;
}

const Default* usual_default(const Entry& entry) {
  return !entry.defaults.empty() && entry.defaults.back().when.empty() ? &entry.defaults.back() : nullptr;
}

std::string initial_of(const Entry& entry) {
  if (!entry.unset.empty()) return literal(entry, entry.unset);
  const Default* usual = usual_default(entry);
  if (usual == nullptr) return "";
  if (!usual->is_list) return literal(entry, usual->values.front());
  std::vector<std::string> values;
  for (const std::string& value : usual->values) values.push_back(literal(entry, value));
  return "{" + join(values, ", ") + "}";
}

// Whether the member is optional. Texts, paths, lists, maps and class weights are empty instead.
bool can_be_absent(const Entry& entry) {
  const bool has_empty = entry.is_list || entry.type == "text" || entry.type == "path" || entry.type == "free" ||
                         entry.type == "class weights" || entry.type == "renames";
  return !has_empty && entry.defaults.empty() && !entry.required && entry.unset.empty();
}

class StructWriter {
 public:
  explicit StructWriter(const FieldFile& file) : file_(file) {
    for (const Template& shared : file.templates) add_struct(shared.struct_type, "", shared.entries, "", nullptr);
    add_struct("RecipeFields", "A recipe; fields in the order of fields.yaml.", file.entries, "", nullptr);
  }

  std::string structs() const {
    std::string text;
    for (const Enum& each : enums_) text += text_of(each);
    for (const Struct& each : structs_) text += text_of(each);
    return text;
  }

  std::string readers() const {
    std::string text;
    for (const Struct& each : structs_)
      text += "void read(const Section& in, " + each.name + "& out) {\n" + each.reads + "}\n";
    return text;
  }

 private:
  static std::string text_of(const Enum& each) {
    std::vector<std::string> enumerators, names;
    for (const std::string& choice : each.choices) {
      enumerators.push_back(enumerator(choice));
      names.push_back(quoted(choice));
    }
    return "enum class " + each.name + " { " + join(enumerators, ", ") + " };\n" +
           "constexpr std::string_view name_of(" + each.name + " value) {\n" +
           "  constexpr std::string_view kNames[] = {" + join(names, ", ") + "};\n" +
           "  return kNames[static_cast<size_t>(value)];\n}\n" + "template <>\ninline constexpr size_t kChoices<" +
           each.name + "> = " + std::to_string(each.choices.size()) + ";\n";
  }

  static std::string text_of(const Struct& each) {
    std::string text = "\n";
    if (!each.comment.empty()) text += "// " + each.comment + "\n";
    text += "struct " + each.name + " {\n";
    for (const Member& member : each.members) {
      const std::string type = member.is_optional ? "std::optional<" + member.type + ">" : member.type;
      const std::string initial = member.is_optional || member.initial.empty() ? "{}" : " = " + member.initial;
      text += "  // " + member.comment + "\n  " + type + " " + member.name + initial + ";\n";
    }
    return text + "};\n";
  }

  // Declares the struct of the entries in section `path`, after those of the sections in it.
  // `shared`: template whose fields the section also has; may be null.
  void add_struct(const std::string& name, const std::string& comment, const std::vector<Entry>& entries,
                  const std::string& path, const Template* shared) {
    Struct made{name, comment, {}, ""};
    if (shared != nullptr) {
      made.members.push_back(
          {shared->member, shared->struct_type, "", "From the template " + shared->name + ".", false});
      made.reads += "  read(in, out." + shared->member + ");\n";
    }
    for (const Entry& entry : entries) {
      if (entry.parent != path || (!entry.cpp.empty() && entry.cpp.front() == "none")) continue;
      if (entry.is_section()) {
        add_section(entry, entries, shared, made);
      } else {
        add_field(entry, entries, made);
      }
    }
    structs_.push_back(made);
  }

  void add_section(const Entry& entry, const std::vector<Entry>& entries, const Template* of_parent, Struct& made) {
    const std::string path = entry.path() + (entry.is_list ? "[]" : "");
    const Template* shared = entry.like.empty() ? nullptr : &file_.find_template(entry.like);
    const bool has_own =
        std::any_of(entries.begin(), entries.end(), [&](const Entry& other) { return other.parent == path; });
    std::string type = shared != nullptr && !has_own ? shared->struct_type : entry.struct_type;
    if (type.empty()) type = pascal_case(entry.name) + "Spec";
    if (has_own) add_struct(type, entry.text, entries, path, shared);

    const bool optional = entry.optional && entry.implied_by.empty() && entry.unset.empty();
    const std::string quoted_name = quoted(entry.name), member = "out." + entry.name;
    made.members.push_back({entry.name, entry.is_list ? "std::vector<" + type + ">" : type, "", entry.text, optional});
    if (entry.is_list) {
      made.reads += "  for (const Section& item : in.items(" + quoted_name + ")) {\n";
      made.reads += "    " + type + "& added = " + member + ".emplace_back();\n";
      if (shared != nullptr && shared == of_parent)
        made.reads += "    added." + shared->member + " = out." + shared->member + ";\n";
      made.reads += "    read(item, added);\n  }\n";
    } else if (optional) {
      made.reads += "  if (in.has(" + quoted_name + ")) read(in.sub(" + quoted_name + "), " + member + ".emplace());\n";
    } else {
      made.reads += "  read(in.sub(" + quoted_name + "), " + member + ");\n";
    }
  }

  void add_field(const Entry& entry, const std::vector<Entry>& entries, Struct& made) {
    if (entry.type == "choice") add_enum(entry);
    if (entry.cpp.size() > 1) {
      add_elements(entry, made);
    } else {
      const std::string name = entry.cpp.empty() ? entry.name : entry.cpp.front();
      if (add_member(entry, name, made)) made.reads += read_of(entry, name, entries);
    }
  }

  // Adds a member; fields that share a path and a name share one. Returns whether it is new.
  static bool add_member(const Entry& entry, const std::string& name, Struct& made) {
    Member member{name, type_of(entry), initial_of(entry), comment_of(entry), can_be_absent(entry)};
    const auto same = [&](const Member& other) { return other.name == name; };
    const auto found = std::find_if(made.members.begin(), made.members.end(), same);
    if (found == made.members.end()) {
      made.members.push_back(std::move(member));
      return true;
    }
    const bool fits = found->type == member.type || (found->type == "double" && member.type == "int64_t");
    if (!fits) refuse(entry, "is a " + found->type + " too: it needs a name of its own in C++");
    found->is_optional = found->is_optional && member.is_optional;
    if (found->initial.empty()) found->initial = member.initial;
    return false;
  }

  // Adds a list of fixed length as one member per element.
  void add_elements(const Entry& entry, Struct& made) {
    if (entry.cpp.size() != std::stoul(entry.count)) refuse(entry, "cpp needs a name for each element");
    const Default* usual = usual_default(entry);
    std::vector<std::string> targets;
    for (size_t i = 0; i < entry.cpp.size(); ++i) {
      Entry element = entry;
      element.is_list = false;
      const std::string initial = usual != nullptr ? literal(entry, usual->values[i]) : "";
      made.members.push_back({entry.cpp[i], type_of(element), initial, comment_of(entry), false});
      targets.push_back("&out." + entry.cpp[i]);
    }
    made.reads += "  in.get_each(" + quoted(entry.name) + ", {" + join(targets, ", ") + "});\n";
  }

  static std::string comment_of(const Entry& entry) {
    const std::string unit = entry.type == "size" ? "bytes" : entry.unit;
    return entry.text + (unit.empty() ? "" : " In " + unit + ".");
  }

  // If several members share a path, each takes the values of its type.
  static std::string read_of(const Entry& entry, const std::string& name, const std::vector<Entry>& entries) {
    const bool shares = std::any_of(entries.begin(), entries.end(), [&](const Entry& other) {
      return other.parent == entry.parent && other.name == entry.name && other.cpp != entry.cpp;
    });
    const std::string arguments = "(" + quoted(entry.name) + ", out." + name;
    if (entry.type == "path") return "  in.get_path" + arguments + ");\n";
    if (entry.type == "free") return "  in.get_free" + arguments + ");\n";
    return "  in.get" + arguments + (shares ? ", FieldType::k" + pascal_case(entry.type) : "") + ");\n";
  }

  void add_enum(const Entry& entry) {
    const auto same = [&](const Enum& other) { return other.name == entry.enum_type; };
    const auto found = std::find_if(enums_.begin(), enums_.end(), same);
    if (found == enums_.end()) {
      enums_.push_back({entry.enum_type, entry.choices});
    } else if (found->choices != entry.choices) {
      refuse(entry, entry.enum_type + " has other choices elsewhere");
    }
  }

  const FieldFile& file_;
  std::vector<Enum> enums_;
  std::vector<Struct> structs_;
};

}  // namespace

std::string recipe_structs(const FieldFile& file) {
  return StructWriter(file).structs();
}

std::string recipe_readers(const FieldFile& file) {
  return StructWriter(file).readers();
}

}  // namespace runner::generator
