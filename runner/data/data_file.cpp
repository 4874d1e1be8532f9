#include "runner/data/data_file.h"

#include <filesystem>
#include <fstream>

#include <fmt/format.h>

#include "runner/data/data_format.h"

namespace runner::data {

FileStamp stamp_of(const std::string& path) {
  std::error_code error;
  const auto bytes = static_cast<int64_t>(std::filesystem::file_size(path, error));
  if (error) return {};
  return {bytes, std::filesystem::last_write_time(path, error).time_since_epoch().count()};
}

std::vector<DataFile> files_of(const schema::DatasetSpec& spec, const std::string& name) {
  std::vector<DataFile> files;
  const std::span<const Source> sources = definition_of(spec.format).sources;
  for (const Source& source : sources) {
    const std::string& path = source.path_in(spec);
    if (path.empty() || (source.contents == Contents::kLabels && spec.reconstructs)) continue;
    files.push_back({fmt::format("{}.{}", name, std::string_view(source.key)), path, stamp_of(path), 0});
  }
  return files;
}

std::optional<Sha256Digest> digest_of(const DataFile& file, const std::function<bool()>& stopped) {
  std::ifstream in(file.path, std::ios::binary);
  std::vector<char> chunk(size_t{1} << 20);
  Sha256 hash;
  while (in.read(chunk.data(), std::ssize(chunk)), in.gcount() > 0) {
    if (stopped()) return std::nullopt;
    hash.update(std::string_view(chunk.data(), static_cast<size_t>(in.gcount())));
  }
  if (!in.eof() || stamp_of(file.path) != file.stamp) return std::nullopt;
  return hash.finish();
}

}  // namespace runner::data
