#include "tests/train/xla_steps.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace runner::train::xla {
namespace {

using testing::Golden;

// STEPS of the script; `n`: the step number, from 0.
constexpr const char* kSteps = R"(local nn = require "nn"
local entropy = nn.cross_entropy

local function scaled(scale)
  return function(model, x, y, n) return entropy(model(x), y) * scale(n) end
end

local function above(threshold)
  return function(model, x, y, n)
    local logits = model(x)
    return entropy(logits, y) + (logits * logits:gt(threshold(n)):cast("f32")):mean()
  end
end

local function raised(exponent)
  return function(model, x, y, n)
    local logits = model(x)
    return entropy(logits, y) + ((logits:abs() + 1) ^ exponent(n)):mean()
  end
end

local function smoothed(smoothing)
  return function(model, x, y, n) return entropy(model(x), y, {label_smoothing = smoothing(n)}) end
end

local steps = {
  plain = function(model, x, y) return entropy(model(x), y) end,
  smoothing_alternates = smoothed(function(n) return 0.1 + 0.1 * (n % 2) end),
  smoothing_grows = smoothed(function(n) return 0.05 + n / 20 end),
  smoothing_falls_to_0 = smoothed(function(n) return math.max(0.0, 0.2 - n / 20) end),
  smoothing_rises_to_1 = smoothed(function(n) return math.min(1.0, 0.6 + n / 10) end),
  scale_grows = scaled(function(n) return 1 + n / 10 end),
  scale_at_0_and_1 = scaled(function(n) return (n % 4) * 0.5 end),
  scale_falls_to_0 = scaled(function(n) return math.max(0.0, 1 - n / 4) end),
  scale_meets_09 = scaled(function(n) return 0.5 + n / 10 end),
  scale_meets_2 = scaled(function(n) return 1.5 + n / 4 end),
  divided = function(model, x, y, n) return entropy(model(x), y) / (0.5 + n / 4) end,
  subtracted = function(model, x, y, n) return -(n / 4 - entropy(model(x), y)) end,
  second_term = function(model, x, y, n)
    local logits = model(x)
    local loss = entropy(logits, y)
    if n % 2 == 0 then return loss end
    return loss + 0.5 * (logits * logits):mean()
  end,
  shorter = function(model, x, y, n)
    local length = ({32, 24, 16, 32, 8})[n % 5 + 1]
    return entropy(model(x:slice(1, 1, length)), y:slice(1, 1, length))
  end,
  above_fractions = above(function(n) return n / 4 end),
  above_integers = above(function(n) return n end),
  power = raised(function(n) return 2 + n % 2 end),
  square = raised(function() return 2 end),
  exponent_grows = raised(function(n) return 1.5 + n / 4 end),
  peeked = function(model, x, y)
    local logits = model(x)
    local _ = logits:mean():item()
    return entropy(logits, y) + (logits * logits):mean()
  end,
  masked = function(model, x, y, n)
    local logits = model(x)
    local filled = logits:masked_fill(logits:gt(0), n / 4)
    return entropy(logits, y) + nn.where(logits:lt(0.25), filled, 1 - n / 4):mean()
  end,
  clamped = function(model, x, y, n) return entropy(model(x):clamp(-1 - n / 4, 1 + n / 4), y) end,
  two_terms = function(model, x, y, n)
    local logits = model(x)
    return entropy(logits, y) * (0.5 + n / 10) + (logits * logits):mean() * 0.9
  end,
  unused = function(model, x, y, n)
    local logits = model(x)
    local _ = n % 2 == 1 and (logits * (n % 3)):sum() or logits:abs():max()
    return entropy(logits, y)
  end,
  list = function(model, x, y, n)
    local numbers = {}
    for i = 0, 9 do numbers[i + 1] = (n + i) / 10 end
    return entropy(model(x) * nn.tensor(numbers), y)
  end,
}
)";

// RULES of the script, which make an optimizer.
constexpr const char* kRules = R"(
local rules = {
  halves = {update = function(p, g, slots, lr) return p - g * 0.5 * lr end},
  mean_of_signs = {slots = {"mean"}, update = function(p, g, slots, lr)
    slots.mean = slots.mean * 0.9 + g * 0.1
    return p - slots.mean:sign() * lr
  end},
  by_step = {update = function(p, g, slots, lr, step) return p - g * lr / step end},
}
)";

// The `optimizers` entry of a hook, if the case has a rule.
std::string optimizers_of(const Golden& item) {
  if (!item.has("rule")) return "";
  return fmt::format(R"(optimizers = function(model)
    local rule = rules.{}
    return require "optim".Optimizer(model, {{lr = {}, slots = rule.slots, update = rule.update}})
  end,
  )",
                     item["rule"].text(), item["optimizer"]["lr"].number());
}

std::string name_of_step(const Golden& item) {
  return item.has("step") ? item["step"].text() : "plain";
}

// The beginning of each hook.
std::string library() {
  return fmt::format("{}{}", kSteps, kRules);
}

// Reads the loss in every n-th step; the step's number is n + 1.
std::string read_of(const Golden& item) {
  return item.has("read_every") ? fmt::format("if (n + 1) % {} == 0 then loss:item() end", item["read_every"].integer())
                                : "";
}

}  // namespace

bool needs_hook(const Golden& item) {
  return item.has("read_every") || item.has("step") || item.has("rule");
}

bool is_declared(const Golden& item) {
  return !item.has("limits") && !item.has("loader") && !item.has("no_sync");
}

std::string step_hook(const Golden& item) {
  return library() + fmt::format(R"(
local n = -1
return {{{}training_step = function(acc, batch)
  n = n + 1
  local loss = steps.{}(acc.model, batch.features, batch.labels, n)
  {}
  return loss
end}}
)",
                                 optimizers_of(item), name_of_step(item), read_of(item));
}

namespace {

std::string clip_of(const Golden& item) {
  if (item.has("limits"))
    return fmt::format("acc:clip_grad_norm(({{{}}})[updates + 1])", fmt::join(item["limits"].numbers(), ", "));
  for (const char* clip : {"clip_grad_norm", "clip_grad_value"})
    if (item.has(clip)) return fmt::format("acc:{}({})", clip, item[clip].number());
  return "";
}

// Accumulation is that of the recipe, or of the loop itself, whose no_sync uses the losses unscaled.
std::string step_of(const Golden& item) {
  if (!item.has("no_sync")) return "acc:accumulate(update)";
  const int64_t batches = item["samples"].integer() / item["batch"].integer();
  return fmt::format("if index % {} == 0 or index == {} then update() else acc:no_sync(backward) end",
                     item["no_sync"].integer(), batches);
}

}  // namespace

std::string loop_hook(const Golden& item) {
  return library() + fmt::format(R"(
local n, updates = -1, 0
return {{{}train = function(acc)
  for _ in acc:epochs() do
    local index = 0
    for batch in acc:batches("train") do
      acc:print("another batch")
      n, index = n + 1, index + 1
      local loss = steps.{}(acc.model, batch.features, batch.labels, n)
      local function backward() acc:backward(loss) end
      local function update()
        backward()
        if acc.sync_gradients then
          {}
          updates = updates + 1
        end
        acc.optimizer:step()
        acc.scheduler:step()
        acc.optimizer:zero_grad()
      end
      {}
      {}
    end
  end
end}}
)",
                                 optimizers_of(item), name_of_step(item), clip_of(item), step_of(item), read_of(item));
}

}  // namespace runner::train::xla
