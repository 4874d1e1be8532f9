#include <algorithm>

#include "schema/base/suggest.h"
#include "schema/recipe/field_value.h"
#include "schema/recipe/recipe_check.h"

namespace runner::schema {
namespace {

bool has_later_choices(const Field& field) {
  return !std::ranges::all_of(field.choices, &Choice::works);
}

bool is_working_choice(const Field& field, const std::string* name) {
  return std::ranges::any_of(field.choices,
                             [&](const Choice& choice) { return name && choice.works && choice.name == *name; });
}

void check(const Setting& setting, Report& report) {
  const Field& field = *setting.field;
  const std::string shown = setting.path + " " + display_text(setting.value);
  if (!field.later) return;
  if (has_later_choices(field)) {
    if (!is_working_choice(field, setting.value.text()))
      report.add(ErrorId::kNotYet, setting.place, setting.path, shown + " is not implemented yet",
                 "implemented: " + join_or(working_choices(field)));
  } else if (field.defaults.empty()) {
    report.add(ErrorId::kNotYet, setting.place, setting.path, setting.path + " is not implemented yet", "remove it");
  } else if (read_default(field, field.defaults.back()) != setting.value) {
    report.add(ErrorId::kNotYet, setting.place, setting.path, shown + " is not implemented yet",
               fmt::format("implemented: {}", field.defaults.back().value));
  }
}

}  // namespace

void check_availability(const Settings& settings, Report& report) {
  for (const Setting& setting : settings.values)
    if (setting.origin != OriginKind::kDefault) check(setting, report);
}

}  // namespace runner::schema
