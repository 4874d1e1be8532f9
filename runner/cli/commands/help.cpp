// Commands help, man, completion and version.
#include "runner/cli/help.h"

#include "runner/cli/commands/commands.h"
#include "runner/cli/completion.h"
#include "runner/cli/version.h"
#include "schema/base/error.h"
#include "schema/base/json.h"

namespace runner::cli {
namespace {

void refuse_json(std::string_view command, const Options& options) {
  RUN_CHECK(!options.json, ErrorKind::kUsage, "{} prints a text, not a JSON document; omit --json", command);
}

}  // namespace

int help(const HelpOptions& options, report::Output& out) {
  refuse_json("help", options);
  out.data(options.command.empty() ? program_help(out.data_color())
                                   : command_help(known_command(options.command), out.data_color()));
  return 0;
}

int man(const HelpOptions& options, report::Output& out) {
  refuse_json("man", options);
  out.data(options.command.empty() ? program_man_page() : command_man_page(known_command(options.command)));
  return 0;
}

int completion(const CompletionOptions& options, report::Output& out) {
  if (options.shell != "words") {
    refuse_json("completion", options);
    out.data(completion_script(options.shell));
    return 0;
  }
  for (const std::string& word : completions(options.words)) out.data(word + '\n');
  return 0;
}

int version(const Options& options, report::Output& out) {
  out.data(options.json ? json::text(json::Object{{"version", version()}}) : version() + '\n');
  return 0;
}

}  // namespace runner::cli
