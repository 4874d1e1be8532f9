// Source texts of a recipe (its file, included files, the command line) and the faults found in them.
//
// A Place is a span of characters in one of the texts. The reader returns it as a SourceMark. Not thread-safe.
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
  // Name for messages: the path as the user wrote it.
  const std::string& name() const { return name_; }
  // Relative paths in this text are relative to this folder; "" is the current folder.
  const std::string& folder() const { return folder_; }
  const std::string& text() const { return text_; }
  // Whether this is the recorded recipe of a run, which was checked by the rules in force when the run started.
  bool is_recorded() const { return is_recorded_; }
  void set_recorded() { is_recorded_ = true; }
  // Returns line `number`, from 1, without its newline; empty after the last line.
  std::string_view line(int number) const;
  // Returns the place of text()[offset].
  Place place_at(int source, size_t offset, int width = 1) const;

 private:
  OriginKind kind_;
  std::string name_, folder_, text_;
  std::vector<size_t> line_starts_;
  bool is_recorded_ = false;
};

class Report {
 public:
  // Returns the index of the new source.
  int add_source(SourceText source);
  const SourceText& source(int index) const { return sources_[static_cast<size_t>(index)]; }
  int source_count() const { return static_cast<int>(sources_.size()); }
  SourceMark mark(const Place& place) const;

  // Returns a fault with its source line. The texts may contain bytes of the recipe; unprintable ones are replaced.
  Diagnostic diagnostic(ErrorId id, const Place& place, std::string_view key, std::string_view message,
                        std::string_view hint = "") const;
  void add(ErrorId id, const Place& place, std::string_view key, std::string_view message, std::string_view hint = "");
  bool empty() const { return found_.empty(); }
  // Returns all faults, sorted by source, line and column, then in the order in which they were added.
  std::vector<Diagnostic> take();
  // Throws RecipeError with all faults if there are any.
  void throw_if_any() {
    if (!empty()) throw RecipeError(take());
  }

 private:
  struct Found {
    Place place;
    Diagnostic diagnostic;
  };
  std::vector<SourceText> sources_;
  std::vector<Found> found_;
};

}  // namespace runner::schema
