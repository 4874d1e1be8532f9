// Plain data as text: the round trip is exact, and equal data give equal texts.
#include "runner/lua/plain_data.h"

#include <string>

#include <gtest/gtest.h>
#include <lua.hpp>

#include "runner/lua/runtime.h"
#include "schema/base/error.h"

namespace runner::lua {
namespace {

class PlainData : public ::testing::Test {
 protected:
  // Pushes the result of the code.
  void run(const std::string& code) {
    ASSERT_EQ(luaL_loadstring(state(), code.c_str()), LUA_OK) << lua_tostring(state(), -1);
    runtime_.call(state(), 0, 1);
  }
  std::string text(const std::string& expression, PlainUse use = PlainUse::kState) {
    run("return " + expression);
    std::string result = plain_text(state(), -1, "data", use);
    lua_settop(state(), 0);
    return result;
  }
  std::string error(const std::string& expression, PlainUse use = PlainUse::kState) {
    try {
      return text(expression, use);
    } catch (const Error& error) {
      lua_settop(state(), 0);
      return error.message();
    }
  }
  // Returns whether Lua finds the data read back from the text equal to the expression, including the kinds of numbers.
  bool round_trips(const std::string& expression) {
    const std::string written = text(expression);
    run(R"(local function same(a, b)
      if a ~= a then return b ~= b end
      if type(a) ~= "table" then return a == b and math.type(a) == math.type(b) and tostring(a) == tostring(b) end
      for k, v in pairs(a) do if not same(v, b[k]) then return false end end
      for k in pairs(b) do if a[k] == nil then return false end end
      return true
    end
    return same)");
    run("return " + expression);
    push_plain(state(), written);
    runtime_.call(state(), 2, 1);
    const bool same = lua_toboolean(state(), -1) != 0;
    lua_settop(state(), 0);
    return same;
  }
  lua_State* state() { return runtime_.state(); }

  Runtime runtime_{RuntimeOptions{}};
};

TEST_F(PlainData, IsALuaExpression) {
  EXPECT_EQ(text("nil"), "nil");
  EXPECT_EQ(text("true"), "true");
  EXPECT_EQ(text("-7"), "-7");
  EXPECT_EQ(text("0.1"), "0x1.999999999999ap-4");
  EXPECT_EQ(text("-0.0"), "-0x0p+0");
  EXPECT_EQ(text("0/0"), "0/0");
  EXPECT_EQ(text("1/0"), "1/0");
  EXPECT_EQ(text("-1/0"), "-1/0");
  EXPECT_EQ(text(R"("a\"\\\n\0é")"), R"("a\034\092\010\000\195\169")");
  EXPECT_EQ(text("{}"), "{}");
  EXPECT_EQ(text("{10, {x = true}, y = 'z', [-1] = 2}"), R"({[-1]=2,[1]=10,[2]={["x"]=true,},["y"]="z",})");
}

TEST_F(PlainData, RoundTripIsExact) {
  for (const char* expression : {"nil",
                                 "false",
                                 "0",
                                 "0.0",
                                 "-0.0",
                                 "3",
                                 "3.0",
                                 "math.maxinteger",
                                 "math.mininteger",
                                 "0.1",
                                 "1e308 * 1e-308",
                                 "5e-324",
                                 "1.7976931348623157e308",
                                 "0/0",
                                 "1/0",
                                 "-1/0",
                                 "''",
                                 R"("\0\1\127\128\255\"\\\n\r]]")",
                                 "{}",
                                 "{{{}}, {1, 2, {3}}, n = {a = {b = 'c'}}}",
                                 "{[math.mininteger] = 1, [0] = 2, [math.maxinteger] = 3}",
                                 R"({["a b"] = 1, ["end"] = 2, ["\0"] = 3, [""] = 4})"})
    EXPECT_TRUE(round_trips(expression)) << expression;
}

TEST_F(PlainData, EqualDataGiveEqualTexts) {
  const std::string forth =
      text("(function() local t = {} for i = 1, 99 do t['k' .. i] = i t[i] = -i end return t end)()");
  const std::string back = text(
      "(function() local t = {} for i = 99, 1, -1 do t[i] = -i t['k' .. i] = i end t.x = 1 t.x = nil return t end)()");
  EXPECT_EQ(forth, back);
  EXPECT_NE(text("1"), text("1.0"));
}

TEST_F(PlainData, ErrorsNameThePathOfTheValue) {
  const std::string kinds = ", which a state cannot store; it stores numbers, strings, booleans and tables of them";
  EXPECT_EQ(error("print"), "data is function" + kinds);
  EXPECT_EQ(error("{a = {1, {f = print}}}"), "data.a[2].f is function" + kinds);
  EXPECT_EQ(error("{coroutine.create(print)}"), "data[1] is thread" + kinds);
  EXPECT_EQ(error("{[1.5] = 1}"),
            "data has a key that is number; a state stores tables with texts and integers as keys");
  EXPECT_EQ(error("{x = {[true] = 1}}"),
            "data.x has a key that is boolean; a state stores tables with texts and integers as keys");
  EXPECT_EQ(error("{f = print}", PlainUse::kExchange),
            "data.f is function, which cannot be sent to other processes; numbers, strings, booleans and tables of "
            "them can, and in a custom loop tensors");
  EXPECT_EQ(error("{[1.5] = 1}", PlainUse::kExchange),
            "data has a key that is number; processes exchange tables with texts and integers as keys");
  EXPECT_NE(error("(function() local t = {} t.t = t return t end)()").find("is nested more than 32 tables deep"),
            std::string::npos);
}

TEST_F(PlainData, InvalidTextsAreRejected) {
  for (const char* text : {"{", "1 2", "print(1)", "math.huge.x", "\x1bLua"})
    EXPECT_THROW(push_plain(state(), text), Error) << text;
  push_plain(state(), "math");
  EXPECT_TRUE(lua_isnil(state(), -1)) << "global names are nil";
}

// A table that is referenced many times is written as many times: 30 nested pairs give 2^30 entries.
class SharedTables : public PlainData {
 protected:
  static constexpr const char* kShared = "(function() local t = {%s} for i = 1, 30 do t = {t, t} end return t end)()";
  std::string outcome(const std::string& leaf, Budget budget) {
    Runtime runtime(RuntimeOptions{.folder = "", .budget = budget, .print = {}});
    std::string code = kShared;
    code.replace(code.find("%s"), 2, leaf);
    lua_State* const lua = runtime.state();
    EXPECT_EQ(luaL_loadstring(lua, ("return " + code).c_str()), LUA_OK);
    runtime.call(lua, 0, 1);
    lua_setglobal(lua, "data");
    try {
      runtime.protect([&] {
        lua_getglobal(lua, "data");
        plain_text(lua, -1, "data");
        lua_pop(lua, 1);
      });
    } catch (const Error& error) {
      return error.message();
    }
    return "no error";
  }
};

TEST_F(SharedTables, CountAgainstTheBudgetOfWork) {
  EXPECT_EQ(outcome("1", {.instructions = 10'000'000}),
            "the hook has run for 10 million Lua instructions: is there an endless loop?");
}

TEST_F(SharedTables, CountAgainstTheBudgetOfMemory) {
  const std::string message = outcome("('x'):rep(2^16)", {.memory_bytes = size_t{4} << 20});
  EXPECT_TRUE(message.ends_with(
      ": its serialized size exceeds the 4 MiB of memory of a hook; does it contain the same table many times?"))
      << message;
  EXPECT_TRUE(message.starts_with("data[")) << message;
}

}  // namespace
}  // namespace runner::lua
