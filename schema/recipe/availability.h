// Rejects recipe values that do not work yet.
#pragma once

#include "schema/recipe/settings.h"

namespace runner::schema {

// Reports written values that do not work yet (`later` in schema/fields.yaml).
void check_availability(const Settings& settings, Report& report);

}  // namespace runner::schema
