#ifndef STOWAGE_CLUSTER_SLURM_LISTS_H_
#define STOWAGE_CLUSTER_SLURM_LISTS_H_

// The short forms in which Slurm writes lists into the environment of a job:
//
//   SLURM_STEP_NODELIST        "gpu[01-03,07],login1"  gpu01, gpu02, gpu03, gpu07, login1
//   SLURM_STEP_TASKS_PER_NODE  "4(x3),2"               4, 4, 4, 2
//
//   Result<std::vector<std::string>> hosts = ParseHostList("node[1-2]-ib");

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace stowage::cluster {

/// More than the largest clusters have.
inline constexpr int kMostHosts = 1 << 16;

/// The hosts in their order. Numbers in brackets keep their leading zeros; several
/// brackets in a name stand for all combinations, the last changing first. Error
/// kInvalidArgument, with the list and what is wrong: a bracket that is not closed or
/// stands in another, a range that is none or falls, an empty name, more than kMostHosts.
Result<std::vector<std::string>> ParseHostList(std::string_view list);

/// A count for each host. Error kInvalidArgument, likewise.
Result<std::vector<int>> ParseTasksPerNode(std::string_view list);

}  // namespace stowage::cluster

#endif  // STOWAGE_CLUSTER_SLURM_LISTS_H_
