// A YAML text as a tree in which every key and value has its place.
//
// Stricter than YAML: no duplicate, empty or non-text keys, no tags, no merge keys, no second document, no cyclic
// aliases, no tab indentation, UTF-8 only, at most 32 levels, 10,000 values, 1 MiB. Scalars stay text, because their
// type depends on their field (field_value.h).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "schema/base/source_text.h"
#include "schema/base/value.h"

namespace runner::schema {

inline constexpr size_t kMaxTextBytes = 1 << 20;
inline constexpr int kMaxValues = 10'000;
inline constexpr int kMaxDepth = 32;

struct YamlNode {
  enum class Kind {
    kEmpty,  // no value written
    kNull,   // null or ~
    kScalar,
    kList,
    kMap,
    kInvalid,  // its fault has been reported; readers ignore it
  };
  struct Member;

  Kind kind = Kind::kEmpty;
  bool quoted = false;    // scalar that is always text
  bool from_env = false;  // set by the environment, at least in part
  bool loose = false;     // composed from ${…}: plain, but any text is valid for a text field
  bool expanded = false;  // ${…} have been replaced
  std::string text;       // scalar
  std::string recorded;   // the text with references for secret variables (secrets.h); empty if it has none
  Place place;
  std::vector<YamlNode> items;
  std::vector<Member> members;

  const Member* find(std::string_view key) const;
  Member* find(std::string_view key);
  bool is_unset() const { return kind == Kind::kEmpty || kind == Kind::kNull; }
};

struct YamlNode::Member {
  std::string key;
  Place place;  // of the key
  YamlNode value;
};

// An environment variable that a value refers to.
struct EnvironmentRead {
  std::string name;
  bool is_secret = false;
  bool is_set = true;  // false: the value has its default

  bool operator==(const EnvironmentRead&) const = default;
};

struct YamlTree {
  YamlNode root;
  bool complete = true;  // false if a fault ended the reading early, so that keys may be missing because of it
  std::vector<EnvironmentRead> environment = {};  // without repetitions
};

// Parses the bytes [offset, offset + length) of report.source(source) and adds faults to the report. Does not throw for
// invalid input.
YamlTree parse_yaml(int source, Report& report, size_t offset = 0, size_t length = std::string::npos);

// Returns the value of a node for the record of a run, with references for secret variables; null if it has none.
Value recorded_value(const YamlNode& node);

// Returns the number of nodes of the tree.
int count_nodes(const YamlNode& node);

}  // namespace runner::schema
