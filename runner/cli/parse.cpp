#include "runner/cli/parse.h"

#include <algorithm>
#include <charconv>

#include <CLI/CLI.hpp>

#include "schema/base/suggest.h"
#include "schema/recipe/field_table.h"
#include "schema/recipe/other_names.h"

namespace runner::cli {
namespace {

// Returns whether the word after an option is its value, for an option of any command.
bool takes_next_word(std::string_view word) {
  const Argument* option = find_option(nullptr, word);
  return option != nullptr && !option->value.empty() && word.find('=') == std::string_view::npos;
}

// Returns the index of the first word that is neither an option nor an option's value, or words.size() if there is
// none.
size_t find_command_word(std::span<const std::string> words) {
  for (size_t i = 0; i < words.size(); ++i) {
    if (!words[i].starts_with("-")) return i;
    if (takes_next_word(words[i])) ++i;
  }
  return words.size();
}

bool has_word(std::span<const std::string> words, std::string_view word) {
  const auto end = std::find(words.begin(), words.end(), "--");
  return std::find(words.begin(), end, word) != end;
}

bool takes_settings(const Command& command) {
  return std::ranges::any_of(*command.arguments,
                             [](const Argument& argument) { return argument.kind == Kind::kSetting; });
}

// Returns what to write instead of an option such as --optimizer.lr, --batch-size or --learning-rate, which means a
// setting of the recipe; empty if it means none. `value`: of the option.
std::string setting_hint(std::string option, std::string_view value) {
  constexpr std::string_view kForm = "settings of the recipe have no dashes: {}={}";
  option.erase(0, option.find_first_not_of('-'));
  std::ranges::replace(option, '-', '_');
  if (!schema::find_fields(option).empty()) return fmt::format(kForm, option, value);
  const std::vector<std::string> paths = schema::paths_ending_with(option);
  if (!paths.empty()) return fmt::format(kForm, paths.front(), value);
  const schema::OtherKey* const other = schema::find_other_key(option);
  if (other == nullptr) return "";
  const bool has_same_value = other->hint.empty() && !schema::find_fields(other->key)[0].is_section();
  return has_same_value ? fmt::format(kForm, other->key, value) : schema::hint_of(*other);
}

// Whether another program calls a setting like this option. An option of the command may be more similar.
bool is_other_name(const std::string& option) {
  return schema::find_other_key(option.substr(std::min(option.find_first_not_of('-'), option.size()))) != nullptr;
}

// Returns "--as classes" for --classes, if that is a word of an option of the command; else an empty text.
std::string option_with_word(const Command& command, std::string_view name) {
  const std::string_view word = name.substr(std::min(name.find_first_not_of('-'), name.size()));
  for (const Argument& argument : *command.arguments) {
    const std::vector<std::string> words = choices(argument);
    if (std::ranges::find(words, word) != words.end()) return fmt::format("{} {}", argument.name, word);
  }
  return "";
}

[[noreturn]] void fail_unexpected(const Command& command, const std::string& word) {
  if (!word.starts_with("-")) {
    fail(ErrorKind::kUsage, "{}: unexpected argument '{}'; see `runner {} --help`", *command.name, word, *command.name);
  }
  const std::string name = word.substr(0, word.find('='));
  const std::string with_word = option_with_word(command, name);
  RUN_CHECK(with_word.empty(), ErrorKind::kUsage, "{}: unknown option {}; write {}", *command.name, name, with_word);
  const std::string hint = setting_hint(name, name == word ? "VALUE" : word.substr(name.size() + 1));
  const bool is_setting = takes_settings(command) && !hint.empty();
  if (is_setting && (!is_other_name(name) || schema::nearest(name, option_names(&command)).empty()))
    fail(ErrorKind::kUsage, "{}: unknown option {}; {}", *command.name, name, hint);
  fail(ErrorKind::kUsage, "{}: unknown option {}; {}", *command.name, name,
       schema::did_you_mean(name, option_names(&command), fmt::format("see `runner {} --help`", *command.name)));
}

[[noreturn]] void fail_without_value(std::string_view option, const Command& command) {
  fail(ErrorKind::kUsage, "{}: expected a value; see `runner {} --help`", option, *command.name);
}

int64_t read_integer(const Argument& argument, const std::string& text) {
  int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  RUN_CHECK(stop == end && error != std::errc::invalid_argument, ErrorKind::kUsage,
            "{}: expected a whole number, got '{}'", argument.name, text);
  RUN_CHECK(error != std::errc::result_out_of_range, ErrorKind::kUsage, "{}: the number {} is too large", argument.name,
            text);
  RUN_CHECK(value >= argument.at_least, ErrorKind::kUsage, "{}: expected at least {}, got {}", argument.name,
            argument.at_least, text);
  return value;
}

const std::string& read_word(const Argument& argument, const std::string& text) {
  const std::vector<std::string> known = choices(argument);
  RUN_CHECK(known.empty() || std::find(known.begin(), known.end(), text) != known.end(), ErrorKind::kUsage,
            "{}: expected {}, got '{}'", argument.name, schema::join_or(known), text);
  return text;
}

// Makes `app` store the value of `argument` in its member of `options`.
struct Bind {
  CLI::App& app;
  const Command& command;
  Options& options;
  const Argument& argument;
  std::string name;  // a plain word for a positional, as CLI11 requires

  void operator()(bool Options::*member) const { app.add_flag(name, options.*member); }
  // By default CLI11 reads [MASK] as a list and removes the brackets.
  void operator()(std::vector<std::string> Options::*member) const {
    if (!argument.is_positional()) app.add_option(name, options.*member)->allow_extra_args(false);
  }
  void operator()(int64_t Options::*member) const {
    read([this, member](const std::string& text) { options.*member = read_integer(argument, text); });
  }
  void operator()(std::string Options::*member) const {
    read([this, member](const std::string& text) { options.*member = read_word(argument, text); });
  }

 private:
  template <class Assign>
  void read(Assign assign) const {
    const auto assign_checked = [this, assign](const std::string& text) {
      if (!argument.is_positional() && (text.empty() || text.starts_with("--")))
        fail_without_value(argument.name, command);
      assign(text);
    };
    app.add_option_function<std::string>(name, assign_checked)->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  }
};

// Stores the remaining words in the positional that takes several. Words after the first `--` are never options.
void take_words(const Command& command, std::vector<std::string> words, Options& options) {
  const auto mark = std::ranges::find(words, "--");
  const auto option =
      std::find_if(words.begin(), mark, [](const std::string& word) { return word.size() > 1 && word[0] == '-'; });
  if (option != mark) fail_unexpected(command, *option);
  if (mark != words.end()) words.erase(mark);
  if (words.empty()) return;
  for (const Argument& argument : *command.arguments) {
    const Member& target = argument.target;
    const auto* member = std::get_if<std::vector<std::string> Options::*>(&target);
    if (member == nullptr || !argument.is_positional()) continue;
    options.** member = std::move(words);
    return;
  }
  fail_unexpected(command, words.front());
}

bool is_absent(const Options& options, const Member& member) {
  if (const auto* text = std::get_if<std::string Options::*>(&member)) return (options.**text).empty();
  if (const auto* list = std::get_if<std::vector<std::string> Options::*>(&member)) return (options.**list).empty();
  return false;
}

void check_usage(const Command& command, const Options& options) {
  RUN_CHECK(!options.json || command.has_json, ErrorKind::kUsage, "{} prints a text, not a JSON document; omit --json",
            *command.name);
  for (const Argument& argument : *command.arguments) {
    if (argument.is_required() && is_absent(options, argument.target)) {
      fail(ErrorKind::kUsage, "{}: missing argument {}; see `runner {} --help`", *command.name, argument.name,
           *command.name);
    }
  }
}

std::unique_ptr<Options> parse_options(const Command& command, std::vector<std::string> words) {
  std::unique_ptr<Options> options = command.action->make_options();
  CLI::App app;
  app.set_help_flag();
  app.allow_extras();
  std::vector<Bind> binds;
  for (const auto& arguments : {*command.arguments, common_arguments()}) {
    for (const Argument& argument : arguments) {
      const std::string letter = argument.letter.empty() ? "" : fmt::format("{},", argument.letter);
      const std::string name =
          argument.is_positional() ? fmt::format("positional{}", binds.size()) : letter + std::string(argument.name);
      binds.push_back({app, command, *options, argument, name});
    }
  }
  for (const Bind& bind : binds) std::visit(bind, static_cast<const Member&>(bind.argument.target));
  std::reverse(words.begin(), words.end());  // order required by CLI11
  try {
    app.parse(std::move(words));
  } catch (const CLI::ParseError& error) {
    const std::string text = error.what();
    fail_without_value(text.substr(0, text.find(':')), command);
  }
  take_words(command, app.remaining(), *options);
  check_usage(command, *options);
  return options;
}

}  // namespace

void parse(std::span<const std::string> words, CommandCall& call) {
  const size_t at = find_command_word(words);
  const bool named = at < words.size();
  call.command = named ? &known_command(words[at]) : nullptr;
  if (!named && has_word(words, "--version")) {
    call.command = find_command("version");
    call.options->json = has_word(words, "--json");
  } else if (has_word(words, "--help") || has_word(words, "-h")) {
    call.command = find_command("help");
    call.options = parse_options(*call.command, named ? std::vector{words[at]} : std::vector<std::string>());
  } else if (!named) {
    fail(ErrorKind::kUsage, "missing command; `runner --help` lists all");
  } else {
    std::vector<std::string> rest(words.begin(), words.end());
    rest.erase(rest.begin() + static_cast<ptrdiff_t>(at));
    call.options = parse_options(*call.command, std::move(rest));
  }
}

}  // namespace runner::cli
