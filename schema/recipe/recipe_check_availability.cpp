#include "schema/recipe/field_value.h"
#include "schema/recipe/recipe_check.h"

namespace runner::schema {
namespace {

void check(const Setting& setting, Report& report) {
  const Field& field = *setting.field;
  if (!field.later) return;
  if (field.defaults.empty()) {
    report.add(ErrorId::kNotYet, setting.place, setting.path, setting.path + " is not implemented yet", "remove it");
  } else if (read_default(field, field.defaults.back()) != setting.value) {
    report.add(ErrorId::kNotYet, setting.place, setting.path,
               fmt::format("{} {} is not implemented yet", setting.path, display_text(setting.value)),
               fmt::format("implemented: {}", field.defaults.back().value));
  }
}

}  // namespace

void check_availability(const Settings& settings, Report& report) {
  for (const Setting& setting : settings.values)
    if (setting.origin != OriginKind::kDefault) check(setting, report);
}

}  // namespace runner::schema
