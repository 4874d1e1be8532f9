#include "schema/recipe/compose.h"

#include <algorithm>
#include <filesystem>

#include "schema/base/file.h"
#include "schema/base/text.h"
#include "schema/base/utf8.h"
#include "schema/base/value.h"
#include "schema/recipe/field_table.h"
#include "schema/recipe/field_words.h"
#include "schema/recipe/substitute.h"

namespace runner::schema {
namespace {

constexpr int kMaxFiles = 64;

// Merges `over` into `base`. `keep_places`: sections in both keep the place in `base`.
void merge(YamlNode& base, YamlNode&& over, bool keep_places = false) {
  // An empty section, such as "optimizer:", removes nothing.
  if (base.kind == YamlNode::Kind::kMap && over.kind == YamlNode::Kind::kEmpty) return;
  if (base.kind != YamlNode::Kind::kMap || over.kind != YamlNode::Kind::kMap) {
    base = std::move(over);
    return;
  }
  if (!keep_places) base.place = over.place;
  for (YamlNode::Member& member : over.members) {
    YamlNode::Member* old = base.find(member.key);
    if (old == nullptr) {
      base.members.push_back(std::move(member));
      continue;
    }
    const bool both_sections = old->value.kind == YamlNode::Kind::kMap && member.value.kind == YamlNode::Kind::kMap;
    if (!keep_places || !both_sections) old->place = member.place;
    merge(old->value, std::move(member.value), keep_places);
  }
}

// Removes from `base` the keys that exclude a key set on the command line, unless they were set there too.
void drop_excluded(YamlNode& base, const YamlNode& over, const std::string& section, int command_line) {
  for (const YamlNode::Member& member : over.members) {
    const std::string path = child_path(section, member.key);
    const std::span<const Field> field = find_fields(path);
    if (field.empty() || member.value.is_unset()) continue;
    const YamlNode::Member* other = field[0].excludes.empty() ? nullptr : base.find(field[0].excludes);
    if (other != nullptr && other->place.source != command_line) {
      base.members.erase(base.members.begin() + (other - base.members.data()));
    }
    YamlNode::Member* below = base.find(member.key);
    if (below != nullptr) drop_excluded(below->value, member.value, path, command_line);
  }
}

// Whether this is a dotted path of non-empty names, and not too long.
bool is_key_path(const std::string& key) {
  if (key.empty() || key.front() == '.' || key.back() == '.' || key.find("..") != std::string::npos) return false;
  return std::count(key.begin(), key.end(), '.') < kMaxDepth;
}

std::string key_of(const std::string& argument) {
  return argument.substr(0, argument.find('='));
}

class Composer {
 public:
  explicit Composer(Report& report) : report_(report) {}

  YamlTree read(int source) {
    std::error_code ignored;
    const std::string id = std::filesystem::weakly_canonical(report_.source(source).name(), ignored).string();
    open_.push_back({id, report_.source(source).name()});
    YamlTree own = parse_yaml(source, report_);
    expect_map(own);
    YamlTree tree;
    tree.root.kind = YamlNode::Kind::kMap;
    tree.complete = own.complete;
    if (const YamlNode::Member* include = own.root.find("include")) {
      include_all(include->value, secret_names(own.root), tree);
      own.root.members.erase(own.root.members.begin() + (include - own.root.members.data()));
    }
    merge(tree.root, std::move(own.root));
    open_.pop_back();
    return tree;
  }

  // Reads one "a.b=value" on line `line` of the command line's source.
  YamlTree read_override(int source, int line, size_t offset, const std::string& argument) {
    const Place place{source, line, 1, std::max(1, count_characters(argument))};
    const size_t equals = argument.find('=');
    const std::string key = key_of(argument);
    if (equals == std::string::npos || !is_key_path(key)) {
      report_.add(ErrorId::kBadOverride, place, "", "expected key=value after the recipe");
      return {};
    }
    if (key.find('[') != std::string::npos) {
      report_.add(ErrorId::kBadOverride, place, key, "a single element of a list cannot be set",
                  fmt::format("set the whole list: {}=[…]", key.substr(0, key.find('['))));
      return {};
    }
    if (key == "include") {
      report_.add(ErrorId::kBadOverride, place, key, "include cannot be set on the command line");
      return {};
    }
    YamlTree tree = read_value(source, line, offset, argument, equals + 1);
    if (tree.root.kind == YamlNode::Kind::kEmpty) tree.root.place = place;
    if (!tree.complete) tree.root.kind = YamlNode::Kind::kInvalid;
    nest(tree.root, key, place);
    return tree;
  }

  // Reports argument `i` if an earlier one sets the same key, which would be lost.
  void refuse_second(std::span<const std::string> arguments, size_t i, const Place& place) {
    const std::string key = key_of(arguments[i]);
    const auto end = arguments.begin() + static_cast<ptrdiff_t>(i);
    const auto first = std::find_if(arguments.begin(), end, [&](const std::string& a) { return key_of(a) == key; });
    if (first == end) return;
    report_.add(ErrorId::kDuplicateKey, place, key, fmt::format("{} is set twice on the command line", key),
                fmt::format("remove {} or {}", *first, arguments[i]));
  }

  std::vector<EnvironmentRead> reads;  // of include:

 private:
  struct OpenFile {
    std::string id;    // canonical path
    std::string name;  // for messages
  };

  // Reads the value that begins at byte `begin` of an argument: YAML if it begins with a quote, [ or {, else the text
  // as it is. In YAML, characters such as # and % have a meaning that shell users do not expect.
  YamlTree read_value(int source, int line, size_t offset, const std::string& argument, size_t begin) {
    const std::string value = argument.substr(begin);
    if (is_yaml(value)) return parse_yaml(source, report_, offset + begin, value.size());
    YamlTree tree;
    const std::string plain(trim(value));
    const bool is_null = plain == "null" || plain == "~";
    tree.root.kind = value.empty() ? YamlNode::Kind::kEmpty : is_null ? YamlNode::Kind::kNull : YamlNode::Kind::kScalar;
    const bool is_text = plain.empty() || read_plain_scalar(plain).value.text() != nullptr;  // such as a tab
    tree.root.text = is_text ? value : plain;
    tree.root.place = {source, line, count_characters(argument.substr(0, begin)) + 1,
                       std::max(1, count_characters(value))};
    return tree;
  }

  // Whether a value begins like a quoted text, a list or a section, even with a fault, which is then reported.
  static bool is_yaml(const std::string& value) {
    const size_t first = value.find_first_not_of(' ');
    if (first == std::string::npos) return false;
    return std::string_view("[{\"'").find(value[first]) != std::string_view::npos || !is_utf8(value);
  }

  void expect_map(YamlTree& tree) {
    if (tree.root.kind == YamlNode::Kind::kMap) return;
    if (!tree.root.is_unset()) {
      report_.add(ErrorId::kWrongType, tree.root.place, "", "a recipe must be a section of keys",
                  "start with schema_version: 1");
      tree.complete = false;
    }
    tree.root = {};
    tree.root.kind = YamlNode::Kind::kMap;
  }

  void include_all(YamlNode include, const std::vector<std::string>& secret, YamlTree& tree) {
    substitute_environment(include, secret, reads, report_);
    if (include.kind == YamlNode::Kind::kList) {
      for (const YamlNode& item : include.items) include_one(item, tree);
    } else if (include.kind != YamlNode::Kind::kNull) {
      include_one(include, tree);
    }
  }

  void include_one(const YamlNode& path, YamlTree& tree) {
    if (path.kind == YamlNode::Kind::kInvalid) {
      tree.complete = false;
      return;
    }
    if (path.kind != YamlNode::Kind::kScalar || path.text.empty()) {
      report_.add(ErrorId::kWrongType, path.place, "include", "include must be a path or a list of paths");
      tree.complete = false;
      return;
    }
    const std::string name = join_path(report_.source(path.place.source).folder(), path.text);
    if (++files_ > kMaxFiles) {
      if (files_ == kMaxFiles + 1) {
        report_.add(ErrorId::kTooManyIncludes, path.place, "include",
                    fmt::format("a recipe may include at most {} files", kMaxFiles));
      }
      tree.complete = false;
      return;
    }
    if (is_open(name, path.place)) return;
    const int source = load_source(OriginKind::kInclude, name, report_, &path.place);
    if (source < 0) {
      tree.complete = false;
      return;
    }
    YamlTree included = read(source);
    tree.complete &= included.complete;
    merge(tree.root, std::move(included.root));
  }

  // Reports a file that is already being read.
  bool is_open(const std::string& name, const Place& place) {
    std::error_code ignored;
    const std::string id = std::filesystem::weakly_canonical(name, ignored).string();
    const auto first = std::find_if(open_.begin(), open_.end(), [&](const OpenFile& file) { return file.id == id; });
    if (first == open_.end()) return false;
    std::string chain;
    for (auto file = first; file != open_.end(); ++file) chain += file->name + " -> ";
    report_.add(ErrorId::kIncludeCycle, place, "include",
                fmt::format("{} includes itself: {}{}", name, chain, first->name));
    return true;
  }

  // Turns the value of a.b.c into {a: {b: {c: value}}}.
  void nest(YamlNode& value, const std::string& key, const Place& place) {
    for (size_t end = key.size();;) {
      const size_t dot = end == 0 ? std::string::npos : key.rfind('.', end - 1);
      const size_t start = dot == std::string::npos ? 0 : dot + 1;
      YamlNode map;
      map.kind = YamlNode::Kind::kMap;
      map.place = place;
      Place key_place = place;
      key_place.width = count_characters(key);
      map.members.push_back({key.substr(start, end - start), key_place, std::move(value)});
      value = std::move(map);
      if (dot == std::string::npos) return;
      end = dot;
    }
  }

  Report& report_;
  std::vector<OpenFile> open_;
  int files_ = 0;
};

}  // namespace

int load_source(OriginKind kind, const std::string& path, Report& report, const Place* from) {
  std::string text;
  RegularFile file(path);
  if (file.is_open() && file.read_text(text, kMaxTextBytes)) {
    if (text.starts_with("\xEF\xBB\xBF")) text.erase(0, 3);
    return report.add_source({kind, path, folder_of(path), std::move(text)});
  }
  const Place at = from != nullptr ? *from : Place{report.add_source({kind, path, "", ""})};
  report.add(ErrorId::kUnreadableFile, at, from != nullptr ? "include" : "",
             fmt::format("cannot read {}: {}", path, file.problem()),
             file.other_kind() == nullptr ? "" : "a recipe must be a regular file; save its text to a file");
  return -1;
}

YamlTree compose(int source, std::span<const std::string> overrides, Report& report) {
  Composer composer(report);
  YamlTree tree = composer.read(source);
  // Each argument is one line of a separate source; a line break in YAML's quoted and flow text is a space.
  std::vector<std::string> arguments(overrides.begin(), overrides.end());
  std::string lines;
  for (std::string& argument : arguments) {
    std::replace(argument.begin(), argument.end(), '\n', ' ');
    lines += argument + '\n';
  }
  const int command_line =
      report.add_source({OriginKind::kCommandLine, "command line", report.source(source).folder(), lines});
  size_t offset = 0;
  for (size_t i = 0; i < arguments.size(); ++i) {
    YamlTree given = composer.read_override(command_line, static_cast<int>(i) + 1, offset, overrides[i]);
    if (given.root.kind == YamlNode::Kind::kMap) {
      composer.refuse_second(arguments, i, given.root.place);
      drop_excluded(tree.root, given.root, "", command_line);
      merge(tree.root, std::move(given.root), true);
    }
    offset += arguments[i].size() + 1;
  }
  tree.environment = std::move(composer.reads);
  substitute(tree.root, tree.environment, report);
  return tree;
}

}  // namespace runner::schema
