// Values of all ranks.
#pragma once

#include <string>
#include <vector>

#include "backends/dist/process_group.h"
#include "schema/base/packing.h"

namespace runner::train {

// Returns the values of all ranks, in the order of the ranks. `T`: as in packing.h. Collective.
template <class T>
std::vector<T> gather_values(const T& mine, backends::ProcessGroup& ranks, const backends::Site& site) {
  std::vector<T> all;
  for (const std::string& each : ranks.gather_objects(pack(mine), site)) all.push_back(unpack<T>(each));
  return all;
}

}  // namespace runner::train
