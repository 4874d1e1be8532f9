#include "runner/cli/moved_files.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "schema/base/json.h"
#include "schema/base/secrets.h"
#include "schema/recipe/field_words.h"

namespace runner::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

// Returns the file with the most parts in common with the end of the old path.
std::optional<fs::path> find_below(const fs::path& folder, const fs::path& old) {
  fs::path ending = old.relative_path();
  while (!ending.empty()) {
    if (is_there(folder / ending)) return folder / ending;
    fs::path shorter;
    for (auto part = std::next(ending.begin()); part != ending.end(); ++part) shorter /= *part;
    ending = shorter;
  }
  return std::nullopt;
}

std::optional<fs::path> find_near(const fs::path& store, const fs::path& old) {
  constexpr int kFolders = 3;
  fs::path folder = fs::absolute(store).parent_path();
  for (int i = 0; i < kFolders && folder.has_relative_path(); ++i, folder = folder.parent_path())
    if (auto found = find_below(folder, old)) return found;
  return std::nullopt;
}

// Whether "KEY=VALUE" replaces the key or a section that contains it.
bool replaces(std::string_view override, std::string_view key) {
  return schema::is_within(key, override.substr(0, override.find('=')));
}

// "/data/train/path" of data.train.path.
Json::json_pointer pointer_to(const std::string& key) {
  std::string text;
  for (const char c : "." + key) text += c == '.' ? "/" : c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
  return Json::json_pointer(text);
}

bool has_secret(const std::string& path) {
  return path.find(kSecretStart) != std::string::npos;
}

}  // namespace

// Output files are created where the recipe would now put them.
bool is_output(std::string_view key) {
  return key.starts_with("log.") || key == "profile.out";
}

std::vector<RecipeFile> input_files(const store::RecipeRecord& recipe, const std::string& resolved_json) {
  std::vector<RecipeFile> files;
  const Json resolved = Json::parse(resolved_json, nullptr, /*allow_exceptions=*/false);
  const json::Value origins = json::parse(recipe.origins_json);
  for (const auto& [key, origin] : json::members_of(origins)) {
    const Json::json_pointer at = pointer_to(key);
    const bool is_path = !json::text_of(json::member(origin, "written")).empty();
    if (!is_path || is_output(key) || !resolved.contains(at) || !resolved[at].is_string()) continue;
    const auto path = resolved[at].get<std::string>();
    if (!has_secret(path)) files.push_back({key, path});
  }
  return files;
}

std::vector<std::string> overrides_of_secrets(const store::RecipeRecord& recipe,
                                              std::span<const std::string> overrides) {
  const Json resolved = Json::parse(recipe.resolved_json, nullptr, /*allow_exceptions=*/false);
  std::vector<std::string> found;
  for (const std::string& each : overrides) {
    const Json::json_pointer at = pointer_to(each.substr(0, each.find('=')));
    if (resolved.contains(at) && has_secret(resolved[at].dump())) found.push_back(each);
  }
  return found;
}

FoundFiles find_files(const store::RecipeRecord& recipe, const fs::path& store,
                      std::span<const std::string> overrides) {
  FoundFiles found{recipe.resolved_json, {}};
  const json::Value origins = json::parse(recipe.origins_json);
  Json resolved = Json::parse(recipe.resolved_json, nullptr, /*allow_exceptions=*/false);
  const fs::path folder = fs::absolute(store).parent_path();
  bool has_moved = false;
  for (const auto& [key, origin] : json::members_of(origins)) {
    if (std::ranges::any_of(overrides, [&, &of = key](const std::string& each) { return replaces(each, of); }))
      continue;
    const fs::path written = json::text_of(json::member(origin, "written"));
    const Json::json_pointer at = pointer_to(key);
    if (written.empty() || written.is_absolute() || has_secret(written.string()) || !resolved.contains(at) ||
        !resolved[at].is_string())
      continue;
    const fs::path old = resolved[at].get<std::string>();
    if (is_there(old) || (is_output(key) && is_there(old.parent_path()))) continue;
    std::optional<fs::path> now = find_near(store, is_output(key) ? old.parent_path() : old);
    if (is_output(key)) now = now ? *now / old.filename() : folder / written;
    if (now) {
      resolved[at] = now->lexically_normal().string();
      has_moved = true;
    } else {
      found.missing.push_back(
          fmt::format("{}: {} is neither there nor near the store, in {}", key, written.string(), folder.string()));
    }
  }
  if (has_moved) found.resolved_json = resolved.dump(2) + "\n";
  return found;
}

}  // namespace runner::cli
