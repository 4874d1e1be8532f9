#include "backends/dist/mpi/mpi_network.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <numeric>
#include <utility>

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "schema/base/error.h"

namespace runner::backends {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPrefix = "mpi-";

// In the build folder and where the program is installed.
fs::path module_folder() {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  return program.parent_path().parent_path() / "lib" / "runner";
}

std::string library_of(const runner_mpi_functions& mpi) {
  std::array<char, 256> text{};
  mpi.library(text.data(), static_cast<int>(text.size()));
  return text.data();
}

// `scope`: RTLD_GLOBAL to use the library, because Open MPI loads plugins that expect its symbols there; RTLD_LOCAL to
// only look at it. Returns null, and the reason in `why`.
const runner_mpi_functions* load(const fs::path& file, int scope, std::string& why) {
  void* const handle = ::dlopen(file.c_str(), RTLD_NOW | scope);
  if (handle == nullptr) {
    why = ::dlerror();
    return nullptr;
  }
  const auto* const mpi = static_cast<const runner_mpi_functions*>(::dlsym(handle, RUNNER_MPI_SYMBOL));
  if (mpi != nullptr && mpi->interface == RUNNER_MPI_INTERFACE) return mpi;
  why = "it belongs to another build";
  return nullptr;
}

const runner_mpi_functions& loaded(const std::string& module) {
  const fs::path file = module_folder() / fmt::format("{}{}.so", kPrefix, module);
  std::string why;
  const runner_mpi_functions* const mpi = load(file, RTLD_GLOBAL, why);
  RUN_CHECK(mpi != nullptr, ErrorKind::kUsage, "cannot load {}: {}", file.string(), why);
  return *mpi;
}

}  // namespace

std::vector<MpiModule> mpi_modules(bool with_versions) {
  std::vector<MpiModule> modules;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(module_folder(), error)) {
    const std::string name = entry.path().stem().string();
    if (entry.path().extension() != ".so" || !name.starts_with(kPrefix)) continue;
    modules.push_back({name.substr(std::string_view(kPrefix).size()), {}});
    if (!with_versions) continue;
    const runner_mpi_functions* const mpi = load(entry.path(), RTLD_LOCAL, modules.back().version);
    if (mpi != nullptr) modules.back().version = library_of(*mpi);
  }
  std::ranges::sort(modules, {}, &MpiModule::name);
  return modules;
}

std::string names_of(const std::vector<MpiModule>& modules) {
  std::vector<std::string_view> names;
  for (const MpiModule& module : modules) names.push_back(module.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

MpiNetwork::MpiNetwork(const std::string& module) : mpi_(loaded(module)) {
  int size = 0;
  check(mpi_.init(&rank_, &size), "start");
  processes_.resize(static_cast<size_t>(size));
  std::iota(processes_.begin(), processes_.end(), 0);
}

void MpiNetwork::reorder(const std::vector<int>& order) {
  RUN_ASSERT(order.size() == processes_.size());
  const auto here = std::ranges::find(order, rank_);
  RUN_ASSERT(here != order.end());
  rank_ = static_cast<int>(here - order.begin());
  processes_ = order;
}

void MpiNetwork::end() {
  const std::lock_guard lock(mutex_);
  check(mpi_.finalize(), "end");
}

std::string MpiNetwork::version() const {
  return library_of(mpi_);
}

void MpiNetwork::check(int error, const char* what) const {
  if (error == 0) return;
  std::array<char, 512> text{};
  mpi_.error_text(error, text.data(), static_cast<int>(text.size()));
  fail(ErrorKind::kRun, "MPI cannot {}: {}", what, text.data());
}

Network::Request MpiNetwork::send(int to, Channel channel, std::span<const std::byte> data) {
  const std::lock_guard lock(mutex_);
  runner_mpi_request request{};
  check(mpi_.isend(data.data(), static_cast<int>(data.size()), processes_[static_cast<size_t>(to)],
                   static_cast<int>(channel), &request),
        "send");
  return {request.value};
}

Network::Request MpiNetwork::receive(int from, Channel channel, std::span<std::byte> data) {
  const std::lock_guard lock(mutex_);
  runner_mpi_request request{};
  const int peer = from == kAnyone ? RUNNER_MPI_ANY : processes_[static_cast<size_t>(from)];
  check(mpi_.irecv(data.data(), static_cast<int>(data.size()), peer, static_cast<int>(channel), &request), "receive");
  return {request.value};
}

bool MpiNetwork::is_done(Request& request) {
  if (request.value == 0) return true;
  const std::lock_guard lock(mutex_);
  runner_mpi_request own{request.value};
  int done = 0;
  const int error = mpi_.test(&own, &done);
  request.value = own.value;  // after an error, the library may have freed it
  check(error, "pass messages");
  return done != 0;
}

void MpiNetwork::cancel(Request& request) noexcept {
  const std::lock_guard lock(mutex_);
  runner_mpi_request own{request.value};
  mpi_.cancel(&own);
  request.value = 0;
}

void MpiNetwork::keep(std::shared_ptr<const void> memory) {
  const std::lock_guard lock(mutex_);
  kept_.push_back(std::move(memory));
}

}  // namespace runner::backends
