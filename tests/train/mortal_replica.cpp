// A replica of a run that comes to its end at a collective: the process of rank MORTAL_RANK (in the environment) ends
// in the way of MORTAL_END, "kill", "throw" or "exit", when it makes call number MORTAL_CALL, counted from 0.
#include <csignal>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "runner/train/replicas.h"
#include "runner/train/run.h"
#include "schema/error.h"
#include "schema/recipe_reader.h"

namespace runner::train {
namespace {

using backends::Reduction;
using backends::Site;
using backends::TensorType;

int64_t number_of(const char* variable) {
  const char* text = std::getenv(variable);
  return text == nullptr ? -1 : std::atoll(text);
}

class MortalCollectives : public backends::Collectives {
 public:
  explicit MortalCollectives(backends::Collectives& ranks)
      : ranks_(ranks), last_(ranks.rank() == number_of("MORTAL_RANK") ? number_of("MORTAL_CALL") : -1) {}

  int rank() const override { return ranks_.rank(); }
  int size() const override { return ranks_.size(); }
  void barrier(const Site& site) override { live().barrier(site); }
  void all_reduce(const TensorType& type, std::span<std::byte> values, Reduction reduction, const Site& site) override {
    live().all_reduce(type, values, reduction, site);
  }
  void reduce(const TensorType& type, std::span<std::byte> values, Reduction reduction, int root,
              const Site& site) override {
    live().reduce(type, values, reduction, root, site);
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
  std::shared_ptr<std::byte> share(const TensorType& type, const Site& site) override {
    return live().share(type, site);
  }
  void fail(std::string_view reason, const SourceMark& where) noexcept override { ranks_.fail(reason, where); }

 private:
  backends::Collectives& live() {
    if (calls_++ == last_) end(std::getenv("MORTAL_END"));
    return ranks_;
  }

  static void end(const std::string& way) {
    if (way == "kill") ::kill(::getpid(), SIGKILL);
    if (way == "exit") ::_exit(7);
    throw Error(ErrorKind::kRun, "its time has come");
  }

  backends::Collectives& ranks_;
  const int64_t last_;
  int64_t calls_ = 0;
};

int live_and_die(const std::vector<std::string>& words) {
  Replica replica(words);
  const schema::ReadResult recipe = schema::read_resolved(replica.job());
  MortalCollectives ranks(replica.collectives());
  Observer observer;
  try {
    run_replica({.recipe = recipe.recipe,
                 .record = {},
                 .params = {},
                 .store = {},
                 .resume = {},
                 .observer = observer,
                 .summary = nullptr,
                 .stop = replica.stop()},
                ranks);
  } catch (const std::exception&) {
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace runner::train

int main(int argc, char** argv) {
  return runner::train::live_and_die({argv + 2, argv + argc});
}
