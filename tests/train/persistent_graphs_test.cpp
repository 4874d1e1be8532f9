// The persistent cache in a run's store: another run of the same build finds what one run has stored.
#include "runner/train/run/persistent_graphs.h"

#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "schema/base/error.h"
#include "store/sqlite.h"
#include "tests/support/bytes.h"
#include "tests/support/temp_folder.h"

namespace runner::train {
namespace {

class PersistentGraphsTest : public ::testing::Test {
 protected:
  std::string find(const std::string& binary, std::string_view made_from) const {
    const auto entry = PersistentGraphs(path_, binary).find(support::bytes_of(made_from));
    return entry ? support::text_of(*entry) : "none";
  }
  // Stores graphs like the writer of a run.
  void write(const store::CompiledGraphs& graphs) const {
    store::Store store = store::Store::open(path_, store::Access::kWrite);
    store::Transaction transaction(store.database(), store::Transaction::Kind::kWrite);
    store::put_compiled_graphs(store, graphs);
    transaction.commit();
  }

  const support::TempFolder folder_;
  const std::filesystem::path path_ = folder_ / "runner.db";
};

TEST_F(PersistentGraphsTest, AreFoundByAnotherRunOfTheSameBuild) {
  PersistentGraphs graphs(path_, "build 1");
  EXPECT_FALSE(graphs.find(support::bytes_of("a"))) << "the store does not exist yet";
  graphs.put(support::bytes_of("a"), support::bytes_of("entry"));
  const store::CompiledGraphs made = graphs.take();
  EXPECT_EQ(made.made.size(), 1u);
  EXPECT_TRUE(graphs.take().empty());
  write(made);
  EXPECT_EQ(find("build 1", "a"), "entry");
  EXPECT_EQ(find("build 1", "b"), "none");
  EXPECT_EQ(find("build 2", "a"), "none");
}

TEST_F(PersistentGraphsTest, FoundEntriesAreMarkedAsUsed) {
  PersistentGraphs graphs(path_, "build 1");
  graphs.put(support::bytes_of("a"), support::bytes_of("entry"));
  const store::CompiledGraphs made = graphs.take();
  write(made);
  graphs.find(support::bytes_of("a"));
  graphs.find(support::bytes_of("b"));
  EXPECT_EQ(graphs.take().used, std::vector<Sha256Digest>{made.made[0].key});
}

}  // namespace
}  // namespace runner::train
