#include "runner/data/data_file.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>
#include <glob.h>

#include "runner/data/data_format.h"
#include "schema/base/error.h"
#include "schema/base/file.h"

namespace runner::data {

FileStamp stamp_of(const std::string& path) {
  std::error_code error;
  const auto bytes = static_cast<int64_t>(std::filesystem::file_size(path, error));
  if (error) return {};
  return {bytes, std::filesystem::last_write_time(path, error).time_since_epoch().count()};
}

namespace {

std::vector<std::string> files_in(const std::filesystem::path& folder) {
  std::vector<std::string> files;
  for (auto at = std::filesystem::recursive_directory_iterator(folder); at != std::filesystem::end(at); ++at) {
    const bool is_hidden = at->path().filename().string().starts_with('.');
    if (is_hidden && at->is_directory()) at.disable_recursion_pending();
    if (!is_hidden && at->is_regular_file()) files.push_back(at->path().string());
  }
  std::ranges::sort(files);
  return files;
}

std::vector<std::string> matches_of(const std::string& pattern) {
  glob_t found{};
  std::vector<std::string> files;
  if (::glob(pattern.c_str(), 0, nullptr, &found) == 0) files.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  ::globfree(&found);
  std::erase_if(files, [](const std::string& file) { return std::filesystem::is_directory(file); });
  return files;
}

}  // namespace

bool has_files(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored) || !matches_of(path).empty();
}

std::vector<std::string> files_at(const std::string& path) {
  std::error_code ignored;
  const bool is_folder = std::filesystem::is_directory(path, ignored);
  const bool is_pattern = path.find_first_of("*?[") != path.npos && !std::filesystem::exists(path, ignored);
  if (!is_folder && !is_pattern) return {path};
  std::vector<std::string> files = is_folder ? files_in(path) : matches_of(path);
  RUN_CHECK(!files.empty(), ErrorKind::kData, "{}: {}", path,
            is_folder ? "the folder has no files" : "no file matches");
  return files;
}

namespace {

bool has_many_files(schema::DataFormat format) {
  using schema::DataFormat;
  return format == DataFormat::kText || format == DataFormat::kLines || format == DataFormat::kCifar;
}

}  // namespace

std::vector<DataFile> files_of(const schema::DatasetSpec& spec, const std::string& name) {
  std::vector<DataFile> files;
  const std::span<const Source> sources = definition_of(spec.format).sources;
  for (const Source& source : sources) {
    const std::string& path = source.path_in(spec);
    if (path.empty() || (source.contents == Contents::kLabels && spec.reconstructs)) continue;
    const bool lists = has_many_files(spec.format) && !spec.planned_samples;
    for (const std::string& file : lists ? files_at(path) : std::vector{path})
      files.push_back({fmt::format("{}.{}", name, std::string_view(source.key)), file, stamp_of(file), 0});
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
