// Rules about the optimizer and the schedule of its rate.
#include <algorithm>
#include <array>
#include <optional>

#include "schema/recipe/check_context.h"
#include "schema/recipe/field_words.h"
#include "schema/recipe/recipe_build.h"

namespace runner::schema {
namespace {

// Whether the schedule sets momentum, or the first of betas, and overrides the optimizer's.
bool cycles_momentum(const CheckContext& c) {
  return c.settings.is_true("scheduler.cycle_momentum");
}

// Whether the optimizer has momentum or betas.
bool has_momentum(const CheckContext& c) {
  return std::ranges::any_of(std::array{"optimizer.momentum", "optimizer.betas"},
                             [&](std::string_view path) { return c.settings.find(path) != nullptr || c.broken(path); });
}

// torch.optim.SGD refuses nesterov without momentum or with dampening; dampening damps momentum.
void check_momentum(const CheckContext& c, const std::string& section) {
  const auto value_of = [&](std::string_view name) {
    const std::string own = section + "." + std::string(name);
    return c.settings.number(c.has(own) || c.broken(own) ? own : "optimizer." + std::string(name));
  };
  const std::optional<double> momentum = value_of("momentum"), dampening = value_of("dampening");
  if (!momentum || !dampening) return;
  const std::string nesterov = section + ".nesterov";
  const bool has_momentum = *momentum != 0 || cycles_momentum(c);
  if (c.settings.is_true(nesterov) && !has_momentum) {
    c.fault(ErrorId::kNeedsOption, nesterov, nesterov + " needs momentum above 0", "set momentum, such as 0.9");
  } else if (c.settings.is_true(nesterov) && *dampening != 0) {
    c.fault(ErrorId::kNeedsOption, nesterov,
            fmt::format("{} needs dampening 0, got {}", nesterov, number_text(*dampening)),
            "remove dampening or nesterov");
  } else if (c.settings.is_written(section + ".dampening") && *dampening != 0 && !has_momentum) {
    c.fault(ErrorId::kIgnoredOption, section + ".dampening",
            fmt::format("{0}.dampening is ignored with {0}.momentum 0", section), "remove it, or set momentum");
  }
}

void check_scheduler(const CheckContext& c) {
  const std::optional<double> lr = c.settings.number("optimizer.lr"), end = c.settings.number("scheduler.end");
  if (lr && end && *end >= *lr) {
    const std::string_view path = c.settings.is_written("scheduler.end") ? "scheduler.end" : "optimizer.lr";
    c.fault(ErrorId::kOutOfRange, path,
            fmt::format("scheduler.end must be less than optimizer.lr, got {} and {}", number_text(*end),
                        number_text(*lr)));
  }
  if (lr && *lr == 0 && c.has("scheduler.max_lr")) {
    c.fault(ErrorId::kOutOfRange, "optimizer.lr",
            "optimizer.lr must be greater than 0 with scheduler.type one_cycle, got 0");
  }
  if (c.settings.text("scheduler.beyond").value_or("formula") != "formula" && !c.has("scheduler.length") &&
      !c.broken("scheduler.length"))
    c.fault(ErrorId::kIgnoredOption, "scheduler.beyond", "scheduler.beyond is ignored without scheduler.length",
            "remove it, or set scheduler.length, such as 10 epochs");
  const std::string_view optimizer = c.settings.text("optimizer.type").value_or("hook");
  if (cycles_momentum(c) && optimizer != "hook" && !has_momentum(c)) {
    c.fault(ErrorId::kNeedsOption, "scheduler.type",
            "scheduler.cycle_momentum needs an optimizer with momentum or betas",
            "set scheduler.cycle_momentum: false");
  }
}

// Length of the schedule, if it is written.
std::optional<Length> schedule_length(const CheckContext& c) {
  if (const auto length = c.settings.text("scheduler.length")) return parse_length(*length);
  if (c.broken("scheduler.length")) return std::nullopt;
  if (const auto epochs = c.settings.integer("train.epochs")) return Length{*epochs, Unit::kEpochs};
  if (const auto steps = c.settings.integer("train.steps")) return Length{*steps, Unit::kSteps};
  return std::nullopt;
}

void check_warmup(const CheckContext& c) {
  const auto warmup = c.settings.text("scheduler.warmup");
  const std::optional<Length> length = schedule_length(c);
  if (!warmup || !length) return;
  const Length rise = parse_length(*warmup);
  if (rise.unit != length->unit || rise.count * length->divisor <= length->count * rise.divisor) return;
  const auto written = c.settings.text("scheduler.length");
  c.fault(ErrorId::kWarmupTooLong, "scheduler.warmup",
          fmt::format("scheduler.warmup, {}, is longer than the schedule, {}", *warmup,
                      written ? std::string(*written)
                              : length_text(length->count, length->unit == Unit::kSteps ? "steps" : "epochs")));
}

}  // namespace

void check_schedule(const CheckContext& c) {
  check_momentum(c, "optimizer");
  for (int i = 0;; ++i) {
    const std::string group = fmt::format("optimizer.groups[{}]", i);
    if (c.settings.section(group) == nullptr) break;
    check_momentum(c, group);
  }
  check_scheduler(c);
  check_warmup(c);
}

}  // namespace runner::schema
