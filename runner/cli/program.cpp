#include "runner/cli/program.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <span>
#include <string>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include "backends/dist/rank_error.h"
#include "backends/runtime/abandoned.h"
#include "runner/cli/hosts_run.h"
#include "runner/cli/launcher.h"
#include "runner/cli/parse.h"
#include "runner/cli/rank.h"
#include "runner/cli/store_access.h"
#include "runner/formats/reading_watch.h"
#include "runner/report/documents.h"
#include "runner/report/format.h"
#include "runner/report/output.h"
#include "runner/report/progress.h"
#include "runner/train/run/rank_launcher.h"
#include "schema/base/system_limits.h"
#include "store/sqlite.h"

namespace runner::cli {
namespace {

// Opens /dev/null for closed standard descriptors. Otherwise the next opened file, for instance the store, would get
// the number, and messages would be written to it. The access mode is the wrong one, so that use still fails.
void occupy_standard_descriptors() {
  constexpr std::array kModes{O_WRONLY, O_RDONLY, O_RDONLY};
  for (int fd = 0; fd < 3; ++fd) {
    if (::fcntl(fd, F_GETFD) == -1) ::open("/dev/null", kModes[static_cast<size_t>(fd)]);
  }
}

report::ColorMode color_mode(std::string_view word) {
  if (word == "always") return report::ColorMode::kAlways;
  return word == "never" ? report::ColorMode::kNever : report::ColorMode::kAuto;
}

// `call`: as far as it has been parsed.
bool trains_in_all_processes(const CommandCall& call) {
  return call.command == nullptr || call.command->trains_in_all_processes;
}

// Whether rank 0 reports an error of this process, which is not connected to the others, or no longer.
bool is_reported_elsewhere(const CommandCall& call) {
  return trains_in_all_processes(call) && launched_ranks() == nullptr && is_silent_process();
}

// Returns the exit code.
int report_failure(const Error& error, const CommandCall& call, bool json, report::Output& out) {
  if (is_reported_elsewhere(call)) return exit_code(error.kind());
  const std::string text = report::error_text(error, out.talk_color());
  out.colored_talk(call.options ? with_store_option(text, *call.options) : text);
  if (!json) return exit_code(error.kind());
  const auto document = call.command != nullptr ? *call.command->failure_document : report::failure_document;
  try {
    const std::string contents = document(error);
    out.data(call.options ? document_with_store_option(contents, *call.options) : contents);
  } catch (const Error&) {
    // Writing to standard output failed, which has been reported.
  }
  return exit_code(error.kind());
}

void report_abandoned(report::Output& out) {
  for (const std::string& text : backends::abandoned())
    out.say(fmt::format("warning: {}; the process exits without waiting for it", text));
}

// Redraws a line on a terminal; elsewhere, prints a line about every five seconds.
void report_reading(const formats::ReadingProgress& progress) {
  static std::atomic<double> next = 0;  // time of the next line
  report::Output out;
  const std::string text = report::on_one_line(fmt::format("reading {}: {:.0f}%", progress.path, 100 * progress.part));
  if (out.live()) return out.redraw_line(progress.ended ? "" : text);
  if (progress.ended || report::monotonic_seconds() < next) return;
  next = report::monotonic_seconds() + 5;
  out.say(text);
}

int run_command(const std::vector<std::string>& words, report::Output& out) {
  bool json = std::find(words.begin(), words.end(), "--json") != words.end();
  CommandCall call;
  bool has_parsed = false;
  const auto fail = [&](const Error& error) {
    const int code = report_failure(error, call, json, out);
    if (!has_parsed && trains_in_all_processes(call)) return end_with_launched(words, code);
    // A launcher may kill rank 0, which reports the error, when another process has ended with an error.
    const bool is_of_all = dynamic_cast<const backends::RankError*>(&error) != nullptr && is_reported_elsewhere(call);
    return is_of_all ? 0 : code;
  };
  try {
    check_stack_limit();
    parse(words, call);
    json = call.options->json;
    const report::ColorMode color = color_mode(call.options->color);
    out = report::Output(color);
    has_parsed = true;
    if (!call.options->hosts.empty()) return run_on_hosts(call.options->hosts, words, out);
    if (call.command->trains_in_all_processes) connect_to_launched(words);
    // Open MPI gives its processes a terminal as standard output, even if that of mpirun is a file.
    if (launched_ranks() != nullptr && color == report::ColorMode::kAuto)
      out = report::Output(report::ColorMode::kNever);
    if (train::MpiRanks* const ranks = launched_ranks(); ranks != nullptr && ranks->rank() != 0)
      return follow_launched(*ranks);
    return call.command->action->run(*call.options, out);
  } catch (const Error& error) {
    return fail(error);
  } catch (const std::exception& error) {
    return fail(error_of(error));
  }
}

}  // namespace

int run_program(int argc, const char* const* argv) {
  occupy_standard_descriptors();
  // Writing to a closed pipe or beyond the file size limit then returns an error.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  store::set_lock_notice([](const std::filesystem::path& path) {
    report::Output().talk(
        fmt::format("waiting for another process to release the lock on the store {}\n", path.string()));
  });
  formats::set_reading_notice(report_reading);
  const std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  if (!words.empty() && words.front() == train::kRankWord) return run_as_rank(std::span(words).subspan(1));
  report::Output out;
  const int code = run_command(words, out);
  leave_launched(code);
  report_abandoned(out);
  return code;
}

}  // namespace runner::cli
