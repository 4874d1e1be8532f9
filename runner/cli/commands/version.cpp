#include "runner/cli/version.h"

#include "runner/cli/command.h"
#include "runner/report/documents.h"
#include "runner/report/output.h"
#include "schema/base/json.h"

namespace runner::cli {
namespace {

int print_version(const Options& options, report::Output& out) {
  out.data(options.json ? json::text(json::Object{{"version", version()}}) : version() + '\n');
  return 0;
}

}  // namespace

const Command kVersionCommand{
    .name = "version",
    .group = Group::kSystem,
    .summary = "print the version, as --version does",
    .details = "",
    .arguments = kNoArguments,
    .examples =
        "runner version\n"
        "runner --version",
    .has_json = true,
    .action = action<print_version>,
    .failure_document = report::failure_document,
};

}  // namespace runner::cli
