#include "runner/data/data_format.h"

#include <algorithm>

#include "schema/base/error.h"

namespace runner::data {
namespace {

#define RUNNER_DATA_FORMAT_ROW(Name) &k##Name##Format,
constexpr const DataFormatDef* kDataFormats[] = {RUNNER_DATA_FORMATS(RUNNER_DATA_FORMAT_ROW)};
#undef RUNNER_DATA_FORMAT_ROW

}  // namespace

std::span<const DataFormatDef* const> all_data_formats() {
  return kDataFormats;
}

const DataFormatDef& definition_of(schema::DataFormat format) {
  const auto found =
      std::ranges::find_if(kDataFormats, [&](const DataFormatDef* def) { return def->format == format; });
  RUN_ASSERT(found != std::end(kDataFormats));
  return **found;
}

const std::string& main_path(const schema::DatasetSpec& spec) {
  const std::span<const Source> sources = definition_of(spec.format).sources;
  static const std::string kNone;
  return sources.empty() ? kNone : sources.front().path_in(spec);
}

void set_paths(schema::DatasetSpec& spec, std::string_view paths, bool predicts) {
  const std::span<const Source> sources = definition_of(spec.format).sources;
  RUN_CHECK(!sources.empty(), ErrorKind::kUsage, "the run's data is {}, so it has no file format to read {} with",
            name_of(spec.format), paths);
  std::string_view rest = paths;
  for (size_t i = 0; i < sources.size(); ++i) {
    const bool is_last = i + 1 == sources.size();
    const size_t end = is_last ? rest.size() : std::min(rest.find(','), rest.size());
    sources[i].path_in(spec) = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    RUN_CHECK(predicts || sources[i].contents != Contents::kLabels || end > 0, ErrorKind::kUsage,
              "{} has no labels; give two files: FEATURES,LABELS", paths);
  }
}

}  // namespace runner::data
