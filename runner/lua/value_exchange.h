// Implements acc:gather and similar methods for their values: tensors, numbers, lists of them, and tables of all these.
//
// The ranks communicate once per tensor, number or list, in the same order on all ranks: positions, then names. If a
// rank has a different kind of value at the same place, the error shows the kinds on all ranks. For a single process
// the result is the same as for a group of size one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runner/lua/accelerator.h"
#include "runner/train/step/host_tensor.h"

namespace runner::lua {

class ValueExchange {
 public:
  // `ranks`: process group, or null for a single process. All arguments must outlive the call of acc:WHAT.
  ValueExchange(lua_State* state, Accelerator& accelerator, backends::ProcessGroup* ranks, std::string_view what)
      : state_(state), accelerator_(accelerator), ranks_(ranks), what_(what) {}

  // Each method pushes the result for the value at `index`. Throws Error(kRun) if the values of the ranks do not match.

  // Concatenates along the first axis; concatenates lists. A number becomes a list, a scalar tensor a vector.
  // `for_metrics`: excludes padding samples.
  void gather(int index, bool for_metrics);
  void reduce(int index, train::Fold fold);
  // Pushes the value of rank 0.
  void broadcast(int index);
  // Extends the value along an axis (from 1) to the largest length of all ranks, with `pad` at the end.
  void pad_across_processes(int index, double pad, int64_t axis);
  // Returns the texts (plain_data.h) of a value without tensors, from all ranks.
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
  // Exchanges the values at the current place of all ranks. `kind`: kind of this rank's value, for messages. `add`:
  // appends this rank's data.
  struct Sent {
    std::vector<std::string> texts;
    std::vector<std::string_view> contents;  // views into `texts`
  };
  template <class Add>
  Sent sent_by_all(std::string_view kind, const Add& add) const;
  void push_first(int index);
  std::string text_of(int index) const;
  // The tensor at `index`.
  train::HostTensor read(int index) const;
  // Calls `make` with the tensors of all ranks and returns its result.
  template <class Make>
  train::HostTensor of_all(const train::HostTensor& mine, std::string_view kind, const Make& make) const;
  void push(train::HostTensor tensor);
  std::string name() const;

  lua_State* const state_;
  Accelerator& accelerator_;
  backends::ProcessGroup* const ranks_;
  const std::string_view what_;
  std::vector<std::string> path_;  // keys leading to the current value
};

}  // namespace runner::lua
