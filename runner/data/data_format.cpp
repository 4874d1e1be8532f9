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
  static const std::string kNone;
  for (const Source& source : *definition_of(spec.format).sources)
    if (!source.path_in(spec).empty()) return source.path_in(spec);
  return kNone;
}

void set_paths(schema::DatasetSpec& spec, std::string_view paths, bool predicts) {
  const bool has_inputs = !spec.inputs.input_ids.empty();
  std::vector<const Source*> sources;  // those of the run; labels too, unless tokens are the labels
  std::string names;
  for (const Source& source : *definition_of(spec.format).sources) {
    const bool is_of_run = !source.path_in(spec).empty(), is_input = (*source.key).starts_with("inputs.");
    if (!is_of_run && (has_inputs || is_input)) continue;
    sources.push_back(&source);
    names += names.empty() ? "" : ",";
    for (const char c : source.name()) names += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  RUN_CHECK(!sources.empty(), ErrorKind::kUsage, "the run's data is {}, so it has no file format to read {} with",
            name_of(spec.format), paths);
  std::string_view rest = paths;
  for (const Source* const source : sources) {
    const bool is_last = source == sources.back();
    const size_t end = is_last ? rest.size() : std::min(rest.find(','), rest.size());
    source->path_in(spec) = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    const bool is_optional = predicts && source->contents == Contents::kLabels;
    RUN_CHECK(is_optional || end > 0, ErrorKind::kUsage, "{} has no {}; give {}", paths, source->name(), names);
  }
}

}  // namespace runner::data
