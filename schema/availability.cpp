#include "schema/availability.h"

#include "schema/field_value.h"
#include "schema/suggest.h"

namespace runner::schema {
namespace {

bool is_later(const Field& field, const Settings& settings) {
  switch (field.later) {
    case Later::kNo: return false;
    case Later::kAlways: return true;
    case Later::kReplicas: return settings.integer("num_processes").value_or(1) != 1;
    case Later::kAccumulation: return settings.integer("gradient_accumulation_steps").value_or(1) != 1;
  }
  return false;
}

// Nothing if the choice works.
std::string choices_instead_of(const Field& field, std::string_view name) {
  std::vector<std::string> working;
  for (const Choice& choice : field.choices) {
    if (choice.works && choice.name == name) return {};
    if (choice.works) working.emplace_back(choice.name);
  }
  return join_or(working);
}

void check(const Setting& setting, const Settings& settings, Report& report) {
  const Field& field = *setting.field;
  const std::string shown = setting.path + " " + display_text(setting.value);
  if (const std::string* name = setting.value.text(); name != nullptr && !field.choices.empty()) {
    const std::string others = choices_instead_of(field, *name);
    if (!others.empty()) {
      report.add(ErrorId::kNotYet, setting.place, setting.path, shown + " does not work yet", "what works: " + others);
    }
  }
  if (!is_later(field, settings)) return;
  if (field.defaults.empty()) {
    report.add(ErrorId::kNotYet, setting.place, setting.path, setting.path + " does not work yet", "remove it");
  } else if (read_default(field, field.defaults.back()) != setting.value) {
    report.add(ErrorId::kNotYet, setting.place, setting.path, shown + " does not work yet",
               fmt::format("what works: {}", field.defaults.back().value));
  }
}

}  // namespace

void check_availability(const Settings& settings, Report& report) {
  for (const Setting& setting : settings.values)
    if (setting.origin != OriginKind::kDefault) check(setting, settings, report);
}

}  // namespace runner::schema
