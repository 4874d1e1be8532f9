// The sandbox: restrictions and limits of hooks, and that equal code gives equal results.
#include "runner/lua/runtime.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <lua.hpp>

#include "runner/lua/seal.h"
#include "schema/base/error.h"
#include "tests/support/temp_folder.h"

namespace runner::lua {
namespace {

namespace fs = std::filesystem;

class RuntimeTest : public ::testing::Test {
 protected:
  RuntimeTest() {
    fs::create_directories("recipe/lib");
    fs::current_path("recipe");
  }

  RuntimeOptions options(uint64_t seed = 1) {
    return {.folder = "",
            .seed = seed,
            .budget = {.memory_bytes = size_t{8} << 20, .instructions = 10'000'000, .pattern_steps = 100'000},
            .print = [this](std::string_view line) { printed_ += std::string(line) + "\n"; }};
  }

  static void write(const std::string& file, const std::string& text) { std::ofstream(file, std::ios::binary) << text; }

  // Returns the result of `code` as text.
  static std::string run(Runtime& runtime, const std::string& code) {
    write("h.lua", code);
    runtime.run_file("h.lua");
    const char* text = luaL_tolstring(runtime.state(), -1, nullptr);
    std::string result = text;
    lua_pop(runtime.state(), 2);
    return result;
  }
  std::string run(const std::string& code) {
    Runtime runtime(options());
    return run(runtime, code);
  }

  // Returns "line: message" of the error that `code` raises.
  std::string error(const std::string& code) {
    Runtime runtime(options());
    try {
      run(runtime, code);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kRecipe);
      EXPECT_TRUE(error.where().file.empty() || error.where().file == "h.lua") << error.where().file;
      // After any error, the state is usable and its memory is free again.
      EXPECT_EQ(run(runtime, "return #('x'):rep(2^21)"), "2097152");
      return fmt::format("{}: {}", error.where().line, error.message());
    }
    return "no error";
  }

  std::string printed_;

 private:
  const support::TempFolder folder_;
  const support::CurrentFolder inside_{folder_.path()};
};

TEST_F(RuntimeTest, HidesTheSystem) {
  const struct {
    const char* code;
    const char* error;
  } kCases[] = {
      {"return io.open('x')",
       "1: io is not available in hooks: hooks cannot read or write files; use acc:print and acc:log"},
      {"return os.time()", "1: os is not available in hooks: hooks cannot access the system"},
      {"return debug.traceback()", "1: debug is not available in hooks: hooks cannot access the internals of Lua"},
      {"return load('return 1')", "1: load is not available in hooks: hooks cannot run generated code"},
      {"return loadfile('x')",
       "1: loadfile is not available in hooks: require loads files in the folder of the hook file"},
      {"return dofile('x')", "1: dofile is not available in hooks: require loads files in the folder of the hook file"},
      {"return package.path",
       "1: package is not available in hooks: require loads built-in modules and files in the folder of the hook file"},
      {"return collectgarbage('count')", "1: collectgarbage is not available in hooks: memory is managed by the run"},
      {"return string.dump(print)", "1: attempt to call a nil value (field 'dump')"},
      {"return _G.io", "1: io is not available in hooks: hooks cannot read or write files; use acc:print and acc:log"},
      {"return rawget(_G, 'io').open", "1: attempt to index a nil value"},
      {"getmetatable('').__index = {}", "1: attempt to index a boolean value"},
      {"setmetatable(_G, nil)", "1: setmetatable: the metatable is protected"},
      {"setmetatable({}, {__gc = print})", "1: setmetatable: hooks cannot have finalizers (__gc)"},
      {"math.randomseed(1)", "1: math.randomseed: the run sets the seed; set `seed` in the recipe"},
      {"require 'os'", "1: require: module 'os' not found: it is not built in, and os.lua is not a file"},
      {"require '../secret'",
       "1: require: '../secret' is not a module name; write require \"lib.name\" for lib/name.lua in the folder of the "
       "hook file"},
      {"require '/etc/passwd'",
       "1: require: '/etc/passwd' is not a module name; write require \"lib.name\" for lib/name.lua in the folder of "
       "the hook file"},
      {"require 'link'", "1: require: link.lua is a link to a file outside the hook's folder"},
      {"require(3)", "1: require: argument 1 is number, expected a string"},
  };
  write("../secret.lua", "return 'secret'");
  fs::create_symlink("../secret.lua", "link.lua");
  for (const auto& c : kCases) EXPECT_EQ(error(c.code), c.error) << c.code;
}

const std::string kEndless = "the hook has run for 10 million Lua instructions: is there an endless loop?";

TEST_F(RuntimeTest, StopsEndlessCode) {
  EXPECT_EQ(error("\nwhile true do end"), "2: " + kEndless);
  EXPECT_EQ(error("while true do pcall(function() while true do end end) end"), "1: " + kEndless);
  EXPECT_EQ(error("local function f() while true do end end\nwhile true do xpcall(f, f) end").substr(3), kEndless);
  EXPECT_EQ(error("coroutine.wrap(function() while true do end end)()"), "1: " + kEndless);
  EXPECT_EQ(
      error("local t = setmetatable({}, {__index = function(t, k) return t[k + 1] end}) return t[1]").substr(0, 40),
      "1: C stack overflow");
  EXPECT_NE(error("return (('a'):rep(40)):find(('a?'):rep(40) .. ('a'):rep(40))").find("aborted after 100000 steps"),
            std::string::npos);
}

// Each level of a recursion catches the error of the next one and goes deep again.
TEST_F(RuntimeTest, StopsEndlessCodeInNestedCoroutines) {
  for (const std::string code : {
           "local function f() local c = coroutine.wrap(function() for i = 1, 100 do pcall(f) end end) pcall(c) end "
           "f()",
           "local function f() local c = coroutine.create(function() for i = 1, 100 do pcall(f) coroutine.yield() end "
           "end) while true do coroutine.resume(c) if coroutine.status(c) == 'dead' then break end end end "
           "while true do pcall(f) end",
           "local function f() for i = 1, 100 do xpcall(f, function() end) end end f()",
       })
    EXPECT_NE(error(code).find("the hook has run for 10 million Lua instructions"), std::string::npos) << error(code);
}

// Each case executes few instructions. It would finish within a tenth of the budget if only instructions counted.
TEST_F(RuntimeTest, CountsTheWorkOfLibrariesAndMemory) {
  const std::string list = "local t = {} for i = 1, 1e4 do t[i] = i end ";
  const std::string cases[] = {
      "for i = 1, 1e5 do local s = ('x'):rep(1e4) end",
      "for i = 1, 1e4 do local s = 'x' for j = 1, 13 do s = s .. s end end",
      "for i = 1, 6e5 do math.random() end",
      list + "for i = 1, 1e3 do table.sort(t) end",
      list + "for i = 1, 1e3 do table.insert(t, 1, 0) table.remove(t) end",
      list + "for i = 1, 1e3 do table.remove(t, 1) t[1e4] = 0 end",
      list + "for i = 1, 1e3 do table.concat(t, '', 1, 1) end",
      list + "for i = 1, 1e3 do table.move(t, 1, 1e4, 2) end",
      list + "for i = 1, 2e3 do select('#', table.unpack(t)) end",
      list + "for i = 1, 1e3 do next(t, 1e4) end",
      list + "for i = 1, 1e2 do pairs(t) end",
      "local s = ('x'):rep(1e4) for i = 1, 2e3 do select('#', s:byte(1, -1)) end",
      "local s = ('x'):rep(1e4) for i = 1, 2e3 do select('#', utf8.codepoint(s, 1, -1)) end",
      "while true do pcall(table.move, {}, 1, 1e15, 2) end",
      "for i = 1, 1e4 do pcall(error) end",
      "for i = 1, 1e4 do xpcall(error, function() end) end",
      "for i = 1, 1e4 do coroutine.resume(coroutine.create(error)) end",
      // An error caught deep in a recursion costs a walk over its frames.
      "local function f(n) if n > 0 then return 1 + f(n - 1) end while true do pcall(error) end end f(2e4)",
      "local f = coroutine.wrap(function() while true do coroutine.yield() end end) for i = 1, 4e5 do f() end",
  };
  for (const std::string& code : cases) EXPECT_EQ(error(code), "1: " + kEndless) << code;
  for (const std::string code :
       {"table.move({}, 1, math.maxinteger - 1, 2)", "table.move({}, math.mininteger, -2, 2)",
        "table.insert(setmetatable({}, {__len = function() return math.maxinteger - 1 end}), 1, 0)"})
    EXPECT_EQ(error(code), "1: one call needs more than the 10 million Lua instructions that a hook may use") << code;
  // Cheap operations are charged little.
  EXPECT_EQ(
      run(list + "for i = 1, 2e5 do table.insert(t, i) table.remove(t) table.insert(t, #t + 1, i) table.remove(t, "
                 "#t) end return #t"),
      "10000");
  EXPECT_EQ(run("local s = ('x'):rep(1e5) for i = 1, 1e5 do s:byte(i) end return 'read'"), "read");
  EXPECT_EQ(run("return table.concat({table.unpack({1, 2, 3})}, ' ', 2, 3) .. #table.move({1, 2}, 1, 2, 3)"), "2 34");
  EXPECT_EQ(error("table.insert(3)"), "1: bad argument #1 to 'insert' (table expected, got number)");
  EXPECT_EQ(run("local n = 0 for i = 1, 1e5 do n = n + select('#', pcall(select, 2, i, i)) end return n"), "200000");
}

// Short coroutines execute instructions that no check counts.
TEST_F(RuntimeTest, LimitsCpuTime) {
  RuntimeOptions limited = options();
  limited.budget.instructions = 100'000'000'000;
  limited.budget.seconds = 0.05;
  for (const std::string code :
       {"while true do coroutine.wrap(function() for i = 1, 1000 do end end)() end",
        "local s = ('a'):rep(200) while true do pcall(string.find, s, ('a-'):rep(3) .. 'b') end"}) {
    Runtime runtime(limited);
    try {
      run(runtime, code);
      FAIL() << code;
    } catch (const Error& error) {
      EXPECT_STREQ(error.what(), "h.lua:1: the hook has run for 0.05 s of CPU time: is there an endless loop?");
    }
    EXPECT_EQ(run(runtime, "return 'usable'"), "usable");
  }
}

TEST_F(RuntimeTest, ReadOnlyTablesStayReadOnly) {
  Runtime runtime(options());
  lua_State* const state = runtime.state();
  lua_newtable(state);
  lua_pushinteger(state, 1);
  lua_setfield(state, -2, "known");
  seal(state, "sealed");
  lua_setglobal(state, "sealed");
  for (const std::string code : {"rawset(sealed, 'x', 2)", "sealed.x = 2", "local _, t = pairs(sealed) t.x = 2",
                                 "rawset(sealed, 'known', 2)", "table.insert(sealed, 2)"}) {
    try {
      run(runtime, code);
      FAIL() << code;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("cannot be set; keep your own values in a local table"),
                std::string::npos)
          << error.what();
    }
  }
  EXPECT_EQ(run(runtime, "return sealed.known .. tostring(sealed.x)"), "1nil");
  EXPECT_EQ(run(runtime, "local t = setmetatable({}, {__newindex = rawset}) t.a = 3 return t.a .. rawset({}, 1, 2)[1]"),
            "32");
  EXPECT_EQ(run(runtime, "local sum = 0 for _, v in pairs(sealed) do sum = sum + v end return sum"), "1");
}

TEST_F(RuntimeTest, PcallBehavesLikeLua) {
  EXPECT_EQ(run("return table.concat({tostring(pcall(error, 'a')), select('#', pcall(error)), "
                "select(2, pcall(error, 'b', 0)), select('#', pcall(table.unpack, {}, 1, 200))}, ' ')"),
            "false 2 b 201");
  EXPECT_EQ(
      run("local c = coroutine.wrap(function() return pcall(function() coroutine.yield(1) error('late', 0) end) end) "
          "c() return table.concat({tostring((c())), 'caught'}, ' ')"),
      "false caught");
  EXPECT_EQ(error("pcall()"), "1: bad argument #1 to 'pcall' (value expected)");
}

TEST_F(RuntimeTest, InterruptionShortensTheBudget) {
  Runtime runtime(options());
  bool interrupted = false;
  runtime.set_interrupted([&] { return interrupted; });
  const std::string count = "for i = 1, 2e6 do end return 'counted'";
  EXPECT_EQ(run(runtime, count), "counted");
  interrupted = true;
  for (const std::string& code : {count, std::string("while true do local t = {} for i = 1, 100 do t[i] = {} end end"),
                                  std::string("while true do pcall(error) end")}) {
    try {
      run(runtime, code);
      FAIL() << code;
    } catch (const Error& error) {
      EXPECT_STREQ(error.what(),
                   "h.lua:1: the hook has run for 1 million Lua instructions after the run was interrupted: is there "
                   "an endless loop?");
    }
  }
  EXPECT_EQ(run(runtime, "for i = 1, 1e5 do end return 'counted'"), "counted") << "the budget suffices";
  interrupted = false;
  EXPECT_EQ(run(runtime, count), "counted");
}

TEST_F(RuntimeTest, LimitsMemory) {
  const std::string full = "the hook uses more than 8 MiB of Lua memory";
  EXPECT_EQ(error("local t = {} for i = 1, 1e9 do t[i] = i end"), "0: " + full);
  EXPECT_EQ(error("local s = 'x' while true do s = s .. s end"), "0: " + full);
  EXPECT_EQ(error("return ('x'):rep(1e7)"),
            "1: string.rep: 10000000 times 1 bytes exceed the 8 MiB of memory of a hook");
  EXPECT_EQ(error("local t = {} for i = 1, 100 do t[i] = ('x'):rep(1e5) end return table.concat(t, ('y'):rep(1e5))"),
            "0: " + full);
  EXPECT_EQ(run("local ok, e = pcall(string.rep, 'x', 1e12) return tostring(ok)"), "false")
      << "the error can be caught";
  // The error is about memory, not an endless loop, even though each collection frees a little.
  EXPECT_EQ(error("local t = {} while true do t[#t + 1] = ('x'):rep(1000) .. #t end").substr(3), full);
  // Catching the error does not help, not even in a coroutine.
  const std::string fill =
      "local t = {} local function f() for i = 1, 1e9 do t[#t + 1] = ('x'):rep(1000) .. i end end ";
  for (const std::string& loop :
       {fill + "while true do pcall(f) end", fill + "coroutine.wrap(function() while true do pcall(f) end end)()"}) {
    const std::string message = error(loop);
    EXPECT_TRUE(message.ends_with(full)) << message;
  }
}

TEST_F(RuntimeTest, AcceptsAnyErrorObject) {
  EXPECT_EQ(error("error('bad thing')"), "1: bad thing");
  EXPECT_EQ(error("error({1})"), "1: error() got a value of type table; pass a string");
  EXPECT_EQ(error("error()"), "1: error() got a value of type nil; pass a string");
  EXPECT_EQ(error("error(setmetatable({}, {__tostring = function() return 'told' end}))"), "1: told");
  EXPECT_EQ(error("error('without a place', 0)"), "1: without a place");
  EXPECT_EQ(error("error('a\\0b')"), "1: a\\x00b");
  EXPECT_LT(error("require(('x'):rep(1e6))").size(), 5000);
  EXPECT_EQ(error("error(('x'):rep(5000))"), "1: " + std::string(4096, 'x') + "… (5000 bytes)");
  EXPECT_EQ(
      error("error('x' .. ('ä'):rep(3000))"), "1: x" + [] {
        std::string text;
        for (int i = 0; i < 2047; ++i) text += "ä";
        return text;
      }() + "… (6001 bytes)");
  EXPECT_EQ(error("local x <close> = setmetatable({}, {__close = function() error('closing') end})"), "1: closing");
}

TEST_F(RuntimeTest, ErrorsListTheCallers) {
  Runtime runtime(options());
  try {
    run(runtime, "local function inner() error('deep') end\nlocal function outer()\n  inner()\nend\nouter()");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.where().to_string(), "h.lua:1");
  }
  write("h.lua", "function f() local x = nil; return x.y end");
  runtime.run_file("h.lua");
  lua_getglobal(runtime.state(), "f");
  try {
    runtime.call(runtime.state(), 0, 0);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "h.lua:1: attempt to index a nil value (local 'x')");
    EXPECT_EQ(error.kind(), ErrorKind::kRun);
  }
}

TEST_F(RuntimeTest, RejectsInvalidFiles) {
  Runtime runtime(options());
  const auto refused = [&](const std::string& contents) -> std::string {
    write("h.lua", contents);
    try {
      runtime.run_file("h.lua");
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kRecipe);
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refused("return {\n  x = = 3 }"), "h.lua:2: unexpected symbol near '='");
  EXPECT_EQ(refused("\x1bLua"), "the hook h.lua is compiled Lua; expected Lua source text");
  EXPECT_EQ(refused("\n\nreturn '\xff'"), "h.lua:3: the hook is not UTF-8 text");
  EXPECT_EQ(refused(std::string("\xff\xfe-\0", 4)), "the hook h.lua is UTF-16 text; save it as UTF-8");
  EXPECT_EQ(refused("\xef\xbb\xbf"
                    "return {}"),
            "");
  EXPECT_EQ(refused(std::string((size_t{16} << 20) + 1, ' ')), "the hook h.lua is larger than 16 MiB");
  EXPECT_EQ(refused(""), "") << "the file returns nothing";
  EXPECT_THROW(runtime.run_file("none.lua"), Error);
  EXPECT_THROW(runtime.run_file("lib"), Error);
}

TEST_F(RuntimeTest, SkipsByteOrderMarkAndShebang) {
  for (const char* skipped : {"\xef\xbb\xbf", "#!/usr/bin/lua\n", "\xef\xbb\xbf#!/usr/bin/lua\n"})
    EXPECT_EQ(run(std::string(skipped) + "return 1"), "1") << skipped;
  EXPECT_EQ(run("#!/usr/bin/lua"), "nil");
  EXPECT_EQ(error("#!/usr/bin/lua\nerror('here')"), "2: here");
  EXPECT_TRUE(error("return 1\n#!").starts_with("2: ")) << "only the first line";
}

// Equal runs must print equal lines, which addresses would prevent.
TEST_F(RuntimeTest, PrintsNoAddresses) {
  run("print({}, print, coroutine.create(print), function() end) print(nil, 1.5, 'a', true) return 1");
  EXPECT_EQ(printed_, "table\tfunction\tthread\tfunction\nnil\t1.5\ta\ttrue\n");
  EXPECT_EQ(run("return tostring({}) .. tostring(print) .. tostring(12)"), "tablefunction12");
  EXPECT_EQ(
      run("return ('%s|%5.3s|%-9s|%%s|%d'):format({}, print, setmetatable({}, {__tostring = function() return 'told' "
          "end}), 7)"),
      "table|  fun|told     |%s|7");
  EXPECT_EQ(error("return ('%d %p'):format(1, {})"),
            "1: string.format: %p prints an address, which differs between runs; use %s");
  EXPECT_EQ(error("return ('%s %s'):format(1)"), "1: bad argument #2 to 'format' (no value)");
  EXPECT_EQ(run("return tostring(setmetatable({}, {__tostring = function() return 'told' end}))"), "told");
  EXPECT_EQ(run("return tostring(setmetatable({}, {__name = 'Thing'}))"), "Thing");
  EXPECT_EQ(run("return tostring(setmetatable({}, {__name = {}}))"), "table");
  EXPECT_EQ(error("tostring()"), "1: bad argument #1 to 'tostring' (value expected)");
}

TEST_F(RuntimeTest, RejectsNamesThatNoFileCanHave) {
  const std::string message = error("require(('a'):rep(5000))");
  EXPECT_TRUE(message.starts_with("1: require: module 'aaaa")) << message.substr(0, 200);
}

TEST_F(RuntimeTest, RequireLoadsAFileOnce) {
  write("lib/tools.lua", "count = (count or 0) + 1\nreturn {twice = function(x) return 2 * x end}");
  EXPECT_EQ(run("local a, b = require 'lib.tools', require 'lib.tools' return tostring(a == b) .. a.twice(count)"),
            "true2");
  write("lib/loop.lua", "return require 'lib.loop'");
  Runtime runtime(options());
  EXPECT_THROW(run(runtime, "return require 'lib.loop'"), Error);
  ASSERT_EQ(runtime.sources().size(), 2u);
  EXPECT_EQ(runtime.sources()[1].path, "lib/loop.lua");
  EXPECT_EQ(runtime.sources()[1].text, "return require 'lib.loop'");
}

// Lua seeds its hashes with addresses and the time, and the order of its string keys depends on them.
TEST_F(RuntimeTest, VisitsKeysInAFixedOrder) {
  const std::string code = R"(
    local t = {[3] = 0, [1] = 0, [2.5] = 0, [true] = 0, [false] = 0}
    for i = 1, 60 do t["key" .. i * 7 % 61] = i end
    local keys, also = {}, {}
    for k in pairs(t) do keys[#keys + 1] = tostring(k); t[k] = nil end  -- taking entries away is allowed
    assert(next(t) == nil)
    for i, k in ipairs(keys) do t[k] = i end
    for k in next, t do also[#also + 1] = k end
    return table.concat(keys, " ") .. "|" .. table.concat(also, " "))";
  const std::string wanted = [] {
    std::vector<std::string> texts;
    for (int i = 1; i <= 60; ++i) texts.push_back(fmt::format("key{}", i * 7 % 61));
    std::sort(texts.begin(), texts.end());
    std::vector<std::string> all = texts;
    for (const char* text : {"1", "2.5", "3", "false", "true"}) all.emplace_back(text);
    std::sort(all.begin(), all.end());
    return fmt::format("1 2.5 3 {} false true|{}", fmt::join(texts, " "), fmt::join(all, " "));
  }();
  EXPECT_EQ(run(code), wanted);
  // The iterator uses its own table for any arguments.
  EXPECT_EQ(run("return pairs({a = 1})()"), "a");
  EXPECT_EQ(run("return select(2, pairs({a = 1})(5))"), "1");
  EXPECT_EQ(run("local n = 0 for k, v in pairs({{}, {}, [print] = 1, [{}] = 2}) do n = n + 1 end return n"), "4");
  EXPECT_EQ(
      run("local t = setmetatable({}, {__pairs = function() return function(_, k) return not k and 'own' or nil end "
          "end}) for k in pairs(t) do return k end"),
      "own");
}

TEST_F(RuntimeTest, RandomNumbersDependOnTheSeed) {
  const std::string code = "local t = {} for i = 1, 5 do t[i] = math.random(1000) end return table.concat(t, ' ')";
  Runtime one(options(1)), same(options(1)), other(options(2));
  const std::string first = run(one, code), second = run(one, code);
  EXPECT_NE(first, second);
  EXPECT_NE(first, run(other, code));
  EXPECT_EQ(run(same, code), first);
  EXPECT_EQ(same.random_draws(), 5u);
  other.set_random_draws(5);
  Runtime resumed(options(1));
  resumed.set_random_draws(5);
  EXPECT_EQ(run(resumed, code), second) << "the count of draws determines the stream";

  EXPECT_EQ(
      run("for i = 1, 1000 do local x = math.random() assert(x >= 0 and x < 1) local n = math.random(-2, 2) assert(n "
          ">= -2 and n <= 2 and math.type(n) == 'integer') end return 'held'"),
      "held");
  EXPECT_EQ(run("local n = {0, 0, 0} for i = 1, 30000 do local k = math.random(3) n[k] = n[k] + 1 end for _, c in "
                "ipairs(n) do "
                "assert(c > 9600 and c < 10400, c) end return 'even'"),
            "even");
  EXPECT_EQ(error("math.random(2, 1)"), "1: math.random: the interval from 2 to 1 is empty");
  EXPECT_EQ(run("return math.type(math.random(0)) .. math.type(math.random(math.mininteger, math.maxinteger))"),
            "integerinteger");
}

TEST_F(RuntimeTest, Prints) {
  run("print('a', 1, nil, 2.5) print()");
  EXPECT_EQ(printed_, "a\t1\tnil\t2.5\n\n");
}

}  // namespace
}  // namespace runner::lua
