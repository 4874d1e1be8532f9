// Common parts of the store tests: a temporary folder, a sample run, and the text of an error.
#pragma once

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "schema/base/error.h"
#include "store/queries.h"
#include "store/run_store.h"
#include "store/sqlite.h"
#include "store/store.h"
#include "tests/support/bytes.h"
#include "tests/support/temp_folder.h"

namespace runner::store {

namespace fs = std::filesystem;

using support::bytes_of;
using support::read_text;
using support::TempFolder;

// Fixture with a store in a temporary folder.
class StoreTest : public ::testing::Test {
 protected:
  Store open_to_write() const { return Store::open(path, Access::kWrite); }
  Store open_to_read() const { return Store::open(path, Access::kRead); }

  TempFolder folder;
  fs::path path = folder / "runner.db";
};

// With a store that is open for writing.
class WritableStoreTest : public StoreTest {
 protected:
  // Runs `write` in a transaction.
  void commit(const std::function<void()>& write) {
    Transaction transaction(store.database(), Transaction::Kind::kWrite);
    write();
    transaction.commit();
  }
  int64_t count(const std::string& table) { return store.database().query_int64("SELECT count(*) FROM " + table); }

  Store store = open_to_write();
};

inline RunInfo sample_run(std::string name = "digits") {
  RunInfo info;
  info.uid = new_run_uid();
  info.name = std::move(name);
  info.seed = 42;
  info.attempt.recipe = {"hash-1", "name: digits\n", R"({"name":"digits"})", R"({"name":"recipe.yaml:1"})"};
  info.attempt.params = {{"optimizer.lr", 1e-3}, {"train.epochs", int64_t{3}}};
  info.attempt.backend = "cpu";
  info.attempt.binary_version = "0.1.0";
  return info;
}

inline void write_file(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

// Returns "KIND: MESSAGE" of the Error that `action` throws, or "no error".
template <class Action>
std::string error_of(Action action) {
  constexpr const char* kKinds[] = {"run", "usage", "recipe", "data", "not found", "interrupted", "store"};
  try {
    action();
  } catch (const Error& error) {
    return std::string(kKinds[static_cast<int>(error.kind())]) + ": " + error.message();
  }
  return "no error";
}

// Runs `action` in a child process. Returns whether it returned true there.
inline bool in_child(const std::function<bool()>& action) {
  const pid_t child = ::fork();
  if (child == 0) {
    bool done = false;
    const std::string error = error_of([&] { done = action(); });
    if (!done) std::fprintf(stderr, "child: %s\n", error.c_str());
    ::_exit(done ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// As in_child(), as a user without any permissions here, because root ignores file permissions.
inline bool as_unprivileged_user(const std::function<bool()>& action) {
  return in_child([&] {
    if (::geteuid() == 0 && ::setresuid(65534, 65534, 65534) != 0) return false;
    return action();
  });
}

}  // namespace runner::store
