// Compares docs/from-accelerate.md with the tables of the program: commands, keys and methods in it exist, and work
// unless it says "not yet". Every option and method of Accelerate has a row, and every key of its configuration file
// occurs.
#include <algorithm>
#include <cctype>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "runner/cli/command.h"
#include "runner/lua/accelerator.h"
#include "runner/lua/hook_table.h"
#include "schema/recipe/field_table.h"
#include "schema/recipe/init_recipe.h"
#include "schema/recipe/other_names.h"
#include "tests/cli/command.h"
#include "tests/docs/blocks.h"
#include "tests/support/paths.h"

namespace runner::docs {
namespace {

struct Row {
  std::string line;
  std::vector<std::string> cells;
};

// Returns the cells of a line of a table. A bar inside `code` does not separate cells.
std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells;
  bool in_code = false;
  for (const char c : line) {
    if (c == '`') in_code = !in_code;
    if (c == '|' && !in_code) {
      cells.emplace_back();
    } else if (!cells.empty()) {
      cells.back() += c;
    }
  }
  if (!cells.empty()) cells.pop_back();  // after the last bar
  return cells;
}

std::string page(const char* file = "docs/from-accelerate.md") {
  return cli::testing::read_text(support::source_path(file));
}

// Returns the rows of the tables of a page that map Accelerate, or PyTorch/XLA, to this program.
std::vector<Row> rows(const char* file = "docs/from-accelerate.md") {
  std::vector<Row> found;
  bool maps = false;
  for (const std::string& line : lines_of(page(file))) {
    if (!line.starts_with("|")) {
      maps = false;
    } else if (line.starts_with("| Accelerate | here |") || line.starts_with("| PyTorch/XLA | here |") ||
               line.starts_with("| in a script | in a recipe |")) {
      maps = true;
    } else if (maps && !line.starts_with("|-")) {
      found.push_back({line, cells_of(line)});
    }
  }
  return found;
}

std::vector<std::string> codes_in(const std::string& cell) {
  std::vector<std::string> codes;
  for (size_t at = 0; (at = cell.find('`', at)) != std::string::npos;) {
    const size_t end = cell.find('`', at + 1);
    codes.push_back(cell.substr(at + 1, end - at - 1));
    at = end + 1;
  }
  return codes;
}

enum class Found { kMissing, kNotYet, kWorks };

// Looks up a command with options: "runner exec --json".
Found find_command(const std::string& code) {
  std::vector<std::string> words(1);
  for (const char c : code) c == ' ' ? words.emplace_back() = "" : words.back() += c;
  const cli::Command* command = cli::find_command(words[1]);
  if (command == nullptr) return Found::kMissing;
  for (size_t i = 2; i < words.size(); ++i) {
    const bool known = std::any_of(command->arguments->begin(), command->arguments->end(),
                                   [&](const cli::Argument& argument) { return argument.name == words[i]; });
    if (!known) return Found::kMissing;
  }
  return Found::kWorks;
}

Found find_name_of_acc(const std::string& code) {
  const std::string name = code.substr(4, code.find_first_of("({", 4) - 4);
  const auto names = lua::accelerator_names();
  const bool known = std::any_of(names.begin(), names.end(), [&](const auto& n) { return n.name == name; });
  return known ? Found::kWorks : Found::kMissing;
}

bool works(const schema::Field& field) {
  if (!field.is_section()) return !field.later;
  const auto members = schema::fields_of(field.path());
  return std::any_of(members.begin(), members.end(), works);
}

// Looks up a recipe key, or a key with a value: "train.clip_grad_norm", "mixed_precision: fp16".
Found find_key(const std::string& code) {
  const size_t colon = std::min(code.find(": "), code.size());
  const auto fields = schema::find_fields(code.substr(0, colon));
  if (fields.empty()) return Found::kMissing;
  const std::string value = colon < code.size() ? code.substr(colon + 2) : "";
  const auto& choices = fields[0].choices;
  const bool known = value.empty() || choices.empty() ||
                     std::any_of(choices.begin(), choices.end(), [&](const auto& c) { return c.name == value; });
  if (!known) return Found::kMissing;
  const bool any = std::any_of(fields.begin(), fields.end(), works);
  return any ? Found::kWorks : Found::kNotYet;
}

Found find(const std::string& code) {
  if (code.starts_with("runner ")) return find_command(code);
  if (code.starts_with("acc.") || code.starts_with("acc:")) return find_name_of_acc(code);
  const auto entries = lua::hook_entries();
  if (std::find(entries.begin(), entries.end(), code) != entries.end()) return Found::kWorks;
  return find_key(code);
}

TEST(FromAccelerate, NamesExistAndWorkUnlessMarkedNotYet) {
  int names = 0;
  for (const Row& row : rows()) {
    ASSERT_GE(row.cells.size(), 2u) << row.line;
    const bool not_yet = row.cells.size() > 2 && row.cells[2].find("not yet") != std::string::npos;
    bool all_work = true;
    for (const std::string& code : codes_in(row.cells[1])) {
      const Found found = find(code);
      ++names;
      all_work &= found == Found::kWorks;
      EXPECT_TRUE(found != Found::kMissing || not_yet) << code << " does not exist: " << row.line;
      EXPECT_TRUE(found != Found::kNotYet || not_yet)
          << code << " is not implemented yet; write \"not yet\": " << row.line;
    }
    EXPECT_FALSE(not_yet && all_work) << "works now; describe it instead of \"not yet\": " << row.line;
  }
  EXPECT_GT(names, 100);
}

TEST(FromAccelerate, EveryRowHasAPlaceOrAReason) {
  for (const Row& row : rows()) {
    const bool has_place = !codes_in(row.cells[1]).empty();
    EXPECT_TRUE(has_place || (row.cells.size() > 2 && row.cells[2].size() > 2)) << row.line;
  }
}

// Options and methods of Accelerate 1.15, from its constructor, members, loaders, plugins, trackers, commands and
// utilities.
constexpr const char* kAccelerate[] = {
    "device_placement", "split_batches", "mixed_precision", "gradient_accumulation_steps",
    "gradient_accumulation_plugin", "cpu", "dataloader_config", "deepspeed_plugin", "megatron_lm_plugin", "fsdp_plugin",
    "torch_tp_plugin", "parallelism_config", "rng_types", "log_with", "project_dir", "project_config",
    "step_scheduler_with_optimizer", "kwargs_handlers", "dynamo_backend", "dynamo_plugin",
    // members
    "prepare", "prepare_model", "prepare_optimizer", "prepare_scheduler", "prepare_data_loader", "accumulate",
    "no_sync", "trigger_sync_in_backward", "backward", "sync_gradients", "clip_grad_norm_", "clip_grad_value_",
    "unscale_gradients", "gather", "gather_for_metrics", "reduce", "pad_across_processes", "split_between_processes",
    "join_uneven_inputs", "set_trigger", "check_trigger", "wait_for_everyone", "main_process_first",
    "local_main_process_first", "on_main_process", "on_local_main_process", "on_last_process", "on_process",
    "on_local_process", "print", "is_main_process", "is_local_main_process", "is_last_process", "num_processes",
    "process_index", "local_process_index", "device", "distributed_type", "use_distributed", "multi_device",
    "optimizer_step_was_skipped", "autocast", "profile", "save_state", "load_state", "register_for_checkpointing",
    "register_save_state_pre_hook", "register_load_state_pre_hook", "save", "save_model", "get_state_dict",
    "unwrap_model", "free_memory", "clear", "skip_first_batches", "init_trackers", "get_tracker", "log", "end_training",
    "verify_device_map", "maybe_context_parallel", "lomo_backward", "tensor_parallel_rank", "data_parallel_rank",
    "data_parallel_shard_rank", "pipeline_parallel_rank", "even_batches", "non_blocking", "dispatch_batches",
    "use_seedable_sampler", "use_stateful_dataloader", "logging_dir", "save_iteration",
    // loaders, plugins
    "DataLoaderConfiguration", "data_seed", "slice_fn_for_dispatch", "SkipBatchSampler", "SkipDataLoader",
    "GradientAccumulationPlugin", "num_steps", "adjust_scheduler", "sync_with_dataloader", "sync_each_batch",
    "GradScalerKwargs", "init_scale", "growth_factor", "backoff_factor", "growth_interval", "enabled", "AutocastKwargs",
    "DistributedDataParallelKwargs", "broadcast_buffers", "bucket_cap_mb", "find_unused_parameters", "check_reduction",
    "gradient_as_bucket_view", "static_graph", "comm_hook", "comm_wrapper", "comm_state_option",
    "InitProcessGroupKwargs", "backend", "init_method", "timeout", "ProfileKwargs", "TorchDynamoPlugin",
    "AORecipeKwargs", "TERecipeKwargs", "MSAMPRecipeKwargs", "FP8RecipeKwargs", "FullyShardedDataParallelPlugin",
    "DeepSpeedPlugin", "DeepSpeedSequenceParallelConfig", "MegatronLMPlugin", "ParallelismConfig", "LocalSGD",
    "BnbQuantizationConfig",
    // trackers, commands, utilities
    "GeneralTracker", "register_tracker_class", "log_images", "log_table", "log_figure", "log_artifact", "get_logger",
    "tqdm", "ProjectConfiguration", "automatic_checkpoint_naming", "total_limit", "iteration", "save_on_each_node",
    "config", "launch", "test", "env", "estimate", "merge", "fsdp2", "tpu", "notebook_launcher", "debug_launcher",
    "init_empty_weights", "init_on_device", "infer_auto_device_map", "dispatch_model", "cpu_offload", "disk_offload",
    "load_checkpoint_and_dispatch", "load_checkpoint_in_model", "attach_layerwise_casting_hooks", "ModelHook",
    "SequentialHook", "add_hook_to_module", "prepare_pippy", "find_executable_batch_size", "set_seed",
    "synchronize_rng_states", "release_memory", "clear_device_cache", "broadcast", "broadcast_object_list",
    "gather_object", "copy_tensor_to_devices", "concatenate", "send_to_device", "recursively_apply", "find_batch_size",
    "listify", "patch_environment", "clear_environment"};

// Adds the words of a text that could be names.
void add_words(const std::string& text, std::set<std::string>& words) {
  std::string word;
  for (const char c : text + " ") {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_') {
      word += c;
    } else {
      words.insert(std::exchange(word, ""));
    }
  }
}

TEST(FromAccelerate, HasEveryOptionAndMethod) {
  std::set<std::string> words;
  for (const Row& row : rows())
    for (const std::string& code : codes_in(row.cells[0])) add_words(code, words);
  for (const char* name : kAccelerate) EXPECT_TRUE(words.contains(name)) << name << " has no row";
}

// Hints for unknown keys agree with the pages.
TEST(FromAccelerate, HintsOfKeysNameWhatTheRowsName) {
  // On these pages, these words mean something else.
  const std::set<std::string> differ{"accelerator", "num_steps", "precision"};
  std::set<std::string> found;
  for (const char* file : {"docs/from-accelerate.md", "docs/from-xla.md"})
    for (const Row& row : rows(file)) {
      std::set<std::string> words;
      for (const std::string& code : codes_in(row.cells[0])) add_words(code, words);
      for (const schema::OtherKey& other : schema::other_keys()) {
        const std::string name(other.name);
        if (!words.contains(name) || other.key.empty() || differ.contains(name)) continue;
        found.insert(name);
        EXPECT_NE(row.cells[1].find(other.key), std::string::npos) << name << ": " << row.line;
      }
    }
  for (const char* name : {"nprocs", "num_cpu_threads_per_process"}) EXPECT_TRUE(found.contains(name)) << name;
}

TEST(FromAccelerate, HasEveryKeyOfTheConfigurationFile) {
  const std::string text = page();
  std::set<std::string> words;
  add_words(text.substr(text.find("## The configuration file")), words);
  for (const std::string& key : schema::accelerate_config_keys()) {
    const std::string name = key.substr(key.find('.') + 1);  // npos + 1 is 0: the whole key
    EXPECT_TRUE(words.contains(name)) << key << " does not occur";
  }
}

}  // namespace
}  // namespace runner::docs
