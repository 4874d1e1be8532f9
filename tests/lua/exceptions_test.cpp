// C++ exceptions that propagate through Lua: which of them a hook can catch, and what the caller gets.
#include <cstdlib>
#include <functional>
#include <new>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <lua.hpp>

#include "runner/lua/arguments.h"
#include "runner/lua/bind.h"
#include "runner/lua/runtime.h"
#include "schema/base/error.h"
#include "tests/support/temp_folder.h"

namespace runner::lua {
namespace {

Raise never_caught(lua_State*) {
  return Raise::kEndsRun;
}

class Exceptions : public ::testing::Test {
 protected:
  Exceptions() {
    lua_State* const state = runtime_.state();
    lua_pushlightuserdata(state, this);
    lua_setfield(state, LUA_REGISTRYINDEX, "test");
    set_global<bound<throw_it>>("throw");
    set_global<bound<throw_it, never_caught>>("throw_last");
    set_global<bound<call_back>>("call_back");
    set_global<bound<throw_while_alive>>("throw_while_alive");
  }

  // Runs `code` as the body of a function on line 1 of h.lua.
  void run(const std::string& code) {
    lua_State* const state = runtime_.state();
    support::write_text("h.lua", "return function() " + code + " end");
    runtime_.run_file("h.lua");
    runtime_.call(state, 0, 0);
    EXPECT_EQ(lua_gettop(state), 0);
  }

  // Returns "kind: where: message" and the notes of the error that `code` raises.
  std::string outcome(const std::string& code) {
    try {
      run(code);
    } catch (const Error& error) {
      EXPECT_EQ(lua_gettop(runtime_.state()), 0);
      return fmt::format("{}: {}", exit_code(error.kind()), error.what());
    } catch (const std::exception& error) {
      return error.what();
    }
    return "no error";
  }

  lua_State* state() const { return runtime_.state(); }

  std::function<void()> throw_ = [] { fail(ErrorKind::kNotFound, "nothing is there"); };
  int reached_ = 0;  // number of calls of the throwing functions
  int alive_ = 0;
  const support::TempFolder folder_;
  const support::CurrentFolder inside_{folder_.path()};
  Runtime runtime_{
      {.folder = "", .budget = {.memory_bytes = size_t{8} << 20, .instructions = 10'000'000}, .print = {}}};

 private:
  template <int (*function)(lua_State*)>
  void set_global(const char* name) {
    lua_pushcfunction(runtime_.state(), function);
    lua_setglobal(runtime_.state(), name);
  }

  static Exceptions& test(lua_State* state) {
    lua_getfield(state, LUA_REGISTRYINDEX, "test");
    return *static_cast<Exceptions*>(lua_touserdata(state, -1));
  }

  static int throw_it(lua_State* state) {
    Exceptions& self = test(state);
    ++self.reached_;
    self.throw_();
    return 0;
  }

  static int call_back(lua_State* state) {
    Runtime::of(state).call(state, 0, 0);
    return 0;
  }

  static int throw_while_alive(lua_State* state) {
    struct Alive {
      int& count;
      explicit Alive(int& counter) : count(++counter) {}
      ~Alive() { --count; }
    } const alive(test(state).alive_);
    return luaL_error(state, "Lua's own");
  }
};

TEST_F(Exceptions, KeepKindAndNotesAndGetALine) {
  EXPECT_EQ(outcome("throw()"), "3: h.lua:1: nothing is there");
  throw_ = [] { throw Error(ErrorKind::kData, "row 3 is short", {"data.csv", 4, 0}).note("while reading data.train"); };
  EXPECT_EQ(
      outcome("local function f() throw() end f()"),
      "2: data.csv:4: row 3 is short\n  note: while reading data.train\n  note: called from h.lua:1, in a function");
}

TEST_F(Exceptions, ListAllCallersIncludingThroughBoundCode) {
  EXPECT_EQ(
      outcome("local function inner() throw() end call_back(function() inner() end)"),
      "3: h.lua:1: nothing is there\n  note: called from h.lua:1, in a function\n  note: called from h.lua:1, in a "
      "function");
  EXPECT_EQ(outcome("local function inner() error('own') end call_back(function() inner() end)"),
            "1: h.lua:1: own\n  note: called from h.lua:1, in a function\n  note: called from h.lua:1, in a function");
}

TEST_F(Exceptions, PcallReturnsThemAsText) {
  EXPECT_EQ(outcome("local ok, text = pcall(function() throw() end) assert(text == 'h.lua:1: nothing is there', text)"),
            "no error");
  EXPECT_EQ(outcome("local ok, text = pcall(function() throw() end) error(text, 0)"), "3: h.lua:1: nothing is there");
}

TEST_F(Exceptions, PcallDoesNotCatchThoseThatEndTheRun) {
  for (const char* code : {
           "while true do pcall(throw_last) end",
           "while true do pcall(function() throw_last() end) end",
           "return pcall(throw_last)",
           "local co = coroutine.wrap(function() while true do pcall(throw_last) end end) while true do pcall(co) end",
           "xpcall(throw_last, function() error('another') end) throw()",
           "local t <close> = setmetatable({}, {__close = function() error('another') end}) throw_last()",
           "call_back(function() pcall(throw_last) end)",
           "pcall(call_back, throw_last)",
       }) {
    reached_ = 0;
    const std::string found = outcome(code);
    EXPECT_TRUE(found.starts_with("3: ") && found.find("nothing is there") != std::string::npos) << code << "\n"
                                                                                                 << found;
    EXPECT_EQ(reached_, 1) << code;
    EXPECT_EQ(outcome("local n = 0 for i = 1, 100000 do n = n + i end"), "no error") << "the budget applies per call";
  }
}

TEST_F(Exceptions, StoreErrorsAndInterruptionsAreUnchanged) {
  throw_ = [] { throw Error(ErrorKind::kStore, "the store is full").note("while saving"); };
  EXPECT_EQ(outcome("while true do pcall(throw) end"), "5: the store is full\n  note: while saving");
  throw_ = [] { fail(ErrorKind::kInterrupted, "the run has ended"); };
  EXPECT_EQ(outcome("while true do pcall(throw) end"), "4: the run has ended");
  throw_ = [] { throw std::bad_alloc(); };
  EXPECT_EQ(outcome("while true do pcall(throw) end"), std::bad_alloc().what());
  EXPECT_EQ(reached_, 3);
}

// The bindings rely on this: a Lua library built as C would skip the destructor.
TEST_F(Exceptions, LuaErrorsUnwindBoundCode) {
  EXPECT_EQ(outcome("throw_while_alive()"), "1: h.lua:1: Lua's own");
  EXPECT_EQ(alive_, 0);
}

TEST_F(Exceptions, TypeNameLeavesTheStackUnchanged) {
  for (const char* name : {"12", "{}", "true"}) {
    ASSERT_EQ(luaL_loadstring(state(), (std::string("return setmetatable({}, {__name = ") + name + "})").c_str()),
              LUA_OK);
    runtime_.call(state(), 0, 1);
    EXPECT_EQ(type_name(state(), -1), "table") << name;
    EXPECT_EQ(lua_gettop(state()), 1) << name;
    lua_settop(state(), 0);
  }
}

}  // namespace
}  // namespace runner::lua
