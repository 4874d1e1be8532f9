// The texts that a recipe is read from (its file, included files, the command line) and the faults found in them.
//
// A Place is a span of characters in one of the texts; it becomes a SourceMark when it leaves the reader.  Used by one
// reader on one thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "schema/base/diagnostic.h"

namespace runner::schema {

enum class OriginKind { kDefault, kRecipe, kInclude, kCommandLine, kEnv };

// "default", "recipe", "include", "command line", "env".
std::string_view name_of(OriginKind kind);

struct Place {
  int source = 0;
  int line = 1;    // from 1
  int column = 1;  // from 1, in characters
  int width = 1;   // characters
};

class SourceText {
 public:
  SourceText(OriginKind kind, std::string name, std::string folder, std::string text);

  OriginKind kind() const { return kind_; }
  // As shown in messages: the path as the user wrote it.
  const std::string& name() const { return name_; }
  // Relative paths in this text start here; "" is the current folder.
  const std::string& folder() const { return folder_; }
  const std::string& text() const { return text_; }
  // What a run was recorded with: it was checked when the run began, by the rules of then.
  bool is_recorded() const { return is_recorded_; }
  void set_recorded() { is_recorded_ = true; }
  // Line `number` from 1, without its end; empty beyond the last line.
  std::string_view line(int number) const;
  // The place of text()[offset].
  Place place_at(int source, size_t offset, int width = 1) const;

 private:
  OriginKind kind_;
  std::string name_, folder_, text_;
  std::vector<size_t> line_starts_;
  bool is_recorded_ = false;
};

// The number of characters in UTF-8 text.
int count_characters(std::string_view text);

// The bytes of the UTF-8 character at text[at], 1 to 4; 0 where the bytes are not UTF-8 (RFC 3629: no overlong forms,
// no surrogates).
size_t utf8_length(std::string_view text, size_t at);
bool is_utf8(std::string_view text);

class Report {
 public:
  // Returns the index of the new source.
  int add_source(SourceText source);
  const SourceText& source(int index) const { return sources_[static_cast<size_t>(index)]; }
  int source_count() const { return static_cast<int>(sources_.size()); }
  SourceMark mark(const Place& place) const;

  // A fault with its line.  Texts may hold bytes of the recipe: what cannot be shown is replaced.
  Diagnostic diagnostic(ErrorId id, const Place& place, std::string_view key, std::string_view message,
                        std::string_view hint = "") const;
  void add(ErrorId id, const Place& place, std::string_view key, std::string_view message, std::string_view hint = "");
  bool empty() const { return found_.empty(); }
  // All faults, by source, line and column; faults at one place stay in the order they were found.
  std::vector<Diagnostic> take();

 private:
  struct Found {
    Place place;
    Diagnostic diagnostic;
  };
  std::vector<SourceText> sources_;
  std::vector<Found> found_;
};

}  // namespace runner::schema
