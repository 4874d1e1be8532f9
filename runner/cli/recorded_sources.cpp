#include "runner/cli/recorded_sources.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>

namespace runner::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kInclude = "include";

std::vector<store::AttemptSource> newest_of_kind(const store::RunDetails& run, std::string_view kind) {
  std::vector<store::AttemptSource> found;
  for (auto attempt = run.provenance.rbegin(); attempt != run.provenance.rend() && found.empty(); ++attempt) {
    std::ranges::copy_if(attempt->provenance.sources, std::back_inserter(found),
                         [&](const store::AttemptSource& source) { return source.kind == kind; });
  }
  return found;
}

std::optional<std::string> text_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in || fs::is_directory(file)) return std::nullopt;
  return std::string(std::istreambuf_iterator<char>(in), {});
}

}  // namespace

std::vector<store::AttemptSource> recorded_includes(const store::RunDetails& run) {
  return newest_of_kind(run, kInclude);
}

RecordedHook recorded_hook(const store::RunDetails& run, const schema::Recipe& recipe) {
  RecordedHook hook;
  const fs::path main = recipe.hooks, folder = main.parent_path();
  for (store::AttemptSource& source : newest_of_kind(run, store::kHookSource)) {
    const fs::path file = folder / source.path;
    const std::optional<std::string> now = text_of(file);
    const bool is_missing = !now && file == main;
    if (is_missing || (now != source.text && hook.files == RecordedHook::Files::kSame)) {
      hook.files = is_missing ? RecordedHook::Files::kMissing : RecordedHook::Files::kChanged;
      hook.file = file.string();
    }
    hook.sources.push_back({std::move(source.path), std::move(source.text)});
  }
  return hook;
}

}  // namespace runner::cli
