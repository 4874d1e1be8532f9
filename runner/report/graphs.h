// The graphs that an emulated TPU compiled, as tables and documents.  Thread-safe.
#pragma once

#include <span>
#include <string>

#include "store/device_account.h"

namespace runner::report {

// A row for each graph of each attempt, in the order in which they were compiled; where `width` has no room for all of
// it, what makes a graph its own stands below its row.  width 0: no limit.
std::string graphs_text(std::span<const store::DeviceAccount> accounts, int width, bool color);
// [{"attempt", "key", "first_step", "cause", …}, …].
std::string graphs_document(std::span<const store::DeviceAccount> accounts);
// All facts about one, the formula of its prediction among them.
std::string graph_text(const store::GraphRow& graph, bool color);

}  // namespace runner::report
