#ifndef STOWAGE_TESTS_GPU_OP_CHECK_H_
#define STOWAGE_TESTS_GPU_OP_CHECK_H_

// The op test table on a device: each row is planned as a program of one op, run in a session
// and compared with the interpreter.
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

/// The outputs of a graph by name, as they lie in memory, after one step of it as
/// a program of a session.
using OutputBytes = std::map<std::string, std::vector<std::byte>>;
Result<OutputBytes> RunOnce(const Graph& graph, const Tensors& leaves,
                            Backend& backend, bool poison = false);

/// The elements in these bytes.
std::vector<double> DecodeElements(DType dtype,
                                   const std::vector<std::byte>& bytes);

struct OpCheckOptions {
  size_t first = 0, count = SIZE_MAX;  // of the table's cases, in its order
  std::set<std::string> skip = {};     // cases by name: counted, not run
  /// Called with the name of each case before it runs; may be empty.
  std::function<void(const std::string&)> at = {};
};

/// Cases of the table with `real` as the type of real operands. One agrees with the
/// interpreter within its tolerance, and gives the same bytes as a replay, op by op in a
/// poisoned arena, and with operands off their alignment (PutOffAlignment). A library's matmuls
/// and attention may run by another algorithm there, and need only agree within the tolerance.
void CheckOps(DType real, const OpCheckOptions& options, Backend& backend,
              CheckRow* row);

// The same graph with operands that begin off every alignment but that of their elements:
// a leaf is a view into a longer one, some elements behind its start. Kernels that load
// several elements at once do so where addresses allow it, and no bit may show whether
// they did.
//
//   STOWAGE_ASSIGN_OR_RETURN(const OffAlignment off, PutOffAlignment(graph, leaves));
//   RunOnce(off.graph, off.leaves, backend);

struct OffAlignment {
  Graph graph;
  Tensors leaves;
  int moved = 0;  // leaves that are such views
};

/// `graph` with the same outputs, and the content of its leaves. All leaves on the device that no
/// node writes are moved.
Result<OffAlignment> PutOffAlignment(const Graph& graph, const Tensors& leaves);

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_GPU_OP_CHECK_H_
