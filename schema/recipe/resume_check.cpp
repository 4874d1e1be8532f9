#include "schema/recipe/resume_check.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "schema/recipe/field_words.h"

namespace runner::schema {
namespace {

std::string text_of(const Leaf& leaf) {
  return display_text(as_written(*leaf.field, leaf.value));
}

// Returns the override as one word of a command line.
std::string override_of(const std::string& path, const Leaf* leaf) {
  const std::string text = fmt::format("{}={}", path, leaf != nullptr ? text_of(*leaf) : "null");
  const bool is_one_word = text.find_first_of(" \"[]{}()<>|&;*?$~#!\\\t\n") == std::string::npos;
  return is_one_word ? text : fmt::format("'{}'", text);
}

bool may_change(const Field& field, const Leaf* before, const Leaf* after) {
  switch (field.on_resume) {
    case OnResume::kFixed: return false;
    case OnResume::kAny: return true;
    case OnResume::kLarger: break;
  }
  const bool both = before != nullptr && after != nullptr;
  return both && *after->value.integer() > *before->value.integer();
}

// Whether the key exists for one backend only, such as downcast_bf16.
bool is_of_a_backend(const Field& field) {
  return std::ranges::find(field.when, std::string_view("backend"), &Condition::path) != field.when.end();
}

}  // namespace

std::vector<Diagnostic> check_resume_overrides(const ReadResult& before, const ReadResult& after) {
  std::set<std::string> paths;
  for (const Leaf& leaf : before.leaves) paths.insert(leaf.path);
  for (const Leaf& leaf : after.leaves) paths.insert(leaf.path);
  std::vector<Diagnostic> diagnostics;
  for (const std::string& path : paths) {
    const Leaf* was = before.find(path);
    const Leaf* is = after.find(path);
    if (was != nullptr && is != nullptr && was->value == is->value) continue;
    // Another backend adds its own section, and another device model may lack fields; defaults do not matter.
    if (was == nullptr && is->value == after.default_of(*is->field)) continue;
    if (is == nullptr && was->value == before.default_of(*was->field)) continue;
    const Field& field = *(is != nullptr ? is : was)->field;
    if (may_change(field, was, is)) continue;
    if (is == nullptr && is_of_a_backend(field)) continue;
    // Removed because of the key that excludes it, which is reported.
    if (is == nullptr && !field.excludes.empty() && after.find(child_path(field.parent, field.excludes)) != nullptr)
      continue;
    Diagnostic& d = diagnostics.emplace_back();
    d.id = ErrorId::kResumeChange;
    d.where = after.mark_of(path);
    d.key = path;
    const bool larger = field.on_resume == OnResume::kLarger;
    d.message = fmt::format("{} {} when a run is resumed: {} -> {}", path, larger ? "can only grow" : "cannot change",
                            was != nullptr ? text_of(*was) : "not set", is != nullptr ? text_of(*is) : "not set");
    d.hint = fmt::format(
        "use `runner fork RUN {}` to continue from its state in a new run, or `runner exec` to start from the "
        "beginning",
        override_of(path, is));
  }
  return diagnostics;
}

}  // namespace runner::schema
