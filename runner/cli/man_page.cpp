#include <cctype>

#include <fmt/format.h>

#include "runner/cli/exit_codes.h"
#include "runner/cli/help.h"
#include "runner/cli/version.h"

namespace runner::cli {
namespace {

// Escapes text for troff: no escapes or requests, and hyphens that can be copied.
std::string plain(std::string_view text) {
  std::string out;
  bool line_start = true;
  for (const char c : text) {
    if (line_start && (c == '.' || c == '\'')) out += "\\&";
    line_start = c == '\n';
    switch (c) {
      case '\\': out += "\\e"; break;
      case '-': out += "\\-"; break;
      default: out += c;
    }
  }
  return out;
}

std::string upper(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return out;
}

std::string head(std::string_view name, std::string_view summary) {
  return fmt::format(".TH {} 1 \"\" \"{}\" \"runner manual\"\n.SH NAME\n{} \\- {}\n", plain(upper(name)),
                     plain(version()), plain(name), plain(summary));
}

std::string argument_list(std::span<const Argument> arguments) {
  std::string out;
  for (const Argument& argument : arguments) {
    out += fmt::format(".TP\n\\fB{}\\fR", plain(argument.names()));
    if (!argument.value.empty()) out += fmt::format(" \\fI{}\\fR", plain(argument.value));
    out += '\n' + plain(argument.text) + '\n';
  }
  return out;
}

std::string examples(std::string_view lines) {
  return fmt::format(".PP\n.nf\n.RS\n{}\n.RE\n.fi\n", plain(lines));
}

std::string exit_status() {
  std::string out = ".SH EXIT STATUS\n";
  for (const ExitCode& row : exit_codes()) out += fmt::format(".TP\n.B {}\n{}\n", row.code, plain(row.text));
  return out;
}

constexpr std::string_view kEnvironment =
    ".SH ENVIRONMENT\n.TP\n.B RUNNER_DB\nthe store file, if \\-\\-db is not given\n.TP\n.B NO_COLOR\n"
    "disables colours, unless \\-\\-color enables them\n";

}  // namespace

std::string program_man_page() {
  std::string out = head("runner", "train the model that a recipe declares, and record every run in one file");
  out += ".SH SYNOPSIS\n.B runner\n.I COMMAND\n[arguments] [options]\n.SH COMMANDS\n";
  for (const Command* command : commands()) {
    out += fmt::format(".SS {}\n{}\n", plain(usage_of(*command)), plain(command->summary));
    if (!command->details->empty()) out += fmt::format(".PP\n{}\n", plain(command->details));
    out += argument_list(command->arguments) + examples(command->examples);
  }
  out += ".SH OPTIONS OF ALL COMMANDS\n" + argument_list(common_arguments());
  return out + exit_status() + std::string(kEnvironment);
}

std::string command_man_page(const Command& command) {
  std::string out = head(fmt::format("runner-{}", *command.name), command.summary);
  out += fmt::format(".SH SYNOPSIS\n.B runner {}\n", plain(usage_of(command)));
  if (!command.details->empty()) out += fmt::format(".SH DESCRIPTION\n{}\n", plain(command.details));
  out += ".SH OPTIONS\n" + argument_list(command.arguments) + argument_list(common_arguments());
  return out + ".SH EXAMPLES\n" + examples(command.examples) + exit_status() + ".SH SEE ALSO\n.BR runner (1)\n";
}

}  // namespace runner::cli
