#include "runner/cli/command.h"
#include "runner/cli/store_access.h"
#include "runner/cli/version.h"
#include "runner/report/documents.h"
#include "runner/report/environment.h"
#include "runner/report/output.h"

namespace runner::cli {
namespace {

int doctor(const Options& options, report::Output& out) {
  const report::Environment found = report::inspect_environment(store_path(options), version());
  out.colored_data(options.json ? report::environment_document(found)
                                : report::environment_text(found, out.data_color()));
  return 0;
}

}  // namespace

const Command kDoctorCommand{
    .name = "doctor",
    .group = Group::kSystem,
    .summary = "describe this machine, the selected kernels and the store",
    .details =
        "Prints CPU, kernels and their measured speed, memory, versions of SQLite and the libraries for images, "
        "optional\n"
        "parts of this build and the store, for bug reports.",
    .arguments = kNoArguments,
    .examples =
        "runner doctor\n"
        "runner doctor --json",
    .other_names = "env",
    .has_json = true,
    .action = action<doctor>,
    .failure_document = report::failure_document,
};

}  // namespace runner::cli
