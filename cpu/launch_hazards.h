#ifndef STOWAGE_CPU_LAUNCH_HAZARDS_H_
#define STOWAGE_CPU_LAUNCH_HAZARDS_H_

// Which launches have to wait for exchanges that are under way (ir/exchanges.h).
//
// A launch must not run beside an exchange of which it reads or overwrites a result, or
// scratch, or overwrites an operand (runtime/launch_accesses.h). Exchanges land in the
// order in which they were begun, so for each launch a number says it all.
//
//   landed[i]  // so many of the exchanges before launch i must have landed before it runs

#include <cstddef>
#include <span>
#include <vector>

#include "ir/graph.h"
#include "runtime/kernel.h"

namespace stowage::cpu {

/// Per launch of `graph`. Before an exchange is begun, all but the latest
/// kExchangesUnderWay - 1 must have landed; before a node with an exchange in a body, all.
/// Linear in the launches, times the exchanges that are under way at each.
std::vector<size_t> ExchangesToLand(const Graph& graph,
                                    std::span<const Launch> launches);

}  // namespace stowage::cpu

#endif  // STOWAGE_CPU_LAUNCH_HAZARDS_H_
