#include "runner/cli/launch_report.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include <unistd.h>

#include "runner/formats/write.h"
#include "schema/base/json.h"

namespace runner::cli {
namespace {

constexpr const char* kVariable = "RUNNER_EARLIER_ATTEMPTS";
constexpr char kSeparator = '\x1e';

std::string as_report(json::Object report) {
  return kSeparator + json::line(std::move(report));
}

}  // namespace

void pass_on(const EarlierAttempts& earlier) {
  const json::Object document{
      {"run", earlier.run}, {"lost", json::list_of(earlier.lost)}, {"processes", earlier.processes}};
  ::setenv(kVariable, json::compact(document).c_str(), /*overwrite=*/1);
}

std::optional<EarlierAttempts> take_earlier_attempts() {
  const char* const text = std::getenv(kVariable);
  if (text == nullptr) return std::nullopt;
  const json::Value document = json::parse(text);
  const json::ObjectReader reader(document);
  EarlierAttempts earlier{reader.text("run"), reader.texts("lost"), reader.integer("processes")};
  ::unsetenv(kVariable);
  return earlier;
}

const EarlierAttempts* earlier_attempts() {
  static const std::optional<EarlierAttempts> earlier = take_earlier_attempts();
  return earlier ? &*earlier : nullptr;
}

std::string report_of_connection() {
  return as_report({{"connected", true}});
}

std::string report_of(const BegunRun& begun) {
  return as_report({{"run", begun.run}, {"name", begun.name}, {"max_restarts", begun.max_restarts}});
}

std::string report_of(const EndedRun& ended) {
  return as_report({{"exit_code", int64_t{ended.exit_code}},
                    {"lost_process", ended.lost_process},
                    {"message", ended.message},
                    {"error", ended.error},
                    {"data", ended.data}});
}

// Not through report::Output, which shows the separator as text. Without a reader, no program continues the run.
void send(std::string_view report) {
  formats::write_all(STDOUT_FILENO, report);
}

LaunchReports::LaunchReports(std::string_view output) {
  while (!output.empty()) {
    const std::string_view line = output.substr(0, std::min(output.find('\n'), output.size() - 1) + 1);
    line.front() == kSeparator ? read(line.substr(1)) : void(rest_ += line);
    output.remove_prefix(line.size());
  }
}

// A report that the end of the process has cut off is ignored.
void LaunchReports::read(std::string_view report) {
  const json::Value document = json::parse(report);
  if (document.map() == nullptr) return;
  const json::ObjectReader reader(document);
  if (reader.find("connected") != nullptr) {
    is_connected_ = true;
  } else if (reader.find("max_restarts") != nullptr) {
    begun_ = {reader.text("run"), reader.text("name"), reader.integer("max_restarts")};
  } else {
    ended_ = {static_cast<int>(reader.integer("exit_code")), reader.boolean("lost_process"), reader.text("message"),
              reader.text("error"), reader.text("data")};
  }
}

}  // namespace runner::cli
