// A folder that counts as being on a network file system, and spools elsewhere.
#pragma once

#include <cstdlib>

#include "store/network.h"
#include "tests/store/temp_store.h"

namespace runner::store {

class NetworkTest : public ::testing::Test {
 protected:
  NetworkTest() {
    ::setenv("RUNNER_NETWORK_STORE", network.path().c_str(), 1);
    ::setenv("RUNNER_SPOOL", (local / "spools").c_str(), 1);
  }
  ~NetworkTest() override {
    ::unsetenv("RUNNER_NETWORK_STORE");
    ::unsetenv("RUNNER_SPOOL");
  }

  TempFolder network, local;
  fs::path path = network / "runner.db";
};

}  // namespace runner::store
