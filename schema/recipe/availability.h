// Values of the field table that do not work yet.
#pragma once

#include "schema/recipe/settings.h"

namespace runner::schema {

// Reports what is written and does not work yet (`later` in schema/fields.yaml).
void check_availability(const Settings& settings, Report& report);

}  // namespace runner::schema
