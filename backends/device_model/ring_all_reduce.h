// Duration of a ring all-reduce.
#pragma once

namespace runner::backends {

// `bytes`: per member; `rate`: bytes per second of a link; `hop_seconds`: latency of a hop. Each member sends bytes /
// n, n − 1 times to reduce-scatter and n − 1 times to all-gather (Patarasuk and Yuan, 2009).
constexpr double ring_all_reduce_seconds(double bytes, int members, double rate, double hop_seconds) {
  const double share = 2.0 * (members - 1) / members;
  return share * bytes / rate + 2 * (members - 1) * hop_seconds;
}

}  // namespace runner::backends
