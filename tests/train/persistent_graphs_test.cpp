// The persistent cache in a run's store: another run of the same build finds what one run has stored.
#include "runner/train/run/persistent_graphs.h"

#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "schema/base/error.h"
#include "store/sqlite.h"
#include "tests/support/temp_folder.h"

namespace runner::train {
namespace {

std::span<const std::byte> bytes_of_text(std::string_view text) {
  return std::as_bytes(std::span(text));
}

class PersistentGraphsTest : public ::testing::Test {
 protected:
  std::string find(const std::string& binary, std::string_view made_from) const {
    const auto entry = PersistentGraphs(path_, binary).find(bytes_of_text(made_from));
    return entry ? std::string(reinterpret_cast<const char*>(entry->data()), entry->size()) : "none";
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
  EXPECT_FALSE(graphs.find(bytes_of_text("a"))) << "the store does not exist yet";
  graphs.put(bytes_of_text("a"), bytes_of_text("entry"));
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
  graphs.put(bytes_of_text("a"), bytes_of_text("entry"));
  const store::CompiledGraphs made = graphs.take();
  write(made);
  graphs.find(bytes_of_text("a"));
  graphs.find(bytes_of_text("b"));
  EXPECT_EQ(graphs.take().used, std::vector<Sha256Digest>{made.made[0].key});
}

}  // namespace
}  // namespace runner::train
