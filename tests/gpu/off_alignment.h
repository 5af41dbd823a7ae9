#ifndef STOWAGE_TESTS_GPU_OFF_ALIGNMENT_H_
#define STOWAGE_TESTS_GPU_OFF_ALIGNMENT_H_

// The same graph with operands that begin off every alignment but that of their elements:
// a leaf is a view into a longer one, some elements behind its start. Kernels that load
// several elements at once do so where addresses allow it, and no bit may show whether
// they did.
//
//   STOWAGE_ASSIGN_OR_RETURN(const OffAlignment off, PutOffAlignment(graph, leaves));
//   RunOnce(off.graph, off.leaves, backend);

#include "base/result.h"
#include "ir/graph.h"
#include "tests/support/interpret.h"

namespace stowage::testing {

struct OffAlignment {
  Graph graph;
  Tensors leaves;
  int moved = 0;  // leaves that are such views
};

/// `graph` with the same outputs, and what its leaves hold. Moved are all leaves that lie
/// on the device and that no node writes.
Result<OffAlignment> PutOffAlignment(const Graph& graph, const Tensors& leaves);

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_GPU_OFF_ALIGNMENT_H_
