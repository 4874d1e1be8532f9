#include <algorithm>
#include <optional>

#include "runner/cli/commands/shared_options.h"
#include "runner/cli/hook_faults.h"
#include "runner/cli/recorded_run.h"
#include "runner/cli/store_access.h"
#include "runner/formats/model_files.h"
#include "runner/formats/write.h"
#include "runner/lua/hook_file.h"
#include "runner/report/documents.h"
#include "runner/report/format.h"
#include "runner/report/output.h"
#include "runner/report/run_files.h"
#include "runner/train/run/checkpoint/sections.h"
#include "runner/train/run/exported_adapter.h"
#include "runner/train/run/exported_model.h"
#include "runner/train/run/hub_folder.h"
#include "schema/base/file.h"
#include "schema/base/json.h"
#include "schema/base/text.h"

namespace runner::cli {
namespace {

namespace fs = std::filesystem;

struct ExportOptions : StateOptions {
  std::string model_file, adapter, shard_size, metrics_file, tensorboard, folder;
  std::string artifact, file, output;
  bool fold_normalization = false, trained_weights = false, is_public = false;
};

constexpr Argument kExportArguments[] = {
    kRunArgument,
    {"--model", "FILE",
     "write the weights as .safetensors, with the model's parameter names; or the whole model as .onnx, or as a "
     "folder, DIR/, that transformers loads; - is standard output, for safetensors",
     &ExportOptions::model_file},
    {"--adapter", "DIR", "write the adapter of model.lora to DIR as PEFT does", &ExportOptions::adapter},
    {"--max-shard-size", "SIZE",
     "maximum size of a safetensors file; a larger model becomes several files and an index; default: 10GB",
     &ExportOptions::shard_size},
    {"--fold-normalization", "",
     "put scale and normalisation of the features into the model, so that it takes raw rows",
     &ExportOptions::fold_normalization},
    {"--trained-weights", "", "write the weights themselves, not the average that train.ema or train.swa keeps",
     &ExportOptions::trained_weights},
    kStateArgument,
    {"--metrics", "FILE", "write every metric point as .csv, .json or .jsonl", &ExportOptions::metrics_file},
    {"--tensorboard", "DIR", "write every metric point to a TensorBoard event file in DIR",
     &ExportOptions::tensorboard},
    {"--folder", "DIR", "write the run as files in DIR: recipe, parameters, metrics, events, summary",
     &ExportOptions::folder},
    {"--public", "",
     "leave out of --folder what identifies the machine and the repository: environment, host, processor, commit, "
     "branch, uncommitted changes",
     &ExportOptions::is_public},
    {"--artifact", "NAME", "write the newest artifact of this name to FILE", &ExportOptions::artifact, Kind::kArtifact},
    {"[FILE]", "", "output file of --artifact; default: the last part of NAME; - is standard output",
     &ExportOptions::file},
    {"--output", "FILE", "the same as the argument FILE", &ExportOptions::output, Kind::kText, "-o"}};

// The file of --artifact; empty: named after the artifact.
std::string artifact_file(const ExportOptions& options) {
  return given_once("the output file", options.file, "--output", options.output);
}

// Returns the file name: FILE, or the last part of the artifact's name.
std::string export_artifact(store::Store& store, const store::RunRow& run, const ExportOptions& options,
                            report::Output& out) {
  const store::ArtifactInfo artifact = store::find_artifact(store, run.id, options.artifact);
  const std::vector<std::byte> bytes = store::read_artifact(store, artifact);
  const std::string_view contents(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  std::string file = artifact_file(options);
  if (file.empty()) {  // the hook has chosen the name
    file = fs::path(artifact.header.name).filename().string();
    const std::optional<std::string> old = read_file(file);
    RUN_CHECK(
        !old || *old == contents, ErrorKind::kUsage,
        "{0} exists and differs from the artifact; name the file to write: `runner export {1} --artifact {2} FILE`",
        file, options.run, options.artifact);
  }
  out.file(file, contents, formats::kind_of(contents));
  return file;
}

// Whether --model names a folder: one that exists, or a name with / at its end, or without an extension if it is no
// device or pipe.
bool is_folder(const std::string& file) {
  if (file.empty() || report::is_standard_output(file)) return false;
  std::error_code ignored;
  const fs::file_status found = fs::status(file, ignored);
  return file.ends_with('/') || fs::is_directory(found) || (!fs::is_other(found) && !fs::path(file).has_extension());
}

bool is_onnx(const std::string& file) {
  return lower_case(file).ends_with(".onnx");
}

// Files that other programs would take for what their name says.
void check_model_file(const std::string& file) {
  const auto ends = [&](const char* ending) { return lower_case(file).ends_with(ending); };
  for (const char* const ending : {".pt", ".pth", ".bin", ".ckpt"})
    RUN_CHECK(!ends(ending), ErrorKind::kUsage,
              "--model: {0} would be a pickle of PyTorch, which can run code when it is loaded; write a .safetensors "
              "file, which `safetensors.torch.load_file` reads",
              file);
  for (const char* const ending : {".h5", ".keras", ".pb", ".tflite", ".gguf", ".npz"})
    RUN_CHECK(!ends(ending), ErrorKind::kUsage, "--model: cannot write {}; models are written as .safetensors or .onnx",
              file);
}

// Returns the contents of the file. Fails like other unusable options if the hook's model cannot be traced for
// predictions.
std::string convert_to_onnx(const train::ExportedModel& model, std::unique_ptr<train::Hooks> hooks,
                            const train::Print& print) {
  try {
    return train::onnx_file(model, std::move(hooks), print);
  } catch (Error& error) {
    if (error.kind() == ErrorKind::kRun) error.set_kind(ErrorKind::kUsage);
    throw error.note("the model cannot be exported as ONNX; write a .safetensors file");
  }
}

bool lacks_secret(const schema::RecipeError& error) {
  return std::ranges::any_of(error.diagnostics(), [](const schema::Diagnostic& fault) {
    return fault.id == schema::ErrorId::kUnsetEnvironment || fault.id == schema::ErrorId::kChangedSecret;
  });
}

// The recipe of a run, whose files no output may replace; none if that part of the record is damaged, which an export
// of weights does not need. Only a model needs the secret variables of the recipe.
std::optional<schema::ReadResult> intact_recipe(const store::RunDetails& run, const fs::path& store, bool for_model) {
  remember_recorded_files(run, store);
  if (std::ranges::find(run.damage, "recipe", &store::Damage::part) != run.damage.end()) return std::nullopt;
  try {
    return recorded_recipe(run, store);
  } catch (const schema::RecipeError& error) {
    if (for_model && lacks_secret(error)) throw;
    return std::nullopt;
  } catch (const Error&) {
    return std::nullopt;
  }
}

void check_new_folder(const fs::path& folder) {
  std::error_code ignored;  // creating the folder reports it
  RUN_CHECK(folder.empty() || !fs::exists(folder, ignored) || fs::is_empty(folder, ignored), ErrorKind::kUsage,
            "{} exists and is not an empty folder; choose another one", folder.string());
}

bool is_metrics_file(const std::string& file) {
  return file.ends_with(".csv") || file.ends_with(".jsonl") || file.ends_with(".json");
}

void check_targets(const ExportOptions& options) {
  check_model_file(options.model_file);
  const std::string& metrics = options.metrics_file;
  RUN_CHECK(metrics.empty() || is_metrics_file(metrics), ErrorKind::kUsage,
            "--metrics: expected a file name that ends in .csv, .json or .jsonl, got {}", metrics);
  check_new_folder(options.folder);
  if (is_folder(options.model_file)) check_new_folder(options.model_file);
  check_new_folder(options.adapter);
  RUN_CHECK(!report::is_standard_output(options.model_file) || !report::is_standard_output(artifact_file(options)),
            ErrorKind::kUsage,
            "cannot write both the model and the artifact to standard output; give one of them a file name");
}

bool has_weights(const ExportOptions& options) {
  return !options.model_file.empty() || !options.adapter.empty();
}

// Checks that something is to be written, and that it is known what.
void check_what_to_write(const ExportOptions& options) {
  const std::string file = artifact_file(options);
  const bool writes_more =
      has_weights(options) || !options.metrics_file.empty() || !options.tensorboard.empty() || !options.folder.empty();
  if (!options.artifact.empty() || (file.empty() && writes_more)) return;
  RUN_CHECK(!file.empty(), ErrorKind::kUsage,
            "export needs --model FILE, --adapter DIR, --metrics FILE, --tensorboard DIR, --folder DIR or --artifact "
            "NAME; see `runner export --help`");
  const char* const source = options.output.empty() ? "a file argument" : "--output";
  RUN_CHECK(!writes_more, ErrorKind::kUsage,
            "{}: {} needs --artifact NAME; give the model's or metrics' file with --model FILE or --metrics FILE", file,
            source);
  const bool is_metrics = is_metrics_file(file);
  fail(ErrorKind::kUsage, "{0}: {1} needs --artifact NAME; to write the {2}, use `runner export {3} --{4} {0}`", file,
       source, is_metrics ? "metric points" : "model", options.run, is_metrics ? "metrics" : "model");
}

// Checks the options before anything is written.
void check_export_options(const ExportOptions& options) {
  check_what_to_write(options);
  const std::string file = artifact_file(options);
  RUN_CHECK(options.state.empty() || has_weights(options), ErrorKind::kUsage,
            "--state needs --model FILE or --adapter DIR");
  RUN_CHECK(!options.fold_normalization || (!options.model_file.empty() && !is_folder(options.model_file)),
            ErrorKind::kUsage, "--fold-normalization needs --model FILE.safetensors or FILE.onnx");
  RUN_CHECK(!options.trained_weights || has_weights(options), ErrorKind::kUsage,
            "--trained-weights needs --model FILE or --adapter DIR");
  RUN_CHECK(!options.is_public || !options.folder.empty(), ErrorKind::kUsage, "--public needs --folder DIR");
  RUN_CHECK(options.shard_size.empty() || options.model_file.ends_with(".safetensors") || is_folder(options.model_file),
            ErrorKind::kUsage, "--max-shard-size needs --model FILE.safetensors, or a folder");
  check_targets(options);
  RUN_CHECK(!options.json || !report::is_standard_output(options.model_file), ErrorKind::kUsage,
            "cannot write both --json and the model to standard output; give --model a file name");
  RUN_CHECK(!options.json || !report::is_standard_output(file), ErrorKind::kUsage,
            "cannot write both --json and the artifact to standard output; give the artifact a file name");
}

// Writes to a folder that check_new_folder() allows. If that fails, the folder is empty again, for the next attempt.
template <class Work>
void in_new_folder(const std::string& folder, const Work& work) {
  try {
    work();
  } catch (...) {
    std::error_code ignored;
    for (const auto& file : fs::directory_iterator(folder, ignored)) fs::remove(file, ignored);
    throw;
  }
}

// Performs the requested exports in order and creates the JSON document.
class Export {
 public:
  Export(const ExportOptions& options, report::Output& out)
      : options_(options),
        out_(out),
        store_(open_store(options)),
        run_(store::find_run(store_, options.run)),
        details_(store::show_intact_parts(store_, run_)),
        recipe_(intact_recipe(details_, store_.path(), has_weights(options))) {}

  int run() {
    note_namesakes(store_, run_, options_.run, out_);
    if (has_weights(options_)) write_weights();
    if (!options_.metrics_file.empty()) {
      report::write_metrics(points_, options_.metrics_file);
      metrics_ = wrote(options_.metrics_file, "every metric point");
    }
    if (!options_.tensorboard.empty()) {
      tensorboard_ =
          wrote(report::write_events(points_, options_.tensorboard),
                fmt::format("every metric point; `tensorboard --logdir {}` shows them", options_.tensorboard));
    }
    if (!options_.folder.empty()) write_folder();
    if (!options_.artifact.empty()) {
      artifact_ = wrote(export_artifact(store_, run_, options_, out_), "the artifact " + options_.artifact);
    }
    if (options_.json) out_.data(json::text(document()));
    return error_.is_null() ? 0 : exit_code(ErrorKind::kStore);
  }

 private:
  json::Value wrote(const std::string& file, const std::string& what) {
    out_.say(fmt::format("wrote {}: {}", report::file_text(file), what));
    return file;
  }

  void write_weights() {
    const store::LoadedState state =
        store::load_state(store_, state_named(details_, options_.state).id, train::is_of_evaluation);
    RUN_CHECK(
        !options_.trained_weights || train::has_average(state), ErrorKind::kUsage,
        "--trained-weights: state {} has no average of the weights, so they are exported anyway; remove the option",
        state.info.id);
    const train::ExportedModel model{.state = state,
                                     .recipe = recipe_ ? &recipe_->recipe : nullptr,
                                     .folds_normalization = options_.fold_normalization,
                                     .averaged = !options_.trained_weights};
    state_ = state.info.id;
    if (!options_.model_file.empty()) write_model(model);
    if (!options_.adapter.empty()) write_adapter(model);
    if (options_.state.empty()) note_better_state(details_, out_);
  }

  void write_model(const train::ExportedModel& model) {
    const int64_t most = options_.shard_size.empty() ? formats::kDefaultShardSize
                                                     : formats::shard_size(options_.shard_size, "--max-shard-size");
    if (is_folder(options_.model_file)) {
      write_hub_folder(model, most);
    } else {
      write_model_file(model, most);
    }
  }

  void write_adapter(const train::ExportedModel& model) {
    in_new_folder(options_.adapter, [&] { train::export_adapter(model, options_.adapter, writer()); });
    adapter_ = wrote(options_.adapter, fmt::format("the adapter of state {} for PEFT", model.state.info.id));
  }

  formats::WriteParts writer() const {
    return [&](const fs::path& path, std::span<const std::string_view> parts, formats::FileKind kind) {
      out_.file(path, parts, kind);
    };
  }

  void write_hub_folder(const train::ExportedModel& model, int64_t most) {
    RUN_CHECK(recipe_, ErrorKind::kStore,
              "a folder needs the recipe of the run, which is damaged; write a .safetensors file");
    train::HubFolder written;
    in_new_folder(options_.model_file,
                  [&] { written = train::export_hub_folder(model, *recipe_, options_.model_file, most, writer()); });
    for (const std::string& text : written.warnings) out_.colored_talk(report::warning_text(text, out_.talk_color()));
    model_files_ = json::list_of(written.files);
    model_ = wrote(options_.model_file, fmt::format("the model of state {} in {}; transformers loads it with "
                                                    "AutoModel.from_pretrained(\"{}\")",
                                                    model.state.info.id, count_text(std::ssize(written.files), "file"),
                                                    options_.model_file));
  }

  void write_model_file(const train::ExportedModel& model, int64_t most) {
    std::vector<std::string> files = {options_.model_file};
    if (is_onnx(options_.model_file)) {
      std::unique_ptr<train::Hooks> hooks;
      if (recipe_)
        hooks = lua::load_hooks(recipe_->recipe, recorded_hook(details_, recipe_->recipe).sources, printer(out_));
      out_.file(options_.model_file, convert_to_onnx(model, std::move(hooks), printer(out_)), formats::FileKind::kOnnx);
    } else {
      files = train::export_model(model, options_.model_file, most, writer());
    }
    model_files_ = json::list_of(files);
    const std::string parts = files.size() > 1 ? fmt::format(" in {} files", files.size() - 1) : "";
    model_ = wrote(files.back(), fmt::format("the model of state {}{}", model.state.info.id, parts));
  }

  void write_folder() {
    const store::RunDetails details = options_.is_public ? report::public_parts(details_) : details_;
    const std::vector<store::Damage> damage = report::write_run_folder(details, points_, options_.folder);
    folder_ = wrote(options_.folder, "the run as files" + report::source_kinds_text(details));
    for (const store::Damage& part : damage) {
      const std::string text = fmt::format("exported without its {}: {}", part.part, part.message);
      out_.colored_talk(report::error_text(text, out_.talk_color()));
      if (error_.is_null()) error_ = report::error_value(text);
    }
  }

  json::Object document() const {
    json::Object document{{"run", run_.uid},
                          {"state", state_},
                          {"model", model_},
                          {"model_files", model_files_},
                          {"adapter", adapter_},
                          {"metrics", metrics_},
                          {"tensorboard", tensorboard_},
                          {"folder", folder_},
                          {"artifact", artifact_}};
    if (!error_.is_null()) document.emplace_back("error", error_);
    return document;
  }

  const ExportOptions& options_;
  report::Output& out_;
  store::Store store_;
  const store::RunRow run_;  // found once, because @last can change meanwhile
  const store::RunDetails details_;
  const std::optional<schema::ReadResult> recipe_;  // none if it is damaged
  report::AllPoints points_{store_, run_};
  json::Value state_, model_, model_files_, adapter_, metrics_, tensorboard_, folder_, artifact_, error_;
};

int export_run(const ExportOptions& options, report::Output& out) {
  check_export_options(options);
  return Export(options, out).run();
}

}  // namespace

const Command kExportCommand{
    .name = "export",
    .group = Group::kStore,
    .summary = "write a run's model, adapter, metrics or artifacts to files",
    .details =
        "--folder writes recipe.yaml, resolved.json, params.json, metrics.csv, events.jsonl, run.json (like\n"
        "show --json) and summary.json.  run.json contains the environment and the state of the repository\n"
        "unless --public is given.  Values for TensorBoard are rounded to seven digits.  The digest of an\n"
        "artifact is verified.",
    .arguments = kExportArguments,
    .examples =
        "runner export @last --model digits.safetensors\n"
        "runner export digits --metrics digits.csv",
    .other_names = "save merge-weights",
    .has_json = true,
    .action = action<export_run>,
    .failure_document = report::failure_document,
};

}  // namespace runner::cli
