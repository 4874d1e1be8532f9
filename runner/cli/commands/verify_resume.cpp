#include "runner/train/run/verify_resume.h"

#include "runner/cli/commands/commands.h"
#include "runner/cli/hook_faults.h"
#include "runner/cli/rank.h"
#include "runner/cli/recorded_run.h"
#include "runner/cli/scratch_folder.h"
#include "runner/lua/hook_file.h"
#include "runner/report/documents.h"
#include "runner/report/verification.h"
#include "runner/report/xla/report_json.h"

namespace runner::cli {

int verify_resume(const VerifyResumeOptions& options, report::Output& out) {
  RUN_CHECK(options.kills > 0, ErrorKind::kUsage, "--kills: expected at least 1, got {}", options.kills);
  const schema::ReadResult recipe = schema::read_recipe(options.recipe, options.overrides);
  const ScratchFolder folder("verify");
  store::RecipeRecord record = record_of(recipe);
  std::string job = rank_job(recipe.recipe, record.resolved_json, {});
  const train::VerifyReport verdict = train::verify_resume({
      .recipe = recipe.recipe,
      .record = std::move(record),
      .params = params_of(recipe),
      .folder = folder.path(),
      .kills = options.kills,
      .make_hooks = usable_hooks(recipe, lua::hooks_maker()),
      .job = std::move(job),
      .follow = follower({}),
      .summary = report::run_document,
      .metrics_document = report::xla::metrics_document,
      .progress = [&](const std::string& line) { out.talk(line + '\n'); },
  });
  out.data(options.json ? report::verification_document(verdict) : report::verification_text(verdict));
  return verdict.exact() ? 0 : exit_code(ErrorKind::kRun);
}

}  // namespace runner::cli
