// The graphs that an emulated TPU compiled, as tables and documents.  Thread-safe.
#pragma once

#include <span>
#include <string>

#include "runner/report/table.h"
#include "store/device_account.h"

namespace runner::report {

// A row for each graph of each attempt, in the order in which they were compiled.
Table graphs_table(std::span<const store::DeviceAccount> accounts);
// [{"attempt", "key", "first_step", "cause", …}, …].
std::string graphs_document(std::span<const store::DeviceAccount> accounts);
// All facts about one, the formula of its prediction among them.
std::string graph_text(const store::GraphRow& graph, bool color);

}  // namespace runner::report
