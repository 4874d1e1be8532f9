// Graphs and metrics that a device model reports, per attempt. Only the emulated TPU reports them.
//
// The report of an attempt is written with each checkpoint and at its end. Graphs are only added: of a row that is
// already written, only `executions` changes. Thread safety: as for the given Store.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "store/run_store.h"

namespace runner::store {

struct GraphTexts {
  std::string ir, hlo;
};

struct GraphRow {
  std::string key;
  int64_t first_step = 0;  // training batch in which it first ran, from 1; 0: before the first batch
  std::string cause;
  std::string file;  // hook file that caused the graph, with its `line`; empty if none did
  int64_t line = 0;
  int64_t nodes = 0, inputs = 0, outputs = 0, donated = 0;
  int64_t compile_ns = 0;
  int64_t executions = 0;
  int64_t hbm_bytes = 0, flops = 0, bytes = 0;
  int64_t unpadded_bytes = 0, padded_bytes = 0;  // tensors at the memory peak
  int64_t least_ns = 0, most_ns = 0;             // predicted bounds of one execution
  std::string formula;
  std::shared_ptr<const GraphTexts> texts = {};  // null if not requested, or not stored
};

struct DeviceReport {
  int64_t attempt = 0;           // set by read_device_reports()
  std::vector<GraphRow> graphs;  // in the order compiled
  std::string metrics_json;
};

// Writes the report of the current attempt. Call it inside a transaction. `report.graphs` must begin with the graphs
// already written for this attempt; their IR and HLO texts are not overwritten.
void put_device_report(Store& store, const RunHandle& run, const DeviceReport& report);

// Returns the reports of a run in order of attempts. Attempts on other devices have none. `texts`: whether to read IR
// and HLO.
std::vector<DeviceReport> read_device_reports(Store& store, int64_t run_id, bool texts = false);

// Metrics of the newest attempt that has a report. It need not be the run's newest attempt, which may have used another
// device.
struct DeviceMetrics {
  int64_t attempt = 0;
  std::string json = {};  // empty if no attempt has a report
};
DeviceMetrics newest_device_metrics(Store& store, int64_t run_id);

}  // namespace runner::store
