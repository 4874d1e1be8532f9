// What acc:gather and its like do with their value: tensors, numbers, lists of them, and tables of all these.
//
// The others are met for each tensor, number or list, in an order that does not depend on the process: positions, then
// names; who has something else at that place is told what all have.  Without others everything is as if they had
// nothing.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runner/lua/accelerator.h"
#include "runner/train/replicas/host_tensor.h"

namespace runner::lua {

class ValueExchange {
 public:
  // `replicas`: null, where this process is the only one.  All must outlive the call of acc:WHAT that this is of.
  ValueExchange(lua_State* state, Accelerator& accelerator, backends::Collectives* replicas, std::string_view what)
      : state_(state), accelerator_(accelerator), replicas_(replicas), what_(what) {}

  // All push what becomes of the value at `index`, and throw Error(kRun) where values of several processes do not fit.

  // Joined along the first axis, a list with the others' lists; a number becomes a list, a scalar a vector.
  // `for_metrics`: without repeated samples.
  void gather(int index, bool for_metrics);
  void reduce(int index, train::Fold fold);
  // That of process 0.
  void broadcast(int index);
  // As long along an axis (from 1) as the longest, with `pad` behind it.
  void pad_across_processes(int index, double pad, int64_t axis);
  // Of a plain value, without tensors: its text (plain_data.h), as every process has it.
  std::vector<std::string> texts(int index) const;

 private:
  template <class IsLeaf, class Leaf>
  void each(int index, const IsLeaf& is_leaf, const Leaf& leaf);
  bool holds_tensor(int index) const;
  bool is_list(int index) const;
  void gather_tensor(int index, bool for_metrics);
  void gather_list(int index, bool for_metrics);
  void reduce_number(int index, train::Fold fold);
  train::HostTensor fold_all(const train::HostTensor& mine, std::string_view kind, train::Fold fold) const;
  void pad_tensor(int index, double pad, int64_t axis);
  void pad_list(int index, double pad);
  int64_t longest(int64_t mine) const;
  std::vector<std::string> names_in(int index) const;
  // What all processes send at this place of their values; `kind`: what it is, for messages.  `add`: appends what this
  // one sends.
  struct Sent {
    std::vector<std::string> texts;
    std::vector<std::string_view> contents;  // into them
  };
  template <class Add>
  Sent sent_by_all(std::string_view kind, const Add& add) const;
  void push_first(int index);
  std::string text_of(int index) const;
  // The tensor at `index`.
  train::HostTensor read(int index) const;
  // What `make` makes of those of all.
  template <class Make>
  train::HostTensor of_all(const train::HostTensor& mine, std::string_view kind, const Make& make) const;
  void push(train::HostTensor tensor);
  std::string name() const;

  lua_State* const state_;
  Accelerator& accelerator_;
  backends::Collectives* const replicas_;
  const std::string_view what_;
  std::vector<std::string> path_;  // of keys, to the value at hand
};

}  // namespace runner::lua
