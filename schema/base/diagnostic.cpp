#include "schema/base/diagnostic.h"

#include "schema/base/json.h"

namespace runner::schema {
namespace {

constexpr ErrorIdRow kErrorIds[] = {
    {ErrorId::kUnreadableFile, "unreadable-file", "a recipe or an included file does not exist or cannot be read"},
    {ErrorId::kFileTooLarge, "file-too-large", "a recipe file is larger than 1 MiB"},
    {ErrorId::kNotUtf8, "not-utf8", "the text is not valid UTF-8"},
    {ErrorId::kControlCharacter, "control-character", "the text holds a control character"},
    {ErrorId::kTabIndent, "tab-indent", "a line is indented with a tab; YAML wants spaces"},
    {ErrorId::kYamlSyntax, "yaml-syntax", "the text is not YAML"},
    {ErrorId::kSeveralDocuments, "several-documents", "a file holds more than one YAML document"},
    {ErrorId::kYamlTag, "yaml-tag", "a value carries a YAML tag; types follow from the field table"},
    {ErrorId::kMergeKey, "merge-key", "the YAML merge key << is used; include: and vars: compose recipes"},
    {ErrorId::kBadKey, "bad-key", "a key is empty, a list or a section instead of a name"},
    {ErrorId::kDuplicateKey, "duplicate-key", "a key is written twice in one section"},
    {ErrorId::kCyclicAlias, "cyclic-alias", "a YAML alias stands inside the value it names"},
    {ErrorId::kTooDeep, "too-deep", "lists and sections are nested more than 32 deep"},
    {ErrorId::kTooManyValues, "too-many-values",
     "aliases or variables expand to more than 10,000 values or 1 MiB of text"},
    {ErrorId::kIncludeCycle, "include-cycle", "a recipe includes itself, perhaps through others"},
    {ErrorId::kTooManyIncludes, "too-many-includes", "a recipe includes more than 64 files"},
    {ErrorId::kBadOverride, "bad-override", "a command line argument is not key=value"},
    {ErrorId::kBadSubstitution, "bad-substitution", "a ${…} is neither ${vars.NAME} nor ${env:NAME:default}"},
    {ErrorId::kUnknownVariable, "unknown-variable", "a ${vars.…} names no variable"},
    {ErrorId::kCyclicVariable, "cyclic-variable", "a variable refers to itself, perhaps through others"},
    {ErrorId::kUnsetEnvironment, "unset-environment", "a ${env:NAME} without a default names an unset variable"},
    {ErrorId::kUnknownKey, "unknown-key", "no such key"},
    {ErrorId::kMissingKey, "missing-key", "a required key is not written"},
    {ErrorId::kMissingValue, "missing-value", "a key has nothing after its colon"},
    {ErrorId::kWrongType, "wrong-type", "a value is of another type than its field"},
    {ErrorId::kLeadingZero, "leading-zero", "a number begins with a zero; YAML versions disagree on its value"},
    {ErrorId::kNotFinite, "not-finite", "a number is infinite or not a number"},
    {ErrorId::kOutOfRange, "out-of-range", "a value is outside the range of its field"},
    {ErrorId::kUnknownChoice, "unknown-choice", "a value is none of the names that its field knows"},
    {ErrorId::kUnitMissing, "unit-missing", "a length or a size is a bare number"},
    {ErrorId::kBadLength, "bad-length", "a length is not a whole number of steps, epochs or samples"},
    {ErrorId::kBadSize, "bad-size", "a size is not a number of B, KiB, MiB, GiB or TiB"},
    {ErrorId::kNotYet, "not-yet", "the value belongs to a part that does not work yet"},
    {ErrorId::kIgnoredOption, "ignored-option", "the chosen type, backend or mode would ignore the key"},
    {ErrorId::kConflictingKeys, "conflicting-keys", "two keys exclude each other"},
    {ErrorId::kNeedsOption, "needs-option", "a key needs another key, or another value of it"},
    {ErrorId::kNoEvalData, "no-eval-data", "a key needs evaluation data and there is none"},
    {ErrorId::kMetricNotRecorded, "metric-not-recorded", "a key watches a metric that the run would not record"},
    {ErrorId::kTaskMismatch, "task-mismatch", "a metric or a loss does not fit the kind of labels"},
    {ErrorId::kWarmupTooLong, "warmup-too-long", "the warm-up is longer than the schedule"},
    {ErrorId::kResumeChange, "resume-change", "a resumed run would differ in a key that cannot change"},
    {ErrorId::kBadHook, "bad-hook", "the hook cannot be used, or does not fit the recipe"},
    {ErrorId::kBadExpression, "bad-expression", "an expression of `ls`, or SQL, cannot be read"},
};

struct Style {
  const char *bold, *red, *green, *reset;
};
constexpr Style kPlain{"", "", "", ""};
constexpr Style kColour{"\033[1m", "\033[1;31m", "\033[1;32m", "\033[0m"};

constexpr size_t kMaxLine = 160;  // characters of a source line that are shown
constexpr size_t kMargin = 60;    // characters before the fault in a line that is cut

// The byte offset of character `index` in UTF-8 text, or its end.
size_t offset_of(std::string_view text, size_t index) {
  size_t at = 0;
  while (at < text.size() && index > 0) {
    ++at;
    while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) ++at;
    --index;
  }
  return at;
}

void append_excerpt(std::string& out, const Diagnostic& d, const Style& style) {
  size_t start = 0;
  const size_t column = static_cast<size_t>(d.where.column) - 1;
  if (column + static_cast<size_t>(d.width) > kMaxLine) start = column > kMargin ? column - kMargin : 0;
  const std::string_view rest = std::string_view(d.source_line).substr(offset_of(d.source_line, start));
  const std::string_view shown = rest.substr(0, offset_of(rest, kMaxLine));
  const size_t width = std::min(static_cast<size_t>(d.width), kMaxLine - (column - start));
  out += fmt::format("  {}\n  {:{}}{}^{:~<{}}{}\n", shown, "", column - start, style.green, "", width - 1, style.reset);
}

}  // namespace

std::span<const ErrorIdRow> error_ids() {
  return kErrorIds;
}

std::string_view name_of(ErrorId id) {
  return kErrorIds[static_cast<size_t>(id)].name;
}

std::string render_text(std::span<const Diagnostic> diagnostics, bool colour) {
  const Style& style = colour ? kColour : kPlain;
  std::string out;
  for (const Diagnostic& d : diagnostics) {
    out += fmt::format("{}{}: {}error:{} {}{} [{}]\n", style.bold, d.where.to_string(), style.red, style.reset,
                       d.message, style.reset, name_of(d.id));
    if (!d.source_line.empty()) append_excerpt(out, d, style);
    if (!d.hint.empty()) out += fmt::format("hint: {}\n", d.hint);
  }
  return out;
}

std::string render_json(std::span<const Diagnostic> diagnostics) {
  const auto error = [](const Diagnostic& d) {
    return json::Object{{"id", std::string(name_of(d.id))},
                        {"file", d.where.file},
                        {"line", d.where.line},
                        {"column", d.where.column},
                        {"key", d.key},
                        {"message", d.message},
                        {"hint", d.hint}};
  };
  return json::text(json::Object{{"ok", diagnostics.empty()}, {"errors", json::list_of(diagnostics, error)}});
}

RecipeError::RecipeError(std::vector<Diagnostic> diagnostics)
    : Error(ErrorKind::kRecipe, render_text(diagnostics), diagnostics.front().where),
      diagnostics_(std::move(diagnostics)) {}

}  // namespace runner::schema
