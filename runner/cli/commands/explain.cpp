// Command explain: settings of a recipe, ids of errors, exit codes.
#include "schema/recipe/explain.h"

#include <algorithm>
#include <filesystem>

#include "runner/cli/commands/shared_options.h"
#include "runner/cli/exit_codes.h"
#include "runner/data/data_file.h"
#include "runner/model/pretrained.h"
#include "runner/report/documents.h"
#include "runner/report/format.h"
#include "runner/report/output.h"
#include "runner/report/table.h"
#include "schema/base/json.h"
#include "schema/base/suggest.h"
#include "schema/recipe/field_table.h"
#include "schema/recipe/other_names.h"

namespace runner::cli {
namespace {

struct ExplainOptions : RecipeOptions {
  std::string key;
};

constexpr Argument kExplainArguments[] = {
    {"[RECIPE]", "",
     "recipe file, setting without a recipe, id of an error, or the word error or exit; default: list all settings",
     &ExplainOptions::recipe, Kind::kExplained},
    {"[KEY]", "", "setting, such as optimizer.lr, or section; after error an id, after exit a code; default: all",
     &ExplainOptions::key, Kind::kDetail},
    kOverridesArgument};

json::Object exit_code_json(const ExitCode& row) {
  return {{"exit_code", row.code},
          {"meaning", std::string(row.meaning)},
          {"text", std::string(row.text)},
          {"remedy", std::string(row.remedy)}};
}

json::Object error_id_json(const schema::ErrorIdRow& row) {
  return {{"id", std::string(row.name)}, {"text", std::string(row.text)}};
}

void list_exit_codes(const Options& options, report::Output& out) {
  report::KeyValueTable facts;
  for (const ExitCode& row : exit_codes()) facts.add(std::to_string(row.code), std::string(row.text));
  out.data(options.json ? json::text(json::list_of(exit_codes(), exit_code_json)) : facts.render());
}

void list_errors(const Options& options, report::Output& out) {
  report::KeyValueTable facts;
  for (const schema::ErrorIdRow& row : schema::error_ids()) facts.add(row.name, std::string(row.text));
  out.data(options.json ? json::text(json::list_of(schema::error_ids(), error_id_json)) : facts.render());
}

std::string signal_words(int code) {
  return code > kSignalCode ? fmt::format("signal {} ended the process: ", code - kSignalCode) : "";
}

void explain_exit(const ExplainOptions& options, report::Output& out) {
  const std::optional<ExitCode> row = find_exit_code(options.key);
  RUN_CHECK(row.has_value(), ErrorKind::kUsage,
            "unknown exit code {}; exit codes are 0 to {}, and 128 + N if signal N ended the process", options.key,
            exit_codes().back().code);
  out.data(options.json ? json::text(exit_code_json(*row))
                        : fmt::format("exit code {}: {}{}\nwhat to do: {}\n", row->code, signal_words(row->code),
                                      row->text, row->remedy));
}

// Explains an error id, which is in brackets at the end of a message.
void explain_error(const std::string& id, const ExplainOptions& options, report::Output& out) {
  const auto rows = schema::error_ids();
  const auto row =
      std::find_if(rows.begin(), rows.end(), [&](const schema::ErrorIdRow& known) { return known.name == id; });
  if (row == rows.end()) {
    std::vector<std::string> names;
    for (const schema::ErrorIdRow& known : rows) names.emplace_back(known.name);
    fail(ErrorKind::kUsage, "unknown error id {}; {}", id,
         schema::did_you_mean(id, names, "`runner explain error` lists all"));
  }
  out.data(options.json ? json::text(error_id_json(*row)) : fmt::format("{}: {}\n", row->name, row->text));
}

bool is_error_id(std::string_view word) {
  return std::ranges::any_of(schema::error_ids(), [&](const schema::ErrorIdRow& known) { return known.name == word; });
}

json::Object key_json(const schema::KeyText& row) {
  return {{"key", std::string(row.key)}, {"text", std::string(row.text)}};
}

void list_keys(const Options& options, report::Output& out) {
  const std::vector<schema::KeyText> keys = schema::key_texts();
  report::KeyValueTable facts;
  for (const auto& [key, text] : keys) facts.add(key, std::string(text));
  out.data(options.json ? json::text(json::list_of(keys, key_json)) : facts.render());
}

bool is_setting(const std::string& word) {
  return !schema::find_fields(word).empty() || !schema::paths_ending_with(word).empty();
}

// A word that is no file, no setting and no error id.
[[noreturn]] void fail_unknown(const std::string& word) {
  std::vector<std::string> names;
  for (const schema::ErrorIdRow& known : schema::error_ids()) names.emplace_back(known.name);
  for (const schema::KeyText& known : schema::key_texts()) {
    names.push_back(known.key);
    names.push_back(names.back().substr(names.back().rfind('.') + 1));
  }
  fail(ErrorKind::kUsage, "there is no file, setting or error id {}; {}", word,
       schema::did_you_mean(word, names, "`runner explain` lists the settings, `runner explain error` the error ids"));
}

// Explains a setting without a recipe, or else reports that there is no such file.
void explain_key(const ExplainOptions& options, report::Output& out) {
  const std::string& key = options.recipe;
  const bool is_key = is_setting(key);
  const schema::OtherKey* const other = is_key ? nullptr : schema::find_other_key(key);
  RUN_CHECK(other == nullptr, ErrorKind::kUsage, "unknown key {}; {}", key, schema::hint_of(*other));
  if (!is_key) fail_unknown(key);
  const std::string& more = options.key.empty() && !options.overrides.empty() ? options.overrides.front() : options.key;
  RUN_CHECK(options.key.empty() && options.overrides.empty(), ErrorKind::kUsage,
            "explain: {} needs a recipe; write `runner explain RECIPE {} {}`", more, key, more);
  const std::string text = schema::explain_field(key);
  out.data(options.json ? json::text(json::Object{{"key", key}, {"text", text}}) : text);
}

struct FileOnDisk {
  int64_t bytes;
  Sha256Digest digest;
};

// The data file that a key names; none for other keys, and if it cannot be read.
std::optional<FileOnDisk> data_file_of(const schema::Recipe& recipe, const std::string& key) {
  std::vector<data::DataFile> files = data::files_of(recipe.data.train, "data.train");
  if (recipe.data.eval) std::ranges::move(data::files_of(*recipe.data.eval, "data.eval"), std::back_inserter(files));
  const auto named = std::ranges::find(files, key, &data::DataFile::key);
  if (named == files.end()) return std::nullopt;
  const std::optional<Sha256Digest> digest = data::digest_of(*named, [] { return false; });
  return digest ? std::optional(FileOnDisk{named->stamp.bytes, *digest}) : std::nullopt;
}

std::string file_text(const FileOnDisk& file) {
  return fmt::format("file: {}, sha256 {}\n", report::bytes_text(file.bytes), hex(file.digest));
}

schema::ValueMap file_json(const FileOnDisk& file) {
  return {{"file", json::Object{{"bytes", file.bytes}, {"sha256", hex(file.digest)}}}};
}

int explain(const ExplainOptions& options, report::Output& out) {
  std::error_code ignored;
  const bool all = options.key.empty();
  if (options.recipe.empty()) {
    list_keys(options, out);
  } else if (options.recipe == "exit") {
    all ? list_exit_codes(options, out) : explain_exit(options, out);
  } else if (options.recipe == "error") {
    all ? list_errors(options, out) : explain_error(options.key, options, out);
  } else if ((all || is_setting(options.recipe)) && !std::filesystem::exists(options.recipe, ignored)) {
    is_error_id(options.recipe) ? explain_error(options.recipe, options, out) : explain_key(options, out);
  } else {
    schema::ReadResult recipe = schema::read_recipe(options.recipe, options.overrides);
    nn::apply_config(recipe);
    const std::optional<FileOnDisk> file = data_file_of(recipe.recipe, options.key);
    if (options.json) {
      out.data(schema::explain_json(recipe, options.key, file ? file_json(*file) : schema::ValueMap()));
    } else {
      out.data(schema::explain_text(recipe, options.key) + (file ? file_text(*file) : ""));
    }
  }
  return 0;
}

}  // namespace

const Command kExplainCommand{
    .name = "explain",
    .group = Group::kRecipe,
    .summary = "show a setting's value, origin and meaning, or the meaning of an error or exit code",
    .details =
        "Without a recipe, a setting's type, default and meaning.  The id of an error may also be given without\n"
        "the word error.",
    .arguments = kExplainArguments,
    .examples =
        "runner explain recipes/digits.yaml optimizer.lr\n"
        "runner explain recipes/digits.yaml data\n"
        "runner explain optimizer.lr\n"
        "runner explain exit 4\n"
        "runner explain out-of-range",
    .other_names = "describe",
    .has_json = true,
    .action = action<explain>,
    .failure_document = report::failure_document,
};

}  // namespace runner::cli
