#include "runner/cli/recorded_run.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "runner/formats/used_files.h"
#include "runner/train/run/run_data.h"
#include "schema/base/file.h"
#include "schema/base/json.h"
#include "schema/base/secrets.h"
#include "schema/recipe/recipe_identity.h"
#include "store/device_report.h"

namespace runner::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kInclude = "include";

// Name of the recorded recipe of a run in messages.
std::string recorded_file(std::string_view run) {
  return fmt::format("{}/resolved.json", run);
}

std::vector<store::AttemptSource> newest_of_kind(const store::RunDetails& run, std::string_view kind) {
  std::vector<store::AttemptSource> found;
  for (auto attempt = run.provenance.rbegin(); attempt != run.provenance.rend() && found.empty(); ++attempt) {
    std::ranges::copy_if(attempt->provenance.sources, std::back_inserter(found),
                         [&](const store::AttemptSource& source) { return source.kind == kind; });
  }
  return found;
}

store::Param::Value param_value(const schema::Value& value) {
  if (const bool* boolean = value.boolean()) return *boolean;
  if (const int64_t* integer = value.integer()) return *integer;
  if (const double* number = value.number()) return *number;
  if (const std::string* text = value.text()) return *text;
  return {};
}

void remember_file(std::string_view key, const fs::path& path) {
  using formats::FileRole;
  formats::remember_used_file(path, key.starts_with("data.") ? FileRole::kData
                                    : key == "hooks"         ? FileRole::kHook
                                                             : FileRole::kReadByRun);
}

void remember_files_of(const schema::ReadResult& recipe) {
  for (const schema::Leaf& leaf : recipe.leaves) {
    const std::string* const path = leaf.value.text();
    if (leaf.field->type == schema::FieldType::kPath && path != nullptr && !is_output(leaf.path))
      remember_file(leaf.path, *path);
  }
}

// Remembers the recipe and its includes. Their paths are recorded as the command knew them, which may have run in
// another folder than this one: often that of the store.
void remember_recipes_of(const store::RunDetails& run, const fs::path& folder) {
  std::set<std::string> files;
  const json::Value origins = json::parse(run.recipe.origins_json);
  for (const auto& [key, origin] : json::members_of(origins)) files.insert(json::text_of(json::member(origin, "file")));
  for (const store::AttemptSource& include : recorded_includes(run)) files.insert(include.path);
  files.erase("");
  for (const std::string& file : files)
    for (const fs::path& path : {fs::path(file), folder / file})
      formats::remember_used_file(path, formats::FileRole::kRecipeOfRun);
}

}  // namespace

void remember_recorded_files(const store::RunDetails& run, const fs::path& store) {
  const fs::path folder = fs::absolute(store).parent_path();
  for (const store::AttemptProvenance& attempt : run.provenance)
    for (const store::RecordedFile& file : attempt.provenance.data) remember_file(file.key, folder / file.path);
  if (run.recipe.resolved_json.empty()) return;  // damaged
  remember_recipes_of(run, folder);
  fs::path hook;
  for (const RecipeFile& file : input_files(run.recipe, find_files(run.recipe, store).resolved_json)) {
    remember_file(file.key, file.path);
    if (file.key == "hooks") hook = file.path;
  }
  if (hook.empty()) return;
  for (const store::AttemptSource& source : newest_of_kind(run, store::kHookSource))
    remember_file("hooks", hook.parent_path() / source.path);
}

schema::ReadResult recorded_recipe(const store::RunDetails& run, const fs::path& store,
                                   std::span<const std::string> overrides) {
  remember_recorded_files(run, store);
  schema::ReadResult recipe = about_recorded_recipe(run.run.uid, [&] {
    return schema::read_resolved(find_files(run.recipe, store).resolved_json, overrides, recorded_file(run.run.uid));
  });
  remember_files_of(recipe);
  return recipe;
}

schema::RecipeError with_way_to_open(const schema::RecipeError& error, std::string_view run) {
  const std::string file = recorded_file(run);
  std::vector<schema::Diagnostic> faults = error.diagnostics();
  const auto last = std::find_if(faults.rbegin(), faults.rend(),
                                 [&](const schema::Diagnostic& fault) { return fault.where.file == file; });
  if (last == faults.rend()) return error;
  last->hint += fmt::format("{}`runner show {} --recipe` prints {}, the recorded recipe of the run",
                            last->hint.empty() ? "" : "; ", run, file);
  return schema::RecipeError(std::move(faults));
}

report::MoreOfRun more_of(store::Store& store, const store::RunRow& run) {
  return {.device = store::newest_device_metrics(store, run.id), .encoding = train::encoding_of(store, run)};
}

store::RecipeRecord record_of(const schema::ReadResult& recipe) {
  return {schema::recipe_hash(recipe), recipe.text, schema::resolved_json(recipe), schema::origins_json(recipe)};
}

store::RecipeRecord record_of_resumed(const store::RecipeRecord& before, const schema::ReadResult& after) {
  store::RecipeRecord record = record_of(after);
  const json::Value then = json::parse(before.origins_json), now = json::parse(record.origins_json);
  const std::map<std::string, json::Value> earlier(json::members_of(then).begin(), json::members_of(then).end());
  json::Object origins;
  for (const auto& [key, origin] : json::members_of(now)) {
    const schema::Leaf* leaf = after.find(key);
    const bool set_now = leaf != nullptr && leaf->origin == schema::OriginKind::kCommandLine;
    origins.emplace_back(key, set_now || !earlier.contains(key) ? origin : earlier.at(key));
  }
  record.hash = schema::recipe_hash(with_paths_as_written(before, after));
  record.text = before.text;
  record.origins_json = json::line(origins);
  return record;
}

schema::ReadResult with_paths_as_written(const store::RecipeRecord& before, schema::ReadResult after) {
  const json::Value origins = json::parse(before.origins_json);
  for (const auto& [key, origin] : json::members_of(origins)) {
    const auto leaf = std::ranges::find(after.leaves, key, &schema::Leaf::path);
    if (leaf == after.leaves.end() || leaf->origin == schema::OriginKind::kCommandLine) continue;
    const json::Value& written = json::member(origin, "written");
    if (written.text() != nullptr) (leaf->recorded.is_null() ? leaf->value : leaf->recorded) = written;
  }
  return after;
}

std::vector<store::Param> params_of(const schema::ReadResult& recipe) {
  std::vector<store::Param> params;
  for (const schema::FlatSetting& setting : schema::flat_settings(recipe)) {
    params.push_back({setting.path, param_value(setting.value)});
  }
  return params;
}

std::vector<store::AttemptSource> includes_of(const schema::ReadResult& recipe) {
  std::vector<store::AttemptSource> includes;
  for (const auto& [file, text] : recipe.includes)
    includes.push_back({std::string(kInclude), hide_secrets(file), text});
  return includes;
}

std::vector<store::AttemptSource> recorded_includes(const store::RunDetails& run) {
  return newest_of_kind(run, kInclude);
}

RecordedHook recorded_hook(const store::RunDetails& run, const schema::Recipe& recipe) {
  RecordedHook hook;
  const fs::path main = recipe.hooks, folder = main.parent_path();
  for (store::AttemptSource& source : newest_of_kind(run, store::kHookSource)) {
    const fs::path file = folder / source.path;
    const std::optional<std::string> now = read_file(file);
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
