// A Lua chunk that makes the same calls in any state, so that their results can be compared as text.
#pragma once

namespace runner::lua {

// Defines calls(subject, pattern, replacement, init, most), which makes every kind of call and describes the result or
// error of each.
inline constexpr const char* kPatternCalls = R"(
local string, table, pcall, type, tostring = string, table, pcall, type, tostring
local function show(value)
  return type(value) == "string" and string.format("%q", value) or tostring(value)
end
local function describe(name, ok, ...)
  local values = table.pack(...)
  for i = 1, values.n do values[i] = show(values[i]) end
  return name .. (ok and " = " or " fails: ") .. table.concat(values, ", ", 1, values.n)
end
local function all(...)
  local found = {}
  for a, b, c in string.gmatch(...) do
    found[#found + 1] = show(a) .. "/" .. show(b) .. "/" .. show(c)
    if #found == 100 then break end
  end
  return table.concat(found, " ")
end
function calls(subject, pattern, replacement, init, most)
  local answers = {a = "<A>", [""] = "-", b = 7, ab = false, c = {}}
  local arguments = {}
  local function keep(...)
    arguments[#arguments + 1] = table.concat({...}, "|")
    return replacement
  end
  return table.concat({
    describe("find", pcall(string.find, subject, pattern, init)),
    describe("plain", pcall(string.find, subject, pattern, init, true)),
    describe("match", pcall(string.match, subject, pattern, init)),
    describe("gmatch", pcall(all, subject, pattern, init)),
    describe("gsub text", pcall(string.gsub, subject, pattern, replacement, most)),
    describe("gsub table", pcall(string.gsub, subject, pattern, answers, most)),
    describe("gsub function", pcall(string.gsub, subject, pattern, keep, most)),
    show(table.concat(arguments, ";")),
  }, "\n")
end
)";

}  // namespace runner::lua
