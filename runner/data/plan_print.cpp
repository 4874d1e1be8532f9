// The data plan as text: JSON for programs, a table for people.
#include <iterator>

#include <fmt/format.h>

#include "runner/data/order.h"
#include "runner/data/plan.h"

namespace runner::data {
namespace {

using Text = fmt::memory_buffer;

// [first, first + count) through `value`, as a JSON array.
template <class Value>
void append_array(Text& out, int64_t first, int64_t count, Value value) {
  out.push_back('[');
  for (int64_t i = first; i < first + count; ++i) {
    fmt::format_to(std::back_inserter(out), "{}{}", i == first ? "" : ", ", value(i));
  }
  out.push_back(']');
}

// [[[…], …], …]: one array for each replica's batch, written by `write(slice)`.
template <class Write>
void append_batches(Text& out, const DataPlan& plan, Write write) {
  for (int64_t r = 0; r < plan.spec().processes; ++r) {
    out.append(std::string_view(r == 0 ? "[[" : ", ["));
    bool first = true;
    for (int64_t step = 0; step < plan.steps_per_epoch(); ++step) {
      const Slice slice = plan.slice(r, step);
      if (slice.size() == 0) continue;
      if (!first) out.append(std::string_view(", "));
      first = false;
      write(slice);
    }
    out.push_back(']');
  }
  out.push_back(']');
}

void append_epoch(Text& out, const DataPlan& plan, const Order& order, int64_t epoch) {
  fmt::format_to(std::back_inserter(out), "{}{{\"epoch\": {}, \"batches\": ", epoch == 0 ? "" : ", ", epoch);
  append_batches(out, plan, [&](const Slice& slice) {
    append_array(out, 0, slice.size(), [&](int64_t i) { return order[slice.position(i)]; });
  });
  out.append(std::string_view(", \"padding\": "));
  append_batches(out, plan, [&](const Slice& slice) {
    append_array(out, slice.real, slice.repeats, [](int64_t i) { return i; });
  });
  out.push_back('}');
}

double optimizer_steps_per_epoch(const DataPlan& plan) {
  if (plan.spec().windows_end_with_epoch) return static_cast<double>(plan.optimizer_steps(1));
  return static_cast<double>(plan.steps_per_epoch()) / static_cast<double>(plan.spec().accumulation);
}

std::string windows_text(const DataPlan& plan) {
  const Window first = plan.window(0);
  const std::string steps = fmt::format("{} step{}", first.steps, first.steps == 1 ? "" : "s");
  if (!plan.spec().windows_end_with_epoch)
    return fmt::format("{:.6g} per epoch, of {} each, which go on over the end of an epoch",
                       optimizer_steps_per_epoch(plan), steps);
  const Window last = plan.window(plan.optimizer_steps(1) - 1);
  return fmt::format("{} per epoch, of {} and {} samples, the last of {} and {}", plan.optimizer_steps(1), steps,
                     first.samples, last.steps, last.samples);
}

}  // namespace

std::string plan_json(const DataPlan& plan, Order& order, int64_t epochs, bool batches) {
  Text out;
  fmt::format_to(std::back_inserter(out),
                 "{{\"num_processes\": {}, \"global_batch_size\": {}, \"steps_per_epoch\": {}, "
                 "\"optimizer_steps_per_epoch\": {}, \"samples_per_epoch\": {}, \"repeats_per_epoch\": {}",
                 plan.spec().processes, plan.global_batch_size(), plan.steps_per_epoch(),
                 optimizer_steps_per_epoch(plan), plan.samples_per_epoch(), plan.repeats_per_epoch());
  if (batches) {
    out.append(std::string_view(", \"epochs\": ["));
    for (int64_t epoch = 0; epoch < epochs; ++epoch) {
      order.set_epoch(epoch);
      append_epoch(out, plan, order, epoch);
    }
    out.push_back(']');
  }
  out.push_back('}');
  return fmt::to_string(out);
}

std::string plan_text(const DataPlan& plan) {
  const PlanSpec& spec = plan.spec();
  const int64_t last_step = plan.samples_per_epoch() - plan.consumed(plan.steps_per_epoch() - 1);
  return fmt::format(
      "samples          {}, of which an epoch uses {}\n"
      "replicas         {}\n"
      "batch size       {} per replica at most, {} over all\n"
      "steps            {} per epoch, the last of {} samples\n"
      "optimizer steps  {}\n"
      "repeats          {} per epoch, masked\n",
      spec.samples, plan.samples_per_epoch(), spec.processes, plan.max_batch(), plan.global_batch_size(),
      plan.steps_per_epoch(), last_step, windows_text(plan), plan.repeats_per_epoch());
}

}  // namespace runner::data
