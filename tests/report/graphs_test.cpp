// `runner graphs` on wide and narrow terminals, and with several attempts.
#include "runner/report/graphs.h"

#include <gtest/gtest.h>

namespace runner::report {
namespace {

store::GraphRow row(const std::string& key, const std::string& cause, int64_t line = 0) {
  store::GraphRow graph;
  graph.key = key;
  graph.first_step = 4;
  graph.cause = cause;
  if (line > 0) graph.file = "hook.lua";
  graph.line = line;
  graph.nodes = 234;
  graph.inputs = 25;
  graph.outputs = 15;
  graph.donated = 7;
  graph.compile_ns = 900'000;
  graph.executions = 3;
  graph.hbm_bytes = int64_t{531} << 20;
  graph.least_ns = 55'500;
  graph.most_ns = 159'000;
  return graph;
}

std::vector<store::DeviceReport> reports() {
  std::vector<store::DeviceReport> one(1);
  one[0].graphs = {row("196bb5d8f0b7aa00", "the first graph"),
                   row("6e4e867971fe0011", "features is (4, 8) f32, and was (32, 8) f32", 9)};
  return one;
}

TEST(GraphsText, WideTerminalShowsOneLinePerGraph) {
  const std::string text =
      "key           step  runs  compiled in  nodes  in  out  donated        HBM           predicted  cause\n"
      "196bb5d8f0b7     4     3     900.0 us    234  25   15        7  531.0 MiB  55.5 us … 159.0 us  the first graph\n"
      "6e4e867971fe     4     3     900.0 us    234  25   15        7  531.0 MiB  55.5 us … 159.0 us  features is (4, "
      "8) "
      "f32, and was (32, 8) f32 (hook.lua:9)\n";
  EXPECT_EQ(graphs_text(reports(), 0, false), text);
  EXPECT_EQ(graphs_text(reports(), 160, false), text);
}

TEST(GraphsText, NarrowTerminalShowsTheCauseOnASecondLine) {
  EXPECT_EQ(graphs_text(reports(), 80, false),
            "key           step  runs  compiled in  nodes        HBM           predicted\n196bb5d8f0b7     4     3     "
            "900.0 us    234  531.0 MiB  55.5 us … 159.0 us\n  25 inputs, 15 outputs, 7 donated: the first "
            "graph\n6e4e867971fe     4     3     900.0 us    234  531.0 MiB  55.5 us … 159.0 us\n  25 inputs, 15 "
            "outputs, 7 donated: features is (4, 8) f32, and was (32, 8) f32 (hook.lua:9)\n");
}

TEST(GraphsText, SeveralAttemptsHaveAColumn) {
  std::vector<store::DeviceReport> two = reports();
  two.push_back(two.front());
  two[0].attempt = 1;
  two[1].attempt = 2;
  const std::string text = graphs_text(two, 0, false);
  EXPECT_EQ(text.substr(0, 13), "attempt  key ");
  EXPECT_NE(text.find("\n      2  196bb5d8f0b7 "), std::string::npos) << text;
}

}  // namespace
}  // namespace runner::report
