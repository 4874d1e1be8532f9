// Registered objects: saved in a checkpoint and restored, whether they are registered before or after restoring.
#include "runner/lua/registered.h"

#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <lua.hpp>

#include "runner/lua/bind.h"
#include "runner/lua/plain_data.h"
#include "runner/lua/runtime.h"
#include "schema/base/error.h"

namespace runner::lua {
namespace {

int register_here(lua_State* state) {
  register_object(state, 1);
  return 0;
}

// A hook state with a global function register(object).
class Hook {
 public:
  Hook() { lua_register(state(), "register", bound<register_here>); }

  // Returns the result of the code or its error as text.
  std::string run(const std::string& code) {
    if (luaL_loadbufferx(state(), code.data(), code.size(), "=code", "t") != LUA_OK) return lua_tostring(state(), -1);
    try {
      runtime_.call(state(), 0, 1);
    } catch (const Error& error) {
      return error.message();
    }
    std::string text = luaL_tolstring(state(), -1, nullptr);
    lua_settop(state(), 0);
    return text;
  }
  std::string kept() {
    try {
      return registered_text(state());
    } catch (const Error& error) {
      lua_settop(state(), 0);
      return error.message();
    }
  }
  void restore(const std::string& text) {
    push_plain(state(), text);
    restore_registered(state());
    EXPECT_EQ(lua_gettop(state()), 0);
  }

 private:
  lua_State* state() { return runtime_.state(); }
  Runtime runtime_{RuntimeOptions{}};
};

constexpr const char* kObjects = R"(
  count = {n = 0, gone = true}
  sum = {total = 0.5}
  function sum:state_dict() return self.total end
  function sum:load_state_dict(data) self.total = data end
  register(count) register(sum))";

TEST(Registered, AreSavedInTheOrderOfRegistration) {
  Hook hook;
  EXPECT_EQ(hook.kept(), "{}");
  hook.run(kObjects);
  EXPECT_EQ(hook.kept(), R"({{["gone"]=true,["n"]=0,},0x1p-1,})");
}

TEST(Registered, RestoringReplacesAllContents) {
  Hook hook;
  hook.run(kObjects);
  hook.run("before = count");
  hook.restore(R"({{["n"]=3,["more"]={1}},7})");
  EXPECT_EQ(hook.run("return before == count and count.n .. tostring(count.gone) .. count.more[1] .. sum.total"),
            "3nil17");
}

TEST(Registered, LaterRegistrationRestoresAtOnce) {
  Hook hook;
  hook.restore(R"({{["n"]=3},7})");
  EXPECT_EQ(hook.kept(),
            "the state that this run resumed from has 2 registered objects, but 0 are registered; call "
            "acc:register_for_checkpointing before the first step");
  hook.run(kObjects);
  EXPECT_EQ(hook.run("return count.n .. sum.total"), "37");
  EXPECT_EQ(hook.run("register{n = 1} return count.n"), "3");  // one object more than in the checkpoint
  EXPECT_EQ(hook.kept(), R"({{["n"]=3,},7,{["n"]=1,},})");
}

TEST(Registered, SupportsInheritedFunctionsAndStrictTables) {
  Hook hook;
  hook.run(R"(
    local class = {}
    class.__index = class
    function class:state_dict() return {self.x} end
    function class:load_state_dict(data) self.x = data[1] end
    object = setmetatable({x = 1}, setmetatable(class, {__index = {}}))
    strict = setmetatable({y = 2}, {__index = function(_, key) error("no " .. key) end})
    register(object) register(strict))");
  EXPECT_EQ(hook.kept(), R"({{[1]=1,},{["y"]=2,},})");
  hook.restore("{{5},{y=6}}");
  EXPECT_EQ(hook.run("return object.x .. strict.y"), "56");
}

TEST(Registered, StateDictMayReturnAnyPlainData) {
  for (const char* data : {"true", "false", "\"text\"", "-3", "0x1p-1", "{}"}) {
    Hook hook;
    hook.run(
        fmt::format("data = {} register{{state_dict = function() return data end, load_state_dict = function(_, d) "
                    "data = d end}}",
                    data));
    EXPECT_EQ(hook.kept(), fmt::format("{{{},}}", data));
    Hook other;
    other.restore(hook.kept());
    other.run("register{state_dict = function() return data end, load_state_dict = function(_, d) data = d end}");
    EXPECT_EQ(other.kept(), hook.kept());
  }
}

TEST(Registered, RejectsObjectsThatCannotBeRestored) {
  EXPECT_EQ(Hook().run("register(3)"), "register: argument 1 is number, expected a table");
  EXPECT_EQ(Hook().run("register{state_dict = print}"),
            "register_for_checkpointing: the object has state_dict but no load_state_dict");
  EXPECT_EQ(Hook().run("register{load_state_dict = print}"),
            "register_for_checkpointing: the object has load_state_dict but no state_dict");
  Hook nothing;
  nothing.run("register{state_dict = function() end, load_state_dict = print}");
  EXPECT_EQ(nothing.kept(),
            "state_dict of registered object 1 returned nil, expected the value to pass to load_state_dict");
  Hook changed;
  changed.restore("{7}");
  EXPECT_EQ(changed.run("register{}"), "registered object 1 was saved by state_dict, which it no longer has");
}

}  // namespace
}  // namespace runner::lua
