#ifndef STOWAGE_PLANNER_WIRE_BYTES_H_
#define STOWAGE_PLANNER_WIRE_BYTES_H_

// What one rank of a step sends to the others, as its collectives do it.
//
// A sum over ranks is split: each rank sends every other its block of the values, and
// adds up its own (reduce_scatter); to give the sum to all, each sends its block to every
// other (all_gather). A rank of N so sends (N - 1) / N of the bytes, once or twice. It
// receives as much.
//
//   WireBytes(step);  // of the rank with the largest blocks, the first

#include "base/bytes.h"
#include "ir/graph.h"

namespace stowage {

/// Bytes of elements that rank 0 sends in a run of `graph`. Linear in its nodes.
Bytes WireBytes(const Graph& graph);

}  // namespace stowage

#endif  // STOWAGE_PLANNER_WIRE_BYTES_H_
