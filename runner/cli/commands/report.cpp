#include <array>
#include <span>
#include <string>

#include "runner/cli/command.h"
#include "runner/cli/standard_input.h"
#include "runner/formats/input_file.h"
#include "runner/report/documents.h"
#include "runner/report/output.h"
#include "runner/report/xla/analysis_text.h"
#include "runner/report/xla/report_reader.h"
#include "schema/base/utf8.h"

namespace runner::cli {
namespace {

struct ReportOptions : Options {
  std::string file, durations;
};

constexpr Argument kReportArguments[] = {
    {"FILE", "", "metrics report, or a log that contains one; may be compressed with gzip; - is standard input",
     &ReportOptions::file},
    {"--durations", "exact|upstream",
     "how the durations were printed; default: detected from the report, else upstream", &ReportOptions::durations}};

using report::xla::DurationStyle;

constexpr size_t kChunk = size_t{1} << 16;

std::string read_text(const std::string& file) {
  if (file == "-") return read_standard_input();
  formats::InputFile input(file);
  std::string text;
  std::array<char, kChunk> chunk;
  while (const size_t got = input.read(std::as_writable_bytes(std::span(chunk)))) text.append(chunk.data(), got);
  return text;
}

std::optional<DurationStyle> style_of(const std::string& word) {
  if (word.empty()) return {};
  return word == "exact" ? DurationStyle::kExact : DurationStyle::kUpstream;
}

int metrics_report(const ReportOptions& options, report::Output& out) {
  const std::string name = options.file == "-" ? "standard input" : options.file;
  const std::string text = read_text(options.file);
  // As written by `>` in PowerShell.
  RUN_CHECK(!is_utf16(text), ErrorKind::kData, "{} is UTF-16 text; save it as UTF-8: iconv -f UTF-16 -t UTF-8", name);
  const auto reading = report::xla::read_report(text, style_of(options.durations));
  RUN_CHECK(reading, ErrorKind::kData,
            "{} has no metrics report of PyTorch/XLA: expected a line `Metric: NAME` followed by `TotalSamples:` and "
            "`Accumulator:`, or `Counter: NAME` followed by `Value:`; print(torch_xla.debug.metrics.metrics_report()) "
            "prints one",
            name);
  for (const std::string& warning : report::xla::reading_warnings(*reading, name)) {
    out.colored_talk(report::warning_text(warning, out.talk_color()));
  }
  out.colored_data(options.json ? report::xla::analysis_document(*reading, options.file)
                                : report::xla::analysis_text(*reading, out.data_width(), out.data_color()));
  return 0;
}

}  // namespace

const Command kReportCommand{
    .name = "report",
    .group = Group::kStore,
    .summary = "explain a metrics report of PyTorch/XLA, or the last one in a log",
    .details =
        "Reads reports of releases up to 2.9, also truncated ones.  Shows compiles per step, the bottleneck of\n"
        "training, inconsistent counts and what to change.  Durations are corrected: torch_xla prints some\n"
        "parts one too high.  See docs/xla-report.md.",
    .arguments = kReportArguments,
    .examples =
        "runner report recipes/data/bert_metrics_report.txt\n"
        "runner report recipes/data/bert_metrics_report.txt --json",
    .has_json = true,
    .action = action<metrics_report>,
    .failure_document = report::failure_document,
};

}  // namespace runner::cli
