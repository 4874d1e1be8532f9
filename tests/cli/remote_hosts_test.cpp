// The option --hosts and the command lines that it becomes.
#include "runner/cli/remote_hosts.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "schema/base/error.h"

namespace runner::cli {
namespace {

TEST(RemoteHosts, HaveNamesAndNumbersOfRanks) {
  const std::vector<HostSlots> hosts = parse_hosts("a,node-2:12,10.0.0.3:1");
  ASSERT_EQ(hosts.size(), 3U);
  EXPECT_EQ(hosts[0].name, "a");
  EXPECT_EQ(hosts[0].ranks, 1);
  EXPECT_EQ(hosts[1].name, "node-2");
  EXPECT_EQ(hosts[1].ranks, 12);
  EXPECT_EQ(hosts[2].name, "10.0.0.3");
}

// `reason`: the message without the text.
void expect_refused(const std::string& text, const std::string& reason) {
  SCOPED_TRACE(text);
  try {
    parse_hosts(text);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_EQ(error.message(), reason + text);
  }
}

TEST(RemoteHosts, RefuseOtherTexts) {
  for (const char* const text : {"a,", ",a", "a:0", "a:-1", "a:two", "a:", ":2", "a:2b", "a b", "-x:2", "::1",
                                 "[::1]:2", "a:2:3", "$(touch x):1"})
    expect_refused(text,
                   "--hosts: expected host names or IPv4 addresses with their numbers of ranks, such as a:2,b:2, got ");
}

TEST(RemoteHosts, HaveAtMostTheRanksOfARun) {
  EXPECT_EQ(ranks_of(parse_hosts("a:4095,b")), 4096);
  for (const char* const text : {"localhost:99999", "a:4096,b", "a:2147483647,b:2147483647"})
    expect_refused(text, "--hosts: expected at most 4096 ranks in all, got ");
}

TEST(RemoteHosts, BecomeACommandOfEachLibrary) {
  const std::vector<HostSlots> hosts{{"a", 2}, {"b", 1}};
  const std::vector<std::string> words{"exec", "my recipe.yaml"};
  std::vector<std::string> expected{"/bin/mpirun", "--host", "a:2,b:1", "--bind-to", "none"};
  if (::geteuid() == 0) expected.emplace_back("--allow-run-as-root");
  expected.insert(expected.end(),
                  {"-x", "RUNNER_DB", "-x", "RUNNER_MPI=openmpi", "-n", "3", "/opt/runner", "exec", "my recipe.yaml"});
  EXPECT_EQ(launch_command({{"openmpi", "Open MPI v4.1.4"}, "/bin/mpirun"}, hosts, {"RUNNER_DB"}, "/opt/runner", words),
            expected);
  EXPECT_EQ(launch_command({{"mpich", "MPICH 4.0.2"}, "/bin/mpiexec"}, hosts, {"RUNNER_DB"}, "/opt/runner", words),
            (std::vector<std::string>{"/bin/mpiexec", "-hosts", "a:2,b:1", "-genv", "RUNNER_MPI", "mpich", "-n", "3",
                                      "/opt/runner", "exec", "my recipe.yaml"}));
}

}  // namespace
}  // namespace runner::cli
