#include "runner/report/provenance.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <string_view>

#include <gnu/libc-version.h>
#include <unistd.h>

#include "backends/kernels/kernel_choices.h"
#include "backends/runtime/affinity.h"
#include "backends/runtime/cpu_features.h"
#include "runner/report/environment.h"
#include "schema/base/json.h"
#include "schema/base/secrets.h"
#include "store/sqlite.h"

namespace runner::report {
namespace {

// Prefixes of environment variables that affect the program, its libraries and their threads.
// Those of PyTorch/XLA and Accelerate do not, but their users may expect it.
constexpr std::array<std::string_view, 11> kSteering{"XLA_",  "ACCELERATE_", "RUNNER_",         "OMP_",
                                                     "GOMP_", "KMP_",        "DNNL_",           "ONEDNN_",
                                                     "MKL_",  "LD_PRELOAD=", "LD_LIBRARY_PATH="};

// "Debian GNU/Linux 12 (bookworm)"; "" if the file is missing.
std::string os_name() {
  std::ifstream file("/etc/os-release");
  constexpr std::string_view kKey = "PRETTY_NAME=\"";
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(kKey) && line.ends_with('"')) return line.substr(kKey.size(), line.size() - kKey.size() - 1);
  }
  return "";
}

std::vector<std::string> steering_variables() {
  std::vector<std::string> found;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    const auto steers = [&](std::string_view prefix) { return text.starts_with(prefix); };
    if (std::any_of(kSteering.begin(), kSteering.end(), steers)) found.emplace_back(text);
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::string environment_json() {
  json::Object facts{{"os", os_name()},
                     {"kernel", system_name()},
                     {"cpu", backends::cpu_features().brand},
                     {"cores", int64_t{backends::usable_cores()}},
                     {"memory_bytes", memory_bytes()},
                     {"compiler", compiler_name()},
                     {"build", build_kind()},
                     {"glibc", std::string(::gnu_get_libc_version())},
                     {"onednn", backends::onednn_version()},
                     {"sqlite", store::sqlite_version()}};
  if (const std::string job = slurm_job_id(); !job.empty()) facts.emplace_back(kSlurmJob, job);
  for (const std::string& variable : steering_variables()) {
    const size_t equals = variable.find('=');
    const std::string name = variable.substr(0, equals), value = variable.substr(equals + 1);
    facts.emplace_back("env." + name, is_secret_name(name) ? remember_secret(name, value) : hide_secrets(value));
  }
  return json::compact(facts);
}

}  // namespace

store::Provenance provenance_at_start(std::vector<store::AttemptSource> sources) {
  store::Provenance provenance{
      .git = {}, .environment_json = environment_json(), .sources = std::move(sources), .data = {}};
  provenance.git.note = "git has not answered yet";  // remains if the process is killed before git answers
  return provenance;
}

void add_git_state(store::Provenance& provenance, const std::string& folder) {
  GitFindings git = inspect_git(folder);
  if (!git.diff.empty())
    provenance.sources.push_back(
        {std::string(store::kDiffSource), git.state.commit, hide_secrets(std::move(git.diff))});
  for (std::string* const text : {&git.state.branch, &git.state.note}) *text = hide_secrets(std::move(*text));
  for (std::string& file : git.state.untracked) file = hide_secrets(std::move(file));
  provenance.git = std::move(git.state);
}

}  // namespace runner::report
