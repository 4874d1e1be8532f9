// Faults of a recipe: one Diagnostic per fault, with an id, a place, a message and possibly a hint.
//
// Ids are stable: scripts and the error catalogue refer to them. Line and column are always at least 1. All functions
// are thread-safe.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "schema/base/error.h"

namespace runner::schema {

enum class ErrorId {
  // files and YAML
  kUnreadableFile,
  kFileTooLarge,
  kNotUtf8,
  kControlCharacter,
  kTabIndent,
  kYamlSyntax,
  kSeveralDocuments,
  kYamlTag,
  kMergeKey,
  kBadKey,
  kDuplicateKey,
  kCyclicAlias,
  kTooDeep,
  kTooManyValues,
  // include, vars, command line
  kIncludeCycle,
  kTooManyIncludes,
  kBadOverride,
  kBadSubstitution,
  kUnknownVariable,
  kCyclicVariable,
  kUnsetEnvironment,
  kChangedSecret,
  // one key
  kUnknownKey,
  kMissingKey,
  kMissingValue,
  kWrongType,
  kLeadingZero,
  kNotFinite,
  kOutOfRange,
  kUnknownChoice,
  kUnitMissing,
  kBadLength,
  kBadSize,
  kNotYet,
  // keys together
  kIgnoredOption,
  kConflictingKeys,
  kNeedsOption,
  kNoEvalData,
  kMetricNotRecorded,
  kTaskMismatch,
  kWarmupTooLong,
  kResumeChange,
  kBadHook,
  // other texts of the command line
  kBadExpression,
};

struct ErrorIdRow {
  ErrorId id;
  std::string_view name;  // kebab-case
  std::string_view text;  // one sentence for the catalogue
};

// Every id, in the order of the enum.
std::span<const ErrorIdRow> error_ids();
std::string_view name_of(ErrorId id);

struct Diagnostic {
  ErrorId id = ErrorId::kYamlSyntax;
  SourceMark where;
  int width = 1;    // characters underlined
  std::string key;  // dotted path; empty if the fault is not about a key
  std::string message;
  std::string hint;  // empty if there is none
  std::string source_line;
};

// Renders each diagnostic as "file:line:column: error: message [id]", the source line, a caret line, "hint: …".
// `colour` adds ANSI escapes and changes nothing else.
std::string render_text(std::span<const Diagnostic> diagnostics, bool colour = false);

// {"ok": …, "errors": [{"id", "file", "line", "column", "key", "message", "hint"}]}; key and hint are "" if
// there is none.
std::string render_json(std::span<const Diagnostic> diagnostics);

// An invalid recipe. message() is render_text() without colour; where() is the mark of the first fault.
class RecipeError : public Error {
 public:
  // `diagnostics`: at least one.
  explicit RecipeError(std::vector<Diagnostic> diagnostics);

  const std::vector<Diagnostic>& diagnostics() const { return diagnostics_; }
  // The rendered diagnostics; unlike Error's it does not repeat where().
  const char* what() const noexcept override { return message().c_str(); }

 private:
  std::vector<Diagnostic> diagnostics_;
};

}  // namespace runner::schema
