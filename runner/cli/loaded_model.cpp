#include "runner/cli/loaded_model.h"

#include "runner/cli/hook_faults.h"
#include "runner/lua/hook_file.h"

namespace runner::cli {

LoadedModel::LoadedModel(const StateOptions& options, report::Output& out)
    : chosen(load_chosen_state(options, options.run, options.state, out)),
      recipe(recorded_recipe(chosen.run, store_path(options))),
      hook(recorded_hook(chosen.run, recipe.recipe)),
      model(recipe.recipe, lua::load_hooks(recipe.recipe, hook.sources, printer(out)), chosen.state, printer(out)),
      is_newest_state(options.state.empty()) {}

void LoadedModel::talk_warnings(report::Output& out) const {
  if (is_newest_state) note_better_state(chosen.run, out);
  if (hook.files == RecordedHook::Files::kChanged) {
    out.colored_talk(report::warning_text(
        fmt::format("the hook {} has changed since the run's last attempt; using the recorded hook", hook.file),
        out.talk_color()));
  }
  for (const std::string& text : model.warnings()) out.colored_talk(report::warning_text(text, out.talk_color()));
}

}  // namespace runner::cli
