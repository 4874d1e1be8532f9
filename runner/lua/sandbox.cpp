#include <algorithm>

#include <lua.hpp>

#include "runner/lua/arguments.h"
#include "runner/lua/bind.h"
#include "runner/lua/libraries.h"
#include "runner/lua/patterns.h"
#include "runner/lua/runtime.h"
#include "runner/lua/seal.h"

namespace runner::lua {
namespace {

// ---- order of keys, independent of addresses and hash seeds --------------------------------------------------------

// Instructions charged for visiting an entry of a table, and for sorting one.
constexpr int64_t kWalk = 5, kSort = 20;

void spend(lua_State* state, int64_t instructions) {
  Runtime::of(state).spend(state, instructions);
}

// Order of keys: numbers, strings, false, true, then all other keys in Lua's own order.
int rank_of(lua_State* state, int index) {
  switch (lua_type(state, index)) {
    case LUA_TNUMBER: return 0;
    case LUA_TSTRING: return 1;
    case LUA_TBOOLEAN: return 2;
    default: return 3;
  }
}

bool key_less(lua_State* state, int a, int b) {
  const int rank = rank_of(state, a), other = rank_of(state, b);
  if (rank != other) return rank < other;
  if (rank == 2) return lua_toboolean(state, a) < lua_toboolean(state, b);
  return rank < 2 && lua_compare(state, a, b, LUA_OPLT) != 0;
}

// Pushes the smallest key of the table at 1 that is greater than the key at 2, or the smallest of all if that is nil;
// nil if there is none. Ignores keys of the last rank, which push_next_unordered() handles.
void push_next_key(lua_State* state) {
  const bool first = lua_isnil(state, 2);
  lua_pushnil(state);  // 3: the smallest so far
  lua_pushnil(state);
  for (; lua_next(state, 1) != 0; spend(state, kWalk)) {
    lua_pop(state, 1);
    if (rank_of(state, -1) == 3) continue;
    const bool follows = first || key_less(state, 2, -1);
    if (follows && (lua_isnil(state, 3) || key_less(state, -1, 3))) {
      lua_pushvalue(state, -1);
      lua_replace(state, 3);
    }
  }
}

// Pushes the next key of the last rank, in Lua's own order.
void push_next_unordered(lua_State* state) {
  if (!lua_isnil(state, 2) && rank_of(state, 2) == 3) {
    lua_pushvalue(state, 2);
  } else {
    lua_pushnil(state);
  }
  for (; lua_next(state, 1) != 0; spend(state, kWalk)) {
    lua_pop(state, 1);
    if (rank_of(state, -1) == 3) return;
  }
  lua_pushnil(state);
}

int next_entry(lua_State* state) {
  lua_settop(state, 2);
  if (!lua_istable(state, 1)) bad_argument(state, 1, "a table");
  unseal(state, 1);
  if (lua_isnil(state, 2) || rank_of(state, 2) != 3) {
    push_next_key(state);
    if (!lua_isnil(state, -1)) {
      lua_pushvalue(state, -1);
      lua_rawget(state, 1);
      return 2;
    }
    lua_pop(state, 1);
  }
  push_next_unordered(state);
  if (lua_isnil(state, -1)) return 1;
  lua_pushvalue(state, -1);
  lua_rawget(state, 1);
  return 2;
}

// Iterator of pairs. Upvalue 1: the sorted keys; upvalue 2: the number of keys returned so far; upvalue 3: the table,
// because callers may pass any arguments.
int next_of_keys(lua_State* state) {
  for (;;) {
    const lua_Integer at = lua_tointeger(state, lua_upvalueindex(2)) + 1;
    lua_pushinteger(state, at);
    lua_replace(state, lua_upvalueindex(2));
    if (lua_rawgeti(state, lua_upvalueindex(1), at) == LUA_TNIL) return 1;
    lua_pushvalue(state, -1);
    if (lua_rawget(state, lua_upvalueindex(3)) != LUA_TNIL) return 2;
    lua_pop(state, 2);  // removed in the meantime
  }
}

int pairs(lua_State* state) {
  if (luaL_getmetafield(state, 1, "__pairs") != LUA_TNIL) {
    lua_pushvalue(state, 1);
    lua_call(state, 1, 3);
    return 3;
  }
  if (!lua_istable(state, 1)) bad_argument(state, 1, "a table");
  lua_settop(state, 1);
  lua_newtable(state);  // 2: the keys with an order
  lua_newtable(state);  // 3: the others
  lua_Integer ordered = 0, others = 0;
  lua_pushnil(state);
  while (lua_next(state, 1) != 0) {
    lua_pop(state, 1);
    lua_pushvalue(state, -1);
    const bool has_order = rank_of(state, -1) < 3;
    lua_rawseti(state, has_order ? 2 : 3, has_order ? ++ordered : ++others);
  }
  spend(state, kWalk * (ordered + others));
  lua_pushvalue(state, lua_upvalueindex(1));  // table.sort
  lua_pushvalue(state, 2);
  lua_pushcfunction(state, [](lua_State* L) {
    lua_pushboolean(L, key_less(L, 1, 2));
    return 1;
  });
  lua_call(state, 2, 0);
  for (lua_Integer i = 1; i <= others; ++i) {
    lua_rawgeti(state, 3, i);
    lua_rawseti(state, 2, ordered + i);
  }
  lua_pushvalue(state, 2);
  lua_pushinteger(state, 0);
  lua_pushvalue(state, 1);
  lua_pushcclosure(state, next_of_keys, 3);
  lua_pushvalue(state, 1);
  return 2;
}

// ---- replaced functions --------------------------------------------------------------------------------------------

int print(lua_State* state) {
  const int count = lua_gettop(state);
  luaL_Buffer line;
  luaL_buffinit(state, &line);
  for (int i = 1; i <= count; ++i) {
    if (i > 1) luaL_addchar(&line, '\t');
    push_text_of(state, i);
    luaL_addvalue(&line);
  }
  luaL_pushresult(&line);
  size_t size = 0;
  const char* text = lua_tolstring(state, -1, &size);
  const auto& write = Runtime::of(state).options().print;
  if (write) write({text, size});
  return 0;
}

int checked_to_string(lua_State* state) {
  luaL_checkany(state, 1);
  push_text_of(state, 1);
  return 1;
}

// string.format. Upvalue 1: Lua's own function, whose %s and %p would show addresses.
int format(lua_State* state) {
  const std::string_view pattern = text_argument(state, 1);
  int argument = 1;
  for (size_t at = pattern.find('%'); at < pattern.size(); at = pattern.find('%', at + 1)) {
    at = pattern.find_first_not_of("-+ #0123456789.", at + 1);
    if (at == std::string_view::npos) break;
    if (pattern[at] == '%') continue;
    ++argument;
    RUN_CHECK(pattern[at] != 'p', ErrorKind::kRun,
              "string.format: %p prints an address, which differs between runs; use %s");
    if (pattern[at] != 's' || argument > lua_gettop(state)) continue;
    push_text_of(state, argument);
    lua_replace(state, argument);
  }
  return lua_tocfunction(state, lua_upvalueindex(1))(state);
}

// Rejects finalizers, which would run whenever the garbage collector chooses, and without a budget.
int set_metatable(lua_State* state) {
  if (!lua_istable(state, 1)) bad_argument(state, 1, "a table");
  if (!lua_isnoneornil(state, 2) && !lua_istable(state, 2)) bad_argument(state, 2, "a table or nil");
  lua_settop(state, 2);
  RUN_CHECK(luaL_getmetafield(state, 1, "__metatable") == LUA_TNIL, ErrorKind::kRun,
            "setmetatable: the metatable is protected");
  if (lua_istable(state, 2)) {
    lua_pushliteral(state, "__gc");
    RUN_CHECK(lua_rawget(state, 2) == LUA_TNIL, ErrorKind::kRun, "setmetatable: hooks cannot have finalizers (__gc)");
  }
  lua_settop(state, 2);
  lua_setmetatable(state, 1);
  return 1;
}

// rawset, which respects that a table is read-only.
int raw_set(lua_State* state) {
  luaL_checktype(state, 1, LUA_TTABLE);
  luaL_checkany(state, 2);
  luaL_checkany(state, 3);
  lua_settop(state, 3);
  lua_pushglobaltable(state);
  const bool is_global = lua_rawequal(state, 1, -1) != 0;  // checked by the transform, and not read-only otherwise
  lua_pop(state, 1);
  is_protected(state, 1) && !is_global ? lua_settable(state, 1) : lua_rawset(state, 1);
  return 1;
}

// Charges a caught error: throwing, unwinding, and Lua's walk over the remaining frames, whose number is rounded up to
// a power of two.
void spend_caught_error(lua_State* state) {
  constexpr int64_t kThrow = 2000, kDeepest = 1 << 20;  // instructions; frames, more than a stack has
  int64_t frames = 1;
  lua_Debug frame;
  while (frames < kDeepest && lua_getstack(state, static_cast<int>(frames), &frame) != 0) frames *= 2;
  spend(state, kThrow + frames);
}

// pcall that charges the budget for caught errors.
int after_pcall(lua_State* state, int status, lua_KContext) {
  if (status == LUA_OK || status == LUA_YIELD) return lua_gettop(state);
  spend_caught_error(state);
  lua_pushboolean(state, 0);
  lua_insert(state, -2);
  return 2;
}

int pcall(lua_State* state) {
  luaL_checkany(state, 1);
  lua_pushboolean(state, 1);  // before the call, whose results may leave the Lua stack is full
  lua_insert(state, 1);
  return after_pcall(state, lua_pcallk(state, lua_gettop(state) - 2, LUA_MULTRET, 0, 0, after_pcall), 0);
}

// xpcall whose handler runs after the stack is unwound. Lua's own xpcall runs it at the point of the error. If that is
// the count hook, which enforces the budget, no hook would run during the handler.
int after_handler(lua_State* state, int, lua_KContext) {
  lua_pushboolean(state, 0);
  lua_insert(state, -2);
  return 2;
}

int after_call(lua_State* state, int status, lua_KContext) {
  if (status == LUA_OK || status == LUA_YIELD) {
    lua_pushboolean(state, 1);
    lua_replace(state, 1);
    return lua_gettop(state);
  }
  spend_caught_error(state);
  lua_callk(state, 1, 1, 0, after_handler);  // the handler at 1, the error at 2
  return after_handler(state, LUA_OK, 0);
}

int protected_call(lua_State* state) {
  luaL_checktype(state, 2, LUA_TFUNCTION);
  lua_pushvalue(state, 1);
  lua_copy(state, 2, 1);
  lua_replace(state, 2);
  return after_call(state, lua_pcallk(state, lua_gettop(state) - 2, LUA_MULTRET, 0, 0, after_call), 0);
}

// Returns a uniform integer in [low, high] without bias, by rejecting draws above the largest multiple of the count.
int64_t draw_between(Runtime& runtime, int64_t low, int64_t high) {
  const uint64_t count = static_cast<uint64_t>(high) - static_cast<uint64_t>(low) + 1;
  if (count == 0) return static_cast<int64_t>(runtime.draw());
  const uint64_t limit = UINT64_MAX - UINT64_MAX % count;
  uint64_t bits = runtime.draw();
  while (bits >= limit) bits = runtime.draw();
  return static_cast<int64_t>(static_cast<uint64_t>(low) + bits % count);
}

// math.random as in Lua: () -> [0, 1), (m) -> 1…m, (m, n) -> m…n, (0) -> 64 bits.
int random(lua_State* state) {
  Runtime& runtime = Runtime::of(state);
  const int arguments = lua_gettop(state);
  if (arguments == 0) {
    lua_pushnumber(state, static_cast<double>(runtime.draw() >> 11) * 0x1p-53);
    return 1;
  }
  const int64_t high = integer_argument(state, arguments >= 2 ? 2 : 1);
  const int64_t low = arguments >= 2 ? integer_argument(state, 1) : 1;
  if (arguments == 1 && high == 0) {
    lua_pushinteger(state, static_cast<lua_Integer>(runtime.draw()));
    return 1;
  }
  RUN_CHECK(low <= high, ErrorKind::kRun, "math.random: the interval from {} to {} is empty", low, high);
  lua_pushinteger(state, draw_between(runtime, low, high));
  return 1;
}

int random_seed(lua_State*) {
  fail(ErrorKind::kRun, "math.randomseed: the run sets the seed; set `seed` in the recipe");
}

// string.rep that checks the size first. Lua's own function fills memory until the allocation fails.
int repeat(lua_State* state) {
  const std::string_view text = text_argument(state, 1);
  const int64_t count = integer_argument(state, 2);
  const std::string_view separator = lua_isnoneornil(state, 3) ? std::string_view() : text_argument(state, 3);
  const auto limit = static_cast<int64_t>(Runtime::of(state).options().budget.memory_bytes);
  const auto each = static_cast<int64_t>(text.size() + separator.size());
  RUN_CHECK(count <= 0 || each == 0 || count <= limit / each, ErrorKind::kRun,
            "string.rep: {} times {} bytes exceed the {} MiB of memory of a hook", count, each, limit >> 20);
  const auto size = count <= 0 ? size_t{0} : static_cast<size_t>(count * each) - separator.size();
  luaL_Buffer result;
  char* at = luaL_buffinitsize(state, &result, size);
  for (int64_t i = 0; i < count; ++i) {
    if (i > 0) at = std::copy(separator.begin(), separator.end(), at);
    at = std::copy(text.begin(), text.end(), at);
  }
  luaL_pushresultsize(&result, size);
  return 1;
}

// ---- library functions charged for their work ----------------------------------------------------------------------

// Calls a function of Lua's library, upvalue 1, after charging work() instructions.
template <int64_t (*work)(lua_State*)>
int counted(lua_State* state) {
  spend(state, work(state));
  return lua_tocfunction(state, lua_upvalueindex(1))(state);
}

// For functions whose work is proportional to the number of their results.
int spreading(lua_State* state) {
  const int results = lua_tocfunction(state, lua_upvalueindex(1))(state);
  spend(state, results);
  return results;
}

// Instructions charged for a switch to a coroutine and back.
constexpr int64_t kResume = 20;

// coroutine.resume, which also catches errors.
int resuming(lua_State* state) {
  spend(state, kResume);
  const int results = lua_tocfunction(state, lua_upvalueindex(1))(state);
  if (lua_toboolean(state, -results) == 0) spend_caught_error(state);
  return results;
}

// Function returned by coroutine.wrap. Upvalue 1: Lua's own one.
int resume_wrapped(lua_State* state) {
  spend(state, kResume);
  lua_pushvalue(state, lua_upvalueindex(1));
  lua_insert(state, 1);
  lua_call(state, lua_gettop(state) - 1, LUA_MULTRET);
  return lua_gettop(state);
}

int wrapping(lua_State* state) {
  lua_tocfunction(state, lua_upvalueindex(1))(state);
  lua_pushcclosure(state, resume_wrapped, 1);
  return 1;
}

// Returns count * each without overflow; a length can be any value returned by a metamethod.
int64_t times(int64_t count, int64_t each) {
  constexpr int64_t kMore = int64_t{1} << 40;  // more than any budget
  return std::clamp<int64_t>(count, 0, kMore) * each;
}

template <int64_t each>
int64_t entries(lua_State* state) {
  return lua_istable(state, 1) ? times(luaL_len(state, 1), each) : 0;
}

// Number of entries that move: all entries after the position, or none if there are at most `without` arguments and
// thus no position.
template <int without>
int64_t to_shift(lua_State* state) {
  if (!lua_istable(state, 1) || lua_gettop(state) <= without) return 0;
  return times(luaL_len(state, 1) - std::max<lua_Integer>(lua_tointeger(state, 2), 1), kWalk);
}

int64_t to_move(lua_State* state) {
  const lua_Integer first = lua_tointeger(state, 2), last = lua_tointeger(state, 3);
  if (last < first) return 0;
  const lua_Unsigned count = static_cast<lua_Unsigned>(last) - static_cast<lua_Unsigned>(first);
  return times(static_cast<int64_t>(std::min<lua_Unsigned>(count, LUA_MAXINTEGER)), kWalk);
}

struct Wrapped {
  const char *table, *name;
  lua_CFunction function;
};
constexpr Wrapped kCounted[] = {{"table", "concat", counted<entries<kWalk>>},
                                {"table", "insert", counted<to_shift<2>>},
                                {"table", "move", counted<to_move>},
                                {"table", "remove", counted<to_shift<1>>},
                                {"table", "sort", counted<entries<kSort>>},
                                {"table", "unpack", spreading},
                                {"coroutine", "resume", resuming},
                                {"coroutine", "wrap", wrapping},
                                {"string", "byte", spreading},
                                {"utf8", "codepoint", spreading}};

// ---- removed functions ---------------------------------------------------------------------------------------------

// A missing name and the hint for its users.
struct Missing {
  const char* name;
  const char* why;
};
constexpr Missing kMissing[] = {
    {"io", "hooks cannot read or write files; use acc:print and acc:log"},
    {"os", "hooks cannot access the system"},
    {"debug", "hooks cannot access the internals of Lua"},
    {"package", "require loads built-in modules and files in the folder of the hook file"},
    {"load", "hooks cannot run generated code"},
    {"loadfile", "require loads files in the folder of the hook file"},
    {"dofile", "require loads files in the folder of the hook file"},
    {"loadstring", "hooks cannot run generated code"},
    {"collectgarbage", "memory is managed by the run"},
    {"warn", "use print"},
};

// Reads an unknown global: nil as in Lua, except for the names above, which raise an error with the hint.
int missing_global(lua_State* state) {
  if (lua_type(state, 2) != LUA_TSTRING) return 0;
  const std::string_view name = text_argument(state, 2);
  for (const Missing& missing : kMissing)
    RUN_CHECK(name != missing.name, ErrorKind::kRun, "{} is not available in hooks: {}", missing.name, missing.why);
  return 0;
}

void replace(lua_State* state, const char* table, const char* name, lua_CFunction function) {
  lua_getglobal(state, table);
  set_function(state, name, function);
  lua_pop(state, 1);
}

void remove(lua_State* state, const char* table, const char* name) {
  lua_getglobal(state, table);
  lua_pushnil(state);
  lua_setfield(state, -2, name);
  lua_pop(state, 1);
}

// Replaces a function by a closure that has it as upvalue 1.
void wrap(lua_State* state, const Wrapped& row) {
  lua_getglobal(state, row.table);
  lua_getfield(state, -1, row.name);
  lua_pushcclosure(state, row.function, 1);
  lua_setfield(state, -2, row.name);
  lua_pop(state, 1);
}

void protect_metatable_of_strings(lua_State* state) {
  lua_pushliteral(state, "");
  lua_getmetatable(state, -1);
  protect_metatable(state);
  lua_pop(state, 2);
}

}  // namespace

void open_sandbox(lua_State* state, int64_t pattern_steps) {
  constexpr luaL_Reg kLibraries[] = {{LUA_GNAME, luaopen_base},        {LUA_MATHLIBNAME, luaopen_math},
                                     {LUA_STRLIBNAME, luaopen_string}, {LUA_TABLIBNAME, luaopen_table},
                                     {LUA_UTF8LIBNAME, luaopen_utf8},  {LUA_COLIBNAME, luaopen_coroutine}};
  for (const luaL_Reg& library : kLibraries) {
    luaL_requiref(state, library.name, library.func, 1);
    lua_pop(state, 1);
  }
  for (const Missing& missing : kMissing) remove(state, LUA_GNAME, missing.name);
  remove(state, "string", "dump");
  for (const Wrapped& row : kCounted) wrap(state, row);
  wrap(state, {"string", "format", bound<format>});
  protect_metatable_of_strings(state);
  replace_pattern_functions(state, pattern_steps);
  replace(state, "string", "rep", bound<repeat>);
  replace(state, "math", "random", bound<random>);
  replace(state, "math", "randomseed", bound<random_seed>);
  replace(state, LUA_GNAME, "print", print);
  replace(state, LUA_GNAME, "tostring", checked_to_string);
  replace(state, LUA_GNAME, "pcall", pcall);
  replace(state, LUA_GNAME, "xpcall", protected_call);
  replace(state, LUA_GNAME, "setmetatable", bound<set_metatable>);
  replace(state, LUA_GNAME, "rawset", raw_set);
  replace(state, LUA_GNAME, "next", bound<next_entry>);
  lua_getglobal(state, LUA_GNAME);
  lua_getglobal(state, "table");
  lua_getfield(state, -1, "sort");
  lua_pushcclosure(state, bound<pairs>, 1);
  name_function(state, "pairs", bound<pairs>);
  lua_setfield(state, -3, "pairs");
  lua_pop(state, 1);
  lua_newtable(state);
  set_function(state, "__index", bound<missing_global>);
  protect_metatable(state);
  lua_setmetatable(state, -2);
  lua_pop(state, 1);
}

}  // namespace runner::lua
