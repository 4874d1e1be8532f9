// Reports of rank 0 between its other output.
#include "runner/cli/launch_report.h"

#include <gtest/gtest.h>

namespace runner::cli {
namespace {

TEST(LaunchReports, AreSeparatedFromOtherOutput) {
  const std::string output = report_of_connection() + "first\n" + report_of(BegunRun{"0a1b", "it's", 3}) + "second\n" +
                             report_of(EndedRun{4, true, "lost", "error: \"lost\"\n", "{\n  \"run\": 1\n}\n"}) +
                             "third";
  const LaunchReports reports(output);
  EXPECT_EQ(reports.rest(), "first\nsecond\nthird");
  EXPECT_TRUE(reports.connected());
  ASSERT_TRUE(reports.begun());
  EXPECT_EQ(reports.begun()->run, "0a1b");
  EXPECT_EQ(reports.begun()->name, "it's");
  EXPECT_EQ(reports.begun()->max_restarts, 3);
  ASSERT_TRUE(reports.ended());
  EXPECT_EQ(reports.ended()->exit_code, 4);
  EXPECT_TRUE(reports.ended()->lost_process);
  EXPECT_EQ(reports.ended()->message, "lost");
  EXPECT_EQ(reports.ended()->error, "error: \"lost\"\n");
  EXPECT_EQ(reports.ended()->data, "{\n  \"run\": 1\n}\n");
}

TEST(LaunchReports, MayBeAbsentOrCutOff) {
  EXPECT_FALSE(LaunchReports("").connected());
  EXPECT_FALSE(LaunchReports("").begun());
  EXPECT_EQ(LaunchReports("text\n").rest(), "text\n");
  const std::string end = report_of(EndedRun{0, false, "", "", "data"});
  for (size_t size = 1; size + 2 < end.size(); ++size) {
    const LaunchReports reports(std::string_view(end).substr(0, size));
    EXPECT_FALSE(reports.ended()) << size;
    EXPECT_EQ(reports.rest(), "");
  }
}

TEST(EarlierAttempts, AreTakenFromTheEnvironment) {
  pass_on({.run = "0a1b", .lost = {"a rank, \"1\"", "another"}, .processes = 3});
  const std::optional<EarlierAttempts> earlier = take_earlier_attempts();
  ASSERT_TRUE(earlier);
  EXPECT_EQ(earlier->run, "0a1b");
  EXPECT_EQ(earlier->lost, (std::vector<std::string>{"a rank, \"1\"", "another"}));
  EXPECT_EQ(earlier->processes, 3);
  EXPECT_FALSE(take_earlier_attempts());
}

}  // namespace
}  // namespace runner::cli
