#include "runner/train/run/verify_resume.h"

#include "runner/cli/commands/shared_options.h"
#include "runner/cli/hook_faults.h"
#include "runner/cli/rank.h"
#include "runner/cli/recipe_file.h"
#include "runner/cli/recorded_run.h"
#include "runner/cli/scratch_folder.h"
#include "runner/lua/hook_file.h"
#include "runner/report/documents.h"
#include "runner/report/output.h"
#include "runner/report/verification.h"
#include "runner/report/xla/metrics_report.h"
#include "runner/report/xla/report_json.h"

namespace runner::cli {
namespace {

struct VerifyResumeOptions : RecipeOptions {
  int64_t kills = 5;
};

constexpr Argument kVerifyResumeArguments[] = {kRecipeArgument,
                                               kOverridesArgument,
                                               {.name = "--kills",
                                                .value = "N",
                                                .text = "how many times to kill the process; default: 5",
                                                .target = &VerifyResumeOptions::kills,
                                                .at_least = 1}};

int verify_resume(const VerifyResumeOptions& options, report::Output& out) {
  const schema::ReadResult recipe = read_recipe_file(options, out);
  const ScratchFolder folder("verify");
  store::RecipeRecord record = record_of(recipe);
  std::string job = rank_job(recipe.recipe, record.resolved_json, {});
  const train::VerifyReport verdict = train::verify_resume({
      .recipe = recipe.recipe,
      .record = std::move(record),
      .params = params_of(recipe),
      .folder = folder.path(),
      .kills = options.kills,
      .make_hooks = usable_hooks(recipe, lua::hooks_maker({}, printer(out), report::xla::report_text)),
      .job = std::move(job),
      .follow = follower({}),
      .summary = report::run_document,
      .metrics_document = report::xla::metrics_document,
      .progress = [&](const std::string& line) { out.talk(line + '\n'); },
  });
  out.data(options.json ? report::verification_document(verdict) : report::verification_text(verdict));
  return verdict.exact() ? 0 : exit_code(ErrorKind::kRun);
}

}  // namespace

const Command kVerifyResumeCommand{
    .name = "verify-resume",
    .group = Group::kTrain,
    .summary = "prove that killed and resumed training equals uninterrupted training",
    .details =
        "Trains once without interruption and once while being killed and resumed.  Exit code 0 if weights,\n"
        "optimizer, metrics and sample ids are the same, bit for bit, else 1.",
    .arguments = kVerifyResumeArguments,
    .examples =
        "runner verify-resume recipes/digits.yaml\n"
        "runner verify-resume recipes/digits.yaml --kills 20",
    .has_json = true,
    .action = action<verify_resume>,
    .failure_document = report::failure_document,
};

}  // namespace runner::cli
