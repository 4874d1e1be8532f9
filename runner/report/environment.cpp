#include "runner/report/environment.h"

#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "backends/kernels/kernel.h"
#include "backends/kernels/kernel_choices.h"
#include "backends/runtime/affinity.h"
#include "backends/runtime/arena.h"
#include "backends/runtime/cpu_features.h"
#include "runner/images/decode.h"
#include "runner/report/format.h"
#include "runner/report/run_text.h"
#include "runner/report/table.h"
#include "runner/text/sentence_piece.h"
#include "schema/base/json.h"
#include "schema/base/text.h"
#include "store/network.h"
#include "store/queries.h"
#include "store/spool.h"
#include "store/sqlite.h"

namespace runner::report {
namespace {

namespace fs = std::filesystem;

#if defined(__clang__)
constexpr const char* kCompiler = __VERSION__;
#else
constexpr const char* kCompiler = "GCC " __VERSION__;
#endif

#if defined(__SANITIZE_ADDRESS__)
constexpr const char* kBuild = "address sanitizer";
#elif defined(__SANITIZE_THREAD__)
constexpr const char* kBuild = "thread sanitizer";
#elif defined(__OPTIMIZE__)
constexpr const char* kBuild = "optimised";
#else
constexpr const char* kBuild = "not optimised";
#endif

// Calls `work` once to warm up, then repeatedly for at least `seconds`. Returns calls per second.
template <class Work>
double rate_of(double seconds, Work work) {
  using Clock = std::chrono::steady_clock;
  work();
  int calls = 0;
  const auto start = Clock::now();
  double elapsed = 0;
  while (elapsed < seconds) {
    work();
    ++calls;
    elapsed = std::chrono::duration<double>(Clock::now() - start).count();
  }
  return calls / elapsed;
}

double product_gflops(backends::DType dtype, backends::WorkerPool& pool) {
  constexpr int64_t kSize = 512;
  const backends::TensorType type{dtype, {kSize, kSize}};
  const std::array operand_types{type, type};
  const std::array<int64_t, 2> no_transpose{0, 0};
  const backends::Kernel kernel = backends::prepare_kernel(
      {.op = backends::Op::kMatmul, .operands = operand_types, .attrs = no_transpose, .result = type});
  const backends::Arena a(type.bytes()), b(type.bytes()), c(type.bytes()), scratch(kernel.scratch_bytes);
  const std::array operands{a.data(), b.data()};
  const std::array results{c.data()};
  const backends::KernelArguments arguments{operands, results, scratch.data(), pool};
  const double products = rate_of(0.05, [&] { kernel.run(kernel.params.get(), arguments); });
  return products * 2 * kSize * kSize * kSize * 1e-9;
}

double copy_gb_per_s() {
  constexpr size_t kBytes = size_t{64} << 20;
  const backends::Arena from(kBytes), to(kBytes);
  return rate_of(0.05, [&] { std::memcpy(to.data(), from.data(), kBytes); }) * kBytes * 1e-9;
}

// `count`: sysconf() name of a number of pages.
int64_t bytes_of_pages(int count) {
  return int64_t{::sysconf(count)} * ::sysconf(_SC_PAGESIZE);
}

std::string mpi_text(const std::vector<backends::MpiModule>& modules) {
  std::vector<std::string> versions;
  for (const backends::MpiModule& module : modules) versions.push_back(module.version);
  return versions.empty() ? "none (not built)" : fmt::format("{}", fmt::join(versions, ", "));
}

void inspect_store(const fs::path& path, Environment& environment) {
  environment.store = path.string();
  environment.store_file_system = store::network_file_system(path);
  environment.spools = store::spool_root().string();
  if (!store::store_exists(path)) {
    environment.store_status = "none yet";
    return;
  }
  try {
    store::Store store = store::Store::open(path, store::Access::kRead);
    environment.store_runs = static_cast<int64_t>(store::list_runs(store).size());
    environment.store_bytes = static_cast<int64_t>(fs::file_size(path));
    environment.store_status = "ok";
  } catch (const std::exception& error) {
    environment.store_status = error.what();
  }
}

}  // namespace

std::string compiler_name() {
  return kCompiler;
}

std::string build_kind() {
  return kBuild;
}

std::string slurm_job_id() {
  const auto variable = [](const char* name) -> std::string {
    const char* const value = std::getenv(name);
    return value != nullptr ? value : "";
  };
  const std::string element = variable("SLURM_ARRAY_TASK_ID");
  return element.empty() ? variable("SLURM_JOB_ID") : fmt::format("{}_{}", variable("SLURM_ARRAY_JOB_ID"), element);
}

std::string system_name() {
  utsname name{};
  return ::uname(&name) == 0 ? fmt::format("{} {} {}", name.sysname, name.release, name.machine) : "";
}

int64_t memory_bytes() {
  return bytes_of_pages(_SC_PHYS_PAGES);
}

Environment inspect_environment(const fs::path& store, std::string version) {
  Environment found;
  found.version = std::move(version);
  found.compiler = kCompiler;
  found.build = kBuild;
  found.cpu = backends::cpu_features().brand;
  found.cpu_features = backends::cpu_features().to_string();
  found.cores = backends::usable_core_ids();
  found.memory_bytes = memory_bytes();
  found.memory_free_bytes = bytes_of_pages(_SC_AVPHYS_PAGES);
  found.system = system_name();
  found.kernels = backends::kernel_choices_json();
  backends::WorkerPool pool(backends::usable_cores());
  found.f32_gflops = product_gflops(backends::DType::kF32, pool);
  found.bf16_gflops = product_gflops(backends::DType::kBf16, pool);
  found.copy_gb_per_s = copy_gb_per_s();
  found.sqlite = store::sqlite_version();
  found.libpng = images::libpng_version();
  found.libjpeg_turbo = images::libjpeg_turbo_version();
  found.has_sentence_piece = text::has_sentence_piece();
  found.mpi = backends::mpi_modules(/*with_versions=*/true);
  inspect_store(store, found);
  return found;
}

std::string environment_text(const Environment& found, bool color) {
  const bool store_ok = found.store_status == "ok" || found.store_status == "none yet";
  KeyValueTable facts;
  facts.add("version", fmt::format("{}, built by {}, {}", found.version, found.compiler, found.build));
  facts.add("system", found.system);
  facts.add("cpu", found.cpu);
  facts.add("features", found.cpu_features);
  facts.add("cores", fmt::format("{}: {}", found.cores.size(), ranges_text(found.cores)));
  facts.add("memory", fmt::format("{}, {} free", bytes_text(found.memory_bytes), bytes_text(found.memory_free_bytes)));
  facts.add("kernels", kernels_text(found.kernels));
  facts.add("f32 products", fmt::format("{} GFLOP/s", short_text(found.f32_gflops)));
  facts.add("bf16 products", fmt::format("{} GFLOP/s", short_text(found.bf16_gflops)));
  facts.add("copying", fmt::format("{} GB/s", short_text(found.copy_gb_per_s)));
  facts.add("sqlite", found.sqlite);
  facts.add("images", fmt::format("libpng {}, libjpeg-turbo {}", found.libpng, found.libjpeg_turbo));
  facts.add("optional parts", found.has_sentence_piece ? "SentencePiece" : "none (not built: SentencePiece)");
  facts.add("mpi", mpi_text(found.mpi));
  facts.add("store", found.store);
  facts.add("", found.store_file_system.empty()
                    ? "local file system: runs are recorded in it"
                    : fmt::format("network file system ({}): runs are recorded in {} and ingested",
                                  found.store_file_system, found.spools));
  facts.add("", found.store_status, store_ok ? Color::kGreen : Color::kRed);
  if (found.store_status == "ok") {
    facts.add("", fmt::format("{}, {}", count_text(found.store_runs, "run"), bytes_text(found.store_bytes)));
  }
  return facts.render(color);
}

std::string environment_document(const Environment& found) {
  const json::Object measured{
      {"f32_gflops", found.f32_gflops}, {"bf16_gflops", found.bf16_gflops}, {"copy_gb_per_s", found.copy_gb_per_s}};
  json::Object mpi;
  for (const backends::MpiModule& module : found.mpi) mpi.push_back({module.name, module.version});
  const json::Object store{{"path", found.store},
                           {"status", found.store_status},
                           {"bytes", found.store_bytes},
                           {"runs", found.store_runs},
                           {"network_file_system", json::or_null(found.store_file_system)},
                           {"spools", found.spools}};
  return json::text(json::Object{{"version", found.version},
                                 {"compiler", found.compiler},
                                 {"build", found.build},
                                 {"system", found.system},
                                 {"cpu", found.cpu},
                                 {"cpu_features", found.cpu_features},
                                 {"cores", static_cast<int64_t>(found.cores.size())},
                                 {"core_ids", json::list_of(found.cores, [](int core) { return int64_t{core}; })},
                                 {"memory_bytes", found.memory_bytes},
                                 {"memory_free_bytes", found.memory_free_bytes},
                                 {"kernels", json::parse(found.kernels)},
                                 {"measured", measured},
                                 {"sqlite", found.sqlite},
                                 {"libpng", found.libpng},
                                 {"libjpeg_turbo", found.libjpeg_turbo},
                                 {"optional", json::Object{{"sentencepiece", found.has_sentence_piece}, {"mpi", mpi}}},
                                 {"store", store}});
}

}  // namespace runner::report
