// explain: settings of a recipe, ids of errors, exit codes.
#include "schema/explain.h"

#include <algorithm>
#include <filesystem>

#include "runner/cli/commands/commands.h"
#include "runner/cli/exit_codes.h"
#include "schema/json.h"
#include "schema/suggest.h"

namespace runner::cli {
namespace {

void explain_exit(const Options& options, report::Output& out) {
  const auto rows = exit_codes();
  const auto row = std::find_if(rows.begin(), rows.end(),
                                [&](const ExitCode& known) { return std::to_string(known.code) == options.key; });
  RUN_CHECK(row != rows.end(), ErrorKind::kUsage,
            "there is no exit code {}; there are 0 to {}, and 128 + N where signal N ended the process", options.key,
            rows.back().code);
  out.data(options.json ? json::text(json::Object{{"exit_code", row->code},
                                                  {"meaning", std::string(row->meaning)},
                                                  {"text", std::string(row->text)},
                                                  {"remedy", std::string(row->remedy)}})
                        : fmt::format("exit code {}: {}\nwhat to do: {}\n", row->code, row->text, row->remedy));
}

// What stands in brackets at the end of a message.
void explain_error(const Options& options, report::Output& out) {
  const auto rows = schema::error_ids();
  const auto row = std::find_if(rows.begin(), rows.end(),
                                [&](const schema::ErrorIdRow& known) { return known.name == options.recipe; });
  if (row == rows.end()) {
    RUN_CHECK(!std::filesystem::exists(options.recipe), ErrorKind::kUsage,
              "explain needs KEY; see `runner explain --help`");
    std::vector<std::string> names;
    for (const schema::ErrorIdRow& known : rows) names.emplace_back(known.name);
    fail(ErrorKind::kUsage, "there is no error {} and no file of that name; {}", options.recipe,
         schema::did_you_mean(options.recipe, names, "docs/error_catalogue.md has all errors"));
  }
  out.data(options.json ? json::text(json::Object{{"id", std::string(row->name)}, {"text", std::string(row->text)}})
                        : fmt::format("{}: {}\n", row->name, row->text));
}

}  // namespace

int explain(const Options& options, report::Output& out) {
  if (options.recipe == "exit" && !options.key.empty()) {
    explain_exit(options, out);
  } else if (options.key.empty()) {
    explain_error(options, out);
  } else {
    const schema::ReadResult recipe = schema::read_recipe(options.recipe, options.overrides);
    out.data(options.json ? schema::explain_json(recipe, options.key) : schema::explain_text(recipe, options.key));
  }
  return 0;
}

}  // namespace runner::cli
