#include "runner/cli/completion.h"

#include <algorithm>

#include "runner/cli/exit_codes.h"
#include "runner/cli/scenarios/scenario.h"
#include "runner/cli/store_access.h"
#include "schema/base/diagnostic.h"
#include "schema/recipe/field_table.h"
#include "store/run_selection.h"

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

Words command_names() {
  Words names;
  for (const Command* command : commands()) names.emplace_back(*command->name);
  return names;
}

// Adds the keys of settings, or after "KEY=" the possible values.
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

// The command line up to the word being completed.
struct Line {
  const Command* command = nullptr;
  Options common;                    // with `db`
  std::string first;                 // the first positional: a run, or an argument of explain
  int positionals = 0;               // number of positionals before that word
  const Argument* option = nullptr;  // the option whose value is that word
  bool is_wrong = false;             // the command does not exist
};

void take_option(Line& line, const Argument& option, const std::string& value) {
  if (option.name == "--db") line.common.db = value;
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
      if (line.positionals++ == 0) line.first = word;
    }
  }
  return line;
}

// Returns the positional after `count` others. Returns the last one if it takes all remaining words, or null if there
// is none.
const Argument* positional_after(const Command& command, int count) {
  const Argument* last = nullptr;
  for (const Argument& argument : *command.arguments) {
    if (!argument.is_positional()) continue;
    last = &argument;
    if (count-- == 0) return last;
  }
  const bool endless = last != nullptr && last->name.find("...") != std::string_view::npos;
  return endless ? last : nullptr;
}

void add_runs(Words& found, const Line& line, store::Trash trash) {
  store::Store store = open_store(line.common);
  if (trash == store::Trash::kHidden) found.emplace_back("@last");
  for (const store::RunRow& run : store::list_runs(store, kNewestRuns, trash)) {
    found.push_back(run.uid);
    found.push_back(run.name);
  }
}

// Returns the run that is the first positional.
store::RunRow run_of(const Line& line, store::Store& store) {
  return store::find_run(store, line.first);
}

void add_metrics(Words& found, const Line& line) {
  store::Store store = open_store(line.common);
  for (const store::MetricSummary& metric : store::list_metrics(store, run_of(line, store).id)) {
    found.push_back(metric.name);
  }
}

void add_states(Words& found, const Line& line) {
  store::Store store = open_store(line.common);
  found.emplace_back(store::kBestState);
  for (const store::StateInfo& state : store::list_states(store, run_of(line, store).id)) {
    found.push_back(std::to_string(state.id));
    found.insert(found.end(), state.names.begin(), state.names.end());
  }
}

void add_artifacts(Words& found, const Line& line) {
  store::Store store = open_store(line.common);
  for (const store::ArtifactInfo& artifact : store::list_artifacts(store, run_of(line, store).id)) {
    found.push_back(artifact.header.name);
  }
}

// Completes the last of several names separated by commas.
void add_run_fields(Words& found, const Line& line, std::string_view word) {
  store::Store store = open_store(line.common);
  const std::string before(word.substr(0, word.rfind(',') + 1));
  for (const std::string& name : store::run_field_names(store)) found.push_back(before + name);
}

void add_error_ids(Words& found) {
  for (const schema::ErrorIdRow& row : schema::error_ids()) found.emplace_back(row.name);
}

void add_details(Words& found, const Line& line, std::string_view word) {
  if (line.first == "error") {
    add_error_ids(found);
  } else if (line.first == "exit") {
    for (const ExitCode& row : exit_codes()) found.push_back(std::to_string(row.code));
  } else {
    add_settings(found, word, /*keys_alone=*/true);
  }
}

// Returns the possible values of `argument`. `word`: the part typed so far.
Words values_of(const Argument& argument, const Line& line, std::string_view word) {
  Words found = choices(argument);
  switch (argument.kind) {
    case Kind::kText: break;
    case Kind::kRun: add_runs(found, line, store::Trash::kHidden); break;
    case Kind::kTrashedRun: add_runs(found, line, store::Trash::kOnly); break;
    case Kind::kRunOrMetric:
      add_runs(found, line, store::Trash::kHidden);
      if (line.positionals > 0) add_metrics(found, line);
      break;
    case Kind::kMetric: add_metrics(found, line); break;
    case Kind::kState: add_states(found, line); break;
    case Kind::kArtifact: add_artifacts(found, line); break;
    case Kind::kRunFields: add_run_fields(found, line, word); break;
    case Kind::kSetting: add_settings(found, word, /*keys_alone=*/false); break;
    case Kind::kExplained:
      add_error_ids(found);
      found.insert(found.end(), {"error", "exit"});
      break;
    case Kind::kDetail: add_details(found, line, word); break;
    case Kind::kCommand: found = command_names(); break;
    case Kind::kScenario:
      for (const scenarios::Scenario& scenario : scenarios::selftest_scenarios()) found.emplace_back(scenario.id);
      break;
  }
  return found;
}

// Completes option names, and after "OPTION=" its values.
Words options_of(const Line& line, const std::string& word) {
  const size_t equals = word.find('=');
  if (equals == std::string::npos) {
    Words found = option_names(line.command);
    found.emplace_back("--help");
    if (line.command == nullptr) found.emplace_back("--version");
    return found;
  }
  const Argument* option = find_option(line.command, word);
  if (option == nullptr) return {};
  Words found = values_of(*option, line, std::string_view(word).substr(equals + 1));
  for (std::string& value : found) value.insert(0, word, 0, equals + 1);
  return found;
}

Words candidates(std::span<const std::string> words) {
  const Line line = read_line(words);
  const std::string& word = words.back();
  if (line.is_wrong) return {};
  if (line.option != nullptr) return values_of(*line.option, line, word);
  if (word.starts_with("-")) return options_of(line, word);
  if (line.command == nullptr) return command_names();
  const Argument* argument = positional_after(*line.command, line.positionals);
  return argument != nullptr ? values_of(*argument, line, word) : Words();
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
  } catch (const Error&) {  // no candidates without a store or run
  }
  std::erase_if(found, [&](const std::string& word) { return !word.starts_with(words.back()); });
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

}  // namespace runner::cli
