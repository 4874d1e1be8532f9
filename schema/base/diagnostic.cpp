#include "schema/base/diagnostic.h"

#include "schema/base/color.h"
#include "schema/base/json.h"
#include "schema/base/text.h"

namespace runner::schema {
namespace {

constexpr ErrorIdRow kErrorIds[] = {
    {ErrorId::kUnreadableFile, "unreadable-file", "a recipe or an included file does not exist or cannot be read"},
    {ErrorId::kFileTooLarge, "file-too-large", "a recipe file is larger than 1 MiB"},
    {ErrorId::kNotUtf8, "not-utf8", "the text is not valid UTF-8"},
    {ErrorId::kControlCharacter, "control-character", "the text contains a control character"},
    {ErrorId::kTabIndent, "tab-indent", "a line is indented with a tab; YAML needs spaces"},
    {ErrorId::kYamlSyntax, "yaml-syntax", "the text is not valid YAML"},
    {ErrorId::kSeveralDocuments, "several-documents", "a file contains more than one YAML document"},
    {ErrorId::kYamlTag, "yaml-tag", "a value has a YAML tag; types follow from the field table"},
    {ErrorId::kMergeKey, "merge-key", "the YAML merge key << is used; include: and vars: compose recipes"},
    {ErrorId::kBadKey, "bad-key", "a key is empty, a list or a section instead of a name"},
    {ErrorId::kDuplicateKey, "duplicate-key", "a key is written twice in one section"},
    {ErrorId::kCyclicAlias, "cyclic-alias", "a YAML alias is used inside the value that it refers to"},
    {ErrorId::kTooDeep, "too-deep", "lists and sections are nested more than 32 deep"},
    {ErrorId::kTooManyValues, "too-many-values",
     "aliases or variables expand to more than 10,000 values or 1 MiB of text"},
    {ErrorId::kIncludeCycle, "include-cycle", "a recipe includes itself, directly or through other files"},
    {ErrorId::kTooManyIncludes, "too-many-includes", "a recipe includes more than 64 files"},
    {ErrorId::kBadOverride, "bad-override", "a command line argument is not key=value"},
    {ErrorId::kBadSubstitution, "bad-substitution", "a ${…} is neither ${vars.NAME} nor ${env:NAME:default}"},
    {ErrorId::kUnknownVariable, "unknown-variable", "a ${vars.…} refers to an undefined variable"},
    {ErrorId::kCyclicVariable, "cyclic-variable", "a variable refers to itself, directly or through other variables"},
    {ErrorId::kUnsetEnvironment, "unset-environment", "a ${env:NAME} without a default refers to an unset variable"},
    {ErrorId::kChangedSecret, "changed-secret",
     "a secret environment variable differs from the one that the run recorded"},
    {ErrorId::kUnknownKey, "unknown-key", "no such key"},
    {ErrorId::kMissingKey, "missing-key", "a required key is missing"},
    {ErrorId::kMissingValue, "missing-value", "a key has no value after its colon"},
    {ErrorId::kWrongType, "wrong-type", "a value does not have the type of its field"},
    {ErrorId::kLeadingZero, "leading-zero", "a number has a leading zero; YAML versions disagree on its value"},
    {ErrorId::kNotFinite, "not-finite", "a number is infinite or not a number"},
    {ErrorId::kOutOfRange, "out-of-range", "a value is outside the range of its field"},
    {ErrorId::kUnknownChoice, "unknown-choice", "a value is not one of the choices of its field"},
    {ErrorId::kUnitMissing, "unit-missing", "a length or a size has no unit"},
    {ErrorId::kBadLength, "bad-length", "a length is not a number of steps, epochs, samples or %"},
    {ErrorId::kBadSize, "bad-size", "a size is not a number of B, KiB, MiB, GiB or TiB"},
    {ErrorId::kNotYet, "not-yet", "the value is not implemented yet"},
    {ErrorId::kIgnoredOption, "ignored-option", "the selected type, backend or mode ignores the key"},
    {ErrorId::kConflictingKeys, "conflicting-keys", "two keys exclude each other"},
    {ErrorId::kNeedsOption, "needs-option", "a key needs another key, or another value of that key"},
    {ErrorId::kNoEvalData, "no-eval-data", "a key needs evaluation data, but there is none"},
    {ErrorId::kMetricNotRecorded, "metric-not-recorded", "a key uses a metric that the run does not record"},
    {ErrorId::kTaskMismatch, "task-mismatch", "a metric or loss does not match the kind of labels"},
    {ErrorId::kWarmupTooLong, "warmup-too-long", "the warm-up is longer than the schedule"},
    {ErrorId::kResumeChange, "resume-change", "a resumed run changes a key that cannot change"},
    {ErrorId::kBadHook, "bad-hook", "the hook cannot be used, or does not match the recipe"},
    {ErrorId::kBadExpression, "bad-expression", "an expression of `ls`, or SQL, cannot be parsed"},
};

constexpr size_t kMaxLine = 160;  // characters of a source line that are shown
constexpr size_t kMargin = 60;    // characters before the fault in a line that is cut

// Returns the byte offset of character `index` in UTF-8 text, or the end of the text.
size_t offset_of(std::string_view text, size_t index) {
  size_t at = 0;
  while (at < text.size() && index > 0) {
    ++at;
    while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) ++at;
    --index;
  }
  return at;
}

void append_excerpt(std::string& out, const Diagnostic& d, bool colour) {
  size_t start = 0;
  const size_t column = static_cast<size_t>(d.where.column) - 1;
  if (column + static_cast<size_t>(d.width) > kMaxLine) start = column > kMargin ? column - kMargin : 0;
  const std::string_view rest = std::string_view(d.source_line).substr(offset_of(d.source_line, start));
  const std::string_view shown = rest.substr(0, offset_of(rest, kMaxLine));
  const size_t width = std::min(static_cast<size_t>(d.width), kMaxLine - (column - start));
  out += fmt::format("  {}\n  {:{}}{}\n", visible(shown), "", column - start,
                     painted('^' + std::string(width - 1, '~'), Color::kBoldGreen, colour));
}

}  // namespace

std::span<const ErrorIdRow> error_ids() {
  return kErrorIds;
}

std::string_view name_of(ErrorId id) {
  return kErrorIds[static_cast<size_t>(id)].name;
}

std::string render_text(std::span<const Diagnostic> diagnostics, bool colour) {
  std::string out;
  for (const Diagnostic& d : diagnostics) {
    out += fmt::format("{} {} {} [{}]\n", painted(visible_message(d.where.to_string()) + ':', Color::kBold, colour),
                       painted("error:", Color::kBoldRed, colour), visible_message(d.message), name_of(d.id));
    if (!d.source_line.empty()) append_excerpt(out, d, colour);
    if (!d.hint.empty()) out += fmt::format("hint: {}\n", visible_message(d.hint));
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
