// Serialization of Programs, for the persistent graph cache.
//
// Equal bytes mean equal Programs: structure, names and origins of nodes. Source lines are not stored. Thread-safe.
#pragma once

#include "backends/ir/byte_stream.h"
#include "backends/ir/program.h"

namespace runner::backends {

void write_type(ByteWriter& to, const TensorType& type);
TensorType read_type(ByteReader& from);

void write_program(ByteWriter& to, const Program& program);
// Records every node again, so that its type follows from the type rule of the op. Throws Error(kData) for bytes that
// write_program() does not write.
// `lines_of`: Program whose source lines the result uses.
Program read_program(ByteReader& from, const Program& lines_of);

}  // namespace runner::backends
