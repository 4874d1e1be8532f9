// Notices about graphs that take long to compile.
#include "runner/train/run/compile_watch.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/train/run_fixture.h"

namespace runner::train {
namespace {

class Notices : public Observer {
 public:
  void on_notice(std::string_view text) override {
    const std::lock_guard lock(mutex_);
    texts_.emplace_back(text);
    changed_.notify_all();
  }
  // Waits until there are `count` notices.
  std::vector<std::string> wait_for(size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return texts_.size() >= count; });
    return texts_;
  }
  std::vector<std::string> texts() {
    const std::lock_guard lock(mutex_);
    return texts_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> texts_;
};

TEST(CompileWatch, ReportsSlowCompilationsDuringAndAfter) {
  Notices notices;
  CompileWatch watch(notices, std::chrono::milliseconds(1));
  for (size_t graph = 0; graph < 3; ++graph) {
    watch.begun([] { return "a graph of 5 nodes: the first graph"; });
    EXPECT_EQ(notices.wait_for(2 * graph + 1).back(), "compiling a graph of 5 nodes: the first graph");
    watch.ended();
    ASSERT_EQ(notices.texts().size(), 2 * graph + 2);
    EXPECT_EQ(notices.texts().back().substr(0, 15), "compiled it in ");
    EXPECT_TRUE(notices.texts().back().ends_with("s"));
  }
}

TEST(CompileWatch, DoesNotReportQuickCompilations) {
  Notices notices;
  {
    CompileWatch watch(notices, std::chrono::hours(24));
    for (int graph = 0; graph < 100; ++graph) {
      watch.begun(nullptr);  // the description is not requested
      watch.ended();
    }
    watch.begun(nullptr);
  }
  EXPECT_TRUE(notices.texts().empty());
}

class LongCompilations : public RunFixture {
 protected:
  std::vector<std::string> notices_of_run(std::chrono::milliseconds long_compile) {
    std::vector<std::string> notices;
    train(std::string(kFourEpochs) + "backend: tpu\nnum_processes: 1\n",
          {.overrides = {"data.batch_size=15", "train.epochs=1"}, .notices = &notices, .long_compile = long_compile});
    return notices;
  }
};

// Steps are compiled before the run begins, except that of the short last batch.
TEST_F(LongCompilations, AreReportedDuringARun) {
  EXPECT_TRUE(notices_of_run(std::chrono::hours(24)).empty());
  const std::vector<std::string> notices = notices_of_run(std::chrono::milliseconds(0));
  ASSERT_GE(notices.size(), 4u);
  EXPECT_EQ(notices.size() % 2, 0u);
  EXPECT_TRUE(notices[0].ends_with(" nodes: the first graph")) << notices[0];
  for (size_t i = 0; i < notices.size(); i += 2) {
    EXPECT_EQ(notices[i].substr(0, 21), "compiling a graph of ");
    EXPECT_EQ(notices[i + 1].substr(0, 15), "compiled it in ");
  }
  EXPECT_TRUE(std::ranges::any_of(notices, [](const std::string& text) {
    return text.ends_with(": features changed from (15, 5) f32 to (5, 5) f32");
  }));
}

}  // namespace
}  // namespace runner::train
