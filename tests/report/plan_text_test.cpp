// The arithmetic of the data plan, as `runner plan` prints it.
#include "runner/report/plan_text.h"

#include <gtest/gtest.h>

namespace runner::report {
namespace {

TEST(PlanText, ShowsTheArithmetic) {
  KeyValueTable table;
  add_plan(table, data::DataPlan({.samples = 1437, .batch_size = 32, .accumulation = 4}));
  EXPECT_EQ(table.render(),
            "samples          1437, 1437 per epoch\n"
            "processes        1\n"
            "global batch     32\n"
            "batches          45 per epoch: 44 of 32 samples, 1 of 29 samples\n"
            "optimizer steps  12 per epoch: 11 of 4 batches (128 samples), 1 of 1 batch (29 samples)\n"
            "repeats          0 per epoch, masked\n");
}

}  // namespace
}  // namespace runner::report
