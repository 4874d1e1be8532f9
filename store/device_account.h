// What a device that keeps account of graphs - the emulated TPU - has compiled and counted, by attempt.
//
// The account of an attempt is written at its states, and at its end: it grows, and what was written of a graph stays,
// but for its executions.  Thread safety: as the Store given.
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
  int64_t first_step = 0;  // training batch at which it first ran, from 1; 0: before any
  std::string cause;
  std::string file;  // and line, of a hook; empty: nowhere
  int64_t line = 0;
  int64_t nodes = 0, inputs = 0, outputs = 0, donated = 0;
  int64_t compile_ns = 0;
  int64_t executions = 0;
  int64_t hbm_bytes = 0, flops = 0, bytes = 0;
  int64_t unpadded_bytes = 0, padded_bytes = 0;  // of the tensors at the peak
  int64_t least_ns = 0, most_ns = 0;             // predicted
  std::string formula;
  std::shared_ptr<const GraphTexts> texts = {};  // null: they were not asked for, or not kept
};

struct DeviceAccount {
  int64_t attempt = 0;           // when it is read
  std::vector<GraphRow> graphs;  // in the order in which they were compiled
  std::string metrics_json;
};

// Inside a transaction.  What the attempt had before are the first graphs of `account`; texts that were written stay.
void put_device_account(Store& store, const RunHandle& run, const DeviceAccount& account);

// By attempt; none for attempts on other devices.  `texts`: with IR and HLO.
std::vector<DeviceAccount> read_device_accounts(Store& store, int64_t run_id, bool texts = false);

// What the newest attempt on such a device has counted, which need not be the newest of all.
struct DeviceMetrics {
  int64_t attempt = 0;
  std::string json = {};  // empty: there is none
};
DeviceMetrics newest_device_metrics(Store& store, int64_t run_id);

}  // namespace runner::store
