// Programs as bytes: what a graph was made from, and what it was made into, beyond a process.
//
// Equal bytes are equal Programs: structure, names, and the numbers of the recorded nodes that nodes come from; the
// source lines themselves are not in them.  Thread-safe.
#pragma once

#include "backends/ir/byte_stream.h"
#include "backends/ir/program.h"

namespace runner::backends {

void write_type(ByteWriter& to, const TensorType& type);
TensorType read_type(ByteReader& from);

void write_program(ByteWriter& to, const Program& program);
// Every node is recorded anew, so that its type is what the op's rule gives; the source lines are those of `lines_of`.
// Throws Error(kData) for bytes that write_program() does not write.
Program read_program(ByteReader& from, const Program& lines_of);

}  // namespace runner::backends
