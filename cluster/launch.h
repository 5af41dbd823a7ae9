#ifndef STOWAGE_CLUSTER_LAUNCH_H_
#define STOWAGE_CLUSTER_LAUNCH_H_

// What a launcher says of the process that it started, in variables of the environment:
//
//   OpenMPI's mpirun  OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK, _LOCAL_SIZE
//   MPICH's Hydra     PMI_RANK, PMI_SIZE, MPI_LOCALRANKID, MPI_LOCALNRANKS
//   Slurm's srun      SLURM_PROCID, SLURM_STEP_NUM_TASKS, SLURM_LOCALID; of all hosts
//                     SLURM_STEP_TASKS_PER_NODE, of which this is SLURM_NODEID or, by
//                     SLURMD_NODENAME, one of SLURM_STEP_NODELIST
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
  std::string launcher = {};  // for people; empty: none
  bool by_openmpi = false;
};

/// Of this process; a rank alone where there is no launcher. Error kInvalidArgument
/// naming a variable that holds no such number or list.
Result<Launch> ReadLaunch();

/// How many threads a rank should compute with: the cores of this host divided among
/// its ranks, but not more than the launcher has bound it to, and at least one.
int ThreadsOfRank(const Launch& launch, int host_cores, int bound_cores);
int ThreadsOfRank(const Launch& launch);  // of this process

// The short forms in which Slurm writes lists into the environment of a job:
//
//   SLURM_STEP_NODELIST        "gpu[01-03,07],login1"  gpu01, gpu02, gpu03, gpu07, login1
//   SLURM_STEP_TASKS_PER_NODE  "4(x3),2"               4, 4, 4, 2
//
//   Result<std::vector<std::string>> hosts = ParseHostList("node[1-2]-ib");

/// More than the largest clusters have.
inline constexpr int kMaxHosts = 1 << 16;

/// The hosts in their order. Numbers in brackets keep their leading zeros; several
/// brackets in a name stand for all combinations, the last changing first. Error
/// kInvalidArgument, with the list and what is wrong: a bracket that is not closed or
/// stands in another, a range that is none or falls, an empty name, more than kMaxHosts.
Result<std::vector<std::string>> ParseHostList(std::string_view list);

/// A count for each host. Error kInvalidArgument, likewise.
Result<std::vector<int>> ParseTasksPerNode(std::string_view list);

}  // namespace stowage::cluster

#endif  // STOWAGE_CLUSTER_LAUNCH_H_
