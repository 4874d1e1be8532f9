#include "runner/data/data_file.h"

#include <filesystem>
#include <fstream>

namespace runner::data {

FileStamp stamp_of(const std::string& path) {
  std::error_code error;
  const auto bytes = static_cast<int64_t>(std::filesystem::file_size(path, error));
  if (error) return {};
  return {bytes, std::filesystem::last_write_time(path, error).time_since_epoch().count()};
}

std::vector<DataFile> files_of(const schema::DatasetSpec& spec, const std::string& name) {
  std::vector<DataFile> files;
  const auto add = [&](const char* key, const std::string& path) {
    if (!path.empty()) files.push_back({name + key, path, stamp_of(path), 0});
  };
  add(".path", spec.path);
  add(".features", spec.features_file);
  if (!spec.reconstructs) add(".labels", spec.labels_file);
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
