// A rank that dies at a collective. The process of rank MORTAL_RANK (environment) ends at its call number MORTAL_CALL,
// counted from 0, in the way MORTAL_END: "kill", "throw", "exit", or "parent", which kills rank 0. "reading" and
// "writing" end it in the first all_reduce of several pieces, when it reads the last piece or writes the first one.
#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runner/train/run/rank_processes.h"
#include "runner/train/run/run.h"
#include "schema/base/error.h"
#include "schema/recipe/recipe_reader.h"

namespace runner::train {
namespace {

using backends::Reduction;
using backends::Site;
using backends::TensorType;

int64_t number_of(const char* variable) {
  const char* text = std::getenv(variable);
  return text == nullptr ? -1 : std::atoll(text);
}

class MortalGroup : public backends::ProcessGroup {
 public:
  explicit MortalGroup(backends::ProcessGroup& ranks)
      : ranks_(ranks), last_(ranks.rank() == number_of("MORTAL_RANK") ? number_of("MORTAL_CALL") : kNever) {}

  int rank() const override { return ranks_.rank(); }
  int size() const override { return ranks_.size(); }
  void barrier(const Site& site) override { live().barrier(site); }
  bool any(bool mine, const Site& site) override { return live().any(mine, site); }
  void all_reduce(const TensorType& type, std::span<std::byte> values, Reduction reduction, const Site& site) override {
    backends::ProcessGroup& ranks = live();
    if (last_ == kNever || values.size() < kSeveralPieces) return ranks.all_reduce(type, values, reduction, site);
    const std::string way = std::getenv("MORTAL_END");
    ranks.all_reduce(type, way == "reading" || way == "writing" ? deadly_copy(values, way) : values, reduction, site);
  }
  void reduce_scatter(const TensorType& type, std::span<const std::byte> values, std::span<const int64_t> counts,
                      std::span<std::byte> mine, Reduction reduction, const Site& site) override {
    live().reduce_scatter(type, values, counts, mine, reduction, site);
  }
  void all_gather(const TensorType& type, std::span<const std::byte> mine, std::span<std::byte> all,
                  const Site& site) override {
    live().all_gather(type, mine, all, site);
  }
  void broadcast(const TensorType& type, std::span<std::byte> values, int root, const Site& site) override {
    live().broadcast(type, values, root, site);
  }
  std::vector<std::string> gather_objects(std::string_view mine, const Site& site) override {
    return live().gather_objects(mine, site);
  }
  bool has_symmetric_memory() const override { return ranks_.has_symmetric_memory(); }
  std::shared_ptr<std::byte> symmetric_alloc(const TensorType& type, Pages pages, const Site& site) override {
    return live().symmetric_alloc(type, pages, site);
  }
  void fail(std::string_view reason, const SourceMark& where) noexcept override { ranks_.fail(reason, where); }
  bool has_failed() const override { return ranks_.has_failed(); }
  void throw_failure() const override { ranks_.throw_failure(); }

 private:
  backends::ProcessGroup& live() {
    if (calls_++ == last_) end(std::getenv("MORTAL_END"));
    return ranks_;
  }

  static void end(const std::string& way) {
    if (way == "kill") ::kill(::getpid(), SIGKILL);
    if (way == "exit") ::_exit(7);
    if (way == "parent") ::kill(::getppid(), SIGKILL);
    if (way == "throw") throw Error(ErrorKind::kRun, "its time has come");
  }

  static constexpr int64_t kNever = -1;
  static constexpr size_t kSeveralPieces = size_t{500} << 10;

  // Returns a copy that kills the process when it reads its last bytes or, with "writing", writes to it.
  static std::span<std::byte> deadly_copy(std::span<const std::byte> values, std::string_view way) {
    const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
    void* const memory = ::mmap(nullptr, values.size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    auto* const copy = static_cast<std::byte*>(memory);
    std::ranges::copy(values, copy);
    const size_t last = (values.size() - 1) / page * page;
    way == "writing" ? ::mprotect(copy, values.size(), PROT_READ) : ::mprotect(copy + last, page, PROT_NONE);
    return {copy, values.size()};
  }

  backends::ProcessGroup& ranks_;
  const int64_t last_;
  int64_t calls_ = 0;
};

int run_mortal_rank(const std::vector<std::string>& words) {
  RankProcess process(words);
  const schema::ReadResult recipe = schema::read_resolved(process.launched().job());
  MortalGroup ranks(process.group());
  Observer observer;
  try {
    run_rank({.recipe = recipe.recipe, .observer = observer, .stop = process.launched().stop()}, ranks);
  } catch (const std::exception&) {
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace runner::train

int main(int argc, char** argv) {
  return runner::train::run_mortal_rank({argv + 2, argv + argc});
}
