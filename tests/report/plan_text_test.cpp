// The arithmetic of the data plan, as `runner plan` prints it.
#include "runner/report/plan_text.h"

#include <gtest/gtest.h>

namespace runner::report {
namespace {

TEST(PlanText, ShowsTheArithmetic) {
  KeyValueTable table;
  add_plan(table, data::DataPlan({.samples = 1437, .batch_size = 32, .accumulation = 4}));
  EXPECT_EQ(table.render(),
            "samples          1437 per epoch\n"
            "processes        1\n"
            "global batch     32 samples\n"
            "batches          45 per epoch: 44 of 32 samples, the last of 29 samples\n"
            "optimizer steps  12 per epoch: 11 of 4 batches (128 samples), the last of 1 batch (29 samples)\n"
            "repeats          none\n");
}

TEST(PlanText, ShowsTheShareOfEachProcess) {
  const auto text = [](data::PlanSpec spec) {
    KeyValueTable table;
    add_plan(table, data::DataPlan(spec));
    const std::string all = table.render();
    return all.substr(0, all.find("batches "));
  };
  EXPECT_EQ(text({.samples = 100, .batch_size = 8, .processes = 4, .drop_last = true}),
            "samples          96 per epoch, of 100\n"
            "processes        4\n"
            "global batch     32 samples, 8 for each of 4 processes\n");
  EXPECT_EQ(text({.samples = 100, .batch_size = 50, .processes = 4, .split_batches = true}),
            "samples          100 per epoch\n"
            "processes        4\n"
            "global batch     50 samples, up to 13 for each of 4 processes\n");
}

}  // namespace
}  // namespace runner::report
