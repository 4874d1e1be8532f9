// The data plan as JSON.
#include <iterator>

#include <fmt/format.h>

#include "runner/data/order.h"
#include "runner/data/plan.h"

namespace runner::data {
namespace {

using Text = fmt::memory_buffer;

// Appends the JSON array of value(i) for i in [first, first + count).
template <class Value>
void append_array(Text& out, int64_t first, int64_t count, Value value) {
  out.push_back('[');
  for (int64_t i = first; i < first + count; ++i) {
    fmt::format_to(std::back_inserter(out), "{}{}", i == first ? "" : ", ", value(i));
  }
  out.push_back(']');
}

// Appends [[[…], …], …]: for each rank an array of its batches, each written by `write(slice)`.
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

void append_epoch(Text& out, const DataPlan& plan, const Order& order, int64_t epoch, const RowOf& row_of) {
  fmt::format_to(std::back_inserter(out), "{}{{\"epoch\": {}, \"batches\": ", epoch == 0 ? "" : ", ", epoch);
  append_batches(out, plan, [&](const Slice& slice) {
    append_array(out, 0, slice.size(), [&](int64_t i) { return row_of(order[slice.position(i)]); });
  });
  out.append(std::string_view(", \"padding\": "));
  append_batches(out, plan, [&](const Slice& slice) {
    append_array(out, slice.real, slice.repeats, [](int64_t i) { return i; });
  });
  out.push_back('}');
}

std::string optimizer_step_json(const OptimizerStep& optimizer_step) {
  return fmt::format("{{\"steps\": {}, \"samples\": {}}}", optimizer_step.steps, optimizer_step.samples);
}

std::string optimizer_steps_json(const DataPlan& plan) {
  if (!plan.spec().steps_end_with_epoch) return "\"window\": null, \"last_window\": null";
  return fmt::format("\"window\": {}, \"last_window\": {}", optimizer_step_json(plan.optimizer_step(0)),
                     optimizer_step_json(plan.optimizer_step(plan.optimizer_steps(1) - 1)));
}

}  // namespace

std::string plan_json(const DataPlan& plan, Order& order, int64_t epochs, bool batches, const RowOf& row_of) {
  Text out;
  fmt::format_to(std::back_inserter(out),
                 "{{\"num_processes\": {}, \"global_batch_size\": {}, \"steps_per_epoch\": {}, "
                 "\"optimizer_steps_per_epoch\": {}, \"samples_per_epoch\": {}, \"repeats_per_epoch\": {}, "
                 "\"split_batches\": {}, \"batch_size\": {}, \"gradient_accumulation_steps\": {}, "
                 "\"last_step_samples\": {}, {}",
                 plan.spec().processes, plan.global_batch_size(), plan.steps_per_epoch(),
                 plan.optimizer_steps_per_epoch(), plan.samples_per_epoch(), plan.repeats_per_epoch(),
                 plan.spec().split_batches, plan.spec().batch_size, plan.spec().accumulation,
                 plan.samples_ahead(plan.steps_per_epoch() - 1, 1), optimizer_steps_json(plan));
  if (batches) {
    out.append(std::string_view(", \"epochs\": ["));
    for (int64_t epoch = 0; epoch < epochs; ++epoch) {
      order.set_epoch(epoch);
      append_epoch(out, plan, order, epoch, row_of);
    }
    out.push_back(']');
  }
  out.push_back('}');
  return fmt::to_string(out);
}

}  // namespace runner::data
