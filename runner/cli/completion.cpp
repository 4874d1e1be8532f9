#include "runner/cli/completion.h"

#include <algorithm>

#include <fmt/format.h>

#include "runner/cli/access.h"
#include "schema/diagnostic.h"
#include "schema/field_table.h"
#include "store/queries.h"

namespace runner::cli {
namespace {

constexpr int64_t kNewestRuns = 200;

constexpr std::string_view kBash = R"sh(# bash completion for runner: source <(runner completion bash)
_runner() {
  local line="${COMP_LINE:0:COMP_POINT}" words cur cut
  read -r -a words <<<"${line#* }"
  [[ "$line" == *" " ]] && words+=("")
  cur="${words[${#words[@]}-1]}"
  local IFS=$'\n'
  COMPREPLY=($(runner completion words -- "${words[@]}" 2>/dev/null))
  # bash takes = and : for ends of words: only what follows the last of them is replaced
  cut="${cur%"${cur##*[=:]}"}"
  [[ -n "$cut" ]] && COMPREPLY=("${COMPREPLY[@]#"$cut"}")
  [[ "${COMPREPLY[0]}" == *= ]] && compopt -o nospace 2>/dev/null
  return 0
}
complete -o default -F _runner runner
)sh";

constexpr std::string_view kZsh = R"sh(#compdef runner
# zsh completion for runner: source <(runner completion zsh)
_runner() {
  local -a found plain open
  # as the program would get them: without quotes, and up to the cursor
  found=("${(@f)$(runner completion words -- "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)}")
  open=(${(M)found:#*=})
  plain=(${found:#*=})
  (( ${#open} )) && compadd -S '' -a open
  (( ${#plain} )) && compadd -a plain
  (( ${#open} + ${#plain} )) || { compset -P '--*='; _files }
}
if [ "$funcstack[1]" = _runner ]; then _runner "$@"; else compdef _runner runner; fi
)sh";

constexpr std::string_view kFish = R"sh(# fish completion for runner: runner completion fish | source
function __runner_words
  set -l words (commandline -opc)[2..-1] (commandline -ct)
  set -l found (runner completion words -- $words 2>/dev/null)
  if set -q found[1]
    printf '%s\n' $found
  else
    set -l option (string match -r -- '^--[^=]*=' $words[-1])
    set -q option[1]; or set option ''
    printf '%s\n' $option(__fish_complete_path (string replace -r -- '^--[^=]*=' '' $words[-1]))
  end
end
complete -c runner -f -a '(__runner_words)'
)sh";

using Words = std::vector<std::string>;

void add_choices(Words& found, std::string_view choices) {
  if (choices.find('|') == std::string_view::npos) return;
  for (size_t at = 0; at <= choices.size();) {
    const size_t end = std::min(choices.find('|', at), choices.size());
    found.emplace_back(choices.substr(at, end - at));
    at = end + 1;
  }
}

// A setting, and after its = what it may be.
void add_settings(Words& found, std::string_view word, bool keys_alone) {
  const size_t equals = word.find('=');
  if (equals == std::string_view::npos) {
    for (const schema::Field& field : schema::fields()) {
      const std::string path = field.path();
      if (path.find("[]") == std::string::npos) found.push_back(keys_alone || field.is_section() ? path : path + '=');
    }
    return;
  }
  const std::string key(word.substr(0, equals + 1));
  for (const schema::Field& field : schema::find_fields(word.substr(0, equals))) {
    for (const schema::Choice& choice : field.choices) found.push_back(key + std::string(choice.name));
    if (field.type == schema::FieldType::kBoolean) found.insert(found.end(), {key + "true", key + "false"});
  }
}

void add_runs(Words& found, store::Store& store, store::Trash trash) {
  if (trash == store::Trash::kHidden) found.emplace_back("@last");
  for (const store::RunRow& run : store::list_runs(store, kNewestRuns, trash)) {
    found.push_back(run.uid);
    found.push_back(run.name);
  }
}

// The command line as far as it is written.
struct Line {
  const Command* command = nullptr;
  Options options;                   // db, and the run that positionals name
  int positionals = 0;               // before the word that is completed
  const Argument* option = nullptr;  // whose value that word is
  bool is_wrong = false;             // there is no such command
};

void take_option(Line& line, const Argument& option, const std::string& value) {
  if (option.name == "--db") line.options.db = value;
}

Line read_line(std::span<const std::string> words) {
  Line line;
  for (const std::string& word : words.first(words.size() - 1)) {
    if (line.option != nullptr) {
      take_option(line, *line.option, word);
      line.option = nullptr;
    } else if (word.starts_with("-")) {
      const Argument* option = find_option(line.command, word);
      const size_t equals = word.find('=');
      if (option == nullptr || option->value.empty()) continue;
      equals == std::string::npos ? void(line.option = option) : take_option(line, *option, word.substr(equals + 1));
    } else if (line.command == nullptr) {
      line.command = find_command(word);
      line.is_wrong = line.command == nullptr;
      if (line.is_wrong) return line;
    } else {
      if (line.positionals++ == 0) line.options.run = word;
    }
  }
  return line;
}

// The positional that comes after `count` others; the last one where it takes all that are left; null: none.
const Argument* positional_after(const Command& command, int count) {
  const Argument* last = nullptr;
  for (const Argument& argument : command.arguments) {
    if (!argument.is_positional()) continue;
    last = &argument;
    if (count-- == 0) return last;
  }
  const bool endless = last != nullptr && last->name.find("...") != std::string_view::npos;
  return endless ? last : nullptr;
}

void add_metrics(Words& found, store::Store& store, const std::string& run) {
  for (const store::MetricSummary& metric : store::list_metrics(store, store::find_run(store, run).id)) {
    found.push_back(metric.name);
  }
}

// By the name that the argument has in the help.
void add_positionals(Words& found, const Line& line, const std::string& word) {
  const Argument* argument = positional_after(*line.command, line.positionals);
  if (argument == nullptr) return;
  const std::string_view name = argument->name;
  if (name == "[COMMAND]") {
    for (const Command& command : commands()) found.emplace_back(command.name);
  } else if (name.find("KEY") != std::string_view::npos) {
    add_settings(found, word, name.find("VALUE") == std::string_view::npos);
  } else if (!argument->value.empty()) {
    add_choices(found, argument->value);
  } else if (name.starts_with("RUN") || name == "A" || name == "B") {
    store::Store store = open_store(line.options);
    add_runs(found, store, line.command->name == "restore" ? store::Trash::kOnly : store::Trash::kHidden);
    if (name == "RUN ... METRIC" && line.positionals > 0) add_metrics(found, store, line.options.run);
  } else if (name == "[METRIC]") {
    store::Store store = open_store(line.options);
    add_metrics(found, store, line.options.run);
  } else if (line.command->name == "explain") {
    for (const schema::ErrorIdRow& row : schema::error_ids()) found.emplace_back(row.name);
    found.emplace_back("exit");
  }
}

// Options, and after the = of one what it may be.
void add_options(Words& found, const Line& line, const std::string& word) {
  if (const size_t equals = word.find('='); equals != std::string::npos) {
    if (const Argument* option = find_option(line.command, word)) {
      add_choices(found, option->value);
      for (std::string& choice : found) choice.insert(0, word, 0, equals + 1);
    }
    return;
  }
  for (const auto& arguments :
       {line.command != nullptr ? line.command->arguments : std::span<const Argument>(), common_arguments()}) {
    for (const Argument& argument : arguments) {
      if (!argument.is_positional()) found.emplace_back(argument.name);
    }
  }
  found.emplace_back("--help");
  if (line.command == nullptr) found.emplace_back("--version");
}

Words candidates(std::span<const std::string> words) {
  const Line line = read_line(words);
  const std::string& word = words.back();
  Words found;
  if (line.is_wrong) return found;
  if (line.option != nullptr) {
    add_choices(found, line.option->value);
  } else if (word.starts_with("-")) {
    add_options(found, line, word);
  } else if (line.command != nullptr) {
    add_positionals(found, line, word);
  } else {
    for (const Command& command : commands()) found.emplace_back(command.name);
  }
  return found;
}

}  // namespace

std::string completion_script(std::string_view shell) {
  return std::string(shell == "zsh" ? kZsh : shell == "fish" ? kFish : kBash);
}

std::vector<std::string> completions(std::span<const std::string> words) {
  if (words.empty()) return {};
  Words found;
  try {
    found = candidates(words);
  } catch (const Error&) {  // no store, no such run: there is nothing to offer
  }
  std::erase_if(found, [&](const std::string& word) { return !word.starts_with(words.back()); });
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

}  // namespace runner::cli
