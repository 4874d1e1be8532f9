#include <charconv>
#include <cmath>

#include "runner/cli/commands/shared_options.h"
#include "runner/cli/loaded_model.h"
#include "runner/cli/standard_input.h"
#include "runner/formats/text_file.h"
#include "runner/report/documents.h"
#include "runner/report/output.h"
#include "schema/base/json.h"

namespace runner::cli {
namespace {

struct GenerateOptions : StateOptions {
  std::vector<std::string> prompts;  // none: not given
  std::string temperature, top_p;
  int64_t max_tokens = kNotGiven, top_k = kNotGiven, seed = kNotGiven;
};

constexpr Argument kGenerateArguments[] = {
    kRunArgument,
    {"--prompt", "TEXT",
     "text to continue, or token ids, such as '1 2 3', if the data have no tokenizer; -: standard input; required",
     &GenerateOptions::prompts},
    {"--max-tokens", "N", "new tokens at most; default: 100", &GenerateOptions::max_tokens, Kind::kText, "", 1},
    {"--temperature", "T", "divides the logits; 0 takes the most likely token each time; default: 1",
     &GenerateOptions::temperature},
    {"--top-k", "K", "take only the k most likely tokens; default: all", &GenerateOptions::top_k, Kind::kText, "", 1},
    {"--top-p", "P",
     "take only the most likely tokens, each while the sum of the probabilities before it is below p; default: 1",
     &GenerateOptions::top_p},
    {"--seed", "N", "seed of the random draws; default: the run's seed", &GenerateOptions::seed},
    kStateArgument};

// `is_allowed`: whether the option may have this value, as `expected` says.
template <class Allowed>
double number_of(std::string_view option, const std::string& text, Allowed is_allowed, std::string_view expected) {
  if (text.empty()) return 1;
  double number = NAN;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  RUN_CHECK(error == std::errc() && end == text.data() + text.size() && is_allowed(number), ErrorKind::kUsage,
            "{}: expected {}, got '{}'", option, expected, text);
  return number;
}

train::GenerationSpec specification(const GenerateOptions& options, const schema::Recipe& recipe) {
  train::GenerationSpec spec;
  if (options.max_tokens != Options::kNotGiven) spec.max_tokens = options.max_tokens;
  spec.sampling.temperature = number_of(
      "--temperature", options.temperature, [](double t) { return t >= 0 && std::isfinite(t); },
      "a number of at least 0");
  if (options.top_k != Options::kNotGiven) spec.sampling.top_k = options.top_k;
  spec.sampling.top_p = number_of(
      "--top-p", options.top_p, [](double p) { return p > 0 && p <= 1; }, "a number in (0, 1]");
  spec.seed = static_cast<uint64_t>(options.seed != Options::kNotGiven ? options.seed : recipe.seed);
  return spec;
}

std::string prompt_of(const GenerateOptions& options) {
  RUN_CHECK(!options.prompts.empty(), ErrorKind::kUsage,
            "generate: missing option --prompt; see `runner generate --help`");
  RUN_CHECK(options.prompts.size() == 1, ErrorKind::kUsage, "generate: --prompt was given {} times",
            options.prompts.size());
  if (options.prompts[0] != "-") return options.prompts[0];
  std::string prompt = read_standard_input();
  prompt.erase(0, formats::byte_order_mark(prompt, "standard input"));
  return prompt;
}

json::Value ids_json(const std::vector<int32_t>& ids) {
  return json::list_of(ids, [](int32_t id) { return json::Value(int64_t{id}); });
}

int generate(const GenerateOptions& options, report::Output& out) {
  specification(options, {});  // refuses wrong options before the model is loaded
  const std::string prompt = prompt_of(options);
  LoadedModel model(options, out);
  const train::GenerationSpec spec = specification(options, model.recipe.recipe);
  bool has_begun = false;
  const auto print = [&](std::string_view part) {
    if (!std::exchange(has_begun, true)) out.data(prompt);
    out.data(part);
  };
  const train::Generated made =
      model.model.generate(prompt, spec, options.json ? std::function<void(std::string_view)>() : print);
  if (options.json) {
    out.data(json::line(json::Object{{"run", model.chosen.run.run.uid},
                                     {"state", model.chosen.state.info.id},
                                     {"prompt", prompt},
                                     {"prompt_ids", ids_json(made.prompt)},
                                     {"ids", ids_json(made.tokens)},
                                     {"text", made.text},
                                     {"ended", made.ended}}));
  } else {
    print("\n");
  }
  model.talk_warnings(out);
  return 0;
}

}  // namespace

const Command kGenerateCommand{
    .name = "generate",
    .group = Group::kTrain,
    .summary = "let a run's language model continue a text",
    .details =
        "Prints the text and its continuation, which ends at the tokenizer's end token or after --max-tokens.\n"
        "The same seed gives the same text.",
    .arguments = kGenerateArguments,
    .examples =
        "runner generate gpt --prompt 'The wine' --max-tokens 40 --temperature 0.8 --top-k 20\n"
        "runner generate gpt --prompt 'The wine' --temperature 0 --json",
    .other_names = "sample complete",
    .has_json = true,
    .action = action<generate>,
    .failure_document = report::failure_document,
};

}  // namespace runner::cli
