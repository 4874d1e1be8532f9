#include <filesystem>

#include "runner/cli/commands/shared_options.h"
#include "runner/cli/loaded_model.h"
#include "runner/formats/used_files.h"
#include "runner/formats/write.h"
#include "runner/report/documents.h"
#include "runner/report/format.h"
#include "runner/report/output.h"
#include "runner/report/prediction_text.h"
#include "schema/base/json.h"
#include "schema/base/text.h"

namespace runner::cli {
namespace {

struct PredictOptions : DataOptions {
  std::string format, output, as;
};

constexpr Argument kPredictArguments[] = {
    kRunArgument,
    {"[DATA]", "", "data file in the format of the recipe's data, with or without labels; required, here or as --data",
     &DataOptions::data_argument},
    kDataOption,
    {"--format", "csv|npy|json",
     "output format; default: the extension of FILE; csv without one and on standard output", &PredictOptions::format},
    {"--as", "logits|probabilities|classes",
     "what to write for each row of a model with classes, in addition to the class; default: logits",
     &PredictOptions::as},
    output_argument(&PredictOptions::output),
    kStateArgument};

bool goes_to_stdout(const std::string& output) {
  return output.empty() || report::is_standard_output(output);
}

// Format of the outputs.
std::string format_of(const PredictOptions& options) {
  if (options.json && goes_to_stdout(options.output)) {
    RUN_CHECK(
        options.format.empty() || options.format == "json", ErrorKind::kUsage,
        "--json conflicts with --format {} on standard output; remove one of them, or write to a file with --output",
        options.format);
    return "json";
  }
  if (!options.format.empty()) return options.format;
  if (goes_to_stdout(options.output) || !std::filesystem::path(options.output).has_extension()) return "csv";
  for (const char* format : {"csv", "json", "npy"})
    if (options.output.ends_with(fmt::format(".{}", format))) return format;
  fail(ErrorKind::kUsage, "--output: expected a file name that ends in .csv, .json or .npy, or --format; got {}",
       options.output);
}

std::optional<train::OutputsAs> outputs_as(const std::string& name) {
  if (name.empty()) return std::nullopt;
  if (name == "logits") return train::OutputsAs::kLogits;
  return name == "classes" ? train::OutputsAs::kClasses : train::OutputsAs::kProbabilities;
}

std::string prediction_in(std::string_view format, const LoadedModel& model, const train::Prediction& prediction) {
  if (format == "json") {
    return report::prediction_document(model.chosen.run.run.uid, model.chosen.state.info.id, prediction);
  }
  return format == "npy" ? report::prediction_npy(prediction) : report::prediction_csv(prediction);
}

formats::FileKind kind_of(std::string_view format) {
  if (format == "json") return formats::FileKind::kJson;
  return format == "npy" ? formats::FileKind::kNpy : formats::FileKind::kPredictions;
}

// Refuses the output before the model is loaded. DATA of idx and npy may be two files.
void check_target(const std::string& output, const std::string& data) {
  for (const std::string& file : {data, data.substr(0, data.find(','))})
    formats::remember_used_file(file, formats::FileRole::kInput);
  if (!goes_to_stdout(output)) formats::check_output(output, "--output");
}

int predict(const PredictOptions& options, report::Output& out) {
  const std::string data = options.data();
  RUN_CHECK(!data.empty(), ErrorKind::kUsage, "predict: missing argument DATA; see `runner predict --help`");
  check_target(options.output, data);
  const std::string format = format_of(options);
  LoadedModel model(options, out);
  const train::Prediction prediction = model.model.predict(data, outputs_as(options.as));
  model.talk_warnings(out);
  const std::string text = prediction_in(format, model, prediction);
  out.file(options.output.empty() ? "-" : options.output, text, kind_of(format));
  if (goes_to_stdout(options.output)) return 0;
  out.say(fmt::format("wrote {}: {}, {}", options.output, count_text(prediction.samples, "sample"),
                      report::description(prediction)));
  if (options.json) {
    out.data(json::text(json::Object{{"run", model.chosen.run.run.uid},
                                     {"state", model.chosen.state.info.id},
                                     {"samples", prediction.samples},
                                     {"errors", static_cast<int64_t>(prediction.rejected.size())},
                                     {"content", report::description(prediction)},
                                     {"output", options.output},
                                     {"format", format}}));
  }
  return 0;
}

}  // namespace

const Command kPredictCommand{
    .name = "predict",
    .group = Group::kTrain,
    .summary = "write the outputs of a run's model for every row of a file",
    .details = "Labels are not read.  A row that cannot be used stays, without a prediction and with the reason.",
    .arguments = kPredictArguments,
    .examples =
        "runner predict digits new.csv --as probabilities\n"
        "runner predict @last new.csv --format npy --output new.npy",
    .other_names = "infer",
    .has_json = true,
    .action = action<predict>,
    .failure_document = report::failure_document,
};

}  // namespace runner::cli
