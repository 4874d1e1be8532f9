#include "runner/cli/completion.h"

#include "runner/cli/command.h"
#include "runner/report/documents.h"
#include "runner/report/output.h"

namespace runner::cli {
namespace {

struct CompletionOptions : Options {
  std::string shell;
  std::vector<std::string> words;
};

constexpr Argument kCompletionArguments[] = {
    {"SHELL", "bash|zsh|fish|words", "shell; words prints the candidates, for the scripts", &CompletionOptions::shell},
    {"[WORD ...]", "", "with words: the command line so far, after --", &CompletionOptions::words}};

int completion(const CompletionOptions& options, report::Output& out) {
  if (options.shell != "words") {
    out.data(completion_script(options.shell));
    return 0;
  }
  for (const std::string& word : completions(options.words)) out.data(word + '\n');
  return 0;
}

}  // namespace

const Command kCompletionCommand{
    .name = "completion",
    .group = Group::kSystem,
    .summary = "print the completion script of a shell",
    .details =
        "The script completes commands, options, settings, runs, metrics, states and artifacts.  `make install`\n"
        "installs it for every shell.  Without it, run: source <(runner completion bash).  To find the\n"
        "candidates for a word, the script calls `runner completion words`.",
    .arguments = kCompletionArguments,
    .examples =
        "runner completion bash > ~/.local/share/bash-completion/completions/runner\n"
        "runner completion fish > ~/.config/fish/completions/runner.fish",
    .has_json = false,
    .action = action<completion>,
    .failure_document = report::failure_document,
};

}  // namespace runner::cli
