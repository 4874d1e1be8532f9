#include <algorithm>
#include <charconv>
#include <filesystem>
#include <iterator>
#include <optional>
#include <span>
#include <string_view>

#include <fmt/format.h>

#include "schema/base/diagnostic.h"
#include "schema/base/file.h"
#include "schema/base/suggest.h"
#include "schema/base/text.h"
#include "schema/base/value.h"
#include "schema/recipe/compose.h"
#include "schema/recipe/field_table.h"
#include "schema/recipe/field_words.h"
#include "schema/recipe/init_recipe.h"
#include "schema/recipe/yaml_tree.h"

namespace runner::schema {
namespace {

using Names = std::span<const std::string_view>;

enum class Type { kBoolean, kInteger, kText, kList, kSection, kAny };

// A key of the file. `usual`: Accelerate's default, which needs no import. `reason`: why a recipe has no such key;
// empty if it has one, which Import::take() sets.
struct Key {
  std::string_view name;
  Type type;
  std::string_view usual;
  std::string_view reason;
  Names choices = {};  // of a text, or the keys of a section
};

constexpr std::string_view kEnvironments[] = {"LOCAL_MACHINE", "AMAZON_SAGEMAKER"};
constexpr std::string_view kDistributedTypes[] = {"NO",        "MULTI_CPU",   "MULTI_GPU",    "MULTI_NPU",
                                                  "MULTI_MLU", "MULTI_SDAA",  "MULTI_MUSA",   "MULTI_XPU",
                                                  "MULTI_HPU", "XLA",         "MULTI_NEURON", "FSDP",
                                                  "DEEPSPEED", "MEGATRON_LM", "TPU"};  // the former name of XLA
constexpr std::string_view kSageMakerTypes[] = {"NO", "DATA_PARALLEL", "MODEL_PARALLEL"};
constexpr std::string_view kPrecisions[] = {"no", "fp16", "bf16", "fp8"};

constexpr std::string_view kDynamoKeys[] = {"dynamo_backend", "dynamo_mode", "dynamo_use_fullgraph",
                                            "dynamo_use_dynamic", "dynamo_use_regional_compilation"};
constexpr std::string_view kMpiKeys[] = {"mpirun_hostfile", "mpirun_ccl"};
constexpr std::string_view kFp8Keys[] = {"backend",
                                         "fp8_format",
                                         "amax_history_len",
                                         "amax_history_length",
                                         "amax_compute_algo",
                                         "amax_compute_algorithm",
                                         "margin",
                                         "interval",
                                         "override_linear_precision",
                                         "use_autocast_during_eval",
                                         "opt_level",
                                         "optimization_level",
                                         "enable_fsdp_float8_all_gather",
                                         "pad_inner_dim"};
constexpr std::string_view kFsdpKeys[] = {"fsdp_version",
                                          "fsdp_reshard_after_forward",
                                          "fsdp_sharding_strategy",
                                          "fsdp_offload_params",
                                          "fsdp_auto_wrap_policy",
                                          "fsdp_transformer_layer_cls_to_wrap",
                                          "fsdp_min_num_params",
                                          "fsdp_backward_prefetch",
                                          "fsdp_backward_prefetch_policy",
                                          "fsdp_forward_prefetch",
                                          "fsdp_state_dict_type",
                                          "fsdp_use_orig_params",
                                          "fsdp_cpu_ram_efficient_loading",
                                          "fsdp_sync_module_states",
                                          "fsdp_activation_checkpointing",
                                          "fsdp_ignored_modules"};
constexpr std::string_view kDeepSpeedKeys[] = {"deepspeed_config_file",
                                               "zero_stage",
                                               "offload_optimizer_device",
                                               "offload_param_device",
                                               "offload_optimizer_nvme_path",
                                               "offload_param_nvme_path",
                                               "gradient_accumulation_steps",
                                               "gradient_clipping",
                                               "zero3_init_flag",
                                               "zero3_save_16bit_model",
                                               "deepspeed_hostfile",
                                               "deepspeed_multinode_launcher",
                                               "deepspeed_inclusion_filter",
                                               "deepspeed_exclusion_filter",
                                               "deepspeed_moe_layer_cls_names"};
constexpr std::string_view kMegatronKeys[] = {"megatron_lm_tp_degree",
                                              "megatron_lm_pp_degree",
                                              "megatron_lm_num_micro_batches",
                                              "megatron_lm_sequence_parallelism",
                                              "megatron_lm_recompute_activations",
                                              "megatron_lm_use_distributed_optimizer",
                                              "megatron_lm_gradient_clipping"};
constexpr std::string_view kParallelismKeys[] = {"parallelism_config_dp_replicate_size",
                                                 "parallelism_config_dp_shard_size",
                                                 "parallelism_config_tp_size",
                                                 "parallelism_config_cp_size",
                                                 "parallelism_config_cp_comm_strategy",
                                                 "parallelism_config_cp_backend",
                                                 "parallelism_config_sp_size",
                                                 "parallelism_config_sp_backend",
                                                 "parallelism_config_sp_seq_length",
                                                 "parallelism_config_sp_seq_length_is_variable",
                                                 "parallelism_config_sp_attn_implementation"};

constexpr std::string_view kOneCommand = "one command starts the processes of all machines";
constexpr std::string_view kNoRendezvous = "processes communicate through shared memory, or MPI between machines";
constexpr std::string_view kLauncher = "mpirun or srun starts the processes of several machines";
constexpr std::string_view kNamedHosts = "name the hosts in --hosts";
constexpr std::string_view kEmulated = "the TPU is emulated, there are no machines to start";
constexpr std::string_view kWholeModels = "each process has the whole model";
constexpr std::string_view kNoCloud = "runs are started on this machine, not in a cloud";

constexpr Key kKeys[] = {
    {"compute_environment", Type::kText, "LOCAL_MACHINE", kNoCloud, kEnvironments},
    {"distributed_type", Type::kText, "", ""},
    {"mixed_precision", Type::kText, "no", "", kPrecisions},
    {"fp16", Type::kBoolean, "false", ""},
    {"use_cpu", Type::kBoolean, "false", ""},
    {"debug", Type::kBoolean, "false", "tensor shapes are always checked before a collective"},
    {"enable_cpu_affinity", Type::kBoolean, "false", ""},
    {"num_processes", Type::kInteger, "", ""},
    {"num_machines", Type::kInteger, "1", ""},
    {"machine_rank", Type::kInteger, "0", kOneCommand},
    {"gpu_ids", Type::kAny, "all", "devices are emulated, one per process"},
    {"main_process_ip", Type::kText, "", kNoRendezvous},
    {"main_process_port", Type::kInteger, "", kNoRendezvous},
    {"rdzv_backend", Type::kText, "static", kNoRendezvous},
    {"same_network", Type::kBoolean, "false", kNoRendezvous},
    {"main_training_function", Type::kText, "main", "the recipe and its hook define what runs"},
    {"downcast_bf16", Type::kBoolean, "false", ""},
    {"tpu_name", Type::kText, "", kEmulated},
    {"tpu_zone", Type::kText, "", kEmulated},
    {"tpu_use_cluster", Type::kBoolean, "false", kEmulated},
    {"tpu_use_sudo", Type::kBoolean, "false", kEmulated},
    {"tpu_vm", Type::kList, "", kEmulated},
    {"tpu_env", Type::kList, "", kEmulated},
    {"commands", Type::kList, "", kEmulated},
    {"command_file", Type::kText, "", kEmulated},
    {"dynamo_backend", Type::kText, "NO", "the engine compiles every step"},
    {"dynamo_config", Type::kSection, "", "the engine compiles every step", kDynamoKeys},
    {"mpirun_config", Type::kSection, "", "collectives are those of this program", kMpiKeys},
    {"fp8_config", Type::kSection, "", "fp8 is not supported", kFp8Keys},
    {"fsdp_config", Type::kSection, "", kWholeModels, kFsdpKeys},
    {"deepspeed_config", Type::kSection, "", kWholeModels, kDeepSpeedKeys},
    {"megatron_lm_config", Type::kSection, "", kWholeModels, kMegatronKeys},
    {"parallelism_config", Type::kSection, "", kWholeModels, kParallelismKeys},
    {"ec2_instance_type", Type::kText, "", kNoCloud},
    {"iam_role_name", Type::kText, "", kNoCloud},
    {"image_uri", Type::kText, "", kNoCloud},
    {"profile", Type::kText, "", kNoCloud},
    {"region", Type::kText, "", kNoCloud},
    {"base_job_name", Type::kText, "", kNoCloud},
    {"pytorch_version", Type::kAny, "", kNoCloud},
    {"transformers_version", Type::kAny, "", kNoCloud},
    {"py_version", Type::kAny, "", kNoCloud},
    {"sagemaker_inputs_file", Type::kText, "", kNoCloud},
    {"sagemaker_metrics_file", Type::kText, "", kNoCloud},
    {"additional_args", Type::kAny, "", kNoCloud},
};

std::string type_text(Type type) {
  switch (type) {
    case Type::kBoolean: return "true or false";
    case Type::kInteger: return "an integer";
    case Type::kText: return "a text";
    case Type::kList: return "a list";
    default: return "a section";
  }
}

// Booleans as PyYAML reads them, and quoted ones, because Accelerate writes downcast_bf16: 'no'.
std::optional<bool> truth(const YamlNode& node) {
  const std::string word = lower_case(node.text);
  for (const std::string_view yes : {"true", "yes", "on"})
    if (word == yes) return true;
  for (const std::string_view no : {"false", "no", "off"})
    if (word == no) return false;
  return std::nullopt;
}

std::optional<int64_t> integer(const YamlNode& node) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(node.text.data(), node.text.data() + node.text.size(), number);
  const bool whole = error == std::errc() && end == node.text.data() + node.text.size() && !node.quoted;
  return whole ? std::optional(number) : std::nullopt;
}

std::string value_text(const YamlNode& node) {
  switch (node.kind) {
    case YamlNode::Kind::kScalar: return node.text;
    case YamlNode::Kind::kList: {
      std::vector<std::string> items;
      for (const YamlNode& item : node.items) items.push_back(value_text(item));
      return fmt::format("[{}]", fmt::join(items, ", "));
    }
    case YamlNode::Kind::kMap: {
      std::vector<std::string> members;
      for (const YamlNode::Member& m : node.members) members.push_back(m.key + ": " + value_text(m.value));
      return fmt::format("{{{}}}", fmt::join(members, ", "));
    }
    default: return "null";
  }
}

std::vector<std::string> words(Names names) {
  return {names.begin(), names.end()};
}

class Import {
 public:
  // `folder`: of the file.
  Import(const YamlNode& root, std::filesystem::path folder, Report& report)
      : root_(root), folder_(std::move(folder)), report_(report) {}

  ImportedConfig read() {
    if (root_.kind != YamlNode::Kind::kMap) {
      if (root_.kind != YamlNode::Kind::kInvalid)
        report_.add(ErrorId::kWrongType, root_.place, "",
                    "expected a section of keys, such as num_processes: 4, as configuration of Accelerate");
      return {};
    }
    for (const YamlNode::Member& member : root_.members) check(member);
    if (const YamlNode* kind = find("distributed_type"); kind == nullptr)
      report_.add(ErrorId::kMissingKey, root_.place, "distributed_type", "distributed_type is missing",
                  "Accelerate requires it, too; write distributed_type: \"NO\" for one process");
    if (!report_.empty()) return {};
    read_host_file();
    take_number_of_machines();
    for (const YamlNode::Member& member : root_.members) take(member);
    take_machines();
    if (const YamlNode* downcast = find("downcast_bf16"); downcast != nullptr) take_downcast(*downcast);
    return std::move(result_);
  }

 private:
  const YamlNode* find(std::string_view key) const {
    const YamlNode::Member* member = root_.find(key);
    return member != nullptr && !member->value.is_unset() ? &member->value : nullptr;
  }
  bool is_true(std::string_view key) const {
    const YamlNode* node = find(key);
    return node != nullptr && truth(*node).value_or(false);
  }
  static const Key* row_of(std::string_view name) {
    const auto* at = std::find_if(std::begin(kKeys), std::end(kKeys), [&](const Key& key) { return key.name == name; });
    return at == std::end(kKeys) ? nullptr : at;
  }

  // ---- faults -------------------------------------------------------------------------------------------------------

  void unknown_key(const YamlNode::Member& member, const std::string& path, const std::vector<std::string>& known) {
    report_.add(ErrorId::kUnknownKey, member.place, path,
                fmt::format("unknown key {} of Accelerate's configuration", path),
                did_you_mean(member.key, known, "docs/from-accelerate.md lists all keys"));
  }

  void check(const YamlNode::Member& member) {
    const Key* key = row_of(member.key);
    if (key == nullptr) {
      std::vector<std::string> known;
      for (const Key& row : kKeys) known.emplace_back(row.name);
      return unknown_key(member, member.key, known);
    }
    if (member.value.kind == YamlNode::Kind::kInvalid || member.value.is_unset()) return;
    if (!has_type(member.value, key->type)) return wrong_type(member.value, member.key, type_text(key->type));
    if (key->type == Type::kSection) return check_section(member, *key);
    const bool cloud = find("compute_environment") != nullptr && find("compute_environment")->text == kEnvironments[1];
    const Names choices = key->name != "distributed_type" ? key->choices
                          : cloud                         ? Names(kSageMakerTypes)
                                                          : Names(kDistributedTypes);
    check_choice(member.value, member.key, choices);
  }

  static bool has_type(const YamlNode& node, Type type) {
    const bool scalar = node.kind == YamlNode::Kind::kScalar;
    switch (type) {
      case Type::kBoolean: return scalar && truth(node);
      case Type::kInteger: return scalar && integer(node);
      case Type::kText: return scalar;
      case Type::kList: return node.kind == YamlNode::Kind::kList;
      case Type::kSection: return node.kind == YamlNode::Kind::kMap;
      case Type::kAny: return true;
    }
    return true;
  }

  void wrong_type(const YamlNode& node, const std::string& path, std::string_view wanted) {
    report_.add(ErrorId::kWrongType, node.place, path,
                fmt::format("{} must be {}, got {}", path, wanted, describe(node)));
  }

  void check_choice(const YamlNode& node, const std::string& path, Names choices) {
    if (choices.empty() || std::find(choices.begin(), choices.end(), node.text) != choices.end()) return;
    report_.add(ErrorId::kUnknownChoice, node.place, path,
                fmt::format("{}: unknown choice \"{}\"", path, value_text(node)),
                "choices: " + join_or(words(choices)));
  }

  void check_section(const YamlNode::Member& section, const Key& key) {
    for (const YamlNode::Member& member : section.value.members) {
      const std::string path = section.key + "." + member.key;
      if (std::find(key.choices.begin(), key.choices.end(), member.key) == key.choices.end()) {
        unknown_key(member, path, words(key.choices));
      } else if (member.key == "fsdp_version" && !member.value.is_unset()) {
        static constexpr std::string_view kVersions[] = {"1", "2"};
        check_choice(member.value, path, kVersions);
      } else if (const bool clipping = member.key.ends_with("gradient_clipping");
                 clipping || member.key == "gradient_accumulation_steps") {
        check_number(member.value, path, clipping);
      }
    }
  }

  // "auto" leaves the value to DeepSpeed's own file.
  void check_number(const YamlNode& node, const std::string& path, bool fraction) {
    if (node.is_unset() || node.text == "auto") return;
    const auto number = number_of(node);
    if (!number || *number <= 0 || (!fraction && !integer(node)))
      wrong_type(node, path, fraction ? "a number above 0, or auto" : "an integer of at least 1, or auto");
  }

  static std::optional<double> number_of(const YamlNode& node) {
    const Value value = read_plain_scalar(node.text).value;
    if (value.integer() != nullptr) return static_cast<double>(*value.integer());
    return value.number() != nullptr ? std::optional(*value.number()) : std::nullopt;
  }

  // ---- import -------------------------------------------------------------------------------------------------------

  void leave_out(std::string_view key, const YamlNode& value, std::string_view reason) {
    result_.left_out.push_back(fmt::format("{}: {}: {}", key, value_text(value), reason));
  }

  void take(const YamlNode::Member& member) {
    const YamlNode& value = member.value;
    const Key& key = *row_of(member.key);
    if (value.is_unset()) return;
    if (key.type == Type::kSection) return take_section(member, key);
    if (key.name == "distributed_type") return take_backend(value);
    if (key.name == "num_processes") return take_processes(value);
    if (key.name == "mixed_precision") return take_precision(value, lower_case(value.text));
    if (key.name == "fp16" && find("mixed_precision") == nullptr && *truth(value)) return take_precision(value, "fp16");
    if (key.name == "main_process_ip" && machines_ > 1)
      return hosts_.empty() ? void() : leave_out(key.name, value, "rank 0 is on the first host");
    if (key.name == "enable_cpu_affinity") result_.settings.enable_cpu_affinity = *truth(value);
    if (key.reason.empty()) return;
    const bool usual = key.type == Type::kBoolean ? !*truth(value) : value.text == key.usual && !key.usual.empty();
    if (!usual && !(value.kind == YamlNode::Kind::kList && value.items.empty())) leave_out(key.name, value, key.reason);
  }

  void take_backend(const YamlNode& value) {
    const bool tpu = value.text == "XLA" || value.text == "TPU";
    const bool cpu = is_true("use_cpu") || value.text == "NO" || value.text == "MULTI_CPU";
    result_.settings.backend = tpu && !is_true("use_cpu") ? "tpu" : cpu ? "cpu" : "gpu";
    for (const std::string_view engine : {"FSDP", "DEEPSPEED", "MEGATRON_LM", "MODEL_PARALLEL"})
      if (value.text == engine) leave_out("distributed_type", value, kWholeModels);
  }

  void take_processes(const YamlNode& value) {
    const int64_t number = *integer(value), most = largest_num_processes();
    const std::string_view used = !hosts_.empty()  ? "the slots of the host file"
                                  : machines_ == 1 ? "1"
                                                   : "1 on each machine";
    if (number < 1) return leave_out("num_processes", value, fmt::format("expected at least 1; using {}", used));
    if (number > most)
      return leave_out("num_processes", value, fmt::format("expected at most {}; using {}", most, used));
    result_.settings.num_processes = number;
  }

  void take_precision(const YamlNode& value, const std::string& name) {
    if (name == "fp8") return leave_out("mixed_precision", value, "fp8 is not supported; using float32");
    result_.settings.mixed_precision = name;
  }

  void take_downcast(const YamlNode& value) {
    if (!*truth(value)) return;
    const bool used = result_.settings.backend == "tpu" && result_.settings.mixed_precision == "bf16";
    result_.settings.downcast_bf16 = used;
    if (!used) leave_out("downcast_bf16", value, "it needs backend: tpu and mixed_precision: bf16");
  }

  void take_section(const YamlNode::Member& section, const Key& key) {
    for (const YamlNode::Member& member : section.value.members) {
      const YamlNode& value = member.value;
      if (value.is_unset() || value.text == "auto") continue;
      if (member.key == "gradient_accumulation_steps") {
        result_.settings.gradient_accumulation_steps = integer(value);
      } else if (member.key.ends_with("gradient_clipping")) {
        result_.settings.clip_grad_norm = number_of(value);
      } else if (!is_host_file(member.key) || hosts_.empty()) {
        leave_out(section.key + "." + member.key, value, reason_of(member.key, key));
      }
    }
  }

  std::string reason_of(std::string_view name, const Key& section) const {
    if (is_host_file(name)) return host_file_fault_ + "; name the hosts in --hosts";
    if (name == "deepspeed_multinode_launcher") return std::string(kLauncher);
    return std::string(name.ends_with("clusion_filter") ? kNamedHosts : section.reason);
  }

  // ---- machines -----------------------------------------------------------------------------------------------------

  static bool is_host_file(std::string_view name) { return name.ends_with("_hostfile"); }

  // Reads the hosts of the file that DeepSpeed or mpirun would read. Without such a file there are none; if it cannot
  // be used, there are none, and the reason is set.
  void read_host_file() {
    for (const YamlNode::Member& section : root_.members)
      for (const YamlNode::Member& member : section.value.members)
        if (is_host_file(member.key) && !member.value.is_unset() && hosts_.empty()) take_hosts_of(member.value.text);
  }

  void take_hosts_of(const std::string& name) {
    const auto text = read_file(folder_ / name);
    host_file_fault_ = !text ? "cannot read it" : read_hosts(*text);
    if (!host_file_fault_.empty()) hosts_.clear();
  }

  // Returns why the text cannot be used; empty if it can.
  std::string read_hosts(std::string_view text) {
    int64_t slots = 0;
    for (int number = 1; !text.empty(); ++number) {
      const size_t end = std::min(text.find('\n'), text.size());
      const std::vector<std::string_view> words = words_of(text.substr(0, std::min(text.find('#'), end)));
      text.remove_prefix(std::min(end + 1, text.size()));
      if (words.empty()) continue;
      const std::optional<ImportedMachine> host = host_of(words);
      if (!host)
        return fmt::format("line {}: expected NAME, NAME:N or NAME slots=N, N at least 1, got {}", number,
                           fmt::join(words, " "));
      slots += host->processes;
      hosts_.push_back(*host);
    }
    if (hosts_.empty()) return "it has no hosts";
    const int64_t most = largest_num_processes();
    return slots > most ? fmt::format("it has {} slots, expected at most {}", slots, most) : "";
  }

  static std::vector<std::string_view> words_of(std::string_view line) {
    constexpr std::string_view kSpaces = " \t\r";
    std::vector<std::string_view> words;
    for (size_t at = line.find_first_not_of(kSpaces); at < line.size(); at = line.find_first_not_of(kSpaces, at)) {
      words.push_back(line.substr(at, line.find_first_of(kSpaces, at) - at));
      at += words.back().size();
    }
    return words;
  }

  // "NAME", "NAME:N" (MPICH) or "NAME slots=N" (Open MPI, DeepSpeed).
  static std::optional<ImportedMachine> host_of(const std::vector<std::string_view>& words) {
    constexpr std::string_view kSlots = "slots=";
    const std::string_view name = words[0].substr(0, words[0].find(':'));
    const bool has_colon = name.size() < words[0].size();
    if (name.empty() || words.size() > (has_colon ? 1 : 2)) return std::nullopt;
    if (words.size() == 2 && !words[1].starts_with(kSlots)) return std::nullopt;
    std::string_view slots = "1";
    if (has_colon) slots = words[0].substr(name.size() + 1);
    if (words.size() == 2) slots = words[1].substr(kSlots.size());
    const int number = whole_number(slots).value_or(0);
    if (number < 1) return std::nullopt;
    return ImportedMachine{std::string(name), number};
  }

  void take_number_of_machines() {
    const YamlNode* const node = find("num_machines");
    const int64_t number = node != nullptr ? *integer(*node) : 1;
    const auto of_file = static_cast<int64_t>(hosts_.size());
    if (number < 1 || number > largest_num_processes()) {
      leave_out("num_machines", *node,
                fmt::format("expected 1 to {}; using {}", largest_num_processes(), std::max<int64_t>(1, of_file)));
    } else if (of_file == 0) {
      machines_ = number;
    } else if (node != nullptr && number != of_file) {
      leave_out("num_machines", *node, fmt::format("the host file has {}", count_text(of_file, "host")));
    }
    if (of_file > 0) machines_ = of_file;
  }

  // Accelerate divides num_processes, the number for all machines, evenly among them.
  void take_machines() {
    if (machines_ == 1) return;
    const YamlNode* const given = find("num_processes");
    const bool is_given = given != nullptr && result_.settings.num_processes == *integer(*given);
    const int64_t each = std::max<int64_t>(1, result_.settings.num_processes / machines_);
    int64_t all = 0;
    for (int64_t i = 0; i < machines_; ++i) {
      ImportedMachine machine = hosts_.empty() ? ImportedMachine{} : hosts_[static_cast<size_t>(i)];
      if (is_given || hosts_.empty()) machine.processes = each;
      all += machine.processes;
      result_.machines.push_back(std::move(machine));
    }
    if (const YamlNode* const ip = find("main_process_ip"); ip != nullptr && hosts_.empty())
      result_.machines.front().host = ip->text;
    if (is_given && all != result_.settings.num_processes)
      leave_out("num_processes", *given, fmt::format("{} machines have as many each; using {}", machines_, all));
    result_.settings.num_processes = all;
  }

  const YamlNode& root_;
  const std::filesystem::path folder_;
  Report& report_;
  ImportedConfig result_;
  std::vector<ImportedMachine> hosts_;  // of the host file
  std::string host_file_fault_;         // why it cannot be used
  int64_t machines_ = 1;
};

}  // namespace

ImportedConfig import_accelerate_config(const std::string& path) {
  Report report;
  const int source = load_source(OriginKind::kRecipe, path, report);
  report.throw_if_any();
  const YamlTree tree = parse_yaml(source, report);
  report.throw_if_any();
  ImportedConfig config = Import(tree.root, std::filesystem::path(path).parent_path(), report).read();
  report.throw_if_any();
  return config;
}

std::vector<std::string> accelerate_config_keys() {
  std::vector<std::string> keys;
  for (const Key& key : kKeys) {
    keys.emplace_back(key.name);
    if (key.type != Type::kSection) continue;
    for (const std::string_view name : key.choices) keys.push_back(fmt::format("{}.{}", key.name, name));
  }
  return keys;
}

}  // namespace runner::schema
