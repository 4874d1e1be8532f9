#include <array>
#include <cerrno>
#include <cstring>
#include <span>
#include <string>

#include <unistd.h>

#include "runner/cli/commands/commands.h"
#include "runner/formats/input.h"
#include "runner/report/output.h"
#include "runner/report/xla/analysis_text.h"
#include "runner/report/xla/report_reader.h"

namespace runner::cli {
namespace {

using report::xla::DurationStyle;

constexpr size_t kChunk = size_t{1} << 16;

std::string read_standard_input() {
  std::string text;
  std::array<char, kChunk> chunk;
  for (;;) {
    const ssize_t got = read(STDIN_FILENO, chunk.data(), chunk.size());
    if (got < 0 && errno == EINTR) continue;
    RUN_CHECK(got >= 0, ErrorKind::kData, "cannot read standard input: {}", std::strerror(errno));
    if (got == 0) return text;
    text.append(chunk.data(), static_cast<size_t>(got));
  }
}

std::string read_text(const std::string& file) {
  if (file == "-") return read_standard_input();
  formats::Input input(file);
  std::string text;
  std::array<char, kChunk> chunk;
  while (const size_t got = input.read(std::as_writable_bytes(std::span(chunk)))) text.append(chunk.data(), got);
  return text;
}

std::optional<DurationStyle> style_of(const std::string& word) {
  if (word.empty()) return {};
  return word == "exact" ? DurationStyle::kExact : DurationStyle::kUpstream;
}

}  // namespace

int metrics_report(const ReportOptions& options, report::Output& out) {
  const std::string name = options.file == "-" ? "standard input" : options.file;
  const std::string text = read_text(options.file);
  // As written by `>` in PowerShell.
  RUN_CHECK(!text.starts_with("\xFF\xFE") && !text.starts_with("\xFE\xFF"), ErrorKind::kData,
            "{} is UTF-16 text; save it as UTF-8: iconv -f UTF-16 -t UTF-8", name);
  const auto reading = report::xla::read_report(text, style_of(options.durations));
  RUN_CHECK(reading, ErrorKind::kData,
            "{} has no metrics report of PyTorch/XLA: expected a line `Metric: NAME` followed by `TotalSamples:` and "
            "`Accumulator:`, or `Counter: NAME` followed by `Value:`; print(torch_xla.debug.metrics.metrics_report()) "
            "prints one",
            name);
  for (const std::string& warning : report::xla::reading_warnings(*reading, name)) {
    out.talk(report::warning_text(warning, out.talk_color()));
  }
  out.data(options.json ? report::xla::analysis_document(*reading, options.file)
                        : report::xla::analysis_text(*reading, out.data_width(), out.data_color()));
  return 0;
}

}  // namespace runner::cli
