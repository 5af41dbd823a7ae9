#ifndef STOWAGE_CLUSTER_LAUNCH_H_
#define STOWAGE_CLUSTER_LAUNCH_H_

// The rank of this process and the number of ranks, from the launcher's environment
// variables:
//
//   OpenMPI's mpirun  OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK, _LOCAL_SIZE
//   MPICH's Hydra     PMI_RANK, PMI_SIZE, MPI_LOCALRANKID, MPI_LOCALNRANKS
//   Slurm's srun      SLURM_PROCID, SLURM_STEP_NUM_TASKS, SLURM_LOCALID; by host
//                     SLURM_STEP_TASKS_PER_NODE, at index SLURM_NODEID or that of
//                     SLURMD_NODENAME in SLURM_STEP_NODELIST
//
//   Result<Launch> launch = ReadLaunch();
//   if (launch->ranks > 1) ...

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace stowage::cluster {

struct Launch {
  int rank = 0;
  int ranks = 1;
  int local_rank = 0;         // among those on this host
  int local_ranks = 1;        // on this host
  std::string launcher = {};  // for messages; empty: none
  bool by_openmpi = false;
};

/// The launch of this process; a single rank without a launcher. Error kInvalidArgument
/// naming a variable with an invalid number or list.
Result<Launch> ReadLaunch();

/// The number of threads of a rank: the host's cores divided among its ranks, at most the
/// cores that the launcher has bound it to, and at least one.
int ThreadsOfRank(const Launch& launch, int host_cores, int bound_cores);
int ThreadsOfRank(const Launch& launch);  // of this process

// Slurm's compressed lists:
//
//   SLURM_STEP_NODELIST        "gpu[01-03,07],login1"  gpu01, gpu02, gpu03, gpu07, login1
//   SLURM_STEP_TASKS_PER_NODE  "4(x3),2"               4, 4, 4, 2
//
//   Result<std::vector<std::string>> hosts = ParseHostList("node[1-2]-ib");

/// Larger than any cluster.
inline constexpr int kMaxHosts = 1 << 16;

/// The hosts, in order. Numbers in brackets keep leading zeros; several brackets in a name
/// stand for all combinations, the last varying fastest. Error kInvalidArgument, with the
/// list and the reason: an unclosed or nested bracket, an invalid or descending range, an
/// empty name, more than kMaxHosts.
Result<std::vector<std::string>> ParseHostList(std::string_view list);

/// A count for each host. Error kInvalidArgument as above.
Result<std::vector<int>> ParseTasksPerNode(std::string_view list);

}  // namespace stowage::cluster

#endif  // STOWAGE_CLUSTER_LAUNCH_H_
