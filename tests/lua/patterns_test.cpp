// Compares our pattern functions with Lua's own: the same calls in two states, with results and errors compared as
// text.
#include "runner/lua/patterns.h"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <lua.hpp>

#include "runner/lua/work_meter.h"
#include "tests/lua/pattern_calls.h"

namespace runner::lua {
namespace {

using State = std::unique_ptr<lua_State, void (*)(lua_State*)>;

State new_state() {
  State state(luaL_newstate(), lua_close);
  luaL_openlibs(state.get());
  return state;
}

State our_state(int64_t budget = Budget{}.pattern_steps) {
  State state = new_state();
  replace_pattern_functions(state.get(), budget);
  return state;
}

// Returns the value at the top of the stack as text, or its type if it is neither a string nor a number. Clears the
// stack.
std::string take_result(lua_State* state) {
  size_t size = 0;
  const char* text = lua_tolstring(state, -1, &size);
  std::string result = text == nullptr ? luaL_typename(state, -1) : std::string(text, size);
  lua_settop(state, 0);
  return result;
}

// Runs a chunk named "hook.lua" and returns its first result or its error.
std::string run(lua_State* state, const std::string& chunk) {
  const bool good =
      luaL_loadbuffer(state, chunk.data(), chunk.size(), "@hook.lua") == LUA_OK && lua_pcall(state, 0, 1, 0) == LUA_OK;
  return (good ? "" : "error: ") + take_result(state);
}

// Arguments of a call of `calls`; an absent number is nil.
struct Call {
  std::string subject, pattern, replacement;
  int init = kAbsent, most = kAbsent;

  static constexpr int kAbsent = 1 << 20;
};

std::string describe(lua_State* state, const Call& call) {
  lua_getglobal(state, "calls");
  for (const std::string* text : {&call.subject, &call.pattern, &call.replacement}) {
    lua_pushlstring(state, text->data(), text->size());
  }
  for (const int number : {call.init, call.most}) {
    number == Call::kAbsent ? lua_pushnil(state) : lua_pushinteger(state, number);
  }
  const int status = lua_pcall(state, 5, 1, 0);
  return (status == LUA_OK ? "" : "error: ") + take_result(state);
}

class Patterns : public ::testing::Test {
 protected:
  Patterns() {
    EXPECT_EQ(run(stock_.get(), kPatternCalls), "nil");
    EXPECT_EQ(run(ours_.get(), kPatternCalls), "nil");
  }

  // Expects the same answer from both states, and returns that of stock Lua.
  std::string same(const Call& call) {
    const std::string wanted = describe(stock_.get(), call);
    EXPECT_EQ(describe(ours_.get(), call), wanted)
        << fmt::format("subject {:?}, pattern {:?}, replacement {:?}, init {}, most {}", call.subject, call.pattern,
                       call.replacement, call.init, call.most);
    return wanted;
  }
  void same_chunk(const std::string& chunk) { EXPECT_EQ(run(ours_.get(), chunk), run(stock_.get(), chunk)) << chunk; }

  State stock_ = new_state(), ours_ = our_state();
};

std::string times(int count, const std::string& text) {
  std::string result;
  for (int i = 0; i < count; ++i) result += text;
  return result;
}

std::vector<std::string> words(const std::string& text) {
  std::istringstream in(text);
  return {std::istream_iterator<std::string>(in), {}};
}

// Replaces each Z by a zero byte.
std::string with_zeros(std::string text) {
  std::replace(text.begin(), text.end(), 'Z', '\0');
  return text;
}

// An expression and its first value per line.
constexpr const char* kExamples = R"~(
string.gsub("hello world", "(%w+)", "%1 %1")                         => hello hello world world
string.gsub("hello world", "%w+", "%0 %0", 1)                        => hello hello world
string.gsub("hello world from Lua", "(%w+)%s*(%w+)", "%2 %1")        => world hello Lua from
string.gsub("home = $HOME, user = $USER", "%$(%w+)", {HOME = "/h", USER = "r"}) => home = /h, user = r
string.gsub("4+5 = $return 4+5$", "%$(.-)%$", function(s) return load(s)() end) => 4+5 = 9
string.gsub("$name-$version.tar.gz", "%$(%w+)", {name = "lua", version = "5.4"}) => lua-5.4.tar.gz
select(2, string.gsub("abc", "", ""))                                => 4
string.gsub("abc", "%w", "%%%0")                                     => %a%b%c
all("(%w+)=(%w+)", "from=world, to=Lua")                             => from world|to Lua
all("%a+", "hello world from Lua")                                   => hello|world|from|Lua
all("^a", "aab^a")                                                   => ^a
table.concat({string.find("flaaap", "()aa()")}, " ")                 => 3 4 3 5
table.concat({string.match("abc,,", "(%a*(.)(%p*))")}, "|")          => abc,,|,|,
string.match("f(a(b)c)d", "%b()")                                    => (a(b)c)
string.gsub("THE (quick) fox", "%f[%a]%a+%f[%A]", "w")               => w (w) w
select(2, string.match("say 'it', \"so\"", "([\"'])(.-)%1"))         => it
string.find("a.b", ".", 2, true)                                     => 2
string.match("2026-11-21", "^(%d+)-(%d+)", 1)                        => 2026
string.match("hello", "^l", 3)                                       => l
("x"):rep(3):gsub("x", "y")                                          => yyy
)~";

TEST_F(Patterns, ExamplesOfTheManual) {
  const std::string all = R"~(
    local function all(pattern, text)
      local found = {}
      for a, b in text:gmatch(pattern) do found[#found + 1] = a .. (b and " " .. b or "") end
      return table.concat(found, "|")
    end
    )~";
  std::istringstream lines(kExamples + 1);
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    const size_t arrow = line.find(" => ");
    ASSERT_NE(arrow, std::string::npos) << line;
    const std::string chunk = all + "return (select(1, " + line.substr(0, arrow) + "))";
    EXPECT_EQ(run(ours_.get(), chunk), line.substr(arrow + 4)) << line;
    same_chunk(chunk);
  }
  EXPECT_EQ(count, 20);
}

TEST_F(Patterns, ClassesContainTheSameBytes) {
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes.push_back(static_cast<char>(i));
  for (int letter = 1; letter < 256; ++letter) {
    const std::string escaped = std::string("%") + static_cast<char>(letter);
    for (const std::string& pattern : {escaped, "[" + escaped + "]", "[^" + escaped + "x]", escaped + "+"}) {
      same({bytes, pattern, "."});
    }
    same({bytes, std::string(1, static_cast<char>(letter)), "."});
  }
}

TEST_F(Patterns, UnusualPatternsMatchAlike) {
  std::vector<std::string> patterns = words(R"~(
      ^ $ ^$ a$b a^b ( ) () (() ()) (a a) % a% %% [ [] [^ [^] []] [^]] []-a] [a-] [-a] [a-%z] [%a-z] [a-b-c] [%] [%]] [a%
      [a- [a [^^] [^a %b %ba %bab %bab+ %baa %b() %f %fa %f[ %f[a %f[a] %f[^a] %f[%z] %0 %1 (%1) (a)%1 (a)%2 ()%1 (a*)%1
      ((a)%2)%1 (a)(b)(c)(d)(e)(f)(g)(h)(i)%9 a** a+* a?+ a-- * +a ? - ^* ^a* . .* .- .-$ (.-)$ (.*)(.*) a?a?a?aaa
      (a?)(a?)(b?) ^(a) (^a) $a (a$) ()a() (((a))) ((a)(b)) ((a) a-b %a-b [ab]-c x* %u%l %d+%.)~");
  for (const char* text : {"", "Z", "[Z]", "aZ", "%Z", "%bZa", "Z*", "%fZ"}) patterns.push_back(with_zeros(text));
  const std::vector<std::string> subjects{"",
                                          "a",
                                          "ab",
                                          "aab",
                                          "baab",
                                          "(a(b)c)",
                                          "a-b]^]",
                                          "a%b$c",
                                          "abcdefghii",
                                          with_zeros("aaZb"),
                                          "x=1, y=22.5",
                                          "\xff\x80z-["};
  for (const std::string& pattern : patterns) {
    for (const std::string& subject : subjects) {
      for (const char* replacement : {"<%0>", "%1", "%2%%", "%", "%x", "", "abc"})
        same({subject, pattern, replacement});
      for (const int init : {-100, -2, -1, 0, 1, 2, 3, 4, 100}) same({subject, pattern, "%0%0", init, init});
    }
  }
}

TEST_F(Patterns, DepthAndCaptureLimitsAreTheSame) {
  for (int count : {1, 31, 32, 33, 197, 198, 199, 200, 201, 202, 400}) {
    for (const char* item : {"a?", "a*", "a-", "(a)", "()", "(a", "(a*", "a", "b?", "b*", "[ab]?", "((a)"}) {
      same({std::string(300, 'a'), times(count, item), "%1"});
      same({std::string(300, 'a'), times(count, item) + ")", "%0"});
    }
    same({times(300, "ab"), times(count, "a+b"), "%1"});
  }
  // Both kinds of results occur.
  EXPECT_NE(same({std::string(300, 'a'), times(199, "a?"), ""}).find("find = 1, 199"), std::string::npos);
  EXPECT_NE(same({std::string(300, 'a'), times(200, "a?"), ""}).find("pattern too complex"), std::string::npos);
  EXPECT_NE(same({std::string(300, 'a'), times(33, "()"), ""}).find("too many captures"), std::string::npos);
}

TEST_F(Patterns, WrongArgumentsGiveTheSameErrors) {
  std::istringstream calls(R"~(string.find()
string.find('a')
string.find({}, 'a')
string.find('a', nil)
string.find('a', 'a', 'x')
string.find('a', 'a', 1.5)
string.find(12, 2)
string.find('a', 'a', math.mininteger)
string.find('a', 'a', math.maxinteger)
string.match()
string.match('a', {})
string.gmatch('a')
string.gmatch('a', 'a', {})
string.gmatch(nil, 'a')()
string.gmatch('a', 'a', math.maxinteger)()
string.gmatch('a', 'a', math.mininteger)()
string.gsub('a', 'a')
string.gsub('a', 'a', true)
string.gsub('a', 'a', nil, 'x')
string.gsub('a', 'a', print, 'x')
string.gsub('a', 'a', 'b', 1.5)
string.gsub('a', 'a', 'b', math.mininteger)
string.gsub('a', 'a', 'b', math.maxinteger)
string.gsub('a', 'a', 7)
string.gsub(1212, 1, 3, 1)
string.gsub('a', 'a', {a = true})
string.gsub('a', 'a', function() return {} end)
string.gsub('a', 'a', function() error('mine') end)
string.gsub('a', 'a', function() error({}) end)
string.gsub('a', 'a', coroutine.yield)
('a'):find()
('a'):gsub('(')
('a'):gsub('(', '')
('a'):match('%'))~");
  int count = 0;
  for (std::string call; std::getline(calls, call); ++count) {
    const std::string chunk = "local f = function()\n return " + call + " end\n";
    same_chunk(chunk + "return (f())");
    same_chunk(chunk + "return (coroutine.wrap(f)())");
  }
  EXPECT_EQ(count, 34);
}

TEST_F(Patterns, IteratorsAreIndependentAndUseMetamethods) {
  same_chunk(R"~(
    local out = {}
    local first, second = string.gmatch("abcabc", "(.)b()"), ("xyz"):gmatch(".")
    for i = 1, 5 do out[i] = tostring((first())) .. tostring((second())) end
    return table.concat(out, " "))~");
  same_chunk(R"~(
    local asked = {}
    local t = setmetatable({}, {__index = function(_, key) asked[#asked + 1] = key; return key:upper() end})
    return string.gsub("one two", "%w+", t) .. table.concat(asked, ","))~");
  same_chunk(R"~(return (string.gsub("aXbX", "X", function() return (string.gsub("12", "%d", "<%0>")) end)))~");
  same_chunk(R"~(return table.concat({string.rep("ab", 5000):gsub("(a)(b)", "%2%1%0")}, " "))~");
}

// Returns a pattern with few repetitions, so that stock Lua finishes quickly.
std::string random_pattern(const std::function<size_t(size_t)>& below) {
  static const std::vector<std::string> items{"a",  "b",    "c",       ".",    "%a",    "%d",    "%W",
                                              "%s", "[ab]", "[\"-%%]", "[^a]", "[a-c]", "[%d_]", "[]]",
                                              "%.", "-",    " ",       "x",    "\xe4"};
  static const std::vector<std::string> others{"(",
                                               ")",
                                               "()",
                                               "%1",
                                               "%2",
                                               "%b()",
                                               "%bab",
                                               "%f[%w]",
                                               "%f[^a]",
                                               "^",
                                               "$",
                                               "%",
                                               "[",
                                               "]",
                                               "[^",
                                               "%0",
                                               "%f",
                                               "%b",
                                               std::string(1, '\0')};
  std::string pattern = below(5) == 0 ? "^" : "";
  int open = 0, repeats = 0;
  for (size_t left = 1 + below(5); left > 0; --left) {
    if (below(6) == 0) {
      pattern += "(";
      ++open;
    }
    pattern += below(8) == 0 ? others[below(others.size())] : items[below(items.size())];
    if (repeats < 5 && below(2) == 0) {
      pattern += "*+-?"[below(4)];
      ++repeats;
    }
    if (open > 0 && below(3) == 0) {
      pattern += ")";
      --open;
    }
  }
  while (open-- > 0 && below(8) != 0) pattern += ")";
  return below(8) == 0 ? pattern + "$" : pattern;
}

TEST_F(Patterns, RandomPatternsMatchAlike) {
  std::mt19937 random(20261121);
  const auto below = [&](size_t bound) { return random() % bound; };
  const std::string letters("aaabbbc1_ .-()]\xe4\0A", 18);
  const std::vector<std::string> replacements{"", "x", "<%0>", "%1", "%2", "%1%1", "%%", "%", "a%9", "%0%1"};
  int fails = 0, finds = 0;
  for (int round = 0; round < 30'000 && !HasFailure(); ++round) {
    Call call{"", random_pattern(below), replacements[below(replacements.size())]};
    for (size_t left = below(16); left > 0; --left) call.subject += letters[below(letters.size())];
    if (below(3) == 0) call.init = static_cast<int>(below(24)) - 8;
    if (below(3) == 0) call.most = static_cast<int>(below(6)) - 1;
    const std::string result = same(call);
    fails += result.starts_with("find fails");
    finds += result.starts_with("find = ") && !result.starts_with("find = nil");
  }
  EXPECT_GT(fails, 2'000);
  EXPECT_GT(finds, 6'000);
}

// ---- differences from Lua's own functions

TEST(PatternBudget, ErrorExplainsAnEndlessPattern) {
  const State state = our_state(1'000'000);
  EXPECT_EQ(
      run(state.get(), "local s = ('a'):rep(28)\nreturn s:match(('a?'):rep(28) .. s .. 'b')"),
      "error: hook.lua:2: pattern 'a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?...' aborted after 1000000 steps on a "
      "string of 28 bytes: excessive backtracking of its repetitions; use fewer repetitions, or sets that exclude the "
      "text that follows");
  EXPECT_EQ(
      run(state.get(), R"(return ("x"):rep(3000):find("\0?.-.-\xff?\n?'?.-.-y"))"),
      "error: hook.lua:1: pattern '\\000?.-.-\\255?\\010?'?.-.-y' aborted after 1000000 steps on a string of 3000 "
      "bytes: excessive backtracking of its repetitions; use fewer repetitions, or sets that exclude the text that "
      "follows");
}

TEST(PatternBudget, AppliesToAllFunctionsAndKindsOfItems) {
  const State state = our_state(300'000);
  EXPECT_EQ(run(state.get(), R"(a, b = ("a"):rep(1000), ("(("):rep(2000))"), "nil");
  std::istringstream calls(R"~(a:find('.-.-.-b')
a:match('a*a*a*b')
a:gsub('.*.*b', '')
a:gmatch('a+a+b')()
a:gsub('[ab]-[ac]-[^b]-b', {})
a:find('(a*)(a*)%1%2b')
b:find('%b()')
b:gsub('%b()', print)
b:find('.-%b()$')
a:find(('%f[a]a?'):rep(30) .. ('a?'):rep(60) .. 'b')
a:rep(50):gsub('^.*(.-)b', '')
a:rep(50):find('^(a*)%1b')
a:find('^[' .. ('b'):rep(5000) .. 'a]*c')
a:find('[a' .. ('b'):rep(5000) .. ']c')
a:rep(1000):match('^a*'))~");
  for (std::string call; std::getline(calls, call);) {
    const std::string result = run(state.get(), fmt::format("return {}", call));
    EXPECT_NE(result.find("aborted after 300000 steps"), std::string::npos) << call << ": " << result;
  }
}

TEST(PatternBudget, AppliesPerCallAndItsErrorCanBeCaught) {
  const State state = our_state(10'000);
  EXPECT_EQ(run(state.get(), R"(
    local caught = 0
    for i = 1, 100 do
      caught = caught + (pcall(string.find, ("a"):rep(200), ".-.-b") and 0 or 1)
      assert(("a"):rep(4000):find("b$") == nil)
    end
    for at in ("ab"):rep(4000):gmatch("()b") do last = at end
    return caught .. " " .. last)"),
            "100 8000");
}

TEST(PatternBudget, CountsStepsNotTime) {
  const std::string chunk = "return (('a'):rep(100):find('.-.-b'))";
  int64_t too_few = 5'000, enough = 1'000'000;  // the square and the cube of the text's length
  while (enough - too_few > 1) {
    const int64_t middle = (enough + too_few) / 2;
    (run(our_state(middle).get(), chunk) == "nil" ? enough : too_few) = middle;
  }
  EXPECT_EQ(run(our_state(enough).get(), chunk), "nil");
  EXPECT_NE(run(our_state(too_few).get(), chunk).find("aborted after"), std::string::npos);
}

TEST(PatternBudget, AllowsLargeTextsAndLongSearches) {
  const State state = our_state();
  EXPECT_EQ(run(state.get(), "return select(2, ('word 12, '):rep(500000):gsub('%w+', '%0'))"), "1000000");
  // Runs in time linear in the text. A naive search would compare 2.5e11 bytes.
  EXPECT_EQ(run(state.get(), "return (('a'):rep(1000000):find(('a'):rep(500000) .. 'b', 1, true))"), "nil");
  EXPECT_EQ(run(state.get(), "return (('a'):rep(1000000):find(('a'):rep(500000) .. 'b'))"), "nil");
}

int count_events;
int caller_line;

void count_five(lua_State* state, lua_Debug* caller) {
  if (caller->event != LUA_HOOKCOUNT) return;
  lua_getinfo(state, "l", caller);
  caller_line = caller->currentline;
  if (++count_events == 5) luaL_error(state, "too long");
}

TEST(PatternBudget, CountHookRunsDuringLongCallsAndMayEndThem) {
  const State state = our_state(10 * kPatternStepsPerHook);
  const std::string chunk = "local s = ('a'):rep(100000)\n\nreturn s:gsub('.-.-b', '%0')";
  lua_sethook(state.get(), count_five, LUA_MASKCOUNT, 1 << 30);
  count_events = 0;
  EXPECT_EQ(run(state.get(), chunk), "error: hook.lua:3: too long");
  EXPECT_EQ(count_events, 5);
  EXPECT_EQ(caller_line, 3);
  // The hook is not called during a short call, or if it is not a count hook.
  count_events = 0;
  EXPECT_EQ(run(state.get(), "return (('a'):rep(100):find('.-b'))"), "nil");
  lua_sethook(state.get(), count_five, LUA_MASKRET, 0);
  EXPECT_NE(run(state.get(), chunk).find("aborted after"), std::string::npos);
  EXPECT_EQ(count_events, 0);
}

// Allocator that fails from allocation number `fails` on.
struct Memory {
  int fails;
  int made = 0;
  size_t held = 0;

  static void* allocate(void* self, void* block, size_t old_size, size_t size) {
    auto& memory = *static_cast<Memory*>(self);
    const size_t had = block == nullptr ? 0 : old_size;
    if (size > had && memory.fails >= 0 && ++memory.made >= memory.fails) return nullptr;
    void* result = size == 0 ? nullptr : std::realloc(block, size);
    if (size == 0) std::free(block);
    memory.held += size - had;
    return result;
  }
};

TEST(PatternMemory, AllocationFailureRaisesAnErrorWithoutLeak) {
  const std::string chunk = R"~(
    local words = {}
    for a, b in ("alpha beta gamma delta"):gmatch("(%a+) (%a+)") do words[#words + 1] = a .. b end
    local s, n = ("one two "):rep(100):gsub("(%w)(%w*)", function(a, b) return b .. a end)
    return #words .. s:match("^%w+") .. n .. (s:gsub("%w", "%0%0%0")):len())~";
  int refused = 0;
  std::string result;
  for (int fails = 1; fails < 5000 && result.find("2neo200") != 0; ++fails) {
    Memory memory{-1};
    {
      const State state(lua_newstate(Memory::allocate, &memory), lua_close);
      luaL_openlibs(state.get());
      replace_pattern_functions(state.get(), Budget{}.pattern_steps);
      ASSERT_EQ(luaL_loadbuffer(state.get(), chunk.data(), chunk.size(), "@hook.lua"), LUA_OK);
      lua_gc(state.get(), LUA_GCSTOP);
      memory.fails = fails;
      const int status = lua_pcall(state.get(), 0, 1, 0);
      memory.fails = -1;
      ASSERT_TRUE(status == LUA_OK || status == LUA_ERRMEM) << status;
      result = lua_tostring(state.get(), -1);
      if (status == LUA_ERRMEM) {
        ++refused;
        EXPECT_EQ(result, "not enough memory");
        EXPECT_EQ(run(state.get(), "return (('still there'):gsub('%s', '-'))"), "still-there");
      }
    }
    ASSERT_EQ(memory.held, 0U);
  }
  EXPECT_EQ(result, "2neo2002000");
  EXPECT_GT(refused, 20);
}

}  // namespace
}  // namespace runner::lua
