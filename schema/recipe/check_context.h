// What the rules about several keys of a recipe read, and how they report (recipe_check.h).
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "schema/recipe/settings.h"

namespace runner::schema {

// One kind of section in a list. Each section has exactly one key of a kind, and may have the options of that kind.
struct Variant {
  std::string_view key;
  std::span<const std::string_view> options;
};

struct CheckContext {
  const Settings& settings;
  const bool complete;  // false if parts of the recipe could not be read
  Report& report;

  // Whether the key has a value or is a section.
  bool has(std::string_view path) const;
  bool broken(std::string_view path) const { return settings.is_broken(path); }
  // Whether the field exists with the chosen format, type or backend (`when` in fields.yaml).
  bool applies(std::string_view path) const;
  // Whether there is evaluation data, even if it has a fault.
  bool has_eval_data() const;
  // Whether a written value differs from the default.
  bool changes_default(std::string_view path) const;
  // Whether both values come from the recorded recipe of a resumed run. If one then makes the other unused, the run has
  // only changed its backend, which must not prevent resuming.
  bool are_recorded(std::string_view a, std::string_view b) const;

  void fault(ErrorId id, std::string_view path, const std::string& message, std::string_view hint = "") const;
  void missing_one_of(std::string_view section, const std::string& a, const std::string& b,
                      std::string_view hint = "") const;
  // Returns which of the variants a section of a list is, and reports other keys than its options; empty after an
  // error.
  std::string_view variant(const std::string& section, std::span<const Variant> variants) const;
  // Reports that `option` has no effect because of the key `by`, described by `what`, unless both are recorded.
  void ignored(std::string_view option, std::string_view by, std::string_view what) const;

 private:
  const Place& place(std::string_view path) const;
};

void check_data(const CheckContext& c);
void check_schedule(const CheckContext& c);
void check_devices(const CheckContext& c);
void check_stack(const CheckContext& c);

}  // namespace runner::schema
