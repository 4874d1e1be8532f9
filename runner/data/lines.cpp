// Text files in which each line is a sample.
#include <string>
#include <string_view>

#include "runner/data/data_file.h"
#include "runner/data/data_format.h"
#include "runner/data/row_texts.h"
#include "runner/formats/line_reader.h"
#include "schema/base/error.h"
#include "schema/base/text.h"

namespace runner::data {
namespace {

// Blank lines do not count.
Storage read_lines(const schema::DatasetSpec& spec, const ReadOptions& options) {
  Storage storage;
  std::string path;
  RowTexts texts(storage, options, path);
  for (const std::string& file : files_at(spec.path)) {
    path = file;
    formats::InputFile input(path);
    formats::LineReader lines(input);
    for (std::string_view line; lines.next(line);) {
      if (trim(line).empty()) continue;
      const std::string text(line);
      texts.add(std::span(&text, 1), lines.number(), "");
      ++storage.samples;
    }
  }
  RUN_CHECK(storage.samples > 0, ErrorKind::kData, "{} has no line with text", spec.path);
  texts.finish();
  return storage;
}

}  // namespace

const DataFormatDef kLinesFormat{.format = schema::DataFormat::kLines,
                                 .sources = kOnePath,
                                 .read = read_lines,
                                 .stream = kNotStreamed,
                                 .sample_count = kNoSampleCount};

}  // namespace runner::data
