#ifndef STOWAGE_TESTS_GPU_OP_CHECK_H_
#define STOWAGE_TESTS_GPU_OP_CHECK_H_

// The op test table on a device: every row a planned program of one op in a
// session, against the interpreter.
//
//   CheckRow row = CheckOps(DType::kBF16, *backend);

#include "ir/dtype.h"
#include "runtime/backend.h"
#include "tests/gpu/check_rows.h"

namespace stowage::testing {

/// All rows with `real` as the type of real operands. A row agrees with the
/// interpreter within its tolerance, and gives the same bytes as a replay and op
/// by op in a poisoned arena.
CheckRow CheckOps(DType real, Backend& backend);

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_GPU_OP_CHECK_H_
