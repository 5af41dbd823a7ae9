#ifndef STOWAGE_TESTS_GPU_OP_CHECK_H_
#define STOWAGE_TESTS_GPU_OP_CHECK_H_

// Runs the op test table on a device. Each case is planned as a program of one op, run in a
// session and compared with the interpreter.
//
//   CheckRow row{.name = "ops bf16"};
//   CheckOps(DType::kBF16, {}, *backend, &row);

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "ir/graph.h"
#include "ir/tensor_type.h"
#include "runtime/backend.h"
#include "tests/gpu/check_rows.h"
#include "tests/support/interpret.h"

namespace stowage::testing {

/// The bytes of a graph's outputs, keyed by name.
using OutputBytes = std::map<std::string, std::vector<std::byte>>;

/// Plans `graph`, runs it for one step in a session on `backend`, and returns its outputs. If
/// `poison` is true, the arena is poisoned and the step runs op by op.
Result<OutputBytes> RunOnce(const Graph& graph, const Tensors& leaves,
                            Backend& backend, bool poison = false);

/// Returns the elements of type `dtype` in `bytes`.
std::vector<double> DecodeElements(DType dtype,
                                   const std::vector<std::byte>& bytes);

struct OpCheckOptions {
  size_t first = 0, count = SIZE_MAX;  // the range of the table's cases
  std::set<std::string> skip = {};     // names of cases to count but not run
  /// Called with the name of each case before it runs. May be empty.
  std::function<void(const std::string&)> at = {};
};

/// Runs cases of the table with `real` as the type of real operands, and writes the result to
/// `row`. Each case must agree with the interpreter within its tolerance. It must give the same
/// bytes when it is replayed as a graph, when it runs op by op in a poisoned arena, and when its
/// operands are misaligned (PutOffAlignment). With misaligned operands, ops that use library
/// matmuls and attention may run another algorithm. They only need to agree with the interpreter.
void CheckOps(DType real, const OpCheckOptions& options, Backend& backend,
              CheckRow* row);

// PutOffAlignment misaligns the operands of a graph. Their addresses are then only multiples of the
// size of an element. Each leaf becomes a view into a longer leaf, a few elements after its start.
// Kernels use vector loads only if the address allows it. The results must be identical, bit by
// bit, with and without vector loads.
//
//   STOWAGE_ASSIGN_OR_RETURN(const OffAlignment off, PutOffAlignment(graph, leaves));
//   RunOnce(off.graph, off.leaves, backend);

struct OffAlignment {
  Graph graph;
  Tensors leaves;
  int moved = 0;  // number of misaligned leaves
};

/// Returns a graph with the same outputs as `graph`, and the content of its leaves. Misaligns all
/// leaves on the device that no node writes.
Result<OffAlignment> PutOffAlignment(const Graph& graph, const Tensors& leaves);

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_GPU_OP_CHECK_H_
