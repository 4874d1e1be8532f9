// Tells the compiler that the next loop's iterations are independent: its arrays are disjoint or exactly the same.
#pragma once

#if defined(__clang__)
#define RUNNER_VECTOR_LOOP _Pragma("clang loop vectorize(assume_safety)")
#else
#define RUNNER_VECTOR_LOOP _Pragma("GCC ivdep")
#endif
