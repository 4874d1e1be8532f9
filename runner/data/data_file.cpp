#include "runner/data/data_file.h"

#include <filesystem>

#include <fmt/format.h>

#include "runner/data/data_format.h"
#include "schema/base/file.h"

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
  RegularFile in(file.path);
  if (!in.is_open()) return std::nullopt;
  std::vector<std::byte> chunk(size_t{1} << 20);
  Sha256 hash;
  ssize_t got = 0;
  while ((got = in.read(chunk)) > 0) {
    if (stopped()) return std::nullopt;
    hash.update(std::span<const std::byte>(chunk).first(static_cast<size_t>(got)));
  }
  if (got < 0 || stamp_of(file.path) != file.stamp) return std::nullopt;
  return hash.finish();
}

}  // namespace runner::data
