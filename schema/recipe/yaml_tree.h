// A YAML text as a tree whose every key and value knows its place.
//
// Stricter than YAML: no duplicate, empty or non-text keys, no tags, no merge keys, no second document, no cyclic
// aliases, no tab indentation, UTF-8 only, at most 32 levels, 10,000 values, 1 MiB.  Scalars stay text: what they mean
// depends on the field that they are written for (schema/scalar.h).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "schema/base/source_text.h"

namespace runner::schema {

inline constexpr size_t kMaxTextBytes = 1 << 20;
inline constexpr int kMaxValues = 10'000;
inline constexpr int kMaxDepth = 32;

struct YamlNode {
  enum class Kind {
    kEmpty,  // nothing is written
    kNull,   // null or ~
    kScalar,
    kList,
    kMap,
    kInvalid,  // a fault has been reported for it: readers pass over it in silence
  };
  struct Member;

  Kind kind = Kind::kEmpty;
  bool quoted = false;    // scalar: text whatever it looks like
  bool from_env = false;  // the environment has set it or a part of it
  bool loose = false;     // pieced together from ${…}: plain, but any text for a text field
  bool expanded = false;  // its ${…} have been replaced
  std::string text;       // scalar
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

struct YamlTree {
  YamlNode root;
  bool complete = true;  // false: a fault ended the reading early, so what is missing may be missing because of it
};

// Parses the bytes [offset, offset + length) of report.source(source); faults go to the report.  Never throws for wrong
// input.
YamlTree parse_yaml(int source, Report& report, size_t offset = 0, size_t length = std::string::npos);

// The number of nodes of the tree.
int count_nodes(const YamlNode& node);

}  // namespace runner::schema
