#include <string>

#include "schema/recipe/bind.h"
#include "schema/recipe/recipe_build.h"
#include "schema/recipe/recipe_reader.h"

namespace runner::schema {
namespace {

// Removes the name of the section from the message of a diagnostic.
std::string without_section(std::string text) {
  constexpr std::string_view kSection = "optimizer.";
  for (size_t at = text.find(kSection); at != std::string::npos; at = text.find(kSection, at))
    text.erase(at, kSection.size());
  return text;
}

}  // namespace

OptimizerSpec read_optimizer(std::string_view type, const ValueMap& options) {
  ValueMap section = {{"type", std::string(type)}};
  section.insert(section.end(), options.begin(), options.end());
  Report report;
  const std::string text = canonical_text(ValueMap{{"optimizer", std::move(section)}});
  const int source = report.add_source(SourceText(OriginKind::kCommandLine, "", "", text));
  const Settings settings = bind(parse_yaml(source, report), report);
  // The other sections of a recipe are missing, which does not matter here.
  for (const Diagnostic& fault : report.take())
    RUN_CHECK(!fault.key.starts_with("optimizer"), ErrorKind::kRun, "{}{}{}", without_section(fault.message),
              fault.hint.empty() ? "" : "; ", without_section(fault.hint));
  return build_recipe(settings, "").optimizer;
}

}  // namespace runner::schema
