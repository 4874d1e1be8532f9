#include "schema/recipe/yaml_tree.h"

#include <algorithm>
#include <map>
#include <sstream>

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include "schema/base/utf8.h"

namespace runner::schema {
namespace {

struct StopReading {};

// Builds the tree from yaml-cpp's events and reports faults that yaml-cpp accepts.
class TreeBuilder : public YAML::EventHandler {
 public:
  // Reads `text` of the source up to byte `end`. Marks are relative to byte `offset`.
  TreeBuilder(int source, Report& report, size_t offset, size_t end)
      : source_(source), report_(report), offset_(offset), end_(end) {}

  YamlNode take_root() { return std::move(root_); }

  // Place of a yaml-cpp mark, whose columns count bytes from `offset`.
  Place place_of(const YAML::Mark& mark) const { return text().place_at(source_, byte_of(mark)); }

  // Start of the innermost open list or section.
  Place open_place() const { return frames_.empty() ? Place{source_} : frames_.back().node.place; }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ == 1) return;
    report_.add(ErrorId::kSeveralDocuments, place_of(mark), "", "a second YAML document starts here",
                text().kind() == OriginKind::kCommandLine
                    ? "quote a text that YAML would read as something else: 'name=\"[a] b\"'"
                    : "a recipe is one document; use include: to combine several files");
    throw StopReading();
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    YamlNode node = begin(mark);
    const std::string_view word = null_word(byte_of(mark));
    node.kind = word.empty() ? YamlNode::Kind::kEmpty : YamlNode::Kind::kNull;
    node.place.width = std::max(1, static_cast<int>(word.size()));
    if (word.empty() && !frames_.empty() && frames_.back().has_key) node.place = frames_.back().key_place;
    finish(std::move(node), anchor);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end()) {
      report_.add(ErrorId::kCyclicAlias, place_of(mark), "", "the alias is used inside the value that it refers to");
      throw StopReading();
    }
    nodes_ += count_nodes(found->second);
    YamlNode copy = found->second;
    copy.place = place_of(mark);
    check_size(copy.place);
    finish(std::move(copy), 0);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    YamlNode node = begin(mark);
    check_tag(tag, node.place);
    node.kind = YamlNode::Kind::kScalar;
    node.text = value;
    node.quoted = tag == "!";
    node.place.width = scalar_width(byte_of(mark), value);
    if (value.find('\0') != std::string::npos) {
      report_.add(ErrorId::kControlCharacter, node.place, "",
                  "the text contains the control character 0x00, which is not allowed in a recipe");
    }
    finish(std::move(node), anchor);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    push(mark, tag, anchor, YamlNode::Kind::kList);
  }
  void OnSequenceEnd() override { pop(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    push(mark, tag, anchor, YamlNode::Kind::kMap);
  }
  void OnMapEnd() override { pop(); }

 private:
  // A list or map under construction.
  struct Frame {
    YamlNode node;
    YAML::anchor_t anchor = 0;
    bool has_key = false;  // map: the next value belongs to `key`
    bool keep = true;      // false for the value of a rejected key
    std::string key;
    Place key_place;
  };

  const SourceText& text() const { return report_.source(source_); }
  std::string_view characters() const { return std::string_view(text().text()).substr(0, end_); }

  size_t byte_of(const YAML::Mark& mark) const {
    return std::min(end_, offset_ + static_cast<size_t>(std::max(mark.pos, 0)));
  }

  YamlNode begin(const YAML::Mark& mark) {
    ++nodes_;
    YamlNode node;
    node.place = place_of(mark);
    check_size(node.place);
    return node;
  }

  void check_size(const Place& place) {
    if (nodes_ <= kMaxValues) return;
    report_.add(ErrorId::kTooManyValues, place, "",
                fmt::format("the recipe expands to more than {} values", kMaxValues));
    throw StopReading();
  }

  void check_tag(const std::string& tag, const Place& place) {
    if (tag.empty() || tag == "?" || tag == "!") return;
    report_.add(ErrorId::kYamlTag, place, "", "YAML tags are not used in recipes",
                "remove the tag; use quotes to make a value a text");
  }

  std::string_view null_word(size_t at) const {
    const std::string_view rest = characters().substr(at);
    for (const std::string_view word : {"~", "null", "Null", "NULL"}) {
      if (!rest.starts_with(word)) continue;
      const size_t next = rest.find_first_not_of(' ', word.size());
      // A key named null on the next line is not this value.
      if (next == std::string_view::npos || rest[next] != ':') return word;
    }
    return {};
  }

  // Characters from the start of a scalar to its end on the same line; reports a quote that is never closed.
  int scalar_width(size_t at, const std::string& value) {
    const std::string_view all = characters();
    if (at < all.size() && all[at] == '&') at = std::min(all.size(), all.find_first_of(" \n", at));
    while (at < all.size() && all[at] == ' ') ++at;
    const char quote = at < all.size() ? all[at] : '\0';
    if (quote != '"' && quote != '\'')
      return std::max(1, count_characters(std::string_view(value).substr(0, value.find('\n'))));
    size_t end = at + 1;
    while (end < all.size() &&
           (all[end] != quote || (quote == '\'' && end + 1 < all.size() && all[end + 1] == quote))) {
      end += quote == '\'' && all[end] == quote ? 2 : quote == '"' && all[end] == '\\' ? 2 : 1;
    }
    if (end >= all.size()) {
      report_.add(ErrorId::kYamlSyntax, text().place_at(source_, at), "", "the quote is never closed");
      throw StopReading();
    }
    const size_t line_end = std::min(end + 1, all.find('\n', at));
    return count_characters(all.substr(at, line_end - at));
  }

  void push(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, YamlNode::Kind kind) {
    Frame frame;
    frame.node = begin(mark);
    frame.node.kind = kind;
    frame.anchor = anchor;
    check_tag(tag, frame.node.place);
    if (frames_.size() >= kMaxDepth) {
      report_.add(ErrorId::kTooDeep, frame.node.place, "", fmt::format("nested more than {} levels deep", kMaxDepth));
      throw StopReading();
    }
    frames_.push_back(std::move(frame));
  }

  void pop() {
    Frame frame = std::move(frames_.back());
    frames_.pop_back();
    finish(std::move(frame.node), frame.anchor);
  }

  // Adds a complete node as the root, an item, a key or a value.
  void finish(YamlNode node, YAML::anchor_t anchor) {
    if (anchor != 0) anchors_[anchor] = node;
    if (frames_.empty()) {
      root_ = std::move(node);
      return;
    }
    Frame& parent = frames_.back();
    if (parent.node.kind == YamlNode::Kind::kList) {
      parent.node.items.push_back(std::move(node));
    } else if (!parent.has_key) {
      accept_key(parent, node);
    } else {
      parent.has_key = false;
      if (parent.keep) parent.node.members.push_back({std::move(parent.key), parent.key_place, std::move(node)});
    }
  }

  void accept_key(Frame& map, const YamlNode& node) {
    map.has_key = true;
    map.key = node.text;
    map.key_place = node.place;
    map.keep = key_is_usable(map, node);
  }

  bool key_is_usable(const Frame& map, const YamlNode& node) {
    if (node.kind != YamlNode::Kind::kScalar || node.text.empty()) {
      report_.add(ErrorId::kBadKey, node.place, "", "a key must be a name");
      return false;
    }
    if (node.text == "<<" && !node.quoted) {
      report_.add(ErrorId::kMergeKey, node.place, "", "the merge key << is not used in recipes",
                  "use include: to merge files, ${vars.x} to repeat values");
      return false;
    }
    const YamlNode::Member* first = map.node.find(node.text);
    if (first == nullptr) return true;
    report_.add(ErrorId::kDuplicateKey, node.place, node.text,
                fmt::format("the key {} is already defined on line {}", node.text, first->place.line),
                "remove one of the two");
    return false;
  }

  int source_;
  Report& report_;
  size_t offset_, end_;
  int documents_ = 0;
  int nodes_ = 0;
  YamlNode root_;
  std::vector<Frame> frames_;
  std::map<YAML::anchor_t, YamlNode> anchors_;
};

// Reports bytes that YAML readers accept or misread. Returns false if the text should not be parsed.
bool check_characters(int source, size_t offset, size_t length, Report& report) {
  const SourceText& text = report.source(source);
  const std::string_view all = std::string_view(text.text()).substr(0, offset + length);
  bool indent = true, good = true;
  for (size_t at = offset; at < all.size();) {
    const size_t bytes = utf8_length(all, at);
    const auto c = static_cast<unsigned char>(all[at]);
    if (bytes == 0) {
      report.add(ErrorId::kNotUtf8, text.place_at(source, at), "", fmt::format("the byte 0x{:02x} is not UTF-8", c),
                 "save the file as UTF-8");
      return false;
    }
    const bool crlf = c == '\r' && at + 1 < all.size() && all[at + 1] == '\n';
    if ((c < 0x20 && c != '\n' && c != '\t' && !crlf) || c == 0x7F) {
      report.add(ErrorId::kControlCharacter, text.place_at(source, at), "",
                 fmt::format("the control character 0x{:02x} is not allowed in a recipe", c));
      return false;
    }
    if (indent && c == '\t') {
      const size_t next = all.find_first_not_of(" \t\r", at);
      if (next != std::string_view::npos && all[next] != '\n' && all[next] != '#') {
        report.add(ErrorId::kTabIndent, text.place_at(source, at), "", "a tab indents this line", "use spaces");
        good = false;
      }
    }
    indent = c == '\n' || (indent && c == ' ');
    at += bytes;
  }
  return good;
}

// Reports a syntax error of yaml-cpp, with our own message if its message does not help.
void report_syntax(const YAML::Exception& error, const TreeBuilder& builder, Report& report) {
  struct Words {
    std::string_view theirs, ours, hint;
  };
  static constexpr Words kWords[] = {
      {"end of sequence flow not found", "the [ is never closed", ""},
      {"end of map flow not found", "the { is never closed", ""},
      {"illegal map value", "a second \": \" in one value", "check the indentation; a text with \": \" needs quotes"},
      {"end of map not found", "this line does not belong to a key above it", "check the indentation"},
      {"end of sequence not found", "this line does not belong to an item above it", "check the indentation"},
      {"the referenced anchor is not defined", "an alias (*) without its anchor (&)",
       "a text that starts with * needs quotes"},
  };
  const Place place = builder.place_of(error.mark);
  if (report.source(place.source).line(place.line).find("${") != std::string_view::npos) {
    report.add(ErrorId::kYamlSyntax, place, "", "invalid YAML: " + error.msg,
               "inside { } or [ ] write \"${…}\" in quotes");
    return;
  }
  for (const Words& words : kWords) {
    if (words.theirs != error.msg) continue;
    const bool open = words.ours.ends_with("closed");
    report.add(ErrorId::kYamlSyntax, open ? builder.open_place() : place, "",
               fmt::format("invalid YAML: {}", words.ours), words.hint);
    return;
  }
  report.add(ErrorId::kYamlSyntax, place, "", "invalid YAML: " + error.msg);
}

bool has_secret(const YamlNode& node) {
  return !node.recorded.empty() || std::ranges::any_of(node.items, has_secret) ||
         std::ranges::any_of(node.members, [](const YamlNode::Member& member) { return has_secret(member.value); });
}

Value generic_value(const YamlNode& node) {
  if (node.kind == YamlNode::Kind::kList) {
    ValueList values;
    for (const YamlNode& item : node.items) values.push_back(generic_value(item));
    return values;
  }
  if (node.kind == YamlNode::Kind::kMap) {
    ValueMap values;
    for (const YamlNode::Member& member : node.members) values.emplace_back(member.key, generic_value(member.value));
    return values;
  }
  if (node.kind != YamlNode::Kind::kScalar) return {};
  if (!node.recorded.empty()) return node.recorded;
  return node.quoted ? Value(node.text) : read_plain_scalar(node.text).value;
}

}  // namespace

const YamlNode::Member* YamlNode::find(std::string_view key) const {
  for (const Member& member : members)
    if (member.key == key) return &member;
  return nullptr;
}

YamlNode::Member* YamlNode::find(std::string_view key) {
  return const_cast<Member*>(static_cast<const YamlNode*>(this)->find(key));
}

Value recorded_value(const YamlNode& node) {
  return has_secret(node) ? generic_value(node) : Value();
}

int count_nodes(const YamlNode& node) {
  int count = 1;
  for (const YamlNode& item : node.items) count += count_nodes(item);
  for (const YamlNode::Member& member : node.members) count += count_nodes(member.value);
  return count;
}

YamlTree parse_yaml(int source, Report& report, size_t offset, size_t length) {
  const std::string_view text = std::string_view(report.source(source).text()).substr(offset, length);
  if (text.size() > kMaxTextBytes) {
    report.add(ErrorId::kFileTooLarge, {source}, "", "the recipe is larger than 1 MiB");
    return {{}, false};
  }
  if (!check_characters(source, offset, text.size(), report)) return {{}, false};
  TreeBuilder builder(source, report, offset, offset + text.size());
  YamlTree tree;
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const StopReading&) {
    tree.complete = false;
  } catch (const YAML::Exception& error) {
    report_syntax(error, builder, report);
    tree.complete = false;
  }
  tree.root = builder.take_root();
  return tree;
}

}  // namespace runner::schema
